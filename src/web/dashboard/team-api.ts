/** Members of the merchant, invites, and switching between a user's merchants. */
import Type from 'typebox';
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { Problem } from '#core/problem';
import { ROLES } from '#core/roles';
import { readName } from '#core/text';
import type { Sql, Tx } from '#db';
import { literals } from '#http';
import { endApiKey } from '#keys';
import { endRefundPowers } from '#outgoing';
import {
  acceptInvite,
  acceptInviteAsNew,
  changeRole,
  type Departure,
  findInvite,
  type Invite,
  inviteMember,
  listTeam,
  type Manager,
  removeMember,
  requireSecondFactor,
  revokeInvite,
  switchMerchant,
  writeAudit,
} from '#people';
import { disconnectShop, endShopClaimLinks, forgetShopApprovals } from '#shops';
import { hashPassword, signInWithPassword } from '#sign-in';
import { endWaitingChanges, endWaitingDestinations } from '#wallets';
import { disableEndpoint } from '#webhooks';
import { Email, Password, PersonName } from './account-api.ts';
import { Done, Instant, ModeName, NoFields, Nullable, PlainText } from './fields.ts';
import { type DashboardRoute, type MemberCall, memberRoute, openRoute } from './route.ts';

// What a member leaves behind when they are removed or get another role: what waits ends, and what they made can be ended with it.

const MADE_KINDS = ['key', 'endpoint', 'shop'] as const;
type MemberMade = { id: string; kind: (typeof MADE_KINDS)[number]; mode: Mode; name: string };

/** The API keys, webhook endpoints and connected shops that a member made and that still work. */
const listMade = (sql: Sql | Tx, { merchantId, userId }: { merchantId: string; userId: string }): Promise<MemberMade[]> => sql<
  MemberMade[]
>`
  select * from (
    select id, 'key' as kind, mode, name, created_at from keys
    where merchant_id = ${merchantId} and made_by = ${userId} and revoked_at is null
      and (expires_at is null or expires_at > clock_timestamp())
    union all
    select id, 'endpoint', mode, url, created_at from endpoints
    where merchant_id = ${merchantId} and made_by = ${userId} and state = 'enabled' and shop_key_id is null
    union all
    select id, 'shop', mode, name, created_at from shop_keys
    where merchant_id = ${merchantId} and made_by = ${userId} and revoked_at is null
  ) as made order by mode, kind, created_at, id`;

/**
 * Ends what waits for a member's authority, and of what they made what is named. Called by the team in its transaction. Errors:
 * parameter_invalid (ends).
 */
export const departing =
  (ctx: Context, ends: readonly string[]) =>
  async (tx: Tx, departure: Departure): Promise<void> => {
    await endWaitingChanges(tx, departure);
    await endWaitingDestinations(tx, departure);
    await endRefundPowers(ctx, tx, departure, { forgetApprovals: forgetShopApprovals, endLinks: endShopClaimLinks });
    if (ends.length === 0) return;
    const made = new Map((await listMade(tx, departure)).map((one) => [one.id, one]));
    for (const id of new Set(ends)) {
      const one = made.get(id);
      if (!one) throw new Problem('parameter_invalid', { reason: `${id} has ended, or this member did not make it` }, { param: 'ends' });
      await endMade(ctx, tx, departure, one);
    }
  };

async function endMade(ctx: Context, tx: Tx, { merchantId, actor }: Departure, { id, kind, mode, name }: MemberMade): Promise<void> {
  const of = { merchantId, mode };
  const audit = (action: string, before: object, after?: object) =>
    writeAudit(tx, { ...of, actor, action, object: id, before, ...(after && { after }) });
  switch (kind) {
    case 'key':
      await endApiKey(ctx, tx, { ...of, keyId: id, name });
      return audit('key.revoked', { name });
    case 'endpoint':
      await disableEndpoint(tx, { ...of, endpointId: id });
      return audit('endpoint.update', { url: name, enabled: true }, { url: name, enabled: false });
    case 'shop':
      return audit('shop.disconnected', await disconnectShop(tx, { ...of, shopId: id }));
  }
}

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
