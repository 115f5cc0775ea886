/** Random histories of a payment, its chains and its merchant, settled at random moments, as happens with restarts and missed wake-ups. */
import fc from 'fast-check';
import { COIN, COINS, type Coin, type ConfirmationTier } from '../../src/core/coin.ts';
import { addMs, HOUR_MS, MINUTE_MS } from '../../src/core/dates.ts';
import { quoteUnits } from '../../src/core/money.ts';
import type { Decision, PaymentFacts, Rules, Settlement, Tip, Transfer } from '../../src/core/payment.ts';
import { settle } from '../../src/core/settle.ts';
import { valueTransfer } from '../../src/core/transfer.ts';

export const START = new Date('2026-01-01T00:00:00Z');
export const WINDOW_MS = HOUR_MS;
/** Three coins: two with eight decimals, one with eighteen. */
export const PAID_IN = ['BTC', 'LTC', 'ETH'] as const satisfies readonly Coin[];
export const PRICE_E8: Readonly<Record<(typeof PAID_IN)[number], bigint>> = {
  BTC: 10_000_000_000_000n,
  LTC: 8_999_000_001n,
  ETH: 333_333_333_333n,
};
/** Confirmations required for every coin: one below 150 USD, three from there. */
export const LARGE_CENTS = 15_000n;
export const TIERS: readonly ConfirmationTier[] = [
  { belowUsdCents: LARGE_CENTS, confirmations: 1, rule: 'confirmations' },
  { belowUsdCents: null, confirmations: 3, rule: 'confirmations' },
];

// Events

export type PaidIn = (typeof PAID_IN)[number];
export type Fact =
  | { do: 'quote' | 'fall behind' | 'catch up' | 'hold' | 'release' | 'lose the price' | 'find the price'; coin: PaidIn }
  | { do: 'see'; coin: PaidIn; percent: number }
  | { do: 'grow' | 'reorganize'; coin: PaidIn; blocks: number }
  | { do: 'mine' | 'contest' | 'replace' | 'bury' | 'release conflict' | 'vanish' | 'come back'; pick: number }
  | { do: 'pass'; minutes: number }
  | { do: 'cancel' }
  | { do: 'accept' | 'reject' | 'refund_sent'; picks: number };

export const coin = fc.constantFrom(...PAID_IN);
export const pick = fc.nat(5);
export const seen: fc.Arbitrary<Fact> = fc.record({
  do: fc.constant('see' as const),
  coin,
  percent: fc.constantFrom(0, 1, 30, 50, 69, 98, 99, 100, 102, 160),
});
export const mined: fc.Arbitrary<Fact> = fc.record({ do: fc.constant('mine' as const), pick });
export const grown: fc.Arbitrary<Fact> = fc.record({ do: fc.constant('grow' as const), coin, blocks: fc.integer({ min: 1, max: 3 }) });
export const passed = (...minutes: number[]): fc.Arbitrary<Fact> =>
  fc.record({ do: fc.constant('pass' as const), minutes: fc.constantFrom(...minutes) });
export const onChain: fc.Arbitrary<Fact> = fc.oneof(
  fc.record({ do: fc.constant('reorganize' as const), coin, blocks: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constantFrom('contest' as const, 'replace', 'bury', 'release conflict', 'vanish', 'come back'), pick }),
);
export const follower: fc.Arbitrary<Fact> = fc.record({
  do: fc.constantFrom('fall behind' as const, 'catch up', 'hold', 'release', 'lose the price', 'find the price', 'quote'),
  coin,
});
export const merchant: fc.Arbitrary<Fact> = fc.oneof(
  fc.record({ do: fc.constantFrom('accept' as const, 'accept', 'reject', 'refund_sent'), picks: fc.integer({ min: 1, max: 15 }) }),
  fc.constant<Fact>({ do: 'cancel' }),
);
export const anything = fc.oneof(
  { weight: 5, arbitrary: seen },
  { weight: 4, arbitrary: mined },
  { weight: 2, arbitrary: grown },
  { weight: 4, arbitrary: passed(1, 5, 20, 59, 61, 90, 800, 1_500) },
  { weight: 4, arbitrary: onChain },
  { weight: 3, arbitrary: follower },
  { weight: 3, arbitrary: merchant },
);

export type Terms = { cents: bigint; tolerance: number; late: number | null; protection: number };
export const terms: fc.Arbitrary<Terms> = fc.record({
  cents: fc.constantFrom(500n, 10_000n, 100_001n),
  tolerance: fc.constantFrom(0, 100, 500),
  late: fc.constantFrom(null, null, 30),
  protection: fc.constantFrom(24, 48),
});
/** A fact, and whether the payment is settled then. */
export type Moment = { fact: Fact; settles: boolean };
export const moment = (fact: fc.Arbitrary<Fact>): fc.Arbitrary<Moment> => fc.record({ fact, settles: fc.boolean() });
export const history = fc.array(moment(anything), { minLength: 1, maxLength: 30, size: 'max' });

