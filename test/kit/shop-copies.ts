/**
 * Random schedules of a WooCommerce shop and its copy: backups that are put back, a clone at another address, replaced keys, lost replies,
 * jobs that do not run, edited, refunded and deleted orders, two tabs, late money. Each schedule has a merchant of its own.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createApiKey, revokeApiKey } from '../../src/keys/keys.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { type Client, client, eventually, startTestApp, type TestApp } from './app.ts';
import { randomOf } from './range-histories.ts';
import { passOn, serve } from './serve.ts';
import { askShop, money, reportSchedules, type Schedules } from './shop-interleavings.ts';
import { startWordPress } from './wordpress.ts';

const LANES = 3;

/** A shop, and the way on which its requests reach Florin. */
type Shop = {
  url: string;
  florin: string;
  /** The next request to create, cancel or refund is answered, but the answer is lost. */
  loseNext: boolean;
  /** What it changed in Florin. */
  acts: { path: string; body: any }[];
  ask(path: string, body?: unknown): Promise<any>;
};

async function startShop(t: TestContext, app: TestApp): Promise<Shop> {
  const wordpress = await startWordPress();
  t.after(() => wordpress.stop());
  const server = await serve(async (request, reply, body) => {
    const answer = await passOn(app.url, request, body);
    const sent = await answer.text();
    const isAct = request.method === 'POST' && /^\/(api\/payment\/create|v1\/payments|v1\/refunds)/.test(request.url!);
    if (isAct && answer.ok) shop.acts.push({ path: request.url!, body: JSON.parse(body.toString()) });
    if (isAct && shop.loseNext) {
      shop.loseNext = false;
      request.socket.destroy();
      return;
    }
    reply.writeHead(answer.status, { connection: 'close' }).end(sent);
  });
  t.after(server.stop);
  const shop: Shop = {
    url: wordpress.url,
    florin: server.url,
    loseNext: false,
    acts: [],
    ask: (path, body) => askShop(wordpress.url, path, body),
  };
  return shop;
}

/** Runs schedules, some at a time, each lane with two shops. */
export async function copyShops(t: TestContext, { from, runs, steps }: Schedules): Promise<void> {
  // A shop asks as often as it needs.
  const app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}' });
  t.after(() => app.stop());
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: Math.min(LANES, runs) }, async (_, lane) => {
      const [shop, copy] = [await startShop(t, app), await startShop(t, app)];
      for (let at = lane; at < runs; at += LANES) await copyOne({ app, shop, copy }, { seed: from + at, steps });
    }),
  );
  reportSchedules(t, { from, runs, steps }, startedAt);
}

type Lane = { app: TestApp; shop: Shop; copy: Shop };
/** What replaces a whole database, or the key that others use, happens alone. */
const ALONE = ['backUp', 'putBack', 'clone', 'newKey', 'connect'];
const EMPTY = { options: [], later: [], orders: [] };
const settingsOf = ({ florin }: Shop, key: string) => ({
  ...{ enabled: 'yes', server_url: florin, api_key: key, title: 'Coins', description: '' },
});

async function copyOne({ app, shop, copy }: Lane, { seed, steps }: { seed: number; steps: number }): Promise<void> {
  const random = randomOf(seed);
  const pick = <Of>(list: readonly Of[]): Of => list[random(list.length)]!;
  const { ctx } = app.app;
  const { merchantId } = await createMerchant(ctx, { name: `Shop ${seed}`, plan: 'enterprise' });
  const newKey = () => createApiKey(ctx, { merchantId, mode: 'test', kind: 'secret' });
  const api = client(app.url, (await newKey()).key);
  let key = await newKey();
  for (const one of [shop, copy]) {
    Object.assign(one, { loseNext: false, acts: [] });
    await one.ask('/restore', EMPTY);
  }
  await shop.ask('/settings', settingsOf(shop, key.key));
  const known: string[] = [];
  let backup: any = await shop.ask('/options');
  let isCopied = false;
  let made = 0;
  const runsJobs = random(2) === 0;

  const pay = async (at: Shop, id: number) => {
    const { redirect } = await at.ask(`/orders/${id}/button`);
    const payment = redirect === undefined ? null : new URL(redirect).searchParams.get('id');
    if (payment !== null) known.push(payment);
  };
  const order = async () => {
    made += 1;
    const { id } = await shop.ask('/orders', { total: '20.00', key: `wc_order_${seed}_${made}` });
    await pay(shop, id);
  };
  const onOrder = async (act: (at: Shop, id: number) => Promise<unknown>) => {
    const at = isCopied && random(2) === 0 ? copy : shop;
    const ids = Object.keys((await at.ask('/options')).orders);
    if (ids.length > 0) await act(at, Number(pick(ids)));
  };
  const onPayment = (path: (payment: string) => string, body: object) => (known.length === 0 ? null : api.post(path(pick(known)), body));
  const acts: Record<string, () => Promise<unknown> | null> = {
    order,
    paid: () => onPayment((id) => `/v1/test/payments/${id}/simulate`, { scenario: pick(['success', 'success', 'slow', 'underpaid']) }),
    late: () => onPayment((id) => `/v1/test/payments/${id}/simulate`, { scenario: 'late' }),
    time: () =>
      known.length === 0 ? null : api.post('/v1/test/clock/advance', { seconds: pick([60, 3_600, 90_000]), payment_id: pick(known) }),
    tabs: () => onOrder((at, id) => Promise.all([pay(at, id), pay(at, id)])),
    thanks: () => onOrder((at, id) => at.ask(`/orders/${id}/thanks`)),
    jobs: async () => {
      if (runsJobs) await pick(isCopied ? [shop, copy] : [shop]).ask('/later');
    },
    stock: () => onOrder((at, id) => at.ask(`/orders/${id}/stock`)),
    edit: () => onOrder((at, id) => at.ask(`/orders/${id}/edit`, { total: pick(['20.00', '25.00']) })),
    cancel: () => onOrder((at, id) => at.ask(`/orders/${id}/status`, { status: 'cancelled' })),
    refund: () => onOrder((at, id) => at.ask(`/orders/${id}/refund`, { amount: '1.00' })),
    remove: () => onOrder((at, id) => at.ask(`/orders/${id}/${pick(['trash', 'delete'])}`)),
    backUp: async () => {
      backup = await shop.ask('/options');
    },
    putBack: () => shop.ask('/restore', backup),
    clone: async () => {
      await copy.ask('/restore', reachedBy(await shop.ask('/options'), copy));
      isCopied = true;
    },
    newKey: async () => {
      await revokeApiKey(ctx, { keyId: key.keyId });
      key = await newKey();
    },
    connect: () => shop.ask('/settings', settingsOf(shop, key.key)),
    lose: async () => {
      pick([shop, copy]).loseNext = true;
    },
  };
  const often = ['order', 'paid', 'paid', 'tabs', 'jobs', 'stock', 'time'];
  const taken: string[] = [];
  const step = async (now: readonly string[]) => {
    taken.push(now.join('+'));
    await Promise.all(now.map((name) => acts[name]!()));
  };
  await step(['order']);
  for (let at = 0; at < steps; at += 1) {
    const alone = pick(['', '', 'lose', ...ALONE]);
    const rest = [...often, ...Object.keys(acts).filter((name) => !ALONE.includes(name))];
    await step(alone === '' ? Array.from({ length: 1 + random(3) }, () => pick(rest)) : [alone]);
  }
  await judge({ app, shop, copy }, { api, key: key.key, what: `seed ${seed}${isCopied ? ', copied' : ''}: ${taken.join(', ')}` });
  for (const { id } of (await api.get('/v1/webhook_endpoints')).json.data) await api.delete(`/v1/webhook_endpoints/${id}`);
}
/** The database of a shop, whose copy reaches Florin on its own way. */
function reachedBy(state: any, copy: Shop): any {
  const settings = state.options.woocommerce_florin_settings;
  return { ...state, options: { ...state.options, woocommerce_florin_settings: { ...settings, server_url: copy.florin } } };
}

