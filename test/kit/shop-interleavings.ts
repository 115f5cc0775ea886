/**
 * Random orders of what happens to the orders of a WooCommerce shop: webhooks, the customer, checks, the administration, the stock
 * job and refunds meet in several PHP processes.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { eventually, startTestApp, type TestApp } from './app.ts';
import { randomOf } from './range-histories.ts';
import { startWordPress } from './wordpress.ts';

const LANES = 6;

/** One request to a shop, which never warns. */
export async function askShop(url: string, path: string, body: unknown = {}): Promise<any> {
  const reply = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) });
  const text = await reply.text();
  assert.equal(reply.status, 200, `${path}: ${text}`);
  assert.doesNotMatch(text, /Warning|Notice|Deprecated|Fatal/, path);
  return text.startsWith('{') ? JSON.parse(text) : text;
}
export const money = ({ amount_received, amount_held }: any) => Number(amount_received) > 0 || Number(amount_held) > 0;

/** Schedules, from a seed on, of so many steps each. */
export type Schedules = { from: number; runs: number; steps: number };

/** Says how long schedules took, for those who plan longer runs. */
export function reportSchedules(t: TestContext, { from, runs }: Schedules, startedAt: number): void {
  const seconds = (performance.now() - startedAt) / 1_000;
  t.diagnostic(`seeds ${from} to ${from + runs - 1}: ${seconds.toFixed(0)} s, ${(runs / seconds).toFixed(1)} schedules a second`);
}

/** Runs schedules, some at a time, in one shop. `cached`: an object cache keeps its orders between requests. */
export async function interleave(t: TestContext, { from, runs, steps, cached = false }: Schedules & { cached?: boolean }): Promise<void> {
  // A shop asks as often as it needs: thousands of schedules pass the limit of a plan within a minute.
  const app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}' });
  t.after(() => app.stop());
  const shop = await startWordPress({ cached });
  t.after(() => shop.stop());
  const ask = (path: string, body?: unknown) => askShop(shop.url, path, body);
  await ask('/settings', { enabled: 'yes', server_url: app.url, api_key: app.merchant.keys.testSecret, title: 'Coins', description: '' });
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (let at = lane; at < runs; at += LANES) await interleaveOne({ app, ask }, { seed: from + at, steps });
    }),
  );
  reportSchedules(t, { from, runs, steps }, startedAt);
}

type World = { app: TestApp; ask(path: string, body?: unknown): Promise<any> };
async function interleaveOne({ app, ask }: World, { seed, steps }: { seed: number; steps: number }): Promise<void> {
  const random = randomOf(seed);
  const pick = <Of>(list: readonly Of[]): Of => list[random(list.length)]!;
  const { id } = await ask('/orders', { total: '20.00' });
  const known = new Set<string>();
  const pay = async (button: 'pay' | 'button') => {
    const { redirect } = await ask(`/orders/${id}/${button}`);
    const payment = redirect === undefined ? null : new URL(redirect).searchParams.get('id');
    if (payment !== null) known.add(payment);
  };
  await pay('pay');
  const simulate = (scenario: string) => app.test.post(`/v1/test/payments/${pick([...known])}/simulate`, { scenario });
  const acts: Record<string, () => Promise<unknown>> = {
    paid: () => simulate(pick(['success', 'slow', 'underpaid', 'overpaid'])),
    late: () => simulate('late'),
    time: () => app.test.post('/v1/test/clock/advance', { seconds: pick([60, 3_600, 90_000]), payment_id: pick([...known]) }),
    thanks: () => ask(`/orders/${id}/thanks`),
    check: () => ask(`/orders/${id}/check`),
    pay: () => pay('button'),
    stock: () => ask(`/orders/${id}/stock`),
    edit: () => ask(`/orders/${id}/edit`, { total: pick(['20.00', '25.00']) }),
    method: () => ask(`/orders/${id}/edit`, { method: pick(['bacs', 'florin', 'florin']) }),
    cancel: () => ask(`/orders/${id}/status`, { status: 'cancelled' }),
    paidByHand: () => ask(`/orders/${id}/status`, { status: 'processing' }),
    refundedByHand: () => ask(`/orders/${id}/status`, { status: 'refunded' }),
    refund: () => ask(`/orders/${id}/refund`, { amount: '1.00' }),
  };
  const often = ['paid', 'paid', 'thanks', 'check', 'pay', 'time', 'stock'];
  const taken: string[] = [];
  for (let step = 0; step < steps; step += 1) {
    const now = Array.from({ length: 1 + random(3) }, () => pick([...often, ...Object.keys(acts)]));
    taken.push(now.join('+'));
    await Promise.all(now.map((name) => acts[name]!()));
  }
  await judge({ app, ask }, id, `seed ${seed}: ${taken.join(', ')}`);
}

/** The last events may be on their way: what has to be true in the end is waited for, what must never be true is looked at then. */
async function judge({ app, ask }: World, id: number, what: string): Promise<void> {
  const look = async () => {
    const order = await ask(`/orders/${id}/check`);
    const listed = await app.test.get(`/api/payments?invoice_id=${id}&limit=100`);
    assert.equal(listed.status, 200, `${what}: ${listed.text}`);
    const { data } = listed.json;
    const own = data.filter((one: any) => one.invoice_id === String(id));
    const payments: any[] = await Promise.all(own.map(async (one: any) => (await app.test.get(`/api/payment/${one.id}`)).json));
    const words = JSON.stringify(order.notes);
    const unseen = payments.filter((one) => money(one) && one.id !== order.meta._florin_booked && !words.includes(one.id));
    return { order, payments, unseen };
  };
  const { order, payments, unseen } = await eventually(look, (seen) => seen.unseen.length === 0).catch(look);
  const story = `${what}\n${JSON.stringify(order, null, 1)}`;
  assert.deepEqual(
    unseen.map((payment) => payment.id),
    [],
    story,
  );
  assert.ok((order.completions ?? 0) <= 1 && order.late_hooks === undefined, story);
  if (order.completions) {
    const payment = payments.find((one) => one.id === order.meta._florin_booked);
    assert.deepEqual([payment?.status, payment?.amount_fiat], ['completed', order.completed_for], story);
  }
  for (const payment of payments)
    if (payment.status === 'cancelled') assert.ok(!money(payment) || payment.exceptions.includes('paid_after_cancel'), story);
  // Each change of status, from what the request that made it had read.
  for (const [before, after, by] of (order.history ?? []) as [string, string, string][]) {
    if (before !== 'cancelled' || by === 'hand') continue;
    assert.equal(after, 'on-hold', story);
    assert.match(JSON.stringify(order.notes), /for this canceled order/, story);
  }
}
