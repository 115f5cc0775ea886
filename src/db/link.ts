/**
 * One connection to PostgreSQL over `pg`, and the statements that are sent on it. It pipelines: a statement does not wait for the reply to
 * the one before, except around cursors and COPY, which have the connection for themselves. When it ends, everything that still waits on it
 * fails, with the reason of the server if there was one.
 */
import type { Socket } from 'node:net';
import { Readable, Writable } from 'node:stream';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { type Compiled, type Kind, type Row, readerOf, type Settle } from './sql.ts';

/** Where a server is, and as whom to connect; what is empty comes from the variables of `libpq`. */
export type Place = {
  host: string;
  port: number | undefined;
  database: string;
  user: string;
  password: string;
  ssl: false | ConnectionOptions;
  parameters: Readonly<Record<string, string>>;
  timeoutMs: number;
};

/** What of `pg` its types leave out. */
type Wire = NodeJS.EventEmitter & {
  stream: Socket;
  parsedStatements: Record<string, string | undefined>;
  query(text: string): void;
  parse(message: { text: string; name: string; types: readonly number[] }): void;
  bind(message: { statement: string; values: Compiled['values'] }): void;
  describe(message: { type: 'P'; name: string }): void;
  execute(message: { rows: number }): void;
  close(message: { type: 'P'; name: string }): void;
  flush(): void;
  sync(): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
};
type Columns = readonly { name: string; read: (text: string) => unknown }[];
/** A statement that the server knows by name, once its columns are known. */
type Prepared = { name: string; columns: Columns | null };

export const closedError = (cause?: unknown): Error =>
  Object.assign(new Error('The database connection is closed', { cause }), { code: 'CONNECTION_CLOSED' });

/** Rows with their count. */
class Rows extends Array<Row> {
  #count = 0;
  #command = '';
  static override get [Symbol.species]() {
    return Array;
  }
  get count(): number {
    return this.#count;
  }
  get command(): string {
    return this.#command;
  }
  /** From the words with which the server reports it: `INSERT 0 1`. */
  complete(words: string): void {
    this.#command = words.split(' ', 1)[0]!;
    this.#count = Number(words.slice(words.lastIndexOf(' ') + 1)) || 0;
  }
}

const NO_COLUMNS: Columns = [];
/** What the server says when a prepared statement no longer fits its tables: it has not been executed. */
const STALE = new Set(['RevalidateCachedQuery', 'FetchPreparedStatement']);

/** One statement on its way. `pg` calls it back with what the server answers. */
export class Job {
  readonly isExclusive: boolean = false;
  readonly compiled: Compiled;
  readonly kind: Kind;
  readonly settle: Settle;
  /** Set only while it is parsed: `pg` then notes that the server knows it. */
  name: string | undefined;
  text: string;
  failure: unknown = null;
  columns: Columns = NO_COLUMNS;
  /** Not `rows`, which `pg` takes for a limit. */
  found = new Rows();
  results: Rows[] = [];
  key = '';
  link!: Link;
  retried = false;
  onFinish: () => void = () => {};
  constructor(compiled: Compiled, kind: Kind, settle: Settle) {
    this.compiled = compiled;
    this.text = compiled.text;
    this.kind = kind;
    this.settle = settle;
  }
  // `pg` asks every query for a callback.
  callback(): void {}

