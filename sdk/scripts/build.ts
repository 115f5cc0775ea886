/**
 * Builds what is packed: ECMAScript and CommonJS modules with their types, from the sources as they are. Run by `npm pack`, and with a
 * folder for them by the service, which hands the package out itself.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const OUT = resolve(process.argv[2] ?? join(ROOT, 'dist'));
const tsc = (...args: string[]): void => {
  const tools = join(ROOT, '../node_modules/.bin');
  const env = { ...process.env, PATH: `${tools}${delimiter}${process.env.PATH ?? ''}` };
  const { status, stdout } = spawnSync('tsc', ['-p', ...args], { cwd: ROOT, encoding: 'utf8', env });
  if (status !== 0) throw new Error(`tsc ${args.join(' ')} failed:\n${stdout}`);
};

rmSync(OUT, { recursive: true, force: true });
tsc('tsconfig.build.json', '--outDir', join(OUT, 'esm'));
tsc('tsconfig.cli.json', '--noEmit', 'false', '--outDir', join(OUT, 'esm'));
// The command line is a program, not a module: one form of it is enough.
tsc(
  'tsconfig.build.json',
  '--module',
  'commonjs',
  '--moduleResolution',
  'bundler',
  '--verbatimModuleSyntax',
  'false',
  '--outDir',
  join(OUT, 'cjs'),
);
writeFileSync(join(OUT, 'cjs/package.json'), '{ "type": "commonjs" }\n');
// Types keep the names of the sources; compilers look for those of the modules.
for (const file of globSync('**/*.d.ts', { cwd: OUT })) {
  const path = join(OUT, file);
  writeFileSync(path, readFileSync(path, 'utf8').replace(/(from '\.[^']*|import\("\.[^"]*)\.ts(['"])/g, '$1.js$2'));
}
chmodSync(join(OUT, 'esm/cli.js'), 0o755);
