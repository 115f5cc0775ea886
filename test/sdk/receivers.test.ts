/**
 * The receivers in the guides, run as printed: they keep running when a client breaks its connection or sends too much, or when the shop
 * fails.
 */
// Invariant: The printed receivers survive clients that break their connection.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { webhooks } from '../../sdk/src/index.ts';
import { signDelivery } from '../../src/deliveries/deliver.ts';
import { eventually } from '../kit/app.ts';
import { codeBlocks } from '../kit/documents.ts';
import { freePort } from '../kit/nodes.ts';
import { addPaidBy } from '../kit/printed-receivers.ts';

const secret = webhooks.newSecret();
let folder: string;
let florin: { stop(): Promise<void> };
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'florin-receivers-'));
  florin = await addPaidBy(folder, {
    ...{ id: 'pay_1', status: 'completed', exceptions: [], metadata: { order: 'A-1001' } },
    ...{ amount_refunded: '0.00000000', amount_overpaid: '0.00000000' },
  });
});
after(async () => {
  await florin.stop();
  rmSync(folder, { recursive: true, force: true });
});

const body = JSON.stringify({
  ...{ id: 'evt_8sWn2LxR7vKd1Ye4fTq0ZcJb', type: 'payment.completed', created_at: new Date().toISOString() },
  data: { id: 'pay_1', sequence: 1, status: 'completed', metadata: { order: 'A-1001' } },
});
const headersOf = () => ({
  'content-type': 'application/json',
  ...signDelivery({
    ...{ secret, previousSecret: null, id: 'evt_8sWn2LxR7vKd1Ye4fTq0ZcJb' },
    ...{ timestampSeconds: Math.floor(Date.now() / 1000), body: Buffer.from(body) },
  }),
});

/** Announces so many bytes and disconnects after a few of them. Resolves once the other side has noticed. */
async function leaveHalfway(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.on('error', () => {});
  const headers = Object.entries(headersOf()).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST /hook HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers.join('')}content-length: 1000\r\n\r\n{"id":`);
  // The connection ends while the receiver is reading the body.
  await new Promise((done) => setTimeout(done, 100));
  socket.resetAndDestroy();
  await new Promise((done) => setTimeout(done, 100));
}

const RECEIVERS: readonly { name: string; document: string; holds: string; file: string; program: string }[] = [
  { name: 'the quick start', document: 'docs/guides/quickstart.md', holds: '.listen(4000)', file: 'quick.mjs', program: process.execPath },
  {
    name: 'the webhooks guide, Node',
    document: 'docs/guides/webhooks.md',
    holds: '.listen(4000)',
    file: 'guide.mjs',
    program: process.execPath,
  },
  { name: 'the webhooks guide, Python', document: 'docs/guides/webhooks.md', holds: 'serve_forever', file: 'guide.py', program: 'python3' },
];
for (const { name, document, holds, file, program } of RECEIVERS) {
  test(`the receiver of ${name} survives a client that breaks its connection, and one that sends without end`, async (t) => {
    const port = await freePort();
    const { text } = codeBlocks(document).find((block) => block.text.includes(holds))!;
    writeFileSync(join(folder, file), text.replace('4000', String(port)));
    let said = '';
    const child: ChildProcess = spawn(program, [join(folder, file)], {
      env: { PATH: process.env.PATH, SIGNING_SECRET: secret },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (part: Buffer) => (said += part));
    const alive = () => assert.equal(child.exitCode, null, `it ended: ${said}`);
    const deliver = () =>
      fetch(`http://127.0.0.1:${port}/hook`, { method: 'POST', headers: headersOf(), body }).then(
        (reply) => reply.status,
        () => 0,
      );
    await eventually(deliver, (status) => status === 200);
    await leaveHalfway(port);
    alive();
    assert.equal(await deliver(), 200);

    const huge = await fetch(`http://127.0.0.1:${port}/hook`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      body: Buffer.alloc(4_000_000, 'x'),
    }).then(
      (reply) => reply.status,
      () => 0,
    );
    // Refused, or the connection was closed before everything was sent.
    assert.ok(huge === 0 || huge >= 400, String(huge));
    alive();
    assert.equal(await deliver(), 200);
  });
}

test('the Express example answers 500 when the shop fails, and leaves no rejection that Express 4 would not handle', async () => {
  mkdirSync(join(folder, 'node_modules/express'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/express/package.json'), '{"name":"express","type":"module","exports":"./index.js"}');
  // Like Express 4: it calls a handler and ignores its result.
  writeFileSync(
    join(folder, 'node_modules/express/index.js'),
    `const express = () => ({ use() {}, post: (path, raw, handler) => void (globalThis.expressHandler = handler) });
express.raw = () => null;
express.json = () => null;
export default express;
`,
  );
  const { text } = codeBlocks('docs/guides/frameworks.md').find(({ tab }) => tab === 'Express')!;
  writeFileSync(join(folder, 'express.mjs'), `const ship = async () => { throw new Error('out of stock'); };\n${text}`);
  process.env.SIGNING_SECRET = secret;
  await import(pathToFileURL(join(folder, 'express.mjs')).href);
  const { expressHandler: handle } = globalThis as unknown as { expressHandler: (...given: unknown[]) => Promise<void> };
  const passed: unknown[] = [];
  const response = { status: () => response, send: () => response, sendStatus: () => response };
  await handle({ body: Buffer.from(body), headers: headersOf() }, response, (error: unknown) => passed.push(error));
  assert.match(String(passed[0]), /out of stock/);
});
