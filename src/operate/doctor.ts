/** For operators: is everything set up correctly, can merchants accept payments, and do stored deposit addresses match the account keys? */
import { statfs } from 'node:fs/promises';
import { deriveAddress, type Script } from '#addresses';
import { readReports } from '#chain-store';
import { ChainError, type ChainSource, explainReport, isStale, type JoinedSource, type NamedSource, SYNCING_HEADERS } from '#chains';
import type { Context } from '#context';
import {
  COIN,
  type Coin,
  chainCode,
  chainOf,
  coinText,
  FAMILIES,
  type Family,
  isToken,
  kindOf,
  leadingCoins,
  NATIVE_COINS,
  type Network,
  settingOf,
} from '#core/coin';
import { DAY_MS } from '#core/dates';
import { formatUnits } from '#core/money';
import { explainUnreached } from '#core/unreached';
import { readDeliveryQueue, readSecondsSinceAttempt } from '#deliveries';
import { explainUnwatched, readUnwatched, type UnwatchedAddresses } from '#follow';
import { readLightningHealth } from '#lightning';
import { contactOf } from '#merchants';
import { type CoinReadiness, readGuards, readReadinessOfAll, readTroubles, type Trouble } from '#readiness';
import { readWalletIndexes } from '#wallets';
import { listEndpointNotices } from '#webhooks';
import { BACKUP_DAYS, readInstall } from './backup.ts';
import { bad, checkContracts, checkRanges, type Finding, good } from './range-findings.ts';
import { checkSecrets, inspectSeals } from './secret-key.ts';
import { saferPostgres } from './version.ts';

/** How many rows are listed; the rest are counted. */
const MOST_NAMED = 20;
const LEAST_FREE_BYTES = 1_073_741_824n;
const MOST_CLOCK_SECONDS = 60;
/** Blocks that a pruned node must keep so that Florin can be stopped for three days. */
const LEAST_KEPT_SECONDS = 259_200;
/** On a main network, a last block that is older than an hour and than this many block intervals is not the newest one. */
const OLD_TIP_BLOCKS = 12;
const WAITING_SECONDS = 300;
/** Peers are many, and their clocks differ: more than this is our own clock. */
const MOST_PEER_CLOCK_SECONDS = 300;

/** Checks database, disk, sources, wallets, prices, payments, endpoints and deposits. `ok` is false when something must be fixed. */
export async function diagnose(ctx: Context): Promise<{ ok: boolean; findings: Finding[] }> {
  const wallets = await readWallets(ctx);
  const findings = [
    ...(await checkDatabase(ctx)),
    ...(await checkSkipped(ctx)),
    ...(await checkDisk(ctx.settings.dataFolder)),
    ...(await checkSecrets(ctx)),
    ...(wallets.length > 0 ? await checkBackup(ctx) : []),
    ...checkAddress(ctx),
    ...(await checkMail(ctx)),
    ...(await checkProxies(ctx)),
    ...(await checkCoins(ctx, wallets)),
    ...(await checkContracts(ctx)),
    ...(await checkCompletion(ctx)),
    ...(await checkPrices(ctx, wallets)),
    ...(await checkPayable(ctx, wallets)),
    ...(await checkLightningOf(ctx)),
    ...(await checkEndpoints(ctx)),
    ...(await checkStrays(ctx)),
    ...(await checkWatched(ctx)),
  ];
  return { ok: findings.every((finding) => finding.ok), findings };
}

