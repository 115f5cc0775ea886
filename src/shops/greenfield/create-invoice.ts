/** Creates an invoice: reads what a plugin sends, with all faults at once, and creates a payment through Florin's own verb. */
import type { Context } from '../../context.ts';
import type { Coin } from '../../core/coin.ts';
import { newId } from '../../core/id.ts';
import { parseAmount } from '../../core/money.ts';
import { asObject, asText, oneOf } from '../../core/stored-json.ts';
import { cutText } from '../../core/text.ts';
import { parseWebUrl } from '../../core/urls.ts';
import { type ParsedBody, writtenAt } from '../../http/json.ts';
import { getMerchant, isOffered, type Merchant } from '../../merchants/merchants.ts';
import type { IdempotencyClaim } from '../../payments/view.ts';
import { coinOfMethod, offeredCoins } from '../payment-methods.ts';
import type { ShopInvoice } from '../shop-invoices.ts';
import type { ShopKey } from '../shop-keys.ts';
import { createOrder, type FieldFault, orderIdOf, readOrderMetadata, readOrderPrice, readRedirect, readText } from '../shop-order.ts';
import { invalid } from './greenfield-error.ts';
import { SPEED_CONFIRMATIONS, SPEED_POLICIES } from './speed-policy.ts';

const WINDOW_MINUTES = { least: 10, most: 1_440 };
export type NewInvoice = { body: ParsedBody; idempotency: IdempotencyClaim | null };

/** Errors: 422 with every fault; those of `createPayment`. Returns the ID of the payment. */
export async function createInvoice(ctx: Context, shop: ShopKey, { body, idempotency }: NewInvoice): Promise<string> {
  const given = asObject(body.value);
  const faults: FieldFault[] = [];
  const merchant = await getMerchant(ctx, shop);
  const id = newId('pay', ctx.random);
  const price = readOrderPrice(ctx, shop, { amount: given.amount, written: writtenAt(body, 'amount'), currency: given.currency, faults });
  const metadata = readOrderMetadata(body, given.metadata, faults);
  const checkout = asObject(given.checkout);
  const coins = price?.fixed ? [price.fixed.coin] : await readCoins(ctx, shop, { merchant, asked: checkout.paymentMethods, faults });
  const redirectUrl = readRedirect(checkout.redirectURL, { path: 'checkout.redirectURL', name: 'redirect URL', faults });
  const written = writtenAt(body, 'checkout.paymentTolerance');
  const toleranceBasisPoints = readTolerance({ given: checkout.paymentTolerance, written, merchant, faults });
  const [first, ...others] = faults;
  if (first || !price) throw invalid(first ?? { path: 'Amount', message: 'The amount is missing' }, ...others);
  const orderId = orderIdOf(metadata.value, 'orderId');
  const filled = redirectUrl === null ? null : fillRedirect(redirectUrl, { invoiceId: id, orderId });
  if (filled !== null && parseWebUrl(filled) === null)
    throw invalid({ path: 'checkout.redirectURL', message: 'The redirect URL must be an http or https URL, also with the order in it.' });
  const redirectAutomatically = checkout.redirectAutomatically === true;
  const language = readText(checkout.defaultLanguage, 35);
  const invoice: ShopInvoice = {
    ...{ paymentId: id, orderId, metadata: metadata.text },
    checkout: { redirectUrl, redirectAutomatically, language, coins, charge: null },
  };
  return createOrder(ctx, shop, {
    ...{ dialect: 'greenfield', price, invoice, idempotency },
    returnUrl: filled,
    description: asText(asObject(metadata.value).itemDesc),
    expiresInSeconds: readWindow(checkout.expirationMinutes),
    stricter: { toleranceBasisPoints, confirmations: readSpeed(checkout.speedPolicy) },
  });
}

/** The coins of the methods that were named, or all that are offered. */
async function readCoins(
  ctx: Context,
  shop: ShopKey,
  { merchant, asked, faults }: { merchant: Merchant; asked: unknown; faults: FieldFault[] },
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
    if (coin === null) faults.push({ path, message: `Unknown payment method: ${cutText(asText(name) ?? '', 40)}` });
    else if (isOffered(merchant.settings, coin) && offered.includes(coin) && !coins.includes(coin)) coins.push(coin);
  }
  if (coins.length === 0 && faults.every((fault) => fault.path !== path))
    faults.push({ path, message: 'None of these payment methods is available in this store.' });
  return coins;
}

/** Fills `{InvoiceId}` and `{OrderId}`, however they are capitalized. */
export const fillRedirect = (url: string, { invoiceId, orderId }: { invoiceId: string; orderId: string | null }): string =>
  url.replace(/\{InvoiceId\}/gi, () => encodeURIComponent(invoiceId)).replace(/\{OrderId\}/gi, () => encodeURIComponent(orderId ?? ''));

function readWindow(given: unknown): number | null {
  const minutes = typeof given === 'number' ? Math.floor(given) : Number.NaN;
  return Number.isFinite(minutes) ? Math.min(Math.max(minutes, WINDOW_MINUTES.least), WINDOW_MINUTES.most) * 60 : null;
}

type GivenTolerance = { given: unknown; written: string | undefined; merchant: Merchant; faults: FieldFault[] };
/** A tolerance below the merchant's, in hundredths of a percent; null: the merchant's applies. WHMCS asks for none at all. */
function readTolerance({ given, written, merchant: { settings }, faults }: GivenTolerance): number | null {
  if (given === null || given === undefined) return null;
  const parsed = parseAmount(typeof given === 'number' ? written! : (asText(given) ?? ''), 2, { isNumber: typeof given === 'number' });
  const most = settings.toleranceBasisPoints;
  if (typeof parsed === 'bigint' && parsed <= BigInt(most)) return parsed === BigInt(most) ? null : Number(parsed);
  const message = `The tolerance of this store is at most ${most / 100} %. Change it in the dashboard, under Checkout.`;
  faults.push({ path: 'checkout.paymentTolerance', message });
  return null;
}

/** The confirmations that a policy demands. Those that the merchant requires are never lowered. */
function readSpeed(given: unknown): number | null {
  const policy = oneOf(SPEED_POLICIES, given);
  return policy === null ? null : SPEED_CONFIRMATIONS[policy] || null;
}
