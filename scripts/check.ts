/** Everything that has one right answer: types, format and lint, the tidy tests, spelling and wording, regular expressions, generated files. Prints each with its time. */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';

const steps: readonly [name: string, command: string, ...args: string[]][] = [
  ['types', 'tsc', '-p', '.'],
  ['types of the dashboard', 'tsc', '-p', 'dashboard'],
  ['types of the SDK where there is no Node', 'tsc', '-p', 'sdk'],
  ['format and lint', 'biome', 'ci', '--error-on-warnings'],
  ['tidy', process.execPath, '--test', '--test-reporter=dot', ...globSync('test/tidy*.test.ts')],
  ['prose', process.execPath, 'scripts/prose.ts'],
  ['patterns', process.execPath, '--disable-warning=ExperimentalWarning', 'scripts/patterns.ts'],
  ['generated files', process.execPath, 'scripts/generate.ts', '--check'],
];

// After a pull that added packages, every step would fail for another reason.
const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, object>;
const missing = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => !existsSync(`node_modules/${name}/package.json`));
if (missing.length > 0) {
  process.stdout.write(`Not installed: ${missing.join(', ')}. Run: npm install\n`);
  process.exit(1);
}

let failed = 0;
for (const [name, command, ...args] of steps) {
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  process.stdout.write(`${status === 0 ? 'ok  ' : 'FAIL'} ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)\n`);
  if (status !== 0) {
    failed++;
    process.stdout.write(`${stdout}${stderr}\n`);
  }
}
process.exitCode = failed === 0 ? 0 : 1;
