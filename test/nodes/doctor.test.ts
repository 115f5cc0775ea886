/** The doctor with a real Bitcoin node: what it reports when all is well, and what to fix when something is not. */
// Invariant: Problems that prevent payments are reported with a fix.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, type TestContext, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { openCore } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { createLog } from '../../src/log.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import type { Finding } from '../../src/operate/range-findings.ts';
import { createFiatRates } from '../../src/prices/fiat.ts';
import { createPrices } from '../../src/prices/prices.ts';
import { startTestApp, type TestApp, testEnvironment } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { createElectrumChain } from '../kit/electrum-chain.ts';
import { CERTIFICATES, startElectrumServer } from '../kit/electrum-server.ts';
import { freePort, startAnvil, startBitcoind, type TestNode } from '../kit/nodes.ts';
import { passOn, serve } from '../kit/serve.ts';
import { runFlorin } from '../kit/service.ts';

let node: TestNode;
let database: TestDatabase;
let merchantId: string;
let firstAddress: string;
before(async () => {
  node = await startBitcoind();
  database = await testDatabase();
  ({ merchant_id: merchantId } = await runFlorin(environmentOf({}), ['merchant', 'create', '--name', 'Test shop']));
});
after(async () => {
  await node?.destroy();
  await database?.drop();
});

const environmentOf = (environment: Record<string, string>): Record<string, string> =>
  testEnvironment(database.url, database.folder, {
    LOG_LEVEL: 'fatal',
    BTC_NODE_URL: node.url,
    BTC_NETWORK: 'regtest',
    ...environment,
  });
/** An operator command as a separate process. */
function florin(environment: Record<string, string>, ...args: string[]): Promise<{ code: number; out: string; error: string }> {
  const env = { PATH: process.env.PATH ?? '', ...environmentOf(environment) };
  return new Promise((resolve) => {
    execFile(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', ...args], { env }, (failure, out, error) =>
      resolve({ code: failure ? Number(failure.code) : 0, out, error }),
    );
  });
}
/** What `doctor` finds with these settings. It runs in this process: starting one for each call takes far longer than the checks. */
async function examine(environment: Record<string, string> = {}): Promise<{ ok: boolean; findings: Finding[] }> {
  const core = await openCore(readConfig(environmentOf(environment)), createLog('fatal'));
  try {
    const { ok, findings } = await diagnose(core.ctx);
    assert.equal(
      ok,
      findings.every((finding) => finding.ok),
    );
    for (const { check, ok: isOk, fix } of findings) assert.ok(isOk || fix, `${check} does not say what to fix`);
    return { ok, findings };
  } finally {
    await core.close();
  }
}
const wrong = ({ findings }: { findings: Finding[] }) => findings.filter(({ ok }) => !ok);
const only = (found: { findings: Finding[] }): Finding => {
  assert.equal(wrong(found).length, 1, JSON.stringify(wrong(found)));
  return wrong(found)[0]!;
};

/** The real node behind a proxy that changes answers, forbids methods, or shifts the time. */
async function behind(
  t: TestContext,
  {
    change = {},
    forbid = [],
    fail = null,
    aheadSeconds = 0,
  }: { change?: Record<string, object>; forbid?: string[]; fail?: { code: number; message: string } | null; aheadSeconds?: number },
): Promise<string> {
  const target = new URL(node.url);
  const server = await serve(async (request, reply, body) => {
    const asked = [JSON.parse(body.toString())].flat() as { id: number; method: string }[];
    if (asked.some(({ method }) => forbid.includes(method))) return void reply.writeHead(403).end();
    const given = await passOn(target.origin, request, body);
    const answers = [await given.json()].flat() as { id: number; result: object | null; error: object | null }[];
    for (const answer of answers) {
      const { method } = asked.find(({ id }) => id === answer.id)!;
      if (fail) Object.assign(answer, { result: null, error: fail });
      else if (change[method]) answer.result = { ...answer.result, ...change[method] };
    }
    reply
      .writeHead(given.status, {
        'content-type': 'application/json',
        date: new Date(Date.parse(given.headers.get('date')!) + aheadSeconds * 1000).toUTCString(),
      })
      .end(JSON.stringify(answers.length === 1 ? answers[0] : answers));
  });
  t.after(server.stop);
  return `http://florin:test@127.0.0.1:${server.port}`;
}

