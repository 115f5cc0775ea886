/**
 * Looks up what an address received and spent. Each transaction is proven; that none is missing, two operators must say, by the same
 * history. A server that leaves out what another one proves is named and left out.
 *
 * The status hash of a script is not asked for: it is the hash of the history that the same server sends, so it proves nothing more, and a
 * subscription counts against the limits of the server. Nor can it replace the second history, because protocol 1.4 does not define the
 * order of pending transactions in it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeAddress } from '../../address.ts';
import { type AddressSummary, ChainError } from '../../chain.ts';
import { AnswerError, ServerError } from './electrum-connection.ts';
import {
  askHistory,
  askTransaction,
  type Desk,
  type HistoryEntry,
  lookupFailed,
  noteFailure,
  provePlace,
  readKnown,
  scriptOf,
  type Tally,
} from './electrum-desk.ts';
import { ElectrumProofError, scriptHashOf } from './electrum-proof.ts';
import type { ElectrumSession } from './electrum-servers.ts';
import { dropTally, openTally, proveLeft, sumUp, unfinishedTally } from './electrum-tally.ts';
import { checkNewest } from './electrum-witness.ts';

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
