/**
 * What completed payments count of their transfers, as changes that are only appended: the books and the totals of days are sums of them,
 * so that what was sold stays on its day, and what leaves the chain later is taken back on the day on which it leaves.
 */
import type { Coin } from '#core/coin';
import { e8ToCents } from '#core/money';
import type { Settlement, Transfer, TransferShare } from '#core/payment';
import { hasArrived } from '#core/transfer';
import { type Fragment, OID, type Sql, type Tx } from '#db';

type Amount = { units: bigint; cents: bigint };
/** What a transfer is to its payment: a sale, more than the price, or held for review. Nothing of it: it is not on the chain. */
type Position = { sale: Amount; over: Amount; held: Amount };
export type SaleChange = Position & { coin: Coin; ref: string };
/** The positions of a payment by transfer, and how many changes led to them. */
export type Positions = { count: number; by: ReadonlyMap<string, SaleChange> };

const NOTHING: Amount = { units: 0n, cents: 0n };
export const NO_POSITIONS: Positions = { count: 0, by: new Map() };
const keyOf = ({ coin, ref }: { coin: Coin; ref: string }): string => `${coin} ${ref}`;
const plus = (a: Amount, b: Amount): Amount => ({ units: a.units + b.units, cents: a.cents + b.cents });
const minus = (a: Amount, b: Amount): Amount => ({ units: a.units - b.units, cents: a.cents - b.cents });
const allOf = ({ sale, over, held }: Position): Amount => plus(plus(sale, over), held);

/** What a change adds to the volume of its day: sales and what was overpaid. */
export const volumeCents = ({ sale, over }: Position): bigint => sale.cents + over.cents;
/** The part of it that left the chain; below zero: that came back. */
export const reversedCents = (change: Position): bigint => (allOf(change).units === 0n ? 0n : -volumeCents(change));

/**
 * The changes from these positions to what a settlement says, in order. Empty while it says nothing. What comes to the chain again has the
 * value that it then has; what stays there keeps its value.
 */
export function salesChanges(
  { by: before }: Positions,
  { shares }: Pick<Settlement, 'shares'>,
  transfers: readonly Transfer[],
): SaleChange[] {
  if (shares === null) return [];
  const changes: SaleChange[] = [];
  const counted = new Map(shares.map((share) => [keyOf(share), share]));
  for (const share of shares) {
    if (before.has(keyOf(share))) continue;
    const position = positionOf(share, share.cents);
    const { units, cents } = allOf(position);
    changes.push({ coin: share.coin, ref: share.ref, ...position, held: { units: -units, cents: -cents } });
  }
  if (before.size === 0) return changes;
  const held = new Map(transfers.flatMap((t) => (hasArrived(t) ? [[keyOf(t), t] as const] : [])));
  for (const [key, was] of before) {
    const here = allOf(was);
    const share = counted.get(key);
    const t = held.get(key);
    const units = share?.units ?? t?.units ?? 0n;
    const stays = here.units > 0n && here.units === units;
    const cents = stays ? here.cents : (share?.cents ?? (t ? worthCents(t) : 0n));
    const next = share ? positionOf(share, cents) : { sale: NOTHING, over: NOTHING, held: { units, cents } };
    // Money leaves the chain and comes to it, it is not exchanged for other money.
    const path = stays || here.units === 0n || units === 0n ? [next] : [{ sale: NOTHING, over: NOTHING, held: NOTHING }, next];
    let from: Position = was;
    for (const to of path) {
      const change = { sale: minus(to.sale, from.sale), over: minus(to.over, from.over), held: minus(to.held, from.held) };
      if (change.sale.units !== 0n || change.over.units !== 0n || change.held.units !== 0n)
        changes.push({ coin: was.coin, ref: was.ref, ...change });
      from = to;
    }
  }
  return changes;
}

const worthCents = ({ values }: Transfer): bigint => e8ToCents(values.at(-1)?.usdE8 ?? 0n);

function positionOf({ units, overUnits, overCents }: TransferShare, cents: bigint): Position {
  const over = { units: overUnits, cents: overCents < cents ? overCents : cents };
  return { sale: minus({ units, cents }, over), over, held: NOTHING };
}

