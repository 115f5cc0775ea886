/** Checks a PSBT against the file around it and against the wallet, and signs it. */
import { bytesToHex } from '@noble/hashes/utils.js';
import { base64 } from '@scure/base';
import { getPrevOut, Transaction } from '@scure/btc-signer/transaction.js';
import { keysOf, outputLockOf, scriptOfAddress } from '../src/addresses/address.ts';
import { type BitcoinScript, isBitcoinLike, PARAMS } from '../src/addresses/params.ts';
import { COIN } from '../src/core/coin.ts';
import type { PsbtRequest, SigningFile } from '../src/core/signing-file.ts';
import { type Account, refuse } from './secret.ts';
import type { Steps } from './steps.ts';

/** Replaceable (BIP-125), and without a relative lock time (BIP-68). */
const REPLACEABLE = 0xfffffffd;

export type CheckedPsbt = { tx: Transaction; indexes: readonly number[]; spentUnits: bigint; paidUnits: bigint; inputs: readonly string[] };

/** The index of the address that an input spends from: the last step of its path. */
function indexOf(input: ReturnType<Transaction['getInput']>): number {
  // All signers of an address have the same last step.
  const path = input.tapBip32Derivation?.[0]?.[1].der.path ?? input.bip32Derivation?.[0]?.[1].path;
  const index = path?.at(-1);
  return index !== undefined && index < 0x80000000 ? index : refuse('The file does not say which address an input belongs to.');
}

/**
 * The transaction of a request. Reading it compares each input with the transaction that made it, so that its amount is proven. Signing is
 * not asked to repeat that: it would compare all inputs once more for each one. Errors: SignerError.
 */
function readPsbt({ psbt }: PsbtRequest): Transaction {
  try {
    return Transaction.fromPSBT(base64.decode(psbt));
  } catch {
    return refuse('The transaction in the file contradicts itself or cannot be read.');
  }
}

/** Pauses after each input. Errors: SignerError. */
export function* checkPsbt(request: PsbtRequest, file: SigningFile, { addresses }: Account): Steps<CheckedPsbt> {
  const { family } = COIN[file.coin];
  const script = file.account.script as BitcoinScript;
  if (!isBitcoinLike(family) || file.account.script === 'eoa') return refuse('The file mixes two kinds of chains.');
  // Amounts of inputs count only with the transaction that made them; Taproot signatures cover all amounts.
  const tx = readPsbt(request);
  // Anything else would make a transaction that waits, or that cannot be replaced.
  if (tx.version !== 2 || tx.lockTime !== 0) refuse('The transaction has another version or lock time than Florin uses.');
  const indexes: number[] = [];
  const inputs: string[] = [];
  let spentUnits = 0n;
  for (let i = 0; i < tx.inputsLength; i++) {
    const input = tx.getInput(i);
    if (!input.nonWitnessUtxo && !(script === 'p2tr' && input.witnessUtxo)) refuse('The file does not prove the amount of an input.');
    if (input.sighashType !== undefined && input.sighashType !== 0 && input.sighashType !== 1)
      refuse('The file asks for a signature that does not cover the whole transaction.');
    if (input.sequence !== REPLACEABLE) refuse('The transaction has another sequence number than Florin uses.');
    const spent = getPrevOut(input);
    const index = indexOf(input);
    const ours = outputLockOf({ chainKey: file.account.chainKey, script }, BigInt(index));
    if (bytesToHex(ours.script) !== bytesToHex(spent.script)) refuse(`Input ${i + 1} does not belong to address ${index} of this wallet.`);
    const own = bytesToHex(addresses.deriveChild(index).publicKey!);
    if (input.partialSig?.some(([key]) => bytesToHex(key) === own))
      refuse('This wallet has already signed the file. Another signer has to sign it too.', 'secret');
    indexes.push(index);
    inputs.push(`${bytesToHex(input.txid!)}:${input.index}`);
    spentUnits += spent.amount;
    yield;
  }
  if (tx.inputsLength !== request.inputs) refuse('The file has another number of inputs than it says.');
  if (tx.outputsLength !== request.lines.length) refuse('The transaction has an output that the file does not name.');
  let paidUnits = 0n;
  for (const [i, { to, units }] of request.lines.entries()) {
    const { script: paid, amount } = tx.getOutput(i);
    // One script has several spellings.
    if (bytesToHex(paid!) !== scriptOfAddress(to, PARAMS[family].forms[file.network]))
      refuse(`The transaction pays another address than ${to}.`);
    if (amount !== units) refuse('The transaction pays another amount than the file says.');
    paidUnits += units;
  }
  if (spentUnits - paidUnits !== request.feeUnits) refuse('The fee of the transaction is not the one that the file says.');
  return { tx, indexes, spentUnits, paidUnits, inputs };
}

/** The signed transaction in hex, or a PSBT with the signatures where others sign too. Pauses after each signature. */
export function* signPsbt({ tx, indexes }: CheckedPsbt, file: SigningFile, { addresses }: Account): Steps<string> {
  for (const [i, index] of indexes.entries()) {
    const key = addresses.deriveChild(index);
    tx.signIdx(key.privateKey!, i);
    key.wipePrivateData();
    yield;
  }
  if (keysOf(file.account.chainKey).chainKeys.length > 1) return bytesToHex(onlySignatures(tx).toPSBT(0));
  tx.finalize();
  return bytesToHex(tx.extract());
}

/** The same PSBT without what the service knows, so that it fits into QR codes. */
function onlySignatures(tx: Transaction): Transaction {
  const bare = new Transaction({ version: tx.version, lockTime: tx.lockTime, allowUnknownOutputs: true });
  for (let i = 0; i < tx.inputsLength; i++) {
    const { txid, index, sequence, partialSig } = tx.getInput(i);
    bare.addInput({ txid: txid!, index: index!, sequence: sequence!, ...(partialSig && { partialSig }) }, true);
  }
  for (let i = 0; i < tx.outputsLength; i++) bare.addOutput(tx.getOutput(i), true);
  return bare;
}
