/**
 * Signing in: passwords, one-time codes, backup codes, passkeys and sessions. The only module that knows the library. None of its
 * routes are mounted: only the functions here are reachable, through our own routes with their limits and errors.
 */
import { type Context, perContext } from '#context';
import { base62 } from '#core/id';
import { Problem, type ProblemCode } from '#core/problem';
import type { Tx } from '#db';
import { notifyUser } from '#notices';
import { type Actor, writeAccountAudit } from '#people';
import { browserHash, endTrust, isTrusted, lockTrust, rememberBrowser, trustDevice } from './trusted-devices.ts';

const PASSWORD_MIN = 12;
const PASSWORD_MAX = 128;
const SESSION_SECONDS = 7 * 86_400;
const RENEW_SECONDS = 86_400;
/** A session ends this long after it began, even when it is used. */
export const SESSION_DAYS = 30;
/** How long a sign-in or a confirmation counts as recent. */
const RECENT_MS = 10 * 60_000;

/** What a sign-in needs from a request. */
export type Visitor = { cookie: string; ip: string; userAgent: string };
export type Cookies = string[];
export type SignedIn = {
  sessionId: string;
  userId: string;
  name: string;
  email: string;
  hasSecondFactor: boolean;
  hasPasskey: boolean;
  merchantId: string | null;
  /** Whether the user is an operator of the install. */
  operator: boolean;
  /** Signed in with all factors, or confirmed, within the last ten minutes. */
  isRecent: boolean;
};

/** The secret under which second factors are stored. */
export const signInSecret = ({ derive }: Pick<Context, 'derive'>): string => Buffer.from(derive('dashboard sign-in')).toString('base64');

/** The connections, as the query builder of the library takes them. */
const poolOf = ({ db }: Context) => ({
  connect: async () => {
    const { unsafe, release } = await db.sql.reserve();
    const query = async <R>(text: string, values: readonly unknown[]) => {
      const rows = await unsafe(text, values as never);
      return { command: rows.command as 'SELECT', rowCount: rows.count, rows: rows as R[] };
    };
    return { query: query as never, release };
  },
  end: async () => {},
});

/** Loaded on first use, so that a service that only handles payments does not pay for it. */
async function open(ctx: Context) {
  const [
    { betterAuth },
    { APIError, createAuthEndpoint },
    { setSessionCookie },
    { twoFactor },
    { passkey },
    { CamelCasePlugin, Kysely, PostgresDialect },
  ] = await Promise.all([
    import('better-auth'),
    import('better-auth/api'),
    import('better-auth/cookies'),
    import('better-auth/plugins/two-factor'),
    import('@better-auth/passkey'),
    import('kysely'),
  ]);
  const url = new URL(ctx.settings.publicUrl);
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: poolOf(ctx) }),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
  return betterAuth({
    appName: 'Florin',
    baseURL: url.origin,
    basePath: '/dashboard/api/unmounted',
    secret: signInSecret(ctx),
    database: { db, type: 'postgres' },
    trustedOrigins: [url.origin],
    telemetry: { enabled: false },
    rateLimit: { enabled: false },
    logger: { disabled: true },
    user: { modelName: 'users' },
    // A session that is used within a week is extended by another, up to `SESSION_DAYS`. Our routes check how recent it is, not the
    // library.
    session: { modelName: 'sessions', expiresIn: SESSION_SECONDS, updateAge: RENEW_SECONDS, freshAge: 0, cookieCache: { enabled: false } },
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
      // We count wrong codes ourselves, wherever they are entered.
      twoFactor({ issuer: 'Florin', accountLockout: { enabled: false }, schema: { twoFactor: { modelName: 'second_factors' } } }),
      passkey({
        rpID: url.hostname,
        rpName: 'Florin',
        origin: url.origin,
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        registration: {
          // Signing in requires it, so a passkey without it could never sign in.
          afterVerification: async ({ verification }) => {
            if (verification.registrationInfo?.userVerified !== true) throw new APIError('BAD_REQUEST');
          },
        },
        schema: { passkey: { modelName: 'passkeys', fields: { credentialID: 'credentialId' } } },
      }),
      {
        id: 'written-sessions',
        endpoints: {
          /** Sets the cookie of a session that we wrote. Only we know its token. */
          showSession: createAuthEndpoint(
            '/written-sessions',
            { method: 'POST', metadata: { $Infer: { body: {} as { token: string } } } },
            async (call) => {
              const found = await call.context.internalAdapter.findSession(call.body.token);
              if (!found) throw call.error('UNAUTHORIZED');
              await setSessionCookie(call, found, false);
              return call.json({});
            },
          ),
        },
      },
    ],
  });
}
export const authOf = perContext(open);

