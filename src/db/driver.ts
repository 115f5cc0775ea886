/**
 * A pool of connections to PostgreSQL, and `sql` over it. Statements that follow each other use one connection, which has their plans. A
 * transaction has its connection for itself: it gets one on which nothing is on its way, and one that it leaves inside a transaction is
 * thrown away. Nothing is waited for without end: each host is tried for a limited time, and then the statement fails with the reason.
 * See docs/decisions/driver.md.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import { CopyInJob, CopyOutJob, CursorJob, closedError, EachJob, Job, Link, type Place, type Watch } from './link.ts';
import { compile, createTag, type Row, type Runner, type Settle, type Statement, type Tag } from './sql.ts';

/** What connections of several pools have in common. */
type Joint = Watch & {
  /** Ends all connections at once. */
  hangUps?: Set<() => void>;
  /** How long hosts of which none is a primary are tried. */
  patienceMs?: number;
  /** Run on each new connection, because poolers refuse settings as startup parameters. */
  onopen?: string;
  /** While the database is away, statements fail instead of waiting for a connection. */
  isAway?: () => boolean;
};
export type PoolOptions = {
  /** A URL, which may name several hosts, or the parts of it. */
  url?: string;
  host?: string;
  port?: number;
  database?: string;
  user?: string;
  max?: number;
  /** Refuses a standby. */
  isPrimary?: boolean;
  parameters?: Readonly<Record<string, string>>;
  /** How long a connection is used at most; without it, for as long as it lives. */
  lifetimeMs?: number;
  joint?: Joint;
  onclose?: () => void;
};

type Work<T> = (tx: TransactionTag) => Promise<T> | T;
export type TransactionTag = Tag & { savepoint<T>(work: Work<T>): Promise<T> };
type Reserved = Tag & { release(): void };
type Listening = { unlisten(): Promise<void> };
export type Pool = Tag & {
  begin<T>(work: Work<T>): Promise<T>;
  begin<T>(mode: string, work: Work<T>): Promise<T>;
  /** A connection for its holder alone. */
  reserve(): Promise<Reserved>;
  /** Hears notifications, on a connection of its own that is replaced when it ends; `onlisten` is called each time it listens. */
  listen(channel: string, hear: (payload: string) => void, onlisten?: () => void): Promise<Listening>;
  /** Waits for what is on its way, for at most so many seconds. */
  end(options?: { timeout?: number }): Promise<void>;
};

const failure = (code: string, message: string, more: object = {}) => Object.assign(new Error(message), { code, ...more });
const NOT_PRIMARY = 'The database server is a standby, and accepts no writes. Connect to the primary, or list all servers in DATABASE_URL';
/** A connection takes no more statements than this before the first is answered. */
const MOST_PENDING = 100;
/**
 * A pool that has connections opens another one when none of them was free for this long. All that runs in the background asks at once
 * when a service starts, and is answered by a few: a connection costs the server as much as a hundred statements, and megabytes.
 */
const GROW_AFTER_MS = 20;

// Places ----------------------------------------------------------------------------------------------------------------

type Places = { places: Place[]; accepts: 'any' | 'primary' | 'read-write'; isTlsOptional: boolean };
/** Parameters of a URL that are not sent to the server. */
const NOT_SENT = new Set(['host', 'sslmode', 'ssl', 'sslnegotiation', 'sslrootcert', 'target_session_attrs']);

/**
 * How `sslmode` and `sslrootcert`, a file or `system`, are meant: as in `libpq`, but only `prefer` and `allow` do without TLS, where the
 * server has none.
 */
function tlsOf(mode: string | null, root: string | null): false | ConnectionOptions {
  if (root === 'system') return {};
  if (!mode || mode === 'disable' || mode === 'false') return false;
  if (mode === 'allow' || mode === 'prefer' || (mode === 'require' && root === null)) return { rejectUnauthorized: false };
  const isNameChecked = mode !== 'require' && mode !== 'verify-ca';
  return { ...(root !== null && { ca: readFileSync(root) }), ...(!isNameChecked && { checkServerIdentity: () => undefined }) };
}

