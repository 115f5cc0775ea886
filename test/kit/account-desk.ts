/** A merchant who moves ETH and tokens out of deposit addresses, with the service and a real EVM for each chain. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { signFile } from '../../signer/sign.ts';
import { CHAIN, type ChainId, COIN, type Coin } from '../../src/core/coin.ts';
import { parseDecimal } from '../../src/core/money.ts';
import { type AccountRequest, signingFileText } from '../../src/core/signing-file.ts';
import { MULTICALL3, selector, word } from '../../src/evm/transaction.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { approveOutgoing, cancelOutgoing } from '../../src/outgoing/decisions.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { DEFAULT_WISH, type SweepWish } from '../../src/signing/holdings.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, cancelSweep, getSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { eventually, startTestApp } from './app.ts';
import { type EthNode, startAnvil } from './nodes.ts';
import { account, giveWallet, reach } from './shop.ts';

const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));
export const DESTINATION = '0x00000000000000000000000000000000000A11cE';
const actor = { userId: '', name: 'Test', ip: '' };
const secret = account('ETH').privateExtendedKey;
const settingOf = (chain: ChainId): string => (chain === 'ethereum' ? 'ETH' : chain.toUpperCase());

export type AccountDesk = Awaited<ReturnType<typeof startAccountDesk>>;

/** Puts a token with authorizations (EIP-3009) at an address, or one without them, as USDT is. */
export const putToken = (node: EthNode, address: string, { authorizes }: { authorizes: boolean }): Promise<unknown> =>
  node.rpc(
    'anvil_setCode',
    address,
    `0x${authorizes ? runtime.Token : runtime.Token.replaceAll(selector('DOMAIN_SEPARATOR()'), 'deadbeef')}`,
  );

/**
 * `flags`: of anvil. `tokens`: those that the merchant offers; USDT has no authorizations. `environment`: more settings of the service.
 * `front`: what the service asks instead of the node of a chain, by its URL.
 */
