/** Headers of every fork: recorded ones fit their hash, and no changed, added or missing field does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
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
} from '../../../test/kit/ethereum-data.ts';
import { readTokenReplies } from '../../../test/kit/token-blocks.ts';
import { decodeRlp, encodeRlp, ProofError, quantityBytes, type Rlp } from '../../evm/rlp.ts';
import { provenHeader } from './block-header.ts';

type Header = Record<string, string>;
const NAMES =
  'parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom difficulty number gasLimit gasUsed timestamp extraData mixHash nonce baseFeePerGas withdrawalsRoot blobGasUsed excessBlobGas parentBeaconBlockRoot requestsHash blockAccessListHash slotNumber'.split(
    ' ',
  );
const NUMBERS = new Set('difficulty number gasLimit gasUsed timestamp baseFeePerGas blobGasUsed excessBlobGas slotNumber'.split(' '));
const proof = (name: string): Header => readEthereum(`proof-${name}`).block;

const HEADERS: readonly [name: string, count: number, header: Header][] = [
  ...RECORDED_BLOCKS.map((number, i): [string, number, Header] => {
    const { header, hash } = readRecordedBlock(number);
    return [`block ${number}`, [16, 16, 17, 20, 20, 20, 21, 21][i]!, { ...header, hash }];
  }),
  ['block 22431084 as a node answers', 21, readEthereum('block-22431084-rpc')],
  ['block 24784163 as a node answers', 21, readEthereum('block-24784163-rpc')],
  ['block 21925176 as a node answers', 20, readTokenReplies().block as Header],
  ['the block of the WETH proof', 21, proof('mainnet-23223655-weth')],
  ['the block of the call', 17, proof('mainnet-eth_call')],
  ['the block of Sepolia', 17, proof('sepolia-eth_getBalance_eoa')],
  ['a header of Amsterdam', 23, readEthereum('amsterdam-header-synthetic')],
  ...['account-order', 'duplicate-account', 'hash-mismatch'].map((name): [string, number, Header] => [
    `the block of Amsterdam with ${name}`,
    23,
    readAmsterdamBlock(name).header,
  ]),
];
for (const [name, count, header] of HEADERS)
  test(`${name} has ${count} fields that fit its hash`, () => {
    const proven = provenHeader(header, bytesOfHex(header.hash!));
    assert.equal(proven.fieldCount, count);
    assert.equal(proven.number, BigInt(header.number!));
    assert.equal(proven.timestamp, BigInt(header.timestamp!));
    for (const field of ['hash', 'parentHash', 'stateRoot', 'transactionsRoot', 'receiptsRoot'] as const)
      assert.equal(hexOfBytes(proven[field]), header[field]);
  });

/** The fields of a decoded header, as a node sends them. */
const named = (list: readonly Rlp[]): Header =>
  Object.fromEntries(
    list.map((value, i) => {
      const name = NAMES[i]!;
      const hex = hexOfBytes(value as Uint8Array);
      return [name, NUMBERS.has(name) && hex === '0x' ? '0x0' : hex];
    }),
  );

test('54 blocks from the first fork to Prague follow each other by their hashes', () => {
  const blocks = splitBlocks(bytesOfHex(`0x${readEthereumText('dev-chain.hex').trim()}`));
  assert.equal(blocks.length, 54);
  const counts = new Set<number>();
  let before: Uint8Array | null = null;
  for (const [header] of blocks) {
    const hash = keccak_256(encodeRlp(header!));
    const proven = provenHeader(named(header as Rlp[]), hash);
    if (before) assert.deepEqual(proven.parentHash, before);
    counts.add(proven.fieldCount);
    before = hash;
  }
  assert.deepEqual([...counts], [15, 16, 17, 20, 21]);
});

/** Blocks in a file follow each other without anything between them. */
function splitBlocks(bytes: Uint8Array): Rlp[][] {
  const blocks: Rlp[][] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes[at]! - 0xf7;
    const length = Number(`0x${Buffer.from(bytes.subarray(at + 1, at + 1 + size)).toString('hex')}`);
    const end = at + 1 + size + length;
    blocks.push(decodeRlp(bytes.subarray(at, end), { items: 10_000, depth: 16 }) as Rlp[]);
    at = end;
  }
  return blocks;
}

const { header: PRAGUE, hash: PRAGUE_HASH } = readRecordedBlock(22431084);
const AMSTERDAM: Header = readEthereum('amsterdam-header-synthetic');

