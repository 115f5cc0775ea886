/** Connections to real nodes as peers: handshake, headers, blocks without witness, and transactions as they are announced. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { parseBlock } from '../../src/chains/bitcoin/block-proof.ts';
import type { Inventory, WireHeader } from '../../src/chains/bitcoin/p2p/messages.ts';
import { connectPeer, PEER_LIMITS, type Peer, type PeerHandlers, peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { parseTransaction, txidOf } from '../../src/chains/bitcoin/raw-block.ts';
import { sha256d } from '../../src/chains/bitcoin/strict-reader.ts';
import { eventually } from '../kit/app.ts';
import { type RealNode, startBitcoind, startLitecoind } from '../kit/nodes.ts';

const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
const hashOf = (header: Buffer): string => Buffer.from(sha256d(header)).reverse().toString('hex');

for (const { coin, start } of [
  { coin: 'BTC' as const, start: startBitcoind },
  { coin: 'LTC' as const, start: startLitecoind },
]) {
  describe(`a real ${coin} node as a peer`, () => {
    let node: RealNode;
    let peer: Peer;
    const heard = { headers: [] as WireHeader[], items: [] as Inventory[], transactions: new Map<string, Buffer>() };
    const handlers: PeerHandlers = {
      onHeaders: (_, headers) => heard.headers.push(...headers),
      onItems: (_, items) => heard.items.push(...items),
      onTransaction: (_, { txid, bytes }) => heard.transactions.set(txid, bytes),
      onAddresses: () => {},
      onClose: () => {},
    };
    before(async () => {
      // It announces to other peers after random pauses of up to half a minute.
      node = await start({ listens: true, atOnce: true, txindex: false });
      const [host, port] = node.p2p!.split(':');
      peer = await connectPeer({
        endpoint: { host: host!, port: Number(port) },
        network: peerNetwork(coin, 'regtest'),
        wantsTransactions: true,
        handlers,
        clock,
        limits: PEER_LIMITS,
      });
    });
    after(async () => {
      peer?.close('the test is over');
      await node?.destroy();
    });

    test('all its headers come after the genesis block, and none after the last', async () => {
      const genesis = (await node.rpc('getblockhash', 0)) as string;
      const headers = await peer.readHeaders([genesis]);
      const count = (await node.rpc('getblockcount')) as number;
      assert.equal(headers.length, count);
      const tip = hashOf(headers.at(-1)!.bytes);
      assert.equal(tip, await node.rpc('getbestblockhash'));
      assert.deepEqual(await peer.readHeaders([tip, genesis]), []);
      assert.ok(Math.abs(peer.clockAheadSeconds) < 60);
    });

    test('a block comes without witness, and has the transactions of its header', async () => {
      const hash = (await node.rpc('getbestblockhash')) as string;
      const header = Buffer.from(await node.rpc('getblockheader', hash, false), 'hex');
      const bytes = await peer.readBlock({ hash, header });
      const full = (await node.rpc('getblock', hash, 1)) as { tx: string[]; size: number; strippedsize: number };
      assert.equal(bytes.length, full.strippedsize);
      assert.ok(bytes.length < full.size);
      const block = parseBlock(bytes, coin);
      assert.equal(block.hash, hash);
      assert.deepEqual(block.transactions.map(txidOf), full.tx);
    });

    test('a payment is announced, and sent when it is asked for', async () => {
      const txid = await node.pay(await node.newAddress(), '0.1');
      await eventually(
        async () => heard.items.some(({ type, hash }) => type === 1 && hash === txid),
        (announced) => announced,
      );
      peer.askTransactions([txid]);
      await eventually(
        async () => heard.transactions.has(txid),
        (sent) => sent,
      );
      assert.equal(txidOf(parseTransaction(heard.transactions.get(txid)!, coin)), txid);
    });

    test('a new block is announced with its header or its hash', async () => {
      const [hash] = await node.mine(1);
      await eventually(
        async () => heard.headers.some(({ bytes }) => hashOf(bytes) === hash) || heard.items.some((item) => item.hash === hash),
        (announced) => announced,
      );
    });

    test('an unknown block gets no answer, and the connection stays', async () => {
      const asked = peer.readBlock({ hash: 'ab'.repeat(32), header: Buffer.alloc(80, 1) }).catch((error: Error) => error.message);
      const genesis = (await node.rpc('getblockhash', 0)) as string;
      assert.ok((await peer.readHeaders([genesis])).length > 100);
      assert.equal(peer.closed(), null);
      peer.close('the test is over');
      assert.equal(await asked, 'the test is over');
    });
  });
}
