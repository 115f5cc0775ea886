/** What a signer changed in a PSBT (BIP-174) beside adding signatures, byte by byte. Pure. */
import { bytesToHex } from '@noble/hashes/utils.js';
import { Transaction } from '@scure/btc-signer';

const UNREADABLE = 'is a PSBT that cannot be read';
const CHANGED = 'changes a part of the PSBT that is not a signature; sign the file again as you downloaded it';

type Entries = Map<string, Uint8Array>;
/** The maps of a PSBT, of which the first is about all of it; null: it cannot be read. */
function mapsOf(bytes: Uint8Array): Entries[] | null {
  let at = 5;
  const number = (): number => {
    const first = bytes[at++] ?? Number.NaN;
    const length = first < 0xfd ? 0 : 2 ** (first - 0xfc);
    let value = length === 0 ? first : 0;
    for (let i = 0; i < length; i++) value += (bytes[at++] ?? Number.NaN) * 256 ** i;
    return value;
  };
  const take = (): Uint8Array | null => {
    const length = number();
    // NaN where the bytes end too early.
    if (!(at + length <= bytes.length)) return null;
    at += length;
    return bytes.subarray(at - length, at);
  };
  const maps: Entries[] = [];
  while (at < bytes.length) {
    const entries: Entries = new Map();
    for (let key = take(); key?.length !== 0; key = take()) {
      const value = key && take();
      if (!value || entries.has(bytesToHex(key!))) return null;
      entries.set(bytesToHex(key!), value);
    }
    maps.push(entries);
  }
  return maps;
}

/** The first byte of a key says what it is. */
const [UNSIGNED, PREVIOUS, SIGNATURE, SIGHASH] = ['00', '00', '02', '03'];
/** What programs add for everybody: extended public keys, the version, and fields of their own; for an input also what finishes it. */
const ADDED = { all: ['01', 'fb', 'fc'], input: ['07', '08', 'fc'] };
const SIGHASH_ALL = '01000000';

/** Programs may leave out the witness of the transaction before, which its ID does not cover. */
function isSameTransaction(one: Uint8Array, other: Uint8Array): boolean {
  try {
    const options = { allowUnknownInputs: true, allowUnknownOutputs: true, disableScriptCheck: true, allowUnknownVersion: true };
    return bytesToHex(Transaction.fromRaw(one, options).toBytes(true, false)) === bytesToHex(other);
  } catch {
    return false;
  }
}

const isSame = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;
function isChanged(asked: Entries, key: string, value: Uint8Array): boolean {
  const kind = key.slice(0, 2);
  // Signatures are verified one by one.
  if (kind === SIGNATURE) return false;
  const before = asked.get(key);
  if (!before) return kind === SIGHASH ? bytesToHex(value) !== SIGHASH_ALL : !ADDED.input.includes(kind);
  return !isSame(before, value) && !(kind === PREVIOUS && isSameTransaction(before, value));
}

/**
 * Why a PSBT is not the one that was asked for with more signatures; null: it is. What a signer leaves out does not matter. `converted`: the
 * PSBT in version 0.
 */
export function psbtChange(asked: Uint8Array, signed: Uint8Array, converted: () => Uint8Array): string | null {
  const before = mapsOf(asked)!;
  const given = mapsOf(signed);
  if (!given || given.length === 0) return UNREADABLE;
  const after = given[0]!.has(UNSIGNED!) ? given : mapsOf(converted());
  if (after?.length !== before.length) return UNREADABLE;
  const [all, ...rest] = after as [Entries, ...Entries[]];
  const inputs = rest.slice(0, Transaction.fromPSBT(asked, { allowUnknownOutputs: true, disableScriptCheck: true }).inputsLength);
  for (const [key, value] of all) {
    const known = before[0]!.get(key);
    if (known ? !isSame(known, value) : !ADDED.all.includes(key.slice(0, 2))) return CHANGED;
  }
  for (const [i, entries] of inputs.entries())
    for (const [key, value] of entries) if (isChanged(before[i + 1]!, key, value)) return CHANGED;
  return null;
}
