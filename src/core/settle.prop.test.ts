/**
 * The rules of a payment as properties: random histories of a payment, its chains and its merchant, settled at random moments, as
 * happens with restarts and missed wake-ups. The expected results are derived only from the facts, in independent code.
 */
// Invariant: A status follows from facts by one pure function, over random histories too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Entry,
  type Fact,
  follower,
  grown,
  history,
  isDust,
  LARGE_CENTS,
  live,
  merchant,
  mined,
  onChain,
  PAID_IN,
  type PaidIn,
  PRICE_E8,
  passed,
  START,
  seen,
  terms,
  WINDOW_MS,
  World,
} from '../../test/kit/payment-world.ts';
import { COIN, COINS, type Coin, chainOf } from './coin.ts';
import { addMs, DAY_MS, HOUR_MS, MINUTE_MS } from './dates.ts';
import { centsToE8, divideCeil, dueUnit, quoteUnits, shownUnit } from './money.ts';
import type { PaymentStatus, Tip, Transfer, TransferRole } from './payment.ts';
import { confirmedUnits } from './refund.ts';
import { rolesOf, settle } from './settle.ts';
import { hasArrived, valueTransfer } from './transfer.ts';

/** What is on the chain and not contested has one of these roles. */
const COUNTABLE: ReadonlySet<TransferRole> = new Set(['counted', 'held', 'rejected', 'refunded']);
const RUNS = process.env.FLORIN_LONG ? 50_000 : 1_000;
type Check = (entry: Entry, before: readonly Entry[]) => void;
const properties: { name: string; check: Check }[] = [];
/** A property of every settlement in every history. All of them look at the same histories, because living one costs more than looking. */
const always = (name: string, check: Check): void => void properties.push({ name, check });

// Expected results from the facts, in independent code

const tipOf = (entry: Entry, t: Transfer): Tip => entry.tips[t.coin as PaidIn];
const worthOf = (transfers: readonly Transfer[]): bigint => transfers.reduce((total, t) => total + (t.values.at(-1)?.usdE8 ?? 0n), 0n);
const slackMs = (of: Coin): number => chainOf(of).slackSeconds * 1000;
/** The conflict has a confirmation, or the follower has missed the transfer for a day. */
/** Twelve blocks of Ethereum; a day where a wallet may send the same transaction again. */
const ABSENT_MS: Readonly<Record<PaidIn, number>> = Object.fromEntries(
  PAID_IN.map((coin) => [coin, coin === 'ETH' ? 144_000 : DAY_MS]),
) as Record<PaidIn, number>;
const isLost = (entry: Entry, t: Transfer): boolean =>
  !t.block &&
  ((t.conflict !== null && t.conflict.height !== null) ||
    (t.absentSince !== null && tipOf(entry, t).scannedThrough.getTime() - t.absentSince.getTime() >= ABSENT_MS[t.coin as PaidIn]));
const isContested = (t: Transfer): boolean => !t.block && t.conflict?.height === null;
const present = (entry: Entry): Transfer[] => entry.transfers.filter((t) => !isDust(t) && !isLost(entry, t) && !isContested(t));

/** When a transfer counts as seen: if it was mined after its protection ended, when it was mined. */
function sightOf({ facts }: Entry, t: Transfer): number {
  const hours =
    facts.targetUsdCents >= facts.rules.protectionLargeUsdCents ? facts.rules.protectionLargeHours : facts.rules.protectionHours;
  const end = t.firstSeenAt.getTime() + hours * HOUR_MS;
  return t.block && t.block.time.getTime() > end ? t.block.time.getTime() : t.firstSeenAt.getTime();
}
const endOf = ({ facts }: Entry): number => Math.max(START.getTime() + WINDOW_MS, facts.extendedUntil?.getTime() ?? 0);
const isInTime = (entry: Entry, t: Transfer): boolean => sightOf(entry, t) <= endOf(entry) + slackMs(t.coin);
const isClosed = ({ facts }: Entry): boolean => facts.decisions.some((d) => d.kind !== 'accept');

/** What each accept still covers: without refs rejected or refunded later. */
const acceptsOf = ({ facts }: Entry): string[][] =>
  facts.decisions.flatMap((d, i) => {
    if (d.kind !== 'accept') return [];
    const out = facts.decisions.slice(i + 1).flatMap((later) => (later.kind === 'accept' ? [] : later.transfers));
    const left = d.transfers.filter((ref) => !out.includes(ref));
    return left.length > 0 ? [left] : [];
  });
