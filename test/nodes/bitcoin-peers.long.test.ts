/** Live payments on Bitcoin Knots as the only peer: every story, and the service asks nothing over RPC. */
import { type RealNode, startBitcoind } from '../kit/nodes.ts';
import { tellStories } from './stories.ts';

tellStories({
  coin: 'BTC',
  startNode: () => startBitcoind({ listens: true, atOnce: true }),
  reads: (node) => ({ BTC_PEERS: (node as RealNode).p2p! }),
  price: '1000.00',
  amount: 0.025,
  addresses: [{ script: 'p2wpkh', path: "m/84'/1'/0'", pattern: /^bcrt1q/ }],
  without: [
    // The node first shows a branch with less work than the one before, which proves nothing to us.
    'a reorganization of 13 blocks after completion',
    // Peers know neither the inputs of a transaction nor its fee.
    'lookups of a transaction, of fees, of a deposit address, and an honest answer for any other',
  ],
});
