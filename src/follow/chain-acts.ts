/** What operators see of a chain, and how they release a hold that does not clear automatically. */

import { readReports } from '#chain-store';
import { explainComparison, explainReport, isStale, purposeOfPeers } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, leadingCoins } from '#core/coin';
import type { Tx } from '#db';
import { writeWalletAudit } from '#people';
import { explainTrouble, readGuards, readTroubles, type Trouble } from '#readiness';
import { queueProcessing } from '#settling';
import { acceptContracts } from './contract-watch.ts';
import { explainUnwatched, readUnwatched } from './unwatched.ts';

/** In the form that the command prints. */
export type ChainStatus = {
  /** The code of its native coin, or the ID of the chain. */
  coin: string;
  network: string;
  sources: { name: string; state: string; height: number | null; followed: boolean; reason: string | null }[];
  /** The connections to peers, while a process has them, and whether they are only compared with a node: bytes since it started. */
  peers: {
    purpose: 'payments' | 'comparison';
    connected: number;
    headers_percent: number;
    bytes_in: number;
    bytes_out: number;
    since: string;
  } | null;
  /** The highest block that a source shows. */
  height: number | null;
  /** The last block that was read, and how many blocks are missing up to `height`. */
  cursor: { height: number; hash: string } | null;
  behind: number | null;
  scanned_through: string | null;
  watched_from: number | null;
  /** Why completion is on hold, and other problems. */
  holds: string[];
  troubles: string[];
  failing_block: Trouble['failingBlock'];
  /** The last hold that an operator released. */
  released: { at: string; reason: string; lifted: string[] } | null;
};

/** All configured chains, or one. Queries their sources now. */
export async function readChainStatus(ctx: Context, { coin: only }: { coin: Coin | null }): Promise<ChainStatus[]> {
  const [tips, guards, troubles, unwatched, reports, releases] = await Promise.all([
    ctx.db.sql<{ chain: string; height: number; hash: string; through: Date; from: number | null; hold: string | null }[]>`
      select chain, height::int as height, hash, scanned_through as through, watched_from::int as "from", hold_reason as hold from tips`,
    readGuards(ctx),
    readTroubles(ctx),
    readUnwatched(ctx),
    readReports(ctx.db.sql),
    ctx.db.sql<{ chain: string; at: Date; reason: string; lifted: string[] }[]>`
      select distinct on (chain) chain, at, reason, lifted from chain_releases order by chain, id desc`,
  ]);
  const chains = leadingCoins()
    .flatMap((coin) => ctx.chains.get(COIN[coin].chain) ?? [])
    .filter((chain) => chain.follows && (only ?? chain.coin) === chain.coin);
  return Promise.all(
    chains.map(async (chain): Promise<ChainStatus> => {
      const { coin, network } = chain;
      const code = chainCode(coin);
      const of = <T extends { coin: string }>(rows: readonly T[]) => rows.find((row) => row.coin === coin);
      const survey = await chain.survey();
      const heights = survey.flatMap(({ state, health }) => (state === 'ok' && health ? [health.tip.height] : []));
      const height = heights.length > 0 ? Math.max(...heights) : null;
      const tip = tips.find((row) => row.chain === code);
      const trouble = of(troubles);
      const gap = of(unwatched);
      const guard = of(guards);
      const released = releases.find((row) => row.chain === code);
      const report = reports.find((one) => one.coin === COIN[coin].family && one.network === network && !isStale(one));
      const purpose = purposeOfPeers(chain);
      const waits = report ? explainReport(report) : null;
      const syncing = waits !== null && purpose === 'comparison' ? explainComparison(waits) : waits;
      return {
        coin: code,
        network,
        sources: survey.map(({ name, state, health, followed, reason }) => ({
          name,
          state,
          height: health?.tip.height ?? null,
          followed,
          reason,
        })),
        peers: report
          ? {
              purpose,
              connected: report.connected,
              headers_percent: report.percent,
              bytes_in: report.bytesIn,
              bytes_out: report.bytesOut,
              since: report.startedAt.toISOString(),
            }
          : null,
        height,
        cursor: tip ? { height: tip.height, hash: tip.hash } : null,
        behind: tip && height !== null ? Math.max(0, height - tip.height) : null,
        scanned_through: tip?.through.toISOString() ?? null,
        watched_from: tip?.from ?? null,
        holds: [...(tip?.hold ? [tip.hold] : []), ...(guard?.binding ? guard.reasons : [])],
        troubles: [
          ...(syncing === null ? [] : [syncing]),
          ...(trouble ? explainTrouble(trouble).map(({ text }) => text) : []),
          ...(gap ? [explainUnwatched(gap).detail] : []),
        ],
        failing_block: trouble?.failingBlock ?? null,
        released: released ? { at: released.at.toISOString(), reason: released.reason, lifted: released.lifted } : null,
      };
    }),
  );
}

