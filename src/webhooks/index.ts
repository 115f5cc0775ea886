/** Events, endpoints, and the queue that delivers one to the other. */
export { startDeliveries } from './deliver.ts';
export {
  cancelRecovery,
  DELIVERY_STATES,
  type Delivery,
  type DeliveryItem,
  type DeliveryOutcome,
  getDelivery,
  getRecovery,
  type LastAttempt,
  listDeliveries,
  listLastAttempts,
  listOutcomes,
  listRecoveries,
  RECOVERY_STATUSES,
  type Recovery,
  resendDelivery,
  resendPayment,
  startRecovery,
} from './deliveries.ts';
export { EVERYTHING } from './dialect.ts';
export {
  BY_OPERATOR,
  createEndpoint,
  DISABLED_REASONS,
  deleteEndpoint,
  disableEndpoint,
  disableEndpointsOfShop,
  type Endpoint,
  type EndpointActor,
  getEndpoint,
  keysOfShop,
  LONGEST_OVERLAP_SECONDS,
  listEndpointNotices,
  listEndpoints,
  MOST_ENDPOINTS,
  planEndpoint,
  planUpdate,
  revealSecret,
  rotateSecret,
  SECRET_PURPOSE,
  sendsPayouts,
  sendTestEvent,
  tryEndpoint,
} from './endpoints.ts';
export {
  getEvent,
  jsonColumn,
  listEvents,
  type NewEvent,
  recordEvents,
  recordingEvents,
  recordingParts,
  recordShopEvents,
  type ShopEvent,
} from './events.ts';
export { countMissed, type Health, listHealth, listHours, MOST_COUNTED, readSecondsSinceAttempt, readWebhookPulse } from './health.ts';
export { advanceDeliveries, readDeliveryQueue } from './queue.ts';
