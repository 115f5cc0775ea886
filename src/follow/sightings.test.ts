/** What counts as the same transfer when sightings are recorded, and how they are written. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import type { BlockRef } from '../chains/chain-source.ts';
import { eachOutput, inheritedSights, mergeOutputs, type OwnedSighting, pairPegouts, writeSightings } from './sightings.ts';

const at = new Date('2026-01-01T00:00:00Z');
const pegout = (ref: string, units: bigint, paymentId = 'pay_1'): OwnedSighting => ({
  coin: 'LTC',
  key: '0014aa',
  ref,
  txid: ref.split(':')[0]!,
  units,
  kind: 'pegout',
  spends: [],
  lock: null,
  owner: { paymentId, merchantId: 'mer_1', address: 'ltc1', createdAt: at },
});
const row = (ref: string, units: bigint, mined = false, txid = ref.split(':')[0]!, paymentId = 'pay_1') => ({
  paymentId,
  ref,
  txid,
  units: String(units),
  mined,
});
const pair = (sightings: readonly OwnedSighting[], rows: Parameters<typeof pairPegouts>[1], present: readonly string[] | null = null) => {
  const refs = pairPegouts(sightings, rows, present && new Set(present));
  return sightings.map((s) => refs.get(s) ?? null);
};

test('a mined peg-out is the pending one with its amount, each used once, and never another payment’s', () => {
  const waiting = [row('a:pegout:0', 5n), row('b:pegout:0', 5n)];
  assert.deepEqual(pair([pegout('hogex:1', 5n)], waiting), ['a:pegout:0']);
  assert.deepEqual(pair([pegout('hogex:1', 5n), pegout('hogex:2', 5n), pegout('hogex:3', 5n)], waiting), [
    'a:pegout:0',
    'b:pegout:0',
    null,
  ]);
  assert.deepEqual(pair([pegout('hogex:1', 6n)], waiting), [null]);
  assert.deepEqual(pair([pegout('hogex:1', 5n, 'pay_2')], waiting), [null]);
});

test('a peg-out is found under its own ID before it is matched with an equal one', () => {
  const waiting = [row('a:pegout:0', 5n), row('b:pegout:0', 5n)];
  assert.deepEqual(pair([pegout('new:pegout:0', 5n), pegout('a:pegout:0', 5n)], waiting, ['a', 'b', 'new']), [null, 'a:pegout:0']);
  // One that left the mempool may be the new one; one that is still there is not.
  assert.deepEqual(pair([pegout('new:pegout:0', 5n)], waiting, ['a', 'new']), ['b:pegout:0']);
  // Recorded after a reorganization under the last transaction that carried it.
  assert.deepEqual(pair([pegout('b:pegout:0', 5n)], [row('a:pegout:0', 5n, false, 'b')], ['a', 'b']), ['a:pegout:0']);
});

test('a peg-out that is pending on one machine and mined on another is the mined one', () => {
  assert.deepEqual(pair([pegout('a:pegout:0', 5n)], [row('a:pegout:0', 5n, true, 'hogex')], ['a']), ['a:pegout:0']);
});

const output = (ref: string, units: bigint, more: Partial<OwnedSighting> = {}): OwnedSighting => ({
  ...pegout(ref, units),
  coin: 'BTC',
  kind: 'output',
  spends: ['coins:0'],
  ...more,
});
const paying = (paymentId: string) => ({ owner: { paymentId, merchantId: 'mer_1', address: `bc1${paymentId}`, createdAt: at } });

test('outputs of one transaction to one payment are one transfer; those below the dust floor are another one, and do not count', () => {
  const merged = mergeOutputs([
    output('a:0', 1_000n),
    output('a:1', 500n),
    output('a:2', 2_000n),
    output('a:3', 540n),
    output('a:4', 7_000n, paying('pay_2')),
    output('b:0', 3_000n),
  ]);
  assert.deepEqual(
    merged.map((s) => [s.ref, s.owner.paymentId, s.units, s.outputs]),
    [
      [
        'a:0',
        'pay_1',
        3_000n,
        [
          [0, 1_000n],
          [2, 2_000n],
        ],
      ],
      [
        'a:1',
        'pay_1',
        1_040n,
        [
          [1, 500n],
          [3, 540n],
        ],
      ],
      ['a:4', 'pay_2', 7_000n, [[4, 7_000n]]],
      ['b:0', 'pay_1', 3_000n, [[0, 3_000n]]],
    ],
  );
  assert.equal(mergeOutputs([pegout('h:1', 6_000n), pegout('h:2', 6_000n)]).length, 2, 'peg-outs are told apart');
});

test('outputs reported together are the same transfers as those reported one by one', () => {
  const together = [
    output('a:0', 4_540n, {
      outputs: [
        [0, 500n],
        [3, 4_000n],
        [7, 40n],
      ],
    }),
    // Another key of the same payment.
    output('a:1', 2_000n, {
      key: '0014bb',
      outputs: [
        [1, 1_000n],
        [5, 1_000n],
      ],
    }),
    output('b:2', 900n),
  ];
  const alone = together.flatMap((s) => eachOutput(s));
  assert.deepEqual(
    alone.map((s) => [s.key, s.ref, s.units, 'outputs' in s]),
    [
      ['0014aa', 'a:0', 500n, false],
      ['0014aa', 'a:3', 4_000n, false],
      ['0014aa', 'a:7', 40n, false],
      ['0014bb', 'a:1', 1_000n, false],
      ['0014bb', 'a:5', 1_000n, false],
      ['0014aa', 'b:2', 900n, false],
    ],
  );
  const told = (sightings: readonly OwnedSighting[]) =>
    mergeOutputs(sightings)
      .map((s) => [s.ref, s.units, s.outputs])
      .toSorted();
  assert.deepEqual(told(together), told(alone));
  assert.deepEqual(
    mergeOutputs(together).map((s) => [s.ref, s.units, s.outputs.map(([n]) => n)]),
    [
      ['a:1', 6_000n, [1, 3, 5]],
      ['a:0', 540n, [0, 7]],
      ['b:2', 900n, [2]],
    ],
  );
});

test('a replacement keeps the first sight of the replaced transfer, up to its amount', () => {
  const early = new Date('2026-01-01T00:10:00Z');
  const later = new Date('2026-01-01T00:20:00Z');
  const losers = [
    { txid: 'old', by: 'new' },
    { txid: 'older', by: 'new' },
    { txid: 'new', by: 'new' },
  ];
  const replaced = [
    { paymentId: 'pay_1', coin: 'BTC' as const, txid: 'old', units: 30n, firstSeenAt: later },
    { paymentId: 'pay_1', coin: 'BTC' as const, txid: 'older', units: 20n, firstSeenAt: early },
    { paymentId: 'pay_2', coin: 'BTC' as const, txid: 'old', units: 99n, firstSeenAt: early },
    { paymentId: 'pay_1', coin: 'BTC' as const, txid: 'new', units: 1n, firstSeenAt: at },
  ];
  const sights = (...sightings: OwnedSighting[]) => sightings.map(inheritedSights(sightings, losers, replaced));
  assert.deepEqual(sights(output('new:0', 30n)), [early]);
  assert.deepEqual(sights(output('new:0', 20n), output('new:1', 11n)), [null, null], 'together they pay more');
  assert.deepEqual(sights(output('new:0', 30n), output('new:1', 99n, paying('pay_2'))), [early, early], 'each payment for itself');
  assert.deepEqual(sights(output('other:0', 1n)), [null]);
  assert.deepEqual(sights(output('new:0', 1n, { coin: 'ETH', kind: 'token' })), [null], 'another coin of the chain replaces nothing');
});

let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());

const block: BlockRef = { height: 7, hash: 'block', parent: 'parent', time: at };
const write = (sightings: readonly OwnedSighting[], where: BlockRef | null, atOnce?: number) =>
  database.db.begin((tx) =>
    writeSightings(tx, sightings, { coin: 'BTC', block: where, seenAt: at, inherited: () => null, ...(atOnce && { atOnce }) }),
  );
const stored = (paymentId: string) => database.db.sql<{ ref: string; units: bigint; outputs: number; height: bigint | null }[]>`
  select ref, units, output_count as outputs, block_height as height from transfers where payment_id = ${paymentId} order by ref`;

test('transfers that an earlier version recorded output by output keep their names and amounts, and follow their transaction', async () => {
  const { sql } = database.db;
  const ours = paying('pay_before');
  for (const [ref, units] of [
    ['t:1', 1_000],
    ['t:3', 2_000],
    ['t:4', 100],
    ['u:0', 5_000],
  ] as const)
    await sql`
      insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, values)
      values ('BTC', ${ref}, 'pay_before', 'mer_1', ${ref[0]!}, 'bc1', ${units}, 'output', ${at}, '[{"usdE8":"7"}]')`;
  const shown = [output('t:1', 1_000n, ours), output('t:3', 2_000n, ours), output('t:4', 100n, ours)];
  const expected = (height: bigint | null) => [
    { ref: 't:1', units: 1_000n, outputs: 1, height },
    { ref: 't:3', units: 2_000n, outputs: 1, height },
    { ref: 't:4', units: 100n, outputs: 1, height },
    { ref: 'u:0', units: 5_000n, outputs: 1, height: null },
  ];
  await write(shown, null);
  assert.deepEqual([...(await stored('pay_before'))], expected(null));
  await write(shown, block);
  assert.deepEqual([...(await stored('pay_before'))], expected(7n));
  const valued = await sql`select 1 from transfers where payment_id = 'pay_before' and values = '[{"usdE8":"7"}]'`;
  assert.equal(valued.length, 4, 'their values stay as reported');
});

test('a transfer of many outputs is written once, however often and in whatever parts it is seen', async () => {
  const ours = paying('pay_many');
  const shown = Array.from({ length: 50 }, (_, tx) =>
    Array.from({ length: 40 }, (_, n) => output(`m${String(tx).padStart(2, '0')}:${n}`, 1_000n, ours)),
  ).flat();
  for (const where of [null, block, null, block]) await write(shown, where, 7);
  const rows = await stored('pay_many');
  assert.equal(rows.length, 50);
  assert.ok(rows.every((row) => row.ref.endsWith(':0') && row.units === 40_000n && row.outputs === 40 && row.height === 7n));
});
