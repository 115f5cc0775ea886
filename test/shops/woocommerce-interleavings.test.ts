/** The WooCommerce plugin under everything at once: webhooks, the customer, checks, the administration, the stock job, in several PHP processes. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { eventually, startTestApp } from '../kit/app.ts';
import { randomOf } from '../kit/range-histories.ts';
import { shiftMs } from '../kit/shifted-clock.ts';
import { startWordPress } from '../kit/wordpress.ts';

const skip: string | false =
  (spawnSync('php', ['--version']).status !== 0 && 'PHP is not installed') || (shiftMs() !== 0 && 'PHP reads the real clock');
const RUNS = 100;
const LANES = 5;

test('whatever meets whatever, an order is completed once at its price, and no money is lost from sight', { skip }, async (t) => {
  const app = await startTestApp();
  t.after(() => app.stop());
  const shop = await startWordPress();
  t.after(() => shop.stop());
  async function ask(path: string, body: unknown = {}): Promise<any> {
    const reply = await fetch(shop.url + path, { method: 'POST', body: JSON.stringify(body) });
    const text = await reply.text();
    assert.equal(reply.status, 200, `${path}: ${text}`);
    assert.doesNotMatch(text, /Warning|Notice|Deprecated|Fatal/, path);
    return text.startsWith('{') ? JSON.parse(text) : text;
  }
  const read = async (payment: string) => (await app.test.get(`/api/payment/${payment}`)).json;
  const paymentsOf = async (id: number): Promise<any[]> => {
    const { data } = (await app.test.get(`/api/payments?invoice_id=${id}&limit=100`)).json;
    return Promise.all(data.filter((one: any) => one.invoice_id === String(id)).map((one: any) => read(one.id)));
  };
  const money = ({ amount_received, amount_held }: any) => Number(amount_received) > 0 || Number(amount_held) > 0;

  async function run(seed: number): Promise<void> {
    const random = randomOf(seed);
    const pick = <Of>(list: readonly Of[]): Of => list[random(list.length)]!;
    const { id } = await ask('/orders', { total: '20.00' });
    await ask(`/orders/${id}/pay`);
    const onPayment = async (path: (payment: string) => string, body: object) => {
      const payments = await paymentsOf(id);
      if (payments.length > 0) await app.test.post(path(payments[random(payments.length)].id), body);
    };
    const acts: Record<string, () => Promise<unknown>> = {
      paid: () =>
        onPayment((payment) => `/v1/test/payments/${payment}/simulate`, { scenario: pick(['success', 'slow', 'underpaid', 'overpaid']) }),
      late: () => onPayment((payment) => `/v1/test/payments/${payment}/simulate`, { scenario: 'late' }),
      time: async () => {
        const [payment] = await paymentsOf(id);
        await app.test.post('/v1/test/clock/advance', { seconds: pick([60, 3_600, 90_000]), payment_id: payment.id });
      },
      thanks: () => ask(`/orders/${id}/thanks`),
      check: () => ask(`/orders/${id}/check`),
      pay: async () => {
        // WooCommerce shows the button only for these.
        if (['pending', 'failed'].includes((await ask(`/orders/${id}`)).status)) await ask(`/orders/${id}/pay`);
      },
      stock: () => ask(`/orders/${id}/stock`),
      edit: () => ask(`/orders/${id}/edit`, { total: pick(['20.00', '25.00']) }),
      method: () => ask(`/orders/${id}/edit`, { method: pick(['bacs', 'florin', 'florin']) }),
      cancel: () => ask(`/orders/${id}/status`, { status: 'cancelled' }),
      refundedByHand: () => ask(`/orders/${id}/status`, { status: 'refunded' }),
      refund: () => ask(`/orders/${id}/refund`, { amount: '1.00' }),
    };
    const common = ['paid', 'paid', 'thanks', 'check', 'pay', 'time', 'stock'];
    const taken: string[] = [];
    for (let step = 0; step < 5; step += 1) {
      const now = Array.from({ length: 1 + random(3) }, () => pick([...common, ...Object.keys(acts)]));
      taken.push(now.join('+'));
      await Promise.all(now.map((name) => acts[name]!()));
    }
    // The last events may be on their way: what has to be true in the end is waited for, what must never be true is looked at then.
    const unseen = async () => {
      await ask(`/orders/${id}/check`);
      const order = await ask(`/orders/${id}`);
      const words = JSON.stringify(order.notes);
      return (await paymentsOf(id)).filter(
        (payment) => money(payment) && payment.id !== order.meta._florin_booked && !words.includes(payment.id),
      );
    };
    const what = `seed ${seed}: ${taken.join(', ')}`;
    const lost = await eventually(unseen, (list) => list.length === 0).catch(unseen);
    const order = await ask(`/orders/${id}`);
    const story = `${what}\n${JSON.stringify(order, null, 1)}`;
    assert.deepEqual(
      lost.map((payment) => payment.id),
      [],
      story,
    );
    assert.ok((order.completions ?? 0) <= 1 && order.late_hooks === undefined, story);
    const booked = order.meta._florin_booked;
    if (order.completions) {
      const payment = await read(booked);
      assert.deepEqual([payment.status, payment.amount_fiat], ['completed', order.completed_for], story);
    }
    for (const payment of await paymentsOf(id))
      if (payment.status === 'cancelled') assert.ok(!money(payment) || payment.exceptions.includes('paid_after_cancel'), story);
    // Each change of status, from what the request that made it had read.
    for (const [before, after] of (order.history ?? []) as [string, string][]) {
      if (before !== 'cancelled' || after === 'refunded') continue;
      assert.equal(after, 'on-hold', story);
      assert.match(JSON.stringify(order.notes), /for this canceled order/, story);
    }
  }

  await ask('/settings', { enabled: 'yes', server_url: app.url, api_key: app.merchant.keys.testSecret, title: 'Coins', description: '' });
  const from = Number(process.env.SEED ?? 1);
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (let at = lane; at < RUNS; at += LANES) await run(from + at);
    }),
  );
});
