/** TypeBox schemas of payments: the single source of validation, types and the OpenAPI document. Other objects have their own files. */
import Type from 'typebox';
import { SHOWN_TRANSFERS } from '#core/payment-view';
import {
  Amount,
  ArrivedCoinField,
  CoinField,
  CountField,
  Decimal,
  FiatCode,
  Flag,
  HasMore,
  Limit,
  literals,
  ModeField,
  NetworkId,
  OneOf,
  OnlyNetwork,
  OrNull,
  PaymentId,
  StartingAfter,
  StatedShop,
  Success,
  Text,
  Time,
  WhichNetwork,
} from './schema-fields.ts';

const TXID = '5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060';
const BLOCK = '00000000000000000001a7c09e7e5b7f0f3c7b4a9d2e6f1a8b5c4d3e2f1a0b9c';

// Requests

const ReturnUrl = Text(
  'Where the customer returns to after paying: an absolute https URL (in test mode also http on localhost). `transaction_id` and `status` are added to its query.',
  'https://shop.example/thanks',
  { minLength: 1, maxLength: 2048 },
);
const Metadata = Type.Record(Type.String(), Type.String({ maxLength: 500 }), {
  description: 'Your own data: up to 50 keys of up to 40 characters, with text values of up to 500. Secret keys only.',
  examples: [{ order: 'A-1001' }],
});
export const CustomerParams = Type.Object(
  {
    email: Type.Optional(Text('Email address, up to 200 characters.', 'ada@example.com', { maxLength: 200 })),
    name: Type.Optional(Text('Name, up to 100 characters.', 'Ada Lovelace', { maxLength: 100 })),
    reference: Type.Optional(Text('Your own ID of the customer, up to 100 characters.', 'C-1001', { maxLength: 100 })),
  },
  {
    description:
      'Who the payment is for: an email address or a reference, and a name. The same `reference`, or without one the same `email`, is the same customer, who is created with the first payment and gets the newest email address and name. Secret keys only.',
    examples: [{ email: 'ada@example.com', name: 'Ada Lovelace', reference: 'C-1001' }],
  },
);
const common = {
  customer: Type.Optional(CustomerParams),
  description: Type.Optional(Text('What the payment is for. Customers see it on the payment page.', 'Two mugs', { maxLength: 1000 })),
  metadata: Type.Optional(Metadata),
  expires_in: Type.Optional(
    CountField('How long the customer has to pay, in seconds. Defaults to 3600, or to the merchant’s setting.', 3600, {
      minimum: 600,
      maximum: 86_400,
    }),
  ),
  payment_address: Type.Optional(
    Text(
      'Test keys only: `test_<coin>_<scenario>`, such as `test_btc_success`. Chooses the coin, and what is simulated when the payment page is opened.',
      'test_btc_success',
      { maxLength: 40 },
    ),
  ),
  invoice_id: Type.Optional(Text('Your invoice or order number.', 'INV-1001', { minLength: 1, maxLength: 100 })),
  replaces: Type.Optional(
    Text(
      'The payment that this one takes the place of, such as after an order changed. It is canceled if no money has arrived for it. Secret keys only.',
      'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye',
      { minLength: 1, maxLength: 60 },
    ),
  ),
  locale: Type.Optional(Text('Language of the payment page, such as `pt-BR`. Defaults to that of the browser.', 'en', { maxLength: 12 })),
};

