/** The log on a terminal: what a line looks like, and that secrets stay out of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeLine, redact, shortened } from './log.ts';
import { createOutages } from './prices/feed.ts';

const line = (level: number, fields: object, msg: string): string =>
  describeLine(`${JSON.stringify({ level, time: '2026-11-22T15:11:20.243Z', ...fields, msg })}\n`);

test('on a terminal a log line is a time, a level, a sentence and its details', () => {
  const clock = new Date('2026-11-22T15:11:20.243Z').toTimeString().slice(0, 8);
  assert.equal(line(30, {}, 'Dashboard is ready'), `${clock} info  Dashboard is ready\n`);
  assert.equal(
    line(40, { coin: 'BTC', depth: 2, reason: 'no answer' }, 'Chain reorganization detected'),
    `${clock} warn  Chain reorganization detected  coin=BTC depth=2 reason="no answer"\n`,
  );
  const failed = line(50, { err: { type: 'Error', message: 'disk full', stack: 'Error: disk full\n    at write' } }, 'Request failed');
  assert.equal(failed, `${clock} error Request failed  reason="disk full"\n         Error: disk full\n             at write\n`);
  const colored = describeLine('{"level":50,"time":"2026-11-22T15:11:20.243Z","msg":"x"}', (style, text) => `<${style}>${text}</>`);
  assert.match(colored, /<red>error<\/> x/);
});

test('nothing that a stranger wrote acts on the terminal that shows the log', () => {
  const evil = '\x1b]0;OWNED\x07\x9b2K\r\n12:00:00 error fake\u202e';
  const shown = line(
    50,
    { [evil]: 1, name: evil, plain: evil.replaceAll(/\s/g, ''), err: { message: evil, stack: `Error: ${evil}\n    at write` } },
    evil,
  );
  assert.doesNotMatch(shown.replaceAll('\n', ''), /[\p{Cc}\p{Bidi_Control}]/u);
  assert.deepEqual(
    shown.split('\n').map((part) => part.slice(0, 9)),
    [shown.slice(0, 9), '         ', '         ', ''],
  );
});

test('secrets are removed from the text format too', () => {
  const key = `sk_live_${'a1'.repeat(19)}`;
  assert.doesNotMatch(redact(line(30, { header: `Bearer ${key}`, url: 'http://user:hunter2@node:8332' }, `used ${key}`)), /a1a1|hunter2/);
});

test('a line stays readable whatever is in its fields: texts, lists and errors are cut', () => {
  const error = Object.assign(new Error(`refused ${'x'.repeat(100_000)}`, { cause: new Error('inner') }), { detail: 'y'.repeat(100_000) });
  const written = shortened({ err: error, at: new Date(0), names: Array(1_000).fill('z'), count: 3 }) as any;
  assert.equal(written.err.type, 'Error');
  for (const text of [written.err.message, written.err.detail]) assert.equal(text.length, 4_001);
  assert.deepEqual([written.names.length, written.count, written.at], [50, 3, new Date(0)]);
  assert.match((shortened({ err: new Error('outer', { cause: new Error('inner') }) }) as any).err.message, /^outer: inner$/);
  const nested = { a: { a: { a: { a: { a: { a: 1 } } } } } };
  assert.equal(JSON.stringify(shortened(nested)), '{"a":{"a":{"a":{"a":{"a":"…"}}}}}');
  assert.ok(
    JSON.stringify(shortened(Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`${i}${'k'.repeat(200)}`, i])))).length < 10_000,
  );
});

test('sources that fail at the same time are reported in one line, each name once', async () => {
  const lines: [object, string][] = [];
  const warned = Promise.withResolvers<void>();
  const log = {
    debug: () => {},
    info: () => {},
    error: () => {},
    warn: (fields: object, message: string) => {
      lines.push([fields, message]);
      warned.resolve();
    },
  };
  const failed = createOutages(log, 1);
  failed('coinbase', 'ENOTFOUND a');
  failed('kraken', 'ENOTFOUND b');
  failed('coinbase', 'ENOTFOUND c');
  const alive = setTimeout(() => {}, 10_000);
  await warned.promise;
  clearTimeout(alive);
  assert.deepEqual(
    lines.map(([fields]) => fields),
    [{ sources: 'coinbase, kraken', reason: 'ENOTFOUND c, and others' }],
  );
});
