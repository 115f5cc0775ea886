/** Schemas for the API document: named ones once, values as enums, in the form that tools and generators read best. */
import type { TSchema } from 'typebox';
import { UNIONS } from './schema-fields.ts';
import { isRequest, SCHEMAS, withNulls } from './schema-names.ts';

type Shape = Readonly<Record<string, unknown>>;
type Properties = Readonly<Record<string, Shape>>;

const NAMES = new Map<unknown, string>(Object.entries(SCHEMAS).map(([name, schema]) => [schema, name]));
const UNION_NAMES = new Map<string, string>(Object.entries(UNIONS).map(([name, values]) => [values.join(), name]));
/** Unions of objects, and the field that distinguishes them. */
const TAGGED = new Set(['PaymentEvent', 'WebhookEvent']);

export const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** The values when all options are strings, with the name of their set when it has one. */
export function valuesOf(shape: { anyOf?: unknown }): { values: string[]; name: string | null } | null {
  const options = (shape.anyOf ?? []) as { const?: unknown }[];
  const values = options.flatMap((option) => (typeof option.const === 'string' ? [option.const] : []));
  if (values.length === 0 || values.length !== options.length) return null;
  return { values, name: UNION_NAMES.get(values.join()) ?? null };
}

/** A schema in place: a reference if it has a name. */
export function schemaInPlace(schema: TSchema | Shape): object {
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
  RecoveryStatus: 'Status of a recovery.',
  DisabledReason: 'Why an endpoint is disabled.',
  ErrorType: 'Kind of an error.',
};

/** Rules that the schema of a body cannot express, because a fault of it would not name a parameter. */
const ONE_OF: Readonly<Record<string, object>> = {
  CreateSimpleParams: { oneOf: [{ required: ['amount_usd'] }, { required: ['amount', 'currency_fiat'] }] },
};

/** All named schemas. */
export function componentSchemas(): Readonly<Record<string, object>> {
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
