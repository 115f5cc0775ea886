/** Reads what a merchant uploads after signing, whatever wrote it, and checks it against the file that was asked for. */
import { setImmediate } from 'node:timers/promises';
import { bytesToHex } from '@noble/hashes/utils.js';
import { Transaction } from '@scure/btc-signer';
import { containsPrivateKey } from '#addresses';
import { Problem } from '#core/problem';
import {
  type AccountRequest,
  FileError,
  MAX_SIGNED_BYTES,
  type PsbtRequest,
  type SignedFile,
  type SigningFile,
  signingFileText,
} from '#core/signing-file';
import {
  authorizationHash,
  domainOf,
  feeOf,
  readSignedTransaction,
  type Signature,
  signaturesIn,
  signedBytes,
  signerOf,
  signingHash,
  transactionId,
  transactionOf,
  transfersOf,
} from '#evm';
import { MAX_GROUPS } from './utxo.ts';
import {
  type CheckedTransaction,
  checkSignedPsbt,
  finishPsbt,
  inputsOfPsbt,
  inputsOfRaw,
  isMultisig,
  type MergedPsbt,
  mergePsbt,
  SignedError,
} from './utxo-check.ts';

export type Upload = {
  /** Of the sweep, if the file names it. */
  id: string | null;
  /** Otherwise an input of its transaction. */
  input: string | null;
  /** Errors: signed_file_refused. */
  check(file: SigningFile): CheckedTransaction[];
  /** The file with these signatures, while others have to sign it too; null: it is whole. Errors: signed_file_refused. */
  sign(file: SigningFile): PartlySigned | null;
};
/** `signers`: who has signed all of it, by the order of the wallet's keys. */
type PartlySigned = { file: SigningFile; signers: number[] };

const refusing = <T>(work: () => T): T => {
  try {
    return work();
  } catch (error) {
    if (error instanceof SignedError) throw new Problem('signed_file_refused', { reason: error.message }, { cause: error });
    if (error instanceof FileError)
      throw new Problem('signed_file_refused', { reason: `cannot be read: ${error.message}` }, { cause: error });
    throw error;
  }
};

function checkAll(file: SigningFile, transactions: readonly string[]): CheckedTransaction[] {
  if (transactions.length !== file.requests.length) throw new SignedError('has a different number of transactions than was asked for');
  return file.requests.map((request, i) => {
    if (request.kind !== 'psbt') return checkSignedRequest(request, transactions[i]!, file);
    return checkSignedPsbt(request, readBare(transactions[i]!).finish(request, file.account), file.account);
  });
}

type Account = SigningFile['account'];
/** `merge`: null for a transaction that is whole. */
type Bare = {
  inputs: string[];
  finish(request: PsbtRequest, account: Account): string;
  merge(request: PsbtRequest, account: Account): MergedPsbt | null;
};
const MAGIC = 'psbt\xff';
/** A PSBT in base64 or hex, or a raw transaction in hex. Errors: SignedError. */
function readBare(text: string): Bare {
  const isHex = /^[0-9a-fA-F]+$/.test(text) && text.length % 2 === 0;
  const bytes = Buffer.from(text, isHex ? 'hex' : 'base64');
  if (bytes.subarray(0, 5).toString('latin1') === MAGIC)
    return {
      inputs: inputsOfPsbt(bytes),
      finish: (request, account) => finishPsbt(request, bytes, account),
      merge: (request, account) => mergePsbt(request, bytes, account),
    };
  if (!isHex) throw new SignedError('is neither a signed file of the signer nor a PSBT');
  const hex = text.toLowerCase();
  return { inputs: inputsOfRaw(hex), finish: () => hex, merge: () => null };
}
/** Base64 has lines of 64 characters or more. Millions of short ones would take a second. */
const MOST_LINES = Math.ceil(MAX_SIGNED_BYTES / 64);
/** The texts of PSBTs or raw transactions, one after the other. Base64 may have line breaks; that of a PSBT begins with cHNidP. */
function partsOf(content: string): string[] {
  const words = content.trim().split(/\s+/, MOST_LINES + 1);
  if (words.length > MOST_LINES) throw new SignedError(`has more than ${MOST_LINES} lines`);
  if (words.every((word) => /^[0-9a-fA-F]+$/.test(word))) return words;
  const begins = words.flatMap((word, i) => (i === 0 || word.startsWith('cHNidP') ? [i] : []));
  return begins.map((begin, i) => words.slice(begin, begins[i + 1]).join(''));
}

