/** Liveness and readiness, for load balancers and an operator's monitoring. */

import { setTimeout as sleep } from 'node:timers/promises';
import { readReports } from '#chain-store';
import { explainComparison, explainReport, isStale, purposeOfPeers, type StoredReport } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, type Family, isToken, leadingCoins, NATIVE_COINS } from '#core/coin';
import { readUnwatched } from '#follow';
import { readLightningHealth } from '#lightning';
import { explainTrouble, readGuards, readTokenHolds, readTroubles } from '#readiness';

export const isAlive = (): object => ({ status: 'ok' });

/** Followers poll every few seconds: one that has not polled for this long is broken or not running. */
const UNREAD_SECONDS = 25;
/** Polls that are never complete are one problem that nothing else reports. */
const INCOMPLETE_SECONDS = 180;

/** A load balancer asks whether the process is ready at least this often. */
const BALANCER_MS = 5_000;
/** How long the process then answers before it ends: one that asks every second has noticed twice. */
const LEAVING_MS = 3_000;
/** How a process ends that a load balancer sends requests to. */
export function createExit() {
  let askedAt = Number.NEGATIVE_INFINITY;
  let isLeaving = false;
  return {
    /** Notes that somebody asked, and says whether the process is leaving. */
    asked: (): boolean => {
      askedAt = performance.now();
      return isLeaving;
    },
    /** From now on the process is not ready. Waits until a load balancer, if one asks, sends no more requests. */
    leave: async (): Promise<void> => {
      isLeaving = true;
      if (performance.now() - askedAt < BALANCER_MS) await sleep(LEAVING_MS);
    },
  };
}

/** `timeline` grows with each failover and each restore. */
type DatabaseState = { role: 'primary' | 'standby'; timeline: number | null };
/** `isReadOnly`: hosts make a database read-only when its disk is almost full. */
export async function readDatabase({ db: { sql } }: Context): Promise<{ state: DatabaseState; isReadOnly: boolean }> {
  const [row] = await sql<{ timeline: string | null; isReadOnly: boolean }[]>`
    select case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline,
      current_setting('transaction_read_only') = 'on' as "isReadOnly"`;
  const { timeline, isReadOnly } = row!;
  if (timeline === null) return { state: { role: 'standby', timeline }, isReadOnly };
  return { state: { role: 'primary', timeline: Number.parseInt(timeline, 16) }, isReadOnly };
}

/**
 * Whether the service can work: database, followers, prices of the payable coins. Reasons say what is missing. `isLeaving`: the process
 * still answers, and ends once load balancers have noticed.
 */
