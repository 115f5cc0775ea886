/** Examples for the API document: for each operation the valid requests and one reply. The ids are the same throughout. */
import { API_VERSION, type EventType, TEST_EVENT } from '#core/event';
import { explainUnreached } from '#core/unreached';

export const EXAMPLE_PAYMENT_ID = 'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye';
export const EVENT_ID = 'evt_8sWn2LxR7vKd1Ye4fTq0ZcJb';
export const ENDPOINT_ID = 'we_2LxR7vKd1Ye4fTq0ZcJb8sWn';
export const DELIVERY_ID = 'del_0ZcJb8sWn2LxR7vKd1Ye4fTq';
export const RECOVERY_ID = 'rec_1Ye4fTq0ZcJb8sWn2LxR7vKd';
const REQUEST_ID = 'req_7vKd1Ye4fTq0ZcJb8sWn2LxR';
const KEY_ID = 'key_1Ye4fTq0ZcJb8sWn2LxR7vKd';
export const PAYOUT_ID = 'po_Ye4fTq0ZcJb8sWn2LxR7vKd1';
export const REFUND_ID = 'ref_Ye4fTq0ZcJb8sWn2LxR7vKd1';
export const CUSTOMER_ID = 'cus_Kd1Ye4fTq0ZcJb8sWn2LxR7v';
export const LINK_ID = 'lnk_Ye4fTq0ZcJb8sWn2LxR7vKd1';
export const TXID = '5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060';
const URL_OF_PAGE = `https://pay.example/pay?id=${EXAMPLE_PAYMENT_ID}`;
const at = (minute: number): string => `2026-11-21T10:${String(minute).padStart(2, '0')}:00.000Z`;
const RETURN_URL = 'https://shop.example/thanks';

const CUSTOMER = { id: CUSTOMER_ID, email: 'ada@example.com', name: 'Ada Lovelace', reference: 'C-1001' };
const customer = { ...CUSTOMER, mode: 'test', paid_usd: '125.50', created_at: at(0) };
const link = {
  id: LINK_ID,
  mode: 'test',
  name: 'Two mugs',
  amount: '25.50',
  currency: 'EUR',
  reusable: true,
  return_url: RETURN_URL,
  ask_email: false,
  state: 'active',
  payments: 0,
  payment_id: null as string | null,
  url: `https://pay.example/link/${LINK_ID}`,
  created_at: at(0),
};
const pending = {
  id: EXAMPLE_PAYMENT_ID,
  transaction_id: EXAMPLE_PAYMENT_ID,
  status: 'pending',
  mode: 'test',
  amount: null,
  amount_received: '0',
  amount_announced: '0',
  amount_remaining: null,
  amount_overpaid: '0',
  amount_dust: '0',
  amount_held: '0',
  amount_held_usd: '0.00',
  amount_refunded: '0',
  accepted_short: null,
  accepted_short_usd: null,
  amount_usd: '25.50',
  amount_received_usd: '0.00',
  currency: null,
  network: null,
  description: 'Two mugs',
  payment_address: null,
  derivation_path: null,
  payment_url: URL_OF_PAGE,
  transaction_hash: null,
  confirmations: 0,
  confirmations_required: null,
  completion_rule: null,
  verified_by: null,
  exception: null,
  exceptions: [],
  hold_reason: null,
  invoice_id: null,
  replaces: null,
  replaced_by: null,
  created_with: 'secret',
  created_at: at(0),
  completed_at: null,
  expires_at: '2026-11-21T11:00:00.000Z',
  quote_expires_at: null,
  return_url: RETURN_URL,
  transfers: [],
  transfers_count: 0,
  metadata: { order: 'A-1001' },
  customer: null as typeof CUSTOMER | null,
};
const chosen = {
  ...pending,
  amount: '0.00026289',
  amount_received: '0.00000000',
  amount_announced: '0.00000000',
  amount_remaining: '0.00026289',
  amount_overpaid: '0.00000000',
  amount_dust: '0.00000000',
  amount_held: '0.00000000',
  amount_refunded: '0.00000000',
  currency: 'BTC',
  network: 'bitcoin',
  payment_address: 'test_btc_success',
  derivation_path: null,
  confirmations_required: 1,
  completion_rule: 'confirmations',
  quote_expires_at: at(16),
};
const transfer = {
  ref: `${TXID}:0`,
  transaction_hash: TXID,
  currency: 'BTC',
  network: 'bitcoin',
  amount: '0.00026289',
  amount_usd: '25.50',
  kind: 'output',
  first_seen_at: at(2),
  block_height: null,
  block_hash: null,
  replaced_by: null,
};
const processing = {
  ...chosen,
  status: 'processing',
  amount_announced: '0.00026289',
  amount_remaining: '0.00000000',
  transaction_hash: TXID,
  transfers: [transfer],
  transfers_count: 1,
};
const mined = { ...transfer, block_height: 925_000, block_hash: '00000000000000000001a7c09e7e5b7f0f3c7b4a9d2e6f1a8b5c4d3e2f1a0b9c' };
const completed = {
  ...processing,
  status: 'completed',
  amount_received: '0.00026289',
  amount_announced: '0.00000000',
  amount_received_usd: '25.50',
  confirmations: 1,
  completed_at: at(12),
  transfers: [mined],
  transfers_count: 1,
};
const half = { ...transfer, amount: '0.00013144', amount_usd: '12.75' };
const underpaid = {
  ...chosen,
  amount_announced: '0.00013144',
  amount_remaining: '0.00013145',
  transaction_hash: TXID,
  exception: 'underpaid',
  exceptions: ['underpaid'],
  transfers: [half],
  transfers_count: 1,
};
const expired = { ...pending, status: 'expired' };
const late = {
  ...expired,
  ...chosen,
  status: 'expired',
  amount_received: '0.00026289',
  amount_held: '0.00026289',
  amount_held_usd: '25.50',
  amount_received_usd: '25.50',
  transaction_hash: TXID,
  exception: 'late',
  exceptions: ['late'],
  confirmations: 1,
  transfers: [{ ...mined, first_seen_at: '2026-11-21T11:05:00.000Z' }],
  transfers_count: 1,
};

