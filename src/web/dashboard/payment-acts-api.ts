/** What members do with payments other than resolving them: create one, start a test scenario, change metadata. */
import Type from 'typebox';
import { COINS, isAsset, isCoin, TOKEN_ASSETS } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { draftOf } from '../../http/payment-routes.ts';
import { checkMetadataKeys, readMetadata, readReturnUrl } from '../../http/read.ts';
import { readFiatCode, readMinor, readPrice } from '../../http/read-price.ts';
import { DetailSchema, ItemSchema, WarningSchema } from '../../http/schema.ts';
import { literals } from '../../http/schema-fields.ts';
import { paymentDetail, paymentUrl } from '../../payments/detail.ts';
import { auditDecision, createPayment, SCENARIOS, setMetadata, simulatePayment } from '../../payments/payments.ts';
import { priceAt } from '../../payments/price.ts';
import { warningsFor } from '../../payments/readiness.ts';
import type { PaymentView } from '../../payments/view.ts';
import { writeAudit } from '../../people/members.ts';
import { svgOf } from '../checkout/qr.ts';
import { CoinName, PlainText } from './fields.ts';
import { deciding } from './payments-api.ts';
import { type DashboardRoute, memberRoute, ownerOfCall } from './route.ts';

const Amount = Type.String({ maxLength: 20 });
const detailReply = Type.Object({ success: Type.Boolean(), payment: DetailSchema });

export const PAYMENT_ACTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'POST',
    path: '/payments',
    action: 'payments.create',
    body: Type.Object({
      amount_usd: Type.Optional(Amount),
      /** In `currency_fiat`, like items and tax. */
      amount: Type.Optional(Amount),
      currency_fiat: Type.Optional(Type.String({ minLength: 3, maxLength: 3 })),
      items: Type.Optional(Type.Array(Type.Object({ ...ItemSchema.properties, unit_price: Amount }), { minItems: 1, maxItems: 100 })),
      tax: Type.Optional(Amount),
      /** A token without its network: the customer chooses it. */
      currency: Type.Optional(literals([...COINS, ...TOKEN_ASSETS])),
      expires_in: Type.Optional(Type.Integer({ minimum: 600, maximum: 86_400 })),
      description: Type.Optional(Type.String({ maxLength: 1000 })),
      invoice_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
      return_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
      metadata: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 500 }))),
    }),
    reply: Type.Object({
      success: Type.Boolean(),
      id: PlainText,
      payment_url: PlainText,
      amount_usd: PlainText,
      amount: PlainText,
      currency_fiat: PlainText,
      qr: PlainText,
      warnings: Type.Array(WarningSchema),
    }),
    handle: async (call) => {
      const { body: given, parsed, ctx } = call;
      const currency = readFiatCode(given.currency_fiat ?? 'USD');
      const items = given.items?.map((item, i) => ({
        productId: item.product_id,
        name: item.name,
        quantity: BigInt(item.quantity),
        unitPriceMinor: readMinor(parsed, `items[${i}].unit_price`, item.unit_price, currency, { zero: true }),
      }));
      const taxMinor = items ? readMinor(parsed, 'tax', given.tax ?? '0', currency, { zero: true }) : null;
      const minor = items?.reduce((sum, item) => sum + item.quantity * item.unitPriceMinor, taxMinor!);
      if (minor === 0n) throw new Problem('amount_invalid', {}, { param: 'items' });
      const price =
        minor === undefined
          ? readPrice(ctx, { mode: call.mode, body: parsed, given })
          : priceAt(ctx, { mode: call.mode, currency, minor, params: { amount: 'items', currency: 'currency_fiat' } });
      const coin = isCoin(given.currency) ? given.currency : null;
      const asset = coin === null && isAsset(given.currency) ? given.currency : undefined;
      const read = { common: given as never, metadata: readMetadata(given.metadata, 'secret'), replaces: null, scenario: null };
      const draft = draftOf(read, {
        ...price,
        returnUrl: given.return_url === undefined ? null : readReturnUrl(given.return_url, call.mode),
        ...(items && { items, taxMinor: taxMinor! }),
        ...(asset !== undefined && { asset }),
      });
      const warnings = given.currency ? [] : await warningsFor(ctx, { ...ownerOfCall(call), amountUsdCents: price.amountUsdCents });
      return createPayment(ctx, {
        ...ownerOfCall(call),
        createdWith: 'secret',
        draft: { ...draft, coin },
        idempotency: null,
        render: (view) => {
          const url = paymentUrl(ctx.settings.paymentPageUrl, view.facts.id);
          const { amount_usd, amount_fiat = amount_usd, currency_fiat = 'USD' } = paymentDetail(view, ctx.settings.paymentPageUrl);
          const svg = svgOf(url, 'QR code of the payment link');
          const qr = `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`;
          const body = { success: true, id: view.facts.id, payment_url: url, amount_usd, amount: amount_fiat, currency_fiat, qr, warnings };
          return { status: 201, body: Buffer.from(JSON.stringify(body)) };
        },
        also: (tx, view: PaymentView) =>
          writeAudit(tx, {
            ...ownerOfCall(call),
            actor: call.actor,
            action: 'payment.create',
            object: view.facts.id,
            after: { amount_usd: paymentDetail(view, '').amount_usd as string, invoice_id: view.invoiceId },
          }),
      });
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/simulate',
    action: 'payments.simulate',
    body: Type.Object({ scenario: literals(SCENARIOS), currency: Type.Optional(CoinName) }),
    reply: detailReply,
    handle: (call) => {
      if (call.mode !== 'test') throw new Problem('test_key_required');
      const { scenario, currency } = call.body;
      const of = deciding(call, call.params.id);
      return simulatePayment(call.ctx, { ...of, scenario, coin: currency ?? null, also: auditDecision(of, 'simulate') });
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/metadata',
    action: 'payments.edit',
    body: Type.Object({ metadata: Type.Record(Type.String(), Type.Union([Type.String({ maxLength: 500 }), Type.Null()])) }),
    reply: detailReply,
    handle: (call) => {
      const { metadata } = call.body;
      checkMetadataKeys(metadata);
      return setMetadata(call.ctx, {
        ...deciding(call, call.params.id),
        metadata,
        also: (tx, { before, after }) =>
          writeAudit(tx, {
            ...ownerOfCall(call),
            actor: call.actor,
            action: 'payment.metadata',
            object: call.params.id,
            before: { metadata: before.metadata },
            after: { metadata: after.metadata },
          }),
      });
    },
  }),
];
