/** What one transfer is, apart from its payment: dust, gone, or contested by another transaction; and what it is worth. */
import { COIN, type Coin, chainOf, kindOf } from './coin.ts';
import { DAY_MS, HOUR_MS, latest, MINUTE_MS } from './dates.ts';
import { invariant } from './invariant.ts';
import { centsToE8, e8ToCents, worthUsdE8 } from './money.ts';
import type { Company, PaymentFacts, Quote, Tips, Transfer, TransferValue, WRONG_COIN } from './payment.ts';
import { type MemberRole, mayDo } from './roles.ts';

/** Blocks of a chain of accounts after which a transaction that no source knows is gone. */
const GONE_AFTER_BLOCKS = 12;
/**
 * A transfer counts as gone when it was neither mined nor in the mempool for this long while in sync. On chains of accounts the sender's
 * next transaction takes its place, so it does not come back after a few blocks; elsewhere a wallet may send the same one again.
 */
export const goneAfterMs = (coin: Coin): number =>
  kindOf(coin) === 'ethereum' ? Math.max(MINUTE_MS, GONE_AFTER_BLOCKS * chainOf(coin).blockSeconds * 1000) : DAY_MS;

/** Whether a transfer is dust. Several outputs below the limit are dust together, because none of them is worth its fee. */
export function isDust({ coin, units, outputs = 1 }: Transfer): boolean {
  const { dustUnits } = COIN[coin];
  // Most have one output, and multiplying thousands of times takes a sixth of the time of settling them.
  return units < (outputs === 1 ? dustUnits : dustUnits * BigInt(outputs));
}

/** Whether the transfer can no longer be paid: a confirmed conflict, or long unseen while the follower was in sync. */
export function isGone(t: Transfer, tips: Tips): boolean {
  if (t.block) return false;
  if (t.conflict && t.conflict.height !== null) return true;
  if (!t.absentSince) return false;
  const tip = tips[t.coin];
  return tip !== undefined && tip.scannedThrough.getTime() - t.absentSince.getTime() >= goneAfterMs(t.coin);
}

/** Whether it arrived: in a block, or locked by the network. Otherwise it is only announced, and may never come. */
export const hasArrived = (t: Transfer): boolean => t.block !== null || t.lock !== null;

/** Whether a conflicting spend waits in the mempool, so either may be mined. */
export const isContested = (t: Transfer): boolean => !t.block && t.conflict !== null && t.conflict.height === null;

/** The sum of transfers too small to count that are still there. */
export const dustOf = (transfers: readonly Transfer[], tips: Tips, coin: Coin | null): bigint =>
  transfers.reduce((total, t) => (t.coin === coin && isDust(t) && !isGone(t, tips) ? total + t.units : total), 0n);

/**
 * The coins that the payer was asked for. Chains of one family share the address of a payment, so other coins can arrive there too; they
 * count only if the merchant accepts them, whatever they are worth.
 */
export const askedCoins = ({ quotes, fixed }: PaymentFacts): ReadonlySet<Coin> =>
  new Set([...quotes.map(({ coin }) => coin), ...(fixed ? [fixed.coin] : [])]);

/** What is wrong with a coin that was not asked for: its network, or on the right network the token. */
export const faultOfCoin = (asked: ReadonlySet<Coin>, coin: Coin): (typeof WRONG_COIN)[number] =>
  [...asked].some((one) => COIN[one].chain === COIN[coin].chain) ? 'wrong_token' : 'wrong_network';

/** Whether the payer may still change the coin: nothing that counts has arrived. */
export function mayChangeCoin(facts: PaymentFacts, transfers: readonly Transfer[]): boolean {
  const asked = askedCoins(facts);
  return !transfers.some((t) => asked.has(t.coin) && !isDust(t) && !isContested(t) && !isGone(t, {}) && t.firstSeenAt >= facts.createdAt);
}

// What a reader may see of facts that several tables repeat: payouts, which are also in events, deliveries, logged requests and notices,
// and the secrets of webhooks. Every function that reads one of these tables asks for it, so that no door is forgotten. Pure.

export type Sight = {
  /** Payouts and everything that says something about one. Payouts can be salaries. */
  payouts: boolean;
  /** Signatures of deliveries, what receivers answered, and all of a webhook's URL. Who has these can forge or repeat an event. */
  secrets: boolean;
};
/** For the operator, and for callers that are checked elsewhere. */
export const FULL_SIGHT: Sight = { payouts: true, secrets: true };
export const sightOf = (role: MemberRole): Sight => ({ payouts: mayDo(role, 'payouts.read'), secrets: mayDo(role, 'webhooks.secrets') });

/** IDs of payouts. */
export const PAYOUT_PREFIX = 'po_';
/** Regular expressions for JavaScript and PostgreSQL alike. The path of a request about payouts or webhooks, in any case: */
export const PAYOUT_PATH = 'payout|po_[0-9a-z]{24}';
export const WEBHOOK_PATH = 'webhook';
/** A query or a body that contains a payout: its ID, its fields, or an event about it, also as text within JSON. */
export const PAYOUT_TEXT = 'po_[0-9A-Za-z]{24}|payout_|type(\\\\*"\\s*:\\s*\\\\*"|=)payout[.]';
/** A body that contains the URL of an endpoint. Payments have no field of this name. */
export const WEBHOOK_TEXT = '"url"';

/** The ID of an event or a delivery does not tell whether it is about a payout. */
const mayNamePayout = new RegExp(`${PAYOUT_PATH}|(?:evt|del)_[0-9a-z]{24}`, 'i');
/** The path that a key was last used for, which may contain the ID of a payout, or of an event or a delivery about one. */
export const shownPath = (path: string | null, { payouts }: Sight): string | null =>
  path === null || payouts || !mayNamePayout.test(path) ? path : null;

