/** Reads raw blocks and transactions of the Core family: BTC segwit, LTC MWEB, DOGE AuxPoW, DASH special transactions. */
import { setImmediate } from 'node:timers/promises';
import { PARAMS, type Params } from '#addresses';
import type { BitcoinFamily } from '#core/coin';
import type { TransferKind } from '#core/payment';
import type { Conflict, Matcher, Output, Sighting } from '../chain-source.ts';
import { showHash } from './header.ts';
import {
  hashTransaction,
  type StrictReader,
  skip,
  type TransactionExtent,
  type TransactionForm,
  takeCount,
  takeTransaction,
} from './strict-reader.ts';

export type RawOutput = { n: number; units: bigint; script: Uint8Array };
/** A transaction in the bytes that it was received in. Its parts are read on demand. */
export type RawTransaction = {
  bytes: Buffer;
  extent: TransactionExtent;
  /** Its id is in `ids` at `idAt`, in the chain's byte order; displays reverse the bytes. */
  ids: Buffer;
  idAt: number;
  coinbase: boolean;
  /** LTC: the block's last transaction, whose outputs are the peg-outs. */
  hogEx: boolean;
  /** LTC: has an MWEB part, which these bytes do not show; a node may even hide that there is one (`rpcserialversion=1`). */
  mweb: boolean;
};
/** `hash` is that of the header by SHA-256 twice: the block's id on BTC, LTC and DOGE, but not on DASH, whose ids are X11 hashes. */
export type RawBlock = { hash: string; parent: string; merkleRoot: string; time: Date; transactions: RawTransaction[] };

/** The most work between two turns of the event loop. */
const TURN_MS = 8;

/** LTC: first bytes of the 34-byte scripts of a peg-in (witness version 9) and of a HogEx's first output (version 8). */
const PEGIN = 0x59;
const HOGADDR = 0x58;
const isMwebScript = (bytes: Buffer, from: number, to: number, version: number): boolean =>
  to - from === 34 && bytes[from] === version && bytes[from + 1] === 32;

/** What transactions may have in a block before the last one, as its last one, and outside of blocks. */
export const formsOf = ({ segwit, mweb, extraPayload }: Params): Readonly<Record<'inner' | 'last' | 'waiting', TransactionForm>> => {
  const form = { witness: segwit, mweb: 'none', extra: extraPayload } as const;
  return mweb
    ? { inner: form, last: { ...form, mweb: 'hogEx' }, waiting: { ...form, mweb: 'part' } }
    : { inner: form, last: form, waiting: form };
};

/** Reads one transaction and writes its id to `ids` at `idAt`. Errors: RangeError. */
export function readRawTransaction(reader: StrictReader, form: TransactionForm, params: Params, ids: Buffer, idAt: number): RawTransaction {
  const { bytes } = reader;
  const extent = takeTransaction(reader, form);
  hashTransaction(bytes, extent, ids, idAt);
  const tx: RawTransaction = { bytes, extent, ids, idAt, coinbase: false, hogEx: extent.mweb === 'hogEx', mweb: extent.mweb !== 'none' };
  if (params.mweb) tx.mweb ||= extent.outputs === 0 || pegsIn(tx);
  return tx;
}

function pegsIn(tx: RawTransaction): boolean {
  let found = false;
  forEachOutput(tx, (_n, _unitsAt, from, to) => {
    found ||= isMwebScript(tx.bytes, from, to, PEGIN);
  });
  return found;
}

/** LTC: whether the first output is that of a HogEx, which blocks without the flag show as well. */
export function paysHogAddress(tx: RawTransaction): boolean {
  let found = false;
  forEachOutput(tx, (n, _unitsAt, from, to) => {
    found ||= n === 0 && isMwebScript(tx.bytes, from, to, HOGADDR);
  });
  return found;
}

export const txidOf = ({ ids, idAt }: RawTransaction): string => showHash(ids.subarray(idAt, idAt + 32));

/** The bytes that its ID covers: without witnesses and, on LTC, without its MWEB part. */
export const strippedOf = ({ bytes, extent: { from, to, bodyFrom, bodyTo, tailFrom } }: RawTransaction): Buffer =>
  Buffer.concat([bytes.subarray(from, from + 4), bytes.subarray(bodyFrom, bodyTo), bytes.subarray(tailFrom, to)]);

/** Outpoints as `txid:n`, only those that `isWanted` accepts by their 36 bytes. */
export function inputsOf(tx: RawTransaction, isWanted = (_bytes: Buffer, _from: number, _to: number): boolean => true): string[] {
  const { bytes, extent } = tx;
  const reader: StrictReader = { bytes, at: extent.inputsAt };
  const found: string[] = [];
  for (let i = 0; i < extent.inputs; i++) {
    const at = skip(reader, 36);
    if (isWanted(bytes, at, at + 36)) found.push(`${showHash(bytes.subarray(at, at + 32))}:${bytes.readUInt32LE(at + 32)}`);
    skip(reader, takeCount(reader, 1));
    skip(reader, 4);
  }
  return found;
}

