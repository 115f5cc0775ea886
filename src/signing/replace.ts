/** The requests of a file again, for a higher fee: of accounts, where what is mined stays as it is, and of outputs. */
import { Transaction } from '@scure/btc-signer';
import type { JoinedSource } from '#chains';
import type { Context } from '#context';
import { divideCeil } from '#core/money';
import type { AccountRequest, FundRequest, PsbtRequest, Request, SigningFile } from '#core/signing-file';
import { DEFAULT_WISH, type SweepWallet, type SweepWish } from './holdings.ts';
import {
  checkGas,
  type GasPrice,
  readBalances,
  readGasAccount,
  readGasOfPayment,
  readGasPrice,
  readNonces,
  readPublishingFee,
  readPublishingFees,
  renewBatch,
  TRANSFER_BYTES,
} from './make-accounts.ts';
import { feeFor, isFeeTooLarge, MAX_FEE_PERCENT } from './utxo.ts';

const larger = (one: bigint, other: bigint): bigint => (one > other ? one : other);
const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase();

/** The number of the last request that pays for the gas of an address; -1: none does. */
export const lastFundOf = (requests: SigningFile['requests'], address: string): number =>
  requests.findLastIndex((one) => one.kind === 'fund' && isSame(one.to, address));

/** What an account pays: per gas, and for publishing a transfer on Ethereum. */
type Price = { max: bigint; publishing: bigint };
/** What the account of a request must hold, if the request does not adapt to it; null: it does, or the gas address sends it. */
function needsOf(request: AccountRequest, { max, publishing }: Price): bigint | null {
  const fee = request.gas * max + publishing;
  if (request.kind === 'token') return fee;
  return request.kind === 'native' && request.line.purpose !== 'sweep' ? fee + request.line.units : null;
}

/** Whether its account lost what it sends, which is not made good: the gas address pays for gas only. */
const isEmptied = (request: AccountRequest, held: bigint): boolean => request.kind === 'native' && held < request.line.units;

/** What an address has that a request sends from, or pays for its gas. */
const accountIn = (request: AccountRequest): string => (request.kind === 'fund' ? request.to : request.from);

type Raise = Price & {
  requests: readonly AccountRequest[] /** For each unit of gas. */;
  more: bigint /** What its account holds. */;
  held: bigint;
};
/** One request whose gas costs more; null: the money is not enough. */
function raiseOne(request: AccountRequest, number: number, { requests, more, held, ...price }: Raise): AccountRequest | null {
  if (request.kind === 'native' && request.line.purpose === 'sweep') {
    const cheaper = request.line.units - request.gas * more;
    const left = held - request.gas * price.max - price.publishing;
    // An account with less than it sends was emptied meanwhile, by this transaction or by another one.
    const units = held >= request.line.units && left < cheaper ? left : cheaper;
    return units > 0n ? { ...request, line: { ...request.line, units } } : null;
  }
  // The last payment for the gas of an address also pays for what it costs more.
  if (request.kind !== 'fund' || lastFundOf(requests, request.to) !== number) return request;
  const paid = requests.find((one) => needsOf(one, price) !== null && isSame(one.from, request.to));
  if (!paid) return request;
  return { ...request, units: larger(request.units + paid.gas * more, isEmptied(paid, held) ? 0n : needsOf(paid, price)! - held) };
}

