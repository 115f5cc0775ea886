/** What moving ETH and tokens costs: gas for posting on Ethereum, publishing, higher fees, and money that cannot move or is not worth it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import type { JoinedSource } from '../../src/chains/chain-source.ts';
import { GAS_PRICE_ORACLE, NODE_INTERFACE } from '../../src/chains/ethereum/fees.ts';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { readSignedFile } from '../../src/core/signing-file.ts';
import { authorizedData, MULTICALL3, readSignedTransaction, selector, signaturesIn, transfersOf, word } from '../../src/evm/transaction.ts';
import { DEFAULT_WISH, MOST_TRANSFERS, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { makeAccountRequests, TRANSFER_BYTES } from '../../src/signing/make-accounts.ts';
import { makeSweep, readFileToSign } from '../../src/signing/signing-files.ts';
import { type AccountDesk, DESTINATION, startAccountDesk } from '../kit/account-desk.ts';
import { eventually } from '../kit/app.ts';
import { longTest } from '../kit/long.ts';
import { nodeInterface, publishingFee } from '../kit/token-contracts.ts';

const OPTIMISM = 'USDC@optimism' satisfies Coin;
const OPTIMISM_USDT = 'USDT@optimism' satisfies Coin;
const ARBITRUM = 'USDC@arbitrum' satisfies Coin;
const USDC = 'USDC@ethereum' satisfies Coin;
const USDT = 'USDT@ethereum' satisfies Coin;
/** The gas address of each chain is the same one. */
let gasAddress: string;
let desk: AccountDesk;
before(async () => {
  desk = await startAccountDesk({
    chains: ['ethereum', 'optimism', 'arbitrum'],
    tokens: [OPTIMISM, OPTIMISM_USDT, ARBITRUM, USDC, USDT],
    environment: { ETH_CONFIRMATIONS: '2', OPTIMISM_CONFIRMATIONS: '2', ARBITRUM_CONFIRMATIONS: '2' },
  });
  for (const coin of [OPTIMISM, ARBITRUM, USDC] as const) {
    await desk.paid(coin, 1);
    gasAddress = await desk.payGas(coin, () => desk.make(coin));
    await moveAll(coin);
  }
});
after(() => desk?.stop());

async function moveAll(coin: Coin): Promise<void> {
  const { sweep } = await desk.make(coin);
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
}
const sent = async (id: string) => {
  await desk.upload(await desk.sign(id));
  await eventually(
    () => desk.sweepOf(id),
    ({ state }) => state === 'sent',
  );
};
const isRefused = (reason: RegExp) => (error: any) => error.code === 'signed_file_refused' && reason.test(error.message);
const customer = checksumAddress('00000000000000000000000000000000000cafe1');
const publish = (coin: Coin, wei: bigint) => desk.nodeOf(coin).rpc('anvil_setCode', GAS_PRICE_ORACLE, `0x${publishingFee(wei)}`);
const batchIn = async (id: string) => {
  const [request] = await desk.requestsOf(id);
  assert.ok(request?.kind === 'batch');
  return request;
};
/** A block with a base fee at which nothing that waits is mined, so far ahead that an authorization of the last minutes is over. */
async function mineDear(coin: Coin, seconds = 0): Promise<void> {
  const node = desk.nodeOf(coin);
  if (seconds > 0) await node.rpc('evm_increaseTime', seconds);
  await node.rpc('anvil_setNextBlockBaseFeePerGas', `0x${(10n ** 12n).toString(16)}`);
  await node.mine(1);
  await node.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
}

test('Arbitrum: a batch has gas for posting its data on Ethereum, and one that needs more gas than it has is refused', async () => {
  const coin = ARBITRUM;
  const node = desk.nodeOf(coin);
  await desk.paid(coin, 2);
  const before = await desk.make(coin);
  const cheap = await batchIn(before.sweep.id);
  await desk.cancel(before.sweep.id);
  await node.rpc('anvil_setCode', NODE_INTERFACE, `0x${nodeInterface({ gas: 100n, price: 10n ** 9n })}`);
  const { sweep } = await desk.make(coin);
  const batch = await batchIn(sweep.id);
  const signed = await desk.sign(sweep.id);
  const bytes = readSignedTransaction(Buffer.from(readSignedFile(signed).transactions[0]!, 'hex'))!.data.length;
  assert.equal(batch.gas - cheap.gas, 2n * 100n * BigInt(bytes), 'twice of what posting costs now');
  // A contract that counts down from 50,000: PUSH3 c350 JUMPDEST PUSH1 1 SWAP1 SUB DUP1 PUSH1 4 JUMPI.
  const code = await node.rpc('eth_getCode', MULTICALL3, 'latest');
  await node.rpc('anvil_setCode', MULTICALL3, '0x6200c3505b60019003806004570000');
  await assert.rejects(desk.upload(signed), isRefused(/allows \d+ gas for a transaction that now needs \d+/));
  await node.rpc('anvil_setCode', MULTICALL3, code);
  await desk.upload(signed);
  await node.rpc('anvil_setCode', NODE_INTERFACE, '0x');
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
});

