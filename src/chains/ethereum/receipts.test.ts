/** Receipts of recorded blocks fit the roots of their headers, and none can be changed, dropped, added or moved. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { concatBytes } from '@noble/hashes/utils.js';
import fc from 'fast-check';
import {
  bytesOfHex,
  flipBit,
  flipNumber,
  hexOfBytes,
  RECORDED_BLOCKS,
  readAmsterdamBlock,
  readEthereum,
  readEthereumText,
  readRecordedBlock,
  sampled,
} from '../../../test/kit/ethereum-data.ts';
import { readTokenReplies } from '../../../test/kit/token-blocks.ts';
import { decodeRlp, encodeRlp, ProofError, quantityBytes, type Rlp } from '../../evm/rlp.ts';
import { checkReceipts, encodeReceipt } from './receipts.ts';
import { listRoot } from './trie.ts';

type Receipt = Record<string, unknown> & { logs: Record<string, any>[] };
const rpc = readTokenReplies() as unknown as { block: Record<string, string>; receipts: Receipt[] };

for (const number of RECORDED_BLOCKS)
  test(`the receipts of block ${number} fit its header`, () => {
    const { receipts, header } = readRecordedBlock(number);
    checkReceipts(receipts, bytesOfHex(header.receiptsRoot!));
  });

test('the receipts fit as a node answers them', () => {
  assert.equal(rpc.receipts.length, 202);
  checkReceipts(rpc.receipts, bytesOfHex(rpc.block.receiptsRoot!));
});

test('a value moved in a block of Amsterdam is a log under the root', () => {
  for (const name of ['account-order', 'duplicate-account', 'hash-mismatch']) {
    const { header, receipts } = readAmsterdamBlock(name);
    assert.equal((receipts[0] as Receipt).logs[0]!.address, '0xfffffffffffffffffffffffffffffffffffffffe');
    checkReceipts(receipts, bytesOfHex(header.receiptsRoot!));
    assert.equal(hexOfBytes(encodeReceipt(receipts[0])), receipts[0]!.rlp);
  }
});

test('receipts from before Byzantium have a state root in place of a status', () => {
  const { result } = JSON.parse(readEthereumText('dev-chain-receipts.json')) as { result: Receipt[] };
  const chain = bytesOfHex(`0x${readEthereumText('dev-chain.hex').trim()}`);
  // Genesis is not in the file, so the first block is block 1.
  const first = decodeRlp(chain.subarray(0, 0x4a3 + 3), { items: 1000, depth: 8 }) as Rlp[][];
  const root = first[0]![5] as Uint8Array;
  checkReceipts(result, root);
  assert.throws(() => checkReceipts(result.with(0, { ...result[0]!, root: flipBit(result[0]!.root as string, 0) }), root), ProofError);
  assert.throws(() => checkReceipts(result.with(0, { ...result[0]!, root: '0x' }), root), /root has 0 bytes/);
  assert.throws(() => checkReceipts(result.with(0, { ...result[0]!, status: '0x1' }), root), ProofError);
});

test('receipts of OP-stack deposits have a nonce since their receipts have a version', () => {
  const { receipts, ...roots } = readEthereum('op-stack-receipts') as {
    receipts: Receipt[];
    receiptsRootWithoutDepositNonce: string;
    receiptsRootWithDepositNonce: string;
  };
  const values = receipts.map(encodeReceipt);
  assert.equal(hexOfBytes(listRoot(values)), roots.receiptsRootWithoutDepositNonce);
  const deposit = decodeRlp(values[0]!.subarray(1)) as Rlp[];
  const nonce = quantityBytes(receipts[0]!.depositNonce, { name: 'depositNonce', max: 8 });
  const typed = (list: Rlp[]) => concatBytes(Uint8Array.of(0x7e), encodeRlp(list));
  assert.equal(hexOfBytes(listRoot(values.with(0, typed([...deposit, nonce])))), roots.receiptsRootWithDepositNonce);
  const canyon = encodeReceipt({ ...receipts[0]!, depositReceiptVersion: '0x1' });
  assert.deepEqual(canyon, typed([...deposit, nonce, Uint8Array.of(1)]));
});

/** Replaces one receipt of a block whose other receipts are encoded once. */
function checkerOf(receipts: readonly Receipt[], root: string) {
  const values = receipts.map(encodeReceipt);
  assert.equal(hexOfBytes(listRoot(values)), root);
  return (i: number, change: Record<string, unknown>): boolean =>
    hexOfBytes(listRoot(values.with(i, encodeReceipt({ ...receipts[i]!, ...change })))) === root;
}

/** Changes of one bit to what a receipt says: every bit, or one of `every`. */
function changesOf(receipt: Receipt, every: number): Record<string, unknown>[] {
  const bits = (hex: string) => sampled([...Array((hex.length - 2) * 4).keys()], every).map((bit) => flipBit(hex, bit));
  const numbers = (hex: string, size: number) => Array.from({ length: size }, (_, bit) => flipNumber(hex, bit));
  const inLogs = receipt.logs.flatMap((log, i) => {
    const changed = [
      ...bits(log.address).map((address) => ({ ...log, address })),
      ...bits(log.data).map((data) => ({ ...log, data })),
      ...log.topics.flatMap((topic: string, t: number) => bits(topic).map((flipped) => ({ ...log, topics: log.topics.with(t, flipped) }))),
    ];
    return changed.map((one) => ({ logs: receipt.logs.with(i, one) }));
  });
  return [
    ...bits(receipt.logsBloom as string).map((logsBloom) => ({ logsBloom })),
    ...numbers(receipt.status as string, 8).map((status) => ({ status })),
    ...numbers(receipt.type as string, 8).map((type) => ({ type })),
    ...numbers(receipt.cumulativeGasUsed as string, 64).map((cumulativeGasUsed) => ({ cumulativeGasUsed })),
    ...inLogs,
    // Without the bloom filter beside them, only the root tells.
    ...inLogs.map((change) => ({ ...change, logsBloom: undefined })),
  ];
}

