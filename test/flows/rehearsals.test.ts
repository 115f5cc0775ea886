/** Rehearsals of signing in test mode, over HTTP: files of test payments, refunds and payouts, signed with the published seed. */
// Invariant: In test mode the whole round of a signing file is played on simulated chains, and nothing of it reaches a network.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { readStatement } from '../../src/books/books.ts';
import { COIN } from '../../src/core/coin.ts';
import { readSigningFile } from '../../src/core/signing-file.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { checkBooks, EVER } from '../kit/books.ts';
import { isLongRun, longTest } from '../kit/long.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp();
  owner = await setUpPerson(app);
});
after(() => app?.stop());

/** A test payment that received money. `coin`: such as `USDC@base`. */
async function pay(coin: string, scenario = 'success', amount_usd = 40): Promise<string> {
  const [currency, network] = coin.split('@');
  const { transaction_id: id } = (await app.test.post('/api/payment/create/simple', { amount_usd, return_url: 'https://shop.example' }))
    .json;
  const simulated = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario, currency, ...(network && { network }) });
  assert.equal(simulated.status, 200, simulated.text);
  const ended = { success: 'completed', failed: 'failed', late: 'expired' }[scenario]!;
  await eventually(
    async () => (await app.test.get(`/api/payment/${id}`)).json.status,
    (status) => status === ended,
  );
  return id;
}
const overview = async () => (await owner.get('/test/sweeps/overview')).json;
const ofFile = async (id: string) => (await owner.get(`/test/sweeps/${id}`)).json;
/** Signs a file as a person does with the signer page, and uploads what comes back. */
async function sign(id: string, { recipients }: { recipients?: string } = {}) {
  const { text: content } = await owner.get(`/test/sweeps/${id}/file`);
  const { test_seed: secret, destinations } = await overview();
  const { coin } = readSigningFile(content);
  const { address: destination } = destinations.find((one: any) => one.currency === COIN[coin].family).current;
  const signed = signFile({ content, secret, destination, ...(recipients !== undefined && { recipients }) });
  const reply = await owner.post('/test/sweeps/signed', { content: signed.text });
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}
const confirmed = (id: string) =>
  eventually(
    async () => (await ofFile(id)).sweep,
    (sweep) => sweep.state === 'confirmed' || sweep.state === 'failed',
    90_000,
  );

/** `requests`: the transactions of two deposits, by how their coin moves. The usual run has one coin of each kind. */
const SWEPT: readonly (readonly [coin: string, requests: readonly string[], define: typeof test])[] = [
  ['BTC', ['psbt'], test],
  ['LTC', ['psbt'], longTest],
  ['DOGE', ['psbt'], longTest],
  ['DASH', ['psbt'], longTest],
  ['ETH', ['native', 'native'], test],
  ['USDC@ethereum', ['batch'], longTest],
  ['USDC@base', ['batch'], test],
  ['USDT@polygon', ['batch'], longTest],
  ['DAI@ethereum', ['fund', 'fund', 'token', 'token'], test],
];
for (const [coin, requests, define] of SWEPT)
  define(`a sweep of test payments in ${coin} is made, signed with the test seed, sent and confirmed`, async () => {
    await pay(coin);
    await pay(coin);
    const held = (await overview()).holdings.find((one: any) => one.currency === coin);
    assert.deepEqual([held.transfers, held.addresses, held.has_destination], [2, 2, true]);
    const made = await owner.post('/test/sweeps', { currency: coin });
    assert.equal(made.status, 200, made.text);
    const { id } = made.json.sweep;
    const asked = readSigningFile((await owner.get(`/test/sweeps/${id}/file`)).text);
    assert.deepEqual(
      asked.requests.map(({ kind }) => kind),
      requests,
    );
    assert.equal((await overview()).holdings.find((one: any) => one.currency === coin)?.transfers ?? 0, 0, 'nothing is in two files');
    const { sweep, is_known } = await sign(id);
    assert.equal(is_known, false);
    // The worker may have sent it before the answer was written.
    assert.ok(['signed', 'sent', 'confirmed'].includes(sweep.state), sweep.state);
    const end = await confirmed(id);
    assert.deepEqual([end.state, end.failure, end.inputs], ['confirmed', null, 2]);
    const { transactions } = await ofFile(id);
    assert.deepEqual(
      transactions.map((one: any) => [one.explorer_url, one.refusal, one.block_height > 0]),
      requests.map(() => [null, null, true]),
    );
  });

