/** Settings of the business and the payment page: what each changes, refuses and logs; actions of customers; erasing customer data. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createApiKey } from '../../src/keys/keys.ts';
import { leaveRefundAddress } from '../../src/payments/payments.ts';
import { changeFromJson } from '../../src/people/members.ts';
import { erasePayerData } from '../../src/settling/retention.ts';
import { readSigningFileOf } from '../../src/signing/signing-files.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const create = async (more: object = {}) =>
  (await app.test.post('/api/payment/create/simple', { amount_usd: 50, return_url: 'https://shop.example/thanks', ...more })).json;
const rulesOf = async (id: string) =>
  (await app.app.ctx.db.sql`select r.rules from payments p join rule_sets r on r.id = p.rule_set where p.id = ${id}`)[0]!.rules;
const page = async (id: string, headers: Record<string, string> = {}) => (await fetch(`${app.url}/pay?id=${id}`, { headers })).text();
const tokenOf = (text: string) => /name="token" value="([^"]+)"/.exec(text)?.[1] ?? '';
const post = async (path: string, fields: Record<string, string>) => {
  const reply = await fetch(`${app.url}/pay/${path}`, { method: 'POST', redirect: 'manual', body: new URLSearchParams(fields) });
  return { status: reply.status, location: reply.headers.get('location'), text: await reply.text() };
};
const LOGO = Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 4"><rect width="4" height="4" fill="#0a7440"/></svg>',
).toString('base64');

/** Of the native coins, in the order of the table. */
const percentages = (given: Record<string, string>) =>
  ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE'].map((asset) => ({ asset, percent: given[asset] ?? '0.00' }));

test('a saved setting is read back, affects the page at once, and is logged with its old and new value', async () => {
  const before = (await owner.get('/test/settings/checkout')).json;
  assert.deepEqual([before.settings.window_minutes, before.settings.payer_cancel, before.settings.tolerance_percent], [60, false, '1.00']);
  const change = {
    ...{ accent: '#0a7440', theme: 'dark', locale: 'de', support_contact: 'help@shop.example', origins: ['https://shop.example'] },
    ...{ auto_return: true, payer_cancel: true, kiosk: true, default_currency: 'LTC', currencies: ['BTC', 'DOGE'], window_minutes: 90 },
    ...{ mail_receipts: true },
    ...{ adjustments: percentages({ BTC: '1.50', DOGE: '-2.00' }), price_source: null },
    ...{ rate_lock_minutes: 20, tolerance_percent: '2.50', tolerance_cap_usd: '7.50', late_accept_minutes: 30 },
  };
  assert.equal((await owner.post('/live/settings/checkout', { ...change, logo: LOGO })).status, 200);
  const { logo, ...saved } = (await owner.get('/test/settings/checkout')).json.settings;
  assert.deepEqual(saved, change);
  assert.equal(Buffer.from(await (await fetch(app.url + logo)).arrayBuffer()).toString('base64'), LOGO);
  const [entry] = await app.app.ctx.db.sql`select actor_name, before, after from audit_log where action = 'settings.changed'`;
  assert.equal(entry!.before.windowSeconds, 3_600);
  assert.deepEqual([entry!.after.windowSeconds, entry!.after.logo, entry!.actor_name], [5_400, 'changed', 'Olga Owner']);
  const made = await create();
  const rules = await rulesOf(made.id);
  assert.deepEqual(
    [rules.windowSeconds, rules.rateLockSeconds, rules.toleranceBasisPoints, rules.toleranceCapUsdCents, rules.lateAcceptMinutes],
    [5_400, 1_200, 250, '750', 30],
  );
  assert.deepEqual(rules.adjustments, { BTC: 150, DOGE: -200 });
  const shown = await page(made.id);
  assert.match(shown, /data-theme="dark"/);
  assert.match(shown, /mailto:help@shop\.example/);
  assert.match(shown, new RegExp(logo));
  assert.deepEqual(
    [...shown.matchAll(/name="currency" value="(\w+)"/g)].map(([, coin]) => coin),
    ['BTC', 'DOGE'],
  );
  await owner.post('/test/settings/checkout', { logo: null, currencies: null, theme: 'system', locale: null });
  assert.equal((await owner.get('/test/settings/checkout')).json.settings.logo, null);
});

