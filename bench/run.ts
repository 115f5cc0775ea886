/** Runs the named benchmarks, or all of them: `npm run bench -- create get list`. */
import { spawnSync } from 'node:child_process';
import { ensureTools } from '../test/kit/tools.ts';

// The load generator comes from Debian's packages, like the tools of the tests.
await ensureTools([{ path: '/usr/bin/wrk', package: 'wrk' }]);
const names = process.argv.slice(2);
for (const name of names.length > 0
  ? names
  : [
      'create',
      'get',
      'list',
      'expiry',
      'dashboard',
      'search',
      'webhooks',
      'page',
      'screens',
      'pages',
      'blocks',
      'catchup',
      'poison',
      'headers',
      'light-client',
      'peers',
      'settle',
      'transfers',
      'lightning',
    ]) {
  const { status } = spawnSync(process.execPath, ['--expose-gc', '--disable-warning=ExperimentalWarning', `bench/${name}.ts`], {
    stdio: 'inherit',
  });
  if (status !== 0) process.exit(status ?? 1);
}
