/**
 * Builds the dashboard app and the signer page with the installed tools. Their folder is named by a hash of their sources, so it is never
 * stale. A release contains the folder and no sources.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { access, glob, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writePacked } from '#http';
import type { Log } from '#log';
import { buildToolFolder } from '../build-tools.ts';

const ROOT = join(import.meta.dirname, '../../..');
const OUT = join(ROOT, 'dist/dashboard');
const SIGNER = 'signer.html';

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** The name of the build: a hash over the sources, what builds them, and the tool versions. In a release, the build that it contains. */
async function nameOfBuild(): Promise<string> {
  if (!(await exists(join(ROOT, 'dashboard')))) return (await readdir(OUT).catch(() => []))[0] ?? 'missing';
  const hash = createHash('sha256');
  const paths: string[] = [];
  for await (const path of glob('{dashboard,signer}/**/*.{ts,tsx,css,html,json,svg}', { cwd: ROOT })) paths.push(path);
  // The signer reads these.
  for await (const path of glob('src/{core,chains/bitcoin,chains/ethereum}/*.ts', { cwd: ROOT }))
    if (!path.endsWith('.test.ts')) paths.push(path);
  paths.sort();
  for (const path of [...paths, 'package.json', 'src/http/headers.ts', 'src/web/dashboard/build.ts'])
    hash
      .update(path)
      .update('\0')
      .update(await readFile(join(ROOT, path)))
      .update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** The app's folder for the current sources; null when it is not built yet. */
export async function findApp(): Promise<string | null> {
  const folder = join(OUT, await nameOfBuild());
  return (await exists(join(folder, SIGNER))) ? folder : null;
}

/** The SHA-256 of the signer page, as `sha256sum` prints it for the downloaded file; null when it is not built yet. */
export async function hashSigner(): Promise<string | null> {
  const folder = await findApp();
  return (
    folder &&
    createHash('sha256')
      .update(await readFile(join(folder, SIGNER)))
      .digest('hex')
  );
}

/** Builds one of the folders of pages. Errors: what the build wrote. */
async function runVite(from: string, into: string): Promise<void> {
  const vite = join(buildToolFolder('vite', { product: 'The dashboard' }), 'bin/vite.js');
  const child = spawn(process.execPath, [vite, 'build', '--logLevel', 'warn', '--outDir', into, '--emptyOutDir', join(ROOT, from)], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (bytes) => {
    said = (said + bytes).slice(-4_000);
  });
  const stop = () => void child.kill();
  process.once('exit', stop);
  const [code] = (await once(child, 'exit')) as [number | null];
  process.off('exit', stop);
  if (code !== 0) throw new Error(`the build of ${from} ended with ${code}: ${said}`);
}

let building: Promise<string> | null = null;
/** Builds the app unless it exists; its folder. Concurrent callers wait for the same build. */
export function buildApp(log: Pick<Log, 'info'>): Promise<string> {
  building ??= build(log).finally(() => {
    building = null;
  });
  return building;
}

/** Builds into a temporary folder and renames it: one of the concurrent builds wins, and a partial app is never served. */
async function build(log: Pick<Log, 'info'>): Promise<string> {
  const name = await nameOfBuild();
  const folder = join(OUT, name);
  if (await exists(join(folder, SIGNER))) return folder;
  const aside = `${folder}.${process.pid}.part`;
  await mkdir(OUT, { recursive: true });
  log.info({}, 'Building the dashboard (first start only, a few seconds)');
  try {
    await runVite('dashboard', aside);
    await runVite('signer', join(aside, 'signer'));
    await rename(join(aside, 'signer', SIGNER), join(aside, SIGNER));
    await rm(join(aside, 'signer'), { recursive: true });
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  }
  for await (const path of glob('**/*.{html,js,css,svg}', { cwd: aside })) await writePacked(join(aside, path));
  try {
    await rename(aside, folder);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    if (!(await exists(join(folder, 'index.html')))) throw error;
  }
  for (const other of await readdir(OUT)) {
    if (other !== name && !other.endsWith('.part')) await rm(join(OUT, other), { recursive: true, force: true });
  }
  log.info({}, 'Dashboard is ready');
  return folder;
}
