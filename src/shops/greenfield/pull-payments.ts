/** Pull payments as plugins create them for refunds: a page on which the customer enters an address. */
import type { Context } from '../../context.ts';
import { COIN, type Coin, coinText } from '../../core/coin.ts';
import { fiatDecimals, isFiat } from '../../core/fiat.ts';
import { formatDecimal, parseAmount, readAmountText } from '../../core/money.ts';
import { Problem } from '../../core/problem.ts';
import { asObject, asText, asTexts, type StoredJson } from '../../core/stored-json.ts';
import { cutText, toPrintableLine } from '../../core/text.ts';
import { writtenAt } from '../../http/json.ts';
import { claimUrl } from '../../money-out/claims.ts';
import { type AskedRefund, getRefund, requestRefund } from '../../money-out/refunds.ts';
import { coinOfMethod } from '../payment-methods.ts';
import type { ShopCall } from '../serve-shop.ts';
import type { ShopKey } from '../shop-keys.ts';
import { readOrderPrice } from '../shop-order.ts';
import { askRefund, paymentOfRefund } from '../shop-refunds.ts';
import { invalid } from './greenfield-error.ts';
import { greenfieldUrl, seconds } from './invoice-body.ts';

const MOST_DECIMALS = 18;
const LONGEST_NAME = 50;
const LONGEST_REASON = 200;
/** `coins`: in which the customer may get the money; null for any. */
type PullPaymentRequest = { name: string; amount: string; currency: string; coins: readonly Coin[] | null };
type NewPullPayment = { id: string; createdAt: Date; expiresAt: Date | null; viewLink: string };

export async function createPullPayment(call: ShopCall): Promise<object> {
  const { ctx, shop, body } = call;
  const given = asObject(body.value);
  const currency = (asText(given.currency) ?? '').toUpperCase();
  if (!isFiat(currency) && coinOfMethod(currency) === null) throw invalid({ path: 'Currency', message: 'Invalid currency' });
  const isNumber = typeof given.amount === 'number';
  const written = isNumber ? writtenAt(body, 'amount')! : (asText(given.amount)?.trim() ?? '');
  const parsed = parseAmount(written, MOST_DECIMALS, { isNumber });
  if (typeof parsed !== 'bigint' || parsed === 0n) throw invalid({ path: 'Amount', message: 'The amount must be above zero.' });
  // It is kept and shown as it was written, but without an exponent.
  const amount = /e/i.test(written) ? formatDecimal(parsed, MOST_DECIMALS, 0) : written;
  const name = toPrintableLine(asText(given.name) ?? '');
  const paymentId = await paymentOfRefund(ctx, { ...shop, name });
  if (paymentId === 'unclear')
    throw invalid({
      path: 'Name',
      message: 'More than one payment has this order number. Request the refund from the right one in the dashboard of Florin.',
    });
  const asked = { name, amount, currency, coins: readMethods(given) };
  const made = paymentId === null ? await withoutPayment(call, asked) : await ofPayment(call, { ...asked, paymentId });
  return {
    id: made.id,
    name: cutText(name, LONGEST_NAME),
    description: asText(given.description) ?? '',
    currency,
    amount,
    BOLT11Expiration: '30',
    startsAt: seconds(made.createdAt),
    expiresAt: made.expiresAt && seconds(made.expiresAt),
    archived: false,
    autoApproveClaims: false,
    viewLink: made.viewLink,
  };
}

/** A refund like those that the API creates: the same states and the same limit. */
async function ofPayment(
  { ctx, shop: { merchantId, mode }, actor, idempotency }: ShopCall,
  { paymentId, name, coins, ...price }: PullPaymentRequest & { paymentId: string },
): Promise<NewPullPayment> {
  const reply = await requestRefund(ctx, {
    ...{ merchantId, mode, paymentId, idempotency, rate: 'payment', address: null, actor },
    asked: askedOf(price),
    allows: (coin) => {
      if (coins !== null && !coins.includes(coin))
        throw wrongMethod(`The payment of this order was made in ${coinText(coin)}, which is not among these methods.`);
    },
    reason: cutText(name, LONGEST_REASON) || null,
    render: ({ id }) => ({ status: 200, body: Buffer.from(id) }),
  });
  const id = Buffer.from(reply.body).toString();
  const refund = await getRefund(ctx, { merchantId, mode, id });
  return { id, createdAt: refund.createdAt, expiresAt: refund.claimUntil, viewLink: claimUrl(ctx, refund) };
}

const wrongMethod = (message: string) => invalid({ path: 'PayoutMethods', message });
/** The coins of the methods that were named. Plugins name one list under both names. */
function readMethods({ payoutMethods, paymentMethods }: StoredJson): readonly Coin[] | null {
  const named = [payoutMethods, paymentMethods].map((list) => asTexts(list).slice(0, 100)).find((list) => list.length > 0);
  if (named === undefined) return null;
  const coins = named.flatMap((name) => coinOfMethod(name) ?? []);
  if (coins.length === 0) throw wrongMethod('None of these methods is available in this store.');
  return [...new Set(coins)];
}

function askedOf({ amount, currency }: Pick<PullPaymentRequest, 'amount' | 'currency'>): AskedRefund {
  const read = (decimals: number): bigint => {
    const units = readAmountText(amount, decimals);
    if (units === null) throw invalid({ path: 'Amount', message: `The amount can have at most ${decimals} decimals.` });
    return units;
  };
  if (isFiat(currency)) return { kind: 'fiat', currency, minor: read(fiatDecimals(currency)) };
  const named = coinOfMethod(currency);
  return {
    kind: 'coin',
    units: (coin) => {
      if (coin !== named) throw invalid({ path: 'Currency', message: 'The payment of this order was made in another currency.' });
      return read(COIN[coin].decimals);
    },
  };
}

/** What is asked for, in US cents; null if there is no price for it. */
function worthOf(ctx: Context, shop: ShopKey, { amount, currency }: Pick<PullPaymentRequest, 'amount' | 'currency'>): bigint | null {
  try {
    return readOrderPrice(ctx, shop, { amount, written: amount, currency, faults: [] })?.amountUsdCents ?? null;
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

async function withoutPayment({ ctx, shop, actor }: ShopCall, asked: PullPaymentRequest): Promise<NewPullPayment> {
  const { merchantId, mode } = shop;
  const usdCents = worthOf(ctx, shop, asked);
  const { id, createdAt, claimUntil: expiresAt } = await askRefund(ctx, { merchantId, mode, actor, usdCents, ...asked });
  return { id, createdAt, expiresAt, viewLink: `${greenfieldUrl(ctx)}/pull-payments/${id}` };
}
