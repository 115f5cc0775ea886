/** The proven headers that answers of Electrum servers are compared with: from the database, and what is missing there from the servers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ChainError } from '../../chain-source.ts';
import { AUXPOW_BIT, takeAuxpow } from '../auxpow.ts';
import { HEADER_BYTES, HeaderError } from '../header.ts';
import type { HeaderReader, KnownHeader } from '../header-chain.ts';
import type { SentHeader } from '../header-rules.ts';
import type { StoredChain } from '../header-store.ts';
import type { ProofParams } from '../proof-params.ts';
import { take } from '../strict-reader.ts';
import { AnswerError, LARGE_BYTES } from './electrum-connection.ts';
import { ElectrumProofError, isHex } from './electrum-proof.ts';
import type { ElectrumSession } from './electrum-servers.ts';

/** Headers in one request: with the proof of merged mining each has up to two kilobytes. */
const AT_ONCE = 2_016;
const AT_ONCE_MERGED = 500;
export const mostHeaders = ({ auxpow }: ProofParams): number => (auxpow ? AT_ONCE_MERGED : AT_ONCE);
/** Blocks below our tip that are asked for again, because another branch may have replaced them; then ten times as many. */
const OVERLAP = 6;
const MAX_OVERLAP = 6_000;
/** A lookup waits this long for headers; they are read on in the background. */
const WAIT_MS = 8_000;
/** Headers are written to the database after this many requests. */
const SAVE_EVERY = 10;

/** The headers that a server sent, at most as many as were asked for. Errors: ProofError. */
export function readHeaders(params: ProofParams, reply: unknown, most: number): SentHeader[] {
  const { hex, headers } = (typeof reply === 'object' && reply !== null ? reply : {}) as Record<string, unknown>;
  // Version 1.6 lists them; before, they follow each other.
  const parts = Array.isArray(headers) ? headers : hex === '' ? [] : [hex];
  if (parts.length > most || !parts.every(isHex)) throw new ElectrumProofError('sent headers of another form');
  const read: SentHeader[] = [];
  try {
    for (const part of parts) {
      const reader = { bytes: Buffer.from(part, 'hex'), at: 0 };
      while (reader.at < reader.bytes.length) {
        if (read.length === most) throw new ElectrumProofError('sent more headers than asked for');
        const bytes = take(reader, HEADER_BYTES);
        const from = reader.at;
        const isMerged = params.auxpow !== null && (bytes.readUInt32LE(0) & AUXPOW_BIT) !== 0;
        if (isMerged) takeAuxpow(reader);
        read.push({ bytes, auxpow: isMerged ? reader.bytes.subarray(from, reader.at) : null });
      }
    }
  } catch (error) {
    throw error instanceof RangeError ? new ElectrumProofError('sent headers that end too early') : error;
  }
  return read;
}

export type ElectrumHeaders = {
  params: ProofParams;
  checkpointHeight: number;
  /** Before the first `follow` there is none. */
  tip(): KnownHeader | null;
  at(height: number): KnownHeader | null;
  find(hash: string): KnownHeader | null;
  /** Reads what a server has beyond ours, so that its newest block is known. Errors: ServerError; ChainError while there is much to read. */
  follow(session: ElectrumSession): Promise<void>;
};

type HeadersOptions = {
  params: ProofParams;
  checkpointHeight: number;
  /** The headers that a follower in this process keeps; null when there is none. */
  shared(): HeaderReader | null;
  /** Opens the stored headers. */
  open(): Promise<StoredChain>;
  /** Whether followers keep the headers in the database up to date; otherwise what servers show is written there. */
  keptByFollowers: boolean;
};

type Used = Omit<StoredChain, 'chain'> & { chain: HeaderReader };
const used = (chain: HeaderReader): Used => ({ chain, save: async () => {}, catchUp: async () => true });

