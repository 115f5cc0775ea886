/**
 * The rules of Dogecoin with merged mining, Litecoin and Dash from a node, as on their main networks, at a difficulty that a test can mine:
 * forged blocks complete nothing. A pruned Dogecoin node, which lacks old proofs, gets its headers from peers.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Coin } from '../../src/core/coin.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { readUnreachable } from '../../src/readiness/coin-health.ts';
import { eventually } from '../kit/app.ts';
import { type ChainPeer, startChainPeer } from '../kit/chain-peer.ts';
import { firstOf } from '../kit/long.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';
import type { TestChain } from '../kit/test-chain.ts';

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers) await close();
});

type Forgery = { name: string; reason: RegExp; forge(chain: TestChain): TestChain };
/** Blocks that a node shows although nobody mined them, and why they are refused. */
const FORGERIES: readonly Forgery[] = [
  { name: 'without the work that their bits claim', forge: (chain) => chain.copy({ work: 'failed' }), reason: /does not have the work/ },
  { name: 'with the work of a lower difficulty', forge: (chain) => chain.copy({ work: 'easy' }), reason: /bits 207fffff are easier/ },
  {
    name: 'with real work, on a branch that has less of it',
    forge: (chain) => {
      const branch = chain.copy();
      branch.rewind(8, { forget: true });
      return branch;
    },
    reason: /branch with less work/,
  },
];
/** DOGE: each merge-mined block has the proof of an earlier one. */
const BORROWED: Forgery = {
  name: 'with the merge-mining proof of another block',
  forge: (chain) => {
    const forged = chain.copy();
    const proof = chain.blocks.findLast(({ header }) => header.length > 80)!.header.subarray(80);
    forged.on(({ block }) => {
      if (block && block.header.length > 80) block.header = Buffer.concat([block.header.subarray(0, 80), proof]);
    });
    return forged;
  },
  reason: /coinbase does not commit to this block/,
};

const sourceOf = async ({ app }: SteppedShop): Promise<{ state: string; reason: string | null }> => {
  const [row] = await app.app.ctx.db.sql<{ sources: { state: string; reason: string | null }[] }[]>`select sources from chain_guard`;
  return row!.sources[0]!;
};
const readyz = async ({ app }: SteppedShop): Promise<{ reasons: string[]; text: string }> => {
  const { reasons, holds, warnings } = (await (await fetch(`${app.url}/readyz`)).json()) as Record<string, string[]>;
  return { reasons: reasons!, text: [reasons, holds, warnings].flat().join('\n') };
};
const few = (coin: Coin) => ({ [`${coin}_CONFIRMATIONS`]: '2' });

for (const { coin, forgeries } of firstOf([
  { coin: 'DOGE' as const, forgeries: [...FORGERIES, BORROWED] },
  { coin: 'LTC' as const, forgeries: FORGERIES },
  { coin: 'DASH' as const, forgeries: FORGERIES },
])) {
  test(`${coin}: forged blocks of a node complete nothing and are named, and what it shows honestly completes`, () =>
    tellStepped(
      ['own'],
      async (story) => {
        const { chain, servers, look, pay, detail, statuses } = story;
        const forged: string[] = [];
        for (const { name, forge, reason } of forgeries) {
          const other = forge(chain);
          servers[0]!.show(other);
          forged.push(...(await pay(other, 99)));
          other.mine(6);
          await look(2);
          const { state, reason: said } = await sourceOf(story);
          assert.equal(state, 'unproven', name);
          assert.match(said!, reason, name);
          assert.match((await readyz(story)).text, reason, name);
          servers[0]!.show(chain);
          const paid = await pay(chain, 99);
          chain.mine(4);
          await look(2);
          assert.deepEqual(await statuses(paid), ['completed'], JSON.stringify(await detail(paid[0]!)));
          assert.equal((await detail(paid[0]!)).verified_by, 'proof_of_work');
        }
        assert.deepEqual(new Set(await statuses(forged)), new Set(['pending']));
      },
      { coin, work: {}, environment: few(coin) },
    ));
}

test('DOGE: a pruned node lacks old proofs: peers bring the headers, the node alone is read, and the peers are kept to compare it with', async () => {
  let peer: ChainPeer | null = null;
  await tellStepped(
    ['own'],
    async (story) => {
      const { chain, servers, look, pay, statuses } = story;
      await eventually(
        async () => {
          await look();
          return sourceOf(story);
        },
        ({ state }) => state === 'ok',
      );
      assert.ok(peer!.messages.some(({ command }) => command === 'getheaders'));
      // What is new comes from the node alone.
      await look(2);
      const ids = await pay(chain, 99);
      chain.mine(3);
      await look(2);
      assert.deepEqual(await statuses(ids), ['completed']);
      assert.equal(peer!.opened(), 1);
      assert.ok(!peer!.messages.some(({ command }) => command === 'getdata'), 'no block is asked for');
      assert.deepEqual((await sourceOf(story)).state, 'ok');
      servers[0]!.prune(0);
    },
    {
      coin: 'DOGE',
      work: { length: 150 },
      environment: { ...few('DOGE'), DOGE_P2P: 'auto' },
      prepare: (servers) => servers[0]!.prune(140),
      helpers: async (chain) => {
        peer = await startChainPeer(chain);
        closers.push(peer.close);
        return [peer.endpoint];
      },
    },
  );
});

test('DOGE: without peers, a pruned node is not read, and readyz, doctor and merchants see why', () =>
  tellStepped(
    ['own'],
    async (story) => {
      const { app, look } = story;
      const { ctx } = app.app;
      const { reason } = await eventually(
        async () => {
          await look();
          return sourceOf(story);
        },
        (source) => source.reason?.includes('pruned') === true,
      );
      assert.match(reason!, /^syncing headers 0%; the node no longer has the header of block 1; it deleted the block \(pruned\)$/);
      const finding = (await diagnose(ctx)).findings.find(
        ({ check, detail }) => check.startsWith('DOGE source') && detail.includes(reason!),
      );
      assert.deepEqual(
        [finding?.ok, finding?.fix],
        [false, 'wait, or set DOGE_P2P=auto and restart, so that peers of the network bring the headers'],
      );
      const away = (await readUnreachable(ctx, ctx.db.sql)).get('DOGE');
      assert.deepEqual(away, { code: 'source_behind', reason });
      await ctx.db.sql`update followers set behind_since = behind_since - interval '1 minute'`;
      assert.match(
        (await readyz(story)).reasons.join('\n'),
        /^DOGE: the follower has not started: syncing headers 0%; the node no longer/m,
      );
    },
    {
      coin: 'DOGE',
      work: { length: 150 },
      environment: { ...few('DOGE'), DOGE_P2P: 'off' },
      prepare: (servers) => servers[0]!.prune(140),
    },
  ));
