/** Merged mining: recorded Dogecoin headers are accepted, and every change of their proofs is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sample, sentOf } from '../../../test/kit/headers.ts';
import { mergeMine } from '../../../test/kit/merge-mining.ts';
import { type Auxpow, auxSlot, checkAuxpow, takeAuxpow } from './auxpow.ts';
import { HeaderError } from './header.ts';
import type { SentHeader } from './header-rules.ts';
import { PROOF_PARAMS } from './proof-params.ts';
import { sha256d } from './strict-reader.ts';

const RULES = PROOF_PARAMS.DOGE.main.auxpow;
const LENIENT = PROOF_PARAMS.DOGE.testnet.auxpow;
const check = ({ bytes, auxpow }: SentHeader, rules: typeof RULES | typeof LENIENT = RULES): Buffer =>
  checkAuxpow(rules, { header: bytes, id: sha256d(bytes), auxpow: auxpow! });
const isRefused = (error: unknown): boolean => error instanceof HeaderError && error.fault === 'auxpow';
const decode = (bytes: Buffer): Auxpow => takeAuxpow({ bytes, at: 0 });

const RECORDED = [
  'doge-main-5610330-auxpow.hex',
  'doge-main-974401-auxpow.hex',
  'doge-main-978000-auxpow.hex',
  'doge-main-2054958-auxpow.hex',
];

test('every recorded merge-mined header is accepted, at every size of its chain branch', () => {
  const sizes = new Set<number>();
  let accepted = 0;
  for (const sent of RECORDED.flatMap(sentOf)) {
    assert.deepEqual(check(sent), decode(sent.auxpow!).parent);
    sizes.add(decode(sent.auxpow!).chainBranch.hashes.length);
    accepted++;
  }
  assert.equal(accepted, 467);
  assert.deepEqual([...sizes].sort(), [0, 2, 3, 4, 5, 6, 7, 8]);
  const testnet = sentOf('doge-testnet-7654400-auxpow.hex');
  assert.equal(testnet.filter(({ auxpow }) => auxpow === null).length, 5);
  for (const sent of testnet) if (sent.auxpow) check(sent, LENIENT);
});

test('each changed byte of a recorded proof is refused, except for the 32 that no client checks', () => {
  // One of each size of branch, without those whose size is found already.
  const bySize = new Map(RECORDED.flatMap(sentOf).map((sent) => [decode(sent.auxpow!).chainBranch.hashes.length, sent]));
  for (const { bytes, auxpow } of bySize.values()) {
    const unchecked: number[] = [];
    const parentFrom = auxpow!.length - 80;
    // Of the parent, the work covers what these rules do not.
    for (let at = 0; at < auxpow!.length; at++) {
      const changed = Buffer.from(auxpow!);
      changed[at]! ^= 1 << (at % 8);
      if (at >= parentFrom && (at < parentFrom + 36 || at >= parentFrom + 68)) continue;
      try {
        check({ bytes, auxpow: changed });
        unchecked.push(at);
      } catch (error) {
        assert.ok(isRefused(error), String(error));
      }
    }
    assert.equal(unchecked.length, 32, String(unchecked));
    assert.equal(unchecked.at(-1)! - unchecked[0]!, 31);
  }
});

test('each flipped bit of the header breaks the commitment, and so do a proof cut short and a byte that follows it', () => {
  const [sent] = sentOf(RECORDED[0]!) as [SentHeader];
  for (let bit = 0; bit < 640; bit++) {
    const bytes = Buffer.from(sent.bytes);
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    assert.throws(() => check({ bytes, auxpow: sent.auxpow }), isRefused, `bit ${bit}`);
  }
  for (let length = 0; length < sent.auxpow!.length; length++)
    assert.throws(() => check({ ...sent, auxpow: sent.auxpow!.subarray(0, length) }), isRefused, `${length} bytes`);
  assert.throws(() => check({ ...sent, auxpow: Buffer.concat([sent.auxpow!, Buffer.alloc(1)]) }), isRefused);
});

const HEADER = Buffer.alloc(80);
HEADER.writeInt32LE(0x00620104);
/** A proof made for the test, with one thing wrong. */
const FAULTS: readonly [string, Parameters<typeof mergeMine>[1]][] = [
  ['the index of another chain', { chainIndex: 1 }],
  ['a second marker', { script: (root, tail) => Buffer.concat([MARKER, root, tail, MARKER]) }],
  ['a second marker before the first', { script: (root, tail) => Buffer.concat([MARKER, MARKER, root, tail]) }],
  ['a byte between marker and root', { script: (root, tail) => Buffer.concat([MARKER, Buffer.alloc(1), root, tail]) }],
  ['a root 21 bytes from the start, without a marker', { script: (root, tail) => Buffer.concat([Buffer.alloc(21), root, tail]) }],
  ['no root', { script: (_root, tail) => Buffer.concat([MARKER, tail]) }],
  ['the root not reversed', { script: (root, tail) => Buffer.concat([MARKER, Buffer.from(root).reverse(), tail]) }],
  ['nothing behind the root', { script: (root) => Buffer.concat([MARKER, root]) }],
  ['seven bytes behind the root', { script: (root, tail) => Buffer.concat([MARKER, root, tail.subarray(0, 7)]) }],
  ['a parent of the same chain', { parentVersion: 0x00620004 }],
  ['a coinbase that is not first in its block', { coinbaseIndex: 1 }],
  ['a branch of 31 chains', { levels: 31 }],
  ['another size than the branch has', { size: 8, levels: 2 }],
  ['a nonce that leads to another index', { claimedNonce: 1, levels: 4 }],
  ['a coinbase without inputs', { inputs: 0 }],
];
const MARKER = Buffer.from('fabe6d6d', 'hex');

