/** How many database pages a reading function touches: all its statements are explained as they run. */
import type { Context } from '../../src/context.ts';
import type { Sql } from '../../src/db/db.ts';

type Plan = { 'QUERY PLAN': { Plan: Record<string, number> }[] };

export async function pagesTouched(ctx: Context, read: (ctx: Context) => Promise<unknown>): Promise<number> {
  const { sql } = ctx.db;
  let pages = 0;
  const explaining = (first: unknown, ...values: unknown[]) => {
    const build = () => (sql as unknown as (...parts: unknown[]) => ReturnType<Sql>)(first, ...values);
    const query = build();
    // Names and parts of statements are left alone: only what is awaited directly is a statement.
    if (!Array.isArray(first) || !('raw' in first)) return query;
    const run = query.then.bind(query);
    // biome-ignore lint/suspicious/noThenProperty: this is what waiting calls
    query.then = ((done: never, failed: never) => {
      const explained = sql<Plan[]>`explain (analyze, buffers, format json) ${build()}`.then(([row]) => {
        const { Plan: plan } = row!['QUERY PLAN'][0]!;
        pages += plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!;
        return run() as never;
      });
      return explained.then(done, failed);
    }) as typeof query.then;
    return query;
  };
  await read({ ...ctx, db: { ...ctx.db, sql: Object.assign(explaining, sql) as unknown as Sql } });
  return pages;
}
