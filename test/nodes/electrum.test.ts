/** Lookups without an index, by Electrum servers, in the running service: real blocks of a real node, exact or 503, payments never sent out. */
// Invariant: Servers that omit, invent or lag get no wrong figure shown, and learn nothing about payments.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { scriptHashOf } from '../../src/chains/bitcoin/electrum/electrum-proof.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { createElectrumChain, type ElectrumChain } from '../kit/electrum-chain.ts';
import { type ElectrumServer, startElectrumServer, wasAskedAbout } from '../kit/electrum-server.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { giveWallet, openPayment, reach, units } from '../kit/shop.ts';

/** What a server that indexes this node would have. */
async function readChain(node: TestNode): Promise<ElectrumChain> {
  const chain = createElectrumChain();
  await extend(chain, node);
  return chain;
}
async function extend(chain: ElectrumChain, node: TestNode): Promise<void> {
  const top = (await node.rpc('getblockcount')) as number;
  for (let height = chain.tip().height + 1; height <= top; height++)
    chain.addBlock(Buffer.from(await node.rpc('getblock', await node.rpc('getblockhash', height), 0), 'hex'));
  for (const txid of (await node.rpc('getrawmempool')) as string[])
    if (!chain.transaction(txid)) chain.addWaiting(Buffer.from(await node.rpc('getrawtransaction', txid), 'hex'));
}
const scriptOf = async (node: TestNode, address: string): Promise<string> => (await node.rpc('validateaddress', address)).scriptPubKey;

const signed = (amount: string): bigint => (amount.startsWith('-') ? -units(amount.slice(1)) : units(amount));

async function startAll(
  t: TestContext,
  { servers: count, ...environment }: { servers: number } & Record<string, unknown>,
): Promise<{ node: TestNode; chain: ElectrumChain; servers: ElectrumServer[]; app: TestApp; lookUp(path: string): Promise<Reply> }> {
  const node = await startBitcoind({ txindex: false });
  t.after(() => node.destroy());
  const chain = await readChain(node);
  const servers: ElectrumServer[] = [];
  for (let i = 0; i < count; i++) {
    servers.push(await startElectrumServer({ chain, ...(i === 1 && { protocol: '1.6', software: 'Fulcrum 2.1', fee: 2.5e-5 }) }));
    t.after(() => servers[i]!.close());
  }
  const app = await startTestApp(
    {
      BTC_NETWORK: 'regtest',
      BTC_ELECTRUM_URL: servers.map(({ url }) => url).join(),
      ...(environment.withNode === true && { BTC_NODE_URL: node.url }),
    },
    environment.withNode === true ? {} : { roles: ['api'] },
  );
  t.after(() => app.stop());
  return { node, chain, servers, app, lookUp: (path) => app.live.get(`/api/crypto/${path}`) };
}
const readyz = async (app: TestApp): Promise<any> => (await fetch(`${app.url}/readyz`)).json();

