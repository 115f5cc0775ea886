/** Verifies deliveries, and signs them for tests. Uses Web Crypto only, so that it runs everywhere. */
import { WebhookError } from './errors.ts';
import { randomKey } from './request.ts';
import { API_VERSION, type PaymentEvent, type WebhookEvent } from './types.ts';

/** Headers in any framework's form, in upper or lower case. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
export type VerifyOptions = {
  /** How old or how far in the future an attempt may be. Defaults to 300 seconds. */
  toleranceSeconds?: number;
  /**
   * `accept` also accepts deliveries with X-Service-Signature alone. That signature does not cover the time of the attempt, so anyone
   * who saw a delivery can replay it. Use it only behind a proxy that strips the other headers, and remember the ids of events for
   * longer than `legacyToleranceSeconds`. Defaults to `reject`.
   */
  legacy?: 'reject' | 'accept';
  /** With `legacy: 'accept'`: older events are refused. Defaults to 96 hours, which is longer than all attempts of a delivery. */
  legacyToleranceSeconds?: number;
};

const PREFIX = 'whsec_';
const TOLERANCE_SECONDS = 300;
const LEGACY_TOLERANCE_SECONDS = 96 * 3600;
/** How long a receiver remembers handled ids: deliveries can be resent for that long. */
const REMEMBER_SECONDS = 30 * 86_400;
const encoder = new TextEncoder();

const bytesOfBase64 = (text: string): Uint8Array<ArrayBuffer> | null => {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
};
const base64Of = (bytes: ArrayBuffer): string => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const hexOf = (bytes: ArrayBuffer): string => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');

type Keys = { standard: CryptoKey; legacy: CryptoKey };
async function keysOf(secret: string): Promise<Keys> {
  if (typeof secret !== 'string' || secret === '')
    throw new WebhookError('secret_invalid', 'The signing secret is missing. Pass the whsec_... text that was shown with the endpoint.');
  if (secret !== secret.trim()) throw new WebhookError('secret_invalid', 'The signing secret has whitespace around it. Trim it.');
  const decoded = secret.startsWith(PREFIX) ? bytesOfBase64(secret.slice(PREFIX.length)) : null;
  if (!decoded || decoded.length < 16)
    throw new WebhookError(
      'secret_invalid',
      'The signing secret is not valid. Pass the whsec_... text exactly as it was shown; API keys do not work here.',
    );
  const key = (bytes: Uint8Array<ArrayBuffer>) =>
    crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']);
  return { standard: await key(decoded), legacy: await key(encoder.encode(secret)) };
}

