/** JSON-RPC to a node of the Bitcoin Core family: in batches where it takes them, one by one where it does not. */

import { PARAMS } from '#addresses';
import { type Outgoing, OutgoingError } from '#connections';
import { type BitcoinFamily, COIN, type Coin } from '#core/coin';
import type { Clock } from '#core/dates';
import { invariant } from '#core/invariant';
import { divideCeil, parseExactJson } from '#core/money';
import type { Log } from '#log';
import { ChainError, type FeeTier } from '../chain-source.ts';
import { fields, requestFrom } from '../reply.ts';

const TIMEOUT_MS = 30_000;
export const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** A node that rejects batches gets one again after this long, because it may have been replaced. */
const BATCHES_AGAIN_MS = 600_000;
/** Concurrent calls when each is a request of its own. */
const AT_ONCE = 4;

const WARMING_UP = -28;
const NOT_FOUND = -5;
const OUT_OF_RANGE = -8;
/** Our own code: the node does not allow this call for this user. */
const FORBIDDEN = -403;
/** Also our own: the node's answer is not of the kind that this call has. */
const MALFORMED = -422;

export type CoreCall = readonly [method: string, ...params: unknown[]];
type CoreError = { code: number; message: string };
export type CoreReply = { result: unknown; error: CoreError | null };
/** Receives a reply in parts. `taken`: it needs no JSON parsing; `text`: what is left to parse. */
export type CoreReader = { take(part: Buffer, announced: number): void; taken(): boolean; text(): string };

export type CoreCalls = {
  /** Many calls, in order; errors of single calls are values, those of the connection are thrown as ChainError. */
  post(calls: readonly CoreCall[]): Promise<CoreReply[]>;
  /** One call; its error as ChainError. */
  call(...request: CoreCall): Promise<unknown>;
  /**
   * The same, with a reader for the reply that contains the result of the call at `large`, created again for each try. Null when the
   * reader took everything.
   */
  read<R extends CoreReader>(calls: readonly CoreCall[], large: number, make: () => R): Promise<{ replies: CoreReply[] | null; reader: R }>;
  failure(error: CoreError, method: string): ChainError;
  /** The node's clock at its last reply minus ours; null when it does not report it. */
  clockAheadSeconds(): number | null;
};

export const isNotFound = (error: CoreError | null): boolean => error?.code === NOT_FOUND;
export const rowsOfReply = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');
export const integer = (value: unknown): number => Number(text(value) || '0');
/** A coin amount with eight decimals; nodes may use an exponent for tiny ones. */
export function amount(value: unknown): bigint {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text(value));
  if (!match) throw new ChainError('outage', 'the node answered an invalid amount');
  const shift = 8 + Number(match[4] ?? 0) - (match[3]?.length ?? 0);
  const digits = BigInt(match[2]! + (match[3] ?? ''));
  const units = shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift);
  return match[1] ? -units : units;
}

type Shape = 'object' | 'object or null' | 'list' | 'hex' | 'hash';
const isObject = (result: unknown): boolean => typeof result === 'object' && result !== null && !Array.isArray(result);
/** No transaction, header or block has fewer bytes; one of LTC whose money is all in MWEB has ten in the old form. */
const LEAST_DIGITS = 2 * 10;
const isHex = (result: unknown, least = LEAST_DIGITS): boolean =>
  typeof result === 'string' && result.length >= least && result.length % 2 === 0 && !/[^0-9a-f]/i.test(result);
const IS: Readonly<Record<Shape, (result: unknown) => boolean>> = {
  object: isObject,
  'object or null': (result) => result === null || isObject(result),
  list: Array.isArray,
  hex: (result) => isHex(result),
  hash: (result) => isHex(result, 64) && (result as string).length === 64,
};
/** What a call is answered with. An answer of another kind must not look like one that something is missing. */
function shapeOf([method, , verbosity]: CoreCall): Shape {
  switch (method) {
    case 'getbestblockhash':
    case 'getblockhash':
    case 'sendrawtransaction':
      return 'hash';
    case 'getrawmempool':
      return 'list';
    case 'getblockheader':
      return verbosity === false ? 'hex' : 'object';
    case 'getblock':
      return verbosity === 0 || verbosity === false ? 'hex' : 'object';
    case 'getrawtransaction':
      return verbosity ? 'object' : 'hex';
    case 'gettxout':
      return 'object or null';
    default:
      return 'object';
  }
}

/** The node rejected a batch or sent another reply. Single calls may still work. */
class NoBatch extends Error {}

