/** Secrets at rest: AES-256-GCM under SECRET_KEY or a generated key file, bound to a purpose. And the install's HMAC key. */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { canOpen } from '#context';
import type { Db, Sql, Tx } from '#db';

export type Sealer = {
  seal(purpose: string, plain: Uint8Array): Uint8Array;
  /** Errors: the bytes were sealed with another key or for another purpose. */
  open(purpose: string, sealed: Uint8Array): Uint8Array;
  /** A separate key for one purpose, the same on every start. */
  derive(purpose: string): Uint8Array;
};
export const KEY_FILE = 'secret.key';

/** Uses the given key, else the key file of the data folder, which is created (0600) when missing. */
export async function openSealer({ secretKey, dataFolder }: { secretKey: string | undefined; dataFolder: string }): Promise<Sealer> {
  return sealerOf(secretKey ?? (await makeKeyFile(dataFolder, randomBytes(32).toString('base64'))));
}

/** Encrypts and decrypts with one key. */
export function sealerOf(material: string): Sealer {
  const key = Buffer.from(hkdfSync('sha256', material, 'florin', 'secrets at rest', 32));
  return {
    derive: (purpose) => new Uint8Array(hkdfSync('sha256', material, 'florin', `derived ${purpose}`, 32)),
    seal: (purpose, plain) => {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(purpose));
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open: (purpose, sealed) => {
      const bytes = Buffer.from(sealed);
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 }).setAAD(Buffer.from(purpose));
        decipher.setAuthTag(bytes.subarray(-16));
        return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
      } catch (cause) {
        throw new Error('A stored secret cannot be read with this SECRET_KEY. Was the key, or the key file in the data folder, changed?', {
          cause,
        });
      }
    },
  };
}

/** The key in the data folder's file; null when there is none. Errors: the file is empty. */
export async function readKeyFile(dataFolder: string): Promise<string | null> {
  try {
    return await readKey(join(dataFolder, KEY_FILE));
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return null;
    throw error;
  }
}

/** Stores the key in the data folder's file unless one exists; returns the one that is stored. */
async function makeKeyFile(dataFolder: string, key: string): Promise<string> {
  const path = join(dataFolder, KEY_FILE);
  await mkdir(dataFolder, { recursive: true });
  try {
    return await readKey(path);
  } catch (error) {
    if ((error as { code?: string }).code !== 'ENOENT') throw error;
  }
  // Written to a temporary file and linked: of concurrent first starts only one creates it, and no one reads a partial file.
  const fresh = `${path}.${randomBytes(8).toString('hex')}`;
  try {
    const file = await open(fresh, 'wx', 0o600);
    try {
      await file.writeFile(`${key}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await link(fresh, path);
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  } finally {
    await rm(fresh, { force: true });
  }
  return readKey(path);
}

async function readKey(path: string): Promise<string> {
  const key = (await readFile(path, 'utf8')).trim();
  if (key === '') throw new Error(`${path} is empty, but stored secrets need it. Restore it from a backup.`);
  return key;
}

/** Writes a key to the data folder's file. An existing other key is kept next to it, never lost. */
export async function placeKeyFile(dataFolder: string, key: string): Promise<void> {
  const there = await readKeyFile(dataFolder);
  if (there === key) return;
  if (there !== null) await rename(join(dataFolder, KEY_FILE), join(dataFolder, `${KEY_FILE}.${randomBytes(4).toString('hex')}.old`));
  await makeKeyFile(dataFolder, key);
}

const CHECK_PURPOSE = 'key check';

/** Whether a key is the one of the install: null while the install has no check value. An empty database has none. */
export async function opensKeyCheck(sql: Sql | Tx, { open: unseal }: Pick<Sealer, 'open'>): Promise<boolean | null> {
  const [column] = await sql`
    select 1 from information_schema.columns where table_schema = current_schema() and table_name = 'install' and column_name = 'key_check'`;
  if (!column) return null;
  const [row] = await sql<{ check: Uint8Array | null }[]>`select key_check as check from install`;
  return row?.check ? canOpen({ open: unseal }, CHECK_PURPOSE, row.check) : null;
}

/** Makes the key the one of the install, if it has none; with `replace`, also if it has one. Needs the install's row. */
export async function writeKeyCheck(sql: Sql | Tx, { seal }: Pick<Sealer, 'seal'>, { replace = false } = {}): Promise<void> {
  const check = Buffer.from(seal(CHECK_PURPOSE, Buffer.from('florin')));
  await sql`update install set key_check = ${check} where key_check is null or ${replace}`;
}

/** The key that event IDs and form tokens are derived from; created once per install. */
export async function readInstallKey(db: Db): Promise<KeyObject> {
  await db.sql`insert into install (event_key) values (${randomBytes(32)}) on conflict do nothing`;
  const [row] = await db.sql<{ key: Uint8Array }[]>`select event_key as key from install`;
  // A key object: raw bytes would be validated and wrapped on every use.
  return createSecretKey(row!.key);
}
