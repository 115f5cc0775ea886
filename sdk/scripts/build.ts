/** Builds what is packed: ECMAScript and CommonJS modules with their types, from the sources as they are. Run by `npm pack`. */
import { spawnSync } from 'node:child_process';
import { chmodSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const tsc = (...args: string[]): void => {
  const { status, stdout } = spawnSync('tsc', ['-p', ...args], { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`tsc ${args.join(' ')} failed:\n${stdout}`);
};

rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
tsc('tsconfig.build.json');
tsc('tsconfig.cli.json', '--noEmit', 'false');
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
  'dist/cjs',
);
writeFileSync(join(ROOT, 'dist/cjs/package.json'), '{ "type": "commonjs" }\n');
// Types keep the names of the sources; compilers look for those of the modules.
for (const file of globSync('dist/**/*.d.ts', { cwd: ROOT })) {
  const path = join(ROOT, file);
  writeFileSync(path, readFileSync(path, 'utf8').replace(/(from '\.[^']*|import\("\.[^"]*)\.ts(['"])/g, '$1.js$2'));
}
chmodSync(join(ROOT, 'dist/esm/cli.js'), 0o755);
