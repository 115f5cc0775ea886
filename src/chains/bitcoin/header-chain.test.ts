/** The header chain: recorded chains are followed, forged ones are refused, and only work decides. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { headersOf, linesOf, sentOf, timed } from '../../../test/kit/headers.ts';
import { ancestorAt, describeMined, firstHeader, hashOf, type Mined, mineHeader, mineHeaders, sent } from '../../../test/kit/miner.ts';
import { confirmationsAt, findWorkHolds, workPerBlock } from './chain-work.ts';
import { HeaderError, type HeaderRefusal, idOf, meetsTarget, showHash, workHash } from './header.ts';
import { createHeaderChain, type HashWork, type HeaderChain } from './header-chain.ts';
import { bitsOf, checkHeader, type SentHeader, targetOfBits, workOf } from './header-rules.ts';
import { regtestProof } from './p2p/network-peers.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

const { BTC, LTC, DOGE, DASH } = PROOF_PARAMS;
const LONG = process.env.FLORIN_LONG !== undefined;
const FORGERIES = LONG ? 1_000_000 : 10_000;

const hashInline: HashWork = async (kind, headers) => headers.map((header) => workHash(kind, header));
const fails = (fault: HeaderRefusal) => (error: unknown) => {
  assert.ok(error instanceof HeaderError, String(error));
  assert.equal(error.fault, fault, error.message);
  return true;
};

function chainOf(
  params: ProofParams,
  start: readonly Buffer[],
  height: number,
  options: Partial<Parameters<typeof createHeaderChain>[0]> = {},
): HeaderChain {
  return createHeaderChain({
    params,
    start: { height, headers: start },
    hashWork: hashInline,
    nowSeconds: () => 4_000_000_000,
    ...options,
  });
}

test('from any recorded block of a period on, a chain that begins with it takes the blocks that the network took', () => {
  const headers = sentOf('btc-main-822528.hex');
  const at = (height: number) => timed(headers[height - 822_528]!.bytes);
  for (let start = 0; start < 2_000; start++)
    for (let next = start + 1; next <= start + 11; next++)
      checkHeader(BTC.main, headers[next]!, { height: 822_528 + next, at, lowest: 822_528 + start }, 4_000_000_000);
});

/** A network on which a test can mine: DigiShield over SHA-256, about `1 << hardness` hashes a block at the start. */
const HARDNESS = 6;
const MINABLE: ProofParams = { ...DOGE.main, powLimit: BTC.regtest.powLimit, work: 'sha256d', auxpow: null };
const START_BITS = bitsOf(1n << BigInt(256 - HARDNESS));
const NOW = 1_700_000_000;
/** A chain of this network with blocks in time, the last one now. */
function minedChain(count: number, options: Partial<Parameters<typeof createHeaderChain>[0]> = {}) {
  const params = options.params ?? MINABLE;
  const first = firstHeader({ height: 200_000, timeSeconds: NOW - (count + 1) * params.spacingSeconds, bits: START_BITS, version: 4 });
  const second = { ...mineHeader({ ...params, retarget: { kind: 'fixed' }, powLimit: BTC.regtest.powLimit }, first, { bits: START_BITS }) };
  const blocks = mineHeaders(params, second, count);
  const chain = chainOf(params, [first.bytes, second.bytes], second.height, { nowSeconds: () => NOW, ...options, params });
  return { chain, blocks, start: second, params };
}
const tipOf = (blocks: readonly Mined[]): Mined => blocks.at(-1)!;

const TESTNET3_GENESIS = Buffer.from(
  `01000000${'00'.repeat(32)}3ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4adae5494dffff001d1aa4ae18`,
  'hex',
);

