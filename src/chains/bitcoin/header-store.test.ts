/** Stored headers on a real database: a restart has the same chain, reorganizations replace, and foreign rows are not believed. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestDatabase, testDatabase } from '../../../test/kit/database.ts';
import { firstHeader, type Mined, mineHeader, mineHeaders, sent } from '../../../test/kit/miner.ts';
import { createChainStore } from '../../chain-store/chain-store.ts';
import { idOf, workHash } from './header.ts';
import type { HashWork } from './header-chain.ts';
import { openHeaderChain } from './header-store.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());

const hashWork: HashWork = async (kind, headers) => headers.map((header) => workHash(kind, header));
const PARAMS: ProofParams = PROOF_PARAMS.BTC.regtest;
const START = firstHeader({ height: 1_000 });
const open = (params: ProofParams = PARAMS, start: Mined = START) =>
  openHeaderChain({
    pages: createChainStore(database.db).headers(params),
    params,
    start: { height: start.height, headers: [start.bytes] },
    hashWork,
    nowSeconds: () => 4_000_000_000,
  });
const rows = () =>
  database.db.sql<{ page: number; first: number; count: number }[]>`
    select page, first_height as first, length(headers) / 80 as count from header_pages where network = 'regtest' order by page`;

test('what is saved is there after a restart, page by page, and a reorganization replaces it', async () => {
  const blocks = mineHeaders(PARAMS, START, 700);
  const first = await open();
  for (const [from, to] of [
    [0, 1],
    [1, 30],
    [30, 700],
  ] as const) {
    await first.chain.add(sent(blocks.slice(from, to)));
    await first.save();
  }
  assert.deepEqual(
    [...(await rows())],
    [
      { page: 9, first: 1_001, count: 9 },
      ...[10, 11, 12, 13, 14, 15].map((page) => ({ page, first: page * 101, count: 101 })),
      { page: 16, first: 1_616, count: 85 },
    ],
  );
  const second = await open();
  assert.deepEqual(second.chain.tip(), first.chain.tip());
  assert.deepEqual(second.chain.locator(), first.chain.locator());
  await second.save();
  // In the middle of a page, over a page's end.
  const branch = mineHeaders(PARAMS, blocks[400]!, 310, () => ({ marker: 1 }));
  await second.chain.add(sent(branch));
  await second.save();
  const third = await open();
  assert.deepEqual(third.chain.tip(), second.chain.tip());
  assert.equal(third.chain.tip().height, 1_711);
  assert.deepEqual(third.chain.at(1_401)!.bytes, blocks[400]!.bytes);
  assert.deepEqual(third.chain.at(1_402)!.bytes, branch[0]!.bytes);
  assert.deepEqual(
    (await rows()).reduce((sum, { count }) => sum + count, 0),
    711,
  );
});

test('headers whose blocks nobody serves are not stored any more, also those of the last page', async () => {
  const stored = await open();
  const { chain } = stored;
  const before = chain.tip();
  const from = { height: before.height, bytes: before.bytes, parent: null };
  const blocks = mineHeaders(PARAMS, from, 150, (i) => ({ timeSeconds: before.timeSeconds + 600 * (i + 1) }));
  await chain.add(sent(blocks));
  await stored.save();
  await chain.setAside(chain.at(before.height + 1)!.hash);
  await stored.save();
  const again = await open();
  assert.equal(again.chain.tip().hash, before.hash);
});

test('a save that failed is made up for by the next one, and two at once keep their order', async () => {
  const stored = await open();
  const tip = stored.chain.tip();
  const blocks = mineHeaders(PARAMS, { height: tip.height, bytes: tip.bytes, parent: null }, 3, (i) => ({
    timeSeconds: tip.timeSeconds + 600 * (i + 1),
  }));
  await database.db.sql`alter table header_pages rename to hidden`;
  await stored.chain.add(sent(blocks.slice(0, 1)));
  await assert.rejects(stored.save());
  await database.db.sql`alter table hidden rename to header_pages`;
  await stored.chain.add(sent(blocks.slice(1, 2)));
  const saving = stored.save();
  await stored.chain.add(sent(blocks.slice(2)));
  await Promise.all([saving, stored.save()]);
  assert.deepEqual((await open()).chain.tip(), stored.chain.tip());
});

test('rows that are missing are written again, and damaged ones are not believed', async () => {
  const stored = await open();
  const { height } = stored.chain.tip();
  await database.db.sql`delete from header_pages where page = 12`;
  const partial = await open();
  assert.equal(partial.chain.tip().height, 1_211);
  const next = mineHeader(
    PARAMS,
    { height, bytes: stored.chain.tip().bytes, parent: null },
    { timeSeconds: stored.chain.tip().timeSeconds + 600 },
  );
  await database.db.sql`delete from header_pages where page >= 12`;
  await stored.chain.add(sent([next]));
  await assert.rejects(stored.save(), RangeError);
  await stored.save();
  assert.deepEqual((await open()).chain.tip(), stored.chain.tip());
  await database.db.sql`update header_pages set headers = overlay(headers placing '\\xff'::bytea from 1400) where page = 10`;
  const damaged = await open();
  assert.equal(damaged.chain.tip().height, 1_026, 'the header before the damaged one');
  // The chain continues from peers, and the damaged headers are replaced.
  const missing = Array.from(
    { length: next.height - damaged.chain.tip().height },
    (_, i) => stored.chain.at(damaged.chain.tip().height + 1 + i)!,
  );
  await damaged.chain.add(missing.map(({ bytes }) => ({ bytes, auxpow: null })));
  await damaged.save();
  assert.deepEqual((await open()).chain.tip(), stored.chain.tip());
});

test('a later checkpoint keeps the headers above it, and one on another chain starts from its own', async () => {
  const stored = await open();
  const later = stored.chain.at(1_500)!;
  const raised = await open(PARAMS, { height: 1_500, bytes: later.bytes, parent: null });
  assert.deepEqual(raised.chain.tip(), stored.chain.tip());
  const other = firstHeader({ height: 1_500, timeSeconds: 1_700_000_001 });
  const elsewhere = await open(PARAMS, other);
  assert.equal(elsewhere.chain.tip().height, 1_500);
  await elsewhere.chain.add(sent(mineHeaders(PARAMS, other, 5)));
  await elsewhere.save();
  assert.equal((await open(PARAMS, other)).chain.tip().height, 1_505);
  // Another network has its own rows.
  assert.equal((await open(PROOF_PARAMS.LTC.regtest)).chain.tip().height, 1_000);
});

test('a later checkpoint in the page where the stored headers end does not join what has a gap between', async () => {
  const params = PROOF_PARAMS.LTC.regtest;
  const start = firstHeader({ height: 2_050 });
  const old = await open(params, start);
  await old.chain.add(sent(mineHeaders(params, start, 5)));
  await old.save();
  const later = firstHeader({ height: 2_100 });
  const blocks = mineHeaders(params, later, 7);
  const renewed = await open(params, later);
  await renewed.chain.add(sent(blocks));
  await renewed.save();
  const stored = await database.db.sql<{ first: number; headers: Buffer }[]>`
    select first_height as first, headers from header_pages where chain = 'LTC' and network = 'regtest'`;
  assert.deepEqual([...stored], [{ first: 2_101, headers: Buffer.concat(blocks.map(({ bytes }) => bytes)) }]);
  assert.deepEqual((await open(params, later)).chain.tip(), renewed.chain.tip());
});

test('a page is written once: by each new block in it, and when many headers arrive at once', async (t) => {
  const { sql } = database.db;
  await sql.unsafe(`
    create table page_writes (kind text, page int);
    create function note_page() returns trigger language plpgsql as
      'begin insert into page_writes values (tg_op, new.page); return new; end';
    create trigger page_write after insert or update on header_pages for each row execute function note_page()`);
  t.after(() => sql.unsafe('drop table page_writes; drop function note_page cascade'));
  const params: ProofParams = { ...PARAMS, network: 'signet' };
  const start = firstHeader({ height: 50 });
  // The first page is cut by the checkpoint. 160 pages are written at a time. The work of stored headers is not checked.
  const all: Buffer[] = [];
  for (let i = 0, parent = start.bytes; i < 170 * 101; i++) {
    const header = Buffer.from(parent);
    idOf(params, parent).copy(header, 4);
    all.push(header);
    parent = header;
  }
  const stored = await open(params, start);
  await stored.chain.restore(async (take) => take(Buffer.concat(all)));
  await stored.save();
  const pages = Array.from({ length: 171 }, (_, page) => ({ kind: 'INSERT', page }));
  assert.deepEqual([...(await sql`select * from page_writes order by page`)], pages);
  await sql`truncate page_writes`;
  const { height, bytes } = stored.chain.tip();
  for (const block of mineHeaders(params, { height, bytes, parent: null }, 3)) {
    await stored.chain.add(sent([block]));
    await stored.save();
  }
  assert.deepEqual([...(await sql`select * from page_writes`)], Array(3).fill({ kind: 'UPDATE', page: 170 }));
  assert.deepEqual((await open(params, start)).chain.tip(), stored.chain.tip());
});
