/**
 * The queue: work that is enqueued in the transaction of its effect, and done by whichever worker is free.
 *
 * It promises that committed work is never forgotten, is begun as soon as it is due, and takes effect once: the worker takes its rows with
 * `for update skip locked`, in the transaction that writes what follows from them. A row waits (`due_at` lies ahead), is due, or is gone.
 *
 * Workers sleep until something wakes them. A trigger of each table notifies the channel of the kind at the commit: at once for work that is
 * due, and `soon` for work that is due within ten seconds. For the latter, and every five seconds in any case, one statement reads when the
 * next work of each kind is due, and a timer is set to it. So what is due at 12:00:00 is begun at 12:00:00, and an idle service asks little.
 *
 * What may go wrong, and how it comes back:
 * - A notification is lost (the connection of the listener broke, or a pooler does not carry it): the regular look finds the work.
 * - A worker dies: its transaction ends with it, and the rows are due again.
 * - One row fails: the batch is done one row at a time, and the faulty one is postponed. The others do not wait for it.
 * - A row is locked by somebody else: it is skipped, and stays due. What stays due is tried again every `againMs`.
 */
import type { Log } from '#log';
import { type Loop, startLoop } from '#loop';
import type { Db, Sql, Tx } from './db.ts';
import type { Fragment } from './sql.ts';

/** The longest time between two looks. Shorter than the ten seconds of the triggers, or work that is due in between would be late. */
const LOOK_MS = 5_000;
/** The longest timer that there is. */
const UNTIL_NUDGED = 2 ** 31 - 1;
const AGAIN_MS = 250;
/** What will be due soon is looked for together, so that many notifications do not mean as many looks. */
const GATHER_MS = 50;
/** A batch or a row that failed is tried again after this long. */
const FAILED_RETRY_SECONDS = 10;

type Means = { db: Db; log: Log };
type Queue = {
  name: string;
  /** SQL: when the next of it is due; null when nothing waits. */
  due(sql: Sql): Fragment;
  againMs: number;
  nudge(): void;
};

/**
 * Starts a loop over work of a kind. `name` is also the channel that wakes it, and `round` does what is due: true when there is more, or a
 * number of milliseconds until the next round.
 */
export function startQueue(
  means: Means,
  {
    name,
    due,
    round,
    failed,
    againMs = AGAIN_MS,
  }: Pick<Queue, 'name' | 'due'> & { againMs?: number } & Pick<Parameters<typeof startLoop>[0], 'round' | 'failed'>,
): Loop {
  const loop = startLoop({ pollMs: againMs, failed, round: async (stopping) => (await round(stopping)) || UNTIL_NUDGED });
  const leave = agendaOf(means).join({ name, due, againMs, nudge: loop.nudge });
  return {
    nudge: loop.nudge,
    stop: async () => {
      await leave();
      await loop.stop();
    },
  };
}

/** What is due of the table of small works. */
export const dueWork =
  (kind: string) =>
  (sql: Sql): Fragment =>
    sql`(select min(due_at) from due_work where kind = ${kind})`;

/** As a due time: now, if the condition holds. */
export const dueIf = (sql: Sql, condition: Fragment): Fragment => sql`case when ${condition} then now() end`;