/** Headers from a height on; fewer than asked for at the end of the server's chain. Errors: ServerError, AnswerError. */
async function askHeaders(chain: HeaderReader, session: ElectrumSession, from: number): Promise<SentHeader[]> {
  const most = mostHeaders(chain.params);
  const reply = await session.ask('blockchain.block.headers', [from, Math.min(most, session.tip().height - from + 1)], LARGE_BYTES);
  try {
    return readHeaders(chain.params, reply, most);
  } catch (error) {
    throw error instanceof ElectrumProofError ? session.leaveOut('wrong', error.message) : error;
  }
}

/** Adds what a server shows. False: its headers do not continue ours. Errors: ServerError. */
async function addShown(chain: HeaderReader, session: ElectrumSession, headers: readonly SentHeader[]): Promise<boolean> {
  try {
    await chain.add(headers, session.name);
    return true;
  } catch (error) {
    if (!(error instanceof HeaderError)) throw error;
    if (error.fault === 'unknown_parent' || error.fault === 'checkpoint') return false;
    throw session.leaveOut(error.fault === 'time_future' ? 'away' : 'wrong', `shows headers that are not valid: ${error.message}`);
  }
}

/** Reads the headers of a server up to its newest block. Errors: ServerError. */
async function readUpTo({ chain, save }: Used, session: ElectrumSession): Promise<void> {
  let overlap = OVERLAP;
  let next: number | null = null;
  for (let requests = 1; ; requests++) {
    const from: number = next ?? Math.max(chain.checkpointHeight + 1, chain.tip().height + 1 - overlap);
    if (from > session.tip().height) break;
    let headers: SentHeader[];
    try {
      headers = await askHeaders(chain, session, from);
    } catch (error) {
      throw error instanceof AnswerError ? session.leaveOut('away', 'does not show its headers') : error;
    }
    if (headers.length === 0) break;
    if (await addShown(chain, session, headers)) {
      next = from + headers.length;
    } else {
      if (next !== null || overlap >= MAX_OVERLAP || from === chain.checkpointHeight + 1)
        throw session.leaveOut('wrong', 'shows headers of another chain');
      overlap *= 10;
    }
    if (requests % SAVE_EVERY === 0) await save();
  }
  await save();
}

export function createElectrumHeaders({ params, checkpointHeight, shared, open, keptByFollowers }: HeadersOptions): ElectrumHeaders {
  let stored: Used | null = null;
  let opening: Promise<Used> | null = null;
  const opened = async (): Promise<Used> => {
    const theirs = shared();
    if (theirs) {
      // Each holds megabytes.
      if (stored?.chain !== theirs) stored = used(theirs);
      return stored;
    }
    opening ??= open();
    try {
      stored = await opening;
      return stored;
    } catch (error) {
      opening = null;
      throw error;
    }
  };
  /** One server at a time is read. */
  let reading: Promise<void> | null = null;
  return {
    params,
    checkpointHeight,
    tip: () => stored?.chain.tip() ?? null,
    at: (height) => stored?.chain.at(height) ?? null,
    find: (hash) => stored?.chain.find(hash) ?? null,
    follow: async (session) => {
      if ((await opened()).chain.find(session.tip().hash)) return;
      // Another process may have stored more, or another branch.
      if (!(await stored!.catchUp())) {
        opening = null;
        await opened();
      }
      const { chain } = stored!;
      const isKnown = (): boolean => chain.find(session.tip().hash) !== null;
      if (isKnown()) return;
      const over = new AbortController();
      // What one server showed may have been all.
      if (reading) await Promise.race([reading.catch(() => {}), sleep(WAIT_MS, undefined, { signal: over.signal }).catch(() => {})]);
      if (isKnown()) return over.abort();
      reading ??= readUpTo({ ...stored!, ...(keptByFollowers && { save: async () => {} }) }, session).finally(() => {
        reading = null;
      });
      const isDone = await Promise.race([
        reading.then(() => true),
        sleep(WAIT_MS, false, { signal: over.signal }).catch(() => false),
      ]).finally(() => over.abort());
      if (!isDone) {
        reading?.catch(() => {});
        const [height, most] = [chain.tip().height, session.tip().height];
        throw new ChainError('outage', `the headers of ${params.coin} are still being read: block ${height} of ${most}`);
      }
      if (!isKnown()) throw session.leaveOut('away', 'is on a branch with less work than the best one');
    },
  };
}
