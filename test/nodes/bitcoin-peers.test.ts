/** Live payments on Bitcoin Knots as the only peer: the service asks nothing over RPC. The long form tells every story. */
import { type RealNode, startBitcoind } from '../kit/nodes.ts';
import { tellStories } from './stories.ts';

tellStories({
  coin: 'BTC',
  startNode: () => startBitcoind({ listens: true, atOnce: true }),
  reads: (node) => ({ BTC_PEERS: (node as RealNode).p2p! }),
  price: '1000.00',
  amount: 0.025,
  addresses: [{ script: 'p2wpkh', path: "m/84'/1'/0'", pattern: /^bcrt1q/ }],
  only: [
    'an exact payment is seen, confirmed twice, completed',
    'replaced by one that pays us too',
    'a reorganization of 13 blocks before completion',
    'paid while the service is down',
  ],
});
