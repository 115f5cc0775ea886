/** Refunds that shops requested and that fit no payment: where the customer wants the money, and marking what was sent. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useList, useMay } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Ask, Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Card } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Badge, CopyButton, Time } from '../../ui/values.tsx';

type Refund = Reply<'GET /:mode/shop-refunds'>['data'][number];
const READS = [['shop-refunds']] as const;

/** Nothing if there are no such refunds. */
export function Refunds() {
  const refunds = useList('GET /:mode/shop-refunds', ['shop-refunds'], {});
  const { rows } = refunds;
  if (rows.length === 0) return null;
  return (
    <Card title="Refunds without a payment">
      <p className="mb-3 text-sm text-soft">
        No payment has the order number of these refunds. Check the order before you approve one: Florin doesn’t limit it to what you
        received, but your approval limit applies. All other refunds belong to a payment and are listed under Refunds.
      </p>
      <Table label="Refunds without a payment" columns={COLUMNS} rows={rows} />
      {refunds.hasNextPage && (
        <Button busy={refunds.isFetchingNextPage} onClick={() => void refunds.fetchNextPage()}>
          Show more
        </Button>
      )}
    </Card>
  );
}

const COLUMNS: Column<Refund>[] = [
  {
    name: 'Refund',
    phone: 'title',
    cell: (refund) => <span className="font-medium break-words">{refund.name}</span>,
  },
  {
    name: 'Amount',
    phone: 'corner',
    cell: (refund) => (
      <span className="whitespace-nowrap">
        {refund.amount} {refund.currency}
      </span>
    ),
  },
  {
    name: 'Address of the customer',
    cell: (refund) =>
      refund.address === null ? (
        <span className="flex items-center gap-1 text-soft">
          Not entered yet {refund.url !== null && <CopyButton value={refund.url} label="Copy the link for the customer" />}
        </span>
      ) : (
        <span className="grid">
          <span className="text-xs text-soft">{refund.coin}</span>
          <code className="text-xs break-all">{refund.address}</code>
        </span>
      ),
  },
  { name: 'Requested', cell: (refund) => <Time at={refund.created_at} /> },
  { name: 'Status', cell: (refund) => <Status refund={refund} /> },
];

/** What the refund waits for, and what the member can do about it. */
function Status({ refund }: { refund: Refund }) {
  const mayRenew = useMay('refunds.request');
  const mayApprove = useMay('refunds.approve');
  const mayMark = useMay('payments.resolve');
  const renew = useAct('POST /:mode/shop-refunds/:id/renew', {
    refreshes: READS,
    done: 'The refund has a new link. Copy it and send it to the customer.',
  });
  const [marking, setMarking] = useState(false);
  if (refund.sent_at !== null)
    return (
      <Badge tone="good" icon="check">
        Sent
      </Badge>
    );
  if (refund.claimed_at === null) {
    if (refund.link_ended)
      return (
        <span className="text-xs text-soft">
          Its link was replaced, because a member who could have copied it left or got another role. Send the customer the new one.
        </span>
      );
    if (new Date(refund.expires_at) > new Date()) return <Badge tone="calm">Waiting for the customer</Badge>;
    if (!mayRenew) return <Badge tone="warn">Link expired</Badge>;
    return (
      <Button busy={renew.isPending} onClick={() => renew.mutate({ params: { id: refund.id }, body: {} })}>
        New link
      </Button>
    );
  }
  if (refund.approved_at === null) return mayApprove ? <Approve refund={refund} /> : <Badge tone="warn">Needs approval</Badge>;
  if (!mayMark) return <Badge tone="warn">To be sent</Badge>;
  return (
    <>
      <Button onClick={() => setMarking(true)} aria-label={`Mark ${refund.name} as sent`}>
        Mark as sent
      </Button>
      {marking && <MarkSent refund={refund} onClose={() => setMarking(false)} />}
    </>
  );
}

function Approve({ refund }: { refund: Refund }) {
  const [asked, setAsked] = useState(false);
  const approve = useAct('POST /:mode/shop-refunds/:id/approve', { refreshes: READS });
  const act = () => {
    setAsked(false);
    approve.mutate(
      { params: { id: refund.id }, body: {} },
      { onSuccess: ({ approved }) => say(approved ? 'Refund approved.' : 'Approved. A second member has to approve it too.') },
    );
  };
  return (
    <span className="grid gap-1">
      <Button busy={approve.isPending} onClick={() => setAsked(true)} aria-label={`Approve ${refund.name}`}>
        Approve
      </Button>
      {refund.approved_by !== null && <span className="text-xs text-soft">First approved by {refund.approved_by}</span>}
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Approve this refund?"
        text={
          <>
            You then send {refund.amount} {refund.currency} in {refund.coin} to <code className="break-all">{refund.address}</code> from
            your own wallet. Check the order in your shop first.
          </>
        }
        act="Approve"
        onAct={act}
      />
    </span>
  );
}

function MarkSent({ refund, onClose }: { refund: Refund; onClose: () => void }) {
  const [txid, setTxid] = useState('');
  const [amount, setAmount] = useState('');
  const mark = useAct('POST /:mode/shop-refunds/:id/sent', { refreshes: READS, done: 'Refund marked as sent.' });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    mark.mutate(
      { params: { id: refund.id }, body: { amount: amount.trim(), txid: txid.trim() === '' ? null : txid.trim() } },
      { onSuccess: onClose },
    );
  };
  return (
    <Dialog open onClose={onClose} title={`Mark ${refund.name} as sent`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          Send {refund.amount} {refund.currency} in {refund.coin} to this address from your wallet first. Florin can’t spend your money.
        </p>
        <Code text={refund.address ?? ''} label="Copy the address" />
        <Field
          label={`Amount that you sent, in ${refund.coin}`}
          autoComplete="off"
          inputMode="decimal"
          required
          maxLength={40}
          value={amount}
          onChange={(event) => setAmount(event.target.value)}
        />
        <Field
          label="Transaction ID (optional)"
          autoComplete="off"
          maxLength={100}
          value={txid}
          onChange={(event) => setTxid(event.target.value)}
        />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={mark.isPending}>
            Mark as sent
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