  submit(wire: Wire): void {
    if (this.kind === 'simple') {
      wire.query(this.text);
      return;
    }
    const { types, values } = this.compiled;
    const known = this.#find(wire, types);
    wire.bind({ statement: known?.name ?? this.name ?? '', values });
    if (known) this.columns = known.columns!;
    else wire.describe({ type: 'P', name: '' });
    this.execute(wire);
  }
  /** The prepared statement, if the server has it already; or else parses it. */
  #find(wire: Wire, types: readonly number[]): Prepared | undefined {
    let name = '';
    if (this.kind === 'named') {
      const { prepared } = this.link;
      this.key = types.length === 0 ? this.text : `${this.text}\n${types}`;
      const known = prepared.get(this.key);
      if (known?.columns) return known;
      // While another one with this text is being parsed, this one is sent without a name.
      if (!known) {
        name = `florin_${++this.link.names}`;
        prepared.set(this.key, { name, columns: null });
        this.name = name;
      }
    }
    wire.parse({ text: this.text, name, types });
    return undefined;
  }
  execute(wire: Wire): void {
    wire.execute({ rows: 0 });
    wire.sync();
  }
  handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }): void {
    this.columns = fields.map(({ name, dataTypeID }) => ({ name, read: readerOf(dataTypeID) }));
  }
  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    const row: Row = {};
    try {
      for (let i = 0; i < fields.length; i++) {
        const { name, read } = this.columns[i]!;
        const text = fields[i]!;
        row[name] = text === null ? null : read(text);
      }
      this.take(row);
    } catch (error) {
      this.failure ??= error;
    }
  }
  take(row: Row): void {
    this.found.push(row);
  }
  handleCommandComplete({ text }: { text: string }, _wire: Wire): void {
    this.found.complete(text);
    if (this.kind !== 'simple') return;
    this.results.push(this.found);
    this.found = new Rows();
    this.columns = NO_COLUMNS;
  }
  handleEmptyQuery(): void {}
  handlePortalSuspended(_wire: Wire): void {}
  handleCopyInResponse(wire: Wire): void {
    wire.sendCopyFail('Nothing to copy from');
  }
  handleCopyData(_message: { chunk: Buffer }): void {}
  handleError(error: unknown, _wire: Wire): void {
    if (error instanceof pg.DatabaseError) this.failure ??= error;
    // No reply will come to what `pg` itself refused: it fails with the connection.
    else this.link.hangUp();
  }
  handleReadyForQuery(): void {}

  /** After the last reply to it. True if it is to be sent once more. */
  finish(wire: Wire): boolean {
    const { failure, link } = this;
    if (this.name !== undefined) {
      const isParsed = wire.parsedStatements[this.name] !== undefined;
      delete wire.parsedStatements[this.name];
      if (!isParsed) link.prepared.delete(this.key);
      else if (failure === null) link.prepared.get(this.key)!.columns = this.columns;
      // The server has it, but its columns are not known.
      else link.prepared.delete(this.key);
      this.name = undefined;
    }
    if (failure === null) {
      this.settle.resolve(this.kind === 'simple' ? (this.results.length > 1 ? this.results : (this.results[0] ?? this.found)) : this.found);
      return false;
    }
    if (STALE.has((failure as { routine?: string }).routine ?? '')) {
      link.prepared.delete(this.key);
      if (!this.retried && !link.isReserved) {
        this.retried = true;
        this.failure = null;
        this.columns = NO_COLUMNS;
        return true;
      }
    }
    this.settle.reject(failure);
    return false;
  }
}
// `pg` accepts only its own queries while it pipelines. The constructor of these does nothing that is needed here.
Object.setPrototypeOf(Job.prototype, pg.Query.prototype);

/** Hands over row by row, and keeps none. */
export class EachJob extends Job {
  readonly each: (row: Row) => void;
  constructor(compiled: Compiled, kind: Kind, settle: Settle, each: (row: Row) => void) {
    super(compiled, kind, settle);
    this.each = each;
  }
  override take(row: Row): void {
    this.each(row);
  }
}

