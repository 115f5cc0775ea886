/** The OpenAPI 3.1 document, generated from the routes and from the schemas that validate requests. */
import type { TSchema } from 'typebox';
import { PAYMENT_EVENTS, TEST_EVENT } from '#core/event';
import { PROBLEMS } from '#core/problem';
import { errorExamples } from './error-examples.ts';
import {
  CUSTOMER_ID,
  DELIVERY_ID,
  ENDPOINT_ID,
  EVENT_EXAMPLES,
  EVENT_ID,
  EXAMPLE_PAYMENT_ID,
  EXAMPLES,
  LINK_ID,
  PAYOUT_ID,
  RECOVERY_ID,
  REFUND_ID,
  TXID,
} from './examples.ts';
import type { ApiRoute } from './route.ts';
import { DOCUMENTED_ROUTES, GROUPS, routeGroup } from './routes.ts';
import * as payments from './schema.ts';
import * as errors from './schema-errors.ts';
import { UNIONS } from './schema-fields.ts';
import * as links from './schema-links.ts';
import * as lookups from './schema-lookups.ts';
import * as outgoing from './schema-refunds.ts';
import * as webhooks from './schema-webhooks.ts';
import { eventName } from './schema-webhooks.ts';

// Schemas for the API document: named ones once, values as enums, in the form that tools and generators read best.

// The names of the schemas in the API document and in generated clients. None is the name of a global, such as Error or Event.

/** In the order in which they are listed. */
export const SCHEMAS: Readonly<Record<string, TSchema>> = {
  Payment: payments.DetailSchema,
  PaymentList: payments.List,
  PaymentListItem: payments.ListItemSchema,
  PaymentItem: payments.PaidItem,
  Transfer: payments.TransferSchema,
  TransferList: payments.TransferList,
  CreatedPayment: payments.Created,
  PaymentWarning: payments.WarningSchema,
  CreatedTransaction: payments.TransactionCreated,
  CreatedLegacyPayment: payments.LegacyCreated,
  CreateSimpleParams: payments.CreateSimple,
  CreateAdvancedParams: payments.CreateAdvanced,
  ItemParams: payments.ItemSchema,
  CreateLegacyParams: payments.CreateLegacy,
  CreatePaymentParams: payments.CreatePayment,
  CreateTransactionParams: payments.CreateTransaction,
  CancelParams: payments.Cancel,
  ResolveParams: payments.Resolve,
  UpdateMetadataParams: payments.UpdateMetadata,
  SimulateParams: payments.Simulate,
  AdvanceClockParams: payments.AdvanceClock,
  EmptyParams: payments.Empty,
  TestClock: payments.ClockReply,
  PaymentWithRefunds: outgoing.PaymentReply,
  PaymentWithRefundsList: outgoing.PaymentList,
  PaymentLink: links.LinkReply,
  PaymentLinkItem: links.LinkItem,
  PaymentLinkList: links.LinkList,
  CreatedPaymentLink: links.LinkCreated,
  CreatePaymentLinkParams: links.CreateLink,
  UpdatePaymentLinkParams: links.UpdateLink,
  Customer: payments.CustomerReply,
  CustomerItem: payments.CustomerItem,
  CustomerList: payments.CustomerList,
  PaymentCustomer: payments.PaymentCustomer,
  CustomerParams: payments.CustomerParams,
  Refund: outgoing.RefundReply,
  ListedRefund: outgoing.ListedRefund,
  RefundItem: outgoing.RefundItem,
  RefundList: outgoing.RefundList,
  CreateRefundParams: outgoing.CreateRefund,
  ProveRefundParams: outgoing.RefundPreimage,
  RefundEventData: webhooks.RefundEventData,
  Payout: outgoing.PayoutReply,
  PayoutItem: outgoing.PayoutItem,
  PayoutList: outgoing.PayoutList,
  CreatePayoutParams: outgoing.CreatePayout,
  PayoutEventData: webhooks.PayoutEventData,
  Prices: lookups.PricesReply,
  Price: lookups.PriceSchema,
  Balance: lookups.BalanceReply,
  Fees: lookups.FeesReply,
  FeeEstimate: lookups.FeeEstimate,
  OnChainTransaction: lookups.TransactionReply,
  TransactionParty: lookups.Party,
  WebhookEvent: webhooks.WebhookEvent,
  PaymentEvent: webhooks.EventReply,
  ...webhooks.EVENT_SCHEMAS,
  WebhookTestEvent: webhooks.TestEventReply,
  PaymentEventData: webhooks.EventData,
  EventList: webhooks.EventList,
  WebhookEndpoint: webhooks.EndpointReply,
  WebhookEndpointWithSecret: webhooks.EndpointWithSecret,
  CreatedWebhookEndpoint: webhooks.EndpointCreated,
  UpdatedWebhookEndpoint: webhooks.EndpointUpdated,
  EndpointConnection: webhooks.EndpointConnection,
  WebhookEndpointList: webhooks.EndpointList,
  DeletedWebhookEndpoint: webhooks.EndpointDeleted,
  CreateWebhookEndpointParams: webhooks.CreateEndpoint,
  UpdateWebhookEndpointParams: webhooks.UpdateEndpoint,
  RotateSecretParams: webhooks.RotateSecret,
  RecoverParams: webhooks.Recover,
  WebhookDelivery: webhooks.DeliveryReply,
  WebhookDeliveryList: webhooks.DeliveryList,
  WebhookDeliveryItem: webhooks.DeliveryItemSchema,
  DeliveryAttempt: webhooks.DeliveryAttempt,
  WebhookRecovery: webhooks.RecoveryReply,
  LoggedRequest: errors.RequestEntry,
  RequestList: errors.RequestList,
  ErrorBody: errors.ErrorReply,
  ErrorDetail: errors.ErrorDetail,
  ErrorItem: errors.ErrorItem,
};

