/** The Medusa provider with a real Florin server and its real webhooks; only the base class of Medusa is small. */
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import '../kit/medusa-stub.ts';
import { webhooks } from '../../sdk/src/index.ts';
import { readAgent } from '../../src/keys/requests.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { newestKeyOf } from '../../src/queries/search.ts';
import { pluginAt } from '../../src/web/shop-plugins.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { passOn, serve } from '../kit/serve.ts';

const { default: module, FlorinPaymentProvider } = await import('../../plugins/medusa/src/index.ts');
const { readAmount, readCurrency } = await import('../../plugins/medusa/src/amount.ts');
const { actionOf, sessionStatusOf } = await import('../../plugins/medusa/src/status.ts');
type Provider = InstanceType<typeof FlorinPaymentProvider>;

let app: TestApp;
let receiver: Receiver;
let provider: Provider;
let secret: string;
const logged: string[] = [];
const logger = { warn: (text: string) => void logged.push(text), error: (text: string) => void logged.push(text) };
/** The payment sessions of Medusa, as its payment module shares them with providers. Without any, as in a version that does not. */
type Stored = {
  id: string;
  provider_id: string;
  payment_collection_id: string;
  status?: string;
  payment_collection?: { status?: string; amount?: unknown; currency_code?: string };
};
let stored: Stored[] | null = null;
const paymentSessionService = {
  list: async ({ id, payment_collection_id }: { id?: string; payment_collection_id?: string }) =>
    stored!.filter(
      (one) => (id === undefined || one.id === id) && (!payment_collection_id || one.payment_collection_id === payment_collection_id),
    ),
};
const createProvider = (more: object = {}): Provider =>
  new FlorinPaymentProvider(
    {
      logger,
      get paymentSessionService() {
        if (stored === null) throw new Error('Could not resolve paymentSessionService.');
        return paymentSessionService;
      },
    },
    {
      url: app.url,
      apiKey: app.merchant.keys.testSecret,
      webhookSecret: secret,
      returnUrl: 'https://store.example/checkout?session={session_id}',
      ...more,
    },
  );
before(async () => {
  app = await startTestApp();
  receiver = await startReceiver();
  const endpoint = await app.test.post('/v1/webhook_endpoints', {
    url: receiver.url,
    events: ['*', 'payment.updated', 'refund.canceled', 'refund.sent'],
  });
  secret = endpoint.json.secret;
  provider = createProvider();
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
});

let sessions = 0;
type Session = { session: string; payment: string; data: Record<string, any> };
/** A payment session as Medusa starts it: the storefront may send fields of its own. */
async function begin(amount: unknown = 25.5, currency = 'eur'): Promise<Session> {
  const session = `payses_${++sessions}`;
  const { id, status, data } = await provider.initiatePayment({
    amount: amount as number,
    currency_code: currency,
    data: { session_id: session, payment_id: 'pay_of_somebody_else', theme: 'dark' },
    context: { idempotency_key: session },
  });
  assert.equal(status, 'pending');
  assert.equal(data!.payment_id, id);
  return { session, payment: id, data: data! };
}
const read = async (payment: string) => (await app.test.get(`/api/payment/${payment}`)).json;
const simulate = async (payment: string, scenario: string) => {
  const reply = await app.test.post(`/v1/test/payments/${payment}/simulate`, { scenario });
  assert.equal(reply.status, 200, reply.text);
};
const advance = async (payment: string, seconds: number) => {
  const reply = await app.test.post('/v1/test/clock/advance', { seconds, payment_id: payment });
  assert.equal(reply.status, 200, reply.text);
};
/** The delivery of an event, as Medusa's webhook route passes it on. */
async function delivered(payment: string, type: string) {
  const all = await eventually(
    async () => receiver.received,
    (list) => list.some(({ event }) => event.type === type && event.data.id === payment),
    30_000,
  );
  const { headers, body, event } = all.find(({ event: one }) => one.type === type && one.data.id === payment)!;
  return { rawData: body, headers: headers as Record<string, unknown>, data: event };
}
const refused = (work: Promise<unknown>, message: RegExp, type = 'not_allowed') =>
  assert.rejects(work, (error: any) => {
    assert.match(error.message, message);
    assert.equal(error.type, type);
    return true;
  });

