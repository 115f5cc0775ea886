/**
 * Brings the headers of one source into the header chain of its network, up to the source's tip: a few at once, many in the background.
 * What a source shows beyond that chain does not count, and the reason is named.
 */
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import { type BlockRef, ChainError, type ChainSource } from '../chain-source.ts';
import { AUXPOW_BIT, takeAuxpow } from './auxpow.ts';
import { HEADER_BYTES, HeaderError } from './header.ts';
import type { SentHeader } from './header-rules.ts';
import type { Headers } from './header-service.ts';
import { explainHeaders } from './p2p/peer-status.ts';
import type { ProofParams } from './proof-params.ts';

/** Headers read in one request, and how many may be missing for the caller to wait for them. */
const BATCH = 500;
const FEW = 50;
/** Sources of a network take turns: another one starts when the one whose turn it is brought nothing new for this long. */
const TURN_MS = 20_000;
/** A source that was refused is read again after this long, or when its tip changes. */
const AGAIN_MS = 60_000;

/** The time that is left is shown after this long. */
const FIRST_MS = 1_000;

/** Whose turn it is to bring many headers, and since when they are read. One for each network. */
export type Turn = { name: string | null; lastMs: number; began: { atMs: number; height: number } | null };
export const createTurn = (): Turn => ({ name: null, lastMs: 0, began: null });

/** Why what a source shows does not count now. */
type Refusal = { kind: 'syncing' | 'behind' | 'unproven'; reason: string };

type FedSource = Pick<ChainSource, 'blockAt'> & { readHeaders: NonNullable<ChainSource['readHeaders']> };
type Feed = {
  source: FedSource;
  name: string;
  params: ProofParams;
  headers: Headers;
  turn: Turn;
  /** Whether what it shows has its blocks, because the operator runs it. */
  own?: boolean;
  /** Whether peers bring the headers that this source cannot bring in reasonable time. */
  helped: boolean;
  clock: Clock;
  log: Log;
};

/** A header as sources send it; what follows the merge-mining proof, as in a block, is cut off. */
function cutHeader({ auxpow }: Pick<ProofParams, 'auxpow'>, bytes: Buffer): SentHeader {
  const header = Buffer.from(bytes.subarray(0, HEADER_BYTES));
  if (!auxpow || bytes.length <= HEADER_BYTES || !(header.readUInt32LE(0) & AUXPOW_BIT)) return { bytes: header, auxpow: null };
  const reader = { bytes, at: HEADER_BYTES };
  try {
    takeAuxpow(reader);
  } catch (error) {
    throw error instanceof RangeError ? new HeaderError('malformed', error.message) : error;
  }
  return { bytes: header, auxpow: Buffer.from(bytes.subarray(HEADER_BYTES, reader.at)) };
}

/** The highest block found quickly that the source has in common with the header chain. Errors: HeaderError when there is none. */
async function findCommon({ source, headers }: Feed, tip: BlockRef): Promise<number> {
  const { checkpointHeight } = headers;
  let height = Math.min(tip.height, headers.tip().height);
  for (let step = 1; height > checkpointHeight; step *= 2) {
    if ((await source.blockAt(height))?.hash === headers.at(height)!.hash) return height;
    height -= step;
  }
  const there = await source.blockAt(checkpointHeight);
  if (there?.hash !== headers.at(checkpointHeight)!.hash)
    throw new HeaderError('checkpoint', `its chain does not have block ${checkpointHeight}, the checkpoint of this release`);
  return checkpointHeight;
}

/** The last block that the source has in common with the header chain, for people. Errors: as `findCommon`. */
async function findFork(feed: Feed, tip: BlockRef): Promise<number> {
  const { source, headers } = feed;
  let common = await findCommon(feed, tip);
  let above = Math.min(tip.height, headers.tip().height);
  while (above - common > 1) {
    const middle = (common + above) >> 1;
    if ((await source.blockAt(middle))?.hash === headers.at(middle)?.hash) common = middle;
    else above = middle;
  }
  return common;
}

/** Reads everything up to a tip. The next headers are on their way while the work of the last ones is checked. Errors: HeaderError, ChainError. */
async function readUpTo(feed: Feed, tip: BlockRef): Promise<void> {
  const { source, headers, name, params, turn, clock } = feed;
  const ask = (above: number): Promise<readonly Buffer[]> => {
    const answer = above < tip.height ? source.readHeaders(above + 1, Math.min(BATCH, tip.height - above)) : Promise.resolve([]);
    // A failure is handled where the answer is needed.
    answer.catch(() => {});
    return answer;
  };
  let height = await findCommon(feed, tip);
  let next = ask(height);
  while (height < tip.height) {
    const found = await next;
    // Its chain became shorter meanwhile.
    if (found.length === 0) return;
    next = ask(height + found.length);
    const { added } = await headers.add(
      found.map((bytes) => cutHeader(params, bytes)),
      name,
    );
    if (added > 0 && turn.name === name) turn.lastMs = clock.monotonicMs();
    height += found.length;
    // Somebody else brought them and more.
    if (added > 0 || headers.tip().height <= height) continue;
    const common = await findCommon(feed, tip);
    if (common <= height) continue;
    await next.catch(() => {});
    height = common;
    next = ask(height);
  }
}

