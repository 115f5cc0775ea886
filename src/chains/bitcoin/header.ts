/** Block headers of 80 bytes: their fields, the hash that identifies a block, and why one is refused. */
import { scrypt } from '@noble/hashes/scrypt.js';
import type { ProofParams } from './proof-params.ts';
import { sha256d } from './strict-reader.ts';
import { x11 } from './x11/x11.ts';

export const HEADER_BYTES = 80;

/** Why a header is refused. A peer that sends an `unknown_parent` or a `time_future` may still be honest. */
export type HeaderRefusal =
  | 'malformed'
  | 'unknown_parent'
  | 'link'
  | 'checkpoint'
  | 'version'
  | 'bits'
  | 'time_past'
  | 'time_future'
  | 'auxpow'
  | 'work'
  | 'flood';
export class HeaderError extends Error {
  readonly fault: HeaderRefusal;
  constructor(fault: HeaderRefusal, message: string) {
    super(message);
    this.name = 'HeaderError';
    this.fault = fault;
  }
}

type Header = {
  /** Signed. */
  version: number;
  /** As hashes are displayed: in reversed bytes. */
  parent: string;
  merkleRoot: string;
  timeSeconds: number;
  bits: number;
  nonce: number;
};

/** Displayed hashes have their bytes reversed. */
export const showHash = (bytes: Uint8Array): string => Buffer.from(bytes).reverse().toString('hex');
export const hashBytes = (shown: string): Buffer => Buffer.from(shown, 'hex').reverse();

/** Errors: HeaderError when it does not have 80 bytes. */
export function decodeHeader(bytes: Buffer): Header {
  if (bytes.length !== HEADER_BYTES) throw new HeaderError('malformed', `a header has ${bytes.length} bytes; it must have 80`);
  return {
    version: bytes.readInt32LE(0),
    parent: showHash(bytes.subarray(4, 36)),
    merkleRoot: showHash(bytes.subarray(36, 68)),
    timeSeconds: bytes.readUInt32LE(68),
    bits: bytes.readUInt32LE(72),
    nonce: bytes.readUInt32LE(76),
  };
}

export function encodeHeader(header: Header): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.writeInt32LE(header.version, 0);
  hashBytes(header.parent).copy(bytes, 4);
  hashBytes(header.merkleRoot).copy(bytes, 36);
  bytes.writeUInt32LE(header.timeSeconds, 68);
  bytes.writeUInt32LE(header.bits, 72);
  bytes.writeUInt32LE(header.nonce, 76);
  return bytes;
}

/** The hash that identifies the block, in the order of the wire. */
export const idOf = (params: Pick<ProofParams, 'id'>, header: Buffer): Buffer => (params.id === 'x11' ? x11(header) : sha256d(header));

// The proof of work of headers: SHA-256 twice, scrypt or X11, of the header itself or of the parent that carries its work.

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
