/** Creates a charge: reads what a shop sends, and creates a payment for it. */
import type { Context } from '../../context.ts';
import { newId } from '../../core/id.ts';
import { asObject } from '../../core/stored-json.ts';
import { type ParsedBody, writtenAt } from '../../http/json.ts';
import type { IdempotencyClaim } from '../../payments/view.ts';
import { offeredCoins } from '../payment-methods.ts';
import type { ShopKey } from '../shop-keys.ts';
import { createOrder, type FieldFault, orderIdOf, readOrderMetadata, readOrderPrice, readRedirect, readText } from '../shop-order.ts';
import { invalidCharge } from './commerce-error.ts';

const LONGEST_NAME = 200;
const LONGEST_DESCRIPTION = 1_000;

type NewCharge = { body: ParsedBody; idempotency: IdempotencyClaim | null };

/** Errors: 400 with the first fault; those of `createPayment`. Returns the ID of the payment. */
export async function createCharge(ctx: Context, shop: ShopKey, { body, idempotency }: NewCharge): Promise<string> {
  const given = asObject(body.value);
  const local = asObject(given.local_price);
  const faults: FieldFault[] = [];
  if (given.pricing_type !== 'fixed_price')
    faults.push({ path: 'pricing_type', message: 'The pricing_type must be fixed_price: charges without a price are not supported.' });
  const written = writtenAt(body, 'local_price.amount');
  const price = readOrderPrice(ctx, shop, { amount: local.amount, written, currency: local.currency, faults });
  const metadata = readOrderMetadata(body, given.metadata, faults);
  const redirectUrl = readRedirect(given.redirect_url, { path: 'redirect_url', name: 'redirect_url', faults });
  const cancelUrl = readRedirect(given.cancel_url, { path: 'cancel_url', name: 'cancel_url', faults });
  const coins = price?.fixed ? [price.fixed.coin] : await offeredCoins(ctx, shop);
  if (coins.length === 0)
    faults.push({ path: 'wallets', message: 'There is no wallet to receive payments. Add one in the dashboard, under Wallets.' });
  const [first] = faults;
  if (first || !price) throw invalidCharge(first?.message ?? 'The price is missing.');
  const text = (value: unknown, most: number): string => readText(value, most) ?? '';
  const description = text(given.description, LONGEST_DESCRIPTION);
  const charge = { name: text(given.name, LONGEST_NAME), description, cancelUrl };
  const paymentId = newId('pay', ctx.random);
  const orderId = orderIdOf(metadata.value, 'order_id');
  const checkout = { redirectUrl, redirectAutomatically: false, language: null, coins, charge };
  return createOrder(ctx, shop, {
    ...{ dialect: 'commerce', price, description, idempotency },
    invoice: { paymentId, orderId, metadata: metadata.text, checkout },
    returnUrl: redirectUrl,
    expiresInSeconds: null,
  });
}
