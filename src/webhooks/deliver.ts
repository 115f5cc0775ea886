/** The worker that sends: leases due deliveries, signs, records every attempt, and retries durably. */
import type { Context } from '../context.ts';
import type { Tx } from '../db/db.ts';
import { OutgoingError } from '../outgoing.ts';
import { SECRET_PURPOSE } from './endpoints.ts';
import { signDelivery } from './sign.ts';

/** Seconds from one attempt to the next: 0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h; about 75 h in all. */
const SCHEDULE_SECONDS = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/** Jitter only ever lengthens a step: shortened ones could end before 72 h. */
const JITTER = 0.2;
const ATTEMPT_MS = 10_000;
const LEASE_SECONDS = 30;
const REPLY_BYTES = 16_384;
const REPLY_KEPT_BYTES = 4_096;
const PER_ENDPOINT = 5;
const POLL_MS = 1_000;
/** A successor waits for an earlier event of its payment through this many attempts at most. */
const ORDERED_ATTEMPTS = 3;
const DISABLE_AFTER_DAYS = 5;

type Due = {
  id: bigint;
  eventId: string;
  endpointId: string;
  attempts: number;
  /** The end of the lease as text, which is exact: it tells this lease from a later one. */
  lease: string;
  url: string;
  secret: Uint8Array;
  previousSecret: Uint8Array | null;
  body: Uint8Array;
};
type Outcome = {
  due: Due;
  number: number;
  durationMs: number;
  status: number | null;
  failure: string | null;
  headers: Record<string, string>;
  reply: Uint8Array | null;
  retryAfterSeconds: number | null;
};
export type DeliveryStats = { inFlight: number; delivered: number; failed: number };

/**
 * Starts the worker. Rows are leased with SKIP LOCKED, so several may run; a killed one's leases end by themselves and its
 * deliveries are sent again. Nothing is decided from memory but how many requests each endpoint has under way here.
 */