/** The least that makes a payment paid; the tolerance never exceeds its share, its cap and the possible rounding. */
function enough({ facts, transfers }: Entry): bigint {
  const target = centsToE8(facts.targetUsdCents);
  const share = (target * BigInt(facts.rules.toleranceBasisPoints)) / 10_000n;
  const capped = share < 500_000_000n ? share : 500_000_000n;
  const crumbs = PAID_IN.map((c) => divideCeil(PRICE_E8[c] * shownUnit(c), 10n ** BigInt(COIN[c].decimals)) + BigInt(transfers.length));
  return target - [capped, ...crumbs].reduce((a, b) => (b > a ? b : a));
}
/** What counts: transfers in time if the merchant did not decide on them, those that the late rule accepts, and accepted ones. */
function countable(entry: Entry): Transfer[] {
  const accepted = new Set(acceptsOf(entry).flat());
  const { lateAcceptMinutes } = entry.facts.rules;
  const lateEnd = lateAcceptMinutes === null ? Number.NEGATIVE_INFINITY : endOf(entry) + lateAcceptMinutes * MINUTE_MS;
  return present(entry).filter((t) => accepted.has(t.ref) || (!isClosed(entry) && (isInTime(entry, t) || sightOf(entry, t) <= lateEnd)));
}
const isDeep = (entry: Entry, t: Transfer): boolean => {
  const needed = entry.facts.targetUsdCents < LARGE_CENTS ? 1 : 3;
  return t.block !== null && tipOf(entry, t).height - t.block.height + 1 >= needed;
};
/** Whether an accept is in effect and everything it covers is still there. */
const isAccepted = (entry: Entry, holds: (t: Transfer) => boolean): boolean => {
  const here = new Map(present(entry).map((t) => [t.ref, t]));
  return acceptsOf(entry).some((refs) => refs.every((ref) => here.has(ref) && here.get(ref)!.values.length > 0 && holds(here.get(ref)!)));
};
const steps = (entry: Entry): string[] => entry.result.steps.map((s) => `${s.from} ${s.status}`);

// Invariants

const LEGAL = new Set([
  'pending processing',
  'pending expired',
  'pending failed',
  'pending cancelled',
  'processing completed',
  'processing failed',
  'processing pending',
  'expired processing',
  'failed processing',
  'cancelled processing',
]);
always('only legal moves are made, each one step, without a gap', (entry) => {
  let at: PaymentStatus = entry.facts.status;
  for (const step of entry.result.steps) {
    assert.equal(step.from, at);
    assert.ok(LEGAL.has(`${step.from} ${step.status}`), `${step.from} ${step.status}`);
    at = step.status;
  }
  assert.equal(entry.result.status, at);
  assert.equal(new Set(steps(entry)).size, entry.result.steps.length);
});

always('completed is final and keeps its time', (entry, before) => {
  const done = before.find((e) => e.result.status === 'completed');
  if (!done) return;
  assert.equal(entry.result.status, 'completed');
  assert.deepEqual(entry.result.completedAt, done.result.completedAt);
});

always('every payment passes through processing before it is completed', (entry, before) => {
  const log = [...before, entry].flatMap((e) => e.result.steps.map((s) => s.status));
  if (entry.result.status === 'completed') assert.equal(log[log.indexOf('completed') - 1], 'processing');
});

always(
  'completed means: confirmed enough, what counts covers the amount less its tolerance, or all that an accept names is there',
  (entry) => {
    if (!steps(entry).includes('processing completed')) return;
    const covers = worthOf(countable(entry).filter((t) => isDeep(entry, t))) >= enough(entry);
    assert.ok(covers || isAccepted(entry, (t) => isDeep(entry, t)));
  },
);

always('a coin on hold keeps what was paid in it from completing', (entry) => {
  if (!steps(entry).includes('processing completed') || isClosed(entry)) return;
  for (const t of present(entry)) if (isInTime(entry, t)) assert.equal(tipOf(entry, t).holdReason, null);
});

always('settling again with the same facts takes no step and changes nothing', (entry) => {
  const { status, exceptions, completedAt } = entry.result;
  const again = settle({ ...entry.facts, status, exceptions, completedAt }, entry.transfers, entry.tips, entry.now);
  assert.deepEqual(again, { ...entry.result, steps: [], extension: null });
});

test('the order of transfers does not matter', () => {
  fc.assert(
    fc.property(terms, history, fc.infiniteStream(fc.nat()), (given, moments, dice) => {
      for (const entry of live(given, moments).entries) {
        const mixed = entry.transfers
          .map((t) => ({ t, at: dice.next().value as number }))
          .sort((a, b) => a.at - b.at)
          .map(({ t }) => t);
        assert.deepEqual(settle(entry.facts, mixed, entry.tips, entry.now), { ...entry.result, extension: null });
      }
    }),
    { numRuns: RUNS },
  );
});