export const headersOf = ({ cookie, ip, userAgent }: Visitor): Headers =>
  new Headers({ cookie, 'x-florin-ip': ip, 'user-agent': userAgent.slice(0, 300) });
export const cookiesOf = (headers: Headers): Cookies => headers.getSetCookie();

/** Calls the library. Its refusals become the given problem; other errors are passed on. */
export async function refusing<T>(code: ProblemCode, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const status = (error as { statusCode?: unknown }).statusCode;
    if (status === 429) throw new Problem('rate_limit_exceeded', { seconds: 900 }, { retryAfterSeconds: 900, cause: error });
    if (typeof status === 'number' && status >= 400 && status < 500) throw new Problem(code, {}, { cause: error });
    throw error;
  }
}

/** What guesses begin with. */
const GUESSED =
  /p[a@]ss ?w[o0]rd|passwort|pass|qwert[yz]?(?:uiop)?|azerty(?:uiop)?|asdf(?:ghjkl)?|letmein|welcome|admin(?:istrator)?|iloveyou|monkey|dragon|football|baseball|sunshine|princess|superman|changeme|default|secret|login|bitcoin|crypto|florin/g;
/** A password needs this many different characters besides guessed words and runs such as 1234. */
const UNGUESSED_MIN = 4;
/** Whether a password is among the first that are tried: common words, keyboard rows and runs, alone or together. */
function isEasyToGuess(password: string): boolean {
  const rest = password.toLowerCase().replace(GUESSED, '');
  const unlike = [...rest].filter((char, i, all) => i === 0 || Math.abs(char.codePointAt(0)! - all[i - 1]!.codePointAt(0)!) > 1);
  return new Set(unlike).size < UNGUESSED_MIN;
}

export function checkPassword(password: string, param = 'password'): void {
  const refuse = (reason: string) => new Problem('parameter_invalid', { reason }, { param });
  if (password.length < PASSWORD_MIN || password.length > PASSWORD_MAX)
    throw refuse(`it must have ${PASSWORD_MIN} to ${PASSWORD_MAX} characters`);
  if (isEasyToGuess(password)) throw refuse('it is too easy to guess; use several unrelated words');
}
export async function hashPassword(ctx: Context, { password }: { password: string }): Promise<string> {
  checkPassword(password);
  return (await (await authOf(ctx)).$context).password.hash(password);
}

/**
 * Signs in with email and password. With two-factor authentication there is no session yet, and the cookies only identify the pending
 * sign-in. On a trusted device the session starts right away. Errors: sign_in_failed.
 */
export async function signInWithPassword(
  ctx: Context,
  { visitor, email, password }: { visitor: Visitor; email: string; password: string },
): Promise<{ cookies: Cookies; needsSecondFactor: boolean }> {
  const auth = await authOf(ctx);
  // No cookie of the visitor may let the library skip a step. We decide below which devices are trusted.
  const headers = headersOf({ ...visitor, cookie: '' });
  const reply = await refusing('sign_in_failed', () => auth.api.signInEmail({ body: { email, password }, headers, returnHeaders: true }));
  const { response } = reply;
  const cookies = cookiesOf(reply.headers);
  if ('user' in response) {
    const known = await recordSignIn(ctx, { visitor, userId: response.user.id, how: 'password' });
    return { cookies: [...cookies, ...known], needsSecondFactor: false };
  }
  const trusted = await openOnTrustedDevice(ctx, { visitor, cookies });
  return trusted === null ? { cookies, needsSecondFactor: true } : { cookies: trusted, needsSecondFactor: false };
}

/**
 * Starts a session without a code when the password was right and the user trusts this browser; else null. It uses up the pending
 * sign-in, which a password change also ends.
 */