/** Query parameters, which the document lists one by one and the SDK as types. */
export const QUERIES: Readonly<Record<string, TSchema>> = {
  ListPaymentsParams: outgoing.PaymentsQuery,
  ListPaymentItemsParams: payments.ListQuery,
  RetrievePaymentParams: outgoing.PaymentQuery,
  ListPaymentLinksParams: links.LinksQuery,
  ListCustomersParams: payments.CustomersQuery,
  ListRefundsParams: outgoing.RefundsQuery,
  RetrieveRefundParams: outgoing.ExpandPayment,
  ListPayoutsParams: outgoing.PayoutsQuery,
  ListTransfersParams: payments.TransfersQuery,
  ListEventsParams: webhooks.EventsQuery,
  RetrieveEventParams: webhooks.EventQuery,
  ListDeliveriesParams: webhooks.DeliveriesQuery,
  ListRequestsParams: errors.RequestsQuery,
  PricesParams: lookups.PricesQuery,
  BalanceParams: lookups.BalanceQuery,
  CoinParams: lookups.CoinQuery,
};

/** Whether a named schema is that of a body. */
export const isRequest = (name: string): boolean => name.endsWith('Params') && name in SCHEMAS;

type FieldShape = {
  type?: string;
  anyOf?: TSchema[];
  properties?: Record<string, TSchema>;
  required?: string[];
  patternProperties?: Record<string, TSchema>;
};
/** The schema of a body as callers may write it: null means that an optional field, or a key of a map, is absent. */
export function withNulls(schema: TSchema): TSchema {
  const { properties = {}, required = [] } = schema as FieldShape;
  const fields = Object.entries(properties).map(([name, field]) => [name, required.includes(name) ? field : orNull(mapWithNulls(field))]);
  return { ...schema, properties: Object.fromEntries(fields) };
}
function orNull(field: TSchema): TSchema {
  const { anyOf, ...rest } = field as FieldShape & { description?: string; examples?: unknown };
  const options = anyOf ?? [field];
  if (options.some((option) => (option as FieldShape).type === 'null')) return field;
  const { description, examples } = rest;
  // A named set of values stays one option.
  const isNamed = anyOf?.every((option) => 'const' in option) ?? true;
  return {
    description: `${description} Null means absent.`,
    ...(examples !== undefined && { examples }),
    anyOf: [...(isNamed ? [field] : options), { type: 'null' }],
  } as TSchema;
}
const mapWithNulls = (field: TSchema): TSchema => {
  const { patternProperties } = field as FieldShape;
  if (!patternProperties) return field;
  return {
    ...field,
    patternProperties: Object.fromEntries(Object.entries(patternProperties).map(([keys, value]) => [keys, orNull(value)])),
  } as TSchema;
};

type Shape = Readonly<Record<string, unknown>>;
type Properties = Readonly<Record<string, Shape>>;

