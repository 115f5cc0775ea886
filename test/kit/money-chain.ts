/** The chain of a regtest node as the test itself reads it: which outputs were paid, by what, and which of them are spent. */
import type { TestNode } from './nodes.ts';

export type SeenOutput = { txid: string; outpoint: string; address: string; units: bigint };
export type SeenTx = { txid: string; spends: readonly string[]; outputs: readonly SeenOutput[] };
export type MoneyChain = {
  mine(blocks?: number): Promise<void>;
  /**
   * Replaces the newest blocks by one more. What they contained waits again; `instead`: raw transactions for the first new block, where they
   * are possible.
   */
  reorganize(depth: number, instead?: readonly string[]): Promise<void>;
  /** Transactions of the best chain since the test began, in order, and those that wait. */
  read(): Promise<{ mined: SeenTx[]; waiting: SeenTx[] }>;
};

/** The node does not know the transaction. */
function gone(error: { code?: number }): void {
  if (error.code !== -5) throw error;
}
const unitsOf = (coins: number): bigint => BigInt(Math.round(coins * 1e8));
const seenTx = ({ txid, vin, vout }: any): SeenTx => ({
  txid,
  spends: vin.flatMap((input: any) => (input.txid === undefined ? [] : [`${input.txid}:${input.vout}`])),
  outputs: vout.map(({ value, n, scriptPubKey }: any) => ({
    ...{ txid, outpoint: `${txid}:${n}`, address: scriptPubKey.address ?? '', units: unitsOf(value) },
  })),
});

export async function openMoneyChain(node: TestNode): Promise<MoneyChain> {
  const home = await node.newAddress();
  /** The best chain, as the test made it. */
  const best: string[] = [];
  const blocks = new Map<string, SeenTx[]>();
  const transactions = new Map<string, SeenTx>();
  return {
    mine: async (count = 1) => {
      best.push(...(await node.mine(count, home)));
    },
    reorganize: async (depth, instead = []) => {
      const lost = best.splice(-depth);
      await node.rpc('invalidateblock', lost[0]);
      const possible: string[] = [];
      // Another address makes other blocks: the same ones would be the invalid ones again.
      const other = await node.newAddress();
      for (const raw of instead)
        await node.rpc('generateblock', other, [...possible, raw], false).then(
          () => possible.push(raw),
          () => {},
        );
      best.push((await node.rpc('generateblock', other, possible)).hash);
      for (let i = 0; i < depth; i++) best.push((await node.rpc('generateblock', other, [])).hash);
    },
    read: async () => {
      const tip = await node.rpc('getbestblockhash');
      if (best.length > 0 && tip !== best.at(-1)) throw new Error('the node is on another chain than the test mined');
      for (const hash of best) if (!blocks.has(hash)) blocks.set(hash, (await node.rpc('getblock', hash, 2)).tx.map(seenTx));
      const waiting: SeenTx[] = [];
      for (const txid of (await node.rpc('getrawmempool')) as string[]) {
        // Another one may have replaced it meanwhile.
        if (!transactions.has(txid)) await node.rpc('getrawtransaction', txid, 1).then((tx) => transactions.set(txid, seenTx(tx)), gone);
        const tx = transactions.get(txid);
        if (tx) waiting.push(tx);
      }
      return { mined: best.flatMap((hash) => blocks.get(hash)!), waiting };
    },
  };
}