/** Recorded chains: parameters, the headers that a chain starts with, the height of the first, and those to add. */
const RECORDED: readonly [string, ProofParams, starts: number, height: number, usual: number][] = [
  ['btc-main-822528.hex', BTC.main, 1, 822_528, 4_032],
  ['ltc-main-2859498.hex', LTC.main, 1, 2_859_498, 100],
  ['doge-main-5610330-auxpow.hex', DOGE.main, 2, 5_610_330, 100],
  ['doge-testnet-7654400-auxpow.hex', DOGE.testnet, 2, 7_654_400, 98],
  ['dash-main-999900.hex', DASH.main, 24, 999_900, 200],
  ['dash-testnet-10000.hex', DASH.testnet, 24, 10_000, 100],
];
for (const [name, params, starts, height, usual] of RECORDED)
  test(`the recorded headers of ${name} are one chain`, async () => {
    const headers = sentOf(name);
    const start = headers.slice(0, starts).map(({ bytes }) => bytes);
    const rest = headers.slice(starts, LONG ? undefined : starts + usual);
    const chain = chainOf(params, start, height + starts - 1);
    assert.equal((await chain.add(rest.slice(0, 70))).added, 70);
    // What is known is not added twice.
    assert.equal((await chain.add(rest)).added, rest.length - 70);
    assert.equal(chain.tip().height, height + starts - 1 + rest.length);
    assert.deepEqual(chain.tip().bytes, rest.at(-1)!.bytes);
    assert.equal(chain.sizes().forks, 0);
    const total = rest.reduce((sum, { bytes }) => sum + workOf(timed(bytes).bits, params.powLimit), 0n);
    assert.equal(chain.work.workAt(chain.tip().height), total);
    for (const [i, { bytes }] of rest.entries()) assert.deepEqual(chain.at(height + starts + i)!.bytes, bytes);
  });

test('the first block of each private test network has the hash that tells it apart', () => {
  for (const family of Object.keys(PROOF_PARAMS) as (keyof typeof PROOF_PARAMS)[]) {
    const { regtest } = PROOF_PARAMS[family];
    const [first] = regtestProof(family).start.headers;
    assert.equal(showHash(idOf(regtest, first!)), regtest.genesis, family);
  }
});

test('the test network of Bitcoin is followed through its easy blocks and its retargets', async () => {
  const headers = headersOf('btc-testnet3-1.hex')
    .slice(0, LONG ? undefined : 2_050)
    .map((bytes) => ({ bytes, auxpow: null }));
  assert.equal(showHash(idOf(BTC.testnet3, TESTNET3_GENESIS)), BTC.testnet3.genesis);
  const chain = chainOf(BTC.testnet3, [TESTNET3_GENESIS], 0, { params: { ...BTC.testnet3, minimumVersion: 1 } });
  assert.equal((await chain.add(headers)).added, headers.length);
});

test('a recorded fork of a test network that begins below the start is refused', async () => {
  const lines = linesOf('ltc-testnet4-1.txt');
  const headers = lines.filter((line) => !line.startsWith('fork:')).map((line) => Buffer.from(line, 'hex'));
  const fork = lines.filter((line) => line.startsWith('fork:')).map((line) => ({ bytes: Buffer.from(line.slice(5), 'hex'), auxpow: null }));
  const chain = chainOf(LTC.testnet, headers.slice(0, 100), 100);
  await chain.add(headers.slice(100, 150).map((bytes) => ({ bytes, auxpow: null })));
  assert.equal(chain.tip().height, 150);
  await assert.rejects(chain.add(fork), fails('unknown_parent'));
  // A fork on a block that only the start knows.
  const below = mineHeader(
    { ...LTC.testnet, retarget: { kind: 'fixed' } },
    { height: 50, bytes: headers[49]!, parent: null },
    { accepts: () => true },
  );
  await assert.rejects(chain.add(sent([below])), fails('checkpoint'));
});

for (const [name, params, starts, height] of RECORDED)
  test(`each flipped bit of a header of ${name} is refused, and so are headers in another order`, async () => {
    const headers = sentOf(name);
    const chain = chainOf(
      params,
      headers.slice(0, starts).map(({ bytes }) => bytes),
      height + starts - 1,
    );
    const [first, second] = headers.slice(starts, starts + 2) as [SentHeader, SentHeader];
    const flip = async (sentHeader: SentHeader, bit: number) => {
      const bytes = Buffer.from(sentHeader.bytes);
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      await assert.rejects(chain.add([{ ...sentHeader, bytes }]), HeaderError, `bit ${bit}`);
    };
    for (let bit = 0; bit < 640; bit++) await flip(first, bit);
    await assert.rejects(chain.add([second, first]), HeaderError);
    await assert.rejects(chain.add([first, first]), fails('link'));
    assert.equal(chain.tip().height, height + starts - 1);
    assert.equal(chain.sizes().headers, starts);
    await chain.add([first, second]);
    assert.equal(chain.tip().height, height + starts + 1);
  });

