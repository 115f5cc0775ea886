/**
 * What accounts gained in a block beyond direct transfers, proven under the state roots of the block and of its parent. What a node of
 * others says about balances only shows which accounts to prove.
 */
import { hexToBytes } from '@noble/hashes/utils.js';
import { isSame, ProofError } from '#evm';
import type { Log } from '#log';
import { fields } from '../reply.ts';
import { provenHeader } from './block-header.ts';
import type { ProvenBlock } from './eth-block.ts';
import { answerOrNull, type EthCall, type EthReply, type EthRpc } from './eth-rpc.ts';
import { EMPTY_CODE, type ProvenAccount, readAccountProof } from './trie.ts';
import { type Move, sumsOf } from './value-moves.ts';

/** Accounts proven in one request. The first one that did not gain what was said ends it, so false hints cost one request. */
const AT_ONCE = 20;

type Known = { log: Log; direct: readonly Move[] };

export const proofCall = (key: string, blockHash: string): EthCall => ['eth_getProof', `0x${key}`, [], { blockHash }];

/**
 * The account in an answer; null when the node does not prove it, in whatever words: it lacks the method or that part of the history, or
 * does not answer with a proof. Errors: ProofError for a proof that does not fit.
 */
export function accountOfAnswer(reply: EthReply | undefined, key: string, stateRoot: Uint8Array): ProvenAccount | null {
  if (!reply || reply.error || !Array.isArray(fields(reply.result).accountProof)) return null;
  return readAccountProof(reply.result, { stateRoot, address: hexToBytes(key), slots: [] }).account;
}

/** Whether nothing can have left an account between two states: it sent nothing and has no code that others could run. */
export const keptAll = (before: Pick<ProvenAccount, 'nonce' | 'codeHash'>, after: Pick<ProvenAccount, 'nonce' | 'codeHash'>): boolean =>
  before.nonce === after.nonce && [before, after].every(({ codeHash }) => isSame(codeHash, EMPTY_CODE));

/**
 * The proven gains of these accounts. `told`: what the node says they gained. Null when it proves nothing. Accounts from which something
 * may have been sent in the block are left out, because only what is left of a gain can be seen then. Errors: ProofError for a gain that
 * the proof does not show.
 */
export async function proveGains(
  { ref, header }: Pick<ProvenBlock, 'ref' | 'header'>,
  told: ReadonlyMap<string, bigint>,
  { log, direct }: Known,
  { batch }: Pick<EthRpc, 'batch'>,
): Promise<Map<string, bigint> | null> {
  const received = sumsOf(direct);
  const gained = new Map<string, bigint>();
  const keys = [...told.keys()];
  for (let i = 0; i < keys.length; i += AT_ONCE) {
    const part = keys.slice(i, i + AT_ONCE);
    const proofs = part.flatMap((key) => [proofCall(key, ref.parent), proofCall(key, ref.hash)]);
    const [parent, ...replies] = (await answerOrNull(batch([['eth_getBlockByHash', ref.parent, false], ...proofs]))) ?? [];
    if (!parent || parent.error || parent.result === null) return null;
    const { stateRoot } = provenHeader(parent.result, header.parentHash);
    for (const [n, key] of part.entries()) {
      const before = accountOfAnswer(replies[2 * n], key, stateRoot);
      const after = before && accountOfAnswer(replies[2 * n + 1], key, header.stateRoot);
      if (!before || !after) return null;
      if (!keptAll(before, after)) {
        log.warn({ coin: 'ETH', height: ref.height, address: `0x${key}` }, 'Cannot prove what an address received, because it was used');
        continue;
      }
      const units = after.balance - before.balance - (received.get(key) ?? 0n);
      if (units < told.get(key)!) throw new ProofError(`the source said that 0x${key} gained more in block ${ref.height} than it proves`);
      gained.set(key, units);
    }
  }
  return gained;
}
