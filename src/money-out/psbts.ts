/** The PSBTs of a signing file, for wallets that do not read the file itself. */
import { setImmediate } from 'node:timers/promises';
import { Transaction } from '@scure/btc-signer';
import type { SigningFile } from '../core/signing-file.ts';

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
