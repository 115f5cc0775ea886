/**
 * The server of an app for one Shopify shop of your own. Customers choose a manual payment method at checkout; `/pay` then leads them to the
 * payment of their order, and `/hook` marks the order as paid. An order is marked once, for a payment of all that it asks for; anything else
 * gets the tag `florin-check`, for a person to look at. It stores nothing: the tag `florin-<payment ID>` on the order says what paid it.
 */
import { createServer } from 'node:http';
import { createClient, WebhookError, webhooks } from 'florin';

const {
  SHOPIFY_SHOP,
  SHOPIFY_CLIENT_ID,
  SHOPIFY_CLIENT_SECRET,
  SHOPIFY_METHOD = 'Cryptocurrency',
  SHOPIFY_URL = `https://${SHOPIFY_SHOP}`,
  FLORIN_URL,
  FLORIN_API_KEY,
  SIGNING_SECRET,
  PORT = '4100',
} = process.env;
for (const [name, value] of Object.entries({
  SHOPIFY_SHOP,
  SHOPIFY_CLIENT_ID,
  SHOPIFY_CLIENT_SECRET,
  FLORIN_URL,
  FLORIN_API_KEY,
  SIGNING_SECRET,
}))
  if (!value) throw new Error(`${name} is not set`);
const florin = createClient({ url: FLORIN_URL, key: FLORIN_API_KEY });
/** The version of Shopify's Admin API that this app was written for. */
const VERSION = '2026-10';
const SHOPIFY_TIMEOUT_MS = 10_000;

// Shopify

const post = async (path, headers, body) => {
  const reply = await fetch(`${SHOPIFY_URL}${path}`, { method: 'POST', headers, body, signal: AbortSignal.timeout(SHOPIFY_TIMEOUT_MS) });
  if (!reply.ok) throw new Error(`Shopify answered ${path} with ${reply.status}`);
  return reply.json();
};
let token = null;
/** Tokens of apps for your own shop are valid for 24 hours. Requests at the same moment share one. */
async function accessToken() {
  if (!token || Date.now() >= (await token).until) {
    const grant = { grant_type: 'client_credentials', client_id: SHOPIFY_CLIENT_ID, client_secret: SHOPIFY_CLIENT_SECRET };
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    token = post('/admin/oauth/access_token', form, String(new URLSearchParams(grant))).then(
      ({ access_token, expires_in }) => ({ text: access_token, until: Date.now() + (expires_in - 300) * 1000 }),
      (error) => {
        token = null;
        throw error;
      },
    );
  }
  return (await token).text;
}
async function shopify(query, variables) {
  const headers = { 'content-type': 'application/json', 'x-shopify-access-token': await accessToken() };
  const { data, errors } = await post(`/admin/api/${VERSION}/graphql.json`, headers, JSON.stringify({ query, variables }));
  const faults = [...(errors ?? []), ...Object.values(data ?? {}).flatMap((one) => one?.userErrors ?? [])];
  if (faults.length > 0) throw new Error(`Shopify refused: ${faults.map(({ message }) => message).join('; ')}`);
  return data;
}

const ORDER = `query($id: ID!) { order(id: $id) { id name confirmationNumber cancelledAt statusPageUrl paymentGatewayNames tags
  totalOutstandingSet { presentmentMoney { amount currencyCode } } } }`;
const readOrder = async (id) => (await shopify(ORDER, { id })).order;
/** Setting a tag twice sets it once. */
const tag = (id, name) =>
  shopify('mutation($id: ID!, $tags: [String!]!) { tagsAdd(id: $id, tags: $tags) { userErrors { message } } }', { id, tags: [name] });
/** Shopify refuses this for an order that is paid, so two deliveries at once mark it once. */
const markAsPaid = (id) =>
  shopify('mutation($input: OrderMarkAsPaidInput!) { orderMarkAsPaid(input: $input) { userErrors { message } } }', { input: { id } });

/** Amounts of all currencies have at most three decimals. Exact: "30.0" and "30.00" are the same. */
const thousandths = (amount) => {
  const [, whole, decimals = ''] = /^(\d+)(?:\.(\d{1,3})0*)?$/.exec(amount) ?? [];
  if (whole === undefined) throw new Error(`${amount} is not an amount`);
  return BigInt(whole + decimals.padEnd(3, '0'));
};
/** Amounts of one coin have the same number of decimals. */
const units = (amount) => BigInt(amount.replace('.', ''));
/** What the customer owes, in the currency that the customer was shown. The other total, `shopMoney`, is in the currency of the shop. */
const owed = (order) => order.totalOutstandingSet.presentmentMoney;

