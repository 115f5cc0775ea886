/**
 * The Debian package in a fresh Debian: installed with apt, started, paid a test payment, upgraded with a backup before, kept from a way
 * back that cannot work, removed and purged with its data kept. The system is the minimal one of `debootstrap`.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { debianVersion, packDebian } from '../../scripts/debian.ts';
import { fillFolder } from '../../scripts/release.ts';
import { client, eventually } from '../kit/app.ts';
import { type DebianTree, makeDebianTree, NO_DEBIAN_TREE } from '../kit/debian-tree.ts';
import { freePort } from '../kit/nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const home = mkdtempSync(join(ROOT, '.cache/debian-'));
const system = join(home, 'system');
const time = new Date('2026-01-01T00:00:00Z');
let deb: string;
let version: string;
let port: number;
let tree: DebianTree;

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
  if (NO_DEBIAN_TREE) return;
  version = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;
  const release = join(home, `florin-${version}`);
  await fillFolder(release, { time });
  deb = packDebian(release, { architecture: 'amd64', version, time, out: home });
  tree = makeDebianTree(system);
  port = await freePort();
});
after(async () => {
  await tree?.remove();
  if (!existsSync(system)) rmSync(home, { recursive: true, force: true });
});

test('it is installed below 250 MB', { skip: NO_DEBIAN_TREE }, (t) => {
  const kilobytes = Number(execFileSync('dpkg-deb', ['--field', deb, 'Installed-Size'], { encoding: 'utf8' }));
  t.diagnostic(`${statSync(deb).size} bytes, installed ${kilobytes} kB`);
  assert.ok(kilobytes > 150_000 && kilobytes < 250_000);
});

test('the package installs with apt, starts, and takes a test payment', { skip: NO_DEBIAN_TREE }, async () => {
  cpSync(deb, join(system, 'root/florin.deb'));
  tree.done('apt-get update -qq && apt-get install -y -qq --no-install-recommends /root/florin.deb');
  assert.equal(
    tree.done('stat -c "%U:%G %a" /etc/florin/florin.env /var/lib/florin /var/backups/florin').trim().split('\n').join(),
    'root:florin 640,florin:florin 711,florin:florin 700',
  );
  assert.equal(tree.done('find /usr/lib/florin ! -user root').trim(), '', 'the service owns none of its code');
  appendFileSync(join(system, 'etc/florin/florin.env'), `PORT=${port}\nPRICES=static:BTC=97000.00\nPUBLIC_URL=http://localhost:${port}\n`);
  const output = await tree.start('exec florin serve', 'Public test key');
  const [key] = /sk_test_\w+/.exec(output)!;
  const shop = client(`http://127.0.0.1:${port}`, key);
  const { json } = await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
  assert.equal((await shop.post(`/v1/test/payments/${json.id}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await shop.get(`/api/payment/${json.id}`)).json.status,
    (status) => status === 'completed',
  );
  assert.equal((await client(`http://127.0.0.1:${port}`, null).get('/dashboard/sign-in')).status, 200);
  const found = JSON.parse(tree.done('florin version --json'));
  assert.deepEqual([found.version, found.installed_by], [version, 'deb']);
  assert.match(tree.inside('florin doctor').said, /ok +database/);
  assert.equal(tree.inside('setpriv --reuid=nobody --regid=nogroup --clear-groups florin doctor').status, 1);
  await tree.stop();
});

test('an upgrade backs up first and keeps the settings and the data; a way back past a breaking migration is refused', {
  skip: NO_DEBIAN_TREE,
}, async () => {
  repack('1.0.1', null);
  repack('1.1.0', '-- ! breaking\ncreate table more (number int primary key);\n');
  tree.done('dpkg -i /root/florin_1.0.1.deb');
  const [backup, ...more] = readdirSync(join(system, 'var/backups/florin'));
  assert.match(backup!, /^before-1\.0\.1-from-.*\.backup$/);
  assert.deepEqual(more, []);
  assert.match(readFileSync(join(system, 'etc/florin/florin.env'), 'utf8'), new RegExp(`^PORT=${port}$`, 'm'));
  // Back again: nothing in between changed the schema.
  tree.done('dpkg -i /root/florin.deb && dpkg -i /root/florin_1.1.0.deb');
  await tree.start('exec florin serve', 'Florin is ready');
  await tree.stop();
  assert.equal(JSON.parse(tree.done('florin version --json')).newest_breaking, '0002_more.sql');
  assert.ok(existsSync(join(system, 'var/lib/florin/before-0002_more.backup')));
  const refused = tree.inside('dpkg -i /root/florin_1.0.1.deb');
  assert.notEqual(refused.status, 0);
  assert.match(refused.said, /Florin 1\.0\.1 cannot work with this database: a newer version changed it \(migration 0002\)/);
  assert.equal(JSON.parse(tree.done('florin version --json')).version, '1.1.0');
  assert.match(tree.done('dpkg -s florin'), /^Version: 1\.1\.0$/m);
});

test('a purge removes the program and the settings, and keeps data and backups', { skip: NO_DEBIAN_TREE }, () => {
  const data = readdirSync(join(system, 'var/lib/florin')).sort();
  assert.match(tree.done('apt-get purge -y -qq florin'), /The data of Florin is kept in \/var\/lib\/florin/);
  for (const gone of ['usr/lib/florin', 'usr/bin/florin', 'etc/florin', 'var/cache/florin'])
    assert.equal(existsSync(join(system, gone)), false, gone);
  assert.deepEqual(readdirSync(join(system, 'var/lib/florin')).sort(), data);
  assert.ok(readdirSync(join(system, 'var/backups/florin')).length > 0);
});
