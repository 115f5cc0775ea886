/** Reads what a merchant uploads after signing, whatever wrote it, and checks it against the file that was asked for. */
import type { BitcoinScript } from '../chains/bitcoin/params.ts';
import { Problem } from '../core/problem.ts';
import { FileError, MAX_SIGNED_BYTES, type PsbtRequest, type SignedFile, type SigningFile } from '../core/signing-file.ts';
import { checkSignedRequest } from './accounts-check.ts';
import { type CheckedTransaction, checkSignedPsbt, finishPsbt, inputsOfPsbt, inputsOfRaw, SignedError } from './utxo-check.ts';

export type Upload = {
  /** Of the sweep, if the file names it. */
  id: string | null;
  /** Otherwise an input of its transaction. */
  input: string | null;
  /** Errors: signed_file_refused. */
  check(file: SigningFile): CheckedTransaction[];
};

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
    return checkSignedPsbt(request, transactions[i]!, file.account.script as BitcoinScript);
  });
}

/** A PSBT in base64 or a raw transaction in hex, of a file with one request. Errors: SignedError. */
function readBare(content: string): { inputs: string[]; finish(request: PsbtRequest): string } {
  const text = content.trim();
  if (/^[0-9a-fA-F]+$/.test(text) && text.length % 2 === 0) {
    const hex = text.toLowerCase();
    return { inputs: inputsOfRaw(hex), finish: () => hex };
  }
  const bytes = Buffer.from(text, 'base64');
  if (bytes.subarray(0, 5).toString('latin1') !== 'psbt\xff') throw new SignedError('is neither a signed file of the signer nor a PSBT');
  return { inputs: inputsOfPsbt(bytes), finish: (request) => finishPsbt(request, bytes) };
}
function checkBare(file: SigningFile, finish: (request: PsbtRequest) => string): CheckedTransaction[] {
  const [request, ...others] = file.requests;
  if (others.length > 0)
    throw new SignedError(`is one transaction, but ${file.requests.length} were asked for; sign the whole file with the signer page`);
  if (request?.kind !== 'psbt') throw new SignedError('is not of the kind that was asked for; sign the file with the signer page');
  return checkAll(file, [finish(request)]);
}

/** Errors: signed_file_refused. */
export const readSigned = (content: string, read: (content: string) => SignedFile): Upload =>
  refusing(() => {
    if (content.length > MAX_SIGNED_BYTES) throw new SignedError(`has more than ${MAX_SIGNED_BYTES} bytes`);
    if (!content.trimStart().startsWith('{')) {
      const { inputs, finish } = readBare(content);
      return { id: null, input: inputs[0] ?? null, check: (file) => refusing(() => checkBare(file, finish)) };
    }
    const { id, round, transactions } = read(content);
    const check = (file: SigningFile) =>
      refusing(() => {
        if (round !== file.round) throw new SignedError('belongs to a file that was replaced by one with a higher fee');
        return checkAll(file, transactions);
      });
    return { id, input: null, check };
  });
