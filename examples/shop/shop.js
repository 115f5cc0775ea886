/** A small shop: products, orders, payments with the client, webhooks that decide what is shipped. Run: npm start */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createClient, WebhookError, webhooks } from 'florin';

const FLORIN_URL = process.env.FLORIN_URL ?? 'http://localhost:3000';
const PORT = Number(process.env.SHOP_PORT ?? 4000);
const SHOP_URL = `http://localhost:${PORT}`;
const florin = createClient({ url: FLORIN_URL, key: process.env.FLORIN_API_KEY });

/** The prices are the server's: nothing that a browser sends can change them. */
const PRODUCTS = [
  { id: 'mug', name: 'Mug', price: '12.50' },
  { id: 'shirt', name: 'Shirt', price: '25.00' },
];
/** By order number. In a real shop: tables. */
const orders = new Map();
const handled = new Set();

// Pages

const asText = (text) => String(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
const CSP = `default-src 'none'; img-src data:; style-src 'unsafe-inline'; connect-src 'self' ${new URL(FLORIN_URL).origin}; script-src 'self' ${new URL(FLORIN_URL).origin}; frame-src ${new URL(FLORIN_URL).origin}; form-action 'self' ${new URL(FLORIN_URL).origin}; base-uri 'none'`;
let embedded = false;
const page = (title, body, { refresh = false } = {}) => `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,"><title>${asText(title)}</title>
${refresh ? '<noscript><meta http-equiv="refresh" content="2"></noscript>' : ''}
<style>body{font:17px/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;color:#1c2430}
li{display:flex;gap:1rem;align-items:center;margin:.75rem 0}li span{flex:1}ul{padding:0}
button,.button{font:inherit;padding:.5rem 1.1rem;border:0;border-radius:8px;background:#1b4fd6;color:#fff;text-decoration:none;cursor:pointer}</style></head>
<body><main>${body}</main>${embedded ? `<script src="${FLORIN_URL}/embed/v1.js"></script>` : ''}<script src="/shop-page.js"></script></body></html>`;

/** Opens the payment page over the shop where that can be, and asks for news of the order. */
const PAGE_SCRIPT = `
const pay = document.querySelector('a[data-pay]');
if (pay && window.Florin) pay.addEventListener('click', (event) => {
  event.preventDefault();
  Florin.open({ paymentUrl: pay.href, onClose: () => location.reload() });
});
const state = document.querySelector('[data-state]');
if (state && state.dataset.state === 'open') setInterval(async () => {
  const now = await (await fetch(location.pathname + '.json')).json();
  if (now.state !== 'open') location.reload();
}, 1000);
`;

/** Each form carries the number of the order it will make, so that pressing its button twice orders once. */
const home = () =>
  page(
    'Shop',
    `<h1>Shop</h1><ul>${PRODUCTS.map(
      ({ id, name, price }) =>
        `<li><span>${asText(name)}</span>${price} USD<form method="post" action="/buy"><input type="hidden" name="product" value="${id}"><input type="hidden" name="order" value="${randomUUID()}"><button>Buy ${asText(name.toLowerCase())}</button></form></li>`,
    ).join('')}</ul>`,
  );

const TEXT = {
  open: 'Waiting for the payment.',
  shipped: 'Paid. It is on its way.',
  released: 'Not paid in time. Nothing was sent.',
  review: 'Something about the payment needs a look. We will write to you.',
};
const orderPage = (order) =>
  page(
    'Your order',
    `<h1>${asText(order.product.name)}</h1><p data-state="${order.state}" role="status">${TEXT[order.state]}</p>
${order.state === 'open' ? `<p><a class="button" data-pay href="${asText(order.paymentUrl)}">Pay ${order.product.price} USD</a></p>` : '<p><a href="/">Back to the shop</a></p>'}`,
    { refresh: order.state === 'open' },
  );

// Orders and payments

async function buy(number, productId) {
  const product = PRODUCTS.find(({ id }) => id === productId);
  if (!product || !/^[\w-]{36}$/.test(number ?? '')) return null;
  // The order number is the idempotency key: asked again, also after a restart, Florin answers with the payment it made first.
  const payment = await florin.payments.createAdvanced(
    {
      items: [{ product_id: product.id, name: product.name, quantity: 1, unit_price: product.price }],
      tax: '0.00',
      return_url: `${SHOP_URL}/order/${number}`,
      metadata: { order: number },
    },
    { idempotencyKey: `order-${number}` },
  );
  if (!orders.has(number))
    orders.set(number, { id: number, product, state: 'open', paymentId: payment.id, paymentUrl: payment.payment_url });
  return orders.get(number);
}

/** What an event means for the order. The payment is read again: events may come late or twice, and only what is now counts. */
/** Amounts of one coin have the same number of decimals. */
const units = (amount) => BigInt(amount.replace('.', ''));

async function handle(event) {
  if (event.type === 'webhook.test') return;
  const payment = await florin.payments.retrieve(event.data.id);
  const order = orders.get(payment.metadata.order);
  // A customer whose payment ended can start it again on the payment page, if you allow it: the new payment takes the place of the first.
  if (order && payment.replaces === order.paymentId)
    Object.assign(order, { paymentId: payment.id, paymentUrl: payment.payment_url, state: 'open' });
  if (!order || order.paymentId !== payment.id) return;
  // A block can be reversed after the payment completed, even before its event arrives. So can you have refunded it in Florin.
  const isReversed = payment.exceptions.includes('reorged');
  const isReturned = order.state !== 'shipped' && units(payment.amount_refunded) > units(payment.amount_overpaid);
  if (payment.status === 'completed') order.state = isReversed || isReturned ? 'review' : 'shipped';
  else if (['expired', 'failed', 'cancelled'].includes(payment.status)) order.state = payment.exception ? 'review' : 'released';
}

async function hook(body, headers, secret) {
  try {
    const event = await webhooks.verify(body, headers, secret);
    if (!handled.has(event.id)) {
      await handle(event);
      handled.add(event.id); // after the work: an event whose work failed comes again
    }
    return 200;
  } catch (error) {
    if (error instanceof WebhookError) return 400;
    console.error(error);
    return 500;
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

const command = (...args) => [join(dirname(createRequire(import.meta.url).resolve('florin/package.json')), 'dist/esm/cli.js'), ...args];

/** Without an endpoint: the command line carries events here; its secret is printed once it is ready. */
function listenForEvents() {
  const child = spawn(process.execPath, command('listen', '--forward-to', `${SHOP_URL}/hook`, '--json'), {
    env: { ...process.env, FLORIN_URL },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.on('exit', (code) => process.exit(code ?? 1));
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => child.kill('SIGTERM'));
  return new Promise((resolve) => {
    child.stdout.once('data', (line) => resolve(JSON.parse(String(line).split('\n')[0]).secret));
  });
}

async function start() {
  embedded = await fetch(`${FLORIN_URL}/embed/v1.js`).then(
    (reply) => reply.ok,
    () => false,
  );
  let secret = process.env.SIGNING_SECRET;
  const server = createServer(async (request, response) => {
    const send = (status, type, text, headers = {}) =>
      response
        .writeHead(status, { 'content-type': type, 'content-security-policy': CSP, 'cache-control': 'no-store', ...headers })
        .end(text);
    const { pathname } = new URL(request.url, SHOP_URL);
    const [, id, json] = /^\/order\/([\w-]+)(\.json)?$/.exec(pathname) ?? [];
    const order = id && orders.get(id);
    try {
      if (request.method === 'GET' && pathname === '/') return send(200, 'text/html', home());
      if (request.method === 'GET' && pathname === '/shop-page.js') return send(200, 'text/javascript', PAGE_SCRIPT);
      if (request.method === 'GET' && order && json) return send(200, 'application/json', JSON.stringify({ state: order.state }));
      if (request.method === 'GET' && order) return send(200, 'text/html', orderPage(order));
      if (request.method === 'POST' && pathname === '/hook')
        return response.writeHead(await hook(await read(request), request.headers, secret)).end();
      if (request.method === 'POST' && pathname === '/buy') {
        const form = new URLSearchParams(String(await read(request)));
        const made = await buy(form.get('order'), form.get('product'));
        if (made) return send(303, 'text/plain', '', { location: `/order/${made.id}` });
      }
      send(404, 'text/html', page('Not found', '<h1>Not found</h1>'));
    } catch (error) {
      console.error(error);
      send(500, 'text/html', page('Error', '<h1>Something went wrong</h1><p>Nothing was ordered.</p>'));
    }
  });
  await new Promise((resolve) => server.listen(PORT, '127.0.0.1', resolve));
  secret ??= await listenForEvents();
  console.log(`The shop is open on ${SHOP_URL}`);
}
await start();