test('a payment names the customer who signed in, and one that Florin does not take keeps nobody from paying', async () => {
  const start = (session: string, customer?: { email: string; first_name?: string | null; last_name?: string | null }) =>
    provider.initiatePayment({
      ...{ amount: 25.5, currency_code: 'eur', data: { session_id: session } },
      context: { idempotency_key: session, ...(customer && { customer }) },
    });
  const named = async (id: string) => (await app.test.get(`/v1/payments/${id}`)).json.customer;
  const ada = { email: 'ada@store.example', first_name: 'Ada', last_name: 'Lovelace' };
  const first = await start('payses_named', ada);
  const { email, name, reference } = await named(first.id);
  assert.deepEqual([email, name, reference], ['ada@store.example', 'Ada Lovelace', null]);
  assert.equal((await start('payses_named', ada)).id, first.id, 'the same request again');
  const other = await start('payses_named', { email: 'grace@store.example', first_name: null, last_name: null });
  assert.deepEqual([(await named(other.id)).email, (await named(other.id)).name], ['grace@store.example', null]);
  assert.equal(await named((await start('payses_guest')).id), null);
  assert.equal(await named((await start('payses_odd', { email: 'no address' })).id), null);
  assert.match(logged.at(-1)!, /names no customer/);
});

test('the module is one for payments, and refuses settings that cannot work', () => {
  assert.deepEqual([module.module, module.services], ['payment', [FlorinPaymentProvider]]);
  assert.equal(FlorinPaymentProvider.identifier, 'florin');
  const good = { url: 'https://pay.example', apiKey: 'sk_live_1', webhookSecret: 'whsec_1', returnUrl: 'https://store.example/thanks' };
  assert.doesNotThrow(() => FlorinPaymentProvider.validateOptions(good));
  for (const [name, value] of [
    ['url', undefined],
    ['url', 'pay.example'],
    ['apiKey', 'pk_live_1'],
    ['webhookSecret', 'sk_live_1'],
    ['returnUrl', '/thanks'],
  ] as const)
    assert.throws(() => FlorinPaymentProvider.validateOptions({ ...good, [name]: value }), new RegExp(`the option ${name} is`));
});

test('a session gets one payment, with its ID in the metadata, and the amount that Medusa shows', async () => {
  const { session, payment, data } = await begin({ value: '25.504999999999999999', precision: 20 });
  const { amount_fiat, currency_fiat, metadata, return_url, created_with } = await read(payment);
  assert.deepEqual([amount_fiat, currency_fiat, created_with], ['25.50', 'EUR', 'secret']);
  assert.deepEqual(metadata, { session_id: session, source: 'medusa', shop: 'https://store.example' });
  assert.equal(return_url, `https://store.example/checkout?session=${session}`);
  assert.deepEqual([data.amount, data.currency_code, data.mode, data.session_id], ['25.50', 'eur', 'test', session]);
  assert.match(data.payment_url, /^http.*pay_|id=/);
  // The page of the shop in Florin shows the version, and all shops that use this key with Medusa as one.
  const { agent, offered, madeBy } = pluginAt('https://medusa.example/hooks/payment/florin_florin')!;
  const owner = { merchantId: app.merchant.merchantId, mode: 'test' } as const;
  const key = await newestKeyOf(app.app.ctx, { ...owner, shop: madeBy });
  const shown = await eventually(
    () => readAgent(app.app.ctx, { ...owner, keyId: key!.id, begins: agent }),
    (text) => text !== null,
  );
  assert.equal(shown, agent + offered);
  // Medusa tried again.
  const again = await provider
    .initiatePayment({ amount: '25.505', currency_code: 'EUR', data: { session_id: session } })
    .catch((error) => error);
  assert.ok(again instanceof Error, 'the same session with another amount is not a retry');
  const retried = await provider.initiatePayment({ amount: '25.50', currency_code: 'EUR', data: { session_id: session } });
  assert.equal(retried.id, payment);
  const yen = await begin(1_250, 'jpy');
  assert.equal((await read(yen.payment)).amount_fiat, '1250');
  const dollars = await begin(12, 'usd');
  assert.deepEqual([dollars.data.amount, dollars.data.currency_code], ['12.00', 'usd']);
  await refused(begin(10, 'xau'), /Florin does not take prices in XAU/);
  await refused(begin(0), /payment of 0/);
});

test('money that is confirmed captures the session, by the webhook and by a question', async () => {
  const { session, payment, data } = await begin();
  assert.equal((await provider.getPaymentStatus({ data })).status, 'requires_more');
  await refused(provider.authorizePayment({ data }), /has not paid yet/, 'payment_requires_more_error');
  await refused(provider.capturePayment({ data }), /is not completed in Florin: it is pending/);
  await simulate(payment, 'success');
  const webhook = await delivered(payment, 'payment.completed');
  assert.deepEqual(await provider.getWebhookActionAndData(webhook), { action: 'captured', data: { session_id: session, amount: '25.50' } });
  // As bytes, and as an event bus with a database keeps them.
  const bytes = { ...webhook, rawData: Buffer.from(webhook.rawData) };
  assert.equal((await provider.getWebhookActionAndData(bytes)).action, 'captured');

  const authorized = await provider.authorizePayment({ data });
  assert.deepEqual([authorized.status, authorized.data!.status, authorized.data!.session_id], ['captured', 'completed', session]);
  assert.equal((await provider.capturePayment({ data })).data!.payment_id, payment);
  assert.equal((await provider.retrievePayment({ data })).data!.status, 'completed');
  await refused(provider.cancelPayment({ data }), /has already sent money/);
  await provider.deletePayment({ data });
  assert.equal((await read(payment)).status, 'completed');
});