test('bits that are one off at a retarget are refused', async () => {
  const headers = headersOf('btc-main-822528.hex').map((bytes) => ({ bytes, auxpow: null }));
  const chain = chainOf(BTC.main, [headers[0]!.bytes], 822_528);
  await chain.add(headers.slice(1, 2_016));
  for (const off of [-1, 1]) {
    const bytes = Buffer.from(headers[2_016]!.bytes);
    bytes.writeUInt32LE(bytes.readUInt32LE(72) + off, 72);
    await assert.rejects(chain.add([{ bytes, auxpow: null }]), fails('bits'));
  }
  await chain.add(headers.slice(2_016, 2_017));
  assert.equal(chain.tip().height, 824_544);
});

test('what comes before a faulty header is kept, and nothing after it', async () => {
  const { chain, blocks } = minedChain(100);
  const faulty = sent(blocks);
  faulty[80] = { bytes: Buffer.from(faulty[80]!.bytes), auxpow: null };
  faulty[80]!.bytes.writeUInt32LE(faulty[80]!.bytes.readUInt32LE(68) + 1, 68);
  // The header after it names the real one.
  await assert.rejects(chain.add(faulty), HeaderError);
  assert.equal(chain.tip().hash, hashOf(MINABLE, blocks[79]!));
  assert.equal((await chain.add(sent(blocks))).added, 20);
  assert.deepEqual(chain.tip(), describeMined(MINABLE, tipOf(blocks)));
});

// Invariant: The branch with the most work is the best one, whatever its length.
test('the branch with the most work is the best one, however many blocks another has; of two with the same work, the first one stays', async () => {
  const { chain, blocks } = minedChain(60);
  await chain.add(sent(blocks));
  // Slow blocks get easier: more of them, with less work in all.
  const fork = mineHeaders(MINABLE, blocks[29]!, 40, (_, parent) => ({ timeSeconds: timed(parent.bytes).timeSeconds + 300, marker: 1 }));
  const late = chainOf(MINABLE, [blocks[0]!.bytes, blocks[1]!.bytes], blocks[1]!.height);
  await late.add(sent(blocks.slice(2)));
  await late.add(sent(fork));
  assert.ok(tipOf(fork).height > tipOf(blocks).height);
  assert.equal(late.tip().hash, hashOf(MINABLE, tipOf(blocks)));
  assert.equal(late.sizes().forks, 40);
  assert.equal(late.find(hashOf(MINABLE, fork[0]!)), null, 'a fork is not on the best chain');
  // Another block of the same work.
  const twin = mineHeader(MINABLE, blocks[58]!, { marker: 2 });
  await late.add(sent([twin]));
  assert.equal(late.tip().hash, hashOf(MINABLE, tipOf(blocks)));
  assert.equal(late.takeChangedFrom(), blocks[2]!.height);
  const next = mineHeader(MINABLE, twin);
  await late.add(sent([next]));
  assert.deepEqual(late.tip(), describeMined(MINABLE, next));
  assert.equal(late.takeChangedFrom(), twin.height);
  assert.equal(late.takeChangedFrom(), null);
  assert.equal(late.find(hashOf(MINABLE, tipOf(blocks))), null);
});

test('a time at the median is refused, and one too far ahead until the clock is there', async () => {
  let now = NOW;
  const { chain, blocks, params } = minedChain(20, { nowSeconds: () => now });
  await chain.add(sent(blocks));
  const times = blocks.slice(-11).map(({ bytes }) => timed(bytes).timeSeconds);
  const median = times.toSorted((a, b) => a - b)[5]!;
  await assert.rejects(chain.add(sent([mineHeader(params, tipOf(blocks), { timeSeconds: median })])), fails('time_past'));
  await chain.add(sent([mineHeader(params, tipOf(blocks), { timeSeconds: median + 1 })]));
  const ahead = mineHeader(params, tipOf(blocks), { timeSeconds: NOW + 7_201 });
  await assert.rejects(chain.add(sent([ahead])), fails('time_future'));
  now += 1;
  assert.equal((await chain.add(sent([ahead]))).added, 1);
});

