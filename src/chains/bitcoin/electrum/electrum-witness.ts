/** Which servers can tell what nobody can prove: that nothing is missing, and what is not in a block. They must know the newest block. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerError } from './electrum-connection.ts';
import type { Desk } from './electrum-desk.ts';
import type { ElectrumSession } from './electrum-servers.ts';

/** A server gets a block a moment later than we do. */
const LOOKS = 4;

/** Waits until a server is at the tip of the best chain. Errors: ServerError when it stays behind. */
export async function checkNewest({ headers, pauseMs }: Desk, session: ElectrumSession): Promise<void> {
  for (let looks = 1; ; looks++) {
    await headers.follow(session);
    const tip = headers.tip()!;
    if (session.tip().hash === tip.hash) return;
    if (looks === LOOKS) throw new ServerError('away', `is behind: it shows block ${session.tip().height} of ${tip.height}`);
    await sleep(pauseMs);
  }
}
