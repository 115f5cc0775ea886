/** The operator's questions: is everything set up right, and do the stored deposit addresses still follow from the account keys? */

import type { Context } from '../context.ts';
import { deriveAddress, type Script } from '../core/address.ts';
import { COINS, type Coin } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import { Problem } from '../core/problem.ts';

/** Deposits named at a time; claiming them brings the next. */
const MOST_STRAYS = 20;

export type Finding = { check: string; ok: boolean; detail: string };

/** Checks database, nodes, prices, wallets. `ok` is false when something needs the operator. */
export async function diagnose(ctx: Context): Promise<{ ok: boolean; findings: Finding[] }> {
  const findings: Finding[] = [];
  const note = (check: string, ok: boolean, detail: string) => findings.push({ check, ok, detail });
  const [database] = await ctx.db.sql<{ version: string }[]>`select current_setting('server_version') as version`;
  note('database', true, `PostgreSQL ${database!.version}`);
  await ctx.prices.start();
  const wallets = await ctx.db.sql<{ coin: Coin; count: bigint }[]>`select coin, count(*) from wallets where active group by coin`;
  for (const coin of COINS) {
    const wanted = wallets.some((row) => row.coin === coin);
    const source = ctx.chains.get(coin);
    if (!source) {
      if (wanted) note(`${coin} node`, false, `a wallet is set but no node: set ${coin}_NODE_URL`);
      continue;
    }
    try {
      const health = await source.health();
      const problems = [
        health.network !== source.network && `it is on ${health.network}, ${coin}_NETWORK says ${source.network}`,
        health.syncing && `it is still syncing (${health.tip.height} of ${health.headers})`,
        health.peers === 0 && source.network === 'mainnet' && 'it has no peers',
      ].filter((problem) => typeof problem === 'string');
      note(
        `${coin} node`,
        problems.length === 0,
        problems.join('; ') ||
          `${health.software} at height ${health.tip.height}${health.pruned ? ', pruned' : ''}${health.txindex === false ? ', no txindex: look-ups of foreign transactions are not possible' : ''}`,
      );
    } catch (error) {
      note(`${coin} node`, false, error instanceof Error ? error.message : String(error));
    }
    const price = ctx.prices.quotable(coin);
    note(`${coin} price`, 'price' in price, 'price' in price ? `${price.price.sources.join(', ')}` : price.reason);
    if (!wanted) note(`${coin} wallet`, false, 'a node is configured but no merchant has a wallet: florin wallet set');
  }
  if (wallets.length === 0 && ctx.chains.size === 0) note('live mode', true, 'no wallet and no node yet: test mode only');
  const strays = await ctx.db.sql<
    { coin: Coin; ref: string; walletId: string; merchantId: string; index: bigint; address: string; units: bigint; at: Date }[]
  >`
    select coin, ref, wallet_id as "walletId", merchant_id as "merchantId", index, address, units, first_seen_at as at
    from stray_deposits where claimed_at is null order by first_seen_at, coin, ref limit ${MOST_STRAYS}`;
  for (const stray of strays) {
    note(
      `${stray.coin} deposit`,
      false,
      `${formatUnits(stray.coin, stray.units)} came to ${stray.address} (index ${stray.index} of ${stray.walletId}, ${stray.merchantId}) on ${stray.at.toISOString()}, an address that no payment was given; once it is dealt with: florin deposit claim --coin ${stray.coin} --ref ${stray.ref}`,
    );
  }
  await ctx.prices.stop();
  return { ok: findings.every((finding) => finding.ok), findings };
}

/** The operator has dealt with a deposit that no payment was given: `doctor` no longer names it. Errors: parameter_invalid. */
export async function claimDeposit(ctx: Context, { coin, ref }: { coin: Coin; ref: string }): Promise<void> {
  const claimed = await ctx.db.sql`
    update stray_deposits set claimed_at = coalesce(claimed_at, clock_timestamp()) where coin = ${coin} and ref = ${ref}`;
  if (claimed.count === 0) throw new Problem('parameter_invalid', { reason: 'there is no such deposit' }, { param: 'ref' });
}

const PAGE = 1_000;

/** Derives every deposit address anew from its wallet's account key, offline. A swapped address shows as a mismatch. */
export async function verifyAddresses(ctx: Context): Promise<{ ok: boolean; checked: number; mismatches: string[] }> {
  let checked = 0;
  const mismatches: string[] = [];
  let after: [string, string] = ['', ''];
  for (;;) {
    const rows = await ctx.db.sql<
      { coin: Coin; key: string; address: string; paymentId: string; index: bigint; chainKey: string; script: Script }[]
    >`
      select d.coin, d.key, d.address, d.payment_id as "paymentId", d.index, w.chain_key as "chainKey", w.script
      from deposit_addresses d join wallets w on w.id = d.wallet_id
      where (d.coin, d.key) > (${after[0]}, ${after[1]}) order by d.coin, d.key limit ${PAGE}`;
    for (const row of rows) {
      const derived = deriveAddress({
        chainKey: row.chainKey,
        script: row.script,
        coin: row.coin,
        network: ctx.settings.networks[row.coin],
        index: row.index,
      });
      if (derived.address !== row.address || derived.key !== row.key) mismatches.push(`${row.paymentId} ${row.coin} ${row.address}`);
    }
    checked += rows.length;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return { ok: mismatches.length === 0, checked, mismatches };
    after = [last.coin, last.key];
  }
}