type Raising = {
  requests: readonly AccountRequest[];
  mined: ReadonlySet<number>;
  file: SigningFile & { gasPrice: GasPrice };
  /** The wallet that signs, whose gas address pays for gas. */
  wallet: SweepWallet;
};
/** Payments for the gas of transfers that nothing pays for, or whose address was already paid, for an earlier price. */
async function missingFunds(
  chain: JoinedSource,
  { requests, mined, price, file, wallet }: Raising & { price: Price },
): Promise<FundRequest[]> {
  const stuck = requests.flatMap((one, number) => {
    const fund = lastFundOf(requests, one.from);
    const needed = needsOf(one, price);
    const open = needed !== null && !mined.has(number) && (fund === -1 || mined.has(fund));
    return open ? [{ request: one, from: one.from, nonce: one.nonce, needed }] : [];
  });
  const accounts = stuck.map(({ from }) => from);
  const balances = await readBalances(chain, accounts);
  // An account whose nonce is used needs nothing more: a block may contain its transaction that was not looked at yet. Read after the
  // balances, so that such a block cannot arrive between the two.
  const nonces = await readNonces(chain, accounts);
  const lacking = stuck.flatMap(({ request, from, nonce, needed }, i) => {
    const held = balances[i]!;
    return nonces[i]! <= nonce && held < needed && !isEmptied(request, held) ? [{ to: from, units: needed - held }] : [];
  });
  if (lacking.length === 0) return [];
  const { address: from, nonce: next } = await readGasAccount(chain, { wallet, network: file.network });
  const gas = await readGasOfPayment(chain, { from, to: lacking[0]!.to });
  const first = Math.max(next, ...requests.map((one) => (isSame(one.from, from) ? one.nonce + 1 : 0)));
  return lacking.map(({ to, units }, i) => ({ kind: 'fund', from, path: { chain: 1, index: 0 }, nonce: first + i, gas, to, units }));
}

/** Null: the money is not enough, or all of it is mined. Errors: ChainError, sweep_gas_missing. */
export async function raiseAccounts(
  ctx: Context,
  chain: JoinedSource,
  { file, wallet, speed }: Pick<Raising, 'file' | 'wallet'> & { speed: SweepWish['speed'] },
): Promise<{ requests: AccountRequest[]; gasPrice: GasPrice } | null> {
  const current = await readGasPrice(chain, { ...DEFAULT_WISH, speed });
  const gasPrice = { max: larger(current.max, raised(file.gasPrice.max)), tip: larger(current.tip, raised(file.gasPrice.tip)) };
  const rows = await ctx.db.sql<{ number: number }[]>`
    select number from signed_transactions where file_id = ${file.id} group by number
    having bool_or(block_height is not null) or bool_and(failed_at is not null)`;
  const mined = new Set(rows.map(({ number }) => number));
  const before = file.requests.flatMap((request) => (request.kind === 'psbt' ? [] : [request]));
  if (before.every((_, number) => mined.has(number))) return null;
  const price = { max: gasPrice.max, publishing: await readPublishingFee(chain, TRANSFER_BYTES) };
  const raising = { requests: before, mined, file, wallet, price };
  const requests = await raiseEach(ctx, chain, { ...raising, gasPrice });
  if (!requests) return null;
  const all = [...requests, ...(await missingFunds(chain, raising))];
  const paid = all.filter((one, number) => !mined.has(number) && (one.kind === 'fund' || one.kind === 'batch'));
  const [payer] = paid;
  if (payer) {
    const [[units], publishing] = await Promise.all([readBalances(chain, [payer.from]), readPublishingFees(chain, paid)]);
    const needed = paid.reduce((sum, one) => sum + one.gas * gasPrice.max + (one.kind === 'fund' ? one.units : 0n), publishing);
    checkGas(file.coin, { address: payer.from, units: units! }, needed);
  }
  return { requests: all, gasPrice };
}

/** The requests that are not mined, for a higher price, beside those that are. Null: the money is not enough. Errors: ChainError. */
async function raiseEach(
  ctx: Context,
  chain: JoinedSource,
  { requests, mined, file, gasPrice, price }: Raising & { gasPrice: GasPrice; price: Price },
): Promise<AccountRequest[] | null> {
  const more = gasPrice.max - file.gasPrice.max;
  const [[row], balances] = await Promise.all([
    ctx.db.sql<{ nowSeconds: number }[]>`select floor(extract(epoch from clock_timestamp()))::float8 as "nowSeconds"`,
    readBalances(chain, requests.map(accountIn)),
  ]);
  const all: AccountRequest[] = [];
  for (const [number, request] of requests.entries()) {
    if (mined.has(number)) all.push(request);
    else if (request.kind === 'batch')
      all.push(await renewBatch(chain, request, { coin: file.coin, chainId: file.chainId!, gasPrice, nowSeconds: row!.nowSeconds }));
    else {
      const one = raiseOne(request, number, { requests, more, held: balances[number]!, ...price });
      if (!one) return null;
      all.push(one);
    }
  }
  return all;
}

