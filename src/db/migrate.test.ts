/** Migrations on a real database: the committed schema, a second run, two at once, and databases of newer versions. */
// Invariant: Concurrent first starts create one first merchant.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { describeSchema, SCHEMA_FILE } from '../../scripts/schema.ts';
import { eventually, testEnvironment, withoutRootWarning } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { openCore } from '../app.ts';
import { readConfig } from '../config.ts';
import type { Decision, Exception, PaymentStatus } from '../core/payment.ts';
import { lockEnd } from '../core/transfer.ts';
import { createLog } from '../log.ts';
import { createFirstMerchant } from '../merchants/merchants.ts';
import { asksForMerchant } from '../payments/attention.ts';
import { rowsOf } from '../payments/days.ts';
import { type Db, openDb } from './db.ts';
import { applyMigration, createMigrations, migrate, migrationNames, migrationNumber, tableNames } from './migrate.ts';

const log = createLog('silent');
let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());

/** An empty database. */
async function blank<T>(work: (name: string, url: string) => Promise<T>): Promise<T> {
  const name = `${database.connection.database}_blank`;
  await database.db.sql.unsafe(`create database ${name}`);
  try {
    return await work(name, database.url.replace(database.connection.database, name));
  } finally {
    await database.db.sql.unsafe(`drop database ${name} with (force)`);
  }
}

/** An empty database. */
async function emptyDatabase(t: TestContext): Promise<{ open(): Promise<Db>; url: string }> {
  const name = `empty_${randomBytes(8).toString('hex')}`;
  await database.db.sql.unsafe(`create database ${name}`);
  const opened: Db[] = [];
  t.after(async () => {
    for (const db of opened) await db.close();
    await database.db.sql.unsafe(`drop database ${name} with (force)`);
  });
  return {
    url: database.url.replace(database.connection.database, name),
    open: async () => {
      const db = await openDb({ ...database.connection, database: name, max: 2, log });
      opened.push(db);
      return db;
    },
  };
}

// Invariant: The committed schema matches the migrations.
test('the committed schema is what the migrations create', async () => {
  const made = await describeSchema(database.db);
  assert.equal(made, readFileSync(SCHEMA_FILE, 'utf8'), 'src/db/schema.sql is not fresh: run npm run generate');
  await database.db.sql`create index a_new_index on payments (invoice_id)`;
  assert.notEqual(await describeSchema(database.db), made, 'a change shows');
  await database.db.sql`drop index a_new_index`;
});

test('the tables named by the migrations are the tables that exist', async () => {
  const rows = await database.db.sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema()`;
  assert.deepEqual(rows.map((row) => row.name).sort(), [...tableNames(), 'migrations'].sort());
});

test('migrations are numbered without gaps', () => {
  assert.deepEqual(
    migrationNames().map(migrationNumber),
    migrationNames().map((_, i) => i + 1),
  );
});

test('migrating again changes nothing', async () => {
  const { sql } = database.db;
  const state = async () => [await describeSchema(database.db), [...(await sql`select * from migrations order by number`)]];
  const before = await state();
  assert.deepEqual(await migrate(database.db, log), { applied: [] });
  assert.deepEqual(await state(), before);
});

// Invariant: Processes that migrate at the same time take turns.
test('two processes that migrate an empty database at once take turns', async () => {
  await blank(async (name, url) => {
    const env = { PATH: process.env.PATH ?? '', ...testEnvironment(url, database.folder) };
    const run = () => promisify(execFile)(process.execPath, ['src/main.ts', 'migrate', '--json'], { env });
    const done = await Promise.all([run(), run(), run()]);
    for (const { stdout } of done) assert.deepEqual(JSON.parse(stdout), { migrated: true });
    const db = await openDb({ ...database.connection, database: name, log });
    const rows = await db.sql<{ name: string }[]>`select name from migrations order by number`;
    assert.deepEqual(
      rows.map((row) => row.name),
      migrationNames(),
    );
    assert.equal(await describeSchema(db), readFileSync(SCHEMA_FILE, 'utf8'));
    await db.close();
  });
});

test('a database that a newer program changed incompatibly is refused, one that it only added to is not', async () => {
  const { sql } = database.db;
  await sql`insert into migrations (number, name, breaking) values (9998, '9998_added.sql', false)`;
  assert.deepEqual(await migrate(database.db, log), { applied: [] });
  await sql`insert into migrations (number, name, breaking) values (9999, '9999_changed.sql', true)`;
  await assert.rejects(migrate(database.db, log), /9999_changed\.sql/);
  const env = { PATH: process.env.PATH ?? '', ...testEnvironment(database.url, database.folder) };
  await assert.rejects(
    promisify(execFile)(process.execPath, ['src/main.ts', 'doctor'], { env }),
    (error: { code: unknown; stderr: string }) =>
      error.code === 1 && /newer.*9999_changed\.sql|9999_changed\.sql.*newer/is.test(error.stderr),
  );
  await sql`delete from migrations where number > 9000`;
});

test('a migration that fails leaves nothing behind, and the next start retries it', async () => {
  await blank(async (name) => {
    const db = await openDb({ ...database.connection, database: name, log });
    await db.sql`create table payments (id text)`;
    await assert.rejects(migrate(db, log), /already exists/);
    const tables = await db.sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema() order by 1`;
    assert.deepEqual(
      tables.map((row) => row.name),
      ['migrations', 'payments'],
    );
    await db.sql`drop table payments`;
    assert.deepEqual((await migrate(db, log)).applied, migrationNames());
    await db.close();
  });
});