test('money on its way places the order, which is paid after the confirmations', async () => {
  const { session, payment, data } = await begin();
  await simulate(payment, 'slow');
  const webhook = await delivered(payment, 'payment.processing');
  assert.deepEqual(await provider.getWebhookActionAndData(webhook), {
    action: 'authorized',
    data: { session_id: session, amount: '25.50' },
  });
  assert.equal((await provider.authorizePayment({ data })).status, 'pending_authorization');
  await refused(provider.cancelPayment({ data }), /has already sent money/);
  await advance(payment, 3_600);
  assert.equal((await provider.getWebhookActionAndData(await delivered(payment, 'payment.completed'))).action, 'captured');
});

test('a reversed payment captures nothing, and the log says so', async () => {
  const { payment, data } = await begin();
  await simulate(payment, 'reversed');
  await delivered(payment, 'payment.completed');
  await advance(payment, 7_200);
  const webhook = await delivered(payment, 'payment.reversed');
  logged.length = 0;
  assert.equal((await provider.getWebhookActionAndData(webhook)).action, 'not_supported');
  assert.match(logged.join(), new RegExp(`reversed the payment ${payment}`));
  assert.equal((await provider.getPaymentStatus({ data })).status, 'error');
  await refused(provider.capturePayment({ data }), /it is reversed/);
});

test('another amount gets another payment, and the one before is canceled', async () => {
  const { session, payment, data } = await begin();
  const same = await provider.updatePayment({ amount: 25.5, currency_code: 'eur', data });
  assert.equal(same.data!.payment_id, payment);
  const changed = await provider.updatePayment({ amount: 30, currency_code: 'eur', data });
  assert.notEqual(changed.data!.payment_id, payment);
  assert.equal((await read(payment)).status, 'cancelled');
  // Back to the first amount: the canceled payment is not used again.
  const back = await provider.updatePayment({ amount: 25.5, currency_code: 'eur', data: changed.data! });
  const now = await read(String(back.data!.payment_id));
  assert.deepEqual([now.status, now.amount_fiat, now.metadata.session_id], ['pending', '25.50', session]);
  await provider.deletePayment({ data: back.data! });
  assert.equal((await read(now.id)).status, 'cancelled');
  await refused(provider.authorizePayment({ data: back.data! }), /is cancelled in Florin. Start a new/, 'payment_authorization_error');
  // Twice, and a session without a payment.
  await provider.deletePayment({ data: back.data! });
  assert.deepEqual(await provider.deletePayment({ data: { session_id: session } }), { data: { session_id: session } });
  await refused(provider.authorizePayment({ data: {} }), /has no payment in Florin/);
});

/** A session of a cart, as Medusa starts it: it is stored before the provider is asked, and the ones before are deleted at the same time. */
async function restart(collection: string, amount: number): Promise<Session> {
  const before = stored!.filter((one) => one.payment_collection_id === collection);
  const session = `payses_${++sessions}`;
  stored!.push({ id: session, provider_id: 'pp_florin_florin', payment_collection_id: collection });
  const removed = before.map(async ({ id }) => {
    await provider.deletePayment({ data: kept.get(id) ?? {} });
    stored = stored!.filter((one) => one.id !== id);
  });
  const started = provider.initiatePayment({
    amount,
    currency_code: 'eur',
    data: { session_id: session },
    context: { idempotency_key: session },
  });
  const [result] = await Promise.allSettled([started, ...removed]);
  for (const one of removed) await one;
  if (result.status === 'rejected') {
    stored = stored!.filter((one) => one.id !== session);
    throw result.reason;
  }
  const { id, data } = result.value;
  kept.set(session, data!);
  return { session, payment: id, data: data! };
}
const kept = new Map<string, Record<string, unknown>>();
/** With the sessions that Medusa shares with its providers. */
async function withSessions(story: () => Promise<void>): Promise<void> {
  stored = [];
  try {
    await story();
  } finally {
    stored = null;
  }
}

