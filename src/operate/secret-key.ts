/**
 * Whether the key at hand is the one that the secrets of this install are sealed with. Every start and every command asks, and so do
 * backups and restores: a wrong key is refused before it seals anything, not noticed when a secret is needed.
 */
import { join } from 'node:path';
import { type Context, canOpen } from '#context';
import type { Db, Sql, Tx } from '#db';
import { LIGHTNING_PURPOSE } from '#lightning';
import type { Log } from '#log';
import { signInSecret } from '#sign-in';
import { SECRET_PURPOSE } from '#webhooks';
import { bad, type Finding, good } from './range-findings.ts';
import { KEY_FILE, openSealer, opensKeyCheck, readInstallKey, readKeyFile, type Sealer, sealerOf, writeKeyCheck } from './seal.ts';

/** How many secrets are named; the rest are counted. */
const MOST_NAMED = 20;
const LOST_KEY = 'If the key is lost for good, see "If you lose the key" in docs/guides/self-hosting.md.';

type Opener = Pick<Sealer, 'open' | 'derive'>;
type Keys = { secretKey: string | undefined; dataFolder: string };
/** What a key opens. `check`: the check value; null: the install has none yet. `closed` names the secrets that it does not open. */
type Seals = { check: boolean | null; opened: number; closed: string[] };

/** Opens the check value and every stored secret. Works on any schema of Florin. */
export async function inspectSeals(sql: Sql | Tx, sealer: Opener): Promise<Seals> {
  const secrets = [
    ...(await readEndpointSecrets(sql, sealer)),
    ...(await readLightningAccess(sql, sealer)),
    ...(await readSecondFactors(sql, sealer)),
  ];
  const closed = secrets.filter(({ opens }) => !opens).map(({ name }) => name);
  return { check: await opensKeyCheck(sql, sealer), opened: secrets.length - closed.length, closed };
}
/** Whether secrets can be stored with this key: it opens the check value, or where there is none yet, something that is sealed. */
export const isRightKey = ({ check, opened, closed }: Seals): boolean => check ?? (opened > 0 || closed.length === 0);

type Secret = { name: string; opens: boolean };
const isThere = async (sql: Sql | Tx, table: string): Promise<boolean> =>
  (await sql<{ there: boolean }[]>`select to_regclass(${table}) is not null as there`)[0]!.there;

async function readEndpointSecrets(sql: Sql | Tx, sealer: Opener): Promise<Secret[]> {
  if (!(await isThere(sql, 'endpoints'))) return [];
  const rows = await sql<{ id: string; secret: Uint8Array; previous: Uint8Array | null }[]>`
    select id, secret, case when previous_until > clock_timestamp() then previous_secret end as previous
    from endpoints where state <> 'deleted' order by created_at, id`;
  return rows.map(({ id, secret, previous }) => ({
    name: `the signing secret of ${id}`,
    opens: [secret, ...(previous ? [previous] : [])].every((one) => canOpen(sealer, SECRET_PURPOSE, one)),
  }));
}

async function readLightningAccess(sql: Sql | Tx, sealer: Opener): Promise<Secret[]> {
  if (!(await isThere(sql, 'lightning_backends'))) return [];
  const rows = await sql<
    { name: string; access: Uint8Array }[]
  >`select name, access from lightning_backends where active or due_at is not null order by id`;
  return rows.map(({ name, access }) => ({
    name: `the access to Lightning of ${name}`,
    opens: canOpen(sealer, LIGHTNING_PURPOSE, access),
  }));
}

async function readSecondFactors(sql: Sql | Tx, sealer: Opener): Promise<Secret[]> {
  if (!(await isThere(sql, 'second_factors'))) return [];
  const rows = await sql<{ userId: string; secret: string }[]>`select user_id as "userId", secret from second_factors order by user_id`;
  if (rows.length === 0) return [];
  const { symmetricDecrypt } = await import('better-auth/crypto');
  const key = signInSecret(sealer);
  return Promise.all(
    rows.map(async ({ userId, secret }) => ({
      name: `the second factor of user ${userId}`,
      opens: await symmetricDecrypt({ key, data: secret }).then(
        () => true,
        () => false,
      ),
    })),
  );
}

