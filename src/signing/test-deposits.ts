/** The addresses of test payments, from which rehearsals of signing files spend. */
import type { Context } from '#context';
import { ALL_COINS, COIN, type Coin, kindOf, testFamily } from '#core/coin';
import { keepTestWallet, testDeposit } from '#wallets';

/** Payments that get their addresses at once. */
const MOST = 5_000;

/** Gives test payments of a merchant that received something their addresses, of which a signing file spends. */
export async function issueTestAddresses({ db }: Pick<Context, 'db'>, { merchantId }: { merchantId: string }): Promise<void> {
  const coins = ALL_COINS.filter((coin) => kindOf(coin) !== 'lightning');
  const families = coins.map((coin) => testFamily(COIN[coin].family));
  const paid = await db.sql<{ paymentId: string; coin: Coin }[]>`
    select distinct on (t.payment_id, member.family) t.payment_id as "paymentId", t.coin
    from transfers t join payments p on p.id = t.payment_id and p.mode = 'test'
    join unnest(${coins}::text[], ${families}::text[]) member (coin, family) on member.coin = t.coin
    where t.merchant_id = ${merchantId} and not exists (
      select 1 from deposit_addresses a where a.payment_id = t.payment_id and a.family = member.family)
    limit ${MOST}`;
  if (paid.length === 0) return;
  await db.begin(async (tx) => {
    for (const [family, some] of Map.groupBy(paid, ({ coin }) => testFamily(COIN[coin].family))) {
      const walletId = await keepTestWallet(tx, { merchantId, coin: some[0]!.coin });
      const given = some.map((one) => ({ ...one, ...testDeposit({ merchantId, ...one }) }));
      // Two payments with one index are so rare that the second waits for no address.
      await tx`
        insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
        select ${family}, key, address, payment, ${merchantId}, ${walletId}, index, clock_timestamp()
        from unnest(${given.map(({ key }) => key)}::text[], ${given.map(({ address }) => address)}::text[],
          ${given.map(({ paymentId }) => paymentId)}::text[], ${given.map(({ index }) => index.toString())}::bigint[])
          as given (key, address, payment, index) on conflict do nothing`;
    }
  });
}