test('a cart keeps its payment while it costs the same, however often its page is loaded', () =>
  withSessions(async () => {
    const first = await restart('paycol_1', 25.5);
    const second = await restart('paycol_1', 25.5);
    assert.deepEqual([second.payment, (await read(first.payment)).metadata.session_id], [first.payment, second.session]);
    const changed = await restart('paycol_1', 30);
    assert.deepEqual([(await read(first.payment)).status, (await read(changed.payment)).status], ['cancelled', 'pending']);
    // The answer to a creation was lost: the payment is there, and Medusa has no session of it.
    stored = [];
    const again = await restart('paycol_1', 30);
    assert.equal(again.payment, changed.payment);
    // Money of another cart does not count for this one.
    assert.notEqual((await restart('paycol_2', 30)).payment, changed.payment);
    // Another way to pay is chosen.
    await provider.deletePayment({ data: again.data });
    assert.equal((await read(again.payment)).status, 'cancelled');
  }));

test('a payment with money is never canceled, its session ends without an error, and its customer is not asked for more', () =>
  withSessions(async () => {
    for (const [scenario, status] of [
      ['underpaid', 'pending'],
      ['slow', 'processing'],
      ['success', 'completed'],
    ] as const) {
      const collection = `paycol_${scenario}`;
      const { payment, session, data } = await restart(collection, 25.5);
      await simulate(payment, scenario);
      await eventually(
        () => read(payment),
        (one) => one.status === status && Number(one.amount_received) + Number(one.amount_announced) > 0,
      );
      await refused(provider.cancelPayment({ data }), /already sent money/);
      await refused(restart(collection, 40), /already sent money for this cart at another total .* ask the shop to refund/);
      assert.deepEqual([(await read(payment)).status, stored!.some(({ id }) => id === session)], [status, false]);
      // The cart is as it was: its next session has the payment.
      const next = await restart(collection, 25.5);
      assert.equal(next.payment, payment);
      if (scenario !== 'slow') continue;
      const webhook = await delivered(payment, 'payment.processing');
      assert.deepEqual(await provider.getWebhookActionAndData(webhook), {
        action: 'authorized',
        data: { session_id: next.session, amount: '25.50' },
      });
      // Nothing of the cart is left.
      stored = [];
      logged.length = 0;
      assert.deepEqual(await provider.getWebhookActionAndData(webhook), { action: 'not_supported' });
      assert.match(logged.join(), new RegExp(`money arrived for the payment ${payment}, but the cart has`));
      // Florin lists it under Needs attention when it is completed.
      assert.match((await read(payment)).metadata.order_missing, /no order is paid by this payment/);
      assert.equal((await restart(collection, 25.5)).payment, payment);
      assert.equal((await read(payment)).metadata.order_missing, undefined);
    }
  }));

test('money of an order that was canceled meanwhile is not captured, but named; one that nobody paid cannot be paid any more', () =>
  withSessions(async () => {
    const cancelOrder = (session: string, status = 'pending_authorization') => {
      const one = stored!.find(({ id }) => id === session)!;
      Object.assign(one, { status, payment_collection: { status: 'canceled' } });
    };
    const slow = await restart('paycol_canceled', 25.5);
    await simulate(slow.payment, 'slow');
    await delivered(slow.payment, 'payment.processing');
    cancelOrder(slow.session);
    await advance(slow.payment, 3_600);
    const completed = await delivered(slow.payment, 'payment.completed');
    logged.length = 0;
    assert.deepEqual(await provider.getWebhookActionAndData(completed), { action: 'not_supported' });
    await refused(
      provider.authorizePayment({ data: slow.data }),
      /order was canceled before its payment was confirmed\. Refund the payment/,
    );
    assert.match(logged.join(), new RegExp(`${slow.payment}, but the order was canceled`));
    // Florin lists it under Needs attention.
    assert.match((await read(slow.payment)).metadata.order_missing, /order was canceled .* no order is paid by this payment/);

    // Medusa asks for the refund of what it captured itself.
    const paid = await restart('paycol_refunded', 25.5);
    await simulate(paid.payment, 'success');
    cancelOrder(paid.session, 'authorized');
    const event = await delivered(paid.payment, 'payment.completed');
    assert.equal((await provider.getWebhookActionAndData(event)).action, 'captured');
    assert.equal((await read(paid.payment)).metadata.order_missing, undefined);

    // Its money vanished before it was confirmed: the page must not ask for it again.
    const gone = await restart('paycol_gone', 25.5);
    cancelOrder(gone.session);
    const { body, headers } = await webhooks.signTestEvent(
      { id: 'evt_gone', type: 'payment.pending', data: await read(gone.payment) },
      secret,
    );
    assert.equal((await provider.getWebhookActionAndData({ ...event, rawData: body, headers })).action, 'not_supported');
    assert.equal((await read(gone.payment)).status, 'cancelled');
  }));

