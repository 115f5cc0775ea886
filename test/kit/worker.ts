/** The worker as a process of its own, beside a service in the process of the test; it can be killed at any moment. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { testEnvironment } from './app.ts';
import type { TestDatabase } from './database.ts';

export type Worker = { kill(): Promise<void> };

/** Starts a worker on the database of a service. Its settings are those of tests, and the given ones. */
export function startWorker(
  t: TestContext,
  { url, folder }: Pick<TestDatabase, 'url' | 'folder'>,
  more: Record<string, string> = {},
): Worker {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve', '--role', 'worker'], {
    env: { PATH: process.env.PATH ?? '', ...testEnvironment(url, folder, { LOG_LEVEL: 'silent', ...more }) },
    stdio: 'ignore',
  });
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  t.after(kill);
  return { kill };
}
