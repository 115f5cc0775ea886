/** Creates an invoice: reads what a plugin sends, with all faults at once, and creates a payment through Florin's own verb. */
import type { Context } from '../../context.ts';
import { COIN, type Coin } from '../../core/coin.ts';
import { type Fiat, fiatDecimals, isFiat } from '../../core/fiat.ts';
import { newId } from '../../core/id.ts';
import { e8ToCents, MAX_USD_CENTS, parseDecimal, worthUsdE8 } from '../../core/money.ts';
import { Problem } from '../../core/problem.ts';
import { asObject, asText } from '../../core/stored-json.ts';
import { exactJson, type Json, type ParsedBody } from '../../http/json.ts';
import { getMerchant, isOffered, type Merchant } from '../../merchants/merchants.ts';
import { createPayment, type PaymentDraft } from '../../payments/payments.ts';
import { priceAt } from '../../payments/price.ts';
import type { IdempotencyClaim } from '../../payments/view.ts';
import { listEndpoints } from '../../webhooks/endpoints.ts';
import { addInvoice, type ShopInvoice } from '../shop-invoices.ts';
import type { ShopKey } from '../shop-keys.ts';
import { type Fault, invalid } from './greenfield-error.ts';
import { coinOfMethod, offeredCoins } from './payment-methods.ts';

/** Bytes of metadata that are kept, and characters of an address to return to. */
const MOST_METADATA = 16_384;
const LONGEST_URL = 2_000;
const WINDOW_MINUTES = { least: 10, most: 1_440 };
/** What plugins send at most; the rest is rounded to the decimals of the currency. */
const AMOUNT_DECIMALS = 8;
/** Of an order number that the dashboard shows and searches. */
const LONGEST_INVOICE_ID = 100;

type Fields = Readonly<Record<string, unknown>>;
export type NewInvoice = { body: ParsedBody; idempotency: IdempotencyClaim | null };

/** Errors: 422 with every fault; those of `createPayment`. Returns the ID of the payment. */
export async function createInvoice(ctx: Context, shop: ShopKey, { body, idempotency }: NewInvoice): Promise<string> {
  const given = asObject(body.value);
  const faults: Fault[] = [];
  const merchant = await getMerchant(ctx, shop);
  const id = newId('pay', ctx.random);
  const price = readPrice(ctx, shop, { body, given, faults });
  const metadata = readMetadata(body, given.metadata, faults);
  const checkout = asObject(given.checkout);
  const coins = price?.fixed ? [price.fixed.coin] : await readCoins(ctx, shop, { merchant, asked: checkout.paymentMethods, faults });
  const redirectUrl = readRedirect(checkout.redirectURL, faults);
  checkTolerance(checkout.paymentTolerance, merchant, faults);
  const [first, ...others] = faults;
  if (first || !price) throw invalid(first ?? { path: 'Amount', message: 'The amount is missing' }, ...others);
  const orderId = orderIdOf(metadata.value);
  const redirectAutomatically = checkout.redirectAutomatically === true;
  const language = asText(checkout.defaultLanguage)?.slice(0, 35) ?? null;
  const invoice: ShopInvoice = {
    ...{ paymentId: id, orderId, metadata: metadata.text },
    checkout: { redirectUrl, redirectAutomatically, language, coins },
  };
  const description = asText(asObject(metadata.value).itemDesc);
  const draft: PaymentDraft = {
    id,
    amountUsdCents: price.amountUsdCents,
    fixed: price.fixed,
    coin: price.fixed?.coin ?? null,
    request: {
      returnUrl: redirectUrl === null ? null : fillRedirect(redirectUrl, { invoiceId: id, orderId }),
      description: description === null || description === '' ? null : description.slice(0, 1_000),
      items: null,
      taxMinor: null,
      fiat: price.fiat,
      locale: language,
      asset: null,
      shop: { coins, autoReturn: redirectAutomatically, origins: await originsOf(ctx, shop, redirectUrl) },
    },
    invoiceId: orderId !== null && orderId.length <= LONGEST_INVOICE_ID ? orderId : null,
    metadata: {},
    expiresInSeconds: readWindow(checkout.expirationMinutes),
    scenario: null,
  };
  const { merchantId, mode, id: shopId } = shop;
  const made = await createPayment(ctx, {
    ...{ merchantId, mode, createdWith: 'secret', draft, idempotency },
    also: (tx) => addInvoice(tx, { merchantId, mode, dialect: 'greenfield', shopId, invoice }),
    render: (view) => ({ status: 200, body: Buffer.from(view.facts.id) }),
  });
  return Buffer.from(made.body).toString();
}

