/** Sweeps of many deposit addresses in one session of the signer: four coins and two tokens on their nodes, one secret for all files. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HDKey } from '@scure/bip32';
import { signFile } from '../../signer/sign.ts';
import { COIN, type Coin, isToken } from '../../src/core/coin.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { MULTICALL3, selector, word } from '../../src/evm/transaction.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { acceptSigned, getSweep, listSweepable, makeSweep, readSigningFileOf } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { eventually, startTestApp, type TestApp } from './app.ts';
import { type EthNode, startAnvil, startBitcoind, startLitecoind, type TestNode } from './nodes.ts';
import { startScriptedNode } from './scripted-node.ts';
import { giveWallet } from './shop.ts';

const TOKENS = ['USDC@ethereum', 'EURC@ethereum'] as const satisfies Coin[];
const OUTPUT_COINS = ['BTC', 'LTC', 'DOGE', 'DASH'] as const;
type OutputCoin = (typeof OUTPUT_COINS)[number];
const DESTINATION = '0x00000000000000000000000000000000000A11cE';
/** The root of the wallets that `giveWallet` gives. */
const SECRET = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).privateExtendedKey;
const TOKEN_UNITS = 25_000_000n;
const CONFIRMATIONS = 2;
/** Where locks decide, so many blocks are needed without one. */
const WITHOUT_LOCKS = 6;
const actor = { userId: '', name: 'Test', ip: '' };
const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));

export type Swept = { coin: Coin; addresses: number; files: number; transactions: number; gasPerAddress: number | null; ms: number };
type World = { app: TestApp; nodes: Record<OutputCoin, TestNode>; eth: EthNode; stop(): Promise<void> };

