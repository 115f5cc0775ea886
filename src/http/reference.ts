/** The API reference as Markdown, generated from the routes, schemas and examples that requests are validated with and tests replay. */
import type { TSchema } from 'typebox';
import { PAYMENT_EVENTS } from '#core/event';
import {
  LONGEST_JSON_NAME,
  LONGEST_JSON_PATH,
  LONGEST_URL,
  MOST_BODY_BYTES,
  MOST_HEADERS,
  MOST_JSON_DEPTH,
  MOST_JSON_VALUES,
  MOST_PARAMETERS,
} from '#core/text';
import { EVENT_EXAMPLES, EXAMPLES } from './examples.ts';
import type { Access } from './gate.ts';
import type { ApiRoute } from './route.ts';
import { DOCUMENTED_ROUTES, documentedPath, GROUPS, routeGroup } from './routes.ts';
import { DetailSchema } from './schema.ts';
import { EventReply } from './schema-webhooks.ts';

const WHO: Readonly<Record<Access, string>> = { secret: 'secret key', any: 'secret or public key', secret_test: 'secret test key' };

/** Shapes that many operations return, documented once. */
const OBJECTS: readonly { schema: unknown; name: string; about: string }[] = [
  { schema: DetailSchema, name: 'Payment', about: 'What everything about a payment answers with.' },
  {
    schema: EventReply,
    name: 'Event',
    about: 'What webhooks carry and the list of events holds. `data` is the payment as it was then, and `sequence`.',
  },
];

/** The client function for each operation; none for the two that answer less than others under /v1. */
export const CLIENT: Readonly<Record<string, string>> = {
  createSimple: 'payments.createSimple(params)',
  createAdvanced: 'payments.createAdvanced(params)',
  createLegacy: 'payments.createLegacy(params)',
  createPayment: 'payments.create(params)',
  createTransaction: 'payments.createTransaction(params)',
  listPayments: 'payments.list(params)',
  retrievePayment: 'payments.retrieve(id, { expand })',
  updatePayment: 'payments.updateMetadata(id, metadata)',
  readTransfers: 'payments.listTransfers(id, params)',
  createPaymentLink: 'paymentLinks.create(params)',
  readPaymentLinks: 'paymentLinks.list(params)',
  readPaymentLink: 'paymentLinks.retrieve(id)',
  updatePaymentLink: 'paymentLinks.update(id, params)',
  readCustomers: 'customers.list(params)',
  readCustomer: 'customers.retrieve(id)',
  createRefund: 'refunds.create(params)',
  readRefunds: 'refunds.list(params)',
  readRefund: 'refunds.retrieve(id, { expand })',
  renewClaimLink: 'refunds.renewClaimLink(id)',
  proveRefund: 'refunds.prove(id, { preimage })',
  cancelRefund: 'refunds.cancel(id)',
  createPayout: 'payouts.create(params)',
  readPayouts: 'payouts.list(params)',
  readPayout: 'payouts.retrieve(id)',
  cancelPayout: 'payouts.cancel(id)',
  cancel: 'payments.cancel(id)',
  resolve: 'payments.resolve(id, params)',
  readPrices: 'crypto.prices({ currencies })',
  readBalance: 'crypto.balance({ address, currency })',
  readFees: 'crypto.fees(currency)',
  readTransaction: 'crypto.transaction(txid, currency)',
  readEvents: 'events.list(params)',
  readEvent: 'events.retrieve(id, { expand })',
  createWebhookEndpoint: 'webhookEndpoints.create(params)',
  readWebhookEndpoints: 'webhookEndpoints.list()',
  readWebhookEndpoint: 'webhookEndpoints.retrieve(id)',
  updateWebhookEndpoint: 'webhookEndpoints.update(id, params)',
  deleteWebhookEndpoint: 'webhookEndpoints.delete(id)',
  rotateWebhookSecret: 'webhookEndpoints.rotateSecret(id, params)',
  testWebhookEndpoint: 'webhookEndpoints.sendTest(id)',
  recoverWebhookEndpoint: 'webhookEndpoints.recover(id, { since })',
  readWebhookRecovery: 'webhookEndpoints.retrieveRecovery(id)',
  readWebhookDeliveries: 'webhookDeliveries.list(params)',
  readWebhookDelivery: 'webhookDeliveries.retrieve(id)',
  resendWebhookDelivery: 'webhookDeliveries.resend(id)',
  readRequests: 'requests.list(params)',
  simulate: 'test.simulate(id, { scenario })',
  advance: 'test.advanceClock({ seconds })',
};

