/** Invoices and their payment methods as plugins read them. Amounts are text, times are seconds, and what is not set is null. */
import { paymentUri } from '../../chains/address.ts';
import type { Context } from '../../context.ts';
import { DAY_MS } from '../../core/clock.ts';
import { COIN, type Coin } from '../../core/coin.ts';
import { fiatDecimals, isFiat } from '../../core/fiat.ts';
import { E8, formatDecimal, formatUnits } from '../../core/money.ts';
import type { Transfer } from '../../core/payment.ts';
import { seenCents } from '../../payments/detail.ts';
import type { OnChain } from '../../payments/queries.ts';
import type { PaymentView } from '../../payments/view.ts';
import { methodOf } from '../payment-methods.ts';
import type { ToldInvoice } from '../shop-invoices.ts';
import { storeIdOf } from '../shop-keys.ts';
import { hasMattered, moneyOf } from '../shop-money.ts';
import { invoiceState } from './invoice-states.ts';
import { speedPolicy } from './speed-policy.ts';

/** Where the protocol is served. Plugins are given this address, and their scripts take theirs from it. */
export const GREENFIELD_PATH = '/btcpay';
export const greenfieldUrl = ({ settings }: Context): string => settings.publicUrl + GREENFIELD_PATH;

export const seconds = (at: Date): number => Math.floor(at.getTime() / 1000);

/** What a shop may mark the invoice as: what the merchant could decide now. Money that arrived is accepted or rejected once the invoice ended. */
export function possibleMarks(payment: OnChain): ('Settled' | 'Invalid')[] {
  const { facts, transfersCount } = payment.view;
  const hasMoney = payment.standings.some(({ role }) => role === 'counted' || role === 'held');
  switch (facts.status) {
    case 'pending':
      // Shops cancel orders by the clock. What arrived would be in a canceled payment.
      return transfersCount > 0 ? [] : ['Invalid'];
    case 'expired':
    case 'failed':
      return hasMoney ? ['Settled', 'Invalid'] : [];
    case 'cancelled':
      return hasMoney ? ['Settled'] : [];
    case 'processing':
    case 'completed':
      return [];
  }
}

/** JSON text: the metadata in it is what the plugin sent. */
export function invoiceJson(ctx: Context, payment: OnChain, invoice: ToldInvoice): string {
  const { view } = payment;
  const { facts, settlement } = view;
  const money = moneyOf(view);
  // As in BTCPay, what came late was paid too; the state of the invoice says that it is not settled.
  const paidCents = seenCents(settlement);
  // The amount due was rounded up to what the coin can carry.
  const isExact = settlement.seenUnits === settlement.amountUnits;
  const { redirectUrl, redirectAutomatically, language, coins } = invoice.checkout;
  const body = {
    id: facts.id,
    storeId: storeIdOf({ merchantId: view.merchantId, mode: facts.mode }),
    amount: money.amount,
    paidAmount: paidCents === 0n ? '0' : isExact ? money.amount : money.ofCents(paidCents),
    currency: money.currency,
    type: 'Standard',
    checkoutLink: `${greenfieldUrl(ctx)}/i/${facts.id}`,
    createdTime: seconds(facts.createdAt),
    expirationTime: seconds(settlement.expiresAt),
    monitoringExpiration: seconds(new Date(settlement.expiresAt.getTime() + DAY_MS)),
    ...invoiceState(facts),
    availableStatusesForManualMarking: possibleMarks(payment),
    archived: invoice.archived,
    checkout: {
      speedPolicy: speedPolicy(facts, coins),
      paymentMethods: coins.map(methodOf),
      defaultPaymentMethod: null,
      lazyPaymentMethods: null,
      expirationMinutes: Math.floor(facts.rules.windowSeconds / 60),
      monitoringMinutes: 1440,
      paymentTolerance: facts.rules.toleranceBasisPoints / 100,
      redirectURL: redirectUrl,
      redirectAutomatically,
      defaultLanguage: language,
    },
    receipt: { enabled: null, showQR: null, showPayments: null },
  };
  return `${JSON.stringify(body).slice(0, -1)},"metadata":${invoice.metadata}}`;
}

/** `<txid>-<n>`: plugins read the part before the first dash as the transaction. */
export function paymentId({ ref, txid }: Pick<Transfer, 'ref' | 'txid'>): string {
  const index = /:(\d+)$/.exec(ref)?.[1] ?? '0';
  return txid === null ? ref.replace(/[^0-9A-Za-z]+/g, '_').concat('-0') : `${txid}-${index}`;
}

/** A transfer as a payment of the protocol. */
export const paymentOf = (t: Transfer, isSettled: boolean) => ({
  id: paymentId(t),
  receivedDate: seconds(t.firstSeenAt),
  value: formatUnits(t.coin, t.units),
  fee: '0',
  status: isSettled ? 'Settled' : 'Processing',
  destination: t.address,
});

/** One element for each coin that the payer chose; once money arrived, only for the coins it arrived in: plugins refuse a mixture. */
export function paymentMethods(ctx: Context, { view, standings }: OnChain) {
  const arrived = view.transfers.flatMap((t, i) =>
    hasMattered(standings[i]!) ? [{ t, isSettled: standings[i]!.state === 'confirmed' }] : [],
  );
  const chosen = [...new Set(view.facts.quotes.map(({ coin }) => coin))];
  const received = [...new Set(arrived.map(({ t }) => t.coin))];
  return (received.length > 0 ? received : chosen).map((coin) =>
    methodBody(
      ctx,
      view,
      coin,
      arrived.filter(({ t }) => t.coin === coin),
    ),
  );
}

function methodBody(ctx: Context, view: PaymentView, coin: Coin, payments: readonly { t: Transfer; isSettled: boolean }[]) {
  const { settlement, facts } = view;
  const quote = facts.quotes.findLast((one) => one.coin === coin) ?? null;
  const isShown = settlement.coin === coin;
  const total = payments.reduce((sum, { t }) => sum + t.units, 0n);
  const amount = facts.fixed?.coin === coin ? facts.fixed.units : (quote?.units ?? 0n);
  const due = isShown ? settlement.remainingUnits : amount > total ? amount - total : 0n;
  const destination = quote?.address ?? payments[0]?.t.address ?? '';
  const uri = {
    coin,
    address: destination,
    units: due,
    network: ctx.settings.networks[COIN[coin].chain],
    ethChainId: ctx.settings.ethChainId,
  };
  const text = (units: bigint) => formatUnits(coin, units);
  return {
    paymentMethodId: methodOf(coin),
    currency: COIN[coin].asset,
    destination,
    paymentLink: paymentUri(uri),
    rate: rateOf(view, coin),
    paymentMethodPaid: text(total),
    totalPaid: text(total),
    due: text(due),
    amount: text(amount),
    paymentMethodFee: '0',
    payments: payments.map(({ t, isSettled }) => paymentOf(t, isSettled)),
    activated: true,
    additionalData: {},
    // Older libraries read these names.
    paymentMethod: methodOf(coin),
    networkFee: '0',
    cryptoCode: COIN[coin].asset,
  };
}

/** What one coin costs in the currency of the invoice. */
function rateOf({ facts, request: { fiat } }: PaymentView, coin: Coin): string {
  if (facts.fixed) return '1';
  const rateE8 = facts.quotes.findLast((quote) => quote.coin === coin)?.rateE8 ?? null;
  if (rateE8 === null) return '0';
  const decimals = fiat && isFiat(fiat.currency) ? fiatDecimals(fiat.currency) : 2;
  return formatDecimal((rateE8 * (fiat?.rateE8 ?? E8)) / E8, 8, decimals);
}
