/** When a transfer is confirmed: the tier of the amount that depends on it, locks, final blocks, proven work, and what sources agree on. */
import { ASSET, type BitcoinFamily, COIN, type Coin, type CompletionRule, type ConfirmationTier, chainOf } from './coin.ts';
import { invariant } from './invariant.ts';
import { centsToE8, E8, e8ToCents } from './money.ts';
import type { PaymentFacts, Tip, Tips, Transfer, TransferKind, TransferStanding } from './payment.ts';

/** Dash: confirmations that replace a missing InstantSend lock or ChainLock. */
const DASH_CONFIRMATIONS = 6;
/** The same where no node knows the locks. */
export const DASH_CONFIRMATIONS_BLIND = 24;
/** Other small payments of the merchant that wait at the same time count by a quarter, because most belong to other people. */
const MERCHANT_SHARE = 4n;
/** Litecoin: a peg-out needs at least this many (the reorganization of April 2026 was 13 blocks deep). */
const PEGOUT_CONFIRMATIONS = 24;

function tierIn(tiers: readonly ConfirmationTier[], usdCents: bigint): ConfirmationTier {
  const tier = tiers.find((row) => row.belowUsdCents === null || usdCents < row.belowUsdCents) ?? tiers.at(-1);
  invariant(tier, 'there is a confirmation tier for every amount');
  return tier;
}
/** The tier of an amount. */
export const confirmationTier = (facts: PaymentFacts, coin: Coin, usdCents: bigint): ConfirmationTier =>
  tierIn(facts.rules.confirmations[coin], usdCents);

/** What else an attacker who replaces the block could take back together with the transfer, as far as one payer may have sent it. */
export function companyCents(t: Transfer): bigint {
  const company = t.values[0]?.company;
  if (!company) return 0n;
  const share = company.merchantUsdCents / MERCHANT_SHARE;
  return company.transactionUsdCents > share ? company.transactionUsdCents : share;
}

/** What depends on a transfer, in cents: all that its payment received, and what the same payer may have sent besides. */
type Stakes = { receivedCents: bigint; company: bigint };

/** The largest amount that depends on a transfer. */
export function largestAtStake({ targetUsdCents }: PaymentFacts, { receivedCents, company }: Stakes): bigint {
  const own = receivedCents > targetUsdCents ? receivedCents : targetUsdCents;
  return company > own ? company : own;
}

/** The confirmations that transfers of a coin need, by the largest amount that depends on one of them and the slowest kind. */
export function requirementOf(
  facts: PaymentFacts,
  coin: Coin,
  { kinds, ...amounts }: Stakes & { kinds: ReadonlySet<TransferKind> | TransferKind },
): ConfirmationTier {
  const tier = confirmationTier(facts, coin, largestAtStake(facts, amounts));
  const has = (kind: TransferKind): boolean => (typeof kinds === 'string' ? kinds === kind : kinds.has(kind));
  let { confirmations } = tier;
  if (tier.rule === 'confirmations' && has('pegout')) confirmations = Math.max(confirmations, PEGOUT_CONFIRMATIONS);
  if (has('coinbase')) confirmations = Math.max(confirmations, chainOf(coin).coinbaseMaturity);
  return confirmations === tier.confirmations ? tier : { ...tier, confirmations };
}

export const requirement = (facts: PaymentFacts, t: Transfer, receivedCents: bigint): ConfirmationTier =>
  requirementOf(facts, t.coin, { receivedCents, company: companyCents(t), kinds: t.kind });

export const confirmationsOf = (t: Transfer, tip: Tip | undefined): number =>
  t.block && tip ? Math.max(0, tip.height - t.block.height + 1) : 0;

export function isConfirmed(t: Transfer, { rule, confirmations }: ConfirmationTier, tip: Tip | undefined): boolean {
  if (rule === 'preimage') return t.lock === 'preimage';
  const count = confirmationsOf(t, tip);
  if (!tip || (t.kind === 'coinbase' && count < chainOf(t.coin).coinbaseMaturity)) return false;
  const chainlocked = t.lock === 'chainlock' || (t.block !== null && tip.chainlockHeight !== null && t.block.height <= tip.chainlockHeight);
  // A missing lock is normal for fresh inputs. Depth replaces it.
  const deep = count >= (tip.chainlockHeight === null ? DASH_CONFIRMATIONS_BLIND : DASH_CONFIRMATIONS);
  switch (rule) {
    case 'confirmations':
      return count >= Math.max(1, confirmations);
    case 'instantsend':
      return t.lock !== null || chainlocked || deep;
    case 'instantsend_or_chainlock':
      return chainlocked || (t.lock === 'instantsend' && count >= 1) || deep;
    case 'chainlock':
      return (chainlocked && count >= 1) || deep;
    case 'safe':
      return t.block !== null && tip.safeHeight !== null && t.block.height <= tip.safeHeight && count >= confirmations;
    case 'finalized':
      return t.block !== null && tip.finalizedHeight !== null && t.block.height + confirmations <= tip.finalizedHeight;
  }
}