/**
 * Several hosts in a URL are tried in turn, and standbys are left out. A socket folder may be given like in `libpq`:
 * `postgres://user@localhost/database?host=/run/postgresql`. What is not given comes from the variables of `libpq`, such as PGPASSWORD.
 */
function readPlaces({ url = 'postgres://', host, port, database, user, isPrimary, parameters = {} }: PoolOptions): Places {
  const [, before = '', written = ''] = /^(\w+:\/\/(?:[^/?]*@)?)([^/?]*)/.exec(url) ?? [];
  const hosts = decodeURIComponent(written).split(',');
  const { username, password, pathname, searchParams: asked } = new URL(`${before}host${url.slice(before.length + written.length)}`);
  const mode = asked.get('sslmode') ?? asked.get('ssl');
  const folder = host ?? asked.get('host');
  const ends = folder ? [folder] : hosts;
  const common = {
    user: user ?? decodeURIComponent(username),
    database: database ?? decodeURIComponent(pathname.slice(1)),
    password: decodeURIComponent(password),
    ssl: tlsOf(mode, asked.get('sslrootcert')),
    parameters: { ...parameters, ...Object.fromEntries([...asked].filter(([name]) => !NOT_SENT.has(name))) },
    // All hosts have been tried when a caller gets its 503.
    timeoutMs: ends.length === 1 ? 5_000 : Math.max(2_000, 4_500 / ends.length),
  };
  const portOf = (text: string | undefined): number | undefined => (text ? Number(text) : port);
  const places = ends.map((end): Place => {
    if (folder) return { ...common, host: folder, port: portOf(/:(\d+)$/.exec(hosts[0]!)?.[1]) };
    const [, name = '', own] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(end) ?? [];
    return { ...common, host: name.replace(/^\[|\]$/g, ''), port: portOf(own) };
  });
  return {
    places,
    accepts: !isPrimary ? 'any' : asked.get('target_session_attrs') === 'read-write' ? 'read-write' : 'primary',
    isTlsOptional: mode === 'prefer' || mode === 'allow',
  };
}

// Connecting ------------------------------------------------------------------------------------------------------------

const runOn = (link: Link, text: string): Promise<Row[]> =>
  new Promise((resolve, reject) => {
    link.send(new Job({ text, types: [], values: [] }, 'simple', { resolve: resolve as Settle['resolve'], reject }));
  });

const lateError = ({ host: address, port }: Link) =>
  failure('CONNECT_TIMEOUT', `The database at ${address}:${port} did not answer in time`, { address, port });
/** The codes of ours, of the network and of PostgreSQL; any other is one of TLS. */
const PLAIN_CODE = /^(CONNECTION_\w+|E[A-Z]+|EAI_\w+|\w{5})$/;
/** Why no connection could be opened, with a code: `pg` and TLS have their own ways to say it. */
function connectError(error: Error & { code?: string }, { host, port }: Link): Error {
  const { code, message } = error;
  if (message.startsWith('SASL')) return failure('28P01', message);
  if (code === undefined ? message.includes('SSL') : !PLAIN_CODE.test(code))
    return failure('CONNECTION_INSECURE', `No secure connection to the database at ${host}:${port}: ${message}`, { cause: error });
  return code === undefined ? closedError(error) : error;
}

