/** The number of the newest signing file, kept beside the database too: a database that went back in time makes no file unnoticed. */
import type { Context } from '#context';
import { Problem } from '#core/problem';
import type { Sql, Tx } from '#db';
import { keepNumber } from '#wallets';

/** The name of its number beside the database. */
export const FILE_FENCE = 'signing files';

/** The number of the newest signing file, besides one. */
export async function newestFile(sql: Sql | Tx, besides: string | null = null): Promise<bigint> {
  const [row] = await sql<{ number: bigint }[]>`
    select coalesce(max(number), 0)::bigint as number from signing_files where id is distinct from ${besides}`;
  return row!.number;
}

/** In the transaction that makes a signing file, last. Errors: sweep_busy, while approvals have to be taken back first. */
export const noteFile = (ctx: Context, tx: Tx, { id, number }: { id: string; number: bigint }): Promise<void> =>
  keepNumber(ctx, tx, {
    name: FILE_FENCE,
    next: async (noted) => {
      if (noted > (await newestFile(tx, id))) throw new Problem('sweep_busy', {});
      return number > noted ? number : noted;
    },
  });
