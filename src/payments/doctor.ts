/** The operator's questions: is everything set up right, and do the stored deposit addresses still follow from the account keys? */

import { statfs } from 'node:fs/promises';
import { ChainError, type ChainSource, type NamedSource } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { deriveAddress, type Script } from '../core/address.ts';
import { COIN, COINS, type Coin, type Network } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import { listNotices } from '../webhooks/endpoints.ts';
import { readDeliveryQueue } from '../webhooks/queue.ts';
import { readTroubles, type Trouble } from './follow-state.ts';
import { readGuards } from './guard.ts';
import { explainUnwatched, readUnwatched } from './unwatched.ts';

/** `ok` is false when the operator must do something; with `ok`, a `fix` is advice. */
export type Finding = { check: string; ok: boolean; detail: string; fix: string | null };

/** Rows that are named one by one; more are counted. */
const MOST_NAMED = 20;
const LEAST_FREE_BYTES = 1_073_741_824n;
const MOST_CLOCK_SECONDS = 60;
/** Blocks of a pruned node that last while Florin is stopped for three days. */
const LEAST_KEPT_SECONDS = 259_200;
/** A tip of a main network older than this many block intervals, and than an hour, is not the tip of the network. */
const OLD_TIP_BLOCKS = 12;
const WAITING_SECONDS = 300;

/** Checks database, disk, nodes, wallets, prices, endpoints and deposits. `ok` is false when something must be fixed. */
export async function diagnose(ctx: Context): Promise<{ ok: boolean; findings: Finding[] }> {
  const wallets = await readWallets(ctx);
  const findings = [
    ...(await checkDatabase(ctx)),
    ...(await checkDisk(ctx.settings.dataFolder)),
    ...checkAddress(ctx),
    ...(await checkProxies(ctx)),
    ...(await checkCoins(ctx, wallets)),
    ...(await checkCompletion(ctx)),
    ...(await checkPrices(ctx, wallets)),
    ...(await checkEndpoints(ctx)),
    ...(await checkStrays(ctx)),
    ...(await checkWatched(ctx)),
  ];
  return { ok: findings.every((finding) => finding.ok), findings };
}
const good = (check: string, detail: string, advice: string | null = null): Finding => ({ check, ok: true, detail, fix: advice });
const bad = (check: string, detail: string, fix: string): Finding => ({ check, ok: false, detail, fix });

async function checkDatabase(ctx: Context): Promise<Finding[]> {
  // An unsafe server is refused before it comes to this; a managed one may be changed while we run.
  const [db] = await ctx.db.sql<
    { version: string; migration: string | null; off: string[]; autovacuum: string; free: number; ahead: number }[]
  >`
    select current_setting('server_version') as version, current_setting('autovacuum') as autovacuum,
      (select name from migrations order by number desc limit 1) as migration,
      array(select name from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off') as off,
      current_setting('max_connections')::int - (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as free,
      extract(epoch from clock_timestamp())::float8 - ${(performance.timeOrigin + performance.now()) / 1000}::float8 as ahead`;
  const { version, migration, off, autovacuum, free, ahead } = db!;
  const findings: Finding[] = [];
  if (off.length > 0) findings.push(bad('database', `${off.join(', ')} is off: acknowledged payments could be lost`, 'turn it on'));
  else findings.push(good('database', `PostgreSQL ${version}, schema ${migration}, every commit is on disk`));
  if (autovacuum !== 'on') findings.push(bad('database', 'autovacuum is off: tables grow and become slow', 'set autovacuum = on'));
  if (free < 10)
    findings.push(bad('database', `only ${free} more connections are possible`, 'raise max_connections: each process uses about fifteen'));
  if (Math.abs(ahead) > MOST_CLOCK_SECONDS)
    findings.push(bad('database', `its clock is ${inWords(ahead)} this machine's`, 'let both keep their time by NTP'));
  return findings;
}
const inWords = (aheadSeconds: number): string => `${Math.abs(Math.round(aheadSeconds))} s ${aheadSeconds < 0 ? 'behind' : 'ahead of'}`;

