/** Payments read from nodes on mainnet: several sources, failover, and what the chain-health guard holds. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Coin, chainOf } from '../../src/core/coin.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type CoreNode, startCoreNode } from '../kit/core-node.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { giveWallet, openPayment, reach, units } from '../kit/shop.ts';
import { createTestChain, type TestChain } from '../kit/test-chain.ts';

type Ready = {
  ready: boolean;
  reasons: string[];
  holds: string[];
  warnings: string[];
  followers: Record<string, { height: number; lag_seconds: number }>;
};
type Story = { app: TestApp; chain: TestChain; servers: CoreNode[]; ready(): Promise<Ready>; metrics(): Promise<string> };

/** A shop that reads one coin from servers of one chain. */
async function tell(
  {
    coin = 'BTC',
    network = 'mainnet',
    servers: count = 2,
    age = 0,
    options = [],
    environment = {},
  }: {
    coin?: Coin;
    network?: 'mainnet' | 'regtest';
    servers?: number;
    age?: number;
    options?: Parameters<typeof startCoreNode>[1][];
    environment?: Record<string, string>;
  },
  story: (told: Story) => Promise<void>,
): Promise<void> {
  const chain = createTestChain({ coin, network, age });
  const servers: CoreNode[] = [];
  for (let i = 0; i < count; i++) servers.push(await startCoreNode(chain, options[i]));
  const app = await startTestApp({
    [`${coin}_NODE_URL`]: servers.map((server) => server.url).join(', '),
    [`${coin}_NETWORK`]: network,
    [`${coin}_CONFIRMATIONS`]: '1',
    ...environment,
  });
  const ready = async () => (await (await fetch(`${app.url}/readyz`)).json()) as Ready;
  try {
    await giveWallet(app, coin);
    await eventually(ready, (state) => state.followers[coin] !== undefined);
    await story({ app, chain, servers, ready, metrics: async () => (await fetch(`${app.url}/metrics`)).text() });
  } finally {
    await app.stop();
    for (const server of servers) await server.close();
  }
}
const held = (reason: RegExp) => (d: any) => d.status === 'processing' && d.confirmations >= 1 && reason.test(d.hold_reason ?? '');
const completed = (d: any) => d.status === 'completed';
/** Opens a payment, pays it and mines it. */
async function payAndMine({ app, chain }: Story, options?: Parameters<TestChain['mine']>[1]): Promise<string> {
  const { id, address, amount } = await openPayment(app, chain.coin, 50);
  chain.pay([[address, units(amount)]]);
  chain.mine(1, options);
  return id;
}
/** Whether a payment stays held for several looks of the watcher. */
async function staysHeld({ app }: Story, id: string): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 2.5 * chainOf('BTC').pollSeconds * 1000));
  assert.equal((await app.live.get(`/api/payment/${id}`)).json.status, 'processing');
}

