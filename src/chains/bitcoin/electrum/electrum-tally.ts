/**
 * What an address received and spent, transaction by transaction. Each is proven once. Long histories are kept until the next lookup, which
 * continues where the limits of the servers ended the last one.
 */
import type { AddressSummary } from '../../chain.ts';
import { ServerError } from './electrum-connection.ts';
import { type Desk, type HistoryEntry, isInBestChain, noteFailure, provePlace, readKnown, scriptOf, type Tally } from './electrum-desk.ts';
import { ElectrumProofError, type ProvenTransaction } from './electrum-proof.ts';
import type { ElectrumSession } from './electrum-servers.ts';

/** Histories that are short enough to be proven at once are not kept. */
const SHORT = 200;
/** Outputs to one address that are kept. */
const MOST_RECEIPTS = 50_000;
/** One lookup proves for this long; the next one continues. */
const PROVE_MS = 15_000;
/** Transactions that one server is asked about at the same time. */
const LANES = 10;

const newestOf = (entries: readonly HistoryEntry[]): number => entries.reduce((most, { height }) => Math.max(most, height), 0);

/** What was proven before stays valid while the history only grows at its end. */
function continues(before: Tally, { entries, heights }: Pick<Tally, 'entries' | 'heights'>): boolean {
  const newest = newestOf(before.entries);
  return (
    before.entries.every(({ txid, height }) => heights.get(txid) === height) &&
    entries.every(({ txid, height }) => before.heights.has(txid) || height > newest)
  );
}

/** The tally of a history that two servers agree on, with what is already proven of it. */
export function openTally(
  { tallies, headers, lowHeaders }: Desk,
  { script, entries, tip, servers }: Pick<Tally, 'script' | 'entries' | 'tip' | 'servers'>,
): Tally {
  const heights = new Map(entries.map(({ txid, height }) => [txid, height]));
  const before = tallies.get(script);
  const kept = before && continues(before, { entries, heights }) ? before : null;
  const tally = { script, entries, heights, tip, servers, parts: new Map(kept?.parts), paid: new Map(kept?.paid) };
  for (const [txid, part] of tally.parts) if (!isInBestChain({ headers, lowHeaders }, part)) tally.parts.delete(txid);
  if (entries.length > SHORT) tallies.set(script, tally);
  return tally;
}

/** A tally that the last lookup could not finish, if the best chain still has its blocks. */
export function unfinishedTally({ tallies, headers }: Desk, script: string): Tally | null {
  const tally = tallies.get(script);
  if (!tally || leftOf(tally).length === 0) return null;
  const tip = headers.find(tally.tip);
  return tip && headers.at(tip.height)?.hash === tip.hash ? tally : null;
}

/** What is said about the address is false: nothing of it is used again. */
export function dropTally({ tallies }: Desk, tally: Tally): void {
  if (tallies.get(tally.script))
    tallies.set(tally.script, { ...tally, entries: [], heights: new Map(), parts: new Map(), paid: new Map() });
}

export const leftOf = ({ entries, parts }: Tally): HistoryEntry[] => entries.filter(({ txid }) => !parts.has(txid));

/** Errors: ChainError, ServerError, AnswerError, ProofError. */
async function provePart(desk: Desk, session: ElectrumSession, tally: Tally, { txid, height }: HistoryEntry): Promise<void> {
  const { hash } = await provePlace(desk, session, txid, height);
  const { outputs, spends } = await readKnown(desk, session, txid);
  const received = outputs.filter((output) => scriptOf(output) === tally.script);
  if (tally.paid.size + received.length > MOST_RECEIPTS) throw new ElectrumProofError('a history with too many outputs');
  for (const { n, units } of received) tally.paid.set(`${txid}:${n}`, units);
  // Whatever paid the address is in its history, and nothing older can join that.
  const own = spends.filter((spend) => tally.heights.has(spend.slice(0, 64)));
  tally.parts.set(txid, { height, hash, pays: received.length > 0, spends: own });
}

/**
 * Proves what is left, by all of these servers at once. `paused`: only time, or the limits of the servers, ended it. `failed`: they do not
 * prove what they said. Errors: ChainError.
 */
export async function proveLeft(
  desk: Desk,
  tally: Tally,
  sessions: readonly ElectrumSession[],
  failures: string[],
): Promise<'done' | 'paused' | 'failed'> {
  const queue = leftOf(tally).toReversed();
  const until = desk.clock.monotonicMs() + PROVE_MS;
  const isOver = (): boolean => desk.clock.monotonicMs() >= until;
  const live = new Set(sessions);
  let isLimited = false;
  const stop = (session: ElectrumSession, error: unknown): void => {
    if (!live.delete(session)) return;
    isLimited ||= error instanceof ServerError && error.fault === 'busy';
    noteFailure(error, session, failures);
  };
  const lane = async (session: ElectrumSession): Promise<void> => {
    while (live.has(session) && !isOver()) {
      const entry = queue.pop();
      if (!entry) return;
      try {
        if (!tally.parts.has(entry.txid)) await provePart(desk, session, tally, entry);
      } catch (error) {
        queue.push(entry);
        stop(session, error);
      }
    }
  };
  // What one server failed to prove, another one proves.
  while (queue.length > 0 && live.size > 0 && !isOver())
    await Promise.all([...live].flatMap((session) => Array.from({ length: LANES }, () => lane(session))));
  if (queue.length === 0) return 'done';
  return isLimited || isOver() ? 'paused' : 'failed';
}

/** The sums of a whole history. Errors: ProofError. */
export function sumUp({ parts, paid, script }: Tally, waiting: readonly ProvenTransaction[]): AddressSummary {
  const all = new Map(paid);
  let [arrivingUnits, receivedUnits, sentUnits, leavingUnits] = [0n, 0n, 0n, 0n];
  for (const units of paid.values()) receivedUnits += units;
  for (const { txid, outputs } of waiting)
    for (const output of outputs) {
      if (scriptOf(output) !== script) continue;
      all.set(`${txid}:${output.n}`, output.units);
      arrivingUnits += output.units;
    }
  for (const { pays, spends } of parts.values()) {
    if (!pays && !spends.some((spend) => paid.has(spend))) throw new ElectrumProofError('a history with a transaction of others');
    for (const spend of spends) sentUnits += paid.get(spend) ?? 0n;
  }
  for (const { outputs, spends } of waiting) {
    if (!outputs.some((output) => scriptOf(output) === script) && !spends.some((spend) => all.has(spend)))
      throw new ElectrumProofError('a history with a transaction of others');
    for (const spend of spends) leavingUnits += all.get(spend) ?? 0n;
  }
  if (sentUnits > receivedUnits) throw new ElectrumProofError('a history that spends more than it received');
  return {
    balanceUnits: receivedUnits - sentUnits,
    unconfirmedUnits: arrivingUnits - leavingUnits,
    receivedUnits,
    sentUnits,
    transactions: parts.size,
  };
}
