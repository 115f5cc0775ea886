/** The programs that tests need and npm does not install: a browser, a reader of PDF and real nodes, from Debian's packages. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

export const CHROMIUM = '/usr/bin/chromium';
/** Its engine without windows and devices. */
export const CHROMIUM_ALONE = '/usr/bin/chromium-headless-shell';
/** The server itself under the name of a tool: its own package would start it. Run with `redis-server` as argv[0]. */
export const REDIS = '/usr/bin/redis-check-rdb';
/** Reads the text of PDF files. */
export const PDFTOTEXT = '/usr/bin/pdftotext';
/** A wallet that many merchants use. */
export const ELECTRUM = '/usr/bin/electrum';
/** Signs releases. */
export const MINISIGN = '/usr/bin/minisign';
type Program = { path: string; package: string };
const PROGRAMS: readonly Program[] = [
  { path: CHROMIUM, package: 'chromium' },
  { path: CHROMIUM_ALONE, package: 'chromium-headless-shell' },
  { path: '/usr/lib/litecoin/litecoind', package: 'litecoind' },
  { path: REDIS, package: 'redis-tools' },
  { path: PDFTOTEXT, package: 'poppler-utils' },
  { path: '/usr/sbin/ip', package: 'iproute2' },
  { path: MINISIGN, package: 'minisign' },
  { path: '/usr/bin/ssh-keygen', package: 'openssh-client' },
  { path: '/usr/bin/faketime', package: 'faketime' },
];
/** Languages of the webhook recipes, and shells with completion: if they cannot be installed, their tests are skipped, and say so. */
const LANGUAGES: readonly Program[] = [
  { path: '/usr/bin/php', package: 'php-cli' },
  { path: '/usr/bin/ruby', package: 'ruby' },
  { path: '/usr/bin/go', package: 'golang-go' },
  { path: '/usr/bin/zsh', package: 'zsh' },
  { path: '/usr/bin/fish', package: 'fish' },
];
/** What a long run needs beyond the others: it skips no language. */
export const LONG_TOOLS: readonly Program[] = [
  { path: '/usr/bin/strace', package: 'strace' },
  { path: '/usr/bin/python3', package: 'python3' },
  { path: ELECTRUM, package: 'electrum' },
  { path: '/usr/bin/javac', package: 'default-jdk-headless' },
  { path: '/usr/bin/pg_ctlcluster', package: 'postgresql' },
  { path: '/usr/sbin/debootstrap', package: 'debootstrap' },
  { path: '/usr/bin/buildah', package: 'buildah' },
  { path: '/usr/bin/patroni', package: 'patroni' },
  { path: '/usr/bin/etcd', package: 'etcd-server' },
  { path: '/usr/sbin/haproxy', package: 'haproxy' },
];
/**
 * Unpacked separately, with their libraries and their own loader: programs from a later Debian, and servers that their packages would
 * start. The first suite is preferred.
 */
type Aside = {
  home: string;
  packages: readonly string[];
  suite: string;
  program: string;
  /** Programs that start each other by path: scripts in their places add the loader. */
  scripts?: readonly string[];
};
const KNOTS: Aside = { home: 'bitcoin-knots', packages: ['bitcoin-knots'], suite: 'trixie-backports', program: 'usr/bin/bitcoind' };
/** Programs of the self-hosting guide: if they are not available, its tests are skipped, and say so. */
const FRONT: Aside = { home: 'front', packages: ['nginx', 'caddy', 'docker-compose'], suite: 'trixie', program: 'usr/bin/caddy' };
/** PostgreSQL with replication, and a pooler: if they are not available, their tests are skipped, and say so. */
const FAILOVER: Aside = {
  home: 'postgresql',
  packages: ['postgresql-17', 'pgbouncer'],
  suite: 'trixie',
  program: 'usr/sbin/pgbouncer',
  scripts: ['postgres', 'initdb', 'pg_ctl'].map((name) => `usr/lib/postgresql/17/bin/${name}`),
};
const SUITES = ['trixie-backports', 'trixie'];
const TOOLS = resolve('.cache/tools');
/** Foundry's Ethereum node is an npm package for one platform: downloaded separately, so that installs elsewhere do not need it. */
const ANVIL = {
  package: `@foundry-rs/anvil-${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`,
  version: '1.7.1',
  program: 'package/bin/anvil',
};

