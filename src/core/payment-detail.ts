/** The wire shape of a payment, used for both the detail reply and the data of events. */
import { apiNamesOf, type Coin } from './coin.ts';
import { formatFiat, isFiat } from './fiat.ts';
import { e8ToCents, formatDecimal, formatUnits, formatUsd } from './money.ts';
import type { Settlement, Transfer, Uncounted } from './payment.ts';
import type { PaymentRequest, PaymentView } from './payment-view.ts';

function at(instant: Date): string;
function at(instant: Date | null): string | null;
function at(instant: Date | null): string | null {
  return instant?.toISOString() ?? null;
}

/** The payment's hosted page, with the id as a query parameter. */
export const paymentUrl = (pageUrl: string, id: string): string => `${pageUrl}/pay?id=${id}`;

/** The price as requested, and the rate that converted it to US dollars. */
export const fiatDetail = (fiat: NonNullable<PaymentRequest['fiat']>) => ({
  amount_fiat: fiat.amount,
  currency_fiat: fiat.currency,
  fiat_rate: formatDecimal(fiat.rateE8, 8),
  fiat_rate_source: fiat.source,
  fiat_rate_at: fiat.at,
});

export const transferDetail = (t: Transfer) => ({
  ref: t.ref,
  transaction_hash: t.txid,
  ...apiNamesOf(t.coin),
  amount: formatUnits(t.coin, t.units),
  amount_usd: t.values.length > 0 ? formatUsd(e8ToCents(t.values.at(-1)!.usdE8)) : null,
  kind: t.kind,
  first_seen_at: at(t.firstSeenAt),
  block_height: t.block?.height ?? null,
  block_hash: t.block?.hash ?? null,
  replaced_by: t.conflict?.txid ?? null,
});

/** In cents: the worth of what the chain credits to a payment: counted, and not counted, each rounded so that the parts that are shown add up. */
const worthCents = (countedCents: bigint, uncounted: readonly Uncounted[]): bigint =>
  uncounted.reduce((all, { usdE8 }) => all + e8ToCents(usdE8 ?? 0n), countedCents);
/** The same of a settlement, with what is only announced. */
export const seenCents = ({ seenUsdE8, uncounted }: Pick<Settlement, 'seenUsdE8' | 'uncounted'>): bigint =>
  worthCents(
    e8ToCents(seenUsdE8),
    uncounted.filter(({ state, waits }) => state !== 'announced' || waits),
  );
const isHere = ({ state }: Uncounted): boolean => state !== 'announced';

/**
 * What the chain credits to a payment, whether it counts or not: in the coin of the payment, and the worth of all coins. What is gone, and
 * what is only announced, is in neither. Money without a price yet has no worth yet.
 */
export const receivedDetail = (
  coin: Coin | null,
  { units, usdCents, uncounted }: { units: bigint; usdCents: bigint; uncounted: readonly Uncounted[] },
): { amount_received: string; amount_received_usd: string } => ({
  amount_received:
    coin === null
      ? '0'
      : formatUnits(
          coin,
          uncounted.reduce((all, one) => (one.coin === coin && isHere(one) ? all + one.units : all), units),
        ),
  amount_received_usd: formatUsd(worthCents(usdCents, uncounted.filter(isHere))),
});

/** What is in no block and not locked, whether it would count or not: in the coin of the payment. */
function announcedDetail(coin: Coin | null, uncounted: readonly Uncounted[]): { amount_announced: string } {
  const units = uncounted.reduce((sum, one) => (one.coin === coin && !isHere(one) ? sum + one.units : sum), 0n);
  return { amount_announced: coin === null ? '0' : formatUnits(coin, units) };
}

