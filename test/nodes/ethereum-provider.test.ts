/** A provider that others run, in front of your own Ethereum node: it is followed, and it completes nothing that is not true. */
// Invariant: Nothing in an Ethereum block can be invented, changed or left out by any source; a provider that tries is named, and your own node shows the payments.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { COIN } from '../../src/core/coin.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type EthProxy, startEthProxy } from '../kit/eth-proxy.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { giveWallet } from '../kit/shop.ts';
import { putToken, TRANSFER, transferData, VALUE_FORWARDER, word } from '../kit/token-contracts.ts';

const USDC = 'USDC@ethereum';
const CONTRACT = COIN[USDC].contract!.toLowerCase();
/** 25 USD at the test price. */
const WEI = 10n ** 16n;
const UNITS = 25_000_000n;

let node: EthNode;
let provider: EthProxy;
let own: EthProxy;
let app: TestApp;
const asked: string[] = [];
before(async () => {
  node = await startAnvil();
  provider = await startEthProxy(node.url);
  own = await startEthProxy(node.url);
  provider.change = ({ method }, result) => {
    asked.push(method);
    return result;
  };
  // It is there before the service looks at it.
  await putToken(node.rpc, CONTRACT, { decimals: COIN[USDC].decimals });
  app = await startTestApp({
    ETH_NODE_URL: `${provider.url}, ${own.url}`,
    ETH_TRUST: 'untrusted, own',
    ETH_CHAIN_ID: '31337',
    ETH_CONFIRMATIONS: '1',
    PRICES: 'static:ETH=2500.00,USDC=1.00',
    LOG_LEVEL: 'silent',
  });
  // Anvil changes the state of the last block without its root.
  await node.mine(1);
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { tokens: [USDC] } });
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers?.ETH,
    (follower) => follower !== undefined,
    60_000,
  );
});
after(async () => {
  await app?.stop();
  await provider?.stop();
  await own?.stop();
  await node?.destroy();
});

const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const create = async (crypto: 'ETH' | 'USDC'): Promise<{ id: string; payment_address: string }> =>
  ok(await app.live.post('/v1/transactions/create', { amount: 25, currency_fiat: 'USD', crypto, network: 'ethereum' }), 201);