test("a node without any merchant's wallet is a problem; with one all is well, and its first address is shown", async () => {
  const without = only(await examine());
  assert.deepEqual([without.check, /florin wallet set/.test(without.fix!)], ['BTC wallet', true]);
  const key = base58check.respell(HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/1'/0'").publicExtendedKey, 0x043587cf);
  const set = await runFlorin(environmentOf({}), [
    ...['wallet', 'set', '--merchant', merchantId, '--coin', 'BTC', '--key', key, '--script', 'p2wpkh'],
  ]);
  firstAddress = set.first_addresses[0];
  // The real command, whose exit status says whether something must be fixed.
  const { code, out } = await florin({}, 'doctor', '--json');
  const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: Finding[] };
  assert.deepEqual([ok, code, wrong({ findings })], [true, 0, []]);
  const details = (check: string) => findings.filter((finding) => finding.check === check).map(({ detail }) => detail);
  const height = await node.rpc('getblockcount');
  assert.match(details('BTC node')[0]!, new RegExp(`^Satoshi:.* on regtest at block ${height}$`));
  assert.ok(details('BTC node').includes('it provides raw blocks, mempool, transactions and fee estimates'));
  assert.deepEqual(details('BTC wallet'), [`${merchantId}: first p2wpkh address ${firstAddress}, next index 0`]);
  assert.match(details('database')[0]!, /^PostgreSQL 1\d.*schema \d{4}_.*, every commit is on disk$/);
  assert.deepEqual(details('BTC price'), ['static']);
  // The service does not run here.
  const payments = findings.find(({ check }) => check === 'payments')!;
  assert.match(payments.detail, /^Test shop \(mer_\w+\) cannot take live payments now\. The Bitcoin source has not answered yet\.$/);
  assert.deepEqual([payments.ok, payments.fix], [true, 'start the service, or check its log']);
  const contact = findings.find(({ check }) => check === 'contact')!;
  assert.match(contact.detail, /^customers of Test shop \(mer_\w+\) cannot reach it .*no support contact and no website$/);
  assert.deepEqual([contact.ok, contact.fix], [true, 'add a support contact in the dashboard under Business']);
  await runFlorin(environmentOf({}), ['checkout', 'set', '--merchant', merchantId, '--support', 'help@shop.example']);
  assert.deepEqual(
    (await examine()).findings.filter(({ check }) => check === 'contact'),
    [],
  );
  assert.deepEqual(details('endpoints'), ['no failing endpoints']);
  assert.match(details('address')[0]!, /for development/);
});

test('the text output has one line per finding, with the fix below it', async () => {
  const { code, out } = await florin({ PUBLIC_URL: 'http://pay.example.com' }, 'doctor');
  assert.equal(code, 1);
  assert.match(out, /^ok {4}BTC node: Satoshi:/m);
  assert.match(out, /^FIX {3}address: http:\/\/pay\.example\.com sends API keys unencrypted\n {6}-> use TLS/m);
  assert.match(out, /1 of \d+ checks failed\.\n$/);
  const asJson = await florin({ PUBLIC_URL: 'http://pay.example.com' }, 'doctor', '--json');
  assert.deepEqual([asJson.code, JSON.parse(asJson.out).ok], [1, false]);
  const well = await florin({}, 'doctor');
  assert.equal(well.code, 0);
  assert.match(well.out, /No problems found\.\n$/);
});

test('the wrong network', async () => {
  const found = wrong(await examine({ BTC_NETWORK: 'testnet' }));
  assert.deepEqual(
    found.map(({ check, detail, fix }) => [check, detail, fix]),
    [
      ['BTC node', 'it is on regtest, BTC_NETWORK says testnet', 'point BTC_NODE_URL to a testnet node, or set BTC_NETWORK=regtest'],
      ['BTC wallet', `${merchantId}: it is for regtest, but BTC_NETWORK is testnet`, 'import a testnet key, or set BTC_NETWORK=regtest'],
    ],
  );
});

