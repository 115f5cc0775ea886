/** A shop that takes ETH, USDC and USDT on a real EVM: USDC with transfers by authorization, behind a proxy, and USDT without them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { MULTICALL3, selector, word } from '../../src/evm/transaction.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { acceptSigned, getSweep, readSigningFileOf } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { eventually, startTestApp } from './app.ts';
import { startAnvil } from './nodes.ts';
import { giveWallet, reach } from './shop.ts';

const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));
export const [USDC, USDT] = ['USDC@ethereum', 'USDT@ethereum'] as const satisfies Coin[];
/** Where the code behind USDC is, which is called through a proxy as on mainnet. */
const LOGIC = '0x00000000000000000000000000000000000c0de1';
const LOGIC_SLOT = '0x7050c9e0f4ca769c69bd3a8ef740bc37934f8e2c036e5a723fd8ee048ed3f8c3';
export const DESTINATION = '0x00000000000000000000000000000000000A11cE';
const actor = { userId: '', name: 'Test', ip: '' };

export type TokenShop = Awaited<ReturnType<typeof startTokenShop>>;
export async function startTokenShop() {
  const node = await startAnvil();
  const contract = (coin: Coin): string => COIN[coin].contract!;
  await node.rpc('anvil_setCode', LOGIC, `0x${runtime.Token}`);
  await node.rpc('anvil_setCode', contract(USDC), `0x${runtime.Proxy}`);
  await node.rpc('anvil_setStorageAt', contract(USDC), LOGIC_SLOT, `0x${word(LOGIC)}`);
  await node.rpc('anvil_setCode', contract(USDT), `0x${runtime.Token.replaceAll(selector('DOMAIN_SEPARATOR()'), 'deadbeef')}`);
  await node.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
  const app = await startTestApp({
    ...{ ETH_NODE_URL: node.url, ETH_CHAIN_ID: '31337', ETH_NETWORK: 'regtest', ETH_CONFIRMATIONS: '2' },
    ...{ PRICES: 'static:ETH=2500.00,USDC=1.00,USDT=1.00', LOG_LEVEL: 'fatal' },
  });
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId, mode: 'live' } as const;
  await giveWallet(app, 'ETH');
  await changeSettings(ctx, { ...owner, settings: { tokens: [USDC, USDT] } });
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers?.ETH,
    (follower) => follower !== undefined,
    60_000,
  );
  await setDestination(ctx, { ...owner, coin: 'ETH', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  const read = async (to: string, data: string) => BigInt(await node.rpc('eth_call', { to, data: `0x${data}` }, 'latest'));

  return {
    ...{ node, app, ctx, owner, actor, contract },
    /** Empty blocks lower the price of gas, down to less than the unit in which sources report fees. */
    resetPrice: async () => {
      await node.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
      await node.mine(1);
    },
    /** What an account holds of a coin. */
    held: async (coin: Coin, address: string): Promise<bigint> =>
      coin === 'ETH'
        ? BigInt(await node.rpc('eth_getBalance', address, 'latest'))
        : read(contract(coin), selector('balanceOf(address)') + word(address)),
    /** So many completed payments of 25 USD; returns their addresses. */
    paid: async (coin: Coin, count: number): Promise<string[]> => {
      const payments: { id: string; address: string }[] = [];
      for (let i = 0; i < count; i++) {
        const body = { amount: 25, currency_fiat: 'USD', crypto: COIN[coin].asset, network: 'ethereum' };
        const made = await app.live.post('/v1/transactions/create', body);
        assert.equal(made.status, 201, made.text);
        payments.push({ id: made.json.transaction_id, address: made.json.payment_address });
      }
      for (const { address } of payments)
        if (coin === 'ETH') await node.send({ to: address, value: 10n ** 16n });
        else
          await node.send({
            to: contract(coin),
            data: `0x${selector('mint(address,uint256)')}${word(address)}${word(25_000_000n)}`,
            gas: 200_000,
          });
      await node.mine(2);
      for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
      return payments.map(({ address }) => address);
    },
    fileOf: (id: string) => readSigningFileOf(ctx, { ...owner, id }),
    contentOf: async (id: string) => signingFileText(await readSigningFileOf(ctx, { ...owner, id })),
    upload: (content: string) => acceptSigned(ctx, { ...owner, content, actor }),
    /** Mines until a file is over. */
    finish: (id: string) =>
      eventually(
        async () => {
          await node.mine(1);
          return (await getSweep(ctx, { ...owner, id })).sweep;
        },
        ({ state }) => state === 'confirmed' || state === 'failed',
        60_000,
      ),
    stop: async () => {
      await app.stop();
      await node.destroy();
    },
  };
}
