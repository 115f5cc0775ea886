/** What only payouts have: the amount and the recipient that a merchant names, and a reference that no other payout has. */
import type { Context } from '#context';
import { unitsFor } from '#core/asked-price';
import { COIN, type Coin, coinText, type Mode } from '#core/coin';
import { newId } from '#core/id';
import { e8ToCents, formatUnits, MAX_USD_CENTS, worthUsdE8 } from '#core/money';
import type { IdempotencyClaim, RenderedReply, ReplayableReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { printableLine } from '#core/text';
import { runOnce, type Tx } from '#db';
import { checkRefundAddress } from '#payments';
import { type AnyActor, actorText, memberOf, writeAudit } from '#people';
import { priceOf, readDisplayRates } from '#readiness';
import { reportPayouts } from './change-outgoing.ts';
import { OUTGOING_COLUMNS, type Owner, type Payout } from './outgoing-payments.ts';

/** What is asked for: an amount in the coin, or one in US dollars at the current rate. */
export type AskedAmount = { kind: 'coin'; units: bigint } | { kind: 'usd'; cents: bigint };
type AskedPayout = { coin: Coin; asked: AskedAmount; address: string; reference: string | null; description: string | null };
/** A payout whose amount and address were checked. */
export type PayoutDraft = Omit<AskedPayout, 'asked'> & { units: bigint; usdCents: bigint };

/** Errors: parameter_invalid, address_invalid, amount_too_small, amount_too_large, price_unavailable. */
export function draftPayout(ctx: Context, { mode, asked, ...payout }: AskedPayout & { mode: Mode }): PayoutDraft {
  const { coin, reference } = payout;
  if (reference !== null) printableLine(reference, 'payout_reference');
  const address = checkRefundAddress(ctx, { mode, coin, address: payout.address });
  const priceE8 = priceOf(ctx, { mode, coin });
  const named = (units: bigint) => `${formatUnits(coin, units)} ${coinText(coin)}`;
  const least = COIN[coin].dustUnits;
  const sized = (units: bigint, usdCents: bigint): PayoutDraft => {
    if (units < least) throw new Problem('amount_too_small', { coin, amount: named(units), minimum: named(least) }, { param: 'amount' });
    return { ...payout, address, units, usdCents };
  };
  const isUsd = asked.kind === 'usd';
  const usdCents = isUsd ? asked.cents : e8ToCents(worthUsdE8(coin, asked.units, priceE8));
  if (usdCents > MAX_USD_CENTS)
    throw new Problem('amount_too_large', { maximum: `${isUsd ? '' : 'the worth of '}1000000.00 USD` }, { param: 'amount' });
  return sized(isUsd ? unitsFor(coin, usdCents, priceE8) : asked.units, usdCents);
}

/** Errors: payout_exists. */
export async function insertPayouts(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, drafts, batchId, actor }: Owner & { drafts: readonly PayoutDraft[]; batchId: string | null; actor: AnyActor },
): Promise<Payout[]> {
  const column = <T>(of: (draft: PayoutDraft) => T): T[] => drafts.map(of);
  const display = (await readDisplayRates(ctx, tx, [{ merchantId, mode }]))({ merchantId, mode });
  const payouts = await tx<Payout[]>`
    insert into outgoing_payments (id, kind, merchant_id, mode, batch_id, reference, coin, units, usd_cents, address, description, state, requested_by,
      backed_by, event_count, created_at, display_currency, display_rate)
    select given.id, 'payout', ${merchantId}, ${mode}, ${batchId}, reference, coin, units::numeric, usd_cents::bigint, address, description, 'requested',
      ${actorText(actor)}, ${memberOf(actor)}, 1, clock_timestamp(),
      ${display?.currency ?? null}, ${display?.rateE8.toString() ?? null}
    from unnest(${column(() => newId('po', ctx.random))}::text[], ${column((one) => one.reference)}::text[], ${column((one) => one.coin)}::text[],
      ${column((one) => one.units.toString())}::text[], ${column((one) => one.usdCents.toString())}::text[],
      ${column((one) => one.address)}::text[], ${column((one) => one.description)}::text[])
      with ordinality as given (id, reference, coin, units, usd_cents, address, description, place)
    order by place
    on conflict (merchant_id, mode, reference) where reference is not null and state <> 'canceled' do nothing
    returning ${OUTGOING_COLUMNS(tx)}`;
  if (payouts.length < drafts.length) {
    const made = new Set(payouts.map(({ reference }) => reference));
    const { reference } = drafts.find((one) => one.reference !== null && !made.has(one.reference))!;
    const [known] = await tx<{ id: string }[]>`
      select id from outgoing_payments where merchant_id = ${merchantId} and mode = ${mode} and reference = ${reference} and state <> 'canceled'`;
    throw new Problem('payout_exists', { id: known!.id, reference: reference! }, { param: 'payout_reference' });
  }
  await reportPayouts(
    ctx,
    tx,
    payouts.map((payout) => ['requested', payout]),
    payouts[0]!.createdAt,
  );
  return payouts;
}

/** Requests a payout. Errors: those of `draftPayout`, payout_exists. */
export function requestPayout(
  ctx: Context,
  {
    asked,
    actor,
    idempotency,
    render,
    ...owner
  }: Owner & {
    asked: AskedPayout;
    actor: AnyActor;
    idempotency: IdempotencyClaim | null;
    render(payout: Payout): RenderedReply;
  },
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const drafts = [draftPayout(ctx, { ...asked, mode: owner.mode })];
    const [payout] = await insertPayouts(ctx, tx, { ...owner, drafts, batchId: null, actor });
    const { id, coin, units } = payout!;
    const after = { amount: `${formatUnits(coin, units)} ${coinText(coin)}` };
    await writeAudit(tx, { ...owner, actor, action: 'payout.requested', object: id, after });
    return render(payout!);
  });
}
