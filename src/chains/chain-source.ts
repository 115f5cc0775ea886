/** What the follower and the lookups need from a chain. Amounts are bigint base units. Notifications are hints; only polls count. */
import type { Coin, Network } from '#core/coin';
import type { Trust } from '#core/guard';
import type { Lock, TransferKind, Verifier } from '#core/payment';

export type BlockRef = { height: number; hash: string; parent: string; time: Date };

/** The number of an output in its transaction, and what it holds. */
export type Output = readonly [n: number, units: bigint];
/** One output (or ETH value move) to a watched key, or all outputs of one transaction to it, as found on the chain. */
export type Sighting = {
  /** Which coin of the chain was paid. Absent: the coin of the source. */
  coin?: Coin;
  /** Hex of the output script, or the lower-case 20-byte address (ETH). */
  key: string;
  /** That of the first output if there are several. */
  ref: string;
  txid: string | null;
  /** The sum of all its outputs. */
  units: bigint;
  /** In order, if there are several. */
  outputs?: readonly Output[];
  kind: TransferKind;
  /** Outpoints it spends (`txid:vout`), for ETH `from:nonce`: the double-spend keys. */
  spends: readonly string[];
  lock: Lock;
  /** On EVM chains, of what is not seen before a block contains it: the number of its log or its transaction in the block. */
  place?: number;
};
/** The address of a payment that waits. `endsAt`: its deadline. `countsUntil`: what is seen until then is still on time. */
export type OpenAddress = { key: string; endsAt: Date; countsUntil: Date };
/** Those that end first. `othersEnd`: the first deadline of those that are not listed, because they are too many; null when all are listed. */
export type OpenAddresses = { listed: readonly OpenAddress[]; othersEnd: Date | null };
/**
 * In memory: which keys are watched, as a Bloom filter (a positive may be wrong, so the recorder checks it in the table; a negative never
 * is), and which outpoints our unconfirmed transfers spend.
 */
export type Matcher = {
  has(key: string): boolean;
  /** Whether any outpoint is watched, because most blocks need no check. */
  watchesSpends: boolean;
  spends(outpoint: string): boolean;
  /**
   * The same checks on bytes, for callers that have many: an output script, and an outpoint in its serialized form (32 bytes of hash, 4 of
   * index). A no is certain; a yes must be checked again as text.
   */
  quick?: Readonly<Record<'pays' | 'spends', (bytes: Uint8Array, from: number, to: number) => boolean>>;
  /** ETH: addresses assigned shortly before that time, for nodes that can only be asked for individual balances. */
  recent(at: Date): readonly string[] | Promise<readonly string[]>;
  /** ETH: addresses of payments that wait for money or for confirmations, for sources that prove balances. */
  open?(): OpenAddresses | Promise<OpenAddresses>;
  /** Our transactions that are not in a block. */
  waiting: readonly string[];
};

/**
 * A transaction that spends an outpoint of one of our transfers: perhaps its replacement, or (`mined`) itself in a block. Of a transaction
 * that is mined, the transfers that its block does not show do not exist: it failed, or paid something else than before.
 */
export type Conflict = { outpoint: string; txid: string; mined?: boolean };
export type BlockScan = {
  block: BlockRef;
  sightings: readonly Sighting[];
  conflicts: readonly Conflict[];
  /** Why transfers of the block may be missing, in words; absent: none can be. */
  blind?: string;
};
export type MempoolScan = {
  sightings: readonly Sighting[];
  conflicts: readonly Conflict[];
  /** Which txids are now in the mempool. */
  present: Pick<ReadonlySet<string>, 'has'>;
  /**
   * For sources that only hear what is announced, and never that it was dropped: how long a transaction counts as present without being
   * mined. Absent: for as long as the source shows it.
   */
  believedMs?: number;
  /** False when not everything new was read; nothing may expire because of such a poll. */
  complete?: boolean;
  /** Why not, when it lasts and is expected. */
  incomplete?: string | null;
  /** Until when nothing can have come that is not read. Null or absent: until the poll. */
  provenThrough?: Date | null;
};

export type ChainHealth = {
  tip: BlockRef;
  headers: number;
  syncing: boolean;
  /** What is missing while it syncs, if not blocks. */
  progress?: string;
  software: string;
  version: number;
  network: string;
  pruned: boolean;
  txindex: boolean | null;
  /** Null: the source does not say. */
  peers: number | null;
  /** Changes whenever the mempool changes. Null or absent: the source does not report it. */
  mempool?: string | null;
};

