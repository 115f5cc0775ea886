/** A copy of the source as after a fresh clone, and the environment of a newcomer's terminal. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, symlinkSync } from 'node:fs';
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

/** Without anything of this project: the machine's own Node, and packages from npm's cache where available. */
export const terminalEnvironment = (): Record<string, string> => ({
  HOME: process.env.HOME ?? tmpdir(),
  PATH: (process.env.PATH ?? '')
    .split(':')
    .filter((part) => !part.includes('node_modules'))
    .join(':'),
  npm_config_prefer_offline: 'true',
});
