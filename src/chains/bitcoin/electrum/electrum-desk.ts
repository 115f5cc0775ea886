/** What lookups by Electrum servers share: transactions read and proven, each once, and what is never asked. */

import { addressOfScript } from '#addresses';
import type { BitcoinFamily, Network } from '#core/coin';
import type { Clock } from '#core/dates';
import { ChainError } from '../../chain-source.ts';
import { HEADER_BYTES, idOf, showHash } from '../header.ts';
import type { RawOutput } from '../raw-block.ts';
import { AnswerError, LARGE_BYTES, ServerError } from './electrum-connection.ts';
import { type ElectrumHeaders, mostHeaders, readHeaders } from './electrum-headers.ts';
import {
  checkBranch,
  ElectrumProofError,
  isHash,
  isHex,
  type ProvenTransaction,
  readBranch,
  readProvenTransaction,
} from './electrum-proof.ts';
import type { ElectrumServers, ElectrumSession } from './electrum-servers.ts';

/** What belongs to payments of this service, which strangers are not asked about. */
export type Ours = {
  hasTransaction(txid: string): Promise<boolean>;
  /** Those of these output scripts (hex) that are deposit addresses. */
  scriptsOf(scripts: readonly string[]): Promise<ReadonlySet<string>>;
};

/** Where a transaction was proven to be. */
export type ProvenPlace = { height: number; hash: string; timeSeconds: number };

/** One entry of the history of a script; `height` 0: it is not in a block. */
export type HistoryEntry = { txid: string; height: number };

/** A proven transaction. `spends`: those of its inputs that may have belonged to the address, as `txid:n`. */
type Part = { height: number; hash: string; pays: boolean; spends: readonly string[] };
/** What is proven of the history of an address so far. */
export type Tally = {
  script: string;
  /** The history that servers agreed on, its heights by transaction, and the newest block of that moment. */
  entries: readonly HistoryEntry[];
  heights: ReadonlyMap<string, number>;
  tip: string;
  /** Their names. They know already that somebody asks about the address. */
  servers: ReadonlySet<string>;
  parts: Map<string, Part>;
  /** Outputs to the address, as `txid:n`. */
  paid: Map<string, bigint>;
};

export type Desk = {
  family: BitcoinFamily;
  network: Network;
  servers: ElectrumServers;
  headers: ElectrumHeaders;
  ours: Ours;
  /** Before a server is asked again that may only be a moment behind. */
  pauseMs: number;
  clock: Clock;
  transactions: Kept<ProvenTransaction>;
  /** Of transactions, of blocks, and of headers below the checkpoint. */
  places: Kept<ProvenPlace>;
  depths: Kept<number>;
  lowHeaders: Kept<Buffer>;
  /** Of addresses with a long history, by output script. Each may take ten megabytes. */
  tallies: Kept<Tally>;
};

/** A cache with a limit: the longest unused goes first. */
type Kept<T> = { get(key: string): T | undefined; set(key: string, value: T): void };
function createKept<T>(most: number, sizeOf: (value: T) => number = () => 1): Kept<T> {
  const values = new Map<string, T>();
  let size = 0;
  return {
    get: (key) => {
      const value = values.get(key);
      if (value === undefined) return undefined;
      values.delete(key);
      values.set(key, value);
      return value;
    },
    set: (key, value) => {
      const before = values.get(key);
      if (before !== undefined) size -= sizeOf(before);
      values.delete(key);
      values.set(key, value);
      size += sizeOf(value);
      for (const [oldest, one] of values) {
        if (size <= most || oldest === key) return;
        values.delete(oldest);
        size -= sizeOf(one);
      }
    },
  };
}

export function createDesk(parts: Pick<Desk, 'family' | 'network' | 'servers' | 'headers' | 'ours' | 'pauseMs' | 'clock'>): Desk {
  return {
    ...parts,
    // An output takes a few hundred bytes beside its script.
    transactions: createKept(16 << 20, ({ bytes, outputs, spends }) => bytes + 300 * (outputs.length + spends.length)),
    places: createKept(10_000),
    depths: createKept(10_000),
    lowHeaders: createKept(10_000),
    tallies: createKept(4),
  };
}

