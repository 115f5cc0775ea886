/** What the plugin of a shop says about an order, read with all faults at once, and the payment that is created for it. */
import type { Context } from '#context';
import { COIN, type Coin } from '#core/coin';
import { type Fiat, fiatDecimals, isFiat } from '#core/fiat';
import { type AmountFault, e8ToCents, MAX_USD_CENTS, parseAmount, worthUsdE8 } from '#core/money';
import type { IdempotencyClaim, NamedCustomer } from '#core/payment-view';
import { Problem } from '#core/problem';
import { asObject, asText } from '#core/stored-json';
import { cutText, parseWebUrl, toPrintableLine } from '#core/text';
import { readCustomer } from '#customers';
import { createPayment, type PaymentDraft } from '#payments';
import { priceAt } from '#readiness';
import { exactJson, type ParsedBody } from '#transport';
import { listEndpoints } from '#webhooks';
import { addInvoice, type ShopInvoice } from './shop-invoices.ts';
import type { ShopDialect, ShopKey } from './shop-keys.ts';
import { coinOfMethod } from './shop-money.ts';

/** What is wrong with a field. */
export type FieldFault = { path: string; message: string };

/** Bytes of metadata that are kept, and characters of an address to return to. */
const MOST_METADATA = 16_384;
const LONGEST_URL = 2_000;
/** What plugins send at most; the rest is rounded to the decimals of the currency. */
const AMOUNT_DECIMALS = 8;
/** Of an order number that the dashboard shows and searches. */
const LONGEST_INVOICE_ID = 100;
/** Of the name of a customer. */
const LONGEST_NAME = 100;

type Order = {
  dialect: ShopDialect;
  price: OrderPrice;
  invoice: ShopInvoice;
  /** Where the payer returns to, with its placeholders filled. */
  returnUrl: string | null;
  description: string | null;
  expiresInSeconds: number | null;
  /** What the plugin demands beyond the settings of the merchant. */
  stricter?: PaymentDraft['stricter'];
  /** Who pays, as the shop names them. */
  buyer?: { email: unknown; name: unknown };
  idempotency: IdempotencyClaim | null;
};

type OrderingShop = Pick<ShopKey, 'id' | 'lineId' | 'merchantId' | 'mode' | 'origin'>;
/** Creates the payment of an order. Returns its ID, which is another one if the request is a repetition. Errors: those of `createPayment`. */
export async function createOrder(ctx: Context, shop: OrderingShop, order: Order): Promise<string> {
  const { dialect, price, invoice, returnUrl, description, expiresInSeconds, stricter = null, buyer, idempotency } = order;
  const { orderId, checkout } = invoice;
  const draft: PaymentDraft = {
    id: invoice.paymentId,
    amountUsdCents: price.amountUsdCents,
    fixed: price.fixed,
    coin: price.fixed?.coin ?? null,
    request: {
      returnUrl,
      description: readText(description, 1_000),
      items: null,
      taxMinor: null,
      fiat: price.fiat,
      locale: checkout.language,
      asset: null,
      shop: {
        coins: checkout.coins,
        autoReturn: checkout.redirectAutomatically,
        cancelUrl: checkout.charge?.cancelUrl ?? null,
        origins: await originsOf(ctx, shop, dialect),
      },
    },
    invoiceId: shownNumber(orderId),
    metadata: {},
    expiresInSeconds,
    stricter: stricter?.toleranceBasisPoints == null && stricter?.confirmations == null ? null : stricter,
    scenario: null,
    customer: buyer ? readBuyer(buyer) : null,
  };
  const { merchantId, mode, id: keyId } = shop;
  const made = await createPayment(ctx, {
    ...{ merchantId, mode, createdWith: 'secret', draft, idempotency },
    also: (tx) => addInvoice(tx, { merchantId, mode, dialect, keyId, invoice }),
    render: (view) => ({ status: 200, body: Buffer.from(view.facts.id) }),
  });
  return Buffer.from(made.body).toString();
}