const CurrencyFiat = FiatCode(
  'Currency of the amount (ISO 4217). Other currencies are converted to US dollars when the payment is created, rounded up to a cent.',
);
export const CreateSimple = Type.Object({
  amount_usd: Type.Optional(
    Amount(
      'Amount in US dollars: above 0, up to 1000000.00, with at most two decimals. Required unless `amount` and `currency_fiat` are given.',
    ),
  ),
  amount: Type.Optional(
    Amount(
      'In place of `amount_usd`: an amount in `currency_fiat`, with at most its number of decimals: two for EUR, none for JPY, three for KWD.',
    ),
  ),
  currency_fiat: Type.Optional(CurrencyFiat),
  return_url: ReturnUrl,
  ...common,
});
export const ItemSchema = Type.Object(
  {
    product_id: Text('Your identifier of the product.', 'mug', { minLength: 1, maxLength: 100 }),
    name: Text('Name of the product, as customers see it.', 'Mug', { minLength: 1, maxLength: 250 }),
    quantity: CountField('How many of it, from 1 to 1000000.', 2, { minimum: 1, maximum: 1_000_000 }),
    unit_price: Amount('Price of one, in US dollars or in `currency_fiat`: 0 or more, with at most the decimals of the currency.', 12.5),
  },
  { description: 'A line of the order.', examples: [{ product_id: 'mug', name: 'Mug', quantity: 2, unit_price: 12.5 }] },
);
export const CreateAdvanced = Type.Object({
  return_url: ReturnUrl,
  items: Type.Array(ItemSchema, {
    minItems: 1,
    maxItems: 100,
    description: 'What is sold. The payment is for the sum of quantity times unit price, plus tax.',
  }),
  tax: Amount('Tax on the whole order, in US dollars or in `currency_fiat`: 0 or more, with at most the decimals of the currency.', 2),
  currency_fiat: Type.Optional(
    FiatCode(
      'Currency of the unit prices and the tax (ISO 4217). Defaults to USD. The total is converted to US dollars when the payment is created, rounded up to a cent.',
      'EUR',
    ),
  ),
  ...common,
});
export const CreateLegacy = Type.Object({
  amount: Amount('Amount in the coin of the payment, above 0. It stays fixed, whatever the exchange rate does.', '0.00026289'),
  currency: Type.Optional(CoinField('Coin of the amount. Defaults to the merchant’s default coin.')),
  network: WhichNetwork(OnlyNetwork),
  redirect_url: Type.Optional(ReturnUrl),
  ...common,
});
const simulate = (fallback: string) =>
  Type.Optional(
    Flag(
      `Test keys only, with a coin: whether opening \`payment_url\` pays the payment. Without it, the page waits until you pick a scenario there. Defaults to ${fallback}. Link previews never pay.`,
      true,
    ),
  );
export const CreateTransaction = Type.Object({
  crypto: CoinField('Coin that the customer pays in.'),
  network: WhichNetwork('If the coin is on several networks and you name none, the customer chooses one.'),
  amount: Amount('Amount in `currency_fiat`, with at most its number of decimals: two for EUR, none for JPY, three for KWD.'),
  currency_fiat: CurrencyFiat,
  return_url: Type.Optional(ReturnUrl),
  simulate: simulate('true'),
  ...common,
});
export const CreatePayment = Type.Object({
  amount: Amount('Amount in `currency`, above 0, with at most its number of decimals.', '25.50'),
  currency: Text(
    'Currency of the amount: a currency such as `USD` or `EUR`, whose worth the customer pays in a coin, or a coin such as `BTC`, which stays fixed whatever the exchange rate does. In upper or lower case.',
    'EUR',
    { minLength: 1, maxLength: 10 },
  ),
  crypto: Type.Optional(
    Text('Coin that the customer pays in, if you choose it. Not with an amount in a coin. In upper or lower case.', 'BTC', {
      minLength: 1,
      maxLength: 10,
    }),
  ),
  network: WhichNetwork('Network of the coin. If the coin in `crypto` is on several networks and you name none, the customer chooses one.'),
  return_url: Type.Optional(ReturnUrl),
  simulate: simulate('false'),
  ...common,
});
export const Cancel = Type.Object({
  shop: StatedShop,
  only_if_unpaid: Type.Optional(
    Type.Boolean({
      description: 'Cancel only if no money has arrived, not even unconfirmed or too little. Defaults to false.',
      examples: [true],
    }),
  ),
});
export const Resolve = Type.Object({
  action: OneOf(
    'ResolveAction',
    '`accept` counts the transfers as payment, `reject` closes the matter, `refund_sent` also records that you sent the money back.',
    'accept',
  ),
  transfers: Type.Optional(
    Type.Array(Text('The `ref` of a transfer.', `${TXID}:0`, { maxLength: 200 }), {
      minItems: 1,
      maxItems: 100,
      description: 'The transfers that the decision is about. Defaults to all of them; for `accept`, to all that were not refunded.',
    }),
  ),
  shop: StatedShop,
});
export const UpdateMetadata = Type.Object({
  metadata: Type.Record(Type.String(), Type.Union([Type.String({ maxLength: 500 }), Type.Null()]), {
    description: 'Merged into the metadata of the payment. A key with the value null is removed.',
    examples: [{ order: 'A-1001', note: null }],
  }),
  shop: StatedShop,
});
export const Simulate = Type.Object({
  scenario: OneOf('Scenario', 'What the simulated customer and network do.', 'success'),
  currency: Type.Optional(CoinField('Coin to pay in, when none is chosen yet. Defaults to BTC.')),
  network: WhichNetwork(OnlyNetwork),
});
export const AdvanceClock = Type.Object({
  seconds: CountField('How far to move the clock forward, in seconds: up to 90 days.', 600, { minimum: 1, maximum: 7_776_000 }),
  payment_id: Type.Optional(
    Text('Move the clock of this payment only. Defaults to all of test mode.', 'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye', { maxLength: 60 }),
  ),
});
export const Empty = Type.Object({}, { description: 'No parameters.' });

