/**
 * A node that only serves prepared blocks, in a separate process, so that serving costs the reader nothing. Prints `ready` with its port.
 * Arguments: blocks, transactions in each, and output scripts as hex, of which each block pays one.
 */
import { createHash } from 'node:crypto';
import { type Prepared, serveBlocks } from './serve-blocks.ts';

const count = Number(process.argv[2] ?? 1);
const transactionsEach = Number(process.argv[3] ?? 4_000);
const paid = (process.argv[4] ?? '').split(',').filter(Boolean);

const sha256d = (bytes: Uint8Array): Buffer => createHash('sha256').update(createHash('sha256').update(bytes).digest()).digest();
const number = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
/** Bytes that follow from a name. */
const bytesOf = (name: string, length: number): Buffer => {
  const parts: Buffer[] = [];
  for (let i = 0; parts.length * 32 < length; i++) parts.push(createHash('sha256').update(`${name} ${i}`).digest());
  return Buffer.concat(parts).subarray(0, length);
};

/** A typical segwit transaction: two inputs with signature and key, two outputs. */
function makeTransaction(name: string, pays?: string): { raw: Buffer; txid: Buffer } {
  const coinbase = name.endsWith(' 0');
  const inputs = coinbase
    ? Buffer.concat([
        Buffer.from([1]),
        Buffer.alloc(32),
        Buffer.from('ffffffff', 'hex'),
        Buffer.from([4]),
        bytesOf(name, 4),
        Buffer.alloc(4, 0xff),
      ])
    : Buffer.concat([
        Buffer.from([2]),
        ...[0, 1].flatMap((n) => [bytesOf(`${name} in ${n}`, 32), number(n), Buffer.from([0]), Buffer.alloc(4, 0xff)]),
      ]);
  const units = Buffer.alloc(8);
  units.writeBigInt64LE(123_456n);
  const outputs = Buffer.concat([
    Buffer.from([2]),
    ...[0, 1].flatMap((n) => [
      units,
      ...(pays !== undefined && n === 0
        ? [Buffer.from([pays.length / 2]), Buffer.from(pays, 'hex')]
        : [Buffer.from([22, 0, 20]), bytesOf(`${name} out ${n}`, 20)]),
    ]),
  ]);
  const witness = (length: number) =>
    Buffer.concat([Buffer.from([2, 71]), bytesOf(`${name} sig`, 71), Buffer.from([33]), bytesOf(name, length)]);
  const body = Buffer.concat([inputs, outputs]);
  const [version, lock] = [number(2), number(0)];
  const raw = coinbase
    ? Buffer.concat([version, body, lock])
    : Buffer.concat([version, Buffer.from([0, 1]), body, witness(33), witness(33), lock]);
  return { raw, txid: sha256d(Buffer.concat([version, body, lock])) };
}

/** All but the first two transactions are the same in every block, so that hundreds of blocks are cheap to make and hold. */
const common = Array.from({ length: transactionsEach - 2 }, (_, i) => makeTransaction(`any ${i + 2}`));
const commonHex = Buffer.concat(common.map((tx) => tx.raw)).toString('hex');
const joined = (left: Buffer, right: Buffer): Buffer => sha256d(Buffer.concat([left, right]));
const pairUp = (level: readonly Buffer[]): Buffer[] =>
  Array.from({ length: Math.ceil(level.length / 2) }, (_, i) => joined(level[2 * i]!, level[2 * i + 1] ?? level[2 * i]!));
/** The hashes to the right of the two, level by level, in the merkle tree of an even number of transactions. */
const besides: Buffer[] = [];
for (let level = pairUp(common.map((tx) => tx.txid)); level.length > 0; level = pairUp(level.slice(1))) besides.push(level[0]!);

function makeBlock(height: number, parent: string): Prepared {
  const own = [makeTransaction(`${height} 0`), makeTransaction(`${height} 1`, paid[height % Math.max(paid.length, 1)])];
  const merkleRoot = besides.reduce((left, right) => joined(left, right), joined(own[0]!.txid, own[1]!.txid));
  const time = 1_700_000_000 + height * 600;
  const header = Buffer.concat([number(4), Buffer.from(parent, 'hex').reverse(), merkleRoot, number(time), number(0), number(height)]);
  const shown = (bytes: Buffer): string => Buffer.from(bytes).reverse().toString('hex');
  const size = Buffer.alloc(3);
  size[0] = 0xfd;
  size.writeUInt16LE(transactionsEach, 1);
  return {
    height,
    hash: shown(sha256d(header)),
    parent,
    merkleRoot: shown(merkleRoot),
    time,
    hex: Buffer.concat([header, size, ...own.map((tx) => tx.raw)]).toString('hex'),
  };
}

const blocks: Prepared[] = [];
for (let height = 0; height < count; height++) blocks.push(makeBlock(height, blocks.at(-1)?.hash ?? '00'.repeat(32)));
serveBlocks({
  blocks,
  grow: (to) => ({ tip: Math.min(count - 1, Number(to ?? count)), answer: 0 }),
  hexOf: ({ hex }) => `${hex}${commonHex}`,
});
