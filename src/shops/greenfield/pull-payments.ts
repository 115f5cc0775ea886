/** Pull payments as WooCommerce creates them for refunds: a page on which the customer names an address. */
import type { Context } from '../../context.ts';
import { isFiat } from '../../core/fiat.ts';
import { parseDecimal } from '../../core/money.ts';
import { asObject, asText } from '../../core/stored-json.ts';
import type { ParsedBody } from '../../http/json.ts';
import { coinOfMethod } from '../payment-methods.ts';
import type { ShopKey } from '../shop-keys.ts';
import { askRefund } from '../shop-refunds.ts';
import { invalid } from './greenfield-error.ts';
import { greenfieldUrl, seconds } from './invoice-body.ts';

const LONGEST_NAME = 50;

export async function createPullPayment(ctx: Context, shop: ShopKey, body: ParsedBody): Promise<object> {
  const given = asObject(body.value);
  const currency = (asText(given.currency) ?? '').toUpperCase();
  if (!isFiat(currency) && coinOfMethod(currency) === null) throw invalid({ path: 'Currency', message: 'Invalid currency' });
  const amount = typeof given.amount === 'number' ? body.numbers.get('amount')! : (asText(given.amount)?.trim() ?? '');
  if ((parseDecimal(amount, 18) ?? 0n) === 0n) throw invalid({ path: 'Amount', message: 'The amount must be above zero.' });
  const name = (asText(given.name) ?? '').replace(/\p{Cc}/gu, ' ').trim();
  const { merchantId, mode, id: shopId } = shop;
  const { id, createdAt } = await askRefund(ctx, { merchantId, mode, shopId, name, amount, currency });
  return {
    id,
    name: name.slice(0, LONGEST_NAME),
    description: asText(given.description) ?? '',
    currency,
    amount,
    BOLT11Expiration: '30',
    startsAt: seconds(createdAt),
    expiresAt: null,
    archived: false,
    autoApproveClaims: false,
    viewLink: `${greenfieldUrl(ctx)}/pull-payments/${id}`,
  };
}
