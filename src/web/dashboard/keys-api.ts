/** API keys: listing, creating, rolling and revoking them, and their usage. */
import Type from 'typebox';
import { PLANS } from '#core/plan';
import { Problem } from '#core/problem';
import { KEY_PERMISSION_NAMES } from '#core/roles';
import { printableLine } from '#core/text';
import { shownPath, sightOf } from '#core/transfer';
import { literals } from '#http';
import {
  addApiKey,
  endApiKey,
  getApiKey,
  type Key,
  type KeyKind,
  listApiKeys,
  ROLL_ENDS,
  type RollEnds,
  readApiKeyCalls,
  rollApiKey,
} from '#keys';
import { getMerchant, getUsage, listHourlyCalls } from '#merchants';
import { writeAudit } from '#people';
import { Instant, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

const Kind = literals(['secret', 'public'] as const);
const Permission = literals(KEY_PERMISSION_NAMES);
const Name = Type.String({ minLength: 1, maxLength: 60, pattern: '^\\S(.*\\S)?$' });
const Item = Type.Object({
  id: PlainText,
  kind: Kind,
  name: PlainText,
  hint: PlainText,
  origins: Type.Array(PlainText),
  read_only: Type.Boolean(),
  /** Null: a public key, or a secret key from before there were permissions, which can do everything. */
  permissions: Nullable(Type.Array(Permission)),
  allowed_ips: Type.Array(PlainText),
  created_by: Nullable(PlainText),
  created_at: Instant,
  expires_at: Nullable(Instant),
  revoked_at: Nullable(Instant),
  replaced_by: Nullable(PlainText),
  last_used_at: Nullable(Instant),
  last_used_ip: Nullable(PlainText),
  last_used_path: Nullable(PlainText),
  is_active: Type.Boolean(),
});
/** The only reply that contains the key itself. */
const Shown = Type.Object({ success: Type.Boolean(), key: Item, text: PlainText });
const ENDS = Object.keys(ROLL_ENDS) as RollEnds[];

const at = (instant: Date | null): string | null => instant?.toISOString() ?? null;
const item = (key: Key, { member }: MemberCall) => ({
  id: key.id,
  kind: key.kind,
  name: key.name,
  hint: key.hint,
  origins: [...key.origins],
  read_only: key.readOnly,
  permissions: key.permissions && [...key.permissions],
  allowed_ips: [...key.allowedIps],
  created_by: key.createdBy,
  created_at: key.createdAt.toISOString(),
  expires_at: at(key.expiresAt),
  revoked_at: at(key.revokedAt),
  replaced_by: key.replacedBy,
  last_used_at: at(key.lastUsedAt),
  last_used_ip: key.lastUsedIp,
  last_used_path: shownPath(key.lastUsedPath, sightOf(member.role)),
  is_active: key.isActive,
});
/** A key as the audit log shows it. */
const told = ({ name, kind, hint, origins, readOnly, permissions, allowedIps, expiresAt, revokedAt }: Key) => ({
  name,
  kind,
  hint,
  ...(origins.length > 0 && { origins }),
  ...(readOnly && { read_only: true }),
  ...(permissions && { permissions }),
  ...(allowedIps.length > 0 && { allowed_ips: allowedIps }),
  expires_at: at(expiresAt),
  ...(revokedAt && { revoked_at: at(revokedAt) }),
});

export const KEYS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/keys',
    action: 'keys.read',
    query: Type.Object({ ...paging, kind: Type.Optional(Kind), state: Type.Optional(literals(['active', 'ended'] as const)) }),
    reply: pageOf(Item),
    handle: async (call) => {
      const { items, hasMore } = await listApiKeys(call.ctx, {
        ...ownerOfCall(call),
        kind: (call.query.kind as KeyKind | undefined) ?? null,
        active: call.query.state !== 'ended',
        ...pageIn(call.query, 100),
      });
      return { success: true, data: items.map((key) => item(key, call)), has_more: hasMore };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/keys/:id',
    action: 'keys.read',
    reply: Type.Object({
      ...{ success: Type.Boolean(), key: Item, calls: Type.Integer(), failed: Type.Integer() },
      // What a public key without its own origins uses.
      shared_origins: Type.Array(PlainText),
    }),
    handle: async (call) => {
      const of = { ...ownerOfCall(call), keyId: call.params.id };
      const [key, { calls, failed }, { settings }] = await Promise.all([
        getApiKey(call.ctx, of),
        readApiKeyCalls(call.ctx, of),
        getMerchant(call.ctx, of),
      ]);
      const figures = { calls: Number(calls), failed: Number(failed) };
      return { success: true, key: item(key, call), ...figures, shared_origins: [...settings.origins] };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/keys',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({
      kind: Kind,
      name: Name,
      expires_in_days: Nullable(Type.Integer({ minimum: 1, maximum: 3650 })),
      origins: Type.Array(Type.String({ maxLength: 200 }), { maxItems: 20 }),
      read_only: Type.Optional(Type.Boolean()),
      /** Of a secret key; by default everything that the member may do. */
      permissions: Type.Optional(Type.Array(Permission, { minItems: 1, maxItems: KEY_PERMISSION_NAMES.length })),
      allowed_ips: Type.Optional(Type.Array(Type.String({ maxLength: 50 }), { maxItems: 20 })),
    }),
    reply: Shown,
    handle: (call) =>
      call.ctx.db.begin(async (tx) => {
        const { key, text } = await addApiKey(call.ctx, tx, {
          ...ownerOfCall(call),
          kind: call.body.kind as KeyKind,
          name: printableLine(call.body.name, 'name'),
          origins: call.body.origins,
          readOnly: call.body.read_only ?? false,
          allowedIps: call.body.allowed_ips ?? [],
          permissions: call.body.permissions ?? null,
          expiresInDays: call.body.expires_in_days as number | null,
          createdBy: call.actor.name,
          actorId: call.actor.userId,
        });
        await writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'key.created', object: key.id, after: told(key) });
        return { success: true, key: item(key, call), text };
      }),
  }),
  memberRoute({
    method: 'POST',
    path: '/keys/:id/roll',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({ ends: literals(ENDS) }),
    reply: Shown,
    handle: (call) =>
      call.ctx.db.begin(async (tx) => {
        const ends = ENDS.find((known) => known === call.body.ends);
        if (!ends) throw new Problem('parameter_invalid', { reason: `it must be one of ${ENDS.join(', ')}` }, { param: 'ends' });
        const before = await getApiKey(call.ctx, { ...ownerOfCall(call), keyId: call.params.id, tx });
        const { key, text, old } = await rollApiKey(call.ctx, tx, {
          ...ownerOfCall(call),
          keyId: before.id,
          ends,
          createdBy: call.actor.name,
          actorId: call.actor.userId,
        });
        await writeAudit(tx, {
          ...ownerOfCall(call),
          actor: call.actor,
          action: 'key.rolled',
          object: old.id,
          before: told(before),
          after: { ...told(old), replaced_by: key.id, new_hint: key.hint },
        });
        return { success: true, key: item(key, call), text };
      }),
  }),
  memberRoute({
    method: 'POST',
    path: '/keys/:id/revoke',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({ name: Type.String({ maxLength: 100 }) }),
    reply: Type.Object({ success: Type.Boolean(), key: Item }),
    handle: (call) =>
      call.ctx.db.begin(async (tx) => {
        const { before, after } = await endApiKey(call.ctx, tx, { ...ownerOfCall(call), keyId: call.params.id, name: call.body.name });
        await writeAudit(tx, {
          ...ownerOfCall(call),
          actor: call.actor,
          action: 'key.revoked',
          object: after.id,
          before: told(before),
          after: told(after),
        });
        return { success: true, key: item(after, call) };
      }),
  }),
];

