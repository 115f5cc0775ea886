/**
 * The native coin on networks where only tokens are offered. No log names its transfers, so balances show that something arrived, and the
 * transactions of a block show what paid it.
 */
import { type Coin, strayNativeOf } from '../../core/coin.ts';
import { ChainError, NATIVES_AT_ONCE, type NativeReader, type Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { READ_BALANCES } from './eth-balances.ts';
import { arrayOf, type EthRpc, failure } from './eth-rpc.ts';
import { directMoves, readEthTransaction, readReceipt } from './value-moves.ts';

const CALL_LIMITS = { timeoutMs: 10_000, maxReplyBytes: 1024 * 1024 };

/** Null where the native coin of the chain is offered, or not known. */
export function createNativeReader(rpc: EthRpc, chain: Coin): NativeReader | null {
  const coin = strayNativeOf(chain);
  return (
    coin && { coin, balances: (accounts, hash) => balancesIn(rpc, accounts, hash), paid: (hash, to) => paidIn(rpc, { coin, hash, to }) }
  );
}

async function balancesIn(rpc: Pick<EthRpc, 'one'>, accounts: readonly string[], blockHash: string): Promise<bigint[] | null> {
  const found: bigint[] = [];
  for (let i = 0; i < accounts.length; i += NATIVES_AT_ONCE) {
    const part = accounts.slice(i, i + NATIVES_AT_ONCE);
    const data = READ_BALANCES + part.map((account) => account.padStart(64, '0')).join('');
    const { result, error } = await rpc.one(['eth_call', { data }, { blockHash }], CALL_LIMITS);
    // Nodes say in many words that they dropped the state of a block.
    if (error) return null;
    if (typeof result !== 'string' || !/^0x[0-9a-f]*$/i.test(result) || result.length !== 2 + 64 * part.length)
      throw new ChainError('outage', 'the source answered something else than balances');
    for (let n = 0; n < part.length; n++) found.push(BigInt(`0x${result.slice(2 + 64 * n, 66 + 64 * n)}`));
  }
  return found;
}

async function paidIn(rpc: EthRpc, { coin, hash, to }: { coin: Coin; hash: string; to: ReadonlySet<string> }): Promise<Sighting[]> {
  const block = fields(await rpc.call('eth_getBlockByHash', hash, true));
  const transactions = arrayOf(block.transactions)
    .map((value, place) => ({ ...readEthTransaction(value), place }))
    .filter((tx) => tx.to !== null && to.has(tx.to) && tx.units > 0n);
  const replies = await rpc.batch(transactions.map(({ txid }) => ['eth_getTransactionReceipt', txid]));
  const receipts = replies.map(({ result, error }) => {
    if (error) throw failure(error, 'eth_getTransactionReceipt');
    return readReceipt(result);
  });
  return directMoves(transactions, receipts).map(({ index, to: key, units }): Sighting => {
    const { txid, place } = transactions[index]!;
    return { coin, key, ref: `${txid}:tx`, txid, units, kind: 'direct', spends: [], lock: null, place };
  });
}
