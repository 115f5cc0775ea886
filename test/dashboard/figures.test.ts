/**
 * Home, Needs attention, payments created and exported in the dashboard: totals equal a recount, and files reconcile to the last unit.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { formatDecimal, parseDecimal } from '../../src/core/money.ts';
import { csvCell } from '../../src/core/text.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { setTimeZone } from '../../src/merchants/settings.ts';
import { foldTotals } from '../../src/settling/totals.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
const RETURN = 'https://shop.example/thanks';

before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const make = async (more: object = {}): Promise<string> =>
  (await app.test.post('/api/payment/create/simple', { amount_usd: 40, return_url: RETURN, ...more })).json.id;
const play = async (scenario: string, coin = 'btc', more: object = {}): Promise<string> => {
  const id = await make({ payment_address: `test_${coin}_${scenario}`, ...more });
  const played = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario });
  assert.equal(played.status, 200, played.text);
  return id;
};
const until = (id: string, status: string) =>
  eventually(
    async () => (await app.test.get(`/api/payment/${id}`)).json,
    (json) => json.status === status,
    60_000,
  );
const parse = (text: string): Record<string, string>[] => {
  const rows = [...text.matchAll(/((?:"(?:[^"]|"")*"|[^,\r\n"]*)(?:,|\r\n))/g)].reduce<string[][]>(
    (all, [cell]) => {
      const bare = cell.replace(/(,|\r\n)$/, '');
      all.at(-1)!.push(bare.startsWith('"') ? bare.slice(1, -1).replaceAll('""', '"') : bare);
      if (cell.endsWith('\r\n')) all.push([]);
      return all;
    },
    [[]],
  );
  const [head, ...lines] = rows.filter((row) => row.length > 0);
  return lines.map((line) => Object.fromEntries(head!.map((name, i) => [name, line[i]!])));
};
const wide = (): { from: string; until: string } => {
  const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  return { from: day(-2), until: day(3) };
};

// Invariant: Daily totals equal a recount of the payments.
test('daily totals equal a full recount of the payments, folded or not', async () => {
  const { sql } = app.app.ctx.db;
  await until(await play('success'), 'completed');
  await until(await play('overpaid', 'eth'), 'completed');
  for (const scenario of ['underpaid', 'late', 'failed', 'expired', 'replaced']) await play(scenario, 'ltc');
  const cancelled = await make();
  await owner.post(`/test/payments/${cancelled}/cancel`);
  const looked = await make();
  // The page's script requests updates; a bot's GET alone opens nothing.
  const bot = await make();
  await app.anonymous.get(`/pay?id=${bot}`);
  const stream = await fetch(`${app.url}/pay/events?id=${looked}`);
  await stream.body!.cancel();
  await app.test.post('/v1/test/clock/advance', { seconds: 2 * 86_400 });
  await eventually(
    () => sql`select 1 from payments where status in ('pending', 'processing') and due_at < clock_timestamp()`,
    (rows) => rows.length === 0,
    60_000,
  );
  const accepted = (await owner.get('/test/attention')).json.data.find((row: { exceptions: string[] }) =>
    row.exceptions.includes('underpaid'),
  );
  assert.equal((await owner.post(`/test/payments/${accepted.id}/resolve`, { action: 'accept' })).status, 200);

  const recount = () => sql`
    select m.day::text, m.measure, m.coin, count(*) filter (where m.measure <> 'volume') as payments, sum(m.cents)::bigint as cents, sum(m.seconds)::bigint as seconds
    from payments p, lateral (values
      ((created_at at time zone 'UTC')::date, 'created', '', 0::bigint, 0::bigint, true),
      ((created_at at time zone 'UTC')::date, 'opened', '', 0, 0, opened_at is not null),
      ((created_at at time zone 'UTC')::date, 'chosen', '', 0, 0, p.coin is not null),
      ((created_at at time zone 'UTC')::date, 'seen', '', 0, 0, exists (select 1 from transfers t where t.payment_id = p.id) and seen_at is not null),
      ((created_at at time zone 'UTC')::date, 'paid', '', 0, 0, status = 'completed'),
      ((created_at at time zone 'UTC')::date, 'ended', coalesce(exceptions[1], status), 0, 0, status in ('expired', 'failed', 'cancelled')),
      ((completed_at at time zone 'UTC')::date, 'completed', p.coin, 0,
        floor(extract(epoch from completed_at - opened_at))::bigint, status = 'completed'),
      ((completed_at at time zone 'UTC')::date, 'volume', p.coin, paid_usd_cents, 0, status = 'completed')
    ) as m (day, measure, coin, cents, seconds, counts)
    where merchant_id = ${app.merchant.merchantId} and mode = 'test' and m.counts group by 1, 2, 3 order by 1, 2, 3`;
  const kept = () => sql`
    select (quarter at time zone 'UTC')::date::text as day, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as cents, sum(seconds)::bigint as seconds
    from (select quarter, measure, coin, payments, usd_cents, seconds from payment_quarters where merchant_id = ${app.merchant.merchantId} and mode = 'test'
      union all select quarter, measure, coin, payments, usd_cents, seconds from payment_quarter_deltas where merchant_id = ${app.merchant.merchantId} and mode = 'test') as d
    group by 1, 2, 3 having sum(payments) <> 0 or sum(usd_cents) <> 0 order by 1, 2, 3`;
  const expected = [...(await recount())];
  assert.ok(expected.some((row) => row.measure === 'ended' && row.coin === 'late'));
  assert.deepEqual([...(await kept())], expected);
  while ((await foldTotals(app.app.ctx, { limit: 3 })) === 3);
  assert.deepEqual([...(await kept())], expected);
  const [opened] = await sql`select count(*) filter (where id = ${looked}) as looked, count(*) filter (where id = ${bot}) as bot
    from payments where opened_at is not null`;
  assert.deepEqual({ ...opened }, { looked: 1n, bot: 0n });

  const home = (await owner.get(`/test/home?${new URLSearchParams(wide())}`)).json;
  const sum = (measure: string) => expected.filter((row) => row.measure === measure).reduce((n, row) => n + Number(row.payments), 0);
  assert.deepEqual(
    home.funnel.map((step: { step: string; payments: number }) => [step.step, step.payments]),
    ['created', 'opened', 'chosen', 'seen', 'paid'].map((measure) => [measure, sum(measure)]),
  );
  const cents = expected.filter((row) => row.measure === 'volume').reduce((n, row) => n + row.cents, 0n);
  assert.equal(parseDecimal(home.now.volume_usd, 2), cents);
  assert.equal(home.now.completed, sum('completed'));
  assert.equal(home.before.completed, 0);
});

test('totals of days are those of the time zone, however often it changes while totals are folded', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  await sql`
    insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
    select ${merchantId}, 'live', date_bin('15 minutes', now() - n * interval '7 minutes', 'epoch'), 'created', '', 1, n, 0 from generate_series(1, 400) as n`;
  const fold = async (): Promise<void> => {
    while ((await foldTotals(ctx, { limit: 5 })) > 0);
  };
  const change = async (): Promise<void> => {
    for (const timeZone of ['Pacific/Chatham', 'America/Havana', 'Asia/Kolkata', 'UTC', 'Pacific/Apia'])
      await setTimeZone(ctx, { merchantId, timeZone });
  };
  await Promise.all([fold(), change(), fold()]);
  await fold();
  const [wrong] = await sql`
    select count(*) filter (where d is distinct from q) as n, count(*) as rows from
      (select mode, day, measure, coin, payments, usd_cents, seconds from payment_days where merchant_id = ${merchantId}) as d
      full join (select mode, (quarter at time zone 'Pacific/Apia')::date as day, measure, coin, sum(payments)::bigint as payments,
        sum(usd_cents)::bigint as usd_cents, sum(seconds)::bigint as seconds from payment_quarters where merchant_id = ${merchantId}
        group by 1, 2, 3, 4) as q using (mode, day, measure, coin)`;
  assert.ok(wrong!.rows > 10n);
  assert.equal(wrong!.n, 0n);
  await setTimeZone(ctx, { merchantId, timeZone: 'UTC' });
  const { days } = (await owner.get(`/live/home?${new URLSearchParams(wide())}`)).json;
  const [counted] = await sql`
    select sum(payments)::int as n from payment_quarters where merchant_id = ${merchantId} and mode = 'live' and measure = 'created'
      and (quarter at time zone 'UTC')::date >= ${wide().from}::date`;
  assert.ok(counted!.n > 0);
  assert.equal(
    days.reduce((sum: number, { created }: { created: number }) => sum + created, 0),
    counted!.n,
  );
});

test('an invalid range is refused, and one of a year is answered', async () => {
  for (const range of ['from=2026-02-30&until=2026-03-01', 'from=2026-03-02&until=2026-03-01', 'from=2024-01-01&until=2026-01-01'])
    assert.equal((await owner.get(`/test/home?${range}`)).status, 400, range);
  assert.equal((await owner.get('/test/home?from=2026-01-01&until=2026-12-31')).json.days.length, 365);
});

// Invariant: Exports reconcile with the chain, and no cell is a formula.
test('the export and the tax report reconcile with the chain to the last unit', async () => {
  const { sql } = app.app.ctx.db;
  const facts = new Map(
    (
      await sql<{ coin: Coin; units: bigint; first: bigint; number: bigint }[]>`
        select t.coin, sum(t.units) as units, sum((t.values->0->>'usdE8')::numeric) as first, count(*) as number
        from transfers t join payments p on p.id = t.payment_id
        where p.merchant_id = ${app.merchant.merchantId} and p.mode = 'test' and not (t.conflict_txid is not null and t.block_height is null)
        group by 1`
    ).map((row) => [row.coin, row]),
  );
  assert.ok(facts.size >= 3);
  const file = await owner.get('/test/exports/payments');
  assert.equal(file.headers.get('content-type'), 'text/csv; charset=utf-8');
  assert.match(file.headers.get('content-disposition')!, /^attachment; filename="payments-test\.csv"$/);
  const rows = parse(file.text);
  const [{ count }] =
    (await sql`select count(*) from payments where merchant_id = ${app.merchant.merchantId} and mode = 'test'`) as unknown as [
      { count: bigint },
    ];
  assert.equal(rows.length, Number(count));
  const units = (coin: Coin, text: string) => (text === '' ? 0n : parseDecimal(text, COIN[coin].decimals)!);
  for (const [coin, fact] of facts)
    assert.equal(
      rows.reduce((all, row) => all + units(coin, row[`received_${coin.toLowerCase()}`]!), 0n),
      fact.units,
      `export, ${coin}`,
    );
  // Money that the simulated payers sent too late to one coin is on hold, in the file as in the API.
  const onHold = rows.filter((row) => /[1-9]/.test(row.amount_held!));
  assert.ok(onHold.length > 0);
  for (const row of onHold) {
    const { json } = await app.test.get(`/api/payment/${row.id}`);
    assert.deepEqual([row.amount_held, row.amount_held_usd], [json.amount_held, json.amount_held_usd]);
    assert.ok(json.exceptions.includes('late') || json.exceptions.includes('paid_after_cancel'), row.id);
  }
  const first = rows.reduce((all, row) => all + (row.usd_at_first_sight === '' ? 0n : parseDecimal(row.usd_at_first_sight!, 8)!), 0n);
  assert.equal(
    first,
    [...facts.values()].reduce((all, row) => all + row.first, 0n),
  );
  const tax = parse((await owner.get(`/test/reports/file?kind=tax&${new URLSearchParams(wide())}`)).text).filter(
    (row) => row.state !== 'replaced',
  );
  for (const [coin, fact] of facts) {
    const mine = tax.filter((row) => row.currency === coin);
    assert.equal(mine.length, Number(fact.number), `tax, ${coin}`);
    assert.equal(
      mine.reduce((all, row) => all + units(coin, row.amount!), 0n),
      fact.units,
      `tax, ${coin}`,
    );
  }
  for (const row of [...rows, ...tax]) assert.equal(row.mode, 'test');
  for (const row of rows) assert.match(row.created_at!, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const fees = parse((await owner.get(`/test/reports/file?kind=fees&${new URLSearchParams(wide())}`)).text);
  assert.equal(fees.length, rows.filter((row) => row.status === 'completed').length);
  const days = parse((await owner.get(`/test/reports/file?kind=days&${new URLSearchParams(wide())}`)).text).filter(
    (row) => row.currency === 'ALL',
  );
  assert.equal(
    days.reduce((n, row) => n + Number(row.created), 0),
    rows.length,
  );
  const [logged] = await sql`select count(*) from audit_log where action = 'payments.export' and actor_name = 'Olga Owner'`;
  assert.equal(logged!.count, 4n);
});

test('files show amounts in the display currency too, exactly where the price was set in it', async () => {
  const priced = (await app.test.get(`/api/payment/${await make({ amount_usd: undefined, amount: '20.00', currency_fiat: 'EUR' })}`)).json;
  assert.match(priced.fiat_rate, /^0\.\d{8}$/);
  const dollars = await make({ amount_usd: '12.34' });
  const report = async (kind: string) => (await owner.get(`/test/reports/file?kind=${kind}&${new URLSearchParams(wide())}`)).text;
  const hasColumns = async () => /display/.test((await report('payments')).split('\r\n')[0]!);
  assert.equal(await hasColumns(), false);
  assert.equal((await owner.post('/test/settings/business', { display_currency: 'EUR' })).status, 200);
  const { rate } = (await owner.get('/test/me')).json.display;
  const about = (usd: string) => {
    const exact = parseDecimal(usd, 2)! * parseDecimal(rate, 8)!;
    return formatDecimal((exact + 50_000_000n) / 100_000_000n, 2);
  };
  const shown = ({ display_currency, display_rate, amount_display }: Record<string, string>) => [
    display_currency,
    display_rate,
    amount_display,
  ];
  for (const path of [`/test/reports/file?kind=payments&${new URLSearchParams(wide())}`, '/test/exports/payments']) {
    const rows = parse((await owner.get(path)).text);
    assert.deepEqual(shown(rows.find(({ id }) => id === priced.id)!), ['EUR', priced.fiat_rate, '20.00']);
    assert.deepEqual(shown(rows.find(({ id }) => id === dollars)!), ['EUR', rate, about('12.34')]);
    const agreed = rows.map(({ id, amount_fiat, currency_fiat }) => [id, amount_fiat, currency_fiat]);
    assert.deepEqual(
      agreed.filter(([id]) => id === priced.id || id === dollars),
      [
        [dollars, '', ''],
        [priced.id, '20.00', 'EUR'],
      ],
    );
  }
  const fees = parse(await report('fees'));
  assert.ok(fees.length > 0);
  for (const row of fees) assert.deepEqual(shown(row), ['EUR', rate, about(row.amount_usd!)]);
  const days = parse(await report('days'));
  assert.ok(days.some((row) => row.volume_usd !== '0.00'));
  for (const row of days) assert.deepEqual([row.display_rate, row.volume_display], [rate, about(row.volume_usd!)]);
  assert.ok(!/display/.test(await report('tax')));
  assert.deepEqual((await owner.get('/test/exports/columns')).json.columns.slice(-3), [
    'display_currency',
    'display_rate',
    'amount_display',
  ]);
  assert.deepEqual(Object.keys(parse((await owner.get('/test/exports/payments?columns=id,amount_display')).text)[0]!), [
    'mode',
    'id',
    'amount_display',
  ]);
  assert.equal((await owner.post('/test/settings/business', { display_currency: 'USD' })).status, 200);
  assert.equal(await hasColumns(), false);
});

test('lists show the price as it was agreed, and its worth in dollars beside it', async () => {
  const id = await play('late', 'ltc', { amount_usd: undefined, amount: '1250.00', currency_fiat: 'EUR' });
  await app.test.post('/v1/test/clock/advance', { payment_id: id, seconds: 7_200 });
  for (const path of ['/test/payments', '/test/attention']) {
    const { data } = await eventually(
      async () => (await owner.get(path)).json,
      ({ data }) => data.some((row: { id: string }) => row.id === id),
    );
    const { amount_fiat, currency_fiat, amount_usd } = data.find((row: { id: string }) => row.id === id);
    assert.deepEqual([amount_fiat, currency_fiat], ['1250.00', 'EUR']);
    assert.equal(amount_usd, (await app.test.get(`/api/payment/${id}`)).json.amount_usd);
  }
});

test('the pages of an export have no gaps and no repetitions', async () => {
  const { sql } = app.app.ctx.db;
  await sql`insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, created_at, expires_at)
    select 'pay_bulk' || n, ${app.merchant.merchantId}, 'live', n, 'expired', n, (select min(id) from rule_sets), 'secret', now(), now()
    from generate_series(1, 2500) n`;
  const rows = parse((await owner.get('/live/exports/payments?columns=id,amount_usd')).text);
  assert.deepEqual(Object.keys(rows[0]!), ['mode', 'id', 'amount_usd'], 'chosen columns, in the order of the catalogue, mode always');
  assert.deepEqual(
    rows.map((row) => row.id),
    Array.from({ length: 2500 }, (_, i) => `pay_bulk${2500 - i}`),
  );
  const some = parse((await owner.get('/live/exports/payments?columns=amount_usd&at_least=0.10&at_most=0.12')).text);
  assert.deepEqual(
    some.map((row) => row.amount_usd),
    ['0.12', '0.11', '0.10'],
  );
});

test('no cell of an export is ever read as a formula', async () => {
  const evil = [
    '=HYPERLINK("http://evil.example","x")',
    '+1+1',
    '-2+3',
    '@SUM(A1)',
    '\t=1',
    '＝1+1',
    ' =1',
    'a "quoted", text\r\nwith lines',
  ];
  for (const text of evil) await make({ description: text, invoice_id: text, metadata: { note: text } });
  const { text } = await owner.get('/test/exports/payments?columns=description,invoice_id');
  const rows = parse(text);
  for (const wanted of evil) {
    const row = rows.find((one) => one.description?.endsWith(wanted));
    assert.ok(row, wanted);
    assert.equal(row.description, wanted.startsWith('a') ? wanted : `'${wanted}`);
    assert.equal(row.invoice_id, row.description);
  }
  for (const row of rows) for (const cell of Object.values(row)) assert.ok(!/^\s*[=+@＝＋－＠]|^\s*-(?!\d+(\.\d+)?$)/.test(cell), cell);
  assert.deepEqual([csvCell('-5.00'), csvCell('-5.00+1'), csvCell(null), csvCell('a,b')], ['-5.00', "'-5.00+1", '', '"a,b"']);
});

test('money whose order the shop no longer has needs attention until it is handled, or the shop has the order again', async () => {
  const paid = await play('success');
  await until(paid, 'completed');
  const open = await make({ payment_address: 'test_btc_success' });
  const tell = (id: string, text: string | null) => app.test.post(`/v1/payments/${id}`, { metadata: { order_missing: text } });
  const reasons = async () =>
    ((await owner.get('/test/attention?exception=order_missing')).json.data as any[]).map((row) => [row.id, row.order_missing]);
  for (const id of [paid, open]) assert.equal((await tell(id, 'The shop was restored.')).status, 200);
  assert.deepEqual(await reasons(), [[paid, 'The shop was restored.']], 'nobody paid the other one');
  assert.equal((await owner.get(`/test/payments/${paid}`)).json.attention, true);
  assert.equal((await owner.post(`/test/payments/${paid}/resolve`, { action: 'reviewed' })).status, 200);
  await tell(paid, 'The shop was restored.');
  assert.deepEqual(await reasons(), []);
  await tell(paid, 'The shop was restored again.');
  assert.deepEqual(await reasons(), [[paid, 'The shop was restored again.']]);
  await tell(paid, null);
  assert.deepEqual(await reasons(), []);
});

test('the queue lists undecided payments, and each decision removes one', async () => {
  const before = (await owner.get('/test/attention')).json.data as { id: string }[];
  await owner.post('/test/attention/resolve', { ids: before.map((row) => row.id), action: 'reviewed' });
  assert.equal((await owner.get('/test/attention/count')).json.count, 0);
  const [under, late, over, plain] = [await play('underpaid'), await play('late'), await play('overpaid'), await play('success')];
  await until(over, 'completed');
  await until(plain, 'completed');
  // While the customer may still send the rest, the merchant has nothing to decide.
  assert.ok(!((await owner.get('/test/attention')).json.data as { id: string }[]).some((row) => row.id === under));
  await app.test.post('/v1/test/clock/advance', { seconds: 2 * 86_400 });
  await until(under, 'failed');
  const waiting = async () => ((await owner.get('/test/attention')).json.data as { id: string }[]).map((row) => row.id);
  assert.deepEqual((await waiting()).toSorted(), [under, late, over].toSorted());
  const queued = Object.fromEntries(((await owner.get('/test/attention')).json.data as any[]).map((row) => [row.id, row]));
  const [{ currency, amount, amount_usd, state }] = queued[late].uncounted;
  assert.deepEqual([state, currency, queued[late].amount_received_usd, queued[late].amount_received], ['held', 'BTC', amount_usd, amount]);
  const { json: payment } = await app.test.get(`/api/payment/${late}`);
  assert.deepEqual([amount, amount_usd], [payment.amount_held, payment.amount_held_usd]);
  assert.deepEqual([queued[under].uncounted, queued[over].uncounted], [[], []]);
  for (const id of [under, over]) {
    const { amount_received, amount_received_usd } = (await app.test.get(`/api/payment/${id}`)).json;
    assert.deepEqual([queued[id].amount_received, queued[id].amount_received_usd], [amount_received, amount_received_usd]);
  }
  assert.equal((await owner.get('/test/attention?exception=overpaid')).json.data.length, 1);
  assert.equal(
    (await owner.get('/test/payments?exception=any&limit=100')).json.data.filter((row: { id: string }) => row.id === late).length,
    1,
  );
  const bulk = (await owner.post('/test/attention/resolve', { ids: [under, over, 'pay_made_up'], action: 'accept' })).json.results;
  assert.deepEqual(
    bulk.map((result: { done: boolean }) => result.done),
    [true, false, false],
  );
  assert.match(bulk[1].problem, /The payment is completed/);
  assert.equal((await owner.post(`/test/payments/${over}/resolve`, { action: 'reviewed' })).status, 200);
  assert.equal((await owner.post(`/test/payments/${late}/resolve`, { action: 'refund_sent', txid: 'ab'.repeat(32) })).status, 200);
  assert.deepEqual(await waiting(), []);
  const told = (await owner.get(`/test/payments/${late}`)).json;
  assert.deepEqual(
    told.uncounted.map((one: { state: string; amount: string }) => [one.state, one.amount]),
    [['refunded', amount]],
  );
  assert.deepEqual(
    told.standings.map((one: { role: string }) => one.role),
    ['refunded'],
  );
  assert.deepEqual(
    told.timeline.filter((entry: { kind: string }) => entry.kind === 'decision').map((e: any) => [e.what, e.ref, e.actor]),
    [['refund_sent', 'ab'.repeat(32), 'Olga Owner']],
  );
  assert.equal(told.attention, false);
  // A customer's refund request adds a payment to the queue, unless nothing of it can be owed.
  const { leaveRefundAddress } = await import('../../src/payments/payments.ts');
  const leave = (paymentId: string) => leaveRefundAddress(app.app.ctx, { paymentId, coin: 'BTC', address: 'test_btc_payer', email: null });
  await assert.rejects(leave(plain), { code: 'payment_status_conflict' });
  await leave(over);
  assert.deepEqual(await waiting(), [over]);
  assert.equal((await owner.get(`/test/payments/${over}`)).json.refund_request.address, 'test_btc_payer');
  assert.equal((await owner.get('/test/payments?refund=requested')).json.data.length, 1);
});

test('the list and its file take a coin on one network, and a stablecoin on all its networks', async () => {
  const made: string[] = [];
  for (const network of ['base', 'polygon']) {
    const { status, json, text } = await app.test.post('/v1/transactions/create', {
      ...{ amount: 3, currency_fiat: 'USD', crypto: 'USDC', network },
    });
    assert.equal(status, 201, text);
    made.push(json.id);
  }
  for (const [currency, expected] of [
    ['USDC', made.toReversed()],
    ['USDC@base', [made[0]]],
    ['USDC@ethereum', []],
    ['ETH@base', []],
  ] as const) {
    const listed = (await owner.get(`/test/payments?currency=${encodeURIComponent(currency)}`)).json.data.map((row: any) => row.id);
    const inFile = parse((await owner.get(`/test/exports/payments?currency=${encodeURIComponent(currency)}`)).text).map((row) => row.id!);
    assert.deepEqual([listed, inFile.toSorted()], [expected, expected.toSorted()], currency);
  }
  assert.equal((await owner.get('/test/payments?currency=USD')).status, 400);
});

test('an archived payment leaves the list and its file, is found by name, stays in all totals, and returns when it changes', async () => {
  const [paid, waits, under] = [await play('overpaid', 'btc', { invoice_id: 'INV-away' }), await make(), await play('underpaid')];
  await until(paid, 'completed');
  await owner.post(`/test/payments/${paid}/resolve`, { action: 'reviewed' });
  await app.test.post('/v1/test/clock/advance', { payment_id: under, seconds: 2 * 86_400 });
  await until(under, 'failed');
  const archive = (id: string, archived = true) => owner.post(`/test/payments/${id}/archive`, { archived });
  const listed = async (query = '') =>
    ((await owner.get(`/test/payments?limit=100&${query}`)).json.data as { id: string; archived_at: string | null }[]).map((row) => row.id);
  const inFile = async (query = '') => parse((await owner.get(`/test/exports/payments?${query}`)).text).map((row) => row.id!);
  assert.deepEqual([(await archive(waits)).status, (await archive(waits)).json.error.code], [409, 'payment_status_conflict']);
  assert.deepEqual([(await archive(under)).status, (await archive(under)).json.error.code], [409, 'payment_needs_attention']);
  const taxed = (await owner.get(`/test/reports/file?kind=tax&${new URLSearchParams(wide())}`)).text;
  const events = (await app.test.get(`/v1/events?payment_id=${paid}`)).json.data.length;

  assert.equal((await archive(paid)).status, 200);
  const { archived_at: at } = (await owner.get(`/test/payments/${paid}`)).json;
  assert.equal((await archive(paid)).status, 200);
  assert.equal((await owner.get(`/test/payments/${paid}`)).json.archived_at, at, 'put away again, it keeps its day');
  for (const ids of [await listed(), await listed('status=completed'), await inFile(), await inFile('currency=BTC')])
    assert.ok(ids.length > 0 && !ids.includes(paid));
  assert.deepEqual(
    [await listed('archived=only'), await inFile('archived=only'), await listed('search=INV-away')],
    [[paid], [paid], [paid]],
  );
  assert.deepEqual(await listed('archived=only&status=expired'), []);
  assert.ok((await listed('archived=with')).includes(paid));
  assert.equal((await app.test.get('/api/payments?limit=100')).json.data.filter((row: any) => row.transaction_id === paid).length, 1);
  assert.equal((await owner.get(`/test/reports/file?kind=tax&${new URLSearchParams(wide())}`)).text, taxed);
  assert.equal((await app.test.get(`/v1/events?payment_id=${paid}`)).json.data.length, events, 'shops hear nothing of it');

  assert.equal((await archive(paid, false)).status, 200);
  assert.ok((await listed()).includes(paid));
  assert.equal((await archive(paid)).status, 200);
  // Its customer requests a refund.
  const { leaveRefundAddress } = await import('../../src/payments/payments.ts');
  await leaveRefundAddress(app.app.ctx, { paymentId: paid, coin: 'BTC', address: 'test_btc_payer', email: null });
  assert.deepEqual([(await listed()).includes(paid), await listed('archived=only')], [true, []]);
  const acts = await app.app.ctx.db.sql`
    select action, actor_name from audit_log where object = ${paid} and action like 'payment.%archived' order by id`;
  assert.deepEqual(
    acts.map(({ action, actor_name: name }) => `${action} ${name}`),
    ['archived', 'archived', 'unarchived', 'archived'].map((act) => `payment.${act} Olga Owner`),
  );
  await owner.post(`/test/payments/${paid}/resolve`, { action: 'reviewed' });
  await owner.post(`/test/payments/${under}/resolve`, { action: 'reject' });
  assert.equal((await archive(under)).status, 200, 'once decided');
});

test('a payment is created with an amount or items, in the name of the member', async () => {
  const made = await owner.post('/test/payments', { amount_usd: '12.30', invoice_id: 'D-1', metadata: { a: 'b' }, expires_in: 1800 });
  assert.equal(made.status, 201, made.text);
  assert.match(made.json.qr, /^data:image\/svg\+xml;base64,/);
  const shown = (await owner.get(`/test/payments/${made.json.id}`)).json;
  assert.deepEqual([shown.payment.amount_usd, shown.payment.invoice_id, shown.payment.metadata.a], ['12.30', 'D-1', 'b']);
  assert.deepEqual([shown.timeline[0].kind, shown.timeline[0].actor], ['created', 'Olga Owner']);
  assert.deepEqual(shown.tolerance, { percent: '1', cap_usd: '5.00' });
  const items = await owner.post('/test/payments', {
    items: [{ product_id: 'm', name: 'Mug', quantity: 2, unit_price: '10.05' }],
    tax: '0.90',
    currency: 'LTC',
  });
  assert.equal(items.json.amount_usd, '21.00');
  const chosen = (await owner.get(`/test/payments/${items.json.id}`)).json;
  assert.equal(chosen.payment.currency, 'LTC');
  const quote = chosen.timeline.find((entry: { kind: string }) => entry.kind === 'coin_chosen');
  assert.equal(Math.round(Number(quote.amount) * Number(quote.rate) * 100), 2_100, 'the amount is the price at the rate that is shown');
  assert.ok(quote.rate_sources.length > 0);
  for (const [body, param] of [
    [{}, 'amount_usd'],
    [{ amount_usd: '0' }, 'amount_usd'],
    [{ amount_usd: '1.005' }, 'amount_usd'],
    [{ amount_usd: '1', return_url: 'nowhere' }, 'return_url'],
  ] as const)
    assert.deepEqual([(await owner.post('/test/payments', body)).json.error.param], [param]);
  assert.equal((await owner.post('/live/payments', { amount_usd: '5', currency: 'BTC' })).json.error.code, 'coin_not_configured');
  const played = await owner.post(`/test/payments/${made.json.id}/simulate`, { scenario: 'success', currency: 'DASH' });
  assert.equal(played.status, 200, played.text);
  assert.equal((await owner.post(`/live/payments/${made.json.id}/simulate`, { scenario: 'success' })).json.error.code, 'test_key_required');
  await owner.post(`/test/payments/${made.json.id}/metadata`, { metadata: { a: null, c: 'd' } });
  assert.deepEqual((await owner.get(`/test/payments/${made.json.id}`)).json.payment.metadata, { c: 'd' });
});

test('nothing of another merchant is counted, listed, exported or decided', async () => {
  const other = await createMerchant(app.app.ctx, { name: 'Other shop' });
  const theirs = (await app.as(other.keys.testSecret).post('/api/payment/create/simple', { amount_usd: 777, return_url: RETURN })).json.id;
  await app.app.ctx.db.sql`update payments set attention = true, exceptions = '{late}', status = 'expired' where id = ${theirs}`;
  assert.ok(!(await owner.get('/test/exports/payments')).text.includes(theirs));
  assert.ok(!(await owner.get('/test/attention')).text.includes(theirs));
  for (const [path, body] of [
    ['simulate', { scenario: 'success' }],
    ['metadata', { metadata: { a: 'b' } }],
    ['resolve', { action: 'reviewed' }],
  ] as const)
    assert.equal((await owner.post(`/test/payments/${theirs}/${path}`, body)).status, 404, path);
  const [result] = (await owner.post('/test/attention/resolve', { ids: [theirs], action: 'reviewed' })).json.results;
  assert.equal(result.done, false);
});

test('views and columns belong to the member; the checklist follows their actions', async () => {
  await owner.post('/test/preferences', { views: [{ name: 'Late ones', query: 'exception=late' }], columns: ['amount', 'id'] });
  const kept = (await owner.get('/live/preferences')).json;
  assert.deepEqual([kept.views, kept.columns], [[{ name: 'Late ones', query: 'exception=late' }], ['amount', 'id']]);
  const { steps, dismissed } = (await owner.get('/test/home/onboarding')).json;
  assert.deepEqual(
    steps.filter((step: { done: boolean }) => step.done).map((step: { step: string }) => step.step),
    ['test_payment'],
  );
  assert.equal(dismissed, false);
  await owner.post('/test/preferences', { onboarding: { dismissed: true, polls: true } });
  const later = (await owner.get('/test/home/onboarding')).json;
  assert.equal(later.dismissed, true);
  assert.ok(later.steps.find((step: { step: string }) => step.step === 'webhook').done);
});

test('the checklist is true: an endpoint counts once its last delivery succeeded, going live once everything works', async () => {
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  await owner.post('/test/preferences', { onboarding: {} });
  const read = async (mode: string) => {
    const { steps, webhook, payable, sources } = (await owner.get(`/${mode}/home/onboarding`)).json;
    return { done: steps.filter((one: any) => one.done).map((one: any) => one.step as string), webhook, payable, sources };
  };
  // Live payments that nobody could pay and an endpoint that fails complete no step.
  await sql`insert into payment_counters values (${merchantId}, 'live', 1000) on conflict do nothing`;
  await sql`insert into endpoints (id, merchant_id, mode, url, events, secret, state, failures)
    values ('we_truth', ${merchantId}, 'live', 'https://shop.example/hook', '{*}', '\\x00', 'enabled', 1)`;
  const before = await read('live');
  assert.deepEqual(
    [before.webhook, before.payable, before.done.includes('webhook'), before.done.includes('go_live')],
    ['failing', [], false, false],
  );
  assert.deepEqual(before.sources.find((one: any) => one.currency === 'LTC').missing[0].lines.slice(0, 2), [
    '# your own node',
    'LTC_NODE_URL=http://USER:PASSWORD@127.0.0.1:9332',
  ]);
  await sql`update endpoints set failures = 0 where id = 'we_truth'`;
  assert.equal((await read('live')).webhook, 'untested');
  await sql`insert into attempt_hours values ('we_truth', date_trunc('hour', now()), 'delivered', 1, 5, 5, now())`;
  const delivered = await read('live');
  assert.deepEqual([delivered.webhook, delivered.done.includes('webhook'), delivered.done.includes('go_live')], ['delivered', true, false]);
  assert.equal((await read('test')).webhook, 'none');
  await sql`delete from endpoints where id = 'we_truth'`;
});

test('a date filter finds exactly its days, and an amount filter says how far back it searched', async () => {
  const { sql } = app.app.ctx.db;
  const other = await createMerchant(app.app.ctx, { name: 'Long shop' });
  await sql`insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, created_at, expires_at)
    select 'pay_long' || n, ${other.merchantId}, 'live', n, 'expired', 100, (select min(id) from rule_sets), 'secret',
      '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 minute', now() from generate_series(1, 60000) n`;
  await sql`insert into payment_text_owners (merchant_id, mode, through_sequence) values (${other.merchantId}, 'live', 60000)`;
  await sql`insert into payment_counters values (${other.merchantId}, 'live', 60000)`;
  const { findPayments, NO_FILTER } = await import('../../src/queries/search.ts');
  const of = { merchantId: other.merchantId, mode: 'live' as const, limit: 100, startingAfter: null };
  const found = await findPayments(app.app.ctx, {
    ...of,
    filter: { ...NO_FILTER, from: new Date('2026-01-05T00:00:00Z'), until: new Date('2026-01-05T00:30:00Z') },
  });
  assert.equal(found.items.length, 30);
  assert.equal(found.lookedBackTo, null);
  const dear = { ...NO_FILTER, atLeast: 500n };
  const first = await findPayments(app.app.ctx, { ...of, filter: dear });
  assert.deepEqual(
    [first.items.length, first.lookedBackTo?.at.toISOString()],
    [0, new Date(Date.parse('2026-01-01') + 50_001 * 60_000).toISOString()],
  );
  // Further back it searches to the first payment, and finds it.
  await sql`update payments set amount_usd_cents = 500 where id in ('pay_long7', 'pay_long50000', 'pay_long50001')`;
  const rest = await findPayments(app.app.ctx, { ...of, filter: dear, startingAfter: first.lookedBackTo!.id });
  assert.deepEqual([rest.items.map(({ id }) => id), rest.hasMore, rest.lookedBackTo], [['pay_long50000', 'pay_long7'], false, null]);
});

test('the list, its file, reports and books cut months in the time zone of the merchant, and the files name it', async () => {
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  const [zone, days] = ['Pacific/Auckland', { from: '2027-03-01', until: '2027-03-31' }];
  const refused = await owner.post('/test/settings/business', { time_zone: 'Mars/Olympus' });
  assert.deepEqual([refused.status, refused.json.error.param], [400, 'time_zone']);
  assert.equal((await owner.post('/test/settings/business', { time_zone: zone })).status, 200);
  assert.equal((await owner.get('/test/settings/business')).json.time_zone, zone);
  assert.equal((await owner.get('/test/me')).json.time_zone, zone);
  // Around both ends of March in Auckland, which is 13 hours ahead of UTC. Later than all others: lists rely on that order.
  const ids: string[] = [];
  for (const at of ['2027-02-28T10:59:59Z', '2027-02-28T11:00:00Z', '2027-03-31T10:59:59Z', '2027-03-31T11:00:00Z']) {
    const id = await make();
    await sql`update payments set created_at = ${at}::text::timestamptz where id = ${id}`;
    ids.push(id);
  }
  const [, first, last] = ids;
  const query = new URLSearchParams(days);
  const listed = (await owner.get(`/test/payments?${query}`)).json.data as { id: string }[];
  assert.deepEqual(listed.map(({ id }) => id).sort(), [first, last].sort());
  for (const path of [`exports/payments?${query}`, `reports/file?kind=payments&${query}`]) {
    const rows = parse((await owner.get(`/test/${path}`)).text);
    assert.deepEqual(
      rows.map(({ id, day, time_zone }) => [id, day, time_zone]).sort(),
      [
        [first, '2027-03-01', zone],
        [last, '2027-03-31', zone],
      ].sort(),
      path,
    );
  }
  const { bookPeriod: periodOf } = await import('../../src/books/book-files.ts');
  const { getMerchant } = await import('../../src/merchants/merchants.ts');
  const { settings } = await getMerchant(app.app.ctx, { merchantId });
  const { start, end } = await periodOf(app.app.ctx, { ...days, timeZone: settings.timeZone });
  assert.deepEqual([start.toISOString(), end.toISOString()], ['2027-02-28T11:00:00.000Z', '2027-03-31T11:00:00.000Z']);
  // The API lists times in UTC, and files of a merchant without a time zone have no such columns.
  assert.equal((await owner.post('/test/settings/business', { time_zone: 'UTC' })).status, 200);
  const utc = parse((await owner.get(`/test/exports/payments?${query}`)).text);
  assert.ok(utc.every((row) => !('time_zone' in row) && !('day' in row)));
  assert.deepEqual(utc.map(({ id }) => id).sort(), [last, ids[3]].sort());
});
