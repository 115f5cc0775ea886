/** What is read from a Blockbook server, and how its failures are handled, over real HTTP and WebSocket. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Blockbook, startBlockbook } from '../../../test/kit/blockbook.ts';
import { createTestChain, type TestChain } from '../../../test/kit/test-chain.ts';
import { COIN, type Coin } from '../../core/coin.ts';
import { createLog } from '../../log.ts';
import { createOutgoing } from '../../outgoing/http-client.ts';
import { addressOfScript } from '../address.ts';
import { parseBlock } from '../bitcoin/block-proof.ts';
import { parseTransaction, txidOf } from '../bitcoin/raw-block.ts';
import { ChainError, type ChainSource, type Matcher, type MempoolScan } from '../chain.ts';
import { checksumAddress } from '../ethereum/address.ts';
import { createBlockbookSource } from './blockbook.ts';
import { createHintSocket } from './blockbook-socket.ts';

const log = createLog('silent');
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
const outgoing = createOutgoing({ allow: [], log });
const open: { close(): unknown }[] = [];
after(async () => {
  for (const one of open.reverse()) await one.close();
  await outgoing.close();
});

const UTXO = ['BTC', 'LTC', 'DASH', 'DOGE'] as const;
const scriptOf = (n: number) => `76a914${n.toString(16).padStart(2, '0').repeat(20)}88ac`;
const addressOf = (coin: Coin, n: number) => addressOfScript(scriptOf(n), { coin, network: 'mainnet' })!;

async function start(
  coin: Coin,
  { length, ...options }: Parameters<typeof startBlockbook>[1] & { length?: number } = {},
): Promise<{ chain: TestChain; server: Blockbook; source: ChainSource }> {
  const chain = createTestChain({ coin, ...(length !== undefined && { length }) });
  const server = await startBlockbook(chain, options);
  const source = createBlockbookSource({ coin, network: 'mainnet', url: `${server.url}/`, outgoing, log, clock });
  open.push(server, source);
  return { chain, server, source };
}
const watching = (
  keys: readonly string[],
  { outpoints = [], waiting = [] }: { outpoints?: readonly string[]; waiting?: readonly string[] } = {},
): Matcher => ({
  has: (key) => keys.includes(key),
  watchesSpends: outpoints.length > 0,
  spends: (outpoint) => outpoints.includes(outpoint),
  recent: () => keys,
  waiting,
});
const refuses = (work: Promise<unknown>, kind: ChainError['kind'], message: RegExp) =>
  assert.rejects(work, (error) => error instanceof ChainError && error.kind === kind && message.test(error.message));
const lookAt = async (source: ChainSource, matcher: Matcher): Promise<MempoolScan> => {
  const fetched = await source.fetchMempool();
  const found = await fetched.scan(matcher);
  fetched.done();
  return found;
};
async function until(check: () => Promise<boolean> | boolean, what: string): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`not reached: ${what}`);
}

for (const coin of UTXO)
  test(`${coin}: what can be spent is read from the server, and a transaction is sent through it`, async () => {
    const { chain, server, source } = await start(coin, { length: 12 });
    const { areUnspent, readTransactions, send } = source.outlet!;
    const first = chain.pay([[addressOf(coin, 2), 1_000_000n]]);
    const second = chain.pay([[addressOf(coin, 3), 1_000_000n]]);
    const [block] = chain.mine();
    const waiting = chain.pay([[addressOf(coin, 4), 1_000_000n]]);
    const spent = block!.txs
      .flatMap(({ inputs }) => inputs.map(({ txid, vout }) => `${txid}:${vout}`))
      .find((one) => chain.find(one.slice(0, 64)));
    const nowhere = `${'ab'.repeat(32)}:0`;
    const asked = [`${first}:0`, `${second}:0`, `${waiting}:0`, nowhere, `${first}:9`, ...(spent ? [spent] : [])];
    assert.deepEqual(await areUnspent!(asked), [true, true, false, false, false, ...(spent ? [false] : [])]);
    const [bytes] = await readTransactions!([{ txid: second, blockHash: block!.hash }]);
    assert.equal(txidOf(parseTransaction(Buffer.from(bytes!), coin)), second);
    await refuses(readTransactions!([{ txid: 'ab'.repeat(32), blockHash: block!.hash }]), 'outage', /did not return the bytes/);
    await send!(bytes!);
    await send!(bytes!);
    assert.deepEqual(server.sent, [Buffer.from(bytes!).toString('hex')]);
    await refuses(send!(Buffer.from('00')), 'refused', /TX decode failed/);
    server.behave('down');
    await refuses(send!(bytes!), 'outage', /does not answer/);
  });

for (const coin of UTXO) {
  for (const rawBlocks of [true, false]) {
    test(`${coin}: a payment is found in a block read ${rawBlocks ? 'as bytes' : 'page by page'}`, async () => {
      const { chain, source } = await start(coin, { rawBlocks, pageSize: 3, length: 12 });
      const [ours, others] = [addressOf(coin, 2), addressOf(coin, 3)];
      for (let i = 0; i < 4; i++) chain.pay([[others, 1_000_000n]]);
      const txid = chain.pay([
        [others, 5_000n],
        [ours, 123_456_789n],
      ]);
      chain.pay([[others, 1_000_000n]]);
      const [block] = chain.mine();
      assert.equal(block!.txs.length, 7, 'three pages');
      const { ref, scan } = await source.fetchBlock(block!.hash);
      assert.deepEqual([ref.height, ref.hash, ref.parent], [block!.height, block!.hash, block!.parent]);
      assert.equal(ref.time.getTime() / 1000, block!.time);
      const { sightings } = await scan(watching([scriptOf(2)]));
      assert.equal(sightings.length, 1);
      const [seen] = sightings;
      assert.deepEqual([seen!.ref, seen!.units, seen!.kind, seen!.lock], [`${txid}:1`, 123_456_789n, 'output', null]);
      const spent = chain.find(txid)!.tx.inputs.map((i) => `${i.txid}:${i.vout}`);
      // Pages do not contain what a transaction spends.
      assert.deepEqual(seen!.spends, rawBlocks ? spent : []);
      if (rawBlocks) {
        const { conflicts } = await scan(watching([], { outpoints: spent }));
        assert.deepEqual(conflicts, [{ outpoint: spent[0], txid }]);
      }
    });
  }

  test(`${coin}: a coinbase is recognized`, async () => {
    const { chain, source } = await start(coin);
    const [block] = chain.mine();
    const { scan } = await source.fetchBlock(block!.hash);
    const { sightings } = await scan(watching([block!.txs[0]!.outputs[0]!.script]));
    assert.deepEqual(
      sightings.map((s) => [s.kind, s.spends]),
      [['coinbase', []]],
    );
  });
}

test('a block whose transactions do not match its merkle root is refused, as bytes and page by page', async () => {
  for (const rawBlocks of [true, false]) {
    const { chain, source } = await start('BTC', { rawBlocks });
    chain.pay([[addressOf('BTC', 2), 1_000n]]);
    const [block] = chain.mine();
    // The server loses a transaction.
    block!.txs.pop();
    const [, lost] = parseBlock(block!.raw, 'BTC').transactions;
    block!.raw = block!.raw.subarray(0, lost!.extent.from);
    block!.raw.writeUInt8(1, 80);
    await refuses(source.fetchBlock(block!.hash), 'outage', rawBlocks ? /merkle root/ : /did not show all transactions/);
  }
});

test('a block whose transactions are listed twice at its end is refused page by page, although its merkle root fits', async () => {
  const { chain, source } = await start('BTC', { rawBlocks: false });
  for (const units of [1_000n, 2_000n]) chain.pay([[addressOf('BTC', 2), units]]);
  const [block] = chain.mine();
  assert.equal(block!.txs.length, 3);
  block!.txs.push(block!.txs[2]!);
  await refuses(source.fetchBlock(block!.hash), 'outage', /did not show all transactions/);
});

test("a block under another block's hash is refused", async () => {
  const { chain, source } = await start('BTC');
  const [lying] = chain.mine();
  const other = chain.blocks[5]!;
  chain.blocks[chain.blocks.length - 1] = { ...lying!, raw: other.raw };
  await refuses(source.fetchBlock(lying!.hash), 'outage', /another block/);
});

test('headers by height and hash; null if there is none', async () => {
  const { chain, source } = await start('BTC', { length: 8 });
  assert.equal((await source.tip()).hash, chain.tip().hash);
  assert.equal((await source.blockAt(3))!.hash, chain.blocks[3]!.hash);
  assert.equal(await source.genesis(), chain.blocks[0]!.hash);
  assert.equal((await source.block(chain.blocks[2]!.hash))!.height, 2);
  assert.equal(await source.block('ab'.repeat(32)), null);
  assert.equal(await source.blockAt(9), null);
});

test('a new block is known at once if the server announces it, without requesting the tip again', async () => {
  const { chain, server, source } = await start('BTC');
  await source.fetchMempool();
  await until(() => server.messages.includes('subscribeNewBlock'), 'the subscription');
  await source.tip();
  const before = server.requests.length;
  await source.tip();
  await source.tip();
  assert.equal(server.requests.length, before, 'the tip is remembered');
  const [block] = chain.mine();
  await until(async () => (await source.tip()).hash === block!.hash, 'the new tip');
});

test('an unconfirmed payment is seen through the notification for its address, and an earlier one by polling', async () => {
  const { chain, source, server } = await start('BTC');
  const early = chain.pay([[addressOf('BTC', 2), 700n]]);
  const keys = [scriptOf(2), scriptOf(3)];
  await source.fetchMempool();
  await until(() => server.sockets() === 1, 'the socket');
  const first = await lookAt(source, watching(keys));
  assert.deepEqual(
    first.sightings.map((s) => s.txid),
    [early],
  );
  assert.equal(first.complete, true);
  await until(async () => {
    await lookAt(source, watching(keys));
    return server.messages.includes('subscribeAddresses');
  }, 'the subscription');
  assert.deepEqual((await lookAt(source, watching(keys))).sightings, [], 'what was taken is not told again');
  const asked = server.requests.filter((path) => path.includes('/address/')).length;
  const late = chain.pay([[addressOf('BTC', 3), 900n]]);
  let seen: MempoolScan['sightings'] = [];
  await until(async () => {
    const look = await lookAt(source, watching(keys));
    seen = look.sightings;
    return seen.length > 0;
  }, 'the payment');
  assert.deepEqual([seen[0]!.ref, seen[0]!.units], [`${late}:0`, 900n]);
  const inputs = chain.find(late)!.tx.inputs;
  assert.deepEqual(
    seen[0]!.spends,
    inputs.map((i) => `${i.txid}:${i.vout}`),
    'an input that spends output 0 is read although the server leaves zeros out',
  );
  assert.equal(server.requests.filter((path) => path.includes('/address/')).length, asked, 'no address was asked for again');
});

test('without the socket, addresses are polled, and the look says when it is incomplete', async () => {
  const { chain, source, server } = await start('BTC');
  server.refuseSockets(true);
  const keys = Array.from({ length: 25 }, (_, i) => scriptOf(i + 2));
  const first = await lookAt(source, watching(keys));
  assert.equal(first.complete, false);
  assert.equal(server.requests.filter((path) => path.includes('/address/')).length, 20);
  const few = [scriptOf(2)];
  assert.equal((await lookAt(source, watching(few))).complete, true);
  const txid = chain.pay([[addressOf('BTC', 2), 800n]]);
  assert.deepEqual(
    (await lookAt(source, watching(few))).sightings.map((s) => s.txid),
    [txid],
  );
});

test('a pending transaction is present while the server has it, and not afterwards', async () => {
  const chain = createTestChain({ coin: 'BTC', network: 'regtest' });
  const server = await startBlockbook(chain);
  // On regtest nothing is cached for long.
  const source = createBlockbookSource({ coin: 'BTC', network: 'regtest', url: server.url, outgoing, log, clock });
  open.push(server, source);
  const address = addressOfScript(scriptOf(2), { coin: 'BTC', network: 'regtest' })!;
  const txid = chain.pay([[address, 700n]]);
  const spends = chain.find(txid)!.tx.inputs.map((i) => `${i.txid}:${i.vout}`);
  const matcher = watching([scriptOf(2)], { waiting: [txid], outpoints: spends });
  assert.ok((await lookAt(source, matcher)).present.has(txid));
  const second = chain.pay([[address, 900n]], { replaces: txid });
  let look: MempoolScan | null = null;
  await until(async () => {
    const found = await lookAt(source, matcher);
    if (found.sightings.some((s) => s.txid === second)) look = found;
    return look !== null;
  }, 'the replacement');
  assert.ok(look);
  const { present, conflicts } = look as MempoolScan;
  assert.deepEqual([present.has(txid), present.has(second)], [false, true]);
  assert.deepEqual(conflicts, [{ outpoint: spends[0], txid: second }]);
  chain.mine();
  assert.ok(!(await lookAt(source, watching([], { waiting: [second] }))).present.has(second));
  assert.deepEqual(await source.txState(second), { state: 'mined', blockHash: chain.tip().hash, lock: null });
  assert.equal((await source.txState('00'.repeat(32))).state, 'unknown');
});

test('a connection that is open but silent is detected and replaced', async () => {
  const { server, chain } = await start('BTC');
  let blocks = 0;
  const socket = createHintSocket({
    url: `${server.url.replace('http', 'ws')}/websocket`,
    clock,
    log,
    onBlock: () => blocks++,
    onTransaction: () => {},
    pingMs: 100,
    answerMs: 1_000,
  });
  open.push(socket);
  socket.open();
  await until(() => socket.alive(), 'the connection');
  server.silenceSockets();
  await until(() => !socket.alive(), 'the silence is noticed');
  assert.equal(await socket.watch(['a']), false);
  server.refuseSockets(false);
  await until(() => socket.alive(), 'the new connection');
  const before = blocks;
  chain.mine();
  await until(() => blocks > before, 'a hint on the new connection');
});

test('a server that reports too many requests is not called for as long as it says', async () => {
  const { server } = await start('BTC');
  let ms = 0;
  const ownClock = { ...clock, monotonicMs: () => ms };
  const source = createBlockbookSource({ coin: 'BTC', network: 'mainnet', url: server.url, outgoing, log, clock: ownClock });
  open.push(source);
  server.behave('too_many_requests');
  await refuses(source.fees(), 'outage', /asked too often and wants 1 s/);
  const before = server.requests.length;
  ms = 999;
  await refuses(source.fees(), 'outage', /wants 1 s of rest/);
  assert.equal(server.requests.length, before, 'it was not asked');
  server.behave('well');
  ms = 1_000;
  assert.equal((await source.fees()).length, 3);
});

test('error pages, truncated replies and closed connections are outages, never answers', async () => {
  const { server, source, chain } = await start('BTC');
  const rows = [
    ['html', /status 502 and no JSON/],
    ['cut_off', /does not answer \(reset\)/],
    ['down', /does not answer \((reset|connect)\)/],
  ] as const;
  for (const [mood, message] of rows) {
    server.behave(mood);
    await refuses(source.transaction(chain.tip().txs[0]!.txid), 'outage', message);
    await refuses(source.addressSummary(addressOf('BTC', 2)), 'outage', message);
    await refuses(source.tip(), 'outage', message);
  }
  server.behave('node_down');
  await refuses(source.health(), 'outage', /node behind/);
  server.behave('slow');
  assert.equal((await source.tip()).height, 29);
});

test('health: a server whose index is behind its node is syncing; network and version are those of the node', async () => {
  const well = await (await start('LTC')).source.health();
  assert.deepEqual(
    [well.syncing, well.network, well.version, well.txindex, well.peers, well.tip.height],
    [false, 'mainnet', 210_505, true, null, 29],
  );
  const behind = await (await start('LTC', { nodeAhead: 3 })).source.health();
  assert.deepEqual([behind.syncing, behind.headers], [true, 32]);
  assert.equal((await (await start('LTC', { nodeAhead: 2 })).source.health()).syncing, false);
  assert.equal((await (await start('LTC', { initialSync: true })).source.health()).syncing, true);
  assert.equal((await (await start('ETH')).source.health()).version, 0);
});

for (const coin of UTXO) {
  test(`${coin}: the summary of any address, mined and pending`, async () => {
    const { chain, source } = await start(coin);
    const address = addressOf(coin, 2);
    assert.deepEqual(await source.addressSummary(address), {
      balanceUnits: 0n,
      unconfirmedUnits: 0n,
      receivedUnits: 0n,
      sentUnits: 0n,
      transactions: 0,
    });
    const one = chain.pay([[address, 30_000_000n]]);
    chain.mine();
    chain.pay([[address, 20_000_000n]]);
    chain.mine();
    assert.deepEqual(await source.readUnspent!({ address, outputs: [{ ref: `${one}:0`, units: 30_000_000n }] }), {
      units: 30_000_000n,
      leavingUnits: 0n,
    });
    // Sends on what it has, and receives a new pending transfer.
    const on = chain.pay([[addressOf(coin, 4), 25_000_000n]], { from: address });
    assert.equal((await source.readUnspent!({ address, outputs: [{ ref: `${one}:0`, units: 30_000_000n }] })).leavingUnits, 30_000_000n);
    chain.mine();
    chain.pay([[address, 7n]]);
    const found = await source.addressSummary(address);
    const spent = chain.find(on)!.tx.inputs.reduce((sum, i) => sum + i.units, 0n);
    assert.deepEqual(found, {
      balanceUnits: 50_000_000n - spent,
      unconfirmedUnits: 7n,
      receivedUnits: 50_000_000n,
      sentUnits: spent,
      transactions: 3,
    });
    assert.equal((await source.readUnspent!({ address, outputs: [{ ref: `${one}:0`, units: 30_000_000n }] })).units, 0n);
  });

  test(`${coin}: a transaction with its inputs, outputs and fee; a coinbase; a pending one; an unknown one`, async () => {
    const { chain, source } = await start(coin);
    const address = addressOf(coin, 2);
    const txid = chain.pay([[address, 30_000_000n]]);
    const waiting = await source.transaction(txid);
    assert.deepEqual([waiting.status, waiting.confirmations, waiting.blockHeight, waiting.timestamp], ['pending', 0, null, null]);
    const [block] = chain.mine();
    chain.mine(2);
    const { tx } = chain.find(txid)!;
    assert.deepEqual(await source.transaction(txid), {
      txid,
      status: 'confirmed',
      confirmations: 3,
      blockHeight: block!.height,
      blockHash: block!.hash,
      timestamp: new Date(block!.time * 1000),
      amountUnits: tx.outputs.reduce((sum, o) => sum + o.units, 0n),
      feeUnits: 10_000n,
      inputs: tx.inputs.map((i) => ({ address: i.address, units: i.units })),
      outputs: tx.outputs.map((o) => ({ address: o.address, units: o.units })),
    });
    const coinbase = await source.transaction(block!.txs[0]!.txid);
    assert.deepEqual([coinbase.inputs, coinbase.feeUnits], [[{ address: 'coinbase', units: 5_000_000_000n }], 0n]);
    await refuses(source.transaction('ab'.repeat(32)), 'not_found', /^(ab){32}$/);
  });

  test(`${coin}: fees decrease from fast to slow, with the minimum if the server has no estimate`, async () => {
    const { source } = await start(coin, { fees: { 2: '0.03000000', 6: '0.04000000', 24: '-1' } });
    const fees = await source.fees();
    assert.deepEqual(
      fees.map((f) => [f.speed, f.source]),
      [
        ['fast', 'estimate'],
        ['normal', 'estimate'],
        ['slow', 'fallback'],
      ],
    );
    // 0.04 coins per kilobyte: fast is never below normal.
    assert.deepEqual([fees[0]!.rateE8, fees[1]!.rateE8], [400_000_000_000n, 400_000_000_000n]);
    assert.equal(fees[0]!.units, 4_000n * BigInt(COIN[coin].typicalSize));
    assert.equal(fees[2]!.rateE8, coin === 'DOGE' ? 100_000_000_000n : 100_000_000n);
    const without = await (await start(coin, { fees: {} })).source.fees().catch((error: ChainError) => error.kind);
    assert.equal(without, 'outage', 'an error is no estimate');
  });
}

const eth = (n: number) => checksumAddress(n.toString(16).padStart(2, '0').repeat(20));

test('ETH: the summary is exact if the history adds up to the balance, including internal transfers', async () => {
  const { chain, source } = await start('ETH');
  const address = eth(2);
  chain.send({ from: eth(3), to: address, units: 10n ** 18n });
  chain.send({ from: eth(3), to: eth(9), units: 5n, internal: [{ from: eth(9), to: address, units: 5n }] });
  // A failed transfer moves nothing.
  chain.send({ from: eth(3), to: address, units: 77n, status: 0 });
  chain.mine();
  assert.deepEqual(await source.addressSummary(address.toLowerCase()), {
    balanceUnits: 10n ** 18n + 5n,
    unconfirmedUnits: 0n,
    receivedUnits: 10n ** 18n + 5n,
    sentUnits: 0n,
    transactions: 3,
  });
  chain.send({ from: eth(3), to: address, units: 9n });
  assert.equal((await source.addressSummary(address)).unconfirmedUnits, 9n);
  chain.send({ from: address, to: eth(3), units: 9n });
  await refuses(source.addressSummary(address), 'outage', /fee is known when it is mined/);
});

test('ETH: a reverted internal transfer in the index makes the totals unknown, not wrong', async () => {
  const { chain, source } = await start('ETH');
  chain.send({ from: eth(3), to: eth(9), units: 5n, internal: [{ from: eth(9), to: eth(2), units: 5n, reverted: true }] });
  chain.mine();
  await refuses(source.addressSummary(eth(2)), 'unsupported', /does not add up/);
});

test('ETH: transactions: mined, failed, pending; fees in gwei per gas', async () => {
  const { chain, source } = await start('ETH', { fees: { 2: '0.000000002', 6: '0.000000002', 24: '0.0000000015' } });
  const paid = chain.send({ from: eth(3), to: eth(2), units: 12n });
  assert.deepEqual([(await source.transaction(paid)).status, (await source.transaction(paid)).feeUnits], ['pending', null]);
  const failed = chain.send({ from: eth(3), to: eth(2), units: 12n, status: 0 });
  const [block] = chain.mine();
  const found = await source.transaction(paid);
  assert.deepEqual(
    [found.status, found.amountUnits, found.feeUnits, found.blockHash],
    ['confirmed', 12n, 42_000_000_000_000n, block!.hash],
  );
  assert.deepEqual([found.inputs, found.outputs], [[{ address: eth(3), units: 12n }], [{ address: eth(2), units: 12n }]]);
  const lost = await source.transaction(failed);
  assert.deepEqual([lost.status, lost.amountUnits, lost.outputs[0]!.units, lost.feeUnits], ['failed', 0n, 0n, 42_000_000_000_000n]);
  const [fast, , slow] = await source.fees();
  assert.deepEqual([fast!.rateE8, fast!.units, slow!.rateE8], [200_000_000n, 42_000_000_000_000n, 150_000_000n]);
});