test('the api role alone, without a node: balances, transactions and fees of real blocks are exact, and 503 names what is missing', async (t) => {
  const { node, chain, servers, app, lookUp } = await startAll(t, { servers: 2 });
  const address = await node.newAddress();
  const first = await node.pay(address, '1.5');
  await node.pay(address, '0.25');
  const [hash] = await node.mine(1);
  await node.pay(await node.newAddress(), '0.1');
  await node.mine(3);
  const waiting = await node.pay(address, '0.001');
  await extend(chain, node);

  const balance = await lookUp(`balance?currency=BTC&address=${address}`);
  assert.equal(balance.status, 200, balance.text);
  const { confirmed, unconfirmed } = chain.balance(scriptHashOf(await scriptOf(node, address)));
  const { json } = balance;
  // The node may spend what it received in a later payment.
  assert.deepEqual([units(json.balance), signed(json.unconfirmed_balance)], [BigInt(confirmed), BigInt(unconfirmed)]);
  assert.equal(units(json.total_received) - units(json.total_sent), units(json.balance));
  assert.ok(units(json.total_received) >= 175_000_000n && json.transaction_count >= 2);

  const mined = await lookUp(`transaction/${first}?currency=BTC`);
  assert.equal(mined.status, 200, mined.text);
  const wallet = await node.rpc('gettransaction', first);
  const decoded = await node.rpc('decoderawtransaction', wallet.hex);
  assert.deepEqual(
    [mined.json.status, mined.json.confirmations, mined.json.block_hash, mined.json.fee, mined.json.inputs.length],
    ['confirmed', 4, hash, (-wallet.fee).toFixed(8), decoded.vin.length],
  );
  assert.deepEqual(
    mined.json.outputs.map((output: any) => [output.address, output.amount]),
    decoded.vout.map((output: any) => [output.scriptPubKey.address, output.value.toFixed(8)]),
  );
  assert.equal((await lookUp(`transaction/${waiting}?currency=BTC`)).json.status, 'pending');
  assert.equal((await lookUp(`transaction/${'ab'.repeat(32)}?currency=BTC`)).status, 404);
  // The higher of two estimates that are near each other.
  assert.equal((await lookUp('fees?currency=BTC')).json.fees.fast.fee_per_byte, 2.5);

  assert.deepEqual(
    (await readyz(app)).electrum.BTC.map(({ server, state, height }: any) => [server, state, height]),
    servers.map(({ name }) => [name, 'ok', chain.tip().height]),
  );
  const { findings } = await diagnose(app.app.ctx);
  assert.ok(
    findings.some(({ check, detail }) => check === `BTC Electrum server ${servers[1]!.name}` && detail.startsWith('Fulcrum 2.1 at block ')),
  );

  // One of the two leaves something out.
  servers[1]!.behave((method, _, truth) =>
    method === 'blockchain.scripthash.get_history' ? { result: (truth() as unknown[]).slice(1) } : undefined,
  );
  const refused = await lookUp(`balance?currency=BTC&address=${address}`);
  assert.deepEqual([refused.status, refused.json.error.code], [503, 'chain_unavailable'], refused.text);
  assert.match(refused.json.error.message, new RegExp(`${servers[1]!.name} left out transactions of an address`));
  assert.ok((await readyz(app)).warnings.some((text: string) => text.includes(`Electrum server ${servers[1]!.name} left out`)));
  assert.equal((await lookUp(`transaction/${first}?currency=BTC`)).status, 200);
});

test('with a node: other addresses are looked up, payments are answered from the ledger and never sent to a server', async (t) => {
  const { node, chain, servers, app, lookUp } = await startAll(t, { servers: 2, withNode: true });
  await eventually(
    () => readyz(app),
    (ready) => ready.followers?.BTC !== undefined,
    60_000,
  );
  await giveWallet(app, 'BTC');
  const { id, address: ours, amount } = await openPayment(app, 'BTC', 25);
  const paid = await node.pay(ours, amount);
  await node.mine(1);
  await reach(app, id, ({ confirmations }) => confirmations >= 1);
  const other = await node.newAddress();
  await node.pay(other, '0.5');
  await node.mine(1);
  await extend(chain, node);
  for (const server of servers) server.show(chain);

  const foreign = await lookUp(`balance?currency=BTC&address=${other}`);
  assert.deepEqual([foreign.status, foreign.json.balance], [200, '0.50000000'], foreign.text);
  const own = await lookUp(`balance?currency=BTC&address=${ours}`);
  assert.deepEqual([own.status, own.json.balance], [200, amount], own.text);
  assert.equal((await lookUp(`transaction/${paid}?currency=BTC`)).json.status, 'confirmed');
  // Another merchant of this service gets the same answer, also without asking others.
  const stranger = app.as((await createMerchant(app.app.ctx, { name: 'Another shop' })).keys.liveSecret);
  assert.equal((await stranger.get(`/api/crypto/balance?currency=BTC&address=${ours}`)).json.balance, amount);

  const [script, otherScript] = [await scriptOf(node, ours), await scriptOf(node, other)];
  for (const server of servers) {
    assert.ok(server.asked.length > 0);
    assert.equal(wasAskedAbout(server, script), false);
    for (const secret of [ours, script, paid, id]) assert.ok(!server.received().includes(secret), secret);
  }
  assert.ok(servers.some((server) => wasAskedAbout(server, otherScript)));
});

