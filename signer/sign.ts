/** What the signer does with a file: check all of it against the wallet, say it in words, and sign exactly that. */
import { hasValidChecksum, isAddress } from '../src/chains/ethereum/address.ts';
import { COIN, type Coin, coinText, isToken, kindOf, nativeOf } from '../src/core/coin.ts';
import { formatUnits } from '../src/core/money.ts';
import { linesOf, type Request, readSigningFile, type SigningFile, signedFileText } from '../src/core/signing-file.ts';
import { type Account, findAccount, forget, isTestAccount, readSecret, refuse } from './secret.ts';
import { checkAccounts, checkChain, isTestChain, signAccounts } from './sign-accounts.ts';
import { checkPsbt, signPsbt } from './sign-psbt.ts';

/** A fee above this part of what is moved is refused, in percent. */
const MOST_FEE_PERCENT = 25n;
/** Recipients that are shown. */
const MOST_SHOWN = 200;

/** What a file does, in words. */
export type Review = {
  id: string;
  title: string;
  network: string;
  /** False only where the signatures cannot move real money, whatever the server says. */
  isReal: boolean;
  destinations: { to: string; amount: string }[];
  total: string;
  fee: string;
  transactions: number;
  inputs: bigint;
};

const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);

const inputsOf = (request: Request): bigint => {
  switch (request.kind) {
    case 'psbt':
      return BigInt(request.inputs);
    case 'batch':
      return BigInt(request.authorizations.length);
    case 'fund':
      return 0n;
    case 'native':
    case 'token':
      return 1n;
  }
};

/** What the file says about itself, before a secret is known. Errors: SignerError, FileError. */
export function describeFile(file: SigningFile): Review {
  const isAccounts = kindOf(file.coin) === 'ethereum';
  if (isAccounts) checkChain(file);
  const lines = linesOf(file);
  const fee = nativeOf(file.coin);
  const byAddress = new Map<string, bigint>();
  for (const { to, units } of lines) byAddress.set(to, (byAddress.get(to) ?? 0n) + units);
  if (lines.every(({ purpose }) => purpose === 'sweep') && byAddress.size > 1)
    refuse('A sweep pays one address, but this file names several.');
  if (byAddress.size === 0 || byAddress.size > MOST_SHOWN) refuse('The file names too many recipients to show them.');
  if (sum(lines.map(({ units }) => units)) !== file.totalUnits) refuse('The total of the file is not the sum of its payments.');
  return {
    id: file.id,
    title: `${lines[0]!.purpose === 'sweep' ? 'Sweep' : 'Payments in'} ${coinText(file.coin)}`,
    network: file.network,
    isReal: !(isAccounts ? isTestChain(file) : isTestAccount(file)),
    destinations: [...byAddress].map(([to, units]) => ({ to, amount: `${formatUnits(file.coin, units)} ${COIN[file.coin].asset}` })),
    total: `${formatUnits(file.coin, file.totalUnits)} ${COIN[file.coin].asset}`,
    fee: `${formatUnits(fee, file.feeUnits)} ${COIN[fee].asset}`,
    transactions: file.requests.length,
    inputs: sum(file.requests.map(inputsOf)),
  };
}

function signBitcoin(file: SigningFile, account: Account): string[] {
  const checked = file.requests.map((request) =>
    request.kind === 'psbt' ? checkPsbt(request, file, account) : refuse('The file mixes two kinds of chains.'),
  );
  const inputs = checked.flatMap((one) => one.inputs);
  if (new Set(inputs).size !== inputs.length) refuse('The file spends an input twice.');
  const spent = sum(checked.map(({ spentUnits }) => spentUnits));
  const fee = spent - sum(checked.map(({ paidUnits }) => paidUnits));
  if (fee !== file.feeUnits) refuse('The fee of the file is not the sum of its fees.');
  if (fee * 100n > spent * MOST_FEE_PERCENT) refuse(`The fee is more than ${MOST_FEE_PERCENT} percent of the money.`);
  return checked.map((one) => signPsbt(one, account));
}

function signEthereum(file: SigningFile, account: Account): string[] {
  const requests = checkAccounts(file, account);
  // Fees of tokens are paid in another coin, so they are only shown.
  if (!isToken(file.coin) && file.feeUnits * 100n > (file.totalUnits + file.feeUnits) * MOST_FEE_PERCENT)
    refuse(`The fee is more than ${MOST_FEE_PERCENT} percent of the money.`);
  return signAccounts(requests, file, account);
}

/** The address that the person entered must be the destination in all of its characters: a server can make others that look alike. */
function checkDestination(to: string, entered: string, coin: Coin): void {
  const isAccount = kindOf(coin) === 'ethereum';
  if (isAccount && (!isAddress(entered) || !hasValidChecksum(entered)))
    refuse('The destination that you entered is not a complete address, or has a typing error.');
  if (isAccount ? entered.toLowerCase() !== to.toLowerCase() : entered !== to)
    refuse('The destination of the file is not the address that you entered. Enter the whole address exactly as your own wallet shows it.');
}

/**
 * Signs a file. `destination`: the whole address that the person expects, from their own wallet. Returns the signed file. Errors:
 * SignerError, FileError.
 */
export function signFile({
  content,
  secret,
  passphrase = '',
  destination,
}: {
  content: string;
  secret: string;
  passphrase?: string;
  destination: string;
}): { text: string; review: Review } {
  const file = readSigningFile(content);
  const review = describeFile(file);
  for (const { to } of review.destinations) checkDestination(to, destination.trim(), file.coin);
  const root = readSecret(secret, passphrase);
  let account: Account | null = null;
  try {
    account = findAccount(root, file);
    const transactions = kindOf(file.coin) === 'ethereum' ? signEthereum(file, account) : signBitcoin(file, account);
    return { text: signedFileText({ id: file.id, round: file.round, transactions }), review };
  } finally {
    forget(root, account?.account ?? null, account?.addresses ?? null);
  }
}
