/**
 * Wrong two-factor codes: counted per user, reported to them, and answered with growing locks. Only someone who knows the password or
 * has a session can enter a code, so nobody else can lock a user out.
 */
import type { Context } from '../context.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { notifyUser } from '../notices/notices.ts';

const FAILURES_PER_LOCK = 10;
/** More wrong codes in a row than one person mistypes. */
const TOLD_AFTER = 3;
const FIRST_LOCK_MINUTES = 15;
const LONGEST_LOCK_MINUTES = 7 * 24 * 60;
/** The lock duration resets after this long without a new lock. */
const REMEMBERED_DAYS = 30;

/** 15 minutes, then four times as long each time, up to a week. This allows about a thousand guesses a year instead of half a million. */
export const lockMinutes = (locks: number): number => Math.min(FIRST_LOCK_MINUTES * 4 ** Math.min(locks - 1, 10), LONGEST_LOCK_MINUTES);

const waitText = (seconds: number): string => {
  const minutes = Math.ceil(seconds / 60);
  const [n, unit] = minutes < 120 ? [minutes, 'minute'] : [Math.ceil(minutes / 60), 'hour'];
  return `${n} ${unit}${n === 1 ? '' : 's'}`;
};
export const lockedProblem = (seconds: number): Problem =>
  new Problem('second_factor_locked', { wait: waitText(seconds) }, { retryAfterSeconds: seconds });

/** Counts a wrong code. Locks the row of the two-factor secret until the transaction ends. */
export async function recordWrongCode(ctx: Context, tx: Tx, { userId, ip }: { userId: string; ip: string }): Promise<void> {
  const [counted] = await tx<{ wrong: number; isSet: boolean }[]>`
    update second_factors f set failed_verification_count = failed_verification_count + 1 from users u
    where f.user_id = ${userId} and u.id = f.user_id returning failed_verification_count as wrong, u.two_factor_enabled as "isSet"`;
  if (!counted) return;
  const { wrong, isSet } = counted;
  // During setup there is nothing to guess yet.
  const tell = async (detail: { locked_minutes?: number }) => {
    if (isSet) await notifyUser(ctx, tx, { userId, kind: 'codes_failed', detail: { wrong, ip, ...detail } });
  };
  if (wrong === TOLD_AFTER) await tell({});
  if (wrong < FAILURES_PER_LOCK) return;
  const [row] = await tx<{ locks: number }[]>`
    update second_factors set failed_verification_count = 0,
      locks = case when locked_until > clock_timestamp() - make_interval(days => ${REMEMBERED_DAYS}) then locks + 1 else 1 end
    where user_id = ${userId} returning locks`;
  const minutes = lockMinutes(row!.locks);
  await tx`
    update second_factors set locked_until = clock_timestamp() + make_interval(mins => ${minutes}) where user_id = ${userId}`;
  await tell({ locked_minutes: minutes });
}

/** Resets the count after a correct code. The length of the next lock stays, because it reflects the guesses so far. */
export async function forgetWrongCodes(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`update second_factors set failed_verification_count = 0 where user_id = ${userId}`;
}

/** Ends a lock and resets its length: the password has changed, so the person who guessed no longer knows it. */
export async function endCodeLock(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`update second_factors set failed_verification_count = 0, locked_until = null, locks = 0 where user_id = ${userId}`;
}
