/** What the signer does with a file: check all of it against the wallet, say it in words, and sign exactly that. */
import { isBitcoinLike, PARAMS } from '../src/chains/bitcoin/params.ts';
import { hasValidChecksum, isAddress } from '../src/chains/ethereum/address.ts';
import { COIN, coinText, feeCoinOf, isToken, kindOf } from '../src/core/coin.ts';
import { formatUnits } from '../src/core/money.ts';
import {
  type Line,
  linesOf,
  type Purpose,
  type Request,
  readSigningFile,
  type SigningFile,
  signedFileText,
} from '../src/core/signing-file.ts';
import { type Account, type Field, findAccount, forget, isTestAccount, readSecret, refuse } from './secret.ts';
import { checkAccounts, checkChain, countSignatures, isTestChain, signAccounts } from './sign-accounts.ts';
import { type Checked, checkPsbt, signPsbt } from './sign-psbt.ts';
import { counted, finish, type Progress, type Steps } from './steps.ts';

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
  /** `what`: why this address is paid. */
  destinations: { what: string; to: string; amount: string }[];
  /** Whether it pays the merchant, and whether it pays others. */
  paysOwn: boolean;
  paysOthers: boolean;
  total: string;
  fee: string;
  transactions: number;
  inputs: bigint;
  /** How many deposit addresses pay a recipient together with others. */
  together: number;
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

/** The addresses whose money is gathered, and those that pay with it. */
const togetherIn = (request: Request): number => {
  if (request.kind !== 'batch') return 0;
  const gathered = request.authorizations.filter(({ line }) => line.purpose === 'gather');
  return new Set(gathered.flatMap(({ from, line }) => [from.toLowerCase(), line.to.toLowerCase()])).size;
};

/** Why an address is paid. In a file that pays others, what goes to the merchant is what is left. */
function whatIs({ purpose, reference }: Line, isSweep: boolean): string {
  switch (purpose) {
    case 'sweep':
      return isSweep ? 'Destination' : 'The rest, to your own wallet';
    case 'refund':
      return `Refund for payment ${reference}`;
    case 'payout':
      return `Payout ${reference}`;
  }
}
/** Whether a payment goes to the merchant. What goes to others must never pass as that, nor the other way round. */
const IS_OWN: Readonly<Record<Purpose, boolean>> = { sweep: true, refund: false, payout: false };
const TITLES: Readonly<Record<Purpose, string>> = { sweep: 'Sweep', refund: 'Refunds in', payout: 'Payouts in' };

/** What the file says about itself, before a secret is known. Errors: SignerError, FileError. */
export function describeFile(file: SigningFile): Review {
  const isAccounts = kindOf(file.coin) === 'ethereum';
  if (isAccounts) checkChain(file);
  const lines = linesOf(file);
  const fee = feeCoinOf(file.coin);
  const isSweep = lines.every(({ purpose }) => purpose === 'sweep');
  const amount = (units: bigint) => `${formatUnits(file.coin, units)} ${COIN[file.coin].asset}`;
  const byAddress = new Map<string, Line>();
  for (const line of lines) {
    // Refunds are shown one by one; what goes to the merchant is shown once for each address.
    const key = line.purpose === 'sweep' ? line.to : `${line.to} ${byAddress.size}`;
    byAddress.set(key, { ...line, units: (byAddress.get(key)?.units ?? 0n) + line.units });
  }
  if (isSweep && byAddress.size > 1) refuse('A sweep pays one address, but this file names several.');
  if (byAddress.size === 0 || byAddress.size > MOST_SHOWN) refuse('The file names too many recipients to show them.');
  if (sum(lines.map(({ units }) => units)) !== file.totalUnits) refuse('The total of the file is not the sum of its payments.');
  return {
    id: file.id,
    title: `${TITLES[lines.find(({ purpose }) => purpose !== 'sweep')?.purpose ?? 'sweep']} ${coinText(file.coin)}`,
    network: file.network,
    isReal: !(isAccounts ? isTestChain(file) : isTestAccount(file)),
    destinations: [...byAddress.values()].map((line) => ({ what: whatIs(line, isSweep), to: line.to, amount: amount(line.units) })),
    paysOwn: lines.some(({ purpose }) => IS_OWN[purpose]),
    paysOthers: lines.some(({ purpose }) => !IS_OWN[purpose]),
    total: amount(file.totalUnits),
    fee: `${formatUnits(fee, file.feeUnits)} ${COIN[fee].asset}`,
    transactions: file.requests.length,
    inputs: sum(file.requests.map(inputsOf)),
    together: file.requests.reduce((count, request) => count + togetherIn(request), 0),
  };
}

