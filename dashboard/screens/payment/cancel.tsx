/** Asks before a payment is canceled, and cancels it. */
import { PAYMENT_READS, useAct } from '../../lib/hooks.ts';
import { Ask } from '../../ui/dialog.tsx';

/** `received`: all the money that it is about. */
export function CancelPayment({ id, received, onClose }: { id: string; received: string; onClose: () => void }) {
  const cancel = useAct('POST /:mode/payments/:id/cancel', { refreshes: PAYMENT_READS, done: 'Payment canceled.' });
  return (
    <Ask
      open
      onClose={onClose}
      title="Cancel this payment?"
      text={`${received === '' ? '' : `Received so far: ${received}. `}The customer can no longer pay. Money that arrives after this is put on hold until you accept or reject it.`}
      act="Cancel payment"
      back="Close"
      danger
      busy={cancel.isPending}
      onAct={() => cancel.mutate({ params: { id }, body: {} }, { onSettled: onClose })}
    />
  );
}