/** Forwarded headers of peers that are not listed count for nothing: then all callers share the proxy's limits, and none comes over HTTPS. */
async function checkProxies(ctx: Context): Promise<Finding[]> {
  const peers = await ctx.db.sql<{ peer: string }[]>`
    select peer from unlisted_proxies where seen_at > clock_timestamp() - interval '1 day' order by peer limit ${MOST_NAMED}`;
  if (peers.length === 0) return [];
  const names = peers.map(({ peer }) => peer).join(', ');
  const fix = 'if it is your proxy, list it in TRUSTED_PROXIES; if not, nothing needs to be done';
  return [good('proxies', `X-Forwarded headers of ${names} were ignored in the last 24 hours`, fix)];
}

async function checkDisk(folder: string): Promise<Finding[]> {
  const found = await statfs(folder, { bigint: true }).catch(() => null);
  // With an own database and key it may not be there yet.
  if (!found) return [];
  const { bavail, bsize } = found;
  const free = bavail * bsize;
  const detail = `${free / 1_048_576n} MiB are free in ${folder}`;
  return [free < LEAST_FREE_BYTES ? bad('disk', detail, 'make room: without it nothing can be recorded') : good('disk', detail)];
}

function checkAddress(ctx: Context): Finding[] {
  const { protocol, hostname } = new URL(ctx.settings.publicUrl);
  if (protocol === 'https:') return [good('address', ctx.settings.publicUrl)];
  return /^(localhost|127\.|\[::1\])/.test(hostname)
    ? [good('address', `${ctx.settings.publicUrl}, for development`)]
    : [bad('address', `${ctx.settings.publicUrl} sends keys in the clear`, 'use TLS (TLS_CERT, or a proxy) and set an https PUBLIC_URL')];
}

type WalletRow = {
  coin: Coin;
  merchantId: string;
  network: Network;
  chainKey: string;
  script: Script;
  nextIndex: bigint;
};
const readWallets = (ctx: Context): Promise<WalletRow[]> => ctx.db.sql<WalletRow[]>`
  select coin, merchant_id as "merchantId", network, chain_key as "chainKey", script, next_index as "nextIndex"
  from wallets where active order by created_at`;

