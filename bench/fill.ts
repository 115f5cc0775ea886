/** Live payments of a year and their daily totals, written by the database itself. */
import type { Db } from '../src/db/db.ts';
import { remakeDays } from '../src/merchants/merchants.ts';

export async function fillPayments(db: Db, { merchantId, count }: { merchantId: string; count: number }): Promise<void> {
  await db.sql`insert into rule_sets (hash, rules) values ('bench', '{}') on conflict do nothing`;
  // No time limit: this fills the database and is not measured.
  await db.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`
    insert into payments (id, merchant_id, mode, sequence, status, exceptions, attention, amount_usd_cents, rule_set, created_with, coin, invoice_id,
      created_at, expires_at)
    select 'pay_' || lpad(n::text, 24, '0'), ${merchantId}, 'live', n, (array['completed', 'expired', 'failed', 'cancelled'])[1 + n % 4],
      case when n % 50 = 2 then array['late'] else '{}'::text[] end, n % 50 = 2, 1000 + n % 5000, (select min(id) from rule_sets), 'secret',
      (array['BTC', 'LTC', 'ETH'])[1 + n % 3], 'INV-' || n, now() - (${count}::int - n) * (interval '365 days' / ${count}::int), now()
    from generate_series(1, ${count}::int) as n`;
  });
  // As if their texts were indexed: nothing is indexed while measuring.
  await db.sql`insert into payment_text_owners (merchant_id, mode, through_sequence) values (${merchantId}, 'live', ${count})`;
  await db.sql`insert into payment_counters values (${merchantId}, 'live', ${count})`;
  await db.sql`
    insert into payment_quarters select ${merchantId}, 'live', date_bin('15 minutes', now(), 'epoch') - q * interval '15 minutes', m, c, 10, 1000, 10
    from generate_series(0, 365 * 96) q, (values ('created', ''), ('opened', ''), ('chosen', ''), ('seen', ''), ('paid', ''),
      ('completed', 'BTC'), ('completed', 'LTC'), ('completed', 'ETH'), ('volume', 'BTC'), ('volume', 'LTC'), ('volume', 'ETH'), ('ended', 'expired'), ('ended', 'late')) as v (m, c)`;
  await db.begin((tx) => remakeDays(tx, { merchantId }));
  await db.sql`analyze payments`;
}