async function checkDatabase(ctx: Context): Promise<Finding[]> {
  // An unsafe server is refused at startup, but a managed one may change while Florin runs.
  const [db] = await ctx.db.sql<
    {
      version: string;
      timeline: number;
      migration: string | null;
      off: string[];
      autovacuum: string;
      free: number;
      ahead: number;
      standbys: number;
      isSync: boolean;
      isReadOnly: boolean;
      sortedBy: string | null;
      sortsBy: string | null;
    }[]
  >`
    select current_setting('server_version') as version,
      ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline, current_setting('autovacuum') as autovacuum,
      (select name from migrations order by number desc limit 1) as migration,
      array(select name from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off') as off,
      current_setting('max_connections')::int - (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as free,
      extract(epoch from clock_timestamp())::float8 - ${(performance.timeOrigin + performance.now()) / 1000}::float8 as ahead,
      (select count(*)::int from pg_stat_replication r
        where not exists (select 1 from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')) as standbys,
      current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') <> 'local' as "isSync",
      current_setting('transaction_read_only') = 'on' as "isReadOnly", d.datcollversion as "sortedBy",
      pg_database_collation_actual_version(d.oid) as "sortsBy"
    from pg_database d where d.datname = current_database()`;
  const { version, timeline, migration, off, autovacuum, free, ahead, standbys, isSync, isReadOnly, sortedBy, sortsBy } = db!;
  const findings: Finding[] = [];
  if (isReadOnly)
    findings.push(
      bad(
        'database',
        'it is read-only, so nothing can be recorded',
        'make room on its disk if its host did that, then set default_transaction_read_only = off',
      ),
    );
  if (off.length > 0) findings.push(bad('database', `${off.join(', ')} is off, so acknowledged payments could be lost`, 'turn it on'));
  else if (standbys > 0 && !isSync)
    findings.push(
      bad(
        'database',
        `PostgreSQL ${version}, schema ${migration}: its standby receives commits later, so a failover to it loses the last payments`,
        'set synchronous_standby_names, and leave synchronous_commit = on',
      ),
    );
  else
    findings.push(
      good(
        'database',
        `PostgreSQL ${version}, a primary on timeline ${timeline}, schema ${migration}, every commit is on disk${standbys > 0 ? ' and on a standby' : ''}`,
      ),
    );
  const safer = saferPostgres(version);
  if (safer !== null)
    findings.push(good('database', `PostgreSQL ${version} has vulnerabilities that are fixed`, `upgrade it to ${safer} or newer`));
  if (autovacuum !== 'on') findings.push(bad('database', 'autovacuum is off, so tables grow and become slow', 'set autovacuum = on'));
  // An image or system with another version of the C library or ICU orders texts differently than the indexes on the disk.
  if (sortedBy !== null && sortedBy !== sortsBy)
    findings.push(
      bad(
        'database',
        `its indexes of texts were made with version ${sortedBy} of the collation, and the server has ${sortsBy ?? 'none'}, so it may not find rows`,
        'stop Florin, and run as a superuser in this database: reindex database; alter database ... refresh collation version',
      ),
    );
  if (free < 10)
    findings.push(bad('database', `only ${free} connections are left`, 'raise max_connections: each process uses about fifteen'));
  if (Math.abs(ahead) > MOST_CLOCK_SECONDS)
    findings.push(bad('database', `its clock is ${inWords(ahead)} this machine's`, 'sync both clocks with NTP'));
  return findings;
}

/** Addresses that were skipped because the database did not know them, and wallets that it does not know at all. */
async function checkSkipped(ctx: Context): Promise<Finding[]> {
  const skipped = await ctx.db.sql<{ walletId: string; family: Family; from: bigint; end: bigint; at: Date }[]>`
    select s.wallet_id as "walletId", w.family, s.first_index as from, s.end_index as end, s.at
    from skipped_indexes s join wallets w on w.id = s.wallet_id
    where s.reason = 'database' and s.at > clock_timestamp() - interval '30 days' order by s.id desc limit ${MOST_NAMED}`;
  const findings = skipped.map(({ walletId, family, from, end, at }) =>
    good(
      `${family} addresses`,
      `${walletId} skipped the indexes ${from} to ${end - 1n} on ${at.toISOString()}: the database did not know which of them were issued last`,
      'payments of that time may be lost; deposits to these addresses are reported here. Make sure that your wallet program looks this far',
    ),
  );
  const stored = await readWalletIndexes(ctx.settings.dataFolder).catch((error: Error) => error);
  if (stored instanceof Error) return [...findings, bad('wallets', stored.message, 'no address is given until then')];
  const known = new Set((await ctx.db.sql<{ id: string }[]>`select id from wallets`).map(({ id }) => id));
  const unknown = [...stored].filter(([name]) => /^wal_\w+$/.test(name) && !known.has(name)).slice(0, MOST_NAMED);
  for (const [walletId, end] of unknown)
    findings.push(
      good(
        'wallets',
        `wallet-indexes.json lists ${walletId} up to index ${end}, but the database does not have it`,
        `if the database was restored, set its account key again with --first-index ${end}`,
      ),
    );
  return findings;
}

const inWords = (aheadSeconds: number): string => `${Math.abs(Math.round(aheadSeconds))} s ${aheadSeconds < 0 ? 'behind' : 'ahead of'}`;

/** Forwarded headers of unlisted proxies are ignored: all callers then share the proxy's rate limit, and none counts as HTTPS. */
async function checkProxies(ctx: Context): Promise<Finding[]> {
  const peers = await ctx.db.sql<{ peer: string }[]>`
    select peer from unlisted_proxies where seen_at > clock_timestamp() - interval '1 day' order by peer limit ${MOST_NAMED}`;
  if (peers.length === 0) return [];
  const names = peers.map(({ peer }) => peer).join(', ');
  const fix = 'if it is your proxy, add it to TRUSTED_PROXIES; otherwise you can ignore this';
  return [good('proxies', `X-Forwarded headers of ${names} were ignored in the last 24 hours`, fix)];
}

async function checkDisk(folder: string): Promise<Finding[]> {
  const found = await statfs(folder, { bigint: true }).catch(() => null);
  // With an external database and SECRET_KEY it may not exist yet.
  if (!found) return [];
  const { bavail, bsize } = found;
  const free = bavail * bsize;
  const detail = `${free / 1_048_576n} MiB free in ${folder}`;
  return [free < LEAST_FREE_BYTES ? bad('disk', detail, 'free up space: nothing can be recorded on a full disk') : good('disk', detail)];
}

