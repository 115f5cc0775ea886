/**
 * Looks up what an address received and spent. Each transaction is proven; that none is missing, two operators must say, by the same
 * history. A server that leaves out what another one proves is named and left out.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeAddress } from '../../address.ts';
import { type AddressSummary, ChainError } from '../../chain.ts';
import { ServerError } from './electrum-connection.ts';
import {
  askHistory,
  askTransaction,
  type Desk,
  type Entry,
  missing,
  noteFailure,
  provePlace,
  readKnown,
  scriptOf,
} from './electrum-desk.ts';
import { ProofError, type ProvenTransaction, scriptHashOf } from './electrum-proof.ts';
import type { Session } from './electrum-servers.ts';
import { checkNewest } from './electrum-witness.ts';

/** Each costs two requests. */
const MOST_TRANSACTIONS = 200;
/** Between two looks a block or a transaction may reach one server later than the other. */
const LOOKS = 3;
/** Above a limit these servers answer as if the address had no history. */
const FULCRUM = /^fulcrum/i;

/** What one server says about a script. */
type View = { session: Session; tip: string; mined: readonly Entry[]; waiting: readonly string[]; confirmed: number | null };

/** Errors: ChainError, ServerError, AnswerError, ProofError. */
async function viewOf(desk: Desk, session: Session, scriptHash: string): Promise<View> {
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
const beyond = (one: View, other: View): Entry[] => {
  const known = new Set(other.mined.map(({ txid }) => txid));
  return one.mined.filter(({ txid }) => !known.has(txid));
};

const touches = ({ outputs, spends }: ProvenTransaction, script: string, paid: ReadonlyMap<string, bigint>): boolean =>
  outputs.some((output) => scriptOf(output) === script) || spends.some((spend) => paid.has(spend));

/** Runs at most so many at a time, in order. */
async function eachInTurns<T, R>(list: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  for (let at = 0; at < list.length; at += 10) done.push(...(await Promise.all(list.slice(at, at + 10).map(work))));
  return done;
}

function sumUp(mined: readonly ProvenTransaction[], waiting: readonly ProvenTransaction[], script: string): AddressSummary {
  const paid = new Map<string, bigint>();
  const gain = (list: readonly ProvenTransaction[]): bigint => {
    let sum = 0n;
    for (const { txid, outputs } of list)
      for (const output of outputs) {
        if (scriptOf(output) !== script) continue;
        paid.set(`${txid}:${output.n}`, output.units);
        sum += output.units;
      }
    return sum;
  };
  const loss = (list: readonly ProvenTransaction[]): bigint =>
    list.reduce((sum, { spends }) => spends.reduce((left, spend) => left + (paid.get(spend) ?? 0n), sum), 0n);
  const receivedUnits = gain(mined);
  const sentUnits = loss(mined);
  const arriving = gain(waiting);
  if ([...mined, ...waiting].some((transaction) => !touches(transaction, script, paid)))
    throw new ProofError('a history with a transaction of others');
  if (sentUnits > receivedUnits) throw new ProofError('a history that spends more than it received');
  return {
    balanceUnits: receivedUnits - sentUnits,
    unconfirmedUnits: arriving - loss(waiting),
    receivedUnits,
    sentUnits,
    transactions: mined.length,
  };
}

/** The mined transactions of a history, each proven. Errors: ChainError, ServerError, AnswerError, ProofError. */
const proveMined = (desk: Desk, { session, mined }: View): Promise<ProvenTransaction[]> =>
  eachInTurns(mined, async ({ txid, height }) => {
    await provePlace(desk, session, txid, height);
    return readKnown(desk, session, txid);
  });

/** The sums of a history that two servers agree on. Errors: ChainError, ServerError, AnswerError, ProofError. */
async function prove(desk: Desk, view: View, script: string): Promise<AddressSummary> {
  const { session, confirmed } = view;
  const mined = await proveMined(desk, view);
  const waiting = await eachInTurns(view.waiting, async (txid) => {
    const found = await askTransaction(desk, session, txid);
    if (!found) throw new ServerError('away', 'no longer has a transaction that it showed');
    return found;
  });
  const summary = sumUp(mined, waiting, script);
  // Only a comparison: a block came in between, or something is left out.
  if (confirmed !== null && Number(summary.balanceUnits) !== confirmed)
    throw new ServerError('away', 'shows another balance than its history has');
  return summary;
}

/** Names the servers that left out what another one proves. Those with false transactions are named as well. Errors: ChainError. */
async function nameOmissions(desk: Desk, views: readonly View[], script: string, failures: string[]): Promise<void> {
  for (const view of views) {
    const without = views.filter((other) => other.tip === view.tip && beyond(view, other).length > 0);
    if (without.length === 0) continue;
    try {
      sumUp(await proveMined(desk, view), [], script);
      for (const { session } of without)
        failures.push(`${session.name} ${session.leaveOut('wrong', 'left out transactions of an address').message}`);
    } catch (error) {
      noteFailure(error, view.session, failures);
    }
  }
}

/** Two operators with the same view; all views that were asked for. Errors: ChainError. */
async function findWitnesses(
  desk: Desk,
  scriptHash: string,
  failures: string[],
): Promise<{ agreed: readonly [View, View] | null; views: View[] }> {
  const views: View[] = [];
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const view = await viewOf(desk, session, scriptHash);
      if (view.mined.length + view.waiting.length > MOST_TRANSACTIONS)
        throw new ChainError(
          'unsupported',
          `no source for an address with more than ${MOST_TRANSACTIONS} transactions; set ${desk.family}_BLOCKBOOK_URL`,
        );
      const same = views.find((other) => keysOf(other) === keysOf(view));
      views.push(view);
      if (same) return { agreed: [same, view], views };
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  return { agreed: null, views };
}

/** Errors: ChainError. */
export async function lookUpBalance(desk: Desk, address: string): Promise<AddressSummary> {
  const { key: script } = decodeAddress(address, { coin: desk.family, network: desk.network });
  if ((await desk.ours.scriptsOf([script])).size > 0)
    throw new ChainError('unsupported', `no source that may be asked about it; set ${desk.family}_BLOCKBOOK_URL to a server of your own`);
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
    for (const view of agreed) {
      try {
        return await prove(desk, view, script);
      } catch (error) {
        noteFailure(error, view.session, failures);
      }
    }
  }
  const what =
    asked < 2
      ? 'a second server that confirms that no transaction of the address is left out'
      : 'two servers with the same history of the address';
  throw missing(desk, `what is missing is ${what}`, failures);
}
