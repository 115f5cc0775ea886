/** Requests to a Blockbook server. Servers count requests; one that asked to slow down gets none until the time it named. */
import type { Clock } from '../../core/clock.ts';
import type { Outgoing } from '../../outgoing.ts';
import { ChainError } from '../chain.ts';
import { fields, requestFrom } from '../reply.ts';
import { text } from './replies.ts';

const TIMEOUT_MS = 15_000;
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** The pause after a rate limit without Retry-After. */
const PATIENCE_MS = 30_000;

/** Gets a path below `/api/`, or posts text to it. Errors: ChainError outage, not_found; refused where something was posted. */
export type Get = (path: string, body?: string) => Promise<unknown>;

export function createGet({ server, base, outgoing, clock }: { server: string; base: string; outgoing: Outgoing; clock: Clock }): Get {
  let patientUntilMs = 0;
  return async (path, body) => {
    const waitMs = patientUntilMs - clock.monotonicMs();
    if (waitMs > 0) throw new ChainError('outage', `${server} wants ${Math.ceil(waitMs / 1000)} s of rest`);
    const reply = await requestFrom(outgoing, server, {
      url: `${base}/api/${path}`,
      headers: { accept: 'application/json', ...(body !== undefined && { 'content-type': 'text/plain' }) },
      ...(body !== undefined && { method: 'POST' as const, body: Buffer.from(body) }),
      timeoutMs: TIMEOUT_MS,
      maxReplyBytes: MAX_REPLY_BYTES,
    });
    if (reply.status === 429) {
      const seconds = /^\d{1,5}$/.test(reply.headers['retry-after'] ?? '') ? Number(reply.headers['retry-after']) : PATIENCE_MS / 1000;
      patientUntilMs = clock.monotonicMs() + seconds * 1000;
      throw new ChainError('outage', `${server} was asked too often and wants ${seconds} s of rest`);
    }
    let parsed: unknown;
    try {
      // Amounts are strings; numbers in replies are never money.
      parsed = JSON.parse(Buffer.from(reply.body).toString());
    } catch (cause) {
      throw new ChainError('outage', `${server} answered status ${reply.status} and no JSON`, { cause });
    }
    const { error } = fields(parsed);
    if (reply.status !== 200 || error !== undefined) {
      const reason = text(error) || text(fields(error).message) || `status ${reply.status}`;
      if (body !== undefined && reply.status === 400) throw new ChainError('refused', reason.slice(0, 300));
      throw new ChainError(/not found/i.test(reason) ? 'not_found' : 'outage', `${server}: ${reason}`);
    }
    return parsed;
  };
}
