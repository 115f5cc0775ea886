/** Looks up one transaction: its amounts by its bytes and those it spends, its block by a branch. What cannot be proven needs two operators. */
import { ChainError, type ChainTransaction } from '../../chain.ts';
import { AnswerError } from './electrum-connection.ts';
import {
  addressOf,
  askHistory,
  askTransaction,
  type Desk,
  knownPlace,
  lookupFailed,
  noteFailure,
  type ProvenPlace,
  provePlace,
  readKnown,
  scriptOf,
} from './electrum-desk.ts';
import { ElectrumProofError, isHash, type ProvenTransaction, scriptHashOf } from './electrum-proof.ts';
import type { ElectrumSession } from './electrum-servers.ts';
import { checkNewest } from './electrum-witness.ts';

/** Outputs whose history is asked for to find the block. */
const MOST_HISTORIES = 3;
/** Transactions that one spends from; beyond, its inputs are not told. */
const MOST_ORIGINS = 200;
const OP_RETURN = 0x6a;

/** Where a server says that a transaction is: in a block, waiting (0), or it does not tell (null). Errors: ServerError, ProofError. */
async function askHeight(desk: Desk, session: ElectrumSession, transaction: ProvenTransaction): Promise<number | null> {
  // The last output is the change more often than not, and has the shortest history.
  const candidates = transaction.outputs.filter(({ script }) => script.length > 0 && script[0] !== OP_RETURN).toReversed();
  const scripts = [...new Set(candidates.map(scriptOf))].slice(0, 2 * MOST_HISTORIES);
  const own = await desk.ours.scriptsOf(scripts);
  for (const script of scripts.filter((one) => !own.has(one)).slice(0, MOST_HISTORIES)) {
    try {
      const history = await askHistory(session, scriptHashOf(script));
      const entry = history.find(({ txid }) => txid === transaction.txid);
      if (entry) return entry.height;
    } catch (error) {
      // The history is too long for this server.
      if (!(error instanceof AnswerError)) throw error;
    }
  }
  return askVerbose(desk, session, transaction.txid);
}

/** The node behind a server may name the block: a hint, which the branch then proves. */
async function askVerbose({ headers }: Desk, session: ElectrumSession, txid: string): Promise<number | null> {
  try {
    const told = await session.ask('blockchain.transaction.get', [txid, true], 4 << 20);
    if (typeof told !== 'object' || told === null) return null;
    const { blockhash } = told as Record<string, unknown>;
    return blockhash === undefined ? 0 : isHash(blockhash) ? (headers.find(blockhash)?.height ?? null) : null;
  } catch (error) {
    if (error instanceof AnswerError) return null;
    throw error;
  }
}

type Statement =
  | { kind: 'confirmed'; transaction: ProvenTransaction; place: ProvenPlace }
  | { kind: 'pending'; transaction: ProvenTransaction }
  | { kind: 'unknown' };

/** What one server says, proven if it can be. Errors: ChainError, ServerError, AnswerError, ProofError. */
async function stateOf(desk: Desk, session: ElectrumSession, txid: string): Promise<Statement> {
  await desk.headers.follow(session);
  const place = knownPlace(desk, txid);
  if (place) return { kind: 'confirmed', transaction: await readKnown(desk, session, txid), place };
  const transaction = await askTransaction(desk, session, txid);
  const height = transaction && (await askHeight(desk, session, transaction));
  if (transaction && height !== null && height > 0)
    return { kind: 'confirmed', transaction, place: await provePlace(desk, session, txid, height) };
  if (transaction && height === null) throw new ElectrumProofError('a transaction without its block');
  // Not in a block: only a server that knows the newest one can say so.
  await checkNewest(desk, session);
  return transaction ? { kind: 'pending', transaction } : { kind: 'unknown' };
}

/** Who paid; null when that is not to be asked, or too much. Errors: ServerError, ProofError. */
async function originsOf(desk: Desk, session: ElectrumSession, { spends }: ProvenTransaction): Promise<ChainTransaction['inputs']> {
  const txids = [...new Set(spends.map((spend) => spend.slice(0, 64)))];
  if (txids.length > MOST_ORIGINS) return null;
  for (const txid of txids) if (await desk.ours.hasTransaction(txid)) return null;
  const origins = new Map(
    await Promise.all(txids.map(async (txid): Promise<[string, ProvenTransaction]> => [txid, await readKnown(desk, session, txid)])),
  );
  return spends.map((spend) => {
    const output = origins.get(spend.slice(0, 64))!.outputs[Number(spend.slice(65))];
    if (!output) throw new ElectrumProofError('a transaction that spends an output which does not exist');
    return { address: addressOf(desk, output), units: output.units };
  });
}

function typeOf(script: Uint8Array): string {
  if (script[0] === OP_RETURN) return 'nulldata';
  const isKey = (script.length === 35 || script.length === 67) && script[0] === script.length - 2 && script.at(-1) === 0xac;
  return isKey ? 'pubkey' : 'nonstandard';
}

/** Errors: ServerError, ProofError. */
async function describe(desk: Desk, session: ElectrumSession, found: Exclude<Statement, { kind: 'unknown' }>): Promise<ChainTransaction> {
  const { transaction } = found;
  const outputs = transaction.outputs.map((output) => {
    const address = addressOf(desk, output);
    return { address, units: output.units, ...(address === '' && { type: typeOf(output.script) }) };
  });
  const total = outputs.reduce((sum, { units }) => sum + units, 0n);
  const inputs = transaction.isCoinbase ? [{ address: 'coinbase', units: total }] : await originsOf(desk, session, transaction);
  const paid = inputs?.reduce((sum, { units }) => sum + units, 0n) ?? null;
  if (paid !== null && transaction.hasFee && paid < total) throw new ElectrumProofError('a transaction that pays more than it spends');
  const place = found.kind === 'confirmed' ? found.place : null;
  return {
    txid: transaction.txid,
    status: found.kind,
    confirmations: place ? desk.headers.tip()!.height - place.height + 1 : 0,
    blockHeight: place?.height ?? null,
    blockHash: place?.hash ?? null,
    timestamp: place && new Date(place.timeSeconds * 1000),
    amountUnits: total,
    feeUnits: transaction.isCoinbase ? 0n : transaction.hasFee && paid !== null ? paid - total : null,
    inputs,
    outputs,
  };
}

/** Errors: ChainError. */
export async function lookUpTransaction(desk: Desk, txid: string): Promise<ChainTransaction> {
  if (await desk.ours.hasTransaction(txid))
    throw new ChainError(
      'unsupported',
      'no source that may be asked about it; Electrum servers are not asked about transactions of payments',
    );
  const failures: string[] = [];
  const said = { pending: 0, unknown: 0 };
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const found = await stateOf(desk, session, txid);
      if (found.kind === 'confirmed') return await describe(desk, session, found);
      said[found.kind]++;
      if (said[found.kind] < 2) continue;
      if (found.kind === 'pending') return await describe(desk, session, found);
      throw new ChainError('not_found', txid);
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  if (said.pending > 0) throw lookupFailed(desk, 'the transaction is not in a block, and no second server shows it', failures);
  if (said.unknown > 0) throw lookupFailed(desk, 'one server does not know the transaction, and no second one confirms that', failures);
  throw lookupFailed(desk, 'no Electrum server proves where the transaction is', failures);
}