/** Installs what is missing, including `more`, all at the same time. Fails with the names of the packages if that is not possible. */
export async function ensureTools(more: readonly Program[] = []): Promise<void> {
  const wanted = [...PROGRAMS, ...more];
  const missing = wanted.filter((program) => !existsSync(program.path)).map((program) => program.package);
  const knots = findBitcoind() === null;
  const asides = [
    ...(knots ? [KNOTS] : []),
    ...(findAside(FRONT, FRONT.program) === null ? [FRONT] : []),
    ...(postgresPrograms() === null || poolerCommand() === null ? [FAILOVER] : []),
  ];
  const debian = existsSync('/etc/debian_version') && process.getuid?.() === 0 && spawnSync('apt-get', ['--version']).status === 0;
  if (!debian && (missing.length > 0 || knots)) {
    const system = existsSync('/etc/os-release')
      ? (/^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'this system')
      : 'this system';
    const names = [...missing, ...(knots ? ['bitcoind'] : [])].join(' and ');
    throw new Error(`The tests need ${names}. On Debian they are installed when the tests run as root; on ${system} install them first.`);
  }
  const packages = [...missing, ...(debian ? LANGUAGES.filter(({ path }) => !existsOnPath(basename(path))).map((it) => it.package) : [])];
  await Promise.all([
    findAnvil() === null && timed('Fetching anvil', fetchAnvil),
    packages.length > 0 && timed(`Installing ${packages.join(', ')}`, () => install(packages)),
    // With its own apt state: it does not wait for locks of the system.
    debian && asides.length > 0 && timed('Unpacking servers', () => unpackAside(asides)),
  ]);
}
/** Whether a program of this name can be started. */
export const existsOnPath = (program: string): boolean =>
  (process.env.PATH ?? '').split(':').some((folder) => existsSync(join(folder, program)));
