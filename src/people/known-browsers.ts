/**
 * Browsers in which a person has signed in before. Their attempts are counted apart from those of strangers, so that nobody without the
 * password can keep the person out. See docs/decisions/sign-in.md.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Context } from '../context.ts';
import { DAY_MS } from '../core/clock.ts';
import { base62 } from '../core/id.ts';
import { clientNetwork } from '../core/networks.ts';
import { readCookie, setCookieLine } from './cookies.ts';

const NAME = 'florin.known_browser';
const DAYS = 400;
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
  if (Number(day) + DAYS < today(ctx)) return null;
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
  return setCookieLine(ctx, { name: NAME, value: [entry, ...kept].join('~'), seconds: DAYS * 86_400 });
}