/** Opens connections to whichever of several servers is the primary. */
class Connector {
  readonly #places: Place[];
  readonly #accepts: Places['accepts'];
  readonly #isTlsOptional: boolean;
  readonly #joint: Joint;
  readonly #opening = new Set<Link>();
  #at = 0;
  #hungUp = 0;
  constructor(options: PoolOptions) {
    const { places, accepts, isTlsOptional } = readPlaces(options);
    this.#places = places;
    this.#accepts = accepts;
    this.#isTlsOptional = isTlsOptional;
    this.#joint = options.joint ?? {};
  }
  async open(): Promise<Link> {
    const began = performance.now();
    const before = this.#hungUp;
    const several = this.#places.length > 1;
    for (let tries = 1; ; tries++) {
      const place = this.#places[this.#at % this.#places.length]!;
      try {
        return await this.#try(place);
      } catch (error) {
        this.#at++;
        const { code } = error as { code?: string };
        const mayHelp = several || code === 'CONNECTION_CLOSED';
        const isPatient = tries < this.#places.length || performance.now() - began < (this.#joint.patienceMs ?? 0);
        if (before !== this.#hungUp || !mayHelp || !isPatient) throw error;
        if (tries >= this.#places.length) await sleep(100);
        if (before !== this.#hungUp) throw error;
      }
    }
  }
  async #try(place: Place): Promise<Link> {
    try {
      return await this.#connect(place);
    } catch (error) {
      if (!this.#isTlsOptional || !/does not support SSL/.test((error as Error).message)) throw error;
      return this.#connect({ ...place, ssl: false });
    }
  }
  async #connect(place: Place): Promise<Link> {
    const link = new Link(place, this.#joint);
    this.#opening.add(link);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      link.hangUp();
    }, place.timeoutMs);
    try {
      await link.connect();
      if (this.#accepts !== 'any') await this.#refuseStandby(link);
      if (this.#joint.onopen) await runOn(link, this.#joint.onopen);
      return link;
    } catch (error) {
      link.hangUp();
      throw isLate ? lateError(link) : connectError(error as Error, link);
    } finally {
      clearTimeout(timer);
      this.#opening.delete(link);
    }
  }
  async #refuseStandby(link: Link): Promise<void> {
    let isStandby = link.settings.in_hot_standby;
    let isReadOnly = link.settings.default_transaction_read_only;
    if (isStandby === undefined || isReadOnly === undefined) {
      const [row] = await runOn(link, `select current_setting('transaction_read_only') as r, pg_catalog.pg_is_in_recovery() as s`);
      isReadOnly = row!.r;
      isStandby = row!.s ? 'on' : 'off';
    }
    if (isStandby === 'on' || (this.#accepts === 'read-write' && isReadOnly === 'on')) throw failure('CONNECTION_NOT_PRIMARY', NOT_PRIMARY);
  }
  hangUp(): void {
    this.#hungUp++;
    for (const link of this.#opening) link.hangUp();
  }
}

// Pool ------------------------------------------------------------------------------------------------------------------

type Waiting = { give(link: Link): void; refuse(error: unknown): void; isAlone: boolean };

class Links {
  readonly #connector: Connector;
  readonly #options: PoolOptions;
  readonly #max: number;
  readonly #all = new Set<Link>();
  /** The one that was used last is used next. */
  readonly #free: Link[] = [];
  readonly #retireAt = new WeakMap<Link, number>();
  #waiting: Waiting[] = [];
  /** Those for whom a connection is being opened, which may go to somebody else. When that fails, they do. */
  readonly #openingFor = new Set<Waiting>();
  #growing: NodeJS.Timeout | null = null;
  #pauseUntil = 0;
  #ending: Promise<void> | null = null;
  #isClosed = false;
  #onQuiet: (() => void) | null = null;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#connector = new Connector(options);
    this.#max = options.max ?? 10;
    options.joint?.hangUps?.add(this.#hangUp);
  }
  /** Passes a connection on: one for statements of anybody, or one for its holder alone until it is given back. */
  take(waiting: Waiting): void {
    const refusal = this.#ending
      ? failure('CONNECTION_ENDED', 'The database connection has been closed')
      : this.#options.joint?.isAway?.()
        ? failure('CONNECTION_AWAY', 'The database does not answer')
        : null;
    const link = refusal === null && this.#free.pop();
    if (refusal) waiting.refuse(refusal);
    else if (link) this.#give(link, waiting);
    else if (this.#size < this.#max) {
      this.#waiting.push(waiting);
      if (this.#size === 0) void this.#open(waiting);
      else this.#growSoon();
    } else {
      const shared = waiting.isAlone || this.#waiting.length > 0 ? null : this.#leastBusy();
      if (shared) waiting.give(shared);
      else this.#waiting.push(waiting);
    }
  }
  /** With those that are being opened. */
  get #size(): number {
    return this.#all.size + this.#openingFor.size;
  }
  #leastBusy(): Link | null {
    let best: Link | null = null;
    for (const link of this.#all)
      if (!link.isReserved && link.pending < Math.min(MOST_PENDING, best?.pending ?? Number.POSITIVE_INFINITY)) best = link;
    return best;
  }
  #give(link: Link, waiting: Waiting): void {
    link.isReserved = waiting.isAlone;
    waiting.give(link);
  }
  async #open(waiting: Waiting): Promise<void> {
    this.#openingFor.add(waiting);
    try {
      const pauseMs = this.#pauseUntil - performance.now();
      if (pauseMs > 0) await sleep(pauseMs);
      if (this.#isClosed) throw closedError();
      const link = await this.#connector.open();
      this.#openingFor.delete(waiting);
      if (this.#isClosed) link.hangUp();
      this.#add(link);
      this.#growSoon();
    } catch (error) {
      this.#openingFor.delete(waiting);
      this.#pause();
      // Without any connection, nothing else will serve the others either.
      const at = this.#waiting.indexOf(waiting);
      const refused = this.#size === 0 ? this.#waiting.splice(0) : at < 0 ? [] : this.#waiting.splice(at, 1);
      for (const { refuse } of refused) refuse(error);
      this.#openMore();
    }
    this.#quiet();
  }
  /** Opens one more when those that are there have kept somebody waiting, and again until nobody waits. */
  #growSoon(): void {
    this.#growing ??= setTimeout(() => {
      this.#growing = null;
      if (this.#waiting.length === 0 || this.#size >= this.#max) return;
      this.#openMore(1);
      this.#growSoon();
    }, GROW_AFTER_MS);
  }
  #pause(): void {
    this.#pauseUntil = performance.now() + 200 + Math.random() * 200;
  }
  /** What still waits needs a connection, unless all are there. */
  #openMore(most = this.#max): void {
    const without = this.#waiting.filter((waiting) => !this.#openingFor.has(waiting));
    for (const waiting of without.slice(0, Math.min(most, this.#max - this.#size))) void this.#open(waiting);
  }
  #add(link: Link): void {
    const { lifetimeMs } = this.#options;
    this.#all.add(link);
    if (lifetimeMs !== undefined) this.#retireAt.set(link, performance.now() + lifetimeMs * (0.5 + Math.random() / 2));
    link.onIdle = () => {
      if (!link.isReserved) this.#serve(link);
    };
    link.onEnd = () => {
      this.#all.delete(link);
      const at = this.#free.indexOf(link);
      if (at >= 0) this.#free.splice(at, 1);
      this.#pause();
      this.#options.onclose?.();
      this.#openMore();
      this.#quiet();
    };
    if (link.end) link.onEnd(link.end);
    else this.#serve(link);
  }
  /** What waits gets a connection on which nothing is on its way. */
  #serve(link: Link): void {
    link.isReserved = false;
    // Nobody gets into the transaction of somebody else.
    if (link.isInside) {
      link.hangUp();
      return;
    }
    if ((this.#retireAt.get(link) ?? Number.POSITIVE_INFINITY) < performance.now()) {
      this.#all.delete(link);
      void link.close();
      return;
    }
    while (this.#waiting.length > 0 && !link.isReserved && link.pending < MOST_PENDING) {
      if (this.#waiting[0]!.isAlone && !link.isFree) return;
      this.#give(link, this.#waiting.shift()!);
    }
    if (link.isFree && !link.isReserved && !this.#free.includes(link)) this.#free.push(link);
    this.#quiet();
  }
  giveBack(link: Link): void {
    if (link.end) return;
    if (link.isFree) this.#serve(link);
    else link.isReserved = false;
  }
  readonly #hangUp = (): void => {
    this.#connector.hangUp();
    for (const { refuse } of this.#waiting.splice(0)) refuse(closedError());
    for (const link of this.#all) link.hangUp();
  };
  #quiet(): void {
    if (
      this.#onQuiet &&
      this.#waiting.length === 0 &&
      this.#openingFor.size === 0 &&
      [...this.#all].every((link) => link.isFree && !link.isReserved)
    )
      this.#onQuiet();
  }
  end(seconds: number): Promise<void> {
    this.#ending ??= this.#end(seconds);
    return this.#ending;
  }
  async #end(seconds: number): Promise<void> {
    if (seconds > 0) {
      const quiet = new Promise<void>((resolve) => {
        this.#onQuiet = resolve;
      });
      this.#quiet();
      const timer = new AbortController();
      await Promise.race([quiet, sleep(seconds * 1_000, undefined, { signal: timer.signal }).catch(() => {})]);
      timer.abort();
    }
    this.#isClosed = true;
    for (const { refuse } of this.#waiting.splice(0)) refuse(failure('CONNECTION_DESTROYED', 'The database connection has been closed'));
    this.#connector.hangUp();
    this.#options.joint?.hangUps?.delete(this.#hangUp);
    await Promise.all([...this.#all].map((link) => (link.isFree ? link.close() : link.hangUp())));
  }
}

// Runners ---------------------------------------------------------------------------------------------------------------

/** Sends statements on what `take` gives for each. */
function createRunner(
  take: (waiting: Waiting) => void,
  {
    note = () => {},
    giveBack = () => {},
  }: { note?(error: unknown, query: Statement<readonly unknown[]>): void; giveBack?(link: Link): void } = {},
): Runner {
  /** Nobody else uses the connection meanwhile. */
  const sendAlone = (job: Job) => {
    const give = (link: Link) => {
      job.onFinish = () => giveBack(link);
      link.send(job);
    };
    take({ give, refuse: job.settle.reject, isAlone: true });
  };
  const send = (query: Statement<readonly unknown[]>, settle: Settle, make: (compiled: ReturnType<typeof compile>) => Job) => {
    let job: Job;
    try {
      job = make(compile(query));
    } catch (error) {
      settle.reject(error);
      return;
    }
    take({ give: (link) => link.send(job), refuse: settle.reject, isAlone: false });
  };
  return {
    forEach: (query, each, settle) => send(query, settle, (compiled) => new EachJob(compiled, query.kind, settle, each)),
    run: (query, { resolve, reject }) => {
      const settle = {
        resolve,
        reject: (error: unknown) => {
          note(error, query);
          reject(error);
        },
      };
      send(query, settle, (compiled) => new Job(compiled, query.kind, settle));
    },
    cursor: (query, size) => ({
      [Symbol.asyncIterator]: () => {
        const job = new CursorJob(compile(query), size);
        sendAlone(job);
        return job.parts();
      },
    }),
    copyOut: async (query) => {
      const job = new CopyOutJob(compile(query));
      sendAlone(job);
      return job.stream;
    },
    copyIn: (query) => {
      const job = new CopyInJob(compile(query));
      sendAlone(job);
      return job.opened.promise;
    },
  };
}

/** What runs between `begin` and its end. A failure of a statement fails it, also when somebody caught it. */
async function runInside<T>(link: Link, work: Work<T>, count: { savepoints: number }, name: string | null): Promise<T> {
  let uncaught: unknown = null;
  let isOver = false;
  const runner = createRunner(
    // Work that continues after the end reaches nobody else's transaction.
    ({ give, refuse }) => (isOver ? refuse(failure('TRANSACTION_ENDED', 'The transaction has ended')) : give(link)),
    {
      note: (error, query) => {
        uncaught ??= error;
        query.forgive();
      },
    },
  );
  const tx: TransactionTag = Object.assign(createTag(runner), {
    savepoint: <R>(inner: Work<R>) => runInside(link, inner, count, `s${count.savepoints++}`),
  });
  if (name) await runOn(link, `savepoint ${name}`);
  try {
    const made = work(tx);
    const result = (await (Array.isArray(made) ? Promise.all(made) : made)) as T;
    if (uncaught) throw uncaught;
    isOver = true;
    if (!name) await runOn(link, 'commit');
    return result;
  } catch (error) {
    isOver = true;
    if (!link.end && link.isInside) await runOn(link, name ? `rollback to ${name}` : 'rollback');
    throw ((error as { code?: string }).code === '25P02' && uncaught) || error;
  }
}

function listenOn(options: PoolOptions): { listen: Pool['listen']; stop(): void } {
  const channels = new Map<string, Set<{ hear(payload: string): void; onlisten(): void }>>();
  const connector = new Connector({ ...options, joint: { ...options.joint } });
  const named = (channel: string) => `"${channel.replaceAll('"', '""')}"`;
  let link: Link | null = null;
  let opening: Promise<Link> | null = null;
  let isStopped = false;
  const hangUp = () => {
    connector.hangUp();
    link?.hangUp();
  };
  options.joint?.hangUps?.add(hangUp);
  const open = async (): Promise<Link> => {
    const opened = await connector.open();
    opened.onNote = (channel, payload) => {
      for (const { hear } of channels.get(channel) ?? []) hear(payload);
    };
    opened.onEnd = () => {
      link = null;
      opening = null;
      void resume();
    };
    if (opened.end) throw opened.end;
    link = opened;
    if (isStopped) opened.hangUp();
    return opened;
  };
  const ready = (): Promise<Link> => {
    opening ??= open().catch((error: unknown) => {
      opening = null;
      throw error;
    });
    return opening;
  };
  /** Listens again on another connection, as long as it takes. */
  const resume = async () => {
    while (!isStopped && channels.size > 0) {
      await sleep(200 + Math.random() * 200, undefined, { ref: false });
      if (isStopped || link) return;
      try {
        const next = await ready();
        await runOn(next, [...channels.keys()].map((channel) => `listen ${named(channel)}`).join('; '));
        for (const listeners of channels.values()) for (const { onlisten } of listeners) onlisten();
        return;
      } catch {
        // The next server is waited for.
      }
    }
  };
  return {
    listen: async (channel, hear, onlisten = () => {}) => {
      const listener = { hear, onlisten };
      const listeners = channels.get(channel) ?? new Set();
      channels.set(channel, listeners.add(listener));
      try {
        await runOn(await ready(), `listen ${named(channel)}`);
      } catch (error) {
        if (!link) void resume();
        throw error;
      }
      onlisten();
      return {
        unlisten: async () => {
          listeners.delete(listener);
          if (listeners.size > 0 || channels.get(channel) !== listeners) return;
          channels.delete(channel);
          if (link) await runOn(link, `unlisten ${named(channel)}`);
        },
      };
    },
    stop: () => {
      isStopped = true;
      hangUp();
      options.joint?.hangUps?.delete(hangUp);
    },
  };
}

/** Opens a pool. Connections are made when they are needed. */
export default function connectPostgres(options: PoolOptions): Pool {
  const links = new Links(options);
  const tag = createTag(createRunner((waiting) => links.take(waiting), { giveBack: (link) => links.giveBack(link) }));
  const hold = () => new Promise<Link>((give, refuse) => links.take({ give, refuse, isAlone: true }));
  const { isAway: _, ...joint } = options.joint ?? {};
  let listening: ReturnType<typeof listenOn> | null = null;
  return Object.assign(tag, {
    begin: async <T>(mode: string | Work<T>, inside?: Work<T>): Promise<T> => {
      const work = typeof mode === 'string' ? inside! : mode;
      const link = await hold();
      try {
        await runOn(link, typeof mode === 'string' ? `begin ${mode}` : 'begin');
        return await new Promise<T>((resolve, reject) => {
          // It fails with its connection, whatever its work still waits for.
          link.onLost = reject;
          runInside(link, work, { savepoints: 0 }, null).then(resolve, reject);
        });
      } finally {
        link.onLost = () => {};
        links.giveBack(link);
      }
    },
    reserve: async () => {
      const link = await hold();
      let isReleased = false;
      const refused = closedError();
      const runner = createRunner(({ give, refuse }) => (isReleased ? refuse(refused) : give(link)));
      return Object.assign(createTag(runner), {
        release: () => {
          if (!isReleased) links.giveBack(link);
          isReleased = true;
        },
      });
    },
    listen: ((...args) => {
      listening ??= listenOn({ ...options, joint });
      return listening.listen(...args);
    }) as Pool['listen'],
    end: async ({ timeout = 2_000 } = {}) => {
      listening?.stop();
      await links.end(timeout);
    },
  }) as Pool;
}
