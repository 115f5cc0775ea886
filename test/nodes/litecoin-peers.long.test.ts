/** Live payments on Litecoin Core as the only peer: every story, and the service asks nothing over RPC. */
import { type RealNode, startLitecoind } from '../kit/nodes.ts';
import { tellStories } from './stories.ts';

tellStories({
  coin: 'LTC',
  startNode: () => startLitecoind({ listens: true, atOnce: true }),
  reads: (node) => ({ LTC_PEERS: (node as RealNode).p2p! }),
  price: '100.00',
  amount: 0.25,
  addresses: [{ script: 'p2wpkh', path: "m/84'/1'/0'", pattern: /^rltc1q/ }],
  without: [
    // The node first shows a branch with less work than the one before, which proves nothing to us.
    'a reorganization of 13 blocks after completion',
    // Peers know neither the inputs of a transaction nor its fee.
    'lookups of a transaction, of fees, of a deposit address, and an honest answer for any other',
  ],
});