async function checkCoins(ctx: Context, wallets: readonly WalletRow[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  const troubles = await readTroubles(ctx);
  for (const coin of COINS) {
    const own = wallets.filter((wallet) => wallet.coin === coin);
    const chain = ctx.chains.get(coin);
    const sources = chain?.sources ?? [];
    for (const one of sources)
      findings.push(...(await checkNode(ctx, sources.length === 1 ? `${coin} node` : `${coin} source ${one.name}`, one)));
    if (own.length > 0 && !chain?.follows)
      findings.push(
        bad(`${coin} node`, `a wallet is set but no node${chain ? ', only a source of look-ups' : ''}`, `set ${coin}_NODE_URL`),
      );
    if (chain?.follows) findings.push(...checkFollower(troubles.find((one) => one.coin === coin)));
    for (const wallet of own.slice(0, MOST_NAMED)) findings.push(checkWallet(ctx, wallet));
    if (own.length > MOST_NAMED) findings.push(good(`${coin} wallet`, `${own.length - MOST_NAMED} more`));
    if (chain?.follows && own.length === 0)
      findings.push(bad(`${coin} wallet`, 'a node is configured but no merchant has a wallet', `florin wallet set --coin ${coin}`));
  }
  if (findings.length === 0) findings.push(good('live mode', 'no wallet and no node yet: test mode only'));
  return findings;
}

/** What the guard found that holds payments, as the running service last wrote it. */
async function checkCompletion(ctx: Context): Promise<Finding[]> {
  return (await readGuards(ctx)).flatMap(({ coin, binding, reasons, aboveReason }) => {
    const all = aboveReason === null ? reasons : [...reasons, aboveReason];
    if (all.length === 0) return [];
    const detail = `${binding ? 'completion waits' : 'on mainnet completion would wait'}: ${all.join('; ')}`;
    const fix = 'bring the sources that are away back; docs/guides/blockbook.md says what completes meanwhile';
    return [binding ? bad(`${coin} completion`, detail, fix) : good(`${coin} completion`, detail, fix)];
  });
}

/** What the follower itself noted: a block at which it fails, and why nothing expires. */
function checkFollower(trouble: Trouble | undefined): Finding[] {
  if (!trouble) return [];
  const check = `${trouble.coin} follower`;
  const { failingBlock, failure, doubt } = trouble;
  if (failingBlock) {
    const { height, hash, failures } = failingBlock;
    const detail = `it failed ${failures} times at block ${height}${hash ? ` (${hash})` : ''}: ${failure}`;
    return [bad(check, detail, 'see the log; payments in this block and after it are not seen until it can be read')];
  }
  return doubt ? [good(check, `${doubt.reason}: nothing of this coin expires meanwhile`, 'see what florin chain status says')] : [];
}

/** One source of a coin: first whether it answers, then whether it is the right one, then what it can do. */
async function checkNode(ctx: Context, check: string, { source, follows }: NamedSource): Promise<Finding[]> {
  const { coin, network } = source;
  const findings: Finding[] = [];
  try {
    const health = await source.health();
    if (health.network !== network) {
      const said = coin === 'ETH' ? `ETH_CHAIN_ID says ${ctx.settings.ethChainId}` : `${coin}_NETWORK says ${network}`;
      const fix =
        coin === 'ETH'
          ? 'set ETH_NODE_URL to a node of that chain, or ETH_CHAIN_ID to the one it is on'
          : `set ${coin}_NODE_URL to a ${network} node, or ${coin}_NETWORK=${health.network}`;
      return [bad(check, `it is on ${health.network}, ${said}`, fix)];
    }
    const [pinned] = await ctx.db.sql<{ genesis: string; height: bigint | null; behind: number | null }[]>`
      select c.genesis, t.height, extract(epoch from clock_timestamp() - t.scanned_through)::float8 as behind
      from chains c left join tips t using (coin) where c.coin = ${coin}`;
    // ETH is pinned by its chain id, which a source of look-ups alone does not tell.
    const genesis = follows || coin !== 'ETH' ? await source.genesis() : null;
    if (pinned && genesis !== null && pinned.genesis !== genesis)
      return [
        bad(
          check,
          `its chain begins with ${genesis}, the payments here are on ${pinned.genesis}`,
          `connect ${coin}_NODE_URL to that chain`,
        ),
      ];
    const { safeVersion, blockSeconds } = COIN[coin];
    const isMain = network === 'mainnet';
    const { tip } = health;
    const detail = `${health.software} on ${network} at block ${tip.height}`;
    findings.push(
      health.syncing
        ? bad(check, `${detail}, still syncing (${health.headers} known)`, 'wait: payments are not seen before it has caught up')
        : good(check, detail),
    );
    if (safeVersion !== null && health.version > 0 && health.version < safeVersion) {
      const old = `version ${health.version} is older than ${safeVersion}, the oldest known to be safe`;
      findings.push(isMain ? bad(check, old, 'upgrade the node') : good(check, old, 'upgrade the node'));
    }
    if (health.peers === 0 && coin !== 'ETH') {
      const fix = 'let it connect to the network';
      findings.push(isMain ? bad(check, 'it has no peers', fix) : good(check, 'it has no peers', fix));
    }
    const tipAge = (ctx.clock.now().getTime() - tip.time.getTime()) / 1000;
    if (isMain && !health.syncing && tipAge > Math.max(3_600, OLD_TIP_BLOCKS * blockSeconds))
      findings.push(bad(check, `its last block is ${Math.round(tipAge / 60)} minutes old`, 'see whether it is cut off from the network'));
    if (health.txindex === false)
      findings.push(
        good(check, 'no txindex: look-ups find the mempool and recent blocks only', 'set txindex=1 for look-ups of any transaction'),
      );
    if (pinned?.height != null && pinned.behind !== null && pinned.behind > WAITING_SECONDS) {
      const since = `payments were read up to block ${pinned.height}, last ${Math.round(pinned.behind / 60)} minutes ago`;
      findings.push(good(check, since, 'start the service, or see its log: nothing of this coin expires or completes meanwhile'));
    }
    if (source.inspect) findings.push(...(await inspectNode(check, source, tip.height, pinned?.height ?? null)));
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    findings.push(bad(check, error.message, howToReach(coin, error.message)));
  }
  return findings;
}
function howToReach(coin: Coin, reason: string): string {
  if (coin === 'ETH') return 'start the node, or see address and key of the provider in ETH_NODE_URL';
  if (/user and password/.test(reason))
    return `set user and password of the node in ${coin}_NODE_URL (rpcauth, or rpcuser and rpcpassword)`;
  if (/does not allow/.test(reason)) return 'allow this machine (rpcallowip) and the calls that are made (rpcwhitelist, see the guide)';
  if (/is starting/.test(reason)) return 'wait until it has started';
  return `start the node, and see host and port in ${coin}_NODE_URL (server=1, rpcbind)`;
}

async function inspectNode(check: string, source: ChainSource, tip: number, cursor: bigint | null): Promise<Finding[]> {
  const findings: Finding[] = [];
  const { prunedBelow, clockAheadSeconds, missing, warnings } = await source.inspect!();
  const { blockSeconds } = COIN[source.coin];
  if (prunedBelow !== null) {
    const kept = tip - prunedBelow + 1;
    const detail = `pruned: it keeps the last ${kept} blocks, about ${Math.round((kept * blockSeconds) / 3_600)} hours`;
    if (cursor !== null && cursor + 1n < BigInt(prunedBelow))
      findings.push(
        bad(check, `${detail}; those after ${cursor} have not been read and are gone`, 'sync it anew, or use a node that has them'),
      );
    else if (kept * blockSeconds < LEAST_KEPT_SECONDS)
      findings.push(bad(check, detail, 'keep more (prune=): what comes while the service is stopped longer is missed'));
    else findings.push(good(check, detail));
  }
  if (clockAheadSeconds !== null && Math.abs(clockAheadSeconds) > MOST_CLOCK_SECONDS)
    findings.push(bad(check, `its clock is ${inWords(clockAheadSeconds)} the database's`, 'let both keep their time by NTP'));
  for (const { capability, reason } of missing)
    findings.push(bad(check, `it does not give ${capability}: ${reason}`, 'allow it (rpcwhitelist), or use a node that does'));
  if (missing.length === 0) findings.push(good(check, 'it gives raw blocks, mempool, transactions and fee estimates'));
  for (const warning of warnings) findings.push(good(check, `it warns: ${warning}`, 'see what its makers say of it'));
  return findings;
}

function checkWallet(ctx: Context, { coin, merchantId, network, chainKey, script, nextIndex }: WalletRow): Finding {
  const check = `${coin} wallet`;
  if (network !== ctx.settings.networks[coin]) {
    const fix = `set a wallet of ${ctx.settings.networks[coin]}, or ${coin}_NETWORK=${network}`;
    return bad(check, `of ${merchantId}: it was set for ${network}, ${coin}_NETWORK says ${ctx.settings.networks[coin]}`, fix);
  }
  const { address } = deriveAddress({ chainKey, script, coin, network, index: 0n });
  return good(
    check,
    `of ${merchantId}: its first ${script} address is ${address}, the next index ${nextIndex}`,
    'compare the address with the first one in your own wallet',
  );
}

async function checkPrices(ctx: Context, wallets: readonly WalletRow[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  const offered = COINS.filter((coin) => ctx.chains.has(coin) || wallets.some((wallet) => wallet.coin === coin));
  const failed = 'see whether this machine may reach it; PRICES and FIAT_RATES name the sources';
  const [prices, rates] = await Promise.all([ctx.prices.check(), ctx.fiat.check()]);
  for (const { name, coins, unlisted, failure } of prices) {
    const lacks = unlisted.length > 0 ? `; it does not list ${unlisted.join(', ')}` : '';
    findings.push(failure === null ? good(`${name} prices`, `${coins.join(', ')}${lacks}`) : good(`${name} prices`, failure, failed));
  }
  for (const coin of offered) {
    const found = ctx.prices.quotable(coin);
    findings.push(
      'price' in found
        ? good(`${coin} price`, found.price.sources.join(', '))
        : bad(
            `${coin} price`,
            `${found.reason}: live payments in it wait`,
            'two sources must agree; see which answer, and add some to PRICES',
          ),
    );
  }
  for (const { name, currencies, failure } of rates)
    findings.push(failure === null ? good(`${name} rates`, `${currencies.length} currencies`) : good(`${name} rates`, failure, failed));
  return findings;
}

async function checkEndpoints(ctx: Context): Promise<Finding[]> {
  const failing = await ctx.db.sql<{ id: string; url: string; since: Date; failure: string | null; total: bigint }[]>`
    select e.id, e.url, e.failing_since as since, count(*) over () as total,
      (select a.failure from deliveries d join attempts a on a.delivery_id = d.id
        where d.endpoint_id = e.id and a.failure is not null order by a.at desc limit 1) as failure
    from endpoints e where e.failing_since is not null and e.state = 'enabled' order by e.failing_since, e.id limit ${MOST_NAMED}`;
  const findings = failing.map(({ id, url, since, failure }) =>
    bad(
      `endpoint ${id}`,
      `${url} has failed since ${since.toISOString()}${failure === null ? '' : ` (${failure})`}`,
      'it is tried again for five days; see that it answers 2xx within ten seconds',
    ),
  );
  const more = Number(failing[0]?.total ?? 0) - failing.length;
  if (more > 0) findings.push(bad('endpoints', `${more} more fail`, 'see the ones above'));
  for (const { endpointId, mode, merchantId, url, reason, at } of await listNotices(ctx, { limit: MOST_NAMED })) {
    const why = reason === 'gone' ? 'it answered 410' : 'nothing succeeded for five days';
    const detail = `${url} (${mode}, ${merchantId}) was switched off at ${at.toISOString()}: ${why}`;
    findings.push(
      good(`endpoint ${endpointId}`, detail, 'florin endpoint update --enabled true, once it answers again, or endpoint delete'),
    );
  }
  const queue = await readDeliveryQueue(ctx);
  const detail = `${queue.due} due, ${queue.inFlight} in flight, the oldest due for ${Math.round(queue.oldestSeconds / 60)} minutes`;
  // Due for longer than any endpoint rests, and nothing under way.
  if (queue.inFlight === 0 && queue.oldestSeconds > WAITING_SECONDS)
    findings.push(bad('deliveries', detail, 'start the service with the worker role'));
  else findings.push(good('deliveries', [detail, ...queue.attempts.map((a) => `${a.outcome} ${a.attempts}`)].join(', ')));
  if (failing.length === 0) findings.push(good('endpoints', 'none fails'));
  return findings;
}

/** Deposits to addresses that no payment was given. */
async function checkStrays(ctx: Context): Promise<Finding[]> {
  const strays = await ctx.db.sql<
    { coin: Coin; ref: string; walletId: string; merchantId: string; index: bigint; address: string; units: bigint; at: Date }[]
  >`
    select coin, ref, wallet_id as "walletId", merchant_id as "merchantId", index, address, units, first_seen_at as at
    from stray_deposits where claimed_at is null order by first_seen_at, coin, ref limit ${MOST_NAMED}`;
  return strays.map(({ coin, ref, walletId, merchantId, index, address, units, at }) =>
    bad(
      `${coin} deposit`,
      `${formatUnits(coin, units)} came to ${address} in ${ref} (index ${index} of ${walletId}, ${merchantId}) on ${at.toISOString()}, an address that no payment was given`,
      `once it is dealt with: florin deposit claim --coin ${coin} --ref ${ref}`,
    ),
  );
}

/** Addresses that were given before anybody read the blocks of their coin. */
async function checkWatched(ctx: Context): Promise<Finding[]> {
  return (await readUnwatched(ctx)).map((one) => {
    const { detail, fix } = explainUnwatched(one);
    return bad(`${one.coin} addresses`, detail, fix);
  });
}

/** The operator has dealt with a deposit that no payment was given: `doctor` no longer names it. Errors: parameter_invalid. */
export async function claimDeposit(ctx: Context, { coin, ref }: { coin: Coin; ref: string }): Promise<void> {
  const claimed = await ctx.db.sql`
    update stray_deposits set claimed_at = coalesce(claimed_at, clock_timestamp()) where coin = ${coin} and ref = ${ref}`;
  if (claimed.count === 0) throw new Problem('parameter_invalid', { reason: 'there is no such deposit' }, { param: 'ref' });
}

const PAGE = 1_000;

/**
 * Derives every deposit address anew from its wallet's account key, offline. A swapped address shows as a mismatch; `unwatched` names
 * the coins whose addresses could have been paid in a block that was not read.
 */
export async function verifyAddresses(ctx: Context): Promise<{ ok: boolean; checked: number; mismatches: string[]; unwatched: string[] }> {
  const unwatched = (await readUnwatched(ctx)).map((one) => `${one.coin}: ${explainUnwatched(one).detail}`);
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
    if (!last || rows.length < PAGE) return { ok: mismatches.length + unwatched.length === 0, checked, mismatches, unwatched };
    after = [last.coin, last.key];
  }
}
