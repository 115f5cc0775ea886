/** Freezes what transfers are worth. The caller has locked their payments. */
import { setImmediate } from 'node:timers/promises';
import type { Context } from '../context.ts';
import { type Coin, pricedAs } from '../core/coin.ts';
import { valueTransfer } from '../core/transfer-value.ts';
import type { Tx } from '../db/db.ts';
import { type Newcomer, readCompany } from './company.ts';
import { readDisplayRates } from './display-rates.ts';
import type { PaymentRecord } from './facts.ts';
import { valuesToJson } from './stored.ts';

/** Rows in one statement, and transfers processed between two turns of the event loop. */
const ROWS_AT_ONCE = 2_000;

/**
 * Freezes the worth of transfers that have none yet, or whose protection ended, here and in the records. Prices come from memory, never
 * from the network. Returns the payments of these transfers.
 */
export async function valueTransfers(ctx: Context, tx: Tx, records: readonly PaymentRecord[]): Promise<Set<string>> {
  const found = await findUnvalued(ctx, records);
  const payments = new Set(found.map(({ payment }) => payment.id));
  if (found.length === 0) return payments;
  const company = await readCompany(
    tx,
    found.filter(({ record, transfer }) => record.mode === 'live' && transfer.values.length === 0),
  );
  const displayRate = await readDisplayRates(
    ctx,
    tx,
    found.map(({ record }) => record),
  );
  for (let i = 0; i < found.length; i += ROWS_AT_ONCE) {
    const rows = found.slice(i, i + ROWS_AT_ONCE).map(({ record, place, spot, payment, transfer }) => {
      const value = valueTransfer({ payment, transfer, spot, now: record.now, company: company.get(transfer) ?? null })!;
      const display = displayRate(record);
      const values = [...transfer.values, { ...value, ...(display && { display }) }];
      record.transfers[place] = { ...transfer, values };
      return { payment_id: payment.id, coin: transfer.coin, ref: transfer.ref, values: valuesToJson(values) };
    });
    await tx`
      update transfers t set values = r.values
      from jsonb_to_recordset(${tx.json(rows as never)}) as r (payment_id text, coin text, ref text, values jsonb)
      where t.payment_id = r.payment_id and t.coin = r.coin and t.ref = r.ref`;
  }
  return payments;
}

type Spot = ReturnType<typeof spotPrice>;
type Unvalued = Newcomer & { record: PaymentRecord; place: number; spot: Spot };
/** The transfers to value now, with turns of the event loop in between, because a payment may have tens of thousands of transfers. */
async function findUnvalued(ctx: Context, records: readonly PaymentRecord[]): Promise<Unvalued[]> {
  const found: Unvalued[] = [];
  let looked = 0;
  for (const record of records) {
    const { merchantId, facts: payment, now } = record;
    const spots = new Map<Coin, Spot>();
    for (const [place, transfer] of record.transfers.entries()) {
      if (!spots.has(transfer.coin)) spots.set(transfer.coin, spotPrice(ctx, record, transfer.coin));
      const spot = spots.get(transfer.coin)!;
      if (valueTransfer({ payment, transfer, spot, now })) found.push({ record, place, spot, merchantId, payment, transfer });
      if (++looked % ROWS_AT_ONCE === 0) await setImmediate();
    }
  }
  return found;
}

function spotPrice(ctx: Context, record: PaymentRecord, coin: Coin): { priceE8: bigint; at: Date } | null {
  if (record.mode === 'test') return { priceE8: ctx.prices.forTest(pricedAs(coin)).priceE8, at: record.now };
  const price = ctx.prices.valuing(pricedAs(coin));
  return price && { priceE8: price.priceE8, at: price.asOf };
}