/** What Debian's packages ask before they start a service: 101 forbids it (invoke-rc.d). */
const POLICY = '/usr/sbin/policy-rc.d';
async function install(packages: readonly string[]): Promise<void> {
  const isOurs = !existsSync(POLICY);
  if (isOurs) writeFileSync(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    await run('apt-get', ['update', '-qq']);
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages]);
  } finally {
    if (isOurs) rmSync(POLICY);
  }
}
async function timed(what: string, work: () => Promise<void>): Promise<void> {
  const started = performance.now();
  process.stdout.write(`${what} for the tests\n`);
  await work();
  process.stdout.write(`${what} took ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
}

/** The command for bitcoind: the machine's own, or the unpacked one. */
export function bitcoindCommand(): string[] {
  const command = findBitcoind();
  if (!command) throw new Error('bitcoind is missing; npm test installs it');
  return command;
}
function findBitcoind(): string[] | null {
  return existsSync('/usr/bin/bitcoind') ? ['/usr/bin/bitcoind'] : findAside(KNOTS, KNOTS.program);
}
/** The command for a program in front of the service: nginx, caddy or docker-compose; null if there is none. */
export const frontCommand = (program: 'usr/sbin/nginx' | 'usr/bin/caddy' | 'usr/bin/docker-compose'): string[] | null =>
  findAside(FRONT, program);
/** The folder of the newest PostgreSQL with replication (the embedded one has none): the machine's own, or the unpacked one. */
export function postgresPrograms(): string | null {
  const versions = globSync('/usr/lib/postgresql/*/bin/postgres').map((path) => Number(path.split('/')[4]));
  if (versions.length > 0) return `/usr/lib/postgresql/${Math.max(...versions)}/bin`;
  const unpacked = join(TOOLS, FAILOVER.home, FAILOVER.scripts![0]!);
  return existsSync(unpacked) ? dirname(unpacked) : null;
}
/** The command for PgBouncer: the machine's own, or the unpacked one. */
export const poolerCommand = (): string[] | null =>
  existsSync('/usr/sbin/pgbouncer') ? ['/usr/sbin/pgbouncer'] : findAside(FAILOVER, FAILOVER.program);
/**
 * A command, as program and arguments, for PostgreSQL and PgBouncer, which refuse to run as root: in a user namespace, root is nobody and
 * may still enter its own folders.
 */
export function withoutRoot(command: readonly string[]): [program: string, args: string[]] {
  const asNobody = process.getuid?.() === 0 ? ['unshare', '--user', '--map-user=65534', '--map-group=65534'] : [];
  const [program, ...args] = [...asNobody, ...command];
  return [program!, args];
}

function findAside(aside: Aside, path: string): string[] | null {
  const home = join(TOOLS, aside.home);
  const program = join(home, path);
  if (!existsSync(program)) return null;
  return [...loaderOf(home), program];
}
function loaderOf(home: string): string[] {
  const [loader] = globSync(['lib64/ld-linux*', 'usr/lib64/ld-linux*', 'usr/lib/*/ld-linux*', 'lib/*/ld-linux*'], { cwd: home });
  const libraries = globSync(['usr/lib/*-linux-gnu', 'lib/*-linux-gnu'], { cwd: home }).map((folder) => join(home, folder));
  return [join(home, loader!), '--library-path', libraries.join(':')];
}

/** The anvil program that the test set-up downloaded. */
export function anvilProgram(): string {
  const program = findAnvil();
  if (!program) throw new Error('anvil is missing; npm test fetches it');
  return program;
}
function findAnvil(): string | null {
  const program = join(TOOLS, 'anvil', ANVIL.program);
  return existsSync(program) ? program : null;
}
async function fetchAnvil(): Promise<void> {
  const work = join(TOOLS, `anvil-${process.pid}`);
  const home = join(TOOLS, 'anvil');
  mkdirSync(work, { recursive: true });
  await run('npm', ['pack', '--silent', `${ANVIL.package}@${ANVIL.version}`], work);
  const [archive] = globSync('*.tgz', { cwd: work });
  await run('tar', ['-xzf', archive!], work);
  rmSync(join(work, archive!));
  rmSync(home, { recursive: true, force: true });
  renameSync(work, home);
}

async function run(command: string, args: readonly string[], cwd?: string): Promise<string> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  try {
    const { stdout } = await promisify(execFile)(command, args, { env, maxBuffer: 64 << 20, ...(cwd !== undefined && { cwd }) });
    return stdout;
  } catch (error) {
    const { stderr = '', message } = error as { stderr?: string; message: string };
    throw new Error(`${command} ${args[0]} failed: ${stderr.trim().split('\n').at(-1) || message}`);
  }
}

/** The archive that this machine uses, as one deb822 source with other suites. */
function debianSource(): string {
  const files = globSync(['/etc/apt/sources.list', '/etc/apt/sources.list.d/*.{sources,list}']).map((file) => readFileSync(file, 'utf8'));
  for (const stanza of files.flatMap((file) => file.split(/\n\s*\n/))) {
    const uri = /^URIs:\s*(\S+)/im.exec(stanza)?.[1] ?? /^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+\s+.*\bmain\b/m.exec(stanza)?.[1];
    if (!uri || !/\/debian\/?$/.test(uri)) continue;
    const signed = /^Signed-By:\s*(\S+)/im.exec(stanza)?.[1] ?? '/usr/share/keyrings/debian-archive-keyring.gpg';
    return `Types: deb\nURIs: ${uri}\nSuites: ${SUITES.join(' ')}\nComponents: main\nSigned-By: ${signed}\n`;
  }
  throw new Error('no Debian archive is configured on this machine');
}

/**
 * Downloads packages and their libraries with a separate apt state and unpacks them into the tools folder; the system is not changed.
 */
async function unpackAside(all: readonly Aside[]): Promise<void> {
  const work = join(TOOLS, 'apt');
  rmSync(work, { recursive: true, force: true });
  for (const folder of ['lists/partial', 'cache/archives/partial', 'sources']) mkdirSync(join(work, folder), { recursive: true });
  writeFileSync(join(work, 'sources/later.sources'), debianSource());
  writeFileSync(join(work, 'status'), '');
  const options = [
    `Dir::State::lists=${work}/lists`,
    `Dir::State::status=${work}/status`,
    `Dir::Cache=${work}/cache`,
    'Dir::Etc::sourcelist=/dev/null',
    `Dir::Etc::sourceparts=${work}/sources`,
    'Dir::Etc::preferencesparts=/dev/null',
    'APT::Sandbox::User=root',
    'APT::Install-Recommends=false',
  ].flatMap((option) => ['-o', option]);
  await run('apt-get', ['update', '-qq', ...options]);
  for (const { home: name, packages: wanted, suite, scripts = [] } of all) {
    for (const folder of ['debs', 'root']) mkdirSync(join(work, name, folder), { recursive: true });
    const listed = await run('apt-get', ['install', '-y', '--print-uris', '-qq', ...options, '-t', suite, ...wanted]);
    const packages = [...listed.matchAll(/^'[^']*' ([^_\s]+)_/gm)].map((match) => match[1]!);
    const debs = join(work, name, 'debs');
    await run('apt-get', ['download', '-qq', ...options, '-t', suite, ...packages], debs);
    for (const file of readdirSync(debs)) await run('dpkg', ['-x', join(debs, file), join(work, name, 'root')]);
    const home = join(TOOLS, name);
    mkdirSync(dirname(home), { recursive: true });
    rmSync(home, { recursive: true, force: true });
    renameSync(join(work, name, 'root'), home);
    for (const script of globSync(scripts, { cwd: home }).map((path) => join(home, path))) {
      renameSync(script, `${script}.bin`);
      const command = [...loaderOf(home), `${script}.bin`].map((part) => `'${part}'`).join(' ');
      writeFileSync(script, `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
    }
  }
  rmSync(work, { recursive: true, force: true });
}
