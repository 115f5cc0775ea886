/** How far the header chain is, by the times of its blocks: what a peer claims to have does not count. */
import type { PeerPhase } from './peer-status.ts';

/** On networks with real work, a tip this old is not the newest block, whatever the peers say. */
const OLD_TIP_SECONDS = 86_400;
/** Once the chain was complete, a tip younger than this does not count as syncing: each new block arrives as a header first. */
const LATE_SECONDS = 6 * 3_600;

export type SyncLook = {
  connected: number;
  /** Headers arrive, or no peer has sent all of its headers yet. */
  syncing: boolean;
  tipSeconds: number;
  nowSeconds: number;
  nowMs: number;
};
export type SyncState = { phase: PeerPhase; percent: number; secondsLeft: number | null };

/** `startSeconds`: the time of the checkpoint. `binding`: whether blocks have real work, and so come in time. */
export function createSyncProgress({ startSeconds, binding }: { startSeconds: number; binding: boolean }): (look: SyncLook) => SyncState {
  let wasReady = false;
  /** When the first progress of this run was seen. */
  let first: { atMs: number; share: number } | null = null;
  return ({ connected, syncing, tipSeconds, nowSeconds, nowMs }) => {
    const age = nowSeconds - tipSeconds;
    const late = binding && age > (wasReady ? LATE_SECONDS : OLD_TIP_SECONDS);
    if (wasReady ? !(late && syncing) : connected > 0 && !syncing && !late) {
      wasReady = true;
      first = null;
      return { phase: 'ready', percent: 100, secondsLeft: null };
    }
    const share = Math.min(1, Math.max(0, (tipSeconds - startSeconds) / Math.max(1, nowSeconds - startSeconds)));
    const percent = Math.min(99, Math.floor(share * 100));
    if (connected === 0) return { phase: 'connecting', percent, secondsLeft: null };
    first ??= { atMs: nowMs, share };
    const [doneShare, doneMs] = [share - first.share, nowMs - first.atMs];
    // The first second says little about the rest.
    const secondsLeft = doneShare > 0 && doneMs > 1_000 ? Math.ceil(((1 - share) * doneMs) / doneShare / 1000) : null;
    return { phase: 'headers', percent, secondsLeft };
  };
}
