/**
 * Statements as tagged templates: every value becomes a parameter, fragments and identifiers become text, and a statement is sent when it
 * is awaited. Values are written and read as PostgreSQL's text: int8 and numeric without a scale are bigint.
 */
import type { Readable, Writable } from 'node:stream';

/** A row whose columns the caller has not named. */
// biome-ignore lint/suspicious/noExplicitAny: only the server knows them
export type Row = Record<string, any>;
type Scalar = string | number | bigint | boolean | Date | Uint8Array | null;
/** What a template accepts. */
type Part = Scalar | readonly Scalar[] | readonly Fragment[] | Parameter | Identifier | Values | Fragment;
/** The rows of a statement, and how many it returned or changed. */
export type RowList<T extends readonly unknown[] = Row[]> = T & { readonly count: number; readonly command: string };
/** A fragment of a statement, not run on its own. */
export type Fragment = Statement<readonly unknown[]>;

/** A value with the type that it is sent as. */
class Parameter {
  readonly value: unknown;
  readonly type: number;
  constructor(value: unknown, type: number) {
    this.value = value;
    this.type = type;
  }
}
/** A name of a table or column. */
class Identifier {
  readonly text: string;
  constructor(name: string) {
    this.text = `"${name.replaceAll('"', '""').replaceAll('.', '"."')}"`;
  }
}
/** The columns and values of a row to insert. */
class Values {
  readonly row: Readonly<Record<string, Part>>;
  constructor(row: Readonly<Record<string, Part>>) {
    this.row = row;
  }
}

/** How a statement is sent: prepared under a name, prepared for once, or as plain text that may hold several statements. */
export type Kind = 'named' | 'once' | 'simple';
export type Settle = { resolve(rows: unknown): void; reject(error: unknown): void };
export type Runner = {
  run(query: Statement<readonly unknown[]>, settle: Settle): void;
  forEach(query: Statement<readonly unknown[]>, each: (row: Row) => void, settle: Settle): void;
  cursor(query: Statement<readonly unknown[]>, size: number): AsyncIterable<Row[]>;
  copyOut(query: Statement<readonly unknown[]>): Promise<Readable>;
  copyIn(query: Statement<readonly unknown[]>): Promise<Writable>;
};

/** What a promise is rejected with, as promises declare it. */
type Reason = Parameters<NonNullable<Parameters<Promise<unknown>['catch']>[0]>>[0];