/** A file of this size is read whatever it is; a larger one only up to the size that what was asked for has with signatures. */
const SMALL_BYTES = 100_000;
const mostBytesOf = (file: SigningFile): number => SMALL_BYTES + 2 * signingFileText(file).length;
const refusePrivate = (content: string): void => {
  if (containsPrivateKey(content)) throw new Problem('signed_file_private');
};

/** Wallets give transactions back one by one, so their order says nothing. The first input says which request one belongs to. */
function inOrder(file: SigningFile, parts: readonly string[]): string[] {
  const requests = file.requests.flatMap((request) => (request.kind === 'psbt' ? [request] : []));
  if (requests.length === 0) throw new SignedError('is not of the kind that was asked for; sign the file with the signer page');
  if (parts.length < requests.length)
    throw new SignedError(`has ${parts.length} of ${requests.length} transactions; upload all signed PSBTs together`);
  if (parts.length > requests.length) throw new SignedError('has a different number of transactions than was asked for');
  const firsts = psbtsOf(file).map((psbt) => inputsOfPsbt(Buffer.from(psbt, 'base64'))[0]!);
  const placeOf = (part: string) => firsts.indexOf(readBare(part).inputs[0] ?? '');
  return parts
    .map((part) => [placeOf(part), part] as const)
    .toSorted(([one], [other]) => one - other)
    .map(([, part]) => part);
}

/** Null: all of it has the signatures that it needs. */
function signPartly(file: SigningFile, transactions: readonly string[]): PartlySigned | null {
  if (!isMultisig(file.account)) return null;
  if (transactions.length !== file.requests.length) throw new SignedError('has a different number of transactions than was asked for');
  const merged = file.requests.map((request, i) => {
    if (request.kind !== 'psbt') throw new SignedError('is not of the kind that was asked for');
    return { request, found: readBare(transactions[i]!).merge(request, file.account) };
  });
  if (merged.every(({ found }) => found === null || found.isWhole)) return null;
  const signed = merged.flatMap(({ request, found }) => (found && found.signers.length > 0 ? [{ ...found, request }] : []));
  if (signed.length < merged.length) throw new SignedError('has some transactions that are finished and others that are not');
  const signers = signed[0]!.signers.filter((signer) => signed.every((one) => one.signers.includes(signer)));
  const requests = signed.map(({ request, tx }) => ({ ...request, psbt: Buffer.from(tx.toPSBT(0)).toString('base64') }));
  return { file: { ...file, requests }, signers };
}

/** What belongs to no file is not parsed in full, because that takes seconds. Errors: signed_file_private, signed_file_refused. */
export const readUpload = (content: string, read: (content: string) => SignedFile): Upload =>
  refusing(() => {
    if (content.length > MAX_SIGNED_BYTES) throw new SignedError(`has more than ${MAX_SIGNED_BYTES} bytes`);
    refusePrivate(content.slice(0, SMALL_BYTES));
    const checking = (transactionsFor: (file: SigningFile) => readonly string[]) => {
      const read = <T>(file: SigningFile, work: (file: SigningFile, transactions: readonly string[]) => T): T =>
        refusing(() => {
          if (content.length > mostBytesOf(file)) throw new SignedError('is much larger than what was asked for');
          if (content.length > SMALL_BYTES) refusePrivate(content);
          return work(file, transactionsFor(file));
        });
      return { check: (file: SigningFile) => read(file, checkAll), sign: (file: SigningFile) => read(file, signPartly) };
    };
    if (!content.trimStart().startsWith('{')) {
      const parts = partsOf(content);
      if (parts.length > MAX_GROUPS) throw new SignedError(`has more than ${MAX_GROUPS} transactions`);
      return { id: null, input: readBare(parts[0]!).inputs[0] ?? null, ...checking((file) => inOrder(file, parts)) };
    }
    const { id, round, transactions } = read(content);
    const checked = checking((file) => {
      if (round !== file.round) throw new SignedError('belongs to a file that was replaced by one with a higher fee');
      return transactions;
    });
    return { id, input: null, ...checked };
  });

