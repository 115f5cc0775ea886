/** Where the built app of the dashboard is, and the signer page in it. Its folder is named by a hash of its sources, so it is never stale. */
import { createHash } from 'node:crypto';
import { access, glob, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
/** Holds the folder of the app. */
export const APP_FOLDERS = join(ROOT, 'dist/dashboard');
export const SIGNER_FILE = 'signer.html';

export const fileExists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** The name of the build: a hash over the sources, what builds them, and the tool versions. In a release, the build that it contains. */
export async function nameOfBuild(): Promise<string> {
  if (!(await fileExists(join(ROOT, 'dashboard')))) return (await readdir(APP_FOLDERS).catch(() => []))[0] ?? 'missing';
  const hash = createHash('sha256');
  const paths: string[] = [];
  for await (const path of glob('{dashboard,signer}/**/*.{ts,tsx,css,html,json,svg}', { cwd: ROOT })) paths.push(path);
  // The signer reads these.
  for await (const path of glob('src/{core,chains/bitcoin,chains/ethereum}/*.ts', { cwd: ROOT }))
    if (!path.endsWith('.test.ts')) paths.push(path);
  paths.sort();
  for (const path of [...paths, 'package.json', 'src/transport/headers.ts', 'src/operate/app-build.ts', 'src/web/dashboard/build.ts'])
    hash
      .update(path)
      .update('\0')
      .update(await readFile(join(ROOT, path)))
      .update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** The app's folder for the current sources; null when it is not built yet. */
export async function findApp(): Promise<string | null> {
  const folder = join(APP_FOLDERS, await nameOfBuild());
  return (await fileExists(join(folder, SIGNER_FILE))) ? folder : null;
}

/** The SHA-256 of the signer page, as `sha256sum` prints it for the downloaded file; null when it is not built yet. */
export async function hashSigner(): Promise<string | null> {
  const folder = await findApp();
  return (
    folder &&
    createHash('sha256')
      .update(await readFile(join(folder, SIGNER_FILE)))
      .digest('hex')
  );
}
