/** The operator's questions: is everything set up right, and do the stored deposit addresses still follow from the account keys? */

import type { Context } from '../context.ts';
import { deriveAddress, type Script } from '../core/address.ts';
import { COINS, type Coin } from '../core/coin.ts';
import { listNotices } from '../webhooks/endpoints.ts';
import { readDeliveryQueue } from '../webhooks/queue.ts';

/** Due for longer than any endpoint rests, and nothing under way: the worker is not there. */
const STUCK_SECONDS = 300;
const SHOWN_NOTICES = 20;

export type Finding = { check: string; ok: boolean; detail: string };

/** Checks database, nodes, prices, wallets, webhooks. `ok` is false when something needs the operator. */
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
  const queue = await readDeliveryQueue(ctx);
  const stuck = queue.inFlight === 0 && queue.oldestSeconds > STUCK_SECONDS;
  note(
    'webhooks',
    !stuck,
    `${queue.due} due, ${queue.inFlight} in flight, the oldest due for ${Math.round(queue.oldestSeconds)} s${stuck ? ': no worker takes them' : ''}` +
      queue.attempts.map((a) => `, ${a.outcome} ${a.attempts}`).join(''),
  );
  for (const off of await listNotices(ctx, { limit: SHOWN_NOTICES })) {
    const why = off.reason === 'gone' ? 'it answered 410' : 'nothing succeeded for five days';
    note(
      'webhook endpoint',
      true,
      `${off.endpointId} (${off.mode}) of ${off.merchantId} was switched off at ${off.at.toISOString()}: ${why}`,
    );
  }
  await ctx.prices.stop();
  return { ok: findings.every((finding) => finding.ok), findings };
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
