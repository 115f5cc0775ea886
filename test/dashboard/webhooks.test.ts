/** Webhooks in the dashboard's API: endpoints and their secrets, health, deliveries, resending and stopping it. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { EVENT_TYPES, UPDATED_EVENT } from '../../src/core/event.ts';
import { FULL_SIGHT, sightOf } from '../../src/core/transfer.ts';
import { forgetEvents, listDeliveries, listOutcomes } from '../../src/deliveries/deliveries.ts';
import { countMissed, listHealth, listHours, readWebhookPulse } from '../../src/deliveries/health.ts';
import { createMerchant, setPlan } from '../../src/merchants/merchants.ts';
import { changeFromJson } from '../../src/people/members.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

const PATIENT = 60_000;
let app: TestApp;
let owner: Person;
let hook: Receiver;
before(async () => {
  app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}', LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
  hook = await startReceiver();
});
after(async () => {
  await hook?.stop();
  await app?.stop();
});
beforeEach(async () => {
  hook.answer(200);
  hook.received.length = 0;
  for (const { id } of ok(await owner.get('/test/webhooks')).data) ok(await owner.send('DELETE', `/test/webhooks/${id}`, {}));
});

const ok = (reply: Reply): any => {
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const refused = (reply: Reply, status: number, code: string, param: string | null = null) => {
  assert.equal(reply.status, status, reply.text);
  assert.deepEqual([reply.json.error.code, reply.json.error.param], [code, param]);
};
const add = async (fields: object = {}): Promise<any> => ok(await owner.post('/test/webhooks', { url: hook.url, ...fields })).endpoint;
const pay = async (): Promise<string> =>
  (
    await app.test.post('/api/payment/create/simple', {
      amount_usd: 25,
      return_url: 'https://shop.example/',
      payment_address: 'test_btc_success',
    })
  ).json.id;
const deliveries = async (query: string): Promise<any[]> => ok(await owner.get(`/test/deliveries?limit=100&${query}`)).data;
const audited = async (object: string): Promise<any[]> => {
  const rows = await app.app.ctx.db.sql`select action, before, after, actor_name from audit_log where object = ${object} order by id`;
  return rows.map((row) => ({ ...row, before: changeFromJson(row.before), after: changeFromJson(row.after) }));
};
/** Paused, so that nothing is sent to it while a test looks at waiting deliveries. */
const rest = (id: string) => app.app.ctx.db.sql`update endpoints set rests_until = now() + interval '1 day', failures = 9 where id = ${id}`;

test('an endpoint is created, read, changed, paused, resumed and deleted; each action is logged, but no secret', async () => {
  const made = await add({ events: ['payment.completed', 'payment.updated'], description: 'Orders' });
  assert.match(made.secret, /^whsec_/);
  const listed = ok(await owner.get('/test/webhooks'));
  assert.deepEqual([listed.on_plan, listed.limit, listed.data.length], [true, 16, 1]);
  assert.equal(JSON.stringify(listed).includes('whsec_'), false, 'a list shows no secret');
  const path = `/test/webhooks/${made.id}`;
  assert.deepEqual(ok(await owner.get(path)).endpoint, listed.data[0]);
  assert.equal(ok(await owner.post(path, { description: 'Till' })).endpoint.description, 'Till');
  assert.deepEqual(ok(await owner.post(path, { enabled: false })).endpoint.disabled_reason, 'merchant');
  assert.equal(ok(await owner.post(path, { enabled: true })).endpoint.enabled, true);
  refused(await owner.post(path, { url: 'https://10.0.0.1/hook' }), 400, 'url_invalid', 'url');
  refused(await owner.post('/test/webhooks', { url: 'ftp://shop.example/' }), 400, 'url_invalid', 'url');
  refused(await owner.post('/test/webhooks', { url: hook.url, events: ['payment.lost'] }), 400, 'parameter_invalid', 'events[0]');
  refused(await owner.post(`${path}/test`, { type: 'payment.lost' }), 400, 'parameter_invalid', 'type');
  assert.equal(ok(await owner.post(`${path}/secret`)).endpoint.secret, made.secret);
  const rolled = ok(await owner.post(`${path}/rotate`, { expires_in: 604_800 })).endpoint;
  assert.notEqual(rolled.secret, made.secret);
  assert.ok(Math.abs(Date.parse(rolled.previous_secret_expires_at) - Date.now() - 604_800_000) < 60_000);
  assert.equal(ok(await owner.post(`${path}/secret`)).endpoint.secret, rolled.secret);
  refused(await owner.post(`${path}/rotate`, { expires_in: 604_801 }), 400, 'parameter_invalid', 'expires_in');
  ok(await owner.send('DELETE', path, {}));
  refused(await owner.get(path), 404, 'endpoint_not_found');
  const log = await audited(made.id);
  assert.deepEqual(
    log.map((row) => row.action.replace('endpoint.', '')),
    ['create', 'update', 'update', 'update', 'secret_shown', 'secret_rolled', 'secret_shown', 'delete'],
  );
  assert.deepEqual([log[2].before.enabled, log[2].after.enabled, log[2].actor_name], [true, false, 'Olga Owner']);
  assert.equal(JSON.stringify(log).includes('whsec_'), false);
});