/** The block with its only transfer was replaced, and the new block does not contain the transfer. */
const reversed = {
  ...completed,
  confirmations: 0,
  exception: 'reorged',
  exceptions: ['reorged'],
  transfers: completed.transfers.map((one) => ({ ...one, block_height: null, block_hash: null })),
};

const event = (type: EventType, minute: number, sequence: number, payment: object) => ({
  id: EVENT_ID,
  type,
  created_at: at(minute),
  mode: 'test',
  api_version: API_VERSION,
  data: { ...payment, sequence },
});
const REFUND_ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
const refund = {
  id: REFUND_ID,
  payment_id: EXAMPLE_PAYMENT_ID,
  status: 'requested',
  mode: 'test',
  amount: '0.00010309',
  currency: 'BTC',
  network: 'bitcoin',
  amount_usd: '10.00',
  rate: 'payment',
  address: null,
  invoice_expires_at: null,
  claim_url: 'https://pay.example/claim/4fTq0ZcJb8sWn2LxR7vKd1Ye8sWn2LxR',
  claim_expires_at: '2026-12-21T10:20:00.000Z',
  reason: 'Broken mug',
  transaction_hash: null,
  failure: null,
  created_at: at(20),
  approved_at: null,
  sent_at: null,
  ended_at: null,
};
/** The example of BOLT 11. */
const REFUND_INVOICE =
  'lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpquwpc4curk03c9wlrswe78q4eyqc7d8d0xqzpu9qrsgqhtjpauu9ur7fw2thcl4y9vfvh4m9wlfyz2gem29g5ghe2aak2pm3ps8fdhtceqsaagty2vph7utlgj48u0ged6a337aewvraedendscp573dxr';