// The simulated world

/** One settlement: what was known, and the result. */
export type Entry = { facts: PaymentFacts; transfers: readonly Transfer[]; tips: Record<PaidIn, Tip>; now: Date; result: Settlement };

export const chooseRules = ({ tolerance, late, protection }: Terms): Rules => ({
  windowSeconds: WINDOW_MS / 1000,
  rateLockSeconds: 900,
  toleranceBasisPoints: tolerance,
  toleranceCapUsdCents: 500n,
  lateAcceptMinutes: late,
  protectionHours: protection,
  protectionLargeHours: 2,
  protectionLargeUsdCents: 100_000n,
  adjustments: {},
  priceSource: null,
  confirmations: Object.fromEntries(COINS.map((c) => [c, TIERS])) as Rules['confirmations'],
});

export const isDust = (t: Transfer): boolean => t.units < COIN[t.coin].dustUnits;

export class World {
  now = START;
  facts: PaymentFacts;
  transfers: Transfer[] = [];
  /** Seen on a chain whose follower lags: recorded once it has caught up. */
  unrecorded: Transfer[] = [];
  tips: Record<PaidIn, Tip>;
  behind = new Set<PaidIn>();
  unpriced = new Set<PaidIn>();
  entries: Entry[] = [];
  #names = 0;

  constructor(given: Terms) {
    this.facts = {
      id: 'pay_1',
      mode: 'live',
      createdAt: START,
      targetUsdCents: given.cents,
      fixed: null,
      rules: chooseRules(given),
      extendedUntil: null,
      rateLockUntil: null,
      quotes: [],
      decisions: [],
      status: 'pending',
      exceptions: [],
      completedAt: null,
    };
    const tip: Tip = {
      height: 1_000,
      hash: 'h',
      safeHeight: null,
      finalizedHeight: null,
      chainlockHeight: null,
      scannedThrough: START,
      holdReason: null,
    };
    this.tips = { BTC: tip, LTC: tip, ETH: tip };
    this.#quote('BTC');
  }

