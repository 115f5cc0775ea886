/**
 * The fence of address indexes: an address is issued once, whatever happens to the database. A file next to the database knows the
 * indexes that may have been issued. A database that was restored, copied, taken back to a snapshot, or continued by a standby that had
 * not received everything, may issue them again, so its counters jump past them.
 *
 * A counter is believed while its server runs on: what this run of the server has counted, it does not forget. Each wallet has its own
 * mark in the file, which names the run whose counter was compared with the file. Under another run, indexes that the file knows are
 * skipped; under another server or timeline also those that processes with other data folders may have issued meanwhile.
 */
import { hash } from 'node:crypto';
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { type Context, perContext } from '#context';
import { asObject, asWhole } from '#core/stored-json';
import type { Fragment, Sql, Tx } from '#db';

const FILE = 'wallet-indexes.json';
/** Indexes are reserved in blocks of this size before the first is issued: one write for twenty addresses. */
export const RESERVED_AHEAD = 20n;
/** The lock of the file, held until the transaction ends: processes on one data folder take turns. */
const FILE_LOCK = 7_233_104;

/** What a wallet issued through this process: the run of the server, the last counter seen there, and the end of the reservation. */
type Reservation = { run: string; seen: bigint; end: bigint };
const reservedOf = perContext(() => new Map<string, Reservation>());

/** The run of the server that answers: this start of it, its timeline, the database, and the table of wallets as it was created. */
export const serverRun = (sql: Sql | Tx): Fragment => sql`
  concat_ws('/', (select oid from pg_database where datname = current_database()), left(pg_walfile_name(pg_current_wal_lsn()), 8),
    extract(epoch from pg_postmaster_start_time()), pg_relation_filenode('wallets'))`;

/** The server, its timeline and the database. They change with a failover and a restore, not with a restart. */
export async function readServer(tx: Tx): Promise<string> {
  // By default every role may read the identifier; where that was revoked, the rest must do.
  const system = await tx
    .savepoint((inner) => inner<{ id: bigint }[]>`select system_identifier as id from pg_control_system()`)
    .catch((error: { code?: string }) => {
      if (error.code !== '42501') throw error;
      return [{ id: 0n }];
    });
  const [here] = await tx<{ timeline: string; oid: number }[]>`
    select left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline, oid from pg_database where datname = current_database()`;
  return `${system[0]!.id}/${here!.timeline}/${here!.oid}`;
}

/** The name of a wallet's mark in the file, and its value: a number, as everything in the file. */
export const markName = (walletId: string): string => `${walletId} server`;
export const markOf = (run: string): bigint => BigInt(`0x${hash('sha256', run).slice(0, 12)}`);

/** A counter whose wallet row is locked, and the server that issued from it last. */
type Counter = { walletId: string; index: bigint; issuedOn: string | null };

/**
 * The index that may be issued next: that of the counter, except where it and later ones may have been issued already; then the caller
 * moves the counter. The file covers the index. In nineteen of twenty calls this only reads memory. Errors: the file cannot be read or
 * written; then nothing is issued.
 */
export async function reserveIndex(ctx: Context, tx: Tx, { counter, run }: { counter: Counter; run: string }): Promise<bigint> {
  const { walletId, index } = counter;
  const own = reservedOf(ctx).get(walletId);
  if (own && isWithin(own, { index, run })) {
    own.seen = index;
    return index;
  }
  return (await compareIndexes(ctx, tx, { counters: [counter], run, issues: true })).get(walletId)!;
}

/** What this process reserved is issued while the run lasts in which it was reserved, and its counter does not go back. */
const isWithin = (own: Reservation, { index, run }: { index: bigint; run: string }): boolean =>
  own.run === run && index >= own.seen && index < own.end;

/**
 * The same for many counters, whose rows are locked, always with a look at the file. `issues`: their next index is issued now, so the file
 * covers more of them. Otherwise it follows the counters that other processes moved.
 */
