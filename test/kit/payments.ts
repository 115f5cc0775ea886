/** Payments without a coin, made as the service makes them. */
import type { Context } from '../../src/context.ts';
import { createPayment } from '../../src/payments/payments.ts';

/** Creates a live payment in the service of a test and returns its id. */
export async function makeLivePayment(
  ctx: Context,
  { merchantId, amountUsdCents, expiresInSeconds }: { merchantId: string; amountUsdCents: bigint; expiresInSeconds: number },
): Promise<string> {
  let id = '';
  const request = { returnUrl: null, description: null, items: null, taxCents: null, fiat: null, locale: null };
  await createPayment(ctx, {
    merchantId,
    mode: 'live',
    createdWith: 'secret',
    draft: { amountUsdCents, fixed: null, coin: null, request, invoiceId: null, metadata: {}, expiresInSeconds, scenario: null },
    idempotency: null,
    render: (view) => {
      id = view.facts.id;
      return { status: 201, body: new Uint8Array() };
    },
  });
  return id;
}
