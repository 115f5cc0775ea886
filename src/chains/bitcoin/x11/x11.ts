/** X11, the proof of work and the block hash of Dash: eleven hash functions of 512 bits, one after the other. */
import { blake512 } from '@noble/hashes/blake1.js';
import { keccak_512 } from '@noble/hashes/sha3.js';
import { echo512, groestl512, shavite512 } from './aes.ts';
import { bmw512 } from './bmw.ts';
import { jh512 } from './jh.ts';
import { luffa512 } from './luffa.ts';
import { simd512 } from './simd.ts';
import { skein512 } from './skein.ts';

const buffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

/** The 32 bytes of a header of 80 bytes, in the order of the wire. */
export function x11(header: Uint8Array): Buffer {
  let hash = bmw512(buffer(blake512(header)));
  hash = jh512(skein512(groestl512(hash)));
  // Keccak with its original padding, not that of SHA-3.
  hash = luffa512(buffer(keccak_512(hash)));
  hash = simd512(shavite512(cubehash512(hash)));
  return echo512(hash).subarray(0, 32);
}

// CubeHash-512 (16 rounds for each block of 32 bytes) of a message of 64 bytes.

const x = new Int32Array(32);
const y = new Int32Array(16);

const rotateLeft = (word: number, n: number): number => (word << n) | (word >>> (32 - n));
/** One half of a round: add, rotate and swap, combine and swap. */
function half(rotation: number, swapAdded: number, swapCombined: number): void {
  for (let i = 0; i < 16; i++) x[16 + i] = x[16 + i]! + x[i]!;
  for (let i = 0; i < 16; i++) y[i ^ swapAdded] = rotateLeft(x[i]!, rotation);
  for (let i = 0; i < 16; i++) x[i] = y[i]! ^ x[16 + i]!;
  for (let i = 0; i < 16; i++) y[i ^ swapCombined] = x[16 + i]!;
  x.set(y, 16);
}
function runRounds(count: number): void {
  for (let round = 0; round < count; round++) {
    half(7, 8, 2);
    half(11, 4, 1);
  }
}

/** The state before a message: length of the result and of a block in bytes, rounds, and ten times as many rounds. */
x.set([64, 32, 16]);
runRounds(160);
const START = x.slice();

export function cubehash512(message: Buffer): Buffer {
  x.set(START);
  for (let block = 0; block < 2; block++) {
    for (let i = 0; i < 8; i++) x[i]! ^= message.readInt32LE(32 * block + 4 * i);
    runRounds(16);
  }
  x[0]! ^= 0x80;
  runRounds(16);
  x[31]! ^= 1;
  runRounds(160);
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32LE(x[i]!, 4 * i);
  return out;
}
