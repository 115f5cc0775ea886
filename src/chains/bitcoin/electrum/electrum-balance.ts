/**
 * Looks up what an address received and spent. Each transaction is proven; that none is missing, two operators must say, by the same
 * history. A server that leaves out what another one proves is named and left out.
 *
 * The status hash of a script is not asked for: it is the hash of the history that the same server sends, so it proves nothing more, and a
 * subscription counts against the limits of the server. Nor can it replace the second history, because protocol 1.4 does not define the
 * order of pending transactions in it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeAddress } from '#addresses';
import { type AddressSummary, ChainError } from '../../chain-source.ts';
import { AnswerError, ServerError } from './electrum-connection.ts';
import {
  askHistory,
  askTransaction,
  type Desk,
  type HistoryEntry,
  isInBestChain,
  lookupFailed,
  noteFailure,
  provePlace,
  readKnown,
  scriptOf,
  type Tally,
} from './electrum-desk.ts';
import { ElectrumProofError, type ProvenTransaction, scriptHashOf } from './electrum-proof.ts';
import type { ElectrumSession } from './electrum-servers.ts';

/** Each costs two requests or more, so servers of others prove the longest histories in many lookups. */
const MOST_TRANSACTIONS = 10_000;
const MOST_WAITING = 200;
/** Of what one server left out, this much is proven before it is called wrong. */
const MOST_PROVEN = 20;
/** Between two looks a block or a transaction may reach one server later than the other. */
const LOOKS = 3;
/** Above a limit these servers answer as if the address had no history. */
const FULCRUM = /^fulcrum/i;

/** What one server says about a script. */
type View = { session: ElectrumSession; tip: string; mined: readonly HistoryEntry[]; waiting: readonly string[]; confirmed: number | null };

/** Errors: ChainError, ServerError, AnswerError, ProofError. */
async function viewOf(desk: Desk, session: ElectrumSession, scriptHash: string): Promise<View> {
  await checkNewest(desk, session);
  const tip = session.tip().hash;
  const [history, balance] = await Promise.all([
    askHistory(session, scriptHash),
    session.ask('blockchain.scripthash.get_balance', [scriptHash]),
  ]);
  if (history.length === 0 && FULCRUM.test(session.software)) {
    const first = await session.ask('blockchain.scripthash.get_first_use', [scriptHash]);
    if (first !== null) throw new ServerError('busy', 'has a longer history of the address than it shows');
  }
  const { confirmed } = (typeof balance === 'object' && balance !== null ? balance : {}) as Record<string, unknown>;
  return {
    session,
    tip,
    mined: history.filter(({ height }) => height > 0),
    waiting: history.flatMap(({ txid, height }) => (height === 0 ? [txid] : [])),
    confirmed: typeof confirmed === 'number' ? confirmed : null,
  };
}

const keysOf = ({ tip, mined, waiting }: View): string =>
  [tip, ...mined.map(({ txid, height }) => `${txid}:${height}`).toSorted(), ...waiting.toSorted()].join();

/** What one view has and the other lacks. */
const beyond = (one: View, other: View): HistoryEntry[] => {
  const known = new Set(other.mined.map(({ txid }) => txid));
  return one.mined.filter(({ txid }) => !known.has(txid));
};

/** Runs at most so many at a time, in order. */
async function eachInTurns<T, R>(list: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  for (let at = 0; at < list.length; at += 10) done.push(...(await Promise.all(list.slice(at, at + 10).map(work))));
  return done;
}

/** The sums of a history that two servers agree on and that is proven. Errors: ServerError, AnswerError, ProofError. */
async function conclude(desk: Desk, { session, waiting: txids, confirmed }: View, tally: Tally): Promise<AddressSummary> {
  const waiting = await eachInTurns(txids, async (txid) => {
    const found = await askTransaction(desk, session, txid);
    if (!found) throw new ServerError('away', 'no longer has a transaction that it showed');
    return found;
  });
  const summary = sumUp(tally, waiting);
  // Only a comparison: a block came in between, or something is left out.
  if (confirmed !== null && Number(summary.balanceUnits) !== confirmed)
    throw new ServerError('away', 'shows another balance than its history has');
  return summary;
}

