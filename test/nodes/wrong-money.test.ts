/**
 * Money that customers send on the wrong network or in the wrong coin, on Ethereum and Base: found, held, accepted or rejected by one
 * decision, and moved to the merchant's own wallet by sweeps, also where the coin is never offered.
 */
// Invariant: Money on the wrong network or in a wrong coin is found, held, completes by one decision, and can be swept.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { readStatement } from '../../src/books/books.ts';
import { OPERATOR_ACTOR } from '../../src/cli/command.ts';
import { type ChainId, COIN, type Coin, feeCoinOf, isToken } from '../../src/core/coin.ts';
import { readSigningFile, signingFileText } from '../../src/core/signing-file.ts';
import { MULTICALL3, selector, word } from '../../src/evm/transaction.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { reviewPayment } from '../../src/payments/payments.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { PUBLISHING_CONTRACT } from '../../src/signing/make-accounts.ts';
import { acceptSigned, getSweep, listSweepable, makeSweep, readSigningFileOf } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { account, giveWallet, reach } from '../kit/shop.ts';

const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));
const NETWORKS = ['ethereum', 'base'] as const satisfies ChainId[];
type OnNetwork = (typeof NETWORKS)[number];
const OFFERED = ['USDC@ethereum', 'USDT@ethereum', 'USDC@base'] as const satisfies Coin[];
/** Tokens on the chains. Those of USDT and of bridges have no transfers by authorization. */
const CONTRACTS = [...OFFERED, 'USDbC@base'] as const satisfies Coin[];
const PLAIN: readonly Coin[] = ['USDT@ethereum', 'USDbC@base'];
const DESTINATION = '0x00000000000000000000000000000000000A11cE';
const actor = { userId: '', name: 'Test', ip: '' };
/** 25.50 USD, at 2,500 USD. */
const [TOKENS, ETHER] = [25_500_000n, 10_200_000_000_000_000n];

const nodes = {} as Record<OnNetwork, EthNode>;
let app: TestApp;
const owner = () => ({ merchantId: app.merchant.merchantId });
before(async () => {
  [nodes.ethereum, nodes.base] = await Promise.all([startAnvil(), startAnvil('--chain-id', '8453')]);
  for (const coin of CONTRACTS) {
    const code = PLAIN.includes(coin) ? runtime.Token.replaceAll(selector('DOMAIN_SEPARATOR()'), 'deadbeef') : runtime.Token;
    await nodeOf(coin).rpc('anvil_setCode', COIN[coin].contract!, `0x${code}`);
  }
  for (const network of NETWORKS) await nodes[network].rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
  app = await startTestApp({
    ...{ ETH_NODE_URL: nodes.ethereum.url, ETH_NETWORK: 'regtest', ETH_CONFIRMATIONS: '2' },
    ...{ BASE_NODE_URL: nodes.base.url, BASE_NETWORK: 'regtest', BASE_CONFIRMATIONS: '2', BASE_DAILY_REQUESTS: '100000000' },
    PRICES: 'static:ETH=2500.00,USDC=1.00,USDT=1.00',
    LOG_LEVEL: 'fatal',
  });
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { ...owner(), settings: { tokens: [...OFFERED] } });
  for (const network of NETWORKS) await nodes[network].mine(3);
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers,
    (followers) => followers?.ETH !== undefined && followers?.base !== undefined,
    60_000,
  );
  await setDestination(app.app.ctx, { ...owner(), coin: 'ETH', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
});
after(async () => {
  await app?.stop();
  for (const network of NETWORKS) await nodes[network]?.destroy();
});

const nodeOf = (coin: Coin): EthNode => nodes[COIN[coin].chain as OnNetwork];
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const create = async (coin: Coin): Promise<{ id: string; payment_address: string }> =>
  ok(
    await app.live.post('/v1/transactions/create', {
      ...{ amount: 25.5, currency_fiat: 'USD', crypto: COIN[coin].asset, network: COIN[coin].chain },
    }),
    201,
  );
const pay = (coin: Coin, to: string): Promise<string> =>
  isToken(coin)
    ? nodeOf(coin).send({
        to: COIN[coin].contract!,
        data: `0x${selector('mint(address,uint256)')}${word(to)}${word(TOKENS)}`,
        gas: 200_000,
      })
    : nodeOf(coin).send({ to, value: ETHER, gas: 21_000 });
