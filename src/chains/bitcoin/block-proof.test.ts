/** Blocks against their headers: recorded ones are accepted, every change is refused, and so are the tricks with merkle trees. */
// Invariant: A block matches its merkle root.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { headersOf } from '../../../test/kit/headers.ts';
import type { BitcoinFamily } from '../../core/coin.ts';
import { BlockError, parseBlock, parseBlockInTurns } from './block-proof.ts';
import { readCoreBlock } from './core-blocks.ts';
import { idOf, showHash } from './header.ts';
import { PROOF_PARAMS } from './proof-params.ts';
import { sha256d, takeCount, takeTransaction } from './strict-reader.ts';

const refuses = async (family: BitcoinFamily, block: Buffer, message: RegExp): Promise<void> => {
  const isRefusal = (error: unknown): true => {
    assert.ok(error instanceof BlockError, String(error));
    assert.match(error.message, message);
    // What cannot be read at all may be our fault.
    const isCertain = /merkle root|twice|has more than/.test(error.message);
    assert.equal(error.fault, isCertain ? 'sender' : 'unknown', error.message);
    return true;
  };
  assert.throws(() => parseBlock(block, family), isRefusal);
  await assert.rejects(parseBlockInTurns(block, family), isRefusal);
};
const blockOf = (name: string): Buffer => headersOf(`${name}.hex`)[0]!;
const RECORDED: readonly [string, BitcoinFamily][] = [
  ['btc-block-951658', 'BTC'],
  ['btc-testnet4-block-40000', 'BTC'],
  ['ltc-block-900000', 'LTC'],
  ['ltc-block-2265985', 'LTC'],
  ['dash-block-844898', 'DASH'],
];
/** As peers send it on request: without witnesses, and on LTC without the extension block. */
function strip(block: Buffer, family: BitcoinFamily): Buffer {
  const reader = { bytes: block, at: 80 };
  const count = takeCount(reader, 10);
  const parts = [block.subarray(0, reader.at)];
  for (let i = 0; i < count; i++) {
    const mweb = family === 'LTC' && i === count - 1 ? 'hogEx' : 'none';
    const { from, to, bodyFrom, bodyTo, tailFrom } = takeTransaction(reader, { witness: true, mweb, extra: false });
    parts.push(block.subarray(from, from + 4), block.subarray(bodyFrom, bodyTo), block.subarray(tailFrom, to));
  }
  return Buffer.concat(parts);
}

for (const [name, family] of RECORDED)
  test(`${name} is the block of its header, and of no other`, async () => {
    const block = blockOf(name);
    const hashOf = (bytes: Buffer): string => showHash(idOf(PROOF_PARAMS[family].main, bytes.subarray(0, 80)));
    const ask = (bytes: Buffer) => readCoreBlock(bytes, { hash: hashOf(block), coin: family, server: 'a peer' });
    await ask(block);
    const other = Buffer.from(block);
    other[76]! ^= 1;
    await assert.rejects(ask(other), {
      name: 'ChainError',
      kind: 'outage',
      message: /of a peer cannot be read: the bytes are another block/,
    });
    if (family !== 'DASH') await ask(strip(block, family));
  });

test('recorded merge-mined blocks and blocks with special transactions are accepted', async () => {
  const folder = join(import.meta.dirname, '../../../test/fixtures/blocks');
  const files = globSync('*.hex', { cwd: folder });
  assert.ok(files.length >= 5);
  for (const file of files) {
    const block = Buffer.from(readFileSync(join(folder, file), 'utf8').trim(), 'hex');
    const family = file.startsWith('dash') ? 'DASH' : 'DOGE';
    parseBlock(block, family);
    await refuses(family, Buffer.concat([block, Buffer.alloc(1)]), /bytes follow/);
  }
});

test('each changed byte of a block without witnesses is refused, and so is each shorter one', async () => {
  for (const [name, family] of [RECORDED[1]!, RECORDED[2]!]) {
    const block = strip(blockOf(name), family);
    // All of the small block; some of each transaction of the other.
    for (let at = 80; at < block.length; at += block.length > 3_000 ? 7 : 1) {
      const changed = Buffer.from(block);
      changed[at]! ^= 1 << (at % 8);
      await refuses(family, changed, /./);
    }
    for (let length = 0; length < block.length; length += 31) await refuses(family, block.subarray(0, length), /./);
    await refuses(family, Buffer.concat([block, Buffer.alloc(1)]), /bytes follow/);
  }
});

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const compact = (value: number): Buffer => (value < 0xfd ? Buffer.from([value]) : Buffer.from([0xfd, value & 0xff, value >>> 8]));
const input = (outpoint: Buffer, script = Buffer.alloc(2)): Buffer =>
  Buffer.concat([outpoint, Buffer.from([script.length]), script, u32(0xffffffff)]);
const transaction = (inputs: readonly Buffer[], script = Buffer.alloc(3)): Buffer =>
  Buffer.concat([u32(1), compact(inputs.length), ...inputs, Buffer.from([1]), Buffer.alloc(8), compact(script.length), script, u32(0)]);
