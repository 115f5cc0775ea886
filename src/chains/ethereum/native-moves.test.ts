/** Native balances of many accounts, as nodes answer them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READ_BALANCES } from './eth-balances.ts';
import type { EthRpc } from './eth-rpc.ts';
import { createNativeReader } from './token-ranges.ts';

/** The largest code that a contract may have (EIP-170). */
const MOST_CODE = 24_576;

/** A node that limits what a contract creation returns, and that holds an account number for each account. */
const nodeThat = (error: { code: number; message: string } | null = null) =>
  ({
    one: async ([, { data }]: readonly [string, { data: string }]) => {
      if (error) return { result: null, error };
      const words = data.slice(READ_BALANCES.length);
      if (words.length / 2 > MOST_CODE) return { result: null, error: { code: -32000, message: 'max code size exceeded' } };
      return { result: `0x${words}`, error: null };
    },
  }) as unknown as EthRpc;

test('balances of more accounts than one contract creation may return', async () => {
  const accounts = Array.from({ length: 2_001 }, (_, n) => n.toString(16).padStart(40, '0'));
  const balances = await createNativeReader(nodeThat(), 'USDC@base')!.balances(accounts, '0x01');
  assert.deepEqual(
    balances,
    accounts.map((_, n) => BigInt(n)),
  );
});

test('a node that refuses old state in words that are not known shows no balances', async () => {
  const reader = createNativeReader(nodeThat({ code: -32000, message: 'block is out of our window' }), 'USDC@base')!;
  assert.equal(await reader.balances(['00'.repeat(20)], '0x01'), null);
});
