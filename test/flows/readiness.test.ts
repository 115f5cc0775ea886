/** Whether a merchant can take money now: one answer for creates, pages, notices and the checklist. */
// Invariant: A payment page never has a dead button; with nothing to pay with it says so and continues when there is.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { diagnose } from '../../src/operate/doctor.ts';
import { endOutages, readPayableCoins } from '../../src/readiness/readiness.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { asIfFollowed, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { giveWallet } from '../kit/shop.ts';

let app: TestApp;
before(async () => {
  // The node is never called. It only makes Bitcoin a configured coin; the tests write what a follower would write.
  app = await startTestApp(
    {
      BTC_NODE_URL: 'http://user:pass@127.0.0.1:9',
      DASH_PEERS: '127.0.0.1:9',
      PRICES: 'static:BTC=97000.00,LTC=100.00,DASH=30.00',
      LOG_LEVEL: 'silent',
    },
    { roles: ['api', 'worker'] },
  );
});
after(() => app?.stop());

const PAYMENT = { amount_usd: 25, return_url: 'https://shop.example/' };
const ITEM = { product_id: 'mug', name: 'Mug', quantity: 1, unit_price: 25 };
const create = async (body: object = PAYMENT) => {
  const { status, json } = await app.live.post('/api/payment/create/simple', body);
  assert.equal(status, 201);
  return json as { id: string; warnings?: { code: string; message: string; doc_url: string }[] };
};
const codesOf = async (coin: string) => {
  const { merchantId } = app.merchant;
  const found = (await readPayableCoins(app.app.ctx, { merchantId, mode: 'live' })).find((one) => one.coin === coin)!;
  return { payable: found.payable, codes: found.missing.map(({ code }) => code) };
};
const notices = () =>
  app.app.ctx.db.sql<{ detail: { reason: string } }[]>`select detail from notices where kind = 'payments_unavailable' order by id`;
const page = async (id: string) => (await fetch(`${app.url}/pay?id=${id}`)).text();
const PATHS = { BTC: "m/84'/0'/0'", LTC: "m/84'/2'/0'", DASH: "m/44'/5'/0'" } as const;
const importAccountKey = (coin: keyof typeof PATHS = 'BTC') => {
  const accountKey = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive(PATHS[coin]).publicExtendedKey;
  const script = coin === 'DASH' ? 'p2pkh' : 'p2wpkh';
  return setWallet(app.app.ctx, { merchantId: app.merchant.merchantId, coin, accountKey, script });
};

test('a create that nobody could pay succeeds as documented, with a warning that links to the guide', async () => {
  const { warnings } = await create();
  assert.equal(warnings!.length, 1);
  assert.equal(warnings![0]!.code, 'no_payable_currency');
  assert.match(warnings![0]!.message, /none of your currencies is ready/);
  const guide = new URL(warnings![0]!.doc_url);
  assert.match(await (await fetch(`${app.url}${guide.pathname}`)).text(), new RegExp(`id="${guide.hash.slice(1)}"`));
  const advanced = await app.live.post('/api/payment/create/advanced', { ...PAYMENT, items: [ITEM], tax: 0, amount_usd: undefined });
  assert.deepEqual([advanced.status, advanced.json.warnings], [201, warnings]);
  assert.equal('warnings' in (await app.test.post('/api/payment/create/simple', PAYMENT)).json, false, 'test mode needs nothing');
});

test('members get one notice, no matter how many creates and customers are affected; each page says that nothing was charged', async () => {
  const { id } = await create();
  for (let i = 0; i < 3; i++) assert.match(await page(id), /data-state="unavailable"[\s\S]*Nothing was charged/);
  assert.deepEqual(
    (await notices()).map(({ detail }) => detail.reason),
    ['No wallet is set up.'],
  );
});

