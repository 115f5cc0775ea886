/** The operators of the install: people who can open the operator area, whatever their role. */
import type { Context } from '#context';
import { Problem } from '#core/problem';
import type { Tx } from '#db';
import { notifyOperators, notifyUser } from '#notices';
import { type Actor, writeAccountAudit } from './members.ts';

const MOST_SHOWN = 100;

type Operator = { id: string; name: string; email: string; hasSecondFactor: boolean; merchants: number };

/** The operators, with how many merchants each belongs to: without one they cannot sign in. */
export const listOperators = (ctx: Context): Promise<Operator[]> => ctx.db.sql<Operator[]>`
  select u.id, u.name, u.email, u.two_factor_enabled as "hasSecondFactor",
    (select count(*)::int from members m where m.user_id = u.id) as merchants
  from users u where u.operator order by u.email limit ${MOST_SHOWN}`;

type Change = { userId: string; name: string; email: string; operator: boolean; actor: Actor; by: string };
/** Writes the change and tells every operator, and the person who lost it. */
async function writeOperator(ctx: Context, tx: Tx, { userId, name, email, operator, actor, by }: Change): Promise<void> {
  const changed = await tx`update users set operator = ${operator} where id = ${userId} and operator <> ${operator}`;
  if (changed.count === 0) return;
  await writeAccountAudit(tx, { actor, userId, action: 'operator.set', after: { operator } });
  const notice = { kind: 'operator_changed', detail: { change: operator ? 'added' : 'removed', name, email, by } } as const;
  await notifyOperators(ctx, tx, notice);
  if (!operator) await notifyUser(ctx, tx, { userId, ...notice });
}

/** Grants or removes access to the operator area, for the operator command. Errors: user_not_found. */
export async function setOperator(ctx: Context, { email, operator }: { email: string; operator: boolean }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const { id, name } = await findUser(tx, { email });
    const change = { userId: id, name, email: email.toLowerCase(), operator };
    await writeOperator(ctx, tx, { ...change, actor: byOperator(id), by: 'The operator command' });
  });
}

/** Removes an operator, never the last one. Errors: operator_only, user_not_found, last_operator. */
export async function removeOperator(ctx: Context, { userId, actor }: { userId: string; actor: Actor }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    // All of them, so that two who remove each other cannot both succeed.
    const operators = await tx<{ id: string; name: string; email: string }[]>`
      select id, name, email from users where operator order by id for no key update`;
    if (!operators.some(({ id }) => id === actor.userId)) throw new Problem('operator_only');
    const gone = operators.find(({ id }) => id === userId);
    if (!gone) throw new Problem('user_not_found', { id: userId });
    if (operators.length === 1) throw new Problem('last_operator');
    await writeOperator(ctx, tx, { userId, name: gone.name, email: gone.email, operator: false, actor, by: actor.name });
  });
}

/** The person is still an operator when what they do takes effect. Errors: operator_only. */
export async function checkOperator(tx: Tx, { userId }: Actor): Promise<void> {
  const [operator] = await tx`select 1 from users where id = ${userId} and operator for share`;
  if (!operator) throw new Problem('operator_only');
}

const OPERATOR_COMMAND = 'operator command';
/** Who is named where an operator command changed an account. */
export const byOperator = (userId: string): Actor => ({ userId, name: OPERATOR_COMMAND, ip: '' });
/** The user with this email, ignoring case. Errors: user_not_found. */
export async function findUser(tx: Tx, { email }: { email: string }): Promise<{ id: string; name: string }> {
  const [user] = await tx<{ id: string; name: string }[]>`select id, name from users where email = ${email.toLowerCase()}`;
  if (!user) throw new Problem('user_not_found', { id: email });
  return user;
}
