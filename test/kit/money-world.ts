/**
 * A real node, a database, and two processes of the service that can be killed at any moment, with merchants whose keys the test has: all
 * that random schedules of money going out need.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { HDKey } from '@scure/bip32';
import { type Client, client, testEnvironment } from './app.ts';
import { type TestDatabase, testDatabase } from './database.ts';
import type { Acts, Answer, Asked } from './money-desk.ts';
import { type Ground, hashOf, type Merchant } from './money-ground.ts';

export type Given<A extends keyof Acts> = Parameters<Acts[A]>[0];
export type Desk = {
  /** What a member does there. Null: it was refused, or the process died before it answered. */
  ask<A extends keyof Acts>(act: A, given: Given<A>): Promise<Awaited<ReturnType<Acts[A]>> | null>;
  /** The API of the process, with the key of a merchant. Null: it died before it answered. */
  post(merchant: Merchant, path: string, body: object, key: string): Promise<Awaited<ReturnType<Client['post']>> | null>;
};
export type MoneyWorld = {
  ground: Ground;
  database: TestDatabase;
  merchants: readonly Merchant[];
  /** One of the processes that live. */
  desk(below: (n: number) => number): Desk;
  /** Answers so far, and how many of each refusal. */
  answers(): number;
  refusals: Map<string, number>;
  /** KILL for one of the processes, which is started again at once. Only when both live. */
  kill(which: 0 | 1): boolean;
  /** Waits until both processes live. */
  whole(): Promise<void>;
  /** Fails if a process logged an error. */
  noErrors(): void;
  stop(): Promise<void>;
};

/** What a member approves alone in a day. */
const LIMIT_CENTS = 1_500;

/** Errors that a process wrote to its log; the rest of its output is not of interest. */
type Process = Desk & { answers(): number; isAlive(): boolean; kill(): void; end(): Promise<void>; url: string | null };

async function startProcess(
  env: NodeJS.ProcessEnv,
  roles: readonly string[],
  refusals: Map<string, number>,
  written: string[],
): Promise<Process> {
  const child: ChildProcess = fork(join(import.meta.dirname, 'money-desk.ts'), roles, {
    env,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (part: Buffer) => written.push(part.toString()));
  const waiting = new Map<number, (answer: Answer | null) => void>();
  let [asked, answered, alive] = [0, 0, true];
  const ended = once(child, 'exit').then(() => {
    alive = false;
    for (const answer of waiting.values()) answer(null);
    waiting.clear();
  });
  const [{ url }] = (await Promise.race([
    once(child, 'message'),
    ended.then(() => {
      throw new Error(`the process did not start: ${written.join('')}`);
    }),
  ])) as [{ url: string | null }];
  child.on('message', (answer: Answer) => {
    answered++;
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  });
  return {
    url,
    isAlive: () => alive,
    answers: () => answered,
    ask: async (act, given) => {
      if (!alive) return null;
      const id = ++asked;
      const answer = await new Promise<Answer | null>((resolve) => {
        waiting.set(id, resolve);
        child.send({ id, act, given } satisfies Asked, (error) => error && resolve(null));
      });
      if (answer?.failed !== undefined) throw new Error(`${act} of ${JSON.stringify(given)} failed: ${answer.failed}`);
      if (answer?.refused !== undefined) refusals.set(answer.refused, (refusals.get(answer.refused) ?? 0) + 1);
      return (answer?.done ?? null) as never;
    },
    post: async (merchant, path, body, key) => {
      try {
        const reply = await client(url!, merchant.key).post(path, body, { 'Idempotency-Key': key });
        answered++;
        assert.ok(reply.status < 500 || reply.status === 503, `${path} answered ${reply.status}: ${reply.text}`);
        if (reply.status >= 400) refusals.set(reply.json.error.code, (refusals.get(reply.json.error.code) ?? 0) + 1);
        return reply;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        // The connection ended. Only a process that was killed does that.
        await ended;
        return null;
      }
    },
    kill: () => {
      alive = false;
      child.kill('SIGKILL');
    },
    end: async () => {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

/** `ground`: stopped with the world, and if that cannot be opened. `seed`: of the merchants' keys. */
export async function openMoneyWorld({
  merchants: count,
  seed,
  ground,
}: {
  merchants: number;
  seed: number;
  ground: Ground;
}): Promise<MoneyWorld> {
  const database = await testDatabase().catch(async (error) => {
    await ground.stop();
    throw error;
  });
  const environment = { ...ground.environment, LOG_LEVEL: 'error' };
  const env = { PATH: process.env.PATH, ...testEnvironment(database.url, database.folder, environment) };
  const refusals = new Map<string, number>();
  const written: string[] = [];
  const ROLES = [['api', 'watcher', 'worker'], ['api']] as const;
  const start = (which: 0 | 1) => startProcess(env, ROLES[which], refusals, written);
  const processes: Process[] = [];
  const starting: [Promise<unknown>, Promise<unknown>] = [Promise.resolve(), Promise.resolve()];
  let before = 0;
  const stop = async () => {
    await Promise.allSettled(starting);
    for (const one of processes) await one.end();
    await database.drop();
    await ground.stop();
  };
  try {
    processes.push(...(await Promise.all([start(0), start(1)])));
    const open = async (i: number): Promise<Merchant> => {
      const secret = HDKey.fromMasterSeed(hashOf(`merchant ${i} of ${seed}`)).derive(ground.accountPath).privateExtendedKey;
      const destination = ground.strangerOf(`destination ${i} of ${seed}`);
      // Half of the merchants approve large amounts with two members.
      const limit = i % 2 === 0 ? null : LIMIT_CENTS;
      const made = await processes[i % 2]!.ask('openMerchant', { secret, destination, coins: [...ground.coins], limit });
      return { id: made!.merchantId, key: made!.key, secret, destination, limit };
    };
    const merchants = await Promise.all(Array.from({ length: count }, (_, i) => open(i)));
    return {
      ...{ ground, database, merchants, refusals },
      desk: (below) => {
        const alive = processes.filter((one) => one.isAlive());
        return alive[below(alive.length)]!;
      },
      answers: () => before + processes.reduce((sum, one) => sum + one.answers(), 0),
      kill: (which) => {
        const one = processes[which]!;
        if (!processes.every((each) => each.isAlive())) return false;
        before += one.answers();
        one.kill();
        starting[which] = start(which).then((next) => {
          processes[which] = next;
        });
        return true;
      },
      whole: async () => {
        await Promise.all(starting);
      },
      noErrors: () => assert.equal(written.join(''), '', 'a process logged an error'),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