const IN_WORDS: Partial<Readonly<Record<HeaderError['fault'], string>>> = {
  unknown_parent: 'its headers do not follow from each other',
  flood: 'it shows a branch with less work than the best chain',
};
const faultOf = (error: HeaderError): Refusal => ({ kind: 'unproven', reason: IN_WORDS[error.fault] ?? error.message });

export type HeaderFeed = {
  /** Reads what is missing up to the tip of the source. Null: the tip is on the best chain. Errors: ChainError of the source. */
  bring(tip: BlockRef): Promise<Refusal | null>;
};

export function createHeaderFeed(feed: Feed): HeaderFeed {
  const { headers, name, turn, clock, log, params } = feed;
  /** Why it cannot bring them, however long it is given. */
  let unable: { reason: string; atMs: number } | null = null;
  let refused: { tip: string; atMs: number; refusal: Refusal } | null = null;
  let running: Promise<void> | null = null;

  const refuse = (tip: BlockRef, refusal: Refusal): Refusal => {
    if (refused?.refusal.reason !== refusal.reason)
      log.warn({ coin: params.coin, source: name, block: tip.hash, reason: refusal.reason }, 'A source shows blocks that are not proven');
    refused = { tip: tip.hash, atMs: clock.monotonicMs(), refusal };
    return refusal;
  };
  const read = async (tip: BlockRef): Promise<Refusal | null> => {
    try {
      await readUpTo(feed, tip);
    } catch (error) {
      if (!(error instanceof HeaderError)) throw error;
      return refuse(tip, faultOf(error));
    }
    // Your own node checked the blocks that peers announced and did not serve.
    if (feed.own && !headers.find(tip.hash)) await headers.admit(tip.hash, { through: true });
    if (headers.find(tip.hash)) return null;
    const branch = `block ${tip.height} that it shows is on a branch with less work than the best chain`;
    return refuse(tip, { kind: 'unproven', reason: `${branch}, which it left after block ${await findFork(feed, tip)}` });
  };
  const missing = (tip: BlockRef): number => tip.height - headers.tip().height;
  const secondsLeft = (tip: BlockRef): number | null => {
    const nowMs = clock.monotonicMs();
    turn.began ??= { atMs: nowMs, height: headers.tip().height };
    const [passedMs, done] = [nowMs - turn.began.atMs, headers.tip().height - turn.began.height];
    return done > 0 && passedMs > FIRST_MS ? Math.ceil((missing(tip) * passedMs) / done / 1000) : null;
  };
  const syncing = (tip: BlockRef): Refusal => {
    const far = explainHeaders(headers.progress().percent, secondsLeft(tip));
    return { kind: 'syncing', reason: unable && !feed.helped ? `${far}; ${unable.reason}` : far };
  };
  /** Reads in the background when it is its turn. */
  const start = (tip: BlockRef): void => {
    const nowMs = clock.monotonicMs();
    if (running || (turn.name !== null && turn.name !== name && nowMs - turn.lastMs < TURN_MS)) return;
    turn.name = name;
    turn.lastMs = nowMs;
    running = read(tip)
      .then(
        () => {},
        (error: unknown) => {
          log.warn({ err: error, coin: params.coin, source: name }, 'Headers could not be read; trying again');
          if (error instanceof ChainError && error.kind === 'pruned') unable = { reason: error.message, atMs: clock.monotonicMs() };
        },
      )
      .finally(() => {
        running = null;
        if (turn.name === name) turn.name = null;
      });
  };
  return {
    bring: async (tip) => {
      if (headers.find(tip.hash)) {
        refused = null;
        unable = null;
        turn.began = null;
        return null;
      }
      if (tip.height < headers.checkpointHeight)
        return { kind: 'behind', reason: `it has not reached block ${headers.checkpointHeight}, the checkpoint of this release` };
      if (refused?.tip === tip.hash && clock.monotonicMs() - refused.atMs < AGAIN_MS) return refused.refusal;
      if (feed.own && headers.knows(tip.hash)) {
        await headers.admit(tip.hash, { through: true });
        if (headers.find(tip.hash)) return null;
      }
      if (running) return syncing(tip);
      if (missing(tip) <= FEW) return read(tip);
      if (!unable || clock.monotonicMs() - unable.atMs >= AGAIN_MS) start(tip);
      return syncing(tip);
    },
  };
}
