/** Proven balances of open addresses: what a node hides shows within 24 blocks, and what it showed is not counted again. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type TestDatabase, testDatabase } from '../../../test/kit/database.ts';
import { type MadeBlock, makeBlock } from '../../../test/kit/ethereum-blocks.ts';
import { bytesOfHex } from '../../../test/kit/ethereum-data.ts';
import { type Account, stateOf } from '../../../test/kit/ethereum-state.ts';
import { createChainStore } from '../../chain-store/chain-store.ts';
import { createLog } from '../../log.ts';
import { ChainError } from '../chain-source.ts';
import { provenHeader } from './block-header.ts';
import { type AuditFacts, createAuditFacts, createBalanceAudit } from './eth-balance-audit.ts';
import type { EthCall } from './eth-rpc.ts';
import type { Gain } from './value-moves.ts';

const [US, US_TOO] = ['aa'.repeat(20), 'bb'.repeat(20)];

/** Blocks from 100 on, in which the accounts are as the function says. Beginning with a parent that is not read. */
function chainOf(count: number, accountsAt: (height: number) => Record<string, Account>, fork = '1') {
  const states = new Map<string, ReturnType<typeof stateOf>>();
  const blocks: MadeBlock[] = [];
  for (let height = 99; height < 100 + count; height++) {
    const state = stateOf(accountsAt(height));
    const parent = blocks.at(-1)?.hash ?? `0x${fork.padStart(64, '0')}`;
    const block = makeBlock({ height, parent, fields: { stateRoot: state.root } });
    states.set(block.hash, state);
    blocks.push(block);
  }
  return { blocks, states };
}
type Chain = ReturnType<typeof chainOf>;

/** Blocks come every 12 seconds. */
const timeAt = (height: number): Date => new Date(height * 12_000);

/** The audit of a chain; `calls` are the accounts that were proven at each block. */
function auditOf({ blocks, states }: Chain, { proves = true, facts }: { proves?: boolean; facts?: AuditFacts } = {}) {
  const calls: number[] = [];
  const node = { isDown: false };
  const answer = ([method, first, , at]: EthCall) => {
    if (method === 'eth_getBlockByHash') return { result: blocks.find(({ hash }) => hash === first)?.header ?? null, error: null };
    if (!proves) return { result: null, error: { code: -32601, message: 'the method does not exist' } };
    return { result: states.get((at as { blockHash: string }).blockHash)!.prove(first as string), error: null };
  };
  const batch = async (asked: readonly EthCall[]) => {
    if (node.isDown) throw new ChainError('outage', 'the node does not answer');
    calls.push(asked.filter(([method]) => method === 'eth_getProof').length);
    return asked.map(answer);
  };
  const audit = createBalanceAudit({ rpc: { batch }, log: createLog('silent'), ...(facts && { facts }) });
  const refAt = (place: number) => {
    const { header, hash } = blocks[place]!;
    return { height: Number(header.number), hash, parent: header.parentHash, time: timeAt(Number(header.number)) };
  };
  const read = async (place: number, { open = [US], seen = [], end = 10_000 }: { open?: string[]; seen?: Gain[]; end?: number } = {}) => {
    const { header, hash } = blocks[place]!;
    const ref = refAt(place);
    const block = { ref, header: provenHeader(header, bytesOfHex(hash)), transactions: [], receipts: [], signed: [] };
    const listed = open.map((key) => ({ key, endsAt: timeAt(end), countsUntil: timeAt(end + 2) }));
    return (await audit.check(block, { open: () => ({ listed, othersEnd: null }) }, seen)).map(
      ({ key, index, units }) => `${key.slice(0, 2)} ${index} ${units}`,
    );
  };
  const note = (place: number, seen: Gain[]) => audit.note({ ref: refAt(place) }, seen);
  const heightThrough = () => (audit.provenThrough().getTime() + 1) / 12_000;
  return { calls, read, note, node, heightThrough, refAt, isBlind: audit.isBlind };
}
/** What is found in each of the blocks, by height, except where nothing is. */
async function readAll(audit: ReturnType<typeof auditOf>, count: number, seen: Record<number, bigint> = {}, open?: string[]) {
  const found: string[] = [];
  for (let place = 1; place <= count; place++) {
    const units = seen[99 + place];
    const gains = await audit.read(place, { ...(units && { seen: [{ key: US, index: 0, units }] }), ...(open && { open }) });
    found.push(...gains.map((gain) => `${99 + place}: ${gain}`));
  }
  return found;
}

