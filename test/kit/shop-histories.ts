/**
 * Random histories of orders: what customers and the merchant do to simulated payments, while their shop fails now and then and the worker
 * is killed. Checks what the shop took.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { idOfNumber } from '../../src/core/id.ts';
import { SCENARIOS } from '../../src/core/simulated.ts';
import { SHOP_WORK } from '../../src/settling/shop-queue.ts';
import type { InvoiceEvent, InvoiceStatus } from '../../src/shops/greenfield/invoice-body.ts';
import { eventually, type TestApp } from './app.ts';
import { connectPlugin, type PluginShop, startShopApp } from './connected-shop.ts';
import { checkSequence } from './invoice-sequence.ts';
import { ok } from './shop-flows.ts';
import { startWorker, type Worker } from './worker.ts';

const oneOf = fc.constantFrom;
/** What someone does to an order. The service refuses some, such as accepting money of an order that is open. */
const act = fc.oneof(
  { weight: 5, arbitrary: fc.record({ simulate: oneOf(...SCENARIOS), currency: oneOf('BTC', 'ETH', 'USDC') }) },
  { weight: 2, arbitrary: fc.record({ advance: oneOf(60, 700, 5_000) }) },
  { weight: 1, arbitrary: fc.record({ cancel: fc.constant(true) }) },
  { weight: 2, arbitrary: fc.record({ resolve: oneOf('accept', 'reject') }) },
  { weight: 2, arbitrary: fc.record({ mark: oneOf('Settled', 'Invalid') }) },
);
type Act = Partial<{ simulate: string; currency: string; advance: number; cancel: boolean; resolve: string; mark: string }>;
const history = fc.array(fc.record({ act, pauseMs: oneOf(0, 0, 100, 700, 1_500) }), { minLength: 1, maxLength: 5 });
type History = { act: Act; pauseMs: number }[];

async function perform({ api, call, store }: PluginShop, id: string, { simulate, currency, advance, cancel, resolve, mark }: Act) {
  if (simulate !== undefined) return api.post(`/v1/test/payments/${id}/simulate`, { scenario: simulate, currency });
  if (advance !== undefined) return api.post('/v1/test/clock/advance', { payment_id: id, seconds: advance });
  if (cancel !== undefined) return api.post(`/v1/payments/${id}/cancel`);
  if (resolve !== undefined) return api.post(`/v1/payments/${id}/resolve`, { action: resolve });
  return call('POST', `/api/v1/stores/${store}/invoices/${id}/status`, { status: mark });
}

/**
 * How the shop answers a request: it takes the event; refuses it; hangs up before or after it took the event; or the worker is killed while
 * it waits for the answer, before or after the event is taken. In a long run, some requests get no answer until they time out.
 */
const ANSWERS = ['take', 'refuse', 'hang up', 'take, hang up', 'kill', 'take, kill', 'no answer'] as const;
type Answer = (typeof ANSWERS)[number];
/** A delivery that failed this often is taken: no delivery may give up. Of other endpoints, later events would not wait that long. */
const MOST_FAILURES = 6;

type Taken = { deliveryId: string; invoiceId: string; event: any };
type Site = {
  url: string;
  /** In the order in which the shop took them. */
  taken: Taken[];
  /** What was wrong when an event arrived. */
  faults: string[];
  counts: Map<Answer, number>;
  /** Requests without an answer yet. */
  open(): number;
  /** The worker is killed while the next request waits. Resolves when it waits. */
  holdNext(taken: boolean): Promise<void>;
};

