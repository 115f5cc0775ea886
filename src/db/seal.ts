/** Secrets at rest: AES-256-GCM under SECRET_KEY or a generated key file, bound to a purpose. And the install's HMAC key. */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Db } from './db.ts';

export type Sealer = {
  seal(purpose: string, plain: Uint8Array): Uint8Array;
  /** Errors: the bytes were sealed with another key or for another purpose. */
  open(purpose: string, sealed: Uint8Array): Uint8Array;
};
export const KEY_FILE = 'secret.key';

/** Opens with the given key, else with the key file of the data folder, made (0600) when missing. */
export async function openSealer({ secretKey, dataFolder }: { secretKey: string | undefined; dataFolder: string }): Promise<Sealer> {
  const material = secretKey ?? (await readKeyFile(dataFolder));
  const key = Buffer.from(hkdfSync('sha256', material, 'florin', 'secrets at rest', 32));
  return {
    seal: (purpose, plain) => {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(purpose));
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open: (purpose, sealed) => {
      const bytes = Buffer.from(sealed);
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAAD(Buffer.from(purpose));
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

async function readKeyFile(dataFolder: string): Promise<string> {
  const path = join(dataFolder, KEY_FILE);
  await mkdir(dataFolder, { recursive: true });
  try {
    // `wx`: of two first starts one makes it, the other reads it.
    const file = await open(path, 'wx', 0o600);
    try {
      await file.writeFile(`${randomBytes(32).toString('base64')}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
  return (await readFile(path, 'utf8')).trim();
}

/** The key event ids and form tokens derive from; made once per install. */
export async function readInstallKey(db: Db): Promise<KeyObject> {
  await db.sql`insert into install (event_key) values (${randomBytes(32)}) on conflict do nothing`;
  const [row] = await db.sql<{ key: Uint8Array }[]>`select event_key as key from install`;
  // As an object: bytes would be checked and wrapped anew at every use.
  return createSecretKey(row!.key);
}
