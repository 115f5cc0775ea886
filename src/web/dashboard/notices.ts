/** The bell: notices, which of them are read, and what somebody wants to be told where. */
import Type from 'typebox';
import { MODES } from '../../core/coin.ts';
import { listNoticeSettings, listNotices, NOTICE_KINDS, noticeText, readNotices, setNoticeSetting } from '../../merchants/notices.ts';
import { numberOf } from './audit.ts';
import { type Call, Done, literals, memberRoute, Nullable, paging, type Route, Text, Timestamp } from './route.ts';

const Kind = literals(NOTICE_KINDS);
const readerOf = ({ member, signedIn }: Call) => ({ merchantId: member.merchantId, userId: signedIn.userId });

export const NOTICES: readonly Route[] = [
  memberRoute({
    method: 'GET',
    path: '/notices',
    action: 'account.use',
    query: Type.Object(paging),
    reply: Type.Object({
      success: Type.Boolean(),
      data: Type.Array(
        Type.Object({
          id: Text,
          mode: Nullable(literals(MODES)),
          kind: Kind,
          text: Text,
          payment: Nullable(Text),
          at: Timestamp,
          unread: Type.Boolean(),
        }),
      ),
      has_more: Type.Boolean(),
      unread: Type.Integer(),
    }),
    handle: async (call) => {
      const { notices, hasMore, unread } = await listNotices(call.ctx, {
        ...readerOf(call),
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
      await readNotices(call.ctx, { ...readerOf(call), through: BigInt(call.body.through) });
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
      settings: Type.Array(Type.Object({ kind: Kind, in_app: Type.Boolean(), email: Type.Boolean() })),
    }),
    handle: async (call) => ({
      success: true,
      mail_set_up: call.ctx.mail !== null,
      settings: (await listNoticeSettings(call.ctx, { ...readerOf(call), role: call.member.role })).map(({ kind, inApp, email }) => ({
        kind,
        in_app: inApp,
        email,
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
      const kind = NOTICE_KINDS.find((known) => known === call.body.kind)!;
      await setNoticeSetting(call.ctx, { ...readerOf(call), kind, inApp: call.body.in_app, email: call.body.email });
      return { success: true };
    },
  }),
];
