/**
 * The account of the signed-in user: passkeys, backup codes, sessions, password, email. Members who still have to set up two-factor
 * authentication can open it too.
 */
import Type from 'typebox';
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { FIATS, fiatDecimals } from '#core/fiat';
import { formatDecimal } from '#core/money';
import { Problem } from '#core/problem';
import { ACTIONS, type Action, actionsOf, ROLES, rolesWith } from '#core/roles';
import { printableLine, readName } from '#core/text';
import { literals } from '#http';
import { findSetup, getMerchant } from '#merchants';
import { listMemberships, setUpMerchant, setUpOwner } from '#people';
import {
  agreeToEmailChange,
  askForReset,
  changePassword,
  confirmSignIn,
  endSessions,
  finishPasskey,
  finishSecondFactor,
  forgetDevice,
  hashPassword,
  isEmailVerified,
  listPasskeys,
  listSessions,
  listTrustedDevices,
  passkeyOptions,
  pendingEmail,
  proveEmail,
  removePasskey,
  removeSecondFactor,
  renamePasskey,
  renewBackupCodes,
  resetByLink,
  sendEmailProof,
  signInWithCode,
  signInWithPasskey,
  signInWithPassword,
  signOut,
  startEmailChange,
  startPasskey,
  startSecondFactor,
} from '#sign-in';
import { drawQr } from '../checkout/parts.ts';
import { Done, Instant, ModeName, NoFields, Nullable, PlainText, readDisplay } from './fields.ts';
import { type DashboardRoute, memberRoute, openRoute } from './route.ts';

// Signing in and out, the setup link, two-factor authentication, and the current user.

export const Email = Type.String({ minLength: 3, maxLength: 254, pattern: '^[^\\s@<>"]+@[^\\s@<>"]+$' });
/** `readName` says what it may contain. */
export const PersonName = Type.String({ minLength: 1, maxLength: 400 });
export const Password = Type.String({ minLength: 1, maxLength: 128 });
const Code = Type.String({ minLength: 6, maxLength: 20 });
const TotpCode = Type.String({ pattern: '^[0-9]{6}$' });
const done = { success: true };

async function displayOf(ctx: Context, of: { merchantId: string; mode: Mode }) {
  const display = await readDisplay(ctx, of);
  return display && { currency: display.currency, decimals: fiatDecimals(display.currency), rate: formatDecimal(display.rateE8, 8) };
}