test('old versions and merge-mining proofs of chains without merged mining are refused', async () => {
  const { chain, blocks, params } = minedChain(2);
  await assert.rejects(chain.add(sent([mineHeader(params, blocks[0]!.parent!, { version: 3 })])), fails('version'));
  await assert.rejects(chain.add([{ bytes: blocks[0]!.bytes, auxpow: Buffer.alloc(100) }]), fails('auxpow'));
  const [merged] = sentOf('doge-main-5610330-auxpow.hex').slice(2) as [SentHeader];
  const doge = chainOf(DOGE.main, headersOf('doge-main-5610330.hex').slice(0, 2), 5_610_331);
  await assert.rejects(doge.add([{ ...merged, auxpow: null }]), fails('auxpow'));
  const litecoin = Buffer.from(merged.bytes);
  litecoin.writeInt32LE(0x20000104);
  await assert.rejects(doge.add([{ ...merged, bytes: litecoin }]), fails('version'));
});

test('BIP-94: the first block of a period may not be more than 600 s before its parent', async () => {
  const rule = { ...BTC.testnet4.retarget, interval: 16, reach: 15, timespanSeconds: 9_600 };
  const params: ProofParams = { ...BTC.testnet4, powLimit: BTC.regtest.powLimit, retarget: rule };
  const start = firstHeader({ height: 160, timeSeconds: NOW, bits: START_BITS });
  const period = mineHeaders(params, start, 15, (i, parent) => ({
    timeSeconds: timed(parent.bytes).timeSeconds + (i === 14 ? 3_000 : 100),
  }));
  const chain = chainOf(params, [start.bytes], start.height);
  await chain.add(sent(period));
  const last = timed(tipOf(period).bytes).timeSeconds;
  await assert.rejects(chain.add(sent([mineHeader(params, tipOf(period), { timeSeconds: last - 601 })])), fails('time_past'));
  assert.equal((await chain.add(sent([mineHeader(params, tipOf(period), { timeSeconds: last - 600 })]))).added, 1);
});

test('24 blocks that claim two hours count as the few blocks of work that they have, and nothing completes on them', async () => {
  const { chain, blocks, params } = minedChain(1_450);
  await chain.add(sent(blocks));
  const honest = workPerBlock(chain.work, params.spacingSeconds);
  const forged = mineHeaders(params, tipOf(blocks), 24, (_, parent) => ({ timeSeconds: timed(parent.bytes).timeSeconds + 300 }));
  assert.deepEqual(findWorkHolds(chain.work, { ...params, nowSeconds: NOW }), []);
  await chain.add(sent(forged));
  assert.equal(chain.tip().height, tipOf(forged).height);
  const mean = workPerBlock(chain.work, params.spacingSeconds);
  assert.ok(mean * 100n > honest * 98n, 'a few forged blocks do not change the mean of a day');
  const { blocks: counted, proven } = confirmationsAt(chain.work, forged[0]!.height, () => mean);
  assert.equal(counted, 24);
  assert.ok(proven <= 3, String(proven));
  assert.deepEqual(findWorkHolds(chain.work, { ...params, nowSeconds: NOW }), ['difficulty']);
  // Among honest blocks both counts are about the same.
  const usual = confirmationsAt(chain.work, blocks.at(-24)!.height, () => mean);
  assert.ok(usual.proven >= 24 && usual.proven <= 27, String(usual.proven));
});