async function checkBackup(ctx: Context): Promise<Finding[]> {
  const { backedUpAt } = await readInstall(ctx);
  const days = backedUpAt && Math.floor((ctx.clock.now().getTime() - backedUpAt.getTime()) / DAY_MS);
  if (days !== null && days < BACKUP_DAYS) return [good('backup', `the last one is from ${backedUpAt!.toISOString()}`)];
  const detail = days === null ? 'Florin has not written one yet' : `the last one is ${days} days old`;
  return [good('backup', detail, 'run florin backup --file FILE every day, unless you back up the database in another way')];
}

/** Connects to the mail server and signs in, and sends nothing. */
async function checkMail({ mail }: Context): Promise<Finding[]> {
  if (mail === null)
    return [good('email', 'off, so members see notifications only in the dashboard', 'set SMTP_URL and MAIL_FROM to turn it on')];
  try {
    await mail.check();
    return [good('email', 'the mail server accepts the connection and the credentials')];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [bad('email', `the mail server refuses: ${reason}`, 'check SMTP_URL, and whether this machine may connect to its port')];
  }
}

function checkAddress(ctx: Context): Finding[] {
  const { protocol, hostname } = new URL(ctx.settings.publicUrl);
  if (protocol === 'https:') return [good('address', ctx.settings.publicUrl)];
  return /^(localhost|127\.|\[::1\])/.test(hostname)
    ? [good('address', `${ctx.settings.publicUrl}, for development`)]
    : [
        bad(
          'address',
          `${ctx.settings.publicUrl} sends API keys unencrypted`,
          'use TLS (TLS_CERT, or a proxy) and set PUBLIC_URL to an https address',
        ),
      ];
}

type WalletRow = {
  family: Family;
  merchantId: string;
  network: Network;
  chainKey: string;
  script: Script;
  nextIndex: bigint;
};
const readWallets = (ctx: Context): Promise<WalletRow[]> => ctx.db.sql<WalletRow[]>`
  select family, merchant_id as "merchantId", network, chain_key as "chainKey", script, next_index as "nextIndex"
  from wallets where active order by created_at`;

