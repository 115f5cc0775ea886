/**
 * Signing in: passwords, one-time codes, backup codes, passkeys and sessions. The one place that knows the library.
 * Nothing of it is mounted: only what is exported here can be reached, by routes of our own with limits and errors of our own.
 */
import type { Context } from '../context.ts';
import { perContext } from '../context.ts';
import { base62 } from '../core/id.ts';
import { Problem, type ProblemCode } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';

export const PASSWORD_MIN = 12;
const PASSWORD_MAX = 128;
const SESSION_SECONDS = 7 * 86_400;
/** How long signing in, or showing the second factor again, counts as recent. */
const RECENT_MS = 10 * 60_000;

/** What a request brings to a sign-in. */
export type Visitor = { cookie: string; ip: string; userAgent: string };
export type Cookies = string[];
export type SignedIn = {
  sessionId: string;
  userId: string;
  name: string;
  email: string;
  hasSecondFactor: boolean;
  merchantId: string | null;
  /** Signed in, or confirmed, within ten minutes. */
  isRecent: boolean;
};

/** Loaded at the first use: who only runs payments pays nothing for it. */
async function open(ctx: Context) {
  const [{ betterAuth }, { twoFactor }, { passkey }, { CamelCasePlugin, Kysely }, { PostgresJSDialect }] = await Promise.all([
    import('better-auth'),
    import('better-auth/plugins/two-factor'),
    import('@better-auth/passkey'),
    import('kysely'),
    import('kysely-postgres-js'),
  ]);
  const url = new URL(ctx.settings.publicUrl);
  const db = new Kysely<unknown>({
    dialect: new PostgresJSDialect({ postgres: ctx.db.sql as never }),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
  return betterAuth({
    appName: 'Florin',
    baseURL: url.origin,
    basePath: '/dashboard/api/unmounted',
    secret: Buffer.from(ctx.derive('dashboard sign-in')).toString('base64'),
    database: { db, type: 'postgres' },
    trustedOrigins: [url.origin],
    telemetry: { enabled: false },
    rateLimit: { enabled: false },
    logger: { disabled: true },
    user: { modelName: 'users' },
    session: { modelName: 'sessions', expiresIn: SESSION_SECONDS, updateAge: 86_400, cookieCache: { enabled: false } },
    account: { modelName: 'accounts' },
    verification: { modelName: 'verifications' },
    emailAndPassword: { enabled: true, disableSignUp: true, minPasswordLength: PASSWORD_MIN, maxPasswordLength: PASSWORD_MAX },
    advanced: {
      cookiePrefix: 'florin',
      useSecureCookies: url.protocol === 'https:',
      defaultCookieAttributes: { httpOnly: true, sameSite: 'lax', path: '/', secure: url.protocol === 'https:' },
      ipAddress: { ipAddressHeaders: ['x-florin-ip'] },
      database: { generateId: () => base62(24, ctx.random) },
    },
    plugins: [
      twoFactor({ issuer: 'Florin', schema: { twoFactor: { modelName: 'second_factors' } } }),
      passkey({
        rpID: url.hostname,
        rpName: 'Florin',
        origin: url.origin,
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        schema: { passkey: { modelName: 'passkeys', fields: { credentialID: 'credentialId' } } },
      }),
    ],
  });
}
const authOf = perContext(open);

const headersOf = ({ cookie, ip, userAgent }: Visitor): Headers =>
  new Headers({ cookie, 'x-florin-ip': ip, 'user-agent': userAgent.slice(0, 300) });
const cookiesOf = (headers: Headers): Cookies => headers.getSetCookie();

/** Runs a call of the library; what it refuses becomes the given problem, what breaks stays broken. */
async function refusing<T>(code: ProblemCode, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const status = (error as { statusCode?: unknown }).statusCode;
    if (status === 429) throw new Problem('rate_limit_exceeded', { seconds: 900 }, { retryAfterSeconds: 900, cause: error });
    if (typeof status === 'number' && status >= 400 && status < 500) throw new Problem(code, {}, { cause: error });
    throw error;
  }
}

export function checkPassword(password: string): void {
  if (password.length < PASSWORD_MIN || password.length > PASSWORD_MAX) {
    throw new Problem('parameter_invalid', { reason: `${PASSWORD_MIN} to ${PASSWORD_MAX} characters are needed` }, { param: 'password' });
  }
}
export async function hashPassword(ctx: Context, { password }: { password: string }): Promise<string> {
  checkPassword(password);
  return (await (await authOf(ctx)).$context).password.hash(password);
}

/** E-mail and password. With a second factor there is no session yet: the cookies only name the sign-in under way. Errors: sign_in_failed. */
export async function signInWithPassword(
  ctx: Context,
  { visitor, email, password }: { visitor: Visitor; email: string; password: string },
): Promise<{ cookies: Cookies; needsSecondFactor: boolean }> {
  const auth = await authOf(ctx);
  // Nothing that the visitor holds may shorten the way: a device is never trusted.
  const headers = headersOf({ ...visitor, cookie: '' });
  const reply = await refusing('sign_in_failed', () => auth.api.signInEmail({ body: { email, password }, headers, returnHeaders: true }));
  return { cookies: cookiesOf(reply.headers), needsSecondFactor: 'twoFactorRedirect' in reply.response };
}

/** The second step of a sign-in under way. Errors: second_factor_invalid. */
export async function signInWithCode(
  ctx: Context,
  { visitor, code, kind }: { visitor: Visitor; code: string; kind: 'totp' | 'backup_code' },
): Promise<{ cookies: Cookies }> {
  const auth = await authOf(ctx);
  // Without a session of its own: with one the library would check the code and make no new session.
  const headers = headersOf({ ...visitor, cookie: withoutSession(visitor.cookie) });
  const reply = await refusing('second_factor_invalid', () =>
    kind === 'totp'
      ? auth.api.verifyTOTP({ body: { code }, headers, returnHeaders: true })
      : auth.api.verifyBackupCode({ body: { code }, headers, returnHeaders: true }),
  );
  return { cookies: cookiesOf(reply.headers) };
}
const withoutSession = (cookie: string): string =>
  cookie
    .split('; ')
    .filter((pair) => !/^(__Secure-)?florin\.session_token=/.test(pair))
    .join('; ');

export async function passkeyOptions(ctx: Context, { visitor }: { visitor: Visitor }): Promise<{ cookies: Cookies; options: object }> {
  const auth = await authOf(ctx);
  const reply = await auth.api.generatePasskeyAuthenticationOptions({
    headers: headersOf({ ...visitor, cookie: '' }),
    returnHeaders: true,
  });
  return { cookies: cookiesOf(reply.headers), options: { ...(reply.response as object), userVerification: 'required' } };
}

/** A passkey is both factors at once, so its authenticator must have verified its user. Errors: sign_in_failed. */
export async function signInWithPasskey(
  ctx: Context,
  { visitor, response }: { visitor: Visitor; response: Record<string, unknown> },
): Promise<{ cookies: Cookies }> {
  const data = (response.response as { authenticatorData?: unknown } | undefined)?.authenticatorData;
  // WebAuthn 6.1: byte 32 holds the flags, bit 2 of it "user verified". The signature checked below covers it.
  const flags = typeof data === 'string' ? Buffer.from(data, 'base64url')[32] : undefined;
  if (flags === undefined || (flags & 0x04) === 0) throw new Problem('sign_in_failed');
  const auth = await authOf(ctx);
  const headers = headersOf({ ...visitor, cookie: withoutSession(visitor.cookie) });
  headers.set('origin', new URL(ctx.settings.publicUrl).origin);
  const reply = await refusing('sign_in_failed', () =>
    auth.api.verifyPasskeyAuthentication({ body: { response: response as never }, headers, returnHeaders: true }),
  );
  return { cookies: cookiesOf(reply.headers) };
}

/** Who is signed in, with all factors; null when nobody is. */
export async function findSignedIn(ctx: Context, { visitor }: { visitor: Visitor }): Promise<SignedIn | null> {
  if (!/florin\.session_token=/.test(visitor.cookie)) return null;
  const auth = await authOf(ctx);
  const found = await auth.api.getSession({ headers: headersOf(visitor) });
  if (!found) return null;
  const [row] = await ctx.db.sql<{ merchantId: string | null; isRecent: boolean; hasSecondFactor: boolean }[]>`
    select s.merchant_id as "merchantId", u.two_factor_enabled as "hasSecondFactor",
      clock_timestamp() - greatest(s.created_at, s.confirmed_at) <= ${RECENT_MS} * interval '1 millisecond' as "isRecent"
    from sessions s join users u on u.id = s.user_id where s.id = ${found.session.id}`;
  if (!row) return null;
  return { sessionId: found.session.id, userId: found.user.id, name: found.user.name, email: found.user.email, ...row };
}

export async function signOut(ctx: Context, { visitor }: { visitor: Visitor }): Promise<{ cookies: Cookies }> {
  const auth = await authOf(ctx);
  const reply = await auth.api.signOut({ headers: headersOf(visitor), returnHeaders: true });
  return { cookies: cookiesOf(reply.headers) };
}

/** Makes a second factor that counts once its first code was shown. Errors: password_wrong, second_factor_set. */
export async function startSecondFactor(
  ctx: Context,
  { visitor, signedIn, password }: { visitor: Visitor; signedIn: SignedIn; password: string },
): Promise<{ uri: string; backupCodes: string[] }> {
  if (signedIn.hasSecondFactor) throw new Problem('second_factor_set');
  const auth = await authOf(ctx);
  const reply = await refusing('password_wrong', () => auth.api.enableTwoFactor({ body: { password }, headers: headersOf(visitor) }));
  if (!('totpURI' in reply)) throw new Error('no second factor was made');
  return { uri: reply.totpURI, backupCodes: reply.backupCodes };
}

/** From now on the second factor is asked for. Sessions that began without it end; this one goes on under a new cookie. Errors: second_factor_invalid. */
export async function finishSecondFactor(
  ctx: Context,
  { visitor, signedIn, code }: { visitor: Visitor; signedIn: SignedIn; code: string },
): Promise<{ cookies: Cookies }> {
  if (signedIn.hasSecondFactor) throw new Problem('second_factor_set');
  const auth = await authOf(ctx);
  const before = await ctx.db.sql<{ id: string }[]>`select id from sessions where user_id = ${signedIn.userId}`;
  const reply = await refusing('second_factor_invalid', () =>
    auth.api.verifyTOTP({ body: { code }, headers: headersOf(visitor), returnHeaders: true }),
  );
  await ctx.db.sql`delete from sessions where user_id = ${signedIn.userId} and id = any(${before.map((row) => row.id)})`;
  return { cookies: cookiesOf(reply.headers) };
}

/** Shows the second factor again, or the password where none is set; makes this session recent. Errors: second_factor_invalid, password_wrong. */
export async function confirmSignIn(
  ctx: Context,
  { visitor, signedIn, code, password }: { visitor: Visitor; signedIn: SignedIn; code: string | null; password: string | null },
): Promise<void> {
  const auth = await authOf(ctx);
  const headers = headersOf(visitor);
  if (signedIn.hasSecondFactor) {
    if (code === null) throw new Problem('second_factor_invalid');
    await refusing('second_factor_invalid', () => auth.api.verifyTOTP({ body: { code }, headers }));
  } else {
    if (password === null) throw new Problem('password_wrong');
    await refusing('password_wrong', () => auth.api.verifyPassword({ body: { password }, headers }));
  }
  await ctx.db.sql`update sessions set confirmed_at = clock_timestamp() where id = ${signedIn.sessionId}`;
}

/** Takes the second factor away, with its backup codes; who is signed in stays so. */
export async function removeSecondFactor(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`delete from second_factors where user_id = ${userId}`;
  await tx`update users set two_factor_enabled = false, updated_at = clock_timestamp() where id = ${userId}`;
}