test('money whose session ends while Medusa acts on its webhook is named, also if it is started again, until its order is placed', () =>
  withSessions(async () => {
    const missing = async (payment: string) => (await read(payment)).metadata.order_missing;
    const first = await restart('paycol_vanished', 25.5);
    await simulate(first.payment, 'success');
    const webhook = await delivered(first.payment, 'payment.completed');
    assert.equal((await provider.getWebhookActionAndData(webhook)).action, 'captured');
    assert.equal(await missing(first.payment), undefined);
    // The quantity changes before Medusa acts on it. No webhook follows.
    stored = [];
    await provider.deletePayment({ data: first.data });
    assert.match(await missing(first.payment), /the cart has another payment session or none, so no order is paid/);
    await refused(restart('paycol_vanished', 40), /already sent money for this cart at another total/);
    assert.match(await missing(first.payment), /no order is paid/);
    const again = await restart('paycol_vanished', 25.5);
    assert.equal(again.payment, first.payment);
    assert.match(
      await missing(first.payment),
      /started to pay again after the money was confirmed\. No order is paid by this payment until/,
    );
    await refused(provider.authorizePayment({ data: first.data }), /Another payment session/, 'payment_authorization_error');
    assert.equal((await provider.authorizePayment({ data: again.data })).status, 'captured');
    assert.equal(await missing(first.payment), undefined);
  }));

test('a payment session that Medusa is about to delete takes no money any more, and its money stays named', () =>
  withSessions(async () => {
    const missing = async (payment: string) => (await read(payment)).metadata.order_missing;
    const { payment, session, data } = await restart('paycol_leaving', 25.5);
    await simulate(payment, 'success');
    await delivered(payment, 'payment.completed');
    await provider.deletePayment({ data });
    assert.match(await missing(payment), /no order is paid by this payment/);
    // Medusa read the session before that, and deletes it after it.
    await refused(provider.authorizePayment({ data }), /was deleted\. Start a new/, 'payment_authorization_error');
    stored = stored!.filter(({ id }) => id !== session);
    // Another process of the store.
    await refused(createProvider().authorizePayment({ data }), /was deleted\. Start a new/, 'payment_authorization_error');
    assert.match(await missing(payment), /no order is paid by this payment/);
  }));

test('while Medusa places the order of a payment, its session stays; money that is being refunded pays no other order', () =>
  withSessions(async () => {
    const first = await restart('paycol_placing', 25.5);
    await simulate(first.payment, 'success');
    await delivered(first.payment, 'payment.completed');
    await provider.authorizePayment({ data: first.data });
    const start = () =>
      provider.initiatePayment({ amount: 25.5, currency_code: 'eur', data: { session_id: 'payses_placing' }, context: {} });
    stored!.push({ id: 'payses_placing', provider_id: 'pp_florin_florin', payment_collection_id: 'paycol_placing' });
    await refused(start(), /has paid this cart .* Complete the cart/);
    await refused(provider.deletePayment({ data: first.data }), /has paid .* the order is being placed/);
    const now = await read(first.payment);
    assert.deepEqual([now.metadata.session_id, now.metadata.order_missing], [first.session, undefined]);
    // Another process of the shop knows it from what Medusa stored.
    stored!.find(({ id }) => id === first.session)!.status = 'authorized';
    await refused(createProvider().deletePayment({ data: first.data }), /the order is being placed/);
    // Florin does not answer.
    await refused(createProvider({ url: 'http://127.0.0.1:1' }).deletePayment({ data: first.data }), /the order is being placed/);
    // Medusa returns the money when it cannot place the order, and then starts a session.
    await provider.refundPayment({ amount: 25.5, data: first.data, context: { idempotency_key: 'ref_placing' } });
    const { id } = await start();
    assert.notEqual(id, first.payment);
    await provider.deletePayment({ data: first.data });
    assert.equal((await read(id)).status, 'pending');
  }));

test('a payment session that kept the former total of its cart takes no money for it, and its money is named', () =>
  withSessions(async () => {
    const stale = async (collection: string) => {
      const one = await restart(collection, 25.5);
      // The cart changed while the session started.
      stored!.find(({ id }) => id === one.session)!.payment_collection = {
        status: 'not_paid',
        amount: { value: '76.5' },
        currency_code: 'eur',
      };
      return one;
    };
    const open = await stale('paycol_stale_open');
    const wrong = /the total changed .* Start a new payment session/;
    await refused(provider.authorizePayment({ data: open.data }), wrong, 'payment_authorization_error');
    assert.equal((await read(open.payment)).status, 'cancelled');
    const paid = await stale('paycol_stale_paid');
    await simulate(paid.payment, 'success');
    await delivered(paid.payment, 'payment.completed');
    await refused(provider.authorizePayment({ data: paid.data }), wrong, 'payment_authorization_error');
    assert.match((await read(paid.payment)).metadata.order_missing, /the total changed/);
    // The cart is as it was.
    stored!.find(({ id }) => id === paid.session)!.payment_collection!.amount = 25.5;
    assert.equal((await provider.authorizePayment({ data: paid.data })).status, 'captured');
    assert.equal((await read(paid.payment)).metadata.order_missing, undefined);
  }));

