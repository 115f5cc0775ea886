/**
 * The address indexes that may have been issued, in a file next to the database, because a restored backup does not know the latest
 * ones.
 */
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { type Context, perContext } from '../context.ts';
import { asObject, asWhole } from '../core/stored-json.ts';
import type { Tx } from '../db/db.ts';

const FILE = 'wallet-indexes.json';
/** Indexes are reserved in blocks of this size before the first is issued: one write for twenty addresses. */
export const RESERVED_AHEAD = 20n;
/** The lock of the file, held until the transaction ends: processes on one data folder take turns. */
const FILE_LOCK = 7_233_104;

const reservedOf = perContext(() => new Map<string, bigint>());

/**
 * Makes sure the file covers an index before it is issued. Called with the wallet row locked. In nineteen of twenty calls it only
 * reads memory. Errors: the file cannot be read or written; then nothing is issued.
 */
export async function reserveIndex(ctx: Context, tx: Tx, { walletId, index }: { walletId: string; index: bigint }): Promise<void> {
  const reserved = reservedOf(ctx);
  if (index < (reserved.get(walletId) ?? 0n)) return;
  await tx`select pg_advisory_xact_lock(${FILE_LOCK}::bigint)`;
  const stored = await readWalletIndexes(ctx.settings.dataFolder);
  if ((stored.get(walletId) ?? 0n) <= index) {
    stored.set(walletId, index + RESERVED_AHEAD);
    await writeWalletIndexes(ctx.settings.dataFolder, stored);
  }
  reserved.set(walletId, stored.get(walletId)!);
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
