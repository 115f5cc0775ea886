/** Checks a body against its schema and reports all errors at once. */
import type { Static, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/schema';
import { Settings } from 'typebox/system';
import { PROBLEMS, Problem, type ProblemCode } from '#core/problem';
import type { JsonValue, ParsedBody } from './json.ts';

/** The parts of a schema that a message is built from. */
type Shape = {
  type?: string;
  const?: unknown;
  anyOf?: Shape[];
  items?: Shape;
  properties?: Record<string, Shape>;
  patternProperties?: Record<string, Shape>;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  /** Its text is read in this case. */
  'x-case'?: 'upper' | 'lower';
  /** The code for a string that is not one of the values; otherwise parameter_invalid. */
  'x-problem'?: ProblemCode;
};
const validators = new WeakMap<TSchema, Validator>();
/** Only the first errors of a body are reported; more would not help. */
const MOST_FAULTS = 50;
/** A value outside a set is one error for each value of the set, so the default of 8 would hide other errors. */
Settings.Set({ maxErrors: 1_000 });

/** The parts of a JSON pointer. */
const partsOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
/** `/items/2/quantity` as `items[2].quantity`. */
const paramOf = (parts: readonly string[]): string =>
  parts.reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '');

/** The schema at a path of the body. */
function shapeAt(schema: Shape, parts: readonly string[]): Shape {
  let at = schema;
  for (const part of parts) {
    const inside: Shape = at.anyOf?.find((option) => option.properties ?? option.items ?? option.patternProperties) ?? at;
    at = inside.properties?.[part] ?? inside.items ?? Object.values(inside.patternProperties ?? {})[0] ?? {};
  }
  return at;
}
const valueAt = (value: JsonValue, parts: readonly string[]): JsonValue | undefined =>
  parts.reduce<JsonValue | undefined>(
    (at, part) => (typeof at === 'object' && at !== null ? (at as Record<string, JsonValue>)[part] : undefined),
    value,
  );

const isText = (shape: Shape): boolean => shape.type === 'string' && shape.const === undefined;
const rangeText = (low: number | undefined, high: number | undefined, unit: string): string =>
  low !== undefined && high !== undefined
    ? ` ${low === 0 ? 'of up to' : `from ${low} to`} ${high}${unit}`
    : high !== undefined
      ? ` of up to ${high}${unit}`
      : '';

/** What a field accepts, as the end of "it must be ...". */
function expected(shape: Shape): string {
  if (shape.anyOf) {
    const values = shape.anyOf.flatMap((option) => (option.const === undefined ? [] : [String(option.const)]));
    const others = shape.anyOf.filter((option) => option.const === undefined);
    const number = others.some((option) => option.type === 'number') && others.some(isText);
    const texts = number ? ['a number or a decimal string, such as "25.50"'] : others.map(expected);
    const list = values.length > 1 ? `one of ${values.join(', ')}` : values.map((value) => `"${value}"`).join();
    return [list, ...texts].filter(Boolean).join(', or ');
  }
  if (shape.const !== undefined) return `"${shape.const}"`;
  switch (shape.type) {
    case 'string':
      return shape.maxLength === undefined && shape.minLength === undefined
        ? 'a string'
        : `a string${rangeText(shape.minLength ?? 0, shape.maxLength, ' characters')}`;
    case 'integer':
      return `a whole number${shape.minimum !== undefined && shape.maximum !== undefined ? ` from ${shape.minimum} to ${shape.maximum}` : ''}`;
    case 'number':
      return 'a number';
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'null';
    case 'array':
      return `a list${rangeText(shape.minItems ?? 0, shape.maxItems, ' entries')}`;
    case 'object':
      return 'an object';
    default:
      return 'as documented';
  }
}

const takesNull = ({ type, const: value, anyOf }: Shape): boolean =>
  anyOf ? anyOf.some(takesNull) : type === 'null' || (type === undefined && value === undefined);

/**
 * Reads a body as its schema means it: null for a field that has no such value means that the field is absent, because many languages
 * send null for what is not set, and codes of coins, currencies and networks have no case.
 */
