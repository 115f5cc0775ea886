/**
 * Backups: all tables of one snapshot in one compressed file, and restoring it. Before compression the file is text: a header in JSON
 * with its checksum, then for each table its rows as COPY writes them, ended by `\.` and a line with their count and checksum, then a
 * line that marks the end. Both directions only hold a part of a table in memory.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { pipeline, finished as whenFinished } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { type Context, canOpen } from '#context';
import { appliedMigrations, applyMigration, claimAlone, createMigrations, type Db, migrationNames, type Tx, tableNames } from '#db';
import type { Log } from '#log';
import { remakeDays } from '#merchants';
import { notifyOperators } from '#notices';
import { placeKeyFile, readKeyFile, sealerOf } from './seal.ts';
import { explainWrongKey, inspectSeals, isRightKey, NO_KEY } from './secret-key.ts';
import { florinVersion } from './version.ts';

/** Version of the file format, not of the tables: those follow from the migrations listed in it. */
const FORMAT = 1;
const PIECE_BYTES = 64 * 1024;
const MAX_LINE_BYTES = 1024 * 1024;
/** The largest row that Florin writes is a file to sign of 32 MB, and COPY may write a character as two. */
const MAX_ROW_BYTES = 64 * 1024 * 1024;
const NEWLINE = 10;
const END_OF_ROWS = Buffer.from('\\.\n');
/** Tables that are not empty in a new install. */
const IN_EVERY_INSTALL = new Set(['migrations', 'install', 'price_history']);

type Header = {
  florin_backup: typeof FORMAT;
  version: string;
  made_at: string;
  migrations: string[];
  /** The key file; null when SECRET_KEY was set, or nothing was encrypted yet. */
  secret_key: string | null;
  /** A value encrypted with the key. It decides only where the tables hold nothing that is sealed. */
  key_check: string | null;
  tables: { name: string; columns: string[] }[];
  sequences: { table: string; column: string; last: string }[];
};
type TableEnd = { rows: number; sha256: string };
type FileEnd = { end: true; tables: number; rows: number };

/** Why a backup or a restore was refused, for the operator. Nothing was changed. */
export class BackupError extends Error {}

const checksum = (text: string): string => createHash('sha256').update(text).digest('hex');
const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const KEY_PURPOSE = 'backup';

// Writing ---------------------------------------------------------------------------------------------------------------

export type BackupResult = {
  file: string;
  bytes: number;
  migration: string;
  /** Whether the key of the stored secrets is in the file, and what else a restore needs. */
  secret_key: string;
  tables: Record<string, number>;
  rows: number;
  duration_ms: number;
};

/**
 * Writes a backup, also next to a running service: one snapshot, no blocking locks. The file gets its name when it is complete and on
 * disk, readable only by its owner. Errors: BackupError, also when the key at hand does not open what is sealed.
 */
export async function writeBackup({
  db,
  dataFolder,
  secretKey,
  file: path,
}: {
  db: Db;
  dataFolder: string;
  secretKey: string | undefined;
  file: string;
}): Promise<BackupResult> {
  const began = performance.now();
  const file = resolve(path);
  const partial = `${file}.${process.pid}.partial`;
  const fileKey = secretKey === undefined ? await readKeyFile(dataFolder) : null;
  const key = secretKey ?? fileKey;
  const out = await open(partial, 'wx', 0o600);
  try {
    const counts: Record<string, number> = {};
    let header: Header | null = null;
    await db.sql.begin('isolation level repeatable read read only', async (tx) => {
      await tx`set local statement_timeout = 0`;
      header = await describe(tx);
      if (!isRightKey(await inspectSeals(tx, key === null ? NO_KEY : sealerOf(key))))
        throw new BackupError(`${await explainWrongKey(tx, { secretKey, dataFolder })} No backup was written.`);
      if (key !== null) header.key_check = Buffer.from(sealerOf(key).seal(KEY_PURPOSE, Buffer.from('florin'))).toString('base64');
      header.secret_key = fileKey;
      await compress((stopped) => contents(tx, header!, counts, stopped), out);
    });
    const { size } = await stat(partial);
    await rename(partial, file);
    await syncFolder(dirname(file));
    await db.sql`update install set backed_up_at = clock_timestamp()`;
    return {
      file,
      bytes: size,
      migration: header!.migrations.at(-1)!,
      secret_key: fileKey !== null ? 'included' : key === null ? 'none yet' : 'not included: a restore needs the same SECRET_KEY',
      tables: counts,
      rows: sum(counts),
      duration_ms: Math.round(performance.now() - began),
    };
  } catch (error) {
    await out.close().catch(() => {});
    await rm(partial, { force: true });
    throw error;
  }
}