test('a peer may send so many headers off the best chain and no more, and forks with the least work are dropped first', async () => {
  const { chain, blocks, params } = minedChain(12, { limits: { forks: 20, forkOfPeer: 8 } });
  await chain.add(sent(blocks), 'honest');
  const flood = (marker: number) => mineHeaders(params, blocks[1]!, 4, () => ({ marker }));
  await chain.add(sent(flood(10)), 'a');
  await chain.add(sent(flood(11)), 'a');
  await assert.rejects(chain.add(sent(flood(12)), 'a'), fails('flood'));
  assert.equal(chain.sizes().forks, 8);
  // A branch that wins counts no longer, and its peer may go on.
  const better = mineHeaders(params, blocks[9]!, 5, () => ({ marker: 13 }));
  await chain.add(sent(better), 'b');
  assert.deepEqual(chain.tip(), describeMined(params, tipOf(better)));
  assert.equal(chain.sizes().forks, 10);
  for (const marker of [14, 15, 16]) await chain.add(sent(flood(marker)), `c${marker}`);
  assert.ok(chain.sizes().forks <= 10, String(chain.sizes().forks));
  // All of the best chain is still there.
  for (const block of [...blocks.slice(0, 10), ...better]) assert.deepEqual(chain.at(block.height), describeMined(params, block));
  const next = mineHeader(params, tipOf(better));
  await chain.add(sent([next]), 'b');
  assert.deepEqual(chain.find(hashOf(params, next)), describeMined(params, next));
});

test('what a peer sent off the best chain counts also when it connects again, is dropped, or the peer brings new blocks; in a day it is forgiven', async () => {
  let now = NOW;
  const { chain, blocks, params } = minedChain(12, { limits: { forks: 20, forkOfPeer: 8 }, nowSeconds: () => now });
  await chain.add(sent(blocks), 'honest');
  const flood = (marker: number) => sent(mineHeaders(params, blocks[1]!, 4, () => ({ marker })));
  await chain.add(flood(10), 'a');
  await chain.add(flood(11), 'a');
  await assert.rejects(chain.add(flood(12), 'a'), fails('flood'));
  const next = mineHeader(params, tipOf(blocks));
  assert.equal((await chain.add(sent([next]), 'a')).added, 1, 'new blocks of a peer count, whatever else it sent');
  await assert.rejects(chain.add(flood(12), 'a'), fails('flood'));
  for (const [marker, peer] of [...[13, 14].map((one) => [one, 'b'] as const), ...[15, 16].map((one) => [one, 'c'] as const)])
    await chain.add(flood(marker), peer);
  assert.deepEqual(chain.sizes().forks, 8, 'more than 20 were dropped down to the whole branches that fit into 10');
  const { headers, bytes } = chain.sizes();
  assert.equal(headers, blocks.length + 3 + 8);
  await assert.rejects(chain.add(flood(12), 'a'), fails('flood'));
  // However many come next, the memory stays the same.
  for (let i = 0; i < 20; i++) await chain.add(flood(100 + i), `d${i}`);
  assert.equal(chain.sizes().bytes, bytes);
  now += 43_200;
  await chain.add(flood(17), 'a');
  await assert.rejects(chain.add(flood(18), 'a'), fails('flood'));
  // A branch that wins counts no longer.
  const branch = mineHeaders(params, blocks[10]!, 4, () => ({ marker: 19 }));
  await chain.add(sent(branch.slice(0, 2)), 'e');
  await chain.add(sent(branch.slice(2)), 'e');
  assert.deepEqual(chain.tip(), describeMined(params, tipOf(branch)));
  for (const marker of [20, 21]) await chain.add(flood(marker), 'e');
  await assert.rejects(chain.add(flood(22), 'e'), fails('flood'));
});

const bytesOf = (blocks: readonly Mined[]): Buffer => Buffer.concat(blocks.map(({ bytes }) => bytes));

