/** The simulated chain of a test payment: a pure function of what its payer did, when, and the test clock. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { COIN, COINS, type Coin, isToken, kindOf, LIGHTNING } from './coin.ts';
import { addMs, MINUTE_MS } from './dates.ts';
import { dueUnit } from './money.ts';
import type { Tip, Transfer } from './payment.ts';

export const SCENARIOS = [
  'success',
  'slow',
  'held',
  'failed',
  'underpaid',
  'overpaid',
  'late',
  'reorg',
  'replaced',
  'expired',
  'reversed',
  'wrong_network',
  'wrong_token',
] as const;
export type Scenario = (typeof SCENARIOS)[number];

/** What a test payment shows as its address: `test_btc_success`, of a token with its chain; `test_lightning_success`. */
export const testIdentifier = (coin: Coin, scenario: string): string =>
  `test_${coin === LIGHTNING ? 'lightning' : coin.toLowerCase().replace('@', '_')}_${scenario}`;

/** The coin and the scenario of a test identifier; null if it names no coin. Without a chain, `test_usdc_success` is on the first one. */
export function scenarioFromText(text: string | null): { coin: Coin; name: string } | null {
  const match = text === null ? null : /^test_([a-z_]+?)_(wrong_network|wrong_token|[a-z]+)$/.exec(text);
  if (!match) return null;
  const [, named, scenario] = match;
  const coin =
    [...COINS, LIGHTNING].find((one) => testIdentifier(one, scenario!) === text) ??
    COINS.find((one) => COIN[one].asset.toLowerCase() === named);
  return coin ? { coin, name: scenario! } : null;
}

/** Whether a text is what this service shows as an address of a test payment in this coin, or of who paid it. */
export const isTestAddress = (text: string, coin: Coin): boolean =>
  [...SCENARIOS, PAYER].some((name) => testIdentifier(coin, name) === text);

/** In which other coin the payer of a scenario pays: the same asset on another network, or another token on the same one. */
function wrongCoin(scenario: string, coin: Coin): Coin | null {
  const { family, chain, asset } = COIN[coin];
  const others = COINS.filter((one) => COIN[one].family === family && one !== coin && isToken(one));
  const [there, here] = [others.filter((one) => COIN[one].chain !== chain), others.filter((one) => COIN[one].chain === chain)];
  if (scenario === 'wrong_network') return there.find((one) => COIN[one].asset === asset) ?? there[0] ?? null;
  return scenario === 'wrong_token' ? (here[0] ?? null) : null;
}
/** An invoice is paid as a whole, and settled for good. `held`: at first it is called paid without the preimage that proves it. */
const OF_LIGHTNING: readonly Scenario[] = ['success', 'held', 'overpaid', 'late', 'expired'];
/** The scenarios that a coin can play: its wallet must be able to receive another one. */
export const scenariosOf = (coin: Coin): readonly Scenario[] =>
  coin === LIGHTNING
    ? OF_LIGHTNING
    : SCENARIOS.filter((one) => one !== 'held' && ((one !== 'wrong_network' && one !== 'wrong_token') || wrongCoin(one, coin) !== null));

/** In the place of a scenario: where the money of test payments comes from. */
export const PAYER = 'payer';
/** In the place of a scenario: the payer chose a coin on the page, and nothing has been simulated yet. */
export const WAITING = 'waiting';

/** What a test payer does, from when on. `units` is what remained to be paid at that moment. */
export type Play = { coin: Coin; scenario: string; units: bigint; startedAt: Date };

export type Observation = {
  /** The facts that the follower would have recorded by `now`. The chain does not set `values`. */
  transfers: readonly Omit<Transfer, 'values'>[];
  tip: Pick<Tip, 'height' | 'hash' | 'safeHeight' | 'finalizedHeight' | 'chainlockHeight'>;
  /** The next instant at which something changes; null: nothing more will happen. */
  wakeAt: Date | null;
  /** The scenario needs the payment's window to be over by now. */
  endWindow: boolean;
};

/** Height at which simulated payments are mined. */
const HEIGHT = 1_000;
/** Steps of a scenario after its start: seen, then the rest. All end within two seconds. */
const STEP_MS = 500;
const SLOW_MS = 10 * MINUTE_MS;

type Moment = {
  paymentId: string;
  targetUsdCents: bigint;
  windowEndsAt: Date;
  completedAt: Date | null;
  now: Date;
  /** How many confirmations complete the payment in this coin. */
  needed(coin: Coin): number;
  /** The output script, in hex, of the deposit address that the payment has for rehearsals. */
  scriptOf(coin: Coin): string;
};

