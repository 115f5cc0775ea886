/** The types of the SDK, made from the schemas that validate: `sdk/src/types.ts`. Run by `npm run generate`. */
import { COINS, MODES } from '../src/core/coin.ts';
import { API_VERSION, PAYMENT_EVENTS, TEST_EVENT } from '../src/core/event.ts';
import { EXCEPTIONS, PAYMENT_STATUSES } from '../src/core/payment.ts';
import { PROBLEM_TYPES, PROBLEMS } from '../src/core/problem.ts';
import * as schemas from '../src/http/schema.ts';

/** Unions that stand in many places, by name. */
export const UNIONS: Readonly<Record<string, readonly string[]>> = {
  Coin: COINS,
  Mode: MODES,
  PaymentStatus: PAYMENT_STATUSES,
  PaymentException: EXCEPTIONS,
  PaymentEventType: PAYMENT_EVENTS,
  ErrorType: PROBLEM_TYPES,
};

/** Schema -> its name in the SDK, and the method that takes or gives it. Null: no type of its own. */
const NAMES: Readonly<Record<string, string | null>> = {
  Empty: null,
  CreateSimple: 'CreateSimpleParams',
  CreateAdvanced: 'CreateAdvancedParams',
  CreateLegacy: 'CreateLegacyParams',
  CreateTransaction: 'CreateTransactionParams',
  Item: 'ItemParams',
  Resolve: 'ResolveParams',
  UpdateMetadata: 'UpdateMetadataParams',
  Simulate: 'SimulateParams',
  AdvanceClock: 'AdvanceClockParams',
  CreateEndpoint: 'CreateWebhookEndpointParams',
  UpdateEndpoint: 'UpdateWebhookEndpointParams',
  RotateSecret: 'RotateSecretParams',
  Recover: 'RecoverParams',
  ListQuery: 'ListPaymentsParams',
  TransfersQuery: 'ListTransfersParams',
  EventsQuery: 'ListEventsParams',
  PricesQuery: 'PricesParams',
  BalanceQuery: 'BalanceParams',
  CoinQuery: 'CoinParams',
  DeliveriesQuery: 'ListDeliveriesParams',
  RequestsQuery: 'ListRequestsParams',
  Created: 'CreatedPayment',
  TransactionCreated: 'CreatedTransaction',
  LegacyCreated: 'CreatedLegacyPayment',
  Detail: 'Payment',
  TransferList: 'TransferList',
  List: 'PaymentList',
  PricesReply: 'Prices',
  BalanceReply: 'Balance',
  FeesReply: 'Fees',
  TransactionReply: 'OnChainTransaction',
  EventReply: 'EventOf',
  EventList: 'EventList',
  ClockReply: 'TestClock',
  TestEventReply: 'WebhookTestEvent',
  EndpointReply: 'WebhookEndpoint',
  EndpointWithSecret: 'WebhookEndpointWithSecret',
  EndpointList: 'WebhookEndpointList',
  EndpointDeleted: 'DeletedWebhookEndpoint',
  DeliveryList: 'WebhookDeliveryList',
  DeliveryReply: 'WebhookDelivery',
  RecoveryReply: 'WebhookRecovery',
  RequestEntry: 'LoggedRequest',
  RequestList: 'RequestList',
  ErrorReply: 'ErrorBody',
};

export type Shape = {
  type?: string | undefined;
  const?: string | undefined;
  anyOf?: Shape[] | undefined;
  items?: Shape | undefined;
  properties?: Record<string, Shape> | undefined;
  required?: string[] | undefined;
  patternProperties?: Record<string, Shape> | undefined;
  description?: string | undefined;
};
const isSchema = (value: unknown): value is Shape =>
  typeof value === 'object' && value !== null && ('type' in value || 'anyOf' in value || 'const' in value);

