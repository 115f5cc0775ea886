/** Secrets at rest can be decrypted only with their own key and purpose. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { testDatabase } from '../../test/kit/database.ts';
import { KEY_FILE, openSealer, readInstallKey } from './seal.ts';

const folderOf = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-seal-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
};
const SECRET = Buffer.from('whsec_of an endpoint');
const UNREADABLE = { message: /^A stored secret cannot be read with this SECRET_KEY\./ };

test('a sealed secret opens only with the same key and purpose', async () => {
  const sealer = await openSealer({ secretKey: 'one key', dataFolder: '/nowhere' });
  const same = await openSealer({ secretKey: 'one key', dataFolder: '/elsewhere' });
  const other = await openSealer({ secretKey: 'one key ', dataFolder: '/nowhere' });
  const sealed = sealer.seal('endpoint', SECRET);
  assert.deepEqual(same.open('endpoint', sealed), SECRET);
  assert.throws(() => other.open('endpoint', sealed), UNREADABLE);
  assert.throws(() => sealer.open('another purpose', sealed), UNREADABLE);
  assert.ok(!Buffer.from(sealed).includes(SECRET.subarray(0, 4)));
  // The same secret never encrypts to the same bytes twice.
  assert.notDeepEqual(sealer.seal('endpoint', SECRET), sealed);
  assert.deepEqual(sealer.open('endpoint', sealer.seal('endpoint', Buffer.alloc(0))), Buffer.alloc(0));
});

test('a sealed secret that was changed or cut anywhere does not open', async () => {
  const { seal, open } = await openSealer({ secretKey: 'one key', dataFolder: '/nowhere' });
  const sealed = Buffer.from(seal('endpoint', SECRET));
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1;
    assert.throws(() => open('endpoint', changed), UNREADABLE, `byte ${at}`);
    assert.throws(() => open('endpoint', sealed.subarray(0, at)), UNREADABLE, `cut at ${at}`);
  }
});

test('without a SECRET_KEY a key file is created that only its owner can read, and used from then on', async (t) => {
  const dataFolder = join(folderOf(t), 'new/data');
  // One of several concurrent first starts creates it.
  const sealers = await Promise.all(Array.from({ length: 8 }, () => openSealer({ secretKey: undefined, dataFolder })));
  const file = join(dataFolder, KEY_FILE);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const key = readFileSync(file, 'utf8');
  assert.equal(Buffer.from(key, 'base64').length, 32);
  const sealed = sealers[0]!.seal('endpoint', SECRET);
  for (const { open } of sealers) assert.deepEqual(open('endpoint', sealed), SECRET);
  const later = await openSealer({ secretKey: undefined, dataFolder });
  assert.deepEqual(later.open('endpoint', sealed), SECRET);
  assert.equal(readFileSync(file, 'utf8'), key);
  writeFileSync(file, `${Buffer.alloc(32, 7).toString('base64')}\n`);
  const replaced = await openSealer({ secretKey: undefined, dataFolder });
  assert.throws(() => replaced.open('endpoint', sealed), UNREADABLE);
});

test('an empty key file is refused', async (t) => {
  const dataFolder = folderOf(t);
  writeFileSync(join(dataFolder, KEY_FILE), '');
  await assert.rejects(openSealer({ secretKey: undefined, dataFolder }), /secret\.key/);
});

test('an install has one key for its events, also when several processes ask first', async () => {
  const database = await testDatabase();
  try {
    await database.db.sql`delete from install`;
    const keys = await Promise.all(Array.from({ length: 8 }, async () => (await readInstallKey(database.db)).export()));
    assert.equal(keys[0]!.length, 32);
    for (const key of keys) assert.deepEqual(key, keys[0]);
    assert.deepEqual((await readInstallKey(database.db)).export(), keys[0]);
  } finally {
    await database.drop();
  }
});