async function checkCoins(ctx: Context, wallets: readonly WalletRow[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  const troubles = await readTroubles(ctx);
  for (const coin of leadingCoins()) {
    const own = wallets.filter((wallet) => wallet.family === COIN[coin].family);
    const name = chainCode(coin);
    const chain = ctx.chains.get(COIN[coin].chain);
    // Its own network is read once there is a wallet.
    const sources = (chain && !(chain.onDemand && own.length === 0) ? chain.sources : []).filter((one) => !one.onlyLookUps);
    for (const one of sources) {
      const single = kindOf(coin) === 'ethereum' && one.trust !== 'own' ? 'provider' : 'node';
      findings.push(...(await checkNode(ctx, sources.length === 1 ? `${name} ${single}` : `${name} source ${one.name}`, one)));
    }
    findings.push(...(await checkRanges(ctx, coin, sources)));
    // Servers that nobody set are not connected before somebody looks something up.
    for (const { onlyLookUps, unchosen, source } of chain?.sources ?? [])
      if (onlyLookUps && !unchosen) findings.push(...(await checkServers(source)));
    if (chain?.witnesses) findings.push(...(await checkWitnesses(name, chain.witnesses)));
    if (chain?.watch) findings.push(...(await checkHelp(ctx, coin)));
    // A token network without a source is not offered.
    if (own.length > 0 && !chain?.follows && !isToken(coin))
      findings.push(
        bad(
          `${coin} node`,
          `a wallet is set up, but no source that detects payments${chain ? ', only one for lookups' : ''}`,
          kindOf(coin) === 'ethereum' ? `set ${coin}_NODE_URL` : `set ${coin}_P2P=auto or ${coin}_NODE_URL`,
        ),
      );
    if (chain?.follows) findings.push(...checkFollower(troubles.find((one) => one.coin === coin)));
    if (!isToken(coin)) for (const wallet of own.slice(0, MOST_NAMED)) findings.push(checkWallet(ctx, wallet));
    if (own.length > MOST_NAMED && !isToken(coin)) findings.push(good(`${coin} wallet`, `${own.length - MOST_NAMED} more`));
    if (chain?.follows && !chain.onDemand && own.length === 0)
      findings.push(
        bad(
          `${name} wallet`,
          'a source is connected, but no merchant has a wallet',
          `add one in the dashboard, or with florin wallet set --coin ${COIN[coin].family}`,
        ),
      );
  }
  if (findings.length === 0) findings.push(good('live mode', 'not set up: no wallet and no source, so only test payments work'));
  return findings;
}

/** Servers that only answer lookups. One that is down must be fixed only when fewer than two are left to agree. */
async function checkServers({ coin, servers }: ChainSource): Promise<Finding[]> {
  const states = (await servers?.check()) ?? [];
  const enough = states.filter(({ state }) => state === 'ok').length >= 2;
  const findings = states.map(({ name, state, reason, software, height }) => {
    const check = `${coin} Electrum server ${name}`;
    if (state === 'ok') return good(check, `${software} at block ${height}`);
    const fix = /accept-certificate/.test(reason ?? '') ? 'ask its operator, or remove it' : `check ${coin}_ELECTRUM_URL, or remove it`;
    return enough ? good(check, `it ${reason}`, fix) : bad(check, `it ${reason}`, fix);
  });
  if (states.length < 2)
    findings.push(good(`${coin} lookups`, 'balances and fees need two Electrum servers', `add another operator's to ${coin}_ELECTRUM_URL`));
  return findings;
}

/** Beacon servers. One that answers is enough, because nothing of what they say is believed. */
async function checkWitnesses(coin: string, witnesses: NonNullable<JoinedSource['witnesses']>): Promise<Finding[]> {
  const { servers, trouble, head } = await witnesses.check();
  const isAnswered = servers.some(({ reason }) => reason === null);
  const findings = servers.map(({ name, reason }) => {
    const check = `${coin} beacon server ${name}`;
    if (reason === null) return good(check, 'answers');
    const fix = `check ${coin}_BEACON_URL, or remove it`;
    return isAnswered ? good(check, reason, fix) : bad(check, reason, fix);
  });
  const check = `${coin} checkpoint`;
  if (trouble !== null) return [...findings, bad(check, trouble, `set ${coin}_CHECKPOINT as docs/guides/ethereum.md describes`)];
  return [...findings, good(check, head ?? 'nothing is proven yet: the proof begins when the service follows the chain')];
}

/** What keeps payments from completing, as the running service last recorded it. */
async function checkCompletion(ctx: Context): Promise<Finding[]> {
  return (await readGuards(ctx)).flatMap(({ coin, binding, reasons, aboveReason, sources }) => {
    const all = aboveReason === null ? reasons : [...reasons, aboveReason];
    const unproven = sources.flatMap(({ name, state, reason }) => {
      const check = `${coin} source ${name}`;
      if (state === 'behind' || state === 'unproven')
        return [bad(check, `it is left out: ${reason}`, 'check what this source shows, or remove it from the settings')];
      if (state !== 'syncing' || !reason?.startsWith(SYNCING_HEADERS)) return [];
      const fix = ctx.chains.get(COIN[coin].chain)?.watch
        ? 'wait: payments are detected once the headers are complete'
        : `wait, or set ${coin}_P2P=auto and restart, so that peers of the network bring the headers`;
      return [bad(check, `it cannot be used yet: ${reason}`, fix)];
    });
    if (all.length === 0) return unproven;
    const detail = `${binding ? 'payments do not complete' : 'on mainnet payments would not complete'}: ${all.join('; ')}`;
    const fix = ctx.chains.get(COIN[coin].chain)?.witnesses
      ? 'docs/guides/ethereum.md says what each reason means and what ends it'
      : 'get the missing sources running again; docs/guides/sources.md lists which payments complete meanwhile';
    return [...unproven, binding ? bad(`${coin} completion`, detail, fix) : good(`${coin} completion`, detail, fix)];
  });
}

/** What the follower recorded: a block it cannot read, and why payments do not expire. */
function checkFollower(trouble: Trouble | undefined): Finding[] {
  if (!trouble) return [];
  const check = `${trouble.coin} follower`;
  const { failingBlock, failure, doubt, unexplained } = trouble;
  const release = `look for the transfer in a block explorer; once you have handled it: florin chain release --coin ${chainCode(trouble.coin)} --reason "..."`;
  const balances = unexplained === null ? [] : [bad(`${chainCode(trouble.coin)} balances`, unexplained, release)];
  if (failingBlock) {
    const { height, hash, failures } = failingBlock;
    const detail = `block ${height}${hash ? ` (${hash})` : ''} could not be read ${failures} times: ${failure}`;
    return [...balances, bad(check, detail, 'check the log; payments from this block on are not detected until it can be read')];
  }
  const doubts = doubt
    ? [good(check, `${doubt.reason}, so ${trouble.coin} payments do not expire for now`, 'run florin chain status for details')]
    : [];
  return [...balances, ...doubts];
}

/** The peers whose headers are compared with those of the other sources. */
async function checkHelp(ctx: Context, coin: Coin): Promise<Finding[]> {
  const report = (await readReports(ctx.db.sql)).find((one) => one.coin === COIN[coin].family);
  if (!report || isStale(report)) return [];
  const waits = explainReport(report);
  const detail = `${report.connected} connected to compare the node with, block ${report.height}`;
  const fix = `${HOW_TO_CONNECT}, or set ${coin}_P2P=off`;
  return [waits === null ? good(`${coin} peers`, detail) : good(`${coin} peers`, `${waits}; ${detail}`, fix)];
}

/** The connections to peers, as the running service last reported them. */
async function checkPeers(ctx: Context, { coin, network }: ChainSource): Promise<Finding[]> {
  const check = `${coin} peers`;
  const report = (await readReports(ctx.db.sql)).find((one) => one.coin === COIN[coin].family && one.network === network);
  if (!report || isStale(report))
    return [bad(check, 'no running process is connected to peers', 'start the service, with the watcher role if you split roles')];
  const { connected, height, phase, bytesIn, bytesOut, startedAt, clockAheadSeconds } = report;
  const waits = explainReport(report);
  const hours = Math.max(1 / 60, (ctx.clock.now().getTime() - startedAt.getTime()) / 3_600_000);
  const traffic = `${inMegabytes(bytesIn)} MB in and ${inMegabytes(bytesOut)} MB out in ${hours < 1 ? `${Math.round(hours * 60)} minutes` : `${Math.round(hours)} hours`}`;
  const detail = `${connected} connected on ${network}, block ${height}, ${traffic}`;
  const findings = [
    waits === null
      ? good(check, detail)
      : bad(check, `${waits}; ${detail}`, phase === 'headers' ? 'wait: payments are detected once it has caught up' : HOW_TO_CONNECT),
  ];
  if (clockAheadSeconds !== null && Math.abs(clockAheadSeconds) > MOST_PEER_CLOCK_SECONDS)
    findings.push(bad(check, `their clocks are ${inWords(clockAheadSeconds)} this machine's`, 'sync the clock of this machine with NTP'));
  return findings;
}
const HOW_TO_CONNECT = 'check that this machine may open connections to the internet on any port; P2P_PROXY connects through Tor';
const inMegabytes = (bytes: number): string => (Math.round(bytes / 100_000) / 10).toLocaleString('en-US');

/** One source of a coin: whether it responds, whether it is on the right chain, then what it supports. */
async function checkNode(ctx: Context, check: string, { source, follows, connection }: NamedSource): Promise<Finding[]> {
  if (connection) return checkPeers(ctx, source);
  const { coin, network } = source;
  const findings: Finding[] = [];
  try {
    const health = await source.health();
    if (health.network !== network) {
      const isAccount = kindOf(coin) === 'ethereum';
      const setting = settingOf(coin);
      const byId = isAccount && !isToken(coin);
      const said = byId ? `ETH_CHAIN_ID says ${ctx.settings.ethChainId}` : `${setting}_NETWORK says ${network}`;
      const fix = byId
        ? 'point ETH_NODE_URL to a node on that chain, or change ETH_CHAIN_ID'
        : isAccount
          ? `point ${setting}_NODE_URL to a node on chain ${chainOf(coin).chainIds![network]}, or change ${setting}_NETWORK`
          : `point ${coin}_NODE_URL to a ${network} node, or set ${coin}_NETWORK=${health.network}`;
      return [bad(check, `it is on ${health.network}, ${said}`, fix)];
    }
    const [pinned] = await ctx.db.sql<{ genesis: string; height: bigint | null; behind: number | null }[]>`
      select c.genesis, t.height, extract(epoch from clock_timestamp() - t.scanned_through)::float8 as behind
      from chains c left join tips t using (chain) where c.chain = ${chainCode(coin)}`;
    // Ethereum networks are verified by their chain id, which a source for lookups only does not report.
    const genesis = follows || kindOf(coin) !== 'ethereum' ? await source.genesis() : null;
    if (pinned && genesis !== null && pinned.genesis !== genesis)
      return [
        bad(
          check,
          `its chain starts with ${genesis}, but the payments here are on ${pinned.genesis}`,
          `point ${coin}_NODE_URL to a node on that chain`,
        ),
      ];
    const { safeVersion, blockSeconds } = chainOf(coin);
    const isMain = network === 'mainnet';
    const { tip } = health;
    const detail = `${health.software} on ${network} at block ${tip.height}`;
    findings.push(
      health.syncing
        ? bad(check, `${detail}, still syncing (${health.headers} known)`, 'wait: payments are detected once it has caught up')
        : good(check, detail),
    );
    if (safeVersion !== null && health.version > 0 && health.version < safeVersion) {
      const old = `version ${health.version} is older than ${safeVersion}, the oldest known to be safe`;
      findings.push(isMain ? bad(check, old, 'upgrade the node') : good(check, old, 'upgrade the node'));
    }
    if (health.peers === 0 && kindOf(coin) !== 'ethereum') {
      const fix = 'check its network connection and firewall';
      findings.push(isMain ? bad(check, 'it has no peers', fix) : good(check, 'it has no peers', fix));
    }
    const tipAge = (ctx.clock.now().getTime() - tip.time.getTime()) / 1000;
    if (isMain && !health.syncing && tipAge > Math.max(3_600, OLD_TIP_BLOCKS * blockSeconds))
      findings.push(bad(check, `its last block is ${Math.round(tipAge / 60)} minutes old`, 'check whether it is cut off from the network'));
    if (health.txindex === false)
      findings.push(
        good(check, 'no txindex: look-ups only find the mempool and recent blocks', 'set txindex=1 to look up any transaction'),
      );
    if (pinned?.height != null && pinned.behind !== null && pinned.behind > WAITING_SECONDS) {
      const since = `payments were read up to block ${pinned.height}, last ${Math.round(pinned.behind / 60)} minutes ago`;
      findings.push(good(check, since, 'start the service or check its log: until then no payment in this coin completes or expires'));
    }
    if (source.inspect) findings.push(...(await inspectNode(check, source, tip.height, pinned?.height ?? null)));
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    findings.push(bad(check, error.message, howToReach(coin, error.message)));
  }
  return findings;
}
function howToReach(coin: Coin, reason: string): string {
  if (kindOf(coin) === 'ethereum') return `start the node, or check the address and key of the provider in ${settingOf(coin)}_NODE_URL`;
  if (/user and password/.test(reason))
    return `put the user and password of the node in ${coin}_NODE_URL (rpcauth, or rpcuser and rpcpassword)`;
  if (/does not allow/.test(reason)) return 'allow this machine (rpcallowip) and the required calls (rpcwhitelist, see the guide)';
  if (/is starting/.test(reason)) return 'wait until the node has started';
  return `start the node, and check host and port in ${coin}_NODE_URL (server=1, rpcbind)`;
}

async function inspectNode(check: string, source: ChainSource, tip: number, cursor: bigint | null): Promise<Finding[]> {
  const findings: Finding[] = [];
  const { prunedBelow, clockAheadSeconds, missing, warnings } = await source.inspect!();
  const { blockSeconds } = chainOf(source.coin);
  if (prunedBelow !== null) {
    const kept = tip - prunedBelow + 1;
    const detail = `pruned: it keeps the last ${kept} blocks, about ${Math.round((kept * blockSeconds) / 3_600)} hours`;
    if (cursor !== null && cursor + 1n < BigInt(prunedBelow))
      findings.push(
        bad(check, `${detail}; those after ${cursor} were not read and are gone`, 'resync it, or use a node that still has them'),
      );
    else if (kept * blockSeconds < LEAST_KEPT_SECONDS)
      findings.push(bad(check, detail, 'keep more blocks (prune=): payments are missed if the service is stopped for longer'));
    else findings.push(good(check, detail));
  }
  if (clockAheadSeconds !== null && Math.abs(clockAheadSeconds) > MOST_CLOCK_SECONDS)
    findings.push(bad(check, `its clock is ${inWords(clockAheadSeconds)} the database's`, 'sync both clocks with NTP'));
  const isAccount = kindOf(source.coin) === 'ethereum';
  const fix = isAccount
    ? 'use a provider that has it: while this one is read, payments in ETH do not expire, and payments through contracts are not detected'
    : 'allow it (rpcwhitelist), or use a node that does';
  for (const { capability, reason } of missing) findings.push(bad(check, `it does not provide ${capability}: ${reason}`, fix));
  const provides = isAccount ? 'it proves balances of the last block' : 'it provides raw blocks, mempool, transactions and fee estimates';
  if (missing.length === 0) findings.push(good(check, provides));
  for (const warning of warnings) findings.push(good(check, `it warns: ${warning}`, 'check the release notes of the node'));
  return findings;
}

function checkWallet(ctx: Context, { family: coin, merchantId, network, chainKey, script, nextIndex }: WalletRow): Finding {
  const check = `${coin} wallet`;
  if (network !== ctx.settings.networks[COIN[coin].chain]) {
    const fix = `import a ${ctx.settings.networks[COIN[coin].chain]} key, or set ${coin}_NETWORK=${network}`;
    return bad(check, `${merchantId}: it is for ${network}, but ${coin}_NETWORK is ${ctx.settings.networks[COIN[coin].chain]}`, fix);
  }
  const { address } = deriveAddress({ chainKey, script, coin, network, index: 0n });
  return good(
    check,
    `${merchantId}: first ${script} address ${address}, next index ${nextIndex}`,
    'check that it is the first address in your own wallet',
  );
}

async function checkPrices(ctx: Context, wallets: readonly WalletRow[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  const offered = NATIVE_COINS.filter((coin) => {
    const chain = ctx.chains.get(COIN[coin].chain);
    return (chain !== undefined && !chain.onDemand) || wallets.some((wallet) => wallet.family === coin);
  });
  const failed = 'check whether this machine can reach it; PRICES and FIAT_RATES list the sources';
  const [prices, rates] = await Promise.all([ctx.prices.check(), ctx.fiat.check()]);
  const silent = [
    ...prices.flatMap(({ name, failure }) => (failure === null ? [] : [{ check: `${name} prices`, failure }])),
    ...rates.flatMap(({ name, failure }) => (failure === null ? [] : [{ check: `${name} rates`, failure }])),
  ];
  // A machine that is offline gets one line, not one per source.
  if (silent.length > 2) {
    const names = silent.map(({ check }) => check).join(', ');
    const sources = `${silent.length} of ${prices.length + rates.length} sources do not answer: ${names}`;
    findings.push(good('price sources', `${sources}. The first says: ${silent[0]!.failure}`, failed));
  } else for (const { check, failure } of silent) findings.push(good(check, failure, failed));
  for (const { name, assets, unlisted, failure } of prices) {
    const lacks = unlisted.length > 0 ? `; not listed there: ${unlisted.join(', ')}` : '';
    if (failure === null) findings.push(good(`${name} prices`, `${assets.join(', ')}${lacks}`));
  }
  const unpriced = new Map<string, Coin[]>();
  for (const coin of offered) {
    const found = ctx.prices.quotable(COIN[coin].asset);
    if ('price' in found) findings.push(good(`${coin} price`, found.price.sources.join(', ')));
    else unpriced.set(found.reason, [...(unpriced.get(found.reason) ?? []), coin]);
  }
  for (const [reason, coins] of unpriced) {
    const names = coins.join(', ');
    const fix = 'two sources must agree; check which ones respond, and add more to PRICES';
    findings.push(bad(`${names} price`, `${reason}, so customers cannot pay with ${names}`, fix));
  }
  for (const { name, currencies, failure } of rates)
    if (failure === null) findings.push(good(`${name} rates`, `${currencies.length} currencies`));
  return findings;
}

/**
 * Whether each merchant with a wallet can accept payments now, as shown to merchants and customers. This is only a note, because
 * what the operator has to fix has its own finding, and the rest is up to the merchant.
 */
async function checkPayable(ctx: Context, wallets: readonly WalletRow[]): Promise<Finding[]> {
  const merchantIds = [...new Set(wallets.map(({ merchantId }) => merchantId))];
  const found = await readReadinessOfAll(ctx, { merchantIds: merchantIds.slice(0, MOST_NAMED) });
  const findings = found.map(({ merchant, coins }) => {
    const payable = coins.filter((coin) => coin.payable).map(({ coin }) => coin);
    if (payable.length > 0) return good('payments', `${merchant.name} (${merchant.id}) can take ${payable.join(', ')}`);
    const missing = coins.filter(({ coin }) => merchant.walletCoins.includes(coin)).flatMap((coin) => coin.missing.slice(0, 1));
    const why = missing.map(({ message }) => message).join(' ');
    return good('payments', `${merchant.name} (${merchant.id}) cannot take live payments now. ${why}`, howToTake(missing[0]));
  });
  for (const { merchant } of found.filter(({ merchant: { settings } }) => contactOf(settings) === null))
    findings.push(
      good(
        'contact',
        `customers of ${merchant.name} (${merchant.id}) cannot reach it when a payment goes wrong: it has no support contact and no website`,
        'add a support contact in the dashboard under Business',
      ),
    );
  const more = merchantIds.length - found.length;
  return more > 0 ? [...findings, good('payments', `${more} more merchants have a wallet`)] : findings;
}
function howToTake(missing: CoinReadiness['missing'][number] | undefined): string {
  if (!missing) return 'add a wallet in the dashboard';
  // Whether the node responds has its own line. This one reports that nothing reads it.
  if (missing.code === 'source_starting' || missing.code === 'source_silent') return 'start the service, or check its log';
  return [missing.fix, ...missing.lines.filter((line) => !line.startsWith('#'))].join(' ');
}

/** The nodes and providers that make Lightning invoices, as the last request or check left them. */
async function checkLightningOf(ctx: Context): Promise<Finding[]> {
  const all = await readLightningHealth(ctx);
  const findings = all.slice(0, MOST_NAMED).map(({ merchantId, name, failure, open, unseen }) => {
    const check = 'lightning';
    if (failure === null && unseen === 0) return good(check, `${merchantId} receives by ${name}; ${open} open invoices`);
    const why = failure ?? `${unseen} of ${open} open invoices cannot be looked at`;
    return bad(check, `${merchantId} receives by ${name}, which fails: ${why}`, `./florin lightning check --merchant ${merchantId}`);
  });
  const more = all.length - findings.length;
  return more > 0 ? [...findings, good('lightning', `${more} more merchants receive over Lightning`)] : findings;
}

async function checkEndpoints(ctx: Context): Promise<Finding[]> {
  const failing = await ctx.db.sql<
    { id: string; url: string; since: Date; reason: string | null; address: string | null; total: bigint }[]
  >`
    select e.id, e.url, e.failing_since as since, count(*) over () as total, e.failure_reason as reason, e.failure_address as address
    from endpoints e where e.failing_since is not null and e.state = 'enabled' order by e.failing_since, e.id limit ${MOST_NAMED}`;
  const findings = failing.map(({ id, url, since, reason, address }) => {
    const why = explainUnreached(reason);
    const detail = `${url} has been failing since ${since.toISOString()}`;
    return bad(
      `endpoint ${id}`,
      why === null ? detail : `${detail}: ${why.words}${address === null ? '' : ` (${address})`}`,
      `${why?.advice ?? 'Look at its last deliveries.'} Deliveries are retried; it is disabled after five days without success`,
    );
  });
  const more = Number(failing[0]?.total ?? 0) - failing.length;
  if (more > 0) findings.push(bad('endpoints', `${more} more are failing`, 'fix the ones above first, then run this again'));
  for (const { endpointId, mode, merchantId, url, reason, at } of await listEndpointNotices(ctx, { limit: MOST_NAMED })) {
    const why = reason === 'gone' ? 'it answered 410' : 'no delivery succeeded for five days';
    const detail = `${url} (${mode}, ${merchantId}) was disabled at ${at.toISOString()}: ${why}`;
    findings.push(
      good(
        `endpoint ${endpointId}`,
        detail,
        'once it works again: florin endpoint update --enabled true; otherwise florin endpoint delete',
      ),
    );
  }
  findings.push(...(await checkDeliveries(ctx)));
  if (failing.length === 0) findings.push(good('endpoints', 'no failing endpoints'));
  return findings;
}

/** Whether deliveries are sent at all. A failing endpoint also has overdue deliveries, but it has its own line above. */
async function checkDeliveries(ctx: Context): Promise<Finding[]> {
  const [queue, sentSeconds] = await Promise.all([readDeliveryQueue(ctx), readSecondsSinceAttempt(ctx)]);
  const detail = `${queue.due} due, ${queue.inFlight} in progress, the oldest due for ${minutes(queue.oldestSeconds)}`;
  const isSending = queue.inFlight > 0 || (sentSeconds !== null && sentSeconds < WAITING_SECONDS);
  if (queue.oldestSeconds > WAITING_SECONDS && !isSending) {
    const last = sentSeconds === null ? 'nothing was ever sent' : `nothing was sent for ${minutes(sentSeconds)}`;
    return [bad('deliveries', `${detail}; ${last}`, 'no worker is running: start the service, with the worker role if you split roles')];
  }
  const counts = queue.attempts.map(({ outcome, attempts }) => `${outcome} ${attempts}`);
  return [good('deliveries', [detail, ...counts].join(', '))];
}
const minutes = (seconds: number): string => `${Math.round(seconds / 60)} minutes`;

/** Deposits to addresses that no payment uses. */
async function checkStrays(ctx: Context): Promise<Finding[]> {
  const strays = await ctx.db.sql<
    { coin: Coin; ref: string; walletId: string; merchantId: string; index: bigint; address: string; units: bigint; at: Date }[]
  >`
    select coin, ref, wallet_id as "walletId", merchant_id as "merchantId", index, address, units, first_seen_at as at
    from stray_deposits where claimed_at is null order by first_seen_at, coin, ref limit ${MOST_NAMED}`;
  return strays.map(({ coin, ref, walletId, merchantId, index, address, units, at }) =>
    bad(
      `${coinText(coin)} deposit`,
      `${formatUnits(coin, units)} came to ${address} in ${ref} (index ${index} of ${walletId}, ${merchantId}) on ${at.toISOString()}, an address that no payment uses`,
      `once you have handled it: florin deposit claim --coin ${coin} --ref ${ref}`,
    ),
  );
}

/** Addresses that were shown before the blocks of their coin were read. */
async function checkWatched(ctx: Context): Promise<Finding[]> {
  return (await readUnwatched(ctx)).map((one) => {
    const { detail, fix } = explainUnwatched(one);
    return isBeingRead(one) ? good(`${one.coin} addresses`, detail, fix) : bad(`${one.coin} addresses`, detail, fix);
  });
}

/** Right after an upgrade or a restore, earlier blocks are read in the background: nobody has to act. */
const isBeingRead = ({ from, to, failure }: UnwatchedAddresses): boolean => from !== null && to !== null && failure === null;

const PAGE = 1_000;

type Verified = { ok: boolean; checked: number; mismatches: string[]; unwatched: string[]; unreadable: string[] };
/**
 * Rederives every deposit address from its wallet's account key, offline. A swapped address shows as a mismatch; `unwatched` lists
 * the coins whose addresses may have been paid in a block that was not read (it is `ok` while these blocks are being read), and
 * `unreadable` the secrets that the key does not open.
 */
export async function verifyAddresses(ctx: Context): Promise<Verified> {
  const { closed: unreadable } = await inspectSeals(ctx.db.sql, ctx);
  const found = await readUnwatched(ctx);
  const unwatched = found.map((one) => `${one.coin}: ${explainUnwatched(one).detail}`);
  const isWatched = found.every(isBeingRead);
  let checked = 0;
  const mismatches: string[] = [];
  let after: [string, string] = ['', ''];
  for (;;) {
    const rows = await ctx.db.sql<
      { family: Family; key: string; address: string; paymentId: string; index: bigint; chainKey: string; script: Script }[]
    >`
      select d.family, d.key, d.address, d.payment_id as "paymentId", d.index, w.chain_key as "chainKey", w.script
      from deposit_addresses d join wallets w on w.id = d.wallet_id
      where d.family = any(${FAMILIES as Family[]}::text[]) and (d.family, d.key) > (${after[0]}, ${after[1]}) order by d.family, d.key limit ${PAGE}`;
    for (const row of rows) {
      const derived = deriveAddress({
        chainKey: row.chainKey,
        script: row.script,
        coin: row.family,
        network: ctx.settings.networks[COIN[row.family].chain],
        index: row.index,
      });
      if (derived.address !== row.address || derived.key !== row.key) mismatches.push(`${row.paymentId} ${row.family} ${row.address}`);
    }
    checked += rows.length;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE)
      return { ok: mismatches.length + unreadable.length === 0 && isWatched, checked, mismatches, unwatched, unreadable };
    after = [last.family, last.key];
  }
}
