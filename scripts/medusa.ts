/**
 * The Medusa provider as an npm package: one CommonJS file with everything but Medusa, and the types of its settings.
 * `node scripts/medusa.ts [FOLDER]` writes medusa-payment-florin-<version>.tgz into the folder, by default dist/release.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vite';
import { packEntries } from '../src/web/sdk-package.ts';

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
  writeFileSync(join(outDir, 'index.d.cts'), `${readFileSync(join(PLUGIN, 'src/types.ts'), 'utf8')}\n${provider}`);
  mkdirSync(folder, { recursive: true });
  const files = ['package.json', 'README.md', 'LICENSE', 'dist/index.cjs', 'dist/index.d.cts'];
  const { version } = JSON.parse(readFileSync(join(PLUGIN, 'package.json'), 'utf8')) as { version: string };
  const file = join(folder, `medusa-payment-florin-${version}.tgz`);
  const entries = files.map((path) => ({ path: `package/${path}`, bytes: readFileSync(join(PLUGIN, path)), program: false }));
  writeFileSync(file, await packEntries(entries));
  return file;
}

if (import.meta.main) process.stdout.write(`${await packProvider(process.argv[2] ?? join(ROOT, 'dist/release'))}\n`);