export const ListQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'),
  ending_before: Type.Optional(
    Text(
      'A cursor: the `id` of the first row of the next page. The page ends before it. Cannot be combined with `starting_after`.',
      'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye',
    ),
  ),
  status: Type.Optional(OneOf('PaymentStatus', 'Only payments in this status.', 'pending')),
  currency: Type.Optional(CoinField('Only payments in this coin.')),
  network: Type.Optional(NetworkId('Only payments on this network.')),
  invoice_id: Type.Optional(Text('Only payments with exactly this invoice or order number.', 'A-1001', { minLength: 1, maxLength: 100 })),
  metadata: Type.Optional(
    Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 500 }), {
      description: 'Only payments with all of these pairs in their metadata, exactly. Written as `metadata[key]=value`, up to 10 times.',
      examples: [{ order: 'A-1001' }],
    }),
  ),
  customer: Type.Optional(
    Text('Only payments of the customer with this ID.', 'cus_Kd1Ye4fTq0ZcJb8sWn2LxR7v', { minLength: 1, maxLength: 60 }),
  ),
  amount: Type.Optional(Text('Only payments of exactly this price in US dollars.', '25.50')),
  created_after: Type.Optional(
    Text(
      'Only payments created at or after this time: a date (its start in UTC), or a time with its offset from UTC.',
      '2026-11-21T00:00:00Z',
    ),
  ),
  created_before: Type.Optional(Text('Only payments created before this time, written like `created_after`.', '2026-11-22')),
});
export const TransfersQuery = Type.Object({
  limit: Limit,
  starting_after: Type.Optional(
    Text('A cursor: the `ref` of the last transfer of the previous page. The page starts after it.', `${TXID}:0`, { maxLength: 200 }),
  ),
});

// Responses

const Id = PaymentId('Identifier of the payment.');
const TransactionId = PaymentId('The same as `id`.');
const Status = OneOf(
  'PaymentStatus',
  '`pending`: waiting for money. `processing`: received, waiting for confirmations. `completed`: paid. `expired`: nothing arrived in time. `cancelled`: by you or the customer. `failed`: too little arrived.',
  'pending',
);
const CreatedStatus = OneOf('PaymentStatus', 'Always `pending` when a payment is created.', 'pending');
const PaymentUrl = Text('Payment page: send the customer here.', 'https://pay.example/pay?id=pay_4fTq0ZcJb8sWn2LxR7vKd1Ye');
const AmountUsd = Decimal('Requested amount, in US dollars.', '25.50');
const CreatedAt = Time('When the payment was created.');
const ExpiresAt = Time('When the customer can no longer pay on time.', '2026-11-21T11:00:00.000Z');
const CoinAmount = 'in the coin of the payment';

