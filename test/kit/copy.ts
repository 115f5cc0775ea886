/** A copy of the source as after a fresh clone, and the environment of a newcomer's terminal. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/** Copies what is committed or would be. `linked`: with the packages that are installed here. */
export function copySource(folder: string, { linked }: { linked: boolean }): void {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' });
  for (const file of files.split('\0').filter(Boolean)) {
    if (existsSync(join(ROOT, file))) cpSync(join(ROOT, file), join(folder, file), { recursive: true });
  }
  if (linked) symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
}

/** The newest release with the packages that are installed here. False: there is none, or the repository has no tags. */
export function copyLastRelease(folder: string): boolean {
  try {
    const [release] = execFileSync('git', ['tag', '--list', 'v*', '--sort=-v:refname'], { cwd: ROOT, encoding: 'utf8' }).split('\n');
    if (!release) return false;
    const archive = execFileSync('git', ['archive', release], { cwd: ROOT, maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'] });
    mkdirSync(folder, { recursive: true });
    execFileSync('tar', ['x', '-C', folder], { input: archive });
  } catch {
    return false;
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return true;
}

/** Without anything of this project: the machine's own Node, and packages from npm's cache where available. */
export const terminalEnvironment = (): Record<string, string> => ({
  HOME: process.env.HOME ?? tmpdir(),
  PATH: (process.env.PATH ?? '')
    .split(':')
    .filter((part) => !part.includes('node_modules'))
    .join(':'),
  npm_config_prefer_offline: 'true',
});
