/** Schemas of refunds, and of what shows payments and refunds together. */
import Type from 'typebox';
import { DetailSchema, List, ListQuery } from './schema.ts';
import {
  Amount,
  ArrivedCoinField,
  CoinField,
  Decimal,
  Expand,
  FiatCode,
  HasMore,
  Limit,
  ModeField,
  NetworkId,
  OneOf,
  OnlyNetwork,
  OrNull,
  PaymentId,
  PayoutId,
  RefundId,
  StartingAfter,
  StatedShop,
  Success,
  Text,
  Time,
  WhichNetwork,
} from './schema-fields.ts';

// Schemas of payouts.

const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
const BATCH = 'bat_1Ye4fTq0ZcJb8sWn2LxR7vKd';
const LONGEST_REFERENCE = 80;
const LONGEST_DESCRIPTION = 200;

export const CreatePayout = Type.Object({
  currency: CoinField('Coin that is sent.'),
  network: WhichNetwork(OnlyNetwork),
  amount: Type.Optional(Amount('Amount in the coin. Either this or `amount_usd` is required.', '0.00103093')),
  amount_usd: Type.Optional(Amount('In place of `amount`: an amount in US dollars, at the current exchange rate.', '100.00')),
  address: Text('Where the money goes: an address for the coin and its network.', ADDRESS, { minLength: 1, maxLength: 200 }),
  payout_reference: Type.Optional(
    Text(
      `Your own name for the payout, up to ${LONGEST_REFERENCE} characters. No other payout that is not canceled can have it.`,
      'salary-2026-11-ada',
      {
        minLength: 1,
        maxLength: LONGEST_REFERENCE,
      },
    ),
  ),
  description: Type.Optional(
    Text(`Your note about the payout, up to ${LONGEST_DESCRIPTION} characters. Only members see it.`, 'November, Ada', {
      maxLength: LONGEST_DESCRIPTION,
    }),
  ),
});

const A_TIME = Time('A time.', '2026-11-21T10:30:00.000Z');
export const PayoutItem = Type.Object(
  {
    id: PayoutId('Identifier of the payout.'),
    payout_reference: OrNull(Text('A text.', 'salary-2026-11-ada'), 'Your own name for it. Null when you gave none.'),
    status: OneOf(
      'RefundStatus',
      '`requested`: waiting for the approval of a member. `approved`: to be signed and sent by you. `signed`: not sent yet. `sent`: waiting for confirmations. `confirmed`: paid. `failed`: its transaction can no longer be mined; a member marks the payout as sent or cancels it. `canceled`: by you.',
      'requested',
    ),
    mode: ModeField,
    amount: Decimal('Amount in the coin.', '0.00103093'),
    currency: ArrivedCoinField('Coin that is sent.'),
    network: NetworkId('Network that it is sent on.'),
    amount_usd: Decimal('What it was worth in US dollars when it was requested.', '100.00'),
    address: OrNull(Text('An address.', ADDRESS), 'Where the money goes. Null once it was erased, as you set it.'),
    description: OrNull(Text('A text.', 'November, Ada'), 'Your note about it. Null when you gave none.'),
    batch_id: OrNull(Text('A batch.', BATCH), 'The file that it was imported with. Null if it was requested alone.'),
    transaction_hash: OrNull(
      Text('A hash.', '5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060'),
      'Transaction that paid it. Null until it is sent.',
    ),
    failure: OrNull(
      Text('A text.', 'another transaction spent the money'),
      'Why it failed; while it is `signed`, why its transaction is not sent yet; while it is `sent`, that its transaction does not pay it. Otherwise null.',
    ),
    created_at: Time('When the payout was requested.'),
    approved_at: OrNull(A_TIME, 'When it was approved. Null until then.'),
    sent_at: OrNull(A_TIME, 'When it was sent. Null until then.'),
    ended_at: OrNull(A_TIME, 'When it was confirmed, failed or canceled. Null until then.'),
  },
  { description: 'Money that you send to somebody who is not a customer.' },
);
export const PayoutReply = Type.Object({ success: Success, ...PayoutItem.properties });
export const PayoutList = Type.Object({
  success: Success,
  data: Type.Array(PayoutItem, { description: 'The payouts, newest first.' }),
  has_more: HasMore,
});
export const PayoutsQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('po_Ye4fTq0ZcJb8sWn2LxR7vKd1'),
  status: Type.Optional(OneOf('RefundStatus', 'Only payouts in this status.', 'requested')),
  payout_reference: Type.Optional(Text('Only payouts with this reference.', 'salary-2026-11-ada')),
  batch_id: Type.Optional(Text('Only payouts of this batch.', BATCH)),
});

