/** The JSON API: server, routes, schemas, requests and their bounds. */
export { customerBody } from './customer-routes.ts';
export { type Gate, readClaimOf } from './gate.ts';
export { readServiceReadiness } from './health.ts';
export { linkBody } from './link-routes.ts';
export { apiReference, sampleData } from './on-demand.ts';
export { draftOf } from './payment-routes.ts';
export { readFiatCode, readMetadata, readMinor, readPrice, readQuery, readReturnUrl } from './read.ts';
export { requestBody } from './request-log.ts';
export { type BaseCall, type ReplyOf, type RouteAddress, type RouteForm, readSent, sendJson, serveRoute } from './route.ts';
export { listOperations, ROUTES } from './routes.ts';
export { CustomerItem, DetailSchema, ItemSchema, WarningSchema } from './schema.ts';
export { RequestEntry } from './schema-errors.ts';
export { literals } from './schema-fields.ts';
export { LinkItem } from './schema-links.ts';
export { PayoutItem, RefundItem } from './schema-refunds.ts';
export { DeliveryReply, EndpointReply, EndpointWithSecret, RecoveryReply } from './schema-webhooks.ts';
export { createServer, toProblem } from './server.ts';