const REST = '…';
/** The URL of an endpoint. Tokens are in any part of it but the host. */
export function shownUrl(text: string, { secrets }: Sight): string {
  if (secrets) return text;
  const url = URL.parse(text);
  if (url === null) return REST;
  return `${url.protocol}//${url.host}/${url.pathname === '/' && url.search === '' && url.hash === '' ? '' : REST}`;
}

/** Headers of deliveries that say nothing about the secret. A list of those, so that the signature of another form is not forgotten. */
const PLAIN_HEADERS = ['content-type', 'user-agent', 'webhook-id', 'webhook-timestamp'];
export const shownHeaders = (headers: Readonly<Record<string, string>>, { secrets }: Sight): Record<string, string> =>
  secrets ? { ...headers } : Object.fromEntries(Object.entries(headers).filter(([name]) => PLAIN_HEADERS.includes(name.toLowerCase())));

// The value of a transfer in US dollars: at the rate that was locked when it was first seen, otherwise at the current price.

/** A lock covers transfers first seen up to this long after its end, because the payer had already sent them. */
const LOCK_GRACE_MS = 10 * MINUTE_MS;
/** If a quote was renewed this shortly before the first sight, the payer may have sent at the previous rate. */
const ON_ITS_WAY_MS = MINUTE_MS;

export const protectionMs = (facts: PaymentFacts): number =>
  (facts.targetUsdCents >= facts.rules.protectionLargeUsdCents ? facts.rules.protectionLargeHours : facts.rules.protectionHours) * HOUR_MS;

/** Whether the transfer was mined only after the protection of its first sight ended. It then counts as seen when mined. */
const lostProtection = (facts: PaymentFacts, t: Transfer): boolean =>
  t.block !== null && t.block.time.getTime() > t.firstSeenAt.getTime() + protectionMs(facts);

/** End of the lock of a quote: the original one, or the one extended by a partial payment that arrived during it. */
export function lockEnd(facts: PaymentFacts, quote: Quote): Date {
  const { rateLockUntil } = facts;
  if (!rateLockUntil || facts.quotes.findLast((q) => q.from < rateLockUntil) !== quote) return quote.until;
  return latest(quote.until, rateLockUntil);
}

/**
 * The rate for money that was first seen at some instant: that of the last quote that the payer had seen by then; null when no rate was
 * locked. A renewal ends the previous rate, so payers cannot choose the better of two, except for money that was already on its way.
 */
function lockedRate(payment: PaymentFacts, t: Transfer): bigint | null {
  const quotes = payment.quotes.filter((q) => q.coin === t.coin && q.rateE8 !== null);
  const last = Math.max(
    0,
    quotes.findLastIndex((q) => q.from <= t.firstSeenAt),
  );
  const [current, previous] = [quotes[last], quotes[last - 1]];
  const seenMs = t.firstSeenAt.getTime();
  const rates = [current, previous].flatMap((quote) => {
    if (!current || !quote || quote.rateE8 === null || seenMs > lockEnd(payment, quote).getTime() + LOCK_GRACE_MS) return [];
    return quote === current || seenMs < current.from.getTime() + ON_ITS_WAY_MS ? [quote.rateE8] : [];
  });
  return rates.length === 0 ? null : rates.reduce((a, b) => (b > a ? b : a));
}

type Valuation = {
  payment: PaymentFacts;
  transfer: Transfer;
  /** The current price; null while there is no usable one. */
  spot: { priceE8: bigint; at: Date } | null;
  now: Date;
  /** What one payer may have sent together with it, if anything. */
  company?: Company | null;
};

/**
 * The value of a transfer to freeze now; null when it already has one, or while there is no usable price (it is then held). Uses the
 * rate that was locked when the transfer was first seen or up to ten minutes before, otherwise the spot price. A transfer is valued
 * again only when its first sight lost its protection.
 */
export function valueTransfer({ payment, transfer: t, spot, now, company = null }: Valuation): TransferValue | null {
  const again = t.values.length > 0;
  if (again && (!lostProtection(payment, t) || t.values.some((v) => v.reason === 'confirmation'))) return null;
  const reason = again ? 'confirmation' : 'first_sight';
  const valued = (basis: TransferValue['basis'], usdE8: bigint): TransferValue => ({
    usdE8: checkedWorth(t, usdE8),
    at: now,
    basis,
    reason,
    ...(company &&
      !again && {
        company: {
          transactionUsdCents: e8ToCents((usdE8 * company.transactionUnits) / t.units),
          merchantUsdCents: e8ToCents((usdE8 * company.merchantUnits) / t.units),
        },
      }),
  });
  if (payment.fixed?.coin === t.coin) {
    return again ? null : valued('quote', (centsToE8(payment.targetUsdCents) * t.units) / payment.fixed.units);
  }
  const rate = again ? null : lockedRate(payment, t);
  if (rate !== null) return valued('quote', worthUsdE8(t.coin, t.units, rate));
  return spot && valued('spot', worthUsdE8(t.coin, t.units, spot.priceE8));
}

/** Nothing is worth less than nothing; rounded down, a little can be worth nothing. */
function checkedWorth({ ref }: Transfer, usdE8: bigint): bigint {
  invariant(usdE8 >= 0n, `the value of ${ref} is not negative`);
  return usdE8;
}

export const worth = (t: Transfer): bigint => t.values.at(-1)?.usdE8 ?? 0n;