test('a coin that is not offered cannot be chosen by a request either', async () => {
  await owner.post('/test/settings/checkout', { currencies: ['BTC'] });
  const made = await create();
  const fields = { id: made.id, token: tokenOf(await page(made.id)) };
  assert.notEqual((await post('select', { ...fields, currency: 'DOGE' })).status, 303);
  assert.equal((await app.test.get(`/api/payment/${made.id}`)).json.currency, null);
  assert.equal((await post('select', { ...fields, currency: 'BTC', scenario: 'underpaid' })).status, 303);
  // A coin that was chosen before it was removed can still be paid.
  await owner.post('/test/settings/checkout', { currencies: ['DOGE'] });
  assert.equal((await post('requote', fields)).status, 303);
  await owner.post('/test/settings/checkout', { currencies: null });
});

test('confirmations can be raised for one tier but not lowered; the other tiers follow the table', async () => {
  const low = await owner.post('/test/settings/checkout', { confirmations: [{ currency: 'BTC', tiers: [null, 1, null, null] }] });
  assert.deepEqual([low.status, low.json.error.param], [400, 'confirmations']);
  assert.equal(
    (await owner.post('/test/settings/checkout', { confirmations: [{ currency: 'BTC', tiers: [null, 5, null, null] }] })).status,
    200,
  );
  await owner.post('/test/settings/checkout', { confirmations: [{ currency: 'LTC', tiers: [7, null, null, null] }] });
  const { rules } = { rules: await rulesOf((await create()).id) };
  assert.deepEqual(
    rules.confirmations.BTC.map(([, count]: [string, number]) => count),
    [1, 5, 3, 6],
  );
  assert.deepEqual(
    rules.confirmations.LTC.map(([, count]: [string, number]) => count),
    [7, 12, 24, 40],
  );
  const { confirmations } = (await owner.get('/test/settings/checkout')).json;
  assert.deepEqual(
    confirmations[0].tiers.map((tier: { confirmations: number; minimum: number }) => [tier.confirmations, tier.minimum]),
    [
      [1, 1],
      [5, 2],
      [3, 3],
      [6, 6],
    ],
  );
});

test('confirmations of a network hold for all its coins; where final blocks decide, no number replaces them', async () => {
  const raise = (currency: string, tiers: readonly (number | null)[]) =>
    owner.post('/test/settings/checkout', { confirmations: [{ currency, tiers }] });
  assert.equal((await raise('USDC@base', [80, null, null, null])).status, 200);
  const refused: [string, (number | null)[]][] = [
    ['USDC@base', [49, null, null, null]],
    ['USDC@base', [null, 1_000, null, null]],
    ['USDC@polygon', [1_000, null, null, null]],
  ];
  for (const [currency, tiers] of refused) {
    const low = await raise(currency, tiers);
    assert.deepEqual([low.status, low.json.error.param], [400, 'confirmations'], currency);
  }
  const rules = await rulesOf((await create()).id);
  const tiersOf = (coin: string) => rules.confirmations[coin].map(([, count, rule]: [string, number, string]) => `${count} ${rule}`);
  for (const coin of ['USDC@base', 'EURC@base', 'ETH@base'])
    assert.deepEqual(tiersOf(coin), ['80 confirmations', '0 safe', '0 safe', '0 finalized'], coin);
  assert.deepEqual(tiersOf('USDC@arbitrum'), ['40 confirmations', '0 safe', '0 safe', '0 finalized']);
  const { confirmations } = (await owner.get('/test/settings/checkout')).json;
  const base = confirmations.find(({ currency }: { currency: string }) => currency === 'USDC@base');
  assert.deepEqual([base.tiers[0].confirmations, base.tiers[0].minimum], [80, 50]);
  assert.equal((await raise('USDC@base', [null, null, null, null])).status, 200);
});

test('an invalid setting is refused under its field, and nothing of the request is saved', async () => {
  for (const [body, param] of [
    [{ accent: 'red' }, 'accent'],
    [{ origins: ['https://shop.example/path'] }, 'origins'],
    [{ support_contact: 'javascript:alert(1)' }, 'support'],
    [{ window_minutes: 9 }, 'window_minutes'],
    [{ window_minutes: 1_441 }, 'window_minutes'],
    [{ rate_lock_minutes: 61 }, 'rate_lock_minutes'],
    [{ tolerance_percent: '5.01' }, 'tolerance_percent'],
    [{ tolerance_percent: '-1' }, 'tolerance_percent'],
    [{ tolerance_cap_usd: '100.01' }, 'tolerance_cap_usd'],
    ...['20.01', '-20.01', '1.234', '--1', '', '1e1'].map(
      (percent) => [{ adjustments: [{ asset: 'BTC', percent }] }, 'adjustments'] as const,
    ),
    [{ price_source: 'mtgox' }, 'price_source'],
    [{ currencies: [] }, 'currencies'],
    [{ logo: Buffer.from('<svg><script>1</script></svg>').toString('base64') }, 'logo'],
  ] as const) {
    const reply = await owner.post('/test/settings/checkout', { auto_return: false, ...body });
    assert.deepEqual([reply.status, reply.json.error.param], [400, param], JSON.stringify(body));
  }
  assert.equal((await owner.get('/test/settings/checkout')).json.settings.auto_return, true);
  for (const [body, param] of [
    [{ name: ' ' }, 'name'],
    [{ website: 'http://shop.example' }, 'website'],
    [{ retention_days: 29 }, 'retention_days'],
  ] as const)
    assert.equal((await owner.post('/test/settings/business', body)).json.error.param, param);
});

