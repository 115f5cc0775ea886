import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readWalletIndexes } from './wallet-indexes.ts';

test('stored address indexes are read completely or not at all', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-indexes-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.deepEqual(await readWalletIndexes(folder), new Map());
  const write = (text: string) => writeFileSync(join(folder, 'wallet-indexes.json'), text);
  write('{"wal_1": 40, "wal_2": 0}');
  const known = new Map([
    ['wal_1', 40n],
    ['wal_2', 0n],
  ]);
  assert.deepEqual(await readWalletIndexes(folder), known);
  for (const text of ['', '[]', 'null', '"wal_1"', '{"wal_1": "40"}', '{"wal_1": 40, "wal_2": -1}', '{"wal_1": 1.5}', '{"wal_1": null}']) {
    write(text);
    await assert.rejects(readWalletIndexes(folder), /wallet-indexes\.json is damaged/, text);
  }
});
