/** How endpoints, deliveries and recoveries are shown by the API, the dashboard and the commands. */
import type { Delivery, DeliveryItem, Recovery } from '../webhooks/deliveries.ts';
import type { Endpoint } from '../webhooks/endpoints.ts';

export function at(instant: Date): string;
export function at(instant: Date | null): string | null;
export function at(instant: Date | null): string | null {
  return instant?.toISOString() ?? null;
}
/** An endpoint. */
export const endpointBody = (endpoint: Endpoint) => ({
  success: true,
  id: endpoint.id,
  url: endpoint.url,
  events: endpoint.events,
  description: endpoint.description,
  enabled: endpoint.enabled,
  disabled_reason: endpoint.disabledReason,
  failing_since: at(endpoint.failingSince),
  previous_secret_expires_at: at(endpoint.previousSecretUntil),
  mode: endpoint.mode,
  created_at: at(endpoint.createdAt),
});
/** With its signing secret, which is shown only in the reply that creates it. */
export const secretBody = (endpoint: Endpoint & { secret: string }) => ({ ...endpointBody(endpoint), secret: endpoint.secret });
export const itemBody = (item: DeliveryItem) => ({
  id: item.id,
  event_id: item.eventId,
  event_type: item.eventType,
  endpoint_id: item.endpointId,
  payment_id: item.paymentId,
  mode: item.mode,
  state: item.state,
  attempt_count: item.attemptCount,
  created_at: at(item.createdAt),
  delivered_at: at(item.deliveredAt),
  next_attempt_at: at(item.nextAttemptAt),
});
/** Replies of receivers are always shown as text. */
export const deliveryBody = (delivery: Delivery) => ({
  success: true,
  ...itemBody(delivery),
  request_body: delivery.body && Buffer.from(delivery.body).toString(),
  attempts: delivery.attempts.map((attempt) => ({
    number: attempt.number,
    at: at(attempt.at),
    duration_ms: attempt.durationMs,
    url: attempt.url,
    status: attempt.status,
    failure: attempt.failure,
    request_headers: attempt.requestHeaders,
    response_body: attempt.reply && Buffer.from(attempt.reply).toString(),
  })),
});
export const recoveryBody = (recovery: Recovery) => ({
  success: true,
  id: recovery.id,
  endpoint_id: recovery.endpointId,
  status: recovery.status,
  since: at(recovery.since),
  created_at: at(recovery.createdAt),
  total: recovery.total,
  queued: recovery.queued,
  delivered: recovery.delivered,
  failed: recovery.failed,
});