test('the display currency reaches every member with its rate; US dollars and unknown codes show nothing', async () => {
  assert.equal((await owner.get('/test/settings/business')).json.display_currency, 'USD');
  assert.equal((await owner.get('/test/me')).json.display, null);
  assert.equal((await owner.post('/test/settings/business', { display_currency: 'JPY' })).status, 200);
  const { currency, decimals, rate } = (await owner.get('/test/me')).json.display;
  assert.deepEqual([currency, decimals], ['JPY', 0]);
  assert.match(rate, /^\d{2,3}\.\d{8}$/);
  assert.equal((await owner.post('/test/settings/business', { display_currency: 'XXX' })).status, 400);
  assert.equal((await owner.get('/live/settings/business')).json.display_currency, 'JPY');
  assert.equal((await owner.post('/test/settings/business', { display_currency: 'USD' })).status, 200);
  assert.equal((await owner.get('/test/me')).json.display, null);
});

test('the business: its name on the page, its website on links', async () => {
  assert.equal((await owner.post('/test/settings/business', { name: 'Corner Coffee', website: 'https://corner.example' })).status, 200);
  const { name, website } = (await owner.get('/test/settings/business')).json;
  assert.deepEqual([name, website], ['Corner Coffee', 'https://corner.example']);
  assert.match(await page((await create()).id), /Corner Coffee/);
  const { link } = (await owner.post('/test/links', { name: 'Tea', amount: '3', reusable: true })).json;
  assert.match(await (await fetch(`${app.url}/link/${link.id}`)).text(), /href="https:\/\/corner\.example"/);
});

test('the preview is the real page with unsaved settings, for members only', async () => {
  const ask = (query: string, cookie = owner.cookie) =>
    fetch(`${app.url}/dashboard/api/test/settings/checkout/preview?${query}`, { headers: { cookie } });
  const reply = await ask('state=awaiting+BTC&theme=light&support=%2B49+30+1234567&currencies=BTC');
  const text = await reply.text();
  assert.equal(reply.status, 200);
  assert.match(reply.headers.get('content-security-policy') ?? '', /frame-ancestors 'self'/);
  assert.match(text, /data-state="awaiting"/);
  assert.match(text, /tel:\+49301234567/);
  assert.equal((await ask('state=made-up')).status, 400);
  assert.equal((await ask('state=choose', '')).status, 401);
});

test('a customer can cancel only where it is allowed and before any money arrives', async () => {
  await owner.post('/test/settings/checkout', { payer_cancel: false });
  const made = await create();
  const closed = await page(made.id);
  assert.doesNotMatch(closed, /\/pay\/cancel/);
  const fields = { id: made.id, token: tokenOf(closed) };
  assert.equal((await post('cancel', fields)).status, 409);
  assert.equal((await app.test.get(`/api/payment/${made.id}`)).json.status, 'pending');
  await owner.post('/test/settings/checkout', { payer_cancel: true });
  assert.match(await page(made.id), /\/pay\/cancel/);
  assert.equal((await post('cancel', { ...fields, token: 'made-up' })).status, 404);
  assert.equal((await post('cancel', fields)).status, 303);
  assert.equal((await app.test.get(`/api/payment/${made.id}`)).json.status, 'cancelled');
  const partly = await create();
  const token = tokenOf(await page(partly.id));
  await app.test.post(`/v1/test/payments/${partly.id}/simulate`, { scenario: 'underpaid' });
  await app.test.post('/v1/test/clock/advance', { seconds: 30 });
  const paid = await page(partly.id);
  assert.match(paid, /data-state="underpaid"/);
  assert.doesNotMatch(paid, /\/pay\/cancel/);
  assert.equal((await post('cancel', { id: partly.id, token })).status, 409);
});