/** How many blocks of work a confirmed transfer needs, its own included; null when a lock or finality decides instead. */
function workNeeded(t: Transfer, wanted: ConfirmationTier, tip: Tip): number | null {
  switch (wanted.rule) {
    case 'confirmations':
      return Math.max(1, wanted.confirmations);
    case 'safe':
    case 'finalized':
    case 'preimage':
      return null;
    case 'instantsend':
    case 'instantsend_or_chainlock':
    case 'chainlock': {
      const { height } = t.block ?? { height: tip.height };
      const isShallow = isConfirmed(t, wanted, { ...tip, height: Math.min(tip.height, height) });
      return isShallow ? null : tip.chainlockHeight === null ? DASH_CONFIRMATIONS_BLIND : DASH_CONFIRMATIONS;
    }
  }
}

/**
 * How many blocks must cost a forger more than the amount that depends on a transfer, at the price at which it was valued. An operator who
 * asks for fewer confirmations than the table decided that this is enough.
 */
function blocksWorth(t: Transfer, wanted: ConfirmationTier, { tip, usdCents }: { tip: Tip; usdCents: bigint }): number {
  if (isLowerTier(wanted, tierIn(chainOf(t.coin).confirmations, usdCents))) return 0;
  const amountE8 = centsToE8(usdCents);
  const usdE8 = t.values[0]?.usdE8 ?? 0n;
  const units = usdE8 > 0n ? (amountE8 * t.units) / usdE8 : (amountE8 * E8) / ASSET[COIN[t.coin].asset].sampleE8;
  return confirmationsWorth(t.coin, { units, height: t.block?.height ?? tip.height });
}

const LESS_WORK = 'the blocks that confirm it have less work than usual, so it waits for more';
/** Why the blocks that confirm a transfer do not have enough work: as much as so many usual blocks, and worth more than the amount. */
function whyUnproven(t: Transfer, wanted: ConfirmationTier, tip: Tip, usdCents: bigint): string | null {
  const { provenHeights } = tip;
  const needed = provenHeights ? workNeeded(t, wanted, tip) : null;
  if (!provenHeights || needed === null) return null;
  const has = (count: number): boolean => {
    const height = provenHeights[count - 1];
    return t.block !== null && height !== undefined && t.block.height <= height;
  };
  const most = isMined(t.coin) ? mostConfirmations(t.coin) : MOST_PROVEN;
  const worth = blocksWorth(t, wanted, { tip, usdCents });
  const { name } = chainOf(t.coin);
  if (worth > most) return `it is worth more than the work of ${most} blocks of ${name}, so no number of blocks completes it`;
  // Where more are asked for than are counted in work, the rest are counted in blocks.
  if (!has(Math.min(needed, most))) return LESS_WORK;
  return has(worth) || worth <= needed ? null : `its amount is worth the work of ${worth} blocks of ${name}, so it waits for them`;
}

/**
 * Why a transfer that is confirmed on the followed chain does not complete yet: the blocks on top must have enough work, and all sources
 * of the coin must show its block and the required number of blocks on top. Null when it may complete.
 */
export function whyNotFinal(t: Transfer, wanted: ConfirmationTier, tip: Tip | undefined, amount: bigint): string | null {
  if (tip?.needsVerifier && !t.verifiedBy) return 'only one source has shown its block; payments complete when two show the same blocks';
  const unproven = tip ? whyUnproven(t, wanted, tip, amount) : null;
  if (unproven !== null) return unproven;
  const agreement = tip?.agreement;
  if (!tip || !agreement) return null;
  if (agreement.above && amount > agreement.above.usdCents) return agreement.above.reason;
  const isIn = t.block !== null && t.block.height <= agreement.height;
  if (isIn && isConfirmed(t, wanted, { ...tip, height: Math.min(tip.height, agreement.height) })) return null;
  // Only the operator's own node reports locks of unconfirmed transactions.
  const isLocked = t.lock !== null && isConfirmed({ ...t, block: null }, wanted, tip);
  if (isLocked && agreement.lockUsdCents !== null && amount <= agreement.lockUsdCents) return null;
  return `the sources of this chain have not agreed on block ${isIn || !t.block ? agreement.height + 1 : t.block.height} yet`;
}