test('money that is refunded, or that the network took back, is not named as money without an order when its session ends', () =>
  withSessions(async () => {
    const missing = async (payment: string) => (await read(payment)).metadata.order_missing;
    const over = await restart('paycol_over', 25.5);
    await simulate(over.payment, 'overpaid');
    await delivered(over.payment, 'payment.completed');
    await provider.authorizePayment({ data: over.data });
    // Medusa canceled the order, and asked for the refund of what it captured.
    await provider.refundPayment({ amount: 25.5, data: over.data, context: { idempotency_key: 'ref_over' } });
    await provider.deletePayment({ data: over.data });
    assert.equal(await missing(over.payment), undefined);
    const reversed = await restart('paycol_reversed', 25.5);
    await simulate(reversed.payment, 'reversed');
    await delivered(reversed.payment, 'payment.completed');
    await provider.authorizePayment({ data: reversed.data });
    await advance(reversed.payment, 7_200);
    await delivered(reversed.payment, 'payment.reversed');
    await provider.deletePayment({ data: reversed.data });
    assert.equal(await missing(reversed.payment), undefined);
  }));

/** A way to Florin that runs something after each answer, before it is passed on, or that does not know some parameters. */
async function between(t: TestContext, answered: (path: string) => Promise<void>, unknown: readonly string[] = []): Promise<string> {
  const { url, stop } = await serve(async (request, reply, body) => {
    const param = unknown.find((name) => body.includes(`"${name}"`));
    const error = { type: 'invalid_request_error', code: 'parameter_unknown', message: `There is no parameter ${param} here.`, param };
    const answer = param === undefined ? await passOn(app.url, request, body) : Response.json({ error }, { status: 400 });
    const sent = await answer.text();
    await answered(request.url!);
    reply.writeHead(answer.status, { 'content-type': 'application/json', connection: 'close' }).end(sent);
  });
  t.after(stop);
  return url;
}

test('money that arrives while its payment is about to be canceled stops the cancel', async (t) => {
  let next = '';
  const url = await between(t, async (path) => {
    if (next === '' || path !== `/v1/payments/${next}`) return;
    const payment = next;
    next = '';
    await simulate(payment, 'underpaid');
    await eventually(
      () => read(payment),
      (one) => Number(one.amount_received) > 0,
    );
  });
  const racing = createProvider({ url });
  const acts: ((data: Record<string, unknown>) => Promise<unknown>)[] = [
    (data) => refused(racing.cancelPayment({ data }), /already sent money/),
    (data) => refused(racing.updatePayment({ amount: 30, currency_code: 'eur', data }), /already sent money/),
    (data) => racing.deletePayment({ data }),
  ];
  for (const act of acts) {
    const { payment, data } = await begin();
    next = payment;
    await act(data);
    assert.deepEqual([(await read(payment)).status, (await read(payment)).replaced_by], ['pending', null]);
  }
  // An older Florin may cancel money away: it is not asked to.
  const older = createProvider({ url: await between(t, async () => {}, ['only_if_unpaid', 'replaces']) });
  const { payment, data } = await begin();
  logged.length = 0;
  await older.deletePayment({ data });
  assert.equal((await read(payment)).status, 'pending');
  assert.match(logged.join(), new RegExp(`payment ${payment} has money or may have some`));
});

test('Florin refuses to cancel or refund a payment that turned out to be of another store', async (t) => {
  const { payment, data } = await begin();
  const url = await between(t, async (path) => {
    if (path === `/v1/payments/${payment}`)
      await app.test.post(`/v1/payments/${payment}`, { metadata: { shop: 'https://another.example' } });
  });
  const racing = createProvider({ url });
  const back = () => app.test.post(`/v1/payments/${payment}`, { metadata: { shop: 'https://store.example' } });
  await refused(racing.cancelPayment({ data }), /shop/);
  await back();
  await refused(racing.refundPayment({ amount: 1, data, context: { idempotency_key: 'ref_other' } }), /shop/);
  assert.equal((await read(payment)).status, 'pending');
});