// Invariant: Payments from before there were daily totals are counted like later ones.
test('payments from before there were totals are counted and queued as if they had been created since', async (t) => {
  const { open } = await emptyDatabase(t);
  const db = await open();
  const { sql } = db;
  await createMigrations(sql);
  const before = migrationNames().filter((name) => migrationNumber(name) < 15);
  for (const name of before) await db.begin((tx) => applyMigration(tx, name));
  await sql`insert into merchants (id, name, plan) values ('mer_old', 'Old shop', 'enterprise')`;
  await sql`insert into rule_sets (hash, rules) values ('old', '{}')`;
  type Old = {
    status: PaymentStatus;
    exceptions?: Exception[];
    chosen?: boolean;
    seen?: boolean;
    refund?: boolean;
    decided?: 'reject' | 'refund_sent';
  };
  const olds: Old[] = [
    { status: 'pending' },
    { status: 'pending', chosen: true, seen: true, exceptions: ['underpaid'] },
    { status: 'processing', chosen: true, seen: true },
    { status: 'completed', chosen: true, seen: true },
    { status: 'completed', chosen: true, seen: true, exceptions: ['overpaid'] },
    { status: 'completed', chosen: true, seen: true, refund: true },
    { status: 'completed', chosen: true, seen: true, refund: true, decided: 'refund_sent' },
    { status: 'failed', chosen: true, seen: true, exceptions: ['late', 'underpaid'] },
    { status: 'failed', chosen: true, seen: true, refund: true },
    { status: 'failed', chosen: true, seen: true, refund: true, decided: 'reject' },
    { status: 'expired', chosen: true },
    { status: 'expired' },
    { status: 'cancelled', chosen: true, seen: true, exceptions: ['paid_after_cancel'] },
    { status: 'cancelled' },
  ];
  // UTC days: a payment may be created on one day and completed on the next.
  const created = new Date('2026-03-01T23:50:00Z');
  const opened = new Date('2026-03-01T23:55:00Z');
  const seen = new Date('2026-03-02T00:05:00Z');
  const completed = new Date('2026-03-02T00:15:30Z');
  for (const [i, { status, exceptions = [], chosen, seen: isSeen, refund, decided }] of olds.entries()) {
    const id = `pay_old${i}`;
    await sql`
      insert into payments (id, merchant_id, mode, sequence, status, exceptions, amount_usd_cents, coin, rule_set, created_with, created_at, expires_at, completed_at)
      select ${id}, 'mer_old', 'live', ${i + 1}, ${status}, ${exceptions}, ${1_000 + i}, ${chosen ? 'LTC' : null}, id, 'secret', ${created}, ${created},
        ${status === 'completed' ? completed : null} from rule_sets`;
    if (chosen)
      await sql`
        insert into quotes (payment_id, number, merchant_id, coin, address, units, from_at, until_at)
        values (${id}, 1, 'mer_old', 'LTC', ${`address${i}`}, 5, ${opened}, ${created}), (${id}, 2, 'mer_old', 'LTC', ${`address${i}`}, 5, ${seen}, ${created})`;
    if (isSeen)
      await sql`
        insert into transfers (coin, ref, payment_id, merchant_id, address, units, kind, first_seen_at)
        values ('LTC', ${`${i}:0`}, ${id}, 'mer_old', ${`address${i}`}, 5, 'output', ${seen})`;
    if (refund)
      await sql`insert into refund_addresses (payment_id, merchant_id, coin, address, at) values (${id}, 'mer_old', 'LTC', 'back', ${completed})`;
    if (decided)
      await sql`insert into decisions (payment_id, number, merchant_id, kind, at) values (${id}, 1, 'mer_old', ${decided}, ${completed})`;
  }
  assert.equal((await migrate(db, log)).applied.length, migrationNames().length - before.length);

  const expected = new Map<string, { payments: number; cents: bigint; seconds: number }>();
  for (const [i, { status, exceptions = [], chosen, seen: isSeen }] of olds.entries()) {
    const completedAt = status === 'completed' ? completed : null;
    const rows = rowsOf({
      createdAt: created,
      openedAt: chosen ? opened : null,
      coin: chosen ? 'LTC' : null,
      seenAt: isSeen ? seen : null,
      status,
      exceptions,
      completedAt,
      // The received amount was not stored then, so the price is used instead.
      paidUsdCents: completedAt && BigInt(1_000 + i),
    });
    for (const { day, measure, coin, payments, usdCents, seconds } of rows) {
      const key = `${day} ${measure} ${coin}`;
      const sum = expected.get(key) ?? { payments: 0, cents: 0n, seconds: 0 };
      expected.set(key, { payments: sum.payments + payments, cents: sum.cents + usdCents, seconds: sum.seconds + seconds });
    }
  }
  const days = await sql<{ key: string; payments: bigint; cents: bigint; seconds: bigint }[]>`
    select concat(day, ' ', measure, ' ', coin) as key, payments, usd_cents as cents, seconds from payment_days where merchant_id = 'mer_old'`;
  assert.deepEqual(
    new Map(days.map(({ key, payments, cents, seconds }) => [key, { payments: Number(payments), cents, seconds: Number(seconds) }])),
    expected,
  );
  const waiting = await sql<{ id: string }[]>`select id from payments where attention order by sequence`;
  assert.deepEqual(
    waiting.map(({ id }) => id),
    olds.flatMap(({ status, exceptions = [], refund, decided }, i) => {
      const decisions = decided ? [{ kind: decided } as Decision] : [];
      const asks = asksForMerchant({
        status,
        exceptions,
        reviewed: [],
        refundRequestedAt: refund ? completed : null,
        decisions,
        metadata: {},
      });
      return asks ? [`pay_old${i}`] : [];
    }),
  );
  const settledAgain = await sql<{ key: string }[]>`select key from due_work where kind = 'settle' order by key`;
  assert.deepEqual(
    settledAgain.map(({ key }) => key),
    olds.flatMap(({ exceptions = [], decided }, i) => (exceptions.length > 0 || decided ? [`pay_old${i}`] : [])).sort(),
    'what may have received money that does not count is settled again',
  );
});

