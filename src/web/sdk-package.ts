/**
 * `/florin.tgz`: the client as an npm package, built from the sources of this install, so that no registry name has to be trusted. A
 * release contains the package and no sources.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { access, glob, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import type { Context } from '#context';
import type { Log } from '#log';
import { buildToolFolder } from './build-tools.ts';

const ROOT = join(import.meta.dirname, '../..');
const SDK = join(ROOT, 'sdk');
const OUT = join(ROOT, 'dist/package');
/** The date in every archive that npm creates, so that the same sources produce the same bytes. */
const DATE_SECONDS = 499_162_500;
const RETRY_MS = 30_000;
const BLOCK = 512;

type Entry = { path: string; bytes: Buffer; program: boolean };

/** A file of an archive: its header (POSIX ustar), its bytes, and zeros up to a full block. */
function archived({ path, bytes, program }: Entry): Buffer[] {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) => header.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
  if (Buffer.byteLength(path) > 100) throw new Error(`${path} is too long for an archive`);
  header.write(path, 0, 'utf8');
  octal(program ? 0o755 : 0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(bytes.length, 124, 12);
  octal(DATE_SECONDS, 136, 12);
  header.fill(' ', 148, 156);
  header.write('0', 156, 'latin1');
  header.write('ustar\u000000', 257, 'latin1');
  const sum = header.reduce((all, byte) => all + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return [header, bytes, Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK)];
}

/** An npm package with these files, the same bytes for the same files; npm's own command keeps the rights that they have on this machine. */
export const packEntries = (entries: readonly Entry[]): Promise<Buffer> =>
  promisify(gzip)(Buffer.concat([...entries.flatMap(archived), Buffer.alloc(2 * BLOCK)]), { level: 9 });

async function filesOf(folder: string, patterns: string[]): Promise<string[]> {
  const paths: string[] = [];
  for await (const path of glob(patterns, { cwd: folder })) paths.push(path);
  return paths.sort();
}
const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** The package's file, named by a hash over its sources. In a release, the file that it contains. */
async function fileOfPackage(): Promise<string> {
  if (!(await exists(SDK))) return join(OUT, (await readdir(OUT).catch(() => []))[0] ?? 'missing.tgz');
  const hash = createHash('sha256');
  const paths = await filesOf(SDK, ['src/**/*.ts', 'scripts/*.ts', '*.json', 'README.md', 'LICENSE']);
  for (const path of paths)
    hash
      .update(`${path}\0`)
      .update(await readFile(join(SDK, path)))
      .update('\0');
  return join(OUT, `${hash.digest('hex').slice(0, 16)}.tgz`);
}

/** The package as a file, built in a child process if it is missing. Concurrent builders never see a partial file. */
export async function buildPackage(log: Pick<Log, 'info'>): Promise<string> {
  const file = await fileOfPackage();
  if (await exists(file)) return file;
  buildToolFolder('typescript', { product: 'The client package' });
  const aside = `${file}.${process.pid}.part`;
  log.info({}, 'Building the client package');
  await mkdir(OUT, { recursive: true });
  try {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(SDK, 'scripts/build.ts'), aside], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (bytes) => {
      said = (said + bytes).slice(-4_000);
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`the build ended with ${code}: ${said}`);
    const entries: Entry[] = [];
    for (const path of ['package.json', 'README.md', 'LICENSE'])
      entries.push({ path: `package/${path}`, bytes: await readFile(join(SDK, path)), program: false });
    for (const path of await filesOf(aside, ['**/*.{js,ts,json}']))
      entries.push({ path: `package/dist/${path}`, bytes: await readFile(join(aside, path)), program: path === 'esm/cli.js' });
    await writeFile(`${aside}.tgz`, await packEntries(entries));
    await rename(`${aside}.tgz`, file);
    return file;
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

export function registerPackage(app: FastifyInstance, ctx: Context): void {
  let packed: Promise<Buffer> | null = null;
  let failedAt = Number.NEGATIVE_INFINITY;
  const load = (): Promise<Buffer> | null => {
    if (packed === null && ctx.clock.monotonicMs() - failedAt < RETRY_MS) return null;
    packed ??= buildPackage(ctx.log)
      .then((file) => readFile(file))
      .catch((error) => {
        packed = null;
        failedAt = ctx.clock.monotonicMs();
        throw error;
      });
    return packed;
  };
  app.get('/florin.tgz', async (_request, reply) => {
    const bytes = await (load() ?? Promise.reject(new Error('the last attempt failed less than 30 seconds ago'))).catch(
      (error: unknown) => {
        ctx.log.error({ err: error }, 'Could not build the client package');
        return null;
      },
    );
    if (bytes === null)
      return reply
        .code(503)
        .headers({ 'retry-after': String(RETRY_MS / 1000), 'cache-control': 'no-store' })
        .type('text/plain')
        .send('The package could not be built. The reason is in the service log.\n');
    return reply
      .headers({
        'content-type': 'application/gzip',
        'cache-control': 'no-cache',
        etag: `"${createHash('sha256').update(bytes).digest('hex').slice(0, 20)}"`,
      })
      .send(bytes);
  });
}