const NAMES = new Map<unknown, string>(Object.entries(SCHEMAS).map(([name, schema]) => [schema, name]));
const UNION_NAMES = new Map<string, string>(Object.entries(UNIONS).map(([name, values]) => [values.join(), name]));
/** Unions of objects, and the field that distinguishes them. */
const TAGGED = new Set(['PaymentEvent', 'WebhookEvent']);

const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** The values when all options are strings, with the name of their set when it has one. */
function valuesOf(shape: { anyOf?: unknown }): { values: string[]; name: string | null } | null {
  const options = (shape.anyOf ?? []) as { const?: unknown }[];
  const values = options.flatMap((option) => (typeof option.const === 'string' ? [option.const] : []));
  if (values.length === 0 || values.length !== options.length) return null;
  return { values, name: UNION_NAMES.get(values.join()) ?? null };
}

/** A schema in place: a reference if it has a name. */
function schemaInPlace(schema: TSchema | Shape): object {
  const name = NAMES.get(schema);
  return name === undefined ? body(schema as Shape) : schemaRef(name);
}

/** A field whose schema has a name also keeps its own description. */
function shownField(field: Shape): object {
  return NAMES.has(field) ? { ...schemaInPlace(field), description: field.description } : schemaInPlace(field);
}

function body(schema: Shape): object {
  const { anyOf, allOf, items, properties, patternProperties, 'x-problem': _, 'x-case': _case, ...rest } = schema;
  const values = valuesOf(schema);
  if (values) return values.name === null ? { type: 'string', ...rest, enum: values.values } : { ...schemaRef(values.name), ...rest };
  return {
    ...rest,
    ...(anyOf !== undefined && optionsOf(anyOf as Shape[])),
    ...(allOf !== undefined && { allOf: (allOf as Shape[]).map(schemaInPlace) }),
    ...(items !== undefined && { items: schemaInPlace(items as Shape) }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(Object.entries(properties as Properties).map(([name, field]) => [name, shownField(field)])),
    }),
    ...(patternProperties !== undefined && { additionalProperties: schemaInPlace(Object.values(patternProperties as Properties)[0]!) }),
  };
}

/** The options of a union. In a union with null, the field already has the description of the option. */
function optionsOf(anyOf: readonly Shape[]): object {
  // A single option is how a named schema gets another description in one place.
  if (anyOf.length === 1) return schemaInPlace(anyOf[0]!);
  const others = anyOf.filter((option) => option.type !== 'null');
  if (others.length === anyOf.length || others.length > 1) return { anyOf: anyOf.map(schemaInPlace) };
  const { description: _, ...option } = schemaInPlace(others[0]!) as { description?: string; type?: unknown };
  return typeof option.type === 'string' && option.type !== 'object' && option.type !== 'array'
    ? { ...option, type: [option.type, 'null'] }
    : { anyOf: [option, { type: 'null' }] };
}

/** A union of events, distinguished by `type`. */
function tagged(schema: Shape): object {
  const options = schema.anyOf as (Shape & { properties: { type: { const: string } } })[];
  return {
    oneOf: options.map(schemaInPlace),
    discriminator: {
      propertyName: 'type',
      mapping: Object.fromEntries(options.map((option) => [option.properties.type.const, schemaRef(NAMES.get(option)!).$ref])),
    },
    description: schema.description,
  };
}

const DESCRIPTIONS: Readonly<Record<keyof typeof UNIONS, string>> = {
  Coin: 'Code of a coin.',
  ArrivedCoin: 'Code of a coin that can arrive, requested or not.',
  PaymentNetwork: 'ID of the network that a coin is on.',
  Mode: 'Live mode, where money is real, or test mode.',
  FiatCurrency: 'Code of a currency (ISO 4217).',
  PaymentStatus: 'Status of a payment.',
  PaymentException: 'Something unusual about a payment.',
  PaymentEventType: 'What happened to a payment, a refund or a payout.',
  EndpointEventType: 'An event type, or `*` for the six basic ones.',
  Scenario: 'What a simulated customer and network do.',
  CompletionRule: 'What completes a payment.',
  Verifier: 'What vouches for the blocks of a payment.',
  KeyKind: 'Kind of API key.',
  ResolveAction: 'A decision about money that arrived.',
  PriceChangeOrigin: 'Where a price change comes from.',
  TransactionStatus: 'Status of an on-chain transaction.',
  DeliveryState: 'State of a delivery.',
  RefundStatus: 'Status of a refund or a payout.',
  RefundRate: 'Exchange rate of a refund.',
  LinkState: 'Whether a payment link creates payments.',
  RecoveryStatus: 'Status of a recovery.',
  DisabledReason: 'Why an endpoint is disabled.',
  ErrorType: 'Kind of an error.',
};