test('the wrong password', async () => {
  const { detail, fix } = only(await examine({ BTC_NODE_URL: node.url.replace(':test@', ':guess@') }));
  assert.match(detail, /refuses user and password/);
  assert.match(fix!, /put the user and password of the node in BTC_NODE_URL/);
  assert.doesNotMatch(detail + fix, /guess/);
});

test('the node is down', async () => {
  const { detail, fix } = only(await examine({ BTC_NODE_URL: `http://florin:test@127.0.0.1:${await freePort()}` }));
  assert.match(detail, /does not answer \(connect\)/);
  assert.match(fix!, /start the node/);
});

test('a wallet without a node', async () => {
  const { check, fix } = only(await examine({ BTC_NODE_URL: '' }));
  assert.deepEqual([check, fix], ['BTC node', 'set BTC_P2P=auto or BTC_NODE_URL']);
});

test('the node is still starting', async (t) => {
  const { detail, fix } = only(await examine({ BTC_NODE_URL: await behind(t, { fail: { code: -28, message: 'Loading block index…' } }) }));
  assert.match(detail, /is starting: Loading block index/);
  assert.match(fix!, /wait/);
});

test('calls that the node does not allow are named', async (t) => {
  const all = only(await examine({ BTC_NODE_URL: await behind(t, { forbid: ['getblockchaininfo'] }) }));
  assert.match(all.fix!, /rpcallowip.*rpcwhitelist/);
  const found = wrong(await examine({ BTC_NODE_URL: await behind(t, { forbid: ['getblock', 'getrawmempool', 'estimatesmartfee'] }) }));
  assert.deepEqual(
    found.map(({ detail }) => /^it does not provide ([a-z ]+):/.exec(detail)?.[1]),
    ['raw blocks', 'its mempool', 'fee estimates'],
  );
});

test('a node that is syncing, has no peers, or is old', async (t) => {
  const syncing = only(
    await examine({ BTC_NODE_URL: await behind(t, { change: { getblockchaininfo: { initialblockdownload: true, headers: 900_000 } } }) }),
  );
  assert.match(syncing.detail, /still syncing \(900000 known\)/);
  const main = { getblockchaininfo: { chain: 'main' }, getnetworkinfo: { connections: 0, version: 240_001, warnings: ['new rules'] } };
  const found = await examine({ BTC_NODE_URL: await behind(t, { change: main }), BTC_NETWORK: 'mainnet' });
  assert.deepEqual(
    wrong(found).map(({ check, detail }) => [check, detail.replace(/mer_\w+: /, '')]),
    [
      ['BTC node', 'version 240001 is older than 250000, the oldest known to be safe'],
      ['BTC node', 'it has no peers'],
      ['BTC wallet', 'it is for regtest, but BTC_NETWORK is mainnet'],
    ],
  );
  assert.ok(found.findings.some(({ detail, ok }) => ok && detail === 'it warns: new rules'));
  // Elsewhere an old version is reported, but is not a problem.
  const regtest = await examine({ BTC_NODE_URL: await behind(t, { change: { getnetworkinfo: { version: 240_001 } } }) });
  assert.ok(regtest.findings.some(({ detail, ok, fix }) => ok && fix === 'upgrade the node' && /240001/.test(detail)));
});

test('a pruned node: how much it keeps, and whether unread blocks are gone', async (t) => {
  const tip: number = await node.rpc('getblockcount');
  const pruned = () => behind(t, { change: { getblockchaininfo: { pruned: true, pruneheight: tip - 99 } } });
  const little = only(await examine({ BTC_NODE_URL: await pruned() }));
  assert.match(little.detail, /keeps the last 100 blocks, about 17 hours/);
  assert.match(little.fix!, /prune=/);
  const { sql } = database.db;
  await sql`insert into chains (chain, genesis) values ('BTC', ${await node.rpc('getblockhash', 0)})`;
  await sql`insert into tips (chain, height, hash, scanned_through) values ('BTC', ${tip - 101}, 'x', clock_timestamp() - interval '20 minutes')`;
  const found = await examine({ BTC_NODE_URL: await pruned() });
  assert.match(only(found).detail, new RegExp(`those after ${tip - 101} were not read and are gone`));
  assert.ok(found.findings.some(({ detail, ok, fix }) => ok && /last 20 minutes ago/.test(detail) && /^start the service/.test(fix ?? '')));
  await sql`update tips set height = ${tip - 100}`;
  assert.match(only(await examine({ BTC_NODE_URL: await pruned() })).fix!, /prune=/);
  await sql`delete from tips`;
});

