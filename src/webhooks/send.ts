/** Signs one delivery, posts it to its endpoint, and says what came of it. */
import type { Context } from '../context.ts';
import { idOfNumber } from '../core/id.ts';
import { unreachedOfStatus } from '../core/unreached.ts';
import { OutgoingError } from '../outgoing.ts';
import { ATTEMPT_MS, commerceBody, commerceHeaders, greenfieldBody, greenfieldHeaders } from './dialect.ts';
import { SECRET_PURPOSE } from './endpoints.ts';
import type { AttemptOutcome, Due } from './queue.ts';
import { signDelivery } from './sign.ts';

const REPLY_BYTES = 16_384;
const REPLY_KEPT_BYTES = 4_096;

/** One attempt. A failure is an outcome too; nothing is thrown. */
export async function sendDelivery(ctx: Context, due: Due): Promise<AttemptOutcome> {
  const started = performance.now();
  let headers: Record<string, string> = {};
  const outcome = (more: Partial<AttemptOutcome>): AttemptOutcome => ({
    due,
    durationMs: Math.round(performance.now() - started),
    status: null,
    failure: null,
    reason: null,
    address: null,
    headers,
    reply: null,
    retryAfterSeconds: null,
    ...more,
  });
  if (due.body === null) return outcome({ failure: 'forgotten', reason: 'forgotten' });
  const secrets = openSecrets(ctx, due);
  if (secrets === null) return outcome({ failure: 'internal', reason: 'secret_unreadable' });
  try {
    const { body, headers: signed } = form(ctx, due, { body: due.body, ...secrets });
    headers = { 'Content-Type': 'application/json', 'User-Agent': 'Florin-Webhooks/1', ...signed };
    const reply = await ctx.outgoing.requestMerchantUrl({
      merchantId: due.merchantId,
      url: due.url,
      method: 'POST',
      headers,
      body,
      timeoutMs: ATTEMPT_MS[due.dialect],
      maxReplyBytes: REPLY_BYTES,
      over: 'cut',
    });
    const isTaken = reply.status >= 200 && reply.status < 300;
    return outcome({
      status: reply.status,
      failure: isTaken ? null : `status_${reply.status}`,
      reason: isTaken ? null : unreachedOfStatus(reply.status),
      address: reply.address ?? null,
      reply: reply.body.subarray(0, REPLY_KEPT_BYTES),
      retryAfterSeconds: readRetryAfter(reply.headers['retry-after'], ctx.clock.now()),
    });
  } catch (error) {
    if (error instanceof OutgoingError) return outcome({ failure: error.class, reason: error.reason, address: error.address });
    ctx.log.error({ err: error, event: due.eventId }, 'Could not send a webhook delivery');
    return outcome({ failure: 'internal', reason: 'internal' });
  }
}

/** The signing secrets of the endpoint; null, with a line in the log, when they were sealed with another key. */
function openSecrets(ctx: Context, due: Due): Secrets | null {
  try {
    const open = (sealed: Uint8Array) => Buffer.from(ctx.open(SECRET_PURPOSE, sealed)).toString();
    return { secret: open(due.secret), previousSecret: due.previousSecret && open(due.previousSecret) };
  } catch (error) {
    ctx.log.error({ err: error, endpoint: due.endpointId }, 'Could not read a signing secret');
    return null;
  }
}

type Secrets = { secret: string; previousSecret: string | null };
/** The bytes and headers of an attempt, in the dialect of its endpoint. */
function form(ctx: Context, due: Due, { body, secret, previousSecret }: Secrets & { body: Uint8Array }) {
  if (due.dialect === 'greenfield') {
    const sent = greenfieldBody(body, { ...due, deliveryId: idOfNumber('del', ctx.installKey, due.id) });
    return { body: sent, headers: greenfieldHeaders({ secret, body: sent }) };
  }
  if (due.dialect === 'commerce') {
    const sent = commerceBody(body, { ...due, deliveryId: idOfNumber('del', ctx.installKey, due.id) }, ctx.clock.now());
    return { body: sent, headers: commerceHeaders({ secret, body: sent }) };
  }
  const timestampSeconds = Math.floor(ctx.clock.now().getTime() / 1000);
  return { body, headers: signDelivery({ secret, previousSecret, id: due.eventId, timestampSeconds, body }) };
}

/** Seconds or an HTTP date (RFC 9110); null when it is neither. */
export function readRetryAfter(text: string | undefined, now: Date): number | null {
  if (text === undefined) return null;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  const at = /^[A-Z][a-z]{2}, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : (at - now.getTime()) / 1000;
}
