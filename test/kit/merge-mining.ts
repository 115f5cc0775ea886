/** Makes merge-mining proofs for Dogecoin headers, correct except for the part that a test makes wrong. */
import { auxSlot } from '../../src/chains/bitcoin/auxpow.ts';
import { sha256d } from '../../src/chains/bitcoin/strict-reader.ts';

const MARKER = Buffer.from('fabe6d6d', 'hex');
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};

/** The proof for a header. The parent has the nonce 0: its work is for the caller to find. */
export function mergeMine(
  header: Buffer,
  {
    levels = 0,
    size = 2 ** Math.min(levels, 31),
    nonce = 7,
    claimedNonce = nonce,
    chainIndex,
    coinbaseIndex = 0,
    coinbaseLevels = 0,
    parentVersion = 0x20000000,
    parentTimeSeconds = 0,
    inputs = 1,
    witness = false,
    script = (root: Buffer, tail: Buffer) => Buffer.concat([Buffer.from('03abcdef', 'hex'), MARKER, root, tail]),
  }: {
    levels?: number;
    /** The number of chains that the coinbase names. */
    size?: number;
    nonce?: number;
    /** The nonce in the coinbase. */
    claimedNonce?: number;
    chainIndex?: number;
    coinbaseIndex?: number;
    /** How many siblings the first coinbase of the parent has, where its index is 0. */
    coinbaseLevels?: number;
    parentVersion?: number;
    parentTimeSeconds?: number;
    inputs?: number;
    witness?: boolean;
    script?: (root: Buffer, tail: Buffer) => Buffer;
  } = {},
): Buffer {
  const index = chainIndex ?? auxSlot(nonce, header.readInt32LE(0) >> 16, Math.min(levels, 30));
  const siblings = Array.from({ length: levels }, (_, i) => Buffer.alloc(32, i + 1));
  let root = sha256d(header);
  for (const [level, sibling] of siblings.entries())
    root = sha256d(Buffer.concat((index >>> level) & 1 ? [sibling, root] : [root, sibling]));
  const text = script(Buffer.from(root).reverse(), Buffer.concat([u32(size), u32(claimedNonce)]));
  const input = Buffer.concat([Buffer.alloc(32), u32(0xffffffff), Buffer.from([text.length]), text, u32(0xffffffff)]);
  const body = Buffer.concat([
    Buffer.from([inputs]),
    ...Array<Buffer>(inputs).fill(input),
    Buffer.from([1]),
    Buffer.alloc(8),
    Buffer.from([0]),
  ]);
  const coinbase = Buffer.concat([u32(1), body, u32(0)]);
  const sent = witness ? Buffer.concat([u32(1), Buffer.from([0, 1]), body, Buffer.from([1, 2, 9, 9]), u32(0)]) : coinbase;
  const parent = Buffer.alloc(80);
  parent.writeInt32LE(parentVersion);
  // The coinbase alone, or beside another transaction.
  const sibling = Buffer.alloc(32, 5);
  const beside = Array<Buffer>(coinbaseLevels).fill(sibling);
  const first = beside.reduce((below, one) => sha256d(Buffer.concat([below, one])), sha256d(coinbase));
  (coinbaseIndex === 0 ? first : sha256d(Buffer.concat([sibling, sha256d(coinbase)]))).copy(parent, 36);
  parent.writeUInt32LE(parentTimeSeconds, 68);
  return Buffer.concat([
    ...[sent, Buffer.alloc(32)],
    ...(coinbaseIndex === 0 ? [Buffer.from([coinbaseLevels]), ...beside, u32(0)] : [Buffer.from([1]), sibling, u32(coinbaseIndex)]),
    ...[Buffer.from([levels]), ...siblings, u32(index), parent],
  ]);
}
