/** What a route of the dashboard's API consists of: its action, its schemas, its reply. */
import Type, { type Static, type TObject, type TSchema } from 'typebox';
import type { Context } from '../../context.ts';
import { COINS, MODES, type Mode } from '../../core/coin.ts';
import { EXCEPTIONS, PAYMENT_STATUSES } from '../../core/payment.ts';
import { Problem } from '../../core/problem.ts';
import type { Action } from '../../core/roles.ts';
import type { LookedBackTo } from '../../db/look.ts';
import type { ParsedBody } from '../../http/json.ts';
import type { Rendered } from '../../payments/view.ts';
import type { Actor, Membership } from '../../people/members.ts';
import type { Cookies, SignedIn, Visitor } from '../../people/sign-in.ts';

export const literals = <T extends readonly string[]>(values: T) => Type.Union(values.map((value) => Type.Literal(value)));
export const Nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);
export const Text = Type.String();
export const Timestamp = Type.String({ format: 'date-time' });
export const Coin = literals(COINS);
export const ModeName = literals(MODES);
export const Status = literals(PAYMENT_STATUSES);
export const Exception = literals(EXCEPTIONS);
export const Done = Type.Object({ success: Type.Boolean() });
export const Empty = Type.Object({});
/** Query parameters of a list page; query values are strings. */
export const paging = { limit: Type.Optional(Type.String({ pattern: '^([1-9][0-9]?|100)$' })), starting_after: Type.Optional(Text) };
/** The envelope of the public lists, without a count. */
export const pageOf = <S extends TSchema>(item: S) =>
  Type.Object({ success: Type.Boolean(), data: Type.Array(item), has_more: Type.Boolean() });

/** A page that may end before it is full, because the query has no index; its id is a cursor to continue from. */
export const lookedPageOf = <S extends TSchema>(item: S) =>
  Type.Object({ ...pageOf(item).properties, looked_back_to: Nullable(Type.Object({ id: Text, at: Timestamp })) });
export const lookedBack = (to: LookedBackTo) => to && { id: to.id, at: to.at.toISOString() };

/** What every handler receives. */
export type Request = {
  ctx: Context;
  visitor: Visitor;
  params: Readonly<Record<string, string>>;
  /** The body with the source text of its numbers. */
  parsed: ParsedBody;
  setCookies(cookies: Cookies): void;
};
export type OpenCall = Request & { signedIn: SignedIn | null };
export type Call = Request & { signedIn: SignedIn; actor: Actor; member: Membership; mode: Mode };

type Common<Q extends TSchema, B extends TSchema> = {
  method: 'GET' | 'POST' | 'DELETE';
  /** Below /dashboard/api/:mode, or below /dashboard/api for open routes. */
  path: string;
  query?: Q;
  body?: B;
  reply: TObject;
};
/** A file generated while it is sent. */
export type Download = { name: string; parts: AsyncIterable<string> };
type Answer = Promise<object | Rendered | Download>;
export type OpenRoute = Common<TSchema, TSchema> & {
  /** Available without signing in. */
  open: true;
  /** Attempts per minute from one address, for every route that accepts secrets. */
  attempts?: number;
  handle(call: OpenCall & { query: never; body: never }): Answer;
};
export type MemberRoute = Common<TSchema, TSchema> & {
  open?: never;
  action: Action;
  /** Requires recent authentication. */
  recent?: true;
  /** Part of the user's own account: also for members who still have to set up two-factor authentication. */
  withoutFactor?: true;
  /** For operators of the install, regardless of their role. */
  operator?: true;
  attempts?: number;
  handle(call: Call & { query: never; body: never }): Answer;
};
export type Route = OpenRoute | MemberRoute;

/** A route for members whose role includes `action`. */
export const memberRoute = <Q extends TSchema = TObject, B extends TSchema = TObject>(
  route: Common<Q, B> & {
    action: Action;
    recent?: true;
    withoutFactor?: true;
    operator?: true;
    attempts?: number;
    handle(call: Call & { query: Static<Q>; body: Static<B> }): Answer;
  },
): MemberRoute => route as unknown as MemberRoute;
export const openRoute = <Q extends TSchema = TObject, B extends TSchema = TObject>(
  route: Common<Q, B> & { attempts?: number; handle(call: OpenCall & { query: Static<Q>; body: Static<B> }): Answer },
): OpenRoute => ({ ...route, open: true }) as unknown as OpenRoute;

/** For actions that are risky only with certain bodies; whole routes set `recent`. Errors: recent_authentication_required. */
export const needRecent = ({ signedIn }: Call): void => {
  if (!signedIn.isRecent) throw new Problem('recent_authentication_required');
};

export const ownerOf = ({ member, mode }: Call) => ({ merchantId: member.merchantId, mode });