test('the page of a link says before its form that nothing can be paid; operators see it in metrics and readiness', async () => {
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  const linkOf = async (mode: 'live' | 'test') => (await app[mode].post('/v1/payment_links', { name: 'Mug', amount: '25.00' })).json;
  const open = async ({ id }: { id: string }) => {
    const reply = await fetch(`${app.url}/link/${id}`);
    return { status: reply.status, text: await reply.text() };
  };
  const live = await linkOf('live');
  const before = await open(live);
  assert.equal(before.status, 503);
  assert.match(before.text, /data-state="unavailable"[\s\S]*take payments right now[\s\S]*Nothing was charged\.[\s\S]*id="reload"/);
  assert.doesNotMatch(before.text, /<form method="post"/);
  await sql`update merchants set settings = settings || '{"supportContact": "help@shop.example"}' where id = ${merchantId}`;
  const helped = await eventually(
    () => open(live),
    ({ text }) => text.includes('mailto:'),
  );
  assert.match(helped.text, new RegExp(`mailto:help@shop\\.example\\?subject=${live.id}`));
  assert.match((await open(await linkOf('test'))).text, /data-state="link"[\s\S]*<form method="post"/);
  const unpayable = async () => Number(/^florin_merchants_unpayable (\d+)$/m.exec(await (await fetch(`${app.url}/metrics`)).text())![1]);
  assert.equal(await unpayable(), 1);
  const { warnings } = (await (await fetch(`${app.url}/readyz`)).json()) as { warnings: string[] };
  assert.deepEqual(
    warnings.filter((warning) => /a wallet is set up/.test(warning)),
    [],
  );
  await importAccountKey('LTC');
  const told = (await (await fetch(`${app.url}/readyz`)).json()) as { warnings: string[] };
  assert.ok(told.warnings.includes('LTC: a wallet is set up, but no source is connected, so it cannot be paid'), told.warnings.join());
  await sql`delete from wallets where family = 'LTC'`;
});

test('everything that is missing is listed, each with what to do and where to read more', async () => {
  assert.deepEqual(await codesOf('BTC'), { payable: false, codes: ['wallet_missing', 'source_starting'] });
  assert.deepEqual(await codesOf('LTC'), { payable: false, codes: ['wallet_missing', 'source_missing'] });
  assert.deepEqual(await codesOf('DOGE'), { payable: false, codes: ['wallet_missing', 'source_missing', 'price_missing'] });
  for (const { missing } of await readPayableCoins(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'live' }))
    for (const { message, fix, docUrl } of missing) {
      assert.match(message, /^[A-Z].*\.$/);
      assert.match(fix, /[.:]$/);
      const { pathname, hash } = new URL(docUrl);
      const text = await (await fetch(`${app.url}${pathname}`)).text();
      assert.ok(hash === '' || text.includes(`id="${hash.slice(1)}"`), docUrl);
    }
});

test('a network of which no peer stays is called out of reach after two minutes, with the reason and what to check', async () => {
  const { sql } = app.app.ctx.db;
  await importAccountKey('DASH');
  const report = (secondsAgo: number) => sql`
    insert into peer_status (chain, network, phase, connected, relaying, height, hash, parent, block_time, syncing, percent, bytes_in,
      bytes_out, started_at, trouble)
    values ('DASH', 'mainnet', 'connecting', 0, 0, 0, '', '', now(), true, 0, 0, 0, now() - make_interval(secs => ${secondsAgo}::int),
      'of 8 addresses tried, none accepts connections')
    on conflict (chain, network) do update set started_at = excluded.started_at, reported_at = clock_timestamp()`;
  const found = async () =>
    (await readPayableCoins(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'live' })).find(({ coin }) => coin === 'DASH')!
      .missing[0]!;
  await report(60);
  assert.equal(
    (await found()).message,
    'The Dash source is not in sync: connecting to peers; of 8 addresses tried, none accepts connections.',
  );
  await report(180);
  const { code, message, fix } = await found();
  assert.equal(code, 'source_unreachable');
  assert.equal(message, 'Florin can’t reach the Dash network: of 8 addresses tried, none accepts connections.');
  assert.match(fix, /^Check that this server may open connections to the internet on any port\./);
  await sql`delete from peer_status`;
  await sql`delete from wallets where family = 'DASH'`;
});

test('advice about prices is never a setting that is the default', async () => {
  const { missing } = (await readPayableCoins(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'live' })).find(
    ({ coin }) => coin === 'DOGE',
  )!;
  const price = missing.find(({ code }) => code === 'price_missing')!;
  assert.deepEqual(price.lines, []);
  assert.match(price.fix, /`\.\/florin doctor`/);
});

