/** CSV: what is read from a file, and how much of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOST_CSV_CELLS, readCsv } from './text.ts';

test('a file is read with the number of each line, whatever separates its cells', () => {
  assert.deepEqual(readCsv('a,b\n\n"1 ""x"""\n, 2 \r\n'), [
    { line: 1, cells: ['a', 'b'] },
    { line: 3, cells: ['1 "x"'] },
    { line: 4, cells: ['', '2'] },
  ]);
  assert.deepEqual(readCsv('a;b\n1,5;2'), [
    { line: 1, cells: ['a', 'b'] },
    { line: 2, cells: ['1,5', '2'] },
  ]);
  assert.deepEqual(readCsv('a\n"b\nc"d'), { brokenLine: 2 });
});

test('a megabyte of empty cells or lines is not listed', () => {
  const most = Array(MOST_CSV_CELLS / 50)
    .fill(','.repeat(49))
    .join('\n');
  assert.deepEqual(readCsv(most), []);
  assert.deepEqual(readCsv(`${most},`), { brokenLine: null });
  for (const text of [','.repeat(1 << 20), '\n'.repeat(1 << 20), 'a\n'.repeat(1 << 19), `${','.repeat(1_000)}\n`.repeat(1_000)])
    assert.deepEqual(readCsv(text), { brokenLine: null }, text.slice(0, 10));
});