/** Reads rows in parts, while the connection waits. */
export class CursorJob extends Job {
  override readonly isExclusive = true;
  readonly size: number;
  #wire: Wire | null = null;
  #next: PromiseWithResolvers<Row[] | null> = Promise.withResolvers();
  #isOver = false;
  constructor(compiled: Compiled, size: number) {
    super(compiled, 'once', { resolve: () => this.#give(null), reject: (error) => this.#next.reject(error) });
    this.size = size;
    this.#next.promise.catch(() => {});
  }
  override execute(wire: Wire): void {
    this.#wire = wire;
    wire.execute({ rows: this.size });
    wire.flush();
  }
  #give(rows: Row[] | null): void {
    this.#next.resolve(rows);
  }
  override handlePortalSuspended(): void {
    this.link.isPaused = true;
    const { found } = this;
    this.found = new Rows();
    this.#give([...found]);
  }
  override handleCommandComplete(_message: { text: string }, wire: Wire): void {
    this.#end(wire);
  }
  override handleError(error: unknown, wire: Wire): void {
    super.handleError(error, wire);
    this.#end(wire);
  }
  #end(wire: Wire): void {
    if (this.#isOver) return;
    this.#isOver = true;
    wire.sync();
  }
  override finish(): boolean {
    if (this.failure !== null) this.#next.reject(this.failure);
    else this.#give(this.found.length > 0 ? [...this.found] : null);
    return false;
  }
  async *parts(): AsyncGenerator<Row[]> {
    try {
      for (;;) {
        const rows = await this.#next.promise;
        if (rows === null) return;
        yield rows;
        if (this.#isOver) return;
        this.#next = Promise.withResolvers();
        this.#next.promise.catch(() => {});
        this.link.isPaused = false;
        this.link.expect();
        this.execute(this.#wire!);
      }
    } finally {
      this.link.isPaused = false;
      if (!this.#isOver && this.#wire && !this.link.end) {
        this.#wire.close({ type: 'P', name: '' });
        this.#end(this.#wire);
      }
    }
  }
}

/** Sends what `copy … to stdout` writes into a stream. */
export class CopyOutJob extends Job {
  override readonly isExclusive = true;
  readonly stream: Readable;
  constructor(compiled: Compiled) {
    super(compiled, 'simple', { resolve: () => this.stream.push(null), reject: (error) => this.stream.destroy(error as Error) });
    this.stream = new Readable({
      read: () => {
        this.link.isPaused = false;
        this.link.wire.stream.resume();
      },
    });
  }
  override handleCopyData({ chunk }: { chunk: Buffer }): void {
    // The chunk is a view of a buffer that is used again.
    if (this.stream.push(Buffer.from(chunk))) return;
    this.link.isPaused = true;
    this.link.wire.stream.pause();
  }
}

/** Feeds `copy … from stdin` from a stream. */
export class CopyInJob extends Job {
  override readonly isExclusive = true;
  readonly opened = Promise.withResolvers<Writable>();
  readonly #stream: Writable;
  /** What the stream waits for: room for a part, or the end. */
  #done: ((error?: Error | null) => void) | null = null;
  constructor(compiled: Compiled) {
    super(compiled, 'simple', {
      resolve: () => this.#go(),
      reject: (error) => {
        this.opened.reject(error);
        if (this.#done) this.#go(error as Error);
        else this.#stream.destroy(error as Error);
      },
    });
    this.#stream = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        const { wire } = this.link;
        this.#done = done;
        wire.sendCopyFromChunk(chunk);
        if (wire.stream.writableNeedDrain) wire.stream.once('drain', () => this.#go());
        else this.#go();
      },
      final: (done) => {
        this.#done = done;
        this.link.wire.endCopyFrom();
      },
      destroy: (error, done) => {
        if (error && this.failure === null && !this.link.end) this.link.wire.sendCopyFail(error.message);
        done(error);
      },
    });
  }
  #go(error?: Error): void {
    const done = this.#done;
    this.#done = null;
    done?.(error);
  }
  override handleCopyInResponse(): void {
    this.opened.resolve(this.#stream);
  }
}

class Client extends pg.Client {
  readonly #parameters: Place['parameters'];
  constructor(config: pg.ClientConfig, parameters: Place['parameters']) {
    super(config);
    this.#parameters = parameters;
  }
  /** Called by `pg`, which knows only some parameters. */
  getStartupConf(): Record<string, string> {
    return { user: this.user!, database: this.database!, ...this.#parameters };
  }
}

/** What links have in common: how long a reply may take, and what to do with the code of a failed statement. */
export type Watch = { silenceMs?: () => number; failed?: (code: string) => void };

export class Link {
  readonly #client: Client;
  readonly wire: Wire;
  readonly #watch: Watch;
  readonly #sent: Job[] = [];
  #held: Job[] = [];
  #exclusive: Job | null = null;
  #isCorked = false;
  #timer: NodeJS.Timeout | null = null;
  #heard = 0;
  #reason: unknown = null;
  readonly prepared = new Map<string, Prepared>();
  names = 0;
  isReserved = false;
  /** While the reader of a cursor or a copy is behind, the server owes nothing. */
  isPaused = false;
  /** Why it has ended; null while it lives. */
  end: Error | null = null;
  /** Called when nothing is on its way any more, and when it ends. */
  onIdle: () => void = () => {};
  onEnd: (reason: Error) => void = () => {};
  /** The transaction that has it hears of its end. */
  onLost: (reason: Error) => void = () => {};
  onNote: (channel: string, payload: string) => void = () => {};
  readonly settings: Record<string, string> = {};

  constructor(place: Place, watch: Watch) {
    this.#watch = watch;
    this.#client = new Client(
      {
        ...{ host: place.host, port: place.port, database: place.database, user: place.user, ssl: place.ssl as false },
        ...{ password: place.password, keepAlive: true, keepAliveInitialDelayMillis: 10_000, pipeline: true },
      },
      place.parameters,
    );
    // Without one, a file would be searched for it.
    this.#client.password ??= '';
    this.wire = (this.#client as unknown as { connection: Wire }).connection;
    this.wire.on('parameterStatus', ({ parameterName, parameterValue }: { parameterName: string; parameterValue: string }) => {
      this.settings[parameterName] = parameterValue;
    });
    this.#client.on('error', (error) => {
      this.#reason ??= error;
      this.hangUp();
    });
    this.#client.on('notification', ({ channel, payload = '' }) => this.onNote(channel, payload));
  }
  async connect(): Promise<void> {
    await this.#client.connect();
    this.wire.on('end', () => this.#ended());
    this.wire.on('readyForQuery', () => this.#settled());
    this.wire.on('errorMessage', (error: { code?: string }) => {
      const code = error.code ?? '';
      // The server says why it ends the connection.
      if (code.startsWith('57P')) this.#reason ??= error;
      this.#watch.failed?.(code);
    });
    this.wire.stream.on('data', () => {
      this.#heard++;
      this.expect();
    });
  }
  get host(): string {
    return this.#client.host;
  }
  get port(): number {
    return this.#client.port;
  }
  get pending(): number {
    return this.#sent.length + this.#held.length;
  }
  get isFree(): boolean {
    return this.pending === 0;
  }
  /** Whether a transaction is open. */
  get isInside(): boolean {
    return (this.#client as unknown as { getTransactionStatus(): string }).getTransactionStatus() !== 'I';
  }
  send(job: Job): void {
    job.link = this;
    if (this.end) {
      job.failure = this.end;
      job.settle.reject(this.end);
    } else if (this.#exclusive || this.#held.length > 0 || (job.isExclusive && this.#sent.length > 0)) this.#held.push(job);
    else this.#start(job);
  }
  #start(job: Job): void {
    if (job.isExclusive) this.#exclusive = job;
    this.#sent.push(job);
    if (!this.#isCorked) {
      // What is sent in one go is written in one go.
      this.#isCorked = true;
      const { stream } = this.wire;
      stream.cork();
      process.nextTick(() => {
        this.#isCorked = false;
        stream.uncork();
      });
    }
    this.#client.query(job as unknown as pg.Submittable);
    this.expect();
  }
  #settled(): void {
    const job = this.#sent.shift();
    if (!job) return;
    if (job === this.#exclusive) this.#exclusive = null;
    if (job.finish(this.wire)) this.#held.unshift(job);
    else job.onFinish();
    while (this.#held.length > 0 && !this.#exclusive && !(this.#held[0]!.isExclusive && this.#sent.length > 0))
      this.#start(this.#held.shift()!);
    if (this.isFree) this.onIdle();
  }
  #ended(): void {
    if (this.end) return;
    const reason = this.#reason as { code?: string } | null;
    this.end = reason?.code ? (reason as Error) : closedError(reason);
    if (this.#timer) clearTimeout(this.#timer);
    const jobs = [...this.#sent.splice(0), ...this.#held.splice(0)];
    for (const job of jobs) {
      job.failure ??= this.end;
      job.settle.reject(job.failure);
    }
    this.onLost(this.end);
    this.onEnd(this.end);
  }
  /** A reply may wait in the socket while this process was busy, so it gets one more second. */
  expect(): void {
    const silenceMs = this.#watch.silenceMs?.();
    if (!silenceMs) return;
    if (this.#timer) {
      this.#timer.refresh();
      return;
    }
    const check = () => {
      // Nothing is owed on an idle connection, and what is sent in the next second begins to wait then.
      if (this.#sent.length === 0) return;
      const heard = this.#heard;
      setTimeout(() => {
        if (heard === this.#heard && !this.isPaused && this.#sent.length > 0) this.hangUp();
      }, 1_000).unref();
    };
    this.#timer = setTimeout(check, silenceMs).unref();
  }
  /** Ends it at once. */
  hangUp(): void {
    this.wire.stream.destroy();
  }
  /** Ends it once the server knows, which is not waited for without end. */
  async close(): Promise<void> {
    if (this.end) return;
    const timer = setTimeout(() => this.hangUp(), 1_000);
    await this.#client.end();
    clearTimeout(timer);
  }
}