type Price = Pick<PaymentDraft, 'amountUsdCents' | 'fixed'> & { fiat: PaymentDraft['request']['fiat'] };
type Reading = { body: ParsedBody; given: Fields; faults: Fault[] };

function readPrice(ctx: Context, shop: ShopKey, { body, given, faults }: Reading): Price | null {
  const currency = (asText(given.currency) ?? '').toUpperCase();
  const coin = isFiat(currency) ? null : coinOfMethod(currency);
  if (!isFiat(currency) && coin === null) faults.push({ path: 'Currency', message: 'Invalid currency' });
  // Text, or a number as it was written.
  const text = typeof given.amount === 'number' ? body.numbers.get('amount')! : (asText(given.amount)?.trim() ?? '');
  const parsed = parseDecimal(text, AMOUNT_DECIMALS);
  if (parsed === null || parsed === 0n) {
    const isOpen = given.amount === null || given.amount === undefined;
    const message = isOpen
      ? 'Invoices without an amount are not supported. Set the amount.'
      : 'The amount must be above zero, with at most 8 decimals.';
    faults.push({ path: 'Amount', message });
    return null;
  }
  if (coin !== null) return fixedPrice(ctx, shop, { coin, text, faults });
  return isFiat(currency) ? fiatPrice(ctx, shop, { currency, parsed, faults }) : null;
}