export const scriptOf = ({ script }: RawOutput): string => Buffer.from(script).toString('hex');
export const addressOf = ({ family, network }: Desk, output: RawOutput): string =>
  addressOfScript(scriptOf(output), { coin: family, network }) ?? '';

/** What one server's failure means for the lookup: the next one is asked. Other errors are thrown. */
export function noteFailure(error: unknown, session: ElectrumSession, failures: string[]): void {
  if (error instanceof ElectrumProofError) failures.push(`${session.name} ${session.leaveOut('wrong', `sent ${error.message}`).message}`);
  else if (error instanceof ServerError || error instanceof AnswerError) failures.push(`${session.name} ${error.message}`);
  else throw error;
}

/** One lookup failed, because something could not be proven or witnessed. */
export function lookupFailed({ family }: Desk, what: string, failures: readonly string[]): ChainError {
  const why = failures.length === 0 ? '' : ` (${failures.slice(0, 4).join('; ')})`;
  return new ChainError('outage', `${what}; set more servers in ${family}_ELECTRUM_URL, or try again${why}`);
}

/** JSON-RPC's own errors tell nothing about a transaction: the answer is too large, or the server is broken. */
const isGeneral = (code: number | null): boolean => code !== null && code >= -32_768 && code <= -32_000;

/** A transaction as this server has it. Null: it says that it has none. Errors: ServerError, ProofError. */
export async function askTransaction(
  { family, transactions }: Desk,
  session: ElectrumSession,
  txid: string,
): Promise<ProvenTransaction | null> {
  let hex: unknown;
  try {
    hex = await session.ask('blockchain.transaction.get', [txid], LARGE_BYTES);
  } catch (error) {
    if (error instanceof AnswerError && !isGeneral(error.code)) return null;
    throw error;
  }
  const transaction = readProvenTransaction(hex, txid, family);
  transactions.set(txid, transaction);
  return transaction;
}

/** A transaction that must exist, from any server or from before. Errors: ServerError, ProofError. */
export async function readKnown(desk: Desk, session: ElectrumSession, txid: string): Promise<ProvenTransaction> {
  const found = desk.transactions.get(txid) ?? (await askTransaction(desk, session, txid));
  if (!found) throw new ServerError('away', 'does not have a transaction that is in a block');
  return found;
}

/**
 * Proves headers that are a few below the checkpoint: each must be the parent of the next one, up to those that we have. Null: they are too
 * many, or the server does not show them. Errors: ServerError, ProofError.
 */
async function linkedHeader({ headers, lowHeaders }: Desk, session: ElectrumSession, height: number): Promise<Buffer | null> {
  const { params } = headers;
  let above = headers.checkpointHeight;
  while (headers.at(above - 1)) above--;
  const count = above - height;
  if (count > mostHeaders(params)) return null;
  let shown: Buffer[];
  try {
    shown = readHeaders(params, await session.ask('blockchain.block.headers', [height, count], LARGE_BYTES), count).map(
      ({ bytes }) => bytes,
    );
  } catch (error) {
    if (error instanceof AnswerError) return null;
    throw error;
  }
  if (shown.length < count) return null;
  let next = headers.at(above)!.bytes;
  for (const header of shown.toReversed()) {
    if (!idOf(params, header).equals(next.subarray(4, 36))) throw new ElectrumProofError('headers that do not lead to the checkpoint');
    next = header;
  }
  for (const [i, header] of shown.entries()) lowHeaders.set(String(height + i), header);
  return shown[0]!;
}

/** A header below the checkpoint: linked to it, or the same from two operators. Errors: ChainError, ServerError, ProofError. */
async function lowHeader(desk: Desk, asked: ElectrumSession, height: number): Promise<Buffer> {
  const known = desk.lowHeaders.get(String(height)) ?? (await linkedHeader(desk, asked, height));
  if (known) return known;
  const failures: string[] = [];
  const shown: Buffer[] = [];
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const hex = await session.ask('blockchain.block.header', [height], LARGE_BYTES);
      if (!isHex(hex) || hex.length < 2 * HEADER_BYTES) throw new ElectrumProofError('a header of another form');
      const header = Buffer.from(hex.slice(0, 2 * HEADER_BYTES), 'hex');
      if (shown.some((other) => other.equals(header))) {
        desk.lowHeaders.set(String(height), header);
        return header;
      }
      shown.push(header);
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  throw lookupFailed(
    desk,
    `block ${height} is below the checkpoint of this release, and no two servers show the same header for it`,
    failures,
  );
}