const TXID = '5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060';

const PREIMAGE = '0001020304050607080900010203040506070809000102030405060708090102';
/** The longest text of an invoice that is read. */
const LONGEST_INVOICE = 2_000;

export const CreateRefund = Type.Object({
  payment_id: Text('The payment to refund.', 'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye', { minLength: 1, maxLength: 60 }),
  amount_usd: Type.Optional(
    Amount('Amount in US dollars. Without any amount, everything that arrived and was not refunded yet is returned.', '10.00'),
  ),
  amount: Type.Optional(
    Amount('In place of `amount_usd`: an amount in `currency_fiat`, or without `currency_fiat` in the coin of the payment.', '10.00'),
  ),
  currency_fiat: Type.Optional(FiatCode('Currency of `amount` (ISO 4217). Without it, `amount` is in the coin of the payment.')),
  currency: Type.Optional(
    ArrivedCoinField(
      'Which coin is returned, if several arrived, such as one that was sent by mistake. Without it, the coin of the payment. Each coin has its own limit: what arrived of it and is confirmed.',
    ),
  ),
  network: WhichNetwork('Needed only if `currency` arrived on several networks.'),
  rate: Type.Optional(
    OneOf(
      'RefundRate',
      '`payment`: a part of the price returns the same part of the coins that were quoted for it. `current`: at the current exchange rate. Defaults to `payment`.',
      'payment',
    ),
  ),
  address: Type.Optional(
    Text(
      'Where the money goes: an address for the coin and network of the payment. Without it, the customer enters one on the claim page. For a payment over Lightning: a Lightning invoice (BOLT 11) of the customer for exactly the amount, in whole satoshis, that is valid for at least an hour, or a bitcoin address.',
      ADDRESS,
      {
        minLength: 1,
        maxLength: LONGEST_INVOICE,
      },
    ),
  ),
  email: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: 200 }), Type.Null()], {
      description:
        'Where the claim link and the email about the sent refund go, in live mode. Without it, the email address that was left on the payment page, which anyone with its link can enter. `null`: no claim link is mailed.',
      examples: ['sam@example.com'],
    }),
  ),
  shop: StatedShop,
  reason: Type.Optional(Text('Why you return the money, up to 200 characters. The customer sees it.', 'Broken mug', { maxLength: 200 })),
});

export const RefundPreimage = Type.Object({
  preimage: Text('The preimage that your wallet shows for the paid invoice: 64 hex digits.', PREIMAGE, { minLength: 1, maxLength: 100 }),
});

