/** The delivery worker: leases due deliveries, sends them, and records every attempt. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from '../context.ts';
import { startLoop } from '../db/loop.ts';
import { dueIf, startQueue } from '../db/work.ts';
import { forgetEvents, stepRecovery } from './deliveries.ts';
import { beginRequest, endRequest, forgetIdle, type Paces, roomFor, storeFailure } from './pace.ts';
import { type AttemptOutcome, type Due, leaseDue, recordOutcomes } from './queue.ts';
import { sendDelivery } from './send.ts';

/** While half of the request slots are in use, rounds start this far apart, which saves statements. */
const CALM_MS = 10;
const POLL_MS = 1_000;
const HOUSEKEEPING_MS = 60_000;

export type DeliveryStats = { inFlight: number; delivered: number; failed: number };

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

async function attempt(worker: Worker, due: Due): Promise<void> {
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