/** The merchant enters a key that works and the jobs run; then everything has to be in order. */
async function judge({ shop, copy }: Lane, { api, key, what }: { api: Client; key: string; what: string }): Promise<void> {
  for (const one of [shop, copy]) one.loseNext = false;
  await shop.ask('/settings', settingsOf(shop, key));
  const look = async () => {
    await shop.ask('/later');
    const { data } = (await api.get('/api/payments?limit=100')).json;
    const payments: any[] = await Promise.all(data.map(async ({ id }: any) => (await api.get(`/api/payment/${id}`)).json));
    const state = await shop.ask('/options');
    const words = JSON.stringify([
      Object.values(state.orders).map((order: any) => [order.status === 'trash' ? [] : order.notes, order.meta._florin_booked]),
      state.options.florin_payments_unplaced ?? {},
    ]);
    const own = payments.filter((one) => one.metadata.shop === shop.url);
    const unseen = own.filter((one) => money(one) && one.amount_refunded !== one.amount_received && !words.includes(one.id));
    return { payments, own, state, unseen };
  };
  const seen = await eventually(look, ({ unseen }) => unseen.length === 0).catch(look);
  const orders: any[] = Object.values(seen.state.orders);
  const copied: any[] = Object.values((await copy.ask('/options')).orders);
  const story = `${what}\n${JSON.stringify({ orders, copied, unplaced: seen.state.options.florin_payments_unplaced }, null, 1)}`;
  assert.deepEqual(
    seen.unseen.map(({ id }) => id),
    [],
    `money without a word to anybody: ${story}`,
  );
  for (const [at, order] of [...orders.map((one) => [shop, one] as const), ...copied.map((one) => [copy, one] as const)])
    judgeOrder(at, order, { payments: seen.payments, story });
  for (const at of [shop, copy]) {
    const foreign = (id: unknown) => seen.payments.some((one) => one.id === id && one.metadata.shop !== at.url);
    for (const { path, body } of at.acts)
      assert.ok(!foreign(path.split('/')[3]) && !foreign(body.payment_id) && !foreign(body.replaces), `${path} of another shop: ${story}`);
  }
}

function judgeOrder(at: Shop, order: any, { payments, story }: { payments: any[]; story: string }): void {
  const own = payments.filter(({ metadata }) => metadata.order_key === order.key && metadata.shop === at.url);
  const booked = payments.find(({ id }) => id === order.meta._florin_booked);
  assert.ok((order.completions ?? 0) <= 1 && order.late_hooks === undefined, story);
  if (order.completions) {
    assert.equal(booked?.metadata.order_key, order.key, story);
    assert.deepEqual([booked.status, booked.amount_fiat], ['completed', order.completed_for], story);
  }
  // A copy also has what the shop did before it was copied.
  const here = ((order.history ?? []) as [string, string, string, string][]).filter(([, , by, home]) => by !== 'hand' && home === at.url);
  for (const [, after] of here) {
    if (after === 'processing') assert.equal(booked?.metadata.shop, at.url, `paid by money for another shop: ${story}`);
    if (after !== 'cancelled') continue;
    const paid = own.filter((one) => money(one) && !one.exceptions.some((name: string) => ['paid_after_cancel', 'late'].includes(name)));
    assert.deepEqual(paid, [], `a paid order was canceled: ${story}`);
  }
}
