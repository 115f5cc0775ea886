// Invariant: A block matches its merkle root.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { linesOf } from '../../../test/kit/headers.ts';
import type { BitcoinFamily } from '../../core/coin.ts';
import { parseBlock, parseBlockInTurns } from './block-proof.ts';
import { inputsOf, matchInTurns, outputsOfTransaction, parseTransaction, txidOf } from './raw-block.ts';

const fixtures = join(import.meta.dirname, '../../../test/fixtures');
const vector = (file: string) => Buffer.from(readFileSync(join(fixtures, 'blocks', file), 'utf8').trim(), 'hex');

/** Blocks of public chains; the hash where it is known from elsewhere (a checkpoint of Dogecoin Core). */
const BLOCKS: readonly { file: string; family: BitcoinFamily; transactions: number; hash?: string }[] = [
  { file: 'dogecoin-12345.hex', family: 'DOGE', transactions: 31 },
  {
    file: 'dogecoin-371337.hex',
    family: 'DOGE',
    transactions: 6,
    hash: '60323982f9c5ff1b5a954eac9dc1269352835f47c2c5222691d80f0d50dcf053',
  },
  { file: 'dogecoin-testnet-158100.hex', family: 'DOGE', transactions: 1 },
  { file: 'dash-500001.hex', family: 'DASH', transactions: 7 },
  { file: 'dash-1028159.hex', family: 'DASH', transactions: 13 },
];

for (const { file, family, transactions, hash } of BLOCKS) {
  test(`${file} matches the merkle root of its header, but not with a changed byte`, async () => {
    const bytes = vector(file);
    const block = parseBlock(bytes, family);
    assert.equal(block.transactions.length, transactions);
    if (hash) assert.equal(block.hash, hash);
    assert.ok(block.transactions[0]?.coinbase);
    assert.ok(block.transactions.slice(1).every((tx) => !tx.coinbase && !tx.hogEx && !tx.mweb));
    assert.ok(block.transactions.every((tx) => outputsOfTransaction(tx).every((output) => output.units >= 0n)));
    const damaged = Buffer.from(bytes);
    damaged[damaged.length - 10]! ^= 1;
    assert.throws(() => parseBlock(damaged, family), RangeError);
    assert.deepEqual(await parseBlockInTurns(bytes, family), block);
    await assert.rejects(parseBlockInTurns(damaged, family), RangeError);
    for (const length of [0, 79, 100, bytes.length - 1]) assert.throws(() => parseBlock(bytes.subarray(0, length), family), RangeError);
  });
}

type Recorded = {
  txid: string;
  hex: string;
  vin: { txid?: string; vout: number; coinbase?: string }[];
  vout: { value: string; scriptPubKey: { hex: string } }[];
};
type Header = {
  hash: string;
  version: number;
  previousblockhash: string;
  merkleroot: string;
  time: number;
  bits: string;
  nonce: number;
};
/** A recorded result; amounts keep their digits. */
const recorded = (name: string, label: string) => {
  const rows = JSON.parse(readFileSync(join(fixtures, 'rpc', `${name}.json`), 'utf8')) as { label: string; body: string }[];
  const keep = (key: string, value: unknown, context: { source: string }) => (key === 'value' ? context.source : value);
  return JSON.parse(rows.find((row) => row.label === label)!.body, keep as (key: string, value: unknown) => unknown).result;
};
const shownBytes = (hex: string) => Buffer.from(hex, 'hex').reverse();
const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
/** The bytes of a block that was recorded as JSON. */
const rebuild = (head: Header, transactions: readonly Recorded[], after = ''): Buffer =>
  Buffer.concat([
    u32(head.version),
    shownBytes(head.previousblockhash),
    shownBytes(head.merkleroot),
    u32(head.time),
    shownBytes(head.bits),
    u32(head.nonce),
    Buffer.of(transactions.length),
    ...transactions.map((tx) => Buffer.from(tx.hex, 'hex')),
    Buffer.from(after, 'hex'),
  ]);

const doge = 'dogecoin-1.14.9';
const RECORDED: readonly { what: string; family: BitcoinFamily; head: Header; transactions: readonly Recorded[]; after?: string }[] = [
  {
    what: 'BTC: segwit',
    family: 'BTC',
    head: recorded('bitcoin-29.0', 'getblock-v2'),
    transactions: recorded('bitcoin-29.0', 'getblock-v2').tx,
  },
  {
    what: 'LTC: a HogEx with a peg-out, the MWEB block behind it',
    family: 'LTC',
    head: recorded('litecoin-0.21.2.1-mweb', 'mweb-pegout-block-v2'),
    transactions: recorded('litecoin-0.21.2.1-mweb', 'mweb-pegout-block-v2').tx,
    after: '01'.repeat(64),
  },
  {
    what: 'DOGE: the transactions of an old node',
    family: 'DOGE',
    head: recorded(doge, 'getblockheader'),
    transactions: [recorded(doge, 'getrawtransaction-coinbase'), recorded(doge, 'getrawtransaction-confirmed')],
  },
  {
    what: 'DASH: a special coinbase and a special transaction',
    family: 'DASH',
    head: recorded('dash-23.1.2-instantsend', 'block-chainlocked-v2'),
    transactions: recorded('dash-23.1.2-instantsend', 'block-chainlocked-v2').tx,
  },
];

