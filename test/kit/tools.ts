/** The programs that tests need and npm does not bring: a browser and real nodes, from Debian's packages. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const PROGRAMS: readonly { path: string; package: string }[] = [
  { path: '/usr/bin/chromium', package: 'chromium' },
  { path: '/usr/lib/litecoin/litecoind', package: 'litecoind' },
];

/** Installs what is missing; fails with the names of the packages where that is not possible. */
export function ensureTools(): void {
  const missing = PROGRAMS.filter((program) => !existsSync(program.path)).map((program) => program.package);
  if (missing.length === 0) return;
  const debian = existsSync('/etc/debian_version') && process.getuid?.() === 0 && spawnSync('apt-get', ['--version']).status === 0;
  if (!debian) {
    const system = existsSync('/etc/os-release')
      ? (/^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'this system')
      : 'this system';
    throw new Error(
      `The tests need ${missing.join(' and ')}. On Debian they are installed when the tests run as root; on ${system} install them first.`,
    );
  }
  process.stdout.write(`Installing ${missing.join(', ')} for the tests\n`);
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  for (const args of [
    ['update', '-qq'],
    ['install', '-y', '-qq', '--no-install-recommends', ...missing],
  ]) {
    const { status, stderr } = spawnSync('apt-get', args, { env: environment, encoding: 'utf8' });
    if (status !== 0) throw new Error(`apt-get ${args[0]} failed: ${stderr.trim().split('\n').at(-1)}`);
  }
}
