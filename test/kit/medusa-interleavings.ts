/**
 * Random orders of what happens to the carts of a Medusa store: the customer, changes of the cart, webhooks that are late, repeated or
 * missing, answers of Florin that are lost, the administration, and money in every way meet in one store: Medusa itself, or a scripted one.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { eventually, startTestApp, type TestApp } from './app.ts';
import { type Between, startBetween } from './medusa-between.ts';
import { HOOKS, type MedusaStore } from './medusa-store.ts';
import { randomOf } from './range-histories.ts';
import { reportSchedules, type Schedules } from './shop-interleavings.ts';

const LANES = 6;
const MUG = 25.5;

type Store = Pick<MedusaStore, 'url' | 'output' | 'ask' | 'region' | 'variant' | 'stop'>;
type World = { app: TestApp; store: Store; between: Between };
type Ways = { florinUrl: string; hooksUrl: string; webhookDelayMs: number };
/** Runs schedules, some at a time, in one store. `start` starts it. */
export async function interleaveMedusa(
  t: TestContext,
  schedules: Schedules,
  start: (app: TestApp, ways: Ways) => Promise<Store>,
): Promise<void> {
  const { from, runs, steps } = schedules;
  // A store asks as often as it needs: hundreds of schedules pass the limit of a plan within a minute.
  const app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}' });
  t.after(() => app.stop());
  let store: Store | null = null;
  const between = await startBetween({ florin: () => app.url, hooks: () => store!.url + HOOKS });
  t.after(() => between.stop());
  store = await start(app, { ...between, webhookDelayMs: 20 });
  t.after(() => store.stop());
  const startedAt = performance.now();
  const failed: string[] = [];
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (let at = lane; at < runs; at += LANES) {
        const story: string[] = [`seed ${from + at}`];
        await interleaveOne({ app, store, between }, { seed: from + at, steps, story }).catch((error) =>
          failed.push(`${story.join('\n')}\n${error.message}`),
        );
      }
    }),
  );
  reportSchedules(t, schedules, startedAt);
  assert.ok(failed.length === 0, failed.join('\n\n'));
}

/** Money that came, counts or not. Announced money may vanish. */
const hasMoney = ({ amount_received, amount_held, status }: any) =>
  Number(amount_received) > 0 || Number(amount_held) > 0 || status === 'completed';

