/**
 * Live payments in stablecoins on five networks with their real chain IDs: on Ethereum from a node, on the others read by ranges from two
 * providers each.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { accountOf, checksumAddress } from '../../src/addresses/evm-address.ts';
import { GAS_PRICE_ORACLE, NODE_INTERFACE } from '../../src/chains/ethereum/fees.ts';
import { createTokenNetworkSource } from '../../src/chains/ethereum/token-network.ts';
import { ALL_COINS, CHAIN, type ChainId, COIN, COINS, type Coin, chainCode, chainOf, isToken } from '../../src/core/coin.ts';
import { formatUnits } from '../../src/core/money.ts';
import {
  aggregateData,
  authorizationHash,
  authorizedData,
  type BatchCall,
  MULTICALL3,
  selector,
  signHash,
} from '../../src/evm/transaction.ts';
import { releaseChain } from '../../src/follow/chain-acts.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type EthProxy, startEthProxy } from '../kit/eth-proxy.ts';
import { isLongRun } from '../kit/long.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { giveWallet } from '../kit/shop.ts';
import {
  BLACKLISTING_TOKEN,
  DECIMALS_SLOT,
  FEE_TOKEN,
  FORWARDER,
  gasPriceOracle,
  IMPLEMENTATION_SLOT,
  MINTING_TOKEN,
  nodeInterface,
  PAUSED_SLOT,
  putToken,
  REVERTING_TOKEN,
  tokenCode,
  tokenFrom,
  transferData,
  word,
} from '../kit/token-contracts.ts';

const RANGES = ['base', 'arbitrum', 'optimism', 'polygon'] as const satisfies ChainId[];
const NETWORKS = ['ethereum', ...RANGES] as const satisfies ChainId[];
type OnNetwork = (typeof NETWORKS)[number];
const TOKENS = COINS.filter((coin) => isToken(coin));
const CONTRACTS = ALL_COINS.filter((coin) => COIN[coin].contract !== null && NETWORKS.some((network) => network === COIN[coin].chain));
const nodes = {} as Record<OnNetwork, EthNode>;
const providers = {} as Record<(typeof RANGES)[number], [EthProxy, EthProxy]>;
let app: TestApp;
/** Requests for fees to a provider of Base. */
const feeRequests: string[] = [];

before(async () => {
  await Promise.all(
    NETWORKS.map(async (network) => {
      const node = await startAnvil('--chain-id', String(CHAIN[network].chainIds!.mainnet));
      nodes[network] = node;
      if (network !== 'ethereum') providers[network] = [await startEthProxy(node.url), await startEthProxy(node.url)];
      for (const coin of CONTRACTS.filter((one) => COIN[one].chain === network))
        await putToken(node.rpc, contract(coin), { decimals: COIN[coin].decimals });
    }),
  );
  await nodes.base.rpc('anvil_setCode', GAS_PRICE_ORACLE, `0x${gasPriceOracle(10n ** 12n)}`);
  await nodes.arbitrum.rpc('anvil_setCode', NODE_INTERFACE, `0x${nodeInterface({ gas: 1_000n, price: 10n ** 9n })}`);
  providers.base[0].answer = ({ method, params }) => {
    if (method === 'eth_feeHistory' || params[0]?.to === GAS_PRICE_ORACLE) feeRequests.push(method);
    return undefined;
  };
  app = await startTestApp({
    ...{ ETH_NETWORK: 'regtest', ETH_CHAIN_ID: '1', ETH_NODE_URL: nodes.ethereum.url, ETH_CONFIRMATIONS: '2' },
    PRICES: 'static:ETH=2500.00,USDC=1.00,USDT=1.00,EURC=1.08,PYUSD=1.00,DAI=1.00',
    LOG_LEVEL: 'fatal',
    ...Object.fromEntries(
      RANGES.flatMap((network) => {
        const name = network.toUpperCase();
        return [
          [`${name}_NODE_URL`, providers[network].map(({ url }) => url).join(',')],
          [`${name}_NETWORK`, 'regtest'],
          [`${name}_TRUST`, 'untrusted'],
          [`${name}_CONFIRMATIONS`, '2'],
          [`${name}_DAILY_REQUESTS`, '100000000'],
        ];
      }),
    ),
  });
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { tokens: [...TOKENS] } });
  for (const network of NETWORKS) await nodes[network].mine(3);
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers,
    (followers) => NETWORKS.every((network) => followers?.[CHAIN[network].code] !== undefined),
    60_000,
  );
});
after(async () => {
  await app?.stop();
  for (const network of NETWORKS) {
    for (const provider of network === 'ethereum' ? [] : (providers[network] ?? [])) await provider.stop();
    await nodes[network]?.destroy();
  }
});

