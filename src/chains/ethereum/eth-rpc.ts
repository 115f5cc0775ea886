/** JSON-RPC 2.0 to an Ethereum node or provider: batches as large as it accepts, waits for its rate limits, exact hex. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Outgoing, OutgoingError } from '#connections';
import { type Coin, chainOf, isToken } from '#core/coin';
import { invariant } from '#core/invariant';
import type { Log } from '#log';
import { ChainError } from '../chain-source.ts';
import { fields, isAway, requestFrom } from '../reply.ts';

export const REPLY_LIMITS: EthLimits = { timeoutMs: 30_000, maxReplyBytes: 128 * 1024 * 1024 };
/** Initial batch size; halved for a provider that rejects it. */
const BATCH = 50;
/** A missing method is tried again after this long, because the node may have been replaced. */
const ASK_AGAIN_MS = 600_000;
/** How often a rate-limited call is retried, and the longest wait before each retry. */
const TRIES = 4;
const MAX_WAIT_MS = 10_000;

export type EthCall = readonly [method: string, ...params: unknown[]];
type EthError = { code: number; message: string };
export type EthReply = { result: unknown; error: EthError | null };
/** Time and size limits of one reply. */
type EthLimits = { timeoutMs: number; maxReplyBytes: number };
/** A call that not every node supports. */
type EthAttempt = {
  call: EthCall;
  /** What is missing when the node rejects it: the method, unless only these parameters are unusual. */
  as?: string;
  limits?: EthLimits;
  /** Whether an error means that the node never supports this. */
  lacks?: (error: EthError) => boolean;
};

export type EthRpc = {
  /** One call; its error as ChainError. */
  call(method: string, ...params: unknown[]): Promise<unknown>;
  /** Many calls, in order; errors of single calls are values, those of the connection are thrown as ChainError. */
  batch(calls: readonly EthCall[]): Promise<EthReply[]>;
  /** One call; its error as a value. */
  one(call: EthCall, limits: EthLimits): Promise<EthReply>;
  /** How many calls were sent, which is what providers count. */
  sent(): number;
  /**
   * A call whose result can be replaced by another method; undefined when the node lacks the method, returns an error, or returns an
   * unusable reply (too large, too late, or broken). Throws ChainError only when the node cannot be reached.
   */
  attempt(question: EthAttempt): Promise<unknown>;
  /** The number of unusable replies by method. */
  unusable(): ReadonlyMap<string, number>;
  close(): void;
};

/**
 * The source answered, but not this question: with an error, or with something else. It may answer others, so it
 * is not away; where the question is about the state of a block, `answerOrNull` makes it "cannot say".
 */
export class AnsweredError extends ChainError {}
/** Null when the source cannot say. Errors: ChainError when it does not answer at all, or limits requests. */
export async function answerOrNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof AnsweredError) return null;
    throw error;
  }
}
/** The same for a value that is at hand. */
export function readOrNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof AnsweredError) return null;
    throw error;
  }
}

export const arrayOf = (value: unknown): unknown[] => {
  if (!Array.isArray(value)) throw malformed('a list');
  return value;
};
const malformed = (what: string) => new AnsweredError('outage', `the source returned an invalid value: expected ${what}`);

/** A QUANTITY: hex digits of any length. Anything else makes the reply unusable. */
export function quantity(value: unknown): bigint {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{1,64}$/.test(value)) throw malformed('a number');
  return BigInt(value);
}
export function smallNumber(value: unknown): number {
  const number = Number(quantity(value));
  if (!Number.isSafeInteger(number)) throw malformed('a height, a time or an index');
  return number;
}
/** 32 bytes with 0x, in lowercase. */
export function hash32(value: unknown): string {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{64}$/.test(value)) throw malformed('a hash');
  return value.toLowerCase();
}
/** The 20 bytes of an address as 40 lowercase hex digits; null when it is missing. */
export function account(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{40}$/.test(value)) throw malformed('an address');
  return value.slice(2).toLowerCase();
}
/** A transaction that was asked for by its ID; null when the source does not know it. Errors: AnsweredError when it is anything else. */
export function transactionOrNull(value: unknown, txid: string): Record<string, unknown> | null {
  if (value === null) return null;
  const found = fields(value);
  if (hash32(found.hash) !== txid.toLowerCase()) throw malformed(`transaction ${txid}`);
  return found;
}
export const toHex = (number: number | bigint): string => `0x${number.toString(16)}`;

