/** Schemas of the lookups: prices, balances, fees and on-chain transactions. */
import Type from 'typebox';
import { CoinField, CountField, Decimal, Flag, OneOf, OnlyNetwork, OrNull, Success, Text, Time, WhichNetwork } from './schema-fields.ts';

const TXID = '5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060';
const SIMULATED = 'True in test mode, where nothing is real. Absent in live mode.';

export const PricesQuery = Type.Object({
  currencies: Type.Optional(Text('Coins, separated by commas. Defaults to all five.', 'BTC,LTC')),
});
export const BalanceQuery = Type.Object({
  address: Text('Any address of the coin. In test mode also a test identifier.', 'test_btc_success'),
  currency: CoinField('Coin of the address.'),
  network: WhichNetwork(OnlyNetwork),
});
export const CoinQuery = Type.Object({ currency: CoinField('Coin to look up.'), network: WhichNetwork(OnlyNetwork) });

export const PriceSchema = Type.Object(
  {
    usd: Type.Number({ description: 'Price of one coin in US dollars.', examples: [97_000] }),
    change_24h: Type.Number({ description: 'Change over the last 24 hours, in percent. 0 when it is unknown.', examples: [-1.25] }),
    change_from: OneOf(
      'PriceChangeOrigin',
      'Where `change_24h` comes from: the price `sources`, the `history` kept here, or `none` when it is unknown.',
      'sources',
    ),
    as_of: Time('When the price was valid.'),
    sources: Type.Array(Text('Name of an exchange or index.', 'kraken'), { description: 'Sources that agreed on the price.' }),
    stale: Type.Optional(Flag('True when the price is older than 120 seconds. Absent otherwise.', true)),
    sample: Type.Optional(Flag('True for a round sample price, used in test mode without a price feed. Absent otherwise.', true)),
  },
  { description: 'The price of one coin.' },
);
export const PricesReply = Type.Object({
  success: Success,
  timestamp: Time('When the oldest of the prices was valid.'),
  prices: Type.Record(Type.String(), PriceSchema, { description: 'Prices by coin code.' }),
});
export const BalanceReply = Type.Object({
  success: Success,
  address: Text('The address asked about.', 'test_btc_success'),
  currency: CoinField('Coin of the address.'),
  balance: Decimal('Confirmed balance, in the coin.', '0.50000000'),
  balance_usd: Decimal('The same in US dollars at the current price.', '48500.00'),
  unconfirmed_balance: Decimal('Balance change that is not in a block yet, in the coin. May be negative.', '0.00000000'),
  total_received: Decimal('Everything the address ever received, in the coin.', '0.50000000'),
  total_sent: Decimal('Everything the address ever sent, in the coin.', '0.00000000'),
  transaction_count: CountField('Number of transactions of the address.', 1),
  source: Type.Optional(
    Type.Literal('ledger', {
      description:
        'Only for an address of your payments that no source could be asked about: it is what Florin recorded. Money that you moved without Florin may still be included.',
      examples: ['ledger'],
    }),
  ),
  simulated: Type.Optional(Flag(SIMULATED, true)),
});

const FeeTotal = (coin: string) => Type.Optional(Decimal(`The same as \`total_fee\`. Only when ${coin} was requested.`, '0.00001410'));
export const FeeEstimate = Type.Object(
  {
    fee_per_byte: Type.Number({ description: 'Fee rate, in `fee_unit`.', examples: [12.5] }),
    estimated_confirmation: Text('How long until the first confirmation, as a range in minutes.', '10-20 minutes'),
    total_fee_btc: FeeTotal('BTC'),
    total_fee_eth: FeeTotal('ETH'),
    total_fee_ltc: FeeTotal('LTC'),
    total_fee_dash: FeeTotal('DASH'),
    total_fee_doge: FeeTotal('DOGE'),
    total_fee: Decimal('Fee of a typical payment, in the coin.', '0.00001410'),
    total_fee_usd: Decimal('The same in US dollars at the current price.', '1.37'),
    source: Text(
      '`estimate`: by the node or server of the coin. `fallback`: it had no estimate, this is its minimum. `simulated`: test mode.',
      'estimate',
    ),
  },
  { description: 'The fee for one speed.' },
);
export const FeesReply = Type.Object({
  success: Success,
  currency: CoinField('Requested coin.'),
  timestamp: Time('When the estimate was made.'),
  fee_unit: Text('Unit of `fee_per_byte`: `sat/vB`, for ETH `gwei/gas`.', 'sat/vB'),
  typical_size: CountField('Size of a typical payment: virtual bytes, for ETH gas.', 141),
  fees: Type.Object({ fast: FeeEstimate, normal: FeeEstimate, slow: FeeEstimate }, { description: 'Estimates by speed.' }),
});

export const Party = Type.Object(
  {
    address: Text('Address; empty when the output has none.', 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq'),
    amount: Decimal('Amount in the coin.', '0.50000000'),
    type: Type.Optional(Text('What kind of output it is. Only when it has no address.', 'nulldata')),
  },
  { description: 'An input or output of a transaction.' },
);
export const TransactionReply = Type.Object({
  success: Success,
  txid: Text('Hash of the transaction.', TXID),
  currency: CoinField('Coin of the transaction.'),
  status: OneOf(
    'TransactionStatus',
    '`pending`: not in a block. `confirmed`: in a block. `failed`: in a block, but reverted (ETH). `replaced`: another transaction spent the same money.',
    'confirmed',
  ),
  confirmations: CountField('Number of blocks that confirm it. 0 when it is not in a block.', 3),
  block_height: OrNull(CountField('A height.', 925_000), 'Height of its block. Null when it is not in a block.'),
  block_hash: OrNull(Text('A hash.', TXID), 'Hash of its block. Null when it is not in a block.'),
  timestamp: OrNull(Time('A time.'), 'Time of its block. Null when it is not in a block.'),
  amount: Decimal('Sum of the outputs, for ETH the value sent, in the coin.', '0.49990000'),
  fee: OrNull(Decimal('An amount.', '0.00010000'), 'Fee that was paid, in the coin. Null when the inputs are unknown.'),
  inputs: OrNull(Type.Array(Party, { description: 'The inputs.' }), 'What the transaction spends. Null when the source does not know it.'),
  outputs: Type.Array(Party, {
    description: 'Who receives what. If only Florin’s own records have the transaction, what it paid to your payments.',
  }),
  simulated: Type.Optional(Flag(SIMULATED, true)),
});
