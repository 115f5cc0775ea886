/** The delivery worker: leases due deliveries, sends them, and records every attempt. */
import { createHmac } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { OutgoingError } from '#connections';
import type { Context } from '#context';
import { idOfNumber } from '#core/id';
import { unreachedOfStatus } from '#core/unreached';
import { dueIf, startQueue } from '#db';
import { startLoop } from '#loop';
import { SECRET_PURPOSE } from '#webhooks';
import { forgetEvents, stepRecovery } from './deliveries.ts';
import { ATTEMPT_MS, commerceBody, commerceHeaders, greenfieldBody, greenfieldHeaders } from './dialect.ts';
import { type AttemptOutcome, type DueDelivery, FIRST_ROOM, leaseDue, type Room, recordOutcomes, type Share } from './queue.ts';

/** While half of the request slots are in use, rounds start this far apart, which saves statements. */
const CALM_MS = 10;
const POLL_MS = 1_000;
const HOUSEKEEPING_MS = 60_000;

type DeliveryStats = { inFlight: number; delivered: number; failed: number };

type Worker = {
  readonly ctx: Context;
  /** The most requests at the same time. */
  readonly concurrency: number;
  readonly paces: Paces;
  readonly running: Set<Promise<void>>;
  readonly counts: { delivered: number; failed: number };
  /** Attempts that are not stored yet. */
  finished: AttemptOutcome[];
  /** The endpoint after which the next round begins; empty: at the first one. */
  ring: string;
  /** In this turn of the ring, more was due than there was room for, or nobody could look. */
  hasLeft: boolean;
  /** A request ended since this turn began. */
  hasEnded: boolean;
};

/**
 * Starts the worker. Rows are leased with SKIP LOCKED, so several workers can run; leases of a killed worker expire and its
 * deliveries are sent again. Memory only holds the pace of each endpoint.
 */
export function startDeliveries(
  ctx: Context,
  { pollMs = POLL_MS, concurrency = 128 }: { pollMs?: number; concurrency?: number } = {},
): {
  stop(): Promise<void>;
  stats(): DeliveryStats;
} {
  const worker: Worker = {
    ctx,
    concurrency,
    paces: new Map(),
    running: new Set(),
    counts: { delivered: 0, failed: 0 },
    finished: [],
    ring: '',
    hasLeft: false,
    hasEnded: false,
  };
  const { running, counts } = worker;
  const failed = (error: unknown, failures: number) =>
    ctx.log.error({ err: error, failures }, 'The webhook delivery worker failed; retrying');
  // In parallel: results are stored while the next deliveries are found.
  const recording = startLoop({
    pollMs,
    failed,
    round: () => record(worker, () => taking.nudge()),
    hasLeft: () => worker.finished.length > 0,
  });
  const taking = startQueue(ctx, {
    name: 'deliveries',
    // Endpoints rest, and rows wait for each other, so while any is pending it is looked at regularly.
    due: (sql) =>
      dueIf(sql, sql`(select id from deliveries where state = 'pending' and endpoint_id > '' order by endpoint_id limit 1) is not null`),
    againMs: pollMs,
    failed,
    round: (stopping) =>
      take(worker, stopping, () => {
        recording.nudge();
        // Only what had to wait for room is due because a request ended.
        if (worker.hasLeft) taking.nudge();
      }),
  });
  const recovering = startQueue(ctx, {
    name: 'recoveries',
    due: (sql) => dueIf(sql, sql`exists (select 1 from recoveries where queued_at is null)`),
    failed,
    round: () => stepRecovery(ctx),
  });
  const forgetting = startLoop({
    pollMs: HOUSEKEEPING_MS,
    failed,
    round: async () => {
      await forgetEvents(ctx);
      return false;
    },
  });
  return {
    stop: async () => {
      await Promise.all([taking.stop(), recovering.stop(), forgetting.stop()]);
      await Promise.allSettled(running);
      await recording.stop();
    },
    stats: () => ({ inFlight: running.size, ...counts }),
  };
}

const calm = async ({ running, concurrency }: Worker): Promise<void> => {
  if (running.size >= concurrency >> 1) await sleep(CALM_MS);
};

/**
 * Leases and starts the next deliveries of the ring. True: look again immediately. `ended` is called after each attempt. What is due later
 * is announced by a notification, so a request that ended is a reason to look only where something had to wait for it.
 */