always('expired means: nothing above dust was received in time, and every coin given out was scanned past the end', (entry) => {
  if (!steps(entry).includes('pending expired')) return;
  assert.deepEqual(
    entry.transfers.filter((t) => !isDust(t) && t.firstSeenAt.getTime() <= endOf(entry) + slackMs(t.coin)),
    [],
  );
  assert.ok(entry.now.getTime() > endOf(entry));
  for (const { coin: issued } of entry.facts.quotes) {
    assert.ok(entry.tips[issued as PaidIn].scannedThrough.getTime() >= endOf(entry) + slackMs(issued), `${issued} is behind`);
  }
});

always('failed means: something was received, what is left is too little, and the window is over for every coin given out', (entry) => {
  if (!steps(entry).some((s) => s.endsWith(' failed'))) return;
  const accepted = new Set(acceptsOf(entry).flat());
  const received = entry.transfers.filter(
    (t) =>
      !isDust(t) &&
      (t.firstSeenAt.getTime() <= endOf(entry) + slackMs(t.coin) || accepted.has(t.ref) || entry.facts.rules.lateAcceptMinutes !== null),
  );
  assert.ok(received.length > 0);
  assert.ok(!isAccepted(entry, () => true));
  const inTime = countable(entry).filter((t) => isInTime(entry, t) || accepted.has(t.ref));
  assert.ok(worthOf(inTime) < centsToE8(entry.facts.targetUsdCents));
  if (isClosed(entry)) return;
  for (const { coin: issued } of entry.facts.quotes) {
    assert.ok(entry.tips[issued as PaidIn].scannedThrough.getTime() >= endOf(entry) + slackMs(issued), `${issued} is behind`);
  }
});

always('nothing ends while a transfer that would count is contested or waits for a price', (entry) => {
  if (!steps(entry).some((s) => / (expired|failed)$/.test(s))) return;
  const accepted = new Set(acceptsOf(entry).flat());
  const open = entry.transfers.filter(
    (t) =>
      !isDust(t) &&
      !isLost(entry, t) &&
      (isContested(t) || t.values.length === 0) &&
      (accepted.has(t.ref) || (!isClosed(entry) && isInTime(entry, t))),
  );
  assert.deepEqual(open, []);
});

always('a payment in progress fails only when money is gone: a confirmed conflict, a day of absence, or its protection ended', (entry) => {
  if (!steps(entry).includes('processing failed')) return;
  const lost = entry.transfers.filter((t) => !isDust(t) && (isLost(entry, t) || sightOf(entry, t) !== t.firstSeenAt.getTime()));
  assert.ok(lost.length > 0);
});

always('an ended payment returns only by an accept or, unless canceled, by the late rule', (entry) => {
  if (!steps(entry).some((s) => /^(expired|failed|cancelled) /.test(s))) return;
  const byLateRule = entry.facts.rules.lateAcceptMinutes !== null && !isClosed(entry) && present(entry).some((t) => !isInTime(entry, t));
  assert.ok(acceptsOf(entry).length > 0 || byLateRule);
});

always('cancelled never moves without an accept', (entry) => {
  if (entry.facts.status === 'cancelled' && acceptsOf(entry).length === 0) assert.deepEqual(steps(entry), []);
});

always('each transfer is valued once, again only when it lost its protection, and counts at most once', (entry) => {
  for (const t of entry.transfers) {
    assert.ok(t.values.filter((v) => v.reason === 'first_sight').length <= 1);
    assert.ok(t.values.filter((v) => v.reason === 'confirmation').length <= 1);
  }
  const { receivedUsdE8, receivedUnits, seenUsdE8, coin: shown } = entry.result;
  assert.ok(receivedUsdE8 <= seenUsdE8 && seenUsdE8 <= worthOf(countable(entry)));
  assert.ok(receivedUnits <= countable(entry).reduce((total, t) => (t.coin === shown ? total + t.units : total), 0n));
  // Without the late rule and without a decision, the received amount is exactly what arrived in time.
  if (entry.facts.rules.lateAcceptMinutes === null) {
    assert.equal(seenUsdE8, worthOf(countable(entry)));
    assert.equal(receivedUsdE8, worthOf(countable(entry).filter(hasArrived)));
  }
});

