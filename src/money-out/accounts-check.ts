/** Checks signed transactions of chains of accounts: each must be, byte for byte, what was asked, signed by the account that was named. */
import { bytesToHex } from '@noble/hashes/utils.js';
import { domainOf, feeOf, transactionOf, transfersOf } from '../chains/ethereum/account-requests.ts';
import { authorizationHash, signaturesIn } from '../chains/ethereum/token-calls.ts';
import {
  readSignedTransaction,
  type Signature,
  signedBytes,
  signerOf,
  signingHash,
  transactionId,
} from '../chains/ethereum/transaction.ts';
import type { AccountRequest, SigningFile } from '../core/signing-file.ts';
import { type CheckedTransaction, SignedError } from './utxo-check.ts';

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
export function checkSignedRequest(request: AccountRequest, hex: string, file: SigningFile): CheckedTransaction {
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
