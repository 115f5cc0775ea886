/** The shared header chain on a real database: it opens on first use, stores what sources add, and answers in work. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestDatabase, testDatabase } from '../../../test/kit/database.ts';
import { firstHeader, type Mined, mineHeaders, sent } from '../../../test/kit/miner.ts';
import { createChainStore } from '../../chain-store/chain-store.ts';
import { chainCode } from '../../core/coin.ts';
import { createLog } from '../../log.ts';
import { HeaderError, workHash } from './header.ts';
import type { HashWork } from './header-chain.ts';
import { createHeaderService, createHeaderServices, MAIN_STARTS } from './header-service.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());

const hashWork: HashWork = async (kind, headers) => headers.map((header) => workHash(kind, header));
const log = createLog('silent');
const PARAMS: ProofParams = PROOF_PARAMS.BTC.regtest;
const clockAt = (seconds: number) => ({ now: () => new Date(seconds * 1000), monotonicMs: () => 0 });
const service = (start: Mined, nowSeconds: number, params = PARAMS) =>
  createHeaderService({
    params,
    start: { height: start.height, headers: [start.bytes] },
    ...{ store: createChainStore(database.db), hashWork, clock: clockAt(nowSeconds), log },
  });
const timeOf = ({ bytes }: Mined): number => bytes.readUInt32LE(68);

test('it opens once, stores what every giver adds, and has it again after a restart', async () => {
  const start = firstHeader({ height: 1_000 });
  const blocks = mineHeaders(PARAMS, start, 300);
  const first = service(start, timeOf(blocks.at(-1)!));
  assert.equal(first.opened(), null);
  const [headers, again] = await Promise.all([first.open(), first.open()]);
  assert.equal(headers, again);
  assert.equal(first.opened(), headers);
  let changes = 0;
  const end = headers.onChange(() => changes++);
  await headers.add(sent(blocks.slice(0, 100)), 'a node');
  await headers.add(sent(blocks.slice(50, 300)), 'a peer');
  await headers.add(sent(blocks.slice(50, 300)), 'another peer');
  assert.equal(changes, 2, 'known headers change nothing');
  end();
  await first.close();
  const second = await service(start, timeOf(blocks.at(-1)!)).open();
  assert.equal(second.tip().height, 1_300);
  assert.deepEqual(second.find(headers.tip().hash), headers.tip());
  assert.deepEqual(second.at(1_200), headers.at(1_200));
});

test('a newer release has the headers since the block that was read last, below its own checkpoint, and no branch beside that', async () => {
  const start = firstHeader({ height: 20_000 });
  const blocks = mineHeaders(PARAMS, start, 300);
  const other = mineHeaders(PARAMS, blocks[120]!, 120, () => ({ marker: 1 }));
  const startAt = ({ height, bytes }: Mined) => ({ height, headers: [bytes] });
  const options = { params: PARAMS, store: createChainStore(database.db), hashWork, clock: clockAt(timeOf(blocks.at(-1)!)), log };
  const read = (height: number) =>
    database.db.sql`
      insert into tips (chain, height, hash, scanned_through) values (${chainCode('BTC')}, ${height}, ${'00'.repeat(32)}, now())
      on conflict (chain) do update set height = excluded.height`;
  const before = createHeaderService({ ...options, start: startAt(start) });
  await (await before.open()).add(sent(blocks.slice(0, 100)), 'a peer');
  await before.close();
  await read(20_090);
  const newest = { ...options, start: startAt(blocks[199]!), earlier: [startAt(blocks[1]!), startAt(start)] };
  const service = createHeaderService(newest);
  const headers = await service.open();
  assert.deepEqual([headers.checkpointHeight, headers.tip().height], [20_002, 20_100]);
  assert.deepEqual(headers.at(20_091)!.bytes, blocks[90]!.bytes, 'the next block to read');
  const isLeft = (error: unknown) => error instanceof HeaderError && error.fault === 'checkpoint';
  await assert.rejects(headers.add(sent([...blocks.slice(100, 121), ...other]), 'a liar'), isLeft);
  assert.equal(headers.tip().height, 20_199);
  await headers.add(sent(blocks.slice(100)), 'a peer');
  assert.deepEqual([headers.tip().height, headers.at(20_150)!.bytes], [20_300, blocks[149]!.bytes]);
  await assert.rejects(headers.add(sent(mineHeaders(PARAMS, blocks[190]!, 2, () => ({ marker: 2 }))), 'a liar'), isLeft);
  await service.close();
  await read(20_250);
  const restarted = await createHeaderService(newest).open();
  assert.deepEqual([restarted.checkpointHeight, restarted.tip().height], [20_200, 20_300]);
  await database.db.sql`delete from tips`;
});

test('what comes before a faulty header is kept, stored and reported as a change', async () => {
  const start = firstHeader({ height: 5_000 });
  const blocks = mineHeaders(PARAMS, start, 4);
  const faulty = Buffer.from(blocks[3]!.bytes);
  faulty.writeUInt32LE(0x1d00ffff, 72);
  const one = service(start, timeOf(blocks[3]!));
  const headers = await one.open();
  let changes = 0;
  headers.onChange(() => changes++);
  const given = [...sent(blocks.slice(0, 3)), { bytes: faulty, auxpow: null }];
  await assert.rejects(headers.add(given, 'a liar'), (error) => error instanceof HeaderError && error.fault === 'bits');
  assert.deepEqual([headers.tip().height, changes], [5_003, 1]);
  await one.close();
  assert.equal((await service(start, timeOf(blocks[3]!)).open()).tip().height, 5_003);
});

test('confirmations, holds and progress come from the work of the chain', async () => {
  const start = firstHeader({ height: 100 });
  const blocks = mineHeaders(PARAMS, start, 12);
  const nowSeconds = timeOf(blocks.at(-1)!);
  const headers = await createHeaderService({
    params: PARAMS,
    start: { height: start.height, headers: [start.bytes] },
    ...{ store: null, hashWork, clock: clockAt(nowSeconds), log },
  }).open();
  assert.deepEqual(headers.provenHeights(3), [], 'nothing is proven at the checkpoint');
  await headers.add(sent(blocks), 'a node');
  assert.deepEqual(headers.provenHeights(3), [112, 111, 110]);
  assert.deepEqual(headers.confirmationsAt(110), { blocks: 3, proven: 3 });
  assert.deepEqual(headers.provenHeights(50).length, 12);
  assert.deepEqual([headers.holds(), headers.progress()], [[], { height: 112, percent: 100 }]);
  const later = await createHeaderService({
    params: PARAMS,
    start: { height: start.height, headers: [start.bytes] },
    ...{ store: null, hashWork, clock: clockAt(timeOf(start) + 100 * 600), log },
  }).open();
  await later.add(sent(blocks), 'a node');
  assert.deepEqual(later.progress(), { height: 112, percent: 12 });
  assert.deepEqual(later.holds(), ['total']);
});

test('each main network has one service for all its sources; other networks have none', async () => {
  const services = createHeaderServices({
    starts: MAIN_STARTS,
    store: createChainStore(database.db),
    hashWork,
    clock: clockAt(1_800_000_000),
    log,
  });
  for (const coin of ['BTC', 'LTC', 'DOGE', 'DASH'] as const) {
    const found = services.of(coin, 'mainnet');
    assert.equal(found?.params, PROOF_PARAMS[coin].main);
    assert.equal(services.of(coin, 'mainnet'), found);
    assert.deepEqual([services.of(coin, 'testnet'), services.of(coin, 'regtest')], [null, null]);
  }
  await services.close();
});
