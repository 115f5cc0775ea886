/** Live payments in tokens on a real EVM: what wallets, exchanges and contracts send, and what only looks like a payment. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { COIN, type Coin, isToken, NATIVE_COINS } from '../../src/core/coin.ts';
import { releaseChain } from '../../src/follow/chain-acts.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { giveWallet } from '../kit/shop.ts';
import { FEE_TOKEN, IMPLEMENTATION_SLOT, putToken, REVERTING_TOKEN, tokenCode, transferData, word } from '../kit/token-contracts.ts';

const [USDC, USDT, DAI] = ['USDC@ethereum', 'USDT@ethereum', 'DAI@ethereum'] as const satisfies Coin[];
let node: EthNode;
let app: TestApp;
let receiver: Receiver;
before(async () => {
  node = await startAnvil();
  // A regtest network is a copy: the code of a token is where it is on mainnet. It is there before the service looks at it.
  for (const coin of [USDC, USDT, DAI]) await putToken(node.rpc, contract(coin), { decimals: COIN[coin].decimals });
  app = await startTestApp({
    ETH_NODE_URL: node.url,
    ETH_CHAIN_ID: '31337',
    ETH_NETWORK: 'regtest',
    ETH_CONFIRMATIONS: '2',
    PRICES: 'static:ETH=2500.00,USDC=1.00,USDT=1.00,EURC=1.08,DAI=1.00',
    LOG_LEVEL: 'fatal',
  });
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { tokens: [USDC, USDT, DAI] } });
  receiver = await startReceiver();
  ok(await app.live.post('/v1/webhook_endpoints', { url: receiver.url, events: ['*'] }), 201);
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers?.ETH,
    (follower) => follower !== undefined,
    60_000,
  );
});
after(async () => {
  await receiver?.stop();
  await app?.stop();
  await node?.destroy();
});

const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const create = async (currency: string, amount = 25.5): Promise<any> =>
  ok(await app.live.post('/v1/transactions/create', { amount, currency_fiat: 'USD', crypto: currency, network: 'ethereum' }), 201);
const detail = async (id: string) => ok(await app.live.get(`/api/payment/${id}`));
const reach = (id: string, wanted: (payment: any) => boolean) => eventually(() => detail(id), wanted, 60_000);
const completed = (id: string) => reach(id, ({ status }) => status === 'completed');
const toldOf = (id: string, type: string) => receiver.received.filter(({ event }) => event.type === type && event.data.id === id);
/** Calls the contract of the coin with pairs of account and amount. */
const pay = (to: string, pairs: readonly (readonly [address: string, units: bigint])[]) =>
  node.send({ to, data: transferData(pairs), gas: 15_000_000 });
