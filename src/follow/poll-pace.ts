/** How often a chain is read by ranges: within the requests a day that its operator allows, and slower while no payment is open. */
import { HOLDINGS_AT_ONCE } from '#chains';
import type { Context } from '#context';
import { type Coin, chainOf, coinsBeside, isOfferable } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { ACCOUNTS_AT_ONCE, OVERLAP } from './range-reads.ts';

/** How often a chain is read that no open payment can be paid on. */
export const IDLE_SECONDS = 20;
/** A chain that is polled this often needs most of a plan for its polls. */
const FREQUENT_SECONDS = 2;
/** How often final blocks are asked for while a payment is open: less often where polls alone need most of a plan. */
export const tagsSeconds = (coin: Coin): number => (chainOf(coin).pollSeconds <= FREQUENT_SECONDS ? 24 : 12);
/** How often the contracts of tokens are asked, and how many requests that takes for each at most. */
export const CONTRACTS_SECONDS = 300;
const REQUESTS_PER_CONTRACT = 7;
/** How often balances are compared with what was recorded, and how many requests that takes at most. */
export const BALANCES_SECONDS = 45;
export const MOST_BALANCE_REQUESTS = 2;

/** How often the fee of a transfer is asked for, and how many requests that takes at most. */
export const FEES_SECONDS = 600;
const REQUESTS_PER_FEE = 2;

const DAY_SECONDS = DAY_MS / 1_000;

type Load = { isOpen: boolean /** Addresses that are asked about. */; accounts: number /** Blocks in one search. */; span: number };

/**
 * The requests a day to each source, without a limit: for each poll the newest block, the last anchor, and the searches; besides, final
 * blocks, contracts, balances and fees. Blocks with payments add about ten each, and a native coin that was sent by mistake about 30.
 */
export function requestsPerDay(coin: Coin, { isOpen, accounts, span }: Load): number {
  const { pollSeconds, blockSeconds } = chainOf(coin);
  const seconds = isOpen ? pollSeconds : Math.max(pollSeconds, IDLE_SECONDS);
  const blocks = Math.ceil(seconds / blockSeconds);
  // Every block is searched twice, in one search where that is allowed to be so long.
  const ranges = blocks + OVERLAP <= span ? 1 : 2 * Math.ceil(blocks / span);
  const searches = ranges * Math.ceil(accounts / ACCOUNTS_AT_ONCE);
  const tags = isOpen ? (2 * DAY_SECONDS) / tagsSeconds(coin) : 0;
  const tokens = coinsBeside(coin).filter(isOfferable).length;
  const contracts = (REQUESTS_PER_CONTRACT * tokens * DAY_SECONDS) / CONTRACTS_SECONDS;
  const parts = Math.min(MOST_BALANCE_REQUESTS, Math.ceil((accounts * tokens) / HOLDINGS_AT_ONCE));
  // One more for the native coin.
  const balances = ((parts + Math.min(1, accounts)) * DAY_SECONDS) / BALANCES_SECONDS;
  const fees = (REQUESTS_PER_FEE * DAY_SECONDS) / FEES_SECONDS;
  return Math.ceil(((2 + searches) * DAY_SECONDS) / seconds + tags + contracts + balances + fees);
}

/** The fewest requests a day that still read every block. */
export const leastPerDay = (coin: Coin, { accounts, span }: Omit<Load, 'isOpen'>): number =>
  Math.ceil((2 * DAY_SECONDS * Math.ceil(accounts / ACCOUNTS_AT_ONCE)) / (span * chainOf(coin).blockSeconds));

/** `perDay`: requests to each source; null: no limit. */
export function createPace({ clock }: Pick<Context, 'clock'>, { perDay, idleMs }: { perDay: number | null; idleMs: number }) {
  let atMs = Number.NEGATIVE_INFINITY;
  /** How long the requests that were sent last for. */
  let waitMs = 0;
  return {
    /** Whether it is time for a poll. `isOpen`: a payment is open. */
    isDue: (isOpen: boolean): boolean => {
      const nowMs = clock.monotonicMs();
      if (nowMs - atMs < Math.max(waitMs, isOpen ? 0 : idleMs)) return false;
      atMs = nowMs;
      waitMs = 0;
      return true;
    },
    /** The last poll needed this many requests, so the next one waits until they are spread over the day. */
    spent: (requests: number): void => {
      if (perDay !== null) waitMs += (requests * DAY_MS) / perDay;
    },
  };
}