const exceptional = (id: string) => reach(app, id, ({ exceptions }) => exceptions.length > 0);
const completed = (id: string) => reach(app, id, ({ status }) => status === 'completed');
const resolve = async (id: string, action: 'accept' | 'reject') => ok(await app.live.post(`/v1/payments/${id}/resolve`, { action }));

const CASES = [
  ['USDC@base', 'USDC@ethereum', 'wrong_network'],
  ['USDC@base', 'USDT@ethereum', 'wrong_network'],
  ['USDC@base', 'ETH', 'wrong_network'],
  ['USDC@base', 'ETH@base', 'wrong_token'],
  ['ETH', 'USDC@ethereum', 'wrong_token'],
  ['ETH', 'USDC@base', 'wrong_network'],
  ['ETH', 'USDbC@base', 'wrong_network'],
  ['USDT@ethereum', 'ETH@base', 'wrong_network'],
] as const satisfies [asked: Coin, sent: Coin, exception: string][];

test('sent on the wrong network or in the wrong coin: found, held, and completed once it is accepted', async () => {
  const made = [];
  for (const [asked, sent, exception] of CASES) {
    const { id, payment_address: address } = await create(asked);
    made.push({ id, sent, exception, hash: await pay(sent, address) });
  }
  for (const network of NETWORKS) await nodes[network].mine(3);
  for (const { id, sent, exception, hash } of made) {
    const held = await exceptional(id);
    const [transfer] = held.transfers;
    const { asset, chain } = COIN[sent];
    assert.deepEqual(
      [
        held.status,
        held.exceptions,
        held.amount_held_usd,
        held.transfers_count,
        transfer.transaction_hash,
        transfer.currency,
        transfer.network,
      ],
      ['pending', [exception], '25.50', 1, hash, asset, chain],
    );
  }
  // More confirmations alone change nothing.
  for (const network of NETWORKS) await nodes[network].mine(3);
  await eventually(
    () => app.app.ctx.db.sql<{ height: bigint }[]>`select height from tips where chain in ('ETH', 'base')`,
    (tips) => tips.every(({ height }) => height >= 8n),
    60_000,
  );
  for (const { id, sent } of made) {
    assert.equal((await reach(app, id, () => true)).status, 'pending');
    await resolve(id, 'accept');
    const done = await completed(id);
    const { asset, chain } = COIN[sent];
    assert.deepEqual([done.currency, done.network, done.amount_received_usd, done.exceptions], [asset, chain, '25.50', []]);
  }
});

const sweepable = async () => (await listSweepable(app.app.ctx, owner())).filter(({ count }) => count > 0).map(({ coin }) => coin);
const make = (coin: Coin) => makeSweep(app.app.ctx, { ...owner(), coin, walletId: null, wish: DEFAULT_WISH, actor });
const held = async (coin: Coin, address: string): Promise<bigint> =>
  isToken(coin)
    ? BigInt(
        await nodeOf(coin).rpc(
          'eth_call',
          { to: COIN[coin].contract!, data: `0x${selector('balanceOf(address)')}${word(address)}` },
          'latest',
        ),
      )
    : BigInt(await nodeOf(coin).rpc('eth_getBalance', address, 'latest'));
/** Signs offline, uploads, and mines until the sweep is over. */
async function sweep(coin: Coin) {
  // Each empty block lowers it, down to less than the unit in which sources report fees.
  await nodeOf(coin).rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
  await nodeOf(coin).mine(1);
  const { sweep: made } = await make(coin);
  const content = signingFileText(await readSigningFileOf(app.app.ctx, { ...owner(), id: made.id }));
  const { text } = signFile({ content, secret: account('ETH').privateExtendedKey, destination: DESTINATION });
  await acceptSigned(app.app.ctx, { ...owner(), content: text, actor });
  const { sweep: done } = await eventually(
    async () => {
      await nodeOf(coin).mine(1);
      return getSweep(app.app.ctx, { ...owner(), id: made.id });
    },
    ({ sweep: { state } }) => state === 'confirmed' || state === 'failed',
    60_000,
  );
  assert.deepEqual([done.state, done.failure], ['confirmed', null], coin);
  return { done, file: readSigningFile(content) };
}