/** Rounds half up to the smallest unit of the currency. */
function fiatPrice(
  ctx: Context,
  { mode }: ShopKey,
  { currency, parsed, faults }: { currency: Fiat; parsed: bigint; faults: Fault[] },
): Price | null {
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
function fixedPrice(ctx: Context, { mode }: ShopKey, { coin, text, faults }: { coin: Coin; text: string; faults: Fault[] }): Price | null {
  const { asset, decimals, dustUnits } = COIN[coin];
  const units = parseDecimal(text, decimals);
  if (units === null || units < dustUnits) {
    faults.push({ path: 'Amount', message: `The amount is too small or too exact for ${asset}.` });
    return null;
  }
  const quotable = mode === 'test' ? { price: ctx.prices.forTest(asset) } : ctx.prices.quotable(asset);
  if (!('price' in quotable)) throw new Problem('price_unavailable', { coin: asset, reason: quotable.reason }, { retryAfterSeconds: 30 });
  const cents = e8ToCents(worthUsdE8(coin, units, quotable.price.priceE8));
  if (cents > MAX_USD_CENTS) throw new Problem('amount_too_large', { maximum: 'the worth of 1000000.00 USD' }, { param: 'Amount' });
  return { amountUsdCents: cents > 0n ? cents : 1n, fixed: { coin, units }, fiat: null };
}

function readMetadata(body: ParsedBody, given: unknown, faults: Fault[]): { value: unknown; text: string } {
  if (given === undefined || given === null) return { value: {}, text: '{}' };
  if (typeof given !== 'object' || Array.isArray(given)) {
    faults.push({ path: 'Metadata', message: 'The metadata must be an object.' });
    return { value: {}, text: '{}' };
  }
  const text = exactJson(body, given as Json, 'metadata');
  if (Buffer.byteLength(text) > MOST_METADATA) faults.push({ path: 'Metadata', message: 'The metadata must be at most 16 kB of JSON.' });
  return { value: given, text };
}

function orderIdOf(metadata: unknown): string | null {
  const { orderId } = asObject(metadata);
  const text = typeof orderId === 'number' ? String(orderId) : asText(orderId);
  return text === null || text === '' ? null : text.slice(0, 200);
}

/** The coins of the methods that were named, or all that are offered. */
async function readCoins(
  ctx: Context,
  shop: ShopKey,
  { merchant, asked, faults }: { merchant: Merchant; asked: unknown; faults: Fault[] },
): Promise<readonly Coin[]> {
  const path = 'checkout.paymentMethods';
  const offered = await offeredCoins(ctx, shop);
  if (asked === null || asked === undefined || (Array.isArray(asked) && asked.length === 0)) {
    if (offered.length === 0)
      faults.push({ path, message: 'There is no wallet to receive payments. Add one in the dashboard, under Wallets.' });
    return offered;
  }
  const names = Array.isArray(asked) ? asked.slice(0, 100) : [asked];
  const coins: Coin[] = [];
  for (const name of names) {
    const coin = coinOfMethod(asText(name) ?? '');
    if (coin === null) faults.push({ path, message: `Unknown payment method: ${String(asText(name) ?? '').slice(0, 40)}` });
    else if (isOffered(merchant.settings, coin) && offered.includes(coin) && !coins.includes(coin)) coins.push(coin);
  }
  if (coins.length === 0 && faults.every((fault) => fault.path !== path))
    faults.push({ path, message: 'None of these payment methods is available in this store.' });
  return coins;
}

/** An http or https address, kept as it was written: it may hold placeholders, and characters that strict parsers refuse. */
function readRedirect(given: unknown, faults: Fault[]): string | null {
  const text = asText(given)?.trim() ?? '';
  if (text === '') return null;
  const url = /^https?:\/\/[^/?#\s@]+([/?#]|$)/i.test(text) && !/[\p{Cc}\s\\]/u.test(text) ? URL.parse(text) : null;
  if (url && url.username === '' && text.length <= LONGEST_URL) return text;
  faults.push({ path: 'checkout.redirectURL', message: 'The redirect URL must be an http or https URL.' });
  return null;
}

/** Fills `{InvoiceId}` and `{OrderId}`, however they are capitalized. */
export const fillRedirect = (url: string, { invoiceId, orderId }: { invoiceId: string; orderId: string | null }): string =>
  url.replace(/\{InvoiceId\}/gi, () => encodeURIComponent(invoiceId)).replace(/\{OrderId\}/gi, () => encodeURIComponent(orderId ?? ''));

/** The sites of the shop, as far as they are known: they may show the page in a frame. */
async function originsOf(ctx: Context, shop: ShopKey, redirectUrl: string | null): Promise<string[]> {
  const endpoints = await listEndpoints(ctx, { merchantId: shop.merchantId, mode: shop.mode, dialect: 'greenfield' });
  const urls = [shop.origin, redirectUrl, ...endpoints.map(({ url }) => url)].flatMap((url) =>
    url === null ? [] : (URL.parse(url) ?? []),
  );
  return [...new Set(urls.map(({ origin }) => origin))].filter((origin) => /^https?:\/\/[\w.:[\]-]+$/.test(origin)).slice(0, 20);
}

function readWindow(given: unknown): number | null {
  const minutes = typeof given === 'number' ? Math.floor(given) : Number.NaN;
  return Number.isFinite(minutes) ? Math.min(Math.max(minutes, WINDOW_MINUTES.least), WINDOW_MINUTES.most) * 60 : null;
}

function checkTolerance(given: unknown, { settings }: Merchant, faults: Fault[]): void {
  const percent = settings.toleranceBasisPoints / 100;
  if (given === null || given === undefined || Number(given) === percent) return;
  faults.push({
    path: 'checkout.paymentTolerance',
    message: `The tolerance of this store is ${percent} %. Change it in the dashboard, under Checkout.`,
  });
}