export function startDeliveries(
  ctx: Context,
  { pollMs = POLL_MS, concurrency = 64 }: { pollMs?: number; concurrency?: number } = {},
): {
  stop(): Promise<void>;
  stats(): DeliveryStats;
} {
  const underWay = new Map<string, number>();
  const running = new Set<Promise<void>>();
  const counts = { delivered: 0, failed: 0 };
  let finished: Outcome[] = [];
  let stopping = false;
  let woken = false;
  let wake: () => void = () => {};
  const nudge = () => {
    woken = true;
    wake();
  };
  const listening = ctx.db.sql.listen('deliveries', nudge).catch((error: unknown) => {
    ctx.log.warn({ err: error }, 'deliveries are found by polling alone');
    return null;
  });

  const attempt = async (due: Due): Promise<void> => {
    const outcome = await send(ctx, due);
    if (outcome.failure === null) counts.delivered++;
    else counts.failed++;
    finished.push(outcome);
    underWay.set(due.endpointId, underWay.get(due.endpointId)! - 1);
    nudge();
  };
  const round = async (): Promise<number> => {
    if (finished.length > 0) {
      const batch = finished;
      finished = [];
      try {
        await recordOutcomes(ctx, batch);
      } catch (error) {
        finished = [...batch, ...finished];
        throw error;
      }
    }
    const room = concurrency - running.size;
    if (stopping || room <= 0) return 0;
    const busy = [...underWay].filter(([, count]) => count >= PER_ENDPOINT).map(([id]) => id);
    const due = await leaseDue(ctx, { limit: room, busy });
    for (const row of due) {
      underWay.set(row.endpointId, (underWay.get(row.endpointId) ?? 0) + 1);
      const work: Promise<void> = attempt(row).finally(() => running.delete(work));
      running.add(work);
    }
    return due.length;
  };
  const run = async () => {
    let failures = 0;
    while (!stopping || running.size > 0 || finished.length > 0) {
      woken = false;
      let leased = 0;
      try {
        leased = await round();
        failures = 0;
      } catch (error) {
        failures++;
        ctx.log.error({ err: error, failures }, 'the delivery worker failed; leases end by themselves');
        if (stopping && failures > 3) return;
      }
      if (leased > 0 || woken || finished.length > 0) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, failures > 0 ? Math.min(pollMs * 2 ** failures, 10_000) : pollMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const done = run();
  return {
    stop: async () => {
      stopping = true;
      nudge();
      await (await listening)?.unlisten().catch(() => {});
      await done;
    },
    stats: () => ({ inFlight: running.size, ...counts }),
  };
}

/** Leases deliveries that are due, oldest first; of each endpoint and payment only the first undelivered event. */
async function leaseDue(ctx: Context, { limit, busy }: { limit: number; busy: string[] }): Promise<Due[]> {
  return ctx.db.sql<Due[]>`
    with candidates as (
      select d.id, row_number() over (partition by d.endpoint_id order by d.due_at, d.id) as place
      from deliveries d
      where d.state = 'pending' and d.due_at <= clock_timestamp() and (d.leased_until is null or d.leased_until < clock_timestamp())
        and d.endpoint_id <> all(${busy}::text[])
        and not exists (
          select 1 from deliveries o where o.endpoint_id = d.endpoint_id and o.payment_id = d.payment_id and o.sequence < d.sequence
            and o.state = 'pending' and o.attempts < ${ORDERED_ATTEMPTS})
      order by d.due_at limit ${limit * 4}
    ), chosen as (
      select d.id from deliveries d join candidates c on c.id = d.id
      -- All of it again: another worker may have been done with the row since the candidates were read.
      where c.place <= ${PER_ENDPOINT} and d.state = 'pending' and d.due_at <= clock_timestamp()
        and (d.leased_until is null or d.leased_until < clock_timestamp())
      order by c.place, d.due_at limit ${limit} for update of d skip locked
    ), leased as (
      update deliveries d set leased_until = clock_timestamp() + make_interval(secs => ${LEASE_SECONDS})
      from chosen c where d.id = c.id returning d.id, d.event_id, d.endpoint_id, d.attempts, d.leased_until::text as lease
    )
    select l.id, l.event_id as "eventId", l.endpoint_id as "endpointId", l.attempts, l.lease, e.url, e.secret,
      case when e.previous_until > clock_timestamp() then e.previous_secret end as "previousSecret", v.body
    from leased l join endpoints e on e.id = l.endpoint_id join events v on v.id = l.event_id
    order by l.id`;
}

async function send(ctx: Context, due: Due): Promise<Outcome> {
  const number = due.attempts + 1;
  const started = performance.now();
  let headers: Record<string, string> = {};
  const outcome = (more: Partial<Outcome>): Outcome => ({
    due,
    number,
    durationMs: Math.round(performance.now() - started),
    status: null,
    failure: null,
    headers,
    reply: null,
    retryAfterSeconds: null,
    ...more,
  });
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
    if (!(error instanceof OutgoingError)) ctx.log.error({ err: error, event: due.eventId }, 'a delivery could not be made');
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

/** When the next attempt is due, in seconds from now; null: it was the last. Retry-After is honoured up to twice the step. */
export function nextStepSeconds(attempts: number, retryAfterSeconds: number | null, random: number): number | null {
  const step = SCHEDULE_SECONDS[attempts];
  if (step === undefined) return null;
  const jittered = step * (1 + JITTER * random);
  return retryAfterSeconds === null ? jittered : Math.max(jittered, Math.min(retryAfterSeconds, 2 * step));
}

/** Writes what came of a batch of attempts. Only a lease that is still ours decides; a 2xx is recorded in any case. */
async function recordOutcomes(ctx: Context, outcomes: readonly Outcome[]): Promise<void> {
  const fraction = () => Buffer.from(ctx.random(4)).readUInt32BE() / 2 ** 32;
  const rows = outcomes.map((o) => {
    const next = o.failure === null ? null : nextStepSeconds(o.number, o.retryAfterSeconds, fraction());
    return {
      id: o.due.id.toString(),
      endpoint_id: o.due.endpointId,
      lease: o.due.lease,
      number: o.number,
      duration_ms: o.durationMs,
      status: o.status,
      failure: o.failure,
      request_headers: o.headers,
      reply: o.reply ? Buffer.from(o.reply).toString('base64') : null,
      next_seconds: next,
      gone: o.status === 410,
    };
  });
  await ctx.db.begin(async (tx) => {
    await tx`
      with input as (
        select * from jsonb_to_recordset(${tx.json(rows as never)}) as r (id bigint, endpoint_id text, lease text, number int, duration_ms int, status int,
          failure text, request_headers jsonb, reply text, next_seconds double precision, gone boolean)
      ), logged as (
        insert into attempts (delivery_id, number, duration_ms, status, failure, request_headers, reply)
        select id, number, duration_ms, status, failure, request_headers, decode(reply, 'base64') from input
        on conflict (delivery_id, number) do nothing
      )
      update deliveries d set
        attempts = greatest(d.attempts, i.number), leased_until = null,
        state = case when i.failure is null then 'delivered' when i.next_seconds is null or i.gone then 'failed' else 'pending' end,
        delivered_at = case when i.failure is null then clock_timestamp() else d.delivered_at end,
        due_at = case when i.failure is null or i.gone then null else clock_timestamp() + make_interval(secs => i.next_seconds) end
      from input i where d.id = i.id and d.state <> 'delivered'
        and (i.failure is null or (d.state = 'pending' and d.leased_until::text = i.lease))`;
    const failing = [...new Set(rows.filter((r) => r.failure !== null).map((r) => r.endpoint_id))].sort();
    const working = [...new Set(rows.filter((r) => r.failure === null).map((r) => r.endpoint_id))].sort();
    const gone = [...new Set(rows.filter((r) => r.gone).map((r) => r.endpoint_id))].sort();
    if (working.length > 0) {
      await tx`update endpoints set failing_since = null where id = any(${working}::text[]) and failing_since is not null`;
    }
    if (failing.length > 0) {
      const ended = await tx<{ id: string; state: string; url: string }[]>`
        update endpoints set
          failing_since = coalesce(failing_since, clock_timestamp()),
          state = case when id = any(${gone}::text[]) then 'gone'
            when failing_since < clock_timestamp() - make_interval(days => ${DISABLE_AFTER_DAYS}) then 'disabled' else state end
        where id = any(${failing}::text[]) and id <> all(${working}::text[]) and state = 'enabled'
        returning id, state, url`;
      const off = ended.filter((row) => row.state !== 'enabled');
      for (const row of off) ctx.log.warn({ endpoint: row.id, state: row.state }, 'a webhook endpoint was switched off');
      if (off.length > 0) {
        // What waits for it would be sent for days to where nobody wants it.
        await tx`
          update deliveries set state = 'failed', due_at = null, leased_until = null
          where endpoint_id = any(${off.map((row) => row.id)}::text[]) and state = 'pending'`;
      }
    }
  });
}

/** Moves the waiting deliveries of a test clock forward, in the transaction of its advance. */
export async function advanceDeliveries(
  tx: Tx,
  { merchantId, paymentId, seconds }: { merchantId: string; paymentId: string | null; seconds: number },
): Promise<void> {
  await tx`
    update deliveries set due_at = due_at - make_interval(secs => ${seconds}::double precision)
    where merchant_id = ${merchantId} and mode = 'test' and state = 'pending' and due_at is not null
      ${paymentId ? tx`and payment_id = ${paymentId}` : tx``}`;
  await tx`select pg_notify('deliveries', '')`;
}

/** Figures for the metrics: what is due now and how old the oldest is. */
export async function readDeliveryQueue(ctx: Context): Promise<{ due: number; oldestSeconds: number }> {
  const [row] = await ctx.db.sql<{ due: bigint; oldest: number | null }[]>`
    select count(*) as due, extract(epoch from clock_timestamp() - min(due_at))::float8 as oldest
    from deliveries where state = 'pending' and due_at <= clock_timestamp()`;
  return { due: Number(row!.due), oldestSeconds: row!.oldest ?? 0 };
}
