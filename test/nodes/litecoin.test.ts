/** Live payments on a real Litecoin node. */
import { startLitecoind } from '../kit/nodes.ts';
import { tellStories } from './stories.ts';

tellStories({
  coin: 'LTC',
  startNode: () => startLitecoind(),
  price: '100.00',
  amount: 0.25,
  addresses: [
    { script: 'p2wpkh', path: "m/84'/1'/0'", pattern: /^rltc1q/ },
    { script: 'p2sh-p2wpkh', path: "m/49'/1'/0'", pattern: /^Q/ },
    { script: 'p2pkh', path: "m/44'/1'/0'", pattern: /^[mn]/ },
  ],
});