/** Exported schemas by their SDK name. Errors: one is without a name. */
function named(): ReadonlyMap<string, Shape> {
  const found = new Map<string, Shape>();
  for (const [name, value] of Object.entries(schemas)) {
    const schema: unknown = value;
    if (!isSchema(schema)) continue;
    const type = NAMES[name];
    if (type === undefined) throw new Error(`${name} of src/http/schema.ts has no name in scripts/sdk-types.ts`);
    if (type !== null) found.set(type, schema);
  }
  return found;
}

const quote = (text: string): string => `'${text}'`;
const comment = (schema: Shape, indent: string): string => {
  const words = [schema.description === 'Decimal text.' ? undefined : schema.description].filter(Boolean);
  return words.length === 0 ? '' : `${indent}/** ${words.join(' ')} */\n`;
};

export function typeText(schema: Shape, indent: string, names: ReadonlyMap<Shape, string>, self?: Shape): string {
  const known = schema === self ? undefined : names.get(schema);
  if (known === 'EventOf') return 'PaymentEvent';
  if (known) return known;
  if (schema.const !== undefined) return quote(schema.const);
  if (schema.anyOf) {
    const literals = schema.anyOf.map((option) => option.const);
    if (literals.every((literal) => literal !== undefined)) {
      const union = Object.keys(UNIONS).find((name) => UNIONS[name]!.join() === literals.join());
      if (union) return union;
    }
    return schema.anyOf.map((option) => typeText(option, indent, names)).join(' | ');
  }
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'number':
    case 'integer':
      return 'number';
    case 'array': {
      const item = typeText(schema.items!, indent, names);
      return item.includes(' | ') && !item.startsWith('{') ? `(${item})[]` : `${item}[]`;
    }
    case 'object': {
      const [values] = Object.values(schema.patternProperties ?? {});
      if (values) return `{ [key: string]: ${typeText(values, indent, names)} }`;
      const inner = `${indent}  `;
      const fields = Object.entries(schema.properties ?? {}).map(
        ([name, field]) =>
          `${comment(field, inner)}${inner}${name}${schema.required?.includes(name) ? '' : '?'}: ${typeText(field, inner, names)}${
            schema.required?.includes(name) ? '' : ' | undefined'
          };\n`,
      );
      return `{\n${fields.join('')}${indent}}`;
    }
    case undefined:
      return 'unknown';
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

/** The file. */
export function sdkTypes(): string {
  const types = named();
  const names = new Map([...types].map(([name, schema]) => [schema, name]));
  const parts = [...types].map(([name, schema]) => {
    if (name !== 'EventOf') return `export type ${name} = ${typeText(schema, '', names, schema)};\n`;
    const text = typeText(schema, '', names, schema).replace(/^ {2}type: PaymentEventType;$/m, '  type: T;');
    return `/** An event of one type; \`data\` is the payment as it was then. */\nexport type EventOf<T extends PaymentEventType> = ${text};\n`;
  });
  return `// Generated by \`npm run generate\` from the schemas of the service. Do not edit.

${Object.entries(UNIONS)
  .map(([name, values]) => `export type ${name} = ${values.map(quote).join(' | ')};\n`)
  .join('')}
/** What an error's \`code\` may say; later versions may add some. */
export type ErrorCode =
${Object.keys(PROBLEMS)
  .map((code) => `  | ${quote(code)}\n`)
  .join('')}  | (string & {});

/** What a parsed webhook body or a listed event may be: discriminated by \`type\`. */
export type PaymentEvent = { [T in PaymentEventType]: EventOf<T> }[PaymentEventType];
${types.has('WebhookTestEvent') ? '' : `/** Sent on demand to try an endpoint. */\nexport type WebhookTestEvent = { id: string; type: ${quote(TEST_EVENT)}; created_at: string; mode: Mode; api_version: string; data: { endpoint_id: string } };\n`}export type PaymentListItem = PaymentList['data'][number];
export type Transfer = Payment['transfers'][number];
/** The version of the shapes here. */
export const API_VERSION = ${quote(API_VERSION)};

${parts.join('\n')}`;
}
