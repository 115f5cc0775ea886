/** The delivery worker: leases due deliveries, signs and posts them, and records every attempt. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from '../context.ts';
import { startLoop } from '../db/loop.ts';
import { OutgoingError } from '../outgoing.ts';
import { forgetEvents, RECOVERY_NOTE, stepRecovery } from './deliveries.ts';
import { SECRET_PURPOSE } from './endpoints.ts';
import { type Due, FIRST_ROOM, leaseDue, type Outcome, recordOutcomes } from './queue.ts';
import { signDelivery } from './sign.ts';

const ATTEMPT_MS = 10_000;
const REPLY_BYTES = 16_384;
const REPLY_KEPT_BYTES = 4_096;
/** Concurrent requests to one endpoint that responds quickly: doubled after each success, halved after each failure. */
const MOST_ROOM = 16;
/** A slower response does not raise the concurrency. */
const SLOW_MS = 2_000;
/** The most endpoints a worker remembers. */
const REMEMBERED = 10_000;
/** While half of the request slots are in use, rounds start this far apart, which saves statements. */
const CALM_MS = 10;
const POLL_MS = 1_000;
const HOUSEKEEPING_MS = 60_000;
const RECOVERY_MS = 1_000;

type Pace = { underWay: number; allowed: number; suspect: boolean };
export type DeliveryStats = { inFlight: number; delivered: number; failed: number };

/**
 * Starts the worker. Rows are leased with SKIP LOCKED, so several workers can run; leases of a killed worker expire and its
 * deliveries are sent again. Memory only holds the pace of each endpoint. Failing or slow endpoints share half of the request slots,
 * so the other half is always free for those that respond.
 */
export function startDeliveries(
  ctx: Context,
  { pollMs = POLL_MS, concurrency = 128 }: { pollMs?: number; concurrency?: number } = {},
): {
  stop(): Promise<void>;
  stats(): DeliveryStats;
} {
  const paces = new Map<string, Pace>();
  const running = new Set<Promise<void>>();
  const counts = { delivered: 0, failed: 0 };
  let finished: Outcome[] = [];
  let ring = '';
  let recoveryAt = 0;
  let housekeepingAt = 0;
  const told = (note: string) => {
    if (note === RECOVERY_NOTE) {
      recoveryAt = 0;
      tending.nudge();
    }
    taking.nudge();
  };
  const attempt = async (due: Due): Promise<void> => {
    const outcome = await send(ctx, due);
    const pace = paces.get(due.endpointId)!;
    // A failure counts as in flight until it is stored, so that the rows it delays are not picked again before.
    if (outcome.failure === null) pace.underWay--;
    pace.suspect = outcome.failure !== null || outcome.durationMs > SLOW_MS;
    pace.allowed = pace.suspect ? Math.max(1, pace.allowed >> 1) : Math.min(MOST_ROOM, pace.allowed * 2);
    if (outcome.failure === null) counts.delivered++;
    else counts.failed++;
    finished.push(outcome);
    recording.nudge();
    taking.nudge();
  };
  const calm = async () => {
    if (running.size >= concurrency >> 1) await sleep(CALM_MS);
  };
  const record = async (): Promise<boolean> => {
    await calm();
    if (finished.length === 0) return false;
    const batch = finished;
    finished = [];
    try {
      await recordOutcomes(ctx, batch);
    } catch (error) {
      finished = [...batch, ...finished];
      throw error;
    }
    const failed = batch.filter((outcome) => outcome.failure !== null);
    for (const { due } of failed) paces.get(due.endpointId)!.underWay--;
    if (failed.length > 0) taking.nudge();
    return finished.length > 0;
  };
  /** Leases the next deliveries of the ring. True: look again immediately. */
  const take = async (stopping: AbortSignal): Promise<boolean> => {
    await calm();
    const room = concurrency - running.size;
    if (stopping.aborted || room <= 0) return false;
    if (paces.size > REMEMBERED) for (const [id, pace] of paces) if (pace.underWay === 0) paces.delete(id);
    const suspects = [...paces.values()].reduce((sum, pace) => sum + (pace.suspect ? pace.underWay : 0), 0);
    const { due, next, moved } = await leaseDue(ctx, {
      limit: room,
      suspectLimit: Math.max(0, Math.min(room, (concurrency >> 1) - suspects)),
      lanes: Math.max(32, room * 2),
      after: ring,
      rooms: [...paces].map(([endpointId, pace]) => ({ endpointId, ...pace })),
    });
    ring = next;
    for (const row of due) {
      const pace = paces.get(row.endpointId) ?? { underWay: 0, allowed: FIRST_ROOM, suspect: row.failing };
      paces.set(row.endpointId, pace);
      pace.underWay++;
      const work: Promise<void> = attempt(row).finally(() => running.delete(work));
      running.add(work);
    }
    return due.length > 0 || moved > 0 || next !== '';
  };
  /** Periodic work: a recovery step, deleting old rows. True: there is more of it. */
  const tend = async (): Promise<boolean> => {
    const now = ctx.clock.monotonicMs();
    if (now < recoveryAt) return false;
    const more = await stepRecovery(ctx);
    if (!more) recoveryAt = now + RECOVERY_MS;
    if (now >= housekeepingAt) {
      await forgetEvents(ctx);
      housekeepingAt = now + HOUSEKEEPING_MS;
    }
    return more;
  };
  const failed = (error: unknown, failures: number) =>
    ctx.log.error({ err: error, failures }, 'The webhook delivery worker failed; retrying');
  // In parallel: results are stored while the next deliveries are found.
  const recording = startLoop({ pollMs, failed, round: record, hasLeft: () => finished.length > 0 });
  const taking = startLoop({ pollMs, failed, round: take });
  const tending = startLoop({ pollMs, failed, round: tend });
  const listening = ctx.db.sql.listen('deliveries', told).catch((error: unknown) => {
    ctx.log.warn({ err: error }, 'Cannot listen for new deliveries; polling only');
    return null;
  });

  return {
    stop: async () => {
      const taken = Promise.all([taking.stop(), tending.stop()]);
      await (await listening)?.unlisten().catch(() => {});
      await taken;
      await Promise.allSettled(running);
      await recording.stop();
    },
    stats: () => ({ inFlight: running.size, ...counts }),
  };
}

async function send(ctx: Context, due: Due): Promise<Outcome> {
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
function readRetryAfter(text: string | undefined, now: Date): number | null {
  if (text === undefined) return null;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  const at = /^[A-Z][a-z]{2}, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : (at - now.getTime()) / 1000;
}