async function take(worker: Worker, stopping: AbortSignal, ended: () => void): Promise<boolean> {
  const { ctx, concurrency, paces, running } = worker;
  await calm(worker);
  const room = roomFor(paces, { running: running.size, concurrency });
  if (stopping.aborted) return false;
  if (room === null) {
    worker.hasLeft = true;
    return false;
  }
  forgetIdle(paces);
  if (worker.ring === '') Object.assign(worker, { hasLeft: false, hasEnded: false });
  const { due, next, moved, hasLeft } = await leaseDue(ctx, { ...room, after: worker.ring });
  worker.ring = next;
  worker.hasLeft ||= hasLeft;
  for (const row of due) {
    beginRequest(paces, row);
    const work: Promise<void> = attempt(worker, row)
      .then(ended)
      .finally(() => running.delete(work));
    running.add(work);
  }
  return moved > 0 || next !== '' || (worker.hasLeft && worker.hasEnded);
}

async function attempt(worker: Worker, due: DueDelivery): Promise<void> {
  const outcome = await sendDelivery(worker.ctx, due);
  const failed = outcome.failure !== null;
  endRequest(worker.paces, due.endpointId, { failed, durationMs: outcome.durationMs });
  worker.counts[failed ? 'failed' : 'delivered']++;
  worker.hasEnded = true;
  worker.finished.push(outcome);
}

/** Stores what finished since the last round. True: more has finished meanwhile. `freed` is called when endpoints have room again. */
async function record(worker: Worker, freed: () => void): Promise<boolean> {
  await calm(worker);
  if (worker.finished.length === 0) return false;
  const batch = worker.finished;
  worker.finished = [];
  try {
    await recordOutcomes(worker.ctx, batch);
  } catch (error) {
    worker.finished = [...batch, ...worker.finished];
    throw error;
  }
  const failed = batch.filter((outcome) => outcome.failure !== null);
  for (const { due } of failed) storeFailure(worker.paces, due.endpointId);
  if (failed.length > 0) freed();
  return worker.finished.length > 0;
}

// Signs one delivery, posts it to its endpoint, and says what came of it.

const REPLY_BYTES = 16_384;
const REPLY_KEPT_BYTES = 4_096;

