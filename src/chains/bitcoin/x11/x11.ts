/** X11, the proof of work and the block hash of Dash: eleven hash functions of 512 bits, one after the other. */
import { blake512 } from '@noble/hashes/blake1.js';
import { keccak_512 } from '@noble/hashes/sha3.js';
import { bmw512 } from './bmw.ts';
import { cubehash512 } from './cubehash.ts';
import { echo512 } from './echo.ts';
import { groestl512 } from './groestl.ts';
import { jh512 } from './jh.ts';
import { luffa512 } from './luffa.ts';
import { shavite512 } from './shavite.ts';
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
