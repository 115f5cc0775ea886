/** Every state of the page with sample payments: shown at `/_states` during development and in the preview of the dashboard, and used by the tests of the page. */

import { addressOfScript } from '#addresses';
import {
  ALL_COINS,
  ASSET,
  CHAIN,
  CHAINS,
  type ChainId,
  COIN,
  COINS,
  type Coin,
  type ConfirmationTier,
  chainOf,
  type Family,
  kindOf,
  LIGHTNING,
  NATIVE_COINS,
  NETWORKS,
  type Network,
} from '#core/coin';
import { addMs, MINUTE_MS } from '#core/dates';
import type { LOCALES } from '#core/locales';
import { dueUnit, quoteUnits, worthUsdE8 } from '#core/money';
import type { Decision, PaymentFacts, PaymentStatus, Quote, Tip, Tips, Transfer } from '#core/payment';
import type { CustomerView, PaymentItem } from '#core/payment-view';
import { settle } from '#core/settle';
import { SCENARIOS, type Scenario } from '#core/simulated';
import { costsOf } from '#payments';
import type { PageState } from './page.ts';
import type { FormFault, PageOptions } from './parts.ts';
import { languageOf } from './words.ts';

const priceOf = (coin: Coin): bigint => ASSET[COIN[coin].asset].sampleE8;
/** Addresses of test networks, so that nobody loses money by paying a screenshot. */
const ADDRESSES: Readonly<Partial<Record<Family, string>>> = {
  BTC: 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx',
  ETH: '0x52908400098527886E0F7030069857D2E4169EE7',
  LTC: 'tltc1qw508d6qejxtdg4y5r3zarvary0c5xw7klfsuq0',
  DASH: 'yWdXnYxGbouNoo8yMvcbZmZ3Gdp6BpySxL',
  DOGE: 'nkafWeaWKrAQFpJ5Dz2j1tLYtnCtJq7YDK',
};
const PAID_SCRIPT = `76a914${'11'.repeat(20)}88ac`;
/** A coin without an example gets an address that belongs to nobody. */
/** An invoice of a private network, which nobody can pay. */
const INVOICE =
  'lnbcrt250u1p4sjf47dqvdaexgetjyqmsnp4q2yg7t3a7dqayyjq7a56lkpe8r7urpur2emf4tnyzsvgpkqsccwuupp50zm08338pmw0xzqqlq702dufuedmq9274s6qu44zhqp96rhlkmgqsp5vh03hnpdsv9lp546qut2jk37wngfvepeumja9d7unevy4c2m4q7s9qyysgqcqpcxqzuyrzjqd2l353r3gez694kq27se64dtvqsr8as2kt3a2kuexefyf4ymfkzxqqqqyqqp5cqqvqqqqlgqqqqqqqqfqdjgspjund7tes2ecz3283w235d8vhu88w2kqpwjcxe7rku4y4rksg9emey7r6v8a45f6l96j0qk6rwejnh8z8pd8uqpm2llf3pugukcqn8nyee';
const addressFor = (coin: Coin): string =>
  coin === LIGHTNING
    ? INVOICE
    : (ADDRESSES[COIN[coin].family] ?? addressOfScript(PAID_SCRIPT, { coin, network: 'regtest' }) ?? `0x${'11'.repeat(20)}`);
const TXID = '6f1c0a52d9e84b3f7a21c5e09b8d4f6e3a7c2b1d0f9e8d7c6b5a49382716051a';
const ITEMS: readonly PaymentItem[] = [
  { productId: 'mug', name: 'Mug, hand-made', quantity: 2n, unitPriceMinor: 1_150n },
  { productId: 'beans', name: 'Coffee beans, 1 kg', quantity: 1n, unitPriceMinor: 2_400n },
];

type SampleTransfer = { share: readonly [part: bigint, of: bigint]; minutesAgo: number; confirmations?: number; more?: Partial<Transfer> };
type Story = {
  state: PageState;
  coin?: Coin;
  status?: PaymentStatus;
  mode?: 'live' | 'test';
  /** Minutes since creation, and since each rate was fixed. */
  age?: number;
  quotes?: readonly { minutesAgo: number; priceE8?: bigint }[];
  /** Whether an invoice can be paid instead. */
  beside?: boolean;
  paid?: readonly SampleTransfer[];
  decisions?: readonly Decision[];
  merchant?: Partial<CustomerView['merchant']>;
  coins?: CustomerView['coins'];
  request?: Partial<CustomerView['request']>;
  refundAddress?: CustomerView['refundAddress'];
  usdCents?: bigint;
  extendedUntil?: Date;
  rateLockUntil?: Date;
  windowSeconds?: number;
  fault?: FormFault;
  /** Whether the merchant sent everything back. */
  refunded?: boolean;
  /** Of a test payment: what can be simulated next. */
  next?: readonly Scenario[];
};