/** Rules that the schema of a body cannot express, because a fault of it would not name a parameter. */
const ONE_OF: Readonly<Record<string, object>> = {
  CreateSimpleParams: { oneOf: [{ required: ['amount_usd'] }, { required: ['amount', 'currency_fiat'] }] },
};

/** All named schemas. */
function componentSchemas(): Readonly<Record<string, object>> {
  return {
    ...Object.fromEntries(
      Object.entries(UNIONS).map(([name, values]) => [
        name,
        { type: 'string', enum: [...values], description: DESCRIPTIONS[name as keyof typeof UNIONS] },
      ]),
    ),
    ...Object.fromEntries(
      Object.entries(SCHEMAS).map(([name, schema]) => [
        name,
        TAGGED.has(name)
          ? tagged(schema as unknown as Shape)
          : { ...body((isRequest(name) ? withNulls(schema) : schema) as unknown as Shape), ...ONE_OF[name] },
      ]),
    ),
  };
}

const STATUSES = [...new Set(Object.values(PROBLEMS).map((problem) => problem.status))].sort((a, b) => a - b);
const MEANING: Readonly<Record<number, string>> = {
  400: 'Invalid request parameters',
  401: 'Invalid or missing API key',
  403: 'Not allowed with this API key or plan',
  404: 'Not found',
  409: 'Not possible in the current state',
  413: 'Body too large',
  415: 'The body is not JSON',
  422: 'Idempotency-Key used with another body',
  429: 'Rate limit exceeded; retry with exponential backoff',
  500: 'Server error',
  501: 'No configured source can answer',
  503: 'Unavailable for now; retry',
};
/** Error statuses that an operation can return. */
const errorsOf = (route: ApiRoute): number[] =>
  STATUSES.filter((status) => {
    if (status === 405) return false;
    if (route.method !== 'POST' && [409, 413, 415, 422].includes(status)) return false;
    return status !== 501 || route.path.startsWith('/api/crypto/');
  });

const ref = (kind: string, name: string | number) => ({ $ref: `#/components/${kind}/${name}` });
const LIMIT_HEADERS = {
  'X-RateLimit-Limit': ref('headers', 'Limit'),
  'X-RateLimit-Remaining': ref('headers', 'Remaining'),
  'X-RateLimit-Reset': ref('headers', 'Reset'),
  'X-Request-Id': ref('headers', 'RequestId'),
  'X-Ignored-Parameters': ref('headers', 'Ignored'),
};
const integer = (description: string) => ({ description, schema: { type: 'integer' } });

const IDS = [
  ['/v1/events', EVENT_ID],
  ['/v1/webhook_endpoints', ENDPOINT_ID],
  ['/v1/webhook_deliveries', DELIVERY_ID],
  ['/v1/webhook_recoveries', RECOVERY_ID],
  ['/v1/customers', CUSTOMER_ID],
  ['/v1/payment_links', LINK_ID],
  ['/v1/refunds', REFUND_ID],
  ['/v1/payouts', PAYOUT_ID],
] as const;
/** The kind of object for each id prefix. */
const WHAT: Readonly<Record<string, string>> = {
  pay: 'payment',
  evt: 'event',
  we: 'webhook endpoint',
  del: 'delivery',
  rec: 'recovery',
  cus: 'customer',
  lnk: 'payment link',
  ref: 'refund',
  po: 'payout',
};
function parametersOf(route: ApiRoute): object[] {
  const id = IDS.find(([start]) => route.path.startsWith(start))?.[1] ?? EXAMPLE_PAYMENT_ID;
  const examples: Readonly<Record<string, string>> = { id, payment_id: EXAMPLE_PAYMENT_ID, txid: TXID };
  const inPath = [...route.path.matchAll(/:([a-z_]+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: name === 'txid' ? 'Hash of the transaction.' : `Identifier of the ${WHAT[String(examples[name!]).split('_')[0]!]}.`,
    schema: { type: 'string' },
    example: examples[name!],
  }));
  const required: readonly string[] = route.query?.required ?? [];
  const inQuery = Object.entries((route.query?.properties ?? {}) as Record<string, TSchema & { examples?: unknown[] }>).map(
    ([name, schema]) => {
      const { description, ...form } = schemaInPlace(schema) as { description?: string };
      const isMap = 'patternProperties' in schema;
      return {
        name,
        in: 'query',
        required: required.includes(name),
        description,
        ...(isMap && { style: 'deepObject', explode: true }),
        schema: form,
        example: schema.examples?.[0],
      };
    },
  );
  return [...inPath, ...inQuery, ...(route.method === 'POST' ? [ref('parameters', 'IdempotencyKey')] : [])];
}

