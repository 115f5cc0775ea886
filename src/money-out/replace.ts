/** PSBTs with a higher fee, from the same inputs: at most one of the two transactions can be mined. Pure. */
import { Transaction } from '@scure/btc-signer';
import { divideCeil } from '../core/money.ts';
import type { PsbtRequest, Request } from '../core/signing-file.ts';
import { feeFor } from './utxo.ts';

/** Nodes of chains of accounts accept a replacement whose fee is higher by ten percent. */
const RAISE_PERCENT = 25n;
export const raised = (units: bigint): bigint => divideCeil(units * (100n + RAISE_PERCENT), 100n);

/** Null: the money is not enough for a higher fee. */
function replacePsbt(
  request: PsbtRequest,
  { rateE8, relayE8, leastUnits, size: sizeBefore }: { rateE8: bigint; relayE8: bigint; leastUnits: bigint; size: bigint },
): PsbtRequest | null {
  // The merchant's own share pays for it. What others receive never changes.
  const at = request.lines.findIndex(({ purpose }) => purpose === 'sweep');
  const line = request.lines[at];
  if (!line) return null;
  // Signatures differ in length, so the replacement may be larger.
  const size = sizeBefore + 2n * BigInt(request.inputs);
  // Nodes of Bitcoin-like chains also want the lowest fee for relaying it on top of the old one (BIP-125).
  const least = [feeFor(size, rateE8), raised(request.feeUnits), request.feeUnits + feeFor(size, relayE8)];
  const feeUnits = least.reduce((a, b) => (a > b ? a : b));
  const units = line.units + request.feeUnits - feeUnits;
  if (units < leastUnits) return null;
  const tx = Transaction.fromPSBT(Buffer.from(request.psbt, 'base64'), { allowUnknownOutputs: true });
  tx.updateOutput(at, { amount: units });
  const lines = request.lines.with(at, { ...line, units });
  return { ...request, psbt: Buffer.from(tx.toPSBT(0)).toString('base64'), feeUnits, lines };
}

/** Rates, with the virtual size of each transaction. */
type Raise = { rateE8: bigint; relayE8: bigint; leastUnits: bigint; sizes: readonly bigint[] };
/** Null: one of them cannot be replaced. */
export function replacePsbts(requests: readonly Request[], raise: Raise): Request[] | null {
  const replaced = requests.map((request, i) =>
    request.kind === 'psbt' ? replacePsbt(request, { ...raise, size: raise.sizes[i]! }) : null,
  );
  return replaced.every((one) => one !== null) ? replaced : null;
}
