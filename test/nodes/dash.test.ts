/** Live payments on a scripted Dash node with confirmations set by the operator: blocks decide, as on any other chain. */
// Invariant: A node set up with the lines of its guide works, and keeps its other users.
import { startScriptedNode } from '../kit/scripted-node.ts';
import { tellStories } from './stories.ts';

tellStories({
  coin: 'DASH',
  startNode: () => startScriptedNode('DASH'),
  price: '50.00',
  amount: 0.5,
  addresses: [{ script: 'p2pkh', path: "m/44'/1'/0'", pattern: /^y/ }],
  // Dash Core keeps the first of two transactions that spend the same coins.
  without: ['replaced by one that pays us too', 'replaced by one that pays someone else, then paid again'],
});
