/** The audit log of what members, keys and shops did: paginated, filtered by user, action, object, mode and time. */
import Type from 'typebox';
import { MODES } from '../../core/coin.ts';
import { readTime } from '../../core/dates.ts';
import { Problem } from '../../core/problem.ts';
import { literals } from '../../http/schema-fields.ts';
import { kindOfActor, listAudit, listAuditChoices } from '../../people/members.ts';
import { ActorKindField, Instant, lookedBackBody, lookedPageOf, Nullable, PlainText, paging } from './fields.ts';
import { type DashboardRoute, memberRoute } from './route.ts';

const Changed = Nullable(Type.Record(Type.String(), Type.Unknown()));
const Day = Type.Optional(Type.String({ format: 'date-time', maxLength: 40 }));
const Entry = Type.Object({
  id: PlainText,
  mode: Nullable(literals(MODES)),
  actor_id: Nullable(PlainText),
  actor_name: PlainText,
  actor_kind: ActorKindField,
  action: PlainText,
  object: PlainText,
  /** The user's current data. */
  object_name: Nullable(PlainText),
  before: Changed,
  after: Changed,
  ip: PlainText,
  at: Instant,
});

export const numberOf = (text: string | undefined): bigint | null => {
  if (text === undefined || text === '') return null;
  if (!/^\d{1,18}$/.test(text)) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  return BigInt(text);
};

export const AUDIT: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/audit',
    action: 'audit.read',
    query: Type.Object({
      ...paging,
      actor: Type.Optional(PlainText),
      action: Type.Optional(PlainText),
      object: Type.Optional(PlainText),
      in_mode: Type.Optional(literals(MODES)),
      from: Day,
      until: Day,
    }),
    reply: lookedPageOf(Entry),
    handle: async ({ ctx, member, query }) => {
      const { items, hasMore, lookedBackTo } = await listAudit(ctx, {
        merchantId: member.merchantId,
        limit: Number(query.limit ?? 25),
        startingAfter: numberOf(query.starting_after),
        filter: {
          actorId: query.actor ?? null,
          action: query.action ?? null,
          object: query.object ?? null,
          mode: MODES.find((mode) => mode === query.in_mode) ?? null,
          from: query.from === undefined ? null : readTime(query.from, 'from'),
          until: query.until === undefined ? null : readTime(query.until, 'until'),
        },
      });
      return {
        success: true,
        has_more: hasMore,
        looked_back_to: lookedBackBody(lookedBackTo),
        data: items.map(({ id, mode, actorId, actorName, action, object, objectName, before, after, ip, at }) => ({
          id: String(id),
          mode,
          actor_id: actorId,
          actor_name: actorName,
          actor_kind: kindOfActor(actorId),
          action,
          object,
          object_name: objectName,
          before,
          after,
          ip,
          at: at.toISOString(),
        })),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/audit/choices',
    action: 'audit.read',
    reply: Type.Object({
      success: Type.Boolean(),
      actions: Type.Array(PlainText),
      actors: Type.Array(Type.Object({ id: PlainText, name: PlainText, kind: ActorKindField })),
    }),
    handle: async ({ ctx, member }) => {
      const { actions, actors } = await listAuditChoices(ctx, member);
      return { success: true, actions, actors: actors.map((actor) => ({ ...actor, kind: kindOfActor(actor.id) })) };
    },
  }),
];