/** The customer of an order by email address; null: the shop sent none that can be one, which keeps nobody from paying. */
function readBuyer({ email, name }: { email: unknown; name: unknown }): NamedCustomer | null {
  const address = asText(email)?.trim() ?? '';
  if (address === '') return null;
  try {
    return readCustomer({ email: address, name: cutText(toPrintableLine(asText(name) ?? ''), LONGEST_NAME) });
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

type OrderPrice = Pick<PaymentDraft, 'amountUsdCents' | 'fixed'> & { fiat: PaymentDraft['request']['fiat'] };
/** A price as it was sent; `written`: the source text of an amount that is a number. */
type GivenPrice = { amount: unknown; written: string | undefined; currency: unknown; faults: FieldFault[] };

/** The price, or null with the faults. */
export function readOrderPrice(ctx: Context, shop: ShopKey, { amount, written, currency: asked, faults }: GivenPrice): OrderPrice | null {
  const currency = (asText(asked) ?? '').toUpperCase();
  const coin = isFiat(currency) ? null : coinOfMethod(currency);
  if (!isFiat(currency) && coin === null) faults.push({ path: 'Currency', message: 'Invalid currency' });
  // Text, or a number as it was written.
  const text = typeof amount === 'number' ? written! : (asText(amount)?.trim() ?? '');
  const parsed = parseAmount(text, AMOUNT_DECIMALS, { isNumber: typeof amount === 'number' });
  if (typeof parsed !== 'bigint' || parsed === 0n) {
    const isOpen = amount === null || amount === undefined;
    const message = isOpen
      ? 'Set the amount: orders without one are not supported.'
      : 'The amount must be above zero, with at most 8 decimals.';
    faults.push({ path: 'Amount', message });
    return null;
  }
  if (coin !== null)
    return fixedPrice(ctx, shop, { coin, units: parseAmount(text, COIN[coin].decimals, { isNumber: typeof amount === 'number' }), faults });
  return isFiat(currency) ? fiatPrice(ctx, shop, { currency, parsed, faults }) : null;
}

/** Rounds half up to the smallest unit of the currency. */
function fiatPrice(
  ctx: Context,
  { mode }: ShopKey,
  { currency, parsed, faults }: { currency: Fiat; parsed: bigint; faults: FieldFault[] },
): OrderPrice | null {
  const step = 10n ** BigInt(AMOUNT_DECIMALS - fiatDecimals(currency));
  const minor = (parsed + step / 2n) / step;
  if (minor === 0n) {
    faults.push({ path: 'Amount', message: 'The amount is less than the smallest unit of the currency.' });
    return null;
  }
  const price = priceAt(ctx, { mode, currency, minor, params: { amount: 'Amount', currency: 'Currency' } });
  return { ...price, fixed: null };
}

/** A price in a coin: that amount of it, whatever it is worth. */
function fixedPrice(
  ctx: Context,
  { mode }: ShopKey,
  { coin, units, faults }: { coin: Coin; units: bigint | AmountFault; faults: FieldFault[] },
): OrderPrice | null {
  const { asset, dustUnits } = COIN[coin];
  if (typeof units !== 'bigint' || units < dustUnits) {
    faults.push({ path: 'Amount', message: `The amount is too small or too exact for ${asset}.` });
    return null;
  }
  const quotable = mode === 'test' ? { price: ctx.prices.forTest(asset) } : ctx.prices.quotable(asset);
  if (!('price' in quotable)) throw new Problem('price_unavailable', { coin: asset, reason: quotable.reason }, { retryAfterSeconds: 30 });
  const cents = e8ToCents(worthUsdE8(coin, units, quotable.price.priceE8));
  if (cents > MAX_USD_CENTS) throw new Problem('amount_too_large', { maximum: 'the worth of 1000000.00 USD' }, { param: 'Amount' });
  return { amountUsdCents: cents > 0n ? cents : 1n, fixed: { coin, units }, fiat: null };
}

/** The metadata, as it was sent. */
export function readOrderMetadata(body: ParsedBody, given: unknown, faults: FieldFault[]): { value: unknown; text: string } {
  if (given === undefined || given === null) return { value: {}, text: '{}' };
  if (typeof given !== 'object' || Array.isArray(given)) {
    faults.push({ path: 'Metadata', message: 'The metadata must be an object.' });
    return { value: {}, text: '{}' };
  }
  const text = exactJson(body, given);
  if (Buffer.byteLength(text) > MOST_METADATA) faults.push({ path: 'Metadata', message: 'The metadata must be at most 16 kB of JSON.' });
  return { value: given, text };
}

/** The number of the order, under its name in the metadata. */
export function orderIdOf(metadata: unknown, name: 'orderId' | 'order_id'): string | null {
  const orderId = asObject(metadata)[name];
  return readText(typeof orderId === 'number' ? String(orderId) : orderId, 200);
}

/** The order number as the dashboard shows and finds it. */
export const shownNumber = (orderId: string | null): string | null =>
  orderId !== null && orderId.length <= LONGEST_INVOICE_ID ? orderId : null;

/** The beginning of a text; null when it is empty or missing. */
export function readText(given: unknown, most: number): string | null {
  const text = asText(given) ?? '';
  return text === '' ? null : cutText(text, most);
}

/** An http or https address. Its path and query may have placeholders, and characters that strict parsers refuse; its host may not. */
export function readRedirect(given: unknown, { path, name, faults }: { path: string; name: string; faults: FieldFault[] }): string | null {
  const text = asText(given)?.trim() ?? '';
  if (text === '') return null;
  const url = parseWebUrl(text);
  if (url && text.length <= LONGEST_URL) return url.text;
  faults.push({ path, message: `The ${name} must be an http or https URL.` });
  return null;
}

/**
 * The sites of the shop that may show the page in a frame, beside those of the merchant's settings: where it was paired, and where it
 * receives webhooks. Where a single customer is sent afterwards says nothing about who may.
 */
async function originsOf(ctx: Context, shop: OrderingShop, dialect: ShopDialect): Promise<string[]> {
  const endpoints = await listEndpoints(ctx, { merchantId: shop.merchantId, mode: shop.mode, dialect, lineId: shop.lineId });
  const urls = [shop.origin, ...endpoints.map(({ url }) => url)].flatMap((url) => (url === null ? [] : (URL.parse(url) ?? [])));
  return [...new Set(urls.map(({ origin }) => origin))].filter((origin) => /^https?:\/\/[\w.:[\]-]+$/.test(origin)).slice(0, 20);
}
