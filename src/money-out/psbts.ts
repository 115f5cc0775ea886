/** The PSBTs of a signing file, for wallets that do not read the file itself. */
import { Transaction } from '@scure/btc-signer';
import type { SigningFile } from '../core/signing-file.ts';

/** In base64, in the order of the file. Empty for chains of accounts. */
export const psbtsOf = ({ requests }: Pick<SigningFile, 'requests'>): string[] =>
  requests.flatMap((request) => (request.kind === 'psbt' ? [request.psbt] : []));

/** Whether keys are named by their path from the seed, by which hardware wallets find them. Without it, the path begins at the account. */
export function hasOrigin(file: Pick<SigningFile, 'requests'>): boolean {
  const [psbt] = psbtsOf(file);
  if (psbt === undefined) return false;
  const tx = Transaction.fromPSBT(Buffer.from(psbt, 'base64'), { allowUnknownOutputs: true });
  const { bip32Derivation, tapBip32Derivation } = tx.getInput(0);
  const path = tapBip32Derivation?.[0]?.[1].der.path ?? bip32Derivation?.[0]?.[1].path ?? [];
  return path.length > 1;
}