  #tip(of: PaidIn, change: Partial<Tip>): void {
    this.tips = { ...this.tips, [of]: { ...this.tips[of], ...change } };
  }
  #quote(of: PaidIn): void {
    const units = quoteUnits(of, this.facts.targetUsdCents, PRICE_E8[of]);
    const quote = { coin: of, address: of, rateE8: PRICE_E8[of], units, from: this.now, until: addMs(this.now, 15 * MINUTE_MS) };
    this.facts = { ...this.facts, quotes: [...this.facts.quotes, quote] };
  }
  #see(of: PaidIn, units: bigint): void {
    const name = `t${this.#names++}`;
    const transfer: Transfer = {
      coin: of,
      ref: `${name}:0`,
      txid: name,
      address: of,
      units,
      kind: 'output',
      firstSeenAt: this.now,
      values: [],
      block: null,
      lock: null,
      absentSince: null,
      conflict: null,
      unminedSince: null,
      disputedSince: null,
    };
    if (this.behind.has(of)) this.unrecorded.push(transfer);
    else this.transfers = [...this.transfers, transfer];
  }
  /** Changes the picked transfer when its follower is in sync: a lagging chain shows nothing new. */
  #change(picked: number, change: (t: Transfer, coin: PaidIn) => Partial<Transfer>): void {
    this.transfers = this.transfers.map((t, i) =>
      i === picked % this.transfers.length && !this.behind.has(t.coin as PaidIn) ? { ...t, ...change(t, t.coin as PaidIn) } : t,
    );
  }

  happen(fact: Fact): void {
    switch (fact.do) {
      case 'pass':
        this.now = addMs(this.now, fact.minutes * MINUTE_MS);
        for (const c of PAID_IN) if (!this.behind.has(c)) this.#tip(c, { scannedThrough: this.now });
        break;
      case 'quote':
        // A coin can be chosen only while the window is open.
        if (this.decided().status === 'pending' && this.now < this.decided().expiresAt) this.#quote(fact.coin);
        break;
      case 'see': {
        const quote = this.facts.quotes.find((q) => q.coin === fact.coin);
        if (!quote) break;
        const units = (quote.units * BigInt(fact.percent)) / 100n;
        this.#see(fact.coin, fact.percent === 0 ? COIN[fact.coin].dustUnits - 1n : units);
        break;
      }
      case 'mine':
        this.#change(fact.pick, (t, c) => {
          if (t.block || (t.conflict && t.conflict.height !== null)) return {};
          this.#tip(c, { height: this.tips[c].height + 1 });
          const block = { height: this.tips[c].height, hash: `b${this.tips[c].height}`, time: this.now };
          return { block, absentSince: null, conflict: null, unminedSince: null };
        });
        break;
      case 'grow':
        if (!this.behind.has(fact.coin)) this.#tip(fact.coin, { height: this.tips[fact.coin].height + fact.blocks });
        break;
      case 'reorganize': {
        if (this.behind.has(fact.coin)) break;
        const fork = this.tips[fact.coin].height - fact.blocks;
        this.#tip(fact.coin, { height: fork + fact.blocks + 1 });
        this.transfers = this.transfers.map((t) => {
          if (t.coin !== fact.coin) return t;
          if (t.block && t.block.height > fork) return { ...t, block: null, unminedSince: this.now };
          if (t.conflict && (t.conflict.height ?? 0) > fork) return { ...t, conflict: { ...t.conflict, height: null } };
          return t;
        });
        break;
      }
      case 'contest':
      case 'replace':
        this.#change(fact.pick, (t, c) => {
          if (t.block || t.conflict) return {};
          if (fact.do === 'replace') this.#replacements.push([c, t.units]);
          return { conflict: { txid: 'other', height: null, seenAt: this.now } };
        });
        for (const [c, units] of this.#replacements.splice(0)) this.#see(c, units);
        break;
      case 'bury':
        this.#change(fact.pick, (t, c) => {
          if (!t.conflict || t.conflict.height !== null) return {};
          this.#tip(c, { height: this.tips[c].height + 1 });
          return { conflict: { ...t.conflict, height: this.tips[c].height } };
        });
        break;
      case 'release conflict':
        this.#change(fact.pick, (t) => (t.conflict?.height === null ? { conflict: null } : {}));
        break;
      case 'vanish':
        this.#change(fact.pick, (t) => (t.block || t.absentSince ? {} : { absentSince: this.now }));
        break;
      case 'come back':
        this.#change(fact.pick, () => ({ absentSince: null }));
        break;
      case 'fall behind':
        this.behind.add(fact.coin);
        break;
      case 'catch up':
        this.behind.delete(fact.coin);
        this.#tip(fact.coin, { scannedThrough: this.now });
        this.transfers = [...this.transfers, ...this.unrecorded.filter((t) => t.coin === fact.coin)];
        this.unrecorded = this.unrecorded.filter((t) => t.coin !== fact.coin);
        break;
      case 'hold':
        this.#tip(fact.coin, { holdReason: 'a deep reorganization' });
        break;
      case 'release':
        this.#tip(fact.coin, { holdReason: null });
        break;
      case 'lose the price':
        this.unpriced.add(fact.coin);
        break;
      case 'find the price':
        this.unpriced.delete(fact.coin);
        break;
      case 'cancel':
        if (this.settle().status === 'pending') this.#decide('cancel', []);
        break;
      case 'accept':
      case 'reject':
      case 'refund_sent': {
        const named = this.transfers.filter((t, i) => (fact.picks >> i) & 1 && !isDust(t)).map((t) => t.ref);
        if (named.length > 0 && ['expired', 'failed', 'cancelled'].includes(this.settle().status)) this.#decide(fact.do, named);
        break;
      }
    }
    // A transfer is valued in the same transaction that records it.
    this.transfers = this.transfers.map((t) => {
      const c = t.coin as PaidIn;
      const spot = this.unpriced.has(c) ? null : { priceE8: PRICE_E8[c], at: this.now };
      const value = valueTransfer({ payment: this.facts, transfer: t, spot, now: this.now });
      return value ? { ...t, values: [...t.values, value] } : t;
    });
  }
  readonly #replacements: [PaidIn, bigint][] = [];

  /** A decision and its result are one transaction, which first records the result of everything before it. */
  #decide(kind: Decision['kind'], transfers: readonly string[]): void {
    this.facts = { ...this.facts, decisions: [...this.facts.decisions, { kind, at: this.now, transfers }] };
    this.settle();
  }
  /** The current result, unrecorded. */
  decided(): Settlement {
    return settle(this.facts, this.transfers, this.tips, this.now);
  }
  /** Settles and records, like a transaction. */
  settle(): Settlement {
    const result = this.decided();
    if (result.extension) {
      const { windowUntil, rateLockUntil } = result.extension;
      this.facts = { ...this.facts, extendedUntil: windowUntil, rateLockUntil };
    }
    this.entries.push({ facts: this.facts, transfers: this.transfers, tips: this.tips, now: this.now, result });
    this.facts = { ...this.facts, status: result.status, exceptions: result.exceptions, completedAt: result.completedAt };
    return result;
  }
}

/** Runs a history; settles where it says and at its end. */
export function live(given: Terms, moments: readonly Moment[]): World {
  const world = new World(given);
  for (const { fact, settles } of moments) {
    world.happen(fact);
    if (settles) world.settle();
  }
  world.settle();
  return world;
}