async function startSite(
  t: TestContext,
  { answers, check }: { answers: readonly Answer[]; check(event: any): Promise<void> },
): Promise<Site> {
  const failures = new Map<string, number>();
  let open = 0;
  let next = 0;
  let hold: { taken: boolean; waits(): void } | null = null;
  const site: Site = {
    url: '',
    taken: [],
    faults: [],
    counts: new Map(),
    open: () => open,
    holdNext: (taken) =>
      new Promise((waits) => {
        hold = { taken, waits };
      }),
  };
  const server = createServer(async (request, reply) => {
    open++;
    const closed = new Promise<void>((resolve) => void reply.once('close', () => resolve(void open--)));
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part as Buffer);
    } catch {
      // The worker was killed while it sent.
      return;
    }
    const event = JSON.parse(Buffer.concat(parts).toString());
    const { originalDeliveryId: deliveryId, invoiceId } = event;
    const failed = failures.get(deliveryId) ?? 0;
    const held = hold;
    hold = null;
    const answer: Answer = held
      ? held.taken
        ? 'take, kill'
        : 'kill'
      : failed >= MOST_FAILURES
        ? 'take'
        : answers[next++ % answers.length]!;
    site.counts.set(answer, (site.counts.get(answer) ?? 0) + 1);
    if (answer !== 'take') failures.set(deliveryId, failed + 1);
    await check(event).catch((error: Error) => void site.faults.push(error.message));
    if (answer.startsWith('take')) site.taken.push({ deliveryId, invoiceId, event });
    if (held) {
      held.waits();
      await closed;
    } else if (answer === 'take') reply.writeHead(200).end();
    else if (answer === 'refuse') reply.writeHead(500).end();
    else if (answer !== 'no answer') request.socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  site.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return site;
}

const eventOf = ({ type, payment, afterExpiration, overPaid, partiallyPaid, manuallyMarked }: any): InvoiceEvent => ({
  ...{ type, ref: payment?.id, afterExpiration, overPaid, partiallyPaid, manuallyMarked },
});
/** The status that an event says. Those about single transfers say none. */
const SAYS: Readonly<Record<string, InvoiceStatus>> = {
  InvoiceCreated: 'New',
  InvoiceProcessing: 'Processing',
  InvoiceSettled: 'Settled',
  InvoiceExpired: 'Expired',
  InvoiceInvalid: 'Invalid',
};

export type Report = { orders: number; kills: number; events: number; requests: number; answers: object; statuses: object };

/** Plays random histories of `orders`, with as many kills of the worker. `slow`: how many requests get no answer until they time out. */
export async function playHistories(
  t: TestContext,
  { orders, kills, slow = 0, seed }: { orders: number; kills: number; slow?: number; seed: number },
): Promise<Report> {
  const PLANS = '{"enterprise":{"per_minute":0}}';
  const app = await startShopApp({ PLANS }, { roles: ['api'] });
  t.after(() => app.stop());
  const shop = await connectPlugin(app, { platform: 'magento' });
  const read = async (id: string) => ok(await shop.call('GET', `/api/v1/stores/${shop.store}/invoices/${id}`));
  const mix: Answer[] = fc.sample(oneOf<Answer>('take', 'take', 'take', 'refuse', 'hang up', 'take, hang up'), { seed, numRuns: 2_000 });
  for (let i = 0; i < slow; i++) mix.splice(20 * (i + 1), 0, 'no answer');
  const site = await startSite(t, {
    answers: mix,
    // A shop reads the invoice again: it must be as far as the event.
    check: async ({ type, invoiceId }) => {
      const { status, additionalStatus } = await read(invoiceId);
      assert.ok(['None', 'PaidPartial', 'PaidOver', 'Marked'].includes(additionalStatus), `${invoiceId} is ${additionalStatus}`);
      if (type === 'InvoiceSettled') assert.equal(status, 'Settled', `${invoiceId} at its InvoiceSettled`);
    },
  });
  ok(await shop.call('POST', `/api/v1/stores/${shop.store}/webhooks`, { url: site.url, authorizedEvents: { everything: true } }));
  const spawn = (): Worker => startWorker(t, { url: app.config.databaseUrl!, folder: app.config.dataFolder }, { PLANS });
  let worker = spawn();
  const { sql } = app.app.ctx.db;
  // Retries follow after minutes and hours: the test moves them, some sooner than others.
  let isMoving = true;
  const moving = (async () => {
    while (isMoving) {
      await sql`update endpoints set rests_until = null where rests_until is not null`;
      await sql`
        update deliveries set due_at = clock_timestamp()
        where state = 'pending' and not waits and due_at > clock_timestamp() and random() < 0.2 and (leased_until is null or leased_until < clock_timestamp())`;
      await sql`select pg_notify('deliveries', '')`;
      await sleep(50);
    }
  })();
  const killWorker = async () => {
    await worker.kill();
    // The leases of a killed worker end after a minute, when its requests are over. Here they end when the shop has seen that they are.
    await eventually(
      async () => site.open(),
      (open) => open === 0,
    );
    await sql`update deliveries set leased_until = null where state = 'pending'`;
    worker = spawn();
  };

  const ids: string[] = [];
  const play = async (steps: History, orderId: string) => {
    const body = { amount: '25', currency: 'USD', metadata: { orderId }, checkout: {} };
    const { id } = ok(await shop.call('POST', `/api/v1/stores/${shop.store}/invoices`, body));
    ids.push(id);
    for (const step of steps) {
      await sleep(step.pauseMs);
      const { status, text } = await perform(shop, id, step.act);
      assert.ok(status < 500, `${JSON.stringify(step.act)}: ${status} ${text}`);
    }
  };
  const all = fc.sample(history, { seed, numRuns: orders }) as History[];
  const moments = fc.sample(fc.record({ held: fc.boolean(), taken: fc.boolean(), pauseMs: fc.nat(300) }), { seed, numRuns: kills });
  for (const [round, { held, taken, pauseMs }] of moments.entries()) {
    const before = site.taken.length;
    const waits = held ? site.holdNext(taken) : null;
    const some = all.filter((_, i) => i % kills === round).map((steps, i) => play(steps, `${round}-${i}`));
    if (waits) await waits;
    else {
      await eventually(
        async () => site.taken.length,
        (count) => count > before,
        // A shop that fails again and again gets one request at a time, and one without an answer takes half a minute.
        180_000,
      );
      await sleep(pauseMs);
    }
    await killWorker();
    await Promise.all(some);
  }
  // Everything ends: what still waits for money expires, what is on its way is confirmed.
  await eventually(
    async () => {
      await shop.api.post('/v1/test/clock/advance', { seconds: 86_400 });
      const [left] = await sql<{ open: bigint; due: bigint; pending: bigint }[]>`
        select (select count(*) from payments where status in ('pending', 'processing')) as open,
          (select count(*) from due_work where kind in ('settle', ${SHOP_WORK})) as due,
          (select count(*) from deliveries where state = 'pending') as pending`;
      return left!;
    },
    ({ open, due, pending }) => open + due + pending === 0n,
    120_000,
  );
  isMoving = false;
  await moving;
  assert.deepEqual(site.faults, []);
  const statuses: Record<string, number> = {};
  for (const id of ids) {
    const { status, additionalStatus } = await read(id);
    await checkOrder(app, site, { id, status });
    const shown = `${status} ${additionalStatus}`;
    statuses[shown] = (statuses[shown] ?? 0) + 1;
  }
  return {
    ...{ orders, kills, statuses },
    events: new Set(site.taken.map(({ deliveryId }) => deliveryId)).size,
    requests: [...site.counts.values()].reduce((sum, count) => sum + count, 0),
    answers: Object.fromEntries(site.counts),
  };
}

