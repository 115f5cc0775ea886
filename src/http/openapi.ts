/** The OpenAPI 3.1 document, generated from the routes and from the schemas that validate requests. */
import type { TSchema } from 'typebox';
import { PAYMENT_EVENTS, TEST_EVENT } from '../core/event.ts';
import { PROBLEMS } from '../core/problem.ts';
import { errorExamples } from './error-examples.ts';
import {
  DELIVERY_ID,
  ENDPOINT_ID,
  EVENT_EXAMPLES,
  EVENT_ID,
  EXAMPLE_PAYMENT_ID,
  EXAMPLES,
  PAYOUT_ID,
  RECOVERY_ID,
  REFUND_ID,
  TXID,
} from './examples.ts';
import { componentSchemas, schemaInPlace, schemaRef } from './openapi-schemas.ts';
import type { ApiRoute } from './route.ts';
import { GROUPS, ROUTES, routeGroup } from './routes.ts';
import { eventName } from './schema-webhooks.ts';

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
  for (const route of ROUTES) {
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
