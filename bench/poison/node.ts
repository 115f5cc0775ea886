/**
 * A node of the Bitcoin Core family that serves one block crafted to be as expensive as possible, in a separate process, so that making
 * and serving it costs the reader nothing. Prints `ready` with its port. Argument: the content of the block, as JSON.
 */
import { createHash } from 'node:crypto';
import { x11 } from '../../src/chains/bitcoin/x11/x11.ts';
import { type Prepared, serveBlocks } from '../serve-blocks.ts';
import type { Flood } from './blocks.ts';

const { coin, script, honest, honestUnits, units, transactions, inputs, outputs } = JSON.parse(process.argv[2]!) as Flood;

const sha256d = (bytes: Uint8Array): Buffer => createHash('sha256').update(createHash('sha256').update(bytes).digest()).digest();
const shown = (bytes: Buffer): string => Buffer.from(bytes).reverse().toString('hex');
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const varInt = (value: number): Buffer => {
  if (value < 0xfd) return Buffer.of(value);
  if (value < 0x10000) return Buffer.of(0xfd, value & 0xff, value >> 8);
  return Buffer.concat([Buffer.of(0xfe), u32(value)]);
};
const output = (amount: string, to: string): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(amount));
  return Buffer.concat([bytes, varInt(to.length / 2), Buffer.from(to, 'hex')]);
};
let made = 0;
/** Inputs without scripts: as short as those of segwit. */
const makeTransaction = (from: number, to: readonly Buffer[]): Buffer => {
  const name = createHash('sha256').update(`coins ${++made}`).digest();
  const spent = Array.from({ length: from }, (_, n) => Buffer.concat([name, u32(n), Buffer.of(0), u32(0xffffffff)]));
  return Buffer.concat([u32(2), varInt(from), ...spent, varInt(to.length), ...to, u32(0)]);
};
const coinbase = (height: number): Buffer =>
  Buffer.concat([
    Buffer.concat([u32(1), Buffer.of(1), Buffer.alloc(32), u32(0xffffffff), Buffer.of(4), u32(height), u32(0xffffffff)]),
    Buffer.concat([Buffer.of(1), output('5000000000', '51'), u32(0)]),
  ]);
const merkleRoot = (ids: readonly Buffer[]): Buffer => {
  let level = ids;
  while (level.length > 1) {
    level = Array.from({ length: Math.ceil(level.length / 2) }, (_, i) =>
      sha256d(Buffer.concat([level[2 * i]!, level[2 * i + 1] ?? level[2 * i]!])),
    );
  }
  return level[0]!;
};

const time = Math.floor(Date.now() / 1000);
function makeBlock(height: number, parent: string, more: readonly Buffer[] = []): Prepared {
  const all = [coinbase(height), ...more];
  const root = merkleRoot(all.map(sha256d));
  const header = Buffer.concat([u32(4), Buffer.from(parent, 'hex').reverse(), root, u32(time), u32(0x207fffff), u32(height)]);
  const hex = Buffer.concat([header, varInt(all.length), ...all]).toString('hex');
  return { height, hash: shown(coin === 'DASH' ? Buffer.from(x11(header)) : sha256d(header)), parent, merkleRoot: shown(root), time, hex };
}
const each = Array.from({ length: outputs }, () => output(units, script));
const blocks = [makeBlock(0, '00'.repeat(32))];
const flood = Array.from({ length: transactions }, () => makeTransaction(inputs, each));
blocks.push(makeBlock(1, blocks[0]!.hash, [...flood, makeTransaction(1, [output(honestUnits, honest)])]));
serveBlocks({ blocks, grow: () => ({ tip: 1, answer: blocks[1]!.hex.length / 2 }) });
