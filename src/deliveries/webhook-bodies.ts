/** How endpoints, deliveries and recoveries are shown by the API, the dashboard and the commands. */
import type { ReachResult } from '#connections';
import { isoTime } from '#core/dates';
import { FULL_SIGHT, type Sight, shownHeaders, shownUrl } from '#core/transfer';
import { explainUnreached } from '#core/unreached';
import type { Endpoint } from '#webhooks';
import type { Delivery, DeliveryItem, Recovery } from './deliveries.ts';

/** An endpoint, as far as the reader may see it. */
export const endpointBody = (endpoint: Endpoint, sight: Sight) => ({
  success: true,
  id: endpoint.id,
  url: shownUrl(endpoint.url, sight),
  events: endpoint.events,
  description: endpoint.description,
  enabled: endpoint.enabled,
  disabled_reason: endpoint.disabledReason,
  failing_since: isoTime(endpoint.failingSince),
  previous_secret_expires_at: isoTime(endpoint.previousSecretUntil),
  mode: endpoint.mode,
  created_at: isoTime(endpoint.createdAt),
});
/** With its signing secret, which is shown only in the reply that creates it. */
export const secretBody = (endpoint: Endpoint & { secret: string }) => ({ ...endpointBody(endpoint, FULL_SIGHT), secret: endpoint.secret });
/** A reason with its words. */
export const whyBody = (reason: string | null) => {
  const why = explainUnreached(reason);
  return { reason, message: why?.words ?? null, advice: why?.advice ?? null };
};
/** What a connection to the URL met when it was saved; null when it was not tried. */
export const connectionBody = (reached: ReachResult | null) =>
  reached && { reached: reached.reason === null, address: reached.address, ...whyBody(reached.reason) };
export const itemBody = (item: DeliveryItem) => ({
  id: item.id,
  event_id: item.eventId,
  event_type: item.eventType,
  endpoint_id: item.endpointId,
  payment_id: item.paymentId,
  mode: item.mode,
  state: item.state,
  attempt_count: item.attemptCount,
  created_at: isoTime(item.createdAt),
  delivered_at: isoTime(item.deliveredAt),
  next_attempt_at: isoTime(item.nextAttemptAt),
});
/**
 * A delivery, as far as the reader may see it. Replies of receivers are always shown as text; they may repeat the request with its signature,
 * or contain secrets of the receiver.
 */
export const deliveryBody = (delivery: Delivery, sight: Sight) => ({
  success: true,
  ...itemBody(delivery),
  request_body: delivery.body && Buffer.from(delivery.body).toString(),
  attempts: delivery.attempts.map((attempt) => ({
    number: attempt.number,
    at: isoTime(attempt.at),
    duration_ms: attempt.durationMs,
    url: attempt.url && shownUrl(attempt.url, sight),
    status: attempt.status,
    failure: attempt.failure,
    ...whyBody(attempt.reason),
    address: attempt.address,
    request_headers: shownHeaders(attempt.requestHeaders, sight),
    response_body: attempt.reply && sight.secrets ? Buffer.from(attempt.reply).toString() : null,
  })),
});
export const recoveryBody = (recovery: Recovery) => ({
  success: true,
  id: recovery.id,
  endpoint_id: recovery.endpointId,
  status: recovery.status,
  since: isoTime(recovery.since),
  created_at: isoTime(recovery.createdAt),
  total: recovery.total,
  queued: recovery.queued,
  delivered: recovery.delivered,
  failed: recovery.failed,
});