export async function readServiceReadiness(
  ctx: Context,
  { isLeaving = false }: { isLeaving?: boolean } = {},
): Promise<{
  ready: boolean;
  reasons: string[];
  holds: string[];
  warnings: string[];
  database: DatabaseState | null;
  followers: object;
  peers: object;
  electrum?: object;
  lightning?: LightningCounts;
}> {
  const reasons: string[] = isLeaving ? ['this process is stopping'] : [];
  // On a chain on hold nothing completes, but payments are created, detected and reported as usual, so requests need no rerouting.
  const holds: string[] = [];
  const warnings: string[] = [];
  const followers: Record<string, object> = {};
  const peers: Record<string, object> = {};
  let database: DatabaseState | null = null;
  let lightning: LightningCounts | null = null;
  try {
    const { state, isReadOnly } = await readDatabase(ctx);
    database = state;
    if (await ctx.db.isFull()) reasons.push('the disk of the database is full, so nothing can be recorded');
    if (isReadOnly) reasons.push('the database is read-only, so nothing can be recorded');
    const tips = await ctx.db.sql<
      { chain: string; height: bigint; lagSeconds: number; unreadSeconds: number; holdReason: string | null }[]
    >`
      select chain, height, extract(epoch from clock_timestamp() - scanned_through)::float8 as "lagSeconds",
        extract(epoch from clock_timestamp() - looked_at)::float8 as "unreadSeconds", hold_reason as "holdReason" from tips`;
    const [troubles, reports, families] = await Promise.all([readTroubles(ctx), readReports(ctx.db.sql), readWalletFamilies(ctx)]);
    const isNeeded = (coin: Coin): boolean => !ctx.chains.get(COIN[coin].chain)?.onDemand || families.has(COIN[coin].family);
    for (const coin of leadingCoins().filter((c) => ctx.chains.get(COIN[c].chain)?.follows && isNeeded(c))) {
      const name = chainCode(coin);
      const tip = tips.find((row) => row.chain === name);
      const trouble = troubles.find((one) => one.coin === coin);
      const found = trouble ? explainTrouble(trouble) : [];
      const report = reports.find((one) => one.coin === COIN[coin].family && !isStale(one));
      const waits = report ? explainReport(report) : null;
      const purpose = purposeOfPeers(ctx.chains.get(COIN[coin].chain));
      const syncing = purpose === 'comparison' ? null : waits;
      if (report) peers[name] = { purpose, ...describePeers(report) };
      if (purpose === 'comparison' && waits !== null) warnings.push(`${name}: ${explainComparison(waits)}`);
      if (syncing !== null) (tip ? warnings : reasons).push(`${name}: ${syncing}`);
      for (const { text, grave } of found)
        (grave ? reasons : warnings).push(`${name}: ${tip ? text : `the follower has not started: ${text}`}`);
      if (!tip && found.length === 0 && syncing === null) reasons.push(`${name}: the follower has not started`);
      if (tip && tip.unreadSeconds > UNREAD_SECONDS && !trouble?.catchUp)
        reasons.push(`${name}: its source was read last ${Math.round(tip.unreadSeconds)} s ago`);
      else if (tip && tip.lagSeconds > INCOMPLETE_SECONDS && !trouble?.doubt)
        reasons.push(`${name}: last scanned ${Math.round(tip.lagSeconds)} s ago`);
      if (tip?.holdReason) reasons.push(`${name}: ${tip.holdReason}`);
      if (tip) followers[name] = { height: Number(tip.height), lag_seconds: Math.round(tip.lagSeconds) };
      const price = ctx.prices.quotable(COIN[coin].asset);
      // Stablecoins are switched on by each merchant, and one without a price leaves the others.
      if (!isToken(coin) && !('price' in price)) reasons.push(`${coin}: ${price.reason}`);
    }
    for (const coin of NATIVE_COINS.filter((one) => families.has(COIN[one].family) && !ctx.chains.get(COIN[one].chain)?.follows))
      warnings.push(`${coin}: a wallet is set up, but no source is connected, so it cannot be paid`);
    for (const { coin: of, from, to, failure } of await readUnwatched(ctx)) {
      const coin = chainCode(of);
      if (from === null || to === null) continue;
      const rest = `${coin}: blocks ${Math.max(1, to)} to ${from - 1} are still to be read for addresses given before`;
      (failure === null ? warnings : reasons).push(failure === null ? rest : `${rest}: ${failure}`);
    }
    lightning = countLightning(await readLightningHealth(ctx), warnings);
    for (const { coin, hold, isBinding } of await readTokenHolds(ctx)) if (isBinding) holds.push(`${coin}: ${hold}`);
    for (const { coin: of, binding, reasons: found, aboveReason, sources } of await readGuards(ctx)) {
      const coin = chainCode(of);
      (binding ? holds : warnings).push(...found.map((reason) => `${coin}: ${reason}`));
      // Holds only larger payments.
      if (aboveReason !== null) warnings.push(`${coin}: ${aboveReason}`);
      // A single source is named above as the reason why nothing is read.
      for (const { state, reason } of sources.length > 1 ? sources : [])
        if (state === 'behind' || state === 'unproven') warnings.push(`${coin}: ${reason}; this source is left out`);
      const without = sources.filter((source) => source.state !== 'ok').length;
      if (without > 0 && sources.length > 1) warnings.push(`${coin}: ${without} of ${sources.length} sources have no vote`);
    }
  } catch {
    reasons.push('the database does not answer');
  }
  const electrum = readServers(ctx, warnings);
  const isUsed = Object.keys(electrum).length > 0;
  return {
    ready: reasons.length === 0,
    reasons,
    holds,
    warnings,
    database,
    followers,
    peers,
    ...(isUsed && { electrum }),
    ...(lightning && { lightning }),
  };
}

type LightningCounts = { back_ends: number; failing: number; open_invoices: number; unseen_invoices: number };
/** Merchants have nodes and providers of their own: one that fails keeps the service from no work. Whose it is, only the operator sees. */
function countLightning(all: Awaited<ReturnType<typeof readLightningHealth>>, warnings: string[]): LightningCounts | null {
  if (all.length === 0) return null;
  const sum = (of: (one: (typeof all)[number]) => number): number => all.reduce((total, one) => total + of(one), 0);
  const [failing, unseen] = [all.filter(({ failure }) => failure !== null).length, sum((one) => one.unseen)];
  if (failing > 0) warnings.push(`Lightning: ${failing} of ${all.length} nodes and providers fail; ./florin doctor names them`);
  if (unseen > 0) warnings.push(`Lightning: ${unseen} open invoices could not be looked at`);
  return { back_ends: all.length, failing, open_invoices: sum((one) => one.open), unseen_invoices: unseen };
}

type Server = { server: string; state: string; reason: string | null; height: number | null };
/**
 * The servers that only answer lookups, as this process knows them. They decide nothing, so they are never a reason not to be ready; those
 * that nobody set are listed once they were asked, and warn of nothing.
 */
function readServers(ctx: Context, warnings: string[]): Record<string, Server[]> {
  const found: Record<string, Server[]> = {};
  for (const { coin, sources } of ctx.chains.values())
    for (const { source, unchosen } of sources) {
      const states = (source.servers?.states() ?? []).filter(({ state }) => !unchosen || state !== 'unused');
      if (states.length === 0) continue;
      found[coin] = states.map(({ name, state, reason, height }) => ({ server: name, state, reason, height }));
      for (const { name, reason } of states) if (reason !== null && !unchosen) warnings.push(`${coin}: Electrum server ${name} ${reason}`);
    }
  return found;
}

/** The families that a wallet is set up for. */
async function readWalletFamilies(ctx: Context): Promise<ReadonlySet<Family>> {
  const rows = await ctx.db.sql<{ family: Family }[]>`select distinct family from wallets where active`;
  return new Set(rows.map(({ family }) => family));
}

const describePeers = ({ phase, connected, height, percent, bytesIn, bytesOut, startedAt }: StoredReport): object => ({
  ...{ phase, connected, height, headers_percent: percent, bytes_in: bytesIn, bytes_out: bytesOut, since: startedAt.toISOString() },
});
