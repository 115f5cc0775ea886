/**
 * The guard of the event loop: everything waits while one request computes. It measures how late the loop is, and which route used the
 * processor for longer than any request should. CPU time is counted, not time on the clock, so that a busy machine accuses no route.
 */
import type { IncomingMessage } from 'node:http';
import { type Context, perContext } from '#context';
import { LONGEST_ORIGIN, LONGEST_PARAMETER_NAME, LONGEST_URL, MOST_HEADERS, MOST_PARAMETERS } from '#core/text';

const TICK_MS = 50;
/** A route that uses the processor longer than this without a break is counted and named. */
const HELD_MS = 100;
/** One line in the log per this time; holds in between are counted. */
const WRITE_MS = 60_000;
/** Upper ends of the buckets, in seconds. */
const ENDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
/** Work that belongs to no request, such as reading blocks. */
const BACKGROUND = 'background';

/** Delays by bucket, each with those of the smaller ones, as Prometheus counts them. */
export type Histogram = { ends: readonly number[]; counts: readonly number[]; count: number; sum: number };
type State = { counts: number[]; count: number; sum: number; holds: Map<string, number> };
const stateOf = perContext<State>(() => ({ counts: ENDS.map(() => 0), count: 0, sum: 0, holds: new Map() }));

/** How late the loop of this process was, and how often each route held it. */
export function readLoop(ctx: Context): { delays: Histogram; holds: ReadonlyMap<string, number> } {
  const { counts, count, sum, holds } = stateOf(ctx);
  return { delays: { ends: ENDS, counts, count, sum }, holds };
}

export type LoopGuard = {
  /** The request begins: what follows is its work. */
  begin(route: string): void;
  /** The request is answered: what came before was its work. */
  end(route: string): void;
  stop(): void;
};

/** Milliseconds that this thread has computed. */
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};

/** Starts the guard of the process. */
export function startLoopGuard(ctx: Context): LoopGuard {
  const state = stateOf(ctx);
  let lastMs = ctx.clock.monotonicMs();
  let lastCpuMs = cpuMs();
  /** The request that was begun or answered last, until the loop turns. */
  let lastRoute = BACKGROUND;
  let writtenMs = Number.NEGATIVE_INFINITY;
  let unwritten = 0;

  const held = (route: string, ms: number) => {
    state.holds.set(route, (state.holds.get(route) ?? 0) + 1);
    if (route === BACKGROUND) return;
    unwritten++;
    const nowMs = ctx.clock.monotonicMs();
    if (nowMs - writtenMs < WRITE_MS) return;
    ctx.log.warn({ route, ms: Math.round(ms), holds: unwritten }, 'A request kept all others waiting');
    writtenMs = nowMs;
    unwritten = 0;
  };
  /** The work since the last mark belongs to the request that ends it, or to the last one that was seen. */
  const mark = (ended: string | null, next: string) => {
    const now = cpuMs();
    if (now - lastCpuMs >= HELD_MS) held(ended ?? lastRoute, now - lastCpuMs);
    lastCpuMs = now;
    lastRoute = next;
  };
  const timer = setInterval(() => {
    mark(null, BACKGROUND);
    const nowMs = ctx.clock.monotonicMs();
    const late = Math.max(0, nowMs - lastMs - TICK_MS) / 1_000;
    lastMs = nowMs;
    state.count++;
    state.sum += late;
    for (const [i, end] of ENDS.entries()) if (late <= end) state.counts[i]!++;
  }, TICK_MS);
  timer.unref();
  return { begin: (route) => mark(null, route), end: (route) => mark(route, route), stop: () => clearInterval(timer) };
}

// The bounds of a request line and its headers, which are checked before anything reads them.

/** What exceeds a bound, as the end of "cannot be read:"; null for all requests of honest clients. */
export function excessOf({ url = '', rawHeaders, headers }: Pick<IncomingMessage, 'url' | 'rawHeaders' | 'headers'>): string | null {
  if (rawHeaders.length > 2 * MOST_HEADERS) return `it has more than ${MOST_HEADERS} header lines`;
  if ((headers.origin?.length ?? 0) > LONGEST_ORIGIN) return `its Origin header has more than ${LONGEST_ORIGIN} characters`;
  if (url.length > LONGEST_URL) return `its URL has more than ${LONGEST_URL} characters`;
  const query = url.indexOf('?');
  return query < 0 ? null : excessOfPairs(url.slice(query + 1), 'its query');
}

/** The same for what is written as `name=value&name=value`. */
export function excessOfPairs(text: string, what: string): string | null {
  const pairs = text.split('&', MOST_PARAMETERS + 1);
  if (pairs.length > MOST_PARAMETERS) return `${what} has more than ${MOST_PARAMETERS} parameters`;
  const isLong = pairs.some((pair) => pair.length > LONGEST_PARAMETER_NAME && !pair.slice(0, LONGEST_PARAMETER_NAME + 1).includes('='));
  return isLong ? `${what} has a parameter whose name has more than ${LONGEST_PARAMETER_NAME} characters` : null;
}