const coinsAt = (usdCents: bigint): CustomerView['coins'] => choicesOf(NATIVE_COINS, usdCents);
const choicesOf = (offered: readonly Coin[], usdCents: bigint): CustomerView['coins'] =>
  offered.map((coin) => ({
    coin,
    unavailable: null,
    least: null,
    estimateUnits: quoteUnits(coin, usdCents, priceOf(coin)),
    sample: false,
    costs: costsOf({ targetUsdCents: usdCents, rules: RULES } as PaymentFacts, coin, new Map()),
  }));
type Reasons = Readonly<Partial<Record<Coin, CustomerView['coins'][number]['unavailable']>>>;
const without = (coins: CustomerView['coins'], reasons: Reasons): CustomerView['coins'] =>
  coins.map((one) => {
    const unavailable = reasons[one.coin];
    const least = unavailable === 'small' ? { currency: 'USD' as const, minor: 530n } : null;
    return unavailable ? { ...one, unavailable, least, estimateUnits: null } : one;
  });
const part = (coin: Coin, units: bigint, [share, of]: SampleTransfer['share']): bigint =>
  ((units * share) / of / dueUnit(coin)) * dueUnit(coin);

/** Minutes before the time at which the state is shown. */
type Before = (minutes: number) => Date;
/** A fixture with dates in it has a fixed time. */
type StorySource = Story | ((before: Before) => Story);

const RULES: PaymentFacts['rules'] = {
  windowSeconds: 3_600,
  rateLockSeconds: 900,
  toleranceBasisPoints: 100,
  toleranceCapUsdCents: 500n,
  lateAcceptMinutes: null,
  protectionHours: 24,
  protectionLargeHours: 2,
  protectionLargeUsdCents: 100_000n,
  adjustments: {},
  priceSource: null,
  confirmations: Object.fromEntries(ALL_COINS.map((c) => [c, chainOf(c).confirmations])) as Record<Coin, readonly ConfirmationTier[]>,
};
const HEIGHT = 1_000;
const tipsAt = (now: Date): Tips => {
  const none = { safeHeight: null, finalizedHeight: null, chainlockHeight: null, holdReason: null };
  const tip: Tip = { height: HEIGHT, hash: TXID, scannedThrough: now, ...none };
  return Object.fromEntries(ALL_COINS.map((c) => [c, tip]));
};
const MERCHANT: CustomerView['merchant'] = {
  name: 'Corner Coffee',
  contact: 'help@shop.example',
  accent: null,
  theme: 'system',
  logo: null,
  locale: null,
  origins: [],
  autoReturn: false,
  payerCancel: false,
  kiosk: false,
};
const REQUEST: CustomerView['request'] = {
  returnUrl: 'https://shop.example/thanks',
  description: null,
  items: null,
  taxMinor: null,
  fiat: null,
  locale: null,
  asset: null,
};
const USD_CENTS = 5_250n;

/** The quotes of a story; a story with a coin has one from two minutes before. */
function quotesOf(story: Story, before: Before): Quote[] {
  const { coin, usdCents = USD_CENTS, mode = 'live', quotes, beside } = story;
  if (!coin) return [];
  if (beside) return [...quotesOf({ state: story.state, coin: LIGHTNING }, before), ...quotesOf({ state: story.state, coin }, before)];
  return (quotes ?? [{ minutesAgo: 2 }]).map(({ minutesAgo, priceE8 = priceOf(coin) }) => ({
    coin,
    address: mode === 'test' ? `test_${coin.toLowerCase()}_success` : addressFor(coin),
    rateE8: priceE8,
    units: quoteUnits(coin, usdCents, priceE8),
    from: before(minutesAgo),
    until: addMs(before(minutesAgo), 15 * MINUTE_MS),
  }));
}

