/** Signed events of Nostr, and a question to its relays (NIP-01). */
import { randomBytes } from 'node:crypto';
import { schnorr } from '@noble/curves/secp256k1.js';
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