test('a payment that ended without money is started again as one new payment, however often it is requested', async () => {
  const made = await create({ invoice_id: 'INV-5', description: 'Five roses', metadata: { order: '5' } });
  const fields = { id: made.id, token: tokenOf(await page(made.id)) };
  assert.equal((await post('again', fields)).status, 409, 'while it can be paid there is no other');
  await post('cancel', fields);
  assert.match(await page(made.id), /\/pay\/again/);
  const first = await post('again', fields);
  const second = await post('again', fields);
  assert.equal(first.status, 303);
  assert.equal(second.location, first.location);
  const id = /id=(pay_\w+)/.exec(first.location!)![1]!;
  assert.notEqual(id, made.id);
  const detail = (await app.test.get(`/api/payment/${id}`)).json;
  assert.deepEqual(
    [detail.status, detail.amount_usd, detail.invoice_id, detail.description, detail.return_url, detail.metadata, detail.created_with],
    ['pending', '50.00', 'INV-5', 'Five roses', 'https://shop.example/thanks', { order: '5' }, 'public'],
  );
  // Shops know the first one: each names the other.
  const former = (await app.test.get(`/api/payment/${made.id}`)).json;
  assert.deepEqual([detail.replaces, former.replaced_by, former.replaces], [made.id, id, null]);
  await owner.post('/test/settings/checkout', { payer_cancel: false });
  assert.equal((await post('again', fields)).status, 409);
  assert.doesNotMatch(await page(made.id), /\/pay\/again/);
});

test('a customer cannot restart a payment that the merchant ended, or one that ended more than a day ago', async () => {
  await owner.post('/test/settings/checkout', { payer_cancel: true });
  const again = async (id: string, token: string) => {
    const offered = /\/pay\/again/.test(await page(id));
    return [offered, (await post('again', { id, token })).status];
  };
  const cancelled = await create();
  const token = tokenOf(await page(cancelled.id));
  assert.equal((await app.test.post(`/v1/payments/${cancelled.id}/cancel`)).status, 200);
  assert.deepEqual(await again(cancelled.id, token), [false, 409], 'the merchant canceled it');

  const expired = await create();
  const late = tokenOf(await page(expired.id));
  await app.test.post('/v1/test/clock/advance', { seconds: 7_200 });
  assert.deepEqual(await again(expired.id, late), [true, 303]);
  const other = await create();
  const tooLate = tokenOf(await page(other.id));
  await app.test.post('/v1/test/clock/advance', { seconds: 5_400 + 86_400 });
  assert.deepEqual(await again(other.id, tooLate), [false, 409], 'a day after its end');
});

