/** Charges as plugins and libraries read them. */
import type { Context } from '../../context.ts';
import { CHAIN, COIN, type Coin, isToken } from '../../core/coin.ts';
import { e8ToCents, formatUnits } from '../../core/money.ts';
import type { Transfer } from '../../core/payment.ts';
import { asList, asObject, asText, oneOf } from '../../core/stored-json.ts';
import { paymentUrl } from '../../payments/detail.ts';
import type { OnChain } from '../../payments/queries.ts';
import type { ToldInvoice } from '../shop-invoices.ts';
import { moneyOf } from '../shop-money.ts';
import { decided } from '../standing.ts';
import { CHARGE_CONTEXTS, CHARGE_STATUSES, type ChargeEntry, chargeSince } from './charge-states.ts';

/** The timeline that a shop knows, as it is stored. */
export const timelineOf = (told: unknown): ChargeEntry[] =>
  asList(asObject(told).timeline).map((value) => {
    const { status, context, time } = asObject(value);
    return { status: oneOf(CHARGE_STATUSES, status) ?? 'NEW', context: oneOf(CHARGE_CONTEXTS, context), time: asText(time) ?? '' };
  });

/** What follows from the payment for a shop that knows this timeline. */
export const sinceTold = ({ view }: OnChain, { told }: Pick<ToldInvoice, 'told'>) =>
  chargeSince(timelineOf(told), view.facts, { createdAt: view.facts.createdAt, now: view.now });

/** The coin as the protocol names networks: `bitcoin`, `ethereum`, `usdc`. */
const networkOf = (coin: Coin): string => (isToken(coin) ? COIN[coin].asset.toLowerCase() : CHAIN[COIN[coin].chain].chain);

/** JSON text: the metadata in it is what the shop sent. */
export function chargeJson(
  ctx: Context,
  payment: OnChain,
  { invoice, timeline }: { invoice: ToldInvoice; timeline: readonly ChargeEntry[] },
) {
  const { view } = payment;
  const { facts, settlement } = view;
  const { charge, redirectUrl } = invoice.checkout;
  const { amount, currency } = moneyOf(view);
  const last = timeline.at(-1);
  const confirmedAt = last?.status === 'COMPLETED' ? last.time : undefined;
  const body = {
    id: facts.id,
    resource: 'charge',
    code: facts.id,
    name: charge?.name ?? '',
    description: charge?.description ?? '',
    hosted_url: paymentUrl(ctx.settings.paymentPageUrl, facts.id),
    created_at: facts.createdAt.toISOString(),
    expires_at: settlement.expiresAt.toISOString(),
    ...(confirmedAt !== undefined && { confirmed_at: confirmedAt }),
    pricing_type: 'fixed_price',
    pricing: { local: { amount, currency } },
    addresses: Object.fromEntries(facts.quotes.map(({ coin, address }) => [networkOf(coin), address])),
    payments: paymentsOf(payment),
    timeline: timeline.map(({ context, ...entry }) => (context === null ? entry : { ...entry, context })),
    redirect_url: redirectUrl,
    cancel_url: charge?.cancelUrl ?? null,
  };
  return `${JSON.stringify(body).slice(0, -1)},"metadata":${invoice.metadata}}`;
}

/** Money that counts, and money that waits for the merchant. Shops credit orders with the local amounts: none of money that was returned. */
function paymentsOf({ view, standings }: OnChain): object[] {
  const { facts } = view;
  const isCompleted = facts.status === 'completed';
  const shown = view.transfers.flatMap((t, i) => {
    const { role, state } = standings[i]!;
    return role === 'counted' || (role === 'held' && !isCompleted) ? [{ t, isConfirmed: state === 'confirmed' }] : [];
  });
  const money = moneyOf(view);
  // Within the tolerance, a shop credits exactly the price: the last transfer has what the others leave of it.
  const isPrice =
    isCompleted && !facts.exceptions.some((name) => name === 'underpaid' || name === 'overpaid') && decided(facts) !== 'accept';
  const before = shown.slice(0, -1).reduce((sum, { t }) => sum + centsOf(t), 0n);
  const rest = isPrice && before < facts.targetUsdCents ? facts.targetUsdCents - before : null;
  return shown.map(({ t, isConfirmed }, i) => {
    const isLast = i === shown.length - 1;
    const cents = isLast && rest !== null ? rest : centsOf(t);
    return {
      network: networkOf(t.coin),
      transaction_id: t.txid ?? t.ref,
      status: isConfirmed ? 'CONFIRMED' : 'PENDING',
      detected_at: t.firstSeenAt.toISOString(),
      value: {
        local: { amount: isPrice && shown.length === 1 ? money.amount : money.ofCents(cents), currency: money.currency },
        crypto: { amount: formatUnits(t.coin, t.units), currency: COIN[t.coin].asset },
      },
      block: { height: t.block?.height ?? null, hash: t.block?.hash ?? null },
    };
  });
}
/** The worth of a transfer; zero while it has no price. */
const centsOf = ({ values }: Transfer): bigint => e8ToCents(values.at(-1)?.usdE8 ?? 0n);
