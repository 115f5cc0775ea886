/** How many requests in a time: fixed windows from the first use, in memory or, for several api processes, in Redis or Valkey. */
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Log } from '../log.ts';

export const WINDOW_SECONDS = 60;
export type Use = { allowed: boolean; remaining: number; resetMs: number };
export type Limits = {
  /** Takes `cost` of the `points` uses of the bucket's window; a minute and one, when nothing else is said. */
  consume(bucket: string, points: number, options?: { cost?: number; seconds?: number }): Promise<Use>;
  close(): Promise<void>;
};

/**
 * Limits in this process, or shared through `redisUrl`. While the shared store does not answer each process counts by itself:
 * a payment matters more than a limit, and the limit comes back with the store.
 */
export async function openLimits({ redisUrl, log }: { redisUrl: string | null; log: Log }): Promise<Limits> {
  const store = redisUrl === null ? null : await connect(redisUrl, log);
  const limiters = new Map<string, RateLimiterMemory | RateLimiterRedis>();
  const limiterOf = (points: number, duration: number): RateLimiterMemory | RateLimiterRedis => {
    // The windows of a minute keep the name they always had in the shared store.
    const name = duration === WINDOW_SECONDS ? `florin ${points}` : `florin ${points} in ${duration}`;
    const known = limiters.get(name);
    if (known) return known;
    const here = new RateLimiterMemory({ points, duration });
    const limiter = store
      ? new RateLimiterRedis({
          storeClient: store,
          useRedisPackage: true,
          rejectIfRedisNotReady: true,
          keyPrefix: name,
          points,
          duration,
          insuranceLimiter: here,
        })
      : here;
    limiters.set(name, limiter);
    return limiter;
  };
  return {
    consume: async (bucket, points, { cost = 1, seconds = WINDOW_SECONDS } = {}) => {
      const use = (allowed: boolean, { remainingPoints, msBeforeNext }: RateLimiterRes) => ({
        allowed,
        remaining: remainingPoints,
        resetMs: msBeforeNext,
      });
      try {
        return use(true, await limiterOf(points, seconds).consume(bucket, cost));
      } catch (refused) {
        if (refused instanceof Error) throw refused;
        return use(false, refused as RateLimiterRes);
      }
    },
    close: async () => store?.destroy(),
  };
}

async function connect(url: string, log: Log) {
  // Most installs are one process: they need not read it.
  const { createClient } = await import('@redis/client');
  const store = createClient({
    url,
    // An answer in time beats an exact count: what waits for a lost connection is refused at once.
    disableOfflineQueue: true,
    socket: { connectTimeout: 2_000, reconnectStrategy: (tries: number) => Math.min(5_000, 100 * 2 ** tries) },
  });
  let told = false;
  store.on('error', (error: Error) => {
    if (!told) log.warn({ reason: error.message }, 'Redis is not responding; this process now applies rate limits on its own');
    told = true;
  });
  store.on('ready', () => {
    told = false;
  });
  // Not waited for to the end: without the store the service starts all the same.
  await Promise.race([store.connect().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 2_000).unref())]);
  return store;
}
