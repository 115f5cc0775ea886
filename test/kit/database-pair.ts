/** A primary database server and its standby on loopback, from Debian's PostgreSQL, which can be killed, hung, promoted and restarted. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, closeSync, cpSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDb } from '../../src/db/db.ts';
import connectPostgres from '../../src/db/driver.ts';
import { migrate } from '../../src/db/migrate.ts';
import type { RowList } from '../../src/db/sql.ts';
import { createLog } from '../../src/log.ts';
import { eventually } from './app.ts';
import { freePort } from './nodes.ts';
import { postgresPrograms, withoutRoot } from './tools.ts';

const PROGRAMS = postgresPrograms();
export const missingServer = PROGRAMS === null && "Debian's package postgresql is not installed";

/** Synchronous replication waits for the standby only once it is connected. */
const SYNCHRONOUS = { synchronous_standby_names: '*' };
const HBA = 'local all all trust\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n';

export type Server = {
  port: number;
  start(): Promise<void>;
  /** Ends all its processes at once, as a power cut does. */
  kill(): Promise<void>;
  /** Stops all its processes without ending them, as a storage stall does; `resume` lets them go on. */
  hang(): void;
  resume(): void;
  promote(): Promise<void>;
  /** Runs one statement as a superuser. */
  ask(statement: string): Promise<RowList>;
};

function run(program: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(...withoutRoot([join(PROGRAMS!, program), ...args]), { cwd: '/', encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program}: ${stderr}`);
}

function createServerIn(folder: string, port: number): Server {
  let child: ChildProcess | null = null;
  const own = (): number[] => {
    const pid = child!.pid!;
    const children = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
      .stdout.split('\n')
      .filter(Boolean);
    return [pid, ...children.map(Number)];
  };
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of own())
      try {
        process.kill(pid, name);
      } catch {
        // It has just ended.
      }
  };
  const ask: Server['ask'] = async (statement) => {
    const sql = connectPostgres({
      host: '127.0.0.1',
      port,
      database: 'postgres',
      user: 'postgres',
      max: 1,
    });
    try {
      return await sql.unsafe(statement);
    } finally {
      await sql.end({ timeout: 1 });
    }
  };
  return {
    port,
    start: async () => {
      const out = openSync(`${folder}.log`, 'a');
      const settings = {
        port,
        listen_addresses: '127.0.0.1',
        unix_socket_directories: '',
        max_connections: 200,
        wal_keep_size: '256MB',
        ssl: 'on',
        shared_buffers: '32MB',
      };
      const command = [
        join(PROGRAMS!, 'postgres'),
        '-D',
        folder,
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ];
      child = spawn(...withoutRoot(command), { cwd: '/', stdio: ['ignore', out, out], env: { LC_ALL: 'C', PATH: '/usr/bin:/bin' } });
      closeSync(out);
      await eventually(
        () =>
          ask('select 1').then(
            () => true,
            () => false,
          ),
        Boolean,
        60_000,
      ).catch((error) => {
        throw new Error(readFileSync(`${folder}.log`, 'utf8').slice(-2_000), { cause: error });
      });
    },
    kill: async () => {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      signal('SIGKILL');
      await ended;
    },
    hang: () => signal('SIGSTOP'),
    resume: () => signal('SIGCONT'),
    promote: async () => void (await ask('select pg_promote(true, 60)')),
    ask,
  };
}

export type Pair = {
  primary: Server;
  standby: Server;
  url: string;
  folder: string;
  /** The self-signed certificate of both servers, for the name `localhost`. */
  certificate: string;
  stop(): Promise<void>;
};
export type Template = { pair(options: { synchronous: boolean }): Promise<Pair>; remove(): void };

function certify(folder: string): void {
  const files = ['-keyout', join(folder, 'server.key'), '-out', join(folder, 'server.crt')];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const { status, stderr } = spawnSync(
    'openssl',
    ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1', ...names, ...files],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  chmodSync(join(folder, 'server.key'), 0o600);
}

/** A migrated database in a stopped server, of which each pair is a copy. */
export async function createTemplate(fill: (url: string) => Promise<void> = async () => {}): Promise<Template> {
  const folder = mkdtempSync('/dev/shm/florin-pair-');
  const origin = join(folder, 'origin');
  run('initdb', [
    '-D',
    origin,
    '-U',
    'postgres',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--locale=C.UTF-8',
    '--wal-segsize=4',
    '--no-sync',
    '--no-instructions',
  ]);
  writeFileSync(join(origin, 'pg_hba.conf'), HBA);
  certify(origin);
  const first = createServerIn(origin, await freePort());
  await first.start();
  await first.ask('create role florin login');
  await first.ask('create database florin owner florin');
  const url = `postgres://florin@127.0.0.1:${first.port}/florin`;
  const db = await openDb({ url, log: createLog('error') });
  await migrate(db, createLog('error'));
  await fill(url);
  await db.close();
  run('pg_ctl', ['-D', origin, '-m', 'fast', '-w', 'stop']);
  let pairs = 0;
  const copy = (to: string, lines: Record<string, string>): void => {
    cpSync(origin, to, { recursive: true, preserveTimestamps: true });
    const text = Object.entries(lines).map(([name, value]) => `${name} = '${value}'\n`);
    writeFileSync(join(to, 'postgresql.auto.conf'), text.join(''));
  };
  return {
    pair: async ({ synchronous }) => {
      const home = join(folder, `pair-${pairs++}`);
      const [one, two] = [await freePort(), await freePort()];
      copy(join(home, 'one'), synchronous ? SYNCHRONOUS : {});
      copy(join(home, 'two'), { primary_conninfo: `host=127.0.0.1 port=${one} user=postgres application_name=two` });
      writeFileSync(join(home, 'two', 'standby.signal'), '');
      spawnSync('chmod', ['-R', 'go-rwx', join(home, 'one'), join(home, 'two')]);
      const [primary, standby] = [createServerIn(join(home, 'one'), one), createServerIn(join(home, 'two'), two)];
      await Promise.all([primary.start(), standby.start()]);
      await eventually(
        () => primary.ask('select sync_state from pg_stat_replication'),
        ([row]) => row?.sync_state === (synchronous ? 'sync' : 'async'),
        60_000,
      );
      return {
        ...{ primary, standby, folder: home, certificate: join(home, 'one', 'server.crt') },
        url: `postgres://florin@127.0.0.1:${one},127.0.0.1:${two}/florin`,
        stop: async () => {
          await Promise.all([primary.kill(), standby.kill()]);
          rmSync(home, { recursive: true, force: true });
        },
      };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