async function interleaveOne(world: World, { seed, steps, story }: { seed: number; steps: number; story: string[] }): Promise<void> {
  const { app, store, between } = world;
  const random = randomOf(seed);
  const pick = <Of>(list: readonly Of[]): Of => list[random(list.length)]!;
  const { cart } = await store.ask('/store/carts', {
    region_id: store.region,
    email: `customer-${seed}@shop.example`,
    items: [{ variant_id: store.variant, quantity: 1 }],
  });
  const collection: string = (await store.ask('/store/payment-collections', { cart_id: cart.id })).payment_collection.id;
  let isLossy = false;
  /** A storefront or the administration asks. Medusa may refuse, but only by a reason that it names. */
  const ask = async (name: string, path: string, body?: object): Promise<any> => {
    const reply = await store.ask(path, body);
    const said = `${reply.status} ${reply.type ?? ''} ${reply.message ?? reply.error?.message ?? ''}`;
    story.push(`  ${name}: ${said}`);
    if (reply.status >= 500) await judgeFailure(world, { cart, collection, said, isLossy });
    return reply;
  };
  const start = (provider: string) =>
    ask(`start ${provider}`, `/store/payment-collections/${collection}/payment-sessions`, { provider_id: provider });
  await start('pp_florin_florin');
  if (random(2) === 0) between.passAll(collection);
  const payments = async (): Promise<any[]> => (await app.test.get(`/api/payments?invoice_id=${collection}&limit=100`)).json.data;
  /** Something that happens to one of the payments, most often to one that is still open. */
  const onPayment = async (name: string, path: (id: string) => string, body: (id: string) => object) => {
    const all = await payments();
    const open = all.filter(({ status }) => status === 'pending' || status === 'processing');
    const one = pick(open.length > 0 && random(4) > 0 ? open : all);
    if (one === undefined) return;
    const { status } = await app.test.post(path(one.id), body(one.id));
    story.push(`  ${name} ${one.id}: ${status}`);
  };
  const simulate = (scenario: string) =>
    onPayment(
      scenario,
      (id) => `/v1/test/payments/${id}/simulate`,
      () => ({ scenario }),
    );
  const captures = async () => (await ordersOf(world, cart)).flatMap(medusaPaymentsOf);
  const acts: Record<string, () => Promise<unknown>> = {
    paid: () =>
      simulate(pick(['success', 'success', 'slow', 'underpaid', 'overpaid', 'late', 'reversed', 'reorg', 'replaced', 'failed', 'expired'])),
    time: () =>
      onPayment(
        'time',
        () => '/v1/test/clock/advance',
        (id) => ({ seconds: pick([60, 900, 900, 900, 90_000]), payment_id: id }),
      ),
    accept: () =>
      onPayment(
        'accept',
        (id) => `/v1/payments/${id}/resolve`,
        () => ({ action: 'accept' }),
      ),
    deliver: async () => {
      const all = between.webhooksOf(collection);
      if (all.length > 0) await between.pass(pick(all));
    },
    start: () => start('pp_florin_florin'),
    startAnother: () => start('pp_system_default'),
    change: async () => {
      const [item] = (await store.ask(`/store/carts/${cart.id}?fields=id,*items`)).cart.items;
      await ask('change', `/store/carts/${cart.id}/line-items/${item.id}`, { quantity: 1 + random(3) });
    },
    complete: () => ask('complete', `/store/carts/${cart.id}/complete`, {}),
    completeTwice: () => Promise.all([acts.complete!(), acts.complete!()]),
    capture: async () => {
      for (const { id } of await captures()) await ask('capture', `/admin/payments/${id}/capture`, {});
    },
    refund: async () => {
      for (const { id } of await captures()) await ask('refund', `/admin/payments/${id}/refund`, { amount: pick([5, MUG]) });
    },
    cancel: async () => {
      for (const { id } of await ordersOf(world, cart)) await ask('cancel', `/admin/orders/${id}/cancel`, {});
    },
  };
  const often = ['paid', 'paid', 'paid', 'time', 'time', 'deliver', 'deliver', 'start', 'change', 'complete'];
  for (let step = 0; step < steps; step += 1) {
    isLossy = random(6) === 0;
    const now = Array.from({ length: 1 + random(3) }, () => pick([...often, ...Object.keys(acts)]));
    story.push(`${now.join(' + ')}${isLossy ? ', and answers are lost' : ''}`);
    between.lose(collection, isLossy ? () => random(2) === 0 : null);
    await Promise.all(now.map((name) => acts[name]!()));
  }
  between.lose(collection, null);
  await judge(world, { cart, collection, random, story });
}

/**
 * Medusa answers with a 500 only while Florin does not answer, when a session is needed for the order that is being placed, or when another
 * request keeps the cart locked for seconds.
 */
async function judgeFailure(
  { app, store }: World,
  { cart, collection, said, isLossy }: { cart: any; collection: string; said: string; isLossy: boolean },
): Promise<void> {
  if (isLossy || store.output().includes(`Failed to acquire lock for key \\"${cart.id}\\"`)) return;
  const { data } = (await app.test.get(`/api/payments?invoice_id=${collection}&limit=100`)).json;
  assert.match(said, /Could not delete all payment sessions/);
  assert.ok(
    data.some(({ status }: any) => status === 'completed'),
    said,
  );
}

/** The customer of a cart has no others. */
async function ordersOf({ store }: World, { customer_id }: any): Promise<any[]> {
  const parts = ['*items', '*payment_collections', '*payment_collections.payments', '*payment_collections.payments.captures'];
  const reply = await store.ask(`/admin/orders?customer_id=${customer_id}&fields=id,status,${parts.join(',')}`);
  assert.equal(reply.status, 200, JSON.stringify(reply));
  return reply.orders;
}
const medusaPaymentsOf = (order: any): any[] => order.payment_collections.flatMap(({ payments }: any) => payments ?? []);