// Checks signed transactions of chains of accounts: each must be, byte for byte, what was asked, signed by the account that was named.

const isSigner = (hash: Uint8Array, signature: Signature, address: string): boolean =>
  signerOf(hash, signature) === address.slice(2).toLowerCase();

/** The signatures of the authorizations in a batch. */
function authorizationsIn(request: AccountRequest, data: Uint8Array, file: SigningFile): Signature[] {
  if (request.kind !== 'batch') return [];
  const signatures = signaturesIn(data, request.authorizations.length);
  if (!signatures) throw new SignedError('has a different number of authorizations than was asked for');
  const domain = domainOf(request, file);
  for (const [i, transfer] of transfersOf(request).entries())
    if (!isSigner(authorizationHash(transfer, domain), signatures[i]!, transfer.from))
      throw new SignedError('has an authorization that its address did not sign, or that is for another transfer');
  return signatures;
}

/** Errors: SignedError. */
function checkSignedRequest(request: AccountRequest, hex: string, file: SigningFile): CheckedTransaction {
  const raw = Buffer.from(hex, 'hex');
  const signed = readSignedTransaction(raw);
  if (!signed) throw new SignedError('contains a transaction that cannot be read');
  const signatures = authorizationsIn(request, signed.data, file);
  const asked = transactionOf(request, file, { signatures });
  if (bytesToHex(signedBytes(asked, signed.signature)) !== hex)
    throw new SignedError('has another recipient, amount, fee, nonce, contract or chain than was asked for');
  if (!isSigner(signingHash(asked), signed.signature, request.from)) throw new SignedError('is signed by the key of another address');
  return { txid: transactionId(raw), raw, feeUnits: feeOf(request, file), signatures };
}

// The PSBTs of a signing file, for wallets that do not read the file itself.

/** In base64, in the order of the file. Empty for chains of accounts. */
export const psbtsOf = ({ requests }: Pick<SigningFile, 'requests'>): string[] =>
  requests.flatMap((request) => (request.kind === 'psbt' ? [request.psbt] : []));

/** How the PSBTs of a file name their keys. */
type KeyPaths = {
  /** By their path from the seed, by which hardware wallets find them. Without it, paths begin at the account. */
  hasOrigin: boolean;
  /** The highest index of an address that is spent from; null without a PSBT. Wallets look no further than their gap limit. */
  highestIndex: number | null;
};
/** Reads one PSBT for each turn of the event loop. */
export async function keyPathsOf(file: Pick<SigningFile, 'requests'>): Promise<KeyPaths> {
  let [hasOrigin, highestIndex]: [boolean, number | null] = [false, null];
  for (const psbt of psbtsOf(file)) {
    await setImmediate();
    const tx = Transaction.fromPSBT(Buffer.from(psbt, 'base64'), { allowUnknownOutputs: true });
    for (let i = 0; i < tx.inputsLength; i++) {
      const { bip32Derivation, tapBip32Derivation } = tx.getInput(i);
      const path = tapBip32Derivation?.[0]?.[1].der.path ?? bip32Derivation?.[0]?.[1].path ?? [];
      hasOrigin ||= path.length > 1;
      highestIndex = Math.max(highestIndex ?? 0, path.at(-1) ?? 0);
    }
  }
  return { hasOrigin, highestIndex };
}
