/** The cluster of deploy/ha on loopback, started by its own script, whose machines can be killed, hung and brought back. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually, testEnvironment } from './app.ts';
import { runFlorin } from './service.ts';
import { existsOnPath } from './tools.ts';

export const MACHINES = ['one', 'two', 'three'] as const;
export type Machine = (typeof MACHINES)[number];
const PROGRAMS = ['patroni', 'etcd', 'haproxy'];
const missing = PROGRAMS.filter((program) => !existsOnPath(program));
export const missingCluster = missing.length > 0 && `${missing.join(', ')} are not installed`;

export type Cluster = {
  /** Where HAProxy answers. */
  url: string;
  addressOf(machine: Machine): string;
  /** The settings of a process of Florin. */
  settings: Readonly<Record<string, string>>;
  florin(...args: string[]): Promise<any>;
  /** The machine that Patroni calls the leader, once there is one. */
  leader(): Promise<Machine>;
  /** Waits until all machines follow the leader: a machine that is lost before another one is back leaves one alone, which acknowledges nothing. */
  isSafe(): Promise<void>;
  /** Signals Patroni and PostgreSQL of a machine, with all their processes. */
  signal(machine: Machine, name: NodeJS.Signals): void;
  /** Ends a machine at once, as a power cut does: it stays away until `revive`. */
  kill(machine: Machine): void;
  revive(machine: Machine): void;
  /** Ends the processes of Florin on a machine in order, and waits until they are back and its API is ready. */
  restart(machine: Machine): Promise<void>;
  /** The folders of the code that the processes of Florin run. */
  running(): string[];
  stop(): Promise<void>;
};

type Member = { role: string; state: string; lag?: number | string };
const readFile = (path: string): string => readFileSync(path, 'utf8');
const childrenOf = (pid: number): number[] =>
  spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter(Boolean)
    .map(Number);
/** Asks until there is an answer; what fails meanwhile has none. */
const until = async <T>(ask: () => Promise<T | null>): Promise<T> =>
  (await eventually(
    () => ask().catch(() => null),
    (answer) => answer !== null,
    180_000,
  ))!;

/**
 * Starts it with these settings for all processes of Florin beside those of tests. `code`: a folder with the code of each machine, under its
 * name, instead of this one.
 */
export async function startCluster(more: Record<string, string> = {}, code?: string): Promise<Cluster> {
  const home = mkdtempSync('/dev/shm/florin-cluster-');
  // PostgreSQL runs as another user than root.
  spawnSync('chmod', ['711', home]);
  const folder = join(home, 'cluster');
  const net = `127.${1 + Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}`;
  const { PORT, DATABASE_URL, FLORIN_DATA, SECRET_KEY, PUBLIC_URL, ...settings } = testEnvironment('', '', { LOG_LEVEL: 'warn', ...more });
  const script = spawn('deploy/ha/try', [folder, net], {
    env: { PATH: process.env.PATH ?? '', ...settings, ...(code !== undefined && { CODE: code }) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  script.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(script, 'exit');
  const stop = async () => {
    script.kill('SIGTERM');
    await ended;
    rmSync(home, { recursive: true, force: true });
  };
  try {
    const isUp = await until(async () => (script.exitCode !== null ? false : /Florin is at/.test(said) || null));
    if (!isUp) throw new Error(`deploy/ha/try ended with ${script.exitCode}`);
  } catch (error) {
    await stop();
    throw error;
  }
  const pidOf = (part: string): number => Number(readFile(join(folder, 'pids', part)));
  const partsOf = (): string[] => readdirSync(join(folder, 'pids')).filter((part) => part.startsWith('florin-'));
  const addressOf = (machine: Machine): string => `${net}.${MACHINES.indexOf(machine) + 1}`;
  const answers = async (machine: Machine, path: string): Promise<boolean> =>
    (await fetch(`http://${addressOf(machine)}:8008/${path}`, { signal: AbortSignal.timeout(1_000) }).catch(() => null))?.status === 200;
  const which = async (path: string): Promise<Machine | null> => {
    for (const machine of MACHINES) if (await answers(machine, path)) return machine;
    return null;
  };
  const ofApi = readFile(join(folder, 'florin-api-one.env'))
    .split('\n')
    .filter((line) => /^\w+=/.test(line))
    .map((line): [string, string] => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
  const own = { ...settings, ...Object.fromEntries(ofApi), FLORIN_DATA: join(folder, 'florin-api-one') };
  const signal = (machine: Machine, name: NodeJS.Signals): void => {
    const server = join(folder, `data-${machine}`, 'postmaster.pid');
    let database: number[] = [];
    try {
      const pid = Number(readFile(server).split('\n')[0]);
      database = [pid, ...childrenOf(pid)];
    } catch {
      // It is not running.
    }
    for (const pid of [pidOf(`patroni-${machine}`), ...database])
      try {
        process.kill(pid, name);
      } catch {
        // It has just ended.
      }
  };
  return {
    url: `http://${net}.9:8080`,
    addressOf,
    settings: own,
    florin: (...args) => runFlorin(own, args),
    leader: () => until(() => which('primary')),
    isSafe: async () =>
      void (await until(async () => {
        const { members } = (await (await fetch(`http://${addressOf((await which('primary'))!)}:8008/cluster`)).json()) as {
          members: Member[];
        };
        const roles = members.filter(({ state, lag }) => /^(running|streaming)$/.test(state) && (lag ?? 0) === 0).map(({ role }) => role);
        return roles.toSorted().join() === 'leader,replica,sync_standby' ? true : null;
      })),
    signal,
    kill: (machine) => {
      writeFileSync(join(folder, 'down', `patroni-${machine}`), '');
      signal(machine, 'SIGKILL');
    },
    revive: (machine) => rmSync(join(folder, 'down', `patroni-${machine}`)),
    restart: async (machine) => {
      const parts = partsOf().filter((part) => part.endsWith(`-${machine}`));
      const before = parts.map(pidOf);
      for (const pid of before) process.kill(pid, 'SIGTERM');
      const isReady = async () => (await fetch(`http://${addressOf(machine)}:3000/readyz`)).status === 200;
      await until(async () => (parts.every((part, i) => pidOf(part) !== before[i]) && (await isReady())) || null);
    },
    running: () => partsOf().map((part) => readlinkSync(`/proc/${pidOf(part)}/cwd`)),
    stop,
  };
}
