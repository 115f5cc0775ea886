/** Browsers that a user has signed in with, and devices that they trust for thirty days: signing in there needs only the password. See docs/decisions/sign-in.md. */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Context } from '#context';
import { DAY_MS } from '#core/dates';
import { base62, newId } from '#core/id';
import { clientNetwork } from '#core/networks';
import { Problem } from '#core/problem';
import type { Tx } from '#db';
import { notifyUser } from '#notices';
import { type Actor, writeAccountAudit } from '#people';

const DAYS = 30;
const MOST_DEVICES = 20;
/** 43 letters and digits hold 256 bits. */
const TOKEN_LENGTH = 43;
const COOKIE = 'florin.trusted_device';

type TrustedDevice = {
  id: string;
  ip: string;
  userAgent: string;
  createdAt: Date;
  usedAt: Date;
  expiresAt: Date;
  current: boolean;
};

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();
/** The hash of the token in the cookie of a browser, or null. */
function heldHash(ctx: Context, { cookie }: From): Buffer | null {
  const token = readCookie(ctx, { cookie, name: COOKIE });
  return token === null ? null : hashOf(token);
}

/**
 * Everything that grants, uses or ends trust takes this lock, before any other row of the user. So no device becomes trusted through
 * a sign-in that was revoked in the meantime, and no session starts with trust that has just ended.
 */
export async function lockTrust(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`select 1 from users where id = ${userId} for no key update`;
}

/** Ends the trust of all devices. Called by every change to what a sign-in requires. Takes the lock first. */
export async function endTrust(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await lockTrust(tx, { userId });
  await tx`delete from trusted_devices where user_id = ${userId}`;
}

/**
 * Trusts the browser whose session just began with an authenticator code. Null when that session or two-factor authentication ended in the
 * meantime.
 */
export async function trustDevice(
  ctx: Context,
  { actor, from, token }: { actor: Actor; from: From; token: string },
): Promise<string | null> {
  const secret = base62(TOKEN_LENGTH, ctx.random);
  const userAgent = from.userAgent.slice(0, 300);
  return ctx.db.begin(async (tx) => {
    await lockTrust(tx, actor);
    const made = await tx`
      insert into trusted_devices (id, user_id, token_hash, ip, user_agent, created_at, expires_at)
      select ${newId('dev', ctx.random)}, u.id, ${hashOf(secret)}, ${from.ip}, ${userAgent}, now, now + make_interval(days => ${DAYS})
      from (select clock_timestamp() as now offset 0) as clock, users u join sessions s on s.user_id = u.id where u.id = ${actor.userId} and u.two_factor_enabled and s.token = ${token}`;
    if (made.count === 0) return null;
    await tx`
      delete from trusted_devices where user_id = ${actor.userId} and id not in (
        select id from trusted_devices where user_id = ${actor.userId} and expires_at > clock_timestamp()
        order by created_at desc, id limit ${MOST_DEVICES})`;
    await writeAccountAudit(tx, { actor, action: 'device.trusted', after: { days: DAYS } });
    await notifyUser(ctx, tx, { userId: actor.userId, kind: 'device_trusted', detail: { ip: from.ip } });
    return setCookieLine(ctx, { name: COOKIE, value: secret, seconds: DAYS * 86_400 });
  });
}

/** Whether the user trusts this browser. Using it does not extend the trust. Requires `lockTrust`. */
export async function isTrusted(ctx: Context, tx: Tx, { userId, from }: { userId: string; from: From }): Promise<boolean> {
  const hash = heldHash(ctx, from);
  if (hash === null) return false;
  const known = await tx`
    update trusted_devices set used_at = clock_timestamp()
    where token_hash = ${hash} and user_id = ${userId} and expires_at > clock_timestamp()`;
  return known.count === 1;
}

export async function listTrustedDevices(ctx: Context, { userId, from }: { userId: string; from: From }): Promise<TrustedDevice[]> {
  return ctx.db.sql<TrustedDevice[]>`
    select id, ip, user_agent as "userAgent", created_at as "createdAt", used_at as "usedAt", expires_at as "expiresAt",
      coalesce(token_hash = ${heldHash(ctx, from)}, false) as current
    from trusted_devices where user_id = ${userId} and expires_at > clock_timestamp() order by created_at desc, id limit ${MOST_DEVICES}`;
}

/** Errors: device_not_found. */
export async function forgetDevice(ctx: Context, { actor, deviceId }: { actor: Actor; deviceId: string }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    await lockTrust(tx, actor);
    const gone = await tx`delete from trusted_devices where id = ${deviceId} and user_id = ${actor.userId}`;
    if (gone.count === 0) throw new Problem('device_not_found', { id: deviceId });
    await writeAccountAudit(tx, { actor, action: 'device.forgotten' });
  });
}

