/** Which ETH moved to which account in a block: pure readers of logs, access lists and traces. And what one transaction pays. */
import type { JoinedSource } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { account, arrayOf, hash32, quantity, smallNumber } from './eth-rpc.ts';

export type EthTransaction = {
  txid: string;
  from: string;
  /** Null for a contract creation. */
  to: string | null;
  units: bigint;
  nonce: bigint;
  /** Hex of the call data, in lower case. */
  input: string;
};
export type EthReceipt = {
  ok: boolean;
  /** Gas and blob fees, paid by the sender even if the transaction fails. */
  feeUnits: bigint;
  logs: readonly unknown[];
};
/** One value move of the transaction at `index` of the block. Accounts are 40 hex digits. */
export type Move = { index: number; from: string; to: string; units: bigint };
/** What an account gained in one transaction of a block; `index` is null when the transaction is unknown. */
export type Gain = { key: string; index: number | null; units: bigint };

/** EIP-7708: the emitter of value logs. Anyone can emit the same topics, but not from this address. */
const SYSTEM = 'fffffffffffffffffffffffffffffffffffffffe';
/** keccak256('Transfer(address,address,uint256)'): ERC-20 tokens use the same. */
export const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';

/** Sender and nonce: only one transaction can use them, so a replacement shares them with what it replaces. */
export const outpoint = ({ from, nonce }: Pick<EthTransaction, 'from' | 'nonce'>): string => `${from}:${nonce}`;

export function readEthTransaction(value: unknown): EthTransaction {
  const tx = fields(value);
  const from = account(tx.from);
  return {
    txid: hash32(tx.hash),
    from: from ?? '',
    to: account(tx.to),
    units: quantity(tx.value),
    nonce: quantity(tx.nonce),
    input: typeof tx.input === 'string' ? tx.input.toLowerCase() : '',
  };
}

export function readReceipt(value: unknown): EthReceipt {
  const receipt = fields(value);
  const price = receipt.effectiveGasPrice === undefined ? 0n : quantity(receipt.effectiveGasPrice);
  const blobs = typeof receipt.blobGasUsed === 'string' && typeof receipt.blobGasPrice === 'string';
  return {
    ok: quantity(receipt.status) === 1n,
    feeUnits: quantity(receipt.gasUsed) * price + (blobs ? quantity(receipt.blobGasUsed) * quantity(receipt.blobGasPrice) : 0n),
    logs: arrayOf(receipt.logs),
  };
}

/** The value of the transactions themselves, if the receipt shows success, with or without call data. */
export const directMoves = (transactions: readonly EthTransaction[], receipts: readonly EthReceipt[]): Move[] =>
  transactions.flatMap(({ from, to, units }, index) =>
    receipts[index]!.ok && to !== null && units > 0n && to !== from ? [{ index, from, to, units }] : [],
  );

/** EIP-7708: every value move is a log of the system address. It is complete: reverted frames leave no logs. */
export const movesOfLogs = (receipts: readonly EthReceipt[]): Move[] =>
  receipts.flatMap(({ ok, logs }, index) =>
    !ok
      ? []
      : logs.flatMap((value): Move[] => {
          const log = fields(value);
          if (account(log.address) !== SYSTEM) return [];
          const topics = arrayOf(log.topics);
          if (topics.length !== 3 || topics[0] !== TRANSFER) return [];
          const [from, to] = [hash32(topics[1]).slice(26), hash32(topics[2]).slice(26)];
          return [{ index, from, to, units: quantity(log.data) }];
        }),
  );

/** Post-transaction balances of one account by place in the block (EIP-7928: 0 before, 1..n the transactions, n + 1 after). */
export type BalanceChange = { place: number; units: bigint };

