/** Balances of accounts before and after a block, and what of their change no direct transfer explains. */
import { invariant } from '#core/invariant';
import type { Log } from '#log';
import type { EthBlock } from './eth-block.ts';
import { answerOrNull, type EthRpc, quantity, readOrNull } from './eth-rpc.ts';
import { type Move, sentBy, sumsOf } from './value-moves.ts';

/** Accounts whose balances are read in one call. */
const BALANCES = 200;

/**
 * Reads balances without a contract on the chain: as the code of a contract creation that is only simulated, followed by the
 * accounts as words. It turns each word into the balance and returns them all.
 *
 *   PUSH1 1f CODESIZE SUB DUP1 PUSH1 1f PUSH1 00 CODECOPY   size = what follows the code; copy it to memory 0
 *   DUP1                                                    i = size
 *   JUMPDEST DUP1 ISZERO PUSH1 1d JUMPI                     (0b) until i is 0:
 *   PUSH1 20 SWAP1 SUB DUP1 MLOAD BALANCE DUP2 MSTORE       i -= 32; memory[i] = balance(memory[i])
 *   PUSH1 0b JUMP
 *   JUMPDEST RETURN                                         (1d) return memory from 0 (that is i) to size
 */
export const READ_BALANCES = '0x601f380380601f60003980' + '5b8015601d57' + '6020900380513181' + '52600b56' + '5bf3';

export type Balances = ReadonlyMap<string, bigint>;

const WORDS = /^0x[0-9a-f]*$/i;
/** The balances of at most `BALANCES` accounts, with one call; null when the node does not answer it. */
async function callBalances(
  keys: readonly string[],
  at: unknown,
  { attempt }: Pick<EthRpc, 'attempt'>,
): Promise<[string, bigint][] | null> {
  const data = READ_BALANCES + keys.map((key) => key.padStart(64, '0')).join('');
  const words = await attempt({ call: ['eth_call', { data }, at] });
  if (typeof words !== 'string' || !WORDS.test(words) || words.length !== 2 + 64 * keys.length) return null;
  return keys.map((key, n) => [key, quantity(`0x${words.slice(2 + 64 * n, 66 + 64 * n)}`)]);
}

/** Balances as they would be after the waiting transactions that the node expects in the next block; null when it does not say. */
export async function pendingBalances(keys: readonly string[], rpc: Pick<EthRpc, 'attempt'>): Promise<Balances | null> {
  const found = new Map<string, bigint>();
  for (let i = 0; i < keys.length; i += BALANCES) {
    const called = await callBalances(keys.slice(i, i + BALANCES), 'pending', rpc);
    if (called === null) return null;
    for (const [key, units] of called) found.set(key, units);
  }
  return found;
}

/**
 * Balances at a block, by hash so a reorganization cannot mix blocks; null when the node cannot say: nodes tell in many words that they
 * dropped the state of a block. Errors: ChainError when it does not answer at all.
 */
export async function balancesAt(
  blockHash: string,
  keys: readonly string[],
  { attempt, batch }: Pick<EthRpc, 'attempt' | 'batch'>,
): Promise<Map<string, bigint> | null> {
  const found = new Map<string, bigint>();
  const at = { blockHash };
  for (let i = 0; i < keys.length; i += BALANCES) {
    const part = keys.slice(i, i + BALANCES);
    const called = await callBalances(part, at, { attempt });
    if (called !== null) {
      for (const [key, units] of called) found.set(key, units);
      continue;
    }
    const replies = await answerOrNull(batch(part.map((key) => ['eth_getBalance', `0x${key}`, at])));
    for (const [n, key] of part.entries()) {
      const units = readOrNull(() => quantity(replies?.[n]?.result));
      if (units === null) return null;
      found.set(key, units);
    }
  }
  return found;
}

/** What accounts gained between two readings, beyond direct transfers: their change, what they sent, less what they received. */
export function unexplainedGains(
  { transactions, receipts }: Pick<EthBlock, 'transactions' | 'receipts'>,
  { keys, before, after, direct }: { keys: readonly string[]; before: Balances; after: Balances; direct: readonly Move[] },
): Map<string, bigint> {
  const received = sumsOf(direct);
  return new Map(
    keys.map((key) => {
      const [had, has] = [before.get(key), after.get(key)];
      invariant(had !== undefined && has !== undefined, 'both balances of an account were read');
      return [key, has - had + sentBy(key, transactions, receipts) - (received.get(key) ?? 0n)];
    }),
  );
}

export type BalanceReader = {
  /** What accounts gained in a block beyond direct transfers; null when the node no longer has the balances. */
  unexplained(block: EthBlock, keys: readonly string[], direct: readonly Move[]): Promise<Map<string, bigint> | null>;
  /** Reports once that the node has no balances. */
  missing(block: EthBlock): void;
};

export function createBalanceReader({ rpc, log }: { rpc: Pick<EthRpc, 'attempt' | 'batch'>; log: Log }): BalanceReader {
  const coin = 'ETH';
  let blind = false;
  let last: { hash: string; balances: Balances } = { hash: '', balances: new Map() };
  return {
    unexplained: async (block, keys, direct) => {
      const { ref } = block;
      // The balances after one block are those before the next, so most were already read.
      const known = last.hash === ref.parent ? last.balances : new Map<string, bigint>();
      const asked = keys.filter((key) => !known.has(key));
      const fresh = await balancesAt(ref.parent, asked, rpc);
      const after = fresh && (await balancesAt(ref.hash, keys, rpc));
      if (!after) return null;
      if (blind) log.warn({ coin, height: ref.height }, 'The node has balances again from this block on');
      blind = false;
      const rest = unexplainedGains(block, { keys, before: new Map([...known, ...fresh]), after, direct });
      // A balance that fell without a reason is read again for the next block, because a gain must not rest on one of two differing replies.
      last = { hash: ref.hash, balances: new Map([...after].filter(([key]) => (rest.get(key) ?? 0n) >= 0n)) };
      return rest;
    },
    missing: ({ ref }) => {
      if (!blind)
        log.error(
          { coin, height: ref.height },
          'The node no longer has balances from this block on; payments sent through contracts are not detected until it does',
        );
      blind = true;
    },
  };
}
