/**
 * Checks a signed transaction of a Bitcoin-like chain against the PSBT that was asked for: the same inputs and outputs in the same order,
 * each input signed for exactly that by the key of its address. Pure.
 */
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { bytesToHex, concatBytes } from '@noble/hashes/utils.js';
import { Transaction } from '@scure/btc-signer';
import { type BitcoinScript, keysOf, type OutputLock, outputLockOf, outputScript } from '#addresses';
import { invariant } from '#core/invariant';
import type { PsbtRequest, SigningFile } from '#core/signing-file';
import type { Signature } from '#evm';
import { psbtChange } from './psbt-change.ts';

/** Why a signed file is refused, in words that continue "The signed file". */
export class SignedError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'SignedError';
  }
}
const ensure = (condition: boolean, reason: string): void => {
  if (!condition) throw new SignedError(reason);
};

const equalBytes = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;

const SIGHASH_ALL = 1;
const OPTIONS = { allowUnknownInputs: true, allowUnknownOutputs: true, disableScriptCheck: true } as const;

const readRaw = (hex: string): Transaction => {
  try {
    return Transaction.fromRaw(Buffer.from(hex, 'hex'), OPTIONS);
  } catch {
    throw new SignedError('contains a transaction that cannot be read');
  }
};
const readPsbt = (base64: string): Transaction => Transaction.fromPSBT(Buffer.from(base64, 'base64'), OPTIONS);

/** A PSBT that another wallet signed, version 0 or 2 (BIP-174, BIP-370). Errors: SignedError. */
function readSignedPsbt(bytes: Uint8Array): Transaction {
  try {
    return Transaction.fromPSBT(bytes, { ...OPTIONS, unknown: 'strip' });
  } catch {
    throw new SignedError('is a PSBT that cannot be read');
  }
}

type Account = SigningFile['account'];
export const isMultisig = ({ chainKey }: Pick<Account, 'chainKey'>): boolean => keysOf(chainKey).chainKeys.length > 1;

/**
 * The finished transaction of a PSBT that another wallet signed, in hex. Some wallets return only their signatures, so the rest is taken
 * from the PSBT that was asked for. Errors: SignedError.
 */
export function finishPsbt(request: PsbtRequest, bytes: Uint8Array, account: Account): string {
  if (isMultisig(account)) return finishMultisig(mergePsbt(request, bytes, account), account);
  const [tx, signed] = [readPsbt(request.psbt), readSignedPsbt(bytes)];
  checkSame(tx, signed);
  try {
    for (let i = 0; i < tx.inputsLength; i++) {
      const { partialSig, tapKeySig, finalScriptSig, finalScriptWitness } = signed.getInput(i);
      const isFinal = finalScriptSig !== undefined || finalScriptWitness !== undefined;
      const parts = isFinal ? { finalScriptSig, finalScriptWitness } : { partialSig, tapKeySig };
      tx.updateInput(i, Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)), true);
      if (!isFinal) tx.finalizeIdx(i);
    }
    return bytesToHex(tx.extract());
  } catch {
    throw new SignedError(UNSIGNED);
  }
}
const UNSIGNED = 'is a PSBT without all signatures; sign every input in your wallet first';

// PSBTs that several people sign, one after the other or each a copy.

/** `tx`: what was asked, with the signatures that are there now; `signers`: who has signed every input, by the order of the keys; empty when it is finished. */
export type MergedPsbt = { tx: Transaction; signers: readonly number[]; isWhole: boolean };

