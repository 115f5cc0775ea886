/** What a route of the dashboard's API consists of: its action, its schemas, its reply. */
import Type, { type Static, type TObject, type TSchema } from 'typebox';
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import type { RenderedReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { type Action, KEY_PERMISSIONS, mayDo, permissionsOf, rolesWith } from '#core/roles';
import { sightOf } from '#core/transfer';
import type { countByState } from '#db';
import { type BaseCall, literals, type ReplyOf, ROUTES, type RouteForm } from '#http';
import type { Actor, Membership } from '#people';
import type { SignedIn, Visitor } from '#sign-in';

/** What every handler receives. */
type OpenCall<Path extends string = string> = BaseCall<Path> & {
  visitor: Visitor;
  signedIn: SignedIn | null;
  setCookies(cookies: string[]): void;
};
export type MemberCall<Path extends string = string> = OpenCall<Path> & {
  signedIn: SignedIn;
  actor: Actor;
  member: Membership;
  mode: Mode;
};

/** A file generated while it is sent; CSV unless `type` says otherwise. */
export type Download = { name: string; type?: string; parts: AsyncIterable<string | Uint8Array> };
/** For a file that is short enough to be in memory. */
export async function* inOnePart<T>(whole: T): AsyncIterable<T> {
  yield whole;
}
type Answer<Reply extends TSchema> = Promise<ReplyOf<Reply> | RenderedReply | Download>;
type Extras = {
  /** Attempts per minute of one person who is signed in, or else from one network, for every route that accepts secrets. */
  attempts?: number;
  /** Which account an attempt is made at. Strangers and the browsers of the person are counted apart (see attempts.ts). */
  account?: (body: Record<string, unknown>) => string;
  /** Guesses at this account are also counted over all networks of strangers. */
  isGuess?: true;
  /** Attempts belong to the sign-in that waits for a code, so that nobody else can use them up. */
  ofPending?: true;
};
type MemberExtras = Extras & {
  action: Action;
  /** Requires recent authentication. */
  recent?: true;
  /** Part of the user's own account: also for members who still have to set up two-factor authentication. */
  withoutFactor?: true;
  /** For operators of the install, regardless of their role. */
  operator?: true;
};
/** Paths are below /dashboard/api/:mode, or below /dashboard/api for open routes. */
type Form = RouteForm<string, TSchema, TSchema, TObject>;
type OpenRoute = Form &
  Extras & {
    /** Available without signing in. */
    open: true;
    handle(call: OpenCall & { query: never; body: never }): Promise<object>;
  };
export type MemberRoute = Form & MemberExtras & { open?: never; handle(call: MemberCall & { query: never; body: never }): Promise<object> };
export type DashboardRoute = OpenRoute | MemberRoute;

/** A route for members whose role includes `action`. */
export const memberRoute = <
  const Path extends string,
  Query extends TSchema = TObject,
  Body extends TSchema = TObject,
  Reply extends TObject = TObject,
>(
  route: RouteForm<Path, Query, Body, Reply> &
    MemberExtras & { handle(call: MemberCall<Path> & { query: Static<Query>; body: Static<Body> }): Answer<Reply> },
): MemberRoute => route as unknown as MemberRoute;
export const openRoute = <
  const Path extends string,
  Query extends TSchema = TObject,
  Body extends TSchema = TObject,
  Reply extends TObject = TObject,
>(
  route: RouteForm<Path, Query, Body, Reply> &
    Extras & { handle(call: OpenCall<Path> & { query: Static<Query>; body: Static<Body> }): Answer<Reply> },
): OpenRoute => ({ ...route, open: true }) as unknown as OpenRoute;

type Offer = Pick<MemberRoute, 'path' | 'action' | 'recent'> & {
  /** The name of what it answers. */
  as: string;
};
/** A route of the API, by its ID, for members: the role takes the place of the permissions of a key. */
export function forMembers(id: string, { as, ...offer }: Offer): MemberRoute {
  const { reply, ...route } = ROUTES.find((one) => one.id === id)!;
  return {
    ...{ ...route, ...offer },
    reply: Type.Object({ success: Type.Boolean(), [as]: reply }),
    handle: async (call) => {
      if (route.access === 'secret_test' && call.mode !== 'test') throw new Problem('test_key_required');
      return route.handle({
        ...call,
        owner: {
          ...ownerOfCall(call),
          kind: 'secret',
          origins: [],
          madeBy: call.actor.userId,
          keyId: null,
          permissions: permissionsOf(call.member.role),
        },
        need: (permission) => {
          for (const action of KEY_PERMISSIONS[permission].takes) needAction(call.member, action);
        },
        needRecent: () => needRecent(call),
        claim: null,
        reply: (body: object) => ({ status: 200, body: JSON.stringify({ success: true, [as]: body }) }),
      });
    },
  };
}

/** How many rows of each state a list shows, for the tabs above it. */
export const countsRoute = ({
  path,
  action,
  states,
  count,
}: {
  path: string;
  action: Action;
  states: readonly string[];
  count(ctx: Context, owner: ReturnType<typeof ownerOfCall>): ReturnType<typeof countByState>;
}) =>
  memberRoute({
    ...{ method: 'GET', path, action },
    reply: Type.Object({
      success: Type.Boolean(),
      data: Type.Array(Type.Object({ state: literals(states), count: Type.Integer(), is_more: Type.Boolean() })),
    }),
    handle: async (call) => {
      const counts = await count(call.ctx, ownerOfCall(call));
      return { success: true, data: counts.map(({ isMore, ...row }) => ({ ...row, is_more: isMore })) };
    },
  });

/** For a part of a route that needs a further action. Errors: action_not_permitted. */
export function needAction({ role, merchantName: merchant }: Membership, action: Action): void {
  if (!mayDo(role, action)) throw new Problem('action_not_permitted', { role, needed: rolesWith(action), merchant });
}

/** For actions that are risky only with certain bodies; whole routes set `recent`. Errors: recent_authentication_required. */
export const needRecent = ({ signedIn }: MemberCall): void => {
  if (!signedIn.isRecent) throw new Problem('recent_authentication_required');
};

export const ownerOfCall = ({ member, mode }: MemberCall) => ({ merchantId: member.merchantId, mode });
/** The same, with what the member may see of it. */
export const readerOfCall = ({ member, mode }: MemberCall) => ({ merchantId: member.merchantId, mode, sight: sightOf(member.role) });