export async function startAccountDesk({
  chains = ['ethereum'],
  tokens = [],
  flags = [],
  environment = {},
  front = async (url) => url,
}: {
  chains?: readonly ChainId[];
  tokens?: readonly Coin[];
  flags?: readonly string[];
  environment?: Record<string, string>;
  front?: (url: string) => Promise<string>;
}) {
  const nodes = {} as Record<ChainId, EthNode>;
  const settings: Record<string, string> = {};
  for (const chain of chains) {
    const { chainIds } = CHAIN[chain];
    const node = await startAnvil('--chain-id', String(chainIds!.regtest), ...flags);
    nodes[chain] = node;
    for (const coin of tokens.filter((one) => COIN[one].chain === chain))
      await putToken(node, COIN[coin].contract!, { authorizes: COIN[coin].asset !== 'USDT' });
    await node.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
    Object.assign(settings, { [`${settingOf(chain)}_NODE_URL`]: await front(node.url), [`${settingOf(chain)}_NETWORK`]: 'regtest' });
    // Otherwise what is read is spread over the day.
    if (CHAIN[chain].ranges) settings[`${settingOf(chain)}_DAILY_REQUESTS`] = '100000000';
    await node.mine(3);
  }
  const app = await startTestApp({
    ETH_CHAIN_ID: '31337',
    PRICES: 'static:ETH=2500.00,USDC=1.00,USDT=1.00',
    LOG_LEVEL: 'fatal',
    ...settings,
    ...environment,
  });
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId };
  const started = async () => {
    await giveWallet(app, 'ETH');
    await changeSettings(ctx, { ...owner, settings: { tokens: [...tokens] } });
    await eventually(
      async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers,
      (followers) => chains.every((chain) => followers?.[CHAIN[chain].code] !== undefined),
      60_000,
    );
    await setDestination(ctx, { ...owner, coin: 'ETH', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  };
  const stop = async () => {
    await app.stop();
    for (const chain of chains) await nodes[chain].destroy();
  };
  await started().catch(async (error) => {
    await stop();
    throw error;
  });

  const nodeOf = (coin: Coin): EthNode => nodes[COIN[coin].chain];
  const create = async (coin: Coin, amountUsd = 25): Promise<{ id: string; address: string; amount: string }> => {
    const { asset: crypto, chain: network } = COIN[coin];
    const made = await app.live.post('/v1/transactions/create', { amount: amountUsd, currency_fiat: 'USD', crypto, network });
    assert.equal(made.status, 201, made.text);
    return { id: made.json.transaction_id, address: made.json.payment_address, amount: made.json.amount };
  };
  const mint = (coin: Coin, to: string, units: bigint) =>
    nodeOf(coin).send({ to: COIN[coin].contract!, data: `0x${selector('mint(address,uint256)')}${word(to)}${word(units)}`, gas: 200_000 });
  /** Payments that are paid in full and completed. */
  const paid = async (coin: Coin, count: number, { amountUsd = 25, blocks = 3 } = {}) => {
    const payments = [];
    for (let i = 0; i < count; i++) payments.push(await create(coin, amountUsd));
    for (const { address, amount } of payments) {
      const units = parseDecimal(amount, COIN[coin].decimals)!;
      await (COIN[coin].contract === null ? nodeOf(coin).send({ to: address, value: units }) : mint(coin, address, units));
    }
    await nodeOf(coin).mine(blocks);
    for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
    return payments;
  };
  /** Empty blocks lower the price of gas, down to less than the unit in which sources report fees. */
  const resetPrice = async (coin: Coin): Promise<void> => {
    await nodeOf(coin).rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
    await nodeOf(coin).mine(1);
  };
  const make = async (coin: Coin, wish: Partial<SweepWish> = {}) => {
    await resetPrice(coin);
    return makeSweep(ctx, { ...owner, coin, walletId: null, wish: { ...DEFAULT_WISH, ...wish }, actor });
  };
  const makeRefunds = async (coin: Coin) => {
    await resetPrice(coin);
    return makeRefundFile(ctx, { ...owner, coin, speed: 'normal', actor });
  };
  const fileOf = (id: string) => readSigningFileOf(ctx, { ...owner, id });
  const sweepOf = async (id: string) => (await getSweep(ctx, { ...owner, id })).sweep;
  return {
    ...{ app, ctx, owner, nodes, nodeOf, create, mint, paid, resetPrice, make, makeRefunds, fileOf, sweepOf, stop },
    requestsOf: async (id: string) => (await fileOf(id)).requests as AccountRequest[],
    transactionsOf: async (id: string) => (await getSweep(ctx, { ...owner, id })).transactions,
    sign: async (id: string, recipients = '') =>
      signFile({ content: signingFileText(await fileOf(id)), secret, destination: DESTINATION, recipients }).text,
    upload: (content: string) => acceptSigned(ctx, { ...owner, content, actor }),
    replace: (id: string) => replaceSweep(ctx, { ...owner, id, speed: 'fast', actor }),
    cancel: (id: string) => cancelSweep(ctx, { ...owner, id, actor }),
    /** Mines until the sweep is over. */
    finish: (id: string, coin: Coin) =>
      eventually(
        async () => {
          await nodeOf(coin).mine(1);
          return sweepOf(id);
        },
        ({ state }) => state === 'confirmed' || state === 'failed',
        60_000,
      ),
    held: async (coin: Coin, address: string): Promise<bigint> =>
      COIN[coin].contract === null
        ? BigInt(await nodeOf(coin).rpc('eth_getBalance', address, 'latest'))
        : BigInt(
            await nodeOf(coin).rpc(
              'eth_call',
              { to: COIN[coin].contract, data: `0x${selector('balanceOf(address)')}${word(address)}` },
              'latest',
            ),
          ),
    /** Sends native coin to the address that the error of a file without gas names. */
    payGas: async (coin: Coin, work: () => Promise<unknown>): Promise<string> => {
      const error: any = await work().then(
        () => assert.fail('the gas address is empty'),
        (failed) => failed,
      );
      assert.equal(error.code, 'sweep_gas_missing', error.message);
      const [, address] = /address (0x[0-9a-fA-F]{40})/.exec(error.message) ?? [];
      await nodeOf(coin).send({ to: address!, value: 10n ** 18n });
      await nodeOf(coin).mine(1);
      return address!;
    },
    refundOf: (id: string) => getOutgoing(ctx, { kind: 'refund', ...owner, mode: 'live', id }),
    /** A refund that is approved. */
    approved: async (payment: { id: string }, amount: string, address: string): Promise<string> => {
      const made = await app.live.post('/v1/refunds', { payment_id: payment.id, amount, address });
      assert.equal(made.status, 201, made.text);
      await approveOutgoing(ctx, { kind: 'refund', ...owner, mode: 'live', id: made.json.id, actor });
      return made.json.id;
    },
    cancelRefund: (id: string) =>
      cancelOutgoing(ctx, {
        kind: 'refund',
        ...owner,
        mode: 'live',
        id,
        actor,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      }),
  };
}
