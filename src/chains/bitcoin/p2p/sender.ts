/** Sends our transactions to peers. Peers do not say what they refuse: only that one asks for a transaction shows that it may be taken. */
import { randomInt } from 'node:crypto';
import { ChainError } from '../../chain.ts';
import type { Peers } from './peers.ts';

/** Peers to which a transaction is announced at a time. Others announce it back once it spreads. */
const OFFERED_TO = 4;
/** Transactions that are remembered; the oldest are forgotten first. */
const MOST = 1_000;

export type Sender = {
  /**
   * Announces a transaction to some peers; no effect for those that have it. Errors: ChainError outage when no peer is connected, refused
   * when it was announced before and no peer asked for it.
   */
  send(transaction: { txid: string; bytes: Uint8Array }): void;
  onTaken(txid: string): void;
};

/** `isSeen`: whether enough peers announced it. */
export function createSender({ peers, isSeen }: { peers(): Pick<Peers, 'connected' | 'relaying'>; isSeen(txid: string): boolean }): Sender {
  /** Whether a peer asked for each that was announced. */
  const offered = new Map<string, boolean>();
  return {
    send: (transaction) => {
      const { txid } = transaction;
      const relaying = new Set(peers().relaying());
      // Other ones each time, and those first that announce nothing to us.
      const ranked = peers()
        .connected()
        .map((peer) => ({ peer, rank: (relaying.has(peer) ? 1_000 : 0) + randomInt(1_000) }))
        .toSorted((a, b) => a.rank - b.rank)
        .slice(0, OFFERED_TO);
      if (ranked.length === 0) throw new ChainError('outage', 'no peer is connected');
      for (const { peer } of ranked) peer.offer(transaction);
      const taken = offered.get(txid);
      offered.set(txid, taken ?? false);
      for (const oldest of offered.keys()) if (offered.size > MOST) offered.delete(oldest);
      if (taken === false && !isSeen(txid)) throw new ChainError('refused', 'no peer has asked for it yet; its fee may be too low');
    },
    onTaken: (txid) => {
      if (offered.has(txid)) offered.set(txid, true);
    },
  };
}