test('a branch that peers only announce is followed block by block as its blocks are served, and one that is not served is never', async () => {
  const { chain, blocks, params } = minedChain(20);
  const id = (block: Mined): string => hashOf(params, block);
  await chain.add(sent(blocks));
  const unserved = { unserved: true };
  const branch = mineHeaders(params, blocks[15]!, 9, () => ({ marker: 1 }));
  await chain.add(sent(branch), 'one', unserved);
  const tip = () => chain.tip().hash;
  assert.equal(tip(), id(tipOf(blocks)));
  const waiting = () => chain.waiting(id(tipOf(branch))).map(({ hash }) => hash);
  assert.deepEqual(waiting(), branch.map(id));
  // Those of another peer, above them, wait too. The chain of the others grows, and waits for nothing.
  const above = mineHeaders(params, tipOf(branch), 2);
  await chain.add(sent(above), 'two', unserved);
  const more = mineHeaders(params, tipOf(blocks), 1);
  await chain.add(sent(more), 'three', unserved);
  assert.equal(tip(), id(tipOf(more)));
  for (const block of branch.slice(0, 5)) await chain.admit(id(block));
  assert.equal(tip(), id(tipOf(more)), 'five blocks have no more work than five');
  for (const block of branch.slice(5, 7)) await chain.admit(id(block));
  assert.equal(tip(), id(branch[6]!));
  assert.deepEqual([chain.leadsTo(id(blocks[15]!), id(branch[8]!)), chain.leadsTo(id(branch[2]!), id(branch[8]!))], [true, true]);
  assert.deepEqual([chain.leadsTo(id(blocks[16]!), id(branch[8]!)), chain.leadsTo(id(branch[8]!), id(branch[2]!))], [false, false]);
  // What continues the best chain is followed at once, until its block is missed.
  const next = mineHeaders(params, branch[6]!, 3, () => ({ marker: 2 }));
  await chain.add(sent(next), 'four', unserved);
  assert.equal(tip(), id(next[2]!));
  await chain.setAside(id(next[1]!));
  assert.equal(tip(), id(next[0]!));
  await chain.add(sent(next), 'five', unserved);
  assert.equal(tip(), id(next[0]!), 'it may be announced as often as anybody likes');
  // Your own node has them all.
  await chain.admit(id(tipOf(above)), { through: true });
  assert.equal(tip(), id(tipOf(above)));
  assert.equal(chain.takeChangedFrom(), blocks[0]!.height, 'nothing of it was stored before');
});

test('a chain without a block that is missed goes back to the branch with the most work, never below the checkpoint', async () => {
  const { chain, blocks, params, start } = minedChain(6);
  const id = (block: Mined): string => hashOf(params, block);
  await chain.add(sent(blocks));
  const branch = mineHeaders(params, blocks[2]!, 2, () => ({ marker: 1 }));
  await chain.add(sent(branch));
  await chain.setAside(id(blocks[3]!));
  assert.equal(chain.tip().hash, id(branch[1]!));
  await chain.setAside(id(start));
  assert.equal(chain.tip().hash, id(branch[1]!));
  await chain.setAside(id(blocks[0]!));
  assert.equal(chain.tip().hash, id(start));
});

test('branches without blocks are forgotten like other forks when there are too many', async () => {
  const { chain, blocks, params } = minedChain(5, { limits: { forks: 60, forkOfPeer: 1_000 } });
  const id = (block: Mined): string => hashOf(params, block);
  await chain.add(sent(blocks));
  for (let i = 0; i < 100; i++) {
    const branch = mineHeaders(params, blocks[3]!, 2, () => ({ marker: i + 1 }));
    await chain.add(sent(branch), `peer ${i}`, { unserved: true });
    assert.equal(chain.tip().hash, id(tipOf(blocks)));
    if (i < 30) assert.equal(chain.waiting(id(branch[1]!)).length, 2);
  }
  assert.ok(chain.sizes().forks <= 60);
});

test('a branch of very many blocks is followed before they are asked for, as at a first start among peers of another chain', async () => {
  const { chain, blocks, params } = minedChain(5, { nowSeconds: () => NOW + 86_400 });
  await chain.add(sent(blocks));
  const long = mineHeaders(params, blocks[3]!, 300, () => ({ marker: 1 }));
  await chain.add(sent(long), 'long', { unserved: true });
  assert.equal(chain.tip().hash, hashOf(params, tipOf(long)));
});

