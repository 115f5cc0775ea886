/** What is printed when the service cannot start: the cause, the setting and the remedy; the stack only for debugging. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { ConfigError } from '../config.ts';
import { Problem } from '../core/problem.ts';
import { describeFailure } from './run.ts';

const failing = (fields: object, message = 'failed'): Error => Object.assign(new Error(message), fields);
const FAILURES: readonly [error: unknown, message: RegExp, hint: RegExp | null][] = [
  [new ConfigError('PORT', 'must be a whole number from 0 to 65535'), /^PORT must be/, /\.env.*config\.md/],
  [new Problem('payment_not_found', { id: 'pay_1' }), /pay_1/, null],
  [failing({ code: 'EADDRINUSE', syscall: 'listen', port: 3000 }), /Port 3000 is already in use/, /set PORT/],
  [failing({ code: 'EACCES', syscall: 'listen', port: 80 }), /may not listen on port 80/, /1024/],
  [failing({ code: 'ECONNREFUSED', address: '10.0.0.1', port: 5432 }), /10\.0\.0\.1:5432/, /DATABASE_URL/],
  [
    failing({ code: 'CONNECTION_INSECURE' }, 'No secure connection to the database at db:5432: self-signed certificate'),
    /self-signed certificate\.$/,
    /sslrootcert/,
  ],
  [failing({ code: '28P01' }), /rejected the user or the password/, /DATABASE_URL/],
  [failing({ code: '3D000' }, 'database "florin" does not exist'), /"florin" does not exist/, /Create it/],
  [failing({ code: 'ENOENT', path: '/etc/tls.pem' }), /\/etc\/tls\.pem does not exist/, /LOG_LEVEL=debug/],
  [
    new Error('Migration 7 failed', { cause: new Error('relation is missing') }),
    /Migration 7 failed\nCause: relation is missing/,
    /LOG_LEVEL/,
  ],
  [new Error('Florin already runs on this data folder. Stop it first.'), /Stop it first/, null],
  [new TypeError('x is undefined'), /^TypeError: x is undefined$/, /LOG_LEVEL=debug/],
];
for (const [error, message, hint] of FAILURES) {
  test(`a failed start says what to do: ${message.source}`, () => {
    const failure = describeFailure(error);
    assert.match(failure.message, message);
    if (hint === null) assert.equal(failure.hint, null);
    else assert.match(failure.hint!, hint);
  });
}

test('an error that quotes a stranger keeps its own lines', () => {
  const evil = '\x1b[2K\x9b\nFlorin is ready';
  const { message } = describeFailure(new Error(`No ${evil}`, { cause: new Error(`why${evil}`) }));
  assert.equal(message, 'No \\u001b[2K\\u009b\\u000aFlorin is ready\nCause: why\\u001b[2K\\u009b\\u000aFlorin is ready');
});

test('a database that does not answer is named with its setting; the stack is printed only for debugging, without the password', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-failure-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  // A port that nobody listens on any more.
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  const start = (level: string) =>
    spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve'], {
      cwd: resolve(import.meta.dirname, '../..'),
      env: {
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        ...{ DATABASE_URL: `postgres://florin:hunter22@127.0.0.1:${port}/florin`, FLORIN_DATA: folder, LOG_LEVEL: level },
      },
      encoding: 'utf8',
    });
  const short = start('info');
  assert.equal(short.status, 1);
  assert.match(short.stderr, new RegExp(`No database server answers at 127\\.0\\.0\\.1:${port}\\.\nCheck DATABASE_URL`));
  assert.doesNotMatch(short.stderr, /^ +at /m);
  const long = start('debug');
  assert.match(long.stderr, /^ +at /m);
  assert.ok(!long.stderr.includes('hunter22'), long.stderr);
});
