/** Dashboard preferences of a member: views, columns, dismissed hints. They affect nobody else. */
import type { Context } from '../context.ts';

export const PREFERENCES = ['payments.views', 'payments.columns', 'onboarding'] as const;
export type Preference = (typeof PREFERENCES)[number];
type Of = { merchantId: string; userId: string };

export async function readPreferences(ctx: Context, { merchantId, userId }: Of): Promise<Partial<Record<Preference, unknown>>> {
  const rows = await ctx.db.sql<{ name: Preference; value: unknown }[]>`
    select name, value from preferences where merchant_id = ${merchantId} and user_id = ${userId}`;
  return Object.fromEntries(rows.map((row) => [row.name, row.value]));
}

export async function setPreference(
  ctx: Context,
  { merchantId, userId, name, value }: Of & { name: Preference; value: unknown },
): Promise<void> {
  await ctx.db.sql`
    insert into preferences (merchant_id, user_id, name, value) values (${merchantId}, ${userId}, ${name}, ${ctx.db.sql.json(value as never)})
    on conflict (merchant_id, user_id, name) do update set value = excluded.value`;
}