/** Adds the signatures of a PSBT to those that are already in the one that was asked for. Nothing else of it is taken. Errors: SignedError. */
export function mergePsbt(request: PsbtRequest, bytes: Uint8Array, account: Account): MergedPsbt {
  const [tx, signed] = [readPsbt(request.psbt), readSignedPsbt(bytes)];
  checkSame(tx, signed);
  const change = psbtChange(Buffer.from(request.psbt, 'base64'), bytes, () => signed.toPSBT(0));
  if (change !== null) throw new SignedError(change);
  let finished = 0;
  const [before, added]: [number[][], number[][]] = [[], []];
  for (let i = 0; i < tx.inputsLength; i++) {
    const { partialSig = [], finalScriptSig, finalScriptWitness } = signed.getInput(i);
    ensure(finalScriptSig === undefined || finalScriptWitness !== undefined, UNSIGNED);
    if (finalScriptWitness) {
      finished++;
      tx.updateInput(i, { finalScriptWitness, ...(finalScriptSig && { finalScriptSig }) }, true);
    }
    const lock = lockIn(tx, i, account);
    const earlier = (tx.getInput(i).partialSig ?? []).map(([key]) => signerIn(lock, key));
    before.push(earlier);
    const hash = tx.preimageWitnessV0(i, lock.witnessScript!, SIGHASH_ALL, spentBy(tx, i).amount);
    for (const [key, signature] of partialSig) checkEcdsa(signature, hash, key);
    added.push(partialSig.map(([key]) => signerIn(lock, key)).toSorted((a, b) => a - b));
    // Somebody who signs again may make another signature.
    const further = partialSig.filter(([key]) => !earlier.includes(signerIn(lock, key)));
    if (further.length > 0) tx.updateInput(i, { partialSig: further }, true);
  }
  const isEven = added.every((one) => one.join() === added[0]!.join());
  if (finished === tx.inputsLength) return { tx, signers: [], isWhole: true };
  if (finished > 0 || !isEven || added[0]!.length === 0) throw new SignedError(UNSIGNED);
  const { required, chainKeys } = keysOf(account.chainKey);
  const signers = [...chainKeys.keys()].filter((signer) => added[0]!.includes(signer) || before.every((one) => one.includes(signer)));
  return { tx, signers, isWhole: signers.length >= required };
}

/** What locks an input: its derivation paths end with the index of its address. */
function lockIn(tx: Transaction, i: number, { chainKey, script }: Account): OutputLock {
  const index = tx.getInput(i).bip32Derivation?.[0]?.[1].path.at(-1);
  invariant(index !== undefined && script !== 'eoa', 'a PSBT that this service made names the address of each input');
  return outputLockOf({ chainKey, script }, BigInt(index));
}
/** Which of the keys of an address it is. Errors: SignedError. */
function signerIn({ publicKeys }: OutputLock, key: Uint8Array): number {
  const signer = publicKeys.findIndex((one) => equalBytes(one, key));
  ensure(signer >= 0, 'has a signature by a key that is not of this wallet');
  return signer;
}
/** The transaction in hex. Errors: SignedError. */
function finishMultisig({ tx, isWhole }: MergedPsbt, account: Account): string {
  if (!isWhole) throw new SignedError(UNSIGNED);
  for (let i = 0; i < tx.inputsLength; i++) {
    const { partialSig, finalScriptWitness } = tx.getInput(i);
    if (finalScriptWitness) continue;
    const { witnessScript, redeemScript } = lockIn(tx, i, account);
    const script = bytesToHex(witnessScript!);
    // Signatures follow the order of their keys.
    const signatures = partialSig!.toSorted(([one], [other]) => script.indexOf(bytesToHex(one)) - script.indexOf(bytesToHex(other)));
    const shown = signatures.slice(0, keysOf(account.chainKey).required).map(([, signature]) => signature);
    tx.updateInput(
      i,
      { finalScriptWitness: [new Uint8Array(), ...shown, witnessScript!], ...(redeemScript && { finalScriptSig: pushed(redeemScript) }) },
      true,
    );
  }
  return bytesToHex(tx.extract());
}
const pushed = (script: Uint8Array): Uint8Array => concatBytes(Uint8Array.of(script.length), script);

/** The unsigned transaction of a request: version, inputs, outputs and lock time. */
function checkSame(asked: Transaction, signed: Transaction): void {
  ensure(signed.inputsLength === asked.inputsLength, 'spends a different number of inputs than was asked for');
  ensure(signed.outputsLength === asked.outputsLength, 'has a different number of outputs than was asked for');
  for (let i = 0; i < asked.inputsLength; i++) {
    const [one, other] = [asked.getInput(i), signed.getInput(i)];
    ensure(equalBytes(one.txid!, other.txid!) && one.index === other.index, 'spends an input that was not asked for');
    ensure(one.sequence === other.sequence, 'changes the sequence of an input');
  }
  for (let i = 0; i < asked.outputsLength; i++) {
    const [one, other] = [asked.getOutput(i), signed.getOutput(i)];
    ensure(equalBytes(one.script!, other.script!), 'pays to another address than was asked for');
    ensure(one.amount === other.amount, 'pays another amount than was asked for');
  }
  ensure(asked.version === signed.version && asked.lockTime === signed.lockTime, 'has another version or lock time than was asked for');
}

