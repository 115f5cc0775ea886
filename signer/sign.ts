/** What the signer does with a file: check all of it against the wallet, say it in words, and sign exactly that. */
import { keysOf, scriptOfAddress } from '../src/addresses/address.ts';
import { hasValidChecksum, isAddress } from '../src/addresses/evm-address.ts';
import { isBitcoinLike, PARAMS } from '../src/addresses/params.ts';
import { COIN, coinText, feeCoinOf, isToken, kindOf } from '../src/core/coin.ts';
import { formatUnits, readAmountText } from '../src/core/money.ts';
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
import { checkAccounts, checkChain, countSignatures, isFeeHigh, isTestChain, signAccounts } from './sign-accounts.ts';
import { type CheckedPsbt, checkPsbt, signPsbt } from './sign-psbt.ts';
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
  /** How many of how many keys have to sign. */
  signers: { required: number; of: number };
  inputs: bigint;
  /** How many deposit addresses pay a recipient together with others. */
  together: number;
  /** Whether it pays payouts, whose amounts are entered too, and whether a fee is so high that `HIGH_FEE` has to be typed. */
  paysPayouts: boolean;
  hasHighFee: boolean;
};
/** What is typed to accept a high fee. */
export const HIGH_FEE = 'HIGH FEE';

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
    signers: { required: keysOf(file.account.chainKey).required, of: keysOf(file.account.chainKey).chainKeys.length },
    inputs: sum(file.requests.map(inputsOf)),
    together: file.requests.reduce((count, request) => count + togetherIn(request), 0),
    paysPayouts: lines.some(({ purpose }) => purpose === 'payout'),
    hasHighFee: hasHighFee(file),
  };
}

const hasHighFee = (file: SigningFile): boolean => file.requests.some((request) => request.kind !== 'psbt' && isFeeHigh(request, file));

function* checkBitcoin(file: SigningFile, account: Account): Steps<CheckedPsbt[]> {
  const checked: CheckedPsbt[] = [];
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

function* signAll(checked: readonly CheckedPsbt[], file: SigningFile, account: Account): Steps<string[]> {
  const signed: string[] = [];
  for (const one of checked) signed.push(yield* signPsbt(one, file, account));
  return signed;
}

function* signBitcoin(file: SigningFile, account: Account, inputs: number): Generator<Progress, string[]> {
  const checked = yield* counted('Checking', inputs, checkBitcoin(file, account));
  return yield* counted('Signing', inputs, signAll(checked, file, account));
}

function* signEthereum(file: SigningFile, account: Account, nowSeconds: number): Generator<Progress, string[]> {
  const requests = yield* counted('Checking', file.requests.length, checkAccounts(file, account, nowSeconds));
  // Fees of tokens are paid in another coin, so they are only shown.
  if (!isToken(file.coin) && file.feeUnits * 100n > (file.totalUnits + file.feeUnits) * MOST_FEE_PERCENT)
    refuse(`The fee is more than ${MOST_FEE_PERCENT} percent of the money.`);
  return yield* counted('Signing', countSignatures(requests), signAccounts(requests, file, account));
}

/** What all spellings of an address have in common: QR codes show Bech32 in capital letters (BIP-173), and LTC has two forms of one script. */
function formOf(address: string, { coin, network }: SigningFile): string {
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) return address.toLowerCase();
  return scriptOfAddress(address, PARAMS[family].forms[network]) ?? address;
}