/** Whether the node does not support or allow the method, so an early retry is useless. */
export const isMissing = ({ code, message }: EthError): boolean =>
  code === -32601 ||
  code === -32004 ||
  (/method/i.test(message) &&
    /not (found|supported|available|allowed|enabled|whitelisted)|disabled|does not exist|unsupported/i.test(message));
/** A search of logs covers too many blocks, finds too much or takes too long; a shorter one may do. */
export const isRangeLimit = ({ message }: EthError): boolean =>
  (/range|block count|too many (blocks|results|logs)|more than \d{1,20} (results|logs)|limit(ed)? to|response (size|too)|too large|time.?d? ?out|timeout|deadline/i.test(
    message,
  ) ||
    (/max(imum)? /i.test(message) && /blocks|results|logs/i.test(message))) &&
  !/rate.?limit|too many requests/i.test(message);
const isLimited = ({ code, message }: EthError): boolean =>
  code === 429 || code === -32005 || code === -32029 || /rate.?limit|too many requests|request limit|capacity|throttl/i.test(message);
/** EIP-1474 and the execution APIs: history or state that the node has dropped. */
export const isPruned = ({ code, message }: EthError): boolean =>
  code === 4444 ||
  /pruned|missing trie node|historical state|required historical/i.test(message) ||
  (/state /i.test(message) && /not available/i.test(message));

type Exchanged = { status: number; retryAfter: string | undefined; parsed: unknown; first: number };
type Exchange = (calls: readonly EthCall[], limits: EthLimits) => Promise<Exchanged>;

/** One HTTP request with these calls, numbered from `first`. */
function createExchange({
  who,
  url,
  outgoing,
  counter,
}: {
  who: string;
  url: string;
  outgoing: Outgoing;
  counter: { next: number };
}): Exchange {
  return async (calls, limits) => {
    const first = counter.next;
    counter.next += calls.length;
    const body = calls.map(([method, ...params], i) => ({ jsonrpc: '2.0', id: first + i, method, params }));
    const reply = await requestFrom(outgoing, who, {
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: Buffer.from(JSON.stringify(calls.length === 1 ? body[0] : body)),
      gzip: true,
      ...limits,
    });
    let parsed: unknown = null;
    try {
      parsed = JSON.parse(Buffer.from(reply.body).toString());
    } catch (cause) {
      // A rate limit or a rejected batch may arrive as an HTML page. Only the status counts.
      if (reply.status === 200 && calls.length === 1) throw new AnsweredError('outage', `${who} answered no JSON`, { cause });
    }
    return { status: reply.status, retryAfter: reply.headers['retry-after'], parsed, first };
  };
}

/** Replies of which some are null: to be sent again after `waitMs` (0: after our own pause), or at once in smaller batches. */
type Read = { replies: (EthReply | null)[]; waitMs: number | null } | 'smaller';