function* checkBitcoin(file: SigningFile, account: Account): Steps<Checked[]> {
  const checked: Checked[] = [];
  for (const request of file.requests)
    checked.push(request.kind === 'psbt' ? yield* checkPsbt(request, file, account) : refuse('The file mixes two kinds of chains.'));
  const inputs = checked.flatMap((one) => one.inputs);
  if (new Set(inputs).size !== inputs.length) refuse('The file spends an input twice.');
  const spent = sum(checked.map(({ spentUnits }) => spentUnits));
  const fee = spent - sum(checked.map(({ paidUnits }) => paidUnits));
  if (fee !== file.feeUnits) refuse('The fee of the file is not the sum of its fees.');
  if (fee * 100n > spent * MOST_FEE_PERCENT) refuse(`The fee is more than ${MOST_FEE_PERCENT} percent of the money.`);
  return checked;
}

function* signAll(checked: readonly Checked[], account: Account): Steps<string[]> {
  const signed: string[] = [];
  for (const one of checked) signed.push(yield* signPsbt(one, account));
  return signed;
}

function* signBitcoin(file: SigningFile, account: Account, inputs: number): Generator<Progress, string[]> {
  const checked = yield* counted('Checking', inputs, checkBitcoin(file, account));
  return yield* counted('Signing', inputs, signAll(checked, account));
}

function* signEthereum(file: SigningFile, account: Account): Generator<Progress, string[]> {
  const requests = yield* counted('Checking', file.requests.length, checkAccounts(file, account));
  // Fees of tokens are paid in another coin, so they are only shown.
  if (!isToken(file.coin) && file.feeUnits * 100n > (file.totalUnits + file.feeUnits) * MOST_FEE_PERCENT)
    refuse(`The fee is more than ${MOST_FEE_PERCENT} percent of the money.`);
  return yield* counted('Signing', countSignatures(requests), signAccounts(requests, file, account));
}

/** Addresses that are the same in two spellings. QR codes show Bech32 in capital letters (BIP-173); Base58 distinguishes them. */
function formOf(address: string, { coin, network }: SigningFile): string {
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) return address.toLowerCase();
  const { hrp } = PARAMS[family].forms[network];
  const isCapital = hrp !== undefined && address.startsWith(`${hrp.toUpperCase()}1`) && address === address.toUpperCase();
  return isCapital ? address.toLowerCase() : address;
}

/** What the person entered in a field. */
function enteredIn(field: Field, text: string, file: SigningFile): Set<string> {
  const entered = text.split(/[\s,;]+/).filter(Boolean);
  if (entered.length === 0) refuse(field === 'recipients' ? 'Enter the recipients.' : 'Enter your own address.', field);
  const wrong = kindOf(file.coin) === 'ethereum' && entered.find((one) => !isAddress(one) || !hasValidChecksum(one));
  if (wrong) refuse(`${wrong} is not a complete address, or has a typing error.`, field);
  return new Set(entered.map((one) => formOf(one, file)));
}

/** The whole addresses that a person expects, from their own records: the own one, and those of others, one per line. */
export type Addresses = { destination?: string; recipients?: string };

/**
 * Every address that is paid must be one that the person entered for that purpose, in all of its characters: a server can make others that
 * look alike, and send a customer what is left for the merchant. Errors: SignerError.
 */
export function checkAddresses(file: SigningFile, { destination = '', recipients = '' }: Addresses): void {
  const paid = (isOwn: boolean) => linesOf(file).flatMap(({ purpose, to }) => (IS_OWN[purpose] === isOwn ? [to] : []));
  const [own, others] = [paid(true), paid(false)];
  if (own.length > 0) {
    const entered = enteredIn('destination', destination, file);
    if (entered.size > 1) refuse('Enter one address as your own, and the others as recipients.', 'destination');
    if (!own.every((to) => entered.has(formOf(to, file))))
      refuse(
        'Your own address in the file is not the address that you entered. Enter the whole address exactly as your own wallet shows it.',
        'destination',
      );
  }
  if (others.length === 0) return;
  const entered = enteredIn('recipients', recipients, file);
  const unknown = others.find((to) => !entered.has(formOf(to, file)));
  if (unknown !== undefined)
    refuse(
      `The file pays ${unknown}, which is not among the recipients that you entered. Enter all of them from your own records, one per line.`,
      'recipients',
    );
}

type Asked = Addresses & { content: string; secret: string; passphrase?: string };
type Signed = { text: string; review: Review };

/** Signs a file at once. Returns the signed file. Errors: SignerError, FileError. */
export const signFile = (asked: Asked): Signed => finish(signInSteps(asked));

/** The same, step by step. */
export function* signInSteps({ content, secret, passphrase = '', ...addresses }: Asked): Generator<Progress, Signed> {
  const file = readSigningFile(content);
  const review = describeFile(file);
  checkAddresses(file, addresses);
  const root = readSecret(secret, passphrase);
  let account: Account | null = null;
  try {
    account = findAccount(root, file);
    const isAccounts = kindOf(file.coin) === 'ethereum';
    const transactions = yield* isAccounts ? signEthereum(file, account) : signBitcoin(file, account, Number(review.inputs));
    return { text: signedFileText({ id: file.id, round: file.round, transactions }), review };
  } finally {
    forget(root, account?.account ?? null, account?.addresses ?? null);
  }
}
