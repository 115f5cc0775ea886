/** The service as a real process, used like an operator, a merchant and a customer do; it can be killed at any moment. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { parseCommand } from '../../src/cli/command.ts';
import { loadCommands, runCommand } from '../../src/cli/run.ts';
import { readConfig } from '../../src/config.ts';
import { type Client, client, eventually, testEnvironment } from './app.ts';
import { type TestDatabase, testDatabase } from './database.ts';
import { freePort } from './nodes.ts';
import { agePayment } from './payments.ts';
import { QUICKLY } from './quickly.ts';
import { type Receiver, startReceiver } from './receiver.ts';

export type Service = {
  url: string;
  database: TestDatabase;
  merchantId: string;
  /** The link with which its owner signs up. */
  setupUrl: string;
  liveSecret: string;
  testSecret: string;
  testPublic: string;
  live: Client;
  test: Client;
  receiver: Receiver;
  secret: string;
  /** Runs an operator command. Returns its JSON, also of checks that found something. */
  florin(...args: string[]): Promise<any>;
  start(): Promise<void>;
  /** The process that serves now. */
  pid(): number;
  /** Ends the process, with KILL without a chance to clean up. */
  end(signal?: NodeJS.Signals): Promise<void>;
  /** Opens the payment's page and chooses a coin as a browser without JavaScript does. Returns the page's text. */
  choose(paymentId: string, coin: string): Promise<string>;
  /** Moves everything stored about a payment into the past, as if that much time had passed. */
  age(paymentId: string, seconds: number): Promise<void>;
  /** Moves the payment into the past until its deadline is now: no source was read since then, however long the test took so far. */
  ageToDeadline(paymentId: string): Promise<void>;
  /**
   * Lets so much time pass after the deadline of a payment while the source of a coin is away, and waits until the payment was settled then.
   */
  passUnread(coin: string, paymentId: string, seconds: number): Promise<void>;
  /** Waits until the follower of a coin has read the current state of everything, and dependent payments are settled. */
  looked(coin: string): Promise<void>;
  /** The events that the merchant's receiver got for a payment, each once, in order of arrival, signatures checked. */
  eventsOf(paymentId: string): string[];
  destroy(): Promise<void>;
};

/**
 * Runs an operator command with the settings of a service. It runs in this process, which is another one than that of the service: a
 * process for each command would take half a second of the processor. Returns its JSON, also of checks that found something.
 */
export async function runFlorin(env: Readonly<Record<string, string>>, args: readonly string[]): Promise<any> {
  const parsed = parseCommand([...args, '--json'], await loadCommands(args[0]));
  if (!('command' in parsed)) throw new Error(`"${args.join(' ')}" is no command`);
  let printed = '';
  await runCommand(parsed.command, {
    config: readConfig(env),
    flags: parsed.flags,
    show: (result) => {
      printed = JSON.stringify(result);
    },
  });
  return JSON.parse(printed);
}