test('once wallet, source and price are there, an open page continues, creates no longer warn, and the outage ends', async () => {
  const { id } = await create();
  await importAccountKey();
  assert.deepEqual(await codesOf('BTC'), { payable: false, codes: ['source_starting'] });
  await asIfFollowed(app, 'BTC');
  assert.deepEqual(await codesOf('BTC'), { payable: true, codes: [] });
  await eventually(
    () => page(id),
    (text) => text.includes('data-state="choose"'),
  );
  await eventually(
    () => create(),
    ({ warnings }) => warnings === undefined,
  );
  await endOutages(app.app.ctx);
  const [outage] = await app.app.ctx.db.sql<{ over: boolean }[]>`select ended_at is not null as over from payment_outages`;
  assert.equal(outage!.over, true);
  assert.match(await (await fetch(`${app.url}/metrics`)).text(), /^florin_merchants_unpayable 0$/m);
});

test('a price that no coin carries is refused at creation; a coin that does not carry it says from which price it does', async () => {
  const refused = async (body: object) => {
    const { status, json } = await app.live.post('/api/payment/create/simple', { ...PAYMENT, amount_usd: undefined, ...body });
    return [status, json.error?.code, json.error?.param, json.error?.message];
  };
  const message = /^0\.50 USD \(0\.00000516 BTC\) is below the smallest BTC payment, 0\.00005460 BTC \(about 5\.30 USD\)\./;
  const [status, code, param, text] = await refused({ amount_usd: 0.5 });
  assert.deepEqual([status, code, param], [400, 'amount_too_small', 'amount_usd']);
  assert.match(text, message);
  assert.deepEqual((await refused({ amount_usd: 5.29 }))[1], 'amount_too_small');
  assert.equal((await refused({ amount_usd: 5.3 }))[0], 201);
  // So is a link with such a price, and a change to it.
  const isSmall = ({ json: { error } }: Reply) => {
    assert.deepEqual([error.code, error.param], ['amount_too_small', 'amount']);
    assert.match(error.message, message);
  };
  isSmall(await app.live.post('/v1/payment_links', { name: 'Tip', amount: '0.50' }));
  const { id: linkId } = (await app.live.post('/v1/payment_links', { name: 'Tip', amount: '5.30' })).json;
  isSmall(await app.live.post(`/v1/payment_links/${linkId}`, { amount: '0.50' }));
  // A link whose price became too small since then has no form; one with an open amount shows its form again.
  const { sql } = app.app.ctx.db;
  const tooSmall = /This amount is too small to pay with cryptocurrency/;
  const form = /name="token" value="([^"]+)"/;
  const read = () => fetch(`${app.url}/link/${linkId}`);
  const pay = async (id: string, token: string) => {
    const reply = await fetch(`${app.url}/link/${id}`, { method: 'POST', body: new URLSearchParams({ token, amount: '0.50' }) });
    assert.equal(reply.status, 400);
    const shown = await reply.text();
    assert.match(shown, tooSmall);
    return form.test(shown);
  };
  const token = form.exec(await (await read()).text())![1]!;
  await sql`update payment_links set amount_minor = 50 where id = ${linkId}`;
  const page = await read();
  const shown = await page.text();
  assert.equal(page.status, 400);
  assert.match(shown, tooSmall);
  assert.doesNotMatch(shown, form);
  assert.equal(await pay(linkId, token), false);
  const open = (await app.live.post('/v1/payment_links', { name: 'Tip' })).json;
  assert.equal(await pay(open.id, form.exec(await (await fetch(`${app.url}/link/${open.id}`)).text())![1]!), true);
  // Litecoin carries it, although it is away at the moment.
  await importAccountKey('LTC');
  await eventually(
    () => refused({ amount_usd: 0.5 }),
    ([status]) => status === 201,
  );
  // A repeat gets the answer of before, although nothing carries that price any more.
  const once = () => app.live.post('/api/payment/create/simple', { ...PAYMENT, amount_usd: 0.6 }, { 'idempotency-key': 'small' });
  const first = await once();
  assert.equal(first.status, 201);
  await app.app.ctx.db.sql`delete from wallets where family = 'LTC'`;
  await eventually(
    () => refused({ amount_usd: 0.6 }),
    ([status]) => status === 400,
  );
  assert.deepEqual([(await once()).status, (await once()).text], [201, first.text]);
});