async function openOnTrustedDevice(ctx: Context, { visitor, cookies }: { visitor: Visitor; cookies: Cookies }): Promise<Cookies | null> {
  const half = await findHalfSignedIn(ctx, { ...visitor, cookie: cookies.map((line) => line.split(';')[0]!).join('; ') });
  if (half === null) return null;
  const { userId, identifier } = half;
  const token = base62(32, ctx.random);
  const opened = await ctx.db.begin(async (tx) => {
    await lockTrust(tx, { userId });
    if (!(await isTrusted(ctx, tx, { userId, from: visitor }))) return false;
    const spent = await tx`
      delete from verifications where identifier in (${identifier}, ${`2fa-attempts-${identifier}`}) returning identifier`;
    if (!spent.some((row) => row.identifier === identifier)) return false;
    await tx`
      insert into sessions (id, user_id, token, ip_address, user_agent, expires_at, by_trusted_device)
      values (${base62(24, ctx.random)}, ${userId}, ${token}, ${visitor.ip}, ${visitor.userAgent.slice(0, 300)},
        clock_timestamp() + make_interval(secs => ${SESSION_SECONDS}), true)`;
    return true;
  });
  if (!opened) return null;
  const auth = await authOf(ctx);
  const { headers } = await auth.api.showSession({ body: { token }, headers: headersOf({ ...visitor, cookie: '' }), returnHeaders: true });
  const known = await recordSignIn(ctx, { visitor, userId, how: 'password on a trusted device' });
  return [...cookiesOf(headers), ...known];
}

/** Writes a sign-in to the audit log, and notifies the user when the browser or address is new. Returns the cookie that remembers the browser. */
async function recordSignIn(ctx: Context, { visitor, userId, how }: { visitor: Visitor; userId: string; how: string }): Promise<Cookies> {
  const hash = browserHash(visitor);
  return ctx.db.begin(async (tx) => {
    const [user] = await tx<{ name: string; email: string; others: boolean }[]>`
      select name, email, exists (select 1 from known_browsers where user_id = ${userId}) as others from users where id = ${userId}`;
    if (!user) return [];
    await writeAccountAudit(tx, { actor: { userId, name: user.name, ip: visitor.ip }, action: 'session.started', after: { how } });
    const [known] = await tx<{ isNew: boolean }[]>`
      insert into known_browsers (user_id, hash) values (${userId}, ${hash})
      on conflict (user_id, hash) do update set seen_at = clock_timestamp() returning xmax = 0 as "isNew"`;
    if (known!.isNew && user.others) await notifyUser(ctx, tx, { userId, kind: 'sign_in', detail: { ip: visitor.ip } });
    return [rememberBrowser(ctx, { from: visitor, email: user.email })];
  });
}

/** Deletes sessions and trusted devices that have expired, and browsers that have not been used for half a year. */
export async function forgetEndedSignIns(ctx: Context): Promise<void> {
  await ctx.db.sql`delete from known_browsers where seen_at < clock_timestamp() - make_interval(days => 180)`;
  await ctx.db.sql`delete from trusted_devices where expires_at < clock_timestamp()`;
  await ctx.db.sql`delete from sessions where expires_at < clock_timestamp()`;
}

/** The user whose sign-in waits for a code; null when there is none. */
export async function findHalfSignedIn(
  ctx: Context,
  visitor: Visitor,
): Promise<{ userId: string; name: string; identifier: string } | null> {
  const cookie = /(?:^|; )(?:__Secure-)?florin\.two_factor=([^;]+)/.exec(visitor.cookie)?.[1];
  if (cookie === undefined) return null;
  // The identifier before the signature. The library checks the signature; the identifier cannot be guessed. Other text is not looked
  // for: the database refuses some of it.
  const identifier = /^([\w-]{1,100})\.[^.]*$/.exec(safeDecode(cookie))?.[1];
  if (identifier === undefined) return null;
  const [user] = await ctx.db.sql<{ userId: string; name: string; identifier: string }[]>`
    select u.id as "userId", u.name, v.identifier from verifications v join users u on u.id = v.value
    where v.identifier = ${identifier} and v.expires_at > clock_timestamp()`;
  return user ?? null;
}
const safeDecode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

const STEP_SECONDS = 30;
/**
 * Accepts a code of the current half minute or an adjacent one, and never a code that was used or an older one (RFC 6238, 5.2). Wrong
 * codes are counted and lock two-factor sign-in for a while. Errors: second_factor_invalid, second_factor_locked.
 */
