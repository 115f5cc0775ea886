/** The webhooks sent for a payment, and resending them. */
import { useAct, useApi, useMay, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card, Pending } from '../../ui/states.tsx';
import { TestLabel } from '../../ui/values.tsx';
import { DeliveryLink, DeliveryState, hostOf, outcomeWords } from '../webhooks/words.tsx';

export function PaymentEvents({ paymentId }: { paymentId: string }) {
  const mode = useMode();
  const mayRead = useMay('webhooks.read');
  return mayRead ? <Sent key={`${mode} ${paymentId}`} paymentId={paymentId} /> : null;
}

function Sent({ paymentId }: { paymentId: string }) {
  const maySend = useMay('webhooks.send');
  const endpoints = useApi('GET /:mode/webhooks', ['webhooks', 'list'], {});
  const query = useApi('GET /:mode/deliveries', ['deliveries', 'payment', paymentId], {
    query: { payment_id: paymentId, limit: '100' },
  });
  const { data } = query;
  const resend = useAct('POST /:mode/payments/:id/resend', { refreshes: [['deliveries']], done: 'Resending events in order.' });
  const hosts = new Map(endpoints.data?.data.map(({ id, url }) => [id, hostOf(url)]));
  const rows = data?.data ?? [];
  return (
    <Card
      title="Webhooks"
      action={
        maySend &&
        rows.some((row) => hosts.has(row.endpoint_id)) && (
          <Button busy={resend.isPending} onClick={() => resend.mutate({ params: { id: paymentId }, body: {} })}>
            Resend events
          </Button>
        )
      }
    >
      {!data ? (
        <Pending of={query} lines={3} />
      ) : rows.length === 0 ? (
        <p className="p-4 text-sm text-soft">No webhooks sent.</p>
      ) : (
        <ul>
          {rows.map((row) => (
            <li
              key={row.id}
              className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2.5 text-sm last:border-b-0"
            >
              <span className="grid min-w-0">
                <DeliveryLink endpointId={hosts.has(row.endpoint_id) ? row.endpoint_id : null} paymentId={paymentId} id={row.id}>
                  {row.event_type}
                </DeliveryLink>
                <span className="break-all text-soft">{hosts.get(row.endpoint_id) ?? 'Deleted endpoint'}</span>
              </span>
              <span className="flex flex-wrap items-center gap-2">
                {row.state !== 'delivered' && row.last_attempt?.failure && (
                  <span className="text-soft">{row.last_attempt.message ?? outcomeWords(row.last_attempt.failure)}</span>
                )}
                <TestLabel />
                <DeliveryState state={row.state} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