test('a changed total names the payment that it replaces; one that the customer started again is the payment of its session', () =>
  withSessions(async () => {
    const { merchantId } = app.merchant;
    await changeSettings(app.app.ctx, { merchantId, settings: { payerCancel: true } });
    const first = await restart('paycol_again', 25.5);
    const changed = await restart('paycol_again', 30);
    assert.deepEqual([(await read(changed.payment)).replaces, (await read(first.payment)).status], [first.payment, 'cancelled']);
    await advance(changed.payment, 7_200);
    const page = await (await fetch(`${app.url}/pay?id=${changed.payment}`)).text();
    const body = new URLSearchParams({ id: changed.payment, token: /name="token" value="([^"]+)"/.exec(page)![1]! });
    const reply = await fetch(`${app.url}/pay/again`, { method: 'POST', redirect: 'manual', body });
    assert.equal(reply.status, 303);
    const again = new URL(reply.headers.get('location')!, app.url).searchParams.get('id')!;
    assert.equal((await provider.getPaymentStatus({ data: changed.data })).data!.payment_id, again);
    assert.equal((await restart('paycol_again', 30)).payment, again);
    await simulate(again, 'success');
    const webhook = await delivered(again, 'payment.completed');
    const { session_id } = (await read(again)).metadata;
    assert.deepEqual(await provider.getWebhookActionAndData(webhook), { action: 'captured', data: { session_id, amount: '30.00' } });
    await changeSettings(app.app.ctx, { merchantId, settings: { payerCancel: false } });
  }));

test('a copy of the store at another address leaves the payments of the first one alone', async () => {
  const { payment, data } = await begin();
  const copy = createProvider({ returnUrl: 'https://staging.example/checkout?session={session_id}' });
  await copy.deletePayment({ data });
  await copy.cancelPayment({ data });
  assert.equal((await read(payment)).status, 'pending');
  await simulate(payment, 'success');
  const webhook = await delivered(payment, 'payment.completed');
  assert.deepEqual(await copy.getWebhookActionAndData(webhook), { action: 'not_supported' });
  await copy.deletePayment({ data });
  assert.equal((await read(payment)).metadata.order_missing, undefined);
  await refused(copy.refundPayment({ amount: 10, data, context: { idempotency_key: 'ref_copy' } }), /made by another shop/);
  assert.equal((await app.test.get(`/v1/refunds?payment_id=${payment}`)).json.data.length, 0);
});

test('what is not signed, old, changed or of others is not acted on', async () => {
  const { payment } = await begin();
  await simulate(payment, 'success');
  const webhook = await delivered(payment, 'payment.completed');
  const isIgnored = async (changed: object, from = provider) =>
    assert.deepEqual(await from.getWebhookActionAndData({ ...webhook, ...changed }), { action: 'not_supported' });
  logged.length = 0;
  await isIgnored({ rawData: webhook.rawData.replace('25.50', '99.50') });
  await isIgnored({ rawData: `${webhook.rawData} ` });
  await isIgnored({ headers: {} });
  await isIgnored({ headers: { ...webhook.headers, 'webhook-timestamp': '1700000000' } });
  await isIgnored({}, createProvider({ webhookSecret: 'whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz' }));
  assert.equal(logged.length, 5);
  assert.ok(logged.every((text) => text.startsWith('Florin: a webhook was refused.') && !text.includes('whsec_M')));

  // Signed by this server, but about payments that no session started.
  for (const change of [{ metadata: {} }, { created_with: 'public' }, { metadata: { session_id: 7 } }]) {
    const event = { ...webhook.data, data: { ...webhook.data.data, ...change } };
    const signed = await webhooks.signTestEvent(event, secret);
    await isIgnored({ rawData: signed.body, headers: signed.headers });
  }
});

test('what became of a refund changes nothing in Medusa, and the log says if the customer was not paid', async () => {
  const { session, payment, data } = await begin();
  await simulate(payment, 'success');
  await delivered(payment, 'payment.completed');
  const refunded = await provider.refundPayment({ amount: 10, data, context: { idempotency_key: `${session}-refund` } });
  const [{ id }] = refunded.data!.refunds as any[];
  assert.equal((await app.test.post(`/v1/refunds/${id}/cancel`)).status, 200);
  const webhook = await delivered(id, 'refund.canceled');
  logged.length = 0;
  assert.deepEqual(await provider.getWebhookActionAndData(webhook), { action: 'not_supported' });
  assert.match(
    logged.join(),
    new RegExp(`^Florin: the refund ${id} of the payment ${payment} was canceled\\. The customer was not paid .* BTC,`),
  );
  // One that was sent needs nobody.
  const sent = { ...webhook.data, type: 'refund.sent', data: { ...webhook.data.data, status: 'sent' } };
  const signed = await webhooks.signTestEvent(sent, secret);
  logged.length = 0;
  assert.deepEqual(await provider.getWebhookActionAndData({ ...webhook, rawData: signed.body, headers: signed.headers }), {
    action: 'not_supported',
  });
  assert.equal(logged.length, 0);
});

