/**
 * What the follower sees of unconfirmed transactions when peers are the only source. Nobody can list the mempool of a peer, so a transaction
 * counts as waiting until another one that spends the same output is announced, or for three days.
 */
import { type Clock, DAY_MS, MINUTE_MS } from '../../../core/clock.ts';
import type { BitcoinFamily } from '../../../core/coin.ts';
import type { ChainSource, MempoolScan } from '../../chain.ts';
import { matchInTurns, parseTransaction, type RawTransaction } from '../raw-block.ts';
import type { Relay, RelayedTransaction } from './relay.ts';

/** Nodes drop what is not mined for days, or replace it, and peers could announce what was never valid. Neither is announced. */
const BELIEVED_MS = 3 * DAY_MS;
/** Outputs that transactions of ours spend, and transactions that were replaced. */
const MAX_REMEMBERED = 20_000;

const cut = (remembered: Map<string, string> | Set<string>): void => {
  for (const oldest of remembered.keys()) {
    if (remembered.size <= MAX_REMEMBERED) return;
    remembered.delete(oldest);
  }
};
/** Leaves out transactions that cannot be read: they cannot pay anyone. */
function parse(relayed: readonly RelayedTransaction[], family: BitcoinFamily): RawTransaction[] {
  return relayed.flatMap(({ bytes }) => {
    try {
      return parseTransaction(bytes, family);
    } catch (error) {
      if (error instanceof RangeError) return [];
      throw error;
    }
  });
}

/**
 * `heardSinceMs`: since when enough peers announce transactions. What was announced before is unknown until `settledMs` later, when most
 * of it is mined; the same when announcements had to be passed over.
 */
export function createPeerMempool({
  relay,
  family,
  clock,
  heardSinceMs,
  settledMs,
}: {
  relay: Relay;
  family: BitcoinFamily;
  clock: Clock;
  heardSinceMs(): number;
  settledMs: number;
}): ChainSource['fetchMempool'] {
  /** By outpoint, the last transaction that spends it and concerns us. */
  const spenders = new Map<string, string>();
  const replaced = new Set<string>();
  const spend = (outpoint: string, txid: string): void => {
    const before = spenders.get(outpoint);
    if (before !== undefined && before !== txid) replaced.add(before);
    replaced.delete(txid);
    spenders.delete(outpoint);
    spenders.set(outpoint, txid);
  };
  const note = ({ sightings, conflicts }: Pick<MempoolScan, 'sightings' | 'conflicts'>): void => {
    for (const { txid, spends } of sightings) if (txid !== null) for (const outpoint of spends) spend(outpoint, txid);
    for (const { txid, outpoint } of conflicts) spend(outpoint, txid);
    cut(spenders);
    cut(replaced);
  };
  let lostAtMs = Number.NEGATIVE_INFINITY;
  const whyIncomplete = (): string | null => {
    const nowMs = clock.monotonicMs();
    const tookAll = relay.tookAll();
    if (!tookAll) lostAtMs = nowMs;
    const heardMs = nowMs - Math.max(heardSinceMs(), lostAtMs);
    if (tookAll && heardMs >= settledMs && heardSinceMs() < nowMs) return null;
    return `peers have announced transactions without a gap for ${Math.floor(heardMs / MINUTE_MS)} of ${settledMs / MINUTE_MS} minutes`;
  };
  return async () => {
    const fresh = relay.fresh();
    const incomplete = whyIncomplete();
    return {
      scan: async (matcher) => {
        const found = await matchInTurns(parse(fresh, family), matcher, () => 'output');
        note(found);
        return {
          ...found,
          present: { has: (txid) => !replaced.has(txid) },
          believedMs: BELIEVED_MS,
          complete: incomplete === null,
          incomplete,
        };
      },
      done: () => relay.done(fresh),
    };
  };
}