test('objects of another merchant or mode are not found', async (t) => {
  const { ctx } = app.app;
  const other = await createMerchant(ctx, { name: 'Other shop', plan: 'enterprise' });
  const theirs = app.as(other.keys.testSecret);
  // What is sent to them is not counted by the tests below, however late it comes.
  const elsewhere = await startReceiver();
  t.after(() => elsewhere.stop());
  const endpoint = (await theirs.post('/v1/webhook_endpoints', { url: elsewhere.url })).json;
  const payment = (await theirs.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://a.example/' })).json.id;
  const [delivery] = await eventually(
    async () => (await theirs.get('/v1/webhook_deliveries')).json.data,
    (all) => all.length > 0,
  );
  const recovery = (await theirs.post(`/v1/webhook_endpoints/${endpoint.id}/recover`, { since: '2026-01-01T00:00:00Z' })).json;
  const mine = await add();
  const since = 'since=2026-01-01T00:00:00Z';
  for (const [mode, id] of [
    ['test', endpoint.id],
    ['live', mine.id],
  ]) {
    const path = `/${mode}/webhooks/${id}`;
    for (const read of ['', '/hours', '/recoveries', `/missed?${since}`]) refused(await owner.get(path + read), 404, 'endpoint_not_found');
    refused(await owner.post(path, { description: 'mine' }), 404, 'endpoint_not_found');
    refused(await owner.post(`${path}/secret`), 404, 'endpoint_not_found');
    refused(await owner.post(`${path}/rotate`, { expires_in: 0 }), 404, 'endpoint_not_found');
    refused(await owner.post(`${path}/test`, { type: 'webhook.test' }), 404, 'endpoint_not_found');
    refused(await owner.post(`${path}/recoveries`, { since: '2026-01-01T00:00:00Z' }), 404, 'endpoint_not_found');
    refused(await owner.send('DELETE', path, {}), 404, 'endpoint_not_found');
    assert.deepEqual(ok(await owner.get(`/${mode}/deliveries?endpoint_id=${id}`)).data, []);
  }
  refused(await owner.get(`/test/deliveries/${delivery.id}`), 404, 'delivery_not_found');
  refused(await owner.post(`/test/deliveries/${delivery.id}/resend`), 404, 'delivery_not_found');
  refused(await owner.post(`/test/recoveries/${recovery.id}/cancel`), 404, 'recovery_not_found');
  refused(await owner.post(`/test/payments/${payment}/resend`), 404, 'payment_not_found');
  assert.deepEqual(await deliveries(`payment_id=${payment}`), []);
  refused(await owner.get(`/test/deliveries?starting_after=${delivery.id}`), 400, 'cursor_invalid', 'starting_after');
});

test('in test mode an event of any type can be sent, about a payment that does not exist; live mode sends only webhook.test', async () => {
  const { id } = await add({ events: ['payment.failed'] });
  const types = [...EVENT_TYPES, UPDATED_EVENT, 'webhook.test'];
  for (const type of types) {
    const { delivery } = ok(await owner.post(`/test/webhooks/${id}/test`, { type }));
    assert.deepEqual([delivery.event_type, delivery.payment_id], [type, null]);
  }
  await eventually(
    async () => hook.received.length,
    (n) => n === types.length,
    PATIENT,
  );
  assert.deepEqual(hook.received.map(({ event }) => event.type).sort(), [...types].sort());
  for (const { event } of hook.received) {
    assert.equal(event.mode, 'test');
    if (event.type !== 'webhook.test') assert.equal((await app.test.get(`/api/payment/${event.data.id}`)).status, 404);
  }
  assert.deepEqual(
    (await app.test.get('/v1/events?limit=100')).json.data.filter((event: any) => hook.received.some((hit) => hit.event.id === event.id)),
    [],
    'made-up events are not among what happened',
  );
  const live = ok(await owner.post('/live/webhooks', { url: hook.url })).endpoint;
  refused(await owner.post(`/live/webhooks/${live.id}/test`, { type: 'payment.completed' }), 400, 'parameter_invalid', 'type');
  ok(await owner.post(`/live/webhooks/${live.id}/test`, { type: 'webhook.test' }));
  ok(await owner.send('DELETE', `/live/webhooks/${live.id}`, {}));
});

test('successful and failed attempts of an endpoint are counted exactly, per hour', async () => {
  const { id } = await add({ events: ['payment.created'] });
  await pay();
  await pay();
  await eventually(
    () => deliveries(`endpoint_id=${id}&state=delivered`),
    (all) => all.length === 2,
    PATIENT,
  );
  hook.answer(503);
  await pay();
  const [waiting] = await eventually(
    () => deliveries(`endpoint_id=${id}&state=pending`),
    ([row]) => row?.attempt_count === 1,
    PATIENT,
  );
  await rest(id);
  assert.deepEqual([waiting.last_attempt.status, waiting.last_attempt.failure], [503, 'status_503']);
  const { health } = ok(await owner.get(`/test/webhooks/${id}`)).endpoint;
  assert.deepEqual(
    [health.attempts, health.delivered, health.last_failure, health.waiting, health.oldest_waiting_at],
    [3, 2, 'status_503', 1, waiting.created_at],
  );
  assert.ok(Math.abs(Date.parse(health.last_failure_at) - Date.now()) < 120_000);
  const { hours } = ok(await owner.get(`/test/webhooks/${id}/hours`));
  assert.equal(hours.length, 24);
  const sums = new Map<string, number>();
  for (const { outcome, attempts } of hours.flatMap((hour: any) => hour.outcomes)) sums.set(outcome, (sums.get(outcome) ?? 0) + attempts);
  assert.deepEqual([...sums].sort(), [
    ['delivered', 2],
    ['status_503', 1],
  ]);
});

test('counts older than a week are deleted, and those of an endpoint are deleted with it', async () => {
  const { ctx } = app.app;
  const { id } = await add();
  await pay();
  await eventually(
    () => deliveries(`endpoint_id=${id}&state=delivered`),
    (all) => all.length === 1,
    PATIENT,
  );
  const hours = async () => [...(await ctx.db.sql`select outcome from attempt_hours where endpoint_id = ${id} order by outcome`)];
  const forgotten = async () => {
    await forgetEvents(ctx);
    return hours();
  };
  await ctx.db.sql`
    insert into attempt_hours select ${id}, date_trunc('hour', now(), 'UTC') - make_interval(days => d), 'day ' || d, 1, 1, 1, now()
    from unnest('{6,8}'::int[]) d`;
  await eventually(forgotten, (rows) => rows.length === 2, PATIENT);
  assert.deepEqual(
    (await hours()).map((row) => row.outcome),
    ['day 6', 'delivered'],
  );
  await ctx.db.sql`delete from attempts where delivery_id in (select id from deliveries where endpoint_id = ${id})`;
  await ctx.db.sql`delete from deliveries where endpoint_id = ${id}`;
  ok(await owner.send('DELETE', `/test/webhooks/${id}`, {}));
  await eventually(forgotten, (rows) => rows.length === 0, PATIENT);
});

test('an endpoint that answers 410 shows since when it is off, until it is turned on', async () => {
  const { id } = await add();
  hook.answer(410);
  await pay();
  const off = await eventually(
    async () => ok(await owner.get(`/test/webhooks/${id}`)).endpoint,
    (e) => !e.enabled,
    PATIENT,
  );
  assert.equal(off.disabled_reason, 'gone');
  assert.ok(Math.abs(Date.parse(off.health.off_since) - Date.now()) < 120_000);
  ok(await owner.post(`/test/webhooks/${id}`, { enabled: true }));
  const on = ok(await owner.get(`/test/webhooks/${id}`)).endpoint;
  assert.deepEqual([on.enabled, on.disabled_reason, on.health.off_since], [true, null, null]);
});

test('deliveries are filtered by state, type and payment, each page once', async () => {
  const { id } = await add();
  const [first, second] = [await pay(), await pay()];
  await app.test.post(`/v1/test/payments/${first}/simulate`, { scenario: 'success' });
  const done = await eventually(
    () => deliveries(`endpoint_id=${id}&state=delivered`),
    (all) => all.length === 4,
    PATIENT,
  );
  const types = (rows: any[]) => rows.map((row) => row.event_type).sort();
  assert.deepEqual(types(await deliveries(`payment_id=${first}`)), ['payment.completed', 'payment.created', 'payment.processing']);
  assert.deepEqual(types(await deliveries(`payment_id=${second}`)), ['payment.created']);
  assert.deepEqual(types(await deliveries(`endpoint_id=${id}&type=payment.created`)), ['payment.created', 'payment.created']);
  assert.deepEqual(types(await deliveries(`payment_id=${first}&type=payment.completed`)), ['payment.completed']);
  assert.deepEqual(await deliveries(`endpoint_id=${id}&type=payment.failed`), []);
  assert.deepEqual(await deliveries(`endpoint_id=${id}&state=failed`), []);
  const paged: string[] = [];
  for (let after = ''; ; ) {
    const page = ok(await owner.get(`/test/deliveries?endpoint_id=${id}&type=payment.created&limit=1${after}`));
    paged.push(...page.data.map((row: any) => row.id));
    if (!page.has_more) break;
    after = `&starting_after=${page.data.at(-1).id}`;
  }
  assert.deepEqual(
    paged,
    done.filter((row) => row.event_type === 'payment.created').map((row) => row.id),
  );
  refused(await owner.get('/test/deliveries?state=lost'), 400, 'parameter_invalid', 'state');
});

test('one delivery, and all events of a payment, are resent with the same bytes and in order', async () => {
  const { id } = await add();
  const payment = await pay();
  await app.test.post(`/v1/test/payments/${payment}/simulate`, { scenario: 'success' });
  const [newest] = await eventually(
    () => deliveries(`endpoint_id=${id}&state=delivered`),
    (all) => all.length === 3,
    PATIENT,
  );
  const before = hook.received.splice(0).map((hit) => hit.body);
  assert.equal(ok(await owner.post(`/test/payments/${payment}/resend`)).resent, 3);
  await eventually(
    async () => hook.received.length,
    (n) => n === 3,
    PATIENT,
  );
  assert.deepEqual(
    hook.received.map((hit) => hit.body),
    before,
  );
  // A running attempt is not started a second time.
  await eventually(
    () => deliveries(`endpoint_id=${id}&state=delivered`),
    (all) => all.length === 3,
    PATIENT,
  );
  ok(await owner.post(`/test/deliveries/${newest.id}/resend`));
  await eventually(
    async () => hook.received.length,
    (n) => n === 4,
    PATIENT,
  );
  assert.equal(hook.received[3]!.body, before[2]);
  assert.deepEqual(
    (await audited(payment)).map((row) => [row.action, row.after]),
    [['payment.events_resent', { deliveries: 3 }]],
  );
  assert.equal((await audited(newest.id))[0].action, 'delivery.resend');
  ok(await owner.post(`/test/webhooks/${id}`, { enabled: false }));
  assert.equal(ok(await owner.post(`/test/payments/${payment}/resend`)).resent, 0, 'a paused endpoint gets nothing');
  refused(await owner.post(`/test/deliveries/${newest.id}/resend`), 409, 'endpoint_disabled');
});

test('the timeline of a payment shows the result of each delivery: delivered, retrying or failed, with links to what still exists', async () => {
  const strict = await startReceiver();
  try {
    const good = await add({ description: 'Orders' });
    const bad = ok(await owner.post('/test/webhooks', { url: strict.url })).endpoint;
    strict.answer(503);
    const id = await pay();
    const told = async (): Promise<any[]> => ok(await owner.get(`/test/payments/${id}`)).timeline;
    const lines = async (endpoint: { url: string }) =>
      (await told()).filter((entry) => entry.delivery?.host === new URL(endpoint.url).host && entry.what === 'payment.created');
    const reach = (endpoint: { url: string }, state: string) =>
      eventually(
        () => lines(endpoint),
        ([line]) => line?.delivery.state === state,
        PATIENT,
      );
    const [taken] = await reach(good, 'delivered');
    const [tried] = await reach(bad, 'failing');
    const [sent] = await deliveries(`payment_id=${id}&endpoint_id=${good.id}`);
    assert.deepEqual(
      [taken.kind, taken.delivery],
      [
        'delivery',
        { id: sent.id, endpoint_id: good.id, host: new URL(good.url).host, state: 'delivered', attempt_count: 1, failure: null },
      ],
    );
    assert.equal(taken.at, sent.delivered_at);
    assert.deepEqual([tried.delivery.endpoint_id, tried.delivery.failure], [bad.id, 'status_503']);
    assert.ok(tried.delivery.attempt_count >= 1);
    // A waiting delivery without an attempt is not shown.
    await rest(good.id);
    ok(await owner.post(`/test/payments/${id}/resend`));
    assert.deepEqual(await lines(good), [taken], 'sent again, it stays delivered meanwhile');
    await app.test.post(`/v1/payments/${id}/cancel`);
    const events = (await told()).filter((entry) => entry.what === 'payment.cancelled');
    assert.deepEqual(
      events.map((entry) => entry.kind),
      ['event'],
    );
    // 410 gives up at once.
    strict.answer(410);
    const [ended] = await eventually(
      async () => {
        await app.app.ctx.db.sql`update deliveries set due_at = now() where endpoint_id = ${bad.id} and state = 'pending'`;
        await app.app.ctx.db.sql`update endpoints set rests_until = null where id = ${bad.id}`;
        return lines(bad);
      },
      ([line]) => line?.delivery.state === 'failed',
      PATIENT,
    );
    assert.deepEqual([ended.delivery.failure, ended.delivery.endpoint_id], ['status_410', bad.id]);
    ok(await owner.send('DELETE', `/test/webhooks/${bad.id}`, {}));
    assert.equal((await lines(bad))[0].delivery.endpoint_id, null, 'a deleted endpoint has no screen to link to');
    // A test clock that is ahead dates events later than the attempts to deliver them.
    await app.test.post('/v1/test/clock/advance', { seconds: 86_400, payment_id: id });
    const all = await told();
    assert.deepEqual(
      all.map((entry) => entry.at),
      all.map((entry) => entry.at).toSorted(),
    );
    const theirs = await createMerchant(app.app.ctx, { name: 'Curious shop' });
    assert.deepEqual(await listOutcomes(app.app.ctx, { merchantId: theirs.merchantId, mode: 'test', paymentId: id }), []);
    const { merchantId } = app.merchant;
    assert.deepEqual(await listOutcomes(app.app.ctx, { merchantId, mode: 'live', paymentId: id }), []);
  } finally {
    await strict.stop();
  }
});

// Invariant: Stopping a recovery leaves nothing changed.
test('stopping a recovery restores the deliveries that it moved but did not send', async () => {
  const { sql } = app.app.ctx.db;
  const { id } = await add({ events: ['payment.created'] });
  for (let i = 0; i < 5; i++) await pay();
  await eventually(
    () => deliveries(`endpoint_id=${id}&state=delivered`),
    (all) => all.length === 5,
    PATIENT,
  );
  await rest(id);
  // Four failed for good, one of them long ago; one waits for its third attempt.
  const rows = await sql<{ id: bigint }[]>`select id from deliveries where endpoint_id = ${id} order by id`;
  const ids = rows.map((row) => String(row.id));
  await sql`update deliveries set state = 'failed', delivered_at = null, attempts = 10, step = 10 where endpoint_id = ${id}`;
  await sql`update deliveries set created_at = now() - interval '3 days' where id = ${ids[0]!}`;
  await sql`update deliveries set state = 'pending', attempts = 2, step = 2, due_at = now() + interval '1 hour' where id = ${ids[4]!}`;
  const stateOf = async () => [
    ...(await sql`select id, state, due_at, retry_at, recovery_id from deliveries where endpoint_id = ${id} order by id`),
  ];
  const before = await stateOf();
  const since = new Date(Date.now() - 3_600_000).toISOString();
  const path = `/test/webhooks/${id}`;
  assert.deepEqual(ok(await owner.get(`${path}/missed?since=${since}`)), { success: true, missed: 4, exact: true });
  assert.equal(ok(await owner.get(`${path}/missed?since=2026-01-01T00:00:00Z`)).missed, 5);
  assert.equal(hook.received.length, 5);
  const { recovery } = ok(await owner.post(`${path}/recoveries`, { since }));
  assert.equal(recovery.total, 4);
  const latest = async () => ok(await owner.get(`${path}/recoveries`)).data[0];
  await eventually(latest, (r) => r.status === 'delivering' && r.queued === 4, PATIENT);
  assert.equal((await stateOf()).filter((row) => row.state === 'pending').length, 4);
  assert.equal(ok(await owner.post(`/test/recoveries/${recovery.id}/cancel`)).recovery.status, 'cancelled');
  await eventually(latest, (r) => r.queued === 0, PATIENT);
  assert.deepEqual(await stateOf(), before);
  assert.equal(ok(await owner.post(`/test/recoveries/${recovery.id}/cancel`)).recovery.status, 'cancelled', 'stopping twice is no fault');
  assert.equal(hook.received.length, 5, 'nothing was sent');
  // Another one can start, and now runs to its end.
  await eventually(
    async () => [...(await sql`select 1 from recoveries where endpoint_id = ${id} and queued_at is null`)],
    (r) => r.length === 0,
    PATIENT,
  );
  await sql`update endpoints set rests_until = null, failures = 0 where id = ${id}`;
  ok(await owner.post(`${path}/recoveries`, { since }));
  await eventually(latest, (r) => r.status === 'done' && r.delivered === 4, PATIENT);
  assert.equal(hook.received.length, 9);
  assert.equal(ok(await owner.post(`/test/recoveries/${(await latest()).id}/cancel`)).recovery.status, 'done', 'what is done stays done');
});

test('a plan without webhooks is reported; revealing secrets and deleting still work', async () => {
  const { id } = await add();
  await setPlan(app.app.ctx, { merchantId: app.merchant.merchantId, plan: 'starter' });
  try {
    assert.equal(ok(await owner.get('/test/webhooks')).on_plan, false);
    refused(await owner.post('/test/webhooks', { url: hook.url }), 403, 'plan_required');
    refused(await owner.post(`/test/webhooks/${id}/test`, { type: 'webhook.test' }), 403, 'plan_required');
    refused(await owner.post(`/test/webhooks/${id}/recoveries`, { since: '2026-01-01T00:00:00Z' }), 403, 'plan_required');
    ok(await owner.post(`/test/webhooks/${id}`, { enabled: false }));
  } finally {
    await setPlan(app.app.ctx, { merchantId: app.merchant.merchantId, plan: 'enterprise' });
  }
});

// Invariant: Reading endpoint health costs the same no matter how many deliveries there are.
test('reading costs the same, however many deliveries an endpoint has', async () => {
  const { ctx } = app.app;
  const { id } = await add();
  await rest(id);
  const owned = { merchantId: app.merchant.merchantId, mode: 'test' } as const;
  await ctx.db.sql.begin(async (tx) => {
    await tx`
      insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
      select 'evt_many' || n, ${owned.merchantId}, 'test', 'pay_many' || n, 'payment.created', 1, '{}', now() from generate_series(1, 30000) n`;
    await tx`
      insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, state, attempts, due_at)
      select 'evt_many' || n, ${id}, ${owned.merchantId}, 'test', 'pay_many' || n, 1, case when n % 3 = 0 then 'pending' else 'delivered' end, 1,
        case when n % 3 = 0 then now() + interval '1 day' end from generate_series(1, 30000) n`;
  });
  await ctx.db.sql`analyze deliveries, events`;
  /** Rows of deliveries and events that a read touches, counted by the server in its own transaction. */
  const touched = (read: (own: typeof ctx) => Promise<unknown>): Promise<number> =>
    ctx.db.begin(async (tx) => {
      const own = { ...ctx, db: { ...ctx.db, sql: tx as unknown as typeof ctx.db.sql } };
      const rows = async () => {
        const [row] = await tx<{ n: bigint }[]>`
          select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint as n from pg_stat_xact_user_tables where relname in ('deliveries', 'events')`;
        return Number(row!.n);
      };
      const start = await rows();
      await read(own);
      return (await rows()) - start;
    });
  const of = { ...owned, endpointId: id };
  const list = { ...of, sight: FULL_SIGHT, limit: 25, startingAfter: null, eventId: null, state: null };
  const costs = {
    health: await touched((own) => listHealth(own, owned)),
    hours: await touched((own) => listHours(own, of)),
    pulse: await touched((own) => readWebhookPulse(own, { owners: [owned] })),
    list: await touched((own) => listDeliveries(own, list)),
    shownToViewers: await touched((own) => listDeliveries(own, { ...list, sight: sightOf('viewer') })),
    missed: await touched((own) => countMissed(own, { ...of, since: new Date(0) })),
    ofPayment: await touched((own) => listDeliveries(own, { ...list, paymentId: 'pay_many77' })),
    outcomes: await touched((own) => listOutcomes(own, { ...owned, paymentId: 'pay_many76' })),
    ofType: await touched((own) => listDeliveries(own, { ...list, eventType: 'payment.failed' })),
  };
  const most = {
    health: 1_100,
    hours: 10,
    pulse: 20,
    list: 300,
    shownToViewers: 400,
    missed: 10_100,
    ofPayment: 10,
    outcomes: 10,
    ofType: 30_000,
  };
  for (const [name, cost] of Object.entries(costs)) assert.ok(cost <= most[name as keyof typeof most], `${name} touched ${cost} rows`);
  assert.ok(costs.health > 0, 'the counting works');
  const found = await listDeliveries(ctx, { ...list, eventType: 'payment.failed' });
  assert.deepEqual([found.items.length, found.hasMore, found.searchedAll], [0, false, false], 'it says that it did not look at all');
  assert.equal((await listDeliveries(ctx, { ...list, paymentId: 'pay_many77' })).items.length, 1);
  assert.equal((await listHealth(ctx, owned))[0]!.waiting, 1_000);
  assert.deepEqual(await countMissed(ctx, { ...of, since: new Date(0) }), { missed: 10_000, exact: false });
});