export const WarningSchema = Type.Object(
  {
    code: literals(['no_payable_currency'] as const, {
      description: 'What the warning is about, for your code.',
      examples: ['no_payable_currency'],
    }),
    message: Text('What is wrong and where to fix it, for people.', 'No customer could pay this payment now.'),
    doc_url: Text('The guide to what is missing.', 'https://pay.example/docs/guides/going-live'),
  },
  { description: 'Something that you should know although the request succeeded.' },
);
const CREATED = {
  success: Success,
  transaction_id: TransactionId,
  id: Id,
  payment_url: PaymentUrl,
  amount_usd: AmountUsd,
  items_count: Type.Optional(CountField('Number of item lines. Only for payments created with items.', 2)),
  expires_at: ExpiresAt,
  status: CreatedStatus,
  mode: ModeField,
};
export const Created = Type.Object({
  ...CREATED,
  warnings: Type.Optional(
    Type.Array(WarningSchema, {
      description:
        'What you should know although the request succeeded. `no_payable_currency`: no customer could pay this payment now, because no coin has a wallet, a synced node and a price, or because the amount is too small. Absent when there is nothing to warn about, and in test mode.',
    }),
  ),
});
/** When a created payment lacks what follows from its network. */
const NetworkLater =
  'Null only if the coin is on several networks and the request names none: the customer then chooses the network on the payment page.';
export const TransactionCreated = Type.Object({
  ...CREATED,
  amount: OrNull(Decimal('An amount.', '0.00026289'), `Amount to pay, ${CoinAmount}, at the current rate. ${NetworkLater}`),
  currency: CoinField('Coin to pay in.'),
  network: OrNull(NetworkId('A network.'), `Network to pay on. ${NetworkLater}`),
  payment_address: OrNull(
    Text('An address.', 'test_btc_success'),
    `Address to pay to. In test mode a test identifier, which cannot receive money. ${NetworkLater}`,
  ),
  amount_fiat: Decimal('Requested amount, in `currency_fiat`.', '25.50'),
  currency_fiat: OneOf('FiatCurrency', 'Currency of `amount_fiat`.', 'USD'),
  fiat_rate: OrNull(Decimal('A rate.', '0.92165000'), 'Units of `currency_fiat` for one US dollar. Null when the currency is USD.'),
  fiat_rate_source: OrNull(
    Text('Names of sources.', 'coinbase, kraken'),
    'Sources that agreed on the rate. Null when the currency is USD.',
  ),
  fiat_rate_at: OrNull(Time('A time.'), 'When the rate was valid. Null when the currency is USD.'),
  created_at: CreatedAt,
  quote_expires_at: OrNull(
    Time('A time.', '2026-11-21T10:15:00.000Z'),
    `Until when the coin amount is fixed. It can be renewed on the payment page. ${NetworkLater}`,
  ),
});
export const LegacyCreated = Type.Object({
  id: Id,
  transaction_id: TransactionId,
  status: CreatedStatus,
  amount: Decimal(`Amount to pay, ${CoinAmount}.`, '0.00026289'),
  currency: CoinField('Coin to pay in.'),
  network: NetworkId('Network to pay on.'),
  payment_address: Text('Address to pay to. In test mode a test identifier, which cannot receive money.', 'test_btc_success'),
  payment_url: PaymentUrl,
  created_at: CreatedAt,
  expires_at: ExpiresAt,
  mode: ModeField,
});
export const TransferSchema = Type.Object(
  {
    ref: Text(
      'Identifies the transfer when you resolve a payment. Several outputs of one transaction to one payment are one transfer, named after the first.',
      `${TXID}:0`,
    ),
    transaction_hash: OrNull(
      Text('A hash.', TXID),
      'Transaction that made the transfer. Null when the network does not tell which one it was.',
    ),
    currency: ArrivedCoinField('Coin that arrived. Also one that you cannot request, which a customer sent by mistake.'),
    network: NetworkId('Network that it arrived on.'),
    amount: Decimal('Amount in `currency`.', '0.00026289'),
    amount_usd: OrNull(Decimal('An amount.', '25.50'), 'Worth in US dollars. Null until there is a price for it.'),
    kind: Text(
      'How it arrived. `output`, `coinbase` (a mining reward) or `pegout` (from Litecoin’s MWEB) on the Bitcoin family; `direct`, `internal` (by a contract) or `delta` (a change of balance) on Ethereum.',
      'output',
    ),
    first_seen_at: Time('When the transfer was first seen.'),
    block_height: OrNull(CountField('A height.', 925_000), 'Height of its block. Null until it is in a block.'),
    block_hash: OrNull(Text('A hash.', BLOCK), 'Hash of its block. Null until it is in a block.'),
    replaced_by: OrNull(Text('A hash.', TXID), 'Transaction that spent the same money instead. Null when there is none.'),
  },
  { description: 'Money that arrived for a payment in one transaction.' },
);
export const PaidItem = Type.Object(
  {
    product_id: Text('Your identifier of the product.', 'mug'),
    name: Text('Name of the product.', 'Mug'),
    quantity: CountField('How many of it.', 2),
    unit_price: Decimal('Price of one, in US dollars, or in `currency_fiat` if the payment has it.', '12.50'),
  },
  { description: 'A line of the order.' },
);
/** What arrived and does not count. */
const Held = {
  amount_held: Decimal(
    `What is on hold: it arrived late, after a cancel, or after you rejected or refunded a transfer, and does not count until you accept it, ${CoinAmount}. \`0\` until a coin is chosen.`,
    '0.00000000',
  ),
  amount_held_usd: OrNull(
    Decimal('An amount.', '0.00'),
    'What is on hold in all coins, in US dollars. Null while a part of it has no price yet.',
  ),
};