/** Calls back for each output with the offsets of its amount and script, without creating objects. */
function forEachOutput(tx: RawTransaction, take: (n: number, unitsAt: number, from: number, to: number) => void): void {
  const reader: StrictReader = { bytes: tx.bytes, at: tx.extent.outputsAt };
  for (let n = 0; n < tx.extent.outputs; n++) {
    const unitsAt = skip(reader, 8);
    const from = skip(reader, takeCount(reader, 1));
    take(n, unitsAt, from, reader.at);
  }
}

export function outputsOfTransaction(tx: RawTransaction): RawOutput[] {
  const { bytes } = tx;
  const found: RawOutput[] = [];
  forEachOutput(tx, (n, unitsAt, from, to) => {
    found.push({ n, units: bytes.readBigInt64LE(unitsAt), script: bytes.subarray(from, to) });
  });
  return found;
}

const isSame = (bytes: Buffer, one: { from: number; to: number }, from: number, to: number): boolean => {
  if (one.to - one.from !== to - from) return false;
  for (let i = to - from - 1; i >= 0; i--) if (bytes[one.from + i] !== bytes[from + i]) return false;
  return true;
};

/** Outputs of a transaction to each watched key, by key. */
function outputsByKey(tx: RawTransaction, matcher: Matcher): Map<string, Output[]> {
  const { bytes } = tx;
  const found = new Map<string, Output[]>();
  // A script that is paid a thousand times is looked up once.
  let last: { from: number; to: number; outputs: Output[] | null } | null = null;
  const outputsTo = (from: number, to: number): Output[] | null => {
    if (matcher.quick?.pays(bytes, from, to) === false) return null;
    const key = bytes.toString('hex', from, to);
    const known = found.get(key);
    if (known || !matcher.has(key)) return known ?? null;
    const outputs: Output[] = [];
    found.set(key, outputs);
    return outputs;
  };
  forEachOutput(tx, (n, unitsAt, from, to) => {
    if (!last || !isSame(bytes, last, from, to)) last = { from, to, outputs: outputsTo(from, to) };
    if (!last.outputs) return;
    const units = bytes.readBigInt64LE(unitsAt);
    if (units > 0n) last.outputs.push([n, units]);
  });
  return found;
}

/** What a transaction pays to watched keys, and which watched outpoints it spends. */
function matchTransaction(tx: RawTransaction, matcher: Matcher, kind: TransferKind, sightings: Sighting[], conflicts: Conflict[]): void {
  const found = outputsByKey(tx, matcher);
  const txid = found.size > 0 ? txidOf(tx) : '';
  // All of them spend the same outpoints, so these are added once.
  const spends = found.size > 0 && kind === 'output' ? inputsOf(tx) : [];
  for (const [key, outputs] of found) {
    if (outputs.length === 0) continue;
    const sighting = { key, txid, kind, spends, lock: null };
    // Peg-outs of one transaction come from many payers, so each is separate.
    if (kind === 'pegout') for (const [n, units] of outputs) sightings.push({ ...sighting, ref: `${txid}:${n}`, units });
    else {
      const units = outputs.reduce((sum, output) => sum + output[1], 0n);
      sightings.push({ ...sighting, ref: `${txid}:${outputs[0]![0]}`, units, ...(outputs.length > 1 && { outputs }) });
    }
  }
  // A HogEx spends the previous HogEx and not the payer's coins, so its inputs are not double-spend keys.
  if (!matcher.watchesSpends || kind !== 'output') return;
  for (const outpoint of inputsOf(tx, matcher.quick?.spends)) if (matcher.spends(outpoint)) conflicts.push({ outpoint, txid: txidOf(tx) });
}

const kindOf = (tx: RawTransaction): TransferKind => (tx.coinbase ? 'coinbase' : tx.hogEx ? 'pegout' : 'output');

/** The same for all transactions of a block, yielding to the event loop in between. */
export const matchBlock = (block: RawBlock, matcher: Matcher): Promise<{ sightings: Sighting[]; conflicts: Conflict[] }> =>
  matchInTurns(block.transactions, matcher, kindOf);

/** The same for any transactions. */
export async function matchInTurns(
  transactions: readonly RawTransaction[],
  matcher: Matcher,
  kindOf: (tx: RawTransaction) => TransferKind,
): Promise<{ sightings: Sighting[]; conflicts: Conflict[] }> {
  const sightings: Sighting[] = [];
  const conflicts: Conflict[] = [];
  let since = performance.now();
  for (const tx of transactions) {
    matchTransaction(tx, matcher, kindOf(tx), sightings, conflicts);
    if (performance.now() - since < TURN_MS) continue;
    await setImmediate();
    since = performance.now();
  }
  return { sightings, conflicts };
}

/** Parses one transaction. Errors: RangeError when the bytes are not a transaction. */
export function parseTransaction(bytes: Buffer, family: BitcoinFamily): RawTransaction {
  const params = PARAMS[family];
  return readRawTransaction({ bytes, at: 0 }, formsOf(params).waiting, params, Buffer.alloc(32), 0);
}
