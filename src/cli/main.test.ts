/** The command line as a whole: data folders without a database, and readers that leave early. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const RUN = [process.execPath, '--disable-warning=ExperimentalWarning', 'src/main.ts'];

test('a command with a wrong data folder says so and creates nothing', () => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-none-'));
  const data = join(folder, 'data');
  try {
    for (const args of [
      ['merchant', 'list'],
      ['merchant', 'create', '--name', 'Shop'],
      ['migrate'],
      ['backup', '--file', join(folder, 'backup')],
    ]) {
      const { status, stdout, stderr } = spawnSync(RUN[0]!, [...RUN.slice(1), ...args], {
        env: { PATH: process.env.PATH ?? '', FLORIN_DATA: data },
        encoding: 'utf8',
      });
      assert.equal(status, 1, args.join(' '));
      assert.equal(stdout, '');
      assert.ok(stderr.includes(`There is no database in ${data}.`) && stderr.includes('FLORIN_DATA'), stderr);
      assert.equal(existsSync(data), false, args.join(' '));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('output that nobody reads to its end is not an error', () => {
  const { stderr } = spawnSync('sh', ['-c', '"$@" --help | true', 'sh', ...RUN], { encoding: 'utf8' });
  assert.equal(stderr, '');
});
