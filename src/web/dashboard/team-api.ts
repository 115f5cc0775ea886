/** Members of the merchant, invites, and switching between a user's merchants. */
import Type from 'typebox';
import { Problem } from '../../core/problem.ts';
import { ROLES } from '../../core/roles.ts';
import { readName } from '../../core/text.ts';
import { literals } from '../../http/schema-fields.ts';
import { hashPassword, signInWithPassword } from '../../people/sign-in.ts';
import {
  acceptInvite,
  acceptInviteAsNew,
  changeRole,
  findInvite,
  type Invite,
  inviteMember,
  listTeam,
  type Manager,
  removeMember,
  requireSecondFactor,
  revokeInvite,
  switchMerchant,
} from '../../people/team.ts';
import { Email, Password, PersonName } from './account-api.ts';
import { departing, listMade, MADE_KINDS } from './departure.ts';
import { Done, Instant, ModeName, NoFields, Nullable, PlainText } from './fields.ts';
import { type DashboardRoute, type MemberCall, memberRoute, openRoute } from './route.ts';

const Role = literals(ROLES);
const InviteItem = Type.Object({
  id: PlainText,
  email: PlainText,
  role: Role,
  invited_by: PlainText,
  created_at: Instant,
  expires_at: Instant,
});
const Token = Type.String({ minLength: 1, maxLength: 64 });
/** Of what the member made, what ends in the same step. */
const Ends = Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 40 }), { maxItems: 500 }));
const done = { success: true };

const inviteBody = ({ id, email, role, invitedBy, createdAt, expiresAt }: Invite) => ({
  id,
  email,
  role,
  invited_by: invitedBy,
  created_at: createdAt.toISOString(),
  expires_at: expiresAt.toISOString(),
});
const managerOf = ({ member, actor }: MemberCall): Manager => ({ merchantId: member.merchantId, actor });
const roleOf = (text: string) => ROLES.find((role) => role === text)!;