const CustomerFields = {
  id: Text('Identifier of the customer.', 'cus_Kd1Ye4fTq0ZcJb8sWn2LxR7v'),
  email: OrNull(Text('An address.', 'ada@example.com'), 'Email address. Null when you gave none.'),
  name: OrNull(Text('A name.', 'Ada Lovelace'), 'Name. Null when you gave none.'),
  reference: OrNull(Text('A text.', 'C-1001'), 'Your own ID of the customer. Null when you gave none.'),
};
export const PaymentCustomer = Type.Object(CustomerFields, { description: 'The customer of a payment.' });
const WhoseCustomer = OrNull(
  PaymentCustomer,
  'Who the payment is for. In the reply to its creation and the events of that moment, as you named the customer then; later, as the newest payment named the customer. Null when nobody was named, and after the data was erased.',
);
export const CustomerItem = Type.Object(
  {
    ...CustomerFields,
    mode: ModeField,
    paid_usd: Decimal('What the customer paid in total, in US dollars: completed payments, less what the network took back.', '125.50'),
    created_at: Time('When the first payment named the customer.'),
  },
  { description: 'A customer, whom one or more payments name.' },
);
export const CustomerReply = Type.Object({ success: Success, ...CustomerItem.properties });
export const CustomerList = Type.Object({
  success: Success,
  data: Type.Array(CustomerItem, { description: 'The customers, newest first.' }),
  has_more: HasMore,
});
export const CustomersQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('cus_Kd1Ye4fTq0ZcJb8sWn2LxR7v'),
  email: Type.Optional(Text('Only customers with this email address, in upper or lower case.', 'ada@example.com')),
  reference: Type.Optional(Text('Only the customer with exactly this reference.', 'C-1001')),
});