// PSBTs with a higher fee, from the same inputs: at most one of the two transactions can be mined. Pure.

/** Nodes of chains of accounts accept a replacement whose fee is higher by ten percent. */
const RAISE_PERCENT = 25n;
const raised = (units: bigint): bigint => divideCeil(units * (100n + RAISE_PERCENT), 100n);

/** Why a fee stays as it is, in words that follow a colon. */
export const STAY_TEXT = {
  mined: 'all of it is mined',
  money: 'the money is not enough for a higher fee',
  share: `a higher fee would be more than ${MAX_FEE_PERCENT} percent of the money, which the signer refuses`,
} as const;
type Stay = keyof typeof STAY_TEXT;

/** The merchant's own share pays for the fee. What others receive never changes. */
const ownLine = ({ lines }: PsbtRequest): number => lines.findIndex(({ purpose }) => purpose === 'sweep');

/** The same transaction with another fee. */
function withFee(request: PsbtRequest, feeUnits: bigint): PsbtRequest {
  if (feeUnits === request.feeUnits) return request;
  const at = ownLine(request);
  const line = request.lines[at]!;
  const units = line.units + request.feeUnits - feeUnits;
  const tx = Transaction.fromPSBT(Buffer.from(request.psbt, 'base64'), { allowUnknownOutputs: true });
  // Signatures by some of several signers are for the other fee.
  for (let i = 0; i < tx.inputsLength; i++) tx.updateInput(i, { partialSig: undefined as never }, true);
  tx.updateOutput(at, { amount: units });
  const lines = request.lines.with(at, { ...line, units });
  return { ...request, psbt: Buffer.from(tx.toPSBT(0)).toString('base64'), feeUnits, lines };
}

type Rates = { rateE8: bigint; relayE8: bigint; leastUnits: bigint };
/** What was signed last of a transaction: its fee and its virtual size. A file that nobody signed after that does not count. */
export type Signed = { feeUnits: bigint; size: bigint; isMined: boolean };

function replacePsbt(request: PsbtRequest, { feeUnits: before, size: sizeBefore, isMined }: Signed, rates: Rates): PsbtRequest | Stay {
  if (isMined) return 'mined';
  const line = request.lines[ownLine(request)];
  if (!line) return 'money';
  // Signatures differ in length, so the replacement may be larger.
  const size = sizeBefore + 2n * BigInt(request.inputs);
  // Nodes of Bitcoin-like chains also want the lowest fee for relaying it on top of the old one (BIP-125).
  const least = [feeFor(size, rates.rateE8), raised(before), before + feeFor(size, rates.relayE8)];
  const feeUnits = least.reduce((a, b) => (a > b ? a : b));
  if (line.units + request.feeUnits - feeUnits < rates.leastUnits) return 'money';
  const spent = request.lines.reduce((sum, { units }) => sum + units, request.feeUnits);
  return isFeeTooLarge(feeUnits, spent) ? 'share' : withFee(request, feeUnits);
}

/**
 * The requests with higher fees than those that were signed. What is mined or cannot pay more stays as it was signed. If nothing can pay
 * more: why.
 */
export function replacePsbts(requests: readonly Request[], { signed, ...rates }: Rates & { signed: readonly Signed[] }): Request[] | Stay {
  const stays: Stay[] = [];
  const replaced = requests.map((request, i): Request => {
    if (request.kind !== 'psbt') return request;
    const found = replacePsbt(request, signed[i]!, rates);
    if (typeof found !== 'string') return found;
    stays.push(found);
    return withFee(request, signed[i]!.feeUnits);
  });
  if (stays.length < requests.length) return replaced;
  return (['share', 'money'] as const).find((stay) => stays.includes(stay)) ?? 'mined';
}
