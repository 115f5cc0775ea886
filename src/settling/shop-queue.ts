/** Queues payments that a shop requested, for the worker that sends their news to the shop. */
import type { Fragment, Sql, Tx } from '#db';

/** The kind of its work. */
export const SHOP_WORK = 'shop';
/** The kind of work that erases what shops sent about customers. */
export const ERASE_WORK = 'shop_erase';

/** Queues those of the changed payments that have a shop. `changed` has id, merchant_id and request. Returns a row for each. */
export const queueShop = (tx: Sql | Tx, changed: Fragment): Fragment => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${SHOP_WORK}, c.id, c.merchant_id, clock_timestamp() from ${changed} as c where c.request ? 'shop' order by c.id
  on conflict (kind, key) do update set due_at = excluded.due_at
  returning 1`;

/** Queues those of the payments that have a shop for erasing what the shop sent about the customer. */
export const queueShopErasure = (tx: Tx, ids: readonly string[]) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${ERASE_WORK}, id, merchant_id, clock_timestamp() from payments where id = any(${ids as string[]}::text[]) and request ? 'shop'
  order by id on conflict (kind, key) do nothing`;
