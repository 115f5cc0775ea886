/** PSBTs with a higher fee, from the same inputs: at most one of the two transactions can be mined. Pure. */
import { Transaction } from '@scure/btc-signer';
import { divideCeil } from '../core/money.ts';
import type { PsbtRequest, Request } from '../core/signing-file.ts';
import { feeFor, isFeeTooLarge, MAX_FEE_PERCENT } from './utxo.ts';

/** Nodes of chains of accounts accept a replacement whose fee is higher by ten percent. */
const RAISE_PERCENT = 25n;
export const raised = (units: bigint): bigint => divideCeil(units * (100n + RAISE_PERCENT), 100n);

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