const ACCESS: Readonly<Record<ApiRoute['access'], string>> = {
  any: 'Takes a secret or a public key.',
  secret: 'Takes a secret key.',
  secret_test: 'Takes a secret key of test mode.',
};

/** A route as an operation of its path. */
function operationOf(route: ApiRoute): object {
  const example = EXAMPLES[route.id]!;
  return {
    summary: route.summary,
    description: `${ACCESS[route.access]} A secret key needs the permission \`${route.permission}\`.`,
    tags: [routeGroup(route)],
    operationId: route.id,
    parameters: parametersOf(route),
    ...(route.body && {
      requestBody: {
        required: ((route.body as { required?: string[] }).required?.length ?? 0) > 0,
        content: {
          'application/json': {
            schema: schemaInPlace(route.body),
            examples: Object.fromEntries(Object.entries(example.requests ?? {}).map(([name, value]) => [name, { value }])),
          },
        },
      },
    }),
    responses: {
      [route.created ? 201 : 200]: {
        description: 'Success',
        headers: LIMIT_HEADERS,
        content: { 'application/json': { schema: schemaInPlace(route.reply), examples: { default: { value: example.reply } } } },
      },
      ...Object.fromEntries(errorsOf(route).map((status) => [status, ref('responses', status)])),
    },
  };
}

const HEADERS = {
  Limit: integer('Requests per minute that are allowed; 2147483647 when there is no limit.'),
  Remaining: integer('Requests left in this minute.'),
  Reset: integer('When the limit resets, in seconds since 1970.'),
  Ignored: {
    description:
      'Parameters that the request does not take and that were ignored, separated by commas and escaped as in a URL. Absent when there are none.',
    schema: { type: 'string' },
  },
  RequestId: { description: 'Identifies the request in logs and errors.', schema: { type: 'string' } },
};

const PARAMETERS = {
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description: 'Makes retries safe: a request with the same key and body returns the first response again, for 7 days.',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
    example: 'order-A-1001',
  },
};

const errorResponses = (url: string): object =>
  Object.fromEntries(
    STATUSES.filter((status) => status !== 405).map((status) => [
      status,
      {
        description: MEANING[status],
        headers: LIMIT_HEADERS,
        content: { 'application/json': { schema: schemaRef('ErrorBody'), examples: errorExamples(status, url) } },
      },
    ]),
  );

/** What an endpoint receives for an event. */
const webhookOf = (type: (typeof PAYMENT_EVENTS)[number] | typeof TEST_EVENT): object => ({
  post: {
    summary: `Sent as ${type}`,
    operationId: `on${eventName(type).replace(/Event$/, '')}`,
    parameters: [
      {
        name: 'X-Service-Signature',
        in: 'header',
        required: true,
        description: 'HMAC-SHA256 of the raw body with the signing secret of the endpoint, in lowercase hex.',
        schema: { type: 'string' },
      },
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: schemaRef(type === TEST_EVENT ? 'WebhookTestEvent' : eventName(type)),
          examples: { default: { value: EVENT_EXAMPLES[type] } },
        },
      },
    },
    responses: { 200: { description: 'Received. Respond within 10 seconds.' } },
  },
});

/** The document for a service at `url`. */
export function openapiDocument(url: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of DOCUMENTED_ROUTES) {
    const path = route.path.replace(/:([a-z_]+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operationOf(route);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Florin',
      version: '1',
      description:
        'Cryptocurrency payments priced in USD. Amounts are decimal strings and timestamps are ISO 8601 in UTC. Paths outside /v1 are also served under /v1.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url, description: 'This install.' }],
    tags: GROUPS.map(({ name, about }) => ({ name, description: about })),
    security: [{ key: [] }],
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
      headers: HEADERS,
      parameters: PARAMETERS,
      schemas: componentSchemas(),
      responses: errorResponses(url),
    },
    paths,
    webhooks: Object.fromEntries([...PAYMENT_EVENTS, TEST_EVENT as typeof TEST_EVENT].map((type) => [type, webhookOf(type)])),
  };
}