test('a file pays twice the base fee and the tip, and while the network takes more than it pays, it is not given out to be signed', async () => {
  const coin = USDC;
  const node = desk.nodeOf(coin);
  const setNext = (wei: bigint) => node.rpc('anvil_setNextBlockBaseFeePerGas', `0x${wei.toString(16)}`);
  const nextFee = async () => BigInt((await node.rpc('eth_feeHistory', '0x1', 'latest', [])).baseFeePerGas.at(-1));
  const toSign = (id: string) => readFileToSign(desk.ctx, { ...desk.owner, id });
  const priceOf = async (id: string) => (await desk.fileOf(id)).gasPrice!;
  const isLow = { code: 'sweep_fee_low', status: 409, message: /Raise its fee, or if it was not signed, cancel it and make it again/ };
  await desk.paid(coin, 1);
  // What the newest block took says nothing about the next one.
  await mineDear(coin);
  const actor = { userId: '', name: 'Test', ip: '' };
  const { sweep } = await makeSweep(desk.ctx, { ...desk.owner, coin, walletId: null, wish: DEFAULT_WISH, actor });
  const first = await priceOf(sweep.id);
  assert.equal(await nextFee(), 10n ** 9n);
  assert.ok(first.tip > 0n && first.max >= 2n * 10n ** 9n + first.tip && first.max < 10n ** 10n);
  assert.equal((await toSign(sweep.id)).id, sweep.id);
  await setNext(first.max + 1n);
  await assert.rejects(toSign(sweep.id), isLow);

  // It was signed before the fee rose, so its fee is raised.
  await desk.upload(await desk.sign(sweep.id));
  const { state } = await eventually(
    () => desk.sweepOf(sweep.id),
    ({ failure }) => /the network fee rose above what this file pays; raise the fee and sign the file again/.test(failure ?? ''),
  );
  assert.equal(state, 'signed');
  await desk.replace(sweep.id);
  const second = await priceOf(sweep.id);
  assert.ok(second.max >= 2n * (first.max + 1n) + second.tip);
  assert.equal((await toSign(sweep.id)).round, 1);
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
});

test('a batch that expired before it was mined is valid again with a higher fee, and moves the money once', async () => {
  const coin = USDC;
  await desk.paid(coin, 1);
  const before = await desk.held(coin, DESTINATION);
  const { sweep } = await desk.make(coin);
  const { timestamp } = await desk.nodeOf(coin).rpc('eth_getBlockByNumber', 'latest', false);
  await desk.ctx.db.sql`
    update signing_files set file = jsonb_set(file, '{requests,0,validBefore}', to_jsonb(${Number(timestamp) + 300}::int8)) where id = ${sweep.id}`;
  await sent(sweep.id);
  await mineDear(coin, 900);
  const expired = await batchIn(sweep.id);
  await desk.replace(sweep.id);
  const renewed = await batchIn(sweep.id);
  assert.ok(renewed.validBefore > expired.validBefore + 86_400);
  assert.equal(renewed.authorizations[0]!.nonce, expired.authorizations[0]!.nonce);
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
  assert.equal((await desk.held(coin, DESTINATION)) - before, 25_000_000n);
});

test('an authorization that a stranger executed does not keep the fee of the others from being raised', async () => {
  const coin = USDC;
  await desk.paid(coin, 2);
  const before = await desk.held(coin, DESTINATION);
  const { sweep } = await desk.make(coin);
  const batch = await batchIn(sweep.id);
  await sent(sweep.id);
  const [raw] = readSignedFile(await desk.sign(sweep.id)).transactions;
  const [signature] = signaturesIn(readSignedTransaction(Buffer.from(raw!, 'hex'))!.data, 2)!;
  const data = `0x${authorizedData(transfersOf(batch)[0]!, signature!)}`;
  await desk.nodeOf(coin).send({ to: COIN[coin].contract!, data, gas: 200_000, gwei: 5_000 });
  await mineDear(coin);
  assert.equal((await desk.held(coin, DESTINATION)) - before, 25_000_000n, 'by the stranger');
  await desk.replace(sweep.id);
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
  assert.equal((await desk.held(coin, DESTINATION)) - before, 50_000_000n);
});