export async function compareIndexes(
  ctx: Context,
  tx: Tx,
  { counters, run, issues }: { counters: readonly Counter[]; run: string; issues: boolean },
): Promise<Map<string, bigint>> {
  const reserved = reservedOf(ctx);
  await tx`select pg_advisory_xact_lock(${FILE_LOCK}::bigint)`;
  const server = await readServer(tx);
  const stored = await readWalletIndexes(ctx.settings.dataFolder);
  const before = new Map(stored);
  const from = new Map<string, bigint>();
  for (const { walletId, index, issuedOn } of counters) {
    const end = stored.get(walletId) ?? 0n;
    const own = reserved.get(walletId);
    const isVouched = own !== undefined && own.end === end && isWithin(own, { index, run });
    const isCompared = isVouched || (stored.get(markName(walletId)) === markOf(run) && !(own?.run === run && index < own.seen));
    const isElsewhere = issuedOn !== null && issuedOn !== server;
    const least = isElsewhere ? index + RESERVED_AHEAD : index;
    const to = (isElsewhere || !isCompared) && end > least ? end : least;
    // A jump may still be rolled back, so the mark follows with the next reservation. Until then, nobody believes the counter.
    if (to === index) stored.set(markName(walletId), markOf(run));
    else stored.delete(markName(walletId));
    if (issues ? to >= end : to > end) stored.set(walletId, issues || to === index ? to + RESERVED_AHEAD : to);
    from.set(walletId, to);
    reserved.set(walletId, { run, seen: to, end: stored.get(walletId) ?? to });
  }
  if (stored.size !== before.size || [...stored].some(([name, value]) => before.get(name) !== value))
    await writeWalletIndexes(ctx.settings.dataFolder, stored);
  await tx`
    update wallets set issued_on = ${server}
    where id = any(${counters.map(({ walletId }) => walletId)}::text[]) and issued_on is distinct from ${server}`;
  return from;
}

/**
 * Gives back what was reserved and not issued. Only for the last process that serves the database, after its last address: then a restart
 * of both skips nothing.
 */
export async function releaseIndexes(ctx: Context): Promise<void> {
  const reserved = reservedOf(ctx);
  if (reserved.size === 0) return;
  await ctx.db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(${FILE_LOCK}::bigint)`;
    const stored = await readWalletIndexes(ctx.settings.dataFolder);
    const rows = await tx<{ id: string; next: bigint; run: string }[]>`
      select id, next_index as next, ${serverRun(tx)} as run from wallets where id = any(${[...reserved.keys()]}::text[])`;
    for (const { id, next, run } of rows) {
      const own = reserved.get(id)!;
      const isOurs = own.run === run && stored.get(id) === own.end && stored.get(markName(id)) === markOf(run);
      if (isOurs && next >= own.seen && next < own.end) stored.set(id, next);
    }
    await writeWalletIndexes(ctx.settings.dataFolder, stored);
  });
  reserved.clear();
}

/**
 * Another number that the file remembers, if the database does not. `next` gets it, zero at first, and returns what to write. The lock of
 * the file is held until the transaction ends, so the number that was written before is committed.
 */
export async function keepNumber(
  ctx: Context,
  tx: Tx,
  { name, next }: { name: string; next(noted: bigint): Promise<bigint> },
): Promise<void> {
  await tx`select pg_advisory_xact_lock(${FILE_LOCK}::bigint)`;
  const { dataFolder } = ctx.settings;
  const stored = await readWalletIndexes(dataFolder);
  const noted = stored.get(name) ?? 0n;
  const value = await next(noted);
  if (value !== noted) await writeWalletIndexes(dataFolder, stored.set(name, value));
}

/** By wallet, the index below which all may have been issued. Empty when there is no file. */
export async function readWalletIndexes(dataFolder: string): Promise<Map<string, bigint>> {
  const path = join(dataFolder, FILE);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return new Map();
    throw error;
  }
  try {
    return indexesFromJson(JSON.parse(text));
  } catch (cause) {
    throw new Error(
      `${path} is damaged. It records which addresses of each wallet may have been issued; without it, addresses could be issued twice. Restore a copy of it, or move it away and set the wallets again with --first-index past the last one used.`,
      { cause },
    );
  }
}

/** Nothing gets a default here: a wallet whose entry is left out would issue addresses twice. Errors: another form. */
function indexesFromJson(value: unknown): Map<string, bigint> {
  if (asObject(value) !== value) throw new Error('it is not an object');
  return new Map(
    Object.entries(asObject(value)).map(([walletId, stored]) => {
      const index = asWhole(stored);
      if (index === null || index < 0) throw new Error(`the entry of ${walletId} is not an index`);
      return [walletId, BigInt(index)];
    }),
  );
}

/** Written to a temporary file and renamed, so the file is always complete. */
async function writeWalletIndexes(dataFolder: string, indexes: ReadonlyMap<string, bigint>): Promise<void> {
  const path = join(dataFolder, FILE);
  await mkdir(dataFolder, { recursive: true });
  const file = await open(`${path}.new`, 'w', 0o600);
  try {
    await file.writeFile(`${JSON.stringify(Object.fromEntries([...indexes].map(([id, index]) => [id, Number(index)])), null, 2)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  const folder = await open(dataFolder, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