// Invariant: What pays for the gas of a sweep is not money of a customer.
test('every coin that was accepted is swept, also those that are never offered', async () => {
  for (const network of NETWORKS) await nodes[network].mine(3);
  assert.deepEqual((await eventually(sweepable, (coins) => coins.length === 6)).toSorted(), [
    ...['ETH', 'ETH@base', 'USDC@base', 'USDC@ethereum', 'USDT@ethereum', 'USDbC@base'],
  ]);
  // The gas addresses of both networks hold nothing yet.
  for (const coin of ['USDC@base', 'USDC@ethereum'] as const) {
    const error: any = await make(coin).catch((failed) => failed);
    assert.match(error.message, /0\.\d+ ETH/, 'gas is paid in ETH');
    const [, address] = /address (0x[0-9a-fA-F]{40})/.exec(error.message)!;
    await nodeOf(coin).send({ to: address!, value: 10n ** 18n });
    await nodeOf(coin).mine(1);
  }
  // As on the OP stack, publishing costs something besides gas.
  const publishing = 10n ** 12n;
  await nodes.base.rpc('anvil_setCode', PUBLISHING_CONTRACT, `0x7f${word(publishing)}60005260206000f3`);
  for (const coin of ['ETH', 'ETH@base', 'USDC@base', 'USDC@ethereum', 'USDT@ethereum', 'USDbC@base'] as const) {
    const before = await held(coin, DESTINATION);
    const { done, file } = await sweep(coin);
    assert.equal((await held(coin, DESTINATION)) - before, done.totalUnits, coin);
    const room = coin === 'ETH@base' ? 2n * publishing : 0n;
    if (!isToken(coin)) assert.equal(done.totalUnits + done.feeUnits, BigInt(done.inputCount) * (ETHER - room), coin);
    const funded = file.requests.flatMap((request) => (request.kind === 'fund' ? [request.units] : []));
    assert.equal(funded.length, PLAIN.includes(coin) ? done.inputCount : 0, coin);
  }
  assert.deepEqual(await sweepable(), []);
  // What pays for the gas of an address is not money of a customer.
  for (const network of NETWORKS) await nodes[network].mine(5);
  const strange = await app.app.ctx.db.sql`select id, exceptions from payments where cardinality(exceptions) > 0`;
  assert.deepEqual([...strange], []);
  const now = app.app.ctx.clock.now();
  const lines = await readStatement(app.app.ctx, { ...owner(), mode: 'live', from: new Date(0), until: new Date(now.getTime() + 60_000) });
  const coinsWithFees = lines.filter(({ account: name, fees }) => name === 'network_fees' && fees.units > 0n).map(({ coin }) => coin);
  assert.deepEqual(coinsWithFees.toSorted(), ['ETH', 'ETH@base']);
  assert.equal(feeCoinOf('USDC@base'), 'ETH@base');
});

test('a coin that nobody accepted is swept once the merchant has decided about it', async () => {
  const { id, payment_address: address } = await create('USDC@base');
  await pay('USDC@base', address);
  await pay('USDbC@base', address);
  await nodes.base.mine(4);
  await reach(app, id, ({ status, exceptions }) => status === 'completed' && exceptions.includes('wrong_token'));
  assert.deepEqual(await eventually(sweepable, (coins) => coins.length > 0), ['USDC@base']);
  await assert.rejects(make('USDbC@base'), (error: any) => error.code === 'sweep_empty' && /need a decision/.test(error.message));
  // The payment is completed by the right money, so there is nothing to accept or reject.
  await reviewPayment(app.app.ctx, {
    ...owner(),
    mode: 'live',
    paymentId: id,
    actor: OPERATOR_ACTOR,
    render: () => ({ status: 200, body: '' }),
  });
  assert.deepEqual(await sweepable(), ['USDC@base', 'USDbC@base']);
  const { done } = await sweep('USDbC@base');
  assert.equal(done.totalUnits, TOKENS);
  const late = await create('USDC@base');
  ok(await app.live.post(`/v1/payments/${late.id}/cancel`, {}));
  await pay('USDbC@base', late.payment_address);
  await nodes.base.mine(4);
  await exceptional(late.id);
  await assert.rejects(make('USDbC@base'), { code: 'sweep_empty' });
  await resolve(late.id, 'reject');
  assert.equal((await sweep('USDbC@base')).done.totalUnits, TOKENS);
});
