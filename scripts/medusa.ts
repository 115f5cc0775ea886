/**
 * The Medusa provider as an npm package: one CommonJS file with everything but Medusa, and the types of its settings.
 * `node scripts/medusa.ts [FOLDER]` writes medusa-payment-florin-<version>.tgz into the folder, by default dist/release.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build } from 'vite';

const ROOT = join(import.meta.dirname, '..');
const PLUGIN = join(ROOT, 'plugins/medusa');

/** Packs it into this folder. Returns the file. */
export async function packProvider(folder: string): Promise<string> {
  const outDir = join(PLUGIN, 'dist');
  await build({
    root: PLUGIN,
    configFile: false,
    logLevel: 'warn',
    build: {
      outDir,
      emptyOutDir: true,
      target: 'node20',
      minify: false,
      ssr: join(PLUGIN, 'src/index.ts'),
      rolldownOptions: { external: /^@medusajs\//, output: { format: 'cjs', entryFileNames: 'index.cjs', exports: 'named' } },
    },
    ssr: { noExternal: /^(?!@medusajs\/)/ },
  });
  const provider = 'declare const provider: { module: string; services: unknown[] };\nexport default provider;\n';
  writeFileSync(join(outDir, 'index.d.ts'), `${readFileSync(join(PLUGIN, 'src/types.ts'), 'utf8')}\n${provider}`);
  mkdirSync(folder, { recursive: true });
  const said = execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', resolve(folder)], {
    cwd: PLUGIN,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [{ filename }] = JSON.parse(said) as [{ filename: string }];
  return join(folder, filename);
}

if (import.meta.main) process.stdout.write(`${await packProvider(process.argv[2] ?? join(ROOT, 'dist/release'))}\n`);
