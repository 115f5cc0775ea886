/** When a balance shows that a transfer was left out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pay } from '../../test/kit/hostile-cases.ts';
import { openRangeShop } from '../../test/kit/range-world.ts';
import { readServiceReadiness } from '../http/health.ts';
import { diagnose } from '../operate/doctor.ts';
import { readTroubles } from '../readiness/chain-state.ts';
import { readChainStatus, releaseChain } from './chain-acts.ts';
import { judgeHolding, type Verdict } from './range-sentinel.ts';

const STORIES = `
story                                     | looks (balance/recorded)              | verdicts
nothing arrives                           | 0/0 0/0                               | explained explained
what arrives was recorded                 | 0/0 5/5 9/9                           | explained explained explained
recorded before the source shows it       | 0/5 5/5                               | unsure explained
shown before it is recorded               | 5/0 5/5                               | unsure explained
left out, found by the first search       | 0/0 5/0 5/0 5/5                       | explained unsure search explained
left out, and never found                 | 5/0 5/0 5/0 5/0 5/0 5/0               | unsure search search search given_up explained
swept                                     | 5/5 0/5 0/5 0/5                       | explained unsure explained explained
swept, then paid again, left out          | 5/5 0/5 0/5 3/5 3/5                   | explained unsure explained unsure search
swept before the first look               | 0/5 0/5 0/5                           | unsure explained explained
a reorganization takes a transfer back    | 5/5 0/0                               | explained explained
`;
for (const row of STORIES.trim().split('\n').slice(1)) {
  const [story, looks, verdicts] = row.split('|').map((cell) => cell.trim()) as [string, string, string];
  test(story, () => {
    const known = { balance: 0n, recorded: 0n, atMs: 0, over: 0, under: 0 };
    const found: Verdict[] = looks.split(/\s+/).map((look, nowMs) => {
      const [balance = 0n, recorded = 0n] = look.split('/').map(BigInt);
      return judgeHolding(known, { balance, recorded, nowMs });
    });
    assert.equal(found.join(' '), verdicts);
  });
}

test('a balance that no search explains is shown to operators until one of them releases it', async () => {
  const own = await openRangeShop(['claimed', 'claimed']);
  const { ctx } = own.app.app;
  try {
    const { address } = await own.create();
    await own.poll(2);
    const { height } = own.world.mine(pay(address));
    own.world.mineEmpty(200);
    // Both leave the transfer out.
    for (const { faults } of own.providers)
      Object.assign(faults, { omits: (at: number) => at === height, holds: (units: bigint) => units });
    const text = async () => (await readTroubles(ctx)).find(({ coin }) => coin === 'USDC@base')?.unexplained ?? null;
    for (let i = 0; i < 20 && (await text()) === null; i++) await own.poll(1, 60);
    const shown = new RegExp(
      `address ${address} holds more USDC on Base than was recorded, and searching blocks again at provider\\d.example did`,
    );
    assert.match((await text()) ?? '', shown);
    assert.match((await readServiceReadiness(ctx)).warnings.join('\n'), shown);
    const [status] = await readChainStatus(ctx, { coin: 'USDC@base' });
    assert.ok(status!.troubles.some((trouble) => shown.test(trouble)));
    const [finding] = (await diagnose(ctx)).findings.filter(({ check }) => check === 'base balances');
    assert.deepEqual(
      [finding?.ok, shown.test(finding?.detail ?? ''), /florin chain release --coin base/.test(finding?.fix ?? '')],
      [false, true, true],
    );
    const { lifted } = await releaseChain(ctx, { coin: 'USDC@base', reason: 'found in the explorer' });
    assert.match(lifted.join(), shown);
    await own.poll(2, 60);
    assert.equal(await text(), null);
  } finally {
    await own.stop();
  }
});

test('money that comes to an old address, weeks after its payment ended, is found within a day and shown as late', async () => {
  const old = await openRangeShop(['claimed', 'claimed']);
  const { ctx } = old.app.app;
  try {
    for (const { faults } of old.providers) faults.holds = (units) => units;
    const { id, address } = await old.create();
    await old.poll();
    await ctx.db.sql`update payments set status = 'expired' where id = ${id}`;
    await ctx.db.sql`update deposit_addresses set created_at = created_at - interval '20 days' where payment_id = ${id}`;
    old.restart();
    await old.poll(2, 60);
    old.world.mine(pay(address));
    old.world.mineEmpty(200);
    await old.poll(3, 60);
    assert.equal((await old.detail(id)).transfers.length, 0, 'nobody asks for its transfers');
    await old.poll(1, 86_400);
    for (let i = 0; i < 5; i++) {
      old.world.mineEmpty(1);
      await old.poll(1, 60);
    }
    const { status, exception, amount_received } = await old.detail(id);
    assert.deepEqual([status, exception, amount_received], ['expired', 'late', '25.50']);
    // It is explained now, also for a process that starts with nothing in memory.
    old.restart();
    await old.poll(4, 86_400);
    assert.equal((await readTroubles(ctx)).find(({ coin }) => coin === 'USDC@base')?.unexplained ?? null, null);
  } finally {
    await old.stop();
  }
});

test('a transfer that is missing although its block was read is found by the balance, and its block is read again', async () => {
  const own = await openRangeShop(['claimed', 'claimed']);
  const { sql } = own.app.app.ctx.db;
  try {
    for (const { faults } of own.providers) faults.holds = (units) => units;
    const { id, address } = await own.create();
    await own.poll(2);
    own.world.mine(pay(address));
    own.world.mineEmpty(2);
    await own.poll(2);
    const transfers = async () => (await own.detail(id)).transfers.length;
    assert.equal(await transfers(), 1);
    await sql`delete from transfers where payment_id = ${id}`;
    assert.equal(await transfers(), 0);
    for (let i = 0; i < 5 && (await transfers()) === 0; i++) {
      own.world.mineEmpty(1);
      await own.poll(1, 60);
    }
    assert.equal(await transfers(), 1);
  } finally {
    await own.stop();
  }
});
