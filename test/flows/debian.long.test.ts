/**
 * The Debian package in a fresh Debian: installed with apt, started, paid a test payment, upgraded with a backup before, kept from a way
 * back that cannot work, removed and purged with its data kept. The system is the minimal one of `debootstrap`.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { debianVersion, packDebian } from '../../scripts/debian.ts';
import { fillFolder } from '../../scripts/release.ts';
import { client, eventually } from '../kit/app.ts';
import { freePort } from '../kit/nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const missing =
  process.getuid?.() === 0 && existsSync('/usr/sbin/debootstrap') && existsSync('/usr/bin/dpkg-deb')
    ? false
    : 'needs root, debootstrap and dpkg-deb';
const home = mkdtempSync(join(ROOT, '.cache/debian-'));
const system = join(home, 'system');
const time = new Date('2026-01-01T00:00:00Z');
let deb: string;
let version: string;
let port: number;

/** Runs a command in the system. */
function inside(command: string): { status: number | null; said: string } {
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' };
  const { status, stdout, stderr } = spawnSync('chroot', [system, 'sh', '-c', command], { env, encoding: 'utf8', timeout: 300_000 });
  return { status, said: `${stdout}${stderr}` };
}
function done(command: string): string {
  const { status, said } = inside(command);
  assert.equal(status, 0, `${command}\n${said}`);
  return said;
}
let service: ChildProcess | null = null;
let output = '';
async function start(last: string): Promise<void> {
  output = '';
  service = spawn('chroot', [system, 'florin', 'serve'], {
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [service.stdout!, service.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  await eventually(
    async () => output,
    (text) => text.includes(last),
    120_000,
  );
}
async function stop(): Promise<void> {
  if (service === null || service.exitCode !== null) return;
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  await ended;
}
/** The package as another version, with one more migration if `text` is one. */
function repack(other: string, text: string | null): void {
  const folder = join(home, `of-${other}`);
  execFileSync('dpkg-deb', ['--raw-extract', deb, folder]);
  const code = join(folder, 'usr/lib/florin');
  if (text !== null) writeFileSync(join(code, 'src/db/migrations/0002_more.sql'), text);
  for (const name of ['usr/lib/florin/package.json', 'DEBIAN/control', 'DEBIAN/preinst']) {
    const file = join(folder, name);
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(version, other).replaceAll(debianVersion(version), other));
  }
  execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '--build', folder, join(system, 'root', `florin_${other}.deb`)], {
    stdio: 'ignore',
  });
  rmSync(folder, { recursive: true });
}

before(async () => {
  if (missing) return;
  version = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;
  const release = join(home, `florin-${version}`);
  await fillFolder(release, { time });
  deb = packDebian(release, { architecture: 'amd64', version, time, out: home });
  execFileSync('debootstrap', ['--variant=minbase', 'bookworm', system], { stdio: ['ignore', 'ignore', 'inherit'] });
  execFileSync('mount', ['-t', 'proc', 'proc', join(system, 'proc')]);
  mkdirSync(join(system, 'dev/shm'), { recursive: true });
  chmodSync(join(system, 'dev/shm'), 0o1777);
  // Without waiting for the disk after each file, which a system that is thrown away does not need.
  writeFileSync(join(system, 'etc/dpkg/dpkg.cfg.d/quick'), 'force-unsafe-io\n');
  // How this machine reaches the packages of Debian.
  for (const file of ['/etc/resolv.conf', '/etc/apt/apt.conf.d', '/etc/ssl/certs/ca-certificates.crt'])
    if (existsSync(file)) cpSync(file, join(system, file), { recursive: true, dereference: true, force: true });
  port = await freePort();
});
after(async () => {
  await stop();
  if (!missing) spawnSync('umount', [join(system, 'proc')]);
  if (!existsSync(join(system, 'proc/self'))) rmSync(home, { recursive: true, force: true });
});