/** Proves some transactions of a history, and that they belong to the address. Errors: ChainError, ServerError, AnswerError, ProofError. */
async function proveSome(desk: Desk, { session, mined }: View, script: string, some: readonly HistoryEntry[]): Promise<void> {
  const listed = new Set(mined.map(({ txid }) => txid));
  for (const { txid, height } of some.slice(0, MOST_PROVEN)) {
    await provePlace(desk, session, txid, height);
    const { outputs, spends } = await readKnown(desk, session, txid);
    if (outputs.some((output) => scriptOf(output) === script)) continue;
    let touches = false;
    for (const spend of spends.filter((one) => listed.has(one.slice(0, 64))).slice(0, MOST_PROVEN)) {
      const origin = await readKnown(desk, session, spend.slice(0, 64));
      const output = origin.outputs[Number(spend.slice(65))];
      touches ||= output !== undefined && scriptOf(output) === script;
      if (touches) break;
    }
    if (!touches) throw new ElectrumProofError('a history with a transaction of others');
  }
}

/** Names the servers that left out what another one proves. Those with false transactions are named as well. Errors: ChainError. */
async function nameOmissions(desk: Desk, views: readonly View[], script: string, failures: string[]): Promise<void> {
  for (const view of views)
    for (const other of views) {
      const without = other.tip === view.tip ? beyond(view, other) : [];
      if (without.length === 0) continue;
      try {
        await proveSome(desk, view, script, without);
      } catch (error) {
        // Otherwise it could contradict the others at every look.
        if (error instanceof AnswerError)
          failures.push(`${view.session.name} ${view.session.leaveOut('away', 'does not prove the history that it shows').message}`);
        else noteFailure(error, view.session, failures);
        break;
      }
      const { session } = other;
      failures.push(`${session.name} ${session.leaveOut('wrong', 'left out transactions of an address').message}`);
    }
}

/** Two operators with the same view; all views that were asked for. Errors: ChainError. */
async function findWitnesses(
  desk: Desk,
  scriptHash: string,
  failures: string[],
): Promise<{ agreed: readonly [View, View] | null; views: View[] }> {
  const views: View[] = [];
  let tooLong = 0;
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const view = await viewOf(desk, session, scriptHash);
      if (view.mined.length > MOST_TRANSACTIONS || view.waiting.length > MOST_WAITING) {
        // One server alone could invent that.
        if (++tooLong === 2) throw new ChainError('unsupported', TOO_LONG);
        failures.push(`${session.name} shows a history that is too long`);
        continue;
      }
      const same = views.find((other) => keysOf(other) === keysOf(view));
      views.push(view);
      if (same) return { agreed: [same, view], views };
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  return { agreed: null, views };
}
const TOO_LONG = `no source for an address with more than ${MOST_TRANSACTIONS} transactions, or ${MOST_WAITING} pending ones`;

/** Part of a long history is proven, and the next lookup continues. */
function notYet(desk: Desk, { entries, parts }: Tally, failures: readonly string[]): ChainError {
  const what = `${parts.size} of ${entries.length} transactions of the address are proven so far, and the next request continues there`;
  return lookupFailed(desk, what, failures);
}

/** Continues where the last lookup of a long history ended, before its servers are asked for the history again. Errors: ChainError. */
async function continueTally(desk: Desk, script: string): Promise<void> {
  const tally = unfinishedTally(desk, script);
  if (!tally) return;
  const failures: string[] = [];
  const sessions: ElectrumSession[] = [];
  for await (const session of desk.servers.sessions(failures)) {
    if (tally.servers.has(session.name)) sessions.push(session);
    if (sessions.length === tally.servers.size) break;
  }
  if ((await proveLeft(desk, tally, sessions, failures)) === 'paused') throw notYet(desk, tally, failures);
}