/** Refund files: one that is sent, one that was canceled, and one of another payment. */
async function insertRefundFiles(paymentId: string): Promise<void> {
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values ('wal_erase', ${merchantId}, 'BTC', 'testnet', 'erase', 'erase', 'p2wpkh', '0')`;
  const files = [
    ['swp_open', 'sent', paymentId],
    ['swp_ended', 'canceled', paymentId],
    ['swp_other', 'confirmed', 'pay_other'],
  ] as const;
  for (const [id, state, reference] of files) {
    const file = { requests: [{ kind: 'psbt', lines: [{ purpose: 'refund', to: 'tb1qeve', units: '1000', reference }] }] };
    await sql`
      insert into signing_files (id, merchant_id, wallet_id, coin, purpose, state, file, destination, total_units, fee_units, input_count, made_by)
      values (${id}, ${merchantId}, 'wal_erase', 'BTC', 'refund', ${state}, ${sql.json(file)}, 'tb1q', 1000, 10, 1, 'Olga Owner')`;
    await sql`
      insert into signed_transactions (file_id, round, number, txid, raw, fee_units) values (${id}, 0, 0, ${id}, 'tb1qeve', 10)`;
  }
}
const filesWith = async (paymentId: string): Promise<string[]> =>
  (await app.app.ctx.db.sql<{ id: string }[]>`select id from signing_files where file::text like ${`%${paymentId}%`} order by id`).map(
    ({ id }) => id,
  );

// Invariant: Erasing customer data leaves all amounts and transfers unchanged.
test('erasing: off by default; then customer data of payments that ended long ago is deleted, and every record of money stays unchanged', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const advanced = (
    await app.test.post('/api/payment/create/advanced', {
      ...{
        items: [{ product_id: 'mug', name: 'Mug of Eve Payer', quantity: 2, unit_price: 10 }],
        tax: 1.5,
        return_url: 'https://shop.example/eve',
      },
      ...{ description: 'For Eve Payer', metadata: { customer: 'eve@mail.example' }, invoice_id: 'INV-E', locale: 'fr' },
    })
  ).json;
  await app.test.post(`/v1/test/payments/${advanced.id}/simulate`, { scenario: 'overpaid' });
  const open = await create({ description: 'Still open' });
  await app.test.post('/v1/test/clock/advance', { seconds: 1_000 });
  const young = await create({ description: 'Ended yesterday' });
  await app.test.post(`/v1/payments/${young.id}/cancel`);
  await sql`insert into refund_addresses (payment_id, merchant_id, coin, address, email) values (${advanced.id}, ${app.merchant.merchantId}, 'BTC', 'tb1q', 'eve@mail.example')`;
  const insertRefund = (id: string, state: string, address: string | null) => sql`
    insert into outgoing_payments (kind, id, merchant_id, mode, payment_id, coin, units, usd_cents, rate, state, address, claim_until, reason, requested_by, created_at)
    values ('refund', ${id}, ${app.merchant.merchantId}, 'test', ${advanced.id}, 'BTC', 1000, 97, 'payment', ${state}, ${address},
      now() - interval '70 days', 'Eve is unhappy', 'API', now())`;
  await insertRefund('ref_sent', 'sent', 'tb1qeve');
  await insertRefund('ref_open', 'approved', 'tb1qeve');
  await insertRefund('ref_left', 'requested', null);
  // As a charge of Coinbase Commerce names it.
  await sql`update payments set request = request || '{"shop": {"cancelUrl": "https://shop.example/eve/cart"}}' where id = ${advanced.id}`;
  await insertRefundFiles(advanced.id);
  const age = (id: string) => sql`
    update payments set created_at = created_at - interval '100 days', completed_at = completed_at - interval '100 days',
      expires_at = expires_at - interval '100 days', extended_until = extended_until - interval '100 days' where id = ${id}`;
  await age(advanced.id);
  await sql`update payments set created_at = created_at - interval '100 days' where id = ${open.id}`;
  const money = async (id: string) => {
    const { description, metadata, return_url, items, items_count, ...rest } = (await app.test.get(`/api/payment/${id}`)).json;
    return { rest, erased: [description, metadata, return_url] };
  };
  // Earlier payments are older still, as when time passes.
  await sql`
    update payments set created_at = created_at - interval '200 days', expires_at = expires_at - interval '200 days',
      completed_at = completed_at - interval '200 days', extended_until = extended_until - interval '200 days'
    where mode = 'test' and sequence < (select sequence from payments where id = ${advanced.id})`;
  const before = await money(advanced.id);
  assert.equal(before.rest.status, 'completed');
  const eventsBefore = await sql`select id, type, sequence from events where payment_id = ${advanced.id} order by sequence`;
  const [countsBefore] = await sql`select count(*) as n, sum(amount_usd_cents) as cents, sum(received_units) as units from payments`;
  assert.equal(await erasePayerData(ctx), 0, 'nothing is erased before it is switched on');
  assert.equal((await owner.post('/live/settings/business', { retention_days: 30 })).status, 200);
  const [entry] = await sql`select before, after from audit_log where action = 'settings.changed' order by id desc limit 1`;
  assert.deepEqual([entry!.before, entry!.after].map(changeFromJson), [{ retentionDays: null }, { retentionDays: 30 }]);
  // The worker of the service does the same in the meantime.
  for (let round = 0; round < 5; round++) await erasePayerData(ctx);
  const refunds = () =>
    sql`select id, address, reason, erased_at is not null as erased from outgoing_payments where payment_id = ${advanced.id} order by id`;
  assert.ok(
    (await refunds()).every((one) => one.reason !== null),
    'an approved refund still needs its address',
  );
  assert.equal((await sql`select 1 from refund_addresses where payment_id = ${advanced.id}`).length, 1);
  await sql`update outgoing_payments set state = 'sent', file_id = 'swp_open' where id = 'ref_open'`;
  /** The service erases automatically too: a round of it that began earlier may put off what is made due here. */
  const eraseNow = async (id: string) => {
    await sql`update due_work set due_at = now() - interval '1 second' where kind = 'erase' and key = ${id}`;
    await erasePayerData(ctx);
  };
  await eraseNow(advanced.id);
  assert.ok(
    (await refunds()).every((one) => one.reason !== null),
    'a file that is not confirmed may be replaced',
  );
  assert.deepEqual(await filesWith(advanced.id), ['swp_ended', 'swp_open']);
  // Together, or the service would conclude the refund and settle its payment.
  await sql`
    with confirmed as (update signing_files set state = 'confirmed' where id = 'swp_open' returning id)
    update outgoing_payments set state = 'confirmed' where file_id in (select id from confirmed)`;
  await eventually(
    async () => {
      await eraseNow(advanced.id);
      return refunds();
    },
    (rows) => rows.every((one) => one.erased),
  );
  assert.deepEqual(
    (await refunds()).map((one) => [one.id, one.address, one.reason]),
    [
      ['ref_left', null, null],
      ['ref_open', null, null],
      ['ref_sent', null, null],
    ],
  );
  assert.deepEqual(await filesWith(advanced.id), []);
  assert.deepEqual(await filesWith('pay_other'), ['swp_other'], 'files of other payments stay');
  assert.deepEqual(
    (await sql`select file_id, length(raw) > 0 as kept from signed_transactions order by file_id`).map((row) => [row.file_id, row.kept]),
    [
      ['swp_ended', false],
      ['swp_open', false],
      ['swp_other', true],
    ],
  );
  await assert.rejects(readSigningFileOf(ctx, { merchantId: app.merchant.merchantId, id: 'swp_open' }), { code: 'sweep_state' });
  const after = await money(advanced.id);
  assert.deepEqual(after.erased, [null, {}, null]);
  // In a reply, tax is shown beside the items; stored items do not include it.
  const { tax, ...rest } = before.rest;
  assert.equal(tax, '1.50');
  // The refund of the open file was sent meanwhile.
  assert.deepEqual(after.rest, { ...rest, amount_refunded: '0.00002000' });
  const [row] = await sql`select request, metadata from payments where id = ${advanced.id}`;
  assert.deepEqual({ ...row }, { request: { v: 1, taxCents: '150', shop: {} }, metadata: {} });
  assert.equal((await sql`select 1 from refund_addresses where payment_id = ${advanced.id}`).length, 0);
  await eventually(
    async () => [
      ...(await sql`select 1 from payment_texts where body like '%eve@mail%' or body like '%eve payer%'`),
      ...(await sql`select 1 from payment_metadata where pair = md5('customer' || chr(1) || 'eve@mail.example')::uuid`),
    ],
    (rows) => rows.length === 0,
  );
  assert.deepEqual(await sql`select id, type, sequence from events where payment_id = ${advanced.id} order by sequence`, eventsBefore);
  assert.deepEqual(
    (await sql`select count(*) as n, sum(amount_usd_cents) as cents, sum(received_units) as units from payments`)[0],
    countsBefore,
  );
  assert.ok(
    !JSON.stringify(await sql`select * from payments where id = ${advanced.id}`, (_, v) =>
      typeof v === 'bigint' ? String(v) : v,
    ).includes('Eve Payer'),
  );
  assert.deepEqual((await money(young.id)).erased[0], 'Ended yesterday');
  assert.deepEqual((await money(open.id)).erased[0], 'Still open', 'what has not ended keeps its data');
  // It waits for its own end, no matter how far the others are.
  await sql`update payments set created_at = created_at + interval '100 days' where id = ${open.id}`;
  assert.equal((await app.test.post(`/v1/payments/${open.id}/cancel`)).status, 200);
  await age(open.id);
  await eventually(
    async () => {
      await eraseNow(open.id);
      return (await money(open.id)).erased[0];
    },
    (text) => text === null,
  );
  assert.equal((await sql`select 1 from due_work where kind = 'erase' and key = ${open.id}`).length, 0);
});

test('erasing: a refund that is requested, and an address that is left, after a payment was erased are erased too, after as many days', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  assert.equal((await owner.post('/live/settings/business', { retention_days: 30 })).status, 200);
  const { id } = await create();
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'overpaid', currency: 'BTC' });
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'completed',
  );
  await sql`
    update payments set created_at = created_at - interval '100 days', completed_at = completed_at - interval '100 days',
      expires_at = expires_at - interval '100 days' where id = ${id}`;
  // They are erased in their order.
  await sql`update payments set created_at = created_at - interval '200 days' where mode = 'test' and id <> ${id}`;
  const isErased = async () => {
    await erasePayerData(ctx);
    const [row] = await sql<{ erased: boolean }[]>`
      select p.sequence <= e.through_sequence and not exists (select 1 from due_work where kind = 'erase' and key = p.id) as erased
      from payments p join erasures e on e.merchant_id = p.merchant_id and e.mode = p.mode where p.id = ${id}`;
    return row?.erased;
  };
  await eventually(isErased, (erased) => erased === true);
  const due = () => sql`select 1 from due_work where kind = 'erase' and key = ${id} and due_at > now() + interval '29 days'`;
  const address = 'test_btc_payer';
  const refund = (await app.test.post('/v1/refunds', { payment_id: id, address, reason: 'For Eve' })).json;
  assert.equal(refund.address, address);
  assert.equal((await due()).length, 1);
  await app.test.post(`/v1/refunds/${refund.id}/cancel`);
  const makeDue = () => sql`update due_work set due_at = now() - interval '1 second' where kind = 'erase' and key = ${id}`;
  await makeDue();
  await eventually(isErased, (erased) => erased === true);
  const { json } = await app.test.get(`/v1/refunds/${refund.id}`);
  assert.deepEqual([json.status, json.address, json.reason], ['canceled', null, null]);

  await leaveRefundAddress(ctx, { paymentId: id, coin: 'BTC', address, email: 'eve@mail.example' });
  assert.equal((await due()).length, 1);
  await makeDue();
  await eventually(isErased, (erased) => erased === true);
  assert.equal((await sql`select 1 from refund_addresses where payment_id = ${id}`).length, 0);
});

test('erasing: payouts and their signing files, once they ended long enough ago', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  assert.equal((await owner.post('/live/settings/business', { retention_days: 30 })).status, 200);
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values ('wal_payout', ${merchantId}, 'LTC', 'testnet', 'payout', 'payout', 'p2wpkh', '0')`;
  const files = { swp_old: 'confirmed', swp_half: 'confirmed', swp_waits: 'sent' };
  const file = { requests: [{ kind: 'psbt', lines: [{ purpose: 'payout', to: 'tb1qbob', units: '1000', reference: 'bob' }] }] };
  for (const [id, state] of Object.entries(files)) {
    await sql`
      insert into signing_files (id, merchant_id, wallet_id, coin, purpose, state, file, destination, total_units, fee_units, input_count, made_by, ended_at)
      values (${id}, ${merchantId}, 'wal_payout', 'LTC', 'payout', ${state}, ${sql.json(file)}, 'tb1q', 1000, 10, 1, 'Olga Owner', now() - interval '31 days')`;
    await sql`insert into signed_transactions (file_id, round, number, txid, raw, fee_units) values (${id}, 0, 0, ${id}, 'tb1qbob', 10)`;
  }
  const rows: [id: string, state: string, days: number, file: string | null, erased: boolean][] = [
    ['po_old', 'confirmed', 31, 'swp_old', true],
    ['po_old2', 'confirmed', 31, 'swp_half', true],
    ['po_young', 'confirmed', 29, 'swp_half', false],
    ['po_canceled', 'canceled', 31, null, true],
    ['po_failed', 'failed', 31, null, true],
    ['po_waits', 'sent', 31, 'swp_waits', false],
    ['po_open', 'approved', 31, null, false],
    ['po_asked', 'requested', 31, null, false],
  ];
  for (const [id, state, days, sweep] of rows)
    await sql`
      insert into outgoing_payments (kind, id, merchant_id, mode, coin, units, usd_cents, address, description, reference, state, requested_by, created_at, sent_at, ended_at, file_id)
      values ('payout', ${id}, ${merchantId}, 'live', 'LTC', 1000, 97, 'tb1qbob', 'For Bob', ${id}, ${state}, 'API', now() - interval '99 days',
        now() - make_interval(days => ${days}), ${state === 'sent' ? null : sql`now() - make_interval(days => ${days})`}, ${sweep})`;
  const read = () =>
    sql`select id, address is null and description is null and erased_at is not null as erased from outgoing_payments where kind = 'payout' order by id`;
  await erasePayerData(ctx);
  const found = await eventually(read, (all) => all.filter(({ erased }) => erased).length >= 4);
  assert.deepEqual(
    found.map(({ id, erased }) => [id, erased]),
    rows.map(([id, , , , erased]) => [id, erased]).toSorted(),
  );
  const { payout } = (await owner.get('/live/payouts/po_old')).json;
  assert.deepEqual([payout.address, payout.description, payout.payout_reference, payout.amount], [null, null, 'po_old', '0.00001000']);
  const left = () => sql`
    select s.id from signing_files s join signed_transactions t on t.file_id = s.id
    where s.wallet_id = 'wal_payout' and s.file::text like '%tb1qbob%' and length(t.raw) > 0 order by s.id`;
  assert.deepEqual(
    (await eventually(left, (kept) => kept.length < 3)).map(({ id }) => id),
    ['swp_half', 'swp_waits'],
  );
});