export const RefundItem = Type.Object(
  {
    id: RefundId('Identifier of the refund.'),
    payment_id: PaymentId('The payment that is refunded.'),
    status: OneOf(
      'RefundStatus',
      '`requested`: waiting for the address or for your approval. `approved`: to be signed and sent by you. `signed`: not sent yet. `sent`: waiting for confirmations. `confirmed`: returned. `failed`: its transaction can no longer be mined; the amount stays reserved until a member marks the refund as sent or cancels it. `canceled`: by you.',
      'requested',
    ),
    mode: ModeField,
    amount: Decimal('Amount in the coin of the payment.', '0.00010309'),
    currency: ArrivedCoinField('Coin that is returned.'),
    network: NetworkId('Network that it is returned on.'),
    amount_usd: Decimal('What it is worth in US dollars, at `rate`.', '10.00'),
    rate: OneOf('RefundRate', 'Rate that was used: that of the payment, or the one when the refund was requested.', 'payment'),
    address: OrNull(
      Text('An address.', ADDRESS),
      'Where the money goes: an address, or a Lightning invoice of the customer. Null until the customer enters it, and again after the invoice expired.',
    ),
    invoice_expires_at: OrNull(
      Time('A time.', '2026-11-22T10:20:00.000Z'),
      'Until when the Lightning invoice in `address` can be paid. Null if that is not an invoice.',
    ),
    claim_url: OrNull(
      Text('A URL.', 'https://pay.example/claim/4fTq0ZcJb8sWn2LxR7vKd1Ye8sWn2LxR'),
      'Page on which the customer enters the address and sees the status: send it only to the customer. Null if you gave the address.',
    ),
    claim_expires_at: OrNull(
      Time('A time.', '2026-12-21T10:20:00.000Z'),
      'Until when the customer can enter the address. Null if you gave the address.',
    ),
    reason: OrNull(Text('A text.', 'Broken mug'), 'Why you return the money. Null when you gave no reason.'),
    transaction_hash: OrNull(
      Text('A hash.', TXID),
      'Transaction that returned the money, or the payment hash of the invoice. Null until it is sent.',
    ),
    failure: OrNull(
      Text('A text.', 'another transaction spent the money'),
      'Why it failed; while it is `signed`, why its transaction is not sent yet; while it is `sent`, that its transaction does not pay it. Otherwise null.',
    ),
    created_at: Time('When the refund was requested.'),
    approved_at: OrNull(A_TIME, 'When it was approved. Null until then.'),
    sent_at: OrNull(A_TIME, 'When it was sent. Null until then.'),
    ended_at: OrNull(A_TIME, 'When it was confirmed, failed or canceled. Null until then.'),
  },
  { description: 'Money that is returned to a customer.' },
);
/** The payment, in place of asking for it by `payment_id`. */
const withPayment = {
  payment: Type.Optional(Type.Union([DetailSchema], { description: 'The payment as it is now. Only with `expand=payment`.' })),
};
export const ListedRefund = Type.Object(
  { ...RefundItem.properties, ...withPayment },
  { description: 'A refund, with its payment if the request names it in `expand`.' },
);
export const RefundReply = Type.Object({ success: Success, ...ListedRefund.properties });
export const RefundList = Type.Object({
  success: Success,
  data: Type.Array(ListedRefund, { description: 'The refunds, newest first.' }),
  has_more: HasMore,
});
export const ExpandPayment = Type.Object({ expand: Expand('payment', 'the payment of a refund, as its `payment`') });
export const RefundsQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('ref_Ye4fTq0ZcJb8sWn2LxR7vKd1'),
  payment_id: Type.Optional(PaymentId('Only refunds of this payment.')),
  status: Type.Optional(OneOf('RefundStatus', 'Only refunds in this status.', 'requested')),
  ...ExpandPayment.properties,
});

// Payments with their refunds.

/** How many refunds a payment is shown with. */
export const SHOWN_REFUNDS = 20;

const ExpandRefunds = Expand('refunds', `the newest ${SHOWN_REFUNDS} refunds of a payment, as its \`refunds\``);
export const PaymentQuery = Type.Object({ expand: ExpandRefunds });
export const PaymentsQuery = Type.Object({ ...ListQuery.properties, expand: ExpandRefunds });
export const PaymentReply = Type.Object(
  {
    ...DetailSchema.properties,
    refunds: Type.Optional(
      Type.Array(RefundItem, {
        description: `Its refunds, newest first, at most ${SHOWN_REFUNDS}: GET /v1/refunds lists all. Only with \`expand=refunds\`.`,
      }),
    ),
  },
  { description: 'A payment, with its refunds if the request names them in `expand`.' },
);
export const PaymentList = Type.Object({
  ...List.properties,
  data: Type.Array(PaymentReply, { description: 'The payments, newest first.' }),
});