/** One attempt. A failure is an outcome too; nothing is thrown. */
async function sendDelivery(ctx: Context, due: DueDelivery): Promise<AttemptOutcome> {
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
function openSecrets(ctx: Context, due: DueDelivery): Secrets | null {
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
function form(ctx: Context, due: DueDelivery, { body, secret, previousSecret }: Secrets & { body: Uint8Array }) {
  const numbered = () => ({ ...due, deliveryId: idOfNumber('del', ctx.installKey, due.id) });
  switch (due.dialect) {
    case 'greenfield': {
      const sent = greenfieldBody(body, numbered());
      return { body: sent, headers: greenfieldHeaders({ secret, body: sent }) };
    }
    case 'commerce': {
      const sent = commerceBody(body, numbered(), ctx.clock.now());
      return { body: sent, headers: commerceHeaders({ secret, body: sent }) };
    }
    case 'florin': {
      const timestampSeconds = Math.floor(ctx.clock.now().getTime() / 1000);
      return { body, headers: signDelivery({ secret, previousSecret, id: due.eventId, timestampSeconds, body }) };
    }
  }
}

/** Seconds or an HTTP date (RFC 9110); null when it is neither. */
export function readRetryAfter(text: string | undefined, now: Date): number | null {
  if (text === undefined) return null;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  const at = /^[A-Z][a-z]{2}, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : (at - now.getTime()) / 1000;
}

// Signatures of a delivery: the documented body MAC and the Standard Webhooks headers, from one displayed secret.

const PREFIX = 'whsec_';

/**
 * Headers of one attempt. `X-Service-Signature`: lower-case hex HMAC-SHA256 of the exact body, keyed with the UTF-8 bytes of
 * the displayed secret. `webhook-*`: Standard Webhooks, keyed with the decoded bytes over `id.timestamp.body`. While a secret
 * is being rotated the first stays on the old secret and the second lists both.
 */
export function signDelivery({
  secret,
  previousSecret,
  id,
  timestampSeconds,
  body,
}: {
  secret: string;
  previousSecret: string | null;
  id: string;
  timestampSeconds: number;
  body: Uint8Array;
}): Record<string, string> {
  const standard = (key: string) =>
    `v1,${createHmac('sha256', Buffer.from(key.slice(PREFIX.length), 'base64'))
      .update(`${id}.${timestampSeconds}.`)
      .update(body)
      .digest('base64')}`;
  return {
    'X-Service-Signature': createHmac('sha256', previousSecret ?? secret)
      .update(body)
      .digest('hex'),
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': previousSecret ? `${standard(secret)} ${standard(previousSecret)}` : standard(secret),
  };
}

// How many requests each endpoint gets at the same time, in memory. Failing, slow and new endpoints share half of the request slots, so
// the other half is always free for those that respond. No merchant gets more than a quarter of all, and an eighth for such endpoints.

/** Concurrent requests to one endpoint that responds quickly: doubled after each success, halved after each failure. */
export const MOST_ROOM = 16;
/** A slower response does not raise the concurrency. */
export const SLOW_MS = 2_000;
/** The most endpoints a worker remembers. */
export const REMEMBERED = 10_000;
/** Endpoints looked at in one round, at least. */
const FEWEST_LANES = 32;

/** `underWay` counts failures until they are stored, so that the rows that they delay are not leased again before. */
type Pace = { merchantId: string; underWay: number; allowed: number; suspect: boolean };
export type Paces = Map<string, Pace>;

/** A request to the endpoint starts. `failing`: what the database knows of an endpoint that this worker does not know yet. */
export function beginRequest(
  paces: Paces,
  { endpointId, merchantId, failing }: Pick<DueDelivery, 'endpointId' | 'merchantId' | 'failing'>,
): void {
  const pace = paces.get(endpointId) ?? { merchantId, underWay: 0, allowed: FIRST_ROOM, suspect: failing };
  paces.set(endpointId, pace);
  pace.underWay++;
}

/** A request ended: the endpoint gets more or fewer at the same time. Until a failure is stored, it counts as under way. */
export function endRequest(paces: Paces, endpointId: string, { failed, durationMs }: { failed: boolean; durationMs: number }): void {
  const pace = paces.get(endpointId)!;
  pace.suspect = failed || durationMs > SLOW_MS;
  pace.allowed = pace.suspect ? Math.max(1, pace.allowed >> 1) : Math.min(MOST_ROOM, pace.allowed * 2);
  if (!failed) pace.underWay--;
}

/** A failure was stored. */
export function storeFailure(paces: Paces, endpointId: string): void {
  paces.get(endpointId)!.underWay--;
}

/** Forgets endpoints without requests when there are too many. */
export function forgetIdle(paces: Paces): void {
  if (paces.size <= REMEMBERED) return;
  for (const [id, pace] of paces) if (pace.underWay === 0) paces.delete(id);
}

/** How much to lease while `running` of `concurrency` requests are under way; null when no slot is free. */
export function roomFor(
  paces: Paces,
  { running, concurrency }: { running: number; concurrency: number },
): {
  limit: number;
  suspectLimit: number;
  merchantLimit: number;
  merchantSuspectLimit: number;
  lanes: number;
  rooms: Room[];
  shares: Share[];
} | null {
  const limit = concurrency - running;
  if (limit <= 0) return null;
  let suspects = 0;
  const shares = new Map<string, Share>();
  for (const { merchantId, suspect, underWay } of paces.values()) {
    if (underWay === 0) continue;
    const share = shares.get(merchantId) ?? { merchantId, underWay: 0, suspects: 0 };
    shares.set(merchantId, share);
    share.underWay += underWay;
    if (!suspect) continue;
    share.suspects += underWay;
    suspects += underWay;
  }
  return {
    limit,
    suspectLimit: Math.max(0, Math.min(limit, (concurrency >> 1) - suspects)),
    lanes: Math.max(FEWEST_LANES, limit * 2),
    merchantLimit: Math.max(1, concurrency >> 2),
    merchantSuspectLimit: Math.max(1, concurrency >> 3),
    rooms: Array.from(paces, ([endpointId, { underWay, allowed, suspect }]) => ({ endpointId, underWay, allowed, suspect })),
    shares: [...shares.values()],
  };
}