/** What the reply to these calls means. Errors: ChainError outage. */
export function readExchange(calls: readonly EthCall[], { status, retryAfter, parsed, first }: Exchanged, who = 'the ETH source'): Read {
  const again = (): Read => ({ replies: calls.map(() => null), waitMs: waitOf(retryAfter) });
  if (status === 429 || (status === 503 && retryAfter !== undefined)) return again();
  const whole = Array.isArray(parsed) ? null : errorOf(parsed);
  const answers = new Map((Array.isArray(parsed) ? parsed : [parsed]).map((answer) => [String(fields(answer).id), fields(answer)]));
  if (calls.length > 1 && (!Array.isArray(parsed) || calls.some((_, i) => !answers.has(String(first + i))))) {
    const limit = whole ?? (Array.isArray(parsed) ? parsed.map(errorOf).find((error) => error && isLimited(error)) : null);
    if (limit && isLimited(limit)) return again();
    if (status >= 500) throw new ChainError('outage', `${who} answered status ${status}`);
    // It rejects batches of this size, or all batches.
    return 'smaller';
  }
  const replies = calls.map((_, i): EthReply | null => {
    // A rejection before the call was parsed has no id.
    const answer = answers.get(String(first + i)) ?? (calls.length === 1 && whole ? fields(parsed) : undefined);
    const error = answer && errorOf(answer);
    // A search that covers too much is not answered later either.
    if (error && isLimited(error) && !(calls[i]![0] === 'eth_getLogs' && isRangeLimit(error))) return null;
    if (error) return { result: null, error };
    if (status === 401 || status === 403) throw new ChainError('outage', `${who} refuses the key, user or password in its URL`);
    if (status >= 500) throw new ChainError('outage', `${who} answered status ${status}`);
    if (!answer || !('result' in answer)) throw new AnsweredError('outage', `${who} answered status ${status} and another request`);
    return { result: answer.result, error: null };
  });
  return { replies, waitMs: replies.includes(null) ? waitOf(retryAfter) : null };
}

type Batch = (calls: readonly EthCall[], limits?: EthLimits) => Promise<EthReply[]>;

/** Sends calls in batches as large as the node accepts, and again what it limited. */
function createBatches({
  coin,
  who,
  exchange,
  log,
  retryMs,
  signal,
}: {
  coin: Coin;
  who: string;
  exchange: Exchange;
  log: Log;
  retryMs: number;
  signal: AbortSignal;
}): Batch {
  const limitedNow = () => new ChainError('outage', `${who} limits requests; it is asked again later`);
  let batchSize = BATCH;
  let smallerSince = 0;
  /** Sends the same calls in smaller batches, and keeps that size. */
  const sendSmaller = async (calls: readonly EthCall[], limits: EthLimits): Promise<EthReply[]> => {
    // Kept, because a part may be halved again.
    const size = Math.max(1, Math.floor(calls.length / 2));
    batchSize = size;
    smallerSince = performance.now();
    log.debug({ coin, calls: calls.length, now: size }, 'The source did not answer a batch; sending smaller batches');
    const replies: EthReply[] = [];
    for (let i = 0; i < calls.length; i += size) replies.push(...(await batch(calls.slice(i, i + size), limits)));
    return replies;
  };
  const send = async (calls: readonly EthCall[], limits: EthLimits): Promise<Exclude<Read, 'smaller'>> => {
    let read: Read;
    try {
      read = readExchange(calls, await exchange(calls, limits), who);
    } catch (error) {
      // Single calls may fit.
      if (calls.length === 1 || !isTooLarge(error)) throw error;
      read = 'smaller';
    }
    return read === 'smaller' ? { replies: await sendSmaller(calls, limits), waitMs: null } : read;
  };
  const pause = async (ms: number): Promise<void> => {
    if (ms > MAX_WAIT_MS) throw limitedNow();
    await sleep(ms, undefined, { signal }).catch((cause) => {
      throw new ChainError('outage', `the connection to ${who} was closed`, { cause });
    });
  };
  const batch: Batch = async (calls, limits = REPLY_LIMITS) => {
    if (batchSize < BATCH && performance.now() - smallerSince > ASK_AGAIN_MS) batchSize = BATCH;
    const done: EthReply[] = new Array(calls.length);
    let open = [...calls.entries()];
    for (let tries = 1; open.length > 0; tries++) {
      const limited: typeof open = [];
      let pauseMs = 0;
      for (let i = 0; i < open.length; ) {
        const part = open.slice(i, i + batchSize);
        i += part.length;
        const { replies, waitMs } = await send(
          part.map(([, call]) => call),
          limits,
        );
        for (const [j, entry] of part.entries()) {
          const reply = replies[j];
          if (reply) done[entry[0]] = reply;
          else limited.push(entry);
        }
        if (waitMs === null) continue;
        pauseMs = waitMs || retryMs * 2 ** (tries - 1);
        limited.push(...open.slice(i));
        break;
      }
      if (limited.length > 0) {
        if (tries >= TRIES) throw limitedNow();
        await pause(pauseMs);
      }
      open = limited;
    }
    return done;
  };
  return batch;
}

