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
});