async function spendCode(ctx: Context, { userId, code, ip }: { userId: string; code: string; ip: string }): Promise<void> {
  const [{ symmetricDecrypt }, { createOTP }] = await Promise.all([import('better-auth/crypto'), import('@better-auth/utils/otp')]);
  const key = (await (await authOf(ctx)).$context).secretConfig;
  const outcome = await ctx.db.begin(async (tx) => {
    const [row] = await tx<{ secret: string; lastStep: bigint | null; locked: number | null; now: number }[]>`
      select secret, last_step as "lastStep", extract(epoch from clock_timestamp())::float8 as now,
        ceil(extract(epoch from locked_until - clock_timestamp()))::int as locked
      from second_factors where user_id = ${userId} for update`;
    if (!row) return { spent: false, seconds: 0 };
    if (row.locked !== null && row.locked > 0) return { spent: false, seconds: row.locked };
    const otp = createOTP(await symmetricDecrypt({ key, data: row.secret }), { digits: 6, period: STEP_SECONDS });
    const step = Math.floor(row.now / STEP_SECONDS);
    for (const candidate of [step, step - 1, step + 1]) {
      if (row.lastStep !== null && BigInt(candidate) <= row.lastStep) continue;
      if ((await otp.hotp(candidate)) !== code) continue;
      await tx`update second_factors set last_step = ${candidate} where user_id = ${userId}`;
      await forgetWrongCodes(tx, { userId });
      return { spent: true, seconds: 0 };
    }
    await recordWrongCode(ctx, tx, { userId, ip });
    return { spent: false, seconds: 0 };
  });
  if (outcome.seconds > 0) throw lockedProblem(outcome.seconds);
  if (!outcome.spent) throw new Problem('second_factor_invalid');
}

/**
 * Completes a pending sign-in with a code. With `trust`, a correct authenticator code makes the browser trusted. A backup code never
 * does, because the person may have lost the authenticator or stolen the paper. A backup code also works while codes are locked: it
 * cannot be guessed, and may be the only way in. Errors: second_factor_invalid, second_factor_locked.
 */
export async function signInWithCode(
  ctx: Context,
  { visitor, code, kind, trust }: { visitor: Visitor; code: string; kind: 'totp' | 'backup_code'; trust: boolean },
): Promise<{ cookies: Cookies }> {
  const auth = await authOf(ctx);
  const user = await findHalfSignedIn(ctx, visitor);
  if (!user) throw new Problem('second_factor_invalid');
  // Without the session cookie: with it, the library would check the code but create no session.
  const headers = headersOf({ ...visitor, cookie: withoutSession(visitor.cookie) });
  try {
    if (kind === 'totp') await spendCode(ctx, { userId: user.userId, code, ip: visitor.ip });
    const reply = await refusing('second_factor_invalid', () =>
      kind === 'totp'
        ? auth.api.verifyTOTP({ body: { code }, headers, returnHeaders: true })
        : auth.api.verifyBackupCode({ body: { code }, headers, returnHeaders: true }),
    );
    if (kind === 'backup_code') await ctx.db.begin((tx) => forgetWrongCodes(tx, user));
    const how = kind === 'totp' ? 'password and code' : 'password and backup code';
    const known = await recordSignIn(ctx, { visitor, userId: user.userId, how });
    const actor = { userId: user.userId, name: user.name, ip: visitor.ip };
    const { token } = reply.response;
    const device = trust && kind === 'totp' && token ? await trustDevice(ctx, { actor, from: visitor, token }) : null;
    return { cookies: [...cookiesOf(reply.headers), ...known, ...(device === null ? [] : [device])] };
  } catch (error) {
    const actor = { ...user, ip: visitor.ip };
    if (kind === 'backup_code' && error instanceof Problem) await ctx.db.begin((tx) => recordWrongCode(ctx, tx, actor));
    await recordFailedCode(ctx, { actor, during: 'sign-in', error });
    throw error;
  }
}

/** A wrong code at this step means that the person knows the password. */
async function recordFailedCode(ctx: Context, { actor, during, error }: { actor: Actor; during: string; error: unknown }): Promise<void> {
  if (!(error instanceof Problem) || error.code !== 'second_factor_invalid') return;
  await ctx.db.begin((tx) => writeAccountAudit(tx, { actor, action: 'second_factor.failed', after: { during } }));
}
const withoutSession = (cookie: string): string =>
  cookie
    .split('; ')
    .filter((pair) => !/^(__Secure-)?florin\.session_token=/.test(pair))
    .join('; ');

