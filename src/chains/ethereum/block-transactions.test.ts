/** Transactions of recorded blocks fit the roots of their headers, their hashes and their senders; changed ones do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { accountNamed, type Json, nameTransaction, signTransaction } from '../../../test/kit/ethereum-blocks.ts';
import {
  bytesOfHex,
  flipBit,
  flipNumber,
  hexOfBytes,
  RECORDED_BLOCKS,
  readEthereum,
  readEthereumText,
  readRecordedBlock,
  sampled,
} from '../../../test/kit/ethereum-data.ts';
import { atOnce, decodeRlp, encodeRlp, ProofError, type Rlp } from '../../evm/rlp.ts';
import { checkTransactionsSteps, encodeTransaction, identityOf } from './eth-block.ts';
import { listRoot } from './trie.ts';

const check = (transactions: unknown, root: string): void => atOnce(checkTransactionsSteps(transactions, bytesOfHex(root)));
const countTypes = (transactions: readonly Json[]) =>
  Object.fromEntries(['0x0', '0x1', '0x2', '0x3', '0x4'].map((type) => [type, transactions.filter((tx) => tx.type === type).length]));

for (const number of RECORDED_BLOCKS)
  test(`the transactions of block ${number} fit its header`, () => {
    const { transactions, header } = readRecordedBlock(number);
    const named = transactions.map((raw) => nameTransaction(bytesOfHex(raw)));
    assert.deepEqual(
      named.map((tx) => hexOfBytes(encodeTransaction(tx))),
      transactions,
    );
    check(named, header.transactionsRoot!);
  });

for (const [name, types] of [
  ['block-22431084-rpc', { '0x0': 10, '0x1': 0, '0x2': 83, '0x3': 2, '0x4': 0 }],
  ['block-24784163-rpc', { '0x0': 60, '0x1': 0, '0x2': 705, '0x3': 1, '0x4': 3 }],
] as const)
  test(`the transactions, their hashes and their senders fit as a node answers ${name}`, () => {
    const block = readEthereum(name) as Json;
    assert.deepEqual(countTypes(block.transactions), types);
    check(block.transactions, block.transactionsRoot);
    // Recovering a sender takes a millisecond.
    for (const tx of sampled(block.transactions as Json[], 9)) assert.deepEqual(identityOf(tx), { txid: tx.hash, from: tx.from.slice(2) });
  });

/** The blocks of the recorded chain: all types of transactions are in it. */
const DEV_CHAIN: readonly { header: Rlp[]; transactions: Uint8Array[] }[] = (() => {
  const bytes = bytesOfHex(`0x${readEthereumText('dev-chain.hex').trim()}`);
  const found: { header: Rlp[]; transactions: Uint8Array[] }[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes[at]! - 0xf7;
    const end = at + 1 + size + Number(`0x${Buffer.from(bytes.subarray(at + 1, at + 1 + size)).toString('hex')}`);
    const [header, transactions] = decodeRlp(bytes.subarray(at, end), { items: 10_000, depth: 16 }) as [Rlp[], Rlp[]];
    // A legacy one is a list in its block, the others are strings.
    found.push({ header, transactions: transactions.map((tx) => (tx instanceof Uint8Array ? tx : encodeRlp(tx))) });
    at = end;
  }
  return found;
})();

test('transactions of every type fit 54 blocks from the first fork to Prague', () => {
  const all = DEV_CHAIN.flatMap(({ header, transactions }) => {
    const named = transactions.map(nameTransaction);
    check(named, hexOfBytes(header[4] as Uint8Array));
    return named;
  });
  assert.deepEqual(countTypes(all), { '0x0': 196, '0x1': 23, '0x2': 23, '0x3': 6, '0x4': 1 });
  // Only a few accounts sent them.
  const senders = new Set(sampled(all, 7).map((tx) => identityOf(tx).from));
  assert.ok(senders.size < 12, `${senders.size} senders`);
});

/** One transaction of each type, as a node sends it. */
const SAMPLES: readonly Json[] = ['0x0', '0x1', '0x2', '0x3', '0x4'].map((type) => {
  const found = DEV_CHAIN.flatMap(({ transactions }) => transactions.map(nameTransaction)).filter((tx) => tx.type === type);
  return found.toSorted((a, b) => JSON.stringify(b).length - JSON.stringify(a).length).find((tx) => JSON.stringify(tx).length < 3_000)!;
});

/** Every value in it with one bit changed: all bits of numbers and accounts, some of long data. */
function* changesOf(given: any): Generator<any> {
  if (typeof given === 'string') {
    const isNumber = given.length < 42 || /^0x[1-9a-f]/.test(given);
    for (const bit of sampled([...Array((given.length - 2) * 4).keys()], given.length > 200 ? 61 : 5)) {
      if (given.length % 2 === 0) yield flipBit(given, bit);
      if (isNumber) yield flipNumber(given, bit);
    }
  } else if (Array.isArray(given)) {
    for (const i of given.keys()) yield given.toSpliced(i, 1);
    for (const [i, one] of given.entries()) for (const changed of changesOf(one)) yield given.with(i, changed);
  } else if (given !== null)
    for (const [name, value] of Object.entries(given)) for (const changed of changesOf(value)) yield { ...given, [name]: changed };
}

