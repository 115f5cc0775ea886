/** Encryption between two Nostr keys (NIP-44, version 2). */
import { createCipheriv, createHmac, timingSafeEqual } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { hexToBytes } from '@noble/hashes/utils.js';

const VERSION = 2;
/** The longest text: its length is kept in 16 bits. */
const MOST_BYTES = 65_535;
/** Version, nonce, at least 2 + 32 bytes, and the code that vouches for them. */
const LEAST_PAYLOAD = 99;

const hmac = (key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer => {
  const code = createHmac('sha256', key);
  for (const part of parts) code.update(part);
  return code.digest();
};

/** The key that both sides compute. Errors: the keys are not valid. */
export const conversationKey = (secret: string, publicKey: string): Uint8Array =>
  hmac(Buffer.from('nip44-v2'), secp256k1.getSharedSecret(hexToBytes(secret), hexToBytes(`02${publicKey}`)).subarray(1, 33));

/** HKDF (RFC 5869), for the keys of one message. */
function messageKeys(key: Uint8Array, nonce: Uint8Array): { cipher: Buffer; iv: Buffer; code: Buffer } {
  let block: Buffer = Buffer.alloc(0);
  const blocks: Buffer[] = [];
  for (let n = 1; n <= 3; n++) {
    block = hmac(key, block, nonce, Uint8Array.of(n));
    blocks.push(block);
  }
  const all = Buffer.concat(blocks);
  return { cipher: all.subarray(0, 32), iv: all.subarray(32, 44), code: all.subarray(44, 76) };
}

/** RFC 8439, with the counter at zero. It is its own reverse. */
const chacha = ({ cipher, iv }: { cipher: Buffer; iv: Buffer }, bytes: Uint8Array): Buffer =>
  createCipheriv('chacha20', cipher, Buffer.concat([Buffer.alloc(4), iv])).update(bytes);

function paddedLength(length: number): number {
  if (length <= 32) return 32;
  const power = 2 ** (Math.floor(Math.log2(length - 1)) + 1);
  const chunk = power <= 256 ? 32 : power / 8;
  return chunk * (Math.floor((length - 1) / chunk) + 1);
}

/** `nonce`: 32 random bytes. Errors: the text is empty or too long. */
export function encryptText(key: Uint8Array, text: string, nonce: Uint8Array): string {
  const content = Buffer.from(text);
  if (content.length === 0 || content.length > MOST_BYTES) throw new Error('the text has a wrong length');
  const padded = Buffer.alloc(2 + paddedLength(content.length));
  padded.writeUInt16BE(content.length);
  content.copy(padded, 2);
  const keys = messageKeys(key, nonce);
  const hidden = chacha(keys, padded);
  return Buffer.concat([Uint8Array.of(VERSION), nonce, hidden, hmac(keys.code, nonce, hidden)]).toString('base64');
}

/** Errors: the payload was not encrypted with this key, or was changed. */
export function decryptText(key: Uint8Array, payload: string): string {
  const bytes = Buffer.from(payload, 'base64');
  if (bytes.length < LEAST_PAYLOAD || bytes.toString('base64') !== payload) throw new Error('the payload is malformed');
  if (bytes[0] !== VERSION) throw new Error('the version is not known');
  const [nonce, hidden, code] = [bytes.subarray(1, 33), bytes.subarray(33, -32), bytes.subarray(-32)];
  const keys = messageKeys(key, nonce);
  if (!timingSafeEqual(hmac(keys.code, nonce, hidden), code)) throw new Error('the payload was changed');
  const padded = chacha(keys, hidden);
  const length = padded.readUInt16BE();
  if (length === 0 || padded.length !== 2 + paddedLength(length)) throw new Error('the padding is wrong');
  return padded.toString('utf8', 2, 2 + length);
}