export const DetailSchema = Type.Object(
  {
    id: Id,
    transaction_id: TransactionId,
    status: Status,
    mode: ModeField,
    amount: OrNull(
      Decimal('An amount.', '0.00026289'),
      `Amount to pay, ${CoinAmount}, at the current rate. Null until the customer chooses a coin.`,
    ),
    amount_received: Decimal(
      `What arrived for the payment, ${CoinAmount}: it is in a block or locked by the network, also if it came late or after the payment was canceled. \`amount_held\` is the part that does not count until you decide. \`0\` until a coin is chosen.`,
      '0.00026289',
    ),
    amount_announced: Decimal(
      `What was announced and is in no block yet, ${CoinAmount}. It may never arrive, so it is not part of \`amount_received\`.`,
      '0.00000000',
    ),
    amount_remaining: OrNull(Decimal('An amount.', '0.00026289'), `What is still missing, ${CoinAmount}. Null until a coin is chosen.`),
    amount_overpaid: Decimal(`What arrived beyond the amount, ${CoinAmount}.`, '0.00000000'),
    amount_dust: Decimal(`What arrived in transfers that are too small to count, ${CoinAmount}.`, '0.00000000'),
    ...Held,
    amount_refunded: Decimal(
      `What refunds created here have returned, ${CoinAmount}. \`0\` until a coin is chosen. Refunds that are not sent yet do not count.`,
      '0.00000000',
    ),
    accepted_short: OrNull(
      Decimal('An amount.', '0.00000210'),
      `What is missing although the payment counts as paid, ${CoinAmount}: it is within your tolerance, or you accepted it. Null when nothing is missing.`,
    ),
    accepted_short_usd: OrNull(Decimal('An amount.', '0.20'), 'The same in US dollars. Null when nothing is missing.'),
    amount_usd: AmountUsd,
    amount_received_usd: Decimal(
      'All that the chain credits to the payment, in any coin, in US dollars at the rates that applied.',
      '25.50',
    ),
    currency: OrNull(ArrivedCoinField('A coin.'), 'Coin of the payment. Null until the customer chooses one.'),
    network: OrNull(NetworkId('A network.'), 'Network of the payment. Null until the customer chooses a coin.'),
    description: OrNull(Text('A text.', 'Two mugs'), 'What the payment is for. Null when you gave none.'),
    payment_address: OrNull(
      Text('An address.', 'test_btc_success'),
      'Address to pay to. In test mode a test identifier, which cannot receive money. Null until a coin is chosen.',
    ),
    derivation_path: OrNull(
      Text('A path.', '0/17'),
      'Path of the address below the account key of your wallet, so that you can verify that the address is yours. Null in test mode and until a coin is chosen.',
    ),
    payment_url: PaymentUrl,
    transaction_hash: OrNull(
      Text('A hash.', TXID),
      'Transaction that paid; of several the first one that counts, otherwise the first that arrived. Null until something arrives.',
    ),
    confirmations: CountField('Confirmations of the transfer that has the fewest of those that count. 0 until one is in a block.', 1),
    confirmations_required: OrNull(
      CountField('A number.', 1),
      'Confirmations after which the payment completes. Null until a coin is chosen, and where `completion_rule` is not about their number.',
    ),
    completion_rule: OrNull(
      OneOf('CompletionRule', 'A rule.', 'confirmations'),
      'What completes the payment: a number of confirmations, a Dash lock, or Ethereum’s safe or finalized block. Null until a coin is chosen.',
    ),
    verified_by: OrNull(
      OneOf('Verifier', 'A verifier.', 'proof_of_work'),
      'What vouches for the blocks of the transfers that count: `proof_of_work` or `sync_committee`, which Florin checked, `node`, your own node, or `providers`, two providers that agree. Null until all of them are in a block or locked, in test mode, and for payments from before this was recorded.',
    ),
    exception: OrNull(
      OneOf('PaymentException', 'An exception.', 'underpaid'),
      'What is unusual about the payment; of several the gravest. Null when nothing is.',
    ),
    exceptions: Type.Array(OneOf('PaymentException', 'An exception.', 'underpaid'), {
      description: 'Everything that is unusual about the payment, the gravest first. Empty when nothing is.',
    }),
    hold_reason: OrNull(
      Text('A reason.', 'a deep reorganization'),
      'Why the payment is not completed although it has enough confirmations, in words. Null when nothing holds it.',
    ),
    invoice_id: OrNull(Text('A number.', 'INV-1001'), 'Your invoice or order number. Null when you gave none.'),
    replaces: OrNull(
      PaymentId('A payment.'),
      'The payment that this one took the place of: you named it, or the customer started again on the page. Null when there is none.',
    ),
    replaced_by: OrNull(PaymentId('A payment.'), 'The payment that took the place of this one. Null when there is none.'),
    created_with: OneOf(
      'KeyKind',
      'Kind of API key that created it. Do not trust amounts of payments created with a public key unchecked.',
      'secret',
    ),
    created_at: CreatedAt,
    completed_at: OrNull(Time('A time.'), 'When the payment was completed. Null until then.'),
    expires_at: ExpiresAt,
    quote_expires_at: OrNull(
      Time('A time.'),
      'Until when the coin amount is fixed. Null until a coin is chosen, and for payments of a fixed coin amount.',
    ),
    return_url: OrNull(Text('A URL.', 'https://shop.example/thanks'), 'Where the customer returns to. Null when you gave none.'),
    items: Type.Optional(Type.Array(PaidItem, { description: 'The lines of the order. Only for payments created with items.' })),
    items_count: Type.Optional(CountField('Number of lines. Only for payments created with items.', 2)),
    tax: Type.Optional(
      Decimal('Tax in US dollars, or in `currency_fiat` if the payment has it. Only for payments created with items.', '0.00'),
    ),
    amount_fiat: Type.Optional(
      Decimal('Requested amount, in `currency_fiat`. Only for payments priced in another currency than USD.', '25.50'),
    ),
    currency_fiat: Type.Optional(
      OneOf('FiatCurrency', 'Currency of `amount_fiat`. Only for payments priced in another currency than USD.', 'EUR'),
    ),
    fiat_rate: Type.Optional(
      Decimal(
        'Units of `currency_fiat` for one US dollar when the payment was created. Only for payments priced in another currency than USD.',
        '0.92165000',
      ),
    ),
    fiat_rate_source: Type.Optional(
      Text('Sources that agreed on the rate. Only for payments priced in another currency than USD.', 'coinbase, kraken'),
    ),
    fiat_rate_at: Type.Optional(Time('When the rate was valid. Only for payments priced in another currency than USD.')),
    transfers: Type.Array(TransferSchema, {
      description: `What arrived, in the order in which it was first seen. When there are more than ${SHOWN_TRANSFERS}, the largest are shown here and GET /v1/payments/{id}/transfers lists all.`,
    }),
    transfers_count: CountField('Number of all transfers, including those that are not shown here.', 1),
    metadata: Type.Record(Type.String(), Type.String(), {
      description: 'Your own data. Empty when you gave none.',
      examples: [{ order: 'A-1001' }],
    }),
    customer: WhoseCustomer,
  },
  { description: 'A payment, as every request about one returns it.' },
);
export const TransferList = Type.Object({
  success: Success,
  data: Type.Array(TransferSchema, { description: 'The transfers, in the order in which they were first seen.' }),
  has_more: HasMore,
});
export const ListItemSchema = Type.Object(
  {
    transaction_id: TransactionId,
    id: Id,
    status: Status,
    amount_usd: AmountUsd,
    currency: OrNull(ArrivedCoinField('A coin.'), 'Coin of the payment. Null until the customer chooses one.'),
    network: OrNull(NetworkId('A network.'), 'Network of the payment. Null until the customer chooses a coin.'),
    created_at: CreatedAt,
    completed_at: OrNull(Time('A time.'), 'When the payment was completed. Null until then.'),
    mode: ModeField,
    exception: OrNull(
      OneOf('PaymentException', 'An exception.', 'underpaid'),
      'What is unusual about the payment; of several the gravest. Null when nothing is.',
    ),
    invoice_id: OrNull(Text('A number.', 'INV-1001'), 'Your invoice or order number. Null when you gave none.'),
    description: OrNull(Text('A text.', 'Two mugs'), 'What the payment is for. Null when you gave none.'),
    ...Held,
    customer: WhoseCustomer,
  },
  { description: 'A payment in a list. Retrieve it by its `id` for everything else.' },
);
export const List = Type.Object({
  success: Success,
  data: Type.Array(ListItemSchema, { description: 'The payments, newest first.' }),
  has_more: HasMore,
  total_count: CountField(
    'Number of all payments that match, not only those on this page. Exact for `status`, `currency` and `network`; with any other filter it is counted up to 10,000.',
    1,
  ),
  total_count_capped: Type.Optional(Flag('True when more payments match than `total_count` says. Absent otherwise.', true)),
});
export const ClockReply = Type.Object({
  success: Success,
  now: Time('What the clock shows now.', '2026-11-21T10:10:00.000Z'),
  offset_seconds: CountField('How far the clock is ahead of real time, in seconds.', 600),
});
