/** Balances of tokens of many accounts in few requests, without a contract on the chain. */
import { ChainError, HOLDINGS_AT_ONCE } from '../chain.ts';
import { type EthRpc, failure } from './eth-rpc.ts';

/** An account with a token: both 40 lowercase hex digits. */
export type TokenHolder = { contract: string; account: string };

/**
 * Reads balances as the code of a contract creation that is only simulated, followed by pairs of words: a token and an account. A token
 * that does not answer counts as 0. A call takes at most 25 million gas, even with tokens that use up all that they are given.
 *
 *   PUSH1 58 CODESIZE SUB DUP1 PUSH1 58 PUSH1 60 CODECOPY     size = what follows the code; copy it to memory 60
 *   PUSH4 balanceOf PUSH1 e0 SHL PUSH1 00 MSTORE              the selector at 0
 *   PUSH1 00                                                  i = 0
 *   JUMPDEST DUP2 DUP2 LT ISZERO PUSH1 50 JUMPI               (17) while i < size:
 *   DUP1 PUSH1 80 ADD MLOAD PUSH1 04 MSTORE                   the account, behind the selector
 *   PUSH1 00 PUSH1 40 MSTORE                                  no answer yet
 *   PUSH1 20 PUSH1 40 PUSH1 24 PUSH1 00 DUP5 PUSH1 60 ADD MLOAD PUSH3 100,000 STATICCALL
 *   PUSH1 40 MLOAD MUL                                        the answer, 0 if the call failed
 *   DUP2 PUSH1 01 SHR PUSH1 60 ADD MSTORE                     over pairs that were read before
 *   PUSH1 40 ADD PUSH1 17 JUMP                                i += 64
 *   JUMPDEST POP PUSH1 01 SHR PUSH1 60 RETURN                 (50) return half as much as was given
 */
const READ_HOLDINGS =
  '0x605838038060586060396370a0823160e01b6000526000' +
  '5b81811015605057' +
  '8060800151600452600060405260206040602460008460600151' +
  '620186a0fa604051028160011c606001526040016017' +
  '565b5060011c6060f3';

const LIMITS = { timeoutMs: 10_000, maxReplyBytes: 1024 * 1024 };
const word = (hex: string): string => hex.padStart(64, '0');

/** The balances at the newest block, in the order of the holdings. Errors: ChainError. */
export async function holdingsOf(rpc: Pick<EthRpc, 'one'>, holdings: readonly TokenHolder[]): Promise<bigint[]> {
  const found: bigint[] = [];
  for (let i = 0; i < holdings.length; i += HOLDINGS_AT_ONCE) {
    const part = holdings.slice(i, i + HOLDINGS_AT_ONCE);
    const data = READ_HOLDINGS + part.map(({ contract, account }) => word(contract) + word(account)).join('');
    const { result, error } = await rpc.one(['eth_call', { data }, 'latest'], LIMITS);
    if (error) throw failure(error, 'eth_call');
    if (typeof result !== 'string' || !/^0x[0-9a-f]*$/i.test(result) || result.length !== 2 + 64 * part.length)
      throw new ChainError('outage', 'the source answered something else than balances');
    for (let n = 0; n < part.length; n++) found.push(BigInt(`0x${result.slice(2 + 64 * n, 66 + 64 * n)}`));
  }
  return found;
}