/** A test payment that is completed, and what takes its money back: a block that pays someone else. */
async function payForAWhile(coin: string): Promise<{ id: string; reverse(): Promise<void> }> {
  const id = await pay(coin);
  return {
    id,
    reverse: async () => {
      // What the simulated chain shows from now on.
      await app.app.ctx.db.sql`update simulations set scenario = 'reversed' where payment_id = ${id}`;
      await app.test.post('/v1/test/clock/advance', { payment_id: id, seconds: 3_600 });
      await eventually(
        async () => (await app.test.get(`/api/payment/${id}`)).json,
        ({ exceptions }) => exceptions.includes('reorged'),
      );
    },
  };
}
/** What a file says of which the network took the money back. */
const NOT_MOVED = /deposit gone|did not move/;

/** Of each kind of transaction once, and each time twice: all of them are in a long run. */
for (const [coin, times] of [
  ['BTC', [true]],
  ['ETH', [false]],
  ['USDC@base', [true]],
  ['DAI@ethereum', [false]],
] as const)
  test(`a file of a deposit in ${coin} that the network took back moves nothing, whether it was sent after that or before`, async () => {
    for (const isSentBefore of isLongRun ? [false, true] : times) {
      const { reverse } = await payForAWhile(coin);
      const made = await owner.post('/test/sweeps', { currency: coin });
      assert.equal(made.status, 200, made.text);
      const { id } = made.json.sweep;
      if (!isSentBefore) {
        await reverse();
        await sign(id);
      } else {
        await sign(id);
        await app.app.ctx.db.begin(async (tx) => {
          // Nothing looks at a file while its transactions are locked, so it is not mined yet.
          const open = await tx`select block_height from signed_transactions where file_id = ${id} for update`;
          assert.ok(open.length > 0 && open.every((one) => one.block_height === null), 'it is not mined yet');
          await reverse();
        });
      }
      const end = await confirmed(id);
      assert.deepEqual([end.state, NOT_MOVED.test(end.failure)], ['failed', true], JSON.stringify(end));
      await checkBooks(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'test' });
    }
  });

const CUSTOMER = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
const eventsOf = async (id: string): Promise<string[]> =>
  (await app.test.get('/v1/events?limit=100')).json.data
    .filter((event: any) => event.data.id === id)
    .map(({ type }: any) => type)
    .toReversed();
const settled = (path: string) =>
  eventually(
    async () => Object.values((await owner.get(path)).json).find((one: any) => typeof one === 'object') as any,
    ({ status }) => status === 'confirmed' || status === 'failed',
    30_000,
  );

test('a refund waits for its file, pays the customer what it returns, and is reported like a live one', async () => {
  const paymentId = await pay('BTC');
  const asked = await app.test.post(`/v1/refunds`, { payment_id: paymentId, address: CUSTOMER, amount: '10.00', currency_fiat: 'USD' });
  assert.equal(asked.status, 201, asked.text);
  const { id } = asked.json;
  assert.deepEqual((await owner.get('/test/refund-files/coins')).json.coins, []);
  const approved = await owner.post(`/test/refunds/${id}/approve`, { sign: true });
  assert.deepEqual([approved.json.refund.status, approved.json.refund.transaction_hash], ['approved', null]);
  const { address } = approved.json.refund;
  assert.match(address, /^bcrt1q6rz28mcfaxtmd6v789l9rrlrusdprr9p/, 'the same script on the simulated network');
  assert.deepEqual((await owner.get('/test/refund-files/coins')).json.coins, ['BTC']);
  const made = await owner.post('/test/refund-files', { currency: 'BTC' });
  assert.equal(made.status, 200, made.text);
  assert.deepEqual([made.json.paid, made.json.left], [1, []]);
  await sign(made.json.file, { recipients: address });
  const refund = await settled(`/test/refunds/${id}`);
  assert.equal(refund.status, 'confirmed', JSON.stringify(refund));
  assert.deepEqual(refund.transaction_hash, (await ofFile(made.json.file)).transactions[0].transaction_id);
  assert.deepEqual(await eventsOf(id), ['refund.requested', 'refund.approved', 'refund.sent', 'refund.confirmed']);
  assert.equal((await app.test.get(`/v1/payments/${paymentId}`)).json.amount_refunded, asked.json.amount);
});

const ACCOUNT = '0x52908400098527886E0F7030069857D2E4169EE7';
const kindsIn = async (id: string): Promise<string[]> =>
  readSigningFile((await owner.get(`/test/sweeps/${id}/file`)).text).requests.map(({ kind }) => kind);

