/** What a source of others can show when every block must be on the header chain of its network. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAdversaryChain, createAdversarySource } from '../../../test/kit/adversary.ts';
import { describeMined, firstHeader, mineHeaders, sent } from '../../../test/kit/miner.ts';
import { createLog } from '../../log.ts';
import type { BlockRef } from '../chain-source.ts';
import { workHash } from './header.ts';
import { refOf } from './header-chain.ts';
import { createTurn } from './header-feed.ts';
import { createHeaderService } from './header-service.ts';
import { PROOF_PARAMS } from './proof-params.ts';
import { provenSource } from './proven-source.ts';

const params = PROOF_PARAMS.BTC.regtest;

test('a source that withholds a block below its tip still shows it; above its tip it shows nothing', async () => {
  const start = firstHeader({ height: 1_000 });
  const blocks = mineHeaders(params, start, 10);
  const refAt = (height: number): BlockRef => refOf(describeMined(params, blocks[height - 1_001]!));
  const clock = { now: () => new Date(refAt(1_010).time), monotonicMs: () => 0 };
  const log = createLog('silent');
  const service = createHeaderService({
    ...{ params, start: { height: start.height, headers: [start.bytes] }, store: null, clock, log },
    hashWork: async (kind, headers) => headers.map((header) => workHash(kind, header)),
  });
  const headers = await service.open();
  await headers.add(sent(blocks), 'your node');
  const adversary = createAdversarySource({
    chain: createAdversaryChain({ height: 0, now: clock.now }),
    ...{ coin: 'BTC', interrupt: async () => {} },
  });
  let tip = 1_009;
  const source = provenSource({
    source: { ...adversary, tip: async () => refAt(tip), blockAt: async () => null, readHeaders: async () => [] },
    ...{ name: 'node.example:8332', service, turn: createTurn(), locks: false, clock, log },
  });
  await source.requireProof?.();
  assert.equal(await source.blockAt(1_007), null, 'it showed no tip yet');
  await source.tip();
  assert.deepEqual(await source.blockAt(1_007), refAt(1_007));
  assert.equal(await source.blockAt(1_010), null);
  tip = 1_002;
  await assert.rejects(source.tip(), { kind: 'behind' });
  assert.equal(await source.blockAt(1_007), null, 'it went back');
});
