/** The chain of anvil as the test itself reads it: who was paid in ETH and in a token, by which transaction, and what that cost. */

import { checksumAddress } from '../../src/addresses/evm-address.ts';
import type { Coin } from '../../src/core/coin.ts';
import { MULTICALL3, selector, TRANSFER_TOPIC } from '../../src/evm/transaction.ts';
import type { Paid } from './money-ground.ts';
import type { EthNode } from './nodes.ts';
import { decodeRlp } from './rlp.ts';

/** `slot`: what only one transaction can use, a nonce of an account or of an authorization. */
export type SeenPaid = Paid & { coin: Coin; slot: string };
/** A transaction of an account: what it cost, and the most that it could have cost. */
export type SeenTx = { txid: string; from: string; to: string; fee: bigint; most: bigint };
type Call = { from: string; nonce: string; to: string | null; value: bigint; input: string; txid: string };
type Read = { paid: SeenPaid[]; txs: SeenTx[]; raws: string[] };

const USED_TOPIC = '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5';
const AUTHORIZED = `0x${selector('transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)')}`;
const TRANSFER = `0x${selector('transfer(address,uint256)')}`;
const hex = (value: number | bigint): string => `0x${value.toString(16)}`;
const addressIn = (word: string): string => checksumAddress(word.slice(-40));
const same = (one: string | null, other: string): boolean => one?.toLowerCase() === other.toLowerCase();

/** Calls of token contracts in a batch, by their places in its data. */
function callsIn(input: string): string[] {
  const words = input.slice(10);
  const at = (byte: number): number => Number(BigInt(`0x${words.slice(byte * 2, byte * 2 + 64)}`));
  const list = at(0);
  return Array.from({ length: at(list) }, (_, i) => {
    const call = list + 32 + at(list + 32 + i * 32);
    const data = call + at(call + 64);
    return `0x${words.slice((data + 32) * 2, (data + 32 + at(data)) * 2)}`;
  });
}
/** Each authorized transfer of a token in a call or a batch of calls. */
export const authorizedIn = ({ to, input }: Pick<Call, 'to' | 'input'>): string[] =>
  (same(to, MULTICALL3) ? callsIn(input) : [input]).filter((data) => data.startsWith(AUTHORIZED));

/** Whom a transaction would pay, if it is mined and everything that it does is possible. */
export function paidBy(call: Call, token: string): SeenPaid[] {
  const { from, nonce, to, value, input, txid } = call;
  const word = (data: string, i: number) => data.slice(10 + i * 64, 74 + i * 64);
  const slot = `${from.toLowerCase()}:${BigInt(nonce)}`;
  const authorized = authorizedIn(call).map((data): SeenPaid => {
    const [authorizer, payee, units] = [addressIn(word(data, 0)), addressIn(word(data, 1)), BigInt(`0x${word(data, 2)}`)];
    return { txid, coin: 'USDC@ethereum', slot: `${authorizer.toLowerCase()}:0x${word(data, 5)}`, address: payee, units, isPublic: true };
  });
  if (same(to, token) && input.startsWith(TRANSFER))
    return [{ txid, coin: 'USDC@ethereum', slot, address: addressIn(word(input, 0)), units: BigInt(`0x${word(input, 1)}`) }];
  return value > 0n && to !== null ? [{ txid, coin: 'ETH', slot, address: checksumAddress(to.slice(2)), units: value }] : authorized;
}

/** What a signed transaction (EIP-1559) calls. */
export function readRaw(raw: string): Omit<Call, 'from' | 'txid'> {
  const [, nonce, , , , to, value, data] = decodeRlp(Buffer.from(raw, 'hex').subarray(1)) as Buffer[];
  const number = (bytes: Buffer) => BigInt(`0x0${bytes.toString('hex')}`);
  return { nonce: hex(number(nonce!)), to: `0x${to!.toString('hex')}`, value: number(value!), input: `0x${data!.toString('hex')}` };
}

/** What the logs of a receipt say was paid in a token. */
function paidInLogs({ logs }: { logs: any[] }, { txid, from, nonce }: Call, token: string): SeenPaid[] {
  const paid: SeenPaid[] = [];
  let used: string | null = null;
  for (const { address, topics, data } of logs) {
    if (!same(address, token)) continue;
    if (topics[0] === USED_TOPIC) used = `${addressIn(topics[1]).toLowerCase()}:${topics[2]}`;
    if (topics[0] !== TRANSFER_TOPIC) continue;
    const slot = used ?? `${from.toLowerCase()}:${BigInt(nonce)}`;
    paid.push({ txid, coin: 'USDC@ethereum', slot, address: addressIn(topics[2]), units: BigInt(data), isPublic: used !== null });
    used = null;
  }
  return paid;
}

/** Reads blocks once. */
export function openAccountChain(node: EthNode, token: string) {
  const blocks = new Map<string, Read>();
  const callOf = ({ from, nonce, to, value, input, hash }: any): Call => ({ from, nonce, to, value: BigInt(value), input, txid: hash });

  const readBlock = async (block: any): Promise<Read> => {
    const known = blocks.get(block.hash);
    if (known) return known;
    const read: Read = { paid: [], txs: [], raws: [] };
    for (const tx of block.transactions) {
      const [receipt, raw] = await Promise.all([
        node.rpc('eth_getTransactionReceipt', tx.hash),
        node.rpc('eth_getRawTransactionByHash', tx.hash),
      ]);
      if (receipt?.blockHash !== block.hash) throw new Error('the chain changed while the test read it');
      const call = callOf(tx);
      const failed = BigInt(receipt.status) === 0n;
      if (!failed) read.paid.push(...paidBy(call, token).filter(({ coin }) => coin === 'ETH'), ...paidInLogs(receipt, call, token));
      const price = BigInt(receipt.effectiveGasPrice);
      const most = BigInt(tx.gas) * BigInt(tx.maxFeePerGas ?? tx.gasPrice);
      read.txs.push({ txid: tx.hash, from: tx.from, to: tx.to ?? '', fee: BigInt(receipt.gasUsed) * price, most });
      read.raws.push(raw);
    }
    blocks.set(block.hash, read);
    return read;
  };
  const best = async (from: number): Promise<Read[]> => {
    const tip = Number(await node.rpc('eth_blockNumber'));
    const heights = Array.from({ length: tip - from + 1 }, (_, i) => from + i);
    const found = await Promise.all(heights.map((height) => node.rpc('eth_getBlockByNumber', hex(height), true)));
    const reads: Read[] = [];
    for (const block of found) reads.push(await readBlock(block));
    return reads;
  };
  return {
    best,
    /** What transactions that wait would pay, unless something of it is done already. */
    waiting: async (mined: readonly SeenPaid[]): Promise<SeenPaid[]> => {
      const done = new Set(mined.map(({ slot }) => slot));
      const { pending, queued } = await node.rpc('txpool_content');
      const calls = [pending, queued].flatMap((one) =>
        Object.values(one as object).flatMap((byNonce) => Object.values(byNonce).map(callOf)),
      );
      const bySlot = new Map<string, SeenPaid>();
      // Several people may send the same authorization.
      for (const call of calls)
        for (const one of paidBy(call, token)) if (!done.has(one.slot)) bySlot.set(`${one.slot} ${one.address}`, one);
      return [...bySlot.values()];
    },
  };
}
