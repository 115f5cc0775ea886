/**
 * A name that resolves differently a moment later: the service connects to the address that it checked, whatever the DNS server says
 * next.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const APART = ['--mount', '--net', '--propagation', 'private'];
const possible = process.getuid?.() === 0 && spawnSync('unshare', [...APART, 'true']).status === 0;

test('a DNS server that returns another address each time leads nowhere inside', {
  skip: !possible && 'needs root and namespaces',
}, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-dns-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const resolver = join(folder, 'resolv.conf');
  writeFileSync(resolver, 'nameserver 127.0.0.1\noptions timeout:30 attempts:1\n');
  const setUp = `ip link set lo up && ip address add 11.11.11.11/32 dev lo && mount --bind "$0" /etc/resolv.conf && exec "$@"`;
  const child = spawnSync(
    'unshare',
    [...APART, 'sh', '-c', setUp, resolver, process.execPath, '--disable-warning=ExperimentalWarning', 'test/kit/rebinding.ts'],
    { encoding: 'utf8', timeout: 60_000 },
  );
  assert.equal(child.status, 0, child.stderr);
  const { outcomes, questions, arrived } = JSON.parse(child.stdout);
  assert.deepEqual(outcomes, ['200', 'refused_address', '200', 'refused_address', 'refused_address', '200']);
  // One question per attempt: a second one, between the check and the connection, would have led inside.
  assert.equal(questions, outcomes.length);
  assert.deepEqual(arrived, ['11.11.11.11', '11.11.11.11', '11.11.11.11']);
});