// Our own cookies of the dashboard's API, beside those of the sign-in library.

const isSecure = (ctx: Context): boolean => new URL(ctx.settings.publicUrl).protocol === 'https:';
const nameOf = (ctx: Context, name: string): string => (isSecure(ctx) ? `__Secure-${name}` : name);

/** The line that sets a cookie. It is sent only to the dashboard's API. `Secure` under the same condition as the session cookie. */
const setCookieLine = (ctx: Context, { name, value, seconds }: { name: string; value: string; seconds: number }): string =>
  `${nameOf(ctx, name)}=${value}; Max-Age=${seconds}; Path=/dashboard/api; HttpOnly; SameSite=Lax${isSecure(ctx) ? '; Secure' : ''}`;

/** The value of a cookie in the header that a browser sent, or null. */
function readCookie(ctx: Context, { cookie, name }: { cookie: string; name: string }): string | null {
  const start = `${nameOf(ctx, name)}=`;
  return (
    cookie
      .split('; ')
      .find((pair) => pair.startsWith(start))
      ?.slice(start.length) ?? null
  );
}

// Browsers in which a person has signed in before. Their attempts are counted apart from those of strangers, so that nobody without the
// password can keep the person out. See docs/decisions/sign-in.md.

const NAME = 'florin.known_browser';
const KNOWN_DAYS = 400;
/** People who use one browser. */
const MOST_ACCOUNTS = 5;
const MOST_COOKIE = 1_000;

type From = { cookie: string; ip: string; userAgent: string };

/** A browser without the cookie, by its network and name. */
export const browserHash = ({ ip, userAgent }: Pick<From, 'ip' | 'userAgent'>): Buffer =>
  createHash('sha256')
    .update(`${clientNetwork(ip)}\n${userAgent}`)
    .digest();

const today = (ctx: Context): number => Math.floor(ctx.clock.now().getTime() / DAY_MS);
const signatureOf = (ctx: Context, { day, id, email }: { day: string; id: string; email: string }): string =>
  createHmac('sha256', ctx.derive('known browsers')).update(`${day}\n${id}\n${email.toLowerCase()}`).digest('base64url').slice(0, 32);

/** The entries of the cookie, one for each account: day, ID and signature. Which account one is for, only its email address shows. */
const entriesOf = (ctx: Context, { cookie }: From): string[] =>
  (readCookie(ctx, { cookie, name: NAME }) ?? '')
    .slice(0, MOST_COOKIE)
    .split('~')
    .filter((entry) => /^\d{1,6}\.\w{16}\.[\w-]{32}$/.test(entry))
    .slice(0, MOST_ACCOUNTS);

/** The ID of the valid entry for an account. */
function idFor(ctx: Context, { entry, email }: { entry: string; email: string }): string | null {
  const [day, id, signature] = entry.split('.') as [string, string, string];
  if (Number(day) + KNOWN_DAYS < today(ctx)) return null;
  return timingSafeEqual(Buffer.from(signature), Buffer.from(signatureOf(ctx, { day, id, email }))) ? id : null;
}

/**
 * What the attempts of this browser at an account are counted under, if somebody has signed in to the account there: the cookie, else
 * network and name of the browser. Null for strangers.
 */
export async function findKnownBrowser(ctx: Context, { from, email }: { from: From; email: string }): Promise<string | null> {
  for (const entry of entriesOf(ctx, from)) {
    const id = idFor(ctx, { entry, email });
    if (id !== null) return id;
  }
  const hash = browserHash(from);
  const [known] = await ctx.db.sql`
    select 1 from users u join known_browsers b on b.user_id = u.id where u.email = ${email.toLowerCase()} and b.hash = ${hash}`;
  return known ? hash.toString('base64url') : null;
}

/** The cookie of a browser in which somebody has just signed in, with all factors. It gives no access. */
export function rememberBrowser(ctx: Context, { from, email }: { from: From; email: string }): string {
  const entries = entriesOf(ctx, from);
  const own = entries.find((entry) => idFor(ctx, { entry, email }) !== null);
  const id = own?.split('.')[1] ?? base62(16, ctx.random);
  const day = String(today(ctx));
  const entry = `${day}.${id}.${signatureOf(ctx, { day, id, email })}`;
  const kept = entries.filter((one) => one !== own).slice(0, MOST_ACCOUNTS - 1);
  return setCookieLine(ctx, { name: NAME, value: [entry, ...kept].join('~'), seconds: KNOWN_DAYS * 86_400 });
}