/** Why the key is refused and what to do, in one line. */
export async function explainWrongKey(sql: Sql | Tx, { secretKey, dataFolder }: Keys): Promise<string> {
  const path = join(dataFolder, KEY_FILE);
  const fileKey = await readKeyFile(dataFolder);
  if (secretKey === undefined && fileKey === null)
    return `The secrets of this install were sealed with a key that is not here: SECRET_KEY is not set, and there is no ${path}. Set SECRET_KEY to what it was, or FLORIN_DATA to the folder that has ${KEY_FILE}. ${LOST_KEY}`;
  if (secretKey === undefined)
    return `${path} is not the key that the secrets of this install were sealed with. Put the right file there, or set SECRET_KEY to what it was. ${LOST_KEY}`;
  if (fileKey !== null && isRightKey(await inspectSeals(sql, sealerOf(fileKey))))
    return `SECRET_KEY is not the key that the secrets of this install were sealed with: that is the one in ${path}. Unset SECRET_KEY, or set it to the content of that file.`;
  return `SECRET_KEY is not the key that the secrets of this install were sealed with. Set it to what it was then. ${LOST_KEY}`;
}

/**
 * The sealer of this install for a start or a command. The first key becomes that of the install; an install from before the check value
 * gets one here if the key opens all that is sealed. Errors: an Error that says what to do, when the key is wrong or missing.
 */
export async function openSecrets({ db, log, ...keys }: { db: Db; log: Log } & Keys): Promise<Sealer> {
  const { secretKey, dataFolder } = keys;
  await readInstallKey(db);
  const refuse = async () => new Error(await explainWrongKey(db.sql, keys));
  // A key is made only where nothing needs another one. No key opens nothing: this asks whether there is anything to open.
  const isChecked = (await opensKeyCheck(db.sql, NO_KEY)) !== null;
  const isSealed = isChecked || (await inspectSeals(db.sql, NO_KEY)).closed.length > 0;
  if (isSealed && secretKey === undefined && (await readKeyFile(dataFolder)) === null) throw await refuse();
  const sealer = await openSealer(keys);
  const seals = isChecked ? { check: await opensKeyCheck(db.sql, sealer), opened: 0, closed: [] } : await inspectSeals(db.sql, sealer);
  if (!isRightKey(seals)) throw await refuse();
  if (seals.check === null && seals.closed.length === 0) {
    await writeKeyCheck(db.sql, sealer);
    // Of two first starts with different keys, the other one was first.
    if (!(await opensKeyCheck(db.sql, sealer))) throw await refuse();
  }
  if (seals.closed.length > 0)
    log.error(
      { secrets: seals.closed.slice(0, MOST_NAMED), of: seals.closed.length + seals.opened },
      'Some stored secrets were sealed with another key; "./florin doctor" says what to do',
    );
  if (await hasOtherKeyFile(sealer, dataFolder))
    log.warn({ file: join(dataFolder, KEY_FILE) }, 'SECRET_KEY is used; the other key in this file is not');
  return sealer;
}
/** Opens nothing. */
export const NO_KEY: Opener = {
  open: () => {
    throw new Error('there is no key');
  },
  derive: () => new Uint8Array(),
};

/** Whether the data folder has a key that is not the one in use. */
async function hasOtherKeyFile({ derive }: Opener, dataFolder: string): Promise<boolean> {
  const fileKey = await readKeyFile(dataFolder);
  return fileKey !== null && !Buffer.from(sealerOf(fileKey).derive('comparison')).equals(Buffer.from(derive('comparison')));
}

/** For the doctor: what the key of this process opens. */
export async function checkSecrets(ctx: Context): Promise<Finding[]> {
  const { dataFolder } = ctx.settings;
  const { opened, closed } = await inspectSeals(ctx.db.sql, ctx);
  const findings: Finding[] = [];
  if (closed.length === 0) findings.push(good('secret key', `it opens everything that is sealed (${opened})`));
  else {
    const more = closed.length > MOST_NAMED ? ` and ${closed.length - MOST_NAMED} more` : '';
    findings.push(
      bad(
        'secret key',
        `it does not open ${closed.slice(0, MOST_NAMED).join(', ')}${more}: sealed with another key`,
        'put the right key back; if it is lost: florin endpoint rotate, and florin user reset-factors',
      ),
    );
  }
  if (await hasOtherKeyFile(ctx, dataFolder))
    findings.push(
      good(
        'key file',
        `SECRET_KEY is used; ${join(dataFolder, KEY_FILE)} holds another key that is not`,
        'keep it until you know that nothing needs it, then delete it',
      ),
    );
  return findings;
}

/** Makes the key at hand that of the install, after the old one was lost. Returns what it does not open. */
export async function acceptKey({ db, ...keys }: { db: Db } & Keys): Promise<{ closed: string[] }> {
  await readInstallKey(db);
  const sealer = await openSealer(keys);
  await writeKeyCheck(db.sql, sealer, { replace: true });
  const { closed } = await inspectSeals(db.sql, sealer);
  return { closed };
}
