/** Two builds of one commit, in other folders, with other rights and another time zone. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { copySource } from '../kit/copy.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const EPOCH = '1700000000';

function build(folder: string, { umask, zone }: { umask: string; zone: string }): string {
  copySource(folder, { linked: false });
  // Names in the build are relative to the packages, so a link to those of another folder would show where they are.
  execFileSync('cp', ['-al', join(ROOT, 'node_modules'), join(folder, 'node_modules')]);
  execFileSync('git', ['init', '-q'], { cwd: folder });
  execFileSync('git', ['add', '-A'], { cwd: folder });
  const who = ['-c', 'user.name=T', '-c', 'user.email=t@shop.example'];
  const date = '2026-01-01T00:00:00Z';
  execFileSync('git', [...who, 'commit', '-qm', 'All'], {
    cwd: folder,
    env: { ...process.env, GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date },
  });
  const env = { ...process.env, TZ: zone, SOURCE_DATE_EPOCH: EPOCH, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  execFileSync('sh', ['-c', `umask ${umask}; exec "$0" --disable-warning=ExperimentalWarning scripts/release.ts`, process.execPath], {
    ...{ cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] },
  });
  execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: join(folder, 'dist/release') });
  return readFileSync(join(folder, 'dist/release/SHA256SUMS'), 'utf8');
}

// Invariant: The same sources make the same release, byte for byte.
test('two builds in different places make the same bytes', (t) => {
  const home = mkdtempSync(join(ROOT, '.cache/twice-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const first = build(join(home, 'a'), { umask: '022', zone: 'UTC' });
  assert.equal(build(join(home, 'another/place'), { umask: '077', zone: 'Asia/Tokyo' }), first);
  assert.ok(first.split('\n').length > 6, first);
});
