/** The queue that delivers events to endpoints: attempts, retries, recoveries and their health. */
export { startDeliveries } from './deliver.ts';
export {
  cancelRecovery,
  DELIVERY_STATES,
  type DeliveryOutcome,
  getDelivery,
  getRecovery,
  type LastAttempt,
  listDeliveries,
  listLastAttempts,
  listOutcomes,
  listRecoveries,
  RECOVERY_STATUSES,
  resendDelivery,
  resendPayment,
  sendTestEvent,
  startRecovery,
} from './deliveries.ts';
export { countMissed, type Health, listHealth, listHours, MOST_COUNTED, readSecondsSinceAttempt, readWebhookPulse } from './health.ts';
export { advanceDeliveries, readDeliveryQueue } from './queue.ts';
export { connectionBody, deliveryBody, endpointBody, itemBody, recoveryBody, secretBody, whyBody } from './webhook-bodies.ts';