/** One HTTP request with these calls. Null when `reader` took everything. Errors: ChainError outage; NoBatch when only single calls may work. */
type Exchange = {
  (calls: readonly CoreCall[]): Promise<CoreReply[]>;
  (calls: readonly CoreCall[], reader: CoreReader | undefined): Promise<CoreReply[] | null>;
};
type Connection = { coin: Coin; url: string; outgoing: Outgoing; log: Log; clock: Clock };

function createExchange({ coin, url, outgoing, clock }: Connection): { exchange: Exchange; clockAheadSeconds(): number | null } {
  let nextId = 0;
  let clockAheadSeconds: number | null = null;
  const exchange = async (calls: readonly CoreCall[], reader?: CoreReader): Promise<CoreReply[] | null> => {
    const isBatch = calls.length > 1;
    const first = nextId;
    nextId += calls.length;
    const asked = calls.map(([method, ...params], i) => ({ jsonrpc: '1.0', id: first + i, method, params }));
    const reply = await requestFrom(outgoing, `the ${coin} node`, {
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(isBatch ? asked : asked[0])),
      timeoutMs: TIMEOUT_MS,
      maxReplyBytes: MAX_REPLY_BYTES,
      ...(reader && { take: reader.take }),
    }).catch((error: unknown) => {
      if (isBatch && error instanceof ChainError && error.cause instanceof OutgoingError && error.cause.class === 'too_large')
        throw new NoBatch('the answer to a batch is too large');
      throw error;
    });
    if (reply.status === 401) throw new ChainError('outage', `the ${coin} node refuses user and password`);
    if (reply.status === 403) {
      if (isBatch) throw new NoBatch('status 403');
      return [{ result: null, error: { code: FORBIDDEN, message: 'the node does not allow it' } }];
    }
    const told = Date.parse(reply.headers.date ?? '');
    clockAheadSeconds = Number.isNaN(told) ? null : Math.round((told - clock.now().getTime()) / 1000);
    if (reader?.taken()) return null;
    const body = reader?.text() ?? Buffer.from(reply.body.buffer, reply.body.byteOffset, reply.body.length).toString();
    return readReplies(body, { coin, status: reply.status, first, calls });
  };
  return { exchange: exchange as Exchange, clockAheadSeconds: () => clockAheadSeconds };
}

/** The replies in the order of their calls, whose ids start with `first`. */
function readReplies(
  body: string,
  { coin, status, first, calls }: { coin: Coin; status: number; first: number; calls: readonly CoreCall[] },
): CoreReply[] {
  const isBatch = calls.length > 1;
  let parsed: unknown;
  try {
    parsed = parseExactJson(body);
  } catch (cause) {
    if (isBatch) throw new NoBatch(`status ${status} and no JSON`);
    throw new ChainError('outage', `the ${coin} node answered status ${status} and no JSON`, { cause });
  }
  const answers = new Map((Array.isArray(parsed) ? parsed : [parsed]).map((answer) => [String(fields(answer).id), fields(answer)]));
  return calls.map((call, i) => {
    const answer = answers.get(String(first + i));
    if (!answer && isBatch) throw new NoBatch('it was not answered call by call');
    if (!answer) throw new ChainError('outage', `the ${coin} node answered another request`);
    const error =
      answer.error === null || answer.error === undefined
        ? null
        : { code: integer(fields(answer.error).code), message: text(fields(answer.error).message) };
    if (error?.code === WARMING_UP) throw new ChainError('outage', `the ${coin} node is starting: ${error.message}`);
    if (error === null && !IS[shapeOf(call)](answer.result))
      return { result: null, error: { code: MALFORMED, message: `the ${coin} node answered something else` } };
    return { result: answer.result, error };
  });
}

/** Whether a node takes batches. It is remembered for a while that it does not. */
function createBatchMemory({ coin, log, clock }: Connection) {
  let noBatchesSince: number | null = null;
  return {
    accepts: (): boolean => noBatchesSince === null || clock.monotonicMs() - noBatchesSince > BATCHES_AGAIN_MS,
    accepted: (): void => {
      noBatchesSince = null;
    },
    refused: ({ message }: NoBatch): void => {
      if (noBatchesSince === null)
        log.info({ coin, reason: message }, 'The node does not accept batched calls; sending each call separately');
      noBatchesSince = clock.monotonicMs();
    },
  };
}

const failureOf = (coin: Coin, error: CoreError, method: string): ChainError =>
  /pruned/i.test(error.message)
    ? new ChainError('pruned', `the ${coin} node has pruned that block`)
    : error.code === NOT_FOUND || error.code === OUT_OF_RANGE
      ? new ChainError('not_found', error.message)
      : error.code === -32601
        ? new ChainError('unsupported', `this ${coin} node has no ${method}`)
        : error.code === FORBIDDEN
          ? new ChainError('outage', `the ${coin} node does not allow ${method} to us (rpcallowip, rpcwhitelist)`)
          : new ChainError('outage', `${method}: ${error.message}`);

