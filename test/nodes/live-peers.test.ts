/** Live payments over the coin's own network without any setting: the whole service, on a chain that begins at a checkpoint. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { decodeAddress } from '../../src/addresses/address.ts';
import { startApp } from '../../src/app.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { PROOF_PARAMS, type ProofParams } from '../../src/chains/bitcoin/proof-params.ts';
import { readChainStatus } from '../../src/follow/chain-acts.ts';
import { createLog } from '../../src/log.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { readPayableCoins } from '../../src/readiness/readiness.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { agePayment } from '../kit/payments.ts';
import { extend, mineBlock, shownHash, transaction } from '../kit/regtest-chain.ts';
import { emptyChain, type ScriptedPeer, type ServedChain, startScriptedPeer } from '../kit/scripted-peer.ts';
import { giveWallet, openPayment as openPaymentIn, units } from '../kit/shop.ts';

const MAINNET = peerNetwork('BTC', 'mainnet');
const SPACING = 600;
const CHECKPOINT = 900_000;
/** The rules of the main network, with work that a test can do. */
const PARAMS: ProofParams = { ...PROOF_PARAMS.BTC.main, powLimit: (1n << 255n) - 1n, retarget: { kind: 'fixed' } };
const UNITS = 25_000n;
const KEY = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/0'/0'").publicExtendedKey;

const closers: (() => Promise<void>)[] = [];
const closeAll = async () => {
  for (const close of closers.splice(0).reverse()) await close();
};
afterEach(closeAll);
after(closeAll);

type Net = { chain: ServedChain; peers: ScriptedPeer[]; starts: NonNullable<Parameters<typeof startApp>[1]>['starts']; grow: Grow };
type Grow = (blocks: number, transactions?: readonly Buffer[]) => void;

/** A network whose blocks came in time, up to now: two peers have it. */
async function startNetwork(blocks: number): Promise<Net> {
  const begin = Math.floor(Date.now() / 1000) - blocks * SPACING;
  const first = mineBlock('00'.repeat(32), { timeSeconds: begin });
  const chain = emptyChain();
  const timeSeconds = (height: number) => begin + (height + 1) * (height < blocks ? SPACING : SPACING - 1);
  const grow: Grow = (more, transactions = []) => {
    const mined = extend(chain, more, { from: chain.headers.at(-1)?.hash ?? first.hash, transactions, timeSeconds });
    for (const { header } of mined)
      for (const peer of peers) peer.announce({ command: 'headers', headers: [{ bytes: header, auxpow: null }] });
  };
  const peers: ScriptedPeer[] = [];
  grow(blocks);
  for (const host of ['127.51.0.1', '127.52.0.1']) {
    const peer = await startScriptedPeer({ network: MAINNET, chain, host });
    closers.push(peer.close);
    peers.push(peer);
  }
  const start = { height: CHECKPOINT, headers: [first.header] };
  return { chain, peers, starts: (family) => (family === 'BTC' ? { params: PARAMS, start } : null), grow };
}

async function startLive({ peers, starts }: Net): Promise<TestApp> {
  const app = await startTestApp(
    { BTC_PEERS: peers.map(({ name }) => name).join(','), BTC_CONFIRMATIONS: '2', PRICES: 'static:BTC=100000.00' },
    { ...(starts && { starts }) },
  );
  closers.push(app.stop);
  return app;
}
const addWallet = ({ app, merchant }: TestApp) =>
  setWallet(app.ctx, { merchantId: merchant.merchantId, coin: 'BTC', accountKey: KEY, script: 'p2wpkh' });
const missing = async ({ app, merchant }: TestApp) => {
  const coins = await readPayableCoins(app.ctx, { merchantId: merchant.merchantId, mode: 'live' });
  return coins.find(({ coin }) => coin === 'BTC')!.missing.map(({ code, message }) => `${code}: ${message}`);
};
const readyz = async (url: string) => (await fetch(`${url}/readyz`)).json() as Promise<any>;
const isPayable = (app: TestApp) =>
  eventually(
    () => missing(app),
    (codes) => codes.length === 0,
  );
async function openPayment(app: TestApp): Promise<{ id: string; bytes: Buffer; txid: string }> {
  const made = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
  assert.equal(made.status, 201, made.text);
  assert.equal(made.json.amount, '0.00025000');
  const { key: script } = decodeAddress(made.json.payment_address, { coin: 'BTC', network: 'mainnet' });
  const bytes = transaction([{ script, units: UNITS }]);
  return { id: made.json.transaction_id, bytes, txid: shownHash(bytes) };
}
const reaches = (app: TestApp, id: string, status: string) =>
  eventually(
    async () => (await app.live.get(`/api/payment/${id}`)).json,
    (detail) => detail.status === status,
  );

