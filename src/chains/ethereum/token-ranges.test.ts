/** Blocks that are read by ranges: what a source says about one must fit its hash where that can be computed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeBlock } from '../../../test/kit/ethereum-blocks.ts';
import { readTokenReplies } from '../../../test/kit/token-blocks.ts';
import { OutgoingError } from '../../connections/outgoing.ts';
import { ChainError, type Matcher } from '../chain-source.ts';
import { readEthBlock } from './eth-block.ts';
import type { EthCall, EthRpc } from './eth-rpc.ts';
import { createRangeReader } from './token-ranges.ts';
import { TRANSFER } from './value-moves.ts';

type Json = Record<string, unknown>;
const { block, receipts } = readTokenReplies() as { block: Json; receipts: Json[] };
const hash = String(block.hash);
const whole = {
  ...block,
  transactions: receipts.map((one, i) => ({
    hash: one.transactionHash,
    from: one.from,
    to: one.to,
    value: '0x0',
    nonce: `0x${i.toString(16)}`,
    input: '0x',
  })),
};
const transactions = (block.transactions as (string | Json)[]).map((tx) => (typeof tx === 'string' ? tx : tx.hash));

const readerOf = (change: Json) => {
  const rpc = {
    call: async () => ({ ...block, transactions, ...change }),
    one: async () => ({ result: receipts }),
  } as unknown as EthRpc;
  return createRangeReader(rpc, { coin: 'USDC@base', tokens: new Map() });
};
const number = `0x${(Number(block.number) - 1_000).toString(16)}`;
const timestamp = `0x${(Number(block.timestamp) - 3_600).toString(16)}`;
const isUnproven = (error: unknown) => error instanceof ChainError && error.kind === 'unproven';

test('a block whose header fits its hash is proven', async () => {
  const { ref, proven } = await readerOf({}).fetch(hash);
  assert.deepEqual([ref.height, ref.hash, proven], [Number(block.number), hash, true]);
});

test('another height, parent or time than the hash contains is refused', async () => {
  for (const change of [{ number }, { timestamp }, { parentHash: hash }]) await assert.rejects(readerOf(change).fetch(hash), isUnproven);
});

test('a header with fields that are not known is not proven, and its height, parent and time are compared', async () => {
  const extra = { someField: '0x1' };
  assert.equal((await readerOf(extra).fetch(hash)).proven, true);
  const { proven, identity } = await readerOf({ ...extra, number }).fetch(hash);
  assert.equal(proven, false);
  for (const change of [{}, { number, timestamp }, { number, parentHash: hash }])
    assert.notEqual(await readerOf({ ...extra, ...change }).identity(hash), identity);
});

test('receipts that strangers made larger than any answer are read in parts, and only the logs of listed tokens are kept', async () => {
  const token = 'ab'.repeat(20);
  const us = 'cd'.repeat(20);
  const word = (account: string) => `0x${account.padStart(64, '0')}`;
  const stranger = { address: `0x${'ee'.repeat(20)}`, topics: [], data: '0x' };
  const ours = { address: `0x${token}`, topics: [TRANSFER, word('01'), word(us)], data: word('05') };
  const given = Array.from({ length: 120 }, (_, i) => ({
    ...{ type: '0x2', status: '0x1', gasUsed: '0x1', cumulativeGasUsed: `0x${(i + 1).toString(16)}`, transactionHash: word(`f${i}`) },
    logs: i === 110 ? [stranger, stranger, ours] : Array(1_000).fill(stranger),
  }));
  const { hash, header } = makeBlock({ height: 1, parent: word('00'), receipts: given });
  const txids = given.map(({ transactionHash }) => transactionHash);
  const receiptOf = (txid: string) => ({ ...given[txids.indexOf(txid)], blockHash: hash });
  const sizes: number[] = [];
  const rpc = {
    call: async () => ({ ...header, hash, transactions: txids }),
    one: async () => {
      throw new ChainError('outage', 'the source does not answer', { cause: new OutgoingError('too_large', 'the reply is too large') });
    },
    batch: async (calls: string[][]) => {
      sizes.push(calls.length);
      return calls.map(([, txid]) => ({ result: receiptOf(txid!), error: null }));
    },
  } as unknown as EthRpc;
  const reader = createRangeReader(rpc, { coin: 'USDC@base', tokens: new Map([[token, 'USDC@base']]) });
  const { sightings, proven } = await reader.fetch(hash);
  assert.deepEqual([proven, sizes], [true, [50, 50, 20]]);
  const found = sightings({ has: (key) => key === us } as Matcher);
  assert.deepEqual(
    found.map(({ units, txid, place }) => [units, txid, place]),
    [[5n, txids[110], 110_002]],
  );
});

test('a block whose receipts are larger than any answer is read, with one receipt for each transaction', async () => {
  const receiptOf = (txid: unknown) => receipts.find((one) => one.transactionHash === txid);
  const asked: string[][] = [];
  const batch = async (calls: readonly EthCall[]) => {
    const methods = calls.map(([method]) => method);
    asked.push(methods);
    if (methods.includes('eth_getBlockReceipts'))
      throw new ChainError('outage', 'the source does not answer', { cause: new OutgoingError('too_large', 'the reply is too large') });
    return calls.map(([method, id]) => ({ result: method === 'eth_getTransactionReceipt' ? receiptOf(id) : whole, error: null }));
  };
  const read = await readEthBlock(hash, { batch });
  assert.equal(read.receipts.length, receipts.length);
  assert.deepEqual(asked[1], ['eth_getBlockByHash']);
});
