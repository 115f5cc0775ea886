/** When completion is held: each rule of the chain-health guard at its boundary. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COINS, type Coin, chainOf } from './coin.ts';
import { calmAt, type GuardCode, isBinding, judgeChain, judgeQuorum, type ObservedChain, type SourceVote, type Voter } from './guard.ts';

const NOW = new Date('2026-05-01T12:00:00Z');
/** Newest first, each `seconds` apart, the newest `age` seconds old. */
const times = (seconds: number, age = 0, count = 13): Date[] =>
  Array.from({ length: count }, (_, i) => new Date(NOW.getTime() - (age + i * seconds) * 1000));
const vote = (coin: Coin, more: Partial<SourceVote> = {}): SourceVote => ({
  version: chainOf(coin).safeVersion ?? 0,
  agrees: true,
  ...more,
});
const codes = (coin: Coin, more: Partial<ObservedChain> = {}): GuardCode[] =>
  judgeChain({
    coin,
    votes: [vote(coin)],
    height: 1000,
    blockTimes: times(chainOf(coin).blockSeconds),
    now: NOW,
    reorg: null,
    work: [],
    ...more,
  }).map((reason) => reason.code);

for (const coin of COINS) {
  const usual = chainOf(coin).blockSeconds;

  test(`${coin}: a healthy chain holds nothing`, () => assert.deepEqual(codes(coin), []));

  test(`${coin}: a tip older than six intervals and a minute is stalled, one just under is not`, () => {
    const oldest = Math.max(60, 6 * usual);
    assert.deepEqual(codes(coin, { blockTimes: times(usual, oldest) }), []);
    assert.deepEqual(codes(coin, { blockTimes: times(usual, oldest + 1) }), ['stalled']);
  });

  test(`${coin}: twelve intervals of more than four times the usual are slow, eleven are too few to tell`, () => {
    assert.deepEqual(codes(coin, { blockTimes: times(4 * usual) }), []);
    assert.deepEqual(codes(coin, { blockTimes: times(4 * usual + 1) }), ['slow']);
    assert.deepEqual(codes(coin, { blockTimes: times(4 * usual + 1, 0, 12) }), []);
  });

  test(`${coin}: one source that differs holds, whatever the others say`, () => {
    assert.deepEqual(codes(coin, { votes: [vote(coin), vote(coin, { agrees: false }), vote(coin)] }), ['disagreement']);
  });

  test(`${coin}: a deep reorganization holds completion until the chain is calm again`, () => {
    const depth = chainOf(coin).deepReorg;
    const reorg = { depth, height: 1000 };
    assert.deepEqual(codes(coin, { reorg, height: calmAt(coin, reorg) - 1 }), ['deep_reorg']);
    assert.deepEqual(codes(coin, { reorg, height: calmAt(coin, reorg) }), []);
  });
}

test('DASH: a branch that replaces two blocks holds for a day of blocks, because ChainLocks keep the honest network from it', () => {
  assert.equal(chainOf('DASH').deepReorg, 2);
  for (const depth of [2, 25]) assert.equal(calmAt('DASH', { depth, height: 1_000 }), 1_547);
  assert.equal(calmAt('DASH', { depth: 400, height: 1_000 }), 1_800);
});

test('a node older than the known-safe version holds, with the limit of its coin', () => {
  const rows: readonly (readonly [Coin, number, boolean])[] = [
    ['BTC', 249_900, true],
    ['BTC', 250_000, false],
    ['LTC', 210_504, true],
    ['LTC', 210_505, false],
    ['DASH', 210_102, true],
    ['DASH', 230_102, false],
    ['DOGE', 1_140_800, true],
    ['DOGE', 1_140_900, false],
    ['ETH', 1, false],
    // A source that does not report the version of its software.
    ['BTC', 0, false],
  ];
  for (const [coin, version, old] of rows)
    assert.deepEqual(codes(coin, { votes: [vote(coin, { version })] }), old ? ['old_version'] : [], `${coin} ${version}`);
});

test('the April 2026 history of Litecoin: 13 removed blocks and blocks five times slower hold for both reasons', () => {
  assert.ok(chainOf('LTC').deepReorg <= 13);
  const held = { reorg: { depth: 13, height: 3_095_943 }, height: 3_095_950, blockTimes: times(13.5 * 60) };
  assert.deepEqual(codes('LTC', held), ['deep_reorg', 'slow']);
});

test('without blocks and without votes there are no findings', () => {
  assert.deepEqual(codes('BTC', { votes: [], blockTimes: [] }), []);
});

test('only mainnet is held', () => {
  assert.deepEqual([isBinding('mainnet'), isBinding('testnet'), isBinding('regtest')], [true, false, false]);
});

test('what may complete, by the trust of the sources and which of them have a vote', () => {
  // One letter per source, in order of preference: O own, P proven, C claimed, lower case unreachable. The first with a vote is followed.
  const rows: readonly (readonly [sources: string, all: boolean, above: boolean, locks: boolean])[] = [
    ['O', true, true, true],
    ['P', true, true, false],
    ['C', false, true, false],
    ['c', false, true, false],
    ['cc', false, false, false],
    ['OO', true, true, true],
    ['Oo', true, false, true],
    ['oO', true, false, true],
    ['OP', true, true, true],
    ['Op', true, false, true],
    ['oP', true, false, false],
    ['PO', true, true, false],
    ['PP', true, true, false],
    ['Pp', true, false, false],
    ['oPP', true, true, false],
    ['OC', true, true, true],
    ['Oc', true, false, true],
    ['oC', false, false, false],
    ['CO', true, true, false],
    ['Co', false, false, false],
    ['PC', true, true, false],
    ['pC', false, false, false],
    ['pc', false, false, false],
    ['CC', false, true, false],
    ['oCC', false, true, false],
    ['cOC', true, true, true],
    ['oo', false, false, false],
    ['pp', true, false, false],
  ];
  for (const [sources, all, above, locks] of rows) {
    const voters = [...sources].map(
      (letter, i): Voter => ({
        name: `source ${i}`,
        trust: ({ o: 'own', p: 'proven', c: 'claimed' } as const)[letter.toLowerCase() as 'o' | 'p' | 'c'],
        votes: letter !== letter.toLowerCase(),
      }),
    );
    const found = judgeQuorum(voters, voters.find(({ votes }) => votes) ?? null, 100_000n);
    assert.deepEqual([found.hold === null, found.above === null, found.locks], [all, above, locks], sources);
  }
  const twins: Voter[] = [true, false].map((votes) => ({ name: 'one.example', trust: 'proven', votes }));
  assert.equal(judgeQuorum(twins, twins[0]!, 100_000n).above, null, 'two of one name are one');
  assert.match(
    judgeQuorum(
      twins.map((one, i) => ({ ...one, name: `${i}` })),
      null,
      123_456_700n,
    ).above!,
    /above 1,234,567 USD/,
  );
});