/** What the shop took of one order: each event, in order, some twice in a row; legal, and leading to how the order is now. */
async function checkOrder({ app: { ctx } }: TestApp, site: Site, { id, status }: { id: string; status: InvoiceStatus }): Promise<void> {
  const rows = await ctx.db.sql<{ id: bigint; sequence: bigint }[]>`
    select id, sequence from deliveries where payment_id = ${id} order by sequence`;
  const sequenceOf = new Map(rows.map((row) => [idOfNumber('del', ctx.installKey, row.id), row.sequence]));
  const taken = site.taken.filter(({ invoiceId }) => invoiceId === id);
  const story = `${id}: ${taken.map(({ event, deliveryId }) => `${sequenceOf.get(deliveryId)} ${event.type}`).join(', ')}`;
  const once = taken.filter(({ deliveryId }, i) => deliveryId !== taken[i - 1]?.deliveryId);
  assert.deepEqual(
    once.map(({ deliveryId }) => sequenceOf.get(deliveryId)),
    rows.map(({ sequence }) => sequence),
    `each event once and in order; ${story}`,
  );
  for (const { event } of taken) assert.ok(!JSON.stringify(event).includes('PaidLate'), story);
  const events = once.map(({ event }) => event);
  try {
    checkSequence(events.map(eventOf));
  } catch (error) {
    throw new Error(story, { cause: error });
  }
  const said = SAYS[events.findLast(({ type }) => SAYS[type])!.type]!;
  const hasEnded = (one: InvoiceStatus): boolean => one === 'Expired' || one === 'Invalid';
  // Which of the two ends it was may change without an event.
  assert.ok(said === status || (hasEnded(said) && hasEnded(status)), `the shop knows ${said}, and it is ${status}; ${story}`);
}
