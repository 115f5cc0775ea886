/** The guard's judgement without a database: which sources agree, what is stored, and what it releases. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BlockRef, ChainError, type ChainSource, type SourceState } from '../chains/chain-source.ts';
import type { Quorum } from '../core/guard.ts';
import { type Comparisons, isBehind, readVotes } from './chain-guard.ts';
import { describeSources, effectOf, type Judgement, lowestAgreed, rowOf } from './judgement.ts';

/** A voting source of BTC on branch `name`, which leaves branch a above `fork`. `asked` counts the requests for blocks. */
function voter(
  name: string,
  height: number,
  {
    followed = false,
    fork = 0,
    state = 'ok',
    fails = false,
    lacks = false,
  }: { followed?: boolean; fork?: number; state?: SourceState['state']; fails?: boolean; lacks?: boolean } = {},
) {
  const asked: number[] = [];
  const refAt = (at: number): BlockRef => ({ height: at, hash: `${at <= fork ? 'a' : name}${at}`, parent: '', time: new Date(0) });
  const blockAt = async (at: number) => {
    asked.push(at);
    if (fails) throw new ChainError('outage', 'away');
    return at <= height && !lacks ? refAt(at) : null;
  };
  const source = { blockAt } as unknown as ChainSource;
  const health = { tip: refAt(height), version: 1, software: `node ${name}` } as never;
  const one: SourceState = { name, trust: 'own', source, state, reason: null, health: state === 'down' ? null : health, followed };
  return { one, asked };
}
const followed = voter('a', 100, { followed: true }).one;
const votesOf = async (compared: Comparisons, ...others: SourceState[]) =>
  (await readVotes(compared, 'BTC', [followed, ...others])).map(({ agrees }) => agrees);

test('sources agree when they differ only in the last two blocks; a source that cannot say has no vote', async () => {
  const compare = (...others: SourceState[]) => votesOf(new Map(), ...others);
  assert.deepEqual(await compare(voter('b', 102, { fork: 98 }).one), [true, true]);
  assert.deepEqual(await compare(voter('b', 103, { fork: 100 }).one), [true, false], 'more than two blocks ahead');
  assert.deepEqual(await compare(voter('b', 100, { fork: 97 }).one), [true, false], 'another branch');
  assert.deepEqual(await compare(voter('b', 101, { fork: 100, fails: true }).one), [true]);
  assert.deepEqual(await compare(voter('b', 101, { fork: 100, lacks: true }).one), [true], 'it lacks the block that is compared');
  assert.deepEqual(await compare(voter('b', 101, { state: 'down' }).one, voter('c', 100, { state: 'syncing' }).one), [true]);
});

test('only versions of your own nodes count, because others could report an old one to hold payments', async () => {
  const versions = async (trust: SourceState['trust']) =>
    (await readVotes(new Map(), 'BTC', [followed, { ...voter('b', 100, { fork: 98 }).one, trust }])).map(({ version }) => version);
  assert.deepEqual(await versions('own'), [1, 1]);
  assert.deepEqual(await versions('proven'), [1, 0]);
});

test('while no tip moves, nothing is asked again; an answer that failed is', async () => {
  const compared: Comparisons = new Map();
  const known = voter('b', 100, { fork: 97 });
  for (let i = 0; i < 3; i++) assert.deepEqual(await votesOf(compared, known.one), [true, false]);
  assert.deepEqual(known.asked, [98]);
  const away = voter('b', 100, { fork: 97, fails: true });
  for (let i = 0; i < 3; i++) assert.deepEqual(await votesOf(compared, away.one), [true]);
  assert.deepEqual(away.asked, [98, 98, 98]);
});

test('the followed source is behind when another one that votes is more than two blocks ahead', () => {
  assert.equal(isBehind('BTC', [followed, voter('b', 102).one]), false);
  assert.equal(isBehind('BTC', [followed, voter('b', 103).one]), true);
  assert.equal(isBehind('BTC', [followed, voter('b', 103, { state: 'syncing' }).one]), false);
  assert.equal(isBehind('BTC', [voter('b', 103).one]), false, 'nothing is followed');
});

test('what all agree on is the lowest that any shows; a source that shows none of it agrees on nothing', () => {
  const at = (height: number) => ({ through: { height, hash: `a${height}` }, contradicts: false });
  assert.deepEqual(lowestAgreed([at(100), at(98), at(99)]), { height: 98, hash: 'a98' });
  assert.deepEqual(lowestAgreed([at(100), { through: null, contradicts: true }]), { height: -1, hash: '' });
  assert.equal(lowestAgreed([]), null, 'the last agreement stays');
});

const quorum = (above: string | null = null, locks = false): Quorum => ({ hold: null, above, locks });
const judgement = (over: Partial<Judgement> = {}): Judgement => ({
  sources: describeSources([followed, voter('b', 100).one], null),
  reasons: [],
  quorum: quorum(),
  agreed: { height: 98, hash: 'a98' },
  ...over,
});
const stalled = { code: 'stalled', text: 'the last block is old' } as const;

test('a judgement as a row: with one source there is no quorum and no agreement', () => {
  assert.deepEqual(rowOf(judgement({ reasons: [stalled], quorum: quorum('wait', true) }), 50_000n), {
    reasons: ['the last block is old'],
    codes: ['stalled', 'quorum'],
    above: 'wait',
    aboveCents: '50000',
    lockCents: '50000',
    agreedHash: 'a98',
    agreedHeight: 98,
  });
  const alone = judgement({ sources: describeSources([followed], null), quorum: quorum('wait', true), agreed: null });
  const { codes, above, lockCents, agreedHash } = rowOf(alone, 50_000n);
  assert.deepEqual([codes, above, lockCents, agreedHash], [[], null, null, null]);
  const none = rowOf(judgement({ agreed: { height: -1, hash: '' } }), 50_000n);
  assert.deepEqual([none.agreedHash, none.agreedHeight], ['', null], 'several sources that agree on nothing');
});

test('payments are settled again when the last reason ends, the quorum is back, or the sources agree on another block', () => {
  const row = (over: Partial<Judgement> = {}) => rowOf(judgement(over), 50_000n);
  const effect = (before: Partial<Judgement>, after: Partial<Judgement>) => effectOf(row(before), row(after), judgement(after));
  const held = { reasons: [stalled] };
  const slow = { code: 'slow', text: 'slow' } as const;
  assert.deepEqual(effect(held, {}), { completes: true, changed: true });
  assert.deepEqual(effect({ quorum: quorum('wait') }, {}), { completes: true, changed: true });
  assert.deepEqual(effect({}, { agreed: { height: 99, hash: 'a99' } }), { completes: true, changed: false });
  assert.deepEqual(effect({}, {}), { completes: false, changed: false });
  assert.deepEqual(effect({}, held), { completes: false, changed: true });
  assert.deepEqual(effect({ reasons: [stalled, slow] }, held), { completes: false, changed: true }, 'one reason is left');
  assert.deepEqual(effect(held, { ...held, agreed: null }), { completes: false, changed: false }, 'no source votes');
  assert.deepEqual(effectOf(undefined, row(), judgement()), { completes: false, changed: false }, 'the first judgement');
});