test('a gain that the node hides is found at the next proof, at most 24 blocks later', async () => {
  const audit = auditOf(chainOf(60, (height) => ({ [US]: { balance: height >= 103 ? 12n : 5n } })));
  assert.deepEqual(await readAll(audit, 60), ['124: aa null 7']);
  // Twice for a new address, then once in 24 blocks.
  assert.deepEqual(audit.calls, [2, 1, 1]);
});

test('a gain in the first block after an address was issued is found in that block', async () => {
  const audit = auditOf(chainOf(3, (height) => ({ [US]: { balance: height >= 100 ? 7n : 5n } })));
  assert.deepEqual(await readAll(audit, 3), ['100: aa null 2']);
});

test('gains that were seen are not counted again, and what is missing beside them is', async () => {
  const chain = chainOf(60, (height) => ({ [US]: { balance: height >= 130 ? 30n : height >= 110 ? 20n : height >= 100 ? 8n : 5n } }));
  assert.deepEqual(await readAll(auditOf(chain), 60, { 100: 3n, 110: 12n, 130: 10n }), []);
  assert.deepEqual(await readAll(auditOf(chain), 60, { 100: 3n, 110: 11n, 130: 10n }), ['124: aa null 1']);
});

test('an address that was used, or has code, is proven from then on', async () => {
  for (const change of [{ nonce: 1n }, { code: '0x00' }] satisfies Account[]) {
    const used = chainOf(80, (height) => ({
      [US]: { balance: height >= 130 ? 40n : height >= 110 ? 30n : 5n, ...(height >= 112 && change) },
    }));
    const found = await readAll(auditOf(used), 80);
    assert.deepEqual(found, 'nonce' in change ? ['148: aa null 10'] : []);
  }
});

test('where blocks do not follow each other it starts over', async () => {
  const chain = chainOf(60, (height) => ({ [US]: { balance: height >= 103 ? 12n : 5n } }));
  const audit = auditOf(chain);
  await audit.read(1);
  // The gain was in a block between.
  assert.deepEqual(await audit.read(10), []);
  assert.deepEqual(await audit.read(11), []);
  assert.deepEqual(audit.calls, [2, 2]);
});

const HIDDEN = (height: number) => ({ [US]: { balance: height >= 118 ? 12n : height >= 110 ? 8n : 5n } });
const SEEN: Gain[] = [{ key: US, index: 0, units: 3n }];

test('a block that fails or is read again keeps what was known before it', async () => {
  const audit = auditOf(chainOf(60, HIDDEN));
  for (let place = 1; place < 25; place++) assert.deepEqual(await audit.read(place, place === 11 ? { seen: SEEN } : {}), []);
  audit.node.isDown = true;
  await assert.rejects(audit.read(25), { name: 'ChainError', kind: 'outage' });
  await assert.rejects(audit.read(25), { name: 'ChainError', kind: 'outage' });
  audit.node.isDown = false;
  assert.deepEqual(await audit.read(25), ['aa null 4']);
  // The database did not take it.
  assert.deepEqual(await audit.read(25), ['aa null 4']);
  assert.deepEqual(await audit.read(26), []);
});

test('gains of a block that is read twice count once', async () => {
  const audit = auditOf(chainOf(60, (height) => ({ [US]: { balance: height >= 118 ? 9n : height >= 110 ? 8n : 5n } })));
  for (let place = 1; place < 25; place++) {
    await audit.read(place, place === 11 ? { seen: SEEN } : {});
    if (place === 11) await audit.read(place, { seen: SEEN });
  }
  assert.deepEqual(await audit.read(25), ['aa null 1']);
});

test('another node continues where one ended, and your own node between them too', async () => {
  const facts = createAuditFacts();
  const chain = chainOf(60, HIDDEN);
  const [one, own, other] = [auditOf(chain, { facts }), auditOf(chain, { facts }), auditOf(chain, { facts })];
  for (let place = 1; place < 10; place++) await one.read(place);
  for (let place = 10; place < 20; place++) await own.note(place, place === 11 ? SEEN : []);
  for (let place = 20; place < 25; place++) await other.read(place);
  assert.deepEqual(await other.read(25), ['aa null 4']);
  assert.deepEqual([one.calls, own.calls, other.calls], [[2], [], [1]]);
  assert.ok(facts.blocks.size <= 16);
});

