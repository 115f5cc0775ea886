/** Fees that nobody estimates: each process suggests what the one that follows the chain heard from peers and read in blocks, and nobody is asked. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { PARAMS } from '../../src/addresses/params.ts';
import { startApp } from '../../src/app.ts';
import { readReports } from '../../src/chain-store/chain-store.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { minerUnits } from '../../src/core/confirmation.ts';
import { createLog } from '../../src/log.ts';
import { type Client, client, eventually, startTestApp } from '../kit/app.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { startBitcoind } from '../kit/nodes.ts';
import { createPeerChain } from '../kit/peer-chain.ts';
import { transaction } from '../kit/regtest-chain.ts';
import { emptyChain, startScriptedPeer } from '../kit/scripted-peer.ts';
import { beginFollowing, giveWallet } from '../kit/shop.ts';

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

/** The rate of each speed. */
async function feesIn(coin: string, by: Client): Promise<object> {
  const { status, text, json } = await by.get(`/api/crypto/fees?currency=${coin}`);
  assert.equal(status, 200, text);
  return Object.fromEntries(['fast', 'normal', 'slow'].map((speed) => [speed, json.fees[speed].fee_per_byte]));
}
const suggestsIn = (coin: string, by: Client, fees: object) =>
  eventually(
    () => feesIn(coin, by),
    (found) => isDeepStrictEqual(found, fees),
  );

const SCRIPT = `6a${'00'.repeat(250)}`;
/** Twelve of them fill a block. */
const large = (): Buffer => transaction(Array.from({ length: 251 }, () => ({ script: SCRIPT, units: 0n })));
const FULL = 12;

for (const { coin, shown } of firstOf([
  { coin: 'BTC', shown: { fast: 8, normal: 7, slow: 6 } },
  { coin: 'LTC', shown: { fast: 8, normal: 7, slow: 6 } },
  { coin: 'DOGE', shown: { fast: 8_000, normal: 7_000, slow: 6_000 } },
  // Its blocks do not say what they were paid.
  { coin: 'DASH', shown: { fast: 6, normal: 6, slow: 6 } },
] as const))
  test(`${coin}: the speeds are those of full blocks and of what peers take, in each process and after a restart, without a download for them`, async () => {
    const { floorPerKilobyte: lowest } = PARAMS[coin];
    const network = peerNetwork(coin, 'regtest');
    const served = emptyChain();
    let told: bigint | null = 6n * lowest;
    const peers = await Promise.all(
      ['127.71.0.1', '127.72.0.1'].map((host) =>
        startScriptedPeer({
          ...{ network, chain: served, host },
          script: ({ command }, link) => {
            if (command === 'verack' && told !== null) link.send({ command: 'feefilter', rate: told });
            return false;
          },
        }),
      ),
    );
    closers.push(...peers.map(({ close }) => close));
    const chain = createPeerChain(coin, peers, { served });
    chain.mine(3);
    const app = await startTestApp({
      [`${coin}_NETWORK`]: 'regtest',
      [`${coin}_PEERS`]: peers.map(({ name }) => name).join(','),
    });
    closers.push(app.stop);
    await giveWallet(app, coin);
    await beginFollowing(app, coin);
    const beside = await startApp(app.config, { roles: ['api'], log: createLog('error'), starts: () => null });
    closers.push(beside.stop);

    const [together, apart] = [app.live, client(beside.url!, app.merchant.keys.liveSecret)];
    const suggest = (by: Client, fees: object) => suggestsIn(coin, by, fees);
    const flat = shown.slow;
    for (const by of [apart, together]) await suggest(by, { fast: flat, normal: flat, slow: flat });

    for (const times of [9n, 4n, 5n, 6n, 7n, 8n]) {
      const transactions = Array.from({ length: FULL }, large);
      const fees = (times * lowest * BigInt(FULL * transactions[0]!.length)) / 1_000n;
      chain.mine(1, { transactions, paidOut: minerUnits(coin, 1) + fees });
    }
    for (const by of [apart, together]) await suggest(by, shown);
    const asked = peers.flatMap(({ messages }) =>
      messages.flatMap((message) => (message.command === 'getdata' ? message.items.map(({ hash }) => hash) : [])),
    );
    assert.equal(new Set(asked).size, asked.length, 'each block is downloaded once');

    // Five blocks with room, whatever they were paid: the lowest fee is enough again.
    const dear = { transactions: [large()], paidOut: minerUnits(coin, 1) + 900n * lowest * 66n };
    for (let i = 0; i < 5; i++) chain.mine(1, dear);
    for (const by of [apart, together]) await suggest(by, { fast: flat, normal: flat, slow: flat });

    // Peers that say nothing, and blocks that were read by the process before.
    told = null;
    const reported = async () => (await readReports(beside.ctx.db.sql))[0]!;
    const { startedAt } = await reported();
    await app.app.stop();
    const again = await startApp(app.config, { roles: ['watcher'], log: createLog('error'), starts: () => null });
    closers.push(again.stop);
    await eventually(reported, (report) => report.startedAt > startedAt && report.phase === 'ready' && report.connected === 2);
    assert.deepEqual(await feesIn(coin, apart), { fast: flat, normal: flat, slow: flat });
  });

