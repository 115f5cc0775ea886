/**
 * Sending over real nodes that take different fees: what no mempool has is not sent, and the fee that is offered next gets through. On BTC
 * they are Bitcoin Knots, because neither Debian nor a registry has Bitcoin Core; on LTC they are Litecoin Core, which is Bitcoin Core 0.21.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { startApp } from '../../src/app.ts';
import { readReports } from '../../src/chain-store/chain-store.ts';
import { feesOf } from '../../src/chains/bitcoin/block-fees.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { readEndpoint } from '../../src/chains/bitcoin/p2p/peer-book.ts';
import { createPeerService, type PeerService } from '../../src/chains/bitcoin/p2p/peer-service.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { createLog } from '../../src/log.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, getSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { client, eventually, startTestApp } from '../kit/app.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { type RealNode, startBitcoind, startLitecoind } from '../kit/nodes.ts';
import { createRegtestHeaders } from '../kit/regtest-chain.ts';
import { account, beginFollowing, giveWallet, openPayment, reach } from '../kit/shop.ts';

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

/** Nodes with these lowest fees, all connected to the first, which has the coins. */
async function startNodes(lowestFees: readonly string[], start: typeof startBitcoind = startBitcoind): Promise<RealNode[]> {
  const nodes = await Promise.all(
    lowestFees.map((lowestFee, i) => start({ listens: true, atOnce: true, txindex: false, empty: i > 0, lowestFee })),
  );
  closers.push(...nodes.map(({ destroy }) => destroy));
  await join(nodes);
  return nodes;
}
async function join([first, ...others]: readonly RealNode[]): Promise<void> {
  const best = await first!.rpc('getbestblockhash');
  for (const node of others) {
    await node.rpc('addnode', first!.p2p, 'add');
    await eventually(
      () => node.rpc('getbestblockhash'),
      (hash) => hash === best,
    );
  }
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

longTest(
  'a single peer that refuses in silence is found out, and one that takes the transaction is heard on a second connection',
  async () => {
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
  },
);

const actor = { userId: '', name: 'Test', ip: '' };
for (const { coin, start } of firstOf([
  { coin: 'BTC' as const, start: startBitcoind },
  { coin: 'LTC' as const, start: startLitecoind },
]))
  test(`${coin}: a sweep, a refund and a payout that were signed before peers wanted more wait as signed, and the first raise gets all three through`, async () => {
    const nodes = await startNodes(['0.00001', '0.00001', '0.00001'], start);
    const [first, second, third] = nodes as [RealNode, RealNode, RealNode];
    const environment = {
      [`${coin}_NETWORK`]: 'regtest',
      [`${coin}_PEERS`]: nodes.map(({ p2p }) => p2p!).join(','),
      [`${coin}_CONFIRMATIONS`]: '2',
    };
    const watcher = await startTestApp(
      { ...environment, PRICES: `static:${coin}=1000.00`, LOG_LEVEL: 'fatal' },
      { roles: ['watcher', 'worker'] },
    );
    closers.push(watcher.stop);
    // The process in which people make files has no peers.
    const api = await startApp(watcher.config, { roles: ['api'], log: createLog('fatal'), starts: () => null });
    closers.push(api.stop);
    const { ctx } = api;
    const owner = { merchantId: watcher.merchant.merchantId, mode: 'live' } as const;
    const app = { ...watcher, url: api.url!, live: client(api.url!, watcher.merchant.keys.liveSecret) };
    await giveWallet(app, coin);
    await beginFollowing(app, coin);
    const destination = await first.newAddress();
    await setDestination(ctx, { ...owner, coin, address: destination, ends: destination.slice(-6), actor: null });

    /** A completed payment. */
    const receive = async (): Promise<string> => {
      const { id, address, amount } = await openPayment(app, coin, 25);
      await first.pay(address, amount);
      await first.mine(2);
      await reach(app, id, ({ status }) => status === 'completed');
      return id;
    };
    const [customer, supplier] = [await first.newAddress(), await first.newAddress()];
    const returned = await app.live.post('/v1/refunds', { payment_id: await receive(), address: customer, amount: '0.01' });
    assert.equal(returned.status, 201, returned.text);
    await approveOutgoing(ctx, { kind: 'refund', ...owner, id: returned.json.id, actor });
    const refundFile = await makeRefundFile(ctx, { ...owner, coin, speed: 'slow', actor });
    await receive();
    const asked = await app.live.post('/v1/payouts', { currency: coin, amount: '0.01', address: supplier, payout_reference: 'paper' });
    assert.equal(asked.status, 201, asked.text);
    await approveOutgoing(ctx, { kind: 'payout', ...owner, id: asked.json.id, actor });
    const payoutFile = await makePayoutFile(ctx, { ...owner, coin, speed: 'slow', actor });
    await receive();
    const sweepFile = await makeSweep(ctx, { ...owner, coin, walletId: null, wish: DEFAULT_WISH, actor });
    const files = [refundFile, payoutFile, sweepFile].map(({ sweep }) => sweep.id);
    const secret = account(coin).privateExtendedKey;
    const recipients = [customer, `${supplier} 0.01`, ''];
    const sign = async (i: number) => {
      const content = signingFileText(await readSigningFileOf(ctx, { ...owner, id: files[i]! }));
      return signFile({ content, secret, destination, recipients: recipients[i]! }).text;
    };
    const texts = [await sign(0), await sign(1), await sign(2)];

    // Now two of the three want more.
    for (const [node, lowest] of [
      [second, '0.00008'],
      [third, '0.001'],
    ] as const) {
      await node.stop();
      await node.start({ flags: [`-minrelaytxfee=${lowest}`] });
    }
    await join(nodes);
    await eventually(
      async () => (await readReports(ctx.db.sql))[0]!,
      ({ connected, feeFloor }) => connected === 3 && feeFloor !== null && feeFloor >= 8_000n,
      60_000,
    );
    for (const content of texts) await acceptSigned(ctx, { ...owner, content, actor });
    const look = async () => {
      const sweeps = await Promise.all(files.map(async (id) => (await getSweep(ctx, { ...owner, id })).sweep));
      const refund = (await app.live.get(`/v1/refunds/${returned.json.id}`)).json;
      const payout = (await app.live.get(`/v1/payouts/${asked.json.id}`)).json;
      return [
        ...sweeps.map(({ state, failure }) => ({ state, failure })),
        ...[refund, payout].map(({ status, failure }) => ({ state: status, failure })),
      ];
    };
    const WAITS = /^announced, and not seen at another peer yet; peers take fees from (8|9)(\.\d+)? sat\/vB$/;
    const waiting = await eventually(look, (all) => all.every(({ state, failure }) => state === 'sent' || failure !== null), 60_000);
    for (const { state, failure } of waiting) {
      assert.equal(state, 'signed');
      assert.match(failure!, WAITS);
    }
    const told = async () => {
      const rows = await ctx.db.sql<{ type: string }[]>`select type from events where type in ('refund.sent', 'payout.sent') order by type`;
      return rows.map(({ type }) => type);
    };
    assert.deepEqual(await told(), []);
    for (const node of [second, third]) assert.deepEqual(await node.rpc('getrawmempool'), []);

    for (const [i, id] of files.entries()) {
      await replaceSweep(ctx, { ...owner, id, speed: 'slow', actor });
      await acceptSigned(ctx, { ...owner, content: await sign(i), actor });
    }
    const sent = await eventually(look, (all) => all.every(({ state }) => state === 'sent'), 120_000);
    assert.ok(sent.every(({ failure }) => failure === null));
    assert.deepEqual(await told(), ['payout.sent', 'refund.sent']);
    const txids = await Promise.all(files.map(async (id) => (await getSweep(ctx, { ...owner, id })).transactions.at(-1)!.txid));
    for (const node of [first, second]) assert.deepEqual(((await node.rpc('getrawmempool')) as string[]).toSorted(), txids.toSorted());
    assert.deepEqual(await third.rpc('getrawmempool'), []);
  });
