/** What a mined transaction of a sweep moved. A batch succeeds as a whole even where a transfer in it failed, so its transfers are counted. */
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
