/** Members of a merchant, the one-time set-up link that makes the first one, and the log of what members did. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { newId } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import type { MemberRole } from './roles.ts';

export type Actor = { userId: string; name: string; ip: string };
export type Membership = { merchantId: string; merchantName: string; role: MemberRole };

/** Every writing act calls this inside its transaction. `before` and `after` hold what changed, never a secret. */
export async function writeAudit(
  tx: Tx,
  entry: { merchantId: string; mode: Mode | null; actor: Actor; action: string; object: string; before?: object; after?: object },
): Promise<void> {
  const json = (value: object | undefined) => (value === undefined ? null : tx.json(value as never));
  await tx`
    insert into audit_log (merchant_id, mode, actor_id, actor_name, action, object, before, after, ip)
    values (${entry.merchantId}, ${entry.mode}, ${entry.actor.userId}, ${entry.actor.name}, ${entry.action}, ${entry.object},
      ${json(entry.before)}, ${json(entry.after)}, ${entry.actor.ip})`;
}

/** The merchants a user works for, in the order of joining. */
export async function listMemberships(ctx: Context, { userId }: { userId: string }): Promise<Membership[]> {
  return ctx.db.sql<Membership[]>`
    select m.merchant_id as "merchantId", merchants.name as "merchantName", m.role
    from members m join merchants on merchants.id = m.merchant_id
    where m.user_id = ${userId} order by m.joined_at, m.merchant_id`;
}

/** Where the one-time link leads: spent with the membership it makes. Errors: setup_link_invalid. */
async function spendSetup(tx: Tx, { token }: { token: string }): Promise<string> {
  const [row] = await tx<{ id: string }[]>`
    update merchants set setup_token_hash = null where setup_token_hash = ${createHash('sha256').update(token).digest()} returning id`;
  if (!row) throw new Problem('setup_link_invalid');
  return row.id;
}

const joinAsOwner = async (tx: Tx, { merchantId, actor }: { merchantId: string; actor: Actor }): Promise<void> => {
  await tx`insert into members (merchant_id, user_id, role) values (${merchantId}, ${actor.userId}, 'owner') on conflict do nothing`;
  await writeAudit(tx, { merchantId, mode: null, actor, action: 'member.set_up', object: actor.userId, after: { role: 'owner' } });
};

/** Makes the first owner with a password already hashed, and spends the link, all or nothing. Errors: setup_link_invalid, account_exists. */
export async function setUpOwner(
  ctx: Context,
  { token, name, email, passwordHash, ip }: { token: string; name: string; email: string; passwordHash: string; ip: string },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const merchantId = await spendSetup(tx, { token });
    const userId = newId('usr', ctx.random);
    const made = await tx`
      insert into users (id, name, email) values (${userId}, ${name}, ${email.toLowerCase()}) on conflict (email) do nothing`;
    if (made.count === 0) throw new Problem('account_exists', {}, { param: 'email' });
    await tx`
      insert into accounts (id, user_id, account_id, provider_id, password)
      values (${newId('acc', ctx.random)}, ${userId}, ${userId}, 'credential', ${passwordHash})`;
    await joinAsOwner(tx, { merchantId, actor: { userId, name, ip } });
  });
}

/** The same link for somebody who has signed in: one more merchant. Errors: setup_link_invalid. */
export async function setUpMerchant(ctx: Context, { token, actor }: { token: string; actor: Actor }): Promise<void> {
  await ctx.db.begin(async (tx) => joinAsOwner(tx, { merchantId: await spendSetup(tx, { token }), actor }));
}