test('a chain that is restored from its stored headers is the same', async () => {
  const { chain, blocks, start, params } = minedChain(40);
  await chain.add(sent(blocks));
  const restored = chainOf(params, [start.parent!.bytes, start.bytes], start.height, { nowSeconds: () => NOW });
  const restore = (stored: Buffer) => restored.restore(async (take) => take(stored));
  await restore(bytesOf(blocks.slice(0, 15)));
  await restore(bytesOf(blocks.slice(15)));
  assert.deepEqual(restored.tip(), chain.tip());
  assert.equal(restored.work.workAt(chain.tip().height), chain.work.workAt(chain.tip().height));
  assert.deepEqual(restored.locator(), chain.locator());
  await assert.rejects(restore(blocks[0]!.bytes), RangeError);
  await assert.rejects(restore(blocks[0]!.bytes.subarray(0, 79)), RangeError);
});

test('stored headers that arrive while the work of others is hashed wait until those are added', async () => {
  const asked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const hashWork: HashWork = async (kind, headers) => {
    asked.resolve();
    await released.promise;
    return hashInline(kind, headers);
  };
  const { chain, blocks, start, params } = minedChain(6, { hashWork });
  const adding = chain.add(sent(blocks.slice(0, 2)));
  await asked.promise;
  const restoring = chain.restore(async (take) => take(bytesOf(blocks.slice(chain.tip().height - start.height, 5))));
  const addingLast = chain.add(sent(blocks.slice(5)));
  // Whatever does not wait for its turn runs before the hashes are ready.
  await setImmediate();
  released.resolve();
  assert.equal((await adding).added, 2);
  await restoring;
  assert.equal((await addingLast).added, 1);
  assert.deepEqual(chain.tip(), describeMined(params, tipOf(blocks)));
  for (const block of blocks) {
    assert.deepEqual(chain.at(block.height), describeMined(params, block));
    assert.deepEqual(chain.find(hashOf(params, block)), describeMined(params, block));
  }
  assert.equal(chain.sizes().forks, 0);
});

test('a locator has the newest ten hashes, then fewer and fewer, and ends with the checkpoint', async () => {
  const { chain, blocks, start, params } = minedChain(100);
  assert.deepEqual(chain.locator(), [hashOf(params, start)]);
  await chain.add(sent(blocks));
  const heights = chain.locator().map((hash) => chain.find(hash)!.height - start.height);
  assert.deepEqual(heights, [100, 99, 98, 97, 96, 95, 94, 93, 92, 91, 89, 85, 77, 61, 29, 0]);
});

const REGTEST: ProofParams = { ...BTC.regtest };
/** The obvious way: all headers in a map, the best one found by comparing all. */
function naiveBest(order: readonly Mined[]): Mined {
  let best = order[0]!;
  for (const header of order) if (header.height > best.height) best = header;
  return best;
}
test('any tree of headers, in any order that keeps parents first, gives the chain that a naive search finds', async () => {
  const first = firstHeader({ timeSeconds: NOW - 100_000 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(6), fc.integer({ min: 1, max: 4 })), { minLength: 1, maxLength: 40 }), async (growth) => {
      const chain = chainOf(REGTEST, [first.bytes], first.height, { limits: { forks: 1_000, forkOfPeer: 1_000 } });
      const order: Mined[] = [first];
      for (const [i, [back, count]] of growth.entries()) {
        const parent = order[Math.max(order.length - 1 - back * 3, 0)]!;
        const added = mineHeaders(REGTEST, parent, count, () => ({ marker: i + 1 }));
        order.push(...added);
        assert.equal((await chain.add(sent(added))).added, count);
        const best = naiveBest(order);
        assert.deepEqual(chain.tip(), describeMined(REGTEST, best));
        for (let height = first.height; height <= best.height; height++)
          assert.equal(chain.at(height)!.hash, hashOf(REGTEST, ancestorAt(best, height)));
        assert.equal(chain.at(best.height + 1), null);
      }
      const onBest = new Set(Array.from({ length: chain.tip().height - first.height + 1 }, (_, i) => chain.at(first.height + i)!.hash));
      for (const header of order) assert.equal(chain.find(hashOf(REGTEST, header)) !== null, onBest.has(hashOf(REGTEST, header)));
      assert.equal(chain.sizes().headers, order.length);
    }),
    { numRuns: LONG ? 2_000 : 60 },
  );
});

