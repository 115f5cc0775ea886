/**
 * What one payer may have sent together with a transfer: the other outputs of its transaction, and other small pending payments of
 * the merchant. Read once, when the transfer is first valued, and stored with its worth.
 */
import type { Coin } from '../core/coin.ts';
import { confirmationTier } from '../core/confirmation.ts';
import type { Company, PaymentFacts, Transfer } from '../core/payment.ts';
import type { Tx } from '../db/db.ts';

/** A transfer of a live payment that is valued for the first time. */
export type Newcomer = { merchantId: string; payment: PaymentFacts; transfer: Transfer };
/** The largest pending transfers of a merchant and coin that are considered. Far fewer are enough to reach a bound. */
const MOST_BESIDE = 1_000;

/** By new transfer; those without company are omitted. Two statements, regardless of the number of transfers. */
export async function readCompany(tx: Tx, newcomers: readonly Newcomer[]): Promise<Map<Transfer, Company>> {
  if (newcomers.length === 0) return new Map();
  const [inTransaction, beside] = [await readTransactions(tx, newcomers), await readBeside(tx, newcomers)];
  return new Map(
    newcomers.flatMap((one) => {
      const { transfer } = one;
      const company = {
        transactionUnits: inTransaction.get(`${transfer.coin} ${transfer.txid}`) ?? transfer.units,
        merchantUnits: beside.get(one) ?? 0n,
      };
      return company.transactionUnits > transfer.units || company.merchantUnits > 0n ? [[transfer, company] as const] : [];
    }),
  );
}

/** A payer makes one transaction. A block's own transactions (the coinbase and Litecoin peg-outs) pay outputs for many people. */
const isOfOnePayer = ({ txid, kind }: Transfer): boolean => txid !== null && kind !== 'coinbase' && kind !== 'pegout' && kind !== 'delta';

async function readTransactions(tx: Tx, newcomers: readonly Newcomer[]): Promise<Map<string, bigint>> {
  const txids = new Set(newcomers.flatMap(({ transfer }) => (isOfOnePayer(transfer) ? [transfer.txid!] : [])));
  if (txids.size === 0) return new Map();
  const rows = await tx<{ coin: Coin; txid: string; units: string }[]>`
    select t.coin, t.txid, sum(t.units)::text as units from transfers t
    where t.txid = any(${[...txids]}::text[]) and t.kind not in ('coinbase', 'pegout', 'delta')
      and exists (select 1 from payments p where p.id = t.payment_id and p.mode = 'live')
    group by 1, 2`;
  return new Map(rows.map((row) => [`${row.coin} ${row.txid}`, BigInt(row.units)]));
}

type Waiting = { merchantId: string; coin: Coin; paymentId: string; amountUsdCents: bigint; units: string };

/**
 * Transfers that are pending, or in the new transfer's own block, to payments of the merchant that are small enough for its tier and
 * were valued before it. Double-spent and missing ones count too, because a block may still include them. Each transfer counts the
 * ones before it and never those after it: the total worth of all payments of a tier stays below its bound, and what a payer was
 * shown never changes.
 */
async function readBeside(tx: Tx, newcomers: readonly Newcomer[]): Promise<Map<Newcomer, bigint>> {
  const named = ({ merchantId }: { merchantId: string }, coin: Coin) => `${merchantId} ${coin}`;
  const groups = Map.groupBy(
    newcomers.filter(({ payment, transfer }) => boundOf(payment, transfer) !== null),
    (one) => named(one, one.transfer.coin),
  );
  if (groups.size === 0) return new Map();
  const firsts = [...groups.values()].map(([first]) => first!);
  const heights = [...new Set(newcomers.flatMap(({ transfer }) => (transfer.block ? [transfer.block.height] : [])))];
  const rows = await tx<Waiting[]>`
    select w.merchant_id as "merchantId", w.coin, t.payment_id as "paymentId", t.amount_usd_cents as "amountUsdCents", t.units
    from unnest(${firsts.map((f) => f.merchantId)}::text[], ${firsts.map((f) => f.transfer.coin)}::text[]) as w (merchant_id, coin)
    cross join lateral (
      select t.payment_id, p.amount_usd_cents, t.units::text as units from (
        select t.payment_id, t.units, t.values from transfers t
        where t.merchant_id = w.merchant_id and t.coin = w.coin
          and t.block_height is null and t.conflict_height is null
          and (t.absent_since is null or t.absent_since > clock_timestamp() - interval '1 day')
        union all
        select t.payment_id, t.units, t.values from transfers t
        where t.merchant_id = w.merchant_id and t.coin = w.coin and t.block_height = any(${heights}::bigint[])) as t
      join payments p on p.id = t.payment_id and p.mode = 'live'
      where t.values <> '[]' order by t.units desc limit ${MOST_BESIDE}) as t`;
  const waiting = Map.groupBy(rows, (row) => named(row, row.coin));
  const beside = new Map<Newcomer, bigint>();
  for (const [name, group] of groups) addUp(group, waiting.get(name) ?? [], beside);
  return beside;
}

/** The USD bound of the tier of the payment's own amount; null for the last tier, which requires nothing more. */
const boundOf = (payment: PaymentFacts, { coin }: Transfer): bigint | null =>
  confirmationTier(payment, coin, payment.targetUsdCents).belowUsdCents;

/** Running sums by bound, in the order in which the new transfers were seen. */
function addUp(group: readonly Newcomer[], waiting: readonly Waiting[], beside: Map<Newcomer, bigint>): void {
  const sums = new Map(group.map(({ payment, transfer }) => [boundOf(payment, transfer)!, 0n]));
  const own = new Map<string, bigint>();
  const add = (paymentId: string, amountUsdCents: bigint, units: bigint): void => {
    own.set(paymentId, (own.get(paymentId) ?? 0n) + units);
    for (const [bound, sum] of sums) if (amountUsdCents < bound) sums.set(bound, sum + units);
  };
  for (const { paymentId, amountUsdCents, units } of waiting) add(paymentId, amountUsdCents, BigInt(units));
  const order = ({ payment, transfer }: Newcomer) => `${transfer.firstSeenAt.toISOString()} ${payment.id} ${transfer.ref}`;
  const inOrder = group.map((one) => ({ one, at: order(one) })).sort((a, b) => (a.at < b.at ? -1 : 1));
  for (const { one } of inOrder) {
    const { payment, transfer } = one;
    beside.set(one, sums.get(boundOf(payment, transfer)!)! - (own.get(payment.id) ?? 0n));
    add(payment.id, payment.targetUsdCents, transfer.units);
  }
}
