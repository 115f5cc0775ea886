/** The books of ETH and tokens show what the chain shows: fees by receipts, and what is left on deposit addresses. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checksumAddress } from '../../src/chains/ethereum/address.ts';
import type { Coin } from '../../src/core/coin.ts';
import { trialBalance } from '../../src/money-out/books.ts';
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