/** There is no hold that an operator could release. */
class NothingHeld extends Error {
  constructor(coin: Coin) {
    super(`${chainCode(coin)} is not on hold. Nothing to release. Run "florin chain status" to see what its sources report.`);
  }
}

/**
 * Releases the holds that require an operator: a deep reorganization, blocks that cannot be read, now or back, and
 * balances that nothing explains. Problems that the
 * sources still show are not released. Records the reason here and in the audit log of every merchant with a wallet in the coin.
 * Errors: NothingHeld.
 */
export async function releaseChain(ctx: Context, { coin, reason }: { coin: Coin; reason: string }): Promise<{ lifted: string[] }> {
  const unwatched = (await readUnwatched(ctx)).find((one) => one.coin === coin);
  const lifted = await ctx.db.begin(async (tx) => {
    const found = [
      ...(await liftHold(tx, coin)),
      ...(await liftReorg(tx, coin)),
      ...(await acceptContracts(tx, coin)),
      ...(await acceptBalances(tx, coin)),
    ];
    if (unwatched && unwatched.from !== null) {
      // Stop waiting for these blocks: the operator has looked for payments to the addresses.
      await tx`update tips set read_back_to = null, watched_since = least(watched_since, ${unwatched.earliest}) where chain = ${chainCode(coin)}`;
      await tx`update followers set read_back_failure = null where chain = ${chainCode(coin)}`;
      found.push(explainUnwatched(unwatched).detail);
    }
    if (found.length === 0) throw new NothingHeld(coin);
    await tx`insert into chain_releases (chain, reason, lifted) values (${chainCode(coin)}, ${reason}, ${found})`;
    await writeWalletAudit(tx, { coin, action: 'chain.released', after: { reason, lifted: found } });
    await queueProcessing(tx, { coin });
    return found;
  });
  ctx.log.warn({ coin, reason, lifted }, 'An operator released this chain');
  return { lifted };
}

/** The follower restarts below a reorganization that is deeper than the coin allows, or above blocks that no source has. */
async function liftHold(tx: Tx, coin: Coin): Promise<string[]> {
  const rows = await tx<{ hold: string }[]>`
    update tips t set hold_reason = null, begin_again = true from (select hold_reason as hold from tips where chain = ${chainCode(coin)} for update) as before
    where t.chain = ${chainCode(coin)} and before.hold is not null returning before.hold`;
  return rows.map(({ hold }) => hold);
}

/** A reorganization that was followed, but after which the chain has not settled yet. */
async function liftReorg(tx: Tx, coin: Coin): Promise<string[]> {
  const rows = await tx<{ reasons: string[]; codes: string[] }[]>`
    select reasons, codes from chain_guard where chain = ${chainCode(coin)} and reorg_depth is not null and 'deep_reorg' = any(codes) for update`;
  const kept = rows.flatMap(({ reasons, codes }) =>
    codes.flatMap((code, i) => (code === 'deep_reorg' ? [] : [{ code, text: reasons[i]! }])),
  );
  if (rows.length > 0)
    await tx`
      update chain_guard set reorg_depth = null, reorg_height = null, reasons = ${kept.map(({ text }) => text)}, codes = ${kept.map(({ code }) => code)}
      where chain = ${chainCode(coin)}`;
  return rows.flatMap(({ reasons, codes }) => reasons.filter((_, i) => codes[i] === 'deep_reorg'));
}

/** The operator has looked for what an address holds beyond what was recorded. */
async function acceptBalances(tx: Tx, coin: Coin): Promise<string[]> {
  const rows = await tx<{ unexplained: string }[]>`
    update followers f set unexplained = null from (select unexplained from followers where chain = ${chainCode(coin)} for update) as before
    where f.chain = ${chainCode(coin)} and before.unexplained is not null returning before.unexplained`;
  return rows.map(({ unexplained }) => unexplained);
}
