/** Live payments on a real Bitcoin node. */
import { startBitcoind } from '../kit/nodes.ts';
import { tellStories } from './stories.ts';

tellStories({
  coin: 'BTC',
  startNode: startBitcoind,
  price: '1000.00',
  amount: 0.025,
  addresses: [
    { script: 'p2wpkh', path: "m/84'/1'/0'", pattern: /^bcrt1q/ },
    { script: 'p2tr', path: "m/86'/1'/0'", pattern: /^bcrt1p/ },
    { script: 'p2sh-p2wpkh', path: "m/49'/1'/0'", pattern: /^2/ },
    { script: 'p2pkh', path: "m/44'/1'/0'", pattern: /^[mn]/ },
  ],
});
