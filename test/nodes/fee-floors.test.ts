/** Sending over real nodes that take different fees: what no mempool has is not sent, and the fee that is offered next gets through. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { feesOf } from '../../src/chains/bitcoin/block-fees.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { readEndpoint } from '../../src/chains/bitcoin/p2p/peer-book.ts';
import { createPeerService, type PeerService } from '../../src/chains/bitcoin/p2p/peer-service.ts';
import { eventually } from '../kit/app.ts';
import { type RealNode, startBitcoind } from '../kit/nodes.ts';
import { createRegtestHeaders } from '../kit/regtest-chain.ts';

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

/** Nodes with these lowest fees, all connected to the first, which has the coins. */
async function startNodes(lowestFees: readonly string[]): Promise<RealNode[]> {
  const nodes = await Promise.all(
    lowestFees.map((lowestFee, i) => startBitcoind({ listens: true, atOnce: true, txindex: false, empty: i > 0, lowestFee })),
  );
  closers.push(...nodes.map(({ destroy }) => destroy));
  const [first, ...others] = nodes as [RealNode, ...RealNode[]];
  const best = await first.rpc('getbestblockhash');
  for (const node of others) {
    await node.rpc('addnode', first.p2p, 'add');
    await eventually(
      () => node.rpc('getbestblockhash'),
      (hash) => hash === best,
    );
  }
  return nodes;
}

async function connect(nodes: readonly RealNode[]): Promise<PeerService> {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: (fields: object) => assert.fail(JSON.stringify(fields)) };
  const service = createPeerService({
    ...{ network: peerNetwork('BTC', 'regtest'), view: createRegtestHeaders(), spacingSeconds: 600 },
    given: nodes.map(({ p2p }) => readEndpoint(p2p!)!),
    seenMs: 1_000,
    store: { load: async () => ({ anchors: [], proven: [] }), save: async () => {} },
    ...{ resolve: async () => [], clock: { now: () => new Date(), monotonicMs: () => performance.now() }, log: silent, onHint: () => {} },
  });
  closers.push(service.close);
  await service.start();
  await eventually(
    async () => service.status().connected,
    (connected) => connected === nodes.length,
  );
  return service;
}

/** A transaction of the first node's wallet that its node did not see, with this fee in sat for each virtual byte. */
async function sign(node: RealNode, coin: { txid: string; vout: number }, feeRate: number): Promise<{ txid: string; bytes: Buffer }> {
  const inputs = [{ ...coin, sequence: 0xfffffffd }];
  const draft = await node.rpc('createrawtransaction', inputs, [{ [await node.newAddress()]: '0.01' }]);
  const options = { fee_rate: feeRate, add_inputs: false, changePosition: 1 };
  const funded = await node.rpc('fundrawtransaction', draft, options);
  const { hex } = await node.rpc('signrawtransactionwithwallet', funded.hex);
  const { txid } = await node.rpc('decoderawtransaction', hex);
  return { txid, bytes: Buffer.from(hex, 'hex') };
}
const has = async (node: RealNode, txid: string): Promise<boolean> => ((await node.rpc('getrawmempool')) as string[]).includes(txid);
const unseen = (lowest: RegExp) => (error: Error) => {
  assert.match(error.message, /^announced, and not seen at another peer yet; peers take fees from /);
  assert.match(error.message, lowest);
  return true;
};

test('peers that take 1, 8 and 100 sat/vB: nothing is sent that peers refuse in silence, and the fee that is offered next gets through', async () => {
  const nodes = await startNodes(['0.00001', '0.00008', '0.001']);
  const [first, second, third] = nodes as [RealNode, RealNode, RealNode];
  const service = await connect(nodes);
  const floor = await eventually(
    async () => service.sender.floor() ?? 0n,
    (told) => told >= 8_000n && told < 10_000n,
  );
  const [coin] = (await first.rpc('listunspent', 1, 9_999_999, [], true, { minimumAmount: 1 })) as { txid: string; vout: number }[];
  const spend = { txid: coin!.txid, vout: coin!.vout };
  for (const [rate, taker] of [
    [0.5, false],
    [2, true],
  ] as const) {
    const low = await sign(first, spend, rate);
    await assert.rejects(service.sender.send(low), unseen(/from (8|9)(\.\d+)? sat\/vB$/));
    assert.equal(service.sender.isOut(low.txid), false, `${rate} sat/vB`);
    if (taker)
      await eventually(
        () => has(first, low.txid),
        (isTaken) => isTaken,
      );
    assert.deepEqual([await has(first, low.txid), await has(second, low.txid), await has(third, low.txid)], [taker, false, false]);
    assert.equal(service.sender.isOut(low.txid), false, 'what one peer keeps to itself is not on its way');
  }
  const [offered] = feesOf('BTC', { told: floor });
  const raised = await sign(first, spend, Number(offered!.rateE8 / 100_000n) / 1_000);
  const sending = service.sender.send(raised).catch(() => {});
  await eventually(
    async () => service.sender.isOut(raised.txid),
    (isOut) => isOut,
    60_000,
  );
  await sending;
  assert.deepEqual([await has(first, raised.txid), await has(second, raised.txid), await has(third, raised.txid)], [true, true, false]);
  await service.sender.send(raised);
});

test('a single peer that refuses in silence is found out, and one that takes the transaction is heard on a second connection', async () => {
  const nodes = await startNodes(['0.00008']);
  const [node] = nodes as [RealNode];
  const service = await connect(nodes);
  const [coin] = (await node.rpc('listunspent', 1, 9_999_999, [], true, { minimumAmount: 1 })) as { txid: string; vout: number }[];
  const spend = { txid: coin!.txid, vout: coin!.vout };
  const low = await sign(node, spend, 2);
  await assert.rejects(service.sender.send(low), unseen(/./));
  assert.deepEqual([service.sender.isOut(low.txid), await has(node, low.txid)], [false, false]);
  const enough = await sign(node, spend, 10);
  const sending = service.sender.send(enough).catch(() => {});
  await eventually(
    async () => service.sender.isOut(enough.txid),
    (isOut) => isOut,
    60_000,
  );
  await sending;
  assert.equal(await has(node, enough.txid), true);
});