/** The exact sums; null when these servers no longer show what they agreed on. Errors: ChainError. */
async function settle(desk: Desk, agreed: readonly [View, View], script: string, failures: string[]): Promise<AddressSummary | null> {
  const [{ mined: entries, tip }] = agreed;
  const sessions = agreed.map(({ session }) => session);
  const tally = openTally(desk, { script, entries, tip, servers: new Set(sessions.map(({ name }) => name)) });
  const end = await proveLeft(desk, tally, sessions, failures);
  if (end === 'paused') throw notYet(desk, tally, failures);
  if (end === 'failed') return null;
  for (const view of agreed) {
    try {
      return await conclude(desk, view, tally);
    } catch (error) {
      if (error instanceof ElectrumProofError) dropTally(desk, tally);
      noteFailure(error, view.session, failures);
    }
  }
  return null;
}

/** Errors: ChainError. */
export async function lookUpBalance(desk: Desk, address: string): Promise<AddressSummary> {
  const { key: script } = decodeAddress(address, { coin: desk.family, network: desk.network });
  if ((await desk.ours.scriptsOf([script])).size > 0)
    throw new ChainError('unsupported', 'no source that may be asked about an address of payments');
  await continueTally(desk, script);
  let failures: string[] = [];
  let asked = 0;
  for (let look = 1; look <= LOOKS; look++) {
    if (look > 1) await sleep(desk.pauseMs);
    failures = [];
    const { agreed, views } = await findWitnesses(desk, scriptHashOf(script), failures);
    asked = views.length;
    if (!agreed && asked < 2) break;
    const isDisputed = agreed !== null && views.some((view) => view.tip === agreed[0].tip && beyond(view, agreed[0]).length > 0);
    if (look === LOOKS || isDisputed) await nameOmissions(desk, views, script, failures);
    if (!agreed || isDisputed) continue;
    const summary = await settle(desk, agreed, script, failures);
    if (summary) return summary;
  }
  const what =
    asked < 2
      ? 'a second server that confirms that no transaction of the address is left out'
      : 'two servers with the same history of the address';
  throw lookupFailed(desk, `what is missing is ${what}`, failures);
}

// What an address received and spent, transaction by transaction. Each is proven once. Long histories are kept until the next lookup,
// which continues where the limits of the servers ended the last one.

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
function openTally(
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
function unfinishedTally({ tallies, headers }: Desk, script: string): Tally | null {
  const tally = tallies.get(script);
  if (!tally || leftOf(tally).length === 0) return null;
  const tip = headers.find(tally.tip);
  return tip && headers.at(tip.height)?.hash === tip.hash ? tally : null;
}

/** What is said about the address is false: nothing of it is used again. */
function dropTally({ tallies }: Desk, tally: Tally): void {
  if (tallies.get(tally.script))
    tallies.set(tally.script, { ...tally, entries: [], heights: new Map(), parts: new Map(), paid: new Map() });
}

const leftOf = ({ entries, parts }: Tally): HistoryEntry[] => entries.filter(({ txid }) => !parts.has(txid));

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
async function proveLeft(
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
function sumUp({ parts, paid, script }: Tally, waiting: readonly ProvenTransaction[]): AddressSummary {
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

// Which servers can tell what nobody can prove: that nothing is missing, and what is not in a block. They must know the newest block.

/** A server gets a block a moment later than we do. */
const WITNESS_LOOKS = 4;

/** Waits until a server is at the tip of the best chain. Errors: ServerError when it stays behind. */
export async function checkNewest({ headers, pauseMs }: Desk, session: ElectrumSession): Promise<void> {
  for (let looks = 1; ; looks++) {
    await headers.follow(session);
    const tip = headers.tip()!;
    if (session.tip().hash === tip.hash) return;
    if (looks === WITNESS_LOOKS) throw new ServerError('away', `is behind: it shows block ${session.tip().height} of ${tip.height}`);
    await sleep(pauseMs);
  }
}
