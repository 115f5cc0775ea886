/**
 * What the frame and the opened screen read first. The page brings the replies along, so that the app shows them without asking. Each
 * is stored under the key that the app reads it by.
 */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { Problem } from '#core/problem';
import { listMemberships, type Membership } from '#people';
import type { SignedIn, Visitor } from '#sign-in';
import { EMPTY_BODY } from '#transport';
import { type DashboardRoute, type MemberRoute, needAction } from './route.ts';
import { readNewsMark } from './stream.ts';

/** `list`: the first page of a list that continues. */
type FirstRead = { key: readonly (string | object)[]; path: string; query: Readonly<Record<string, string>>; list?: true };

const FRAME: readonly FirstRead[] = [
  { key: ['me'], path: '/me', query: {} },
  { key: ['attention', 'count'], path: '/attention/count', query: {} },
  { key: ['notices', 'bell'], path: '/notices', query: { limit: '8' } },
];
const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

const SCREENS: Readonly<Record<string, (now: Date) => readonly FirstRead[]>> = {
  home: (now) => {
    const query = { from: dayOf(now.getTime() - 29 * DAY_MS), until: dayOf(now.getTime()) };
    return [
      { key: ['home', query.from, query.until], path: '/home', query },
      { key: ['home', 'onboarding'], path: '/home/onboarding', query: {} },
      { key: ['home', 'health'], path: '/home/health', query: {} },
    ];
  },
  payments: () => [
    { key: ['preferences'], path: '/preferences', query: {} },
    { key: ['payments', 'list', {}], path: '/payments', query: {}, list: true },
  ],
};

export type FirstData = { mode: Mode; signed_in: boolean; news?: string; reads?: (object | null)[] };
type Wanted = { mode: Mode; reads: FirstRead[] };
/** Null for screens outside the frame, such as the sign-in page. What filters in the query show is read by the app. */
export function firstReads(url: string, now: Date): Wanted | null {
  const found = /^\/dashboard(?:\/(test|live)(?:\/([^?]+?))?)?\/?(\?.*)?$/.exec(url);
  if (found === null) return null;
  const [, mode, screen = 'home', filters] = found;
  const reads = filters === undefined && Object.hasOwn(SCREENS, screen) ? SCREENS[screen]!(now) : [];
  return { mode: mode === 'live' ? 'live' : 'test', reads: [...FRAME, ...reads] };
}

/** Reads that the member may not make are left out: the app makes them and shows the reason. Errors: those of `admit`. */
export async function readFirstData(
  ctx: Context,
  { routes, visitor, signedIn, wanted }: { routes: readonly DashboardRoute[]; visitor: Visitor; signedIn: SignedIn; wanted: Wanted },
): Promise<FirstData> {
  const { mode } = wanted;
  const member = admit(signedIn, await findMembership(ctx, signedIn), { action: 'account.use' });
  // Before the data: what changes in between is reported as news.
  const news = await readNewsMark(ctx, { merchantId: member.merchantId, mode });
  const read = async ({ key, path, query, list }: FirstRead) => {
    const route = routes.find((one): one is MemberRoute => !one.open && one.method === 'GET' && one.path === path)!;
    const call = callOf(ctx, { visitor, signedIn, member: admit(signedIn, member, route), mode });
    const asked = { params: {}, query: query as never, body: {} as never, parsed: EMPTY_BODY, setCookies: () => {} };
    return { key, reply: await route.handle({ ...call, ...asked }), ...(list && { list }) };
  };
  const reads = await Promise.all(wanted.reads.map((one) => read(one).catch(nullIfRefused)));
  return { mode, signed_in: true, news, reads: reads.filter((one) => one !== null) };
}
const nullIfRefused = (error: unknown): null => {
  if (error instanceof Problem) return null;
  throw error;
};

// Who may use a route of the dashboard, and what its handler receives.

export type MemberNeeds = Pick<MemberRoute, 'action' | 'recent' | 'withoutFactor' | 'operator'>;

/** The merchant that the user works with: the chosen one, else the first. */
export async function findMembership(ctx: Context, { userId, merchantId }: SignedIn): Promise<Membership | null> {
  const memberships = await listMemberships(ctx, { userId });
  return memberships.find((m) => m.merchantId === merchantId) ?? memberships[0] ?? null;
}

/** Errors: not_signed_in, second_factor_required, operator_only, action_not_permitted, recent_authentication_required. */
export function admit(signedIn: SignedIn | null, member: Membership | null, needs: MemberNeeds): Membership {
  if (!signedIn || !member) throw new Problem('not_signed_in');
  if (member.secondFactorRequired && !signedIn.hasSecondFactor && !needs.withoutFactor) throw new Problem('second_factor_required');
  if (needs.operator && !signedIn.operator) throw new Problem('operator_only');
  // It concerns every merchant, so it does not depend on what one of them requires.
  if (needs.operator && !signedIn.hasSecondFactor) throw new Problem('second_factor_required');
  needAction(member, needs.action);
  if (needs.recent && !signedIn.isRecent) throw new Problem('recent_authentication_required');
  return member;
}

/** What handlers receive besides the request itself. Open routes have neither member nor mode, and their type says so. */
export const callOf = (
  ctx: Context,
  by: { visitor: Visitor; signedIn: SignedIn | null; member: Membership | null; mode: Mode | null },
) => ({
  ctx,
  visitor: by.visitor,
  signedIn: by.signedIn!,
  member: by.member!,
  mode: by.mode!,
  actor: { userId: by.signedIn?.userId ?? '', name: by.signedIn?.name ?? '', ip: by.visitor.ip },
});
