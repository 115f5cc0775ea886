/** The books of Lightning payments: what customers paid, what providers kept, and every millisatoshi in one place. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { after, before, test } from 'node:test';
import { exportCoinTracking, exportKoinly } from '../../src/books/book-files.ts';
import { type Account, readStatement, trialBalance, withTrialBalance } from '../../src/books/books.ts';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { parseDecimal } from '../../src/core/money.ts';
import { checkBooks, EVER } from '../kit/books.ts';
import { type LightningShop, startLightningShop } from '../kit/lightning-shop.ts';
import { isLongRun } from '../kit/long.ts';

let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());

/** All but LND say what they kept of a payment. */
const KINDS = ['phoenixd', 'nwc', 'lnbits', 'lnd'] as const;
const COUNT = isLongRun ? 25 : 3;

test('random amounts and fees sum exactly, to the millisatoshi, in the books, the statement and the exports', async () => {
  const { ctx } = shop.app.app;
  const owner = { merchantId: shop.app.merchant.merchantId, mode: 'live' } as const;
  const kept = new Map<string, bigint>();
  const ids: string[] = [];
  shop.fronts.behave((usual, { path }) => {
    const hash = hashOf(path, usual.json);
    const fee = kept.get(hash) ?? 0n;
    const got = shop.pair.received(hash);
    if (!got?.isClaimed) return usual;
    const { json } = usual;
    // phoenixd shows whole satoshis of what is left.
    if (path.includes('/payments/incoming/'))
      return { ...usual, json: { ...json, receivedSat: Number((got.msat - fee) / 1_000n), fees: Number(fee) } };
    if (path.startsWith('nwc:')) return { ...usual, json: { ...json, result: { ...json.result, fees_paid: Number(fee) } } };
    if (path.includes('/api/v1/')) return { ...usual, json: { ...json, details: { ...json.details, fee: -Number(fee) } } };
    return usual;
  });
  for (const kind of KINDS) {
    await shop.use(kind);
    for (let n = 0; n < COUNT; n++) {
      const { id, invoice } = await shop.ask(`${randomInt(1, 20)}.${randomInt(10, 100)}`);
      const { paymentHash, msat } = decodeInvoice(invoice);
      const sent = msat! + BigInt(n === 0 ? 0 : randomInt(0, Number(msat!)));
      if (kind !== 'lnd') kept.set(paymentHash, BigInt(n === 1 ? sent : randomInt(0, Number(sent))));
      shop.pair.pay(invoice, { msat: sent });
      await shop.reached(id, 'completed');
      const [row] = await ctx.db.sql<{ units: bigint; fee: bigint }[]>`
        select t.units, i.fee_msat as fee from transfers t join lightning_invoices i on i.payment_hash = t.txid where t.payment_id = ${id}`;
      if (kind === 'phoenixd') {
        assert.ok(row!.units <= sent && sent - row!.units < 1_000n && row!.units >= msat!, `${row!.units} of ${sent}`);
        assert.equal(row!.units - row!.fee, ((sent - kept.get(paymentHash)!) / 1_000n) * 1_000n, 'what phoenixd says that it has');
      } else assert.deepEqual([row!.units, row!.fee], [sent, kept.get(paymentHash) ?? 0n]);
      ids.push(id);
    }
  }
  const rows = await ctx.db.sql<{ units: bigint; fee: bigint }[]>`
    select t.units, i.fee_msat as fee from transfers t join lightning_invoices i on i.payment_hash = t.txid where t.payment_id = any(${ids}::text[])`;
  const [gross, fees] = [rows.reduce((sum, { units }) => sum + units, 0n), rows.reduce((sum, { fee }) => sum + fee, 0n)];
  assert.ok(rows.length === KINDS.length * COUNT && fees > 0n);

  const balances = await trialBalance(ctx, { ...owner, until: EVER });
  const of = (account: Account) => balances.find((one) => one.coin === 'BTC@lightning' && one.account === account)?.units ?? 0n;
  assert.deepEqual([of('destination_wallet'), of('network_fees'), -of('sales') - of('overpayments')], [gross - fees, fees, gross]);
  await checkBooks(ctx, owner);
  const from = new Date(0);
  const lines = withTrialBalance(await readStatement(ctx, { ...owner, from, until: EVER }));
  const line = (account: Account) => lines.find((one) => one.coin === 'BTC@lightning' && one.account === account)!;
  assert.deepEqual(
    [line('destination_wallet').received.units, line('destination_wallet').fees.units, line('network_fees').fees.units],
    [gross, -fees, fees],
  );

  const period = { from: '1970-01-01', until: '2999-01-01', timeZone: 'UTC', start: from, end: EVER };
  const wish = { ...owner, period, display: null, scope: 'all' } as const;
  const koinly = await cellsOf(exportKoinly(ctx, wish));
  const [sentIn, sentOut] = [sumOf(koinly, 3), sumOf(koinly, 1)];
  assert.deepEqual([sentIn, sentOut], [gross, fees]);
  assert.ok(koinly.filter(([, out]) => out !== '').every((cells) => cells[9] === 'cost' && cells[10]!.startsWith('Lightning fee of pay_')));
  const tracking = await cellsOf(exportCoinTracking(ctx, wish));
  assert.deepEqual([sumOf(tracking, 1), sumOf(tracking, 3)], [gross, fees]);
  assert.ok(tracking.every((cells) => (cells[3] === '' ? cells[0] === 'Income' : cells[0] === 'Other Fee')));
});

/** The invoice that an answer is about. */
function hashOf(path: string, json: any): string {
  if (path.startsWith('nwc:')) return json.result?.payment_hash ?? '';
  return /([0-9a-f]{64})$/.exec(path)?.[1] ?? '';
}

async function cellsOf(file: AsyncIterable<string>): Promise<string[][]> {
  let text = '';
  for await (const part of file) text += part;
  return text
    .split('\n')
    .slice(1)
    .filter((line) => line !== '')
    .map((line) => line.split(','));
}
const sumOf = (rows: readonly string[][], column: number): bigint =>
  rows.reduce((sum, cells) => sum + (cells[column] === '' ? 0n : parseDecimal(cells[column]!, 11)!), 0n);
