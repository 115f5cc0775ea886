/** A chain in memory with a mempool that the test mines, undoes and double-spends, with a reader like that of a Core node. */
import { type BlockRef, ChainError, type ChainSource, type Conflict, type Matcher, type Sighting } from '../../src/chains/chain-source.ts';
import type { Coin } from '../../src/core/coin.ts';
import type { TransferKind } from '../../src/core/payment.ts';

/** `coin`: another one than that of the source. */
export type Payout = { key: string; units: bigint; coin?: Coin };
export type OnChain = {
  txid: string;
  /** `pegout`: waits under its own ID; once mined, an output of its block's last transaction pays it, under that transaction's ID. */
  kind: Extract<TransferKind, 'output' | 'pegout' | 'coinbase' | 'token'>;
  /** The coins it spends. For a peg-out they are hidden. */
  inputs: readonly string[];
  outputs: readonly Payout[];
};
export type Block = BlockRef & { transactions: readonly OnChain[] };
export type AdversaryChain = ReturnType<typeof createAdversaryChain>;

/** Starts with `height` empty blocks. A transaction is in the chain, in the mempool or in limbo, from where it may return. */
export function createAdversaryChain({ height, now }: { height: number; now(): Date }) {
  const blocks: Block[] = [];
  const byHash = new Map<string, Block>();
  const mempool = new Map<string, OnChain>();
  const limbo = new Map<string, OnChain>();
  /** Coinbases of orphaned blocks. */
  const dropped: OnChain[] = [];
  const spent = new Set<string>();
  let names = 0;

  const tip = (): Block => blocks.at(-1)!;
  const nameOf = (prefix: string): string => `${prefix}${(++names).toString(16).padStart(8, '0')}`;
  /** Transactions that spend the same coins are excluded. */
  const evictRivals = (tx: OnChain): void => {
    for (const other of [...mempool.values()])
      if (other.txid !== tx.txid && other.inputs.some((input) => tx.inputs.includes(input))) {
        mempool.delete(other.txid);
        limbo.set(other.txid, other);
      }
  };
  const isSpendable = (tx: OnChain): boolean => !tx.inputs.some((input) => spent.has(input));

  const chain = {
    blocks,
    mempool,
    limbo,
    dropped,
    tip,
    nameOf,
    isSpendable,
    /** Adds it to the mempool in place of what it double-spends; false if a block already spends its coins. */
    accept: (tx: OnChain): boolean => {
      if (tx.kind === 'coinbase' || !isSpendable(tx)) return false;
      evictRivals(tx);
      limbo.delete(tx.txid);
      mempool.set(tx.txid, tx);
      return true;
    },
    evict: (txid: string): void => {
      const tx = mempool.get(txid);
      if (!tx) return;
      mempool.delete(txid);
      limbo.set(txid, tx);
    },
    /** Mines one block with those of the transactions whose coins are unspent. */
    mine: (transactions: readonly OnChain[] = []): Block => {
      const taken: OnChain[] = [];
      for (const tx of transactions) {
        if (!isSpendable(tx) || taken.includes(tx)) continue;
        for (const input of tx.inputs) spent.add(input);
        evictRivals(tx);
        mempool.delete(tx.txid);
        limbo.delete(tx.txid);
        taken.push(tx);
      }
      const parent = blocks.at(-1);
      const block = { height: blocks.length, hash: nameOf('b'), parent: parent?.hash ?? '', time: now(), transactions: taken };
      blocks.push(block);
      byHash.set(block.hash, block);
      return block;
    },
    /** Removes the last blocks. Their transactions go to limbo, oldest first. */
    undo: (count: number): OnChain[] => {
      const undone = blocks.splice(Math.max(1, blocks.length - count)).flatMap((block) => block.transactions);
      for (const tx of undone) {
        for (const input of tx.inputs) spent.delete(input);
        // A coinbase belongs to its block: it never returns.
        if (tx.kind === 'coinbase') dropped.push(tx);
        else limbo.set(tx.txid, tx);
      }
      return undone;
    },
    /** The chain that ends with this block, which may be orphaned by now. */
    pathTo: (hash: string): Block[] => {
      const path: Block[] = [];
      for (let block = byHash.get(hash); block; block = byHash.get(block.parent)) path.push(block);
      return path.reverse();
    },
    blockOf: (hash: string): Block | undefined => byHash.get(hash),
    /** What a machine shows that has not seen the newest blocks: an earlier tip, perhaps of an abandoned branch. */
    asOf: (blocksAgo: number): Block[] => {
      const made = [...byHash.keys()];
      return chain.pathTo(made[Math.max(0, made.length - 1 - blocksAgo)]!);
    },
    /** The mempool beside these blocks. It includes transactions mined in other blocks, unless these blocks spend their coins. */
    mempoolBeside: (path: readonly Block[]): Map<string, OnChain> => {
      if (path === blocks) return mempool;
      const gone = new Set(path.flatMap((block) => block.transactions.flatMap((tx) => tx.inputs)));
      const elsewhere = blocks.filter((block) => path[block.height] !== block).flatMap((block) => block.transactions);
      const all = [...mempool.values(), ...elsewhere].filter((tx) => tx.kind !== 'coinbase' && !tx.inputs.some((input) => gone.has(input)));
      return new Map(all.map((tx) => [tx.txid, tx]));
    },
  };
  for (let i = 0; i <= height; i++) chain.mine();
  return chain;
}