test('a rate that an older version promised with a longer deadline, after a partial payment, stays locked until then', async (t) => {
  const { open } = await emptyDatabase(t);
  const db = await open();
  const { sql } = db;
  await createMigrations(sql);
  for (const name of migrationNames().filter((name) => migrationNumber(name) < 27)) await db.begin((tx) => applyMigration(tx, name));
  const at = (time: string) => new Date(`2026-03-01T${time}:00Z`);
  await sql`insert into merchants (id, name, plan) values ('mer_old', 'Old shop', 'enterprise')`;
  await sql`insert into rule_sets (hash, rules) values ('old', '{}')`;
  for (const [id, extended] of [
    ['pay_part', at('07:32')],
    ['pay_open', null],
  ] as const)
    await sql`
      insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, coin, rule_set, created_with, created_at, expires_at, extended_until)
      select ${id}, 'mer_old', 'live', ${extended ? 1 : 2}, 'pending', 1000, 'BTC', id, 'secret', ${at('06:30')}, ${at('07:30')}, ${extended} from rule_sets`;
  await migrate(db, log);
  const rows = await sql<{ id: string; rateLockUntil: Date | null }[]>`
    select id, rate_lock_until as "rateLockUntil" from payments order by sequence`;
  assert.deepEqual(
    rows.map(({ id, rateLockUntil }) => [id, rateLockUntil]),
    [
      ['pay_part', at('07:32')],
      ['pay_open', null],
    ],
  );
  const quote = { coin: 'BTC' as const, address: 'a', rateE8: 1n, units: 1n, from: at('06:32'), until: at('06:47') };
  assert.deepEqual(lockEnd({ rateLockUntil: rows[0]!.rateLockUntil, quotes: [quote] } as never, quote), at('07:32'));
});

