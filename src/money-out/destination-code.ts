/** Whether the destination of a family of accounts is somebody's on the chain of a file: contracts exist only where they were created. */
import { type Chain, ChainError } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { CHAIN, CHAINS, COIN, type Coin } from '../core/coin.ts';
import { Problem } from '../core/problem.ts';

/** An ordinary account that delegates to a contract (EIP-7702) has its key on every chain. */
const DELEGATED = /^0xef0100[0-9a-f]{40}$/i;

/** Null: the source did not say. */
async function hasCode(chain: Chain, address: string): Promise<boolean | null> {
  const [reply] = await chain.ask([['eth_getCode', address, 'latest']]);
  if (!reply || reply.error || typeof reply.result !== 'string') return null;
  return reply.result !== '0x' && !DELEGATED.test(reply.result);
}

/** Errors: sweep_destination_code, ChainError. */
export async function checkDestinationCode(ctx: Context, { coin, address }: { coin: Coin; address: string }): Promise<void> {
  const { chain: id, family } = COIN[coin];
  const network = ctx.settings.networks[id];
  const chain = ctx.chains.get(id);
  if (!chain || (await hasCode(chain, address)) !== false) return;
  for (const other of CHAINS) {
    const source = ctx.chains.get(other);
    if (other === id || CHAIN[other].family !== family || ctx.settings.networks[other] !== network || !source) continue;
    const found = await hasCode(source, address).catch((error: unknown) => {
      // A chain that is away does not stop the others.
      if (error instanceof ChainError) return null;
      throw error;
    });
    if (found) throw new Problem('sweep_destination_code', { address, other: CHAIN[other].name, chain: CHAIN[id].name });
  }
}
