/** Checks the books of a merchant against what its payments, decisions, refunds and sweeps say, recounted payment by payment. */
import assert from 'node:assert/strict';
import { isBitcoinLike } from '../../src/addresses/params.ts';
import { type Account, type BooksOwner, readEntries, readStatement, trialBalance } from '../../src/books/books.ts';
import type { Context } from '../../src/context.ts';
import { ALL_COINS, COIN, type Coin, isToken, kindOf } from '../../src/core/coin.ts';
import { rolesOf } from '../../src/core/settle.ts';
import { readRecords, tipsOf } from '../../src/settling/facts.ts';
import { hasOpenRefund, readHoldings } from '../../src/signing/holdings.ts';

export const EVER = new Date('2999-01-01T00:00:00Z');
type Sums = Partial<Record<string, bigint>>;

/** What every account must have, by coin, from the roles that settling gives to each transfer. */
async function recount(ctx: Context, { merchantId, mode }: BooksOwner): Promise<Sums> {
  const { sql } = ctx.db;
  const sums: Sums = {};
  const add = (coin: Coin, account: string, units: bigint) => {
    sums[`${coin} ${account}`] = (sums[`${coin} ${account}`] ?? 0n) + units;
  };
  const ids = await sql<{ id: string }[]>`select id from payments where merchant_id = ${merchantId} and mode = ${mode}`;
  // What a member entered does not count once it is known not to pay.
  const isPaid = sql`(state = 'confirmed' or (state = 'sent' and (file_id is not null or failure is null)))`;
  const refunds = await sql<{ paymentId: string; coin: Coin; units: bigint }[]>`
    select payment_id as "paymentId", coin, units from outgoing_payments
    where kind = 'refund' and merchant_id = ${merchantId} and mode = ${mode} and ${isPaid}`;
  const records = await readRecords(
    ctx,
    sql,
    ids.map(({ id }) => id),
  );
  for (const record of records) {
    const roles = rolesOf(record.facts, record.transfers, tipsOf(record));
    for (const coin of new Set(record.transfers.map((t) => t.coin))) {
      const mined = record.transfers.filter((t) => t.coin === coin && (t.block || t.lock === 'preimage'));
      const total = (role: string | null) => mined.reduce((sum, t) => (role === null || roles.get(t) === role ? sum + t.units : sum), 0n);
      const counted = record.facts.status === 'completed' ? total('counted') : 0n;
      const gone = refunds.reduce((sum, one) => (one.paymentId === record.facts.id && one.coin === coin ? sum + one.units : sum), 0n);
      // Marking money as refunded after a part of it was refunded means the rest.
      const left = total(null) - counted - gone;
      add(coin, 'arrived', total(null));
      add(coin, 'counted', counted);
      add(coin, 'returned', total('refunded') < left ? total('refunded') : left > 0n ? left : 0n);
    }
  }
  for (const { coin, units } of refunds) add(coin, 'refunded', units);
  const payouts = await sql<{ coin: Coin; units: bigint }[]>`
    select coin, units from outgoing_payments where kind = 'payout' and merchant_id = ${merchantId} and mode = ${mode} and ${isPaid}`;
  for (const { coin, units } of payouts) add(coin, 'paid out', units);
  return sums;
}