/** What an operator should know about a node besides its health. */
export type NodeInspection = {
  /** Lowest block it still has; null when it has all. */
  prunedBelow: number | null;
  /** Its clock minus ours; null when it does not report it. */
  clockAheadSeconds: number | null;
  /** Missing abilities of this node, with the reasons. */
  missing: readonly { capability: string; reason: string }[];
  /** How the node describes itself. */
  warnings: readonly string[];
};

/**
 * Why a source did not answer:
 * - `outage`: it cannot be reached, is still starting, or its answer cannot be true. Retry, or ask another one.
 * - `unsupported`: no configured source can answer such a question.
 * - `not_found`: it is synchronized and has no such transaction or block.
 * - `pruned`: it has deleted the block.
 * - `wrong_network`: it serves another chain or network than the settings say.
 * - `behind`: it has not read the blocks yet that the chain with the most work has.
 * - `unproven`: what it shows is not on the chain with the most work.
 * - `refused`: it did not accept a transaction.
 * - `unseen`: it was sent a transaction, and nothing shows that it was accepted.
 */
export class ChainError extends Error {
  readonly kind: 'outage' | 'unsupported' | 'not_found' | 'pruned' | 'wrong_network' | 'behind' | 'unproven' | 'refused' | 'unseen';
  constructor(kind: ChainError['kind'], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ChainError';
    this.kind = kind;
  }
}

/** Null when the source does not know the answer. */
export async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'not_found') return null;
    throw error;
  }
}

/** What is already known about a transaction to look up. */
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
  /** Null when the source does not know them; empty when none are visible. */
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

/** What a transaction costs on an EVM chain, in wei: for each unit of gas, and for the bytes of a transfer of a token. */
export type GasFee = { gasPrice: bigint; dataFee: bigint };

/** Heights on the chain that ends with `tip`, by its hash; null when there is no such chain. */
export type Finality = {
  safe: number | null;
  finalized: number | null;
  chainlock: number | null;
  tip: string | null;
  /** The source cannot report final blocks, or its word does not count. Otherwise null may mean that it has none at the moment. */
  blind?: true;
};
/** What a source reports that is blind to final blocks. */
export const NO_FINALITY: Finality = { safe: null, finalized: null, chainlock: null, tip: null, blind: true };

/** What spending needs from a Bitcoin-like chain. */
export type Outlet = {
  /** Whether each output (`txid:n`) is in a block and nothing spends it; waiting transactions count, except with `onlyBlocks`. */
  areUnspent(outpoints: readonly string[], options?: { onlyBlocks: boolean }): Promise<boolean[]>;
  /** Mined transactions without their witnesses, in order. */
  readTransactions(wanted: readonly { txid: string; blockHash: string }[]): Promise<Uint8Array[]>;
  /** Sends a transaction; no effect if it is known. Errors: ChainError refused. */
  send(raw: Uint8Array): Promise<void>;
  /**
   * Where a node without an index sees a mined transaction, by its outputs: confirmations below its newest block `best`. Null: none of them
   * is unspent in a block.
   */
  depthOf?(outpoints: readonly string[]): Promise<{ best: string; confirmations: number } | null>;
  /** From how many blocks transactions can be read at once; without it, from as many as needed. */
  mostBlocks?: number;
};
/** JSON-RPC calls to a chain of accounts, in order; errors of single calls are values. */
type AskEthereum = (
  calls: readonly (readonly [method: string, ...params: unknown[]])[],
) => Promise<{ result: unknown; error: { code: number; message: string } | null }[]>;

export type Unspent = { units: bigint; leavingUnits: bigint };

/** What the work of a chain proves. */
export type ProvenWork = {
  /** The highest blocks with 1, 2, 3 ... confirmations in work; fewer than asked for where nothing more is proven. Null: blocks count. */
  heights: readonly number[] | null;
  /** Why nothing may complete now, in words. */
  holds: readonly string[];
};

/** The contract of a token. `code` names what it runs: it changes when a proxy is upgraded. */
export type ContractState = { coin: Coin; exists: boolean; decimals: number | null; paused: boolean; deprecated: boolean; code: string };

