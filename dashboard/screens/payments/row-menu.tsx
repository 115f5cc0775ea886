/** What can be done with a payment of the list without opening it. */
import { useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { sumText } from '../../lib/amount.ts';
import type { Reply } from '../../lib/api.ts';
import { useMay, useMode } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Menu } from '../../ui/menu.tsx';
import { arrivedIn } from '../../ui/received.tsx';

const RowRefund = lazy(() => import('../refunds/row.tsx').then((module) => ({ default: module.RowRefund })));
const CancelPayment = lazy(() => import('../payment/cancel.tsx').then((module) => ({ default: module.CancelPayment })));

const copy = (text: string, done: string) => void navigator.clipboard.writeText(text).then(() => say(done));

export function RowMenu({ row }: { row: Reply<'GET /:mode/payments'>['data'][number] }) {
  const mode = useMode();
  const navigate = useNavigate();
  const mayRefund = useMay('refunds.request');
  const mayCancel = useMay('payments.cancel');
  const [asked, setAsked] = useState<'refund' | 'cancel' | null>(null);
  const close = () => setAsked(null);
  const arrived = arrivedIn(row);
  return (
    <>
      <Menu
        className="-my-1.5 block"
        label={`Actions for payment ${row.id}`}
        entries={[
          { label: 'View payment', onSelect: () => void navigate({ to: `/${mode}/payments/${row.id}` }) },
          { label: 'Copy payment link', onSelect: () => copy(row.payment_url, 'Payment link copied.') },
          { label: 'Copy payment ID', onSelect: () => copy(row.id, 'Payment ID copied.') },
          ...(mayRefund && arrived.length > 0 ? [{ label: 'Refund', onSelect: () => setAsked('refund') }] : []),
          ...(mayCancel && row.status === 'pending' ? [{ label: 'Cancel payment', danger: true, onSelect: () => setAsked('cancel') }] : []),
        ]}
      />
      {asked !== null && (
        <Suspense>
          {asked === 'refund' ? (
            <RowRefund id={row.id} onClose={close} />
          ) : (
            <CancelPayment id={row.id} received={sumText(arrived)} onClose={close} />
          )}
        </Suspense>
      )}
    </>
  );
}