/** The body as bytes. Errors: body_not_raw, when it was parsed before. */
function rawBytes(body: unknown): Uint8Array<ArrayBuffer> {
  if (typeof body === 'string') return encoder.encode(body);
  // Of any realm: test runners have classes of their own.
  if (ArrayBuffer.isView(body)) return Uint8Array.from(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
  if (Object.prototype.toString.call(body) === '[object ArrayBuffer]') return new Uint8Array(body as ArrayBuffer);
  throw new WebhookError(
    'body_not_raw',
    `The body must be the exact text or bytes that arrived, not ${body === null ? 'null' : typeof body === 'object' ? 'a parsed object' : typeof body}. Read it before anything parses it: express.raw({ type: 'application/json' }), request.text(), or a raw body parser.`,
  );
}

function headerOf(headers: WebhookHeaders, name: string): string | null {
  if (typeof (headers as Headers)?.get === 'function') return (headers as Headers).get(name);
  const found = Object.entries(headers ?? {}).find(([key]) => key.toLowerCase() === name)?.[1];
  return (typeof found === 'string' ? found : found?.[0]) ?? null;
}

const signedText = (id: string, timestamp: string | number, body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => {
  const start = encoder.encode(`${id}.${timestamp}.`);
  const all = new Uint8Array(start.length + body.length);
  all.set(start);
  all.set(body, start.length);
  return all;
};

function parseEvent(body: Uint8Array): WebhookEvent {
  try {
    const event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as WebhookEvent;
    if (typeof event?.id === 'string' && typeof event.type === 'string' && typeof event.data === 'object') return event;
  } catch {
    // Reported below.
  }
  throw new WebhookError('body_not_event', 'The signature is valid, but the body is not an event.');
}

/**
 * Verifies that the service sent a delivery recently, and returns its event. Signatures are compared in constant time.
 * Respond with 2xx when it resolves, and with 400 when it throws. Errors: WebhookError, with the reason.
 */
export async function verify(
  rawBody: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string,
  { toleranceSeconds = TOLERANCE_SECONDS, legacy = 'reject', legacyToleranceSeconds = LEGACY_TOLERANCE_SECONDS }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const body = rawBytes(rawBody);
  const keys = await keysOf(secret);
  const id = headerOf(headers, 'webhook-id');
  const timestamp = headerOf(headers, 'webhook-timestamp');
  const signatures = headerOf(headers, 'webhook-signature');
  const now = Math.floor(Date.now() / 1000);

  if (id === null && timestamp === null && signatures === null) {
    const given = headerOf(headers, 'x-service-signature');
    if (given === null)
      throw new WebhookError(
        'headers_missing',
        'The signature headers are missing: the request is not from the service, or a proxy removed them.',
      );
    if (legacy !== 'accept')
      throw new WebhookError(
        'headers_missing',
        'webhook-id, webhook-timestamp and webhook-signature are missing. X-Service-Signature alone does not protect against replays. To accept it anyway, set { legacy: "accept" }.',
      );
    const bytes = /^[0-9a-f]{64}$/.test(given) ? Uint8Array.from(given.match(/../g)!, (pair) => Number.parseInt(pair, 16)) : null;
    if (!bytes || !(await crypto.subtle.verify('HMAC', keys.legacy, bytes, body))) throw mismatch('X-Service-Signature');
    const event = parseEvent(body);
    const age = now - Date.parse(event.created_at) / 1000;
    if (!(age <= legacyToleranceSeconds))
      throw new WebhookError('too_old', `The event is from ${event.created_at}, more than ${legacyToleranceSeconds} seconds ago.`);
    if (age < -toleranceSeconds)
      throw new WebhookError('too_new', `The event is from ${event.created_at}, in the future. Check the clock of this machine.`);
    return event;
  }

  if (id === null || timestamp === null || signatures === null) {
    const missing = Object.entries({ 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures });
    throw new WebhookError(
      'headers_missing',
      `Missing: ${missing
        .filter(([, value]) => value === null)
        .map(([name]) => name)
        .join(', ')}.`,
    );
  }
  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookError('timestamp_invalid', 'webhook-timestamp is not a number of seconds.');
  const age = now - Number(timestamp);
  if (age > toleranceSeconds)
    throw new WebhookError(
      'too_old',
      `The attempt is ${age} seconds old, and ${toleranceSeconds} are allowed. Check the clock of this machine.`,
    );
  if (age < -toleranceSeconds)
    throw new WebhookError(
      'too_new',
      `The attempt is ${-age} seconds in the future, and ${toleranceSeconds} are allowed. Check the clock of this machine.`,
    );

  const signed = signedText(id, timestamp, body);
  let right = false;
  // There are two while a secret is being rotated; the bound limits the work for a hostile header.
  for (const signature of signatures.split(' ').slice(0, 10)) {
    if (!signature.startsWith('v1,')) continue;
    const bytes = bytesOfBase64(signature.slice(3));
    if (bytes?.length === 32 && (await crypto.subtle.verify('HMAC', keys.standard, bytes, signed))) right = true;
  }
  if (!right) throw mismatch('webhook-signature');
  const event = parseEvent(body);
  if (event.id !== id) throw new WebhookError('id_mismatch', 'webhook-id is not the id of the event.');
  return event;
}

const mismatch = (header: string): WebhookError =>
  new WebhookError(
    'signature_mismatch',
    `${header} does not match. Either the secret belongs to another endpoint or mode, or the body was changed: pass the exact bytes that arrived, before a framework parses them.`,
  );

/** Where a receiver remembers ids: `seen` records one and returns whether it was already there, in one atomic step. */
export type SeenStore = { seen(id: string, ttlSeconds: number): boolean | Promise<boolean> };
/** Whether the event was handled before. Deliveries can repeat: respond with 200 and do nothing. */
export const isRepeat = async (event: WebhookEvent, store: SeenStore): Promise<boolean> => store.seen(event.id, REMEMBER_SECONDS);

/** Signs an event, for the tests of a receiver: post `body` with `headers`. */
export async function signTestEvent(
  event: (Partial<Pick<PaymentEvent, 'id' | 'created_at' | 'mode' | 'api_version'>> & { type: string; data: object }) | string,
  secret: string,
  { timestampSeconds = Math.floor(Date.now() / 1000) }: { timestampSeconds?: number } = {},
): Promise<{ body: string; headers: Record<string, string> }> {
  const keys = await keysOf(secret);
  const made = {
    id: `evt_${randomKey().slice(0, 24)}`,
    created_at: new Date(timestampSeconds * 1000).toISOString(),
    mode: 'test',
    api_version: API_VERSION,
  };
  const body = typeof event === 'string' ? event : JSON.stringify({ ...made, ...event });
  const bytes = encoder.encode(body);
  const { id } = JSON.parse(body) as { id: string };
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-service-signature': hexOf(await crypto.subtle.sign('HMAC', keys.legacy, bytes)),
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': `v1,${base64Of(await crypto.subtle.sign('HMAC', keys.standard, signedText(id, timestampSeconds, bytes)))}`,
    },
  };
}

/** A signing secret in the form that endpoints have, from 32 random bytes or from the given ones. */
export const newSecret = (bytes: Uint8Array = crypto.getRandomValues(new Uint8Array(32))): string =>
  PREFIX + base64Of(Uint8Array.from(bytes).buffer);