/** The queues of this process, and the loop that looks when they are due. It runs while there is a queue. */
function createAgenda(means: Means) {
  const queues = new Set<Queue>();
  let looking: Loop | null = null;
  let gathering = false;
  const lookSoon = () => {
    if (gathering) return;
    gathering = true;
    setTimeout(() => {
      gathering = false;
      looking?.nudge();
    }, GATHER_MS).unref();
  };
  const start = () =>
    startLoop({
      pollMs: AGAIN_MS,
      longestPauseMs: LOOK_MS,
      round: () => look(means, [...queues]),
      failed: (error, failures) => means.log.error({ err: error, failures }, 'Could not read what is due; retrying'),
    });
  return {
    join: (queue: Queue): (() => Promise<void>) => {
      queues.add(queue);
      looking ??= start();
      const listening = means.db.sql
        // After a lost connection, what was missed is looked for.
        .listen(queue.name, (note) => (note === 'soon' ? lookSoon() : queue.nudge()), lookSoon)
        .catch((error: unknown) => {
          means.log.warn({ err: error, work: queue.name }, 'Cannot listen for new work; polling only');
          return null;
        });
      return async () => {
        queues.delete(queue);
        await (await listening)?.unlisten().catch(() => {});
        if (queues.size > 0) return;
        const ended = looking;
        looking = null;
        await ended?.stop();
      };
    },
  };
}
const agendas = new WeakMap<Db, ReturnType<typeof createAgenda>>();
function agendaOf(means: Means): ReturnType<typeof createAgenda> {
  const agenda = agendas.get(means.db) ?? createAgenda(means);
  agendas.set(means.db, agenda);
  return agenda;
}

/** Nudges the queues that have something due. Returns how long until the next look, a little different in each process. */
async function look({ db: { sql } }: Means, queues: readonly Queue[]): Promise<number> {
  if (queues.length === 0) return LOOK_MS;
  const list = queues.map(({ due }, n) => sql`${n === 0 ? sql`` : sql`,`} (${n}::int, ${due(sql)})`);
  const rows = await sql<{ ms: number | null }[]>`
    select extract(epoch from q.due - clock_timestamp())::float8 * 1000 as ms from (values ${list}) as q (n, due) order by n`;
  let pauseMs = LOOK_MS * (0.8 + 0.2 * Math.random());
  for (const [n, { ms }] of rows.entries()) {
    if (ms === null) continue;
    const { nudge, againMs } = queues[n]!;
    if (ms <= 0) nudge();
    pauseMs = Math.min(pauseMs, ms <= 0 ? againMs : Math.ceil(ms));
  }
  return pauseMs;
}

/** How work of a kind is taken, all of it or `only` one, skipping what others work on; and postponed when it failed. */
type WorkTaker = { take(tx: Tx, limit: number, only?: string): Promise<string[]>; postpone(tx: Tx, key: string): Promise<unknown> };
export const retryTime = (sql: Sql | Tx): Fragment => sql`clock_timestamp() + make_interval(secs => ${FAILED_RETRY_SECONDS})`;

/** Takes from the table of small works. */
export const takingWork = (kind: string): WorkTaker => ({
  take: async (tx, limit, only) => {
    const rows = await tx<{ key: string }[]>`
      delete from due_work where (kind, key) in (
        select kind, key from due_work where kind = ${kind} and due_at <= clock_timestamp() ${only === undefined ? tx`` : tx`and key = ${only}`}
        order by due_at limit ${limit} for update skip locked)
      returning key`;
    return rows.map((row) => row.key);
  },
  postpone: (tx, key) => tx`update due_work set due_at = ${retryTime(tx)} where kind = ${kind} and key = ${key}`,
});

/**
 * Takes due work and does it, both in one transaction: after a crash before the commit it is still due. If it fails, each is done alone,
 * and one that fails again is postponed. Returns how many there were.
 */
export async function doDue(
  means: Means,
  { take, postpone }: WorkTaker,
  { limit, what, work }: { limit: number; what: string; work: (tx: Tx, keys: string[]) => Promise<unknown> },
): Promise<number> {
  let taken: string[] = [];
  const some = (only?: string) =>
    means.db.begin(async (tx) => {
      taken = await take(tx, limit, only);
      if (taken.length > 0) await work(tx, taken);
    });
  try {
    await some();
    return taken.length;
  } catch (error) {
    if (taken.length === 0) throw error;
    means.log.warn({ err: error, payments: taken.length }, `Could not ${what} together; trying one at a time`);
  }
  const all = taken;
  for (const key of all) {
    try {
      await some(key);
    } catch (error) {
      await means.db.begin((tx) => postpone(tx, key));
      means.log.error({ err: error, payment: key }, `Could not ${what}; retrying the one that failed`);
    }
  }
  return all.length;
}
