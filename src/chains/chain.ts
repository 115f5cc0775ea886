/** What the follower and the look-ups ask of a chain. Amounts are bigint base units. Events are hints, pulls are truth. */
import type { Coin, Network } from '../core/coin.ts';
import type { Lock, TransferKind } from '../core/payment.ts';
import type { Trust } from '../core/trust.ts';

export type BlockRef = { height: number; hash: string; parent: string; time: Date };

/** The number of an output in its transaction, and what it holds. */
export type Output = readonly [n: number, units: bigint];
/** One output (or ETH value move) to a watched key, or all outputs of one transaction to it, as found on the chain. */
export type Sighting = {
  /** Hex of the output script, or the lower-case 20-byte address (ETH). */
  key: string;
  /** Of the first output, where there are more than one. */
  ref: string;
  txid: string | null;
  /** Of all its outputs together. */
  units: bigint;
  /** In their order, where there are more than one. */
  outputs?: readonly Output[];
  kind: TransferKind;
  /** Outpoints it spends (`txid:vout`), for ETH `from:nonce`: the double-spend keys. */
  spends: readonly string[];
  lock: Lock;
};
/** In memory: which keys are watched (a yes may be wrong, and whoever records it makes sure; a no never is), and which outpoints are spent by unconfirmed transfers of ours. */
export type Matcher = {
  has(key: string): boolean;
  /** Whether any outpoint is watched at all: most blocks need not be asked. */
  watchesSpends: boolean;
  spends(outpoint: string): boolean;
  /**
   * Both of bytes, for who has many: of an output script, and of an outpoint as transactions name it (32 bytes of hash, 4 of index).
   * A no is certain; a yes is asked again as text.
   */
  quick?: Readonly<Record<'pays' | 'spends', (bytes: Uint8Array, from: number, to: number) => boolean>>;
  /** ETH: addresses that had been given out lately at that time, for nodes that must be asked for one balance after the other. */
  recent(at: Date): readonly string[] | Promise<readonly string[]>;
  /** Transactions of ours that are in no block. */
  waiting: readonly string[];
};

/** A transaction that spends an outpoint of one of our transfers: perhaps its replacement, or (`failed`) itself, mined without paying. */
export type Conflict = { outpoint: string; txid: string; failed?: boolean };
export type BlockScan = { block: BlockRef; sightings: readonly Sighting[]; conflicts: readonly Conflict[] };
export type MempoolScan = {
  sightings: readonly Sighting[];
  conflicts: readonly Conflict[];
  /** Which txids are now in the mempool. */
  present: Pick<ReadonlySet<string>, 'has'>;
  /** False when not everything that could be new was looked at: then nothing may expire on its account. */
  complete?: boolean;
};

export type ChainHealth = {
  tip: BlockRef;
  headers: number;
  syncing: boolean;
  software: string;
  version: number;
  network: string;
  pruned: boolean;
  txindex: boolean | null;
  /** Null: the source does not say. */
  peers: number | null;
  /** Another one whenever the mempool is. Null or absent: the source cannot tell. */
  mempool?: string | null;
};

/** What an operator should know of a node beyond its health. */
export type NodeInspection = {
  /** Lowest block it still has; null when it has all. */
  prunedBelow: number | null;
  /** Its clock less ours; null when it does not tell. */
  clockAheadSeconds: number | null;
  /** What is asked of a node and this one does not do, and why. */
  missing: readonly { capability: string; reason: string }[];
  /** What it says of itself. */
  warnings: readonly string[];
};

/** `outage`: cannot be reached or still starting (retry). `unsupported`: no configured source can answer. */
export class ChainError extends Error {
  readonly kind: 'outage' | 'unsupported' | 'not_found' | 'pruned' | 'wrong_network';
  constructor(kind: ChainError['kind'], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ChainError';
    this.kind = kind;
  }
}

/** Null where the source does not know what was asked for. */
export async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'not_found') return null;
    throw error;
  }
}

/** What is already known of a transaction that is looked up. */
export type TransactionHint = { blockHash: string };
export type ChainTransaction = {
  txid: string;
  status: 'pending' | 'confirmed' | 'failed' | 'replaced';
  confirmations: number;
  blockHeight: number | null;
  blockHash: string | null;
  timestamp: Date | null;
  amountUnits: bigint;
  /** Null where the chain does not say (an LTC HogEx), or the source does not know. */
  feeUnits: bigint | null;
  /** Null where the source does not know them; empty where there are none that can be seen. */
  inputs: readonly { address: string; units: bigint }[] | null;
  outputs: readonly { address: string; units: bigint; type?: string }[];
};
export type AddressSummary = {
  balanceUnits: bigint;
  unconfirmedUnits: bigint;
  receivedUnits: bigint;
  sentUnits: bigint;
  transactions: number;
};
/** Fee per virtual byte (ETH: per gas) in 1e-8 of `feeUnit`; `units` = fee of a typical payment. */
export type FeeTier = {
  speed: 'fast' | 'normal' | 'slow';
  rateE8: bigint;
  units: bigint;
  minutes: string;
  source: 'estimate' | 'fallback';
};

