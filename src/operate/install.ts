/** The state of the install, for operators. */
import type { Context } from '../context.ts';

/** The schema, the age of the last backup, and payments that wait for settling. */
export async function readInstall(ctx: Context): Promise<{ schema: string; backedUpAt: Date | null; paymentsDue: number }> {
  const [row] = await ctx.db.sql<{ schema: string; backedUpAt: Date | null; due: bigint }[]>`
    select (select name from migrations order by number desc limit 1) as schema, (select backed_up_at from install) as "backedUpAt",
      (select count(*) from payments where due_at <= clock_timestamp()) + (select count(*) from due_work where kind = 'settle') as due`;
  return { schema: row!.schema.replace(/\.sql$/, ''), backedUpAt: row!.backedUpAt, paymentsDue: Number(row!.due) };
}
