/** Signs one delivery, posts it to its endpoint, and says what came of it. */
import type { Context } from '../context.ts';
import { OutgoingError } from '../outgoing.ts';
import { SECRET_PURPOSE } from './endpoints.ts';
import type { Due, Outcome } from './queue.ts';
import { signDelivery } from './sign.ts';

/** Shorter than a lease, so that a delivery that is still being sent is not leased again. */
export const ATTEMPT_MS = 10_000;
const REPLY_BYTES = 16_384;
const REPLY_KEPT_BYTES = 4_096;

/** One attempt. A failure is an outcome too; nothing is thrown. */
export async function sendDelivery(ctx: Context, due: Due): Promise<Outcome> {
  const started = performance.now();
  let headers: Record<string, string> = {};
  const outcome = (more: Partial<Outcome>): Outcome => ({
    due,
    durationMs: Math.round(performance.now() - started),
    status: null,
    failure: null,
    headers,
    reply: null,
    retryAfterSeconds: null,
    ...more,
  });
  if (due.body === null) return outcome({ failure: 'forgotten' });
  try {
    const open = (sealed: Uint8Array) => Buffer.from(ctx.open(SECRET_PURPOSE, sealed)).toString();
    headers = {
      'content-type': 'application/json',
      'user-agent': 'Florin-Webhooks/1',
      ...signDelivery({
        secret: open(due.secret),
        previousSecret: due.previousSecret && open(due.previousSecret),
        id: due.eventId,
        timestampSeconds: Math.floor(ctx.clock.now().getTime() / 1000),
        body: due.body,
      }),
    };
    const reply = await ctx.outgoing.requestMerchantUrl({
      merchantId: due.merchantId,
      url: due.url,
      method: 'POST',
      headers,
      body: due.body,
      timeoutMs: ATTEMPT_MS,
      maxReplyBytes: REPLY_BYTES,
      over: 'cut',
    });
    return outcome({
      status: reply.status,
      failure: reply.status >= 200 && reply.status < 300 ? null : `status_${reply.status}`,
      reply: reply.body.subarray(0, REPLY_KEPT_BYTES),
      retryAfterSeconds: readRetryAfter(reply.headers['retry-after'], ctx.clock.now()),
    });
  } catch (error) {
    if (!(error instanceof OutgoingError)) ctx.log.error({ err: error, event: due.eventId }, 'Could not send a webhook delivery');
    return outcome({ failure: error instanceof OutgoingError ? error.class : 'internal' });
  }
}

/** Seconds or an HTTP date (RFC 9110); null when it is neither. */
export function readRetryAfter(text: string | undefined, now: Date): number | null {
  if (text === undefined) return null;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  const at = /^[A-Z][a-z]{2}, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : (at - now.getTime()) / 1000;
}
