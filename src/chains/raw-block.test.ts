import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Family, parseBlock } from './raw-block.ts';

const folder = join(import.meta.dirname, '../../../shared/vectors/blocks');
const BLOCKS: readonly [file: string, family: Family][] = [
  ['dogecoin-12345.hex', 'DOGE'],
  ['dogecoin-371337.hex', 'DOGE'],
  ['dogecoin-testnet-158100.hex', 'DOGE'],
  ['dash-500001.hex', 'DASH'],
  ['dash-1028159.hex', 'DASH'],
];

for (const [file, family] of BLOCKS) {
  test(`${file} has the merkle root of its header, and a changed byte has not`, (t) => {
    const path = join(folder, file);
    if (!existsSync(path)) return t.skip('the shared vectors are absent');
    const bytes = Buffer.from(readFileSync(path, 'utf8').trim(), 'hex');
    const block = parseBlock(bytes, family);
    assert.ok(block.transactions[0]?.coinbase);
    assert.ok(block.transactions.every((tx) => /^[0-9a-f]{64}$/.test(tx.txid)));
    const damaged = Buffer.from(bytes);
    damaged[damaged.length - 10]! ^= 1;
    assert.throws(() => parseBlock(damaged, family), RangeError);
  });
}
