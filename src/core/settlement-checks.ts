/** What must hold for the facts of a payment and for every settlement, before a wrong one is stored or shown. */
import { InvariantError, invariant } from './invariant.ts';
import type { PaymentFacts, Settlement, Tips, Transfer } from './payment.ts';
import { NEXT } from './status.ts';

const isHeight = (height: number | null): boolean => height === null || (Number.isSafeInteger(height) && height >= 0);

/** What a payment asks for: amounts and rates above zero, and no quote that ends before it begins. */
export function checkPayment({ id, targetUsdCents, fixed, quotes }: PaymentFacts): void {
  invariant(targetUsdCents > 0n && (fixed === null || fixed.units > 0n), `${id} asks for an amount above zero`);
  for (const { units, rateE8, from, until } of quotes) {
    invariant(units > 0n && (rateE8 === null || rateE8 > 0n), `the quotes of ${id} have amounts and rates above zero`);
    invariant(from <= until, `the quotes of ${id} end after they begin`);
  }
}

/** What was read of the chains: heights are whole numbers from zero up. */
export function checkTips(tips: Tips): void {
  for (const [coin, tip] of Object.entries(tips)) {
    const { height, safeHeight, finalizedHeight, chainlockHeight } = tip;
    invariant([height, safeHeight, finalizedHeight, chainlockHeight].every(isHeight), `the heights of ${coin} are those of blocks`);
  }
}

/** One transfer. Called for each of thousands, so it costs almost nothing while it holds. */
export function checkTransfer(id: string, t: Transfer): void {
  const { units, block, values } = t;
  if (units < 0n) throw new InvariantError(`${t.ref} of ${id} has no negative amount`);
  if (block !== null && !isHeight(block.height)) throw new InvariantError(`${t.ref} of ${id} is in a block with a height`);
  for (const { usdE8 } of values) if (usdE8 < 0n) throw new InvariantError(`${t.ref} of ${id} has no negative value`);
}

type Valued = { t: Transfer; worthE8: bigint };

/** Transfers in order: none is listed twice, because it would count twice. */
export function checkOnce(id: string, sorted: readonly Valued[]): void {
  let before: Transfer | null = null;
  for (const { t } of sorted) {
    if (before !== null && before.ref === t.ref && before.coin === t.coin) throw new InvariantError(`${t.ref} of ${id} is listed once`);
    before = t;
  }
}

/** What counts and what does not are together all that is there. */
export function checkParts(id: string, whole: readonly Valued[], ...parts: readonly (readonly Valued[])[]): void {
  let units = 0n;
  let worthE8 = 0n;
  let count = 0;
  for (const { t, worthE8: own } of whole) {
    units += t.units;
    worthE8 += own;
    count++;
  }
  for (const part of parts) {
    for (const { t, worthE8: own } of part) {
      units -= t.units;
      worthE8 -= own;
      count--;
    }
  }
  invariant(units === 0n && worthE8 === 0n && count === 0, `the parts of ${id} are together what arrived`);
}

/** A settlement of a payment: no negative amounts, amounts that fit together, and steps along allowed transitions. */
export function checkSettlement(facts: Pick<PaymentFacts, 'id' | 'status'>, settlement: Settlement): void {
  checkAmounts(facts.id, settlement);
  checkSteps(facts, settlement);
}

function checkAmounts(
  id: string,
  {
    receivedUnits,
    receivedUsdE8,
    seenUnits,
    seenUsdE8,
    remainingUnits,
    overpaidUnits,
    shortUnits,
    shortUsdE8,
    dustUnits,
    amountUnits,
    uncounted,
  }: Settlement,
): void {
  const amounts = [receivedUnits, receivedUsdE8, remainingUnits, overpaidUnits, shortUnits, shortUsdE8, dustUnits];
  invariant(
    amounts.every((amount) => amount >= 0n) && uncounted.every(({ units, usdE8 }) => units > 0n && (usdE8 ?? 0n) >= 0n),
    `amounts of ${id} are not negative`,
  );
  invariant(receivedUnits <= seenUnits && receivedUsdE8 <= seenUsdE8, `what ${id} received was seen`);
  invariant(remainingUnits === 0n || (overpaidUnits === 0n && shortUsdE8 === 0n), `nothing remains of ${id} when it is paid`);
  invariant(
    overpaidUnits === 0n || (amountUnits !== null && receivedUnits === amountUnits + overpaidUnits),
    `what ${id} received is its amount and what is too much`,
  );
}

function checkSteps({ id, status: from }: Pick<PaymentFacts, 'id' | 'status'>, settlement: Settlement): void {
  const { steps, status, completedAt, receivedUsdE8 } = settlement;
  invariant((steps.at(-1)?.status ?? from) === status, `the last step of ${id} leads to its status`);
  invariant(
    steps.every((step, i) => step.from === (i === 0 ? from : steps[i - 1]?.status) && NEXT[step.from].includes(step.status)),
    `the steps of ${id} follow one another along allowed transitions`,
  );
  invariant(status !== 'completed' || completedAt !== null, `${id} is completed at a known time`);
  invariant(status !== 'completed' || from === 'completed' || receivedUsdE8 > 0n, `${id} completes with money`);
}
