/** A fresh Debian in a folder: the minimal system of `debootstrap`, with commands and services run in it as root. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from './app.ts';

/** Why it cannot be made here. */
export const NO_DEBIAN_TREE =
  process.getuid?.() === 0 && existsSync('/usr/sbin/debootstrap') && existsSync('/usr/bin/dpkg-deb')
    ? false
    : 'needs root, debootstrap and dpkg-deb';
const PATH = '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export type DebianTree = {
  folder: string;
  /** Runs a command. */
  inside(command: string): { status: number | null; said: string };
  /** Runs a command that must succeed, and returns what it wrote. */
  done(command: string): string;
  /** Starts a service and waits until it writes `last`; returns what it wrote so far. One at a time. */
  start(command: string, last: string): Promise<string>;
  stop(): Promise<void>;
  remove(): Promise<void>;
};

export function makeDebianTree(
  folder: string,
  { packages = [], env = {} }: { packages?: string[]; env?: Record<string, string> } = {},
): DebianTree {
  execFileSync('debootstrap', ['--variant=minbase', ...(packages.length > 0 ? [`--include=${packages}`] : []), 'bookworm', folder], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  execFileSync('mount', ['-t', 'proc', 'proc', join(folder, 'proc')]);
  mkdirSync(join(folder, 'dev/shm'), { recursive: true });
  chmodSync(join(folder, 'dev/shm'), 0o1777);
  // Without waiting for the disk after each file, which a system that is thrown away does not need.
  writeFileSync(join(folder, 'etc/dpkg/dpkg.cfg.d/quick'), 'force-unsafe-io\n');
  // How this machine reaches the packages of Debian.
  for (const file of ['/etc/resolv.conf', '/etc/apt/apt.conf.d', '/etc/ssl/certs/ca-certificates.crt'])
    if (existsSync(file)) cpSync(file, join(folder, file), { recursive: true, dereference: true, force: true });
  const environment = { PATH, HOME: '/root', DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C', ...env };
  let service: ChildProcess | null = null;
  const inside = (command: string) => {
    const options = { env: environment, encoding: 'utf8', timeout: 600_000 } as const;
    const { status, stdout, stderr } = spawnSync('chroot', [folder, 'sh', '-c', command], options);
    return { status, said: `${stdout}${stderr}` };
  };
  const stop = async () => {
    if (service === null || service.exitCode !== null || service.signalCode !== null) return;
    const ended = once(service, 'exit');
    // A shell or npm may stand before the service.
    process.kill(-service.pid!, 'SIGTERM');
    await ended;
  };
  return {
    folder,
    inside,
    done: (command) => {
      const { status, said } = inside(command);
      assert.equal(status, 0, `${command}\n${said}`);
      return said;
    },
    start: async (command, last) => {
      let output = '';
      service = spawn('chroot', [folder, 'sh', '-c', command], { env: environment, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
      for (const stream of [service.stdout!, service.stderr!])
        stream.on('data', (part: Buffer) => {
          output += part;
        });
      await eventually(
        async () => {
          assert.equal(service!.exitCode, null, output);
          return output;
        },
        (text) => text.includes(last),
        900_000,
      );
      return output;
    },
    stop,
    remove: async () => {
      await stop();
      spawnSync('umount', [join(folder, 'proc')]);
      if (!existsSync(join(folder, 'proc/self'))) rmSync(folder, { recursive: true, force: true });
    },
  };
}
