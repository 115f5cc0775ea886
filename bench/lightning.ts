/**
 * From a Lightning payment that its payer's node has settled to a payment that is completed, by each kind of back end, over two real nodes.
 * Goal: p99 under 1 s. `PAYMENTS` is how many of each kind.
 */
import type { LightningKind } from '../src/lightning/access.ts';
import { startLightningShop } from '../test/kit/lightning-shop.ts';

const PAYMENTS = Number(process.env.PAYMENTS ?? 100);
const LOOK_MS = 10;
const KINDS: readonly LightningKind[] = ['lnd', 'cln', 'phoenixd', 'nwc', 'lnbits', 'address'];

const shop = await startLightningShop();
const { sql } = shop.app.app.ctx.db;
console.log(`lightning: from settled to completed, ${PAYMENTS} payments of each kind`);
for (const kind of KINDS) {
  await shop.use(kind);
  const took: number[] = [];
  for (let i = 0; i < PAYMENTS; i++) {
    const { id, invoice } = await shop.ask('0.97');
    // Payers do not pay at the moment of a look.
    await new Promise((resolve) => setTimeout(resolve, (i * 137) % 1_000));
    shop.pair.pay(invoice);
    const began = performance.now();
    for (let completed = false; !completed; ) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      completed = (await sql`select 1 from payments where id = ${id} and status = 'completed'`).length > 0;
    }
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  const at = (share: number) => took[Math.ceil(took.length * share) - 1]!.toFixed(0);
  console.log(`  ${kind.padEnd(9)} p50 ${at(0.5)} ms p99 ${at(0.99)} ms`);
}
console.log('  goal      p99 < 1,000 ms');
await shop.stop();
process.exit(0);