type Shape = {
  type?: string;
  const?: string;
  anyOf?: Shape[];
  allOf?: Shape[];
  items?: Shape;
  properties?: Record<string, Shape>;
  required?: string[];
  patternProperties?: Record<string, Shape>;
  description?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  default?: unknown;
  format?: string;
};
const objectOf = (schema: unknown) => OBJECTS.find((object) => object.schema === schema);

function typeOf(shape: Shape): string {
  const known = objectOf(shape);
  if (known) return `[${known.name}](#${known.name.toLowerCase()})`;
  if (shape.const !== undefined) return `\`${shape.const}\``;
  if (shape.anyOf) return shape.anyOf.map(typeOf).join(' or ');
  if (shape.allOf) return 'object';
  if (shape.type === 'array') return `list of ${typeOf(shape.items!)}`;
  if (shape.patternProperties) return 'object';
  return shape.format === 'date-time' ? 'timestamp' : shape.type === 'string' ? 'text' : (shape.type ?? 'any');
}
function boundsOf(shape: Shape): string {
  const span = (low: number | undefined, high: number | undefined, unit: string) =>
    low !== undefined && high !== undefined ? `${low} to ${high}${unit}` : high !== undefined ? `at most ${high}${unit}` : '';
  return [
    span(shape.minimum, shape.maximum, ''),
    span(shape.minLength, shape.maxLength, ' characters'),
    span(shape.minItems, shape.maxItems, ' entries'),
    shape.default === undefined ? '' : `default ${shape.default}`,
  ]
    .filter(Boolean)
    .join(', ');
}
const sentence = (text: string): string => (text === '' ? '' : `${text[0]!.toUpperCase()}${text.slice(1)}.`);
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** Fields by their path, with those of nested objects below their parent. */
function fieldsOf(schema: Shape, prefix = ''): string[][] {
  const [part] = schema.allOf ?? [schema];
  const inside = part!.anyOf?.find((option) => option.properties) ?? part!;
  return Object.entries(inside.properties ?? {}).flatMap(([name, field]) => {
    const required = inside.required?.includes(name) ?? false;
    const about = [field.description ?? '', sentence(boundsOf(field))].filter(Boolean).join(' ');
    const path = `${prefix}${name}`;
    const below =
      objectOf(field) || objectOf(field.items) || field.anyOf?.some(objectOf)
        ? []
        : field.type === 'array'
          ? fieldsOf(field.items!, `${path}[].`)
          : fieldsOf(field, `${path}.`);
    return [[`\`${path}\``, typeOf(field), required ? 'always' : '', cell(about)], ...below];
  });
}
const table = (head: readonly string[], rows: readonly string[][]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
const json = (value: unknown): string => `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;

function requestText(route: ApiRoute, url: string): string {
  const example = EXAMPLES[route.id]!;
  const ids: Readonly<Record<string, string>> = { id: 'ID', txid: 'TXID' };
  const path = route.path.replace(/:(\w+)/g, (_, name: string) => `$${ids[name] ?? name.toUpperCase()}`);
  const needed = ((route.query as Shape | undefined)?.required ?? []).map((name) => {
    const { examples } = (route.query as unknown as { properties: Record<string, { examples?: unknown[] }> }).properties[name]!;
    return `${name}=${examples?.[0]}`;
  });
  const address = `${url}${path}${needed.length > 0 ? `?${needed.join('&')}` : ''}`;
  const parts = [`curl ${route.method === 'GET' ? '' : `-X ${route.method} `}"${address}"`, '-H "Authorization: Bearer $KEY"'];
  const [body] = Object.values(example.requests ?? {});
  if (body) parts.push('-H "Content-Type: application/json"', `-d '${JSON.stringify(body)}'`);
  return `\`\`\`sh\n${parts.join(' \\\n  ')}\n\`\`\``;
}

function operationText(route: ApiRoute, url: string): string {
  const reply = objectOf(route.reply);
  const part = (title: string, schema: TSchema | undefined, needed: string): string => {
    const rows = schema ? fieldsOf(schema as Shape) : [];
    return rows.length === 0
      ? ''
      : `**${title}**\n\n${table(
          ['Name', 'Type', needed, 'Meaning'],
          rows.map(([name, type, required, about]) => [
            name!,
            type!,
            required === 'always' ? (needed === 'Needed' ? 'yes' : 'always') : '',
            about!,
          ]),
        )}\n\n`;
  };
  return `### ${route.summary} {#${route.id}}

\`${route.method} ${documentedPath(route)}\` takes a ${WHO[route.access]} with the permission \`${route.permission}\`${route.created ? ' and answers 201' : ''}.

${part('Query', route.query, 'Needed')}${part('Body', route.body, 'Needed')}${requestText(route, url)}

${CLIENT[route.id] ? `\`\`\`js\nawait florin.${CLIENT[route.id]};\n\`\`\`\n\n` : ''}${reply ? `Answers with [${reply.name}](#${reply.name.toLowerCase()}):` : part('Reply', route.reply, 'There').trim()}

