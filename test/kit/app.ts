/** The whole service on its own database: in this process for stories, or as a real process that can be killed. */
import { type App, type Role, startApp } from '../../src/app.ts';
import type { SourceReplacements } from '../../src/chains/open-sources.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { Coin } from '../../src/core/coin.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { emptyDatabase } from './database.ts';

export type Reply = { status: number; headers: Headers; text: string; json: any };
export type Client = {
  get(path: string, headers?: Record<string, string>): Promise<Reply>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>;
  delete(path: string, headers?: Record<string, string>): Promise<Reply>;
};

/** A client with one key. String bodies are sent as they are. */
export function client(url: string, key: string | null): Client {
  const send = async (method: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> => {
    const reply = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await reply.text();
    let json: unknown = null;
    try {
      json = JSON.parse(text);
    } catch {}
    return { status: reply.status, headers: reply.headers, text, json };
  };
  return {
    get: (path, headers) => send('GET', path, undefined, headers),
    post: (path, body = {}, headers) => send('POST', path, body, headers),
    delete: (path, headers) => send('DELETE', path, undefined, headers),
  };
}

export type TestApp = {
  app: App;
  url: string;
  config: Config;
  merchant: NewMerchant;
  test: Client;
  live: Client;
  testPublic: Client;
  anonymous: Client;
  /** A client with another key. */
  as(key: string): Client;
  stop(): Promise<void>;
};

/** No test connects to the coins' real networks: peers and servers are those on loopback that a test names. */
const noStrangers = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    ['BTC', 'LTC', 'DASH', 'DOGE'].flatMap((coin) => [
      ...(environment[`${coin}_PEERS`] ? [] : [[`${coin}_P2P`, 'off'] as const]),
      [`${coin}_ELECTRUM_URL`, 'off'] as const,
    ]),
  );

/** Settings of a test service: loopback, a free port, static prices, receivers on loopback allowed. */
export const testEnvironment = (databaseUrl: string, dataFolder: string, more: Record<string, string> = {}): Record<string, string> => ({
  PORT: '0',
  DATABASE_URL: databaseUrl,
  FLORIN_DATA: dataFolder,
  SECRET_KEY: 'a key for tests only',
  LOG_LEVEL: 'error',
  PRICES: 'static:BTC=97000.00,ETH=3500.00,LTC=100.00,DASH=30.00,DOGE=0.20',
  WEBHOOK_ALLOW: '127.0.0.0/8',
  PUBLIC_URL: 'http://localhost:3000',
  // Services in separate processes are started again and again, so they read compiled code from a cache.
  ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
  ...noStrangers(more),
  ...more,
});

/**
 * Starts the service in this process, with one Enterprise merchant. `starts`: where proven chains begin; by default no chain is proven,
 * because the blocks of most tests have no work.
 */
export async function startTestApp(
  environment: Record<string, string> = {},
  { roles, starts = () => null, ...replaced }: { roles?: readonly Role[] } & SourceReplacements = {},
): Promise<TestApp> {
  const database = await emptyDatabase();
  const config = readConfig(testEnvironment(database.url, database.folder, environment));
  const app = await startApp(config, { log: createLog(config.logLevel), starts, ...(roles && { roles }), ...replaced });
  const merchant = await createMerchant(app.ctx, { name: 'Test shop' });
  const url = app.url!;
  return {
    app,
    url,
    config,
    merchant,
    test: client(url, merchant.keys.testSecret),
    live: client(url, merchant.keys.liveSecret),
    testPublic: client(url, merchant.keys.testPublic),
    anonymous: client(url, null),
    as: (key) => client(url, key),
    stop: async () => {
      await app.stop();
      await database.drop();
    },
  };
}

/** As if the nodes of these coins had been answering all day: their addresses are issued, although nothing answers. */
export async function asIfFollowed(app: TestApp, ...coins: Coin[]): Promise<void> {
  await app.app.ctx.db.sql`
    insert into tips (chain, height, hash, scanned_through, looked_at, watched_from, watched_parent, watched_since)
    select code, 0, 'nobody', clock_timestamp(), clock_timestamp() + interval '1 day', 1, 'nobody', clock_timestamp()
    from unnest(${coins}::text[]) as c (code)`;
}

/**
 * Two api processes share the store of limits once each continues the other's count. A starting process does not wait for the store. The
 * first one is asked again, because counts that are kept apart may differ by one, too.
 */
export async function countingAsOne(one: () => Promise<Reply>, other: () => Promise<Reply>): Promise<void> {
  const left = async (ask: () => Promise<Reply>) => Number((await ask()).headers.get('x-ratelimit-remaining') ?? Number.NaN);
  await eventually(
    async () => [await left(one), await left(other), await left(one)] as const,
    ([first, second, third]) => first - second === 1 && second - third === 1,
    60_000,
  );
}

/** What a service wrote, without the warning that it runs as root, which tests may do. */
export const withoutRootWarning = (text: string): string => text.replace(/\nWARNING: Florin is running as root[\s\S]*?1024\.\n/, '');

/** Repeats a request until `done` returns true, for at most `timeoutMs`. Returns the last answer, or fails with it. */
export async function eventually<T>(ask: () => Promise<T>, done: (answer: T) => boolean, timeoutMs = 30_000): Promise<T> {
  // Limited by the number of looks: a machine that stalls for a while uses up one of them, not all the time.
  for (let waited = 0, pause = 50; ; waited += pause) {
    const answer = await ask();
    if (done(answer)) return answer;
    if (waited >= timeoutMs)
      throw new Error(
        `not reached within ${timeoutMs} ms; last answer: ${JSON.stringify(answer, (_, v) => (typeof v === 'bigint' ? String(v) : v))}`,
      );
    // Looks take processor time from what they wait for, so those for something slow are further apart.
    pause = Math.max(50, Math.min(waited / 4, 150));
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
