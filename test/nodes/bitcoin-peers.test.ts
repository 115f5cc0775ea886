/**
 * Live payments on Bitcoin Knots as the only peer, through a proxy that keeps what is sent: the service asks nothing over RPC. The long
 * form tells every story.
 */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { type RealNode, startBitcoind } from '../kit/nodes.ts';
import { startSocksProxy } from '../kit/socks-proxy.ts';
import { tellStories } from './stories.ts';

// Invariant: Peers learn nothing that identifies a payment.
const PRIVATE = 'nothing that identifies a payment is sent to peers';
const proxy = await startSocksProxy();
after(() => proxy.close());
let knots: RealNode;

tellStories({
  coin: 'BTC',
  startNode: async () => {
    knots = await startBitcoind({ listens: true, atOnce: true });
    return knots;
  },
  reads: (node) => ({ BTC_PEERS: (node as RealNode).p2p!, P2P_PROXY: proxy.url }),
  price: '1000.00',
  amount: 0.025,
  addresses: [{ script: 'p2wpkh', path: "m/84'/1'/0'", pattern: /^bcrt1q/ }],
  only: [
    'an exact payment is seen, confirmed twice, completed',
    'replaced by one that pays us too',
    'a reorganization of 13 blocks before completion',
    'paid while the service is down',
    PRIVATE,
  ],
  more: ({ told, open, reach, mine }) => {
    told(PRIVATE, 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      await knots.pay(address, '0.025');
      await reach(id, 'processing');
      await mine(2);
      await reach(id, 'completed');
      const { scriptPubKey: script } = (await knots.rpc('validateaddress', address)) as { scriptPubKey: string };
      const sent = proxy.sent();
      assert.ok(sent.includes('getheaders') && sent.includes('getdata'));
      // The witness program of the script is the hash of the key.
      for (const secret of [Buffer.from(id), Buffer.from(address), Buffer.from(script, 'hex'), Buffer.from(script.slice(4), 'hex')])
        assert.ok(!sent.includes(secret));
      // Without their heads of 24 bytes, all messages are of these kinds.
      const commands = new Set([...sent.toString('latin1').matchAll(/\xfa\xbf\xb5\xda([a-z0-9]+)\0/g)].map(([, command]) => command));
      // A connection that lasts for two minutes is checked with a random number.
      commands.delete('ping');
      assert.deepEqual([...commands].sort(), ['getdata', 'getheaders', 'pong', 'sendheaders', 'verack', 'version']);
    });
  },
});
