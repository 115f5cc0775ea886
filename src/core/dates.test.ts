import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDay, readTime } from './dates.ts';
import { Problem } from './problem.ts';

const refused = (read: () => unknown) =>
  assert.throws(read, (error: unknown) => error instanceof Problem && error.code === 'parameter_invalid' && error.param === 'from');

test('times of the calendar from 2009 to 2100 are read, with any offset', () => {
  for (const [text, at] of [
    ['2009-01-01', '2009-01-01T00:00:00.000Z'],
    ['2026-11-22T10:00:00Z', '2026-11-22T10:00:00.000Z'],
    ['2026-11-22t10:00:00.123456789z', '2026-11-22T10:00:00.123Z'],
    ['2024-02-29T23:59:59+23:59', '2024-02-29T00:00:59.000Z'],
    ['2100-12-31T23:59:59.999Z', '2100-12-31T23:59:59.999Z'],
  ] as const)
    assert.equal(readTime(text, 'from').toISOString(), at, text);
  assert.equal(readDay('2024-02-29', 'from'), '2024-02-29');
});

test('times that do not exist, or that an offset moves out of these years, are refused with the parameter', () => {
  for (const text of [
    ...[
      '',
      'yesterday',
      '0000-01-01',
      '0000-01-01T00:00:00Z',
      '0001-01-01T00:00:00+23:59',
      '2008-12-31',
      '2101-01-01',
      '9999-12-31T23:59:59Z',
    ],
    ...['10000-01-01', '+010000-01-01', '-000001-01-01', '2025-02-29', '2026-13-01', '2026-00-10', '2026-11-31T00:00:00Z'],
    ...[
      '2026-11-22T23:59:60Z',
      '9999-12-31T23:59:60Z',
      '2026-11-22T24:00:00Z',
      '2026-11-22T25:00:00Z',
      '2026-11-22T10:00',
      '2026-11-22T10:00:00',
      ' 2026-11-22',
    ],
    ...['2009-01-01T00:00:00+00:01', '2100-12-31T23:59:59-00:01', '2026-11-22T10:00:00+24:00', '2026-11-22T10:00:00.0000000000Z'],
  ])
    refused(() => readTime(text, 'from'));
  refused(() => readTime('2026-11-22', 'from', { days: false }));
  for (const text of ['2026-02-30', '0000-01-01', '2101-01-01', '2026-11-22T00:00:00Z', '20261122']) refused(() => readDay(text, 'from'));
});