/** The source refuses to search this many blocks, or so much in them, at once. */
export class RangeRefused extends Error {}
/** A block in which accounts received something, its receipts proven under the root in its header. */
export type RangeBlock = {
  ref: BlockRef;
  /** Whether the hash of its header was recomputed, so that the root belongs to it. */
  proven: boolean;
  /** What must be the same at every source: height, parent and time, the root of its receipts, and its transactions in order. */
  identity: string;
  /** All its transactions. */
  txids: ReadonlySet<string>;
  sightings(matcher: Pick<Matcher, 'has'>): readonly Sighting[];
};
/** Where a transaction is, as a source says: in a block, waiting for one, or null: the source does not know it. */
export type TransactionPlace = { height: number; hash: string } | 'waiting' | null;
export type Tagged = { safe: BlockRef | null; finalized: BlockRef | null };
/** Balances that are read in one request. */
export const HOLDINGS_AT_ONCE = 250;
/** They return as the code of a contract that is created, which EIP-170 limits to 24,576 bytes: 768 balances. */
export const NATIVES_AT_ONCE = 500;
/** Reads a native coin that is not offered, to find what was sent in it by mistake. Errors: ChainError. */
export type NativeReader = {
  coin: Coin;
  /** Balances at a block, in the order of the accounts; null when the source cannot show them. One request for each `NATIVES_AT_ONCE`. */
  balances(accounts: readonly string[], hash: string): Promise<readonly bigint[] | null>;
  /** What transactions of a block paid to these accounts themselves, without calls of contracts. */
  paid(hash: string, to: ReadonlySet<string>): Promise<readonly Sighting[]>;
};
/** How a source reads a chain whose blocks come too fast to read each of them. Errors: ChainError. */
export type RangeReader = {
  /** The newest block. */
  head(): Promise<BlockRef>;
  /** The blocks at these heights; null where it has none. */
  at(heights: readonly number[]): Promise<readonly (BlockRef | null)[]>;
  /** Blocks, by height, in which these accounts received something, as the source says. Errors: RangeRefused, ChainError. */
  search(range: { from: number; to: number }, accounts: readonly string[]): Promise<ReadonlyMap<number, string>>;
  fetch(hash: string): Promise<RangeBlock>;
  /** The identity of a block, for comparison with another source. */
  identity(hash: string): Promise<string>;
  /** Where a transaction is now. */
  placeOf(txid: string): Promise<TransactionPlace>;
  tags(): Promise<Tagged>;
  /** What accounts hold of the tokens that count on this chain, at the newest block, in the order of the holders. */
  holdings: { coins: readonly Coin[]; read(holders: readonly { coin: Coin; account: string }[]): Promise<readonly bigint[]> };
  native?: NativeReader | null;
  /** How many requests were sent since the start. */
  requests(): number;
};

/** One way to reach a chain. Every method throws ChainError, never anything else, when the source cannot answer. */
export interface ChainSource {
  /** The native coin of the chain. The source may also show transfers of other coins on it. */
  readonly coin: Coin;
  readonly network: Network;
  /** Block 0's hash (ETH: the chain id). */
  genesis(): Promise<string>;
  health(): Promise<ChainHealth>;
  /** For the operator: checks everything that payments need. Not called while payments are processed. */
  inspect?(): Promise<NodeInspection>;
  tip(): Promise<BlockRef>;
  blockAt(height: number): Promise<BlockRef | null>;
  /** Header by hash; null when unknown. */
  block(hash: string): Promise<BlockRef | null>;
  /**
   * Downloads a block by hash, so it can be matched later without waiting. After `done` it must not be used again, because the next
   * block reuses its memory. `next`: it is above everything that was read, so a source that cannot get it may continue its chain without it.
   */
  fetchBlock(
    hash: string,
    how?: { next?: boolean },
  ): Promise<{
    ref: BlockRef;
    /** Who vouches for the block; absent: nobody. */
    verifiedBy?: Verifier;
    /** Bitcoin-like chains: the fee per 1,000 virtual bytes that it was paid on average; 0 if it had room. */
    paid?: bigint;
    scan(matcher: Matcher): BlockScan | Promise<BlockScan>;
    done?(): void;
  }>;
  /**
   * Bitcoin-like chains: the headers of consecutive blocks, lowest first: 80 bytes each, on DOGE followed by the proof of merged mining.
   * Fewer than `count` only where its chain ends.
   */
  readHeaders?(from: number, count: number): Promise<readonly Buffer[]>;
  /**
   * Downloads what is new in the mempool since the last `done`; without `done` it is returned again. `beside`: the tip at that time, if
   * the same machine reports both at once. `health`: the latest health; if it shows no change, nothing is downloaded.
   */
  fetchMempool(
    health?: ChainHealth | null,
  ): Promise<{ beside?: string; scan(matcher: Matcher): MempoolScan | Promise<MempoolScan>; done(): void }>;
  /** Where one of our transactions is now. */
  txState(txid: string): Promise<{ state: 'mempool' | 'mined' | 'unknown'; blockHash: string | null; lock: Lock }>;
  /** Tokens of its chain, as their contracts are now; all of them if none are named. */
  contracts?(coins?: readonly Coin[]): Promise<readonly ContractState[]>;
  /** Only where the chain is read by ranges of blocks. */
  ranges?: RangeReader;
  /** The best final block, for chains with finality, and the tip of the machine that reports it. */
  finality(): Promise<Finality>;
  /** `hint`: spares the source an index. */
  transaction(txid: string, hint?: TransactionHint): Promise<ChainTransaction>;
  addressSummary(address: string): Promise<AddressSummary>;
  fees(): Promise<readonly FeeTier[]>;
  /** EVM chains: what a wallet that is not in a hurry pays for a transfer now. */
  gasFee?(): Promise<GasFee>;
  /**
   * The part of these mined outputs that is unspent according to blocks, and how much of it a waiting transaction spends; only if this
   * needs no address index. ETH: the balance of the account.
   */
  readUnspent?(of: { address: string; outputs: readonly { ref: string; units: bigint }[] }): Promise<Unspent>;
  /** For Bitcoin-like chains: what the source can do for spending. */
  outlet?: Partial<Outlet>;
  /** For chains of accounts. */
  ask?: AskEthereum;
  /** Calls back when something may be new, until the returned function is called. Hints may be lost, so listeners also poll. */
  onHint?(wake: () => void): () => void;
  /** For sources that ask one of several servers, and name those that they do not ask. */
  servers?: {
    /** As far as known, without asking. */
    states(): readonly ServerState[];
    /** Connects to all of them. */
    check(): Promise<readonly ServerState[]>;
  };
  /** Followers call it first: from then on, only blocks on the chain with the most work are shown. */
  requireProof?(): Promise<void>;
  /** How many of its answers were unusable and were replaced, by method, since the start. */
  unusable?(): ReadonlyMap<string, number>;
  close(): void;
}