/** Heights on the chain that ends with `tip`, by its hash; null where no chain is spoken of. */
export type Finality = { safe: number | null; finalized: number | null; chainlock: number | null; tip: string | null };

export type Unspent = { units: bigint; leavingUnits: bigint };

/** One way to reach a coin's network. Every method throws ChainError, never anything else, when the source cannot answer. */
export interface ChainSource {
  readonly coin: Coin;
  readonly network: Network;
  /** Block 0's hash (ETH: the chain id). */
  genesis(): Promise<string>;
  health(): Promise<ChainHealth>;
  /** For the operator: is everything there that payments need? Not asked while payments run. */
  inspect?(): Promise<NodeInspection>;
  tip(): Promise<BlockRef>;
  blockAt(height: number): Promise<BlockRef | null>;
  /** Header by hash; null when unknown. */
  block(hash: string): Promise<BlockRef | null>;
  /**
   * Downloads a block by hash, so that it can be matched later without waiting. `done`: it is not looked at again, and where its
   * bytes stand is free for the next one.
   */
  fetchBlock(hash: string): Promise<{ ref: BlockRef; scan(matcher: Matcher): BlockScan | Promise<BlockScan>; done?(): void }>;
  /**
   * Downloads what is new in the mempool since what was last `done`; until then it is handed out again. `beside`: the tip at that
   * time, where the same machine tells both at once. `health`: as just told; where it says that nothing has changed, nothing is asked.
   */
  fetchMempool(
    health?: ChainHealth | null,
  ): Promise<{ beside?: string; scan(matcher: Matcher): MempoolScan | Promise<MempoolScan>; done(): void }>;
  /** Where a transaction of ours is now. */
  txState(txid: string): Promise<{ state: 'mempool' | 'mined' | 'unknown'; blockHash: string | null; lock: Lock }>;
  /** Best block that can no longer be reorganised, where the chain has such a notion, and the tip of the machine that says so. */
  finality(): Promise<Finality>;
  /** `hint`: spares the source an index. */
  transaction(txid: string, hint?: TransactionHint): Promise<ChainTransaction>;
  addressSummary(address: string): Promise<AddressSummary>;
  fees(): Promise<readonly FeeTier[]>;
  /**
   * What of these mined outputs is unspent as far as blocks tell, and how much of that a waiting transaction spends; only
   * where it can be told without an index of addresses. ETH: the balance of the account.
   */
  readUnspent?(of: { address: string; outputs: readonly { ref: string; units: bigint }[] }): Promise<Unspent>;
  /** Calls when something may be new, until the returned function is called. Hints may be lost: whoever listens asks anyway, later. */
  onHint?(wake: () => void): () => void;
  /** How many of its answers could not be used and something else replaced, by method, since the start. */
  unusable?(): ReadonlyMap<string, number>;
  close(): void;
}

export type NamedSource = {
  /** Host and port, never credentials. */
  name: string;
  /** Whether it may complete payments by itself. */
  trust: Trust;
  source: ChainSource;
  /** Whether payments can be read from it. */
  follows: boolean;
};

/** How one source of a coin stands. One that is down, syncing or on another network has no vote. */
export type SourceState = {
  /** Host and port, never credentials. */
  name: string;
  trust: Trust;
  source: ChainSource;
  state: 'ok' | 'syncing' | 'down' | 'wrong_network';
  /** Why it has no vote; null when it has one. */
  reason: string | null;
  health: ChainHealth | null;
  /** Whether payments are read from this one now. */
  followed: boolean;
};

/** All sources of a coin as one: the next answers when one is down. */
export interface Chain extends ChainSource {
  readonly sources: readonly NamedSource[];
  readUnspent: NonNullable<ChainSource['readUnspent']>;
  onHint: NonNullable<ChainSource['onHint']>;
  /** Whether payments can be detected: false when the sources answer look-ups only. */
  readonly follows: boolean;
  /** Asks every source, and reads from the first that is well from now on. */
  survey(): Promise<readonly SourceState[]>;
}