/** What has to be true in the end is waited for, what must never be true is looked at then. */
async function judge(
  world: World,
  { cart, collection, random, story }: { cart: any; collection: string; random: (below: number) => number; story: string[] },
): Promise<void> {
  const { app, between } = world;
  const read = async (): Promise<any[]> => {
    const { data } = (await app.test.get(`/api/payments?invoice_id=${collection}&limit=100`)).json;
    return Promise.all(data.map(async ({ id }: any) => (await app.test.get(`/api/payment/${id}`)).json));
  };
  // What was delayed arrives, and Florin repeats what was lost. Then all windows end.
  const passed = new Set<unknown>();
  const passRest = async () => {
    const rest = between.webhooksOf(collection).filter((webhook) => !passed.has(webhook));
    while (rest.length > 0) {
      const [webhook] = rest.splice(random(rest.length), 1);
      passed.add(webhook);
      await between.pass(webhook!);
    }
  };
  between.passAll(collection);
  await passRest();
  for (const { id, status } of await read())
    if (status === 'pending' || status === 'processing') await app.test.post('/v1/test/clock/advance', { seconds: 90_000, payment_id: id });
  const look = async () => {
    await passRest();
    const orders = await ordersOf(world, cart);
    const payments = await read();
    const captured = orders.flatMap(medusaPaymentsOf).filter(({ captures }) => captures?.length > 0);
    const { rows } = {
      rows: await app.app.ctx.db.sql<{ id: string; attention: boolean; asked: boolean }[]>`
      select id, attention, exists (select 1 from outgoing_payments r where r.payment_id = p.id) as asked from payments p
      where id = any(${payments.map(({ id }) => id)})`,
    };
    const named = new Set(rows.filter(({ attention, asked }) => attention || asked).map(({ id }) => id));
    const unseen = payments.filter(
      (one) => hasMoney(one) && !named.has(one.id) && !captured.some(({ data }) => data.payment_id === one.id),
    );
    const open = payments.filter(({ status }) => status === 'pending' || status === 'processing');
    return { orders, payments, captured, unseen, open };
  };
  const seen = await eventually(look, ({ unseen, open }) => unseen.length + open.length === 0, 20_000).catch(look);
  const { orders, payments, captured, unseen, open } = seen;
  story.push(...payments.map(toldPayment), ...orders.map(toldOrder));
  assert.deepEqual(
    [unseen.map(({ id }) => id), open.map(({ id }) => id)],
    [[], []],
    'money without an order is named, and every window ends',
  );
  assert.ok(orders.length <= 1, 'a cart has one order');
  const florins = captured.filter(({ data }) => data.payment_id !== undefined);
  assert.equal(new Set(florins.map(({ data }) => data.payment_id)).size, florins.length, 'a payment is captured once');
  for (const { amount, captures, data } of florins) {
    const payment = payments.find(({ id }) => id === data.payment_id);
    const sum = captures.reduce((total: number, one: any) => total + Number(one.amount), 0);
    assert.deepEqual(
      [captures.length, sum, payment?.status, Number(payment?.amount_fiat)],
      [1, Number(amount), 'completed', sum],
      'captured is what Florin received, at its price',
    );
    assert.equal(payment.metadata.order_missing, undefined, 'money that paid an order is not named as money without one');
  }
  for (const order of orders) {
    const sum = medusaPaymentsOf(order).reduce(
      (total, { captures }) => total + (captures ?? []).reduce((s: number, one: any) => s + Number(one.amount), 0),
      0,
    );
    assert.ok(sum === 0 || sum === priceOf(order), `the order of ${priceOf(order)} is captured with ${sum}`);
  }
  for (const payment of payments)
    if (payment.status === 'cancelled')
      assert.ok(!hasMoney(payment) || payment.exceptions.includes('paid_after_cancel'), 'money is never canceled away');
}
const toldPayment = ({ id, status, exceptions, amount_fiat, amount_received, metadata, replaces, replaced_by }: any) =>
  JSON.stringify({ id, status, exceptions, amount_fiat, amount_received, metadata, replaces, replaced_by });
const toldOrder = (order: any) =>
  JSON.stringify({
    ...{ id: order.id, status: order.status, price: priceOf(order) },
    payments: medusaPaymentsOf(order).map(({ id, amount, captures, canceled_at, data }) => ({
      id,
      amount,
      captures: captures?.length,
      canceled_at,
      of: data.payment_id,
    })),
  });
/** What was ordered. Its total also counts refunds. */
const priceOf = ({ items }: any): number => items.reduce((sum: number, { quantity }: any) => sum + quantity * MUG, 0);
