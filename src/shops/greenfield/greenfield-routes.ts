/** All calls of the protocol: what each needs, and what answers it. Paths are below `/btcpay/api/v1`. */
import type { Context } from '../../context.ts';
import { CHAIN, COIN, type Coin } from '../../core/coin.ts';
import { asObject, asText } from '../../core/stored-json.ts';
import { getMerchant } from '../../merchants/merchants.ts';
import { archivePayment, cancelPayment, resolvePayment, setInvoiceId } from '../../payments/payments.ts';
import { getPaymentOnChain, readOnChain } from '../../payments/queries.ts';
import { writeAudit } from '../../people/members.ts';
import { methodOf, offeredCoins } from '../payment-methods.ts';
import { PERMISSIONS, type Permission } from '../permissions.ts';
import { JsonText, type ShopCall, type ShopRoute } from '../serve-shop.ts';
import { getInvoice, listInvoices, updateInvoice } from '../shop-invoices.ts';
import { storeIdOf } from '../shop-keys.ts';
import { type FieldFault, orderIdOf, readOrderMetadata, shownNumber } from '../shop-order.ts';
import { createInvoice } from './create-invoice.ts';
import { invalid } from './greenfield-error.ts';
import { createWebhook, deleteWebhook, getWebhook, listWebhooks, updateWebhook } from './greenfield-webhooks.ts';
import { invoiceJson, paymentMethods, possibleMarks } from './invoice-body.ts';
import { createPullPayment } from './pull-payments.ts';

export type GreenfieldRoute = ShopRoute & {
  /** Null for every key that is still connected. */
  needs: Permission | null;
};

/** The version of the original that this answers like. Plugins compare it. */
const VERSION = '2.4.1';
const { viewInvoices, createInvoice: create, modifyInvoices, viewStore, webhooks, refunds } = PERMISSIONS;

const ownerOf = ({ shop: { merchantId, mode } }: ShopCall) => ({ merchantId, mode });
const shopOf = (call: ShopCall) => ({ ...ownerOf(call), dialect: 'greenfield' as const, lineId: call.shop.lineId });
const targetOf = (call: ShopCall) => ({ ...shopOf(call), paymentId: call.params.invoice! });

async function serverInfo({ ctx, shop }: ShopCall): Promise<object> {
  const coins = await offeredCoins(ctx, shop);
  return {
    version: VERSION,
    onion: null,
    supportedPaymentMethods: coins.map(methodOf),
    // Chains that are behind are shown to payers and members. A shop that refuses to sell meanwhile helps nobody.
    fullySynched: true,
    syncStatus: coins.map((coin) => syncOf(ctx, coin)),
    florin: true,
  };
}
const syncOf = (ctx: Context, coin: Coin) => ({
  paymentMethodId: methodOf(coin),
  chainHeight: 0,
  syncHeight: 0,
  available: ctx.chains.has(CHAIN[COIN[coin].chain].chain),
  nodeInformation: { headers: 0, blocks: 0, verificationProgress: 1 },
  // The PHP library reads this older name.
  cryptoCode: COIN[coin].asset,
});

async function storeOf({ ctx, shop }: ShopCall): Promise<object> {
  const { name, settings } = await getMerchant(ctx, shop);
  return { id: storeIdOf(shop), name, website: settings.website, defaultCurrency: settings.displayCurrency };
}

async function methodsOf({ ctx, shop }: ShopCall): Promise<object> {
  return (await offeredCoins(ctx, shop)).map((coin) => ({ enabled: true, paymentMethodId: methodOf(coin), config: null }));
}

async function readInvoice(call: ShopCall): Promise<JsonText> {
  const invoice = await getInvoice(call.ctx, targetOf(call));
  return new JsonText(invoiceJson(call.ctx, await getPaymentOnChain(call.ctx, targetOf(call)), invoice));
}

/** How many invoices a list holds, and how far it may skip. */
const MOST_LISTED = 100;
const MOST_SKIPPED = 100_000;
const MOST_ORDERS = 50;

async function readInvoices(call: ShopCall): Promise<JsonText> {
  const { ctx, query } = call;
  const whole = (name: string, fallback: number, most: number): number => {
    const text = query.get(name) ?? '';
    return /^\d{1,9}$/.test(text) ? Math.min(Number(text), most) : fallback;
  };
  const orderIds = query.getAll('orderId').filter((text) => text !== '' && text.isWellFormed() && !text.includes('\u0000'));
  if (orderIds.length > MOST_ORDERS) throw invalid({ path: 'OrderId', message: `At most ${MOST_ORDERS} orders can be listed.` });
  const page = { skip: whole('skip', 0, MOST_SKIPPED), take: whole('take', MOST_LISTED, MOST_LISTED) };
  const invoices = await listInvoices(ctx, { ...shopOf(call), orderIds, archived: query.get('includeArchived') === 'true', ...page });
  const payments = await readOnChain(
    ctx,
    ctx.db.sql,
    invoices.map(({ paymentId }) => paymentId),
  );
  const statuses = query.getAll('status');
  const shown = payments.map((payment, i) => invoiceJson(ctx, payment, invoices[i]!));
  const wanted = statuses.length === 0 ? shown : shown.filter((text) => statuses.includes((JSON.parse(text) as { status: string }).status));
  return new JsonText(`[${wanted.join(',')}]`);
}

async function readMethods(call: ShopCall): Promise<object> {
  await getInvoice(call.ctx, targetOf(call));
  return paymentMethods(call.ctx, await getPaymentOnChain(call.ctx, targetOf(call)));
}