longTest('OP Mainnet: gas addresses pay for publishing too, in the file and when its fee is raised', async () => {
  const coin = OPTIMISM_USDT;
  await desk.paid(coin, 1);
  // More than the gas of a transfer costs.
  await publish(coin, 10n ** 12n);
  const { sweep } = await desk.make(coin);
  const needed = async (wei: bigint) => {
    const { requests, gasPrice } = await desk.fileOf(sweep.id);
    const [fund, token] = requests;
    assert.ok(fund?.kind === 'fund' && token?.kind === 'token');
    assert.ok(2n * wei * BigInt(TRANSFER_BYTES) > token.gas * gasPrice!.max);
    assert.equal(fund.units, token.gas * gasPrice!.max + 2n * wei * BigInt(TRANSFER_BYTES));
  };
  await needed(10n ** 12n);
  await sent(sweep.id);
  await mineDear(coin);
  await publish(coin, 6n * 10n ** 12n);
  await desk.replace(sweep.id);
  await needed(6n * 10n ** 12n);
  // The signer refuses to pay more for gas than an address can need.
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');

  const missing = { code: 'sweep_gas_missing' };
  await publish(coin, 10n ** 9n);
  await desk.paid(OPTIMISM, 1);
  const batch = (await desk.make(OPTIMISM)).sweep;
  await sent(batch.id);
  await mineDear(coin);
  await publish(coin, 10n ** 18n);
  await assert.rejects(desk.replace(batch.id), missing, 'the gas address cannot pay for publishing at this price');
  await publish(coin, 10n ** 9n);
  await desk.replace(batch.id);
  await desk.upload(await desk.sign(batch.id));
  assert.equal((await desk.finish(batch.id, coin)).state, 'confirmed');

  const [payment] = await desk.paid(OPTIMISM, 1);
  await desk.approved(payment!, '20', customer);
  const refund = (await desk.makeRefunds(OPTIMISM)).sweep;
  const { requests, gasPrice } = await desk.fileOf(refund.id);
  await desk.cancel(refund.id);
  await eventually(
    () => desk.ctx.db.sql`select 1 from outgoing_payments where file_id = ${refund.id}`,
    ({ length }) => length === 0,
  );
  const fee = (requests[0] as { gas: bigint }).gas * gasPrice!.max;
  const node = desk.nodeOf(OPTIMISM);
  await node.rpc('anvil_setBalance', gasAddress, `0x${(fee + 100n).toString(16)}`);
  await assert.rejects(desk.makeRefunds(OPTIMISM), missing, 'nothing is left for publishing');
  await node.rpc('anvil_setBalance', gasAddress, `0x${(10n ** 18n).toString(16)}`);
  const paying = (await desk.makeRefunds(OPTIMISM)).sweep;
  await desk.upload(await desk.sign(paying.id, customer));
  assert.equal((await desk.finish(paying.id, OPTIMISM)).state, 'confirmed');
  assert.equal(await desk.held(OPTIMISM, customer), 20_000_000n);
});

longTest('addresses that were emptied with another wallet take no place in a file', async () => {
  const coin = USDC;
  await desk.paid(coin, 1);
  const [wallet] = await readWallets(desk.ctx, desk.owner);
  const { holdings, now } = await readHoldings(desk.ctx, { ...desk.owner, walletId: wallet!.id, coin });
  const [holding] = holdings.filter(({ stays }) => stays === null);
  const emptied = Array.from({ length: 1_500 }, (_, i) => ({
    ...holding!,
    address: checksumAddress((i + 1).toString(16).padStart(40, '0')),
  }));
  const made = await makeAccountRequests(desk.ctx.chains.get('ethereum')!, {
    ...{ holdings: [...emptied, holding!], wallet: wallet!, destination: DESTINATION, wish: DEFAULT_WISH, reference: 'swp_test' },
    ...{ coin, network: 'regtest', chainId: 31_337, contract: COIN[coin].contract, prices: null },
    ...{ gasPrice: { max: 10n ** 9n, tip: 1n }, nowSeconds: Math.floor(now.getTime() / 1000) },
  });
  const [request] = made.requests;
  assert.deepEqual(request?.kind === 'batch' && request.authorizations.map(({ from }) => from), [holding!.address]);
  assert.deepEqual([made.stay.size, new Set(made.stay.values())], [1_500, new Set(['spent'])]);

  // Also if there are more of them than are read at once.
  const { sql } = desk.ctx.db;
  await sql`
    insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time)
    select coin, ref || ':' || n, payment_id, merchant_id, txid, ${DESTINATION.replace('A', 'B')}, units, kind, first_seen_at - interval '1 day',
      block_height, block_hash, block_time
    from transfers, generate_series(1, ${MOST_TRANSFERS}) n where ref = ${holding!.ref} and coin = ${coin}`;
  const { sweep } = await desk.make(coin);
  assert.equal(sweep.inputCount, 1);
  await sql`delete from transfers where ref like ${`${holding!.ref}:%`}`;
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
});

