/** Queues payments that a shop requested, for the worker that sends their news to the shop. */
import type { Fragment, Sql, Tx } from '../db/db.ts';

/** The notification that wakes that worker, and the kind of its work. */
export const SHOP_NOTE = 'shops';
export const SHOP_WORK = 'shop';

/** Queues those of the changed payments that have a shop. `changed` has id, merchant_id and request. Returns a row for each. */
export const queueShop = (tx: Sql | Tx, changed: Fragment): Fragment => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${SHOP_WORK}, c.id, c.merchant_id, clock_timestamp() from ${changed} as c where c.request ? 'shop' order by c.id
  on conflict (kind, key) do update set due_at = excluded.due_at
  returning 1`;