/** Creates the connection; it sends on demand. */
export function createCoreCalls(connection: Connection): CoreCalls {
  const { exchange, clockAheadSeconds } = createExchange(connection);
  const batches = createBatchMemory(connection);
  const failure = (error: CoreError, method: string) => failureOf(connection.coin, error, method);
  const single = async (call: CoreCall): Promise<CoreReply> => {
    const [reply] = await exchange([call]);
    invariant(reply, 'a call has a reply');
    return reply;
  };
  const oneAfterAnother = async (calls: readonly CoreCall[]): Promise<CoreReply[]> => {
    const replies: CoreReply[] = [];
    for (const call of calls) replies.push(await single(call));
    return replies;
  };
  /** Each call in a request of its own, some at a time. */
  const oneByOne = async (calls: readonly CoreCall[]): Promise<CoreReply[]> => {
    const replies: CoreReply[] = new Array(calls.length);
    const open = calls.entries();
    const work = async () => {
      for (const [i, call] of open) replies[i] = await single(call);
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, calls.length) }, work));
    return replies;
  };
  const post = async (calls: readonly CoreCall[]): Promise<CoreReply[]> => {
    if (calls.length <= 1 || !batches.accepts()) return oneByOne(calls);
    try {
      const replies = await exchange(calls);
      batches.accepted();
      return replies;
    } catch (error) {
      if (!(error instanceof NoBatch)) throw error;
      const replies = await oneByOne(calls);
      // Single calls work but batches do not: Dash Core rejects batches of every user with a list of allowed calls.
      batches.refused(error);
      return replies;
    }
  };
  const read: CoreCalls['read'] = async (calls, large, make) => {
    let refused: NoBatch | null = null;
    if (calls.length === 1 || batches.accepts()) {
      const reader = make();
      try {
        return { replies: await exchange(calls, reader), reader };
      } catch (error) {
        if (!(error instanceof NoBatch)) throw error;
        refused = error;
      }
    }
    // In order: the first result may be older than the rest, never newer. Results of a failed batch do not count.
    const reader = make();
    const before = await oneAfterAnother(calls.slice(0, large));
    const replies = await exchange(calls.slice(large, large + 1), reader);
    const after = await oneAfterAnother(calls.slice(large + 1));
    if (refused) batches.refused(refused);
    return { replies: replies && [...before, ...replies, ...after], reader };
  };
  const call: CoreCalls['call'] = async (...request) => {
    const { result, error } = await single(request);
    if (error) throw failure(error, request[0]);
    return result;
  };
  return { post, call, read, failure, clockAheadSeconds };
}

// Fees that a node of the Bitcoin Core family estimates, in three speeds.

/** Blocks within which a transaction should be mined, slowest first. */
const SPEEDS = [
  { speed: 'slow', blocks: 24 },
  { speed: 'normal', blocks: 6 },
  { speed: 'fast', blocks: 2 },
] as const;

const largest = (...values: readonly bigint[]): bigint => values.reduce((a, b) => (b > a ? b : a));

export async function readCoreFees({ coin, calls: { post } }: { coin: BitcoinFamily; calls: Pick<CoreCalls, 'post'> }): Promise<FeeTier[]> {
  const [pool, ...estimates] = await post([['getmempoolinfo'], ...SPEEDS.map(({ blocks }): CoreCall => ['estimatesmartfee', blocks])]);
  const { mempoolminfee, minrelaytxfee } = fields(pool?.result);
  const known = [mempoolminfee, minrelaytxfee].map((value) => (value === undefined ? 0n : amount(value)));
  let above = largest(PARAMS[coin].floorPerKilobyte, ...known);
  // From slow to fast, so fast is never below normal, nor normal below slow.
  return SPEEDS.map(({ speed }, i): FeeTier => {
    const given = fields(estimates[i]?.result).feerate;
    const perKilobyte = given === undefined || text(given).startsWith('-') ? 0n : amount(given);
    above = largest(above, perKilobyte);
    return { ...feeTier(coin, above), speed, minutes: PARAMS[coin].minutes[speed], source: perKilobyte > 0n ? 'estimate' : 'fallback' };
  }).toReversed();
}

/** The rate and the fee of a typical payment, for a fee in base units per 1,000 virtual bytes. */
export const feeTier = (coin: BitcoinFamily, perKilobyte: bigint): Pick<FeeTier, 'rateE8' | 'units'> => ({
  rateE8: perKilobyte * 100_000n,
  units: divideCeil(perKilobyte * BigInt(COIN[coin].typicalSize), 1_000n),
});