/** What was paid, each as a share of the last quote. */
function transfersOf({ paid = [] }: Story, quote: Quote | null, before: Before): Transfer[] {
  if (!quote) return [];
  const { coin } = quote;
  const isAccount = kindOf(coin) === 'ethereum';
  return paid.map(({ share, minutesAgo, confirmations = 0, more }, index) => {
    const units = part(coin, quote.units, share);
    return {
      coin,
      ref: `${TXID}:${index}`,
      txid: `${isAccount ? '0x' : ''}${TXID.slice(0, 62)}${String(index).padStart(2, '0')}`,
      address: addressFor(coin),
      units,
      kind: isAccount ? 'direct' : 'output',
      firstSeenAt: before(minutesAgo),
      values: [{ usdE8: worthUsdE8(coin, units, quote.rateE8!), at: before(minutesAgo), basis: 'quote', reason: 'first_sight' }],
      block: confirmations > 0 ? { height: HEIGHT + 1 - confirmations, hash: TXID, time: before(minutesAgo) } : null,
      lock: null,
      absentSince: null,
      conflict: null,
      unminedSince: null,
      disputedSince: null,
      ...more,
    };
  });
}

function factsOf(story: Story, quotes: readonly Quote[], before: Before): PaymentFacts {
  const { age = 5, usdCents = USD_CENTS, mode = 'live', status = 'pending' } = story;
  return {
    id: `pay_${mode === 'test' ? 'Test' : 'Live'}4fTq0ZcJb8sWn2LxR7vK`,
    mode,
    createdAt: before(age),
    targetUsdCents: usdCents,
    fixed: null,
    rules: { ...RULES, windowSeconds: story.windowSeconds ?? RULES.windowSeconds },
    extendedUntil: story.extendedUntil ?? null,
    rateLockUntil: story.rateLockUntil ?? null,
    quotes,
    decisions: story.decisions ?? [],
    status,
    exceptions: [],
    completedAt: status === 'completed' ? before(1) : null,
  };
}

/** A view as the service would build it at that time: the facts are given, everything else is derived. */
function viewOf(story: Story, now: Date, before: Before): CustomerView {
  const quotes = quotesOf(story, before);
  const quote = quotes.at(-1) ?? null;
  const transfers = transfersOf(story, quote, before);
  const facts = factsOf(story, quotes, before);
  const settlement = settle(facts, transfers, tipsAt(now), now);
  return {
    merchantId: 'mer_4fTq0ZcJb8sWn2LxR7vKd1Ye',
    sequence: 1n,
    version: 1n,
    facts: { ...facts, exceptions: settlement.exceptions },
    settlement,
    transfers,
    transfersCount: transfers.length,
    quote,
    request: { ...REQUEST, ...story.request },
    invoiceId: null,
    metadata: {},
    refundedUnits: story.refunded ? settlement.receivedUnits : 0n,
    createdWith: 'secret',
    replacedBy: null,
    customer: null,
    derivationPath: null,
    scenario: null,
    nextScenarios: facts.mode === 'live' ? [] : (story.next ?? []),
    eventCount: 1n,
    now,
    merchant: { ...MERCHANT, ...story.merchant },
    coins: story.coins ?? coinsAt(facts.targetUsdCents),
    refundAddress: story.refundAddress ?? null,
    watched: CHAINS.filter((chain) => CHAIN[chain].kind === 'ethereum'),
  };
}

const all: readonly [bigint, bigint] = [1n, 1n];
const half: readonly [bigint, bigint] = [1n, 2n];
const over = { age: 70, quotes: [{ minutesAgo: 65 }] } as const;
const awaiting = (coin: Coin): Story => ({ state: 'awaiting', coin });

/** All of the price, in another coin at the same address. */
const wrongStory = (state: 'wrong_network' | 'wrong_token'): Story => {
  const token: Coin = 'USDC@ethereum';
  const tokens = COINS.filter((one) => COIN[one].family === COIN[token].family && COIN[one].decimals === COIN[token].decimals);
  const isThere = (one: Coin) => (COIN[one].chain === COIN[token].chain) === (state === 'wrong_token');
  const other = tokens.find((one) => one !== token && isThere(one));
  const [asked, coin]: [Coin, Coin] = other ? [token, other] : ['BTC', token];
  return { state, coin: asked, paid: [{ share: all, minutesAgo: 1, confirmations: 3, more: { coin, units: 52_500_000n } }] };
};

