/** Sources that hang: the next one answers, and nobody waits for the one that does not. */
// Invariant: A source that hangs does not stop the others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAdversaryChain, createAdversarySource } from '../../test/kit/adversary.ts';
import { createLog } from '../log.ts';
import { ChainError } from './chain-source.ts';
import { joinSources } from './sources.ts';

/** Two sources of one chain; the first waits for `until` before it answers. */
function twoSources() {
  const chain = createAdversaryChain({ height: 10, now: () => new Date() });
  let until: Promise<unknown> = Promise.resolve();
  const asked = [0, 0];
  const source = (i: 0 | 1) =>
    createAdversarySource({
      chain,
      coin: 'BTC',
      interrupt: async () => {
        asked[i]!++;
        if (i === 0) await until;
      },
    });
  const joined = joinSources({
    coin: 'BTC',
    network: 'regtest',
    sources: ([0, 1] as const).map((i) => ({ name: ['first', 'second'][i]!, source: source(i), follows: true, trust: 'own' as const })),
    log: createLog('silent'),
    clock: { now: () => new Date(), monotonicMs: () => performance.now() },
  });
  return { chain, joined, asked, wait: (promise: Promise<unknown>) => (until = promise) };
}

test('when a source hangs, the next one answers and is followed until the first works again', async () => {
  const { chain, joined, asked, wait } = twoSources();
  await joined.survey();
  const { promise, resolve } = Promise.withResolvers<void>();
  wait(promise);
  assert.equal((await joined.tip()).hash, chain.tip().hash);
  assert.ok(asked[1]! > 0);
  const survey = await joined.survey();
  assert.deepEqual(
    survey.map(({ state, reason, followed }) => [state, reason, followed]),
    [
      ['down', 'first does not answer within 3 s', false],
      ['ok', null, true],
    ],
  );
  const before = asked[0]!;
  await joined.tip();
  await joined.survey();
  assert.equal(asked[0], before, 'it is not asked again before it has answered');
  resolve();
  wait(Promise.resolve());
  await new Promise((done) => setImmediate(done));
  assert.deepEqual(
    (await joined.survey()).map(({ state, followed }) => [state, followed]),
    [
      ['ok', true],
      ['ok', false],
    ],
  );
});

test('a source that is down is replaced by the next one until it works again', async () => {
  const { joined, wait } = twoSources();
  await joined.survey();
  wait(Promise.reject(new ChainError('outage', 'it is down')));
  assert.equal((await joined.survey())[1]!.followed, true);
  wait(Promise.resolve());
  assert.equal((await joined.survey())[0]!.followed, true);
});

test('a source that only answers lookups has no vote and is never followed; its reason counts more than that of peers that are away', async () => {
  const chain = createAdversaryChain({ height: 10, now: () => new Date() });
  const away = createAdversarySource({
    chain,
    coin: 'BTC',
    interrupt: () => Promise.reject(new ChainError('outage', 'no peer is connected')),
  });
  const lookUps = {
    ...createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {} }),
    addressSummary: () => Promise.reject(new ChainError('unsupported', 'the address has too many transactions')),
  };
  const connection = { start: async () => {}, isReady: () => false, stop: async () => {} };
  const joined = joinSources({
    coin: 'BTC',
    network: 'regtest',
    sources: [
      { name: 'peers', source: away, follows: true, trust: 'proven', connection },
      { name: 'electrum', source: lookUps, follows: false, trust: 'claimed', onlyLookUps: true },
    ],
    log: createLog('silent'),
    clock: { now: () => new Date(), monotonicMs: () => performance.now() },
  });
  assert.deepEqual(
    (await joined.survey()).map(({ name, state }) => [name, state]),
    [['peers', 'down']],
  );
  await assert.rejects(joined.tip(), /no peer is connected/);
  await assert.rejects(joined.addressSummary('x'), { kind: 'unsupported', message: 'the address has too many transactions' });
});

test('money is sent through sources that check it, then through peers, then through servers for lookups; a refusal is final', async () => {
  const chain = createAdversaryChain({ height: 10, now: () => new Date() });
  const asked: string[] = [];
  const fails = new Map<string, ChainError>();
  const connection = { start: async () => {}, isReady: () => true, stop: async () => {} };
  const named = (name: string, more: object = {}) => ({
    ...{ name, follows: true, trust: 'own' as const, ...more },
    source: {
      ...createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {} }),
      outlet: {
        send: async () => {
          asked.push(name);
          const error = fails.get(name);
          if (error) throw error;
        },
      },
    },
  });
  const joined = joinSources({
    coin: 'BTC',
    network: 'regtest',
    sources: [named('peers', { connection }), named('electrum', { follows: false, onlyLookUps: true }), named('node')],
    log: createLog('silent'),
    clock: { now: () => new Date(), monotonicMs: () => performance.now() },
  });
  const send = async () => {
    asked.length = 0;
    await joined.outlet.send(new Uint8Array(1));
    return [...asked];
  };
  assert.deepEqual(await send(), ['node']);
  fails.set('node', new ChainError('outage', 'it is down'));
  assert.deepEqual(await send(), ['node', 'peers']);
  fails.set('peers', new ChainError('outage', 'no peer is connected'));
  assert.deepEqual(await send(), ['node', 'peers', 'electrum']);
  fails.set('node', new ChainError('refused', 'its inputs are spent'));
  fails.delete('peers');
  await assert.rejects(send(), { kind: 'refused', message: 'its inputs are spent' });
  assert.deepEqual(asked, ['node']);
});

test('fees: an estimate, but nothing below what peers take; without one, the highest that a source suggests or blocks were paid', async () => {
  const chain = createAdversaryChain({ height: 10, now: () => new Date() });
  const tiers =
    (source: 'estimate' | 'fallback', ...perByte: readonly number[]) =>
    async () =>
      (['fast', 'normal', 'slow'] as const).map((speed, i) => ({
        ...{ speed, rateE8: BigInt(perByte[i]!) * 100_000_000n, units: BigInt(perByte[i]!) * 140n, minutes: '10', source },
      }));
  const source = (fees: ReturnType<typeof tiers>) => ({
    ...createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {} }),
    fees,
  });
  const connection = { start: async () => {}, isReady: () => true, stop: async () => {} };
  const ratesOf = async (kind: 'estimate' | 'fallback') => {
    const joined = joinSources({
      ...{ coin: 'BTC', network: 'regtest', log: createLog('silent') },
      sources: [
        { name: 'peers', source: source(tiers('fallback', 8, 8, 8)), follows: true, trust: 'proven', connection },
        { name: 'node', source: source(tiers(kind, 20, 9, 2)), follows: true, trust: 'own' },
      ],
      paid: tiers('fallback', 30, 7, 5),
      clock: { now: () => new Date(), monotonicMs: () => performance.now() },
    });
    return (await joined.fees()).map(({ rateE8 }) => Number(rateE8 / 100_000_000n));
  };
  assert.deepEqual(await ratesOf('estimate'), [20, 9, 8]);
  assert.deepEqual(await ratesOf('fallback'), [30, 9, 8]);
});
