/**
 * Unconfirmed payments on a Blockbook server. It does not list its mempool: it is asked about the newest addresses and the waiting
 * transactions one by one, and its socket names others.
 */
import type { Clock } from '../../core/clock.ts';
import type { Coin, Network } from '../../core/coin.ts';
import { addressOfScript } from '../address.ts';
import { type ChainSource, type Matcher, orNull } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import type { Match, Matches } from './blockbook-matching.ts';
import type { Get } from './blockbook-requests.ts';
import type { HintSocket } from './blockbook-socket.ts';
import { integer, rows, text } from './replies.ts';

/** Addresses and waiting transactions requested in one mempool poll; the rest follows in the next poll. */
const PULLS_PER_LOOK = 20;
/** The server accepts at most this many addresses per connection; the newest are watched. */
const MAX_WATCHED = 1_000;
/** How often a waiting transaction is requested again. */
const WAITING_FRESH_MS = 15_000;

export const isUnconfirmed = (tx: Fields): boolean => text(tx.txid) !== '' && integer(tx.confirmations) === 0;

type Reads = { coin: Coin; network: Network; get: Get; clock: Clock; socket: HintSocket };

/** What is known about the mempool between polls. */
function createPulls({ get, clock }: Pick<Reads, 'get' | 'clock'>) {
  const unread = new Map<string, Fields>();
  const pulledAtMs = new Map<string, number>();
  const waitingAsOf = new Map<string, { atMs: number; present: boolean }>();
  return {
    unread,
    pullTransaction: async (txid: string): Promise<void> => {
      const tx = fields(await orNull(get(`v2/tx/${txid}`)));
      const present = isUnconfirmed(tx);
      waitingAsOf.set(txid, { atMs: clock.monotonicMs(), present });
      if (present) unread.set(txid, tx);
    },
    pullAddress: async (address: string): Promise<void> => {
      const atMs = clock.monotonicMs();
      const summary = fields(await get(`v2/address/${address}?details=txs&pageSize=50`));
      for (const tx of rows(summary.transactions)) if (isUnconfirmed(tx)) unread.set(text(tx.txid), tx);
      pulledAtMs.set(address, atMs);
    },
    /** Addresses not requested since then, those that waited longest first. */
    dueSince: (sinceMs: number, addresses: readonly string[]): string[] =>
      addresses
        .filter((address) => (pulledAtMs.get(address) ?? Number.NEGATIVE_INFINITY) < sinceMs)
        .sort((a, b) => (pulledAtMs.get(a) ?? 0) - (pulledAtMs.get(b) ?? 0)),
    ageOf: (txid: string): number => clock.monotonicMs() - (waitingAsOf.get(txid)?.atMs ?? Number.NEGATIVE_INFINITY),
    /** A transaction counts as present until the server was asked about it. */
    isPresent: (txid: string): boolean => waitingAsOf.get(txid)?.present ?? true,
    keepOnly: (addresses: ReadonlySet<string>, waiting: ReadonlySet<string>): void => {
      for (const address of pulledAtMs.keys()) if (!addresses.has(address)) pulledAtMs.delete(address);
      for (const txid of waitingAsOf.keys()) if (!waiting.has(txid) && !unread.has(txid)) waitingAsOf.delete(txid);
    },
  };
}

export function createBlockbookMempool({
  coin,
  network,
  get,
  clock,
  socket,
  match,
}: Reads & { match: Match }): Pick<ChainSource, 'fetchMempool'> & { hint(txid: string): void } {
  const pulls = createPulls({ get, clock });
  const hinted = new Set<string>();
  /** Requests what is unknown about the newest addresses and waiting transactions. False when something is left for the next poll. */
  const look = async (matcher: Matcher): Promise<boolean> => {
    const startedMs = clock.monotonicMs();
    const addresses = (await matcher.recent(clock.now()))
      .slice(-MAX_WATCHED)
      .flatMap((key) => addressOfScript(key, { coin, network }) ?? []);
    // Subscribe first and request then, so nothing is missed in between.
    const sinceMs = (await socket.watch(addresses)) ? socket.openedAtMs() : startedMs;
    const due = pulls.dueSince(sinceMs, addresses);
    for (const address of due.slice(0, PULLS_PER_LOOK)) await pulls.pullAddress(address);
    for (const txid of [...hinted]) {
      await pulls.pullTransaction(txid);
      hinted.delete(txid);
    }
    const waits = new Set(matcher.waiting);
    pulls.keepOnly(new Set(addresses), waits);
    const freshMs = network === 'regtest' ? 0 : WAITING_FRESH_MS;
    const old = [...waits].filter((txid) => pulls.ageOf(txid) > freshMs).sort((a, b) => pulls.ageOf(b) - pulls.ageOf(a));
    for (const txid of old.slice(0, PULLS_PER_LOOK)) await pulls.pullTransaction(txid);
    return due.length <= PULLS_PER_LOOK;
  };
  return {
    hint: (txid) => void hinted.add(txid),
    fetchMempool: async () => {
      socket.open();
      return {
        scan: async (matcher) => {
          const complete = await look(matcher);
          const found: Matches = { sightings: [], conflicts: [] };
          for (const tx of pulls.unread.values()) match(tx, matcher, 'output', found);
          const present = new Set([...pulls.unread.keys(), ...matcher.waiting.filter(pulls.isPresent)]);
          return { ...found, present, complete };
        },
        done: () => pulls.unread.clear(),
      };
    },
  };
}
