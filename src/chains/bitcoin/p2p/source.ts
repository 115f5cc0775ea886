/** The peers of a network as a source of its chain: no node, no server, no look-ups by address. Every block belongs to the header chain that we checked. */

import { addressOfScript } from '#addresses';
import type { BitcoinFamily, Network } from '#core/coin';
import { type Clock, DAY_MS, MINUTE_MS } from '#core/dates';
import {
  type BlockRef,
  ChainError,
  type ChainSource,
  type ChainTransaction,
  type Matcher,
  type MempoolScan,
  NO_FINALITY,
  type Sighting,
} from '../../chain-source.ts';
import type { ChainStore } from '../../store.ts';
import { feeOfBlock } from '../block-fees.ts';
import { parseBlockOf } from '../block-proof.ts';
import { type HeaderReader, type KnownHeader, refOf } from '../header-chain.ts';
import type { ProofParams } from '../proof-params.ts';
import {
  matchBlock,
  matchInTurns,
  outputsOfTransaction,
  parseTransaction,
  type RawBlock,
  type RawTransaction,
  strippedOf,
  txidOf,
} from '../raw-block.ts';
import type { PeerService } from './peer-service.ts';
import type { Relay, RelayedTransaction } from './relay.ts';

/** What was announced before enough peers were connected is unknown, and mostly mined after this long. On test networks nobody waits. */
const SETTLED_MS = 3_600_000;
/** Blocks from which transactions are read for one file, and how many are downloaded at the same time. */
export const MOST_BLOCKS = 100;
const AT_ONCE = 4;

type PeerSourceOptions = {
  family: BitcoinFamily;
  network: Network;
  chain: HeaderReader;
  service: PeerService;
  kept: ReturnType<ChainStore['transactions']>;
  clock: Clock;
  /** Whether the headers were read up to now. */
  isReady(): boolean;
  /** Calls back when something may be new, until the returned function is called. */
  onHint(wake: () => void): () => void;
  close(): void;
};

/** The one block of a proven header, from any peer. `next`: as for `fetchBlock`. Errors: ChainError. */
async function download(
  { family, chain, service }: PeerSourceOptions,
  hash: string,
  { next = false }: { next?: boolean } = {},
): Promise<{ header: KnownHeader; block: RawBlock }> {
  const header = chain.find(hash);
  if (!header) throw new ChainError('outage', `block ${hash} is not on the chain with the most work`);
  try {
    const block = await service.readBlock(header, (bytes) => parseBlockOf(hash, bytes, family), { next });
    return { header, block };
  } catch (error) {
    throw error instanceof ChainError ? error : new ChainError('outage', (error as Error).message, { cause: error });
  }
}

/** A transaction of a block that is known to have it, with its header. One that paid us was kept, so no peer is asked. */
async function findMined(options: PeerSourceOptions, txid: string, hash: string): Promise<{ header: KnownHeader; tx: RawTransaction }> {
  const { family, chain, kept } = options;
  const header = chain.find(hash);
  const raw = header && (await kept.find([txid])).get(txid);
  if (raw) return { header, tx: parseTransaction(Buffer.from(raw), family) };
  const { header: downloaded, block } = await download(options, hash);
  const tx = block.transactions.find((one) => txidOf(one) === txid);
  if (!tx) throw new ChainError('not_found', txid);
  return { header: downloaded, tx };
}

/** A transaction as it is shown. Where its money comes from is not known. */
async function describe(options: PeerSourceOptions, txid: string, hash: string): Promise<ChainTransaction> {
  const { family, network, chain } = options;
  const { header, tx } = await findMined(options, txid, hash);
  const outputs = outputsOfTransaction(tx).map(({ units, script }) => ({
    address: addressOfScript(Buffer.from(script).toString('hex'), { coin: family, network }) ?? '',
    units,
  }));
  return {
    txid,
    status: 'confirmed',
    confirmations: chain.tip().height - header.height + 1,
    blockHeight: header.height,
    blockHash: hash,
    timestamp: refOf(header).time,
    amountUnits: outputs.reduce((sum, { units }) => sum + units, 0n),
    feeUnits: null,
    inputs: null,
    outputs,
  };
}

