/** The statements that a function runs in its transactions, in order. */
import type { Context } from '../../src/context.ts';
import type { Tx } from '../../src/db/db.ts';

/** Runs `work` with a context that notes the text of each statement, without its values. */
export async function statementsOf(ctx: Context, work: (ctx: Context) => Promise<unknown>): Promise<string[]> {
  const texts: string[] = [];
  const noting = (tx: Tx): Tx => {
    const run = (first: unknown, ...values: unknown[]) => {
      const query = (tx as unknown as (...parts: unknown[]) => ReturnType<Tx>)(first, ...values);
      // Names and parts of statements are not awaited: only statements are.
      if (!Array.isArray(first) || !('raw' in first)) return query;
      const then = query.then.bind(query);
      let noted = false;
      // biome-ignore lint/suspicious/noThenProperty: awaiting a query calls it
      query.then = ((done: never, failed: never) => {
        const text = (first as string[]).join('?').replace(/\s+/g, ' ').trim();
        // A process reads rules once, and this context is a new one.
        if (!noted && !text.includes('from rule_sets')) texts.push(text);
        noted = true;
        return then(done, failed);
      }) as typeof query.then;
      return query;
    };
    return Object.assign(run, tx) as unknown as Tx;
  };
  await work({ ...ctx, db: { ...ctx.db, begin: (inside) => ctx.db.begin((tx) => inside(noting(tx))) } });
  return texts;
}
