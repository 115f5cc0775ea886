/** What refunds and payouts show and offer alike: what they pay, by whom and when, and what a member can do with one. */
import { type ReactNode, useState } from 'react';
import { COIN_KINDS } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { coinOf } from '../../lib/coin.ts';
import { useAct, useMay, useMode } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Tick } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Money, Time } from '../../ui/values.tsx';
import { MarkSent, TransactionLink } from './sent.tsx';

type Refund = Reply<'GET /:mode/refunds/:id'>['refund'];
type Payout = Reply<'GET /:mode/payouts/:id'>['payout'];
export type Outgoing = Refund | Payout;
type Facts = [string, React.ReactNode][];

/** `about`: the rows that only refunds, or only payouts, have. */
export const factsOf = (one: Outgoing, about: Facts): Facts => [
  [
    'Amount',
    <span key="amount" className="flex flex-wrap justify-end gap-x-1.5">
      <Money amount={one.amount} currency={coinOf(one)} /> <Money amount={one.amount_usd} className="text-soft" />
    </span>,
  ],
  ...about,
  ['Requested', <Time key="at" at={one.created_at} happened />],
  ['Requested by', one.requested_by],
  ['Approved', <Time key="approved" at={one.approved_at} happened />],
  ['Approved by', one.approved_by ?? '–'],
  ['Sent', <Time key="sent" at={one.sent_at} happened />],
  ['Transaction', <TransactionLink key="txid" id={one.transaction_hash} url={one.explorer_url} />],
  ['ID', <code key="id">{one.id}</code>],
];

const KINDS = {
  refund: {
    title: 'Refund',
    approve: 'POST /:mode/refunds/:id/approve',
    cancel: 'POST /:mode/refunds/:id/cancel',
    permission: 'refunds.approve',
    told: 'your customer',
    askApprove: 'Approve this refund?',
    cancelIt: 'Cancel refund',
    askCancel: 'Cancel this refund?',
    dropped: (sum: ReactNode) => <>The customer does not get {sum}. You can request another refund later.</>,
    twice:
      'Delete every signed copy of its files first: anyone who has one can still send it, and another refund would then pay the same money again.',
  },
  payout: {
    title: 'Payout',
    approve: 'POST /:mode/payouts/:id/approve',
    cancel: 'POST /:mode/payouts/:id/cancel',
    permission: 'payouts.approve',
    told: 'the recipient',
    askApprove: 'Approve this payout?',
    cancelIt: 'Cancel payout',
    askCancel: 'Cancel this payout?',
    dropped: (sum: ReactNode) => <>The recipient does not get {sum}. You can request another payout later.</>,
    twice:
      'Delete every signed copy of its files first: anyone who has one can still send it, and another payout would then pay the same money again.',
  },
} as const;

const PAID_INVOICE = 'If you paid the invoice, enter its preimage instead: a canceled refund refuses it.';

/** In test mode: whether an approved refund or payout waits for a signing file, or is confirmed at once. */
export const Rehearse = ({ checked, onChange }: { checked: boolean; onChange: (checked: boolean) => void }) => (
  <div className="mt-3">
    <Tick
      label="Rehearse signing"
      hint="It waits for a signing file, as in live mode. Otherwise it is confirmed at once."
      checked={checked}
      onChange={(event) => onChange(event.target.checked)}
    />
  </div>
);

/** `refreshes`: what an act changes. */
export function Acts({ of, one, refreshes }: { of: keyof typeof KINDS; one: Outgoing; refreshes: readonly (readonly unknown[])[] }) {
  const { id, status: state, file, amount, address, failure } = one;
  const kind = KINDS[of];
  const may = useMay(kind.permission);
  const mode = useMode();
  const [asked, setAsked] = useState<'approve' | 'cancel' | 'sent' | null>(null);
  const [signs, setSigns] = useState(false);
  const approve = useAct(kind.approve, { refreshes });
  const cancel = useAct(kind.cancel, { refreshes, done: `${kind.title} canceled.` });
  const isOpen = state === 'requested' || state === 'approved' || state === 'failed';
  // The transaction that a member entered does not pay it.
  const isWrong = state === 'sent' && failure !== null;
  if (file !== null && state === 'signed' && failure !== null)
    return (
      <p className="text-sm text-soft">
        Its signing file is under <ModeLink to="sweeps">Sweeps</ModeLink>, where you can raise the fee.
      </p>
    );
  if (file !== null && state === 'approved')
    return (
      <p className="text-sm text-soft">
        It is part of a signing file. Sign, send or cancel the file under <ModeLink to="sweeps">Sweeps</ModeLink>.
      </p>
    );
  if (!may || !(isOpen || isWrong)) return null;
  const close = () => setAsked(null);
  const done = (reply: { refund: Refund } | { payout: Payout }) => {
    const { status: now } = 'refund' in reply ? reply.refund : reply.payout;
    say(now === 'requested' ? 'Approved. A second member has to approve it too.' : `${kind.title} approved.`);
  };
  const options = { params: { id }, body: {} };
  const paysInvoice = 'invoice_expires_at' in one && one.invoice_expires_at !== null;
  const rehearses = mode === 'test' && (COIN_KINDS as Readonly<Record<string, string>>)[coinOf(one)] !== 'lightning';
  const sum = <Money amount={amount} currency={coinOf(one)} />;
  return (
    <div className="flex flex-wrap gap-2">
      {state === 'requested' && address !== null && (
        <Button look="main" busy={approve.isPending} onClick={() => setAsked('approve')}>
          Approve
        </Button>
      )}
      {state !== 'requested' && !paysInvoice && (
        <Button look="main" onClick={() => setAsked('sent')}>
          {isWrong ? 'Correct the transaction' : 'Mark as sent'}
        </Button>
      )}
      {isOpen && (
        <Button look="danger" busy={cancel.isPending} onClick={() => setAsked('cancel')}>
          {kind.cancelIt}
        </Button>
      )}
      <Ask
        open={asked === 'approve'}
        onClose={close}
        title={kind.askApprove}
        text={
          paysInvoice ? (
            <>
              You pay <Money amount={amount} currency="BTC" /> to the Lightning invoice of the customer, with your own wallet.
            </>
          ) : (
            <>
              {sum} will be sent to <code className="break-all">{address}</code>. Compare the address with what {kind.told} told you.
              {rehearses && <Rehearse checked={signs} onChange={setSigns} />}
            </>
          )
        }
        act="Approve"
        onAct={() => {
          close();
          approve.mutate({ params: { id }, body: rehearses && signs ? { sign: true } : {} }, { onSuccess: done });
        }}
      />
      <Ask
        open={asked === 'cancel'}
        onClose={close}
        title={kind.askCancel}
        text={
          state === 'requested' ? (
            kind.dropped(sum)
          ) : (
            <>
              Cancel it only if {sum} was not sent. {paysInvoice ? PAID_INVOICE : kind.twice}
            </>
          )
        }
        act={kind.cancelIt}
        back="Close"
        danger
        onAct={() => {
          close();
          cancel.mutate(options);
        }}
      />
      {asked === 'sent' && <MarkSent of={of} paid={{ ...one, currency: coinOf(one) }} refreshes={refreshes} onClose={close} />}
    </div>
  );
}
