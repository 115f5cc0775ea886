/** Re-encodes extended keys: the same key with other version bytes (SLIP-132). */
import { sha256 } from '@noble/hashes/sha2.js';
import { createBase58check } from '@scure/base';

const coder = createBase58check(sha256);
export const base58check = {
  encode: (bytes: Uint8Array): string => coder.encode(bytes),
  respell: (key: string, version: number): string => {
    const bytes = coder.decode(key).slice();
    new DataView(bytes.buffer).setUint32(0, version);
    return coder.encode(bytes);
  },
};