/** Starts a service on its own database, with one Enterprise merchant and an endpoint of the given mode for all events. */
export async function startService({
  environment = {},
  mode = 'live',
  events = '*',
  parent,
}: {
  environment?: Record<string, string>;
  mode?: 'live' | 'test';
  events?: string;
  parent?: string;
} = {}): Promise<Service> {
  const database = await testDatabase(parent === undefined ? {} : { parent });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = {
    PATH: process.env.PATH ?? '',
    ...testEnvironment(database.url, database.folder, { PORT: String(port), PUBLIC_URL: url, LOG_LEVEL: 'fatal', ...environment }),
  };
  let child: ChildProcess | null = null;
  const florin = (...args: string[]) => runFlorin(env, args);
  const start = async () => {
    const started = spawn(process.execPath, [...QUICKLY, 'src/main.ts', 'serve'], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    child = started;
    await eventually(
      async () => {
        if (started.exitCode !== null) throw new Error(`the service ended with ${started.exitCode}`);
        return fetch(`${url}/healthz`).then(
          (reply) => reply.ok,
          () => false,
        );
      },
      (up) => up,
      30_000,
    );
  };
  const end = async (signal: NodeJS.Signals = 'SIGTERM') => {
    const ending = child;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, 'exit');
    ending.kill(signal);
    await ended;
  };
  const ageToDeadline = async (paymentId: string) => {
    const [row] = await database.db.sql<{ seconds: number }[]>`
      select extract(epoch from expires_at - clock_timestamp())::float8 as seconds from payments where id = ${paymentId}`;
    await agePayment(database.db, paymentId, row!.seconds);
  };
  const merchant = await florin('merchant', 'create', '--name', 'Test shop', '--plan', 'enterprise');
  const receiver = await startReceiver();
  const { secret } = await florin(
    ...['endpoint', 'create', '--merchant', merchant.merchant_id, '--mode', mode, '--url', receiver.url, '--events', events],
  );
  await start();
  return {
    url,
    database,
    merchantId: merchant.merchant_id,
    setupUrl: merchant.setup_url,
    liveSecret: merchant.keys.live_secret,
    testSecret: merchant.keys.test_secret,
    testPublic: merchant.keys.test_public,
    live: client(url, merchant.keys.live_secret),
    test: client(url, merchant.keys.test_secret),
    receiver,
    secret,
    florin,
    start,
    pid: () => child!.pid!,
    end,
    choose: async (paymentId, coin) => {
      const page = await (await fetch(`${url}/pay?id=${paymentId}`)).text();
      const token = /name="token" value="([^"]+)"/.exec(page)?.[1];
      if (!token) throw new Error(`the page has no form: ${page.slice(0, 500)}`);
      const reply = await fetch(`${url}/pay/select`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ id: paymentId, token, currency: coin }).toString(),
      });
      const text = await reply.text();
      if (!reply.ok) throw new Error(`choosing ${coin} answered ${reply.status}: ${text.slice(0, 2_000)}`);
      return text;
    },
    age: (paymentId, seconds) => agePayment(database.db, paymentId, seconds),
    ageToDeadline,
    passUnread: async (coin, paymentId, seconds) => {
      const { sql } = database.db;
      // What was under way when the source went away has ended.
      await eventually(
        () => sql<{ isAway: boolean }[]>`select failures > 0 or behind_code is not null as "isAway" from followers where chain = ${coin}`,
        ([row]) => row?.isAway === true,
        60_000,
      );
      await ageToDeadline(paymentId);
      await sql`
        update tips set scanned_through = scanned_through - make_interval(secs => ${seconds}), looked_at = looked_at - make_interval(secs => ${seconds})
        where chain = ${coin}`;
      await agePayment(database.db, paymentId, seconds);
      await eventually(
        () => sql<{ isDue: boolean }[]>`select due_at <= clock_timestamp() as "isDue" from payments where id = ${paymentId}`,
        ([row]) => row!.isDue !== true,
        60_000,
      );
    },
    looked: async (coin) => {
      const { sql } = database.db;
      const [from] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
      await eventually(
        async () =>
          (
            await sql<{ done: boolean }[]>`
              select exists (select 1 from tips where chain = ${coin} and scanned_through > ${from!.now})
                and not exists (select 1 from due_work where kind = 'settle') as done`
          )[0]!.done,
        (done) => done,
        20_000,
      );
    },
    eventsOf: (paymentId) => {
      const seen = new Map<string, string>();
      for (const { headers, body, event } of receiver.received) {
        if (event.data.id !== paymentId) continue;
        const signature = createHmac('sha256', secret).update(body).digest('hex');
        if (headers['x-service-signature'] !== signature) throw new Error(`a delivery of ${event.id} is not signed`);
        const known = seen.get(event.id);
        if (known !== undefined && known !== body) throw new Error(`${event.id} was delivered with two bodies`);
        seen.set(event.id, body);
      }
      return [...seen.values()].map((body) => JSON.parse(body).type.replace('payment.', ''));
    },
    destroy: async () => {
      await end();
      await receiver.stop();
      await database.drop();
    },
  };
}
