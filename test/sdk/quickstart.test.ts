/**
 * The quick start, with its commands run as printed in a fresh copy of the source, and how long it takes. Packages are installed, and the
 * dashboard built, only in a long run: the person who runs these tests has just done that, with the same commands.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { serviceUrl } from '../../sdk/src/cli/terminal.ts';
import { readConfig } from '../../src/config.ts';
import { findApp } from '../../src/operate/app-build.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { eventually } from '../kit/app.ts';
import { copySource, terminalEnvironment } from '../kit/copy.ts';
import { codeBlocks } from '../kit/documents.ts';
import { isLongRun } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';

const folder = mkdtempSync(join(tmpdir(), 'florin-quickstart-'));
const source = join(folder, 'florin');
const shop = join(folder, 'shop');
const running: ChildProcess[] = [];
after(async () => {
  for (const child of running.reverse()) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const ended = once(child, 'exit');
    process.kill(-child.pid!, 'SIGTERM');
    await ended;
  }
  rmSync(folder, { recursive: true, force: true });
});

const isFree = (port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = createConnection({ port, host: '127.0.0.1' }, () => {
      socket.destroy();
      done(false);
    }).on('error', () => done(true));
  });

/** Runs a block in a terminal; `exports` are the variables set there before. */
function terminal(text: string, cwd: string, exports = ''): { child: ChildProcess; output: () => string } {
  let output = '';
  const child = spawn('bash', ['-e', '-c', `${exports}\n${text}`], {
    cwd,
    env: terminalEnvironment(),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  running.push(child);
  return { child, output: () => output };
}
async function finished(text: string, cwd: string, exports?: string): Promise<string> {
  const { child, output } = terminal(text, cwd, exports);
  const [code] = await once(child, 'close');
  assert.equal(code, 0, `${text}\n${output()}`);
  return output();
}
async function shows({ child, output }: ReturnType<typeof terminal>, what: RegExp, timeoutMs: number): Promise<RegExpExecArray> {
  await eventually(
    async () => {
      if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${output()}`);
      return output();
    },
    (text) => what.test(text),
    timeoutMs,
  );
  return what.exec(output())!;
}

test('service and command line use the port that the quick start prints, without further settings', () => {
  assert.equal(readConfig({}).port, 3000);
  delete process.env.FLORIN_URL;
  assert.equal(serviceUrl({}), 'http://localhost:3000');
  assert.ok(codeBlocks('docs/guides/quickstart.md').some(({ text }) => text.includes('http://localhost:3000')));
});

test('the quick start works as printed, from a fresh copy of the source to a verified webhook', async (t) => {
  const linked = !isLongRun;
  copySource(source, { linked });
  if (linked) {
    // The dashboard of the same sources, which the first start otherwise builds.
    await buildApp({ info: () => {} });
    const built = await findApp();
    cpSync(built!, join(source, 'dist/dashboard', basename(built!)), { recursive: true });
  }
  assert.notEqual(spawnSync('node', ['--version'], { env: terminalEnvironment() }).status, null, 'there is a Node of the machine');

  // The only difference to the printed text: ports that no other program on this machine takes before the service starts.
  const ports = new Map<string, string>();
  for (const port of ['3000', '4000']) ports.set(port, String(await freePort()));
  const filled = (text: string, values: Record<string, string> = {}): string =>
    Object.entries(values)
      .reduce((all, [from, to]) => all.replaceAll(from, to), text)
      .replace(/(localhost:|listen\()(3000|4000)/g, (_, before: string, port: string) => before + ports.get(port));
  const blocks = codeBlocks('docs/guides/quickstart.md');
  const commands = blocks.filter((block) => block.language === 'sh').map((block) => block.text);
  const programs = blocks.filter((block) => block.language === 'js').map((block) => block.text);
  assert.equal(commands.length, 10);
  const [start, install, first, curl, pay, read, receive, listen, trigger, refund] = commands as string[];
  const ownPort = `export FLORIN_URL=http://localhost:${ports.get('3000')}`;
  // Settings come from .env: the port, and a value with quotes that a shell would split.
  writeFileSync(join(source, '.env'), `PORT=${ports.get('3000')}\nPLANS='{"starter":{"per_minute":60,"per_month":100}}'\n`);

  const began = performance.now();
  assert.match(start!, /^npm ci\b/);
  const service = terminal(linked ? start!.replace(/^npm ci\b(\s*&&)?/, '') : start!, source, ownPort);
  const [, key] = await shows(service, /Secret test key +(sk_test_\w+)/, 540_000);
  const started = performance.now();
  const warnings = service
    .output()
    .split('\n')
    .filter((line) => /\bwarn|deprecat/i.test(line));
  assert.deepEqual(
    // Warnings caused by the machine's own npm settings, and by unreachable price sources, are not the install's fault.
    warnings.filter(
      (line) => !/Unknown (user|env|global) config|price sources/.test(line) && !line.startsWith('WARNING: Florin is running as root'),
    ),
    [],
  );
  await finished(filled(install!), source);
  const exports = `${ownPort}\n${filled(first!, { 'sk_test_...': key! }).split('\n')[0]}`;
  const made = await finished(filled(first!, { 'sk_test_...': key! }), shop, ownPort);
  assert.match(made, /^status: completed$/m);
  t.diagnostic(
    `from the copy to the service ready ${((started - began) / 1000).toFixed(1)} s, to the first completed payment ${((performance.now() - began) / 1000).toFixed(1)} s`,
  );
  const [, id] = /payment_id: (pay_\w+)/.exec(made)!;

  writeFileSync(join(shop, 'pay.mjs'), filled(programs[0]!));
  assert.match(await finished(pay!, shop, exports), /\/pay\?id=pay_\w{24}/);
  assert.match(await finished(filled(curl!), shop, exports), /"status":"pending"/);
  const seen = await finished(filled(read!, { 'pay_...': id! }), shop, exports);
  assert.match(seen, new RegExp(`id: ${id}`));
  assert.match(seen, new RegExp(`"transaction_id":"${id}"`));

  writeFileSync(join(shop, 'receiver.mjs'), filled(programs[1]!));
  const receiver = terminal(filled(receive!), shop, exports);
  const listener = terminal(filled(listen!), shop, exports);
  await shows(listener, /Ready\./, 60_000);
  await eventually(
    () => isFree(Number(ports.get('4000'))),
    (free) => !free,
  );
  await finished(trigger!, shop, exports);
  await shows(receiver, /payment\.completed pay_\w+ completed/, 60_000);
  const refunded = await finished(filled(refund!, { 'pay_...': id! }), shop, exports);
  assert.match(refunded, /^amount_usd: 10\.00$/m);
  assert.match(refunded, /"refunds":\[\{"id":"ref_\w+","payment_id":"pay_\w+","status":"requested"/);
});
