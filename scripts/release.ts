/**
 * Makes a release: a folder and an archive in dist/release with the dashboard and the client package already built, so that the install
 * needs no build tools. Packs the files that git tracks. Packs the WooCommerce plugin and the Medusa provider beside it.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { buildApp } from '../src/web/dashboard/build.ts';
import { buildPackage } from '../src/web/sdk-package.ts';
import { packProvider } from './medusa.ts';
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

const log = { info: (_details: object, message: string) => process.stdout.write(`${message}\n`) };
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const folder = join(ROOT, 'dist/release', `florin-${version}`);
rmSync(folder, { recursive: true, force: true });
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
const archive = `${folder}.tgz`;
execFileSync('tar', ['-czf', archive, '--owner=0', '--group=0', '--sort=name', '-C', dirname(folder), basename(folder)]);
log.info({}, `Release is ready: ${archive}`);
log.info({}, `WooCommerce plugin is ready: ${packPlugin(dirname(folder))}`);
log.info({}, `Medusa provider is ready: ${await packProvider(dirname(folder))}`);