const STORIES = {
  choose: { state: 'choose', request: { items: ITEMS, taxMinor: 550n } },
  'choose, with Lightning': { state: 'choose', coins: choicesOf([...NATIVE_COINS, LIGHTNING], 5_250n) },
  'choose, with stablecoins': { state: 'choose', coins: choicesOf(COINS, 5_250n) },
  'choose, two coins away': {
    state: 'choose',
    coins: without(coinsAt(5_250n), { ETH: 'price', DASH: 'network' }),
  },
  'choose, small amount': {
    state: 'choose',
    usdCents: 50n,
    coins: without(coinsAt(50n), { BTC: 'small' }),
  },
  unavailable: { state: 'unavailable', coins: coinsAt(5_250n).map((c) => ({ ...c, unavailable: 'network', estimateUnits: null })) },
  'unavailable, no contact': { state: 'unavailable', coins: [], merchant: { contact: null }, request: { returnUrl: null } },
  'unavailable, amount too small': {
    state: 'unavailable',
    usdCents: 1n,
    coins: without(coinsAt(1n), Object.fromEntries(NATIVE_COINS.map((coin) => [coin, 'small']))),
  },
  'choose, one coin': { state: 'choose', coins: coinsAt(5_250n).slice(0, 1), request: { description: 'Order 1001, two mugs' } },
  'choose, priced in euros': (before) => ({
    state: 'choose',
    request: { fiat: { amount: '48.30', currency: 'EUR', rateE8: 92_000_000n, source: 'ecb', at: before(2).toISOString() } },
  }),
  'choose, test': { state: 'choose', mode: 'test', coins: coinsAt(5_250n).map((c) => ({ ...c, sample: true })) },
  'awaiting BTC': awaiting('BTC'),
  'awaiting ETH': awaiting('ETH'),
  'awaiting LTC': awaiting('LTC'),
  'awaiting DASH': awaiting('DASH'),
  'awaiting DOGE': awaiting('DOGE'),
  'awaiting, token': awaiting('USDC@ethereum'),
  'awaiting Lightning': awaiting(LIGHTNING),
  'awaiting, with an invoice': { state: 'awaiting', coin: 'BTC', beside: true },
  'awaiting, rate renewed': {
    state: 'awaiting',
    coin: 'LTC',
    age: 20,
    quotes: [{ minutesAgo: 19, priceE8: 10_250_000_000n }, { minutesAgo: 1 }],
  },
  'awaiting, replaced': (before) => ({
    state: 'awaiting',
    coin: 'BTC',
    paid: [{ share: all, minutesAgo: 2, more: { conflict: { txid: TXID, height: 999, seenAt: before(1) } } }],
  }),
  'awaiting, own colors': {
    state: 'awaiting',
    coin: 'BTC',
    merchant: { name: 'Lemon Shop', accent: '#ffd500', contact: null },
  },
  'awaiting, until tomorrow': { state: 'awaiting', coin: 'BTC', windowSeconds: 86_400 },
  'awaiting, test': { state: 'awaiting', coin: 'BTC', mode: 'test', next: SCENARIOS },
  'underpaid, test': (before) => ({
    state: 'underpaid',
    coin: 'ETH',
    mode: 'test',
    paid: [{ share: half, minutesAgo: 1, confirmations: 40 }],
    extendedUntil: before(-59),
    next: ['success', 'overpaid', 'expired'],
  }),
  'expired, test': { state: 'expired', coin: 'LTC', mode: 'test', status: 'expired', ...over, next: ['late'] },
  'completed, test': {
    state: 'completed',
    coin: 'BTC',
    mode: 'test',
    status: 'completed',
    paid: [{ share: all, minutesAgo: 4, confirmations: 2 }],
  },
  'rate over': { state: 'rate_over', coin: 'BTC', age: 25, quotes: [{ minutesAgo: 20 }] },
  underpaid: (before) => ({
    state: 'underpaid',
    coin: 'BTC',
    paid: [{ share: half, minutesAgo: 1 }],
    extendedUntil: before(-59),
  }),
  'rate over, part paid': (before) => ({
    state: 'rate_over',
    coin: 'DOGE',
    age: 70,
    windowSeconds: 7_200,
    quotes: [{ minutesAgo: 66 }],
    paid: [{ share: half, minutesAgo: 63 }],
    extendedUntil: before(3),
  }),
  processing: { state: 'processing', coin: 'LTC', status: 'processing', paid: [{ share: all, minutesAgo: 6, confirmations: 2 }] },
  'processing, by lock': { state: 'processing', coin: 'DASH', status: 'processing', paid: [{ share: all, minutesAgo: 0 }] },
  'processing, block undone': (before) => ({
    state: 'processing',
    coin: 'BTC',
    status: 'processing',
    age: 100,
    quotes: [{ minutesAgo: 98 }],
    paid: [{ share: all, minutesAgo: 95, more: { unminedSince: before(70) } }],
  }),
  completed: { state: 'completed', coin: 'BTC', status: 'completed', paid: [{ share: all, minutesAgo: 4, confirmations: 2 }] },
  'completed, refunded': {
    state: 'completed',
    coin: 'BTC',
    status: 'completed',
    refunded: true,
    paid: [{ share: all, minutesAgo: 4, confirmations: 2 }],
  },
  overpaid: { state: 'overpaid', coin: 'BTC', status: 'completed', paid: [{ share: [3n, 2n], minutesAgo: 4, confirmations: 2 }] },
  'overpaid, wrong address': {
    state: 'overpaid',
    coin: 'ETH',
    status: 'completed',
    paid: [{ share: [3n, 2n], minutesAgo: 4, confirmations: 40 }],
    fault: { field: 'address', text: 'addressInvalid', given: { address: '0x123', email: 'payer@mail.example' } },
  },
  'overpaid, refund asked': {
    state: 'overpaid',
    coin: 'BTC',
    status: 'completed',
    paid: [{ share: [3n, 2n], minutesAgo: 4, confirmations: 2 }],
    refundAddress: { coin: 'BTC', address: 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl' },
  },
  reversed: (before) => ({
    state: 'reversed',
    coin: 'BTC',
    status: 'completed',
    paid: [{ share: all, minutesAgo: 40, more: { unminedSince: before(1) } }],
  }),
  expired: { state: 'expired', coin: 'BTC', status: 'expired', ...over },
  'expired, part paid': (before) => ({
    state: 'expired_partial',
    coin: 'LTC',
    status: 'failed',
    age: 130,
    quotes: [{ minutesAgo: 125 }],
    paid: [{ share: half, minutesAgo: 120, confirmations: 30 }],
    extendedUntil: before(60),
  }),
  late: { state: 'late', coin: 'BTC', status: 'expired', ...over, paid: [{ share: all, minutesAgo: 5, confirmations: 1 }] },
  'late, by weeks': {
    state: 'late',
    coin: 'BTC',
    status: 'expired',
    age: 30_070,
    quotes: [{ minutesAgo: 30_065 }],
    paid: [{ share: all, minutesAgo: 5, confirmations: 1 }],
  },
  'wrong network': wrongStory('wrong_network'),
  'wrong token': wrongStory('wrong_token'),
  'wrong token, expired': { ...wrongStory('wrong_token'), status: 'expired', ...over },
  cancelled: (before) => ({ state: 'cancelled', status: 'cancelled', decisions: [{ kind: 'cancel', at: before(2), transfers: [] }] }),
  'awaiting, may be cancelled': { state: 'awaiting', coin: 'LTC', merchant: { payerCancel: true } },
  'cancelled, may be paid again': (before) => ({
    state: 'cancelled',
    status: 'cancelled',
    decisions: [{ kind: 'cancel', at: before(2), transfers: [], byPayer: true }],
    merchant: { payerCancel: true },
  }),
  'cancelled, paid all the same': (before) => ({
    state: 'cancelled',
    coin: 'BTC',
    status: 'cancelled',
    decisions: [{ kind: 'cancel', at: before(2), transfers: [] }],
    paid: [{ share: all, minutesAgo: 1 }],
  }),
  failed: (before) => ({
    state: 'failed',
    coin: 'BTC',
    status: 'failed',
    ...over,
    paid: [{ share: all, minutesAgo: 60, more: { conflict: { txid: TXID, height: 999, seenAt: before(30) } } }],
  }),
} satisfies Readonly<Record<string, StorySource>>;

export type Fixture = { name: string; state: PageState; view: CustomerView; fault: FormFault | null };
/** Every state at a given time: near times stay near, regardless of the current date. */
export function fixturesAt(now: Date): readonly Fixture[] {
  const before: Before = (minutes) => addMs(now, -minutes * MINUTE_MS);
  return Object.entries(STORIES as Readonly<Record<string, StorySource>>).map(([name, told]) => {
    const story = typeof told === 'function' ? told(before) : told;
    return { name, state: story.state, view: viewOf(story, now, before), fault: story.fault ?? null };
  });
}

const MAINNET = Object.fromEntries(CHAINS.map((chain) => [chain, NETWORKS[0]])) as Readonly<Record<ChainId, Network>>;
/** A fixture as rendered in a language. */
export function fixtureOptions(fixture: Fixture, tag: keyof typeof LOCALES, ethChainId = 1): PageOptions {
  const language = languageOf(tag);
  const { fault } = fixture;
  return {
    language,
    chosen: null,
    ethChainId,
    networks: MAINNET,
    formToken: 'none',
    fault: fault && { ...fault, text: language.words.addressInvalid.replace('{coin}', fixture.view.settlement.coin ?? '') },
  };
}