/** Pushes of a script that only pushes; null if it does anything else. */
function pushesOf(script: Uint8Array): Uint8Array[] | null {
  const pushes: Uint8Array[] = [];
  for (let at = 0; at < script.length; ) {
    const length = script[at]!;
    if (length < 1 || length > 75 || at + 1 + length > script.length) return null;
    pushes.push(script.subarray(at + 1, at + 1 + length));
    at += 1 + length;
  }
  return pushes;
}

function isValid(signature: Uint8Array, hash: Uint8Array, publicKey: Uint8Array): boolean {
  ensure(signature.at(-1) === SIGHASH_ALL, 'has a signature that covers only a part of the transaction');
  try {
    return secp256k1.verify(signature.slice(0, -1), hash, publicKey, { prehash: false, format: 'der' });
  } catch {
    // Not a signature at all.
    return false;
  }
}
function checkEcdsa(signature: Uint8Array, hash: Uint8Array, publicKey: Uint8Array): void {
  ensure(isValid(signature, hash, publicKey), 'has a signature that is not valid');
}

/** Signatures by as many of the keys as the script asks for, in the order of the keys. */
function checkMultisig(
  signed: Transaction,
  i: number,
  { witnessScript, redeemScript, publicKeys, amount, required }: OutputLock & { amount: bigint; required: number },
): void {
  const { finalScriptSig = new Uint8Array(), finalScriptWitness: witness = [] } = signed.getInput(i);
  ensure(witness.length === required + 2 && witness[0]!.length === 0 && equalBytes(witness.at(-1)!, witnessScript!), OTHERWISE);
  ensure(equalBytes(finalScriptSig, redeemScript ? pushed(redeemScript) : new Uint8Array()), OTHERWISE);
  const hash = signed.preimageWitnessV0(i, witnessScript!, SIGHASH_ALL, amount);
  const shown = bytesToHex(witnessScript!);
  const keys = publicKeys.toSorted((one, other) => shown.indexOf(bytesToHex(one)) - shown.indexOf(bytesToHex(other)));
  let at = 0;
  for (const signature of witness.slice(1, -1)) {
    while (at < keys.length && !isValid(signature, hash, keys[at]!)) at++;
    ensure(at++ < keys.length, 'has a signature that is not valid');
  }
}

type Known = { script: BitcoinScript; scripts: Uint8Array[]; amounts: bigint[] };
const OTHERWISE = 'has an input that is not signed as its address requires';

function checkInput(signed: Transaction, i: number, { script, scripts, amounts }: Known): void {
  const input = signed.getInput(i);
  const scriptSig = input.finalScriptSig ?? new Uint8Array();
  const witness = input.finalScriptWitness ?? [];
  if (script === 'p2tr') {
    const [signature] = witness;
    ensure(witness.length === 1 && scriptSig.length === 0 && signature!.length === 64, 'has an input without a plain key signature');
    const hash = signed.preimageWitnessV1(i, scripts, 0, amounts);
    ensure(schnorr.verify(signature!, hash, scripts[i]!.subarray(2)), 'has a signature that is not valid');
    return;
  }
  const isLegacy = script === 'p2pkh';
  const parts = isLegacy ? pushesOf(scriptSig) : witness;
  ensure(parts?.length === 2 && (!isLegacy || witness.length === 0), OTHERWISE);
  const [signature, publicKey] = parts as [Uint8Array, Uint8Array];
  ensure(publicKey.length === 33 && equalBytes(outputScript(script, publicKey), scripts[i]!), 'is signed by the key of another address');
  if (isLegacy) {
    checkEcdsa(signature, legacyHash(signed, i, scripts[i]!), publicKey);
    return;
  }
  const program = outputScript('p2wpkh', publicKey);
  ensure(equalBytes(scriptSig, script === 'p2sh-p2wpkh' ? pushed(program) : new Uint8Array()), OTHERWISE);
  const code = concatBytes(Uint8Array.of(0x76, 0xa9), program.slice(1), Uint8Array.of(0x88, 0xac));
  checkEcdsa(signature, signed.preimageWitnessV0(i, code, SIGHASH_ALL, amounts[i]!), publicKey);
}