test('a block that replaces another one continues from their parent', async () => {
  const facts = createAuditFacts();
  const chain = chainOf(60, HIDDEN);
  const audit = auditOf(chain, { facts });
  for (let place = 1; place < 20; place++) await audit.read(place, place === 11 ? { seen: SEEN } : {});
  const replaced = makeBlock({ height: 119, parent: chain.blocks[19]!.hash, fields: { gasUsed: '0x1' } });
  await audit.note(chain.blocks.push(replaced) - 1, SEEN);
  chain.blocks.pop();
  for (let place = 20; place < 25; place++) await audit.read(place);
  assert.deepEqual(await audit.read(25), ['aa null 4']);
});

test('at most a hundred addresses are proven at one block, new and overdue ones first, and none that are closed', async () => {
  const many = Array.from({ length: 150 }, (_, i) => i.toString(16).padStart(40, '0'));
  const audit = auditOf(chainOf(30, (height) => (height >= 102 ? { [many[149]!]: { balance: 9n } } : { [US]: { balance: 1n } })));
  assert.deepEqual(await readAll(audit, 3, {}, many), []);
  assert.deepEqual(audit.calls, [200, 50]);
  for (let place = 4; place < 26; place++) assert.deepEqual(await audit.read(place, { open: many }), []);
  assert.deepEqual(await audit.read(26, { open: many }), ['00 null 9']);
  assert.deepEqual(audit.calls, [200, 50, 100, 50]);
  assert.deepEqual(await audit.read(27, { open: [] }), []);
  assert.equal(audit.calls.length, 4);
});

test('an address is proven at the first block after its deadline, and payments may end only up to there', async () => {
  const audit = auditOf(chainOf(60, (height) => ({ [US]: { balance: height >= 109 ? 12n : 5n } })));
  const found: string[] = [];
  // It ends between the blocks 110 and 111, and the last block that counts is 112.
  for (let place = 1; place < 15; place++) {
    found.push(...(await audit.read(place, { end: 110.5 })).map((gain) => `${99 + place}: ${gain}`));
    assert.equal(audit.heightThrough(), 99 + place);
  }
  assert.deepEqual(found, ['111: aa null 7']);
  assert.deepEqual(audit.calls, [2, 1, 1], 'when it is new, when it ends, and after the last moment that counts');
});

test('while a node proves nothing, no payment may end, and later the whole time since is compared', async () => {
  const chain = chainOf(60, (height) => ({ [US]: { balance: height >= 105 ? 12n : 5n } }));
  const facts = createAuditFacts();
  const [good, blind] = [auditOf(chain, { facts }), auditOf(chain, { facts, proves: false })];
  await good.read(1);
  for (let place = 2; place < 20; place++) await blind.read(place, { end: 110 });
  assert.equal(blind.isBlind(), true);
  // The deadline is at block 110.
  assert.equal(blind.heightThrough(), 110);
  assert.deepEqual(await good.read(20, { end: 110 }), ['aa null 7']);
  assert.equal(good.heightThrough(), 119);
});

test('what was there when a new address could not be proven is shown only as late', async () => {
  for (const [balance, found] of [
    [12n, ['aa null 12']],
    [3n, []],
  ] as const) {
    const chain = chainOf(60, (height) => ({ [US]: { balance: height >= 103 ? balance : balance - 3n } }));
    const facts = createAuditFacts();
    const [good, blind] = [auditOf(chain, { facts }), auditOf(chain, { facts, proves: false })];
    for (let place = 1; place < 5; place++) assert.deepEqual(await blind.read(place, { end: 120 }), []);
    // Three of them were seen.
    assert.deepEqual(await blind.read(5, { end: 120, seen: found.length > 0 ? [] : [{ key: US, index: 0, units: 3n }] }), []);
    const shown: string[] = [];
    for (let place = 6; place < 40; place++) shown.push(...(await good.read(place, { end: 120 })).map((gain) => `${99 + place}: ${gain}`));
    assert.deepEqual(
      shown,
      found.map((gain) => `123: ${gain}`),
      'at the first block that no longer counts',
    );
  }
});

