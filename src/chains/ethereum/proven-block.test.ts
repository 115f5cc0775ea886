/** The receipts of recorded blocks are proven by the hash of their block alone, and nothing in them can be changed. */
// Invariant: Nothing in an Ethereum block can be invented, changed or left out by any source; a provider that tries is named, and your own node shows the payments.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedReceipt, type Json, makeBlock, nameHeader, nameReceipt } from '../../../test/kit/ethereum-blocks.ts';
import { flipBit, hexOfBytes, sampled } from '../../../test/kit/ethereum-data.ts';
import { readTokenProof, readTokenReplies, TOKEN_BLOCKS } from '../../../test/kit/token-blocks.ts';
import { decodeRlp, inTurns, ProofError, type Rlp } from '../../evm/rlp.ts';
import { proveReceipts } from './eth-block.ts';
import { encodeReceipt } from './receipts.ts';

const readProof = (number: number) => {
  const { hash, header, values } = readTokenProof(number);
  return { hash, block: nameHeader(decodeRlp(header) as Rlp[]), values, receipts: values.map(nameReceipt) };
};

for (const number of TOKEN_BLOCKS)
  test(`the receipts of block ${number} are proven by its hash, and no others are`, async () => {
    const { hash, block, values, receipts } = readProof(number);
    const proven = await proveReceipts({ block, hash, receipts });
    assert.equal(proven.number, BigInt(number));
    // A node need not send the bloom filters.
    await proveReceipts({ block, hash, receipts: receipts.map(({ logsBloom: _, ...receipt }) => receipt) });
    const refuse = (given: { block?: unknown; hash?: string; receipts?: unknown }, why: string) =>
      assert.rejects(proveReceipts({ block, hash, receipts, ...given }), ProofError, why);
    await refuse({ hash: flipBit(hash, 7) }, 'another hash');
    await refuse({ block: { ...block, receiptsRoot: block.transactionsRoot } }, 'another root in the header');
    await refuse({ receipts: receipts.slice(1) }, 'without the first');
    await refuse({ receipts: [...receipts, receipts[0]] }, 'one twice');
    await refuse({ receipts: receipts.map(({ logs, ...receipt }) => ({ ...receipt, logs: logs.slice(1) })) }, 'without a log of each');
    for (const wrong of [null, {}, 'receipts', [null], [[]]]) await refuse({ receipts: wrong }, JSON.stringify(wrong));
    let tried = 0;
    for (const [i, value] of values.entries())
      for (const bit of sampled([...Array(value.length * 8).keys()], 24001 * values.length)) {
        const changed = changedReceipt(value, bit);
        // It differs only in its encoding, which is not what the node sent.
        if (!changed || Buffer.compare(encodeReceiptOf(changed), value) === 0) continue;
        tried++;
        await refuse({ receipts: receipts.with(i, changed) }, `bit ${bit} of receipt ${i}`);
      }
    assert.ok(tried > 0);
  });

/** Empty: it has no valid form. */
function encodeReceiptOf(receipt: Json): Uint8Array {
  try {
    return encodeReceipt(receipt);
  } catch (error) {
    assert.ok(error instanceof ProofError, String(error));
    return new Uint8Array(0);
  }
}

test('the answers of a node are proven as they come', async () => {
  const { block, receipts } = readTokenReplies();
  const header = await proveReceipts({ block, hash: block.hash as string, receipts });
  assert.equal(hexOfBytes(header.receiptsRoot), block.receiptsRoot);
});

test('receipts of all types that chains beside Ethereum have are proven', async () => {
  const types = ['0x0', '0x4', '0x64', '0x65', '0x66', '0x68', '0x69', '0x6a', '0x78', '0x7e', '0x7f'];
  const logs = [{ address: `0x${'ab'.repeat(20)}`, topics: [`0x${'01'.repeat(32)}`], data: '0x05' }];
  const receipts = types.map((type, i) => ({
    ...{ type, status: '0x1', cumulativeGasUsed: `0x${(i + 1).toString(16)}`, logs },
    ...(type === '0x7e' && { depositNonce: '0x3d3bbf', depositReceiptVersion: '0x1' }),
  }));
  const { hash, header } = makeBlock({ height: 1, parent: `0x${'00'.repeat(32)}`, receipts });
  await proveReceipts({ block: header, hash, receipts });
  for (const [i, receipt] of receipts.entries()) {
    const refuse = (change: Json) =>
      assert.rejects(proveReceipts({ block: header, hash, receipts: receipts.with(i, { ...receipt, ...change }) }), ProofError);
    await refuse({ status: '0x0' });
    await refuse({ type: types[(i + 1) % types.length] });
    await refuse({ logs: [{ ...logs[0], data: '0x06' }] });
    if (receipt.type === '0x7e') await refuse({ depositNonce: '0x3d3bbe' });
  }
  await assert.rejects(
    proveReceipts({ block: header, hash, receipts: receipts.with(0, { ...receipts[0]!, type: '0x67' }) }),
    /does not know transactions of type 0x67/,
  );
});

test('a long calculation lets the event loop turn, and its errors arrive', async () => {
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  // Far longer than a few turns take, on any machine.
  const until = performance.now() + 10_000;
  const result = await inTurns(
    (function* () {
      while (turns <= 2 && performance.now() < until) yield;
      return 'done';
    })(),
  );
  clearInterval(timer);
  assert.equal(result, 'done');
  assert.ok(turns > 2, `${turns} turns`);
  await assert.rejects(
    inTurns(
      // biome-ignore lint/correctness/useYield: it fails at once.
      (function* () {
        throw new ProofError('no');
      })(),
    ),
    ProofError,
  );
});