/** What arrived and does not count until the merchant decides: in the coin of the payment, and the worth of all coins. */
export function heldDetail(coin: Coin | null, uncounted: readonly Uncounted[]): { amount_held: string; amount_held_usd: string | null } {
  const held = uncounted.filter(({ state }) => state === 'held');
  const units = held.reduce((total, one) => (one.coin === coin ? total + one.units : total), 0n);
  const usdE8 = held.reduce<bigint | null>((total, one) => (total === null || one.usdE8 === null ? null : total + one.usdE8), 0n);
  return {
    amount_held: coin === null ? '0' : formatUnits(coin, units),
    amount_held_usd: usdE8 === null ? null : formatUsd(e8ToCents(usdE8)),
  };
}

/**
 * The documented detail fields and the additive ones. Amounts are decimal strings, timestamps are ISO 8601 UTC.
 * Before a coin is chosen, amount, currency and payment_address are null and amount_received is "0".
 */
export function paymentDetail(view: PaymentView, pageUrl: string) {
  const { facts, settlement: s, quote } = view;
  const isShort = s.shortUsdE8 > 0n && (s.status === 'processing' || s.status === 'completed');
  const received = receivedDetail(s.coin, { units: s.receivedUnits, usdCents: s.receivedUsdCents, uncounted: s.uncounted });
  const units = (value: bigint | null) => (s.coin === null || value === null ? null : formatUnits(s.coin, value));
  return {
    id: facts.id,
    transaction_id: facts.id,
    status: s.status,
    mode: facts.mode,
    amount: units(s.amountUnits),
    amount_received: received.amount_received,
    ...announcedDetail(s.coin, s.uncounted),
    amount_remaining: units(s.remainingUnits),
    amount_overpaid: units(s.overpaidUnits) ?? '0',
    amount_dust: units(s.dustUnits) ?? '0',
    ...heldDetail(s.coin, s.uncounted),
    amount_refunded: units(view.refundedUnits) ?? '0',
    accepted_short: isShort ? units(s.shortUnits) : null,
    accepted_short_usd: isShort ? formatUsd(e8ToCents(s.shortUsdE8)) : null,
    amount_usd: formatUsd(facts.targetUsdCents),
    amount_received_usd: received.amount_received_usd,
    ...(s.coin === null ? { currency: view.request.asset, network: null } : apiNamesOf(s.coin)),
    description: view.request.description,
    payment_address: quote?.address ?? null,
    derivation_path: view.derivationPath,
    payment_url: paymentUrl(pageUrl, facts.id),
    transaction_hash: s.transactionHash,
    confirmations: s.confirmations,
    confirmations_required: s.confirmationsRequired,
    completion_rule: s.coin === null ? null : s.completionRule,
    verified_by: s.verifiedBy,
    exception: s.exception,
    exceptions: s.exceptions,
    hold_reason: s.holdReason,
    invoice_id: view.invoiceId,
    replaces: view.request.replaces ?? null,
    replaced_by: view.replacedBy,
    created_with: view.createdWith,
    created_at: at(facts.createdAt),
    completed_at: at(s.completedAt),
    expires_at: at(s.expiresAt),
    quote_expires_at: at(s.quoteExpiresAt),
    return_url: view.request.returnUrl,
    ...(view.request.items && {
      items: view.request.items.map((item) => ({
        product_id: item.productId,
        name: item.name,
        quantity: Number(item.quantity),
        unit_price: itemAmount(view.request, item.unitPriceMinor),
      })),
      items_count: view.request.items.length,
      tax: itemAmount(view.request, view.request.taxMinor ?? 0n),
    }),
    ...(view.request.fiat && fiatDetail(view.request.fiat)),
    transfers: view.transfers.map(transferDetail),
    transfers_count: view.transfersCount,
    metadata: view.metadata,
    customer: view.customer,
  };
}

/** A unit price or tax as a decimal in the currency of the price. */
export const itemAmount = ({ fiat }: Pick<PaymentRequest, 'fiat'>, minor: bigint): string =>
  formatFiat(fiat && isFiat(fiat.currency) ? fiat.currency : 'USD', minor);