describe('after a restart', () => {
  let database: TestDatabase;
  before(async () => {
    database = await testDatabase();
  });
  after(() => database.drop());
  /** The follower recorded the blocks up to a place. */
  const record = async ({ blocks }: Chain, through: number) => {
    const { sql } = database.db;
    await sql`truncate blocks, tips, balance_proofs, balance_gains`;
    for (const { header, hash } of blocks.slice(0, through + 1))
      await sql`
        insert into blocks (chain, height, hash, parent, time)
        values ('ETH', ${Number(header.number)}, ${hash}, ${header.parentHash}, ${timeAt(Number(header.number))})`;
    const tip = blocks[through]!;
    await sql`
      insert into tips (chain, height, hash, scanned_through, watched_from)
      values ('ETH', ${Number(tip.header.number)}, ${tip.hash}, now(), 100)`;
  };
  const begin = (chain: Chain) => auditOf(chain, { facts: createAuditFacts(createChainStore(database.db).audit) });

  test('a gain that was hidden before it is found, and what was seen is not counted again', async () => {
    const chain = chainOf(60, (height) => ({ [US]: { balance: height >= 108 ? 12n : height >= 105 ? 8n : 5n } }));
    await record(chain, 10);
    const first = begin(chain);
    for (let place = 1; place <= 10; place++) await first.read(place, place === 6 ? { seen: SEEN } : {});
    // A block that was read but not recorded.
    await first.read(11, { seen: [{ key: US, index: 0, units: 4n }] });
    const again = begin(chain);
    const found: string[] = [];
    for (let place = 11; place < 40; place++) found.push(...(await again.read(place)).map((gain) => `${99 + place}: ${gain}`));
    assert.deepEqual(found, ['124: aa null 4']);
    assert.deepEqual(again.calls, [1], 'no proof of a new address');
  });

  test('a block that was replaced meanwhile says nothing', async () => {
    const [old, chain] = [
      chainOf(20, () => ({ [US]: { balance: 50n } }), '2'),
      chainOf(60, (height) => ({ [US]: { balance: height >= 103 ? 9n : 5n } })),
    ];
    await record(chain, 4);
    const first = begin(old);
    for (let place = 1; place <= 4; place++) await first.read(place);
    const again = begin(chain);
    // It starts over, with the state of the parent.
    for (let place = 5; place < 40; place++) assert.deepEqual(await again.read(place), []);
    assert.deepEqual(again.calls, [2, 1]);
  });

  test('an address that could not be proven when it was new, and proofs that are no longer needed', async () => {
    const chain = chainOf(200, (height) => ({ [US]: { balance: height >= 103 ? 7n : 0n } }));
    await record(chain, 4);
    const blind = auditOf(chain, { facts: createAuditFacts(createChainStore(database.db).audit), proves: false });
    for (let place = 1; place <= 4; place++) await blind.read(place, { end: 110 });
    const again = begin(chain);
    const found: string[] = [];
    for (let place = 5; place < 20; place++) found.push(...(await again.read(place, { end: 110 })).map((gain) => `${99 + place}: ${gain}`));
    assert.deepEqual(found, ['113: aa null 7']);
    await record(chain, 190);
    const long = begin(chain);
    for (let place = 1; place <= 190; place++) await long.read(place, place % 30 === 0 ? { seen: [{ key: US, index: 0, units: 1n }] } : {});
    const { sql } = database.db;
    const [kept] = await sql<{ count: number }[]>`select count(*)::int as count from balance_proofs`;
    assert.ok(kept!.count >= 4 && kept!.count <= 7, String(kept!.count));
    for (let place = 156; place <= 158; place++) await long.read(place, { open: [US_TOO] });
    const [left] = await sql<{ count: number }[]>`select count(*)::int as count from balance_gains where height < 150`;
    assert.equal(left!.count, 0);
  });
});

test('a node that proves nothing shows nothing, and a proof that does not fit is refused', async () => {
  const chain = chainOf(3, () => ({ [US]: { balance: 5n }, [US_TOO]: { balance: 6n } }));
  assert.deepEqual(await readAll(auditOf(chain, { proves: false }), 3), []);
  const [, first] = chain.blocks;
  chain.states.set(first!.hash, stateOf({ [US]: { balance: 500n }, [US_TOO]: { balance: 6n } }));
  await assert.rejects(auditOf(chain).read(1), { name: 'ProofError' });
});
