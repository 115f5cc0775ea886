/** A real Medusa store from npm, with the packed provider and a database of its own. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { packProvider } from '../../scripts/medusa.ts';
import { eventually, type TestApp } from './app.ts';
import { testDatabase } from './database.ts';
import { startDatabaseProxy } from './database-proxy.ts';
import { freePort } from './nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const STORE = join(ROOT, 'test/fixtures/medusa');
const run = promisify(execFile);
const MINUTES = 60_000;
/** Where Medusa takes webhooks of the provider. */
export const HOOKS = '/hooks/payment/florin_florin';

/** Medusa from npm, as its lock file names it: 680 MB, kept for later runs. Nothing of it is run while it is installed. */
export async function installMedusa(): Promise<string> {
  const lock = readFileSync(join(STORE, 'package-lock.json'));
  const kept = join(ROOT, '.cache', `medusa-${createHash('sha256').update(lock).digest('hex').slice(0, 12)}`);
  if (existsSync(kept)) return kept;
  const work = `${kept}-${process.pid}`;
  mkdirSync(work, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(STORE, file), join(work, file));
  try {
    // Not `npm ci`: it demands the native packages of all other platforms, and no registry has to have them.
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: work, maxBuffer: 64 << 20 });
    renameSync(work, kept);
    return kept;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A store: its own folder with Medusa's packages, and beside them the provider, unpacked as npm does. */
async function createStore(home: string): Promise<string> {
  const packages = join(await installMedusa(), 'node_modules');
  const archive = await packProvider(home);
  const folder = join(home, 'store');
  mkdirSync(join(folder, 'node_modules'), { recursive: true });
  for (const file of ['medusa-config.js', 'seed.js', 'package.json']) cpSync(join(STORE, file), join(folder, file));
  for (const name of (await run('ls', ['-A', packages])).stdout.trim().split('\n'))
    symlinkSync(join(packages, name), join(folder, 'node_modules', name));
  await run('tar', ['-xzf', archive], { cwd: home });
  // A copy, not a link: what it requires is looked for beside it.
  cpSync(join(home, 'package'), join(folder, 'node_modules/medusa-payment-florin'), { recursive: true });
  return folder;
}

export type MedusaStore = {
  url: string;
  /** For files of a test. */
  home: string;
  /** What its log says. */
  output(): string;
  /** A request of the administration, or of a storefront. */
  ask(path: string, body?: object): Promise<any>;
  region: string;
  variant: string;
  stop(): Promise<void>;
};

/**
 * Starts a store that is connected to a service. `florinUrl` and `hooksUrl`: where it reaches the service, and where the service sends its
 * webhooks, when a test reads what passes.
 */
export async function startMedusa(
  app: TestApp,
  {
    florinUrl = app.url,
    hooksUrl = null,
    webhookDelayMs = null,
  }: { florinUrl?: string; hooksUrl?: string | null; webhookDelayMs?: number | null } = {},
): Promise<MedusaStore> {
  const home = mkdtempSync(join(tmpdir(), 'florin-medusa-'));
  const database = await testDatabase();
  const folder = await createStore(home);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const endpoint = await app.test.post('/v1/webhook_endpoints', { url: hooksUrl ?? `${url}${HOOKS}`, events: ['*'] });
  await database.db.sql.unsafe(`create database medusa_${port}`);
  // Medusa connects over TCP only.
  const proxy = await startDatabaseProxy({ host: database.connection.host, port: 5432, database: `medusa_${port}`, user: 'florin' });
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: home,
    NODE_ENV: 'production',
    MEDUSA_DISABLE_TELEMETRY: 'true',
    DATABASE_URL: proxy.url,
    PORT: String(port),
    FLORIN_URL: florinUrl,
    FLORIN_API_KEY: app.merchant.keys.testSecret,
    FLORIN_WEBHOOK_SECRET: endpoint.json.secret,
    ...(webhookDelayMs !== null && { WEBHOOK_DELAY_MS: String(webhookDelayMs) }),
  };
  const command = (...args: string[]) => [join(folder, 'node_modules/@medusajs/cli/cli.js'), ...args];
  const options = { cwd: folder, env, maxBuffer: 64 << 20 };
  await run(process.execPath, command('db:migrate', '--skip-scripts'), options);
  const { stdout } = await run(process.execPath, command('exec', './seed.js'), options);
  const { publishable, secret, region, variant } = JSON.parse(/^SEEDED (.*)$/m.exec(stdout)![1]!);
  const medusa = spawn(process.execPath, command('start'), { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [medusa.stdout!, medusa.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  const stop = async () => {
    if (medusa.exitCode === null) {
      const ended = once(medusa, 'exit');
      medusa.kill('SIGTERM');
      await ended;
    }
    await proxy.stop();
    await database.drop();
    rmSync(home, { recursive: true, force: true });
  };
  const isUp = async () => {
    assert.equal(medusa.exitCode, null, output);
    return fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  await eventually(isUp, (up) => up, 2 * MINUTES).catch(async (error) => {
    await stop();
    throw error;
  });
  const basic = `Basic ${Buffer.from(`${secret}:`).toString('base64')}`;
  const ask = async (path: string, body?: object) => {
    const reply = await fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'content-type': 'application/json',
        ...(path.startsWith('/admin') ? { authorization: basic } : { 'x-publishable-api-key': publishable }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: reply.status, ...((await reply.json()) as object) };
  };
  return { url, home, output: () => output, ask, region, variant, stop };
}
