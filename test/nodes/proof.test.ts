/**
 * The work of blocks decides, whatever source shows them: forged blocks of nodes complete nothing, their source is
 * named and left out, and honest sources go on. The rules are those of Bitcoin's main network, at a difficulty that a test can mine.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readChainStatus } from '../../src/follow/chain-acts.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { readCoinHealth } from '../../src/readiness/coin-health.ts';
import { eventually } from '../kit/app.ts';
import { type ChainPeer, startChainPeer } from '../kit/chain-peer.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';
import type { TestChain } from '../kit/test-chain.ts';

const tell = (trusts: readonly ('own' | 'untrusted')[], story: (told: SteppedShop) => Promise<void>) =>
  tellStepped(trusts, story, { work: {} });
type Source = { name: string; state: string; reason: string | null };
const sourcesOf = async ({ app }: SteppedShop): Promise<Source[]> => {
  const [row] = await app.app.ctx.db.sql<{ sources: Source[] }[]>`select sources from chain_guard where chain = 'BTC'`;
  return row!.sources;
};
const readyz = async ({ app }: SteppedShop): Promise<string> => {
  const { reasons, holds, warnings } = (await (await fetch(`${app.url}/readyz`)).json()) as Record<string, string[]>;
  return [reasons, holds, warnings].flat().join('\n');
};

const DAY = 86_400;

/** A chain that a source shows although it is not the honest one, and why it is refused. */
const FORGERIES: readonly { name: string; forge(chain: TestChain): TestChain; reason: RegExp }[] = [
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

describe('a node that forges blocks', { concurrency: 2 }, () => {
  test('completes nothing and is named, beside an honest one that completes', () =>
    tell(['own', 'own'], async (story) => {
      const { chain, servers, look, pay, detail, statuses } = story;
      const forgedIds: string[] = [];
      for (const { name, forge, reason } of FORGERIES) {
        const forged = forge(chain);
        servers[0]!.show(forged);
        forgedIds.push(...(await pay(forged, 99, 999)));
        forged.mine(4);
        await look(2);
        const [liar, honest] = await sourcesOf(story);
        assert.deepEqual([liar!.state, honest!.state], ['unproven', 'ok'], name);
        assert.match(liar!.reason!, reason);
        assert.match(await readyz(story), reason);
        const paid = await pay(chain, 99);
        chain.mine(2);
        await look(2);
        assert.deepEqual(await statuses(paid), ['completed'], `beside blocks ${name}`);
        assert.equal((await detail(paid[0]!)).verified_by, 'proof_of_work');
        servers[0]!.show(chain);
        await look();
        assert.deepEqual(
          (await sourcesOf(story)).map(({ state }) => state),
          ['ok', 'ok'],
          'back on the chain, it counts again',
        );
      }
      assert.deepEqual(new Set(await statuses(forgedIds)), new Set(['pending']));
    }));

  test('completes nothing alone, and what it shows honestly later completes', () =>
    tell(['untrusted'], async (story) => {
      const { chain, servers, look, pay, statuses } = story;
      const forgedIds: string[] = [];
      for (const { name, forge, reason } of FORGERIES) {
        const forged = forge(chain);
        servers[0]!.show(forged);
        forgedIds.push(...(await pay(forged, 99)));
        forged.mine(4);
        await look(2);
        assert.equal((await sourcesOf(story))[0]!.state, 'unproven', name);
        assert.match(await readyz(story), reason);
      }
      servers[0]!.show(chain);
      const paid = await pay(chain, 99);
      chain.mine(2);
      await look(2);
      assert.deepEqual(await statuses([...paid, ...forgedIds]), ['completed', 'pending', 'pending', 'pending']);
    }));

  test('in which a transaction stands twice (CVE-2012-2459) is passed over, and the same block of an honest one completes', () =>
    tell(['own', 'own'], async ({ chain, servers, look, pay, statuses }) => {
      servers[0]!.alter(({ raw, txs }) => {
        if (txs.length !== 3) return raw;
        const twice = Buffer.concat([raw, txs[2]!.raw]);
        twice[80] = 4;
        return twice;
      });
      const ids = await pay(chain, 99, 99);
      chain.mine(2);
      await look(3);
      assert.deepEqual(await statuses(ids), ['completed', 'completed']);
    }));
});

describe('the work of the chain', { concurrency: 4 }, () => {
  test('is read in the background when many headers are missing: until then the source says how far it is, and nothing is read', () =>
    tellStepped(
      ['own'],
      async (story) => {
        const { app, chain, look, pay, statuses } = story;
        const { sql } = app.app.ctx.db;
        assert.equal((await sourcesOf(story))[0]!.state, 'syncing');
        assert.match((await sourcesOf(story))[0]!.reason!, /^syncing headers \d+%/);
        for (let looks = 0; (await sql`select 1 from tips`).length === 0; looks++) {
          assert.ok(looks < 1_000, 'the headers never reach the tip');
          await look();
        }
        assert.equal((await sourcesOf(story))[0]!.state, 'ok');
        const [stored] = await sql<{ count: number }[]>`select sum(length(headers) / 80)::int as count from header_pages`;
        assert.equal(stored!.count, chain.tip().height);
        await look(2);
        const ids = await pay(chain, 99);
        chain.mine(2);
        await look(2);
        assert.deepEqual(await statuses(ids), ['completed']);
      },
      { work: { length: 1_200 } },
    ));

  test('holds completion while it is less than a quarter of what time should have brought, and counts are still shown', () =>
    tellStepped(
      ['own'],
      async (story) => {
        const { app, chain, look, pay, detail, statuses } = story;
        const ids = await pay(chain, 99);
        chain.mine(8);
        await look(2);
        assert.deepEqual(await statuses(ids), ['processing']);
        const { confirmations, hold_reason } = await detail(ids[0]!);
        assert.deepEqual(
          [confirmations, hold_reason],
          [8, 'the chain has less than a quarter of the work that the time since its checkpoint should have brought'],
        );
        assert.match(await readyz(story), /less than a quarter of the work/);
        const finding = (await diagnose(app.app.ctx)).findings.find(({ check }) => check === 'BTC completion');
        assert.match(finding?.detail ?? '', /less than a quarter of the work/);
        const [tip] = await app.app.ctx.db.sql<{ heights: number[] }[]>`select proven_heights as heights from tips`;
        assert.deepEqual(tip!.heights, []);
      },
      { work: { age: 20 * DAY } },
    ));

  test('names a source that is behind, and leaves it out', () =>
    tell(['own', 'own'], async (story) => {
      const { chain, servers, look, pay, statuses } = story;
      servers[0]!.show(chain.copy());
      const ids = await pay(chain, 99);
      chain.mine(5);
      await look(3);
      const [behind] = await sourcesOf(story);
      assert.equal(behind!.state, 'behind');
      assert.match(behind!.reason!, /is 5 blocks behind the chain with the most work/);
      assert.match(await readyz(story), /5 blocks behind/);
      assert.deepEqual(await statuses(ids), ['completed']);
    }));

  test('lets a source of others complete payments alone, up to the amount that needs two', () =>
    tell(['own', 'untrusted'], async ({ chain, servers, look, pay, detail, statuses }) => {
      servers[0]!.behave('down');
      const ids = await pay(chain, 99, 50_000);
      chain.mine(6);
      await look(2);
      assert.deepEqual(await statuses(ids), ['completed', 'processing']);
      assert.match((await detail(ids[1]!)).hold_reason, /above 1,000 USD wait: they need two sources/);
      servers[0]!.behave('well');
      await look(2);
      assert.deepEqual(await statuses(ids), ['completed', 'completed']);
    }));

  test('replaces a branch that has less of it, and what was in its blocks is confirmed again', () =>
    tell(['own'], async (story) => {
      const { chain, servers, look, pay, statuses } = story;
      const ids = await pay(chain, 50_000);
      chain.mine(2);
      await look();
      assert.deepEqual(await statuses(ids), ['processing']);
      const other = chain.copy();
      other.rewind(2);
      other.mine(4);
      servers[0]!.show(other);
      await look(3);
      assert.deepEqual(await statuses(ids), ['processing']);
      other.mine(4);
      await look(3);
      assert.deepEqual(await statuses(ids), ['completed']);
    }));
});

test('a node on a branch that the network left completes nothing and is named, and branches without blocks do not concern it', async (t) => {
  let peer: ChainPeer | null = null;
  t.after(() => peer?.close());
  await tellStepped(
    ['own'],
    async (story) => {
      const { app, chain, servers, look, pay, detail, statuses } = story;
      const { ctx } = app.app;
      // A stranger announces blocks that nobody serves.
      const stranger = chain.copy();
      peer!.show(stranger);
      stranger.on(({ block }) => block && peer!.alter(block.hash, Buffer.alloc(200)));
      stranger.mine(5);
      const asked = () => peer!.messages.some((message) => message.command === 'getdata');
      await eventually(
        async () => {
          await look();
          return asked();
        },
        (is) => is,
      );
      const usual = await pay(chain, 99);
      chain.mine(3);
      await look(2);
      assert.deepEqual(await statuses(usual), ['completed']);
      // Operators see that these peers only bring headers.
      const { peers } = (await (await fetch(`${app.url}/readyz`)).json()) as { peers: { BTC: { purpose: string } } };
      const [told] = await readChainStatus(ctx, { coin: 'BTC' });
      assert.deepEqual([peers.BTC.purpose, told!.peers!.purpose], ['comparison', 'comparison']);
      const metrics = await (await fetch(`${app.url}/metrics`)).text();
      assert.match(metrics, /^florin_peers\{coin="BTC",purpose="comparison"\} 1$/m);
      assert.match(metrics, /^florin_peer_bytes_total\{coin="BTC",purpose="comparison",direction="in"\} \d+$/m);
      // The process that has the peers may report again in between.
      await eventually(
        async () => {
          await ctx.db.sql`update peer_status set phase = 'connecting' where chain = 'BTC'`;
          return (await readChainStatus(ctx, { coin: 'BTC' }))[0]!.troubles;
        },
        (troubles) => troubles.join() === 'the node cannot be compared with peers yet: connecting to peers',
      );

      // The node follows one branch, the network the other one.
      const fork = chain.tip().height;
      const branch = chain.copy();
      servers[0]!.show(branch);
      peer!.show(chain);
      const [lost] = await pay(branch, 999);
      const kept = await pay(chain, 99);
      branch.mine(1);
      await look(2);
      assert.deepEqual([(await detail(lost!)).status, (await detail(lost!)).confirmations], ['processing', 1]);
      chain.mine(8);
      await eventually(
        async () => {
          await look();
          return (await sourcesOf(story))[0]!;
        },
        ({ state }) => state === 'unproven',
      );
      branch.mine(3);
      await look(3);
      assert.deepEqual((await detail(lost!)).status, 'processing');
      const named = new RegExp(`is on a branch with less work than the best chain, which it left after block ${fork}`);
      assert.match(await readyz(story), named);
      assert.ok((await diagnose(ctx)).findings.some(({ ok, detail: found }) => !ok && named.test(found)));
      const health = (await readCoinHealth(ctx, { mode: 'live' })).find(({ coin }) => coin === 'BTC')!;
      assert.equal(health.chain, 'held');
      // It comes back to the chain of the network.
      servers[0]!.show(chain);
      await look(3);
      assert.deepEqual(await statuses(kept), ['completed']);
      const { status, confirmations } = await detail(lost!);
      assert.ok(confirmations === 0 && ['pending', 'processing'].includes(status), `${status}, ${confirmations}`);
    },
    {
      work: {},
      environment: { BTC_P2P: 'auto' },
      helpers: async (chain) => {
        peer = await startChainPeer(chain);
        return [peer.endpoint];
      },
    },
  );
});