const contract = (coin: Coin): string => COIN[coin].contract!;
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const create = async (coin: Coin, amount = 25.5): Promise<any> =>
  ok(
    await app.live.post('/v1/transactions/create', { amount, currency_fiat: 'USD', crypto: COIN[coin].asset, network: COIN[coin].chain }),
    201,
  );
const detail = async (id: string) => ok(await app.live.get(`/api/payment/${id}`));
const reach = (id: string, wanted: (payment: any) => boolean) => eventually(() => detail(id), wanted, 60_000);
const completed = (id: string) => reach(id, ({ status }) => status === 'completed');
const nodeOf = (coin: Coin): EthNode => nodes[COIN[coin].chain as OnNetwork];
const pay = (coin: Coin, pairs: readonly (readonly [account: string, units: bigint])[], to = contract(coin)) =>
  nodeOf(coin).send({ to, data: transferData(pairs), gas: 20_000_000 });
const setCode = (coin: Coin, code: string) => nodeOf(coin).rpc('anvil_setCode', contract(coin), `0x${code}`);
/** Mines, and waits until everything was read: where ranges are read, up to the block below the newest one. */
async function mine(coin: Coin, blocks: number): Promise<void> {
  const node = nodeOf(coin);
  await node.mine(blocks);
  await readAll(coin);
}
async function readAll(coin: Coin): Promise<void> {
  const { hash, parentHash } = await nodeOf(coin).rpc('eth_getBlockByNumber', 'latest', false);
  await eventually(
    () => app.app.ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = ${chainCode(coin)}`,
    ([row]) => row?.hash === (chainOf(coin).ranges ? parentHash : hash),
    60_000,
  );
}
const [BASE, ARBITRUM, OPTIMISM, POLYGON] = ['USDC@base', 'USDT@arbitrum', 'USDC@optimism', 'USDT@polygon'] as const satisfies Coin[];

test('every stablecoin of every network: paid, completed, and named with its network', async () => {
  const made = await Promise.all(TOKENS.map(async (coin) => ({ coin, payment: await create(coin) })));
  for (const { coin, payment } of made) {
    assert.deepEqual([payment.currency, payment.network], [COIN[coin].asset, COIN[coin].chain]);
    const cents = BigInt(payment.amount.replace('.', ''));
    await pay(coin, [[payment.payment_address, cents * 10n ** BigInt(COIN[coin].decimals - 2)]]);
  }
  await Promise.all(NETWORKS.map((network) => mine(TOKENS.find((coin) => COIN[coin].chain === network)!, 4)));
  for (const { coin, payment } of made) {
    const done = await completed(payment.id);
    const verifier = chainOf(coin).ranges ? 'providers' : 'node';
    assert.deepEqual([done.verified_by, done.exceptions, done.transfers_count], [verifier, [], 1], coin);
    assert.match(done.transfers[0].explorer_url ?? '', /^$|^https:/);
  }
});

test('customers see what a transfer costs now on each network; no page view asks a provider', async () => {
  const rows = await eventually(
    () => app.app.ctx.db.sql<{ chain: string; gasPrice: string; dataFee: string }[]>`
      select chain, gas_price::text as "gasPrice", data_fee::text as "dataFee" from tips where fee_at is not null`,
    // The oracle of OP Mainnet is missing.
    ({ length }) => length === NETWORKS.length - 1,
    60_000,
  );
  const known = Object.fromEntries(rows.map(({ chain, gasPrice, dataFee }) => [chain, { gas: BigInt(gasPrice), data: BigInt(dataFee) }]));
  // The bytes of a transfer with a fee, without its signature; the bytes of its call.
  assert.ok(known.base!.data >= 105n * 10n ** 12n && known.base!.data <= 120n * 10n ** 12n && known.base!.data % 10n ** 12n === 0n);
  assert.equal(known.arbitrum!.data, 68n * 1_000n * 10n ** 9n);
  assert.equal(known.polygon!.data, 0n);
  const cents = ({ gas, data }: { gas: bigint; data: bigint }) => ((gas * 65_000n + data) * 2_500_00n + 10n ** 18n - 1n) / 10n ** 18n;
  // Nothing says what POL is worth.
  const fees = { ethereum: cents(known.ETH!), base: cents(known.base!), arbitrum: cents(known.arbitrum!), optimism: 1n, polygon: 1n };
  assert.ok(fees.base >= 27n && fees.arbitrum >= 18n && fees.base !== fees.arbitrum);
  const wanted = { amount_usd: 25.5, return_url: 'https://shop.example/' };
  const { id } = ok(await app.live.post('/api/payment/create/simple', wanted), 201);
  const asked = [...feeRequests];
  assert.deepEqual(asked, ['eth_feeHistory', 'eth_call']);
  for (let i = 0; i < 5; i++) {
    const text = await (await fetch(`${app.url}/pay?id=${id}`)).text();
    const shown = [...text.matchAll(/name="network-USDC" value="(\w+)"[\s\S]*?fee about \$(\d+\.\d\d)/g)].map(([, network, fee]) => [
      network,
      fee,
    ]);
    assert.deepEqual(
      Object.fromEntries(shown),
      Object.fromEntries(NETWORKS.map((network) => [network, `${fees[network] / 100n}.${String(fees[network] % 100n).padStart(2, '0')}`])),
    );
    // The cheapest comes first.
    assert.deepEqual(
      shown.map(([, fee]) => fee),
      shown.map(([, fee]) => fee).toSorted(),
    );
  }
  assert.deepEqual(feeRequests, asked);

  const { log, outgoing } = app.app.ctx;
  const { base } = nodes;
  const source = createTokenNetworkSource({ coin: 'USDC@base', network: 'regtest', chainId: 8_453, url: base.url, outgoing, log });
  const history = await base.rpc('eth_feeHistory', '0x1', 'latest', []);
  assert.equal((await source.gasFee!()).gasPrice, (BigInt(history.baseFeePerGas.at(-1)) * 9n) / 8n, 'empty blocks pay no tips');
  source.close();
});

test('batches, relayed authorizations, mints and fees: what arrives counts, each transfer on its own', async () => {
  const node = nodeOf(BASE);
  const forwarder = '0x00000000000000000000000000000000000f0f0f';
  await node.rpc('anvil_setCode', forwarder, `0x${FORWARDER}`);
  const [one, two, three, four] = [await create(BASE), await create(BASE), await create(BASE, 10), await create(BASE)];
  // Two payments in one transaction, and one of them twice, by a contract that calls the token.
  const pairs = [
    [one.payment_address, 10_000_000n],
    [two.payment_address, 25_500_000n],
    [one.payment_address, 15_500_000n],
  ] as const;
  await node.send({ to: forwarder, data: `0x${word(contract(BASE))}${transferData(pairs).slice(2)}`, gas: 5_000_000 });
  await mine(BASE, 4);
  const done = await completed(one.id);
  assert.deepEqual(
    done.transfers.map((t: any) => t.amount),
    ['10.00', '15.50'],
  );
  assert.deepEqual((await completed(two.id)).transfers_count, 1);
  // Minted, as bridges do; and from a payer who only signed, while someone else paid the gas.
  await setCode(BASE, MINTING_TOKEN);
  await pay(BASE, [[three.payment_address, 4_000_000n]]);
  await node.mine(1);
  await setCode(BASE, tokenFrom('0x00000000000000000000000000000000000ca11e'));
  await pay(BASE, [[three.payment_address, 6_000_000n]]);
  await mine(BASE, 4);
  assert.equal((await completed(three.id)).amount_received, '10.00');
  await setCode(BASE, FEE_TOKEN);
  await pay(BASE, [[four.payment_address, 25_000_000n]]);
  await mine(BASE, 4);
  const part = await reach(four.id, ({ amount_received }) => amount_received !== '0.00');
  assert.deepEqual([part.status, part.amount_received], ['pending', '24.75']);
  await setCode(BASE, tokenCode());
  await pay(BASE, [[four.payment_address, 750_000n]]);
  await mine(BASE, 4);
  assert.equal((await completed(four.id)).amount_received, '25.50');
});

test('two payers who only signed (EIP-3009) pay two payments in one transaction of somebody else through Multicall3', async () => {
  const node = nodeOf(BASE);
  const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));
  await setCode(BASE, runtime.Token);
  await node.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
  const made = [await create(BASE), await create(BASE)];
  const domain = { name: 'USD Coin', version: '2', chainId: 8_453, contract: contract(BASE) };
  const calls: BatchCall[] = [];
  for (const [i, { payment_address: to }] of made.entries()) {
    const key = new Uint8Array(32).fill(0x51 + i);
    const from = checksumAddress(accountOf(secp256k1.getPublicKey(key)));
    await node.send({ to: contract(BASE), data: `0x${selector('mint(address,uint256)')}${word(from)}${word(25_500_000n)}`, gas: 200_000 });
    const transfer = { from, to, units: 25_500_000n, validBefore: 4_102_444_800, nonce: `0x${'5a'.repeat(32)}` };
    calls.push({ data: authorizedData(transfer, signHash(authorizationHash(transfer, domain), key)), mayFail: false });
  }
  await node.mine(1);
  const hash = await node.send({ to: MULTICALL3, data: `0x${aggregateData(contract(BASE), calls)}`, gas: 500_000 });
  await mine(BASE, 4);
  for (const { id } of made) {
    const done = await completed(id);
    assert.deepEqual([done.transaction_hash, done.amount_received, done.transfers_count], [hash, '25.50', 1]);
  }
  await setCode(BASE, tokenCode());
});

test('five hundred transfers in one transaction are five hundred transfers', async () => {
  const made = await create(ARBITRUM, 50);
  await pay(
    ARBITRUM,
    Array.from({ length: 500 }, () => [made.payment_address, 100_000n] as const),
  );
  await mine(ARBITRUM, 4);
  const done = await completed(made.id);
  assert.deepEqual([done.amount_received, done.transfers_count], ['50.00', 500]);
});

test('the transfers of one block are listed in the order of their logs, page by page', async () => {
  const made = await create(BASE);
  const amounts = Array.from({ length: 18 }, (_, i) => BigInt(1_000_000 + i * 10_000));
  const pairs = amounts.map((units) => [made.payment_address, units] as const);
  // Four transactions with one each, one with twelve, and two more.
  for (const part of [...pairs.slice(0, 4).map((pair) => [pair]), pairs.slice(4, 16), [pairs[16]!], [pairs[17]!]]) await pay(BASE, part);
  await mine(BASE, 4);
  await reach(made.id, ({ transfers_count: count }) => count === amounts.length);
  const listed: any[] = [];
  for (let more = true; more; ) {
    const after = listed.length > 0 ? `&starting_after=${listed.at(-1).ref}` : '';
    const page = ok(await app.live.get(`/v1/payments/${made.id}/transfers?limit=5${after}`));
    listed.push(...page.data);
    more = page.has_more;
    assert.ok(listed.length <= amounts.length);
  }
  assert.deepEqual(
    listed.map(({ amount }) => amount),
    amounts.map((units) => formatUnits(BASE, units)),
  );
});

test('another contract, a failed transaction, nothing, and a transfer between two deposit addresses pay nothing', async () => {
  const [made, other] = [await create(OPTIMISM), await create(OPTIMISM)];
  const node = nodeOf(OPTIMISM);
  const fake = '0x00000000000000000000000000000000000000cc';
  await putToken(node.rpc, fake, { decimals: 6 });
  await pay(OPTIMISM, [[made.payment_address, 25_500_000n]], fake);
  await pay(OPTIMISM, [[made.payment_address, 0n]]);
  await node.mine(1);
  await setCode(OPTIMISM, REVERTING_TOKEN);
  await pay(OPTIMISM, [[made.payment_address, 25_500_000n]]);
  await node.mine(1);
  for (const from of [made.payment_address, other.payment_address]) {
    await setCode(OPTIMISM, tokenFrom(from));
    await pay(OPTIMISM, [[made.payment_address, 25_500_000n]]);
    await node.mine(1);
  }
  await setCode(OPTIMISM, tokenCode());
  await mine(OPTIMISM, 3);
  assert.deepEqual((await detail(made.id)).transfers, []);
  await pay(OPTIMISM, [[made.payment_address, 25_500_000n]]);
  await mine(OPTIMISM, 4);
  await completed(made.id);
});

test('transfers to a deposit address that the issuer blacklisted fail, and count once it is not blacklisted anymore', async () => {
  const [frozen, fine] = [await create(POLYGON), await create(POLYGON)];
  const blacklist = (address: string, is: bigint) =>
    nodeOf(POLYGON).rpc('anvil_setStorageAt', contract(POLYGON), `0x${word(address)}`, `0x${word(is)}`);
  await setCode(POLYGON, BLACKLISTING_TOKEN);
  await blacklist(frozen.payment_address, 1n);
  await pay(POLYGON, [[frozen.payment_address, 25_500_000n]]);
  // A batch fails as a whole.
  await pay(POLYGON, [
    [fine.payment_address, 25_500_000n],
    [frozen.payment_address, 25_500_000n],
  ]);
  await mine(POLYGON, 4);
  for (const { id } of [frozen, fine]) {
    const { status, amount_received, transfers, exceptions } = await detail(id);
    assert.deepEqual([status, amount_received, transfers, exceptions], ['pending', '0.00', [], []]);
  }
  await pay(POLYGON, [[fine.payment_address, 25_500_000n]]);
  await mine(POLYGON, 4);
  await completed(fine.id);
  // What arrived before stays received.
  await blacklist(fine.payment_address, 1n);
  await blacklist(frozen.payment_address, 0n);
  await pay(POLYGON, [[frozen.payment_address, 25_500_000n]]);
  await mine(POLYGON, 4);
  assert.deepEqual([(await completed(frozen.id)).transfers_count, (await detail(fine.id)).status], [1, 'completed']);
  await setCode(POLYGON, tokenCode());
});

test('a reorganization of one block moves a payment, one of 64 blocks removes another, and both are paid once', async () => {
  const node = nodeOf(POLYGON);
  const [moved, removed] = [await create(POLYGON), await create(POLYGON)];
  await pay(POLYGON, [[moved.payment_address, 25_500_000n]]);
  await mine(POLYGON, 2);
  const before = await reach(moved.id, ({ status }) => status === 'processing');
  // The same transaction in a block with another hash.
  const raw = await node.rpc('eth_getRawTransactionByHash', before.transaction_hash);
  await node.rpc('anvil_reorg', 2, [[raw, 0]]);
  await readAll(POLYGON);
  await mine(POLYGON, 2);
  const after = await completed(moved.id);
  assert.deepEqual([after.transfers_count, after.amount_received], [1, '25.50']);
  await pay(POLYGON, [[removed.payment_address, 25_500_000n]]);
  await mine(POLYGON, 1);
  await mine(POLYGON, 1);
  await reach(removed.id, ({ status }) => status === 'processing');
  await node.mine(60);
  await readAll(POLYGON);
  await completed(removed.id);
  await node.rpc('anvil_reorg', 64, []);
  await readAll(POLYGON);
  const lost = await reach(removed.id, ({ exceptions }) => exceptions.includes('reorged'));
  assert.equal(lost.status, 'completed');
  await pay(POLYGON, [[removed.payment_address, 25_500_000n]]);
  await mine(POLYGON, 4);
  const done = await reach(removed.id, ({ exceptions }) => !exceptions.includes('reorged'));
  const mined = done.transfers.filter((t: any) => t.block_height !== null);
  assert.deepEqual([done.status, mined.length, mined[0].amount], ['completed', 1, '25.50']);
});

test('a provider that leaves out transfers, one that allows five blocks at once, and one that indexes late', async () => {
  const [liar, small] = providers.base;
  const node = nodeOf(BASE);
  const refusals: number[] = [];
  liar.answer = ({ method }) => (method === 'eth_getLogs' ? [] : undefined);
  small.fail = ({ method, params }) => {
    if (method !== 'eth_getLogs') return undefined;
    const span = Number(params[0].toBlock) - Number(params[0].fromBlock) + 1;
    if (span <= 5) return undefined;
    refusals.push(span);
    return { code: -32614, message: 'eth_getLogs is limited to a 5 range' };
  };
  const made = await create(BASE);
  await pay(BASE, [[made.payment_address, 25_500_000n]]);
  await mine(BASE, 40);
  await completed(made.id);
  assert.ok(refusals.length > 0);
  // Neither shows it at first; the blocks are searched again.
  const late = await create(BASE);
  const hidden = await pay(BASE, [[late.payment_address, 25_500_000n]]);
  await node.mine(1);
  small.fail = () => undefined;
  small.answer = liar.answer;
  await mine(BASE, 5);
  assert.deepEqual((await detail(late.id)).transfers, []);
  for (const provider of providers.base) provider.answer = () => undefined;
  await mine(BASE, 3);
  assert.equal((await completed(late.id)).transaction_hash, hidden);
});

test('an invented transfer is not in its block, and pays nothing', async () => {
  const made = await create(BASE);
  providers.base[0].answer = ({ method, params }) => {
    if (method !== 'eth_getLogs') return undefined;
    const topics = [params[0].topics[0], `0x${'0'.repeat(64)}`, `0x${word(made.payment_address)}`];
    return [
      {
        address: contract(BASE),
        topics,
        data: `0x${word(25_500_000n)}`,
        blockNumber: params[0].toBlock,
        blockHash: `0x${'ab'.repeat(32)}`,
      },
    ];
  };
  for (let i = 0; i < 3; i++) await mine(BASE, 2);
  providers.base[0].answer = () => undefined;
  await pay(BASE, [[made.payment_address, 1_000_000n]]);
  await mine(BASE, 4);
  const part = await reach(made.id, ({ amount_received }) => amount_received !== '0.00');
  assert.deepEqual([part.amount_received, part.transfers_count], ['1.00', 1]);
});

test('a paused or upgraded contract holds its coin only; an operator releases the upgrade', async () => {
  const { ctx } = app.app;
  const [coin, other] = ['USDC@arbitrum', 'PYUSD@arbitrum'] as const;
  const node = nodeOf(coin);
  // Contracts are asked every few minutes.
  const monotonicMs = ctx.clock.monotonicMs.bind(ctx.clock);
  let skippedMs = 0;
  Object.assign(ctx.clock, { monotonicMs: () => monotonicMs() + skippedMs });
  const holds = async () =>
    (await ctx.db.sql<{ coin: string; hold: string }[]>`select coin, hold from token_contracts where hold is not null`).map(
      (row) => row.hold,
    );
  const until = (pattern: RegExp | null) =>
    eventually(
      async () => {
        skippedMs += 301_000;
        await node.mine(1);
        return holds();
      },
      (found) => (pattern === null ? found.length === 0 : found.length === 1 && pattern.test(found[0]!)),
      60_000,
    );
  await until(null);
  const [waiting, fine] = [await create(coin), await create(other)];
  await node.rpc('anvil_setStorageAt', contract(coin), `0x${word(PAUSED_SLOT)}`, `0x${word(1n)}`);
  await until(/USDC on Arbitrum is paused/);
  assert.match(await (await fetch(`${app.url}/metrics`)).text(), /florin_token_held\{coin="USDC@arbitrum"\} 1/);
  const refused = await app.live.post('/v1/transactions/create', { amount: 5, currency_fiat: 'USD', crypto: 'USDC', network: 'arbitrum' });
  assert.notEqual(refused.status, 201, refused.text);
  for (const [of, payment] of [
    [coin, waiting],
    [other, fine],
  ] as const)
    await pay(of, [[payment.payment_address, 25_500_000n]]);
  await mine(coin, 4);
  await completed(fine.id);
  const held = await reach(waiting.id, ({ status }) => status === 'processing');
  assert.match(held.hold_reason, /is paused/);
  await node.rpc('anvil_setStorageAt', contract(coin), `0x${word(PAUSED_SLOT)}`, `0x${word(0n)}`);
  await until(null);
  await completed(waiting.id);
  const upgraded = await create(coin);
  await node.rpc('anvil_setStorageAt', contract(coin), IMPLEMENTATION_SLOT, `0x${word(0xbeefn)}`);
  await until(/was upgraded/);
  await pay(coin, [[upgraded.payment_address, 25_500_000n]]);
  await mine(coin, 4);
  await reach(upgraded.id, ({ status, hold_reason }) => status === 'processing' && /upgraded/.test(hold_reason));
  const { lifted } = await releaseChain(ctx, { coin, reason: 'announced by its issuer' });
  assert.match(lifted.join(), /was upgraded/);
  await completed(upgraded.id);
  await until(null);
  // Other decimals are never released.
  // Upgraded and paid in one block, long before contracts are asked again.
  const between = await create(coin);
  await node.rpc('anvil_setStorageAt', contract(coin), IMPLEMENTATION_SLOT, `0x${word(0xcafen)}`);
  await pay(coin, [[between.payment_address, 25_500_000n]]);
  await mine(coin, 4);
  await reach(between.id, ({ status, hold_reason }) => status === 'processing' && /upgraded/.test(hold_reason));
  await releaseChain(ctx, { coin, reason: 'announced' });
  await completed(between.id);

  await node.rpc('anvil_setStorageAt', contract(coin), `0x${word(DECIMALS_SLOT)}`, `0x${word(18n)}`);
  await until(/has 18 decimals, but 6 are expected/);
  await assert.rejects(releaseChain(ctx, { coin, reason: 'no' }), /not on hold/);
  await node.rpc('anvil_setStorageAt', contract(coin), `0x${word(DECIMALS_SLOT)}`, `0x${word(6n)}`);
  await until(null);
});

test('doctor states the requests a day, the searches that providers allow, and who vouches for a network', async () => {
  const about = async () => (await diagnose(app.app.ctx)).findings.filter(({ check }) => check.startsWith('base '));
  const found = await about();
  assert.ok(found.some(({ detail }) => /payments complete when 2 providers show the same blocks/.test(detail)));
  assert.ok(found.some(({ detail, ok }) => ok && /searches 2,000 blocks at once: about [\d,]+ requests a day/.test(detail)));
  providers.base[1].fail = ({ method, params }) =>
    method === 'eth_getLogs' && Number(params[0].toBlock) - Number(params[0].fromBlock) >= 5
      ? { code: -32614, message: 'limited to a 5 range' }
      : undefined;
  assert.ok((await about()).some(({ detail }) => / searches 3 blocks at once/.test(detail)));
  providers.base[1].fail = () => undefined;
  const metrics = await (await fetch(`${app.url}/metrics`)).text();
  for (const pattern of [
    /florin_chain_requests_total\{coin="base",source="[^"]+"\} [1-9]/,
    /florin_chain_requests_allowed\{coin="base"\} 100000000/,
    /florin_token_held\{coin="USDC@arbitrum"\} 0/,
    /florin_chain_held\{coin="polygon"\} 0/,
  ])
    assert.match(metrics, pattern);
});

test('paid on the wrong network, or in the wrong coin: found where it is, reported at once, and completed by one decision', async () => {
  for (const [asked, paid, exception] of [
    [BASE, 'USDC@polygon', 'wrong_network'],
    [OPTIMISM, 'USDT.e@optimism', 'wrong_token'],
    ...(isLongRun
      ? ([
          [ARBITRUM, 'USDC@arbitrum', 'wrong_token'],
          [BASE, 'USDbC@base', 'wrong_token'],
          [BASE, 'USDC.e@polygon', 'wrong_network'],
        ] as const)
      : []),
  ] as const) {
    const made = await create(asked);
    await pay(paid, [[made.payment_address, 25_500_000n]]);
    await mine(paid, 2);
    const held = await reach(made.id, ({ exceptions }) => exceptions.length > 0);
    assert.deepEqual([held.status, held.exceptions, held.amount_held_usd], ['pending', [exception], '25.50']);
    assert.deepEqual(
      held.transfers.map((t: any) => [t.amount, t.currency, t.network]),
      [['25.50', COIN[paid].asset, COIN[paid].chain]],
    );
    // Neither more confirmations nor time make it count.
    await mine(paid, 5);
    assert.equal((await detail(made.id)).status, 'pending');
    ok(await app.live.post(`/v1/payments/${made.id}/resolve`, { action: 'accept' }));
    const done = await completed(made.id);
    assert.deepEqual(
      [done.currency, done.network, done.amount_received, done.exceptions],
      [COIN[paid].asset, COIN[paid].chain, '25.50', []],
    );
  }
});

/** Passes on the ETH that it is called with, to the address in the call. */
const PASSES_ON = '6000600060006000346000355af100';

test('coins that no log names are found by balances: sent, paid by a contract, twice, and without a price', async () => {
  const [onBase, onArbitrum, onPolygon] = await Promise.all([create(BASE), create(ARBITRUM), create('USDC@polygon')]);
  const gwei = 10n ** 9n;
  const ether = (network: OnNetwork, to: string, units: bigint, data = '0x') =>
    nodes[network].send({ to, data, value: units, gas: 200_000 });
  const sent = await ether('base', onBase.payment_address, 10_200_000n * gwei);
  await mine(BASE, 3);
  const held = await reach(onBase.id, ({ exceptions }) => exceptions.length > 0);
  assert.deepEqual([held.status, held.exceptions, held.amount_held_usd], ['pending', ['wrong_token'], '25.50']);
  assert.deepEqual(
    held.transfers.map((t: any) => [t.transaction_hash, t.amount, t.currency, t.network, t.amount_usd, t.kind]),
    [[sent, '0.01020000', 'ETH', 'base', '25.50', 'direct']],
  );
  // Again, and dust that nothing is searched for.
  const again = await ether('base', onBase.payment_address, 400_000n * gwei);
  await ether('base', onBase.payment_address, 1n);
  await mine(BASE, 3);
  const two = await reach(onBase.id, ({ transfers }) => transfers.length > 1);
  assert.deepEqual(
    two.transfers.map((t: any) => t.transaction_hash),
    [sent, again],
  );
  ok(await app.live.post(`/v1/payments/${onBase.id}/resolve`, { action: 'accept' }));
  const done = await completed(onBase.id);
  assert.deepEqual([done.currency, done.network, done.amount_received_usd, done.verified_by], ['ETH', 'base', '26.50', 'providers']);
  // A contract pays, as bridges do.
  const passes = '0x00000000000000000000000000000000000f0f1f';
  await nodes.arbitrum.rpc('anvil_setCode', passes, `0x${PASSES_ON}`);
  await ether('arbitrum', passes, 10_200_000n * gwei, `0x${word(onArbitrum.payment_address)}`);
  await mine(ARBITRUM, 3);
  const internal = await reach(onArbitrum.id, ({ exceptions }) => exceptions.length > 0);
  assert.deepEqual(
    internal.transfers.map((t: any) => [t.transaction_hash, t.amount, t.kind, internal.exceptions.join()]),
    [[null, '0.01020000', 'delta', 'wrong_token']],
  );
  // Nobody knows what it is worth, so it cannot be accepted.
  await ether('polygon', onPolygon.payment_address, 10n ** 18n);
  await mine(POLYGON, 3);
  const unpriced = await reach(onPolygon.id, ({ exceptions }) => exceptions.length > 0);
  assert.deepEqual(
    unpriced.transfers.map((t: any) => [t.currency, t.amount, t.amount_usd]),
    [['POL', '1.00000000', null]],
  );
  const refused = await app.live.post(`/v1/payments/${onPolygon.id}/resolve`, { action: 'accept' });
  assert.deepEqual([refused.status, refused.json.error.code], [409, 'worth_unknown'], refused.text);
});

/** A token that only tells balances: those in the storage at the account. */
const BALANCES_ONLY = '6004355460005260206000f3';

test('a transfer that no provider names shows in the balance of its address, and is searched for and recorded', async () => {
  const node = nodeOf(OPTIMISM);
  const made = await create(OPTIMISM);
  for (const provider of providers.optimism) provider.answer = ({ method }) => (method === 'eth_getLogs' ? [] : undefined);
  const hidden = await pay(OPTIMISM, [[made.payment_address, 25_500_000n]]);
  // More blocks than are searched a second time.
  await mine(OPTIMISM, 150);
  for (const provider of providers.optimism) provider.answer = () => undefined;
  await mine(OPTIMISM, 3);
  assert.deepEqual((await detail(made.id)).transfers, []);
  await node.rpc('anvil_setStorageAt', contract(OPTIMISM), `0x${word(made.payment_address)}`, `0x${word(25_500_000n)}`);
  await setCode(OPTIMISM, BALANCES_ONLY);
  // Its decimals, which it is asked for before the transfer is recorded: a question without an account is about this slot.
  await node.rpc('anvil_setStorageAt', contract(OPTIMISM), `0x${word(0n)}`, `0x${word(6n)}`);
  const ranges = app.app.ctx.chains.get('optimism')!.sources[0]!.source.ranges!;
  const others = Array.from({ length: 700 }, (_, n) => ({
    coin: n % 2 ? OPTIMISM : ('USDT@optimism' as Coin),
    account: word(BigInt(n)).slice(24),
  }));
  const holder = { coin: OPTIMISM, account: made.payment_address.slice(2).toLowerCase() };
  const found = await ranges.holdings.read([...others, holder]);
  assert.deepEqual([found.length, found.filter((balance) => balance !== 0n)], [701, [25_500_000n]]);
  await mine(OPTIMISM, 2);
  const done = await completed(made.id);
  assert.deepEqual([done.transaction_hash, done.amount_received], [hidden, '25.50']);
  await setCode(OPTIMISM, tokenCode());
});