/** Creates the connection; it sends on demand. `coin` names the chain. `retryMs`: the first pause after a rate limit without Retry-After. */
export function createEthRpc({
  coin = 'ETH',
  url,
  outgoing,
  log,
  retryMs = 1_000,
}: {
  coin?: Coin;
  url: string;
  outgoing: Outgoing;
  log: Log;
  retryMs?: number;
}): EthRpc {
  const closing = new AbortController();
  const missing = new Map<string, number>();
  const unusable = new Map<string, number>();
  const counter = { next: 1 };
  const who = `the ${isToken(coin) ? chainOf(coin).networkName : coin} source`;
  const exchange = createExchange({ who, url, outgoing, counter });
  const batch = createBatches({ coin, who, exchange, log, retryMs, signal: closing.signal });
  const single = async (call: EthCall, limits?: EthLimits): Promise<EthReply> => {
    const [reply] = await batch([call], limits);
    invariant(reply, 'a call has a reply');
    return reply;
  };
  const attempt: EthRpc['attempt'] = async ({ call, as = call[0], limits = REPLY_LIMITS, lacks = isMissing }) => {
    const [method] = call;
    const since = missing.get(as);
    if (since !== undefined && performance.now() - since < ASK_AGAIN_MS) return undefined;
    try {
      const { result, error } = await single(call, limits);
      if (!error) {
        missing.delete(as);
        return result ?? undefined;
      }
      if (lacks(error)) missing.set(as, performance.now());
      else log.debug({ coin, method, reason: error.message }, 'The source does not support this call');
    } catch (error) {
      if (!(error instanceof ChainError) || error.kind !== 'outage' || isAway(error)) throw error;
      unusable.set(method, (unusable.get(method) ?? 0) + 1);
      log.warn({ coin, method, reason: error.message }, 'Cannot use a response from the source; trying a different method');
    }
    return undefined;
  };
  return {
    batch: (calls) => batch(calls),
    one: (call, limits) => single(call, limits),
    sent: () => counter.next - 1,
    attempt,
    unusable: () => unusable,
    call: async (method, ...params) => {
      const { result, error } = await single([method, ...params]);
      if (error) throw failure(error, method);
      return result;
    },
    close: () => closing.abort(),
  };
}

/** The ChainError for an error of a single call. */
export const failure = (error: EthError, method: string): ChainError =>
  isPruned(error)
    ? new AnsweredError('pruned', `the source has dropped that part of the history: ${error.message}`)
    : isMissing(error)
      ? new AnsweredError('unsupported', `the source has no ${method}`)
      : new AnsweredError('outage', `${method}: ${error.message}`);

/** Receipts of single transactions, where those of a block do not come together. Errors: ChainError. */
export async function singleReceipts(txids: readonly string[], { batch }: Pick<EthRpc, 'batch'>): Promise<unknown[]> {
  const replies = await batch(txids.map((txid) => ['eth_getTransactionReceipt', txid]));
  return replies.map(({ result, error }) => {
    if (error) throw failure(error, 'eth_getTransactionReceipt');
    return result;
  });
}
/** Whether a reply was larger than its limit: a part of it may be read. */
export const isTooLarge = (error: unknown): boolean =>
  error instanceof ChainError && error.cause instanceof OutgoingError && error.cause.class === 'too_large';

function errorOf(answer: unknown): EthError | null {
  const { error } = fields(answer);
  if (error === null || error === undefined) return null;
  const { code, message } = fields(error);
  return { code: typeof code === 'number' ? code : 0, message: typeof message === 'string' ? message : String(error) };
}

/** Retry-After in seconds; for other forms our own pauses apply. */
const waitOf = (retryAfter: string | undefined): number => (/^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1_000 : 0);