test('a fresh install without a node: payments are answered from the ledger, anything else by servers that nobody set, which hear of nothing else', async (t) => {
  const node = await startBitcoind({ txindex: false, listens: true, atOnce: true });
  t.after(() => node.destroy());
  const chain = await readChain(node);
  const servers: ElectrumServer[] = [];
  for (let i = 0; i < 2; i++) {
    servers.push(await startElectrumServer({ chain }));
    t.after(() => servers[i]!.close());
  }
  const app = await startTestApp(
    { BTC_NETWORK: 'regtest', BTC_PEERS: node.p2p!, BTC_ELECTRUM_URL: '' },
    { unchosenServers: servers.map(({ url }) => url) },
  );
  t.after(() => app.stop());
  const lookUp = (path: string) => app.live.get(`/api/crypto/${path}`);
  await giveWallet(app, 'BTC');
  await eventually(
    () => readyz(app),
    (ready) => ready.followers?.BTC !== undefined,
    60_000,
  );
  const { id, address: ours, amount } = await openPayment(app, 'BTC', 25);
  const paid = await node.pay(ours, amount);
  await reach(app, id, ({ amount_announced }) => amount_announced === amount);

  const balance = async () => {
    const { status, json, text } = await lookUp(`balance?currency=BTC&address=${ours}`);
    assert.equal(status, 200, text);
    return [json.balance, json.unconfirmed_balance, json.total_received, json.total_sent, json.transaction_count, json.source];
  };
  const zero = '0.00000000';
  assert.deepEqual(await balance(), [zero, amount, zero, zero, 0, undefined]);
  const waiting = await lookUp(`transaction/${paid}?currency=BTC`);
  assert.equal(waiting.status, 200, waiting.text);
  assert.deepEqual(
    [waiting.json.status, waiting.json.confirmations, waiting.json.block_height, waiting.json.amount, waiting.json.outputs],
    ['pending', 0, null, amount, [{ address: ours, amount }]],
  );
  const [hash] = await node.mine(1);
  await reach(app, id, ({ confirmations }) => confirmations >= 1);
  assert.deepEqual(await balance(), [amount, zero, amount, zero, 1, 'ledger']);
  const mined = await lookUp(`transaction/${paid}?currency=BTC`);
  assert.deepEqual([mined.status, mined.json.status, mined.json.block_hash], [200, 'confirmed', hash], mined.text);
  assert.ok(mined.json.outputs.length > 1, 'the block shows all outputs');
  // Another merchant of this service gets the same answer, without asking others.
  const stranger = app.as((await createMerchant(app.app.ctx, { name: 'Another shop' })).keys.liveSecret);
  assert.equal((await stranger.get(`/api/crypto/balance?currency=BTC&address=${ours}`)).json.balance, amount);
  // Nor does the operator's check connect them, and nothing lists them.
  await diagnose(app.app.ctx);
  assert.equal((await readyz(app)).electrum, undefined);
  for (const server of servers) assert.deepEqual([server.asked, server.connections()], [[], 0], 'no server was even connected');

  const other = await node.newAddress();
  const foreign = await node.pay(other, '0.5');
  await node.mine(1);
  await extend(chain, node);
  for (const server of servers) server.show(chain);
  const found = await eventually(
    () => lookUp(`balance?currency=BTC&address=${other}`),
    ({ status }) => status === 200,
  );
  assert.deepEqual([found.json.balance, found.json.source], ['0.50000000', undefined]);
  assert.equal((await lookUp(`transaction/${foreign}?currency=BTC`)).json.status, 'confirmed');
  assert.equal((await lookUp('fees?currency=BTC')).json.fees.fast.source, 'estimate');
  assert.equal((await readyz(app)).electrum.BTC.length, 2, 'those that were asked are listed');

  const [script, otherScript] = [await scriptOf(node, ours), await scriptOf(node, other)];
  assert.ok(servers.some((server) => wasAskedAbout(server, otherScript)));
  for (const server of servers) {
    assert.equal(wasAskedAbout(server, script), false);
    assert.equal(server.count('blockchain.transaction.broadcast'), 0);
    for (const secret of [ours, script, paid, id]) assert.ok(!server.received().includes(secret), secret);
  }
  // Nothing is sent through them either.
  await assert.rejects(app.app.ctx.chains.get('bitcoin')!.outlet.send(Buffer.from('00', 'hex')));
  for (const server of servers) assert.equal(server.count('blockchain.transaction.broadcast'), 0);
});

test('with servers turned off, look-ups of other addresses name the setting, and ETH without a node names its own', async (t) => {
  const servers = [await startElectrumServer({ chain: createElectrumChain() })];
  t.after(() => servers[0]!.close());
  const off = await startTestApp(
    { BTC_NETWORK: 'regtest', BTC_PEERS: '127.0.0.1:1', BTC_ELECTRUM_URL: 'off' },
    { roles: ['api'], unchosenServers: servers.map(({ url }) => url) },
  );
  t.after(() => off.stop());
  for (const [path, setting] of [
    ['balance?currency=BTC&address=bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', /BTC_ELECTRUM_URL/],
    ['balance?currency=ETH&address=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', /ETH_NODE_URL/],
    ['fees?currency=ETH', /ETH_NODE_URL/],
  ] as const) {
    const { status, json, text } = await off.live.get(`/api/crypto/${path}`);
    assert.ok(status === 501 || status === 503, text);
    assert.match(json.error.message, setting);
  }
  assert.deepEqual(servers[0]!.asked, []);
});