export async function passkeyOptions(
  ctx: Context,
  { visitor }: { visitor: Visitor },
): Promise<{ cookies: Cookies; options: Record<string, unknown> }> {
  const auth = await authOf(ctx);
  const reply = await auth.api.generatePasskeyAuthenticationOptions({
    headers: headersOf({ ...visitor, cookie: '' }),
    returnHeaders: true,
  });
  return { cookies: cookiesOf(reply.headers), options: { ...(reply.response as object), userVerification: 'required' } };
}

/** Starts a session with a passkey. It counts as both factors, so the authenticator must have verified its user. */
async function openByPasskey(
  ctx: Context,
  { visitor, response, fault }: { visitor: Visitor; response: Record<string, unknown>; fault: 'sign_in_failed' | 'second_factor_invalid' },
): Promise<{ cookies: Cookies; userId: string; sessionId: string }> {
  const data = (response.response as { authenticatorData?: unknown } | undefined)?.authenticatorData;
  // WebAuthn 6.1: byte 32 holds the flags, bit 2 of it "user verified". The signature checked below covers it.
  const flags = typeof data === 'string' ? Buffer.from(data, 'base64url')[32] : undefined;
  if (flags === undefined || (flags & 0x04) === 0) throw new Problem(fault);
  const auth = await authOf(ctx);
  const headers = headersOf({ ...visitor, cookie: withoutSession(visitor.cookie) });
  headers.set('origin', new URL(ctx.settings.publicUrl).origin);
  const reply = await refusing(fault, () =>
    auth.api.verifyPasskeyAuthentication({ body: { response: response as never }, headers, returnHeaders: true }),
  );
  const { id, userId } = reply.response.session;
  return { cookies: cookiesOf(reply.headers), userId, sessionId: id };
}

/** Errors: sign_in_failed. */
export async function signInWithPasskey(
  ctx: Context,
  { visitor, response }: { visitor: Visitor; response: Record<string, unknown> },
): Promise<{ cookies: Cookies }> {
  const { cookies, userId } = await openByPasskey(ctx, { visitor, response, fault: 'sign_in_failed' });
  const known = await recordSignIn(ctx, { visitor, userId, how: 'passkey' });
  return { cookies: [...cookies, ...known] };
}

/** The signed-in user, with all factors; null when there is none. The cookies extend the session. */
export async function findSignedIn(ctx: Context, { visitor }: { visitor: Visitor }): Promise<(SignedIn & { cookies: Cookies }) | null> {
  if (!/florin\.session_token=/.test(visitor.cookie)) return null;
  const auth = await authOf(ctx);
  const { response: found, headers } = await auth.api.getSession({ headers: headersOf(visitor), returnHeaders: true });
  if (!found) return null;
  const [row] = await ctx.db.sql<
    { merchantId: string | null; isRecent: boolean; hasSecondFactor: boolean; hasPasskey: boolean; operator: boolean }[]
  >`
    with ended as (
      delete from sessions where id = ${found.session.id} and created_at <= clock_timestamp() - make_interval(days => ${SESSION_DAYS})
      returning id)
    select s.merchant_id as "merchantId", u.two_factor_enabled as "hasSecondFactor", u.operator,
      exists (select 1 from passkeys p where p.user_id = u.id) as "hasPasskey",
      coalesce(clock_timestamp() - greatest(case when not s.by_trusted_device then s.created_at end, s.confirmed_at)
        <= ${RECENT_MS} * interval '1 millisecond', false) as "isRecent"
    from sessions s join users u on u.id = s.user_id
    where s.id = ${found.session.id} and not exists (select 1 from ended)`;
  if (!row) return null;
  const { user, session } = found;
  return { sessionId: session.id, userId: user.id, name: user.name, email: user.email, ...row, cookies: cookiesOf(headers) };
}

