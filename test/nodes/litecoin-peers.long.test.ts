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
});
