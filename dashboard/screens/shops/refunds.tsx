/** Refunds that shops requested and that fit no payment: where the customer wants the money, and marking what was sent. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Card } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Badge, CopyButton, Time } from '../../ui/values.tsx';

type Refund = Reply<'GET /:mode/shop-refunds'>['data'][number];

/** Nothing if there are no such refunds. */
export function Refunds() {
  const mayMark = useMay('payments.resolve');
  const refunds = useApi('GET /:mode/shop-refunds', ['shop-refunds'], {});
  const [marking, setMarking] = useState<Refund | null>(null);
  const rows = refunds.data?.data ?? [];
  if (rows.length === 0) return null;
  return (
    <Card title="Refunds without a payment">
      <p className="mb-3 text-sm text-soft">
        No payment, or more than one, has the order number of these refunds. Check the order before you send money: Florin doesn’t limit
        them to what you received. All other refunds belong to a payment and are listed under Refunds.
      </p>
      <Table label="Refunds without a payment" columns={columnsOf(mayMark, setMarking)} rows={rows} />
      {marking && <MarkSent refund={marking} onClose={() => setMarking(null)} />}
    </Card>
  );
}

const columnsOf = (mayMark: boolean, onMark: (refund: Refund) => void): Column<Refund>[] => [
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
          Not entered yet <CopyButton value={refund.url} label="Copy the link for the customer" />
        </span>
      ) : (
        <span className="grid">
          <span className="text-xs text-soft">{refund.coin}</span>
          <code className="text-xs break-all">{refund.address}</code>
        </span>
      ),
  },
  { name: 'Requested', cell: (refund) => <Time at={refund.created_at} /> },
  {
    name: 'Status',
    cell: (refund) =>
      refund.sent_at !== null ? (
        <Badge tone="good" icon="check">
          Sent
        </Badge>
      ) : refund.address === null ? (
        <Badge tone="calm">Waiting for the customer</Badge>
      ) : mayMark ? (
        <Button onClick={() => onMark(refund)} aria-label={`Mark ${refund.name} as sent`}>
          Mark as sent
        </Button>
      ) : (
        <Badge tone="warn">To be sent</Badge>
      ),
  },
];

function MarkSent({ refund, onClose }: { refund: Refund; onClose: () => void }) {
  const [txid, setTxid] = useState('');
  const mark = useAct('POST /:mode/shop-refunds/:id/sent', { refreshes: [['shop-refunds']], done: 'Refund marked as sent.' });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    mark.mutate({ params: { id: refund.id }, body: { txid: txid.trim() === '' ? null : txid.trim() } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title={`Mark ${refund.name} as sent`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          Send {refund.amount} {refund.currency} in {refund.coin} to this address from your wallet first. Florin can’t spend your money.
        </p>
        <Code text={refund.address ?? ''} label="Copy the address" />
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