/**
 * Writes compressed parts to disk and closes the file. When that fails (disk full), it tells the parts to stop and drains them until
 * they do: a server in the middle of a COPY answers nothing else on its connection.
 */
async function compress(parts: (stopped: () => boolean) => AsyncIterable<Buffer>, out: FileHandle): Promise<void> {
  const gzip = createGzip();
  let failure: { error: unknown } | null = null;
  const written = pipeline(gzip, out.createWriteStream({ flush: true })).catch((error: unknown) => {
    failure = { error };
  });
  try {
    for await (const piece of inPieces(parts(() => failure !== null))) {
      if (failure === null && !gzip.write(piece)) await Promise.race([once(gzip, 'drain').catch(() => {}), written]);
    }
    gzip.end();
  } catch (error) {
    gzip.destroy();
    throw error;
  } finally {
    await written;
  }
  const failed = failure as { error: unknown } | null;
  if (failed) throw failed.error;
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((a, b) => a + b, 0);

async function syncFolder(path: string): Promise<void> {
  const folder: FileHandle = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Errors: BackupError, if the data is from before the first release. */
function migrationsOf(names: readonly string[]): string[] {
  try {
    return appliedMigrations(names);
  } catch (error) {
    throw new BackupError((error as Error).message, { cause: error });
  }
}

/** The contents of this database, as the snapshot shows them. */
async function describe(tx: Tx): Promise<Header> {
  const [found] = await tx<
    { there: boolean; now: Date }[]
  >`select to_regclass('migrations') is not null as there, clock_timestamp() as now`;
  if (!found!.there) throw new BackupError('There is nothing to back up: this database holds no Florin yet.');
  const rows = await tx<{ name: string }[]>`select name from migrations order by number`;
  const migrations = migrationsOf(rows.map(({ name }) => name));
  const known = new Set(migrationNames());
  const foreign = migrations.find((name) => !known.has(name));
  // Tables of an unknown migration would be left out silently.
  if (foreign)
    throw new BackupError(`A newer Florin has brought this database up to date (migration ${foreign}). Make the backup with that version.`);
  const columns = await tx<{ name: string; column: string; sequence: string | null }[]>`
    select c.relname as name, a.attname as column, case when a.attidentity <> '' then pg_get_serial_sequence(quote_ident(c.relname), a.attname) end as sequence
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and c.relname = any(${tableNames()}::text[])
    order by c.oid, a.attnum`;
  const sequences: Header['sequences'] = [];
  for (const { name, column, sequence } of columns) {
    if (sequence === null) continue;
    // Sequences are not part of a snapshot: they may be ahead of the rows, never behind.
    const [at] = await tx.unsafe<{ last: bigint; called: boolean }[]>(`select last_value as last, is_called as called from ${sequence}`);
    if (at!.called) sequences.push({ table: name, column, last: at!.last.toString() });
  }
  return {
    florin_backup: FORMAT,
    version: florinVersion(),
    made_at: found!.now.toISOString(),
    migrations,
    secret_key: null,
    key_check: null,
    // In order of creation: referenced tables come first.
    tables: tableNames()
      .map((name) => ({ name, columns: columns.filter((row) => row.name === name).map((row) => row.column) }))
      .filter(({ columns: own }) => own.length > 0),
    sequences,
  };
}

/** The uncompressed file. Counts are filled in table by table. */
async function* contents(tx: Tx, header: Header, counts: Record<string, number>, stopped: () => boolean): AsyncGenerator<Buffer> {
  const transactions = await tx<{ name: string; column: string }[]>`
    select c.relname as name, a.attname as column from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.atttypid = 'xid8'::regtype`;
  const isTransaction = new Set(transactions.map(({ name, column }) => `${name}.${column}`));
  const text = JSON.stringify(header);
  yield Buffer.from(`${text}\n${checksum(text)}\n`);
  for (const { name, columns } of header.tables) {
    if (stopped()) return;
    // Transaction numbers are zeroed: another server counts from the start, and the stored ones would be in its future.
    const values = columns.map((column) => (isTransaction.has(`${name}.${column}`) ? `'0'::xid8` : quoted(column)));
    const rows = await tx.unsafe(`copy (select ${values.join(', ')} from ${quoted(name)}) to stdout`).readable();
    const hash = createHash('sha256');
    let count = 0;
    for await (const piece of rows as AsyncIterable<Buffer>) {
      hash.update(piece);
      count += countLines(piece);
      yield piece;
    }
    counts[name] = count;
    yield END_OF_ROWS;
    yield Buffer.from(`${JSON.stringify({ rows: count, sha256: hash.digest('hex') } satisfies TableEnd)}\n`);
  }
  yield Buffer.from(`${JSON.stringify({ end: true, tables: header.tables.length, rows: sum(counts) } satisfies FileEnd)}\n`);
}

/** COPY escapes line breaks in data, so lines are rows. */
function countLines(piece: Buffer): number {
  let lines = 0;
  for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) lines++;
  return lines;
}

/** Rows are small, so the compressor gets larger chunks. */
async function* inPieces(parts: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const part of parts) {
    held.push(part);
    bytes += part.length;
    if (bytes < PIECE_BYTES) continue;
    yield Buffer.concat(held);
    held = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(held);
}

// Reading ---------------------------------------------------------------------------------------------------------------

export type RestoreResult<T> = {
  file: string;
  made_at: string;
  version: string;
  migrated: string[];
  tables: Record<string, number>;
  rows: number;
  finished: T;
  duration_ms: number;
};

/**
 * Restores a backup into an empty install, in one transaction. Older backups are migrated. `finish` runs in the same transaction, on
 * the restored tables. Errors: BackupError when the install is not empty or in use, the file is damaged, incomplete, foreign or
 * newer, or its secrets cannot be decrypted with the current key.
 */
export async function restoreBackup<T>({
  db,
  dataFolder,
  secretKey,
  file: path,
  log,
  finish,
}: {
  db: Db;
  dataFolder: string;
  secretKey: string | undefined;
  file: string;
  log: Log;
  finish(tx: Tx): Promise<T>;
}): Promise<RestoreResult<T>> {
  const began = performance.now();
  const file = resolve(path);
  const compressed = createReadStream(file);
  const plain = createGunzip();
  // A read failure ends the reader below, which reports it.
  compressed.on('error', (error) => plain.destroy(error)).pipe(plain);
  plain.on('error', () => {});
  const reader = readPieces(plain);
  try {
    const header = await readHeader(reader, file);
    const known = migrationNames();
    const made = migrationsOf(header.migrations);
    const newer = made.find((name) => !known.includes(name));
    if (newer !== undefined)
      throw new BackupError(`${file} was made by a newer Florin (${header.version}, migration ${newer}). Restore it with that version.`);
    const counts: Record<string, number> = {};
    const migrated: string[] = [];
    // No retries: the file is read once.
    const finished = await db.sql.begin(async (tx) => {
      await tx`set local statement_timeout = 0`;
      await claimEmpty(tx);
      await createMigrations(tx);
      for (const name of made) await applyMigration(tx, name);
      await restoreTables(tx, reader, header, counts);
      for (const { table, column, last } of header.sequences)
        await tx`select setval(pg_get_serial_sequence(${quoted(table)}, ${column}), ${last}::bigint)`;
      for (const name of known.filter((n) => !made.includes(n))) {
        await applyMigration(tx, name);
        migrated.push(name);
      }
      // A backup from before days were stored has none.
      await remakeDays(tx, { merchantId: null });
      const keyFile = await chooseKey(tx, header, { secretKey, dataFolder });
      const result = await finish(tx);
      // Last, before the commit: a key without data does no harm, but data without its key cannot be read.
      if (keyFile !== null) await placeKeyFile(dataFolder, keyFile);
      return result;
    });
    // Statistics for good query plans from the start; the restored data does not depend on them.
    await db.sql
      .begin((tx) => tx`set local statement_timeout = 0`.then(() => tx.unsafe(`analyze ${tableNames().map(quoted).join(', ')}`)))
      .catch((error: unknown) => log.warn({ err: error }, 'Could not analyze the restored tables'));
    return {
      file,
      made_at: header.made_at,
      version: header.version,
      migrated,
      tables: counts,
      rows: sum(counts),
      finished: finished as T,
      duration_ms: Math.round(performance.now() - began),
    };
  } catch (error) {
    throw explained(error, file);
  } finally {
    compressed.destroy();
    plain.destroy();
  }
}

/** Only explains errors that the file caused. */
function explained(error: unknown, file: string): unknown {
  const code = (error as { code?: string }).code ?? '';
  if (error instanceof BackupError) return error;
  if (code === 'ENOENT' || code === 'EACCES' || code === 'EISDIR')
    return new BackupError(`${file} cannot be read (${code}).`, { cause: error });
  // Decompression; data that a table rejects (22, 23); a COPY that failed on its last row (25P02).
  if (/^Z_|^(22|23)[0-9A-Z]{3}$|^25P02$/.test(code)) return damaged(file, error);
  return error;
}
const damaged = (file: string, cause?: unknown): BackupError =>
  new BackupError(`${file} is damaged or cut off. Nothing was restored.`, { cause });

type Reader = {
  /** The next line without its end; null at the end of the file. */
  line(): Promise<string | null>;
  /** Complete lines up to `\.`, which is consumed too. False: the file ended before it. */
  rows(take: (piece: Buffer) => Promise<void>): Promise<boolean>;
};

function readPieces(source: AsyncIterable<Buffer>): Reader {
  const pieces = source[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  /** Reads on until a line is complete. Its pieces are joined once, so a long line costs no more than its length. */
  const complete = async (most: number): Promise<'yes' | 'ended' | 'too long'> => {
    if (held.includes(NEWLINE)) return 'yes';
    const parts = [held];
    let bytes = held.length;
    while (bytes <= most) {
      const next = await pieces.next();
      if (next.done) return 'ended';
      parts.push(next.value);
      bytes += next.value.length;
      if (!next.value.includes(NEWLINE)) continue;
      held = Buffer.concat(parts);
      return 'yes';
    }
    return 'too long';
  };
  return {
    line: async () => {
      if ((await complete(MAX_LINE_BYTES)) !== 'yes') return null;
      const end = held.indexOf(NEWLINE);
      const line = held.toString('utf8', 0, end);
      held = held.subarray(end + 1);
      return line;
    },
    rows: async (take) => {
      for (;;) {
        const found = await complete(MAX_ROW_BYTES);
        if (found === 'too long')
          throw new BackupError(`The backup has a row of more than ${MAX_ROW_BYTES / 1024 / 1024} MB. Nothing was restored.`);
        if (found === 'ended') return false;
        const whole = held.subarray(0, held.lastIndexOf(NEWLINE) + 1);
        // `held` begins with a line. A backslash within data is doubled by COPY, so this line is never data.
        const inner = whole.indexOf(`\n${END_OF_ROWS}`);
        const end = whole.subarray(0, END_OF_ROWS.length).equals(END_OF_ROWS) ? 0 : inner < 0 ? -1 : inner + 1;
        if (end >= 0) {
          if (end > 0) await take(whole.subarray(0, end));
          held = held.subarray(end + END_OF_ROWS.length);
          return true;
        }
        await take(whole);
        held = held.subarray(whole.length);
      }
    },
  };
}

function parseLine<T>(line: string | null): T | null {
  try {
    return line === null ? null : (JSON.parse(line) as T);
  } catch {
    // Not ours, or incomplete: the caller says which.
    return null;
  }
}

async function readHeader(reader: Reader, file: string): Promise<Header> {
  const foreign = (cause?: unknown) => new BackupError(`${file} is not a backup made by Florin.`, { cause });
  let line: string | null;
  try {
    line = await reader.line();
  } catch (error) {
    // Not a compressed file. Other errors are reported by `explained`.
    if ((error as { code?: string }).code === 'Z_DATA_ERROR' && /incorrect header check/.test(String(error))) throw foreign(error);
    throw error;
  }
  if (line === null || !line.startsWith('{"florin_backup":')) throw foreign();
  // Checked before its content is used.
  const header = (await reader.line()) === checksum(line) ? parseLine<Header>(line) : null;
  if (header === null) throw damaged(file);
  if (header.florin_backup !== FORMAT)
    throw new BackupError(`${file} has form ${header.florin_backup} of a newer Florin (${header.version}). Restore it with that version.`);
  return header;
}

/**
 * The key to write to the key file; null when the right one exists or is given. What the restored tables hold decides, not what the
 * header says of it: older versions wrote it without looking. Errors: BackupError when no key at hand opens the secrets.
 */
async function chooseKey(
  tx: Tx,
  header: Header,
  { secretKey, dataFolder }: { secretKey: string | undefined; dataFolder: string },
): Promise<string | null> {
  const opens = async (key: string | null): Promise<boolean> => {
    const sealer = key === null ? NO_KEY : sealerOf(key);
    const seals = await inspectSeals(tx, sealer);
    if (seals.check === null && seals.opened + seals.closed.length === 0)
      return header.key_check === null || canOpen(sealer, KEY_PURPOSE, Buffer.from(header.key_check, 'base64'));
    return isRightKey(seals);
  };
  if (await opens(secretKey ?? null)) return null;
  const included = header.secret_key !== null && (await opens(header.secret_key));
  if (secretKey === undefined && included) return header.secret_key;
  const there = secretKey === undefined ? await readKeyFile(dataFolder) : null;
  if (there !== null && (await opens(there))) return null;
  throw new BackupError(
    included
      ? 'The secrets in this backup are sealed with the key that is in it, not with SECRET_KEY. Unset SECRET_KEY and restore again.'
      : 'The secrets in this backup are sealed with a SECRET_KEY that is not in it. Set SECRET_KEY to what it was then.',
  );
}

/** Locks the install for this transaction: no service, no migration, and no data in it. Empty tables are dropped. */
async function claimEmpty(tx: Tx): Promise<void> {
  if (!(await claimAlone(tx))) throw new BackupError('Florin is running on this database. Stop it, and restore into an empty install.');
  const there = await tx<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r' and relname = any(${['migrations', ...tableNames()]}::text[])`;
  for (const { name } of there) {
    if (IN_EVERY_INSTALL.has(name)) continue;
    const [row] = await tx.unsafe(`select 1 from ${quoted(name)} limit 1`);
    if (row)
      throw new BackupError(
        `This install is not empty (${name}). Restore into an empty one: another FLORIN_DATA, or another database in DATABASE_URL.`,
      );
  }
  if (there.length === 0) return;
  // Dropping a table drops its triggers but not their functions, which the migrations create again.
  const behind = await tx<{ name: string }[]>`
    select distinct tgfoid::regprocedure::text as name from pg_trigger
    where not tgisinternal and tgrelid = any(${there.map(({ name }) => quoted(name))}::text[]::regclass[])`;
  await tx.unsafe(`drop table ${there.map(({ name }) => quoted(name)).join(', ')}`);
  if (behind.length > 0) await tx.unsafe(`drop function ${behind.map(({ name }) => name).join(', ')}`);
}

async function restoreTables(tx: Tx, reader: Reader, header: Header, counts: Record<string, number>): Promise<void> {
  const known = new Set(tableNames());
  for (const { name, columns } of header.tables) {
    if (!known.has(name)) throw new BackupError('The backup names a table that Florin does not have. Nothing was restored.');
    const hash = createHash('sha256');
    let rows = 0;
    const into = await tx.unsafe(`copy ${quoted(name)} (${columns.map(quoted).join(', ')}) from stdin`).writable();
    let failure: Error | null = null;
    into.on('error', (error) => {
      failure ??= error;
    });
    try {
      const whole = await reader.rows(async (piece) => {
        hash.update(piece);
        rows += countLines(piece);
        await new Promise<void>((done, fail) => into.write(piece, (error) => (error ? fail(error) : done())));
      });
      if (!whole) throw damaged('The backup');
    } catch (error) {
      into.destroy(error as Error);
      // The error of the server is the cause; errors of the stream after it are not.
      await setImmediate();
      throw failure ?? error;
    }
    into.end();
    await whenFinished(into);
    const [stored] = await tx.unsafe<{ count: bigint }[]>(`select count(*) from ${quoted(name)}`);
    const end = parseLine<TableEnd>(await reader.line());
    if (end?.rows !== rows || end.sha256 !== hash.digest('hex') || stored!.count !== BigInt(rows)) throw damaged('The backup');
    counts[name] = rows;
  }
  const end = parseLine<FileEnd>(await reader.line());
  if (end?.end !== true || end.tables !== header.tables.length || end.rows !== sum(counts)) throw damaged('The backup');
  // The checksum of the compressed file is checked at its end.
  if ((await reader.line()) !== null) throw damaged('The backup');
}

// The state of the install, for operators.

/** An install with a wallet should not be without a backup for longer. */
export const BACKUP_DAYS = 7;

/** Notifies operators once a week while the last backup is older than that, from a week after the first wallet was added. */
export async function alertBackup(ctx: Context): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const [old] = await tx<{ backedUpAt: Date | null }[]>`
      update install i set backup_alerted_at = clock_timestamp()
      from (select clock_timestamp() - make_interval(days => ${BACKUP_DAYS}) as at) as old
      where coalesce(i.backup_alerted_at < old.at, true) and coalesce(i.backed_up_at < old.at, true)
        and exists (select 1 from wallets w where w.active and w.created_at < old.at)
      returning i.backed_up_at as "backedUpAt"`;
    if (!old) return;
    await notifyOperators(ctx, tx, { kind: 'backup_old', detail: { backed_up_at: old.backedUpAt?.toISOString() ?? null } });
  });
}

/** The schema, the age of the last backup, and payments that wait for settling. */
export async function readInstall(ctx: Context): Promise<{ schema: string; backedUpAt: Date | null; paymentsDue: number }> {
  const [row] = await ctx.db.sql<{ schema: string; backedUpAt: Date | null; due: bigint }[]>`
    select (select name from migrations order by number desc limit 1) as schema, (select backed_up_at from install) as "backedUpAt",
      (select count(*) from payments where due_at <= clock_timestamp()) + (select count(*) from due_work where kind = 'settle') as due`;
  return { schema: row!.schema.replace(/\.sql$/, ''), backedUpAt: row!.backedUpAt, paymentsDue: Number(row!.due) };
}