/** Fails unless every coin balances, and every account has what the facts say. Sweeps: checked against what holdings list. */
export async function checkBooks(ctx: Context, owner: BooksOwner, { walletOf }: { walletOf?(coin: Coin): string } = {}): Promise<void> {
  const [balances, sums] = [await trialBalance(ctx, { ...owner, until: EVER }), await recount(ctx, owner)];
  const of = (coin: Coin, account: Account) => balances.find((one) => one.coin === coin && one.account === account)?.units ?? 0n;
  const sold = await readSold(ctx, owner);
  for (const coin of ALL_COINS.filter((one) => sums[`${one} arrived`] !== undefined || balances.some((balance) => balance.coin === one))) {
    const mine = balances.filter((one) => one.coin === coin);
    assert.equal(
      mine.reduce((sum, { units }) => sum + units, 0n),
      0n,
      `${coin}: the trial balance is zero`,
    );
    assert.equal(
      mine.reduce((sum, { cents }) => sum + cents, 0n),
      0n,
      `${coin}: the trial balance is zero in US dollars`,
    );
    for (const { account, units, cents } of mine)
      if (TRANSIT.has(account) && units === 0n) assert.equal(cents, 0n, `${coin}: no value is left on ${account} without money`);
    const [arrived, counted] = [sums[`${coin} arrived`] ?? 0n, sums[`${coin} counted`] ?? 0n];
    const [returned, refunded] = [sums[`${coin} returned`] ?? 0n, sums[`${coin} refunded`] ?? 0n];
    const liabilities = -of(coin, 'held_for_review') - of(coin, 'overpayments');
    const wallets = of(coin, 'deposit_addresses') + of(coin, 'destination_wallet') + of(coin, 'gas_address') + of(coin, 'moved_elsewhere');
    const onHand = wallets + of(coin, 'network_fees');
    const paidOut = sums[`${coin} paid out`] ?? 0n;
    assert.equal(of(coin, 'payouts'), paidOut, `${coin}: payouts that were sent`);
    assert.equal(onHand, arrived - returned - refunded - paidOut, `${coin}: what arrived is on hand, unless it was returned or paid out`);
    assert.equal(liabilities - of(coin, 'sales') - of(coin, 'refunds'), arrived - returned - refunded, `${coin}: all of it is explained`);
    assert.ok(of(coin, 'held_for_review') <= 0n, `${coin}: no more is released than was held`);
    assert.ok(of(coin, 'overpayments') <= 0n, `${coin}: no more is refunded than was overpaid`);
    assert.ok(of(coin, 'deposit_addresses') >= 0n, `${coin}: no more is swept than arrived`);
    assert.ok(-of(coin, 'sales') <= counted, `${coin}: only what completed payments count is a sale`);
    assert.ok(of(coin, 'sales') <= 0n, `${coin}: sales are not negative`);
    assert.equal(sold.get(coin) ?? 0n, counted, `${coin}: everything that completed payments count is a sale or an overpayment`);
    if (walletOf)
      assert.equal(of(coin, 'deposit_addresses'), await held(ctx, owner, { coin, walletId: walletOf(coin) }), `${coin}: as listed`);
  }
  await checkStatement(ctx, owner);
}

/** What was sold of each coin. Every entry has a value in another currency too, which leaves no rest on an account that is empty. */
async function readSold(ctx: Context, owner: BooksOwner): Promise<Map<Coin, bigint>> {
  const sold = new Map<Coin, bigint>();
  const sums = new Map<string, { units: bigint; minor: bigint }>();
  const euros = { currency: 'EUR' as const, rateE8: 90_000_003n };
  for await (const page of readEntries(ctx, { ...owner, from: new Date(0), until: EVER, display: euros }))
    for (const { kind, coin, units, cents, displayed, debit, credit } of page) {
      assert.ok(units > 0n && cents >= 0n && displayed! >= 0n && debit !== credit, `${kind} of ${units} ${coin} for ${cents} cents`);
      const counts = kind === 'sale' || kind === 'overpayment' || kind === 'reversed' || kind === 'restored';
      for (const [account, sign] of [[debit, -1n] as const, [credit, 1n] as const])
        if (counts && (account === 'sales' || account === 'overpayments')) sold.set(coin, (sold.get(coin) ?? 0n) + sign * units);
      for (const [account, sign] of [[debit, 1n] as const, [credit, -1n] as const]) {
        const sum = sums.get(`${coin} ${account}`) ?? { units: 0n, minor: 0n };
        sums.set(`${coin} ${account}`, { units: sum.units + sign * units, minor: sum.minor + sign * displayed! });
      }
    }
  for (const [name, { units, minor }] of sums)
    if (TRANSIT.has(name.split(' ')[1] as Account) && units === 0n) assert.equal(minor, 0n, `${name}: no value is left in euros`);
  return sold;
}

