/**
 * Limits of the dashboard, and of attempts at what is secret. A person who is signed in, has signed in there before, or waits for a
 * code is counted apart, so that nobody else can use up their attempts. See docs/decisions/sign-in.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import type { Limits } from '../../http/limits.ts';
import { findKnownBrowser } from '../../people/known-browsers.ts';
import { findHalfSignedIn, type SignedIn, type Visitor } from '../../people/sign-in.ts';
import type { DashboardRoute } from './route.ts';

/** Guesses of strangers at one account in a minute: so many are answered at once, further ones later and later, and then none. */
const GUESSES_AT_ONCE = 20;
const MOST_GUESSES = 100;
const LATER_MS = 250;
const LATEST_MS = 5_000;
/** Requests of strangers that wait in this process. */
const MOST_WAITING = 200;

type Attempt = { visitor: Visitor; signedIn: SignedIn | null; network: string; account?: string };

export function countAttempts(ctx: Context, { limits }: { limits: Limits }) {
  let waiting = 0;
  const refuse = (resetMs: number): never => {
    const seconds = Math.max(1, Math.ceil(resetMs / 1000));
    throw new Problem('rate_limit_exceeded', { seconds }, { retryAfterSeconds: seconds });
  };
  const limit = async (bucket: string, points: number): Promise<void> => {
    const { allowed, resetMs } = await limits.consume(bucket, points);
    if (!allowed) refuse(resetMs);
  };
  /** A person in a browser that is not known is slowed down by a flood of guesses, but only a large one keeps them out. */
  const guess = async (account: string): Promise<void> => {
    const { allowed, remaining, resetMs } = await limits.consume(`dashboard guesses ${account}`, MOST_GUESSES);
    if (!allowed) refuse(resetMs);
    const beyond = MOST_GUESSES - remaining - GUESSES_AT_ONCE;
    if (beyond <= 0) return;
    if (waiting >= MOST_WAITING) refuse(LATEST_MS);
    waiting++;
    await sleep(Math.min(beyond * LATER_MS, LATEST_MS)).finally(() => waiting--);
  };
  /** Whom an attempt is counted for: null is the network it comes from. */
  const ownOf = async (route: DashboardRoute, { visitor, signedIn, account }: Attempt): Promise<string | null> => {
    if (account !== undefined) return findKnownBrowser(ctx, { from: visitor, email: account });
    if (route.ofPending) return (await findHalfSignedIn(ctx, visitor))?.identifier ?? null;
    return signedIn?.userId ?? null;
  };
  /** Counts an attempt at a route that accepts secrets. Errors: rate_limit_exceeded. */
  const takeAttempt = async (route: DashboardRoute, given: Attempt): Promise<void> => {
    if (route.attempts === undefined) return;
    const attempt = { ...given, ...(given.account !== undefined && { account: given.account.toLowerCase() }) };
    const own = await ownOf(route, attempt);
    await limit(`dashboard ${route.path} ${own === null ? attempt.network : `${own} ${attempt.account ?? ''}`}`, route.attempts);
    if (own === null && route.isGuess && attempt.account !== undefined) await guess(attempt.account);
  };
  return { limit, takeAttempt };
}
