/**
 * Peers as a second opinion beside a node (`BTC_P2P=on`), at a difficulty that a test can mine: both agree, the node lies, the peers lie,
 * or the peers are away. The test steps the follower and its guard.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { type ChainPeer, startChainPeer } from '../kit/chain-peer.ts';
import { firstOf } from '../kit/long.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';
import type { TestChain } from '../kit/test-chain.ts';

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers) await close();
});

type Source = { name: string; state: string; reason: string | null; height: number | null };
type Told = SteppedShop & {
  peers: ChainPeer[];
  sources(): Promise<{ node: Source; others: Source }>;
  readyz(): Promise<string>;
  /** Looks until the peers show this block of the chain. */
  untilPeersAt(height: number): Promise<void>;
};
function tell(story: (told: Told) => Promise<void>): Promise<void> {
  const peers: ChainPeer[] = [];
  return tellStepped(
    ['own'],
    async (shop) => {
      const { app, look } = shop;
      const sources = async () => {
        const [row] = await app.app.ctx.db.sql<{ sources: Source[] }[]>`select sources from chain_guard where chain = 'BTC'`;
        const others = row!.sources.find(({ name }) => name === 'peers')!;
        return { node: row!.sources.find((one) => one !== others)!, others };
      };
      const untilPeersAt = async (height: number): Promise<void> => {
        await eventually(
          async () => {
            await look();
            return (await sources()).others;
          },
          (others) => others.state === 'ok' && others.height === height,
        );
      };
      const readyz = async (): Promise<string> => {
        const { reasons, holds, warnings } = (await (await fetch(`${app.url}/readyz`)).json()) as Record<string, string[]>;
        return [reasons, holds, warnings].flat().join('\n');
      };
      await untilPeersAt(shop.chain.tip().height);
      await story({ ...shop, peers, sources, readyz, untilPeersAt });
    },
    {
      work: {},
      peers: async (chain) => {
        for (let i = 0; i < 2; i++) peers.push(await startChainPeer(chain));
        for (const { close } of peers) closers.push(close);
        return peers.map(({ endpoint }) => endpoint);
      },
    },
  );
}

test('a node and peers that agree complete payments of any amount', () =>
  tell(async ({ chain, look, pay, detail, statuses, sources, untilPeersAt }) => {
    const ids = await pay(chain, 99, 50_000);
    chain.mine(6);
    await untilPeersAt(chain.tip().height);
    await look(2);
    assert.deepEqual(await statuses(ids), ['completed', 'completed']);
    assert.equal((await detail(ids[1]!)).verified_by, 'proof_of_work');
    const { node, others } = await sources();
    assert.deepEqual([node.state, others.state], ['ok', 'ok']);
  }));

const LIES: readonly { name: string; forge(chain: TestChain): TestChain; reason: RegExp }[] = [
  { name: 'blocks without work', forge: (chain) => chain.copy({ work: 'failed' }), reason: /does not have the work/ },
  {
    name: 'a branch of its own with real work, but less',
    forge: (chain) => {
      const branch = chain.copy();
      branch.rewind(12, { forget: true });
      return branch;
    },
    reason: /branch with less work/,
  },
];
for (const { name, forge, reason } of firstOf(LIES))
  test(`a node that shows ${name} is named, and payments complete by what the peers show, up to the amount that needs two sources`, () =>
    tell(async (told) => {
      const { chain, servers, look, pay, statuses, sources, readyz, untilPeersAt } = told;
      const lying = forge(chain);
      servers[0]!.show(lying);
      const forged = await pay(lying, 99, 50_000);
      lying.mine(8);
      await look(2);
      const { node, others } = await sources();
      assert.deepEqual([node.state, others.state], ['unproven', 'ok']);
      assert.match(node.reason!, reason);
      assert.match(await readyz(), reason);
      const honest = await pay(chain, 99, 50_000);
      chain.mine(8);
      await untilPeersAt(chain.tip().height);
      await look(2);
      assert.deepEqual(await statuses([...forged, ...honest]), ['pending', 'pending', 'completed', 'processing']);
      assert.match(await readyz(), /payments above 1,000 USD wait: they need two sources/);
      servers[0]!.show(chain);
      await look(2);
      assert.deepEqual(await statuses([...forged, ...honest]), ['pending', 'pending', 'completed', 'completed']);
    }));

test('a node that withholds the newest blocks is behind: what the peers show completes', () =>
  tell(async ({ chain, servers, look, pay, statuses, sources, untilPeersAt }) => {
    servers[0]!.show(chain.copy());
    const ids = await pay(chain, 99);
    chain.mine(8);
    await untilPeersAt(chain.tip().height);
    await look(2);
    const { node } = await sources();
    assert.equal(node.state, 'behind');
    assert.match(node.reason!, /8 blocks behind the chain with the most work/);
    assert.deepEqual(await statuses(ids), ['completed']);
  }));

test('peers that show blocks without work change nothing: the node completes small payments, and large ones wait for honest peers', () =>
  tell(async (told) => {
    const { chain, peers, look, pay, statuses, sources, readyz, untilPeersAt } = told;
    const lying = chain.copy({ work: 'failed' });
    for (const peer of peers) peer.show(lying);
    const forged = await pay(lying, 99);
    lying.mine(8);
    const honest = await pay(chain, 99, 50_000);
    chain.mine(8);
    const { others } = await eventually(
      async () => {
        await look();
        return sources();
      },
      ({ others: { state, reason } }) => state !== 'ok' && /^no peer is connected/.test(reason ?? ''),
    );
    assert.match(others.reason!, /; the last peer was lost: block \d+ does not have the work that its bits claim$/);
    await look(2);
    assert.deepEqual(await statuses([...forged, ...honest]), ['pending', 'completed', 'processing']);
    const said = await readyz();
    assert.match(said, /payments above 1,000 USD wait: they need two sources/);
    assert.match(said, /BTC: 1 of 2 sources have no vote/);
    for (const peer of peers) peer.show(chain);
    await untilPeersAt(chain.tip().height);
    await look(2);
    assert.deepEqual(await statuses([...forged, ...honest]), ['pending', 'completed', 'completed']);
  }));

test('peers that serve changed blocks are not read, and nothing completes by them while the node is away', () =>
  tell(async ({ chain, servers, peers, look, pay, statuses, untilPeersAt }) => {
    servers[0]!.behave('down');
    const lying = chain.copy();
    const forged = await pay(lying, 99);
    const ids = await pay(chain, 99);
    chain.mine(1);
    // Real headers, and in their place blocks that pay somebody else.
    lying.mine(1);
    for (const peer of peers) peer.alter(chain.tip().hash, Buffer.concat([chain.tip().raw.subarray(0, 80), lying.tip().raw.subarray(80)]));
    chain.mine(2);
    await eventually(
      async () => {
        await look();
        return peers.map(({ links }) => links.size);
      },
      (links) => links.every((open) => open === 0),
    );
    assert.deepEqual(await statuses([...forged, ...ids]), ['pending', 'pending']);
    for (const peer of peers) peer.show(chain);
    await untilPeersAt(chain.tip().height);
    await eventually(
      async () => {
        await look();
        return statuses(ids);
      },
      ([status]) => status === 'completed',
    );
    assert.deepEqual(await statuses(forged), ['pending']);
  }));
