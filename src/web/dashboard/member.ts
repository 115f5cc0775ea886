/** Who may use a route of the dashboard, and what its handler receives. */
import type { Context } from '../../context.ts';
import type { Mode } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { type Action, mayDo, rolesWith } from '../../core/roles.ts';
import { listMemberships, type Membership } from '../../people/members.ts';
import type { SignedIn, Visitor } from '../../people/sign-in.ts';
import type { MemberRoute } from './route.ts';

export type MemberNeeds = Pick<MemberRoute, 'action' | 'recent' | 'withoutFactor' | 'operator'>;

/** The merchant that the user works with: the chosen one, else the first. */
export async function findMembership(ctx: Context, { userId, merchantId }: SignedIn): Promise<Membership | null> {
  const memberships = await listMemberships(ctx, { userId });
  return memberships.find((m) => m.merchantId === merchantId) ?? memberships[0] ?? null;
}

/** For a part of a route that needs a further action. Errors: action_not_permitted. */
export function needAction({ role, merchantName: merchant }: Membership, action: Action): void {
  if (!mayDo(role, action)) throw new Problem('action_not_permitted', { role, needed: rolesWith(action), merchant });
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