const detail = async (id: string) => ok(await app.live.get(`/api/payment/${id}`));
const reach = (id: string, wanted: (payment: any) => boolean) => eventually(() => detail(id), wanted, 60_000);
const payToken = (address: string) => node.send({ to: CONTRACT, data: transferData([[address, UNITS]]), gas: 200_000 });
/** Mines, and waits until everything was read. */
async function mine(blocks = 1): Promise<void> {
  await node.mine(blocks);
  const { hash } = await node.rpc('eth_getBlockByNumber', 'latest', false);
  await eventually(
    () => app.app.ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = 'ETH'`,
    ([row]) => row?.hash === hash,
    60_000,
  );
}
/** The state of each source, and whether it is followed. */
const sources = async (): Promise<string[]> => {
  const [row] = await app.app.ctx.db.sql<{ sources: { name: string; state: string; reason: string | null }[] }[]>`
    select sources from chain_guard where chain = 'ETH'`;
  const nameOf = (name: string) => (provider.url.endsWith(name) ? 'provider' : 'own');
  return (row?.sources ?? []).map(({ name, state, reason }) => `${nameOf(name)} ${state}${reason === null ? '' : `: ${reason}`}`);
};

test('what the provider shows completes when your node has the same block, and your node vouches for it', async () => {
  const [token, direct, inner] = [await create('USDC'), await create('ETH'), await create('ETH')];
  const forwarder = await node.deploy(VALUE_FORWARDER);
  await payToken(token.payment_address);
  await node.send({ to: direct.payment_address, value: WEI });
  const hash = await node.send({ to: forwarder, value: WEI, data: `0x${word(inner.payment_address)}` });
  await mine();
  for (const { id } of [token, direct, inner]) {
    const done = await reach(id, ({ status }) => status === 'completed');
    assert.deepEqual([done.verified_by, done.transfers.length], ['node', 1]);
  }
  assert.equal((await detail(inner.id)).transaction_hash, hash);
  // The provider was read, and proved what came through the contract.
  assert.ok(asked.includes('eth_getBlockReceipts') && asked.includes('eth_getProof'), [...new Set(asked)].join());
  assert.deepEqual(await sources(), ['provider ok', 'own ok']);
});

test('ETH through a contract that the provider hides is found in the balance that it must prove', async () => {
  const { id, payment_address: address } = await create('ETH');
  const forwarder = await node.deploy(VALUE_FORWARDER);
  await mine();
  // From here on it says that no balance changes.
  provider.change = ({ method, params }, result) => {
    asked.push(method);
    return method === 'eth_call' && params[0].to === undefined ? `0x${'0'.repeat(result.length - 2)}` : result;
  };
  await node.send({ to: forwarder, value: WEI, data: `0x${word(address)}` });
  await mine();
  assert.deepEqual((await detail(id)).transfers, []);
  await mine(24);
  const done = await reach(id, ({ status }) => status === 'completed');
  assert.deepEqual([done.verified_by, done.transfers.length, done.transaction_hash], ['node', 1, null]);
});

test('while your node is away, nothing completes, although every answer of the provider is true', async () => {
  const { id, payment_address: address } = await create('USDC');
  own.isAway = true;
  await eventually(sources, ([, state]) => state!.startsWith('own down'), 60_000);
  await payToken(address);
  await mine(3);
  const held = await reach(id, ({ confirmations, hold_reason: reason }) => confirmations === 3 && reason !== null);
  assert.deepEqual([held.status, held.verified_by], ['processing', null]);
  assert.match(held.hold_reason, /your own node is not available/);
  own.isAway = false;
  const done = await reach(id, ({ status }) => status === 'completed');
  assert.equal(done.verified_by, 'node');
});

test('a provider that invents, changes and leaves out payments is named and left out; your node shows the true ones', async () => {
  const [invented, omitted, raised, failed] = [await create('USDC'), await create('USDC'), await create('ETH'), await create('ETH')];
  await eventually(sources, (states) => states.every((state) => state.endsWith(' ok')), 60_000);
  const log = {
    address: CONTRACT,
    topics: [`0x${TRANSFER}`, `0x${word('1')}`, `0x${word(invented.payment_address)}`],
    data: `0x${word(UNITS)}`,
  };
  const pays = (entry: { logs: { topics: string[] }[] }, address: string) =>
    entry.logs.some(({ topics }) => topics[2]?.endsWith(address.slice(2).toLowerCase()));
  const isTo = ({ to }: { to: string | null }, { payment_address: address }: { payment_address: string }) => to === address.toLowerCase();
  provider.change = ({ method }, result) => {
    if (method === 'eth_getBlockReceipts')
      return result.map((receipt: any, i: number) => ({
        ...receipt,
        logsBloom: undefined,
        logs: i === 0 ? [...receipt.logs, log] : pays(receipt, omitted.payment_address) ? [] : receipt.logs,
        status: isTo(receipt, failed) ? '0x1' : receipt.status,
      }));
    if (method !== 'eth_getBlockByHash' || typeof result.transactions[0] === 'string') return result;
    const value = (tx: any) => (isTo(tx, raised) ? `0x${WEI.toString(16)}` : tx.value);
    return { ...result, transactions: result.transactions.map((tx: any) => ({ ...tx, value: value(tx) })) };
  };
  await node.send({ to: node.accounts[1]!, value: 1n });
  await payToken(omitted.payment_address);
  await node.send({ to: raised.payment_address, value: 1n });
  // PUSH1 0 PUSH1 0 REVERT: for one block the address refuses transfers.
  await node.rpc('anvil_setCode', failed.payment_address, '0x60006000fd');
  await node.send({ to: failed.payment_address, value: WEI, gas: 100_000 });
  await mine();
  await node.rpc('anvil_setCode', failed.payment_address, '0x');
  const done = await reach(omitted.id, ({ status }) => status === 'completed');
  assert.deepEqual([done.verified_by, done.transfers.length], ['node', 1]);
  await mine(2);
  for (const { id } of [invented, raised, failed]) assert.equal((await detail(id)).amount_received_usd, '0.00');
  assert.deepEqual((await detail(invented.id)).transfers, []);
  assert.match((await sources())[0]!, /^provider unproven: the (receipts|transactions) do not fit the header of their block$/);
  const metrics = await (await fetch(`${app.url}/metrics`)).text();
  assert.match(metrics, new RegExp(`florin_chain_source_unproven\\{coin="ETH",source="${new URL(provider.url).host}"\\} 1`));
});