for (const { what, family, head, transactions, after } of RECORDED) {
  test(`${what}: IDs, inputs, outputs and hash as reported by the node`, () => {
    const block = parseBlock(rebuild(head, transactions, after), family);
    if (family === 'DASH') assert.notEqual(block.hash, head.hash);
    else assert.equal(block.hash, head.hash);
    assert.equal(block.parent, head.previousblockhash);
    assert.equal(block.merkleRoot, head.merkleroot);
    assert.deepEqual(block.time, new Date(head.time * 1000));
    for (const [i, tx] of block.transactions.entries()) {
      const wanted = transactions[i]!;
      assert.equal(txidOf(tx), wanted.txid);
      assert.equal(tx.coinbase, i === 0);
      if (!tx.coinbase) {
        assert.deepEqual(
          inputsOf(tx),
          wanted.vin.map((input) => `${input.txid}:${input.vout}`),
        );
      }
      assert.deepEqual(
        outputsOfTransaction(tx).map(({ units, script }) => [units, Buffer.from(script).toString('hex')]),
        wanted.vout.map(({ value, scriptPubKey }) => [BigInt(value.replace('.', '')), scriptPubKey.hex]),
      );
      assert.equal(tx.hogEx, family === 'LTC' && i === transactions.length - 1);
      assert.equal(txidOf(parseTransaction(Buffer.from(wanted.hex, 'hex'), family)), wanted.txid);
    }
  });
}

/** A transaction with one input and these outputs. */
const paying = (outputs: readonly { units: bigint; script: string }[]) => {
  const body = outputs.map(({ units, script }) => {
    const amount = Buffer.alloc(8);
    amount.writeBigInt64LE(units);
    return Buffer.concat([amount, Buffer.of(script.length / 2), Buffer.from(script, 'hex')]);
  });
  const input = Buffer.concat([Buffer.alloc(32, 7), u32(1), Buffer.of(0), u32(0)]);
  return parseTransaction(Buffer.concat([u32(1), Buffer.of(1), input, Buffer.of(outputs.length), ...body, u32(0)]), 'DOGE');
};

test('outputs of a transaction to one key are one sighting, in any order; peg-outs are kept apart', async () => {
  const [ours, also, other] = ['76a914aa88ac', '76a914ab88ac', '76a914aa88'];
  const tx = paying([
    { units: 5n, script: other },
    { units: 1n, script: ours },
    { units: 2n, script: ours },
    { units: 0n, script: ours },
    { units: 3n, script: also },
    { units: 4n, script: ours },
    { units: 0n, script: other },
  ]);
  const matcher = (quick: boolean) => ({
    has: (key: string) => key === ours || key === also,
    watchesSpends: true,
    spends: (outpoint: string) => outpoint === `${'07'.repeat(32)}:1`,
    ...(quick && { quick: { pays: (bytes: Uint8Array, from: number) => bytes[from + 3]! >= 0xaa, spends: () => true } }),
    recent: () => [],
    waiting: [],
  });
  const txid = txidOf(tx);
  const spends = [`${'07'.repeat(32)}:1`];
  for (const quick of [false, true]) {
    const { sightings, conflicts } = await matchInTurns([tx], matcher(quick), () => 'output');
    const same = { txid, kind: 'output', spends, lock: null };
    const outputs = [
      [1, 1n],
      [2, 2n],
      [5, 4n],
    ];
    assert.deepEqual(sightings, [
      { ...same, key: ours, ref: `${txid}:1`, units: 7n, outputs },
      { ...same, key: also, ref: `${txid}:4`, units: 3n },
    ]);
    assert.deepEqual(conflicts, [{ outpoint: spends[0], txid }]);
  }
  const pegouts = await matchInTurns([tx], matcher(true), () => 'pegout');
  assert.deepEqual(
    pegouts.sightings.map((s) => [s.ref, s.units, s.outputs, s.spends]),
    [1, 2, 5, 4].map((n) => [`${txid}:${n}`, n === 5 ? 4n : n === 4 ? 3n : BigInt(n), undefined, []]),
  );
  assert.deepEqual(pegouts.conflicts, []);
});

