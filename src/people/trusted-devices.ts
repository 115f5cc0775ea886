/** Devices that a user trusts for thirty days: signing in there needs only the password. See docs/decisions/sign-in.md. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import { base62, newId } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { notifyUser } from '../notices/notices.ts';
import { readCookie, setCookieLine } from './cookies.ts';
import { type Actor, writeAccountAudit } from './members.ts';

const DAYS = 30;
const MOST_DEVICES = 20;
/** 43 letters and digits hold 256 bits. */
const TOKEN_LENGTH = 43;
const COOKIE = 'florin.trusted_device';

/** What identifies the browser of a request. */
type From = { cookie: string; ip: string; userAgent: string };
export type TrustedDevice = {
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
