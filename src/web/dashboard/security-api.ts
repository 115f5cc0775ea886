/**
 * The account of the signed-in user: passkeys, backup codes, sessions, password, email. Members who still have to set up two-factor
 * authentication can open it too.
 */
import Type from 'typebox';
import { Problem } from '../../core/problem.ts';
import { printableLine } from '../../core/text.ts';
import {
  agreeToEmailChange,
  changePassword,
  endSessions,
  finishPasskey,
  listPasskeys,
  listSessions,
  pendingEmail,
  removePasskey,
  renamePasskey,
  renewBackupCodes,
  startEmailChange,
  startPasskey,
} from '../../people/account.ts';
import { isEmailVerified, proveEmail, sendEmailProof } from '../../people/email-proofs.ts';
import { forgetDevice, listTrustedDevices } from '../../people/trusted-devices.ts';
import { Email, Password } from './account-api.ts';
import { Done, Instant, NoFields, Nullable, PlainText } from './fields.ts';
import { type DashboardRoute, memberRoute, openRoute } from './route.ts';

const Name = Type.String({ minLength: 1, maxLength: 60, pattern: '\\S' });
const Open = Type.Record(Type.String(), Type.Unknown());
const own = { action: 'account.use', withoutFactor: true } as const;
const done = { success: true };

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