// Invariant: Only the process with the watcher role connects to peers, once a wallet needs them; one peer alone shows no transaction.
test('a wallet connects the service to the network of its coin: seen by two peers, confirmed by blocks, completed', async () => {
  const net = await startNetwork(200);
  const { chain, peers, grow } = net;
  const app = await startLive(net);
  const { url } = app;

  // No wallet needs the network, so nothing connects to it and nothing is missing but the wallet.
  assert.deepEqual(await missing(app), ['wallet_missing: No Bitcoin wallet is set up.']);
  assert.deepEqual((await readyz(url)).reasons, []);
  assert.ok(!(await diagnose(app.app.ctx)).findings.some(({ check }) => check.startsWith('BTC peers')));
  assert.deepEqual(
    peers.map((peer) => peer.opened()),
    [0, 0],
  );

  await addWallet(app);
  await isPayable(app);
  const state = await eventually(
    () => readyz(url),
    ({ followers, peers: found }) => followers.BTC !== undefined && found.BTC?.phase === 'ready',
  );
  assert.deepEqual(state.reasons, []);
  assert.deepEqual([state.peers.BTC.connected, state.peers.BTC.height, state.peers.BTC.headers_percent], [2, CHECKPOINT + 200, 100]);
  assert.ok(state.peers.BTC.bytes_in > 200 * 80);
  assert.equal(state.peers.BTC.purpose, 'payments');

  // Another process reads what the connected one reported, and connects to nobody.
  const opened = peers.map((peer) => peer.opened());
  const other = await startApp(
    { ...app.config, port: 0 },
    { roles: ['api'], log: createLog('error'), ...(net.starts && { starts: net.starts }) },
  );
  closers.push(other.stop);
  const [status] = await readChainStatus(other.ctx, { coin: 'BTC' });
  assert.deepEqual(status!.sources, [{ name: 'peers', state: 'ok', height: CHECKPOINT + 200, followed: true, reason: null }]);
  assert.deepEqual([status!.peers!.connected, status!.peers!.purpose], [2, 'payments']);
  const found = (await diagnose(other.ctx)).findings.filter(({ check }) => check === 'BTC peers');
  assert.deepEqual(
    found.map(({ ok }) => ok),
    [true],
  );
  assert.match(found[0]!.detail, /^2 connected on mainnet, block 900200, [\d.]+ MB in and [\d.]+ MB out in \d minutes$/);
  assert.match(
    await (await fetch(`${url}/metrics`)).text(),
    /florin_peers\{coin="BTC"\} 2\n[\s\S]*florin_headers_percent\{coin="BTC"\} 100\n/,
  );

  // One peer proves nothing about an unconfirmed transaction.
  const { id, bytes, txid } = await openPayment(app);
  chain.transactions.set(txid, bytes);
  peers[0]!.announce({ command: 'inv', items: [{ type: 1, hash: txid }] });
  await eventually(
    async () => peers[0]!.messages.some((message) => message.command === 'getdata' && message.items.some(({ hash }) => hash === txid)),
    (asked) => asked,
  );
  await app.app.ctx.db.sql`update tips set looked_at = 'epoch' where chain = 'BTC'`;
  await eventually(
    async () =>
      (await app.app.ctx.db.sql<{ polled: boolean }[]>`select looked_at > 'epoch' as polled from tips where chain = 'BTC'`)[0]!.polled,
    (polled) => polled,
  );
  assert.equal((await app.live.get(`/api/payment/${id}`)).json.status, 'pending');
  peers[1]!.announce({ command: 'inv', items: [{ type: 1, hash: txid }] });
  await reaches(app, id, 'processing');
  grow(1, [bytes]);
  const blockHash = chain.headers.at(-1)!.hash;
  grow(1);
  await reaches(app, id, 'completed');
  // Neither a file for signing nor a look-up asks peers for the block of a deposit a second time.
  const asksForBlock = () =>
    peers.flatMap(({ messages }) =>
      messages.filter((message) => message.command === 'getdata' && message.items.some(({ hash }) => hash === blockHash)),
    ).length;
  assert.equal(asksForBlock(), 1);
  const btc = app.app.ctx.chains.get('bitcoin')!;
  assert.deepEqual(
    (await btc.outlet.readTransactions([{ txid, blockHash }])).map((raw) => Buffer.from(raw)),
    [bytes],
  );
  assert.equal((await btc.lookUps.transaction(txid, { blockHash })).amountUnits, UNITS);
  assert.equal(asksForBlock(), 1);
  assert.deepEqual(
    peers.map((peer) => peer.opened()),
    opened,
  );
  // What was announced before the peers were connected is unknown for an hour, so nothing expires, and the reason is recorded.
  const [doubt] = await app.app.ctx.db.sql<{ code: string }[]>`select behind_code as code from followers where chain = 'BTC'`;
  assert.equal(doubt!.code, 'settling');
});

