/** A service that was stopped for 30 days reads every block that it missed. */
import { after, test } from 'node:test';
import { closeAll, tellAway } from './peer-stories.ts';

after(closeAll);

test('30 days of blocks are all read, and the payment in one of them is found', () =>
  tellAway({ blocks: 4_320, paidAfter: 2_000, heldAt: 3_000, progress: 'reading missed blocks 69%, 1,321 left', timeoutMs: 600_000 }));
