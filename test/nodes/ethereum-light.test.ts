/** ETH and tokens through providers of others: nothing completes that the sync committee did not sign, and one honest server is enough. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startApp } from '../../src/app.ts';
import { COIN } from '../../src/core/coin.ts';
import { createLog } from '../../src/log.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type BeaconServer, createBeaconChain, type MadeHeader, smallNetwork, startBeaconServer } from '../kit/beacon-chain.ts';
import { type EthProxy, startEthProxy } from '../kit/eth-proxy.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { giveWallet } from '../kit/shop.ts';
import { putToken, transferData, VALUE_FORWARDER, word } from '../kit/token-contracts.ts';

const USDC = 'USDC@ethereum';
const CONTRACT = COIN[USDC].contract!.toLowerCase();
/** 25 USD at the test price. */
const WEI = 10n ** 16n;
const UNITS = 25_000_000n;
/** A slot a second, so that a test need not wait for many, and one period that lasts for hours. */
const SECONDS_BEFORE = 4_000;

const genesisTime = Math.floor(Date.now() / 1000) - SECONDS_BEFORE;
const chain = createBeaconChain(smallNetwork({ fulu: 0 }, { genesisTime, secondsPerSlot: 1, epochsPerPeriod: 10_000 }));
let honest: EthNode;
let liar: EthNode;
let first: EthProxy;
let second: EthProxy;
let servers: [BeaconServer, BeaconServer];
let app: TestApp;
/** The service after its restart. */
let again: Awaited<ReturnType<typeof startApp>> | undefined;
let checkpoint: MadeHeader;
before(async () => {
  honest = await startAnvil();
  liar = await startAnvil();
  // Mined, because a node cannot prove a state that it was only told.
  for (const node of [honest, liar]) {
    await putToken(node.rpc, CONTRACT, { decimals: COIN[USDC].decimals });
    await node.mine(1);
  }
  first = await startEthProxy(honest.url);
  second = await startEthProxy(honest.url);
  servers = [await startBeaconServer(), await startBeaconServer()];
  checkpoint = chain.header(SECONDS_BEFORE - 100, await tipOf(honest));
  for (const server of servers) server.serve({ bootstrap: chain.bootstrap(checkpoint) });
  app = await startTestApp(
    {
      ETH_NODE_URL: `${first.url}, ${second.url}`,
      ETH_TRUST: 'untrusted',
      ETH_CHAIN_ID: '31337',
      ETH_CONFIRMATIONS: '1',
      ETH_BEACON_URL: servers.map(({ url }) => url).join(','),
      ETH_CHECKPOINT: `0x${checkpoint.root}`,
      PRICES: 'static:ETH=2500.00,USDC=1.00',
      LOG_LEVEL: 'silent',
    },
    { beacon: chain.network },
  );
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { tokens: [USDC] } });
  await sign();
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers?.ETH,
    (follower) => follower !== undefined,
    60_000,
  );
});
after(async () => {
  await again?.stop();
  await app?.stop();
  for (const one of [first, second, ...(servers ?? [])]) await one?.stop();
  for (const node of [honest, liar]) await node?.destroy();
});

const tipOf = async (node: EthNode): Promise<string> => (await node.rpc('eth_getBlockByNumber', 'latest', false)).hash;
let lastSlot = SECONDS_BEFORE - 90;
/** The committee signs the newest block of the honest node, and servers tell. */
async function sign({ node = honest, seed = 0, by = servers as readonly BeaconServer[] } = {}): Promise<void> {
  // Not long ago, because older heads hold, and not in the future.
  lastSlot = Math.max(lastSlot + 1, Math.floor(Date.now() / 1000) - genesisTime - 10);
  const attested = chain.header(lastSlot, await tipOf(node), { finalized: checkpoint, seed });
  const update = chain.update(attested, { finalized: checkpoint, seed });
  const { finalized_header: _, finality_branch: __, ...optimistic } = update;
  for (const server of by) server.serve({ bootstrap: chain.bootstrap(checkpoint), finality: update, optimistic });
}
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const create = async (crypto: 'ETH' | 'USDC'): Promise<{ id: string; payment_address: string }> =>
  ok(await app.live.post('/v1/transactions/create', { amount: 25, currency_fiat: 'USD', crypto, network: 'ethereum' }), 201);