/** What keeps a transfer from being confirmed besides time; null when only more blocks are needed. */
export const whyNotConfirmed = (t: Transfer, { rule }: ConfirmationTier, tip: Tip | undefined): string | null =>
  rule === 'preimage'
    ? 'the Lightning invoice is called paid, but without the preimage that proves it'
    : t.block !== null && tip?.isFinalUnknown && (rule === 'safe' || rule === 'finalized')
      ? 'a source of this chain does not say which blocks are final, and this payment needs one'
      : null;

export const requiredOf = ({ rule, confirmations }: ConfirmationTier): number | null =>
  rule === 'confirmations' ? Math.max(1, confirmations) : rule === 'preimage' ? 0 : null;

/** The fewest confirmations that fulfil a rule where every block is final and locked as soon as it is found. */
export const fewestOf = ({ rule, confirmations }: ConfirmationTier): number =>
  rule === 'finalized' ? confirmations + 1 : Math.max(1, confirmations);

/** What one transfer needs and how far it is, for a payment that has received this much. */
export function standingOf(facts: PaymentFacts, t: Transfer, receivedUsdE8: bigint, tips: Tips): TransferStanding {
  const tip = tips[t.coin];
  const wanted = requirement(facts, t, e8ToCents(receivedUsdE8));
  return {
    state:
      !t.block && t.conflict ? 'replaced' : !t.block && t.absentSince ? 'absent' : isConfirmed(t, wanted, tip) ? 'confirmed' : 'waiting',
    confirmations: confirmationsOf(t, tip),
    confirmationsRequired: requiredOf(wanted),
  };
}

// The confirmation tiers of a payment: the default table, what merchants raise, and what the operator overrides.

const GRADE: Readonly<Record<CompletionRule, number>> = {
  confirmations: 0,
  instantsend: 1,
  instantsend_or_chainlock: 2,
  chainlock: 3,
  safe: 1,
  finalized: 2,
  preimage: 2,
};

/** Whether a tier asks for less than another one: only an operator's override does. */
const isLowerTier = (tier: ConfirmationTier, than: ConfirmationTier): boolean =>
  tier.rule === than.rule ? tier.confirmations < than.confirmations : GRADE[tier.rule] < GRADE[than.rule];

/**
 * The confirmation tiers of a new payment: the default table, raised by the merchant (lower values are ignored), or the operator's
 * override. Only the override may go lower, and its numbers replace locks and tags.
 */
export function mergeConfirmations(
  table: readonly ConfirmationTier[],
  merchant: readonly ConfirmationTier[] | null,
  operator: readonly ConfirmationTier[] | null,
): readonly ConfirmationTier[] {
  const base = operator ?? table;
  if (!merchant || merchant.length === 0) return base;
  const bounds = [...new Set([...base, ...merchant].map((t) => t.belowUsdCents))].toSorted((a, b) =>
    a === null ? 1 : b === null ? -1 : a < b ? -1 : 1,
  );
  const at = (tiers: readonly ConfirmationTier[], bound: bigint | null): ConfirmationTier => {
    const tier = tiers.find((t) => t.belowUsdCents === null || (bound !== null && bound <= t.belowUsdCents)) ?? tiers.at(-1);
    invariant(tier, 'there is a confirmation tier for every amount');
    return tier;
  };
  return bounds.map((bound) => {
    const low = at(base, bound);
    const wish = at(merchant, bound);
    const raised = wish.rule === low.rule ? wish.confirmations > low.confirmations : GRADE[wish.rule] > GRADE[low.rule];
    return { ...(raised ? { ...wish, confirmations: Math.max(wish.confirmations, low.confirmations) } : low), belowUsdCents: bound };
  });
}

