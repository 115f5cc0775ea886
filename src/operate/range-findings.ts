/** What doctor says about a chain that is read by ranges: requests a day, who vouches for its blocks, and the contracts of its tokens. */
import { ChainError, type NamedSource, RangeRefused } from '#chains';
import type { Context } from '#context';
import { type Coin, chainCode, chainOf, settingOf } from '#core/coin';
import { leastPerDay, requestsPerDay } from '#follow';
import { readTokenHolds } from '#readiness';

// One line of doctor.

/** `ok` is false when the operator has to act; when `ok` is true, a `fix` is advice. */
export type Finding = { check: string; ok: boolean; detail: string; fix: string | null };
export const good = (check: string, detail: string, advice: string | null = null): Finding => ({ check, ok: true, detail, fix: advice });
export const bad = (check: string, detail: string, fix: string): Finding => ({ check, ok: false, detail, fix });

/** An account that nobody has. */
const NOBODY = '0'.repeat(39).concat('1');
const grouped = (value: number): string => value.toLocaleString('en-US');

/** The longest search that a source accepts now; null when it does not answer. */
async function longestSearch({ source: { ranges } }: NamedSource, most: number): Promise<number | null> {
  if (!ranges) return null;
  try {
    const { height } = await ranges.head();
    for (let span = most; span >= 1; span = Math.floor(span / 2)) {
      try {
        await ranges.search({ from: Math.max(0, height - span), to: Math.max(0, height - 1) }, [NOBODY]);
        return span;
      } catch (error) {
        if (!(error instanceof RangeRefused)) throw error;
      }
    }
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
  }
  return null;
}

/** What the plan of a provider must allow. `accounts`: addresses of the last week. */
async function checkRequests(ctx: Context, coin: Coin, one: NamedSource, accounts: number): Promise<Finding[]> {
  const check = `${chainCode(coin)} requests`;
  const span = await longestSearch(one, chainOf(coin).ranges!.most);
  if (span === null) return [];
  const load = { accounts: Math.max(1, accounts), span };
  const allowed = ctx.settings.dailyRequests[coin] ?? null;
  const [idle, open, least] = [
    requestsPerDay(coin, { ...load, isOpen: false }),
    requestsPerDay(coin, { ...load, isOpen: true }),
    leastPerDay(coin, load),
  ];
  const setting = `${settingOf(coin)}_DAILY_REQUESTS`;
  const detail = `${one.name} searches ${grouped(span)} blocks at once: about ${grouped(idle)} requests a day while no payment is open, up to ${grouped(open)} while there is always one`;
  if (allowed === null || allowed >= open) return [good(check, `${detail}; ${setting} allows ${grouped(allowed ?? open)}`)];
  if (allowed < least)
    return [
      bad(
        check,
        `${detail}; ${setting} allows ${grouped(allowed)}, with which blocks come faster than they are read`,
        `raise ${setting} above ${grouped(least)}, or use a plan with longer searches`,
      ),
    ];
  return [
    good(
      check,
      `${detail}; ${setting} allows ${grouped(allowed)}`,
      'payments are detected later while many are open; raise it if your plan allows',
    ),
  ];
}

/** Everything about a chain that is read by ranges. */
export async function checkRanges(ctx: Context, coin: Coin, sources: readonly NamedSource[]): Promise<Finding[]> {
  if (!chainOf(coin).ranges || sources.length === 0) return [];
  const [row] = await ctx.db.sql<{ count: number }[]>`
    select count(*)::int as count from deposit_addresses where created_at > clock_timestamp() - interval '7 days'`;
  const findings: Finding[] = [];
  const check = `${chainCode(coin)} sources`;
  const names = new Set(sources.map(({ name }) => name)).size;
  if (sources.some(({ trust }) => trust === 'own')) findings.push(good(check, 'your own node vouches for its blocks'));
  else if (names > 1) findings.push(good(check, `payments complete when ${names} providers show the same blocks`));
  else
    findings.push(
      bad(
        check,
        'one provider alone completes no payments',
        `add a second provider to ${settingOf(coin)}_NODE_URL, or set ${settingOf(coin)}_TRUST=own for a node that you run`,
      ),
    );
  for (const one of sources) findings.push(...(await checkRequests(ctx, coin, one, row!.count)));
  return findings;
}

/** Stablecoins that are held because of their contract. On test networks most do not exist. */
export const checkContracts = async (ctx: Context): Promise<Finding[]> =>
  (await readTokenHolds(ctx))
    .filter(({ isBinding }) => isBinding)
    .map(({ coin, hold }) =>
      bad(
        `${coin} contract`,
        `${hold}; it is not offered, and payments in it do not complete`,
        `see what its issuer announced; after an upgrade: florin chain release --coin ${chainCode(coin)} --reason "..."`,
      ),
    );