/** `requests`: the transactions of a refund of a part. The gas address pays for what the deposit cannot pay itself. */
for (const [coin, requests, define] of [
  ['ETH', ['native'], longTest],
  ['USDC@base', ['batch'], test],
  ['DAI@ethereum', ['fund', 'token'], test],
] as const)
  define(`a refund in ${coin} is signed and sent, and what is left of its deposit is swept afterwards`, async () => {
    const paymentId = await pay(coin);
    const wanted = { payment_id: paymentId, address: ACCOUNT, amount: '10.00', currency_fiat: 'USD' };
    const asked = await app.test.post('/v1/refunds', wanted);
    assert.equal(asked.status, 201, asked.text);
    const { id } = asked.json;
    assert.equal((await owner.post(`/test/refunds/${id}/approve`, { sign: true })).json.refund.status, 'approved');
    const made = await owner.post('/test/refund-files', { currency: coin });
    assert.deepEqual([made.status, made.json.paid, made.json.left], [200, 1, []], made.text);
    assert.deepEqual(await kindsIn(made.json.file), requests);
    await sign(made.json.file, { recipients: ACCOUNT });
    const refund = await settled(`/test/refunds/${id}`);
    assert.equal(refund.status, 'confirmed', JSON.stringify(refund));
    assert.deepEqual(await eventsOf(id), ['refund.requested', 'refund.approved', 'refund.sent', 'refund.confirmed']);
    const swept = await owner.post('/test/sweeps', { currency: coin });
    assert.equal(swept.status, 200, swept.text);
    await sign(swept.json.sweep.id);
    assert.equal((await confirmed(swept.json.sweep.id)).state, 'confirmed');
  });

/** Those that did not leave the file yet. They leave a canceled one soon after, and are in no other until then. */
const countInFile = async (file: string): Promise<number> =>
  (await app.app.ctx.db.sql`select 1 from outgoing_payments where file_id = ${file}`).length;

test('payouts in USDC gather several deposits, and a canceled file is made again with the same authorizations', async () => {
  await pay('USDC@base', 'success', 20);
  await pay('USDC@base', 'success', 20);
  const requested = await app.test.post('/v1/payouts', {
    currency: 'USDC',
    network: 'base',
    amount: '30',
    address: ACCOUNT,
    payout_reference: 'reh-usdc',
  });
  assert.equal(requested.status, 201, requested.text);
  const { id } = requested.json;
  assert.equal((await owner.post(`/test/payouts/${id}/approve`, { sign: true })).status, 200);
  const noncesIn = async (file: string) =>
    readSigningFile((await owner.get(`/test/sweeps/${file}/file`)).text).requests.flatMap((one) =>
      one.kind === 'batch' ? one.authorizations.map(({ nonce, line }) => `${line.purpose} ${nonce}`) : [],
    );
  const first = (await owner.post('/test/payout-files', { currency: 'USDC@base' })).json;
  assert.deepEqual([first.paid, first.left], [1, []]);
  const nonces = await noncesIn(first.file);
  assert.deepEqual(
    nonces.map((one) => one.split(' ')[0]),
    ['gather', 'payout'],
  );
  assert.equal((await owner.post(`/test/sweeps/${first.file}/cancel`)).status, 200);
  await eventually(
    () => countInFile(first.file),
    (left) => left === 0,
  );
  const second = await owner.post('/test/payout-files', { currency: 'USDC@base' });
  assert.equal(second.status, 200, second.text);
  const again = second.json;
  assert.deepEqual(await noncesIn(again.file), nonces, 'so that nobody is paid twice');
  await sign(again.file, { recipients: `${ACCOUNT} 30` });
  assert.equal((await settled(`/test/payouts/${id}`)).status, 'confirmed');
});

test('payouts in ETH come from one deposit each, and a canceled refund of it is tied to its account nonce', async () => {
  const paymentId = await pay('ETH');
  const asked = (await app.test.post('/v1/refunds', { payment_id: paymentId, address: ACCOUNT, amount: '10.00', currency_fiat: 'USD' }))
    .json;
  await owner.post(`/test/refunds/${asked.id}/approve`, { sign: true });
  const { file } = (await owner.post('/test/refund-files', { currency: 'ETH' })).json;
  assert.equal((await owner.post(`/test/sweeps/${file}/cancel`)).status, 200);
  assert.equal((await owner.post(`/test/refunds/${asked.id}/cancel`)).status, 200);
  const again = (await app.test.post('/v1/refunds', { payment_id: paymentId, address: ACCOUNT, amount: '12.00', currency_fiat: 'USD' }))
    .json;
  await owner.post(`/test/refunds/${again.id}/approve`, { sign: true });
  const made = (await owner.post('/test/refund-files', { currency: 'ETH' })).json;
  assert.deepEqual([made.paid, made.left], [1, []]);
  const { requests } = readSigningFile((await owner.get(`/test/sweeps/${made.file}/file`)).text);
  assert.deepEqual(
    requests.map((one) => one.kind === 'native' && one.nonce),
    [0],
    'the nonce of the canceled one, so that only one of them can be mined',
  );
  await sign(made.file, { recipients: ACCOUNT });
  assert.equal((await settled(`/test/refunds/${again.id}`)).status, 'confirmed');
  await pay('ETH');
  const requested = await app.test.post('/v1/payouts', {
    currency: 'ETH',
    amount_usd: '5.00',
    address: 'test_eth_payer',
    payout_reference: 'reh-eth',
  });
  assert.equal(requested.status, 201, requested.text);
  await owner.post(`/test/payouts/${requested.json.id}/approve`, { sign: true });
  const { address, amount } = (await owner.get(`/test/payouts/${requested.json.id}`)).json.payout;
  assert.match(address, /^0x[0-9a-fA-F]{40}$/);
  const paying = (await owner.post('/test/payout-files', { currency: 'ETH' })).json;
  assert.deepEqual([paying.paid, paying.left], [1, []]);
  await sign(paying.file, { recipients: `${address} ${amount}` });
  assert.equal((await settled(`/test/payouts/${requested.json.id}`)).status, 'confirmed');
});

