/** What paying on a network costs, for the payer who chooses one: its fee and the time until the payment is confirmed. */
import { type Context, perContext } from '../context.ts';
import { COIN, COINS, type Coin, chainCode, chainOf, feeCoinOf, pricedAs } from '../core/coin.ts';
import { requirementOf } from '../core/confirmation.ts';
import { worthUsdE8 } from '../core/money.ts';
import type { PaymentFacts } from '../core/payment.ts';
import type { Costs } from './view.ts';

/** An older fee says nothing about now. Followers ask every ten minutes. */
const FRESH_SECONDS = 3_600;
/** How long this process keeps what it read. */
const KEPT_MS = 30_000;
const CENT_E8 = 1_000_000n;

/** Fees in US cents, of the coins whose fee is known now. */
export type LiveFees = ReadonlyMap<Coin, number>;

type Row = { code: string; gasPrice: string; dataFee: string };
const rowsKept = perContext(() => ({ atMs: Number.NEGATIVE_INFINITY, rows: null as Promise<Row[]> | null }));

/** What the followers last asked the sources for. A page view never asks them, and seldom the database. */
export async function readLiveFees(ctx: Context): Promise<LiveFees> {
  const kept = rowsKept(ctx);
  const nowMs = ctx.clock.monotonicMs();
  if (kept.rows === null || nowMs - kept.atMs >= KEPT_MS) {
    const rows = readRows(ctx);
    Object.assign(kept, { atMs: nowMs, rows });
    rows.catch(() => {
      if (kept.rows === rows) kept.rows = null;
    });
  }
  const rows = await kept.rows!;
  return new Map(
    COINS.flatMap((coin): [Coin, number][] => {
      const row = rows.find(({ code }) => code === chainCode(coin));
      const asset = pricedAs(feeCoinOf(coin));
      const price = row && ctx.prices.look(asset);
      return row && price ? [[coin, feeCents(coin, row, price.priceE8)]] : [];
    }),
  );
}

const readRows = async (ctx: Context): Promise<Row[]> =>
  ctx.db.sql<Row[]>`
    select chain as code, gas_price::text as "gasPrice", data_fee::text as "dataFee" from tips
    where fee_at > clock_timestamp() - ${FRESH_SECONDS} * interval '1 second'`;

/** Rounded up to whole cents. */
function feeCents(coin: Coin, { gasPrice, dataFee }: Row, priceE8: bigint): number {
  const wei = BigInt(gasPrice) * BigInt(COIN[coin].typicalSize) + BigInt(dataFee);
  return Number((worthUsdE8(feeCoinOf(coin), wei, priceE8) + CENT_E8 - 1n) / CENT_E8);
}

/** The fee now, else the usual one, in US cents; null for chains that are not an alternative to another. */
export const feeCentsOf = (coin: Coin, fees: LiveFees): number | null => {
  const { usualFeeCents = null } = chainOf(coin);
  return usualFeeCents === null ? null : (fees.get(coin) ?? usualFeeCents);
};

/** Null for chains that are not an alternative to another. The time is that of the confirmations that this amount needs. */
export function costsOf(facts: PaymentFacts, coin: Coin, fees: LiveFees): Costs | null {
  const { safeSeconds, finalSeconds, blockSeconds } = chainOf(coin);
  const feeUsdCents = feeCentsOf(coin, fees);
  if (feeUsdCents === null) return null;
  const { rule, confirmations } = requirementOf(facts, coin, { receivedCents: 0n, company: 0n, kinds: 'token' });
  const deep = confirmations * blockSeconds;
  const seconds = { safe: Math.max(deep, safeSeconds ?? 0), finalized: Math.max(deep, finalSeconds ?? 0) }[rule as string] ?? deep;
  return { feeUsdCents, seconds: Math.ceil(seconds) };
}