export const TEAM: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/team',
    action: 'team.read',
    reply: Type.Object({
      success: Type.Boolean(),
      second_factor_required: Type.Boolean(),
      members: Type.Array(
        Type.Object({
          id: PlainText,
          name: PlainText,
          email: PlainText,
          role: Role,
          has_second_factor: Type.Boolean(),
          has_passkey: Type.Boolean(),
          email_verified: Type.Boolean(),
          joined_at: Instant,
        }),
      ),
      invites: Type.Array(InviteItem),
    }),
    handle: async ({ ctx, member }) => {
      const { members, invites, secondFactorRequired } = await listTeam(ctx, member);
      return {
        ...done,
        second_factor_required: secondFactorRequired,
        members: members.map(({ id, name, email, role, hasSecondFactor, hasPasskey, emailVerified, joinedAt }) => ({
          id,
          name,
          email,
          role,
          has_second_factor: hasSecondFactor,
          has_passkey: hasPasskey,
          email_verified: emailVerified,
          joined_at: joinedAt.toISOString(),
        })),
        invites: invites.map(inviteBody),
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/team/invites',
    action: 'team.manage',
    recent: true,
    body: Type.Object({ email: Email, role: Role }),
    reply: Type.Object({
      success: Type.Boolean(),
      invite: InviteItem,
      /** Null when it was sent by email: then only the owner of the mailbox has it. */
      url: Nullable(PlainText),
      mailed: Type.Boolean(),
    }),
    handle: async (call) => {
      const { invite, url } = await inviteMember(call.ctx, {
        manager: managerOf(call),
        email: call.body.email,
        role: roleOf(call.body.role),
      });
      return { ...done, invite: inviteBody(invite), url, mailed: url === null };
    },
  }),
  memberRoute({
    method: 'DELETE',
    path: '/team/invites/:id',
    action: 'team.manage',
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await revokeInvite(call.ctx, { manager: managerOf(call), inviteId: call.params.id });
      return done;
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/team/members/:id/made',
    action: 'team.manage',
    reply: Type.Object({
      success: Type.Boolean(),
      made: Type.Array(Type.Object({ id: PlainText, kind: literals(MADE_KINDS), mode: ModeName, name: PlainText })),
    }),
    handle: async ({ ctx, member, params }) => ({
      ...done,
      made: await listMade(ctx.db.sql, { merchantId: member.merchantId, userId: params.id }),
    }),
  }),
  memberRoute({
    method: 'POST',
    path: '/team/members/:id/role',
    action: 'team.manage',
    recent: true,
    body: Type.Object({ role: Role, ends: Ends }),
    reply: Done,
    handle: async (call) => {
      const { role, ends = [] } = call.body;
      const change = { manager: managerOf(call), userId: call.params.id, role: roleOf(role) };
      await changeRole(call.ctx, { ...change, departing: departing(call.ctx, ends) });
      return done;
    },
  }),
  memberRoute({
    method: 'DELETE',
    path: '/team/members/:id',
    action: 'team.manage',
    recent: true,
    body: Type.Object({ ends: Ends }),
    reply: Done,
    handle: async (call) => {
      const { ends = [] } = call.body;
      await removeMember(call.ctx, { manager: managerOf(call), userId: call.params.id, departing: departing(call.ctx, ends) });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/team/second-factor',
    action: 'team.manage',
    recent: true,
    body: Type.Object({ required: Type.Boolean() }),
    reply: Done,
    handle: async (call) => {
      const { hasSecondFactor } = call.signedIn;
      await requireSecondFactor(call.ctx, { manager: managerOf(call), required: call.body.required, hasSecondFactor });
      return done;
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/merchant',
    action: 'account.use',
    withoutFactor: true,
    body: Type.Object({ merchant_id: PlainText }),
    reply: Done,
    handle: async ({ ctx, signedIn, body }) => {
      await switchMerchant(ctx, { ...signedIn, merchantId: body.merchant_id });
      return done;
    },
  }),
  openRoute({
    method: 'POST',
    path: '/invite',
    attempts: 10,
    body: Type.Object({ token: Token }),
    reply: Type.Object({
      success: Type.Boolean(),
      merchant_name: PlainText,
      invited_email: PlainText,
      role: Role,
      has_account: Type.Boolean(),
      signed_in_as: Type.Union([PlainText, Type.Null()]),
    }),
    handle: async ({ ctx, signedIn, body }) => {
      const { merchantName, email, role, hasAccount } = await findInvite(ctx, { token: body.token });
      return {
        ...done,
        merchant_name: merchantName,
        invited_email: email,
        role,
        has_account: hasAccount,
        signed_in_as: signedIn?.email ?? null,
      };
    },
  }),
  openRoute({
    method: 'POST',
    path: '/invite/accept',
    attempts: 10,
    body: Type.Object({
      token: Token,
      name: Type.Optional(PersonName),
      password: Type.Optional(Password),
    }),
    reply: Done,
    handle: async ({ ctx, visitor, signedIn, body, setCookies }) => {
      const { token, name, password } = body;
      if (signedIn) {
        const { userId, email, sessionId } = signedIn;
        await acceptInvite(ctx, { token, email, sessionId, actor: { userId, name: signedIn.name, ip: visitor.ip } });
        return done;
      }
      // Checked before the password is required: people with an account sign in instead.
      if ((await findInvite(ctx, { token })).hasAccount) throw new Problem('invite_needs_sign_in');
      for (const [param, value] of Object.entries({ name, password })) {
        if (value === undefined) throw new Problem('parameter_missing', {}, { param });
      }
      const shown = readName(name!, 'name');
      const passwordHash = await hashPassword(ctx, { password: password! });
      const { email } = await acceptInviteAsNew(ctx, { token, name: shown, passwordHash, ip: visitor.ip });
      setCookies((await signInWithPassword(ctx, { visitor, email, password: password! })).cookies);
      return done;
    },
  }),
];