/** As the database adds changes up, in JSON. */
export type StoredPosition = { coin: Coin; ref: string; count: number } & Readonly<
  Record<'saleUnits' | 'saleCents' | 'overUnits' | 'overCents' | 'heldUnits' | 'heldCents', string>
>;
/** Columns of a position, grouped by transfer. The first change took all of a transfer from what was held. */
const positionColumns = (sql: Sql | Tx): Fragment => sql`
  coin, ref, count(*)::int as count, sum(sale_units)::text as "saleUnits", sum(sale_cents)::text as "saleCents",
  sum(over_units)::text as "overUnits", sum(over_cents)::text as "overCents",
  (sum(held_units) - (array_agg(held_units order by number))[1])::text as "heldUnits",
  (sum(held_cents) - (array_agg(held_cents order by number))[1])::text as "heldCents"`;
/** The positions of the payment `p`, as JSON. */
export const positionsOf = (sql: Sql | Tx): Fragment => sql`
  (select coalesce(json_agg(s), '[]') from (select ${positionColumns(sql)} from payment_sales
    where merchant_id = p.merchant_id and payment_id = p.id group by 1, 2) as s)`;

export const toPositions = (rows: readonly StoredPosition[]): Positions => ({
  count: rows.reduce((sum, { count }) => sum + count, 0),
  by: new Map(
    rows.map(({ coin, ref, ...row }) => [
      keyOf({ coin, ref }),
      {
        ...{ coin, ref },
        sale: { units: BigInt(row.saleUnits), cents: BigInt(row.saleCents) },
        over: { units: BigInt(row.overUnits), cents: BigInt(row.overCents) },
        held: { units: BigInt(row.heldUnits), cents: BigInt(row.heldCents) },
      },
    ]),
  ),
});

/** The positions after these changes to them. */
export function changed({ count, by }: Positions, changes: readonly SaleChange[]): Positions {
  const next = new Map(by);
  for (const change of changes) {
    const was = next.get(keyOf(change));
    // The first change takes all of a transfer from what was held.
    next.set(keyOf(change), {
      ...{ coin: change.coin, ref: change.ref },
      sale: plus(was?.sale ?? NOTHING, change.sale),
      over: plus(was?.over ?? NOTHING, change.over),
      held: was ? plus(was.held, change.held) : NOTHING,
    });
  }
  return { count: count + changes.length, by: next };
}

/** The positions of one payment with so many transfers that they are not read with it. The caller has locked it. */
export async function readPositions(sql: Sql | Tx, { merchantId, id }: { merchantId: string; id: string }): Promise<Positions> {
  return toPositions(
    await sql<StoredPosition[]>`
      select ${positionColumns(sql)} from payment_sales where merchant_id = ${merchantId} and payment_id = ${id} group by 1, 2`,
  );
}

type Stored = SaleChange & { merchantId: string; paymentId: string; number: number; at: Date };
/** The statement that appends changes, for the transaction of the settlement. */
export function insertSales(tx: Tx, rows: readonly Stored[]): Fragment {
  const units = (of: (row: Stored) => bigint) => rows.map((row) => of(row).toString());
  const cents = (of: (row: Stored) => bigint) => tx.array(rows.map(of), OID.int8);
  const at = tx.array(
    rows.map((row) => row.at),
    OID.timestamptz,
  );
  return tx`
    insert into payment_sales (merchant_id, payment_id, number, coin, ref, at, sale_units, sale_cents, over_units, over_cents, held_units, held_cents)
    select * from unnest(${rows.map((r) => r.merchantId)}::text[], ${rows.map((r) => r.paymentId)}::text[], ${rows.map((r) => r.number)}::int[],
      ${rows.map((r) => r.coin)}::text[], ${rows.map((r) => r.ref)}::text[], ${at}::timestamptz[],
      ${units((r) => r.sale.units)}::text[]::numeric[], ${cents((r) => r.sale.cents)}::bigint[],
      ${units((r) => r.over.units)}::text[]::numeric[], ${cents((r) => r.over.cents)}::bigint[],
      ${units((r) => r.held.units)}::text[]::numeric[], ${cents((r) => r.held.cents)}::bigint[])`;
}