test('a proof made by the rules is accepted, with the marker and without', () => {
  for (const levels of [0, 1, 7, 30]) check({ bytes: HEADER, auxpow: mergeMine(HEADER, { levels }) });
  check({ bytes: HEADER, auxpow: mergeMine(HEADER, { script: (root, tail) => Buffer.concat([Buffer.alloc(20), root, tail]) }) });
  // A witness is not part of the id.
  check({ bytes: HEADER, auxpow: mergeMine(HEADER, { witness: true }) });
  // Chain IDs are not enforced on the test network.
  check({ bytes: HEADER, auxpow: mergeMine(HEADER, { parentVersion: 0x00620004 }) }, LENIENT);
});
test('a coinbase as deep in its block as its miner likes is accepted, because Dogecoin limits only the branch of chains', () => {
  for (const coinbaseLevels of [1, 12, 30, 31, 32, 33, 64, 200]) check({ bytes: HEADER, auxpow: mergeMine(HEADER, { coinbaseLevels }) });
});
for (const [name, fault] of FAULTS)
  test(`a proof with ${name} is refused`, () => {
    assert.throws(() => check({ bytes: HEADER, auxpow: mergeMine(HEADER, fault) }), isRefused);
  });

test('the slot of a chain is that of the formula, and within the branch', () => {
  fc.assert(
    fc.property(fc.nat(0xffffffff), fc.nat(0xffff), fc.nat(30), (nonce, chainId, levels) => {
      const modulus = 2n ** 32n;
      let r = (BigInt(nonce) * 1103515245n + 12345n) % modulus;
      r = (r + BigInt(chainId)) % modulus;
      r = (r * 1103515245n + 12345n) % modulus;
      assert.equal(auxSlot(nonce, chainId, levels), Number(r % 2n ** BigInt(levels)));
    }),
  );
});

test('no bytes of strangers crash the decoder or are accepted', () => {
  const proofs = sample(RECORDED.flatMap(sentOf), 50);
  fc.assert(
    fc.property(fc.constantFrom(...proofs), fc.nat(), fc.uint8Array({ maxLength: 40 }), fc.boolean(), (sent, at, bytes, isInserted) => {
      const from = at % sent.auxpow!.length;
      const auxpow = Buffer.concat([sent.auxpow!.subarray(0, from), bytes, sent.auxpow!.subarray(isInserted ? from : from + bytes.length)]);
      try {
        check({ ...sent, auxpow });
      } catch (error) {
        assert.ok(isRefused(error), String(error));
        return;
      }
      // Only bytes that no rule covers differ: the parent hash, and fields of the parent that its work covers.
      assert.equal(auxpow.length, sent.auxpow!.length);
      const [changed, original] = [decode(auxpow), decode(sent.auxpow!)];
      assert.deepEqual({ ...changed, parent: null }, { ...original, parent: null });
      assert.deepEqual(changed.parent.subarray(36, 68), original.parent.subarray(36, 68));
    }),
    { numRuns: 2_000 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) =>
      assert.throws(() => check({ bytes: HEADER, auxpow: Buffer.from(bytes) }), isRefused),
    ),
    { numRuns: 2_000 },
  );
});
