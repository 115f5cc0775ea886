/** Builds the dashboard app and the signer page with the installed tools. A release contains their folder and no sources. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { glob, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '#log';
import { APP_FOLDERS, fileExists, nameOfBuild, SIGNER_FILE } from '#operate';
import { writePacked } from '#transport';
import { buildToolFolder } from '../build-tools.ts';

const ROOT = join(import.meta.dirname, '../../..');

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
  const folder = join(APP_FOLDERS, name);
  if (await fileExists(join(folder, SIGNER_FILE))) return folder;
  const aside = `${folder}.${process.pid}.part`;
  await mkdir(APP_FOLDERS, { recursive: true });
  log.info({}, 'Building the dashboard (first start only, a few seconds)');
  try {
    await runVite('dashboard', aside);
    await runVite('signer', join(aside, 'signer'));
    await rename(join(aside, 'signer', SIGNER_FILE), join(aside, SIGNER_FILE));
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
    if (!(await fileExists(join(folder, 'index.html')))) throw error;
  }
  for (const other of await readdir(APP_FOLDERS)) {
    if (other !== name && !other.endsWith('.part')) await rm(join(APP_FOLDERS, other), { recursive: true, force: true });
  }
  log.info({}, 'Dashboard is ready');
  return folder;
}