// Orders and payments

const ENDED_UNPAID = ['expired', 'failed', 'cancelled'];
/** The payment of all that the order asks for now. One that ended without money is replaced; one that holds money is shown again. */
async function paymentOf(order) {
  const { amount, currencyCode } = owed(order);
  const exact = String(thousandths(amount));
  for (let attempt = 1; attempt <= 20; attempt++) {
    const { id } = await florin.payments.createSimple(
      {
        amount: amount.replace(/\.0+$/, ''),
        currency_fiat: currencyCode,
        return_url: order.statusPageUrl,
        invoice_id: order.name,
        metadata: { shop: SHOPIFY_SHOP, order: order.id, total: exact, currency: currencyCode },
      },
      // Pressed twice or opened in two tabs, Florin answers with the payment that it made first.
      { idempotencyKey: `${SHOPIFY_SHOP}-${order.id}-${exact}-${currencyCode}-${attempt}` },
    );
    const payment = await florin.payments.retrieve(id);
    if (!ENDED_UNPAID.includes(payment.status) || payment.transfers.length > 0) return payment;
  }
  throw new Error(`${order.name} has 20 payments that ended unpaid`);
}

/** The confirmation number is random and known to the customer only, so that nobody opens the orders of others by counting. */
async function pay(id, number) {
  const order = /^\d{1,20}$/.test(id ?? '') && number ? await readOrder(`gid://shopify/Order/${id}`) : null;
  if (!order || order.confirmationNumber !== number)
    return { status: 404, text: 'This is not the link of an order. Open it from the email about your order.' };
  if (order.cancelledAt) return { status: 410, text: "This order was canceled. Please don't send any money." };
  if (thousandths(owed(order).amount) === 0n || !order.paymentGatewayNames.includes(SHOPIFY_METHOD)) return { to: order.statusPageUrl };
  return { to: (await paymentOf(order)).payment_url };
}

/** What an event means for the order. Both are read again: events may come late or twice, and only what is now counts. */
async function handle(event) {
  if (event.data.metadata?.shop !== SHOPIFY_SHOP) return;
  const payment = await florin.payments.retrieve(event.data.id);
  const { order: id, total, currency } = payment.metadata;
  const order = await readOrder(id);
  if (!order) return;
  const own = `florin-${payment.id}`;
  const paidBy = order.tags.includes(own);
  const { amount, currencyCode } = owed(order);
  const open = thousandths(amount);
  if (payment.status === 'completed') {
    // The network may have reversed it before its event arrived, or you returned the money in Florin.
    const isGone = payment.exceptions.includes('reorged') || units(payment.amount_refunded) > units(payment.amount_overpaid);
    const fits = !isGone && !order.cancelledAt && open > 0n && String(open) === total && currencyCode === currency;
    if (fits) {
      // First the tag: a delivery that is interrupted here is repeated, and marks the order then.
      if (!paidBy) await tag(id, own);
      await markAsPaid(id);
    } else if (!paidBy || open > 0n) await tag(id, 'florin-check');
  }
  // Paid late or in part, returned after a reorganization, or more than was asked.
  if (payment.exception || (paidBy && payment.status !== 'completed')) await tag(id, 'florin-check');
}

async function hook(body, headers) {
  try {
    const event = await webhooks.verify(body, headers, SIGNING_SECRET);
    if (event.type.startsWith('payment.')) await handle(event);
    return 200;
  } catch (error) {
    if (error instanceof WebhookError) return 400;
    console.error(error);
    return 500; // Florin repeats it
  }
}

// Server

const read = async (request) => {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > 1_000_000) throw new Error('too large');
    parts.push(part);
  }
  return Buffer.concat(parts);
};
const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost');
  const plain = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };
  try {
    if (request.method === 'POST' && pathname === '/hook')
      return response.writeHead(await hook(await read(request), request.headers)).end();
    if (request.method !== 'GET' || pathname !== '/pay') return response.writeHead(404, plain).end('Not found');
    const { to, status, text } = await pay(searchParams.get('order'), searchParams.get('number'));
    if (to) return response.writeHead(303, { location: to, 'cache-control': 'no-store' }).end();
    response.writeHead(status, plain).end(text);
  } catch (error) {
    console.error(error);
    response.writeHead(503, plain).end('Your order cannot be paid right now. Wait a minute, then reload this page.');
  }
});
server.listen(Number(PORT), '127.0.0.1', () => console.log(`Waiting for customers of ${SHOPIFY_SHOP} on port ${server.address().port}`));