test('erasing: addresses of refunds that belong to no payment are erased once the money was sent long enough ago', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  assert.equal((await owner.post('/live/settings/business', { retention_days: 30 })).status, 200);
  await sql`
    insert into shop_keys (id, merchant_id, mode, dialect, platform, name, hash, hint, permissions)
    values ('shp_erase', ${merchantId}, 'test', 'greenfield', 'other', 'Shop', 'erase', 'x', '{}')`;
  const ages = { old: 31, young: 29, unsent: null };
  for (const [id, days] of Object.entries(ages))
    await sql`
      insert into shop_refunds (id, merchant_id, mode, shop_key_id, name, amount, currency, coin, address, claimed_at, sent_at)
      values (${id}, ${merchantId}, 'test', 'shp_erase', 'Refund', '1', 'USD', 'BTC', 'tb1qeve', now() - interval '99 days',
        now() - make_interval(days => ${days}::int))`;
  await erasePayerData(ctx);
  const read = () => sql`select id, address from shop_refunds order by id`;
  const rows = await eventually(read, (found) => found.some(({ address }) => address === null));
  assert.deepEqual(
    rows.map(({ id, address }) => [id, address]),
    [
      ['old', null],
      ['unsent', 'tb1qeve'],
      ['young', 'tb1qeve'],
    ],
  );
});

