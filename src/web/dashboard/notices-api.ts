/** The bell: notices of a mode, which of them are read, and how each member receives them. */
import Type, { type Static } from 'typebox';
import { MODES } from '#core/coin';
import { EXCEPTIONS, ORDER_MISSING, REFUND_REQUEST } from '#core/payment';
import { Problem } from '#core/problem';
import { literals } from '#http';
import {
  isAlwaysMailed,
  isWarning,
  listNoticeSettings,
  listNotices,
  type MailTiming,
  NOTICE_KINDS,
  noticePath,
  noticeText,
  readMailTiming,
  readNotices,
  setMailTiming,
  setNoticeSetting,
} from '#notices';
import { type AttentionReason, countAttention, listAttention } from '#queries';
import { numberOf } from './events-api.ts';
import { Done, Instant, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { LISTED, listedPayment, resolveOne } from './payments-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, needRecent, ownerOfCall, readerOfCall } from './route.ts';

const Kind = literals(NOTICE_KINDS);
/** A time of day: 07:30. */
const WallClock = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$' });
const minuteOf = (text: string): number => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));
const clockOf = (minute: number): string => `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
const Timing = Type.Object({
  time_zone: Type.String({ minLength: 1, maxLength: 60 }),
  /** Null: immediately. */
  daily_hour: Nullable(Type.Integer({ minimum: 0, maximum: 23 })),
  quiet: Nullable(Type.Object({ from: WallClock, to: WallClock })),
});
const personOf = ({ member, signedIn }: MemberCall) => ({ merchantId: member.merchantId, userId: signedIn.userId });

const timingOf = (timing: MailTiming | null): Static<typeof Timing> | null =>
  timing && {
    time_zone: timing.timeZone,
    daily_hour: timing.dailyHour,
    quiet: timing.quiet && { from: clockOf(timing.quiet.from), to: clockOf(timing.quiet.to) },
  };

export const NOTICES: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/notices',
    action: 'account.use',
    query: Type.Object(paging),
    reply: Type.Object({
      success: Type.Boolean(),
      data: Type.Array(
        Type.Object({
          id: PlainText,
          mode: Nullable(literals(MODES)),
          kind: Kind,
          text: PlainText,
          payment: Nullable(PlainText),
          /** The screen that it is about, below the mode. */
          screen: PlainText,
          at: Instant,
          unread: Type.Boolean(),
        }),
      ),
      has_more: Type.Boolean(),
      unread: Type.Integer(),
    }),
    handle: async (call) => {
      const { notices, hasMore, unread } = await listNotices(call.ctx, {
        ...personOf(call),
        ...readerOfCall(call),
        limit: Number(call.query.limit ?? 20),
        startingAfter: numberOf(call.query.starting_after),
      });
      return {
        success: true,
        has_more: hasMore,
        unread,
        data: notices.map(({ id, mode, kind, detail, at, unread: isUnread }) => ({
          id: String(id),
          mode,
          kind,
          text: noticeText(kind, detail),
          payment: typeof detail.payment === 'string' ? detail.payment : null,
          screen: noticePath(kind, detail),
          at: at.toISOString(),
          unread: isUnread,
        })),
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/notices/read',
    action: 'account.use',
    body: Type.Object({ through: Type.String({ pattern: '^[0-9]{1,18}$' }) }),
    reply: Done,
    handle: async (call) => {
      await readNotices(call.ctx, { ...personOf(call), mode: call.mode, through: BigInt(call.body.through) });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/notice-settings',
    action: 'account.use',
    reply: Type.Object({
      success: Type.Boolean(),
      mail_set_up: Type.Boolean(),
      settings: Type.Array(
        Type.Object({
          kind: Kind,
          in_app: Type.Boolean(),
          email: Type.Boolean(),
          /** Its email cannot be turned off. */
          email_always: Type.Boolean(),
        }),
      ),
      timing: Nullable(Timing),
    }),
    handle: async (call) => ({
      success: true,
      mail_set_up: call.ctx.mail !== null,
      timing: timingOf(await readMailTiming(call.ctx, call.signedIn)),
      settings: (await listNoticeSettings(call.ctx, { ...personOf(call), role: call.member.role })).map(({ kind, inApp, email }) => ({
        kind,
        in_app: inApp,
        email,
        email_always: isAlwaysMailed(kind),
      })),
    }),
  }),
  memberRoute({
    method: 'POST',
    path: '/notice-settings',
    action: 'account.use',
    body: Type.Object({ kind: Kind, in_app: Type.Boolean(), email: Type.Boolean() }),
    reply: Done,
    handle: async (call) => {
      const { email, in_app: inApp } = call.body;
      const kind = NOTICE_KINDS.find((known) => known === call.body.kind)!;
      // Someone who finds an open session must not be able to turn off the warnings about it.
      if (!(email && inApp) && isWarning(kind) && !call.signedIn.isRecent) throw new Problem('recent_authentication_required');
      await setNoticeSetting(call.ctx, { ...personOf(call), kind, inApp, email });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/mail-timing',
    action: 'account.use',
    body: Timing,
    reply: Done,
    handle: async ({ ctx, signedIn, body }) => {
      const quiet = body.quiet && { from: minuteOf(body.quiet.from), to: minuteOf(body.quiet.to) };
      await setMailTiming(ctx, { userId: signedIn.userId, timing: { timeZone: body.time_zone, dailyHour: body.daily_hour, quiet } });
      return { success: true };
    },
  }),
];

// The queue of payments that need a decision: list, count for the navigation, bulk decisions.

const Waiting = Type.Object({ ...LISTED, order_missing: Nullable(PlainText) });
const REASONS = [...EXCEPTIONS, REFUND_REQUEST, ORDER_MISSING] as const satisfies readonly AttentionReason[];

export const ATTENTION: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/attention',
    action: 'payments.read',
    query: Type.Object({ ...paging, exception: Type.Optional(literals(REASONS)) }),
    reply: pageOf(Waiting),
    handle: async (call) => {
      const { query } = call;
      const page = await listAttention(call.ctx, {
        ...ownerOfCall(call),
        ...pageIn(query),
        exception: REASONS.find((name) => name === query.exception) ?? null,
      });
      return {
        success: true,
        data: page.items.map((item) => ({ ...listedPayment(item), order_missing: item.orderMissing })),
        has_more: page.hasMore,
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/attention/count',
    action: 'payments.read',
    reply: Type.Object({ success: Type.Boolean(), count: Type.Integer(), more: Type.Boolean() }),
    handle: async (call) => {
      const { count, isMore } = await countAttention(call.ctx, { ...ownerOfCall(call), most: 99 });
      return { success: true, count, more: isMore };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/attention/resolve',
    action: 'payments.resolve',
    body: Type.Object({
      ids: Type.Array(Type.String({ maxLength: 60 }), { minItems: 1, maxItems: 50 }),
      action: literals(['accept', 'reject', 'refund_sent', 'reviewed'] as const),
    }),
    reply: Type.Object({
      success: Type.Boolean(),
      results: Type.Array(Type.Object({ id: PlainText, done: Type.Boolean(), problem: Nullable(PlainText) })),
    }),
    handle: async (call) => {
      if (call.body.action !== 'reviewed') needRecent(call);
      const results: { id: string; done: boolean; problem: string | null }[] = [];
      // One transaction each, so that an error on one payment does not undo the others. At most fifty.
      for (const id of new Set(call.body.ids)) {
        try {
          await resolveOne(call, id, { action: call.body.action });
          results.push({ id, done: true, problem: null });
        } catch (error) {
          if (!(error instanceof Problem) || error.status >= 500) throw error;
          results.push({ id, done: false, problem: error.message });
        }
      }
      return { success: true, results };
    },
  }),
];
