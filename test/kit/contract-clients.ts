/** Clients and receivers that were written from the documented interface alone, one file a language, run against the service. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { eventually, type TestApp } from './app.ts';
import { freePort } from './nodes.ts';
import { existsOnPath } from './tools.ts';

const FOLDER = resolve(import.meta.dirname, '../contract/clients');
/** What a client prints when each call answered as documented. */
const STEPS = ['simple', 'limits', 'advanced', 'legacy', 'transaction', 'completed', 'list', 'invalid', 'unauthorized'];

/** `program` must be installed; `build` makes what `run` starts, in a folder of its own. */
type Language = { name: string; program: string; build?(folder: string): string[]; run(folder: string): string[] };
export const CONTRACT_LANGUAGES: readonly Language[] = [
  { name: 'PHP', program: 'php', run: () => ['php', join(FOLDER, 'client.php')] },
  { name: 'Python', program: 'python3', run: () => ['python3', join(FOLDER, 'client.py')] },
  { name: 'Ruby', program: 'ruby', run: () => ['ruby', join(FOLDER, 'client.rb')] },
  {
    name: 'Go',
    program: 'go',
    build: (folder) => ['go', 'build', '-o', join(folder, 'client'), join(FOLDER, 'client.go')],
    run: (folder) => [join(folder, 'client')],
  },
  {
    name: 'Java',
    program: 'javac',
    build: (folder) => ['javac', '-nowarn', '-d', folder, join(FOLDER, 'Client.java')],
    run: (folder) => ['java', '-cp', folder, 'Client'],
  },
];
export const isInstalled = ({ program }: Language): boolean => existsOnPath(program);

type Program = { lines(): string[]; ended: Promise<number | null>; process: ChildProcess };
function startProgram([command, ...args]: string[], env: Record<string, string> = {}): Program {
  const child = spawn(command!, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (text += part.toString()));
  return {
    lines: () => text.split('\n').filter((line) => line !== ''),
    ended: new Promise((done) => child.once('close', (code) => done(code))),
    process: child,
  };
}

/**
 * Runs the client of one language as a new merchant with an endpoint at its receiver, in test mode. Checks each documented step, the events
 * that the receiver accepted, and that it refuses what was not signed with the endpoint's secret.
 */
export async function runContractClient(app: TestApp, language: Language): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'florin-client-'));
  let receiver: Program | null = null;
  try {
    if (language.build) {
      const [command, ...args] = language.build(folder);
      const built = spawnSync(command!, args, { encoding: 'utf8', env: { ...process.env, GO111MODULE: 'off' } });
      assert.equal(built.status, 0, built.stderr);
    }
    const { merchantId, keys } = await createMerchant(app.app.ctx, { name: `${language.name} shop`, plan: 'enterprise' });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/hook`;
    const { secret } = await createEndpoint(app.app.ctx, { merchantId, mode: 'test', url, events: ['*'], description: null });
    receiver =
      language.name === 'PHP'
        ? startProgram(['php', '-S', `127.0.0.1:${port}`, join(FOLDER, 'client.php')], {
            SIGNING_SECRET: secret,
            SEEN_FILE: join(folder, 'seen'),
          })
        : startProgram([...language.run(folder), 'receive', String(port), secret]);
    const forge = (signature: string) =>
      fetch(url, { method: 'POST', body: '{"id":"evt_forged"}', headers: { 'X-Service-Signature': signature } }).then(
        (reply) => reply.status,
        () => null,
      );
    const refused = await eventually(
      () => forge('0'.repeat(64)),
      (status) => status !== null,
      60_000,
    );
    assert.equal(refused, 400, 'a signature that does not match is refused');
    assert.equal(await forge(createHmac('sha256', 'another secret').update('{"id":"evt_forged"}').digest('hex')), 400);

    const client = startProgram([...language.run(folder), 'run', app.url, keys.testSecret, keys.testPublic]);
    assert.equal(await client.ended, 0, client.lines().join('\n'));
    const said = client.lines();
    assert.deepEqual(
      said.slice(0, -1),
      STEPS.map((step) => `ok ${step}`),
    );
    const paid = said.at(-1)!.replace('paid ', '');
    const eventsOf = () => receiver!.lines().filter((line) => line.startsWith('event ') && line.includes(paid));
    const events = await eventually(
      async () => eventsOf(),
      (lines) => lines.some((line) => line.includes('payment.completed')),
    );
    assert.deepEqual(
      new Set(events),
      new Set([
        `event payment.created ${paid} pending`,
        `event payment.processing ${paid} processing`,
        `event payment.completed ${paid} completed`,
      ]),
    );
    assert.equal(events.length, 3, 'each event is reported once');
  } finally {
    receiver?.process.kill('SIGKILL');
    await receiver?.ended;
    rmSync(folder, { recursive: true, force: true });
  }
}