test('a different chain than the one of the payments', async () => {
  const { sql } = database.db;
  await sql`update chains set genesis = 'another' where chain = 'BTC'`;
  const { detail, fix } = only(await examine());
  assert.match(detail, /its chain starts with 0f9188f1.*, but the payments here are on another/);
  assert.match(fix!, /point BTC_NODE_URL to a node on that chain/);
  await sql`delete from chains`;
});

test('a server that sorts texts in another way than the indexes on its disk', async () => {
  const { sql } = database.db;
  const [before] = await sql<
    { version: string | null }[]
  >`select datcollversion as version from pg_database where datname = current_database()`;
  await sql`update pg_database set datcollversion = '0.1' where datname = current_database()`;
  const { detail, fix } = only(await examine());
  await sql`update pg_database set datcollversion = ${before!.version} where datname = current_database()`;
  assert.match(detail, /indexes of texts were made with version 0\.1 of the collation/);
  assert.match(fix!, /reindex database/);
  assert.deepEqual(wrong(await examine()), []);
});

test('clocks that differ', async (t) => {
  const { detail, fix } = only(await examine({ BTC_NODE_URL: await behind(t, { aheadSeconds: 90 }) }));
  assert.match(detail, /^its clock is (8\d|9[01]) s ahead of the database's$/);
  assert.match(fix!, /NTP/);
  const late = only(await examine({ BTC_NODE_URL: await behind(t, { aheadSeconds: -90 }) }));
  assert.match(late.detail, /behind the database's$/);
  assert.deepEqual(wrong(await examine({ BTC_NODE_URL: await behind(t, { aheadSeconds: 40 }) })), []);
});

describe('price sources', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp({ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', LTC_NODE_URL: `http://127.0.0.1:${await freePort()}` });
  });
  after(() => app?.stop());

  test('the answer of each; coins offered without a price are a problem', async (t) => {
    const { url: host, stop } = await serve((request, reply) => {
      const coin = /^\/(coinbase|bitstamp)\/.*?(BTC|btc)/.exec(request.url!);
      if (request.url!.startsWith('/v2') || !coin) return void reply.writeHead(404).end();
      reply.end('{"last":"97000","open":"97000","volume":"5","percent_change_24":"0"}');
    });
    t.after(stop);
    const { ctx } = app.app;
    const hosts = { coinbase: `${host}/coinbase`, bitstamp: `${host}/bitstamp`, kraken: `${host}/kraken` };
    const prices = createPrices({ ...ctx, sources: 'coinbase,bitstamp,kraken', hosts });
    const fiat = createFiatRates({ ...ctx, sources: 'coinbase', hosts });
    const { ok, findings } = await diagnose({ ...ctx, prices, fiat });
    const of = (check: string) => findings.filter((finding) => finding.check === check).map((f) => [f.ok, f.detail, f.fix !== null]);
    assert.equal(ok, false);
    assert.deepEqual(of('coinbase prices'), [[true, 'BTC; not listed there: ETH, LTC, DASH, DOGE', false]]);
    assert.deepEqual(of('kraken prices'), [[true, 'it answers status 404', true]]);
    assert.deepEqual(of('BTC price'), [[true, 'coinbase, bitstamp', false]]);
    assert.deepEqual(of('LTC price'), [[false, 'no price source answers, so customers cannot pay with LTC', true]]);
    assert.deepEqual(of('DOGE price'), []);
    assert.deepEqual(of('coinbase rates'), [[true, 'it answers status 404', true]]);
  });

  test('a machine that reaches no price source gets one line for all of them, and one for the coins without a price', async () => {
    const { ctx } = app.app;
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    const hosts = { coinbase: nowhere, bitstamp: nowhere, kraken: nowhere };
    const prices = createPrices({ ...ctx, sources: 'coinbase,bitstamp,kraken', hosts });
    const fiat = createFiatRates({ ...ctx, sources: 'coinbase', hosts });
    const findings = (await diagnose({ ...ctx, prices, fiat })).findings.filter(({ check }) => /prices?$|rates$|^price /.test(check));
    assert.deepEqual(
      findings.map(({ check, ok }) => [check, ok]),
      [
        ['price sources', true],
        ['BTC, LTC price', false],
      ],
    );
    assert.match(
      findings[0]!.detail,
      /^4 of 4 sources do not answer: coinbase prices, bitstamp prices, kraken prices, coinbase rates\. The first says: .*ECONNREFUSED/,
    );
  });
});

const sealedBy = ({ seal }: Pick<Context, 'seal'>) => Buffer.from(seal('endpoint secret', Buffer.from('whsec_')));

test('failing endpoints and deliveries that nobody sends', async (t) => {
  const app = await startTestApp();
  t.after(() => app.stop());
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const add = (id: string, state: string, since: string | null) => sql`
    insert into endpoints (id, merchant_id, mode, url, events, secret, state, failing_since)
    values (${id}, ${app.merchant.merchantId}, 'live', ${`https://shop.example/${id}`}, '{*}', ${sealedBy(ctx)}, ${state}, ${since}::timestamptz)`;
  await add('we_fine', 'enabled', null);
  await add('we_off', 'disabled', null);
  await add('we_fails', 'enabled', '2026-11-20T10:00:00Z');
  await add('we_gone', 'gone', '2026-11-19T10:00:00Z');
  await add('we_tired', 'disabled', '2026-11-18T10:00:00Z');
  await sql`
    insert into endpoint_notices (endpoint_id, merchant_id, mode, reason, at)
    values ('we_gone', ${app.merchant.merchantId}, 'live', 'gone', '2026-11-19T10:00:00Z'),
      ('we_tired', ${app.merchant.merchantId}, 'live', 'failures', '2026-11-18T10:00:00Z')`;
  await add('we_removed', 'deleted', '2026-11-18T10:00:00Z');
  const { findings } = await diagnose(ctx);
  assert.deepEqual(
    findings.filter(({ ok }) => !ok).map(({ check, detail }) => [check, detail]),
    [['endpoint we_fails', 'https://shop.example/we_fails has been failing since 2026-11-20T10:00:00.000Z']],
  );
  // A disabled endpoint needs no action: it is reported, but is not a problem for the operator.
  const told = (id: string) => findings.find(({ check }) => check === `endpoint ${id}`)!.detail;
  assert.match(told('we_tired'), /disabled at 2026-11-18T10:00:00\.000Z: no delivery succeeded for five days$/);
  assert.match(told('we_gone'), /disabled at 2026-11-19T10:00:00\.000Z: it answered 410$/);
  assert.match(findings.find(({ check }) => check === 'disk')!.detail, /^\d+ MiB free in /);
  assert.ok(findings.find(({ check }) => check === 'disk')!.detail.endsWith(app.config.dataFolder));
  assert.match(findings.find(({ check }) => check === 'live mode')!.detail, /only test payments work/);
});

test('overdue deliveries: a missing worker is named only when nothing is sent at all', async (t) => {
  const app = await startTestApp({}, { roles: ['api'] });
  t.after(() => app.stop());
  const { ctx } = app.app;
  const { sql } = ctx.db;
  await sql`
    insert into endpoints (id, merchant_id, mode, url, events, secret, state, failing_since, failures, failure_reason, failure_address)
    values ('we_fails', ${app.merchant.merchantId}, 'live', 'https://shop.example/', '{*}', ${sealedBy(ctx)}, 'enabled', now() - interval '1 hour', 9,
      'status_unexpected', '203.0.113.7')`;
  await sql`
    insert into events (id, merchant_id, mode, type, sequence, body, created_at)
    values ('evt_late', ${app.merchant.merchantId}, 'live', 'payment.created', 1, '{}', now())`;
  await sql`
    insert into deliveries (event_id, endpoint_id, merchant_id, mode, sequence, state, due_at)
    values ('evt_late', 'we_fails', ${app.merchant.merchantId}, 'live', 1, 'pending', now() - interval '20 minutes')`;
  const failing = async () => (await diagnose(ctx)).findings.filter(({ ok }) => !ok).map(({ check, fix }) => [check, fix]);
  const endpoint = [
    'endpoint we_fails',
    'Make it answer 2xx within ten seconds. Deliveries are retried; it is disabled after five days without success',
  ];
  assert.deepEqual(await failing(), [
    endpoint,
    ['deliveries', 'no worker is running: start the service, with the worker role if you split roles'],
  ]);
  await sql`insert into attempt_hours values ('we_fails', date_trunc('hour', now()), 'status', 9, 5, 5, now())`;
  assert.deepEqual(await failing(), [endpoint], 'what is due waits for the endpoint, not for a worker');
});

test('deposits to addresses without a payment, until the operator has claimed them', async () => {
  await database.db.sql`
    insert into stray_deposits (coin, ref, merchant_id, wallet_id, index, address, units, first_seen_at)
    values ('BTC', 'abc:0', ${merchantId}, 'wal_x', 57, 'bcrt1qstray', 150000, '2026-11-20T10:00:00Z')`;
  const { check, detail, fix } = only(await examine());
  assert.equal(check, 'BTC deposit');
  assert.match(detail, /^0\.00150000 came to bcrt1qstray in abc:0 \(index 57 of wal_x, mer_\w+\) on 2026-11-20T10:00:00\.000Z/);
  const command = /florin (deposit claim --coin BTC --ref abc:0)$/.exec(fix!)![1]!;
  await runFlorin(environmentOf({}), command.split(' '));
  assert.deepEqual(wrong(await examine()), []);
});

test('an Ethereum node: on the right chain, on another one, or down', async (t) => {
  const anvil = await startAnvil();
  t.after(() => anvil.destroy());
  const ask = async (environment: Record<string, string>) => {
    const { findings } = await examine({
      BTC_NODE_URL: '',
      ETH_NODE_URL: anvil.url,
      ETH_NETWORK: 'regtest',
      ETH_CHAIN_ID: '31337',
      ...environment,
    });
    return findings.filter(({ check }) => check === 'ETH node').map(({ ok, detail, fix }) => [ok, detail, fix]);
  };
  const [[ok, detail] = []] = await ask({});
  assert.equal(ok, true);
  assert.match(String(detail), /^anvil.* on regtest at block \d+$/);
  assert.deepEqual(await ask({ ETH_CHAIN_ID: '5' }), [
    [false, 'it is on chain 31337, ETH_CHAIN_ID says 5', 'point ETH_NODE_URL to a node on that chain, or change ETH_CHAIN_ID'],
  ]);
  const [[down, , fix] = []] = await ask({ ETH_NODE_URL: `http://127.0.0.1:${await freePort()}` });
  assert.equal(down, false);
  assert.match(String(fix), /start the node, or check the address and key/);
});

test('an Electrum server with another certificate: doctor shows the command, and after it the server is used again', async (t) => {
  const server = await startElectrumServer({ chain: createElectrumChain() });
  t.after(() => server.close());
  const environment = { BTC_ELECTRUM_URL: server.url };
  const shown = async () => {
    const { findings } = await examine(environment);
    return findings.find(({ check }) => check === `BTC Electrum server ${server.name}`)!;
  };
  assert.deepEqual([(await shown()).ok, (await shown()).detail], [true, 'ElectrumX 1.20.0 at block 0']);
  server.presentCertificate(CERTIFICATES[1]);
  const { ok, detail } = await shown();
  assert.equal(ok, false);
  const [, command] = /accept it with: florin (chain accept-certificate --server \S+)$/.exec(detail)!;
  const accepted = await runFlorin(environmentOf(environment), command!.split(' '));
  assert.deepEqual(accepted, { server: server.name, accepts_next_certificate: true });
  assert.equal((await shown()).ok, true);
  const unknown = await florin(environment, 'chain', 'accept-certificate', '--server', 'electrum.example:50002');
  assert.equal(unknown.code, 1);
  assert.match(unknown.error, /no certificate of this server is stored/);
});