const CENT_E8 = 1_000_000n;
always('every transfer has one role, and what counts, is on hold, was rejected or refunded adds up to all that arrived', (entry) => {
  const { result, transfers } = entry;
  const roles = rolesOf(entry.facts, transfers, entry.tips);
  assert.equal(roles.size, transfers.length);
  for (const of of PAID_IN) {
    const mine = transfers.filter((t) => t.coin === of);
    const units = (list: readonly Transfer[]): bigint => list.reduce((total, t) => total + t.units, 0n);
    const inRole = (role: TransferRole): bigint => units(mine.filter((t) => roles.get(t) === role));
    const isAnnounced = (t: Transfer): boolean => !hasArrived(t) && COUNTABLE.has(roles.get(t)!);
    const uncounted = result.uncounted.filter((one) => one.coin === of);
    for (const { state, units: sum, usdE8, waits } of uncounted) {
      const named = mine.filter((t) =>
        state === 'announced' ? isAnnounced(t) && (roles.get(t) === 'held') === (waits === true) : hasArrived(t) && roles.get(t) === state,
      );
      assert.equal(sum, units(named));
      if (named.some((t) => t.values.length === 0)) assert.equal(usdE8, null);
      else {
        const rounding = (usdE8 ?? 0n) - worthOf(named);
        assert.ok(usdE8 !== null && usdE8 % CENT_E8 === 0n && rounding * rounding <= (CENT_E8 * BigInt(named.length)) ** 2n);
      }
    }
    const counted = units(mine.filter((t) => roles.get(t) === 'counted' && hasArrived(t)));
    if (of === result.coin) assert.deepEqual([result.receivedUnits, result.seenUnits], [counted, inRole('counted')]);
    const here = units(present(entry).filter((t) => t.coin === of));
    assert.equal(counted + uncounted.reduce((total, one) => total + one.units, 0n), here);
    assert.equal(inRole('contested') + inRole('gone') + inRole('small') + here, units(mine));
  }
});

always('nothing that is in no block counts as received, overpaid or refundable', ({ facts, transfers, tips, result }) => {
  const arrived = transfers.filter(hasArrived);
  const units = arrived.reduce((sum, t) => (t.coin === result.coin ? sum + t.units : sum), 0n);
  const held = result.uncounted.filter(({ coin, state }) => coin === result.coin && state !== 'announced');
  assert.ok(result.receivedUnits + held.reduce((sum, one) => sum + one.units, 0n) <= units);
  if (result.exceptions.includes('overpaid')) assert.ok(worthOf(arrived) > centsToE8(facts.targetUsdCents));
  assert.ok(result.overpaidUnits <= units);
  for (const coin of PAID_IN) assert.ok(confirmedUnits(facts, transfers, tips, coin) <= confirmedUnits(facts, arrived, tips, coin));
});

always('nothing is on hold that the merchant rejected, refunded or accepted', (entry) => {
  const roles = rolesOf(entry.facts, entry.transfers, entry.tips);
  for (const [t, role] of roles) {
    const last = entry.facts.decisions.findLast((d) => d.kind !== 'cancel' && d.transfers.includes(t.ref))?.kind;
    if (role === 'held') assert.equal(last, undefined);
    if (role === 'rejected') assert.equal(last, 'reject');
    if (role === 'refunded') assert.equal(last, 'refund_sent');
    if (last === 'accept') assert.ok(['counted', 'contested', 'gone'].includes(role), role);
  }
});

always('amounts are whole and never negative', ({ result }) => {
  for (const amount of [
    result.receivedUnits,
    result.receivedUsdE8,
    result.remainingUnits,
    result.overpaidUnits,
    result.amountUnits ?? 0n,
  ]) {
    assert.equal(typeof amount, 'bigint');
    assert.ok(amount >= 0n);
  }
  assert.ok(Number.isInteger(result.confirmations) && result.confirmations >= 0);
});

always('a payment that waits for time is due at a time to come', ({ result, now }) => {
  if (result.status === 'pending' && now <= result.expiresAt) assert.ok(result.nextDueAt !== null);
  if (result.nextDueAt !== null) assert.ok(result.nextDueAt > now);
});

test('the properties hold for every settlement in every history', () => {
  fc.assert(
    fc.property(terms, history, (given, moments) => {
      const { entries } = live(given, moments);
      for (const [i, entry] of entries.entries()) {
        for (const { name, check } of properties) {
          try {
            check(entry, entries.slice(0, i));
          } catch (error) {
            throw new Error(`not so: ${name}`, { cause: error });
          }
        }
      }
    }),
    { numRuns: RUNS },
  );
});