export const ACCOUNT: readonly DashboardRoute[] = [
  openRoute({
    method: 'POST',
    path: '/sign-in',
    attempts: 10,
    account: ({ email }) => String(email),
    isGuess: true,
    body: Type.Object({ email: Email, password: Password }),
    reply: Type.Object({ success: Type.Boolean(), needs_second_factor: Type.Boolean() }),
    handle: async ({ ctx, visitor, body, setCookies }) => {
      const { cookies, needsSecondFactor } = await signInWithPassword(ctx, { visitor, email: body.email, password: body.password });
      setCookies(cookies);
      return { ...done, needs_second_factor: needsSecondFactor };
    },
  }),
  openRoute({
    method: 'POST',
    path: '/sign-in/code',
    attempts: 10,
    ofPending: true,
    body: Type.Object({ kind: literals(['totp', 'backup_code'] as const), code: Code, trust_device: Type.Optional(Type.Boolean()) }),
    reply: Done,
    handle: async ({ ctx, visitor, body, setCookies }) => {
      const kind = body.kind === 'totp' ? 'totp' : 'backup_code';
      const trust = body.trust_device === true;
      setCookies((await signInWithCode(ctx, { visitor, code: body.code, kind, trust })).cookies);
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/sign-in/passkey/options',
    attempts: 20,
    body: Type.Object({}),
    reply: Type.Object({ success: Type.Boolean(), options: Type.Record(Type.String(), Type.Unknown()) }),
    handle: async ({ ctx, visitor, setCookies }) => {
      const { cookies, options } = await passkeyOptions(ctx, { visitor });
      setCookies(cookies);
      return { ...done, options };
    },
  }),
  openRoute({
    method: 'POST',
    path: '/sign-in/passkey',
    attempts: 10,
    body: Type.Object({ response: Type.Record(Type.String(), Type.Unknown()) }),
    reply: Done,
    handle: async ({ ctx, visitor, body, setCookies }) => {
      setCookies((await signInWithPasskey(ctx, { visitor, response: body.response })).cookies);
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/forgot-password',
    attempts: 5,
    account: ({ address }) => String(address),
    body: Type.Object({ address: Email }),
    reply: Type.Object({ success: Type.Boolean(), by_mail: Type.Boolean() }),
    handle: async ({ ctx, visitor, body }) => ({ ...done, by_mail: askForReset(ctx, { email: body.address, visitor }).byMail }),
  }),
  openRoute({
    method: 'POST',
    path: '/reset-password',
    attempts: 10,
    body: Type.Object({ token: Type.String({ minLength: 1, maxLength: 64 }), password: Password }),
    reply: Done,
    handle: async ({ ctx, visitor, body, setCookies }) => {
      setCookies((await resetByLink(ctx, { token: body.token, password: body.password, visitor })).cookies);
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/sign-out',
    body: Type.Object({}),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, setCookies }) => {
      setCookies((await signOut(ctx, { visitor, signedIn })).cookies);
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/set-up',
    attempts: 10,
    body: Type.Object({
      token: Type.String({ minLength: 1, maxLength: 64 }),
      name: Type.Optional(PersonName),
      email: Type.Optional(Email),
      password: Type.Optional(Password),
    }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body, setCookies }) => {
      const { token, name, email, password } = body;
      if (signedIn) {
        await setUpMerchant(ctx, { token, actor: { userId: signedIn.userId, name: signedIn.name, ip: visitor.ip } });
        return done;
      }
      for (const [param, value] of Object.entries({ name, email, password })) {
        if (value === undefined) throw new Problem('parameter_missing', {}, { param });
      }
      const shown = readName(name!, 'name');
      // Hashing a password is slow on purpose, so a made-up link must not get that far.
      if ((await findSetup(ctx, { token })) === null) throw new Problem('setup_link_invalid');
      const passwordHash = await hashPassword(ctx, { password: password! });
      await setUpOwner(ctx, { token, name: shown, email: email!, passwordHash, ip: visitor.ip });
      setCookies((await signInWithPassword(ctx, { visitor, email: email!, password: password! })).cookies);
      return done;
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/me',
    action: 'account.use',
    withoutFactor: true,
    reply: Type.Object({
      success: Type.Boolean(),
      user: Type.Object({
        id: Type.String(),
        name: Type.String(),
        email: Type.String(),
        has_second_factor: Type.Boolean(),
        has_passkey: Type.Boolean(),
      }),
      merchant: Type.Object({ id: Type.String(), name: Type.String() }),
      merchants: Type.Array(Type.Object({ id: Type.String(), name: Type.String() })),
      role: literals(ROLES),
      is_operator: Type.Boolean(),
      must_set_second_factor: Type.Boolean(),
      actions: Type.Array(literals(Object.keys(ACTIONS) as Action[])),
      /** Whose days lists, files, reports and books mean. */
      time_zone: PlainText,
      /** The currency that is shown beside US dollars, with its units for one dollar; null for US dollars, or without a current rate. */
      display: Nullable(Type.Object({ currency: literals(FIATS), decimals: Type.Integer(), rate: PlainText })),
      mode: ModeName,
    }),
    handle: async ({ ctx, signedIn, member, mode }) => ({
      ...done,
      user: {
        id: signedIn.userId,
        name: signedIn.name,
        email: signedIn.email,
        has_second_factor: signedIn.hasSecondFactor,
        has_passkey: signedIn.hasPasskey,
      },
      merchant: { id: member.merchantId, name: member.merchantName },
      merchants: (await listMemberships(ctx, { userId: signedIn.userId })).map((one) => ({ id: one.merchantId, name: one.merchantName })),
      is_operator: signedIn.operator,
      must_set_second_factor: member.secondFactorRequired && !signedIn.hasSecondFactor,
      role: member.role,
      actions: actionsOf(member.role),
      time_zone: (await getMerchant(ctx, { merchantId: member.merchantId })).settings.timeZone,
      display: await displayOf(ctx, { merchantId: member.merchantId, mode }),
      mode,
    }),
  }),
  memberRoute({
    method: 'GET',
    path: '/access',
    action: 'account.use',
    query: Type.Object({ action: literals(Object.keys(ACTIONS) as Action[]) }),
    reply: Type.Object({ success: Type.Boolean(), needed: Type.String() }),
    handle: async ({ query }) => ({ ...done, needed: rolesWith(query.action as Action) }),
  }),
  memberRoute({
    method: 'POST',
    path: '/confirm',
    action: 'account.use',
    withoutFactor: true,
    attempts: 5,
    body: Type.Object({
      passkey: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      code: Type.Optional(TotpCode),
      password: Type.Optional(Password),
    }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body }) => {
      await confirmSignIn(ctx, {
        visitor,
        signedIn,
        passkey: body.passkey ?? null,
        code: body.code ?? null,
        password: body.password ?? null,
      });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/second-factor',
    action: 'account.use',
    withoutFactor: true,
    attempts: 5,
    body: Type.Object({ password: Password }),
    reply: Type.Object({ success: Type.Boolean(), uri: Type.String(), qr: Type.String(), backup_codes: Type.Array(Type.String()) }),
    handle: async ({ ctx, visitor, signedIn, body }) => {
      const { uri, backupCodes } = await startSecondFactor(ctx, { visitor, signedIn, password: body.password });
      const svg = drawQr(uri, 'QR code for the authenticator').text.replace('<svg ', '<svg xmlns="http://www.w3.org/2000/svg" ');
      return { ...done, uri, qr: `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`, backup_codes: backupCodes };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/second-factor/finish',
    action: 'account.use',
    withoutFactor: true,
    attempts: 5,
    body: Type.Object({ code: TotpCode }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body, setCookies }) => {
      setCookies((await finishSecondFactor(ctx, { visitor, signedIn, code: body.code })).cookies);
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/second-factor/remove',
    action: 'account.use',
    recent: true,
    body: Type.Object({}),
    reply: Done,
    handle: async ({ ctx, actor }) => {
      await removeSecondFactor(ctx, { actor });
      return done;
    },
  }),
];

const Name = Type.String({ minLength: 1, maxLength: 60, pattern: '\\S' });
const Open = Type.Record(Type.String(), Type.Unknown());
const own = { action: 'account.use', withoutFactor: true } as const;

export const SECURITY: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/security',
    ...own,
    reply: Type.Object({
      success: Type.Boolean(),
      passkeys: Type.Array(Type.Object({ id: PlainText, name: PlainText, created_at: Instant, backed_up: Type.Boolean() })),
      sessions: Type.Array(
        Type.Object({
          id: PlainText,
          ip: PlainText,
          user_agent: PlainText,
          started_at: Instant,
          used_at: Instant,
          current: Type.Boolean(),
        }),
      ),
      trusted_devices: Type.Array(
        Type.Object({
          id: PlainText,
          ip: PlainText,
          user_agent: PlainText,
          created_at: Instant,
          used_at: Instant,
          expires_at: Instant,
          current: Type.Boolean(),
        }),
      ),
      pending_email: Nullable(PlainText),
      email_verified: Type.Boolean(),
      mail_set_up: Type.Boolean(),
    }),
    handle: async ({ ctx, visitor, signedIn }) => {
      const [passkeys, sessions, devices, pending, verified] = await Promise.all([
        listPasskeys(ctx, signedIn),
        listSessions(ctx, { signedIn }),
        listTrustedDevices(ctx, { userId: signedIn.userId, from: visitor }),
        pendingEmail(ctx, signedIn),
        isEmailVerified(ctx, signedIn),
      ]);
      return {
        ...done,
        passkeys: passkeys.map(({ id, name, createdAt, backedUp }) => ({
          id,
          name,
          created_at: createdAt.toISOString(),
          backed_up: backedUp,
        })),
        sessions: sessions.map(({ id, ip, userAgent, startedAt, usedAt, current }) => ({
          id,
          ip,
          user_agent: userAgent,
          started_at: startedAt.toISOString(),
          used_at: usedAt.toISOString(),
          current,
        })),
        trusted_devices: devices.map(({ id, ip, userAgent, createdAt, usedAt, expiresAt, current }) => ({
          id,
          ip,
          user_agent: userAgent,
          created_at: createdAt.toISOString(),
          used_at: usedAt.toISOString(),
          expires_at: expiresAt.toISOString(),
          current,
        })),
        pending_email: pending,
        email_verified: verified,
        mail_set_up: ctx.mail !== null,
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/passkeys/options',
    ...own,
    recent: true,
    body: NoFields,
    reply: Type.Object({ success: Type.Boolean(), options: Open }),
    handle: async ({ ctx, visitor, signedIn, setCookies }) => {
      const { cookies, options } = await startPasskey(ctx, { visitor, signedIn });
      setCookies(cookies);
      return { ...done, options };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/passkeys',
    ...own,
    recent: true,
    body: Type.Object({ name: Name, response: Open }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body }) => {
      await finishPasskey(ctx, { visitor, signedIn, name: printableLine(body.name, 'name'), response: body.response });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/passkeys/:id/name',
    ...own,
    body: Type.Object({ name: Name }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, params, body }) => {
      await renamePasskey(ctx, { visitor, signedIn, passkeyId: params.id, name: printableLine(body.name, 'name') });
      return done;
    },
  }),
  memberRoute({
    method: 'DELETE',
    path: '/passkeys/:id',
    ...own,
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, params }) => {
      await removePasskey(ctx, { visitor, signedIn, passkeyId: params.id });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/backup-codes',
    ...own,
    recent: true,
    attempts: 5,
    body: Type.Object({ password: Password }),
    reply: Type.Object({ success: Type.Boolean(), backup_codes: Type.Array(PlainText) }),
    handle: async ({ ctx, visitor, signedIn, body }) => ({
      ...done,
      backup_codes: await renewBackupCodes(ctx, { visitor, signedIn, password: body.password }),
    }),
  }),
  memberRoute({
    method: 'DELETE',
    path: '/sessions/:id',
    ...own,
    body: NoFields,
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, params }) => {
      await endSessions(ctx, { visitor, signedIn, sessionId: params.id });
      return done;
    },
  }),
  memberRoute({
    method: 'DELETE',
    path: '/sessions',
    ...own,
    body: NoFields,
    reply: Type.Object({ success: Type.Boolean(), ended: Type.Integer() }),
    handle: async ({ ctx, visitor, signedIn }) => ({ ...done, ended: await endSessions(ctx, { visitor, signedIn, sessionId: null }) }),
  }),
  memberRoute({
    method: 'DELETE',
    path: '/trusted-devices/:id',
    ...own,
    body: NoFields,
    reply: Done,
    handle: async ({ ctx, actor, params }) => {
      await forgetDevice(ctx, { actor, deviceId: params.id });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/password',
    ...own,
    recent: true,
    attempts: 5,
    body: Type.Object({ password: Password, new_password: Password }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body }) => {
      await changePassword(ctx, { visitor, signedIn, password: body.password, newPassword: body.new_password });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/email',
    ...own,
    recent: true,
    attempts: 5,
    body: Type.Object({ new_email: Email, password: Password }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body }) => {
      await startEmailChange(ctx, { visitor, signedIn, email: body.new_email, password: body.password });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/email/proof',
    ...own,
    attempts: 5,
    body: NoFields,
    reply: Done,
    handle: async ({ ctx, signedIn }) => {
      await sendEmailProof(ctx, { signedIn });
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/verify-email',
    attempts: 10,
    body: Type.Object({ token: Type.String({ minLength: 1, maxLength: 64 }) }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body }) => {
      if (!signedIn) throw new Problem('not_signed_in');
      await proveEmail(ctx, { token: body.token, actor: { userId: signedIn.userId, name: signedIn.name, ip: visitor.ip } });
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/confirm-email',
    attempts: 10,
    body: Type.Object({ token: Type.String({ minLength: 1, maxLength: 64 }) }),
    reply: Type.Object({ success: Type.Boolean(), changed: Type.Boolean() }),
    handle: async ({ ctx, visitor, body }) => ({ ...done, ...(await agreeToEmailChange(ctx, { token: body.token, ip: visitor.ip })) }),
  }),
];
