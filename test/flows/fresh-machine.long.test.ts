/**
 * The README, followed on a fresh Debian in each of its ways: its commands as printed, up to the first test payment, and how long that
 * takes. What differs from the page is only what it leaves open: the version, the keys, and a port that is free here.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { debianVersion, packDebian } from '../../scripts/debian.ts';
import { fillFolder, packFolder } from '../../scripts/release.ts';
import { client, eventually } from '../kit/app.ts';
import { copySource } from '../kit/copy.ts';
import { type DebianTree, makeDebianTree, NO_DEBIAN_TREE } from '../kit/debian-tree.ts';
import { codeBlocks } from '../kit/documents.ts';
import { freePort } from '../kit/nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const home = mkdtempSync(join(ROOT, '.cache/fresh-'));
const time = new Date('2026-01-01T00:00:00Z');
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const blocks = codeBlocks('README.md');
const blockBelow = (heading: string): string => blocks.find((one) => one.heading === heading && one.language === 'sh')!.text.trim();
/** The commands of a way in the table below "Quick start". */
const rowOf = (way: string): string[] => {
  const row = readFileSync(join(ROOT, 'README.md'), 'utf8')
    .split('\n')
    .find((line) => line.startsWith(`| ${way} |`))!;
  return [...row.matchAll(/`([^`]+)`/g)].map(([, command]) =>
    command!.replaceAll('VERSION', way === 'Archive' ? version : debianVersion(version)),
  );
};
let tree: DebianTree;
let port: number;

before(async () => {
  if (NO_DEBIAN_TREE) return;
  port = await freePort();
  const release = join(home, `florin-${version}`);
  await fillFolder(release, { time });
  writeFileSync(join(home, 'release.tgz'), packFolder(release, { time }));
  const deb = packDebian(release, { architecture: 'amd64', version, time, out: home });
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  tree = makeDebianTree(join(home, 'system'), {
    packages: ['curl'],
    env: { PORT: String(port), ...(certificates && { NODE_EXTRA_CA_CERTS: '/usr/local/share/registry.crt' }) },
  });
  if (certificates) cpSync(certificates, join(tree.folder, 'usr/local/share/registry.crt'), { dereference: true });
  cpSync(join(home, 'release.tgz'), join(tree.folder, `root/florin-${version}.tgz`));
  cpSync(deb, join(tree.folder, `root/florin_${debianVersion(version)}_amd64.deb`));
  copySource(join(tree.folder, 'root/florin'), { linked: false });
});
after(async () => {
  await tree?.remove();
  if (!existsSync(join(home, 'system'))) rmSync(home, { recursive: true, force: true });
});

/** The Node and npm that the page asks for, as this machine has them. */
function installNode(): void {
  const placeOf = (name: string) =>
    realpathSync(execFileSync('sh', ['-c', `PATH=/usr/local/bin:/usr/bin; command -v ${name}`], { encoding: 'utf8' }).trim());
  cpSync(placeOf('node'), join(tree.folder, 'usr/local/bin/node'));
  const npm = join(tree.folder, 'usr/local/lib/node_modules/npm');
  mkdirSync(dirname(npm), { recursive: true });
  cpSync(dirname(dirname(placeOf('npm'))), npm, { recursive: true });
  tree.done('ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm; npm --version; useradd --create-home shop');
}

/** A command of a normal user, in its home. */
const asShop = (command: string): string =>
  `cd /home/shop && exec setpriv --reuid=shop --regid=shop --init-groups env HOME=/home/shop sh -c '${command}'`;

/** From the commands of a way to a test payment that is paid, as the page says. */
async function payFirst(t: TestContext, way: string, command: string): Promise<void> {
  const began = performance.now();
  const printed = await tree.start(command, 'Public test key');
  const key = /sk_test_\w+/.exec(printed)![0];
  const typed = blockBelow('Create a test payment').replace('sk_test_...', key).replace('localhost:3000', `localhost:${port}`);
  const { payment_url: url, id } = JSON.parse(tree.done(typed.replace('curl ', 'curl --silent --show-error --fail-with-body '))) as {
    payment_url: string;
    id: string;
  };
  assert.equal((await fetch(url)).status, 200);
  const shop = client(`http://localhost:${port}`, key);
  assert.equal((await shop.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await shop.get(`/v1/payments/${id}`)).json.status,
    (status) => status === 'completed',
    60_000,
  );
  t.diagnostic(`${way}: ${((performance.now() - began) / 1_000).toFixed(0)} s to the first test payment`);
  await tree.stop();
}

test('with the Debian package, on a machine without Node', { skip: NO_DEBIAN_TREE }, async (t) => {
  const [install, log] = rowOf('Debian package');
  assert.equal(log, 'journalctl -u florin');
  // Where systemd does not run, the package says how to start it.
  const start = 'florin serve';
  const setUp = `cd /root && apt-get update -qq && ${install!.replace('apt install', 'apt-get install -y -qq')} && printf 'PORT=%s\\n' "$PORT" >> /etc/florin/florin.env`;
  await payFirst(t, 'package', `${setUp} && exec ${start}`);
  tree.done('apt-get purge -y -qq florin && rm -rf /var/lib/florin');
});

test('with the archive', { skip: NO_DEBIAN_TREE }, async (t) => {
  installNode();
  const [command, ...more] = rowOf('Archive');
  assert.deepEqual(more, []);
  tree.done(`mv /root/florin-${version}.tgz /home/shop`);
  await payFirst(t, 'archive', asShop(`cd && ${command}`));
});

type Component = { name: string; version: string; purl: string };
test('the list of parts names every package that the archive installed, and no other', { skip: NO_DEBIAN_TREE }, () => {
  const folder = join(tree.folder, `home/shop/florin-${version}`);
  const read = <T>(path: string) => JSON.parse(readFileSync(join(folder, path), 'utf8')) as T;
  const nameOf = ({ name, version: number }: { name: string; version: string }) => `${name} ${number}`;
  const installed = new Set(
    globSync('node_modules/**/package.json', { cwd: folder })
      .filter((path) => /(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(path))
      .map((path) => nameOf(read(path))),
  );
  assert.ok(installed.size > 80);
  const listed = read<{ components: Component[] }>('sbom.cdx.json').components.filter(({ purl }) => purl.startsWith('pkg:npm/'));
  const names = new Set(listed.map(nameOf));
  assert.deepEqual(
    [...installed].filter((one) => !names.has(one)),
    [],
  );
  const [licenses] = globSync('dist/dashboard/*/licenses.json', { cwd: folder });
  const built = new Set(read<Component[]>(licenses!).map(nameOf));
  // npm lists these, and `scripts/slim.mjs` removes all of their files.
  const removed = ['fflate', 'pako'];
  assert.deepEqual(
    listed
      .filter(
        (one) => !installed.has(nameOf(one)) && !built.has(nameOf(one)) && !one.name.endsWith('linux-arm64') && !removed.includes(one.name),
      )
      .map(nameOf),
    [],
  );
});

test('with a clone', { skip: NO_DEBIAN_TREE }, async (t) => {
  tree.done('mv /root/florin /home/shop && chown -R shop:shop /home/shop/florin');
  await payFirst(t, 'clone', asShop(`cd florin && ${blockBelow('Quick start').replaceAll('\n', ' && ')}`));
});
