/**
 * Sends our transactions to peers. A peer asks for a transaction before it knows its fee, and refuses it in silence, so asking proves nothing:
 * a transaction is out when a peer announces it that it was not offered to, because peers announce only what their mempools have.
 */
import { randomInt } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { ChainError } from '../../chain.ts';
import { type Inventory, ITEM } from './messages.ts';
import type { Peer } from './peer.ts';
import { endpointName } from './peer-book.ts';
import type { Peers } from './peers.ts';

/** Peers to which a transaction is offered at a time, and peers that must be left to announce it, where there are enough. */
const OFFERED_TO = 4;
const LISTENERS = 2;
/** Transactions that are remembered; the oldest are forgotten first. */
const MOST = 1_000;

/** How long the first offer waits until another peer announces the transaction. */
const SEEN_MS = 10_000;
/** The same, after one waited in vain: others of the chain wait meanwhile. */
const AFTER_SILENCE_MS = 1_000;
const LOOK_MS = 100;

export type Sender = {
  /**
   * Offers a transaction to some peers, and waits the first time until another one announces it; no effect for those that have it.
   * Errors: ChainError outage when no peer is connected, unseen when no other peer has announced it.
   */
  send(transaction: { txid: string; bytes: Uint8Array }): Promise<void>;
  /** What a peer announced; null: on a connection on which nothing is offered. */
  onItems(peer: Peer | null, items: readonly Inventory[]): void;
  /** Whether a peer announced a transaction that it was not offered. */
  isOut(txid: string): boolean;
  /** The lowest fee per 1,000 virtual bytes that most peers take, as they tell; 0 while none told. */
  floor(): bigint;
};
type Offer = { to: Set<string>; isOut: boolean };

/** An amount for each 1,000 bytes as it is shown for each byte: `8`, `1.5`, `0.1`. */
const perByte = (perKilobyte: bigint): string => String(Number(perKilobyte) / 1_000);

/** `listen`: opens another connection to a peer, which hears what the first one does not, because it was offered there. */
export function createSender({
  peers,
  isSeen,
  listen,
  lowest,
  seenMs = SEEN_MS,
}: {
  peers(): Pick<Peers, 'connected' | 'relaying'>;
  /** Whether enough peers announced it. */
  isSeen(txid: string): boolean;
  listen(peer: Peer): Promise<void>;
  /** The lowest fee that the network takes at all. */
  lowest: bigint;
  seenMs?: number;
}): Sender {
  const offers = new Map<string, Offer>();
  let isSilent = false;
  const isOut = (txid: string): boolean => offers.get(txid)?.isOut === true || isSeen(txid);
  const waitFor = async (txid: string): Promise<void> => {
    const looks = Math.ceil((isSilent ? Math.min(seenMs, AFTER_SILENCE_MS) : seenMs) / LOOK_MS);
    for (let i = 0; i < looks && !isOut(txid); i++) await setTimeout(LOOK_MS);
    isSilent = !isOut(txid);
  };
  const floor = (): bigint => {
    const told = peers()
      .connected()
      .flatMap((peer) => peer.feeFloor() ?? [])
      .toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    // Half of the peers or more take this. One alone, or the few that take nothing while they start, do not decide.
    return told[told.length >> 1] ?? 0n;
  };
  /** Those first that announce nothing to us and take the lowest fees; others than before, while enough are left to announce it. */
  const chooseFrom = (connected: readonly Peer[], { to }: Offer): readonly Peer[] => {
    const relaying = new Set(peers().relaying());
    const nameOf = ({ endpoint }: Peer): string => endpointName(endpoint);
    const ranked = connected
      .map((peer) => ({ peer, relays: relaying.has(peer) ? 1 : 0, fee: peer.feeFloor() ?? 0n, chance: randomInt(1_000) }))
      .toSorted((a, b) => a.relays - b.relays || (a.fee < b.fee ? -1 : a.fee > b.fee ? 1 : a.chance - b.chance))
      .map(({ peer }) => peer);
    const fresh = ranked.filter((peer) => !to.has(nameOf(peer)));
    const most = Math.min(OFFERED_TO, fresh.length - (to.size === 0 ? LISTENERS : 1));
    const chosen = most > 0 ? fresh.slice(0, most) : to.size === 0 ? fresh.slice(0, 1) : ranked.filter((peer) => to.has(nameOf(peer)));
    for (const peer of chosen) to.add(nameOf(peer));
    return chosen;
  };
  return {
    isOut,
    floor,
    send: async (transaction) => {
      const { txid } = transaction;
      const connected = peers().connected();
      const [only] = connected;
      if (!only) throw new ChainError('outage', 'no peer is connected');
      const isFirst = !offers.has(txid);
      const offer: Offer = offers.get(txid) ?? { to: new Set(), isOut: false };
      offers.set(txid, offer);
      for (const oldest of offers.keys()) if (offers.size > MOST) offers.delete(oldest);
      // Nobody else could announce it.
      if (connected.length === 1) await listen(only);
      for (const peer of chooseFrom(connected, offer)) peer.offer(transaction);
      if (isFirst) await waitFor(txid);
      if (isOut(txid)) return;
      const least = floor() > lowest ? floor() : lowest;
      throw new ChainError('unseen', `announced, and not seen at another peer yet; peers take fees from ${perByte(least)} sat/vB`);
    },
    onItems: (peer, items) => {
      if (offers.size === 0) return;
      for (const { type, hash } of items) {
        const offer = type === ITEM.transaction ? offers.get(hash) : undefined;
        if (offer && !(peer && offer.to.has(endpointName(peer.endpoint)))) offer.isOut = true;
      }
    },
  };
}
