/** One customer: who they are, their payments with receipts, their refunds. */
import { useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { useApi, useList, useTitle } from '../../lib/hooks.ts';
import { About } from '../../ui/about.tsx';
import { customerName } from '../../ui/customer.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { ListCard } from '../../ui/list.tsx';
import { PaymentPrice } from '../../ui/price.tsx';
import { hasReceived, Received } from '../../ui/received.tsx';
import { Card, Facts } from '../../ui/states.tsx';
import type { Column } from '../../ui/table.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { CopyButton, Money, PaymentState, TestLabel, Time } from '../../ui/values.tsx';
import { RefundDrawer } from '../refunds/refund.tsx';
import { leadingColumns } from '../refunds/state.tsx';

const LIST = ['customers', 'Customers'] as const;

const usePayments = (customer: string) => useList('GET /:mode/payments', ['payments', 'of', customer], { customer });
const useRefunds = (customer: string) => useList('GET /:mode/refunds', ['refunds', 'of', customer], { customer });
type Payment = ReturnType<typeof usePayments>['rows'][number];
type Refund = ReturnType<typeof useRefunds>['rows'][number];

const PAYMENT_COLUMNS: Column<Payment>[] = [
  { name: 'Amount', phone: 'title', cell: (row) => <PaymentPrice of={row} /> },
  { name: 'Status', phone: 'left', cell: (row) => <PaymentState status={row.status} exception={row.exceptions[0] ?? null} /> },
  { name: 'Received', cell: (row) => <Received row={row} />, right: true, phone: 'right', empty: (row) => !hasReceived(row) },
  {
    name: 'For',
    cell: (row) => <span className="line-clamp-1 break-all">{row.invoice_id ?? row.description ?? '–'}</span>,
    empty: (row) => row.invoice_id === null && row.description === null,
  },
  {
    name: 'Receipt',
    cell: (row) =>
      hasReceipt(row) ? (
        <a href={row.payment_url.replace('/pay?', '/pay/receipt.pdf?')} download>
          PDF
        </a>
      ) : (
        <span>–</span>
      ),
    empty: (row) => !hasReceipt(row),
  },
  { name: 'Created', right: true, phone: 'corner', cell: (row) => <Time at={row.created_at} happened /> },
];
const hasReceipt = ({ status, exceptions }: Payment): boolean => status === 'completed' && !exceptions.includes('reorged');

const refundColumns = (open: (id: string) => void): Column<Refund>[] => [
  ...leadingColumns(open),
  {
    name: 'Payment',
    cell: (refund) => (
      <ModeLink to={`payments/${refund.payment_id}`} className="text-xs break-all hover:underline">
        <code>{refund.payment_id}</code>
      </ModeLink>
    ),
  },
  { name: 'Requested', right: true, cell: (refund) => <Time at={refund.created_at} happened /> },
];

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('Customer');
  const query = useApi('GET /:mode/customers/:id', ['payments', 'customer', id], { params: { id } });
  if (!query.data) return <PendingPage of={query} title="Customer" back={LIST} />;
  const { customer } = query.data;
  return (
    <div className="grid gap-6">
      <Back to={LIST} />
      <div className="grid gap-2">
        <h1 className="break-words">{customerName(customer)}</h1>
        <p>
          <TestLabel />
        </p>
        <p className="flex items-center gap-1 text-sm break-all text-soft">
          <code>{customer.id}</code>
          <CopyButton value={customer.id} label="Copy customer ID" />
        </p>
      </div>
      <Card title="Details">
        <Facts
          rows={[
            ['Name', customer.name ?? '–'],
            ['Email', customer.email === null ? '–' : <Copied key="email" text={customer.email} label="Copy email address" />],
            ['Reference', customer.reference === null ? '–' : <Copied key="ref" text={customer.reference} label="Copy reference" />],
            [
              'Paid in total',
              <span key="paid" className="inline-flex flex-wrap gap-x-1.5">
                <Money amount={customer.paid_usd} />
                <About usd={customer.paid_usd} />
              </span>,
            ],
            ['Created', <Time key="t" at={customer.created_at} happened />],
          ]}
        />
      </Card>
      <Payments id={id} />
      <Refunds id={id} />
    </div>
  );
}

const Copied = ({ text, label }: { text: string; label: string }) => (
  <span className="inline-flex items-center gap-1 break-all">
    {text}
    <CopyButton value={text} label={label} />
  </span>
);

function Payments({ id }: { id: string }) {
  const list = usePayments(id);
  return (
    <section className="grid gap-2">
      <h2>Payments</h2>
      <ListCard
        label="Payments"
        list={list}
        columns={PAYMENT_COLUMNS}
        none={{ title: 'No payments', words: 'Payments that name this customer are listed here.' }}
        unmatched={null}
      />
    </section>
  );
}

function Refunds({ id }: { id: string }) {
  const list = useRefunds(id);
  const [shown, setShown] = useState<string | null>(null);
  return (
    <section className="grid gap-2">
      <h2>Refunds</h2>
      <ListCard
        label="Refunds"
        list={list}
        columns={refundColumns(setShown)}
        none={{ title: 'No refunds', words: 'Refunds of the payments of this customer are listed here.' }}
        unmatched={null}
      />
      {shown !== null && <RefundDrawer id={shown} onClose={() => setShown(null)} />}
    </section>
  );
}
