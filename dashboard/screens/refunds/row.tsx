/** A refund that is requested from a row of the list of payments. */
import { useState } from 'react';
import { isSome } from '../../lib/amount.ts';
import { useApi } from '../../lib/hooks.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Pending } from '../../ui/states.tsx';
import { RefundDrawer } from './refund.tsx';
import { type Refundable, RequestRefund } from './request.tsx';

export function RowRefund({ id, onClose }: { id: string; onClose: () => void }) {
  const payment = useApi('GET /:mode/payments/:id', ['payment', id], { params: { id } });
  const refundable = useApi('GET /:mode/payments/:id/refundable', ['refundable', id], { params: { id } });
  const [made, setMade] = useState<string | null>(null);
  // What was offered stays: once all of it is requested, nothing is left, and the form must still say that it succeeded.
  const [offered, setOffered] = useState<readonly Refundable[] | null>(null);
  const { data } = refundable;
  if (offered === null && data && !refundable.isFetching) setOffered(data.available.filter(({ amount }) => isSome(amount)));
  if (made !== null) return <RefundDrawer id={made} onClose={onClose} />;
  if (!payment.data || !data || offered === null || offered.length === 0)
    return (
      <Dialog open onClose={onClose} title="Refund">
        {payment.data && offered ? (
          <p className="text-soft">Nothing can be refunded now: the money is not confirmed yet, or was already refunded.</p>
        ) : (
          <Pending of={payment.error ? payment : refundable} lines={3} />
        )}
      </Dialog>
    );
  return (
    <RequestRefund
      paymentId={id}
      available={offered}
      left={payment.data.refund_request}
      email={data.mails ? { left: data.left_email } : null}
      onSent={null}
      onClose={onClose}
      onDone={setMade}
    />
  );
}