/** What the simulated chain of a payment shows at `now`, from all that its payer has done; null when that is nothing. */
export function simulate(plays: readonly Play[], moment: Moment): Observation | null {
  const seen = plays.map((play, number) => simulatePlay({ ...moment, ...play, number }));
  if (seen.length === 0) return null;
  const wakes = seen.flatMap(({ wakeAt }) => (wakeAt ? [wakeAt.getTime()] : []));
  return {
    transfers: seen.flatMap(({ transfers }) => transfers),
    tip: seen.reduce((highest, { tip }) => (tip.height > highest.height ? tip : highest), seen[0]!.tip),
    wakeAt: wakes.length === 0 ? null : new Date(Math.min(...wakes)),
    endWindow: seen.some(({ endWindow }) => endWindow),
  };
}

type OnePlay = Play & Moment & { number?: number };
type Share = { of: bigint; by: bigint };
const FULL: Share = { of: 1n, by: 1n };
const HALF: Share = { of: 1n, by: 2n };

/** How many simulations of one payment are tried to find the one that made a transaction. */
const MOST_PLAYS = 1_000;
const hashOf = ({ paymentId, number = 0 }: { paymentId: string; number?: number }, what: string): string =>
  bytesToHex(sha256(utf8ToBytes(`florin simulated ${paymentId} ${what}${number === 0 ? '' : ` ${number}`}`)));
const reversed = (bytes: Uint8Array): string => bytesToHex(bytes.toReversed());
const txidOf = (raw: Uint8Array): string => reversed(sha256(sha256(raw)));

/** A transaction with one output, which a rehearsed signing file spends like a real one: its ID is the hash of its bytes. */
function outputTransaction({ from, script, units }: { from: string; script: string; units: bigint }): Uint8Array {
  const value = Buffer.alloc(8);
  value.writeBigUInt64LE(units);
  const length = (script.length / 2).toString(16).padStart(2, '0');
  const input = `01${from}0000000000ffffffff`;
  return hexToBytes(`01000000${input}01${bytesToHex(value)}${length}${script}00000000`);
}

/** The simulated transaction with this ID, which paid a payment in a Bitcoin-like coin; null for any other. */
export function depositTransaction(of: { paymentId: string; txid: string; script: string; units: bigint }): Uint8Array | null {
  for (let number = 0; number < MOST_PLAYS; number++) {
    const raw = outputTransaction({ ...of, from: hashOf({ paymentId: of.paymentId, number }, 'tx') });
    if (txidOf(raw) === of.txid) return raw;
  }
  return null;
}

/** The chain of one play: its hashes, its transfer, and its tip. Ids derive from the payment and the number of the play. */
function chainOfPlay({ paymentId, coin, scenario, units, startedAt, now, needed, scriptOf, number = 0 }: OnePlay) {
  const elapsed = now.getTime() - startedAt.getTime();
  const isAccount = kindOf(coin) === 'ethereum';
  const isInvoice = kindOf(coin) === 'lightning';
  const hash = (what: string): string => (isAccount ? '0x' : '') + hashOf({ paymentId, number }, what);
  const mined = { height: HEIGHT, hash: hash('block'), time: addMs(startedAt, STEP_MS) };
  const at = (ms: number): Date | null => (elapsed < ms ? addMs(startedAt, ms) : null);
  // The late scenario first ends the window; its transfer comes a step after the start, past the end.
  const seen = (from: string, share: Share, more: Partial<Transfer> = {}): Omit<Transfer, 'values'> => {
    const step = dueUnit(coin);
    const amount = ((units * share.of) / share.by / step) * step;
    const paid = amount > COIN[coin].dustUnits ? amount : COIN[coin].dustUnits + step;
    const txid = isAccount || isInvoice ? from : txidOf(outputTransaction({ from, script: scriptOf(coin), units: paid }));
    return {
      coin,
      ref: isInvoice ? `ln:${txid}` : isAccount ? `${txid}:tx` : `${txid}:0`,
      txid,
      address: testIdentifier(coin, scenario),
      units: paid,
      kind: isInvoice ? 'invoice' : COIN[coin].contract === null ? (isAccount ? 'direct' : 'output') : 'token',
      firstSeenAt: startedAt,
      block: null,
      lock: null,
      absentSince: null,
      conflict: null,
      unminedSince: null,
      disputedSince: null,
      ...more,
      // What is in a block elsewhere is a settled invoice here.
      ...(isInvoice && more.block && { block: null, lock: 'preimage' as const }),
    };
  };
  const chain = (
    transfers: Observation['transfers'],
    { deep = false, wakeAt = null, endWindow = false }: { deep?: boolean; wakeAt?: Date | null; endWindow?: boolean } = {},
  ): Observation => {
    // No more blocks than it takes. They are final and locked, which is what other rules wait for.
    const height = deep ? HEIGHT + needed(coin) - 1 : HEIGHT;
    const final = deep ? height : 0;
    const tip = { height, hash: hash(`tip ${height}`), safeHeight: final, finalizedHeight: final, chainlockHeight: final };
    return { transfers, wakeAt, endWindow, tip };
  };
  const confirmedLater = (share: Share, afterMs: number): Observation =>
    elapsed < afterMs
      ? // An invoice is seen when it is settled.
        chain(isInvoice && scenario !== 'held' ? [] : [seen(hash('tx'), share)], { wakeAt: at(afterMs) })
      : chain([seen(hash('tx'), share, { block: { ...mined, time: addMs(startedAt, afterMs) } })], { deep: true });
  return { elapsed, hash, mined, at, seen, chain, confirmedLater };
}

