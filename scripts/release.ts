/**
 * Makes a release in dist/release: the archive, in which the dashboard, the client package and the plugins are already built, Debian
 * packages, the client, the plugins, what all of it contains, and the checksums. The same commit makes the same bytes.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { buildApp } from '../src/web/dashboard/build.ts';
import { buildPackage } from '../src/web/sdk-package.ts';
import { ARCHITECTURES, packDebian } from './debian.ts';
import { packProvider } from './medusa.ts';
import { billsOfMaterials, thirdPartyNotices } from './third-party.ts';
import { packPlugin } from './woocommerce.ts';

const ROOT = join(import.meta.dirname, '..');
const CONTENTS = [
  '.env.example',
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'docs',
  'florin',
  'openapi.json',
  'package-lock.json',
  'package.json',
  'scripts/slim.mjs',
  'src',
];

/** A folder as a compressed archive, the same for the same files, no matter who made them, when, and with which rights. */
export function packFolder(folder: string, { time }: { time: Date }): Buffer {
  const same = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', `--mtime=${time.toISOString()}`, '--mode=u+rwX,go+rX,go-w'];
  const tar = execFileSync('tar', ['-cf', '-', '--format=gnu', ...same, '-C', dirname(folder), basename(folder)], { maxBuffer: 1 << 30 });
  return gzipSync(tar, { level: 9 });
}

/** The checksums of all files in a folder, as `sha256sum --check` reads them. */
export const checksums = (folder: string): string =>
  readdirSync(folder)
    .sort()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, name)))
          .digest('hex')}  ${name}\n`,
    )
    .join('');

/** The folder of the archive: what git tracks of the contents, and what is built. */
export async function fillFolder(folder: string, { time }: { time: Date }): Promise<void> {
  const log = { info: (_details: object, message: string) => process.stdout.write(`${message}\n`) };
  const tracked = execFileSync('git', ['ls-files', '-z', '--', ...CONTENTS], { cwd: ROOT, encoding: 'utf8' });
  for (const file of tracked.split('\0').filter((path) => path !== '' && !path.endsWith('.test.ts'))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  for (const built of [await buildApp(log), await buildPackage(log)])
    cpSync(built, join(folder, 'dist', basename(dirname(built)), basename(built)), { recursive: true });
  // Served under /plugins.
  packPlugin(join(folder, 'dist/plugins'));
  await packProvider(join(folder, 'dist/plugins'));
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
  writeFileSync(join(folder, 'dist/release.json'), `${JSON.stringify({ installed_by: 'archive', commit })}\n`);
  writeFileSync(join(folder, 'THIRD-PARTY.txt'), thirdPartyNotices());
  const { cyclonedx, spdx } = billsOfMaterials({ time });
  writeFileSync(join(folder, 'sbom.cdx.json'), cyclonedx);
  writeFileSync(join(folder, 'sbom.spdx.json'), spdx);
}

async function release(): Promise<void> {
  const { version, homepage } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string; homepage: string };
  if (!readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').includes(`\n## [${version}]`))
    throw new Error(`CHANGELOG.md has no section for ${version}.`);
  const seconds = process.env.SOURCE_DATE_EPOCH ?? execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8' });
  const time = new Date(Number(seconds) * 1000);
  const out = join(ROOT, 'dist/release');
  rmSync(out, { recursive: true, force: true });
  const folder = join(ROOT, 'dist/work', `florin-${version}`);
  rmSync(dirname(folder), { recursive: true, force: true });
  await fillFolder(folder, { time });
  mkdirSync(out);
  writeFileSync(join(out, `florin-${version}.tgz`), packFolder(folder, { time }));
  for (const name of ['THIRD-PARTY.txt', 'sbom.cdx.json', 'sbom.spdx.json']) cpSync(join(folder, name), join(out, name));
  for (const name of readdirSync(join(folder, 'dist/plugins'))) cpSync(join(folder, 'dist/plugins', name), join(out, name));
  const [client] = readdirSync(join(folder, 'dist/package'));
  cpSync(join(folder, 'dist/package', client!), join(out, `florin-client-${version}.tgz`));
  for (const architecture of Object.keys(ARCHITECTURES) as (keyof typeof ARCHITECTURES)[])
    packDebian(folder, { architecture, version, time, out });
  writeFileSync(join(out, 'SHA256SUMS'), checksums(out));
  rmSync(dirname(folder), { recursive: true, force: true });
  for (const name of readdirSync(out)) process.stdout.write(`dist/release/${name}\n`);
  if (homepage.endsWith('.example')) process.stdout.write('Before you publish, set homepage, bugs and repository in package.json.\n');
  process.stdout.write('Sign SHA256SUMS as "Make a release" in CONTRIBUTING.md says.\n');
}

if (import.meta.main) await release();