// The plan, its usage this month, and when it resets.

export const USAGE: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/usage',
    action: 'usage.read',
    reply: Type.Object({
      success: Type.Boolean(),
      plan: literals(PLANS),
      used: Type.Integer(),
      /** Null: unlimited. */
      per_month: Nullable(Type.Integer()),
      per_minute: Nullable(Type.Integer()),
      webhooks: Type.Boolean(),
      month_start: Instant,
      resets_at: Instant,
      merchant_id: PlainText,
    }),
    handle: async ({ ctx, member }) => {
      const { plan, limits, used, monthStart, resetsAt } = await getUsage(ctx, member);
      return {
        success: true,
        plan,
        used,
        per_month: limits.perMonth === 0 ? null : limits.perMonth,
        per_minute: limits.perMinute === 0 ? null : limits.perMinute,
        webhooks: limits.webhooks,
        month_start: monthStart.toISOString(),
        resets_at: resetsAt.toISOString(),
        merchant_id: member.merchantId,
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/usage/hours',
    action: 'usage.read',
    reply: Type.Object({
      success: Type.Boolean(),
      hours: Type.Array(
        Type.Object({
          hour: Instant,
          requests: Type.Integer(),
          failed: Type.Integer(),
          /** Of the key with the most requests. */
          busiest_key: Type.Integer(),
        }),
      ),
    }),
    handle: async (call) => ({
      success: true,
      hours: (await listHourlyCalls(call.ctx, ownerOfCall(call))).map(({ hour, calls, failed, busiest }) => ({
        hour: hour.toISOString(),
        requests: Number(calls),
        failed: Number(failed),
        busiest_key: Number(busiest),
      })),
    }),
  }),
];
