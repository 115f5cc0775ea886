/** Single payments as merchants read them, with the state of each transfer. Every finder requires the merchant and the mode. */

import { type Context, perContext } from '#context';
import type { Coin, Mode } from '#core/coin';
import { standingOf } from '#core/confirmation';
import type { Transfer, TransferRole, TransferStanding } from '#core/payment';
import type { PaymentView } from '#core/payment-view';
import { Problem } from '#core/problem';
import { rolesOf } from '#core/settle';
import { createBatcher, type Sql, type Tx } from '#db';
import { type OwnedId, type PaymentRecord, readOwnedRecords, readRecords, readTransfers, tipsOf, toView } from '#settling';

/** One payment of the merchant in the mode. Errors: payment_not_found (also for another merchant's or mode's). */
export async function getPayment(
  ctx: Context,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<PaymentView> {
  return toView(await recordOf(ctx, { merchantId, mode, paymentId }));
}
/** Those of `ids` that are payments of the merchant in the mode, in their order. */
export async function getPayments(
  ctx: Context,
  { merchantId, mode, ids }: { merchantId: string; mode: Mode; ids: readonly string[] },
): Promise<PaymentView[]> {
  const wanted = ids.map((paymentId) => ({ merchantId, mode, paymentId }));
  return (await readOwnedRecords(ctx, ctx.db.sql, wanted)).flatMap((record) => (record === null ? [] : [toView(record)]));
}
/** A payment with the state and role of each transfer that it shows, in their order. */
export type OnChain = { view: PaymentView; standings: (TransferStanding & { role: TransferRole })[]; arrived: CoinSum[] };
/** One payment of the merchant like this. Errors: payment_not_found. */
export const getPaymentOnChain = async (ctx: Context, payment: { merchantId: string; mode: Mode; paymentId: string }): Promise<OnChain> =>
  onChain(await recordOf(ctx, payment));
/** The payments that exist, in the order of `ids`. Callers have checked whose they are. */
export const readOnChain = async (ctx: Context, sql: Sql | Tx, ids: readonly string[]): Promise<OnChain[]> =>
  (await readRecords(ctx, sql, ids)).map(onChain);

function onChain(record: PaymentRecord): OnChain {
  const view = toView(record);
  const tips = tipsOf(record);
  const roles = rolesOf(record.facts, record.transfers, tips);
  const standings = view.transfers.map((t) => ({
    ...standingOf(record.facts, t, view.settlement.seenUsdE8, tips),
    role: roles.get(t)!,
  }));
  return { view, standings, arrived: sumArrived(roles) };
}
type CoinSum = { coin: Coin; units: bigint; usdE8: bigint | null };
/** What is on the chain and is large enough to count, by coin. */
function sumArrived(roles: ReadonlyMap<Transfer, TransferRole>): CoinSum[] {
  const sums = new Map<Coin, CoinSum>();
  for (const [{ coin, units, values }, role] of roles) {
    if (role === 'small' || role === 'contested' || role === 'gone') continue;
    const sum = sums.get(coin) ?? { coin, units: 0n, usdE8: 0n };
    const usdE8 = values.at(-1)?.usdE8 ?? null;
    sums.set(coin, { coin, units: sum.units + units, usdE8: sum.usdE8 === null || usdE8 === null ? null : sum.usdE8 + usdE8 });
  }
  return [...sums.values()];
}
/** A page of all transfers of a payment, in the order of first sight. Errors: payment_not_found, cursor_invalid. */
export async function listTransfers(
  ctx: Context,
  page: OwnedId & { limit: number; startingAfter: string | null },
): Promise<{ transfers: Transfer[]; hasMore: boolean }> {
  const found = await readTransfers(ctx.db.sql, page);
  if (!('unknown' in found)) return found;
  if (found.unknown === 'cursor') throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  throw new Problem('payment_not_found', { id: page.paymentId });
}
async function recordOf(ctx: Context, payment: OwnedId): Promise<PaymentRecord> {
  const record = await readerOf(ctx)(payment);
  if (!record) throw new Problem('payment_not_found', { id: payment.paymentId });
  return record;
}
/** Concurrent reads share a statement. */
const readerOf = perContext((ctx) =>
  createBatcher({
    maxItems: 64,
    maxWaiting: 10_000,
    run: async (wanted: OwnedId[]) =>
      (await readOwnedRecords(ctx, ctx.db.sql, wanted)).map((value) => ({ status: 'fulfilled' as const, value })),
  }),
);
