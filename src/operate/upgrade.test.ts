/** Upgrades of a small install whose release listens on a port, with real archives, signatures, packages and processes. */
// Invariant: A release is installed only when it is signed and starts; otherwise the folder is as before.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { packFolder } from '../../scripts/release.ts';
import { freePort } from '../../test/kit/nodes.ts';
import { createSigner, type Signer } from '../../test/kit/releases.ts';
import { upgrade } from './upgrade.ts';

const time = new Date('2026-12-01T00:00:00Z');
/** What stands for Florin: it says its version to everybody who connects, also to those who hang up first, as an upgrade does. */
const SERVICE = `
const { createServer } = require('node:net');
const { version } = require('../package.json');
createServer((socket) => socket.on('error', () => {}).end(version)).listen(process.env.PORT, '127.0.0.1');
`;
/** Starts and stops one unit as systemd does: a service that ends is failed, and one that was stopped has ended. */
const systemctl = (root: string) => `#!/bin/sh
pid=$(cat ${root}/unit.pid 2>/dev/null)
echo "$*" >> ${root}/systemctl.log
case "$1" in
  stop)
    [ -n "$pid" ] && kill "$pid" 2>/dev/null
    while [ -n "$pid" ] && grep -qv ') Z ' /proc/$pid/stat 2>/dev/null; do sleep 0.05; done
    rm -f ${root}/unit.pid ;;
  start) cd ${root}/florin && node src/main.ts serve > /dev/null 2>&1 & echo $! > ${root}/unit.pid ;;
  show) if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then echo ActiveState=active; else echo ActiveState=failed; fi; echo NRestarts=0 ;;
esac
`;

let signer: Signer;
let root: string;
let at: { host: string; port: number };
const install = () => join(root, 'florin');
const path = process.env.PATH;
beforeEach(async () => {
  signer = createSigner();
  root = signer.folder;
  at = { host: '127.0.0.1', port: await freePort() };
  makeRelease(install(), '1.0.0');
  mkdirSync(join(install(), 'data'));
  writeFileSync(join(install(), '.env'), 'A=1\n');
  mkdirSync(join(root, 'bin'));
  writeFileSync(join(root, 'bin/systemctl'), systemctl(root));
  chmodSync(join(root, 'bin/systemctl'), 0o755);
  Object.assign(process.env, { PATH: `${join(root, 'bin')}:${path}`, PORT: String(at.port) });
});
afterEach(() => {
  execFileSync('systemctl', ['stop']);
  process.env.PATH = path;
  signer.remove();
});

function makeRelease(folder: string, version: string, service = SERVICE): void {
  for (const name of ['src', 'dist', 'node_modules']) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'florin', version, private: true }));
  const lock = { name: 'florin', version, lockfileVersion: 3, requires: true, packages: { '': { name: 'florin', version } } };
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
  writeFileSync(join(folder, 'dist/release.json'), JSON.stringify({ installed_by: 'archive', commit: null }));
  writeFileSync(join(folder, 'src/main.ts'), service);
  writeFileSync(join(folder, `only-${version}`), '');
}
/** An archive with its checksums, signed. */
function publish(version: string, service?: string): string {
  const folder = join(root, `florin-${version}`);
  makeRelease(folder, version, service);
  rmSync(join(folder, 'node_modules'), { recursive: true });
  const file = join(root, `florin-${version}.tgz`);
  writeFileSync(file, packFolder(folder, { time }));
  signer.sign('SHA256SUMS', execFileSync('sha256sum', [`florin-${version}.tgz`], { cwd: root, encoding: 'utf8' }));
  return file;
}
const installed = () => JSON.parse(readFileSync(join(install(), 'package.json'), 'utf8')).version;
const contents = () => readdirSync(install()).sort();
const answer = () =>
  new Promise<string>((resolve, reject) => {
    let text = '';
    connect(at)
      .on('data', (part) => (text += part))
      .on('end', () => resolve(text))
      .on('error', reject);
  });
const given = (file: string, more: Partial<Parameters<typeof upgrade>[1]> = {}) => ({
  file,
  key: signer.key,
  units: ['florin'],
  at,
  ...more,
});

test('a signed release replaces the one that runs; data and settings stay, and the way back is the same', async () => {
  execFileSync('systemctl', ['start', 'florin']);
  const [newer, older] = [publish('1.0.1'), publish('1.0.0')];
  await assert.rejects(upgrade(install(), given(newer)), /is not the file of that name/, 'only the last one is in the checksums');
  publish('1.0.1');
  assert.deepEqual(await upgrade(install(), given(newer)), { version: '1.0.1', previous: '1.0.0', next: null });
  assert.deepEqual([installed(), await answer()], ['1.0.1', '1.0.1']);
  assert.deepEqual(
    [existsSync(join(install(), 'data')), readFileSync(join(install(), '.env'), 'utf8'), existsSync(join(install(), 'upgrade'))],
    [true, 'A=1\n', false],
  );
  publish('1.0.0');
  assert.equal((await upgrade(install(), given(older))).version, '1.0.0');
  assert.equal(await answer(), '1.0.0');
});

test('a release that does not start is replaced by the one before, which runs again', async () => {
  execFileSync('systemctl', ['start', 'florin']);
  const before = contents();
  await assert.rejects(upgrade(install(), given(publish('1.0.1', 'process.exit(1)'))), /1\.0\.1 did not start, so 1\.0\.0 was put back/);
  assert.deepEqual([installed(), contents()], ['1.0.0', before]);
  for (let tries = 0; tries < 100 && (await answer().catch(() => null)) === null; tries++)
    await new Promise((done) => setTimeout(done, 50));
  assert.equal(await answer(), '1.0.0');
});

test('nothing is unpacked that is not signed, not complete or not from the archive', async () => {
  const file = publish('1.0.1');
  const before = contents();
  const refused = async (message: RegExp, more: Parameters<typeof given>[1] = {}) => {
    await assert.rejects(upgrade(install(), given(file, more)), message);
    assert.deepEqual([installed(), contents()], ['1.0.0', before]);
  };
  await refused(/RELEASES_KEY/, { key: null });
  const stranger = createSigner();
  await refused(/is not signed with RELEASES_KEY/, { key: stranger.key });
  stranger.remove();
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.subarray(1));
  await refused(/is not the file of that name/);
  writeFileSync(file, bytes);
  rmSync(join(root, 'SHA256SUMS.minisig'));
  await refused(/ENOENT/);
  publish('1.0.1');
  for (const [kind, message] of [
    ['deb', /apt install/],
    ['image', /image/],
    ['clone', /git pull/],
  ] as const) {
    writeFileSync(join(install(), 'dist/release.json'), JSON.stringify({ installed_by: kind, commit: null }));
    await refused(message);
  }
  assert.equal(existsSync(join(root, 'systemctl.log')), false, 'nothing was stopped');
});

test('a folder from which Florin still runs keeps its release', async () => {
  const process = spawn('node', ['src/main.ts', 'serve'], { cwd: install(), stdio: 'ignore' });
  for (let tries = 0; tries < 100 && (await answer().catch(() => null)) === null; tries++)
    await new Promise((done) => setTimeout(done, 50));
  const file = publish('1.0.1');
  await assert.rejects(upgrade(install(), given(file, { units: [] })), new RegExp(`as process ${process.pid}. Stop it first`));
  assert.equal(installed(), '1.0.0');
  process.kill();
  await new Promise((done) => process.once('exit', done));
  assert.deepEqual(await upgrade(install(), given(file, { units: [] })), { version: '1.0.1', previous: '1.0.0', next: 'Start Florin.' });
  assert.equal(installed(), '1.0.1');
});