/** The addresses that the person entered in a field, each with the amounts that were entered beside it. */
type Entered = Map<string, bigint[]>;
/** One address per line, or several; an amount stands after its address, or before it if the line has only one, as in a CSV file. */
function enteredIn(field: Field, text: string, file: SigningFile): Entered {
  const entered: Entered = new Map();
  for (const line of text.split(/[\r\n]/)) {
    const words = line.split(/[\s,;"]/).filter(Boolean);
    const amounts = words.map((word) =>
      /^\d/.test(word) && !word.startsWith('0x') ? readAmountText(word, COIN[file.coin].decimals) : null,
    );
    const isOne = (word: string, at: number): boolean =>
      amounts[at] === null && (kindOf(file.coin) !== 'ethereum' || (isAddress(word) && hasValidChecksum(word)));
    const wrong = words.find((word, at) => amounts[at] === null && !isOne(word, at) && (word.startsWith('0x') || words.length === 1));
    if (wrong !== undefined) refuse(`${wrong} is not a complete address, or has a typing error.`, field);
    const addresses = words.filter(isOne).length;
    for (const [at, word] of words.entries()) {
      if (!isOne(word, at)) continue;
      const amount = amounts[at + 1] ?? (addresses === 1 ? amounts[at - 1] : null) ?? null;
      const form = formOf(word, file);
      entered.set(form, [...(entered.get(form) ?? []), ...(amount === null ? [] : [amount])]);
    }
  }
  if (entered.size === 0) refuse(field === 'recipients' ? 'Enter the recipients.' : 'Enter your own address.', field);
  return entered;
}

/** What a person expects, from their own records: the own address, those of others, one per line with the amounts of payouts, and a word. */
export type Addresses = { destination?: string; recipients?: string; fee?: string };

/**
 * Every address that is paid must be one that the person entered for that purpose, in all of its characters: a server can make others that
 * look alike, and send a customer what is left for the merchant. Payouts also pay what was entered, because a server could exchange the
 * amounts of two recipients. Errors: SignerError.
 */
export function checkAddresses(file: SigningFile, { destination = '', recipients = '', fee = '' }: Addresses): void {
  const lines = linesOf(file);
  const own = lines.flatMap(({ purpose, to }) => (IS_OWN[purpose] ? [to] : []));
  const others = lines.filter(({ purpose }) => !IS_OWN[purpose]);
  if (own.length > 0) {
    const entered = enteredIn('destination', destination, file);
    if (entered.size > 1) refuse('Enter one address as your own, and the others as recipients.', 'destination');
    if (!own.every((to) => entered.has(formOf(to, file))))
      refuse(
        'Your own address in the file is not the address that you entered. Enter the whole address exactly as your own wallet shows it.',
        'destination',
      );
  }
  if (others.length > 0) checkRecipients(file, others, enteredIn('recipients', recipients, file));
  if (hasHighFee(file) && fee.trim().toUpperCase() !== HIGH_FEE)
    refuse(`The network fee of an address may be above what such a transfer usually costs. Type ${HIGH_FEE} if that is right.`, 'fee');
}

function checkRecipients(file: SigningFile, lines: readonly Line[], entered: Entered): void {
  const unknown = lines.find(({ to }) => !entered.has(formOf(to, file)));
  if (unknown !== undefined)
    refuse(
      `The file pays ${unknown.to}, which is not among the recipients that you entered. Enter all of them from your own records, one per line.`,
      'recipients',
    );
  const shown = (units: bigint): string => `${formatUnits(file.coin, units)} ${COIN[file.coin].asset}`;
  for (const [form, paid] of Map.groupBy(lines, ({ to }) => formOf(to, file))) {
    const left = [...entered.get(form)!];
    const isChecked = left.length > 0;
    for (const { to, units, purpose } of paid) {
      const at = left.indexOf(units);
      if (at >= 0) left.splice(at, 1);
      else if (purpose === 'payout' || isChecked)
        refuse(
          isChecked
            ? `The file pays ${shown(units)} to ${to}, which is not the amount that you entered for it.`
            : `Enter the amount of each payout after its address, on the same line. None is entered for ${to}.`,
          'recipients',
        );
    }
  }
}

/** `nowSeconds`: by the clock of the device. */
type Asked = Addresses & { content: string; secret: string; passphrase?: string; nowSeconds?: number };
type Signed = { text: string; review: Review };

/** Signs a file at once. Returns the signed file. Errors: SignerError, FileError. */
export const signFile = (asked: Asked): Signed => finish(signInSteps(asked));

/** The same, step by step. */
export function* signInSteps({
  content,
  secret,
  passphrase = '',
  nowSeconds = Math.floor(Date.now() / 1000),
  ...addresses
}: Asked): Generator<Progress, Signed> {
  const file = readSigningFile(content);
  const review = describeFile(file);
  checkAddresses(file, addresses);
  const root = readSecret(secret, passphrase);
  let account: Account | null = null;
  try {
    account = findAccount(root, file);
    const isAccounts = kindOf(file.coin) === 'ethereum';
    const transactions = yield* isAccounts ? signEthereum(file, account, nowSeconds) : signBitcoin(file, account, Number(review.inputs));
    return { text: signedFileText({ id: file.id, round: file.round, transactions }), review };
  } finally {
    forget(root, account?.account ?? null, account?.addresses ?? null);
  }
}