/** The library keeps its function for the hash of legacy inputs private in its types. */
const legacyHash = (tx: Transaction, i: number, script: Uint8Array): Uint8Array =>
  (tx as unknown as { preimageLegacy(i: number, script: Uint8Array, type: number): Uint8Array }).preimageLegacy(i, script, SIGHASH_ALL);

/** What is signed by an input: its output script and its amount. */
function spentBy(asked: Transaction, i: number): { script: Uint8Array; amount: bigint } {
  const { witnessUtxo, nonWitnessUtxo, index } = asked.getInput(i);
  const spent = witnessUtxo ?? nonWitnessUtxo?.outputs[index!];
  invariant(spent, 'a PSBT that this service made names the output that each input spends');
  return { script: spent.script, amount: spent.amount };
}

/** `signatures`: of the authorizations in it. */
export type CheckedTransaction = { txid: string; raw: Uint8Array; feeUnits: bigint; signatures?: readonly Signature[] };
/** Errors: SignedError. */
export function checkSignedPsbt(request: PsbtRequest, hex: string, account: Account): CheckedTransaction {
  const asked = readPsbt(request.psbt);
  const signed = readRaw(hex);
  checkSame(asked, signed);
  const spent = Array.from({ length: asked.inputsLength }, (_, i) => spentBy(asked, i));
  const { required } = keysOf(account.chainKey);
  const known: Known = {
    script: account.script as BitcoinScript,
    scripts: spent.map((one) => one.script),
    amounts: spent.map(({ amount }) => amount),
  };
  for (let i = 0; i < asked.inputsLength; i++) {
    if (isMultisig(account)) checkMultisig(signed, i, { ...lockIn(asked, i, account), amount: spent[i]!.amount, required });
    else checkInput(signed, i, known);
  }
  return { txid: signed.id, raw: Buffer.from(hex, 'hex'), feeUnits: request.feeUnits };
}

/** Virtual bytes of a signed transaction. */
export const sizeOfRaw = (raw: Uint8Array): number => Transaction.fromRaw(raw, OPTIONS).vsize;

/** How many outputs it has. */
export const outputsOfRaw = (raw: Uint8Array): number => Transaction.fromRaw(raw, OPTIONS).outputsLength;

const inputsOf = (tx: Transaction): string[] =>
  Array.from({ length: tx.inputsLength }, (_, i) => {
    const { txid, index } = tx.getInput(i);
    return `${bytesToHex(txid!)}:${index}`;
  });
/** The inputs of a raw transaction in hex, as `txid:n`. Errors: SignedError. */
export const inputsOfRaw = (hex: string): string[] => inputsOf(readRaw(hex));
/** The inputs of a PSBT. Errors: SignedError. */
export const inputsOfPsbt = (bytes: Uint8Array): string[] => inputsOf(readSignedPsbt(bytes));

/**
 * What a transaction does, without its signatures: it is the same for all transactions that anybody can make of one by writing its signatures
 * in another form, which gives it another ID.
 */
export function effectOfRaw(raw: Uint8Array): string {
  const tx = Transaction.fromRaw(raw, OPTIONS);
  const inputs = Array.from({ length: tx.inputsLength }, (_, i) => {
    const { txid, index, sequence } = tx.getInput(i);
    return [bytesToHex(txid!), index, sequence];
  });
  const outputs = Array.from({ length: tx.outputsLength }, (_, i) => {
    const { script, amount } = tx.getOutput(i);
    return [bytesToHex(script!), String(amount)];
  });
  return JSON.stringify([tx.version, tx.lockTime, inputs, outputs]);
}
