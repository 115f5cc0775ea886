/** Money that was sent on chains of accounts counts as gone once its block is final, and not only deep. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Coin } from '../../src/core/coin.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { type AccountDesk, startAccountDesk } from '../kit/account-desk.ts';
import { eventually } from '../kit/app.ts';
import { firstOf } from '../kit/long.ts';

const BASE = 'USDC@base' satisfies Coin;
let desk: AccountDesk;
before(async () => {
  // The newest final block is 192 blocks old, further than any number of confirmations in the table.
  desk = await startAccountDesk({
    chains: ['ethereum', 'base'],
    tokens: [BASE],
    flags: ['--slots-in-an-epoch', '96'],
  });
});
after(() => desk?.stop());

const chainOf = (coin: 'ETH' | typeof BASE) => desk.ctx.chains.get(coin === 'ETH' ? 'ethereum' : 'base')!;
/** Mines, and looks at every sweep after the service has seen the newest block. */
async function mine(coin: 'ETH' | typeof BASE, blocks: number): Promise<void> {
  const height = await desk.nodeOf(coin).mine(blocks);
  await eventually(
    () => desk.ctx.db.sql<{ height: number }[]>`select height::int from tips where chain = ${coin === 'ETH' ? 'ETH' : 'base'}`,
    ([row]) => row!.height >= height - 1,
  );
  await followSweeps(desk.ctx, chainOf(coin), null);
}

for (const [coin, deep] of firstOf([
  ['ETH', 40],
  [BASE, 60],
] as const))
  test(`${coin}: a sweep ends when its block is final, and one whose nonce was used when that is final`, async () => {
    await desk.paid(coin, 2, { blocks: deep });
    if (coin === BASE) await desk.payGas(coin, () => desk.make(coin));
    const { sweep } = await desk.make(coin);
    await desk.upload(await desk.sign(sweep.id));
    await eventually(
      () => desk.sweepOf(sweep.id),
      ({ state }) => state === 'sent',
    );
    await mine(coin, 1);
    await eventually(
      () => desk.transactionsOf(sweep.id),
      (transactions) => transactions.every(({ blockHeight }) => blockHeight !== null),
    );
    await mine(coin, deep);
    assert.equal((await desk.sweepOf(sweep.id)).state, 'sent', 'deep, but not final');
    await mine(coin, 200);
    await eventually(
      () => desk.sweepOf(sweep.id),
      ({ state }) => state === 'confirmed',
    );

    await desk.paid(coin, 1, { blocks: deep });
    const lost = (await desk.make(coin)).sweep;
    const [request] = await desk.requestsOf(lost.id);
    const signed = await desk.sign(lost.id);
    const node = desk.nodeOf(coin);
    await node.rpc('anvil_impersonateAccount', request!.from);
    await node.rpc('eth_sendTransaction', { from: request!.from, to: request!.from, value: '0x0' });
    await node.rpc('anvil_stopImpersonatingAccount', request!.from);
    await node.mine(1);
    await desk.upload(signed);
    const conflict = async () =>
      (await desk.ctx.db.sql`select conflict_height, failed_at from signed_transactions where file_id = ${lost.id}`)[0]!;
    await eventually(conflict, (row) => row.conflict_height !== null);
    await mine(coin, deep);
    await mine(coin, 1);
    assert.equal((await conflict()).failed_at, null, 'the block with the other transaction is not final');
    await eventually(
      async () => {
        await mine(coin, 50);
        return desk.sweepOf(lost.id);
      },
      ({ state }) => state === 'failed',
      60_000,
    );
  });