export async function signOut(
  ctx: Context,
  { visitor, signedIn }: { visitor: Visitor; signedIn: SignedIn | null },
): Promise<{ cookies: Cookies }> {
  const auth = await authOf(ctx);
  const reply = await auth.api.signOut({ headers: headersOf(visitor), returnHeaders: true });
  if (signedIn) {
    const actor = { userId: signedIn.userId, name: signedIn.name, ip: visitor.ip };
    await ctx.db.begin((tx) => writeAccountAudit(tx, { actor, action: 'session.ended' }));
  }
  return { cookies: cookiesOf(reply.headers) };
}

/** Creates a two-factor secret. It takes effect after its first code is entered. Errors: password_wrong, second_factor_set. */
export async function startSecondFactor(
  ctx: Context,
  { visitor, signedIn, password }: { visitor: Visitor; signedIn: SignedIn; password: string },
): Promise<{ uri: string; backupCodes: string[] }> {
  if (signedIn.hasSecondFactor) throw new Problem('second_factor_set');
  const auth = await authOf(ctx);
  const reply = await refusing('password_wrong', () => auth.api.enableTwoFactor({ body: { password }, headers: headersOf(visitor) }));
  if (!('totpURI' in reply)) throw new Error('the library returned no two-factor secret');
  return { uri: reply.totpURI, backupCodes: reply.backupCodes };
}

/**
 * Turns on two-factor authentication. Sessions that began without it end; this one continues under a new cookie. Errors:
 * second_factor_invalid.
 */
export async function finishSecondFactor(
  ctx: Context,
  { visitor, signedIn, code }: { visitor: Visitor; signedIn: SignedIn; code: string },
): Promise<{ cookies: Cookies }> {
  if (signedIn.hasSecondFactor) throw new Problem('second_factor_set');
  const auth = await authOf(ctx);
  const before = await ctx.db.sql<{ id: string }[]>`select id from sessions where user_id = ${signedIn.userId}`;
  await spendCode(ctx, { userId: signedIn.userId, code, ip: visitor.ip });
  const reply = await refusing('second_factor_invalid', () =>
    auth.api.verifyTOTP({ body: { code }, headers: headersOf(visitor), returnHeaders: true }),
  );
  await ctx.db.begin(async (tx) => {
    await endTrust(tx, signedIn);
    // The new session keeps the selected merchant.
    await tx`
      update sessions set merchant_id = ${signedIn.merchantId}
      where user_id = ${signedIn.userId} and id <> all(${before.map((row) => row.id)}) and merchant_id is null`;
    await tx`delete from sessions where user_id = ${signedIn.userId} and id = any(${before.map((row) => row.id)})`;
    const actor = { userId: signedIn.userId, name: signedIn.name, ip: visitor.ip };
    await writeAccountAudit(tx, { actor, action: 'second_factor.set' });
    await notifyUser(ctx, tx, { userId: actor.userId, kind: 'account_changed', detail: { change: 'second_factor_added', ip: actor.ip } });
  });
  return { cookies: cookiesOf(reply.headers) };
}

/**
 * Confirms the identity of the user with a passkey, a code, or the password where two-factor authentication is off. The session then
 * counts as recent. Errors: second_factor_invalid, password_wrong.
 */
export async function confirmSignIn(
  ctx: Context,
  {
    visitor,
    signedIn,
    passkey,
    code,
    password,
  }: { visitor: Visitor; signedIn: SignedIn; passkey: Record<string, unknown> | null; code: string | null; password: string | null },
): Promise<void> {
  const auth = await authOf(ctx);
  const headers = headersOf(visitor);
  const actor = { userId: signedIn.userId, name: signedIn.name, ip: visitor.ip };
  if (passkey !== null) {
    const shown = await openByPasskey(ctx, { visitor, response: passkey, fault: 'second_factor_invalid' });
    // The passkey only identifies the user: the session it opened is deleted, and this one continues.
    await ctx.db.sql`delete from sessions where id = ${shown.sessionId}`;
    if (shown.userId !== signedIn.userId) throw new Problem('second_factor_invalid');
  } else if (signedIn.hasSecondFactor) {
    if (code === null) throw new Problem('second_factor_invalid');
    await spendCode(ctx, { userId: signedIn.userId, code, ip: visitor.ip }).catch(async (error: unknown) => {
      await recordFailedCode(ctx, { actor, during: 'confirmation', error });
      throw error;
    });
  } else {
    if (password === null) throw new Problem('password_wrong');
    await refusing('password_wrong', () => auth.api.verifyPassword({ body: { password }, headers }));
  }
  await ctx.db.begin(async (tx) => {
    await tx`update sessions set confirmed_at = clock_timestamp() where id = ${signedIn.sessionId}`;
    await writeAccountAudit(tx, { actor, action: 'session.confirmed', ...(passkey && { after: { how: 'passkey' } }) });
  });
}