/** The amount in another coin: the same of the same asset, otherwise as many units as the payment has dollars. */
function unitsIn(other: Coin, { coin, units, targetUsdCents }: OnePlay): bigint {
  const scale = 10n ** BigInt(COIN[other].decimals);
  if (COIN[other].asset !== COIN[coin].asset) return (targetUsdCents * scale) / 100n;
  return (units * scale) / 10n ** BigInt(COIN[coin].decimals);
}

/** What one play shows at `now`, so that every process sees the same chain. */
function simulatePlay(played: OnePlay): Observation {
  const other = wrongCoin(played.scenario, played.coin);
  const play = other ? { ...played, coin: other, units: unitsIn(other, played) } : played;
  const { scenario, startedAt, windowEndsAt, completedAt, now } = play;
  const { elapsed, hash, mined, at, seen, chain, confirmedLater } = chainOfPlay(play);
  switch (scenario as Scenario) {
    case 'success':
      return confirmedLater(FULL, STEP_MS);
    case 'wrong_network':
    case 'wrong_token':
      return other === null ? chain([]) : confirmedLater(FULL, STEP_MS);
    case 'slow':
    case 'held':
      return confirmedLater(FULL, SLOW_MS);
    case 'overpaid':
      return confirmedLater({ of: 3n, by: 2n }, STEP_MS);
    case 'underpaid':
      return confirmedLater(HALF, STEP_MS);
    case 'failed':
      return { ...confirmedLater(HALF, STEP_MS), endWindow: elapsed >= STEP_MS };
    case 'expired':
      return chain([], { endWindow: true });
    case 'late':
      return now < addMs(windowEndsAt, LATE_MS)
        ? chain([], { endWindow: true })
        : chain(
            [
              seen(hash('tx'), FULL, {
                firstSeenAt: addMs(windowEndsAt, LATE_MS),
                block: { ...mined, time: addMs(windowEndsAt, LATE_MS) },
              }),
            ],
            { deep: true },
          );
    case 'replaced':
      return elapsed < STEP_MS
        ? chain([seen(hash('tx'), FULL)], { wakeAt: at(STEP_MS) })
        : chain([seen(hash('tx'), FULL, { conflict: { txid: hash('replacement'), height: HEIGHT, seenAt: addMs(startedAt, STEP_MS) } })]);
    case 'reorg':
      // Mined, orphaned, mined again in another block and confirmed.
      if (elapsed < STEP_MS) return chain([seen(hash('tx'), FULL)], { wakeAt: at(STEP_MS) });
      if (elapsed < 2 * STEP_MS)
        return chain([seen(hash('tx'), FULL, { block: { ...mined, hash: hash('orphan') } })], { wakeAt: at(2 * STEP_MS) });
      if (elapsed < 3 * STEP_MS)
        return chain([seen(hash('tx'), FULL, { unminedSince: addMs(startedAt, 2 * STEP_MS) })], { wakeAt: at(3 * STEP_MS) });
      return chain([seen(hash('tx'), FULL, { block: { ...mined, time: addMs(startedAt, 3 * STEP_MS) } })], { deep: true });
    case 'reversed': {
      // Confirmed, and after the payment is completed reversed by a block that pays someone else.
      const lostAt = completedAt && addMs(completedAt, STEP_MS);
      if (!lostAt || now < lostAt) return { ...confirmedLater(FULL, STEP_MS), wakeAt: lostAt ?? at(STEP_MS) };
      const conflict = { txid: hash('replacement'), height: HEIGHT, seenAt: lostAt };
      return chain([seen(hash('tx'), FULL, { unminedSince: lostAt, conflict })]);
    }
    default:
      return chain([]);
  }
}
/** A late transfer is first seen this long after the end of the window: past any coin's slack. */
const LATE_MS = MINUTE_MS;