test('a changed bit anywhere in a transaction of any type is refused', () => {
  let tried = 0;
  for (const tx of SAMPLES) {
    const encoded = hexOfBytes(encodeTransaction(tx));
    for (const changed of changesOf(tx)) {
      let so: string | null = null;
      try {
        so = hexOfBytes(encodeTransaction(changed));
      } catch (error) {
        assert.ok(error instanceof ProofError, String(error));
      }
      tried++;
      assert.notEqual(so, encoded, JSON.stringify(changed).slice(0, 300));
    }
  }
  assert.ok(tried > 500, `${tried} changes`);
});

test('transactions that are dropped, added, exchanged or from another block are refused', () => {
  const { transactions, header } = readRecordedBlock(19426587);
  const named = transactions.map((raw) => nameTransaction(bytesOfHex(raw)));
  const refuse = (list: unknown) => assert.throws(() => check(list, header.transactionsRoot!), ProofError);
  for (const i of sampled([...named.keys()], 5)) {
    refuse(named.toSpliced(i, 1));
    refuse(named.toSpliced(i, 0, named[i]!));
    refuse(named.with(i, named[(i + 1) % named.length]!).with((i + 1) % named.length, named[i]!));
  }
  for (const other of [[], null, {}, 'all', [null], named.map(({ r }) => r)]) refuse(other);
});

test('a sender is recovered from every kind of signature, and another signature is another sender', () => {
  const tx = signTransaction('payer', { nonce: '0x5', to: `0x${'aa'.repeat(20)}`, value: '0x10' });
  assert.deepEqual(identityOf(tx), { txid: tx.hash, from: accountNamed('payer') });
  assert.notEqual(identityOf({ ...tx, value: '0x11' }).from, accountNamed('payer'));
  const refused: readonly Json[] = [{ v: '0x0' }, { v: '0x1d' }, { r: '0x0' }, { s: '0x0' }, { r: `0x${'ff'.repeat(32)}` }];
  for (const change of refused) assert.throws(() => identityOf({ ...tx, ...change }), ProofError, JSON.stringify(change));
  const typed = SAMPLES[2]!;
  assert.throws(() => identityOf({ ...typed, yParity: '0x2' }), ProofError);
  // Some nodes name the parity `v`, and nothing else.
  const { yParity, ...rest } = typed;
  assert.deepEqual(identityOf({ ...rest, v: yParity }), identityOf(typed));
});

test('a transaction in another form is refused with the reason', () => {
  const [legacy, , dynamic, blobs, delegation] = SAMPLES as [Json, Json, Json, Json, Json];
  const forms: readonly [Json, RegExp][] = [
    [{ ...legacy, type: '0x5' }, /does not know transactions of type 0x5/],
    [{ ...legacy, type: '0x7e' }, /does not know transactions of type 0x7e/],
    [{ ...legacy, type: 0 }, /type is not a number/],
    [{ ...legacy, nonce: undefined }, /nonce is not a number/],
    [{ ...legacy, value: `0x1${'0'.repeat(64)}` }, /value is not a number/],
    [{ ...legacy, to: '0x' }, /to has 0 bytes/],
    [{ ...legacy, input: undefined }, /input is not hex/],
    [{ ...dynamic, accessList: null }, /accessList is not a list/],
    [{ ...dynamic, accessList: [{}] }, /an address of an access list is not hex/],
    [{ ...dynamic, accessList: [{ address: `0x${'aa'.repeat(20)}`, storageKeys: ['0x'] }] }, /a storage key has 0 bytes/],
    [{ ...blobs, blobVersionedHashes: ['0x'] }, /a blob hash has 0 bytes/],
    [{ ...delegation, authorizationList: [null] }, /chainId is not a number/],
  ];
  for (const [tx, message] of forms) assert.throws(() => encodeTransaction(tx), { name: 'ProofError', message });
});

test('a transaction of any shape is encoded or refused without a crash', () => {
  const names = ['type', 'to', 'input', 'value', 'v', 'yParity', 'accessList', 'authorizationList', 'blobVersionedHashes'];
  const part = fc.dictionary(fc.constantFrom(...names), fc.anything());
  const changed = fc.tuple(fc.constantFrom(...SAMPLES), part).map(([tx, given]) => ({ ...tx, ...given }));
  fc.assert(
    fc.property(fc.oneof(fc.anything(), changed), (given) => {
      for (const read of [encodeTransaction, identityOf])
        try {
          read(given);
        } catch (error) {
          assert.ok(error instanceof ProofError, String(error));
        }
    }),
    { numRuns: 300 },
  );
});

test('the root of no transactions, and the hash of one, are those of the specification', () => {
  assert.equal(hexOfBytes(listRoot([])), '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421');
  const { transactions } = readRecordedBlock(15537393);
  const tx = nameTransaction(bytesOfHex(transactions[0]!));
  assert.equal(identityOf(tx).txid, hexOfBytes(keccak_256(bytesOfHex(transactions[0]!))));
});