test('payouts of a batch wait for one file, and a canceled file is made again from the same deposit', async () => {
  await pay('LTC');
  const csv =
    'reference,currency,amount_usd,address\nreh-1,LTC,3.00,test_ltc_payer\nreh-2,LTC,4.00,ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9\n';
  const { batch } = (await owner.post('/test/payout-batches', { name: 'rehearsal.csv', content: csv })).json;
  assert.equal((await owner.post(`/test/payout-batches/${batch.id}/approve`, { sign: true })).status, 200);
  const payouts = (await owner.get('/test/payouts?state=approved')).json.data;
  assert.equal(payouts.length, 2);
  const recipients = payouts.map(({ address, amount }: any) => `${address} ${amount}`).join('\n');
  const first = (await owner.post('/test/payout-files', { currency: 'LTC' })).json;
  assert.equal(first.paid, 2);
  const inputs = async (id: string) =>
    (await app.app.ctx.db.sql<{ input: string }[]>`select input from signing_inputs where file_id = ${id} order by input`).map(
      (row) => row.input,
    );
  const { sql } = app.app.ctx.db;
  const inFile = () => countInFile(first.file);
  await app.app.ctx.db.begin(async (tx) => {
    await tx`select 1 from outgoing_payments where file_id = ${first.file} order by number desc limit 1 for update`;
    assert.equal((await owner.post(`/test/sweeps/${first.file}/cancel`)).status, 200);
    await eventually(
      async () => (await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`).length,
      (waiting) => waiting > 0,
    );
    assert.equal(await inFile(), 2, 'they leave it together');
  });
  await eventually(inFile, (left) => left === 0);
  const again = (await owner.post('/test/payout-files', { currency: 'LTC' })).json;
  assert.equal(again.paid, 2);
  assert.deepEqual(await inputs(again.file), await inputs(first.file), 'so that nobody is paid twice');
  await sign(again.file, { recipients });
  for (const { id } of payouts) {
    assert.equal((await settled(`/test/payouts/${id}`)).status, 'confirmed');
    assert.deepEqual(await eventsOf(id), ['payout.requested', 'payout.approved', 'payout.sent', 'payout.confirmed']);
  }
});

test('the books of test mode say where everything is', async () => {
  const { ctx } = app.app;
  await checkBooks(ctx, { merchantId: app.merchant.merchantId, mode: 'test' });
  const [swept] = (await readStatement(ctx, { merchantId: app.merchant.merchantId, mode: 'test', from: new Date(0), until: EVER })).filter(
    ({ coin, account }) => coin === 'BTC' && account === 'destination_wallet',
  );
  assert.ok(swept!.closing.units > 0n);
});

test('live mode sees nothing of it, and the test seed signs nothing else', async () => {
  await pay('BTC');
  const { id } = (await owner.post('/test/sweeps', { currency: 'BTC' })).json.sweep;
  for (const path of ['', '/file', '/psbts', '/psbts/1']) assert.equal((await owner.get(`/live/sweeps/${id}${path}`)).status, 404, path);
  assert.equal((await owner.post(`/live/sweeps/${id}/cancel`)).status, 404);
  assert.deepEqual((await owner.get('/live/sweeps')).json.data, []);
  const live = (await owner.get('/live/sweeps/overview')).json;
  assert.deepEqual([live.test_seed, live.holdings], [null, []]);
  const { text } = await owner.get(`/test/sweeps/${id}/file`);
  assert.deepEqual([readSigningFile(text).network, readSigningFile(text).account.origins[0]!.split('/')[2]], ['regtest', "1'"]);
  const { sql } = app.app.ctx.db;
  const families =
    await sql`select 1 from deposit_addresses where family not like 'test:%' union all select 1 from wallets where family not like 'test:%' or active`;
  assert.equal(families.length, 0, 'what followers watch and payments use');
  assert.equal((await sql`select 1 from moved_deposits`).length, 0);
});