export type SourceConnection = {
  start(): Promise<void>;
  /** Whether the newest block is known, so that the chain can be followed. */
  isReady(): boolean;
  stop(): Promise<void>;
};
/** A server among several of one source. */
export type ServerState = {
  /** Host and port. */
  name: string;
  /** `unused`: nothing was asked yet, or not for minutes. */
  state: 'ok' | 'down' | 'unused';
  /** Why it is not used; null when it is. */
  reason: string | null;
  software: string | null;
  height: number | null;
};

/** `reason`: why the last answer of the server did not count; null when it did. */
export type Witnesses = {
  /** Asks all of them. `trouble`: why nothing is proven with them, in words. */
  check(): Promise<{ servers: readonly { name: string; reason: string | null }[]; trouble: string | null; head: string | null }>;
};

export type NamedSource = {
  /** Host and port, never credentials. */
  name: string;
  /** Whether it may complete payments alone. */
  trust: Trust;
  source: ChainSource;
  /** Whether payments can be read from it. */
  follows: boolean;
  /** For a source that is connected in one process only, the one with the watcher role. */
  connection?: SourceConnection;
  /** It is connected only once a wallet needs it. */
  onDemand?: boolean;
  /** Whether it only answers lookups: it has no vote on what completes, and its absence holds nothing up. */
  onlyLookUps?: boolean;
  /** Nobody set it: it is asked for nothing but what somebody looks up, because its operator learns who asks. */
  unchosen?: boolean;
};

/** The state of one source of a coin. A source that is not `ok` has no vote. */
export type SourceState = {
  /** Host and port, never credentials. */
  name: string;
  trust: Trust;
  source: ChainSource;
  state: 'ok' | 'syncing' | 'behind' | 'unproven' | 'down' | 'wrong_network';
  /** Why it has no vote; null when it has one. */
  reason: string | null;
  health: ChainHealth | null;
  /** Whether payments are currently read from this source. */
  followed: boolean;
};

/** All sources of a coin as one: if one is down, the next one answers. */
export interface JoinedSource extends ChainSource {
  readonly sources: readonly NamedSource[];
  /** The same of all sources, for what somebody asks for: servers that nobody set answer only these. */
  readonly lookUps: Pick<ChainSource, 'transaction' | 'addressSummary' | 'fees'>;
  readUnspent: NonNullable<ChainSource['readUnspent']>;
  outlet: Outlet;
  ask: AskEthereum;
  onHint: NonNullable<ChainSource['onHint']>;
  requireProof: NonNullable<ChainSource['requireProof']>;
  /** Whether payments can be detected: false when the sources only answer lookups. */
  readonly follows: boolean;
  /** The servers that prove which blocks the network signed; null where none are set. For the operator. */
  readonly witnesses: Witnesses | null;
  /** Peers whose headers are compared with those of the sources, which they also help; null where there are none. They have no vote. */
  readonly watch: SourceConnection | null;
  /** Whether payments are read only once a wallet needs them. */
  readonly onDemand: boolean;
  /** What is proven about the chain that ends with this block; null where no proof is required. Call `requireProof` before. */
  provenWork(tip: string): ProvenWork | null;
  /** Checks every source, and then reads from the first healthy one. */
  survey(): Promise<readonly SourceState[]>;
}