/** Reads `1`, or `100:1,1000:2,*:6` (below 100 USD one, below 1000 two, else six). Errors: says what is wrong. */
export function parseConfirmations(text: string): readonly ConfirmationTier[] {
  const tier = (below: bigint | null, count: string): ConfirmationTier => {
    if (!/^[1-9]\d{0,3}$/.test(count)) throw new Error('needs whole numbers of confirmations from 1 up');
    return { belowUsdCents: below, confirmations: Number(count), rule: 'confirmations' };
  };
  const parts = text.split(',').map((part) => part.trim());
  const [only, ...more] = parts;
  if (only !== undefined && more.length === 0 && !only.includes(':')) return [tier(null, only)];
  const tiers = parts.map((part) => {
    const [bound = '', count = ''] = part.split(':');
    if (bound !== '*' && !/^[1-9]\d{0,9}$/.test(bound)) throw new Error('must look like 1, or 100:1,1000:2,*:6');
    return tier(bound === '*' ? null : BigInt(bound) * 100n, count);
  });
  const bounds = tiers.map((t) => t.belowUsdCents);
  if (bounds.at(-1) !== null || bounds.slice(0, -1).some((b, i) => b === null || (i > 0 && b <= bounds[i - 1]!))) {
    throw new Error('needs rising bounds and *:N as the last part');
  }
  return tiers;
}

// What the work of blocks is worth: a forger of blocks gives up at least their reward. From this follows how many blocks a payment needs
// so that forging them costs more than the payment.

/** What a miner gets for a block without its fees: a first amount, how often it falls, and the part that is left each time. */
type Reward = { units: bigint; interval: bigint; left: readonly [bigint, bigint]; share: readonly [bigint, bigint] };
const HALF = [1n, 2n] as const;
const WHOLE = [1n, 1n] as const;
const REWARDS: Readonly<Record<BitcoinFamily, Reward>> = {
  BTC: { units: 50n * E8, interval: 210_000n, left: HALF, share: WHOLE },
  LTC: { units: 50n * E8, interval: 840_000n, left: HALF, share: WHOLE },
  // 10,000 DOGE for each block since block 600,000, for ever.
  DOGE: { units: 10_000n * E8, interval: 1n << 62n, left: HALF, share: WHOLE },
  // A fifth goes to the treasury, and three quarters of the rest to masternodes.
  DASH: { units: 5n * E8, interval: 210_240n, left: [13n, 14n], share: [1n, 5n] },
};

/**
 * The least part of a usual block's work that a confirmation in work costs a forger. The reference for it comes from outside the forged
 * blocks (`chains/bitcoin/chain-work.ts`), but someone who cuts Florin off from all honest peers for a day lowers it to this.
 */
export const LEAST_SHARE = [3n, 5n] as const;

/** Confirmations that are counted in work. A payment that needs more does not complete on the word of work. */
export const MOST_PROVEN = 240;
/** A chain that brought less than this part of a day's work in the last day completes nothing (`findWorkHolds`). */
const DAY_SHARE = 4;

/** Whether the blocks of a coin's chain are mined. */
const isMined = (coin: Coin): coin is BitcoinFamily => coin in REWARDS;

/** What a miner gets for the block at a height, without fees. */
export function minerUnits(coin: BitcoinFamily, height: number): bigint {
  const { units, interval, left, share } = REWARDS[coin];
  const falls = BigInt(height) / interval;
  return (units * left[0] ** falls * share[0]) / (left[1] ** falls * share[1]);
}

/**
 * The most confirmations that can be asked for. After a long silence of honest blocks the reference is lower than `LEAST_SHARE`, but then
 * a branch must also bring a quarter of a day's work, which is as much as this many confirmations.
 */
export function mostConfirmations(coin: BitcoinFamily): number {
  const quarter = 86_400 / chainOf(coin).blockSeconds / DAY_SHARE;
  return Math.min(MOST_PROVEN, Math.floor((quarter * Number(LEAST_SHARE[1])) / Number(LEAST_SHARE[0])));
}

/** What forging one confirmation costs at least, in units of the coin. */
export const confirmationUnits = (coin: BitcoinFamily, height: number): bigint =>
  (minerUnits(coin, height) * LEAST_SHARE[0]) / LEAST_SHARE[1];

/**
 * How many confirmations in work cost a forger more than so many units of the coin; 0 on chains without mining. `height`: of the block with
 * the money.
 */
export const confirmationsWorth = (coin: Coin, { units, height }: { units: bigint; height: number }): number =>
  isMined(coin) ? Number(units / confirmationUnits(coin, height)) + 1 : 0;
