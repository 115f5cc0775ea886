/** Blocks that are read by ranges: what a source says about one must fit its hash where that can be computed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTokenReplies } from '../../../test/kit/token-blocks.ts';
import { ChainError } from '../chain.ts';
import type { EthRpc } from './eth-rpc.ts';
import { createRangeReader } from './token-ranges.ts';

type Json = Record<string, unknown>;
const { block, receipts } = readTokenReplies() as { block: Json; receipts: Json[] };
const hash = String(block.hash);
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
