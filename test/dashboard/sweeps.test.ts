/** Sweeps through the dashboard's API: roles, recent authentication, merchants, signed files, and the waiting time of a destination. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Transaction } from '@scure/btc-signer';
import { signFile } from '../../signer/sign.ts';
import { mayDo, ROLES } from '../../src/core/roles.ts';
import { readSignedFile, signingFileText } from '../../src/core/signing-file.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { listDestinations } from '../../src/wallets/destinations.ts';
import { DASHBOARD_ROUTES, pathsOf } from '../../src/web/dashboard/serve.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { Person, setUpPartner, setUpPerson } from '../kit/person.ts';
import { giveWallet } from '../kit/shop.ts';
import { masterKey, PHRASE, sweepFile } from '../kit/signing.ts';

let app: TestApp;
let owner: Person;
const made = sweepFile('BTC', 'p2wpkh', 3);
const { id } = made.file;
const content = signingFileText(made.file);
const ends = made.destination.slice(-6);

before(async () => {
  // The node is never reached: it only makes the coin a configured one.
  app = await startTestApp({ BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', LOG_LEVEL: 'silent' }, { roles: ['api'] });
  owner = await setUpPerson(app);
  await giveWallet(app, 'BTC');
  const { sql } = app.app.ctx.db;
  await sql`update wallets set next_index = 1`;
  await sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by)
    select ${id}, merchant_id, id, 'BTC', 'made', ${sql.json(JSON.parse(content))}, ${made.destination},
      ${made.file.totalUnits.toString()}, ${made.file.feeUnits.toString()}, 3, 'Test' from wallets`;
});
after(() => app?.stop());

const sweepOf = async (person = owner) => (await person.get(`/live/sweeps/${id}`)).json;
const destination = async (person = owner) =>
  (await person.get('/live/sweeps/overview')).json.destinations.find((one: any) => one.currency === 'BTC');
const setDestination = (person = owner, body = {}) =>
  person.post('/live/sweep-destinations', { currency: 'BTC', address: made.destination, ends, ...body });
const answer = ({ status, json }: { status: number; json: any }) => [status, json?.error?.code];

test('only owners and finance members use sweeps, and only owners confirm a destination', async () => {
  const rolesFor = (action: 'sweeps.read' | 'sweeps.use' | 'sweeps.confirm') => ROLES.filter((role) => mayDo(role, action));
  assert.deepEqual(rolesFor('sweeps.read'), ['owner', 'finance']);
  assert.deepEqual(rolesFor('sweeps.use'), ['owner', 'finance']);
  assert.deepEqual(rolesFor('sweeps.confirm'), ['owner']);
  const { sql } = app.app.ctx.db;
  for (const [role, status] of [['admin', 403] as const, ['finance', 200] as const]) {
    await sql`update members set role = ${role}`;
    for (const path of ['overview', id, `${id}/file`, `${id}/psbts`, `${id}/psbts/1`])
      assert.equal((await owner.get(`/live/sweeps/${path}`)).status, status, role);
  }
  await sql`update members set role = 'owner'`;
});

test('making, sending, replacing, downloading and setting a destination require recent authentication', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update sessions set created_at = created_at - interval '11 minutes', confirmed_at = null`;
  for (const reply of [
    await owner.post('/live/sweeps', { currency: 'BTC' }),
    await owner.post('/live/sweeps/signed', { content }),
    await owner.post(`/live/sweeps/${id}/replace`),
    await owner.get(`/live/sweeps/${id}/file`),
    await owner.get(`/live/sweeps/${id}/psbts/1`),
    await setDestination(),
    await owner.post('/live/sweep-destinations/BTC/confirm'),
  ])
    assert.deepEqual(answer(reply), [403, 'recent_authentication_required']);
  assert.equal((await owner.get('/live/sweeps')).json.data.length, 1, 'reading does not');
  await sql`update sessions set created_at = clock_timestamp()`;
});

test('test mode sees no live file and changes none, and has destinations that nobody sets', async () => {
  assert.deepEqual((await owner.get('/test/sweeps')).json.data, []);
  for (const reply of [await owner.get(`/test/sweeps/${id}`), await owner.post(`/test/sweeps/${id}/cancel`)])
    assert.deepEqual(answer(reply), [404, 'sweep_not_found']);
  assert.deepEqual(answer(await owner.post('/test/sweeps', { currency: 'BTC' })), [409, 'sweep_empty']);
  const set = await owner.post('/test/sweep-destinations', { currency: 'BTC', address: made.destination, ends });
  assert.deepEqual(answer(set), [409, 'live_mode_only']);
});

test('a destination waits for 24 hours; a second owner of more than a day confirms it, and nobody else', async () => {
  const { ctx } = app.app;
  assert.deepEqual(await destination(), { currency: 'BTC', current: null, waiting: null });
  assert.deepEqual(answer(await setDestination(owner, { ends: 'zzzzzz' })), [400, 'address_ends_differ']);
  assert.deepEqual(answer(await setDestination(owner, { address: 'bc1qnothing' })), [400, 'address_invalid']);
  const asked = await setDestination();
  const [{ hours } = { hours: 0 }] = await ctx.db.sql<{ hours: number }[]>`
    select extract(epoch from ${asked.json.due_at}::timestamptz - clock_timestamp())::float / 3600 as hours`;
  assert.ok(hours > 23.9 && hours <= 24, String(hours));
  const { current, waiting } = await destination();
  assert.deepEqual([current, waiting.address, waiting.asked_by, waiting.asked_by_me], [null, made.destination, 'Olga Owner', true]);
  // Nothing is sent to it meanwhile.
  assert.deepEqual(answer(await owner.post('/live/sweeps', { currency: 'BTC' })), [409, 'sweep_destination_missing']);
  assert.deepEqual(answer(await owner.post('/live/sweep-destinations/BTC/confirm')), [409, 'second_owner_required']);

  const partner = await setUpPartner(app);
  assert.equal((await destination(partner)).waiting.asked_by_me, false);
  assert.deepEqual(answer(await partner.post('/live/sweep-destinations/BTC/confirm')), [409, 'second_owner_required'], 'a new owner');
  await ctx.db.sql`update members set role_since = clock_timestamp() - interval '24 hours 1 second'`;
  assert.equal((await partner.post('/live/sweep-destinations/BTC/confirm')).status, 200);
  const confirmed = await destination();
  assert.deepEqual([confirmed.current.address, confirmed.waiting], [made.destination, null]);
  assert.equal((await partner.post('/live/sweep-destinations/BTC/confirm')).json.error.code, 'nothing_to_confirm');
});

test('a change of the destination can be dropped, or takes effect when its time is over', async () => {
  const { sql } = app.app.ctx.db;
  const next = sweepFile('BTC', 'p2tr', 1).destination;
  const change = { address: next, ends: next.slice(-6) };
  await setDestination(owner, change);
  assert.equal((await owner.post('/live/sweep-destinations/BTC/drop')).status, 200);
  assert.deepEqual([(await destination()).current.address, (await destination()).waiting], [made.destination, null]);
  assert.equal((await owner.post('/live/sweep-destinations/BTC/drop')).json.error.code, 'nothing_to_confirm');
  await setDestination(owner, change);
  assert.equal((await destination()).current.address, made.destination);
  await sql`update sweep_destinations set due_at = clock_timestamp() where address = ${next}`;
  assert.deepEqual([(await destination()).current.address, (await destination()).waiting], [next, null]);
  const of = { merchantId: app.merchant.merchantId, coins: ['LTC', 'BTC', 'DOGE'] as const };
  const [ltc, btc, doge] = await listDestinations(app.app.ctx, sql, of);
  assert.deepEqual([ltc, btc!.current!.address, btc!.waiting, doge], [{ current: null, waiting: null }, next, null, ltc]);
  const actions = await sql`select action, mode from audit_log where action like 'sweep.destination%' order by id`;
  assert.deepEqual(
    actions.map(({ action }) => action),
    ['asked', 'confirmed', 'asked', 'dropped', 'asked'].map((act) => `sweep.destination_${act}`),
  );
  assert.ok(actions.every(({ mode }) => mode === 'live'));
});

test('another merchant sees nothing of a sweep, and cannot sign, replace or cancel it', async () => {
  const other = await createMerchant(app.app.ctx, { name: 'Second shop' });
  const stranger = await setUpPerson(app, other, 'second@shop.example');
  const signed = signFile({ content, secret: PHRASE, destination: made.destination }).text;
  for (const reply of [
    await stranger.get(`/live/sweeps/${id}`),
    await stranger.get(`/live/sweeps/${id}/file`),
    await stranger.get(`/live/sweeps/${id}/psbts`),
    await stranger.get(`/live/sweeps/${id}/psbts/1`),
    await stranger.post('/live/sweeps/signed', { content: signed }),
    await stranger.post(`/live/sweeps/${id}/replace`),
    await stranger.post(`/live/sweeps/${id}/cancel`),
  ])
    assert.deepEqual(answer(reply), [404, 'sweep_not_found']);
  assert.deepEqual((await stranger.get('/live/sweeps')).json.data, []);
  assert.deepEqual((await stranger.get('/live/sweeps/overview')).json.holdings, []);
  assert.deepEqual(await destination(stranger), { currency: 'BTC', current: null, waiting: null });
  assert.equal((await sweepOf()).sweep.state, 'made');
});

test('a file with a private key or a seed phrase is refused and stored nowhere; so are files that are too large or not signed', async () => {
  const key = masterKey().privateExtendedKey;
  for (const secret of [key, PHRASE]) {
    const reply = await owner.post('/live/sweeps/signed', { content: JSON.stringify({ format: 'florin-signed-file', note: secret }) });
    assert.deepEqual(answer(reply), [422, 'signed_file_private']);
    assert.ok(!reply.text.includes(secret));
  }
  for (const text of [content, 'x', '{', `"${'\\'.repeat(1_000_000)}"`, 'ab'.repeat(2_000_000)])
    assert.deepEqual(answer(await owner.post('/live/sweeps/signed', { content: text })), [422, 'signed_file_refused'], text.slice(0, 20));
  const large = await owner.post('/live/sweeps/signed', { content: 'ab'.repeat(2_100_000) });
  assert.deepEqual(answer(large), [413, 'body_too_large']);
  assert.match(large.json.error.message, /4194304 bytes/);
  // Only members may send so much.
  const nobody = await new Person(app.url).post('/live/sweeps/signed', { content: 'ab'.repeat(100_000) });
  assert.deepEqual(answer(nobody), [401, 'not_signed_in']);
  assert.equal((await app.app.ctx.db.sql`select 1 from signed_transactions`).length, 0);
});

test('its PSBT is downloaded as bytes for another wallet, with what that needs to find its keys: an origin, and a gap limit', async () => {
  const [request] = made.file.requests;
  assert.ok(request?.kind === 'psbt');
  const highest = made.outputs.map(({ index }) => Number(index)).toSorted((a, b) => b - a)[0];
  assert.deepEqual((await owner.get(`/live/sweeps/${id}/psbts`)).json, {
    ...{ success: true, count: 1, has_origin: false, highest_index: highest },
  });
  const reply = await owner.get(`/live/sweeps/${id}/psbts/1`);
  assert.deepEqual(
    [reply.headers.get('content-type'), reply.headers.get('content-disposition')],
    ['application/octet-stream', `attachment; filename="${id}.psbt"`],
  );
  assert.ok(reply.text.startsWith('psbt'));
  for (const number of ['0', '2', '01', '-1', 'x', '1.5'])
    assert.deepEqual(answer(await owner.get(`/live/sweeps/${id}/psbts/${number}`)), [404, 'sweep_not_found'], number);
});

test('the file is downloaded as it was made; once it is signed, the sweep shows its transaction with a link and cannot be canceled', async () => {
  const file = await owner.get(`/live/sweeps/${id}/file`);
  assert.deepEqual(file.json, JSON.parse(content));
  assert.deepEqual(
    [file.headers.get('content-type'), file.headers.get('content-disposition')],
    ['application/json; charset=utf-8', `attachment; filename="${id}.json"`],
  );
  const signed = signFile({ content: file.text, secret: PHRASE, destination: made.destination }).text;
  const first = (await owner.post('/live/sweeps/signed', { content: signed })).json;
  assert.deepEqual([first.sweep.state, first.sweep.id, first.is_known], ['signed', id, false]);
  assert.equal((await owner.post('/live/sweeps/signed', { content: signed })).json.is_known, true);
  const { transactions } = await sweepOf();
  const [{ transaction_id: txid, explorer_url: url, sent_at: sentAt }] = transactions;
  assert.deepEqual([transactions.length, url, sentAt], [1, `https://mempool.space/tx/${txid}`, null]);
  assert.deepEqual(answer(await owner.post(`/live/sweeps/${id}/cancel`)), [409, 'sweep_state']);
});

/** A signed transaction and each of its signatures, as hex and as base64, whose last characters depend on what follows. */
const secretsOf = (hex: string): string[] => {
  const tx = Transaction.fromRaw(Buffer.from(hex, 'hex'));
  const signatures = Array.from({ length: tx.inputsLength }, (_, at) => tx.getInput(at).finalScriptWitness![0]!);
  return [Buffer.from(hex, 'hex'), ...signatures.map((bytes) => Buffer.from(bytes))].flatMap((bytes) => [
    bytes.toString('hex'),
    bytes.toString('base64').slice(0, -4),
  ]);
};

test('nothing signed reaches a browser: no answer to a member has a signed transaction or a signature, in any form', async () => {
  const { transactions } = readSignedFile(signFile({ content, secret: PHRASE, destination: made.destination }).text);
  const secrets = transactions.flatMap(secretsOf);
  const [kept] = await app.app.ctx.db.sql<{ raw: Uint8Array }[]>`select raw from signed_transactions where file_id = ${id}`;
  assert.ok(secrets.includes(Buffer.from(kept!.raw).toString('hex')), 'the service keeps it');
  const pages = DASHBOARD_ROUTES.filter(({ method }) => method === 'GET').flatMap((route) => pathsOf(route).map(({ url }) => url));
  let withSweep = 0;
  for (const url of pages) {
    // The stream of updates does not end.
    if (url.endsWith('/stream')) continue;
    const { status, text } = await owner.get(url.replace('/dashboard/api', '').replaceAll(/:id\b/g, id).replaceAll(/:\w+/g, '1'));
    if (status === 200 && text.includes(id)) withSweep += 1;
    for (const secret of secrets) assert.ok(!text.includes(secret), url);
  }
  assert.ok(withSweep >= 4, `${withSweep} answers name the sweep`);
});