/** What comes to these accounts leaves them at the value with which it came. */
const TRANSIT: ReadonlySet<Account> = new Set(['deposit_addresses', 'held_for_review', 'overpayments']);

/** What sweeps can list, with what open files reserve. */
async function held(ctx: Context, { merchantId }: BooksOwner, { coin, walletId }: { coin: Coin; walletId: string }): Promise<bigint> {
  const { sql } = ctx.db;
  const { holdings, dust } = await readHoldings(ctx, { merchantId, walletId, coin });
  const [row] = await sql<{ units: bigint }[]>`
    select coalesce(sum(i.units), 0) as units from signing_inputs i join signing_files s on s.id = i.file_id
    where s.merchant_id = ${merchantId} and i.coin = ${coin} and i.released_at is null and s.state in ('made', 'signed', 'sent')`;
  // Dust is counted before it is in a block, too.
  const least = isBitcoinLike(COIN[coin].family) ? COIN[coin].dustUnits : 0n;
  const [unmined] = await sql<{ units: bigint }[]>`
    select coalesce(sum(t.units), 0) as units from transfers t join payments p on p.id = t.payment_id
    join deposit_addresses a on a.payment_id = t.payment_id and a.family = ${COIN[coin].family} and a.wallet_id = ${walletId}
    where t.merchant_id = ${merchantId} and t.coin = ${coin} and t.conflict_height is null and t.block_height is null
      and t.units < ${least.toString()} and not ${hasOpenRefund(sql)}`;
  const mined = holdings.reduce((sum, { units, blockHeight }) => sum + (blockHeight === null ? 0n : units), 0n);
  return mined + dust.units - unmined!.units + row!.units + (await leftBehind(ctx, { merchantId, coin }));
}

/**
 * Sweeps of native coin are planned with the highest fee. What the chain did not take stays on the addresses, and is not listed again, unless
 * the transfer is of which the sweep took a part.
 */
async function leftBehind(ctx: Context, { merchantId, coin }: { merchantId: string; coin: Coin }): Promise<bigint> {
  if (kindOf(coin) !== 'ethereum' || isToken(coin)) return 0n;
  const [row] = await ctx.db.sql<{ units: bigint }[]>`
    select coalesce(sum(t.fee_units - t.paid_units), 0) as units from signing_files s join signed_transactions t on t.file_id = s.id
    where s.merchant_id = ${merchantId} and s.coin = ${coin} and s.purpose = 'sweep' and s.state in ('confirmed', 'failed')
      and t.block_height is not null and cardinality(t.unmoved) = 0
      and exists (select 1 from signing_inputs i where i.file_id = s.id and i.payment_id is not null and i.released_at is null)`;
  return row!.units;
}

/** Two periods that follow each other are one: the first closes with what the second opens with. */
async function checkStatement(ctx: Context, owner: BooksOwner): Promise<void> {
  const [row] = await ctx.db.sql<{ at: Date | null }[]>`
    select percentile_disc(0.5) within group (order by first_seen_at) as at from transfers where merchant_id = ${owner.merchantId}`;
  const middle = row!.at ?? new Date(0);
  const [first, second, all] = [
    await readStatement(ctx, { ...owner, from: new Date(0), until: middle }),
    await readStatement(ctx, { ...owner, from: middle, until: EVER }),
    await readStatement(ctx, { ...owner, from: new Date(0), until: EVER }),
  ];
  const nothing = { units: 0n, cents: 0n };
  for (const { coin, account, closing } of all) {
    const find = (lines: typeof all) => lines.find((line) => line.coin === coin && line.account === account);
    assert.deepEqual(find(second)!.opening, find(first)?.closing ?? nothing, `${coin} ${account}: opens as it closed`);
    assert.deepEqual(find(second)!.closing, closing, `${coin} ${account}: closes the same`);
  }
}