/** Keeps the transactions of a block in which something was found. */
async function keepFound({ kept }: PeerSourceOptions, { transactions }: RawBlock, found: readonly Sighting[]): Promise<void> {
  const txids = new Set(found.map(({ txid }) => txid));
  if (txids.size > 0)
    await kept.keep(
      transactions.flatMap((tx) => {
        const txid = txidOf(tx);
        return txids.has(txid) ? [{ txid, raw: strippedOf(tx) }] : [];
      }),
    );
}

/** Transactions that were kept, and of the blocks that `read` reads those that were not, in order. Errors: ChainError. */
export async function readTransactions(
  kept: PeerSourceOptions['kept'],
  wanted: readonly { txid: string; blockHash: string }[],
  read: (hash: string) => Promise<RawBlock>,
): Promise<Uint8Array[]> {
  const txids = new Set(wanted.map(({ txid }) => txid));
  const found = new Map(await kept.find([...txids]));
  const hashes = new Set(wanted.flatMap(({ txid, blockHash }) => (found.has(txid) ? [] : [blockHash]))).values();
  const work = async (): Promise<void> => {
    for (const hash of hashes)
      for (const tx of (await read(hash)).transactions) {
        const txid = txidOf(tx);
        if (txids.has(txid)) found.set(txid, strippedOf(tx));
      }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return wanted.map(({ txid, blockHash }) => {
    const bytes = found.get(txid);
    if (!bytes) throw new ChainError('outage', `block ${blockHash} does not contain the transaction ${txid}`);
    return bytes;
  });
}

/** Any address is a question that peers do not answer, and ours are never told to them. */
export const noLookUps = async (family: BitcoinFamily): Promise<never> => {
  throw new ChainError('unsupported', `peers do not answer look-ups; set ${family}_ELECTRUM_URL or ${family}_NODE_URL`);
};
/** The first block of the network, which a chain that begins at a checkpoint does not hold. */
export const blockZero = ({ genesis }: ProofParams): BlockRef => ({ height: 0, hash: genesis, parent: '', time: new Date(0) });

/** Creates the source, without the fees, which other processes tell as well. The service must have been started. */
export function createPeerSource(options: PeerSourceOptions): Omit<ChainSource, 'fees'> {
  const { family, network, chain, service, clock, isReady } = options;
  const settledMs = network === 'regtest' ? 0 : SETTLED_MS;
  /** Since when nothing that peers announce is missed; now, while something may be. */
  const heardSinceMs = (): number => {
    const { relayedSinceMs, syncing } = service.status();
    return syncing || !isReady() || relayedSinceMs === null ? clock.monotonicMs() : relayedSinceMs;
  };
  const connected = () => {
    const status = service.status();
    const { trouble } = status;
    if (status.connected === 0) throw new ChainError('outage', `no peer is connected${trouble === null ? '' : `; ${trouble}`}`);
    return status;
  };
  return {
    coin: family,
    network,
    genesis: async () => chain.params.genesis,
    health: async () => {
      const { connected: peers, syncing: adding } = connected();
      const syncing = adding || !isReady();
      const tip = refOf(chain.tip());
      return {
        ...{ tip, headers: tip.height, syncing, software: 'peers', version: 0, network },
        ...{ pruned: false, txindex: null, peers, mempool: null },
      };
    },
    inspect: async () => ({
      prunedBelow: null,
      clockAheadSeconds: connected().clockAheadSeconds,
      missing: [],
      warnings: [],
    }),
    tip: async () => {
      connected();
      return refOf(chain.tip());
    },
    blockAt: async (height) => {
      const found = chain.at(height);
      if (!found && height === 0) return blockZero(chain.params);
      if (!found && height < chain.checkpointHeight)
        throw new ChainError('pruned', `block ${height} is below the checkpoint of this release`);
      return found && refOf(found);
    },
    block: async (hash) => {
      const found = chain.find(hash);
      return found && refOf(found);
    },
    fetchBlock: async (hash, how) => {
      const { header, block } = await download(options, hash, how);
      const ref = refOf(header);
      const scan = async (matcher: Matcher) => {
        const found = await matchBlock(block, matcher);
        await keepFound(options, block, found.sightings);
        return { block: ref, ...found };
      };
      return { ref, verifiedBy: 'proof_of_work', paid: feeOfBlock(block, { family, height: ref.height }), scan };
    },
    fetchMempool: createPeerMempool({ relay: service.relay, family, clock, heardSinceMs, settledMs }),
    txState: async (txid) => {
      const isOut = service.relay.has(txid) || service.sender.isOut(txid);
      return { state: isOut ? 'mempool' : 'unknown', blockHash: null, lock: null };
    },
    finality: async () => NO_FINALITY,
    transaction: async (txid, hint) => (hint ? describe(options, txid, hint.blockHash) : noLookUps(family)),
    addressSummary: () => noLookUps(family),
    outlet: {
      readTransactions: (wanted) => readTransactions(options.kept, wanted, async (hash) => (await download(options, hash)).block),
      send: (raw) => service.sender.send({ txid: txidOf(parseTransaction(Buffer.from(raw), family)), bytes: raw }),
    },
    onHint: options.onHint,
    close: options.close,
  };
}

// What the follower sees of unconfirmed transactions when peers are the only source. Nobody can list the mempool of a peer, so a
// transaction counts as waiting until another one that spends the same output is announced, or for three days.

/** Nodes drop what is not mined for days, or replace it, and peers could announce what was never valid. Neither is announced. */
const BELIEVED_MS = 3 * DAY_MS;
/** Outputs that transactions of ours spend, and transactions that were replaced. */
const MAX_REMEMBERED = 20_000;

const cut = (remembered: Map<string, string> | Set<string>): void => {
  for (const oldest of remembered.keys()) {
    if (remembered.size <= MAX_REMEMBERED) return;
    remembered.delete(oldest);
  }
};
/** Leaves out transactions that cannot be read: they cannot pay anyone. */
function parse(relayed: readonly RelayedTransaction[], family: BitcoinFamily): RawTransaction[] {
  return relayed.flatMap(({ bytes }) => {
    try {
      return parseTransaction(bytes, family);
    } catch (error) {
      if (error instanceof RangeError) return [];
      throw error;
    }
  });
}

/**
 * `heardSinceMs`: since when enough peers announce transactions. What was announced before is unknown until `settledMs` later, when most
 * of it is mined; the same when announcements had to be passed over.
 */
export function createPeerMempool({
  relay,
  family,
  clock,
  heardSinceMs,
  settledMs,
}: {
  relay: Relay;
  family: BitcoinFamily;
  clock: Clock;
  heardSinceMs(): number;
  settledMs: number;
}): ChainSource['fetchMempool'] {
  /** By outpoint, the last transaction that spends it and concerns us. */
  const spenders = new Map<string, string>();
  const replaced = new Set<string>();
  const spend = (outpoint: string, txid: string): void => {
    const before = spenders.get(outpoint);
    if (before !== undefined && before !== txid) replaced.add(before);
    replaced.delete(txid);
    spenders.delete(outpoint);
    spenders.set(outpoint, txid);
  };
  const note = ({ sightings, conflicts }: Pick<MempoolScan, 'sightings' | 'conflicts'>): void => {
    for (const { txid, spends } of sightings) if (txid !== null) for (const outpoint of spends) spend(outpoint, txid);
    for (const { txid, outpoint } of conflicts) spend(outpoint, txid);
    cut(spenders);
    cut(replaced);
  };
  let lostAtMs = Number.NEGATIVE_INFINITY;
  const whyIncomplete = (): string | null => {
    const nowMs = clock.monotonicMs();
    const tookAll = relay.tookAll();
    if (!tookAll) lostAtMs = nowMs;
    const heardMs = nowMs - Math.max(heardSinceMs(), lostAtMs);
    if (tookAll && heardMs >= settledMs && heardSinceMs() < nowMs) return null;
    return `peers have announced transactions without a gap for ${Math.floor(heardMs / MINUTE_MS)} of ${settledMs / MINUTE_MS} minutes`;
  };
  return async () => {
    const fresh = relay.fresh();
    const incomplete = whyIncomplete();
    return {
      scan: async (matcher) => {
        const found = await matchInTurns(parse(fresh, family), matcher, () => 'output');
        note(found);
        return {
          ...found,
          present: { has: (txid) => !replaced.has(txid) },
          believedMs: BELIEVED_MS,
          complete: incomplete === null,
          incomplete,
        };
      },
      done: () => relay.done(fresh),
    };
  };
}
