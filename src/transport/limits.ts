/** Rate limits: fixed windows that start at the first use, in memory or, for several API processes, in Redis or Valkey. */
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Log } from '#log';

export const WINDOW_SECONDS = 60;
export type LimitUse = { allowed: boolean; remaining: number; resetMs: number };
export type Limits = {
  /** Takes `cost` of the bucket's `points` in the window; a minute and a cost of one by default. */
  consume(bucket: string, points: number, options?: { cost?: number; seconds?: number }): Promise<LimitUse>;
  close(): Promise<void>;
};

/**
 * Limits in this process, or shared through `redisUrl`. While the shared store does not respond, each process counts on its own:
 * a payment matters more than a limit, and the shared limit returns with the store.
 */
export async function openLimits({ redisUrl, log }: { redisUrl: string | null; log: Log }): Promise<Limits> {
  const store = redisUrl === null ? null : await connect(redisUrl, log);
  const limiters = new Map<string, RateLimiterMemory | RateLimiterRedis>();
  const limiterOf = (points: number, duration: number): RateLimiterMemory | RateLimiterRedis => {
    // One-minute windows keep their original names in the shared store.
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
  // Most installs are one process and need not load it.
  const { createClient } = await import('@redis/client');
  const store = createClient({
    url,
    // A timely reply matters more than an exact count: commands waiting for a lost connection fail immediately.
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
  // Waits only briefly, because the service starts even without the store.
  await Promise.race([store.connect().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 2_000).unref())]);
  return store;
}
