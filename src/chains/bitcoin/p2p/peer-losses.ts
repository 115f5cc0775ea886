/** Why peers were left or cannot be reached, so that operators learn why no peer stays. */
import { type Clock, MINUTE_MS } from '../../../core/clock.ts';
import { endpointName } from './peer-book.ts';
import type { PeerAddress } from './socks5.ts';

/** What was longer ago explains nothing, and no more peers than this are remembered. */
const REMEMBERED_MS = 15 * MINUTE_MS;
const MOST = 64;
/** So many peers with the same reason are not at fault themselves. */
const ALIKE = 3;

export type Losses = {
  add(endpoint: PeerAddress, reason: string): void;
  /** In words; null when no peer was lost lately. */
  explain(): string | null;
};

/** The last reason of each peer. Reasons about blocks and sizes are alike when they differ only in numbers and hashes. */
export function createLosses(clock: Clock): Losses {
  const lost = new Map<string, { reason: string; atMs: number }>();
  const kindOf = (reason: string): string => reason.replace(/[0-9a-f]{8,}|[0-9]+/g, '#');
  return {
    add: (endpoint, reason) => {
      const name = endpointName(endpoint);
      lost.delete(name);
      lost.set(name, { reason, atMs: clock.monotonicMs() });
      for (const oldest of lost.keys()) if (lost.size > MOST) lost.delete(oldest);
    },
    explain: () => {
      const nowMs = clock.monotonicMs();
      const reasons = [...lost.values()].filter(({ atMs }) => nowMs - atMs <= REMEMBERED_MS).map(({ reason }) => reason);
      const last = reasons.at(-1);
      if (last === undefined) return null;
      const alike = reasons.filter((reason) => kindOf(reason) === kindOf(last)).length;
      if (alike < ALIKE) return `the last peer was lost: ${last}`;
      return `${alike} peers were lost for the same reason: ${last}. If this does not end, check the connection and install the newest release`;
    },
  };
}