test('a coin that does not carry the price says from which one on it does, in the language of the customer and the currency of the price', async (t) => {
  const node = 'http://user:pass@127.0.0.1:9';
  const shop = await startTestApp(
    { BTC_NODE_URL: node, LTC_NODE_URL: node, LOG_LEVEL: 'silent', FIAT_RATES: 'static:EUR=0.92' },
    { roles: ['api'] },
  );
  t.after(() => shop.stop());
  for (const coin of ['BTC', 'LTC'] as const) await giveWallet(shop, coin);
  await asIfFollowed(shop, 'BTC', 'LTC');
  const choice = async (body: object, lang: string) => {
    const { json } = await shop.live.post('/api/payment/create/simple', { return_url: 'https://shop.example/', ...body });
    const text = await (await fetch(`${shop.url}/pay?id=${json.id}&lang=${lang}`)).text();
    const isOff = /<input type="radio" name="currency" value="BTC"[^>]* disabled>/.test(text);
    return [isOff, /<b>Bitcoin<\/b><span class="est">([^<]*)</.exec(text)?.[1]?.replaceAll('\u00a0', ' ')];
  };
  assert.deepEqual(await choice({ amount_usd: 0.5 }, 'en'), [true, 'from $5.30']);
  assert.deepEqual(await choice({ amount_usd: 0.5 }, 'de'), [true, 'ab 5,30 $']);
  assert.deepEqual(await choice({ amount: '0.50', currency_fiat: 'EUR' }, 'fr'), [true, 'à partir de 4,88 €']);
  assert.deepEqual((await choice({ amount: '4.88', currency_fiat: 'EUR' }, 'fr'))[0], false);
});

test('an outage soon after another one is not reported again, a later one is', async () => {
  const { sql } = app.app.ctx.db;
  const stop = () => sql`update wallets set active = false, paused_at = clock_timestamp()`;
  const warned = () =>
    eventually(
      () => create(),
      ({ warnings }) => warnings !== undefined,
    );
  await stop();
  assert.deepEqual(await codesOf('BTC'), { payable: false, codes: ['wallet_paused'] });
  await warned();
  await eventually(
    () => sql`select 1 from payment_outages where ended_at is null`,
    (rows) => rows.length === 1,
  );
  assert.equal((await notices()).length, 1);
  await sql`update wallets set active = true, paused_at = null`;
  await endOutages(app.app.ctx);
  await sql`update payment_outages set notified_at = notified_at - interval '2 hours'`;
  await stop();
  await warned();
  await eventually(notices, (all) => all.length === 2);
  assert.equal((await notices())[1]!.detail.reason, 'The Bitcoin wallet is paused.');
  await sql`update wallets set active = true, paused_at = null`;
});

test('a used-up plan, a disabled coin and a key for another network are reported', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update wallets set network = 'testnet'`;
  await sql`update merchants set settings = settings || '{"coins": ["LTC"]}', plan = 'starter'`;
  await sql`update live_usage set payments = 100`;
  assert.deepEqual(await codesOf('BTC'), { payable: false, codes: ['wallet_network', 'currency_off', 'plan_limit_reached'] });
});

test('readiness and doctor say so while the database accepts no writes', async () => {
  const { sql } = app.app.ctx.db;
  const [{ name } = { name: '' }] = await sql<{ name: string }[]>`select current_database() as name`;
  // Sessions that are open keep the old setting.
  const reconnect = () =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
  const set = async (text: string) => {
    await eventually(
      () =>
        sql
          .begin('read write', (tx) => tx.unsafe(`alter database ${name} ${text}`))
          .then(
            () => true,
            () => false,
          ),
      Boolean,
    );
  };
  const reasons = async () => {
    await reconnect().catch(() => {});
    return (await (await fetch(`${app.url}/readyz`)).json()).reasons as string[];
  };
  const REASON = 'the database is read-only, so nothing can be recorded';
  await set('set default_transaction_read_only = on');
  await eventually(reasons, (found) => found.includes(REASON));
  const findings = await eventually(
    () =>
      diagnose(app.app.ctx).then(
        ({ findings }) => findings,
        () => [],
      ),
    (all) => all.some(({ check, ok, detail }) => check === 'database' && !ok && detail.includes('read-only')),
  );
  assert.ok(findings.length > 0);
  await set('reset default_transaction_read_only');
  await eventually(reasons, (found) => !found.includes(REASON));
});

test('a process that a load balancer asks is not ready for a while before it ends, and answers requests until then', async () => {
  const other = await startTestApp({}, { roles: ['api'] });
  const reasons = async () => ((await (await fetch(`${other.url}/readyz`)).json()) as { reasons: string[] }).reasons;
  assert.ok(!(await reasons()).includes('this process is stopping'));
  const stopped = other.stop();
  await eventually(reasons, (found) => found.includes('this process is stopping'));
  assert.equal((await other.test.get('/api/payments')).status, 200);
  await stopped;
  await assert.rejects(reasons);
});