/** A statement that is sent once, when somebody waits for it. */
export class Statement<T extends readonly unknown[]> implements Promise<RowList<T>> {
  readonly strings: readonly string[];
  readonly args: readonly Part[];
  readonly kind: Kind;
  readonly #runner: Runner;
  #reply: Promise<RowList<T>> | null = null;
  constructor(runner: Runner, strings: readonly string[], args: readonly Part[], kind: Kind) {
    this.#runner = runner;
    this.strings = strings;
    this.args = args;
    this.kind = kind;
  }
  get [Symbol.toStringTag](): string {
    return 'Statement';
  }
  get #sent(): Promise<RowList<T>> {
    if (this.#reply) return this.#reply;
    const { promise, resolve, reject } = Promise.withResolvers<RowList<T>>();
    this.#reply = promise;
    this.#runner.run(this as never, { resolve: resolve as Settle['resolve'], reject });
    return promise;
  }
  /** Sends it now. */
  execute(): this {
    void this.#sent;
    return this;
  }
  /** A failure that nobody waits for is no unhandled rejection: the transaction reports it. */
  forgive(): void {
    this.#sent.catch(() => {});
  }
  // biome-ignore lint/suspicious/noThenProperty: it is a promise.
  then<A = RowList<T>, B = never>(
    done?: ((rows: RowList<T>) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#sent.then(done, failed);
  }
  catch<B = never>(failed?: ((reason: Reason) => B | PromiseLike<B>) | null): Promise<RowList<T> | B> {
    return this.#sent.catch(failed);
  }
  finally(last?: (() => void) | null): Promise<RowList<T>> {
    return this.#sent.finally(last);
  }
  /** Its rows one by one, of which none is kept. */
  forEach(each: (row: T extends readonly (infer R)[] ? R : never) => void): Promise<unknown> {
    return new Promise((resolve, reject) => this.#runner.forEach(this as never, each as never, { resolve, reject }));
  }
  /** Its rows, at most so many at a time, while the statement continues. */
  cursor(size: number): AsyncIterable<T extends readonly (infer R)[] ? R[] : never> {
    return this.#runner.cursor(this as never, size) as never;
  }
  /** What `copy … to stdout` writes. */
  readable(): Promise<Readable> {
    return this.#runner.copyOut(this as never);
  }
  /** What `copy … from stdin` reads. */
  writable(): Promise<Writable> {
    return this.#runner.copyIn(this as never);
  }
}

/** The tag, without what depends on where statements are sent. */
export type Tag = {
  (name: string): Identifier;
  (row: Readonly<Record<string, unknown>>): Values;
  <T extends readonly unknown[] = Row[]>(strings: TemplateStringsArray, ...args: readonly Part[]): Statement<T>;
  /** Text as it is: a statement, or a fragment of one. */
  unsafe<T extends readonly unknown[] = Row[]>(text: string, args?: readonly Part[]): Statement<T>;
  /** An array whose type the first element does not tell. */
  array(values: readonly unknown[], type: number): Parameter;
  json(value: unknown): Parameter;
};

/** A tag whose statements a runner sends. */
export function createTag(runner: Runner): Tag {
  const tag = (first: TemplateStringsArray | string | Row, ...args: readonly Part[]) =>
    typeof first === 'string'
      ? new Identifier(first)
      : Array.isArray(first)
        ? new Statement(runner, first, args, 'named')
        : new Values(first as Record<string, Part>);
  return Object.assign(tag, {
    unsafe: (text: string, args: readonly Part[] = []) =>
      // The text has each parameter already.
      new Statement(
        runner,
        [text, ...args.slice(1).map(() => ''), ...(args.length > 0 ? [''] : [])],
        args,
        args.length > 0 ? 'once' : 'simple',
      ),
    array: (values: readonly unknown[], type: number) => new Parameter(values, type),
    json: (value: unknown) => new Parameter(value, OIDS.jsonb),
  }) as unknown as Tag;
}

const OIDS = { bool: 16, bytea: 17, int8: 20, json: 114, timestamptz: 1184, jsonb: 3802 } as const;

export type Compiled = { text: string; types: number[]; values: (string | Buffer | null)[] };

/** The text of a statement with its parameters. Throws if a value is missing. */
export function compile(query: Statement<readonly unknown[]>): Compiled {
  const types: number[] = [];
  const values: Compiled['values'] = [];
  if (query.kind === 'once') {
    for (const arg of query.args) addValue(arg, types, values);
    return { text: query.strings[0]!, types, values };
  }
  return { text: textOf(query, types, values), types, values };
}

function textOf({ strings, args }: Statement<readonly unknown[]>, types: number[], values: Compiled['values']): string {
  let text = strings[0]!;
  for (let i = 0; i < args.length; i++) text += partOf(args[i]!, types, values) + strings[i + 1]!;
  return text;
}

function partOf(part: Part, types: number[], values: Compiled['values']): string {
  if (part instanceof Statement) return textOf(part, types, values);
  if (part instanceof Identifier) return part.text;
  if (part instanceof Values) {
    const entries = Object.entries(part.row);
    const names = entries.map(([name]) => new Identifier(name).text);
    return `(${names.join(',')}) values (${entries.map(([, value]) => partOf(value, types, values)).join(',')})`;
  }
  if (Array.isArray(part) && part[0] instanceof Statement)
    return part.map((fragment) => textOf(fragment as Fragment, types, values)).join(' ');
  return `$${addValue(part as Scalar, types, values)}`;
}

function addValue(part: unknown, types: number[], values: Compiled['values']): number {
  const value = part instanceof Parameter ? part.value : part;
  if (value === undefined) throw Object.assign(new Error('A value of a statement is undefined'), { code: 'UNDEFINED_VALUE' });
  const type = part instanceof Parameter ? part.type : typeOf(value);
  values.push(write(value, type));
  return types.push(type);
}

/** The type of a value; 0 leaves it to the server. */
function typeOf(value: unknown): number {
  switch (typeof value) {
    case 'boolean':
      return OIDS.bool;
    case 'bigint':
      return OIDS.int8;
    case 'object':
      if (value instanceof Date) return OIDS.timestamptz;
      if (value instanceof Uint8Array) return OIDS.bytea;
      return 0;
    default:
      return 0;
  }
}

const bytesOf = (value: Uint8Array): Buffer =>
  Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);

function write(value: unknown, type: number): string | Buffer | null {
  if (value === null) return null;
  if (type === OIDS.jsonb) return JSON.stringify(value);
  if (typeof value !== 'object') return String(value);
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return bytesOf(value);
  if (Array.isArray(value)) return writeArray(value);
  return JSON.stringify(value);
}

/** Words and numbers need no quotes, except NULL. */
const quoted = (text: string): string => (/^[\w.+-]+$/.test(text) && !/^null$/i.test(text) ? text : `"${text.replace(/["\\]/g, '\\$&')}"`);

/** A one-dimensional array as PostgreSQL writes it: `{a,"b \\"c\\"",NULL}`. */
function writeArray(items: readonly unknown[]): string {
  let text = '';
  for (const item of items) {
    if (item === undefined) throw Object.assign(new Error('An element of an array is undefined'), { code: 'UNDEFINED_VALUE' });
    text += item === null ? ',NULL' : `,${quoted(writeItem(item))}`;
  }
  return `{${text.slice(1)}}`;
}
const writeItem = (item: unknown): string =>
  item instanceof Date ? item.toISOString() : item instanceof Uint8Array ? `\\x${bytesOf(item).toString('hex')}` : String(item);

type Read = (text: string) => unknown;
const readArray =
  (read: Read): Read =>
  (text) =>
    Array.from(text.slice(1, -1).matchAll(/"((?:[^"\\]|\\[\s\S])*)"|([^,]+)/g), ([, inQuotes, bare]) =>
      inQuotes !== undefined ? read(inQuotes.replace(/\\([\s\S])/g, '$1')) : bare === 'NULL' ? null : read(bare!),
    );
const isTrue: Read = (text) => text === 't';
const toDate: Read = (text) => new Date(text);
const toBytes: Read = (text) => Buffer.from(text.slice(2), 'hex');
const toJson: Read = (text) => JSON.parse(text);
const asIs: Read = (text) => text;
/** How the types are read, by their OID; any other is text. */
const READS: Readonly<Record<number, Read>> = {
  ...{ [OIDS.bool]: isTrue, [OIDS.bytea]: toBytes, [OIDS.int8]: BigInt, 21: Number, 23: Number, 26: Number, 700: Number, 701: Number },
  ...{ [OIDS.json]: toJson, [OIDS.jsonb]: toJson, 1082: toDate, 1114: toDate, [OIDS.timestamptz]: toDate, 1700: BigInt },
  ...{ 1000: readArray(isTrue), 1001: readArray(toBytes), 1007: readArray(Number), 1009: readArray(asIs), 1016: readArray(BigInt) },
  ...{ 1022: readArray(Number), 1185: readArray(toDate), 1231: readArray(BigInt) },
};
/** How a column is read. */
export const readerOf = (oid: number): Read => READS[oid] ?? asIs;