/** Turns off two-factor authentication with its backup codes and trusted devices. Sessions stay. */
export async function dropSecondFactor(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await endTrust(tx, { userId });
  await tx`delete from second_factors where user_id = ${userId}`;
  await tx`update users set two_factor_enabled = false, updated_at = clock_timestamp() where id = ${userId}`;
}

/** Turns off two-factor authentication for the user and notifies them. */
export async function removeSecondFactor(ctx: Context, { actor }: { actor: Actor }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    await dropSecondFactor(tx, actor);
    await writeAccountAudit(tx, { actor, action: 'second_factor.removed' });
    await notifyUser(ctx, tx, { userId: actor.userId, kind: 'account_changed', detail: { change: 'second_factor_removed', ip: actor.ip } });
  });
}

// Wrong two-factor codes: counted per user, reported to them, and answered with growing locks. Only someone who knows the password or has
// a session can enter a code, so nobody else can lock a user out.

const FAILURES_PER_LOCK = 10;
/** More wrong codes in a row than one person mistypes. */
const TOLD_AFTER = 3;
const FIRST_LOCK_MINUTES = 15;
const LONGEST_LOCK_MINUTES = 7 * 24 * 60;
/** The lock duration resets after this long without a new lock. */
const REMEMBERED_DAYS = 30;

/** 15 minutes, then four times as long each time, up to a week. This allows about a thousand guesses a year instead of half a million. */
const lockMinutes = (locks: number): number => Math.min(FIRST_LOCK_MINUTES * 4 ** Math.min(locks - 1, 10), LONGEST_LOCK_MINUTES);

const waitText = (seconds: number): string => {
  const minutes = Math.ceil(seconds / 60);
  const [n, unit] = minutes < 120 ? [minutes, 'minute'] : [Math.ceil(minutes / 60), 'hour'];
  return `${n} ${unit}${n === 1 ? '' : 's'}`;
};
const lockedProblem = (seconds: number): Problem =>
  new Problem('second_factor_locked', { wait: waitText(seconds) }, { retryAfterSeconds: seconds });

/** Counts a wrong code. Locks the row of the two-factor secret until the transaction ends. */
async function recordWrongCode(ctx: Context, tx: Tx, { userId, ip }: { userId: string; ip: string }): Promise<void> {
  const [counted] = await tx<{ wrong: number; isSet: boolean }[]>`
    update second_factors f set failed_verification_count = failed_verification_count + 1 from users u
    where f.user_id = ${userId} and u.id = f.user_id returning failed_verification_count as wrong, u.two_factor_enabled as "isSet"`;
  if (!counted) return;
  const { wrong, isSet } = counted;
  // During setup there is nothing to guess yet.
  const tell = async (detail: { locked_minutes?: number }) => {
    if (isSet) await notifyUser(ctx, tx, { userId, kind: 'codes_failed', detail: { wrong, ip, ...detail } });
  };
  if (wrong === TOLD_AFTER) await tell({});
  if (wrong < FAILURES_PER_LOCK) return;
  const [row] = await tx<{ locks: number }[]>`
    update second_factors set failed_verification_count = 0,
      locks = case when locked_until > clock_timestamp() - make_interval(days => ${REMEMBERED_DAYS}) then locks + 1 else 1 end
    where user_id = ${userId} returning locks`;
  const minutes = lockMinutes(row!.locks);
  await tx`
    update second_factors set locked_until = clock_timestamp() + make_interval(mins => ${minutes}) where user_id = ${userId}`;
  await tell({ locked_minutes: minutes });
}

/** Resets the count after a correct code. The length of the next lock stays, because it reflects the guesses so far. */
async function forgetWrongCodes(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`update second_factors set failed_verification_count = 0 where user_id = ${userId}`;
}

/** Ends a lock and resets its length: the password has changed, so the person who guessed no longer knows it. */
export async function endCodeLock(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`update second_factors set failed_verification_count = 0, locked_until = null, locks = 0 where user_id = ${userId}`;
}