// Invariant: A new follower begins at the newest block, not where the headers of its peers are.
test('while headers are read, the reason and the progress are shown everywhere, and nothing can be paid', async () => {
  const net = await startNetwork(400);
  // The peers know nothing of the last 243 blocks yet.
  const rest = net.chain.headers.splice(157);
  const app = await startLive(net);
  await addWallet(app);
  const waiting = await eventually(
    () => missing(app),
    (codes) => codes.some((code) => code.includes('39%')),
  );
  assert.deepEqual(waiting, ['source_behind: The Bitcoin source is not in sync: syncing headers 39%.']);
  const refused = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
  assert.deepEqual([refused.status, refused.json.error.code], [503, 'chain_unavailable']);
  assert.match(refused.json.error.message, /syncing headers 39%/);
  const state = await readyz(app.url);
  assert.deepEqual([state.reasons, state.peers.BTC.phase], [['BTC: syncing headers 39%'], 'headers']);
  const [status] = await readChainStatus(app.app.ctx, { coin: 'BTC' });
  assert.deepEqual(status!.troubles, ['syncing headers 39%']);
  const finding = (await diagnose(app.app.ctx)).findings.find(({ check }) => check === 'BTC peers')!;
  assert.match(finding.detail, /^syncing headers 39%; 2 connected/);

  net.chain.headers.push(...rest);
  const { header } = rest.at(-1)!;
  for (const peer of net.peers) peer.announce({ command: 'headers', headers: [header] });
  await isPayable(app);
  const [tip] = await app.app.ctx.db.sql<
    { height: bigint; from: bigint }[]
  >`select height, watched_from as "from" from tips where chain = 'BTC'`;
  // The follower begins at the newest block, not where the headers were when it was started.
  assert.deepEqual(tip, { height: BigInt(CHECKPOINT + 400), from: BigInt(CHECKPOINT + 401) });
});

test('what both peers announce and neither sends counts for nothing: payments expire meanwhile, and complete once a block has it', async () => {
  const network = peerNetwork('BTC', 'regtest');
  const chain = emptyChain();
  const begin = Math.floor(Date.now() / 1000) - 600;
  const mine = (blocks: number, transactions: readonly Buffer[] = []) =>
    extend(chain, blocks, { transactions, timeSeconds: (height) => begin + height });
  mine(20);
  const peers: ScriptedPeer[] = [];
  for (const host of ['127.51.0.1', '127.52.0.1']) {
    const peer = await startScriptedPeer({ network, chain, host });
    closers.push(peer.close);
    peers.push(peer);
  }
  const app = await startTestApp({
    ...{ BTC_NETWORK: 'regtest', BTC_PEERS: peers.map(({ name }) => name).join(','), BTC_CONFIRMATIONS: '2' },
    PRICES: 'static:BTC=100000.00',
  });
  closers.push(app.stop);
  await giveWallet(app, 'BTC');
  await isPayable(app);
  const open = async () => {
    const { id, address, amount } = await openPaymentIn(app, 'BTC', 25);
    const { key: script } = decodeAddress(address, { coin: 'BTC', network: 'regtest' });
    const bytes = transaction([{ script, units: units(amount) }]);
    return { id, bytes, hash: shownHash(bytes) };
  };
  const [mined, never] = [await open(), await open()];
  for (const peer of peers) {
    peer.announce({ command: 'inv', items: [mined, never].map(({ hash }) => ({ type: 1, hash })) });
    await eventually(
      async () => peer.messages.flatMap((message) => (message.command === 'getdata' ? message.items.map(({ hash }) => hash) : [])),
      (asked) => asked.includes(mined.hash) && asked.includes(never.hash),
    );
  }
  const { sql } = app.app.ctx.db;
  // A poll after that is complete.
  await sql`update tips set scanned_through = 'epoch'`;
  await eventually(
    async () => (await sql<{ polled: boolean }[]>`select scanned_through > 'epoch' as polled from tips`)[0]!.polled,
    (polled) => polled,
  );
  const detail = async (id: string) => (await app.live.get(`/api/payment/${id}`)).json;
  for (const { id } of [mined, never])
    assert.deepEqual([(await detail(id)).status, (await detail(id)).amount_received], ['pending', '0.00000000']);
  const show = (blocks: number, transactions: readonly Buffer[] = []) => {
    for (const { header } of mine(blocks, transactions))
      for (const peer of peers) peer.announce({ command: 'headers', headers: [{ bytes: header, auxpow: null }] });
  };
  show(1, [mined.bytes]);
  show(1);
  await reaches(app, mined.id, 'completed');
  const done = await detail(mined.id);
  assert.deepEqual([done.confirmations, done.exceptions], [2, []]);
  await agePayment(app.app.ctx.db, never.id, 7_200);
  await reaches(app, never.id, 'expired');
  // Its money is recorded whenever a block brings it.
  show(1, [never.bytes]);
  await eventually(
    () => detail(never.id),
    ({ exceptions }) => exceptions?.includes('late'),
  );
});
