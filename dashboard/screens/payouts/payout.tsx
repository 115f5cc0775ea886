/** One payout: what it sends and where to, and what a member can do with it. */
import { useState } from 'react';
import { useAct, useApi, useMay } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Ask, Drawer } from '../../ui/dialog.tsx';
import { Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Facts, Pending } from '../../ui/states.tsx';
import { Money, TestLabel, Time } from '../../ui/values.tsx';
import { MarkSent, TransactionLink, WaitingFile } from '../refunds/sent.tsx';
import { PAYOUT_READS, type Payout, PayoutState } from './state.tsx';

/** The chain confirms it without the dashboard. */
const EVERY_MS = 15_000;

export function PayoutDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useApi('GET /:mode/payouts/:id', ['payouts', id], { params: { id } }, { everyMs: EVERY_MS });
  const payout = query.data?.payout;
  return (
    <Drawer open onClose={onClose} title="Payout">
      {!payout ? (
        <Pending of={query} />
      ) : (
        <>
          <div className="flex flex-wrap gap-2">
            <PayoutState payout={payout} />
            <TestLabel />
          </div>
          {payout.failure !== null && <Note tone="bad">{payout.failure}</Note>}
          <div className="rounded-xl border border-line">
            <Facts rows={rowsOf(payout)} />
          </div>
          {payout.address !== null && (
            <div className="grid gap-2">
              <h3 className="font-medium">Address of the recipient</h3>
              <Code text={payout.address} label="Copy the address" />
            </div>
          )}
          <Acts payout={payout} />
        </>
      )}
    </Drawer>
  );
}

const rowsOf = (payout: Payout): [string, React.ReactNode][] => [
  [
    'Amount',
    <span key="amount" className="flex flex-wrap justify-end gap-x-1.5">
      <Money amount={payout.amount} currency={payout.currency} /> <Money amount={payout.amount_usd} className="text-soft" />
    </span>,
  ],
  [
    'Reference',
    <span key="reference" className="break-all">
      {payout.reference ?? '–'}
    </span>,
  ],
  ['Description', payout.description ?? '–'],
  ['Requested', <Time key="at" at={payout.created_at} />],
  ['Requested by', payout.requested_by],
  ['Approved', <Time key="approved" at={payout.approved_at} />],
  ['Approved by', payout.approved_by ?? '–'],
  ['Sent', <Time key="sent" at={payout.sent_at} />],
  ['Transaction', <TransactionLink key="txid" of={payout.transaction} />],
  ['ID', <code key="id">{payout.id}</code>],
];

function Acts({ payout }: { payout: Payout }) {
  const { id, state, file, amount, currency, address } = payout;
  const may = useMay('payouts.approve');
  const [asked, setAsked] = useState<'approve' | 'cancel' | 'sent' | null>(null);
  const approve = useAct('POST /:mode/payouts/:id/approve', { refreshes: PAYOUT_READS });
  const cancel = useAct('POST /:mode/payouts/:id/cancel', { refreshes: PAYOUT_READS, done: 'Payout canceled.' });
  const isOpen = state === 'requested' || state === 'approved' || state === 'failed';
  // The transaction that a member entered does not pay it.
  const isWrong = state === 'sent' && payout.failure !== null;
  if (file !== null && state === 'signed' && payout.failure !== null) return <WaitingFile />;
  if (file !== null && state === 'approved')
    return (
      <p className="text-sm text-soft">
        It is part of a signing file. Sign the file and upload it, or cancel it under <ModeLink to="sweeps">Sweeps</ModeLink>.
      </p>
    );
  if (!may || !(isOpen || isWrong)) return null;
  const close = () => setAsked(null);
  const done = ({ payout: { state: now } }: { payout: Payout }) =>
    say(now === 'requested' ? 'Approved. A second member has to approve it too.' : 'Payout approved.');
  const options = { params: { id }, body: {} };
  const sum = <Money amount={amount} currency={currency} />;
  return (
    <div className="flex flex-wrap gap-2">
      {state === 'requested' ? (
        <Button look="main" busy={approve.isPending} onClick={() => setAsked('approve')}>
          Approve
        </Button>
      ) : (
        <Button look="main" onClick={() => setAsked('sent')}>
          {isWrong ? 'Correct the transaction' : 'Mark as sent'}
        </Button>
      )}
      {isOpen && (
        <Button look="danger" busy={cancel.isPending} onClick={() => setAsked('cancel')}>
          Cancel payout
        </Button>
      )}
      <Ask
        open={asked === 'approve'}
        onClose={close}
        title="Approve this payout?"
        text={
          <>
            {sum} will be sent to <code className="break-all">{address}</code>. Compare the address with what the recipient told you.
          </>
        }
        act="Approve"
        onAct={() => {
          close();
          approve.mutate(options, { onSuccess: done });
        }}
      />
      <Ask
        open={asked === 'cancel'}
        onClose={close}
        title="Cancel this payout?"
        text={
          state === 'requested' ? (
            <>The recipient does not get {sum}. You can request another payout later.</>
          ) : (
            <>
              Cancel it only if {sum} was not sent. Delete every signed copy of its files first: anyone who has one can still send it, and
              another payout would then pay the same money again.
            </>
          )
        }
        act="Cancel payout"
        danger
        onAct={() => {
          close();
          cancel.mutate(options);
        }}
      />
      {asked === 'sent' && <MarkSent of="payout" paid={payout} refreshes={PAYOUT_READS} onClose={close} />}
    </div>
  );
}