const NEW_LINK = 'https://pay.example/claim/Wn2LxR7vKd1Ye8sWn2LxR4fTq0ZcJb8s';
const approved = { ...refund, status: 'approved', address: REFUND_ADDRESS, approved_at: at(25) };
const sent = { ...approved, status: 'sent', transaction_hash: TXID, sent_at: at(30) };
/** Events leave out the link of the claim page. */
const inEvent = (of: typeof refund | typeof approved | typeof sent) => ({ ...of, claim_url: null });
const payout = {
  id: PAYOUT_ID,
  payout_reference: 'salary-2026-11-ada',
  status: 'requested',
  mode: 'test',
  amount: '0.00103093',
  currency: 'BTC',
  network: 'bitcoin',
  amount_usd: '100.00',
  address: REFUND_ADDRESS,
  description: 'November, Ada',
  batch_id: null,
  transaction_hash: null,
  failure: null,
  created_at: at(20),
  approved_at: null,
  sent_at: null,
  ended_at: null,
};
const approvedPayout = { ...payout, status: 'approved', approved_at: at(25) };
const sentPayout = { ...approvedPayout, status: 'sent', transaction_hash: TXID, sent_at: at(30) };
/** One body for each event type. */
export const EVENT_EXAMPLES: Readonly<Record<EventType | typeof TEST_EVENT, object>> = {
  'payment.created': event('payment.created', 0, 1, pending),
  'payment.processing': event('payment.processing', 2, 2, processing),
  'payment.completed': event('payment.completed', 12, 3, completed),
  'payment.failed': event('payment.failed', 59, 3, { ...underpaid, status: 'failed' }),
  'payment.expired': event('payment.expired', 59, 2, expired),
  'payment.cancelled': event('payment.cancelled', 5, 2, { ...pending, status: 'cancelled' }),
  'payment.updated': event('payment.updated', 2, 2, underpaid),
  'payment.reversed': event('payment.reversed', 43, 4, reversed),
  'refund.requested': event('refund.requested', 20, 4, inEvent(refund)),
  'refund.approved': event('refund.approved', 25, 5, inEvent(approved)),
  'refund.sent': event('refund.sent', 30, 6, inEvent(sent)),
  'refund.confirmed': event('refund.confirmed', 45, 7, { ...inEvent(sent), status: 'confirmed', ended_at: at(45) }),
  'refund.failed': event('refund.failed', 45, 7, {
    ...inEvent(sent),
    status: 'failed',
    failure: 'replaced by another transaction',
    ended_at: at(45),
  }),
  'refund.canceled': event('refund.canceled', 22, 5, { ...inEvent(refund), status: 'canceled', ended_at: at(22) }),
  'payout.requested': event('payout.requested', 20, 1, payout),
  'payout.approved': event('payout.approved', 25, 2, approvedPayout),
  'payout.sent': event('payout.sent', 30, 3, sentPayout),
  'payout.confirmed': event('payout.confirmed', 45, 4, { ...sentPayout, status: 'confirmed', ended_at: at(45) }),
  'payout.failed': event('payout.failed', 45, 4, {
    ...sentPayout,
    status: 'failed',
    failure: 'another transaction spent the money',
    ended_at: at(45),
  }),
  'payout.canceled': event('payout.canceled', 22, 2, { ...payout, status: 'canceled', ended_at: at(22) }),
  'webhook.test': {
    id: EVENT_ID,
    type: TEST_EVENT,
    created_at: at(0),
    mode: 'test',
    api_version: API_VERSION,
    data: { endpoint_id: ENDPOINT_ID },
  },
};

const created = {
  success: true,
  transaction_id: EXAMPLE_PAYMENT_ID,
  id: EXAMPLE_PAYMENT_ID,
  payment_url: URL_OF_PAGE,
  amount_usd: '25.50',
  expires_at: pending.expires_at,
  status: 'pending',
  mode: 'test',
};
const fee = (rate: number, minutes: string, total: string, usd: string) => ({
  fee_per_byte: rate,
  estimated_confirmation: `${minutes} minutes`,
  total_fee_btc: total,
  total_fee: total,
  total_fee_usd: usd,
  source: 'estimate',
});
const price = (usd: number, change: number) => ({
  usd,
  change_24h: change,
  change_from: 'sources',
  as_of: at(0),
  sources: ['coinbase', 'kraken', 'bitfinex'],
});