test('JSON of a wrong type in the database stops neither requests, lists nor erasing', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  const { id } = await create({ metadata: { order: '7' } });
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'underpaid' });
  await app.test.post(`/v1/payments/${id}/cancel`);
  const json = (value: unknown) => sql.json(value as never);
  await sql`update simulations set more = ${json([{ coin: 'XMR' }, 7])} where payment_id = ${id}`;
  await sql`update quotes set sources = ${json({ kraken: 1 })} where payment_id = ${id}`;
  await sql`update payments set metadata = ${json(['order', '7'])} where id = ${id}`;
  await sql`insert into notices (merchant_id, mode, kind, detail) values (${merchantId}, 'test', 'usage', ${json([80])})`;
  await sql`
    insert into audit_log (merchant_id, mode, actor_name, action, object, before, after, ip)
    select ${merchantId}, 'test', 'Olga', 'payment.damaged', ${id}, ${json(7)}, jsonb_build_object('decision', kind, 'number', 'first'), ''
    from decisions where payment_id = ${id}`;
  await owner.post('/test/preferences', { views: [{ name: 'Late ones', query: 'exception=late' }] });
  await sql`update preferences set value = ${json({ views: 1 })}`;

  const payment = await app.test.get(`/api/payment/${id}`);
  assert.deepEqual([payment.status, payment.json.status, payment.json.metadata], [200, 'cancelled', {}]);
  const { timeline } = (await owner.get(`/test/payments/${id}`)).json;
  assert.deepEqual(timeline.find(({ kind }: { kind: string }) => kind === 'coin_chosen').rate_sources, []);
  assert.ok(timeline.some(({ kind }: { kind: string }) => kind === 'decision'));
  // Payments of earlier tests may add notices in the meantime.
  const notices = (await owner.get('/test/notices')).json.data as { text: string }[];
  assert.ok(notices.some(({ text }) => /^You have used \?%/.test(text)));
  const [entry] = (await owner.get('/test/audit?action=payment.damaged')).json.data;
  assert.deepEqual([entry.before, entry.after.number], [{}, 'first']);
  assert.deepEqual((await owner.get('/test/preferences')).json.views, []);
  assert.deepEqual((await app.test.post(`/v1/payments/${id}`, { metadata: { order: '8' } })).json.metadata, { order: '8' });

  const origin = 'https://shop.example';
  for (const settings of [
    { origins: { [origin]: 1 }, retentionDays: 30.5 },
    { origins: 7, retentionDays: 'soon' },
  ]) {
    await sql`update merchants set settings = settings || ${json(settings)} where id = ${merchantId}`;
    assert.equal(await erasePayerData(ctx), 0);
    // A new key, because what is known of a key is kept for a moment. Unreadable origins allow no site.
    const { key } = await createApiKey(ctx, { merchantId, mode: 'test', kind: 'public' });
    const reply = await app.as(key).post('/api/payment/create/simple', { amount_usd: 5 }, { origin });
    assert.deepEqual([reply.status, reply.json.error.code], [403, 'origin_not_allowed']);
  }
});