test('a refund is a claim; without refunds in Florin, Medusa shows what to do', async (t) => {
  const asked: { path: string; key: unknown; body: any }[] = [];
  let isThere = false;
  const { url, stop } = await serve(async (request, reply, body) => {
    if (request.method === 'GET') {
      const { status, json } = await app.test.get(request.url!);
      reply.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
      return;
    }
    asked.push({ path: request.url!, key: request.headers['idempotency-key'], body: JSON.parse(body.toString()) });
    const absent = { error: { type: 'invalid_request_error', code: 'unknown_route', message: 'No such route.', param: null } };
    reply
      .writeHead(isThere ? 201 : 404, { 'content-type': 'application/json' })
      .end(JSON.stringify(isThere ? { id: 'ref_1', claim_url: 'https://pay.example/claim/ref_1' } : absent));
  });
  t.after(stop);
  const { payment, data } = await begin();
  const elsewhere = createProvider({ url });
  const refund = () => elsewhere.refundPayment({ amount: { value: '10.005' }, data, context: { idempotency_key: 'ref_medusa' } });
  await refused(refund(), /does not create refunds yet. Send the money from your wallet/);
  isThere = true;
  const { data: after } = await refund();
  // The claim link is not for everyone who can read the payment in Medusa.
  assert.deepEqual(after!.refunds, [{ id: 'ref_1', amount: '10.01' }]);
  assert.equal(after!.payment_id, payment);
  const body = { payment_id: payment, amount: '10.01', currency_fiat: 'EUR', shop: 'https://store.example' };
  const sent = { path: '/v1/refunds', key: 'medusa:ref_medusa', body };
  assert.deepEqual(asked, [sent, sent]);
});

test('failures of Florin are errors that Medusa shows', async () => {
  const { data } = await begin();
  await refused(createProvider({ apiKey: 'sk_test_0123456789012345678901234' }).retrievePayment({ data }), /^Florin: The API key is/);
  await refused(provider.retrievePayment({ data: { ...data, payment_id: 'pay_unknown' } }), /^Florin: /, 'not_found');
});

test('every status has a meaning, and only confirmed money captures', () => {
  const statuses = ['pending', 'processing', 'completed', 'expired', 'cancelled', 'failed'] as const;
  const table = statuses.map((status) => {
    const facts = { status, exceptions: [] };
    return [status, sessionStatusOf(facts), actionOf(facts)].join(' ');
  });
  assert.deepEqual(table, [
    'pending requires_more pending',
    'processing pending_authorization authorized',
    'completed captured captured',
    'expired canceled canceled',
    'cancelled canceled canceled',
    'failed error failed',
  ]);
  const reversed = { status: 'completed', exceptions: ['reorged'] } as const;
  assert.deepEqual([sessionStatusOf(reversed), actionOf(reversed)], ['error', 'not_supported']);
  assert.equal(sessionStatusOf({ status: 'completed', exceptions: ['overpaid', 'late'] }), 'captured');
});

test('amounts are rounded as text, to the digits of the currency', () => {
  for (const [given, currency, wanted] of [
    [25.5, 'EUR', '25.50'],
    ['0.005', 'EUR', '0.01'],
    ['0.0149', 'USD', '0.01'],
    [{ value: '1234567890123.455' }, 'EUR', '1234567890123.46'],
    [{ raw: { value: '99.995' } }, 'EUR', '100.00'],
    [{ toFixed: () => '7' }, 'KWD', '7.000'],
    ['1250.5', 'JPY', '1251'],
    ['1299.5', 'HUF', '1299.50'],
    ['1299.5', 'TWD', '1299.50'],
  ] as const)
    assert.equal(readAmount(given, currency), wanted);
  for (const given of ['', '-1', '1e21', 1e21, Number.NaN, 'ten', null, undefined, {}, '0.001', '1.', '.5'])
    assert.throws(() => readAmount(given, 'EUR'), /not a positive decimal number|payment of 0/);
  assert.equal(readCurrency('eur'), 'EUR');
  fc.assert(
    fc.property(fc.bigInt({ min: 1n, max: 10n ** 14n }), (thousandths) => {
      const text = `${thousandths / 1000n}.${String(thousandths % 1000n).padStart(3, '0')}`;
      const cents = (thousandths + 5n) / 10n;
      if (cents === 0n) return;
      assert.equal(readAmount(text, 'EUR'), `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`);
    }),
  );
});