/** Anything wrong with a header that follows a known one. Each kind is refused by another rule. */
type Forgery = { parent: number; kind: number; seed: number; depth: number };
const forgery = fc.record({ parent: fc.nat(199), kind: fc.nat(8), seed: fc.nat(0xffffffff), depth: fc.integer({ min: 1, max: 3 }) });
/** Some changed bytes have the work of a block by chance, because the test's difficulty is low. */
function withoutWork(params: ProofParams, bytes: Buffer): Buffer {
  while (meetsTarget(workHash(params.work, bytes), targetOfBits(START_BITS, params.powLimit) * 4n))
    bytes.writeUInt32LE((bytes.readUInt32LE(76) + 1) >>> 0, 76);
  return bytes;
}
function forge(params: ProofParams, blocks: readonly Mined[], { parent: at, kind, seed }: Forgery): Buffer {
  const parent = blocks[at % (blocks.length - 1)]!;
  const child = blocks[(at % (blocks.length - 1)) + 1]!;
  const { timeSeconds } = timed(child.bytes);
  const bits = timed(child.bytes).bits;
  const limit = bitsOf(params.powLimit);
  const marker = (seed >>> 3) + 1;
  switch (kind) {
    case 0: {
      const bytes = Buffer.from(child.bytes);
      for (const bit of [seed % 640, (seed >>> 10) % 640]) bytes[bit >> 3]! ^= 1 << (bit & 7);
      return withoutWork(params, bytes);
    }
    case 1:
      return mineHeader(params, parent, { marker, bits: limit, timeSeconds }).bytes;
    case 2:
      return mineHeader(params, parent, { marker, bits: bits + 1 + (seed % 3), timeSeconds, accepts: () => true }).bytes;
    case 3:
      // As good as half of the work.
      return mineHeader(params, parent, {
        marker,
        timeSeconds,
        accepts: (hash) => BigInt(`0x${showHash(hash)}`) > targetOfBits(bits, params.powLimit),
      }).bytes;
    case 4:
      return mineHeader(params, parent, { marker, timeSeconds: NOW + 7_201 + (seed % 100_000) }).bytes;
    case 5:
      return mineHeader(params, parent, {
        marker,
        timeSeconds: timed(ancestorAt(parent, parent.height - 6).bytes).timeSeconds - (seed % 5_000),
      }).bytes;
    case 6:
      return mineHeader(params, parent, { marker, timeSeconds, version: seed % 4 }).bytes;
    case 7: {
      // A real block on another parent.
      const bytes = Buffer.from(blocks[seed % blocks.length]!.bytes);
      idOf(params, parent.bytes).copy(bytes, 4);
      return withoutWork(params, bytes);
    }
    default: {
      const bytes = Buffer.alloc(80, seed & 0xff);
      bytes.writeUInt32LE(seed, 36);
      return bytes;
    }
  }
}

// Invariant: A header that breaks any rule of its chain, or has no work, is refused.
test(`of ${FORGERIES} forged headers and branches none is accepted`, async () => {
  // Hard enough that random bytes have no work.
  const params: ProofParams = { ...MINABLE, spacingSeconds: 60 };
  const { chain, blocks } = minedChain(220, { params });
  await chain.add(sent(blocks));
  const before = { tip: chain.tip().hash, ...chain.sizes() };
  const kinds = new Set<string>();
  await fc.assert(
    fc.asyncProperty(forgery, async (one) => {
      const first = forge(params, blocks.slice(12), one);
      const branch: Mined[] = [{ height: 0, bytes: first, parent: null }];
      // The branch continues with headers that have all the work that its first one lacks.
      while (branch.length < one.depth)
        branch.push(mineHeader({ ...params, retarget: { kind: 'fixed' } }, tipOf(branch), { timeSeconds: NOW }));
      await assert.rejects(chain.add(sent(branch)), (error) => {
        assert.ok(error instanceof HeaderError, String(error));
        kinds.add(error.fault);
        return true;
      });
      assert.equal(chain.tip().hash, before.tip);
      assert.equal(chain.sizes().headers, before.headers);
    }),
    { numRuns: FORGERIES },
  );
  assert.deepEqual([...kinds].sort(), ['bits', 'time_future', 'time_past', 'unknown_parent', 'version', 'work']);
});
