/** The books of ETH and tokens show what the chain shows: fees by receipts, and what is left on deposit addresses. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import { trialBalance } from '../../src/books/books.ts';
import type { Coin } from '../../src/core/coin.ts';
import { readSignedFile } from '../../src/core/signing-file.ts';
import { readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { followMoved } from '../../src/signing/moved.ts';
import { type AccountDesk, DESTINATION, startAccountDesk } from '../kit/account-desk.ts';
import { eventually } from '../kit/app.ts';

const USDC = 'USDC@ethereum' satisfies Coin;
let desk: AccountDesk;
before(async () => {
  desk = await startAccountDesk({ tokens: [USDC], environment: { ETH_CONFIRMATIONS: '2' } });
});
after(() => desk?.stop());

const booked = async (account: string, coin: Coin = 'ETH'): Promise<bigint> => {
  const balances = await trialBalance(desk.ctx, { ...desk.owner, mode: 'live', until: new Date(Date.now() + 3_600_000) });
  return balances.find((one) => one.coin === coin && one.account === account)?.units ?? 0n;
};
const depositsHold = async (): Promise<bigint> => {
  const rows = await desk.ctx.db.sql<{ address: string }[]>`select distinct address from transfers`;
  return (await Promise.all(rows.map(({ address }) => desk.held('ETH', address)))).reduce((sum, one) => sum + one, 0n);
};
/** The books have what the chain has at the destination and on all deposit addresses. */
const checkBooked = async (): Promise<void> =>
  assert.deepEqual(
    [await booked('destination_wallet'), await booked('deposit_addresses')],
    [await desk.held('ETH', DESTINATION), await depositsHold()],
  );
/** A refund in ETH, until it is confirmed. */
async function refund(payment: { id: string }, amount: string, customer: string): Promise<void> {
  const id = await desk.approved(payment, amount, customer);
  const { sweep } = await desk.makeRefunds('ETH');
  await desk.upload(await desk.sign(sweep.id, customer));
  await desk.finish(sweep.id, 'ETH');
  await eventually(
    () => desk.refundOf(id),
    ({ state }) => state === 'confirmed',
  );
}

test('ETH: a sweep books what arrived and what its transactions cost, and the rest stays on the deposit addresses', async () => {
  await desk.paid('ETH', 3);
  const { sweep } = await desk.make('ETH');
  // The price of gas falls after the file was made, so less than the highest fee is paid.
  await desk.nodes.ethereum.rpc('anvil_setNextBlockBaseFeePerGas', '0x1');
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, 'ETH')).state, 'confirmed');
  assert.ok((await depositsHold()) > 0n);
  await checkBooked();
});

test('USDC: the gas address paid what the chain took from it, and a refund of ETH costs what its receipt says', async () => {
  await desk.paid(USDC, 2);
  const gasAddress = await desk.payGas(USDC, () => desk.make(USDC));
  const before = { booked: await booked('gas_address'), held: await desk.held('ETH', gasAddress) };
  const { sweep } = await desk.make(USDC);
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, USDC)).state, 'confirmed');
  assert.equal((await booked('gas_address')) - before.booked, (await desk.held('ETH', gasAddress)) - before.held);

  const [payment] = await desk.paid('ETH', 1);
  const fees = await booked('network_fees');
  const received = await desk.held('ETH', payment!.address);
  const customer = checksumAddress('00000000000000000000000000000000000cafe1');
  await refund(payment!, '0.004', customer);
  const paid = received - (await desk.held('ETH', payment!.address)) - (await desk.held('ETH', customer));
  assert.equal((await booked('network_fees')) - fees, paid);
});

test('ETH: a sweep of what a refund left books all of the deposit', async () => {
  const [payment] = await desk.paid('ETH', 1);
  const customer = checksumAddress('00000000000000000000000000000000000cafe2');
  await refund(payment!, '0.005', customer);
  const { sweep } = await desk.make('ETH');
  await desk.nodes.ethereum.rpc('anvil_setNextBlockBaseFeePerGas', '0x1');
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, 'ETH')).state, 'confirmed');
  assert.ok((await desk.held('ETH', payment!.address)) > 0n);
  await checkBooked();
});

test('USDC: a deposit that somebody moved with a canceled file leaves the books once that is final, and is back when its block is replaced', async () => {
  const { ctx, owner } = desk;
  const node = desk.nodeOf(USDC);
  const [payment] = await desk.paid(USDC, 1);
  const { sweep } = await desk.make(USDC);
  const [raw] = readSignedFile(await desk.sign(sweep.id)).transactions;
  await desk.cancel(sweep.id);
  const listed = async () =>
    (await readHoldings(ctx, { ...owner, walletId: (await readWallets(ctx, owner))[0]!.id, coin: USDC })).holdings.map(
      ({ address }) => address,
    );
  /** Looks until the service has followed to the tip and the books have so much, which the service may have found itself. */
  const looks = (units: bigint, mine: number) =>
    eventually(
      async () => {
        await node.mine(mine);
        await ctx.db.sql`update moved_deposits set looked_at = looked_at - interval '6 hours'`;
        await followMoved(ctx, ctx.chains.get('ethereum')!);
        return booked('moved_elsewhere', USDC);
      },
      (moved) => moved === units,
    );
  await looks(0n, 0);
  const txid = await node.rpc('eth_sendRawTransaction', `0x${raw}`);
  const height = await node.mine(1);
  assert.equal(await desk.held(USDC, payment!.address), 0n);
  await looks(0n, 0);
  assert.deepEqual(await listed(), [payment!.address], 'it is not final');
  await looks(25_000_000n, 1);
  assert.deepEqual([await listed(), await booked('deposit_addresses', USDC)], [[], 0n]);
  await node.rpc('anvil_reorg', (await node.mine(1)) - height + 1, []);
  await node.rpc('anvil_dropTransaction', txid).catch(() => null);
  assert.equal(await desk.held(USDC, payment!.address), 25_000_000n);
  await looks(0n, 1);
  assert.deepEqual([await listed(), await booked('deposit_addresses', USDC)], [[payment!.address], 25_000_000n]);
});