async function openWorld(): Promise<World> {
  const [BTC, LTC, DOGE, DASH, eth] = await Promise.all([
    ...([startBitcoind(), startLitecoind(), startScriptedNode('DOGE'), startScriptedNode('DASH')] as const),
    startAnvil(),
  ]);
  const nodes = { BTC, LTC, DOGE, DASH };
  for (const coin of TOKENS) await eth.rpc('anvil_setCode', COIN[coin].contract, `0x${runtime.Token}`);
  await eth.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
  const app = await startTestApp({
    ...Object.fromEntries(
      OUTPUT_COINS.flatMap((coin) => [
        [`${coin}_NODE_URL`, nodes[coin].url],
        [`${coin}_NETWORK`, 'regtest'],
        [`${coin}_CONFIRMATIONS`, String(CONFIRMATIONS)],
      ]),
    ),
    ...{ ETH_NODE_URL: eth.url, ETH_CHAIN_ID: '31337', ETH_NETWORK: 'regtest', ETH_CONFIRMATIONS: String(CONFIRMATIONS) },
    ...{ PRICES: 'static:BTC=1000.00,LTC=1000.00,DOGE=0.50,DASH=1000.00,ETH=2500.00,USDC=1.00,EURC=1.00', LOG_LEVEL: 'fatal' },
  });
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId };
  for (const coin of [...OUTPUT_COINS, 'ETH'] as const) await giveWallet(app, coin);
  await changeSettings(ctx, { ...owner, settings: { tokens: [...TOKENS] } });
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers ?? {},
    (followers) => [...OUTPUT_COINS, 'ETH'].every((coin) => followers[coin] !== undefined),
    60_000,
  );
  for (const coin of OUTPUT_COINS) {
    const address = await nodes[coin].newAddress();
    await setDestination(ctx, { ...owner, coin, address, ends: address.slice(-6), actor: null });
  }
  await setDestination(ctx, { ...owner, coin: 'ETH', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  return {
    ...{ app, nodes, eth },
    stop: async () => {
      await app.stop();
      for (const node of [...Object.values(nodes), eth]) await node.destroy();
    },
  };
}

/** Pays so many new payments, each at an address of its own, and waits until they are completed. */
async function receive({ app, nodes, eth }: World, coin: Coin, count: number): Promise<void> {
  const opened: (readonly [address: string, amount: string])[] = [];
  for (let i = 0; i < count; i++) {
    const network = isToken(coin) ? { network: 'ethereum' } : {};
    const { status, text, json } = await app.live.post('/v1/transactions/create', {
      ...{ crypto: COIN[coin].asset, amount: 25, currency_fiat: 'USD' },
      ...network,
    });
    assert.equal(status, 201, text);
    opened.push([json.payment_address, json.amount]);
  }
  if (isToken(coin))
    for (const [address] of opened) {
      const data = `0x${selector('mint(address,uint256)')}${word(address)}${word(TOKEN_UNITS)}`;
      await eth.send({ to: COIN[coin].contract!, data, gas: 200_000 });
    }
  else await nodes[coin as OutputCoin].payMany(opened);
  await mine({ nodes, eth }, coin, CONFIRMATIONS);
  const { sql } = app.app.ctx.db;
  await eventually(
    () => sql<{ count: number }[]>`
      select count(distinct p.id)::int as count from payments p join transfers t on t.payment_id = p.id
      where t.coin = ${coin} and p.status = 'completed'`,
    ([row]) => row!.count === count,
    300_000,
  );
}
const mine = ({ nodes, eth }: Pick<World, 'nodes' | 'eth'>, coin: Coin, blocks: number): Promise<unknown> =>
  isToken(coin) ? eth.mine(blocks) : nodes[coin as OutputCoin].mine(blocks);

/** ETH for the gas address, which the error names. */
async function payGas({ app, eth }: World): Promise<void> {
  const wanted = { merchantId: app.merchant.merchantId, coin: TOKENS[0], walletId: null, wish: DEFAULT_WISH, actor };
  const error: any = await makeSweep(app.app.ctx, wanted).catch((failed) => failed);
  assert.equal(error.code, 'sweep_gas_missing');
  const [, address] = /address (0x[0-9a-fA-F]{40})/.exec(error.message) ?? [];
  await eth.send({ to: address!, value: 10n ** 18n });
  await eth.mine(1);
}

/** Moves all that lies on the addresses of a coin, in as many files as it takes. */
async function sweepAll(world: World, coin: Coin, addresses: number): Promise<Swept> {
  const { app, nodes, eth } = world;
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId };
  const from = performance.now();
  const listed = (await listSweepable(ctx, owner)).find((one) => one.coin === coin)!;
  assert.deepEqual([listed.count, listed.addresses, listed.remains], [addresses, addresses, []]);
  const done: Swept = { coin, addresses, files: 0, transactions: 0, gasPerAddress: null, ms: 0 };
  let [moved, gas, arrived] = [0n, 0, 0n];
  for (let left = addresses; left > 0; ) {
    // Each empty block lowers it, down to less than the unit in which sources report fees.
    if (isToken(coin)) await eth.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00').then(() => eth.mine(1));
    const { sweep } = await makeSweep(ctx, { ...owner, coin, walletId: null, wish: DEFAULT_WISH, actor });
    const { id, destination } = sweep;
    const content = signingFileText(await readSigningFileOf(ctx, { ...owner, id }));
    await acceptSigned(ctx, { ...owner, content: signFile({ content, secret: SECRET, destination }).text, actor });
    const { transactions } = await eventually(
      () => getSweep(ctx, { ...owner, id }),
      (one) => one.transactions.every(({ sentAt, refusal }) => sentAt !== null && refusal === null),
      120_000,
    );
    await mine(world, coin, coin === 'DASH' ? WITHOUT_LOCKS : CONFIRMATIONS);
    const ended = await eventually(
      () => getSweep(ctx, { ...owner, id }),
      (one) => one.sweep.state === 'confirmed' || one.sweep.state === 'failed',
      120_000,
    );
    assert.deepEqual([ended.sweep.state, ended.sweep.failure], ['confirmed', null]);
    for (const { txid } of transactions)
      if (isToken(coin)) gas += Number((await eth.rpc('eth_getTransactionReceipt', txid)).gasUsed);
      else arrived += BigInt(Math.round((await nodes[coin as OutputCoin].rpc('gettxout', txid, 0)).value * 1e8));
    moved += sweep.totalUnits;
    left -= sweep.inputCount;
    done.files++;
    done.transactions += transactions.length;
  }
  if (isToken(coin)) {
    const data = `0x${selector('balanceOf(address)')}${word(DESTINATION)}`;
    arrived = BigInt(await eth.rpc('eth_call', { to: COIN[coin].contract!, data }, 'latest'));
    assert.equal(arrived, BigInt(addresses) * TOKEN_UNITS);
    done.gasPerAddress = Math.round(gas / addresses);
  }
  assert.equal(arrived, moved, `${coin}: everything arrived`);
  return { ...done, ms: Math.round(performance.now() - from) };
}

/** So many addresses of each coin are paid, and all of them swept. */
export async function sweepInOneSession(each: number): Promise<Swept[]> {
  const world = await openWorld();
  try {
    const coins = [...OUTPUT_COINS, ...TOKENS];
    for (const coin of coins) await receive(world, coin, each);
    await payGas(world);
    const swept: Swept[] = [];
    for (const coin of coins) swept.push(await sweepAll(world, coin, each));
    assert.deepEqual(await listSweepable(world.app.app.ctx, { merchantId: world.app.merchant.merchantId }), []);
    return swept;
  } finally {
    await world.stop();
  }
}

export const sweptText = ({ coin, addresses, files, transactions, gasPerAddress, ms }: Swept): string =>
  `${coin}: ${addresses} addresses, ${files} files, ${transactions} transactions, ${(ms / 1000).toFixed(1)} s` +
  (gasPerAddress === null ? '' : `, ${gasPerAddress} gas for each address`);