const endpoint = {
  success: true,
  id: ENDPOINT_ID,
  url: 'https://shop.example/hook',
  events: ['*'],
  description: null,
  enabled: true,
  disabled_reason: null,
  failing_since: null,
  previous_secret_expires_at: null,
  mode: 'test',
  created_at: at(0),
};
const delivery = {
  id: DELIVERY_ID,
  event_id: EVENT_ID,
  event_type: 'payment.completed',
  endpoint_id: ENDPOINT_ID,
  payment_id: EXAMPLE_PAYMENT_ID,
  mode: 'test',
  state: 'pending',
  attempt_count: 1,
  created_at: at(12),
  delivered_at: null,
  next_attempt_at: at(13),
};
const deliveryDetail = {
  success: true,
  ...delivery,
  request_body: JSON.stringify(EVENT_EXAMPLES['payment.completed']),
  attempts: [
    {
      number: 1,
      at: at(12),
      duration_ms: 84,
      url: endpoint.url,
      status: 503,
      failure: 'status_503',
      reason: 'server_error',
      message: explainUnreached('server_error')!.words,
      advice: explainUnreached('server_error')!.advice,
      address: '203.0.113.7',
      request_headers: {
        'Content-Type': 'application/json',
        'User-Agent': 'Florin-Webhooks/1',
        'X-Service-Signature': '3f1c4bb0c1f7c9b0a2f0f4b5d8c6a7e9d2b1c0f3e4a5968778695a4b3c2d1e0f',
        'webhook-id': EVENT_ID,
        'webhook-timestamp': '1795255920',
        'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
      },
      response_body: 'down for maintenance',
    },
  ],
};
const recovery = {
  success: true,
  id: RECOVERY_ID,
  endpoint_id: ENDPOINT_ID,
  status: 'queueing',
  since: '2026-11-21T08:00:00.000Z',
  created_at: at(30),
  total: 120,
  queued: 0,
  delivered: 0,
  failed: 0,
};
const CONNECTION = { reached: true, address: '203.0.113.7', reason: null, message: null, advice: null };
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=';