test('it is installed below 250 MB', { skip: missing }, (t) => {
  const kilobytes = Number(execFileSync('dpkg-deb', ['--field', deb, 'Installed-Size'], { encoding: 'utf8' }));
  t.diagnostic(`${statSync(deb).size} bytes, installed ${kilobytes} kB`);
  assert.ok(kilobytes > 150_000 && kilobytes < 250_000);
});

test('the package installs with apt, starts, and takes a test payment', { skip: missing }, async () => {
  cpSync(deb, join(system, 'root/florin.deb'));
  done('apt-get update -qq && apt-get install -y -qq --no-install-recommends /root/florin.deb');
  assert.equal(
    done('stat -c "%U:%G %a" /etc/florin/florin.env /var/lib/florin /var/backups/florin').trim().split('\n').join(),
    'root:florin 640,florin:florin 711,florin:florin 700',
  );
  assert.equal(done('find /usr/lib/florin ! -user root').trim(), '', 'the service owns none of its code');
  appendFileSync(join(system, 'etc/florin/florin.env'), `PORT=${port}\nPRICES=static:BTC=97000.00\nPUBLIC_URL=http://localhost:${port}\n`);
  await start('Public test key');
  const [key] = /sk_test_\w+/.exec(output)!;
  const shop = client(`http://127.0.0.1:${port}`, key);
  const { json } = await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
  assert.equal((await shop.post(`/v1/test/payments/${json.id}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await shop.get(`/api/payment/${json.id}`)).json.status,
    (status) => status === 'completed',
  );
  assert.equal((await client(`http://127.0.0.1:${port}`, null).get('/dashboard/sign-in')).status, 200);
  const found = JSON.parse(done('florin version --json'));
  assert.deepEqual([found.version, found.installed_by], [version, 'deb']);
  assert.match(inside('florin doctor').said, /ok +database/);
  assert.equal(inside('setpriv --reuid=nobody --regid=nogroup --clear-groups florin doctor').status, 1);
  await stop();
});

test('an upgrade backs up first and keeps the settings and the data; a way back past a breaking migration is refused', {
  skip: missing,
}, async () => {
  repack('1.0.1', null);
  repack('1.1.0', '-- ! breaking\ncreate table more (number int primary key);\n');
  done('dpkg -i /root/florin_1.0.1.deb');
  const [backup, ...more] = readdirSync(join(system, 'var/backups/florin'));
  assert.match(backup!, /^before-1\.0\.1-from-.*\.backup$/);
  assert.deepEqual(more, []);
  assert.match(readFileSync(join(system, 'etc/florin/florin.env'), 'utf8'), new RegExp(`^PORT=${port}$`, 'm'));
  // Back again: nothing in between changed the schema.
  done('dpkg -i /root/florin.deb && dpkg -i /root/florin_1.1.0.deb');
  await start('Florin is ready');
  await stop();
  assert.equal(JSON.parse(done('florin version --json')).newest_breaking, '0002_more.sql');
  assert.ok(existsSync(join(system, 'var/lib/florin/before-0002_more.backup')));
  const refused = inside('dpkg -i /root/florin_1.0.1.deb');
  assert.notEqual(refused.status, 0);
  assert.match(refused.said, /Florin 1\.0\.1 cannot work with this database: a newer version changed it \(migration 0002\)/);
  assert.equal(JSON.parse(done('florin version --json')).version, '1.1.0');
  assert.match(done('dpkg -s florin'), /^Version: 1\.1\.0$/m);
});

test('a purge removes the program and the settings, and keeps data and backups', { skip: missing }, () => {
  const data = readdirSync(join(system, 'var/lib/florin')).sort();
  assert.match(done('apt-get purge -y -qq florin'), /The data of Florin is kept in \/var\/lib\/florin/);
  for (const gone of ['usr/lib/florin', 'usr/bin/florin', 'etc/florin', 'var/cache/florin'])
    assert.equal(existsSync(join(system, gone)), false, gone);
  assert.deepEqual(readdirSync(join(system, 'var/lib/florin')).sort(), data);
  assert.ok(readdirSync(join(system, 'var/backups/florin')).length > 0);
});