function readAsMeant(schema: TSchema, value: JsonValue): void {
  if (typeof value !== 'object' || value === null) return;
  const { anyOf, items, properties, patternProperties } = schema as Shape;
  for (const option of anyOf ?? []) readAsMeant(option as TSchema, value);
  if (Array.isArray(value)) {
    if (items) for (const entry of value) readAsMeant(items as TSchema, entry);
    return;
  }
  const [values] = Object.values(patternProperties ?? {});
  for (const name in value) {
    const shape = (properties && Object.hasOwn(properties, name) ? properties[name] : undefined) ?? values;
    const held = value[name]!;
    if (shape === undefined) continue;
    if (held === null && !takesNull(shape)) delete value[name];
    else if (typeof held === 'string' && shape['x-case'])
      value[name] = shape['x-case'] === 'upper' ? held.toUpperCase() : held.toLowerCase();
    else readAsMeant(shape as TSchema, held);
  }
}

/** The errors that the schema finds, by parameter. */
function faultsOf(schema: TSchema, body: ParsedBody): Map<string, Problem> {
  readAsMeant(schema, body.value);
  let validator = validators.get(schema);
  if (!validator) {
    validator = Compile(schema);
    validators.set(schema, validator);
  }
  const faults = new Map<string, Problem>();
  if (validator.Check(body.value)) return faults;
  const [, errors] = validator.Errors(body.value);
  for (const error of errors) {
    if (faults.size >= MOST_FAULTS) break;
    const parts = partsOf(error.instancePath);
    const at = paramOf(parts);
    if (error.keyword === 'required') {
      for (const name of error.params.requiredProperties as string[]) {
        const param = at === '' ? name : `${at}.${name}`;
        if (!faults.has(param)) faults.set(param, new Problem('parameter_missing', {}, { param }));
      }
    } else if (!faults.has(at)) {
      const shape = shapeAt(schema as Shape, parts);
      const code = typeof valueAt(body.value, parts) === 'string' ? shape['x-problem'] : undefined;
      const reason = `it must be ${expected(shape)}`;
      faults.set(at, new Problem(code ?? 'parameter_invalid', { reason }, { param: at === '' ? null : at }));
    }
  }
  return faults;
}

const RANK = new Map(Object.keys(PROBLEMS).map((code, i) => [code, i]));
/** Combines several problems: the most serious one by the catalog, with the others attached, each once. */
export function together(problems: readonly Problem[]): Problem {
  const once = new Map(problems.map((problem) => [`${problem.code} ${problem.param}`, problem]));
  const [first, ...others] = [...once.values()].toSorted((a, b) => RANK.get(a.code)! - RANK.get(b.code)!);
  return others.length === 0 ? first! : first!.with({ others });
}

/** The body as the schema's type. Errors: parameter_missing, parameter_invalid with the path; several at once. */
export function checkBody<S extends TSchema>(schema: S, body: ParsedBody): Static<S> {
  const problems = [...(body.refused ?? []), ...faultsOf(schema, body).values()];
  if (problems.length > 0) throw together(problems);
  return body.value as Static<S>;
}

/** Returns the result of `read`. A Problem that it throws is added to `faults` instead. */
export function collect<T>(faults: Problem[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    faults.push(error, ...error.others);
    return undefined;
  }
}

/** Reads a value from parameters of a body, for rules that a schema cannot express. It may throw a Problem. */
type Reading<T> = { params: readonly string[]; read: () => T };
export type ReadingsOf<R> = { [K in keyof R]: Reading<R[K]> };

/**
 * The body as the schema's type, and the results of `readings`. All schema errors and all Problems of readings are reported
 * together; a reading runs only if the schema finds no error in its parameters.
 */
export function readBody<S extends TSchema, R extends Record<string, unknown>>(
  schema: S,
  body: ParsedBody,
  readings: (given: Static<S>) => ReadingsOf<R>,
): { given: Static<S>; read: R } {
  const faults = faultsOf(schema, body);
  const given = body.value as Static<S>;
  const problems = [...(body.refused ?? []), ...faults.values()];
  const read: Record<string, unknown> = {};
  const isAtFault = (param: string) =>
    [...faults.keys()].some((at) => at === '' || at === param || at.startsWith(`${param}.`) || at.startsWith(`${param}[`));
  for (const [name, { params, read: run }] of Object.entries<Reading<unknown>>(readings(given))) {
    if (faults.size > 0 && params.some(isAtFault)) continue;
    read[name] = collect(problems, run);
  }
  if (problems.length > 0) throw together(problems);
  return { given, read: read as R };
}