/** The header of the best chain at a height. Errors: ChainError, ServerError, ProofError. */
async function headerAt(desk: Desk, session: ElectrumSession, height: number): Promise<{ header: Buffer; place: ProvenPlace }> {
  const known = desk.headers.at(height);
  if (known) return { header: known.bytes, place: known };
  if (height > desk.headers.checkpointHeight) throw new ServerError('away', `names block ${height}, which is not known yet`);
  const header = await lowHeader(desk, session, height);
  const hash = showHash(idOf(desk.headers.params, header));
  return { header, place: { height, hash, timeSeconds: header.readUInt32LE(68) } };
}

/**
 * How deep the transactions of a block are in its merkle tree: as deep as its coinbase. Anything on another level is not a transaction
 * (CVE-2017-12842). Errors: ServerError, AnswerError, ProofError.
 */
async function depthOf(desk: Desk, session: ElectrumSession, { header, place }: { header: Buffer; place: ProvenPlace }): Promise<number> {
  const known = desk.depths.get(place.hash);
  if (known !== undefined) return known;
  const answer = await session.ask('blockchain.transaction.id_from_pos', [place.height, 0, true]);
  const { tx_hash: txid, merkle } = (typeof answer === 'object' && answer !== null ? answer : {}) as Record<string, unknown>;
  const branch = readBranch(merkle, 0);
  if (!isHash(txid)) throw new ElectrumProofError('a coinbase without a hash');
  checkBranch(txid, branch, header);
  if (!(await readKnown(desk, session, txid)).isCoinbase) throw new ElectrumProofError('another transaction as the coinbase of a block');
  desk.depths.set(place.hash, branch.siblings.length);
  return branch.siblings.length;
}

/** Whether a block that was proven before still belongs to the best chain. Those below the checkpoint cannot change. */
export const isInBestChain = (
  { headers, lowHeaders }: Pick<Desk, 'headers' | 'lowHeaders'>,
  { height, hash }: Pick<ProvenPlace, 'height' | 'hash'>,
): boolean => headers.at(height)?.hash === hash || lowHeaders.get(String(height)) !== undefined;

/** Where a transaction is, as proven before and still true. */
export function knownPlace(desk: Desk, txid: string): ProvenPlace | null {
  const place = desk.places.get(txid);
  return place && isInBestChain(desk, place) ? place : null;
}

/** Proves that a transaction is in the block at a height. Errors: ChainError, ServerError, AnswerError, ProofError. */
export async function provePlace(desk: Desk, session: ElectrumSession, txid: string, height: number): Promise<ProvenPlace> {
  const known = knownPlace(desk, txid);
  if (known?.height === height) return known;
  const at = await headerAt(desk, session, height);
  const answer = await session.ask('blockchain.transaction.get_merkle', [txid, height]);
  const { merkle, pos } = (typeof answer === 'object' && answer !== null ? answer : {}) as Record<string, unknown>;
  const branch = readBranch(merkle, pos);
  checkBranch(txid, branch, at.header);
  if ((await depthOf(desk, session, at)) !== branch.siblings.length)
    throw new ElectrumProofError('a branch that is not as long as that of the coinbase');
  const { hash, timeSeconds } = at.place;
  const place = { height, hash, timeSeconds };
  desk.places.set(txid, place);
  return place;
}

/** The history of a script as a server tells it. Errors: ServerError, AnswerError, ProofError. */
export async function askHistory(session: ElectrumSession, scriptHash: string): Promise<HistoryEntry[]> {
  const answer = await session.ask('blockchain.scripthash.get_history', [scriptHash], LARGE_BYTES);
  if (!Array.isArray(answer)) throw new ElectrumProofError('a history of another form');
  const seen = new Set<string>();
  return answer.map((entry: unknown) => {
    const { tx_hash: txid, height } = (typeof entry === 'object' && entry !== null ? entry : {}) as Record<string, unknown>;
    if (!isHash(txid) || seen.has(txid) || !Number.isSafeInteger(height) || (height as number) < -1)
      throw new ElectrumProofError('a history of another form');
    seen.add(txid);
    return { txid, height: Math.max(0, height as number) };
  });
}