const detail = async (id: string) => ok(await app.live.get(`/api/payment/${id}`));
const reach = (id: string, wanted: (payment: any) => boolean) => eventually(() => detail(id), wanted, 60_000);
const payToken = (node: EthNode, address: string) => node.send({ to: CONTRACT, data: transferData([[address, UNITS]]), gas: 200_000 });
const readThrough = async (node: EthNode): Promise<void> => {
  const hash = await tipOf(node);
  await eventually(
    () => app.app.ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = 'ETH'`,
    ([row]) => row?.hash === hash,
    60_000,
  );
};
const followedTip = async () => (await app.app.ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = 'ETH'`)[0]?.hash;
/** A few rounds of the follower, which polls every few seconds. */
const rounds = async (count = 3): Promise<void> => {
  const asked = first.requests + second.requests;
  await eventually(
    async () => first.requests + second.requests,
    (now) => now >= asked + 4 * count,
    60_000,
  );
};

test('what is mined counts once the committee signed it, and the payment says so', async () => {
  const [token, direct] = [await create('USDC'), await create('ETH')];
  await payToken(honest, token.payment_address);
  await honest.send({ to: direct.payment_address, value: WEI });
  await honest.mine(2);
  const unsigned = await tipOf(honest);
  await rounds();
  assert.notEqual(await followedTip(), unsigned);
  for (const { id } of [token, direct]) assert.notEqual((await detail(id)).status, 'completed');
  await sign();
  for (const { id } of [token, direct]) {
    const done = await reach(id, ({ status }) => status === 'completed');
    assert.equal(done.verified_by, 'sync_committee');
  }
});

test('a branch that only providers show completes nothing, and the payment on the true one completes', async () => {
  const [forged, paid] = [await create('USDC'), await create('ETH')];
  await payToken(liar, forged.payment_address);
  await liar.mine(9);
  first.target = liar.url;
  second.target = liar.url;
  await rounds();
  assert.deepEqual(
    (await detail(forged.id)).transfers.filter((transfer: any) => transfer.block_hash !== null),
    [],
  );
  // One honest provider of two is enough.
  second.target = honest.url;
  await honest.send({ to: paid.payment_address, value: WEI });
  await honest.mine(2);
  await sign();
  assert.equal((await reach(paid.id, ({ status }) => status === 'completed')).verified_by, 'sync_committee');
  assert.notEqual((await detail(forged.id)).status, 'completed');
  first.target = honest.url;
});

test('a beacon server with a committee of its own is named, and another one serves', async () => {
  const [forged, paid] = [await create('USDC'), await create('ETH')];
  await payToken(liar, forged.payment_address);
  await liar.mine(3);
  first.target = liar.url;
  await honest.send({ to: paid.payment_address, value: WEI });
  await honest.mine(2);
  await sign({ node: liar, seed: 5, by: [servers[0]] });
  await sign({ by: [servers[1]] });
  assert.equal((await reach(paid.id, ({ status }) => status === 'completed')).verified_by, 'sync_committee');
  assert.notEqual((await detail(forged.id)).status, 'completed');
  first.target = honest.url;
  await sign();
});

test('while all beacon servers are silent nothing completes, and what was proven is kept', async () => {
  const { id, payment_address: address } = await create('ETH');
  for (const server of servers) server.serve({});
  await honest.send({ to: address, value: WEI });
  await honest.mine(3);
  await rounds();
  assert.notEqual((await detail(id)).status, 'completed');
  const [stored] = await app.app.ctx.db.sql`select checkpoint, halted, length(current_committee) as bytes from light_clients`;
  assert.deepEqual({ ...stored }, { checkpoint: `0x${checkpoint.root}`, halted: null, bytes: 33 * 48 });
  await sign();
  for (const server of servers)
    assert.ok(server.asked.filter((path) => path.startsWith('bootstrap/')).length <= 2, 'no bootstrap is needed again');
  assert.equal((await reach(id, ({ status }) => status === 'completed')).verified_by, 'sync_committee');
  await readThrough(honest);
});

test('ETH through a contract that all providers hid before a restart is found at the deadline of its payment', async () => {
  const { id, payment_address: address } = await create('ETH');
  const forwarder = await honest.deploy(VALUE_FORWARDER);
  await honest.mine(1);
  await sign();
  await readThrough(honest);
  // It says that no balance changes.
  for (const proxy of [first, second])
    proxy.change = ({ method, params }, result) =>
      method === 'eth_call' && params[0].to === undefined ? `0x${'0'.repeat(result.length - 2)}` : result;
  await honest.send({ to: forwarder, value: WEI, data: `0x${word(address)}` });
  await honest.mine(1);
  await sign();
  await readThrough(honest);
  assert.deepEqual((await detail(id)).transfers, []);
  await app.app.stop();

  const { timestamp } = await honest.rpc('eth_getBlockByNumber', 'latest', false);
  const next = Number(timestamp) + 10;
  again = await startApp(app.config, { log: createLog('silent'), starts: () => null, beacon: chain.network });
  app = { ...app, app: again, url: again.url!, live: client(again.url!, app.merchant.keys.liveSecret) };
  await app.app.ctx.db.sql`
    update payments set created_at = to_timestamp(${next - 5}) - (expires_at - created_at), expires_at = to_timestamp(${next - 5}) where id = ${id}`;
  await honest.rpc('evm_setNextBlockTimestamp', next);
  await honest.mine(1);
  await sign();
  const done = await reach(id, ({ status }) => !['pending', 'processing'].includes(status));
  assert.deepEqual([done.status, done.verified_by, done.transfers.length, done.transaction_hash], ['completed', 'sync_committee', 1, null]);
});