test('keys, shops and endpoints from before their makers were recorded get the maker from the audit log, and keys keep everything', async (t) => {
  const { open } = await emptyDatabase(t);
  const db = await open();
  const { sql } = db;
  await createMigrations(sql);
  for (const name of migrationNames().filter((name) => migrationNumber(name) < 74)) await db.begin((tx) => applyMigration(tx, name));
  await sql`insert into merchants (id, name, plan) values ('mer_old', 'Old shop', 'enterprise'), ('mer_new', 'Other shop', 'enterprise')`;
  const insertKey = (id: string) => sql`
    insert into keys (id, merchant_id, mode, kind, hash, hint) values (${id}, 'mer_old', 'live', 'secret', ${Buffer.from(id)}, 'sk_live_…')`;
  for (const id of ['key_operator', 'key_created', 'key_rolled', 'key_foreign']) await insertKey(id);
  await sql`
    insert into shop_keys (id, merchant_id, mode, dialect, platform, name, hash, hint, permissions)
    values ('shp_made', 'mer_old', 'live', 'greenfield', 'other', 'Shop', 'shop', 'shop_live_…', '{}')`;
  await sql`
    insert into endpoints (id, merchant_id, mode, url, events, secret)
    values ('we_made', 'mer_old', 'live', 'https://shop.example', '{*}', ''), ('we_api', 'mer_old', 'live', 'https://shop.example', '{*}', '')`;
  const writeEntry = (entry: { merchant?: string; actor: string; action: string; object: string; after?: object }) => sql`
    insert into audit_log (merchant_id, mode, actor_id, actor_name, action, object, after, ip)
    values (${entry.merchant ?? 'mer_old'}, 'live', ${entry.actor}, 'Name', ${entry.action}, ${entry.object}, ${sql.json((entry.after ?? {}) as never)}, '')`;
  await writeEntry({ actor: 'usr_1', action: 'key.created', object: 'key_created' });
  await writeEntry({ actor: 'usr_2', action: 'key.rolled', object: 'key_created', after: { replaced_by: 'key_rolled' } });
  await writeEntry({ merchant: 'mer_new', actor: 'usr_3', action: 'key.created', object: 'key_foreign' });
  await writeEntry({ actor: 'usr_4', action: 'shop.connected', object: 'shp_made' });
  await writeEntry({ actor: 'usr_5', action: 'endpoint.create', object: 'we_made' });
  await migrate(db, log);
  assert.deepEqual(
    (await sql`select id, made_by as by, permissions from keys order by id`).map((row) => [row.id, row.by, row.permissions]),
    [
      ['key_created', 'usr_1', null],
      ['key_foreign', null, null],
      ['key_operator', null, null],
      ['key_rolled', 'usr_2', null],
    ],
  );
  const others = await sql`select id, made_by as by from shop_keys union all select id, made_by from endpoints order by id`;
  assert.deepEqual(
    others.map((row) => [row.id, row.by]),
    [
      ['shp_made', 'usr_4'],
      ['we_api', null],
      ['we_made', 'usr_5'],
    ].sort(),
  );
});

test('services that start at once on one empty database all serve, and create one first merchant', async (t) => {
  const { url, open } = await emptyDatabase(t);
  const services = Array.from({ length: 4 }, () => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../main.ts'), 'serve'], {
      env: { PATH: process.env.PATH, ...testEnvironment(url, database.folder) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const service = { out: '', err: '', child, ended: once(child, 'close') };
    child.stdout.on('data', (part) => {
      service.out += part;
    });
    child.stderr.on('data', (part) => {
      service.err += part;
    });
    return service;
  });
  await eventually(
    async () => services.map(({ out, err }) => ({ out, err })),
    (all) => all.every(({ out }) => out.includes('Florin is ready')),
    60_000,
  );
  await eventually(
    async () => services.filter(({ out }) => out.includes('Your first merchant is')).length,
    (count) => count > 0,
  );
  for (const { child } of services) child.kill('SIGTERM');
  for (const { ended } of services) await ended;
  // The warning when starting as root has its own test.
  assert.deepEqual(
    services.map(({ err }) => withoutRootWarning(err)),
    ['', '', '', ''],
  );
  const { sql } = await open();
  const merchants = await sql<{ id: string; plan: string }[]>`select id, plan from merchants`;
  assert.equal(merchants.length, 1);
  assert.equal(merchants[0]!.plan, 'enterprise');
  const welcomed = services.filter(({ out }) => out.includes('Your first merchant is'));
  assert.equal(welcomed.length, 1);
  assert.ok(welcomed[0]!.out.includes(merchants[0]!.id));
  assert.equal((await sql`select 1 from install`).length, 1);
});

test('of many first merchants created at once by separate processes, one is created', async (t) => {
  const { url, open } = await emptyDatabase(t);
  const config = readConfig(testEnvironment(url, database.folder));
  const cores = await Promise.all(Array.from({ length: 4 }, () => openCore(config, log)));
  const made = await Promise.all([...cores, ...cores].map(({ ctx }) => createFirstMerchant(ctx, { name: 'My shop' })));
  for (const { close } of cores) await close();
  const [first, ...more] = made.filter((merchant) => merchant !== null);
  assert.deepEqual(more, []);
  const { sql } = await open();
  assert.deepEqual(
    (await sql<{ id: string }[]>`select id from merchants`).map(({ id }) => id),
    [first!.merchantId],
  );
  const [keys] = await sql<{ count: bigint }[]>`select count(*) from keys`;
  assert.equal(keys!.count, 4n);
});
