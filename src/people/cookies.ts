/** Our own cookies of the dashboard's API, beside those of the sign-in library. */
import type { Context } from '../context.ts';

const isSecure = (ctx: Context): boolean => new URL(ctx.settings.publicUrl).protocol === 'https:';
const nameOf = (ctx: Context, name: string): string => (isSecure(ctx) ? `__Secure-${name}` : name);

/** The line that sets a cookie. It is sent only to the dashboard's API. `Secure` under the same condition as the session cookie. */
export const setCookieLine = (ctx: Context, { name, value, seconds }: { name: string; value: string; seconds: number }): string =>
  `${nameOf(ctx, name)}=${value}; Max-Age=${seconds}; Path=/dashboard/api; HttpOnly; SameSite=Lax${isSecure(ctx) ? '; Secure' : ''}`;

/** The value of a cookie in the header that a browser sent, or null. */
export function readCookie(ctx: Context, { cookie, name }: { cookie: string; name: string }): string | null {
  const start = `${nameOf(ctx, name)}=`;
  return (
    cookie
      .split('; ')
      .find((pair) => pair.startsWith(start))
      ?.slice(start.length) ?? null
  );
}