test('a changed bit in any field of a header is refused', () => {
  const hash = bytesOfHex(AMSTERDAM.hash!);
  let tried = 0;
  for (const name of NAMES) {
    const isNumber = NUMBERS.has(name);
    for (let bit = 0; bit < (isNumber ? 64 : (AMSTERDAM[name]!.length - 2) * 4); bit++, tried++)
      assert.throws(
        () => provenHeader({ ...AMSTERDAM, [name]: (isNumber ? flipNumber : flipBit)(AMSTERDAM[name]!, bit) }, hash),
        /does not fit its hash/,
        `${name}, bit ${bit}`,
      );
  }
  assert.ok(tried > 5000, `${tried} bits`);
});

test('a header with a field too few, too many or exchanged is refused', () => {
  const hash = bytesOfHex(PRAGUE_HASH);
  for (const name of NAMES.slice(0, 21)) {
    const { [name]: _, ...rest } = PRAGUE;
    assert.throws(() => provenHeader(rest, hash), ProofError, `without ${name}`);
    assert.throws(() => provenHeader({ ...PRAGUE, [name]: null }, hash), ProofError, `${name} null`);
  }
  for (const [name, value] of [
    ['requestsHash', undefined],
    ['blockAccessListHash', PRAGUE.stateRoot],
    ['slotNumber', '0x1'],
  ] as const)
    assert.throws(() => provenHeader({ ...PRAGUE, [name]: value }, hash), ProofError, name);
  assert.throws(() => provenHeader({ ...PRAGUE, stateRoot: PRAGUE.receiptsRoot, receiptsRoot: PRAGUE.stateRoot }, hash), ProofError);
  assert.throws(() => provenHeader({ ...PRAGUE, blockAccessListHash: PRAGUE.stateRoot, slotNumber: '0x1' }, hash), /a fork that/);
});

test('only headers with as many fields as a fork has are accepted, although their hashes fit', () => {
  const accepted = [...Array(24).keys()].filter((count) => {
    const names = NAMES.slice(0, count);
    const list = names.map((name) =>
      NUMBERS.has(name) ? quantityBytes(AMSTERDAM[name], { name, max: 32 }) : bytesOfHex(AMSTERDAM[name]!),
    );
    try {
      return (
        provenHeader(Object.fromEntries(names.map((name) => [name, AMSTERDAM[name]])), keccak_256(encodeRlp(list))).fieldCount === count
      );
    } catch (error) {
      assert.match((error as Error).message, /fields of a fork without all those/);
      return false;
    }
  });
  assert.deepEqual(accepted, [15, 16, 17, 20, 21, 23]);
});

test('a header in another form is refused before it is hashed', () => {
  const hash = bytesOfHex(PRAGUE_HASH);
  const forms: readonly [string, unknown, RegExp][] = [
    ['number', 22431084, /number is not a number/],
    ['number', '0x', /number is not a number/],
    ['number', `0x1${'0'.repeat(16)}`, /number is more than 8 bytes long/],
    ['miner', `${PRAGUE.miner}00`, /miner is not hex of at most 20 bytes/],
    ['miner', PRAGUE.miner!.slice(0, -2), /miner has 19 bytes, expected 20/],
    ['miner', PRAGUE.miner!.slice(0, -1), /miner is not hex/],
    ['nonce', '0x0', /nonce is not hex/],
    ['logsBloom', PRAGUE.stateRoot, /logsBloom has 32 bytes, expected 256/],
    ['extraData', '0x0', /extraData is not hex/],
    ['stateRoot', `0x${'g'.repeat(64)}`, /stateRoot is not hex/],
    ['stateRoot', { toString: () => PRAGUE.stateRoot }, /stateRoot is not hex/],
  ];
  for (const [name, value, message] of forms) assert.throws(() => provenHeader({ ...PRAGUE, [name]: value }, hash), { message }, name);
});

test('a header of any shape is refused without a crash', () => {
  const hash = bytesOfHex(PRAGUE_HASH);
  const field = fc.oneof(fc.anything(), fc.constantFrom('0x', '0x0', '0xzz', PRAGUE.stateRoot, PRAGUE.logsBloom));
  const changed = fc.dictionary(fc.constantFrom(...NAMES), field).map((given) => ({ ...PRAGUE, number: '0x0', ...given }));
  fc.assert(
    fc.property(fc.oneof(fc.anything(), changed), (value) => {
      assert.throws(() => provenHeader(value, hash), ProofError);
    }),
    { numRuns: 500 },
  );
});