${reply ? '' : `${json(EXAMPLES[route.id]!.reply)}\n`}`;
}

/** Every route once, by group. */
const GROUPED = GROUPS.map(({ name }) => [name, DOCUMENTED_ROUTES.filter((route) => routeGroup(route) === name)] as const);

/** The document for a service at `url`. */
export function referenceMarkdown(url: string): string {
  return `# API reference

JSON over HTTPS. Every request carries \`Authorization: Bearer <API_KEY>\`, or the key as the name of HTTP Basic with an empty password: \`curl -u "$KEY:"\`. Amounts are decimal texts, timestamps ISO 8601 UTC. Every path without \`/v1\` answers under \`/v1\` too. The same as a document for programs: [OpenAPI 3.1](/openapi.json); with a form for each request: [API reference](/docs/api).

- **Repeats.** Every POST takes an \`Idempotency-Key\` (1 to 255 printable characters). The same key with the same body answers the first reply again, for 7 days, with \`Idempotent-Replayed: true\`; with another body 422.
- **Limits.** Every reply carries \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\` (seconds since 1970); 429 comes with \`Retry-After\`.
- **Permissions.** A secret key can have fewer permissions than all: [API keys](/docs/guides/api-keys) lists them. Each request below names the one that a secret key needs; a key without it gets 403 \`key_permission_missing\`.
- **Sizes.** A body has at most ${MOST_BODY_BYTES / 1_024} kB, ${MOST_JSON_VALUES.toLocaleString('en')} values, ${MOST_JSON_DEPTH} levels, and names of at most ${LONGEST_JSON_NAME} characters; a path such as \`items[2].unit_price\` has at most ${LONGEST_JSON_PATH.toLocaleString('en')}. A URL has at most ${LONGEST_URL.toLocaleString('en')} characters and ${MOST_PARAMETERS} query parameters, and a request at most ${MOST_HEADERS} header lines, which together have at most 16 kB. Whatever is larger answers 413 \`body_too_large\`, 400 \`invalid_json\` or 400 \`request_unreadable\`, with the bound in the message.
- **Errors.** \`{"error": {"type", "message", "param", "code", "doc_url", "request_id"}}\`: [all codes](/docs/errors).
- **Parameters that a request does not take.** A name that looks like a slip (up to two wrong letters, another case or spelling) and one that another request takes answer 400 \`parameter_unknown\`, with the name that was probably meant in the message; a misspelled \`currency\` would otherwise ask for another coin. Any other name is refused by the paths that begin with \`/v1\`, except \`POST /v1/transactions/create\`. The other paths ignore it, and list it in the \`X-Ignored-Parameters\` header of the reply and in the request log. Turn on \`strict_parameters\` in the dashboard, under Business, to refuse all of them. The keys of \`metadata\` are your own.
- **Lists** are newest first. \`limit\` is 1 to 100; the last row's id as \`starting_after\` gives the next page while \`has_more\` is true.
- **Expanding.** \`expand[]=payment\` puts the payment into refunds and events, \`expand[]=refunds\` the refunds into payments, so that you need no further request for them.

The examples assume \`KEY\` to hold a secret test key, and \`florin\` to be a client as the [quick start](/docs/guides/quickstart) makes it.

${GROUPED.map(
  ([title, routes]) => `- **${title}:** ${routes.map((route) => `[${route.summary.toLowerCase()}](#${route.id})`).join(', ')}`,
).join('\n')}
- **Objects:** ${OBJECTS.map(({ name }) => `[${name}](#${name.toLowerCase()})`).join(', ')}

${GROUPED.map(([title, routes]) => `## ${title}\n\n${routes.map((route) => operationText(route, url)).join('\n')}`).join('\n')}
## Objects

${OBJECTS.map(
  ({ schema, name, about }) =>
    `### ${name}\n\n${about}\n\n${table(
      ['Name', 'Type', 'There', 'Meaning'],
      fieldsOf(schema as Shape).filter(([path]) => name !== 'Event' || !path!.startsWith('`data.') || path === '`data.sequence`'),
    )}\n\n${json(name === 'Payment' ? EXAMPLES.readPayment!.reply : EVENT_EXAMPLES['payment.completed'])}\n`,
).join('\n')}
## Webhooks

Events: ${PAYMENT_EVENTS.map((type) => `\`${type}\``).join(', ')}. How they arrive and how to believe them: [Webhooks](/docs/guides/webhooks).
`;
}