test('a changed bit anywhere in a receipt is refused', () => {
  let tried = 0;
  for (const [number, every] of [
    [15537393, 1],
    [14764013, 61],
  ] as const) {
    const { receipts, header } = readRecordedBlock(number);
    const fits = checkerOf(receipts as Receipt[], header.receiptsRoot!);
    for (const [i, receipt] of (receipts as Receipt[]).entries())
      for (const change of changesOf(receipt, every)) {
        tried++;
        let fitted = false;
        try {
          fitted = fits(i, change);
        } catch (error) {
          assert.ok(error instanceof ProofError, String(error));
        }
        assert.ok(!fitted, `receipt ${i} of block ${number}: ${JSON.stringify(change).slice(0, 200)}`);
      }
  }
  assert.ok(tried > 4000, `${tried} changes`);
});

test('receipts that are dropped, added, exchanged or from another block are refused', () => {
  const { receipts, header } = readRecordedBlock(14764013);
  const root = bytesOfHex(header.receiptsRoot!);
  const refuse = (list: readonly unknown[], why: string) => assert.throws(() => checkReceipts(list, root), /do not fit the header/, why);
  for (const i of receipts.keys()) {
    refuse(receipts.toSpliced(i, 1), `without ${i}`);
    refuse(receipts.toSpliced(i, 0, receipts[i]!), `${i} twice`);
    const next = (i + 1) % receipts.length;
    refuse(receipts.with(i, receipts[next]!).with(next, receipts[i]!), `${i} and ${next} exchanged`);
  }
  refuse([], 'none');
  refuse(readRecordedBlock(15537393).receipts, 'of another block');
  checkReceipts(receipts, root);
});

test('a log that is dropped, added, moved or marked as removed is refused', () => {
  const { receipts, header } = readRecordedBlock(14764013);
  const fits = checkerOf(receipts as Receipt[], header.receiptsRoot!);
  const i = (receipts as Receipt[]).findIndex(({ logs }) => logs.length > 1);
  const { logs } = receipts[i] as Receipt;
  for (const changed of [
    logs.slice(1),
    [...logs, logs[0]!],
    logs.toReversed(),
    [{ ...logs[0]!, topics: logs[0]!.topics.slice(1) }, ...logs.slice(1)],
  ])
    for (const change of [{ logs: changed, logsBloom: undefined }, { logs: changed }]) {
      let fitted = false;
      try {
        fitted = fits(i, change);
      } catch (error) {
        assert.ok(error instanceof ProofError);
      }
      assert.ok(!fitted);
    }
  assert.throws(() => fits(i, { logs: logs.map((log) => ({ ...log, removed: true })) }), /marked as removed/);
});

test('a receipt in another form is refused with the reason', () => {
  const receipt = readRecordedBlock(15537393).receipts[0] as Receipt;
  const [log] = receipt.logs as [Record<string, any>];
  const forms: readonly [change: Record<string, unknown>, RegExp][] = [
    [{ type: '0x5' }, /does not know transactions of type 0x5/],
    [{ type: '0x80' }, /type 0x80/],
    [{ type: 2 }, /type is not a number/],
    [{ status: '0x2' }, /neither 0 nor 1/],
    [{ status: true }, /status is not a number/],
    [{ status: null }, /root is not hex/],
    [{ cumulativeGasUsed: '0x10000000000000000' }, /cumulativeGasUsed is more than 8 bytes/],
    [{ logsBloom: '0x' }, /logsBloom has 0 bytes/],
    [{ logsBloom: null }, /logsBloom is not hex/],
    [{ logs: null }, /logs is not a list/],
    [{ logs: [{ ...log, address: '0x' }] }, /the address of a log has 0 bytes/],
    [{ logs: [{ ...log, topics: [...log.topics, ...log.topics, ...log.topics] }] }, /the topics of a log is not a list of at most 4/],
    [{ logs: [{ ...log, data: '0x0' }] }, /the data of a log is not hex/],
    [{ logs: [null] }, /the address of a log is not hex/],
  ];
  for (const [change, message] of forms) assert.throws(() => encodeReceipt({ ...receipt, ...change }), { name: 'ProofError', message });
});

test('a receipt of any shape is encoded or refused without a crash', () => {
  const receipt = readRecordedBlock(15537393).receipts[0] as Receipt;
  const log = fc
    .dictionary(fc.constantFrom('address', 'topics', 'data'), fc.anything())
    .map((given) => ({ ...receipt.logs[0]!, ...given }));
  const part = fc.dictionary(
    fc.constantFrom('type', 'status', 'root', 'cumulativeGasUsed', 'logsBloom', 'logs'),
    fc.oneof(fc.anything(), fc.array(log, { maxLength: 3 })),
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.anything(),
        part.map((given) => ({ ...receipt, ...given })),
      ),
      (value) => {
        try {
          encodeReceipt(value);
        } catch (error) {
          assert.ok(error instanceof ProofError, String(error));
        }
      },
    ),
    { numRuns: 500 },
  );
});