type Example = { requests?: Readonly<Record<string, object>>; reply: object };
/** By operation. */
export const EXAMPLES: Readonly<Record<string, Example>> = {
  createLegacy: {
    requests: {
      default: { amount: '0.00026289', description: 'Two mugs', redirect_url: RETURN_URL },
      coin: { amount: '1.25', currency: 'LTC' },
    },
    reply: {
      id: EXAMPLE_PAYMENT_ID,
      transaction_id: EXAMPLE_PAYMENT_ID,
      status: 'pending',
      amount: '0.00026289',
      currency: 'BTC',
      payment_address: 'test_btc_success',
      payment_url: URL_OF_PAGE,
      created_at: at(0),
      expires_at: pending.expires_at,
      mode: 'test',
      network: 'bitcoin',
    },
  },
  createSimple: {
    requests: {
      default: { amount_usd: 25.5, return_url: RETURN_URL },
      text: { amount_usd: '25.50', return_url: RETURN_URL, description: 'Two mugs', metadata: { order: 'A-1001' }, expires_in: 1800 },
      test: { amount_usd: 25.5, return_url: RETURN_URL, payment_address: 'test_btc_success' },
    },
    reply: created,
  },
  createAdvanced: {
    requests: {
      default: {
        return_url: RETURN_URL,
        items: [{ product_id: 'mug', name: 'Mug', quantity: 2, unit_price: 12.5 }],
        tax: 0.5,
        invoice_id: 'INV-1001',
      },
    },
    reply: { ...created, items_count: 1 },
  },
  readPayment: { reply: completed },
  readPayments: {
    reply: {
      success: true,
      data: [
        {
          transaction_id: EXAMPLE_PAYMENT_ID,
          id: EXAMPLE_PAYMENT_ID,
          status: 'completed',
          amount_usd: '25.50',
          currency: 'BTC',
          network: 'bitcoin',
          created_at: at(0),
          completed_at: at(12),
          mode: 'test',
          exception: null,
          invoice_id: null,
          description: 'Two mugs',
          amount_held: '0.00000000',
          amount_held_usd: '0.00',
          customer: CUSTOMER,
        },
      ],
      has_more: false,
      total_count: 1,
    },
  },
  listPayments: { reply: { success: true, data: [{ ...completed, refunds: [refund] }], has_more: false, total_count: 1 } },
  retrievePayment: { reply: { ...completed, refunds: [refund] } },
  readPrices: { reply: { success: true, timestamp: at(0), prices: { BTC: price(97_000, -1.25), LTC: price(100, 0.4) } } },
  readBalance: {
    reply: {
      success: true,
      address: 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq',
      currency: 'BTC',
      balance: '0.50000000',
      balance_usd: '48500.00',
      unconfirmed_balance: '0.00000000',
      total_received: '0.75000000',
      total_sent: '0.25000000',
      transaction_count: 3,
    },
  },
  readFees: {
    reply: {
      success: true,
      currency: 'BTC',
      timestamp: at(0),
      fee_unit: 'sat/vB',
      typical_size: 141,
      fees: {
        fast: fee(20, '10-20', '0.00002820', '2.74'),
        normal: fee(10, '30-60', '0.00001410', '1.37'),
        slow: fee(5, '120-240', '0.00000705', '0.68'),
      },
    },
  },
  readTransaction: {
    reply: {
      success: true,
      txid: TXID,
      currency: 'BTC',
      status: 'confirmed',
      confirmations: 3,
      block_height: mined.block_height,
      block_hash: mined.block_hash,
      timestamp: '2026-11-21T10:12:00.000Z',
      amount: '0.49990000',
      fee: '0.00010000',
      inputs: [{ address: 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq', amount: '0.50000000' }],
      outputs: [{ address: '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2', amount: '0.49990000' }],
    },
  },
  createPayment: {
    requests: {
      default: { amount: '25.50', currency: 'EUR', customer: { email: 'ada@example.com', name: 'Ada Lovelace', reference: 'C-1001' } },
      coin: { amount: '25.50', currency: 'USD', crypto: 'BTC' },
      fixed: { amount: '0.0005', currency: 'BTC' },
    },
    reply: { ...pending, customer: CUSTOMER },
  },
  createTransaction: {
    requests: {
      default: { crypto: 'BTC', amount: 25.5, currency_fiat: 'USD' },
      euro: { crypto: 'BTC', amount: '25.50', currency_fiat: 'EUR' },
      test: { crypto: 'LTC', amount: '10.00', currency_fiat: 'USD', payment_address: 'test_ltc_failed' },
    },
    reply: {
      ...created,
      amount: '0.00026289',
      currency: 'BTC',
      network: 'bitcoin',
      payment_address: 'test_btc_success',
      amount_fiat: '25.50',
      currency_fiat: 'USD',
      fiat_rate: null,
      fiat_rate_source: null,
      fiat_rate_at: null,
      created_at: at(0),
      quote_expires_at: at(15),
    },
  },
  updatePayment: { requests: { default: { metadata: { order: 'A-1001', note: null } } }, reply: pending },
  readTransfers: { reply: { success: true, data: [mined], has_more: false } },
  cancel: { requests: { default: {} }, reply: { ...pending, status: 'cancelled' } },
  resolve: {
    requests: { default: { action: 'accept' }, named: { action: 'reject', transfers: [`${TXID}:0`] }, refunded: { action: 'refund_sent' } },
    reply: late,
  },
  createPaymentLink: {
    requests: {
      default: { name: 'Two mugs', amount: '25.50', currency: 'EUR', return_url: RETURN_URL },
      open: { name: 'Donation', currency: 'USD' },
    },
    reply: { success: true, ...link, warnings: [] },
  },
  readPaymentLinks: { reply: { success: true, data: [link], has_more: false } },
  readPaymentLink: { reply: { success: true, ...link, payments: 3, payment_id: EXAMPLE_PAYMENT_ID } },
  updatePaymentLink: {
    requests: { default: { state: 'archived' }, price: { amount: '27.00' }, open: { amount: null } },
    reply: { success: true, ...link, state: 'archived' },
  },
  readCustomers: { reply: { success: true, data: [customer], has_more: false } },
  readCustomer: { reply: { success: true, ...customer } },
  createRefund: {
    requests: {
      default: { payment_id: EXAMPLE_PAYMENT_ID },
      price: { payment_id: EXAMPLE_PAYMENT_ID, amount: '10.00', currency_fiat: 'USD', reason: 'Broken mug' },
      address: { payment_id: EXAMPLE_PAYMENT_ID, amount_usd: '10.00', rate: 'current', address: REFUND_ADDRESS },
      coin: { payment_id: EXAMPLE_PAYMENT_ID, amount: '0.00010309' },
    },
    reply: { success: true, ...refund },
  },
  readRefunds: { reply: { success: true, data: [refund], has_more: false } },
  readRefund: { reply: { success: true, ...sent, payment: completed } },
  renewClaimLink: {
    requests: { default: {} },
    reply: { success: true, ...refund, claim_url: NEW_LINK, claim_expires_at: '2027-01-20T10:20:00.000Z' },
  },
  proveRefund: {
    requests: { default: { preimage: '0001020304050607080900010203040506070809000102030405060708090102' } },
    reply: {
      success: true,
      ...{
        ...refund,
        network: 'lightning',
        address: REFUND_INVOICE,
        invoice_expires_at: '2026-11-22T10:20:00.000Z',
        status: 'confirmed',
        approved_at: at(25),
      },
      ...{ transaction_hash: '0001020304050607080900010203040506070809000102030405060708090102', sent_at: at(30), ended_at: at(30) },
    },
  },
  cancelRefund: { requests: { default: {} }, reply: { success: true, ...refund, status: 'canceled', ended_at: at(22) } },
  createPayout: {
    requests: {
      default: {
        currency: 'BTC',
        amount: '0.00103093',
        address: REFUND_ADDRESS,
        payout_reference: 'salary-2026-11-ada',
        description: 'November, Ada',
      },
      price: { currency: 'BTC', amount_usd: '100.00', address: REFUND_ADDRESS },
    },
    reply: { success: true, ...payout },
  },
  readPayouts: { reply: { success: true, data: [payout], has_more: false } },
  readPayout: { reply: { success: true, ...sentPayout } },
  cancelPayout: { requests: { default: {} }, reply: { success: true, ...payout, status: 'canceled', ended_at: at(22) } },
  readEvents: { reply: { success: true, data: [EVENT_EXAMPLES['payment.created']], has_more: false } },
  readEvent: { reply: EVENT_EXAMPLES['payment.completed'] },
  createWebhookEndpoint: {
    requests: {
      default: { url: 'https://shop.example/hook', events: ['*'], description: 'Orders', enabled: true },
      some: { url: 'https://shop.example/hook', events: ['payment.completed', 'payment.updated'] },
    },
    reply: { ...endpoint, description: 'Orders', secret: SECRET, connection: CONNECTION, same_url: [] },
  },
  readWebhookEndpoints: { reply: { success: true, data: [endpoint], has_more: false } },
  readWebhookEndpoint: { reply: endpoint },
  updateWebhookEndpoint: {
    requests: { default: { events: ['payment.completed'], description: null }, disable: { enabled: false }, enable: { enabled: true } },
    reply: { ...endpoint, events: ['payment.completed'], connection: null, same_url: [] },
  },
  deleteWebhookEndpoint: { reply: { success: true, id: ENDPOINT_ID, deleted: true } },
  rotateWebhookSecret: {
    requests: { default: {}, week: { expires_in: 604_800 }, at_once: { expires_in: 0 } },
    reply: { ...endpoint, previous_secret_expires_at: '2026-11-22T10:00:00.000Z', secret: SECRET },
  },
  testWebhookEndpoint: {
    requests: { default: {} },
    reply: {
      ...deliveryDetail,
      event_type: TEST_EVENT,
      payment_id: null,
      attempt_count: 0,
      request_body: JSON.stringify(EVENT_EXAMPLES['webhook.test']),
      attempts: [],
    },
  },
  recoverWebhookEndpoint: { requests: { default: { since: recovery.since } }, reply: recovery },
  readWebhookRecovery: { reply: { ...recovery, status: 'delivering', queued: 120, delivered: 87 } },
  readWebhookDeliveries: { reply: { success: true, data: [delivery], has_more: false } },
  readWebhookDelivery: { reply: deliveryDetail },
  resendWebhookDelivery: { requests: { default: {} }, reply: deliveryDetail },
  readRequests: {
    reply: {
      success: true,
      data: [
        {
          id: REQUEST_ID,
          mode: 'test',
          created_at: at(1),
          method: 'POST',
          path: '/api/payment/create/simple',
          query: null,
          status: 400,
          error_code: 'amount_invalid',
          key_id: KEY_ID,
          duration_ms: 4,
          has_idempotency_key: false,
          ip: '203.0.113.7',
          request_body: '{"amount_usd":0,"return_url":"https://shop.example/thanks"}',
          response_body: null,
          ignored_parameters: [],
          omitted: 0,
        },
      ],
      has_more: false,
    },
  },
  simulate: { requests: { default: { scenario: 'success' }, coin: { scenario: 'overpaid', currency: 'LTC' } }, reply: chosen },
  advance: {
    requests: { default: { seconds: 600 }, payment: { seconds: 600, payment_id: EXAMPLE_PAYMENT_ID } },
    reply: { success: true, now: at(10), offset_seconds: 600 },
  },
};
