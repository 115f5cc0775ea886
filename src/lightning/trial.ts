/** A test invoice that the merchant pays after setting up Lightning. It belongs to no payment, so nothing of it is stored. */
import type { Context } from '#context';
import { Problem } from '#core/problem';
import { asObject, asText } from '#core/stored-json';
import { asProblem, openBackEnd, readActive } from './access.ts';
import { checkInvoice, judgeLook } from './invoices.ts';

const PURPOSE = 'lightning test';
/** 100 satoshis, which most wallets can pay. */
const MSAT = 100_000n;
const SECONDS = 600;

/** Makes a test invoice. `token`: what asks whether it is paid. Errors: parameter_invalid with the reason. */
export async function testLightning(
  ctx: Context,
  { merchantId }: { merchantId: string },
): Promise<{ invoice: string; sat: string; token: string }> {
  const row = await readActive(ctx, { merchantId });
  const msat = row.leastMsat > MSAT ? ((row.leastMsat + 999n) / 1_000n) * 1_000n : MSAT;
  const key = Buffer.from(ctx.random(12)).toString('hex');
  const wanted = { msat, description: 'Test of Lightning', seconds: SECONDS, key };
  const { made, paymentHash } = await asProblem(
    (async () => {
      const one = await openBackEnd(ctx, row).create(wanted);
      const expected = { msat, network: ctx.settings.networks.bitcoin, payee: row.payee, now: ctx.clock.now() };
      return { made: one, paymentHash: checkInvoice(one, expected).paymentHash };
    })(),
  );
  const kept = { id: row.id, handle: made.handle, hash: paymentHash, msat: msat.toString() };
  const token = Buffer.from(ctx.seal(PURPOSE, Buffer.from(JSON.stringify(kept)))).toString('base64url');
  return { invoice: made.bolt11, sat: String(msat / 1_000n), token };
}

/** Whether a test invoice is paid, by the same proof as a payment. Errors: parameter_invalid. */
export async function lookAtTest(ctx: Context, { merchantId, token }: { merchantId: string; token: string }): Promise<{ isPaid: boolean }> {
  const row = await readActive(ctx, { merchantId });
  const { id, handle, hash, msat } = readToken(ctx, token);
  if (id !== row.id) throw new Problem('parameter_invalid', { reason: 'Lightning was changed meanwhile' }, { param: 'token' });
  const look = await asProblem(openBackEnd(ctx, row).look(handle));
  const isPaid = judgeLook({ paymentHash: hash, msat: BigInt(msat) }, look).is === 'paid';
  if (isPaid) await ctx.db.sql`update lightning_backends set tested_at = clock_timestamp() where id = ${id}`;
  return { isPaid };
}

function readToken(ctx: Context, token: string): { id: string; handle: string; hash: string; msat: string } {
  try {
    const kept = asObject(JSON.parse(Buffer.from(ctx.open(PURPOSE, Buffer.from(token, 'base64url'))).toString()));
    const [id, handle, hash, msat] = [asText(kept.id), asText(kept.handle), asText(kept.hash), asText(kept.msat)];
    if (id !== null && handle !== null && hash !== null && msat !== null) return { id, handle, hash, msat };
  } catch {
    // Not a token of this install.
  }
  throw new Problem('parameter_invalid', { reason: 'it is not from a test invoice' }, { param: 'token' });
}