longTest('a node that never has an estimate: the speeds are those of the full blocks that were read', async () => {
  const node = await startBitcoind();
  closers.push(node.destroy);
  // Without the transactions of others it estimates nothing.
  await node.stop();
  await node.start({
    flags: [
      '-blocksonly',
      '-acceptnonstdtxn=1',
      '-limitancestorsize=1000',
      '-limitdescendantsize=1000',
      '-maxmempool=300',
      '-blockmaxsize=3990000',
      '-blockmaxweight=3990000',
    ],
  });
  const app = await startTestApp({ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest' });
  closers.push(app.stop);
  await giveWallet(app, 'BTC');
  await beginFollowing(app, 'BTC');
  await suggestsIn('BTC', app.live, { fast: 1, normal: 1, slow: 1 });
  const coins = (await node.rpc('listunspent', 1, 9_999_999, [], true, { minimumAmount: 0.4 })) as any[];
  // 1,000 sat for somebody.
  const SMALL_OUTPUT = `e803${'00'.repeat(6)}160014${'ab'.repeat(20)}`;
  const OUTPUTS = 24_000;
  const size = (OUTPUTS * SMALL_OUTPUT.length) / 2;
  for (const rate of [9, 4, 5, 6, 7, 8]) {
    const { txid, vout, amount } = coins.pop();
    const left = { [await node.newAddress()]: (amount - (rate * size + 1_000 * OUTPUTS) / 1e8).toFixed(8) };
    const draft = (await node.rpc('createrawtransaction', [{ txid, vout }], [left])) as string;
    // After the version and the input comes the number of outputs.
    const [before, own, end] = [draft.slice(0, 92), draft.slice(94, -8), draft.slice(-8)];
    const count = Buffer.from([0xfd, 0, 0]);
    count.writeUInt16LE(1 + OUTPUTS, 1);
    const full = `${before}${count.toString('hex')}${own}${SMALL_OUTPUT.repeat(OUTPUTS)}${end}`;
    const { hex } = await node.rpc('signrawtransactionwithwallet', full);
    await node.rpc('sendrawtransaction', hex);
    await node.mine(1);
  }
  const isRisen = (fees: object) => Object.values(fees)[0] > 7;
  const rates = Object.entries(await eventually(() => feesIn('BTC', app.live), isRisen));
  // The size of the transaction is not exact.
  assert.deepEqual(Object.fromEntries(rates.map(([speed, rate]) => [speed, Math.round(rate)])), { fast: 8, normal: 7, slow: 5 });
});
