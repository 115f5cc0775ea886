/** The index in which payments are found by their metadata. */

import type { Fragment, Sql, Tx } from '#db';

/** What the index of metadata is made of. Keys never contain the separator character. */
export const pairOf = (key: string, value: string) => `${key}\u0001${value}`;

/** Makes payments searchable by their metadata. `made` has merchant_id, mode, sequence and metadata. */
export const metadataPairs = (tx: Sql | Tx, made: Fragment): Fragment => tx`
  insert into payment_metadata (merchant_id, mode, pair, sequence)
  select i.merchant_id, i.mode, md5(m.key || chr(1) || m.value)::uuid, i.sequence from ${made} as i, jsonb_each_text(i.metadata::jsonb) as m
  on conflict do nothing`;

/** Removes the current metadata of payments from the index; before it changes, in the same transaction. */
export async function dropMetadataPairs(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx`
    delete from payment_metadata d using payments p,
      jsonb_each_text(case when jsonb_typeof(p.metadata) = 'object' then p.metadata else '{}' end) as m
    where p.id = any(${[...ids]}::text[]) and d.merchant_id = p.merchant_id and d.mode = p.mode and d.sequence = p.sequence
      and d.pair = md5(m.key || chr(1) || m.value)::uuid`;
}
