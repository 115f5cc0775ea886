/** Which Florin this is, how it was installed, and what its database has. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Db } from '#db';

const ROOT = join(import.meta.dirname, '../..');

export const florinVersion = (): string => (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;

/** Of each major version of PostgreSQL, the first minor one without the vulnerabilities that were known at this release: those of 14 May 2026. */
const SAFE_POSTGRES: Readonly<Record<string, number>> = { 15: 18, 16: 14, 17: 10, 18: 4 };
/** What a server should be upgraded to because its minor version has known vulnerabilities; null if it has none of them, or nobody knows. */
export function saferPostgres(version: string): string | null {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  const safe = major === undefined ? undefined : SAFE_POSTGRES[major];
  return safe !== undefined && Number(minor) < safe ? `${major}.${safe}` : null;
}

/** How the code got here. Releases, packages and images contain a file that says so; a clone has none. */
type Origin = { installed_by: 'archive' | 'deb' | 'image' | 'clone'; commit: string | null };
export function readOrigin(folder = ROOT): Origin {
  const file = join(folder, 'dist/release.json');
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Origin) : { installed_by: 'clone', commit: null };
}

/** `db`: null if there is no database yet. Does not migrate. */
export async function readVersion(db: Db | null) {
  const known = { version: florinVersion(), ...readOrigin(), node: process.versions.node };
  if (db === null) return { ...known, postgresql: null, schema: null, newest_breaking: null };
  const [server] = await db.sql<
    { version: string; there: boolean }[]
  >`select current_setting('server_version') as version, to_regclass('migrations') is not null as there`;
  const applied = server!.there
    ? await db.sql<{ name: string; breaking: boolean }[]>`select name, breaking from migrations order by number`
    : [];
  return {
    ...known,
    postgresql: server!.version,
    schema: applied.at(-1)?.name ?? null,
    /** The last migration that older versions must not run with. */
    newest_breaking: applied.findLast(({ breaking }) => breaking)?.name ?? null,
  };
}