async function postInvoice(call: ShopCall): Promise<JsonText> {
  const { ctx, shop, body, idempotency } = call;
  const invoice = await createInvoice(ctx, shop, { body, idempotency });
  return readInvoice({ ...call, params: { ...call.params, invoice } });
}

/** Marks an invoice: `Invalid` cancels or rejects, `Settled` accepts what arrived. Nothing is settled without money. */
async function markInvoice(call: ShopCall): Promise<JsonText> {
  const { ctx, actor, body } = call;
  const status = asText(asObject(body.value).status);
  if (status !== 'Settled' && status !== 'Invalid') throw invalid({ path: 'Status', message: 'The status must be Settled or Invalid.' });
  await getInvoice(ctx, targetOf(call));
  const payment = await getPaymentOnChain(ctx, targetOf(call));
  if (!possibleMarks(payment).includes(status)) {
    const late = payment.view.transfersCount > 0 ? 'Money arrived for it.' : 'It is too late for that.';
    const why = status === 'Settled' ? 'Only money that arrived can be accepted, once the invoice has ended.' : late;
    throw invalid({ path: 'Status', message: `This invoice cannot be marked as ${status} now. ${why}` });
  }
  const act = { ...targetOf(call), actor, idempotency: null, render: () => ({ status: 200, body: '' }) };
  if (payment.view.facts.status === 'pending') await cancelPayment(ctx, { ...act, onlyIfUnpaid: true });
  else await resolvePayment(ctx, { ...act, action: status === 'Settled' ? 'accept' : 'reject', transfers: null });
  return readInvoice(call);
}

/** Archives an invoice. One that can still be paid is canceled first, unless money has arrived. */
async function archiveInvoice(call: ShopCall): Promise<null> {
  const { ctx, actor } = call;
  await getInvoice(ctx, targetOf(call));
  const act = { ...targetOf(call), actor, idempotency: null, render: () => ({ status: 200, body: '' }) };
  const { view } = await getPaymentOnChain(ctx, targetOf(call));
  if (view.facts.status === 'pending') await cancelPayment(ctx, { ...act, onlyIfUnpaid: true });
  await archivePayment(ctx, { ...act, archived: true });
  return null;
}

/** Replaces the metadata, such as after the order got another number. */
async function putInvoice(call: ShopCall): Promise<JsonText> {
  const { ctx, actor, body } = call;
  const before = await getInvoice(ctx, targetOf(call));
  const given = asObject(body.value).metadata;
  const faults: FieldFault[] = given ? [] : [{ path: 'Metadata', message: 'The metadata is missing.' }];
  const { value, text: metadata } = readOrderMetadata(body, given, faults);
  if (faults[0]) throw invalid(faults[0]);
  const orderId = orderIdOf(value, 'orderId');
  await setInvoiceId(ctx, {
    ...{ ...targetOf(call), invoiceId: shownNumber(orderId), render: () => ({ status: 200, body: '' }) },
    also: async (tx) => {
      await updateInvoice(tx, { ...targetOf(call), orderId, metadata });
      const change = { before: { order: before.orderId }, after: { order: orderId } };
      await writeAudit(tx, { ...ownerOf(call), actor, action: 'payment.invoice_changed', object: before.paymentId, ...change });
    },
  });
  return readInvoice(call);
}

const route = (method: GreenfieldRoute['method'], path: string, needs: Permission | null, handle: GreenfieldRoute['handle']) => ({
  ...{ method, path, needs, handle },
});
/** The same call with and without the store in its path; the key belongs to one store anyway. */
const both = (...[method, path, needs, handle]: Parameters<typeof route>): GreenfieldRoute[] => [
  route(method, `/stores/:store${path}`, needs, handle),
  route(method, path, needs, handle),
];

export const GREENFIELD_ROUTES: readonly GreenfieldRoute[] = [
  route('GET', '/server/info', null, serverInfo),
  route('GET', '/api-keys/current', null, async ({ shop, key }) => ({
    apiKey: key,
    label: shop.name,
    permissions: shop.permissions.map((permission) => `${permission}:${storeIdOf(shop)}`),
  })),
  route('GET', '/stores', viewStore, async (call) => [await storeOf(call)]),
  route('GET', '/stores/:store', viewStore, storeOf),
  ...both('GET', '/payment-methods', viewStore, methodsOf),
  ...both('GET', '/webhooks', webhooks, ({ ctx, shop }) => listWebhooks(ctx, shop)),
  ...both('POST', '/webhooks', webhooks, createWebhook),
  ...both('GET', '/webhooks/:webhook', webhooks, ({ ctx, shop, params }) => getWebhook(ctx, shop, params.webhook!)),
  ...both('PUT', '/webhooks/:webhook', webhooks, updateWebhook),
  ...both('DELETE', '/webhooks/:webhook', webhooks, deleteWebhook),
  ...both('POST', '/pull-payments', refunds, createPullPayment),
  ...both('POST', '/invoices', create, postInvoice),
  ...both('GET', '/invoices', viewInvoices, readInvoices),
  ...both('GET', '/invoices/:invoice', viewInvoices, readInvoice),
  route('PUT', '/stores/:store/invoices/:invoice', modifyInvoices, putInvoice),
  route('DELETE', '/stores/:store/invoices/:invoice', modifyInvoices, archiveInvoice),
  ...both('GET', '/invoices/:invoice/payment-methods', viewInvoices, readMethods),
  ...both('POST', '/invoices/:invoice/status', modifyInvoices, markInvoice),
];
