/** Sends our transactions to peers. Peers do not say what they refuse: only that one asks for a transaction shows that it may be taken. */
import { randomInt } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { ChainError } from '../../chain.ts';
import type { Peers } from './peers.ts';

/** Peers to which a transaction is announced at a time. Others announce it back once it spreads. */
const OFFERED_TO = 4;
/** Transactions that are remembered; the oldest are forgotten first. */
const MOST = 1_000;

/** How long the first announcement waits for a peer that asks for it. */
const TAKEN_MS = 10_000;
/** The same, after one waited in vain: nothing is asked for at the moment, and others of the chain wait meanwhile. */
const AFTER_SILENCE_MS = 1_000;
const LOOK_MS = 100;

export type Sender = {
  /**
   * Announces a transaction to some peers, and waits the first time until one asks for it or enough announce it; no effect for those that
   * have it. Errors: ChainError outage when no peer is connected, refused when no peer asked for it.
   */
  send(transaction: { txid: string; bytes: Uint8Array }): Promise<void>;
  onTaken(txid: string): void;
};

/** `isSeen`: whether enough peers announced it. */
export function createSender({
  peers,
  isSeen,
  takenMs = TAKEN_MS,
}: {
  peers(): Pick<Peers, 'connected' | 'relaying'>;
  isSeen(txid: string): boolean;
  takenMs?: number;
}): Sender {
  /** Whether a peer asked for each that was announced. */
  const offered = new Map<string, boolean>();
  let isSilent = false;
  const isOut = (txid: string): boolean => offered.get(txid) === true || isSeen(txid);
  const waitFor = async (txid: string): Promise<void> => {
    const looks = Math.ceil((isSilent ? Math.min(takenMs, AFTER_SILENCE_MS) : takenMs) / LOOK_MS);
    for (let i = 0; i < looks && !isOut(txid); i++) await setTimeout(LOOK_MS);
    isSilent = !isOut(txid);
  };
  return {
    send: async (transaction) => {
      const { txid } = transaction;
      const relaying = new Set(peers().relaying());
      // Other ones each time, and those first that announce nothing to us.
      const ranked = peers()
        .connected()
        .map((peer) => ({ peer, rank: (relaying.has(peer) ? 1_000 : 0) + randomInt(1_000) }))
        .toSorted((a, b) => a.rank - b.rank)
        .slice(0, OFFERED_TO);
      if (ranked.length === 0) throw new ChainError('outage', 'no peer is connected');
      const isFirst = !offered.has(txid);
      if (isFirst) offered.set(txid, false);
      for (const oldest of offered.keys()) if (offered.size > MOST) offered.delete(oldest);
      for (const { peer } of ranked) peer.offer(transaction);
      if (isFirst) await waitFor(txid);
      if (!isOut(txid)) throw new ChainError('refused', 'no peer has asked for it yet; its fee may be too low');
    },
    onTaken: (txid) => {
      if (offered.has(txid)) offered.set(txid, true);
    },
  };
}