// Each story has its own shop, chain and servers, and mostly waits for the source's next turn.
describe('payments read from nodes', { concurrency: 3 }, () => {
  for (const coin of firstOf(['BTC', 'LTC', 'DASH', 'DOGE'] as const)) {
    test(`${coin}: a payment is seen waiting, mined and completed`, () =>
      tell({ coin, servers: 1 }, async ({ app, chain, ready }) => {
        const { id, address, amount } = await openPayment(app, coin, 50);
        const txid = chain.pay([[address, units(amount)]]);
        const seen = await reach(app, id, (d) => d.status === 'processing');
        assert.deepEqual([seen.transaction_hash, seen.confirmations, seen.hold_reason], [txid, 0, null]);
        const [block] = chain.mine();
        const done = await reach(app, id, completed);
        assert.deepEqual([done.amount_received, done.transfers[0].block_hash], [amount, block!.hash]);
        assert.deepEqual((await ready()).holds, []);
      }));
  }

  test('two sources that agree hold nothing', () =>
    tell({}, async (story) => {
      const id = await payAndMine(story);
      assert.equal((await reach(story.app, id, completed)).hold_reason, null);
      const text = await story.metrics();
      assert.match(text, /florin_chain_held\{coin="BTC"\} 0/);
      assert.equal([...text.matchAll(/florin_chain_source_up\{coin="BTC",source="127\.0\.0\.1:\d+"\} 1/g)].length, 2);
      assert.deepEqual((await story.ready()).holds, []);
    }));

  test('a source on another branch holds completion until both agree; the reason is on the payment, in readyz and in metrics', () =>
    tell({}, async (story) => {
      const { app, chain, servers, ready, metrics } = story;
      // The same chain, except for the last three blocks.
      const lying = chain.copy();
      lying.rewind(3, { forget: true });
      lying.mine(3, { empty: true });
      servers[1]!.show(lying);
      await eventually(ready, (state) => state.holds.length > 0, 30_000);
      const id = await payAndMine(story);
      const reason = /the sources of this chain differ by more than 2 blocks/;
      const detail = await reach(app, id, held(reason));
      assert.ok(detail.confirmations >= detail.confirmations_required);
      await staysHeld(story, id);
      const state = await ready();
      assert.match(state.holds.join(), /^BTC: the sources of this chain differ/);
      assert.equal(state.ready, true, 'payments are still created and seen');
      assert.match(await metrics(), /florin_chain_held\{coin="BTC"\} 1/);
      assert.match(await metrics(), /florin_chain_unhealthy\{coin="BTC",reason="disagreement"\} 1/);
      servers[1]!.show(chain);
      const done = await reach(app, id, completed, 30_000);
      assert.equal(done.hold_reason, null);
      await eventually(ready, ({ holds }) => holds.length === 0);
    }));

  test('a source two blocks behind still agrees, three blocks behind does not; a payment waits until it has the block', () =>
    tell({}, async (story) => {
      const { app, chain, servers, ready } = story;
      const behind = chain.copy();
      servers[1]!.show(behind);
      chain.mine(2);
      const id = await (async () => {
        const { id: opened, address, amount } = await openPayment(app, 'BTC', 50);
        chain.pay([[address, units(amount)]]);
        return opened;
      })();
      await reach(app, id, (d) => d.status === 'processing');
      assert.deepEqual((await ready()).holds, []);
      chain.mine(1);
      await reach(app, id, held(/differ by more than 2 blocks/));
      // The other source reads one of the blocks that it lacks.
      const closer = chain.copy();
      closer.blocks.splice(closer.blocks.length - 2);
      servers[1]!.show(closer);
      await reach(app, id, held(/not agreed on block 32 yet/));
      assert.deepEqual((await ready()).holds, [], 'other payments are not held');
      servers[1]!.show(chain);
      await reach(app, id, completed);
    }));

  test('while another source has more blocks than the followed one, nothing counts as scanned, so that nothing expires', () =>
    // Of a node that says how many peers it has, nothing counts in its first minute.
    tell({ options: [{ connections: null }] }, async ({ chain, servers, ready, app }) => {
      const stuck = chain.copy();
      servers[0]!.show(stuck);
      chain.mine(3);
      await eventually(ready, (state) => state.holds.length > 0, 30_000);
      const state = await eventually(ready, (now) => now.followers.BTC!.lag_seconds >= 8, 30_000);
      assert.equal(state.followers.BTC!.height, stuck.tip().height);
      const { id, address, amount } = await openPayment(app, 'BTC', 50);
      chain.pay([[address, units(amount)]]);
      chain.mine();
      servers[0]!.show(chain);
      await reach(app, id, completed, 30_000);
      await eventually(ready, (now) => now.followers.BTC!.lag_seconds < 5);
    }));

  // Invariant: On mainnet nothing completes while the sources of a coin disagree or its chain is unhealthy.
  test('a source that lies at the tip it is read from completes nothing that the other has not seen', () =>
    tell({}, async (story) => {
      const { app, chain, servers } = story;
      const { id, address, amount } = await openPayment(app, 'BTC', 50);
      // Ten blocks at once, with the payment in the first.
      const lying = chain.copy();
      lying.pay([[address, units(amount)]]);
      lying.mine(10);
      servers[0]!.show(lying);
      await reach(app, id, held(/differ by more than 2 blocks|not agreed on block/));
      await staysHeld(story, id);
    }));

  longTest('one or two blocks that the followed source adds to the honest tip complete nothing that the other has not seen', () =>
    tell({ environment: { BTC_CONFIRMATIONS: '' } }, async (story) => {
      const { app, chain, servers } = story;
      const lying = chain.copy();
      servers[0]!.show(lying);
      const ids: string[] = [];
      for (const dollars of [999, 99]) {
        const { id, address, amount } = await openPayment(app, 'BTC', dollars);
        lying.pay([[address, units(amount)]]);
        lying.mine();
        ids.push(id);
      }
      // Confirmed as far as the lying source shows.
      await reach(app, ids[0]!, (d) => d.confirmations === 2);
      for (const id of ids) await reach(app, id, held(/not agreed on block/));
      for (const id of ids) await staysHeld(story, id);
    }),
  );

  longTest('while your own node is away for a moment, another source alone completes no large payment', () =>
    tell({ environment: { BTC_TRUST: 'own,untrusted' } }, async (story) => {
      const { app, chain, servers } = story;
      const lying = chain.copy();
      servers[1]!.show(lying);
      servers[0]!.behave('down');
      const { id, address, amount } = await openPayment(app, 'BTC', 50_000);
      lying.pay([[address, units(amount)]]);
      lying.mine(6);
      await reach(app, id, (d) => d.confirmations === 6);
      await reach(app, id, held(/your own node is not available/));
      await staysHeld(story, id);
    }),
  );

  // Invariant: Sources must agree on a block: a different block at the same height completes nothing.
  test('a source that names the tip of the other, but hands out other blocks below it, completes nothing', () =>
    tell({}, async (story) => {
      const { app, chain, servers } = story;
      const { id, address, amount } = await openPayment(app, 'BTC', 50);
      const [honest, lying] = [chain.copy(), chain.copy()];
      honest.mine(2);
      lying.pay([[address, units(amount)]]);
      lying.mine();
      servers[0]!.nameTipOf(honest);
      servers[0]!.show(lying);
      servers[1]!.show(honest);
      await reach(app, id, held(/not agreed on block 30/));
      const asked = servers[0]!.calls.length;
      await staysHeld(story, id);
      assert.ok(servers[0]!.calls.length - asked < 100, 'it is not asked without a pause');
    }));

  test('a source that is down or syncing has no vote', () =>
    tell({ options: [{}, { ahead: 50 }] }, async (story) => {
      const { app, servers, ready, metrics } = story;
      await reach(app, await payAndMine(story), completed);
      assert.match((await ready()).warnings.join(), /BTC: 1 of 2 sources have no vote/);
      servers[1]!.behave('down');
      await reach(app, await payAndMine(story), completed);
      assert.match(await metrics(), /florin_chain_source_up\{coin="BTC",source="127\.0\.0\.1:\d+"\} 0/);
      assert.deepEqual((await ready()).holds, []);
    }));

  test('the next source takes over while a payment waits, and the first one takes over again when it works', () =>
    tell({}, async (story) => {
      const { app, chain, servers } = story;
      const { id, address, amount } = await openPayment(app, 'BTC', 50);
      const txid = chain.pay([[address, units(amount)]]);
      await reach(app, id, (d) => d.status === 'processing');
      servers[0]!.behave('down');
      const asked = servers[1]!.calls.length;
      // Longer than it takes to treat a missing transfer as missing.
      await new Promise((resolve) => setTimeout(resolve, 4 * chainOf('BTC').pollSeconds * 1000));
      const waiting = (await app.live.get(`/api/payment/${id}`)).json;
      assert.deepEqual([waiting.status, waiting.transaction_hash, waiting.exceptions], ['processing', txid, []]);
      chain.mine();
      const done = await reach(app, id, completed);
      assert.equal(done.transaction_hash, txid);
      assert.ok(servers[1]!.calls.slice(asked).includes('getblock'), 'the second one handed out the block');
      servers[0]!.behave('well');
      const before = servers[0]!.calls.length;
      // A source that failed while it was read is left out for a minute.
      await eventually(
        async () => {
          await reach(app, await payAndMine(story), completed);
          return servers[0]!.calls.slice(before).includes('getblock');
        },
        (read) => read,
      );
    }));

  // Invariant: Switching to another source does not undo anything.
  test('a source that takes over without the newest blocks undoes nothing', () =>
    tell({}, async (story) => {
      const { app, chain, servers } = story;
      const behind = chain.copy();
      const id = await payAndMine(story);
      const done = await reach(app, id, completed);
      servers[1]!.show(behind);
      servers[0]!.behave('down');
      await new Promise((resolve) => setTimeout(resolve, 3 * chainOf('BTC').pollSeconds * 1000));
      const after = (await app.live.get(`/api/payment/${id}`)).json;
      assert.deepEqual([after.confirmations, after.transfers[0].block_hash], [1, done.transfers[0].block_hash]);
      servers[1]!.show(chain);
      chain.mine();
      await reach(app, id, (d) => d.confirmations === 2);
    }));

  test('a deep reorganization holds completion until the chain is calm again', () =>
    tell({ servers: 1 }, async (story) => {
      const { app, chain, ready } = story;
      chain.mine(3);
      const before = chain.tip().height;
      await eventually(ready, (state) => state.followers.BTC!.height === before);
      const { id, address, amount } = await openPayment(app, 'BTC', 50);
      chain.rewind(3);
      chain.pay([[address, units(amount)]]);
      chain.mine(4);
      const detail = await reach(app, id, held(/a reorganization of 3 blocks was seen/));
      assert.match(detail.hold_reason, new RegExp(`waits for block ${before + 6}`));
      await staysHeld(story, id);
      chain.mine(before + 5 - chain.tip().height);
      await reach(app, id, (d) => d.confirmations === 8 && d.status === 'processing');
      chain.mine();
      await reach(app, id, completed);
    }));

  longTest('a reorganization of two blocks holds nothing', () =>
    tell({ servers: 1 }, async (story) => {
      const { app, chain, ready } = story;
      chain.mine(2);
      await eventually(ready, (state) => state.followers.BTC!.height === chain.tip().height);
      chain.rewind(2);
      const { id, address, amount } = await openPayment(app, 'BTC', 50);
      chain.pay([[address, units(amount)]]);
      chain.mine(3);
      assert.equal((await reach(app, id, completed)).hold_reason, null);
    }),
  );

  test('a stalled tip holds until the next block', () =>
    tell({ servers: 1, age: 7_200 }, async (story) => {
      const { app, chain, ready, metrics } = story;
      const id = await payAndMine(story, { times: [Math.floor(Date.now() / 1000) - 3_700] });
      await reach(app, id, held(/the last block is 62 min old/));
      assert.match((await ready()).holds.join(), /BTC: the last block is 62 min old/);
      assert.match(await metrics(), /florin_chain_unhealthy\{coin="BTC",reason="stalled"\} 1/);
      chain.mine();
      await reach(app, id, completed);
    }));

  test('blocks that take more than four times as long as usual hold until they come as usual', () =>
    tell({ servers: 1, age: 13 * 2_402 }, async (story) => {
      const { app, chain, ready } = story;
      const now = Math.floor(Date.now() / 1000);
      chain.mine(12, { times: Array.from({ length: 12 }, (_, i) => now - (12 - i) * 2_402) });
      await eventually(ready, (state) => state.followers.BTC!.height === chain.tip().height);
      const id = await payAndMine(story, { times: [now] });
      await reach(app, id, held(/the last 12 blocks took 40 min each, 10 min are usual/));
      chain.mine(12);
      await reach(app, id, completed);
    }));

  test('a node older than the known-safe version holds', () =>
    tell({ servers: 1, options: [{ version: 240001 }] }, async (story) => {
      const id = await payAndMine(story);
      await reach(story.app, id, held(/older than version 250000/));
      assert.match(await story.metrics(), /florin_chain_unhealthy\{coin="BTC",reason="old_version"\} 1/);
      await staysHeld(story, id);
    }));

  test('off mainnet everything is reported and nothing is held', () =>
    tell({ network: 'regtest', age: 9_000, options: [{ version: 240001 }] }, async (story) => {
      const { app, chain, servers, ready, metrics } = story;
      const lying = chain.copy();
      lying.rewind(5, { forget: true });
      lying.mine(5, { empty: true, times: Array(5).fill(Math.floor(Date.now() / 1000) - 8_000) });
      servers[1]!.show(lying);
      const id = await payAndMine(story, { times: [Math.floor(Date.now() / 1000) - 8_000] });
      assert.equal((await reach(app, id, completed)).hold_reason, null);
      const state = await eventually(ready, ({ warnings }) => warnings.length >= 3);
      assert.deepEqual([state.holds, state.ready], [[], true]);
      for (const reason of [/differ by more than 2/, /the last block is/, /older than version/])
        assert.match(state.warnings.join(), reason);
      assert.match(await metrics(), /florin_chain_held\{coin="BTC"\} 0/);
    }));
});
