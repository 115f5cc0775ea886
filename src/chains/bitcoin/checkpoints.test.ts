/** The compiled-in checkpoints are what they claim to be, and the script that renews them checks everything in between. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { advance, heightFor, render } from '../../../scripts/checkpoints.ts';
import { timed } from '../../../test/kit/headers.ts';
import { ancestorAt, firstHeader, hashOf, type Mined, mineHeader, mineHeaders, sent } from '../../../test/kit/miner.ts';
import { CHECKPOINTS, type Checkpoint, startOf } from './checkpoints.ts';
import { HeaderError, idOf, meetsTarget, showHash, workHash } from './header.ts';
import { createHeaderChain, type HashWork } from './header-chain.ts';
import { nextBits, targetOfBits } from './header-rules.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

const hashWork: HashWork = async (kind, headers) => headers.map((header) => workHash(kind, header));

for (const coin of ['BTC', 'LTC', 'DOGE', 'DASH'] as const)
  test(`the checkpoint of ${coin} has its hash, its links and its work, and all that the next block's rule needs`, () => {
    const checkpoint: Checkpoint = CHECKPOINTS[coin];
    const params: ProofParams = PROOF_PARAMS[coin].main;
    const { height, headers } = startOf(checkpoint);
    assert.equal(showHash(idOf(params, headers.at(-1)!)), checkpoint.hash);
    for (const [i, header] of headers.entries()) {
      if (i > 0) assert.deepEqual(header.subarray(4, 36), idOf(params, headers[i - 1]!));
      // The work of a merge-mined block is in its parent, which is not kept.
      if (!params.auxpow) assert.ok(meetsTarget(workHash(params.work, header), targetOfBits(timed(header).bits, params.powLimit)));
    }
    const chain = createHeaderChain({ params, start: startOf(checkpoint), hashWork, nowSeconds: () => 0 });
    assert.equal(chain.tip().hash, checkpoint.hash);
    assert.deepEqual(chain.locator(), [checkpoint.hash]);
    const at = (asked: number) => timed(headers[headers.length - 1 - (height - asked)]!);
    const bits = nextBits(params, height + 1, timed(headers.at(-1)!).timeSeconds + 1, at);
    if (coin === 'DASH') assert.equal(bits.toString(16), '193898e9');
    if (params.retarget.kind === 'period') {
      assert.equal(height % params.retarget.interval, 0, 'the first block of a period');
      assert.equal(bits, timed(headers.at(-1)!).bits);
      // The first header that the next retarget looks at.
      assert.ok(height + params.retarget.interval - 1 - params.retarget.reach >= height - headers.length + 1);
    }
  });

const MINABLE: ProofParams = { ...PROOF_PARAMS.DOGE.main, powLimit: PROOF_PARAMS.BTC.regtest.powLimit, work: 'sha256d', auxpow: null };
/** About two days and a bit of blocks of half an hour. */
const SLOW: ProofParams = { ...MINABLE, spacingSeconds: 1_800 };
function served() {
  const first = firstHeader({ height: 200_000, bits: 0x207fffff, version: 4 });
  const second = mineHeader({ ...SLOW, retarget: { kind: 'fixed' } }, first);
  const blocks = mineHeaders(SLOW, second, 150);
  const from: Checkpoint = {
    height: second.height,
    hash: hashOf(SLOW, second),
    headers: [first, second].map(({ bytes }) => bytes.toString('hex')),
    source: 'the test',
    earlier: [],
  };
  /** As a peer answers: what follows the first hash that it knows. */
  const read = async (locator: readonly string[]) => {
    const known = new Map([second, ...blocks].map((block) => [hashOf(SLOW, block), block.height]));
    const height = known.get(locator.find((hash) => known.has(hash))!)!;
    return sent(blocks.slice(height - second.height, height - second.height + 40));
  };
  return { from, blocks, read };
}
const options = { hashWork, nowSeconds: () => 4_000_000_000, day: '2026-01-02' };

test('a checkpoint is moved to two days below the tip, with the headers that the next chain needs', async () => {
  const { from, blocks, read } = served();
  const renewed = await advance(SLOW, from, { ...options, read });
  const tip = blocks.at(-1) as Mined;
  assert.equal(renewed.height, tip.height - 96);
  assert.equal(renewed.hash, hashOf(SLOW, ancestorAt(tip, renewed.height)));
  assert.equal(renewed.headers.length, 11);
  const chain = createHeaderChain({ params: SLOW, start: startOf(renewed), hashWork, nowSeconds: () => 4_000_000_000 });
  assert.equal((await chain.add(sent(blocks.slice(-96)))).added, 96);
  const { earlier: _, ...before } = from;
  assert.deepEqual(renewed.earlier, [before], 'an install that was stopped since begins there');
  assert.match(renewed.source, /^2026-01-02: .* from block 200001 on$/);
  // Too close to the tip, it stays.
  assert.deepEqual(await advance(SLOW, renewed, { ...options, read: async () => sent(blocks.slice(-96, -90)) }), renewed);
});

test('nothing is renewed from a peer that sends a header without work', async () => {
  const { from, blocks, read } = served();
  const forged = mineHeader(SLOW, blocks[60]!, { accepts: (hash) => hash[31]! >= 0x80 });
  const lie = async (locator: readonly string[]) => {
    const headers = await read(locator);
    return headers.map((one) => (one.bytes.equals(blocks[61]!.bytes) ? { ...one, bytes: forged.bytes } : one));
  };
  await assert.rejects(advance(SLOW, from, { ...options, read: lie }), HeaderError);
});

test('a checkpoint of a coin with periods is the first block of one', () => {
  assert.equal(heightFor(PROOF_PARAMS.BTC.main, 2_016 * 10 + 287), 2_016 * 9);
  assert.equal(heightFor(PROOF_PARAMS.BTC.main, 2_016 * 10 + 288), 2_016 * 10);
  assert.equal(heightFor(PROOF_PARAMS.DOGE.main, 10_000), 10_000 - 2_880);
});

test('the file is what the script writes', () => {
  // Formatting joins lines.
  const bare = (text: string) => text.replaceAll(/\s/g, '').replaceAll(/,(?=[\]}])/g, '');
  assert.equal(bare(render(CHECKPOINTS)), bare(readFileSync(join(import.meta.dirname, 'checkpoints.ts'), 'utf8')));
});