const NO_OUTPOINT = Buffer.concat([Buffer.alloc(32), Buffer.alloc(4, 0xff)]);
const COINBASE = transaction([input(NO_OUTPOINT)]);
const spend = (n: number): Buffer => transaction([input(Buffer.concat([Buffer.alloc(32, n), u32(n)]))]);
/** The root of any list, as the tree is defined. */
function rootOf(ids: readonly Buffer[]): Buffer {
  if (ids.length === 1) return ids[0]!;
  const pairs = Array.from({ length: Math.ceil(ids.length / 2) }, (_, i) =>
    sha256d(Buffer.concat([ids[2 * i]!, ids[2 * i + 1] ?? ids[2 * i]!])),
  );
  return rootOf(pairs);
}
function made(transactions: readonly Buffer[], count = compact(transactions.length)): Buffer {
  const header = Buffer.alloc(80);
  rootOf(transactions.map(sha256d)).copy(header, 36);
  return Buffer.concat([header, count, ...transactions]);
}

// Invariant: The bytes of a block are accepted only as the block of their header.
test('a list of transactions whose tail repeats has the same root and is refused', async () => {
  for (const count of [1, 2, 3, 5, 6, 7, 9, 11, 12]) {
    const list = [COINBASE, ...Array.from({ length: count - 1 }, (_, i) => spend(i + 1))];
    const block = made(list);
    parseBlock(block, 'BTC');
    for (let repeated = 1; repeated <= count; repeated++) {
      const longer = made([...list, ...list.slice(-repeated)]);
      if (!longer.subarray(0, 80).equals(block.subarray(0, 80))) continue;
      await refuses('BTC', longer, repeated === count && count === 1 ? /second coinbase/ : /twice/);
    }
  }
});

test('a block has one coinbase, and it comes first', async () => {
  for (const [list, message] of [
    [[spend(1), spend(2)], /not its coinbase/],
    [[spend(1), COINBASE], /not its coinbase/],
    [[COINBASE, transaction([input(NO_OUTPOINT, Buffer.alloc(3))])], /second coinbase/],
    [[transaction([input(NO_OUTPOINT), input(NO_OUTPOINT)])], /not its coinbase/],
    [[transaction([input(Buffer.alloc(36))])], /not its coinbase/],
  ] as const)
    await refuses('BTC', made(list), message);
});

test('a transaction of 64 bytes is allowed, but nodes of the merkle tree cannot pose as transactions', async () => {
  for (const length of [2, 3, 4]) {
    const block = made([COINBASE, transaction([input(Buffer.alloc(36, 1), Buffer.alloc(1))], Buffer.alloc(length))]);
    parseBlock(block, 'BTC');
  }
  const small = transaction([input(Buffer.alloc(36, 1), Buffer.alloc(1))], Buffer.alloc(3));
  assert.equal(small.length, 64);
  // The header of a block whose first level of nodes is such a transaction: the coinbase is what it lacks.
  await refuses('BTC', made([small]), /not its coinbase/);
});

test('counts that are longer than they need to be, larger than the block, or zero are refused', async () => {
  await refuses('BTC', made([COINBASE, spend(1)], Buffer.from([0xfd, 2, 0])), /shortest form/);
  await refuses('BTC', made([COINBASE], Buffer.from([0xfe, 1, 0, 0, 0])), /shortest form/);
  await refuses('BTC', made([COINBASE], Buffer.from([0xff, 0, 0, 0, 0, 1, 0, 0, 0])), /larger/);
  await refuses('BTC', made([COINBASE], compact(200)), /larger/);
  await refuses('BTC', Buffer.concat([Buffer.alloc(80), compact(0)]), /no transaction/);
  await refuses('BTC', made([COINBASE, spend(1)], compact(1)), /bytes follow/);
  await refuses('BTC', made([COINBASE], compact(3)), /./);
});

test('a block over the size limit is refused', async () => {
  const large = transaction([input(Buffer.alloc(36, 1))], Buffer.alloc(60_000));
  const list = [COINBASE, ...Array.from({ length: 17 }, (_, i) => Buffer.concat([u32(i + 2), large.subarray(4)]))];
  await refuses('DOGE', made(list), /more than 1000000 bytes/);
  parseBlock(made(list), 'DASH');
});

test('no bytes crash the check', () => {
  const block = strip(blockOf('ltc-block-900000'), 'LTC');
  // With merged mining, and with special transactions.
  const vector = (file: string) =>
    Buffer.from(readFileSync(join(import.meta.dirname, '../../../test/fixtures/blocks', file), 'utf8').trim(), 'hex');
  const blocks = [['LTC', block] as const, ['DOGE', vector('dogecoin-371337.hex')] as const, ['DASH', vector('dash-1028159.hex')] as const];
  fc.assert(
    fc.property(
      fc.constantFrom(...blocks),
      fc.nat(),
      fc.uint8Array({ maxLength: 60 }),
      fc.nat(40),
      ([family, original], place, bytes, removed) => {
        const at = place % original.length;
        const changed = Buffer.concat([original.subarray(0, at), bytes, original.subarray(at + removed)]);
        try {
          parseBlock(changed, family);
        } catch (error) {
          assert.ok(error instanceof BlockError, String(error));
          return;
        }
        // The proof of a merge-mined header is checked with the header, and only skipped here.
        const sameHeader = changed.subarray(0, 80).equals(original.subarray(0, 80));
        assert.ok(changed.equals(original) || !sameHeader || family === 'DOGE');
      },
    ),
    { numRuns: process.env.FLORIN_LONG ? 50_000 : 1_500 },
  );
});
