/** One merchant's name servers that answer late or never: everything else in the service continues normally. */
// Invariant: One merchant's slow name servers delay nobody else.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const APART = ['--mount', '--net', '--propagation', 'private'];
const possible = process.getuid?.() === 0 && spawnSync('unshare', [...APART, 'true']).status === 0;

test('slow name servers of one merchant delay no other lookup and no other merchant’s deliveries', {
  skip: !possible && 'needs root and namespaces',
}, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-dns-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const resolver = join(folder, 'resolv.conf');
  // The system's lookup waits as long as it can: anything that waits for it, too, is not done in time.
  writeFileSync(resolver, 'nameserver 127.0.0.1\noptions timeout:30 attempts:5\n');
  const setUp = `ip link set lo up && mount --bind "$0" /etc/resolv.conf && exec "$@"`;
  const child = spawnSync(
    'unshare',
    [...APART, 'sh', '-c', setUp, resolver, process.execPath, '--disable-warning=ExperimentalWarning', 'test/kit/slow-names.ts'],
    { encoding: 'utf8', timeout: 240_000 },
  );
  assert.equal(child.status, 0, child.stderr);
  assert.deepEqual(JSON.parse(child.stdout), { found: '127.0.0.1', price: 'a price', taken: 40 });
});