/** Time and blocks only wake the worker, which may be late; every other fact is written together with a settlement of its payment. */
const isWakeUp = (fact: Fact): boolean => fact.do === 'pass' || fact.do === 'grow';

test('missed wake-ups change nothing: settled after every fact or once at the end, inside the window, the status is the same', () => {
  const inside = fc.oneof(
    { weight: 5, arbitrary: seen },
    { weight: 5, arbitrary: mined },
    { weight: 2, arbitrary: grown },
    { weight: 3, arbitrary: onChain },
    { weight: 2, arbitrary: follower },
    { weight: 1, arbitrary: merchant },
    { weight: 1, arbitrary: passed(1) },
  );
  const short = fc.array(inside, { minLength: 1, maxLength: 25, size: 'max' });
  fc.assert(
    fc.property(terms, short, (given, happenings) => {
      const eager = new World(given);
      const lazy = new World(given);
      for (const fact of happenings) {
        for (const world of [eager, lazy]) world.happen(fact);
        eager.settle();
        // A merchant's decision applies to the state at that moment.
        if (lazy.facts.decisions.length > 0 && !isWakeUp(fact)) lazy.settle();
        // Completed is final, so later events are not compared.
        if (eager.facts.status === 'completed') break;
      }
      lazy.settle();
      assert.equal(lazy.facts.status, eager.facts.status);
      assert.equal(lazy.decided().receivedUsdE8, eager.decided().receivedUsdE8);
    }),
    { numRuns: RUNS },
  );
});

test('missed wake-ups change nothing across the end of the window either, while money still due arrives and confirms', () => {
  const arriving = fc.oneof(
    { weight: 4, arbitrary: seen },
    { weight: 3, arbitrary: mined },
    { weight: 1, arbitrary: grown },
    { weight: 4, arbitrary: passed(1, 5, 20, 35) },
  );
  fc.assert(
    fc.property(terms, fc.array(arriving, { minLength: 1, maxLength: 25, size: 'max' }), (given, happenings) => {
      const eager = new World(given);
      const lazy = new World(given);
      for (const fact of happenings) {
        // Payers are not asked again for money that is on its way.
        if (fact.do === 'see' && eager.facts.status === 'processing') continue;
        for (const world of [eager, lazy]) world.happen(fact);
        eager.settle();
        if (eager.facts.status === 'completed') break;
      }
      lazy.settle();
      // Accepted late money that then lost its first sighting: the eager world saw money arrive and fail, the lazy one saw none.
      const wasLate = given.late !== null && eager.facts.status === 'failed' && lazy.facts.status === 'expired';
      if (!wasLate) assert.equal(lazy.facts.status, eager.facts.status);
    }),
    { numRuns: RUNS },
  );
});

test('the quoted amount covers the payment whatever the tolerance, also in several parts', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...COINS),
      fc.bigInt({ min: 1n, max: 100_000_000n }),
      fc.bigInt({ min: 10_000_000n, max: 20_000_000_000_000n }),
      fc.array(fc.bigInt({ min: 1n, max: 10n ** 6n }), { minLength: 1, maxLength: 6 }),
      (of, cents, priceE8, shares) => {
        const units = quoteUnits(of, cents, priceE8);
        const whole = shares.reduce((a, b) => a + b);
        const parts = shares.map((share) => (units * share) / whole);
        parts[0]! += units - parts.reduce((a, b) => a + b);
        fc.pre(parts.every((part) => part >= COIN[of].dustUnits));
        const world = new World({ cents, tolerance: 0, late: null, protection: 24 });
        const quote = { coin: of, address: of, rateE8: priceE8, units, from: START, until: addMs(START, 900_000) };
        const facts = { ...world.facts, quotes: [quote] };
        const paid = parts.map((part, i): Transfer => {
          const t: Transfer = {
            coin: of,
            ref: `t${i}:0`,
            txid: `t${i}`,
            address: of,
            units: part,
            kind: 'output',
            firstSeenAt: START,
            values: [],
            block: null,
            lock: null,
            absentSince: null,
            conflict: null,
            unminedSince: null,
            disputedSince: null,
          };
          return { ...t, values: [valueTransfer({ payment: facts, transfer: t, spot: null, now: START })!] };
        });
        const result = settle(facts, paid, {}, START);
        assert.equal(result.status, 'processing');
        assert.equal(result.remainingUnits, 0n);
        // A missing part is not a rounding difference.
        if (parts[0]! > 100n * dueUnit(of)) assert.equal(settle(facts, paid.slice(1), {}, START).status, 'pending');
      },
    ),
    { numRuns: RUNS },
  );
});