const contract = (coin: Coin): string => COIN[coin].contract!;
/** Mines, and waits until everything was read. */
async function mine(blocks: number): Promise<void> {
  await node.mine(blocks);
  const { hash } = await node.rpc('eth_getBlockByNumber', 'latest', false);
  await eventually(
    () => app.app.ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = 'ETH'`,
    ([row]) => row?.hash === hash,
    60_000,
  );
}
const toldTransfers = (payment: any) => payment.transfers.map((t: any) => `${t.amount} ${t.currency}`).sort();

test('a payment in a token: created, quoted at par, shown, paid, completed and reported', async () => {
  const made = await create('USDC');
  assert.deepEqual([made.currency, made.network, made.amount], ['USDC', 'ethereum', '25.50']);
  const page = await (await fetch(`${app.url}/pay?id=${made.id}`)).text();
  assert.ok(page.includes(`ethereum:${contract(USDC)}@31337/transfer?address=${made.payment_address}&amp;uint256=25500000`));
  // The code that is shown first is the address, because a wallet that ignores the call would pay the contract.
  assert.match(page, /id="qr-a" checked/);
  assert.match(page, /Send USDC on <b>Ethereum<\/b> only\./);
  const hash = await pay(contract(USDC), [[made.payment_address, 25_500_000n]]);
  await mine(1);
  const seen = await reach(made.id, ({ status }) => status === 'processing');
  assert.deepEqual([seen.transaction_hash, seen.confirmations, seen.confirmations_required], [hash, 1, 2]);
  await mine(1);
  const done = await completed(made.id);
  assert.deepEqual([done.amount_received, done.exceptions, toldTransfers(done)], ['25.50', [], ['25.50 USDC']]);
  const [event] = await eventually(
    async () => toldOf(made.id, 'payment.completed'),
    (found) => found.length > 0,
  );
  assert.deepEqual([event!.event.data.currency, event!.event.data.network, event!.event.data.amount], ['USDC', 'ethereum', '25.50']);
});

test('eighteen decimals, and a token that returns nothing', async () => {
  const [dai, usdt] = [await create('DAI'), await create('USDT')];
  assert.deepEqual([dai.amount, usdt.amount], ['25.50', '25.50']);
  await pay(contract(DAI), [[dai.payment_address, 255n * 10n ** 17n]]);
  await pay(contract(USDT), [[usdt.payment_address, 25_500_000n]]);
  await mine(2);
  for (const { id } of [dai, usdt]) assert.equal((await completed(id)).amount_received, '25.50');
});

test('one transaction pays two payments, and one of them twice: each transfer counts once', async () => {
  const [one, two] = [await create('USDC'), await create('USDC')];
  await pay(contract(USDC), [
    [one.payment_address, 10_000_000n],
    [two.payment_address, 25_500_000n],
    [one.payment_address, 15_500_000n],
  ]);
  await mine(2);
  assert.deepEqual(toldTransfers(await completed(one.id)), ['10.00 USDC', '15.50 USDC']);
  assert.deepEqual(toldTransfers(await completed(two.id)), ['25.50 USDC']);
});

test('five hundred transfers in one transaction are five hundred transfers, and worth their sum', async () => {
  const made = await create('USDC', 50);
  await pay(
    contract(USDC),
    Array.from({ length: 500 }, () => [made.payment_address, 100_000n] as const),
  );
  await mine(2);
  const done = await completed(made.id);
  assert.deepEqual([done.amount_received, done.transfers_count, done.exceptions], ['50.00', 500, []]);
});

test('what arrives after a fee of the token counts, and not what was sent', async () => {
  await node.rpc('anvil_setCode', contract(USDT), `0x${FEE_TOKEN}`);
  const made = await create('USDT', 100);
  await pay(contract(USDT), [[made.payment_address, 90_000_000n]]);
  await mine(2);
  const part = await reach(made.id, ({ amount_received }) => amount_received !== '0.00');
  assert.deepEqual([part.status, part.amount_received, part.amount_remaining], ['pending', '89.10', '10.90']);
  await pay(contract(USDT), [[made.payment_address, 11_100_000n]]);
  await mine(2);
  assert.equal((await completed(made.id)).amount_received, '100.089');
});

test('a token with the same name, a failed transaction, and transfers of nothing pay nothing', async () => {
  const made = await create('USDC');
  const other = '0x00000000000000000000000000000000000000cc';
  await node.rpc('anvil_setCode', other, `0x${tokenCode()}`);
  await pay(other, [[made.payment_address, 25_500_000n]]);
  await pay(contract(USDC), [[made.payment_address, 0n]]);
  await mine(1);
  await node.rpc('anvil_setCode', contract(USDC), `0x${REVERTING_TOKEN}`);
  const failed = await pay(contract(USDC), [[made.payment_address, 25_500_000n]]);
  await mine(2);
  assert.equal((await node.rpc('eth_getTransactionReceipt', failed)).status, '0x0');
  await node.rpc('anvil_setCode', contract(USDC), `0x${tokenCode()}`);
  assert.deepEqual((await detail(made.id)).transfers, []);
  // The payment is still open for the right money.
  await pay(contract(USDC), [[made.payment_address, 25_500_000n]]);
  await mine(2);
  await completed(made.id);
});

test('another token than the one that was asked for is recorded and held, and ETH too', async () => {
  const made = await create('USDC');
  await pay(contract(DAI), [[made.payment_address, 10n ** 21n]]);
  await node.send({ to: made.payment_address, value: 10n ** 18n });
  await mine(2);
  const held = await reach(made.id, ({ transfers }) => transfers.length === 2);
  assert.deepEqual([held.status, held.amount_received, held.amount_held_usd], ['pending', '0.00', '3500.00']);
  assert.deepEqual(held.exceptions, ['wrong_token']);
  await pay(contract(USDC), [[made.payment_address, 25_500_000n]]);
  await mine(2);
  const done = await completed(made.id);
  assert.deepEqual([done.amount_received, done.amount_held_usd], ['25.50', '3500.00']);
});

test('what a contract reports in the block of its upgrade is held until an operator releases it', async () => {
  const made = await create('USDC');
  await node.rpc('anvil_setStorageAt', contract(USDC), IMPLEMENTATION_SLOT, `0x${word(0xcafen)}`);
  await pay(contract(USDC), [[made.payment_address, 25_500_000n]]);
  await mine(3);
  await reach(made.id, ({ status, hold_reason: reason }) => status === 'processing' && /USDC on Ethereum was upgraded/.test(reason));
  await releaseChain(app.app.ctx, { coin: 'ETH', reason: 'announced by its issuer' });
  await completed(made.id);
});

test('a token takes no live payments until it is turned on', async () => {
  const asked = { amount: 5, currency_fiat: 'USD', crypto: 'EURC', network: 'ethereum' };
  const refused = await app.live.post('/v1/transactions/create', asked);
  assert.equal(refused.json.error.code, 'coin_not_configured', refused.text);
  const open = ok(await app.live.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://shop.example/' }), 201);
  const page = await (await fetch(`${app.url}/pay?id=${open.transaction_id}`)).text();
  for (const asset of ['ETH', 'USDC', 'USDT', 'DAI']) assert.ok(page.includes(`value="${asset}"`), asset);
  for (const coin of ['EURC', 'PYUSD']) assert.ok(!page.includes(`value="${coin}"`), coin);
  assert.ok(!NATIVE_COINS.some((coin) => isToken(coin)));
});
