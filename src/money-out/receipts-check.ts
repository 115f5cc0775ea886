/** What a mined transaction of a sweep moved and cost. A batch succeeds as a whole even where a transfer in it failed, so its transfers are counted. */
import { TRANSFER_TOPIC } from '../chains/ethereum/token-calls.ts';
import { fields } from '../chains/reply.ts';
import type { AccountRequest } from '../core/signing-file.ts';

/** The accounts, in lower case, from which the contract reported a transfer. */
function sendersIn(logs: unknown, contract: string): Set<string> {
  const senders = new Set<string>();
  for (const log of Array.isArray(logs) ? logs : []) {
    const { address, topics } = fields(log);
    const [topic, from] = Array.isArray(topics) ? topics : [];
    if (String(address).toLowerCase() !== contract.toLowerCase() || topic !== TRANSFER_TOPIC || typeof from !== 'string') continue;
    senders.add(`0x${from.slice(-40).toLowerCase()}`);
  }
  return senders;
}

/** The accounts, in lower case, whose money did not move. */
export function unmovedBy(request: AccountRequest, receipt: unknown): string[] {
  const { status, logs } = fields(receipt);
  const failed = BigInt(String(status ?? '0x1')) === 0n;
  if (request.kind === 'native') return failed ? [request.from.toLowerCase()] : [];
  if (request.kind === 'fund') return failed ? [request.to.toLowerCase()] : [];
  const senders = failed ? new Set<string>() : sendersIn(logs, request.contract);
  const wanted = request.kind === 'batch' ? request.authorizations.map(({ from }) => from) : [request.from];
  return wanted.map((from) => from.toLowerCase()).filter((from) => !senders.has(from));
}

/** The fee that a receipt shows, with what chains of the OP stack charge for publishing besides; null: it shows none. */
export function paidFor(receipt: unknown): bigint | null {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = fields(receipt);
  if (![gasUsed, effectiveGasPrice, l1Fee].every((one) => typeof one === 'string' && /^0x[0-9a-f]{1,64}$/i.test(one))) return null;
  return BigInt(String(gasUsed)) * BigInt(String(effectiveGasPrice)) + BigInt(String(l1Fee));
}