/** EIP-7928, in the JSON of the execution APIs. Only accounts with `wanted` are read. */
export function readAccessList(value: unknown, wanted: (key: string) => boolean): Map<string, BalanceChange[]> {
  const found = new Map<string, BalanceChange[]>();
  for (const entry of arrayOf(value)) {
    const { address, balanceChanges } = fields(entry);
    const key = account(address);
    if (key === null || !wanted(key) || balanceChanges === undefined) continue;
    const changes = arrayOf(balanceChanges).map((change) => {
      const { index, value: balance } = fields(change);
      return { place: smallNumber(index), units: quantity(balance) };
    });
    if (changes.length > 0)
      found.set(
        key,
        changes.toSorted((a, b) => a.place - b.place),
      );
  }
  return found;
}

const isMove = ({ from, to, units }: Omit<Move, 'index'>): boolean => units > 0n && from !== to;

/**
 * `debug_traceBlockByHash` with the callTracer: moves inside the transactions, without what the transactions themselves moved.
 * A frame with an error undid everything below it, although the frames below carry no error of their own. Throws when a
 * transaction could not be traced.
 */
export function movesOfCallTraces(value: unknown, transactions: readonly EthTransaction[]): Move[] {
  const traces = arrayOf(value);
  if (traces.length !== transactions.length) throw new Error('the traces are not those of the block');
  return traces.flatMap((entry, index) => {
    const { result, txHash } = fields(entry);
    if (result === undefined || result === null) throw new Error('a transaction was not traced');
    if (txHash !== undefined && hash32(txHash) !== transactions[index]!.txid) throw new Error('the traces are in another order');
    const moves: Move[] = [];
    const open: { frame: Record<string, unknown>; root: boolean }[] = [{ frame: fields(result), root: true }];
    for (let next = open.pop(); next; next = open.pop()) {
      const { frame, root } = next;
      if (frame.error !== undefined && frame.error !== null) continue;
      // A DELEGATECALL or STATICCALL shows a value that it does not move; a CALLCODE moves value from an account to itself.
      if (!root && ['CALL', 'CREATE', 'CREATE2', 'SELFDESTRUCT'].includes(String(frame.type))) {
        const move = { index, from: account(frame.from) ?? '', to: account(frame.to) ?? '', units: quantity(frame.value ?? '0x0') };
        if (move.to !== '' && isMove(move)) moves.push(move);
      }
      if (frame.calls !== undefined) for (const inner of arrayOf(frame.calls)) open.push({ frame: fields(inner), root: false });
    }
    return moves;
  });
}

/** `trace_block`: the same from a flat list, where a trace's address names the frames above it. */
export function movesOfFlatTraces(value: unknown, transactions: readonly EthTransaction[], blockHash: string): Move[] {
  const traces = arrayOf(value).map((entry) => {
    const trace = fields(entry);
    if (trace.blockHash !== undefined && hash32(trace.blockHash) !== blockHash) throw new Error('the traces are of another block');
    const path = arrayOf(trace.traceAddress ?? []).join('.');
    return {
      ...trace,
      action: fields(trace.action),
      type: String(trace.type),
      path,
      txid: typeof trace.transactionHash === 'string' ? hash32(trace.transactionHash) : null,
    };
  });
  const byTx = Map.groupBy(traces, (trace) => trace.txid);
  return transactions.flatMap(({ txid }, index) => {
    const own = byTx.get(txid);
    if (!own) throw new Error('a transaction was not traced');
    const failed = own.filter((trace) => 'error' in trace && trace.error !== undefined && trace.error !== null).map((trace) => trace.path);
    const isUndone = (path: string) => failed.some((above) => above === '' || path === above || path.startsWith(`${above}.`));
    return own.flatMap(({ action, type, path }): Move[] => {
      if (path === '' || isUndone(path)) return [];
      const move =
        type === 'suicide' || type === 'selfdestruct'
          ? { from: account(action.address) ?? '', to: account(action.refundAddress) ?? '', units: quantity(action.balance ?? '0x0') }
          : type === 'call' && action.callType === 'call'
            ? { from: account(action.from) ?? '', to: account(action.to) ?? '', units: quantity(action.value ?? '0x0') }
            : null;
      return move && move.to !== '' && isMove(move) ? [{ index, ...move }] : [];
    });
  });
}

