/** Signed events of Nostr and a question to its relays (NIP-01); encryption between two keys (NIP-44, version 2). */
import { createCipheriv, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import type { Context } from '#context';
import { asList, asObject, asText, asTexts, asWhole } from '#core/stored-json';
import { askMs, BackEndError } from './back-end.ts';

export type NostrEvent = {
  id: string;
  pubkey: string;
  created_at: number;
  kind: number;
  tags: readonly (readonly string[])[];
  content: string;
  sig: string;
};
type Unsigned = Pick<NostrEvent, 'created_at' | 'kind' | 'tags' | 'content'>;

const HEX_KEY = /^[0-9a-f]{64}$/;
/** The longest message, and how many of them are read until a relay is left. */
const MOST_BYTES = 64 * 1024;
const MOST_MESSAGES = 50;

export const publicKeyOf = (secret: string): string => bytesToHex(schnorr.getPublicKey(hexToBytes(secret)));

const idOf = ({ pubkey, created_at, kind, tags, content }: Omit<NostrEvent, 'id' | 'sig'>): Uint8Array =>
  sha256(utf8ToBytes(JSON.stringify([0, pubkey, created_at, kind, tags, content])));

/** `random`: 32 bytes for the signature (BIP-340). */
export function signEvent(secret: string, event: Unsigned, random: Uint8Array = randomBytes(32)): NostrEvent {
  const whole = { pubkey: publicKeyOf(secret), ...event };
  const id = idOf(whole);
  return { id: bytesToHex(id), ...whole, sig: bytesToHex(schnorr.sign(id, hexToBytes(secret), random)) };
}

/** An event whose author signed exactly this; null for anything else. */
export function readEvent(value: unknown): NostrEvent | null {
  const stored = asObject(value);
  const [id, pubkey, content, sig] = [asText(stored.id), asText(stored.pubkey), asText(stored.content), asText(stored.sig)];
  const [created_at, kind] = [asWhole(stored.created_at), asWhole(stored.kind)];
  if (id === null || pubkey === null || content === null || created_at === null || kind === null) return null;
  if (!HEX_KEY.test(pubkey) || !/^[0-9a-f]{128}$/.test(sig ?? '')) return null;
  const tags = asList(stored.tags).map(asTexts);
  const event = { id, pubkey, created_at, kind, tags, content, sig: sig! };
  const digest = idOf(event);
  return bytesToHex(digest) === id && schnorr.verify(hexToBytes(event.sig), digest, hexToBytes(pubkey)) ? event : null;
}

/** `event`: what is sent. `filter`: what is read. `accept`: null for an event that is not the answer. `stays`: for what is not yet there. */
type Question<T> = { event: NostrEvent | null; filter: object; stays?: boolean; accept(event: NostrEvent): T | null };

/** Asks all relays at once, for some seconds or until `ended`; the first answer that is accepted counts. Errors: BackEndError, of the last relay. */
export async function askRelays<T>(
  ctx: Context,
  { merchantId, relays, ended, ...question }: { merchantId: string; relays: readonly string[]; ended?: AbortSignal } & Question<T>,
): Promise<T> {
  const answered = new AbortController();
  const over = AbortSignal.any([answered.signal, ended ?? AbortSignal.timeout(Math.max(...relays.map(askMs)))]);
  try {
    return await Promise.any(relays.map((relay) => askRelay(ctx, { merchantId, relay, ended: over, ...question })));
  } catch (error) {
    throw (error as AggregateError).errors.at(-1);
  } finally {
    answered.abort();
  }
}

type OfRelay = { merchantId: string; relay: string; ended: AbortSignal };
const askRelay = <T>(ctx: Context, { merchantId, relay, ended, event, filter, stays, accept }: OfRelay & Question<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const host = new URL(relay).host;
    const fail = (reason: string, cause?: unknown) => reject(new BackEndError(`${host}: ${reason}`, { isAnswer: false, cause }));
    let read = 0;
    const text = (message: string): void => {
      const [kind, of, ...rest] = messageOf(message);
      if (++read > MOST_MESSAGES) fail('the relay sends too much');
      else if (kind === 'OK' && of === event?.id && rest[0] === false) fail(`the relay refuses the request: ${said(rest[1])}`);
      else if (kind === 'CLOSED') fail(`the relay ends the subscription: ${said(rest[0])}`);
      // Without an event that is sent, nothing else will come.
      else if (kind === 'EOSE' && event === null && !stays) fail('the wallet has not said there what it can do');
      const answer = kind === 'EVENT' ? readEvent(rest[0]) : null;
      const accepted = answer && accept(answer);
      if (accepted !== null) resolve(accepted);
    };
    const late = () => fail('no answer in time');
    if (ended.aborted) return late();
    ended.addEventListener('abort', late, { once: true });
    ctx.outgoing
      .openMerchantSocket({ merchantId, url: relay, timeoutMs: askMs(relay), maxBytes: MOST_BYTES, spoken: { text, end: fail } })
      .then((socket) => {
        ended.addEventListener('abort', () => socket.close(), { once: true });
        if (ended.aborted) return socket.close();
        socket.send(JSON.stringify(['REQ', 'florin', filter]));
        if (event) socket.send(JSON.stringify(['EVENT', event]));
      })
      .catch((error: unknown) => fail(error instanceof Error ? error.message : String(error), error));
  });

const said = (text: unknown): string => (asText(text) ?? '').slice(0, 100);

function messageOf(text: string): readonly unknown[] {
  try {
    return asList(JSON.parse(text));
  } catch {
    // Not a message of a relay.
    return [];
  }
}

// Encryption between two keys (NIP-44).

const ENCRYPTION = 2;
/** The longest text: its length is kept in 16 bits. */
const MOST_TEXT_BYTES = 65_535;
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
  if (content.length === 0 || content.length > MOST_TEXT_BYTES) throw new Error('the text has a wrong length');
  const padded = Buffer.alloc(2 + paddedLength(content.length));
  padded.writeUInt16BE(content.length);
  content.copy(padded, 2);
  const keys = messageKeys(key, nonce);
  const hidden = chacha(keys, padded);
  return Buffer.concat([Uint8Array.of(ENCRYPTION), nonce, hidden, hmac(keys.code, nonce, hidden)]).toString('base64');
}

/** Errors: the payload was not encrypted with this key, or was changed. */
export function decryptText(key: Uint8Array, payload: string): string {
  const bytes = Buffer.from(payload, 'base64');
  if (bytes.length < LEAST_PAYLOAD || bytes.toString('base64') !== payload) throw new Error('the payload is malformed');
  if (bytes[0] !== ENCRYPTION) throw new Error('the version is not known');
  const [nonce, hidden, code] = [bytes.subarray(1, 33), bytes.subarray(33, -32), bytes.subarray(-32)];
  const keys = messageKeys(key, nonce);
  if (!timingSafeEqual(hmac(keys.code, nonce, hidden), code)) throw new Error('the payload was changed');
  const padded = chacha(keys, hidden);
  const length = padded.readUInt16BE();
  if (length === 0 || padded.length !== 2 + paddedLength(length)) throw new Error('the padding is wrong');
  return padded.toString('utf8', 2, 2 + length);
}
