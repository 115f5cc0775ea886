/**
 * Rehearsals: in test mode, signing files spend what test payments received, with the same code, on simulated chains. Nothing of it can reach
 * a network, because the context of test mode has no other chains.
 */

import { isBitcoinLike, PARAMS } from '#addresses';
import { type BlockRef, ChainError, type ChainSource, type JoinedSource, joinSources } from '#chains';
import { type Context, perContext } from '#context';
import { CHAINS, type ChainId, COIN, type Coin, type ConfirmationTier, chainOf, kindOf, leadingCoins, type Mode } from '#core/coin';
import { E8 } from '#core/money';
import { depositTransaction } from '#core/simulated';
import { TEST_NETWORK, testDeposit } from '#wallets';
import { askSimulated, isFirstSent, isInChain, SIMULATED_CHAIN_ID, wouldBeShort } from './simulated-accounts.ts';
import { blockOf, heightAt, minedAt } from './simulated-blocks.ts';
import { inputsOfRaw } from './utxo-check.ts';

/** The context whose chains and networks are those of a mode. */
export const forMode = (ctx: Context, mode: Mode): Context => (mode === ctx.mode ? ctx : testContext(ctx));

const testContext = perContext((ctx): Context => {
  const coins = leadingCoins().filter((coin) => kindOf(coin) !== 'lightning');
  return {
    ...ctx,
    mode: 'test',
    chains: new Map(coins.map((coin): [ChainId, JoinedSource] => [chainOf(coin).chain, simulatedChain(ctx, coin)])),
    settings: {
      ...ctx.settings,
      networks: Object.fromEntries(CHAINS.map((chain) => [chain, TEST_NETWORK])) as Context['settings']['networks'],
      ethChainId: SIMULATED_CHAIN_ID,
      confirmations: Object.fromEntries(coins.map((coin) => [coin, TIERS])),
    },
  };
});
/** Enough to see that one waits for confirmations. */
const TIERS: readonly ConfirmationTier[] = [{ belowUsdCents: null, confirmations: 2, rule: 'confirmations' }];

const none = async (): Promise<never> => {
  throw new ChainError('unsupported', 'the simulated chain shows only what signing files need');
};

/** Of several versions of one transaction, the one that was sent first is mined. */
function simulatedChain(ctx: Context, coin: Coin): JoinedSource {
  const tip = async (): Promise<BlockRef> => blockOf(heightAt(ctx.clock.now()));
  const blockAt = async (height: number): Promise<BlockRef | null> =>
    height < 0 || height > (await tip()).height ? null : blockOf(height);
  const { family } = COIN[coin];
  const leastE8 = isBitcoinLike(family) ? PARAMS[family].floorPerKilobyte * 100_000n : E8;
  /** Whether it spends what the chain does not have any more. */
  const isImpossible = async (raw: Uint8Array): Promise<boolean> =>
    kindOf(coin) === 'ethereum'
      ? wouldBeShort(ctx, raw)
      : (await goneAmong(ctx, coin, inputsOfRaw(Buffer.from(raw).toString('hex')))).size > 0;
  const source: ChainSource = {
    coin,
    network: TEST_NETWORK,
    tip,
    blockAt,
    block: async (hash) => {
      const block = await blockAt(Number.parseInt(hash.slice(-8), 16));
      return block?.hash === hash ? block : null;
    },
    genesis: async () => blockOf(0).hash,
    health: async () => {
      const best = await tip();
      const software = { software: 'simulated', version: 1, network: TEST_NETWORK, pruned: false, txindex: true, peers: null };
      return { tip: best, headers: best.height, syncing: false, ...software };
    },
    fetchBlock: async (hash) => {
      const block = (await source.block(hash)) ?? (await none());
      return { ref: block, scan: () => ({ block, sightings: [], conflicts: [] }) };
    },
    txState: async (txid) => {
      const { sql } = ctx.db;
      const [sent] = await sql<{ at: Date; raw: Uint8Array }[]>`
        select t.sent_at as at, t.raw from signed_transactions t join signing_files s on s.id = t.file_id and s.mode = 'test'
        where t.txid = ${txid} and ${isFirstSent(sql)}`;
      if (!sent || (await isImpossible(sent.raw))) return { state: 'unknown', blockHash: null, lock: null };
      const block = await blockAt(minedAt(sent.at));
      return { state: block ? 'mined' : 'mempool', blockHash: block?.hash ?? null, lock: null };
    },
    fees: async () =>
      (['fast', 'normal', 'slow'] as const).map((speed, i) => {
        const rateE8 = BigInt(4 - i) * leastE8;
        return { speed, rateE8, units: (rateE8 * 200n) / E8, minutes: '1', source: 'estimate' };
      }),
    outlet: {
      areUnspent: async (outpoints) => {
        const gone = await goneAmong(ctx, coin, outpoints);
        return outpoints.map((outpoint) => !gone.has(outpoint));
      },
      readTransactions: (wanted) =>
        readTestDeposits(
          ctx,
          coin,
          wanted.map(({ txid }) => txid),
        ),
      // The caller records when it was sent, which is all that this chain reads.
      send: async (raw) => {
        if (await isImpossible(raw))
          throw new ChainError('refused', 'the simulated chain does not have what it spends: inputs are missing');
      },
    },
    ...(kindOf(coin) === 'ethereum' && {
      ask: (calls) => askSimulated(ctx, { coin, isMined: (sentAt) => minedAt(sentAt) <= heightAt(ctx.clock.now()) }, calls),
    }),
    fetchMempool: none,
    finality: none,
    transaction: none,
    addressSummary: none,
    close: () => {},
  };
  const named = { name: 'simulated', trust: 'own', source, follows: true } as const;
  return joinSources({ coin, network: TEST_NETWORK, sources: [named], log: ctx.log, clock: ctx.clock });
}

/** Those of the outpoints whose deposit left the chain. */
async function goneAmong({ db: { sql } }: Pick<Context, 'db'>, coin: Coin, outpoints: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await sql<{ ref: string }[]>`
    select t.ref from transfers t join payments p on p.id = t.payment_id and p.mode = 'test'
    where t.coin = ${coin} and t.ref = any(${outpoints as string[]}::text[]) and not ${isInChain(sql)}`;
  return new Set(rows.map(({ ref }) => ref));
}

/** The simulated transactions with these IDs, in order. Errors: ChainError not_found. */
async function readTestDeposits({ db: { sql } }: Pick<Context, 'db'>, coin: Coin, txids: readonly string[]): Promise<Uint8Array[]> {
  const rows = await sql<{ txid: string; merchantId: string; paymentId: string; units: bigint }[]>`
    select t.txid, t.merchant_id as "merchantId", t.payment_id as "paymentId", t.units
    from transfers t join payments p on p.id = t.payment_id and p.mode = 'test'
    where t.txid = any(${txids as string[]}::text[]) and t.coin = ${coin}`;
  return txids.map((txid) => {
    const row = rows.find((one) => one.txid === txid);
    const raw = row && depositTransaction({ ...row, script: testDeposit({ ...row, coin }).key });
    if (!raw) throw new ChainError('not_found', `no test payment received ${txid}`);
    return raw;
  });
}