test('a paused token and a frozen destination are reasons, not outages', async () => {
  const setPaused = (coin: Coin, on: boolean) =>
    // `paused` is the first byte of the fourth variable.
    desk.nodeOf(coin).rpc('anvil_setStorageAt', COIN[coin].contract!, `0x${word(3n)}`, `0x${word(on ? 1n : 0n)}`);
  const freeze = async (coin: Coin, on: boolean) => {
    const data = `0x${selector('freeze(address,bool)')}${word(DESTINATION)}${word(on ? 1n : 0n)}`;
    await desk.nodeOf(coin).send({ to: COIN[coin].contract!, data, gas: 100_000 });
    await desk.nodeOf(coin).mine(1);
  };
  await desk.paid(USDT, 1);
  await setPaused(USDT, true);
  await assert.rejects(
    desk.make(USDT),
    (error: any) => error.code === 'sweep_empty' && /1 transfer is refused by .* paused/.test(error.message),
  );
  await setPaused(USDT, false);
  for (const coin of [USDT, USDC] as const) {
    if (coin === USDC) await desk.paid(coin, 1);
    await freeze(coin, true);
    await assert.rejects(desk.make(coin), (error: any) => error.code === 'sweep_destination_frozen' && error.message.includes(DESTINATION));
    await freeze(coin, false);
    await moveAll(coin);
  }
});

test('a source that fails for a moment is the reason, not the contract of the token or the address of the customer', async () => {
  const chain = desk.ctx.chains.get('ethereum')!;
  const { ask } = chain;
  const failing: JoinedSource['ask'] = async (calls) =>
    (await ask(calls)).map((reply, i) =>
      calls[i]![0] === 'eth_estimateGas' ? { result: null, error: { code: -32000, message: 'header not found' } } : reply,
    );
  for (const coin of ['ETH', USDT] as const) {
    const [payment] = await desk.paid(coin, 1);
    const refund = await desk.approved(payment!, coin === 'ETH' ? '0.001' : '20', customer);
    Object.assign(chain, { ask: failing });
    try {
      await assert.rejects(desk.makeRefunds(coin), (error: any) => {
        assert.match(error.message, /the source of the network could not say what a transfer of it needs; try again in a minute/);
        assert.doesNotMatch(error.message, /address of the customer/);
        return true;
      });
      await desk.cancelRefund(refund);
      await assert.rejects(desk.make(coin), (error: any) => {
        assert.equal(error.code, 'sweep_empty');
        assert.match(error.message, /1 transfer is left, because the source of the network could not say/);
        assert.doesNotMatch(error.message, /refused/);
        return true;
      });
    } finally {
      Object.assign(chain, { ask });
    }
    await moveAll(coin);
  }
});

test('tokens that are worth less than their share of gas stay, and so do refunds', async () => {
  for (const coin of [USDC, USDT] as const) {
    await desk.paid(coin, 1, { amountUsd: 2 });
    const [payment] = await desk.paid(coin, 1);
    const refund = await desk.approved(payment!, '1', customer);
    await assert.rejects(desk.makeRefunds(coin), (error: any) => /more than 25 percent/.test(error.message));
    await desk.cancelRefund(refund);
    const { sweep, remains } = await desk.make(coin);
    assert.equal(sweep.totalUnits, 25_000_000n);
    assert.deepEqual(remains, [{ reason: 'fee', count: 1, units: 2_000_000n }]);
    await desk.cancel(sweep.id);
    const all = await desk.make(coin, { maxFeePercent: 100 });
    assert.deepEqual([all.sweep.totalUnits, all.remains], [27_000_000n, []]);
    await desk.cancel(all.sweep.id);
  }
});

test('nothing goes to a contract that exists on another network only', async () => {
  await desk.paid(OPTIMISM, 1);
  const setCode = (coin: Coin, code: string) => desk.nodeOf(coin).rpc('anvil_setCode', DESTINATION, code);
  // An ordinary account that delegates has its key everywhere (EIP-7702).
  await setCode(USDC, `0xef0100${'11'.repeat(20)}`);
  await desk.cancel((await desk.make(OPTIMISM)).sweep.id);
  await setCode(USDC, '0x00');
  await assert.rejects(
    desk.make(OPTIMISM),
    (error: any) => error.code === 'sweep_destination_code' && /a contract on Ethereum, but not on Optimism/.test(error.message),
  );
  await setCode(OPTIMISM, '0x00');
  await moveAll(OPTIMISM);
  for (const coin of [USDC, OPTIMISM] as const) await setCode(coin, '0x');
});
