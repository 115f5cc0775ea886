/** The one way to give money of a payment back: a refund to sign with Florin, or one that was sent without it. */
import { useState } from 'react';
import { isSome } from '../../lib/amount.ts';
import type { Reply } from '../../lib/api.ts';
import { useApi, useMay } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { RefundDrawer } from './refund.tsx';
import { RequestRefund } from './request.tsx';

/** `onSent` is called by a member who sent the money from another wallet; null where that cannot be recorded. */
export function RefundAct({
  data: { payment, refund_request: left },
  onSent,
}: {
  data: Reply<'GET /:mode/payments/:id'>;
  onSent: (() => void) | null;
}) {
  const may = useMay('refunds.request');
  const { data } = useApi('GET /:mode/payments/:id/refundable', ['refundable', payment.id], { params: { id: payment.id } });
  const [requesting, setRequesting] = useState(false);
  const [made, setMade] = useState<string | null>(null);
  const some = may ? (data?.available ?? []).filter(({ amount }) => isSome(amount)) : [];
  // Before its money is final, a refund can only be one that was sent without Florin.
  const act = some.length > 0 ? () => setRequesting(true) : onSent;
  return (
    <>
      {data && act && <Button onClick={act}>Refund</Button>}
      {requesting && some.length > 0 && (
        <RequestRefund
          paymentId={payment.id}
          available={some}
          left={left}
          email={data?.mails ? { left: data.left_email } : null}
          onSent={onSent}
          onClose={() => setRequesting(false)}
          onDone={(id) => {
            setRequesting(false);
            setMade(id);
          }}
        />
      )}
      {made !== null && <RefundDrawer id={made} onClose={() => setMade(null)} />}
    </>
  );
}