/** The reference and transaction under which an output is seen. */
export function shownAs(tx: OnChain, index: number, block: Block | null): { ref: string; txid: string } {
  if (tx.kind !== 'pegout') return { ref: `${tx.txid}:${index}`, txid: tx.txid };
  if (!block) return { ref: `${tx.txid}:pegout:${index}`, txid: tx.txid };
  const pegouts = block.transactions.filter((other) => other.kind === 'pegout');
  const before = pegouts.slice(0, pegouts.indexOf(tx)).reduce((count, other) => count + other.outputs.length, 0);
  return { ref: `${block.hash}-hogex:${1 + before + index}`, txid: `${block.hash}-hogex` };
}

/**
 * One connection to the chain. `interrupt` runs before each answer: it may change the chain, throw, or let time pass. The mempool is
 * returned once, as long as it was `done`, unless `repeat` requests all of it again.
 */
export function createAdversarySource({
  chain,
  coin,
  interrupt,
  isSyncing = () => false,
  shown = () => chain.blocks,
}: {
  chain: AdversaryChain;
  coin: Coin;
  interrupt(call: string): Promise<void>;
  isSyncing?: () => boolean;
  /** The chain as the answering machine knows it. */
  shown?: () => readonly Block[];
}): ChainSource & { repeat(): void } {
  const known = new Set<string>();
  const ref = ({ height, hash, parent, time }: Block): BlockRef => ({ height, hash, parent, time });
  const match = (tx: OnChain, block: Block | null, matcher: Matcher, sightings: Sighting[], conflicts: Conflict[]): void => {
    const spends = tx.kind === 'output' || tx.kind === 'token' ? tx.inputs : [];
    for (const [i, { key, units, coin: other }] of tx.outputs.entries())
      if (matcher.has(key))
        sightings.push({ ...(other && { coin: other }), key, ...shownAs(tx, i, block), units, kind: tx.kind, spends, lock: null });
    const mined = tx.kind === 'token' && block !== null;
    for (const outpoint of spends) if (matcher.spends(outpoint)) conflicts.push({ outpoint, txid: tx.txid, ...(mined && { mined }) });
  };
  const tip = (): Block => shown().at(-1)!;
  const nowhere = async (): Promise<never> => {
    throw new ChainError('unsupported', 'not asked for by a follower');
  };
  return {
    coin,
    network: 'regtest',
    genesis: async () => {
      await interrupt('genesis');
      return shown()[0]!.hash;
    },
    health: async () => {
      await interrupt('health');
      return {
        tip: ref(tip()),
        headers: tip().height,
        syncing: isSyncing(),
        software: 'adversary',
        version: 1,
        network: 'regtest',
        pruned: false,
        txindex: false,
        peers: 1,
      };
    },
    tip: async () => {
      await interrupt('tip');
      return ref(tip());
    },
    blockAt: async (height) => {
      await interrupt('blockAt');
      const block = shown()[height];
      return block ? ref(block) : null;
    },
    block: async (hash) => {
      await interrupt('block');
      const block = chain.blockOf(hash);
      return block ? ref(block) : null;
    },
    fetchBlock: async (hash) => {
      await interrupt('fetchBlock');
      const block = chain.blockOf(hash);
      // Names are assigned in order of creation: this machine has not seen later ones.
      if (!block || (shown() !== chain.blocks && hash > tip().hash)) throw new ChainError('not_found', hash);
      return {
        ref: ref(block),
        scan: (matcher) => {
          const sightings: Sighting[] = [];
          const conflicts: Conflict[] = [];
          for (const tx of block.transactions) match(tx, block, matcher, sightings, conflicts);
          return { block: ref(block), sightings, conflicts };
        },
      };
    },
    fetchMempool: async () => {
      await interrupt('fetchMempool');
      const mempool = chain.mempoolBeside(shown());
      const present = new Set(mempool.keys());
      for (const txid of known) if (!present.has(txid)) known.delete(txid);
      // Peg-outs at each look, as node readers show them: one that lost its block is recorded under another transaction.
      const fresh = [...mempool.values()].filter((tx) => tx.kind === 'pegout' || !known.has(tx.txid));
      return {
        beside: tip().hash,
        scan: async (matcher) => {
          await interrupt('scan');
          const sightings: Sighting[] = [];
          const conflicts: Conflict[] = [];
          for (const tx of fresh) match(tx, null, matcher, sightings, conflicts);
          return { sightings, conflicts, present };
        },
        done: () => {
          for (const tx of fresh) known.add(tx.txid);
        },
      };
    },
    txState: nowhere,
    finality: async () => ({ safe: null, finalized: null, chainlock: null, tip: null }),
    transaction: nowhere,
    addressSummary: nowhere,
    fees: nowhere,
    close: () => {},
    repeat: () => known.clear(),
  };
}