test('LTC: transactions that only pass through MWEB are recognized by their bytes', () => {
  const read = (label: string) => {
    const tx = recorded('litecoin-0.21.2.1-mweb', label);
    return { ...parseTransaction(Buffer.from(tx.hex, 'hex'), 'LTC'), told: tx as Recorded };
  };
  const pegin = read('mweb-pegin-mempool');
  assert.equal(txidOf(pegin), pegin.told.txid);
  assert.deepEqual([pegin.mweb, pegin.hogEx, outputsOfTransaction(pegin).length], [true, false, 1]);
  const pegout = read('mweb-pegout-mempool');
  assert.deepEqual([pegout.mweb, pegout.hogEx, inputsOf(pegout), outputsOfTransaction(pegout)], [true, false, [], []]);
});

/** Blocks with witnesses, an extension block, merged mining and special transactions. */
const MUTATED: readonly (readonly [bytes: Buffer, family: BitcoinFamily])[] = [
  [Buffer.from(linesOf('btc-testnet4-block-40000.hex')[0]!, 'hex'), 'BTC'],
  [Buffer.from(linesOf('ltc-block-2265985.hex')[0]!, 'hex'), 'LTC'],
  [vector('dogecoin-371337.hex'), 'DOGE'],
  [vector('dash-1028159.hex'), 'DASH'],
];

test('recorded blocks and transactions with changed bytes are refused or read, and cost no more than their bytes', () => {
  const known = MUTATED.flatMap(([bytes, family]) => parseBlock(bytes, family).transactions.map((tx) => ({ tx, family })));
  const changes = fc.array(fc.tuple(fc.nat(), fc.oneof(fc.constantFrom(0, 1, 8, 9, 0xfd, 0xfe, 0xff), fc.nat(255))), {
    minLength: 1,
    maxLength: 6,
  });
  const change = (bytes: Buffer, list: readonly (readonly [number, number])[], cut: number): Buffer => {
    const changed = Buffer.from(bytes);
    for (const [at, value] of list) changed[at % changed.length] = value;
    return cut % 4 === 0 ? changed.subarray(0, cut % (changed.length + 1)) : changed;
  };
  const counts = { refused: 0, read: 0 };
  const attempt = (work: () => void): void => {
    try {
      work();
      counts.read++;
    } catch (error) {
      assert.ok(error instanceof RangeError, String(error));
      counts.refused++;
    }
  };
  fc.assert(
    fc.property(fc.constantFrom(...known), changes, fc.nat(), ({ tx, family }, list, cut) => {
      const bytes = change(tx.bytes.subarray(tx.extent.from, tx.extent.to), list, cut);
      attempt(() => {
        const found = parseTransaction(bytes, family);
        assert.ok(inputsOf(found).length * 41 <= bytes.length && outputsOfTransaction(found).length * 9 <= bytes.length);
      });
    }),
    { numRuns: 3_000 },
  );
  assert.ok(counts.refused > 100 && counts.read > 100, JSON.stringify(counts));
  fc.assert(
    fc.property(fc.constantFrom(...MUTATED), changes, fc.nat(), ([bytes, family], list, cut) => {
      attempt(() => parseBlock(change(bytes, list, cut), family));
    }),
    { numRuns: 300 },
  );
});

test('a block that claims more transactions, inputs or items than it has bytes is refused before it takes memory', () => {
  const header = Buffer.alloc(80);
  const most = (value: number): Buffer => {
    const count = Buffer.from([0xfe, 0, 0, 0, 0]);
    count.writeUInt32LE(value, 1);
    return count;
  };
  const rest = Buffer.alloc(1 << 20);
  const before = process.memoryUsage().arrayBuffers;
  for (const start of [
    Buffer.concat([header, most(0xffffffff)]),
    Buffer.concat([header, most(1 << 20)]),
    // One transaction of a million inputs; then one with a witness of a million items.
    Buffer.concat([header, Buffer.from([1, 1, 0, 0, 0]), most(1 << 20)]),
    Buffer.concat([header, Buffer.from([1, 2, 0, 0, 0, 0, 1, 1]), Buffer.alloc(41), Buffer.from([0]), most(1 << 21)]),
    Buffer.concat([header, Buffer.from([0xff]), Buffer.alloc(8, 0xff)]),
  ])
    for (const family of ['BTC', 'LTC', 'DOGE', 'DASH'] as const)
      assert.throws(() => parseBlock(Buffer.concat([start, rest]), family), RangeError);
  // What the test itself joined, and the IDs of what the bytes could hold.
  assert.ok(process.memoryUsage().arrayBuffers - before < 20 * (4 << 20));
});