/** What each account received. */
export const sumsOf = (moves: readonly Move[]): Map<string, bigint> => {
  const sums = new Map<string, bigint>();
  for (const { to, units } of moves) sums.set(to, (sums.get(to) ?? 0n) + units);
  return sums;
};

/** Zero bytes before an address in a 32-byte word of call data. */
const PADDING = 12;
/** Leading bytes of an address that may be zero themselves. */
const LEADING = 4;

/**
 * Accounts that call data may contain: 20 bytes after at least twelve zero bytes, at any alignment. Other encodings may be missed, and
 * most results are not accounts; callers only check whether they are watched.
 */
export function* namedIn(input: string): Generator<string> {
  const bytes = Buffer.from(input.slice(2), 'hex');
  let zeros = 0;
  for (let i = 0; i + 20 <= bytes.length; i++) {
    if (bytes[i] === 0) {
      zeros++;
      continue;
    }
    for (let leading = 0; leading <= LEADING && zeros - leading >= PADDING; leading++) {
      const from = i - leading;
      if (from + 20 <= bytes.length) yield bytes.toString('hex', from, from + 20);
    }
    zeros = 0;
  }
}

/** What an account spent in its own transactions of the block: always fees, and values of those that succeeded. */
export const sentBy = (key: string, transactions: readonly EthTransaction[], receipts: readonly EthReceipt[], index?: number): bigint =>
  transactions.reduce((sum, tx, i) => {
    if (tx.from !== key || (index !== undefined && i !== index)) return sum;
    const { ok, feeUnits } = receipts[i]!;
    return sum + feeUnits + (ok && tx.to !== key ? tx.units : 0n);
  }, 0n);

/** Gas of a transaction that calls no contract. */
const PLAIN_GAS = 21_000n;
type Paid = { key: string | null; units: bigint };
/** What a mined transaction pays, in each way to read that: by its own value, and by logs. `isAll`: no contract can have paid more. */
type AccountPayments = { block: { height: number; hash: string }; ways: readonly (readonly Paid[])[]; isAll: boolean };

/**
 * Reads what a transaction pays, in the token of `contract`, or without one in the native coin. `unknown`: no source has it; `waits`: it is
 * not mined. Errors: ChainError.
 */
export async function readAccountPayments(
  chain: Pick<JoinedSource, 'ask'>,
  { txid, contract }: { txid: string; contract: string | null },
): Promise<AccountPayments | 'waits' | 'unknown' | 'cannot tell'> {
  const replies = await chain.ask([
    ['eth_getTransactionReceipt', txid],
    ['eth_getTransactionByHash', txid],
  ]);
  const [receipt, transaction] = replies.map((reply) => (reply.error ? undefined : reply.result));
  if (receipt === undefined || transaction === undefined) return 'cannot tell';
  if (transaction === null) return 'unknown';
  if (receipt === null) return 'waits';
  const { blockNumber, blockHash, gasUsed } = fields(receipt);
  const block = { height: smallNumber(blockNumber), hash: hash32(blockHash) };
  const read = readReceipt(receipt);
  if (!read.ok) return { block, ways: [[]], isAll: true };
  if (contract !== null) {
    const logs = read.logs.map(fields).filter((log) => account(log.address) === account(contract));
    return { block, ways: [logs.flatMap(transferIn)], isAll: true };
  }
  const { to, units } = readEthTransaction(transaction);
  const logged = movesOfLogs([read]).map((move) => ({ key: move.to, units: move.units }));
  return { block, ways: [[{ key: to, units }], logged], isAll: quantity(gasUsed) === PLAIN_GAS };
}
/** The transfer that a log of a token is about, if it is about one. */
function transferIn({ data, topics }: Record<string, unknown>): Paid[] {
  const [topic, , to] = arrayOf(topics);
  return topic === TRANSFER && typeof to === 'string' ? [{ key: to.slice(-40).toLowerCase(), units: quantity(data) }] : [];
}
