/** The proof of work of headers: SHA-256 twice, scrypt or X11, of the header itself or of the parent that carries its work. */
import { scrypt } from '@noble/hashes/scrypt.js';
import type { ProofParams } from './proof-params.ts';
import { sha256d } from './sha256d.ts';
import { x11 } from './x11/x11.ts';

export const SCRYPT = { N: 1024, r: 1, p: 1 };

/** The hash that is compared with the target, in the order of the wire: a little-endian number. */
export function workHash(kind: ProofParams['work'], header: Uint8Array): Buffer {
  switch (kind) {
    case 'sha256d':
      return sha256d(header);
    case 'x11':
      return x11(header);
    case 'scrypt':
      return Buffer.from(scrypt(header, header, { ...SCRYPT, dkLen: 32 }));
  }
}

const numberOf = (hash: Buffer): bigint => BigInt(`0x${Buffer.from(hash).reverse().toString('hex')}`);

/** Whether the hash meets the target. */
export const meetsTarget = (hash: Buffer, target: bigint): boolean => numberOf(hash) <= target;
