/** A payment as read: its facts, what follows from them, and what was requested. All replies, events and pages are built from it. */

import type { Asset, ChainId, Coin } from './coin.ts';
import type { Fiat } from './fiat.ts';
import type { PaymentFacts, Quote, Settlement, Transfer } from './payment.ts';
import type { Scenario } from './simulated.ts';

/** `unitPriceMinor` is in the smallest units of the currency that the payment is priced in: cents, or those of `fiat`. */
export type PaymentItem = { productId: string; name: string; quantity: bigint; unitPriceMinor: bigint };

/** What the merchant requested, returned unchanged. */
export type PaymentRequest = {
  returnUrl: string | null;
  description: string | null;
  items: readonly PaymentItem[] | null;
  /** In the smallest units of the currency that the payment is priced in. */
  taxMinor: bigint | null;
  /** A price in another currency: the rate (`rateE8` units per US dollar), its sources and its time. Null for US dollars. */
  fiat: { amount: string; currency: Fiat; rateE8: bigint; source: string; at: string } | null;
  locale: string | null;
  /** What the payer must pay in, on a network of their choice. Null if it may be anything. */
  asset: Asset | null;
  /** The payment that this one takes the place of. */
  replaces?: string | null;
  /** Of a payment that the plugin of a shop requested. */
  shop?: ShopTerms;
};

/** What the plugin of a shop asked for. The return URL of its payments is used as it is. */
export type ShopTerms = {
  /** What the payer may choose from; null for everything the merchant offers. */
  coins: readonly Coin[] | null;
  /** Whether the payer returns automatically once the amount has arrived. */
  autoReturn: boolean;
  /** Origins of the shop, which may show the page in a frame. */
  origins: readonly string[];
  /** Where the payer goes who does not pay; null: to the return URL, once the payment has ended. */
  cancelUrl?: string | null;
};

/** How many transfers a payment shows: its body then stays far below the 100 kB that web frameworks accept by default. */
export const SHOWN_TRANSFERS = 50;

export type PaymentView = {
  merchantId: string;
  sequence: bigint;
  /** Increases with every change a payer can see. */
  version: bigint;
  facts: PaymentFacts;
  settlement: Settlement;
  /** In the order of first sight; if there are more than `SHOWN_TRANSFERS`, those of the largest worth. */
  transfers: readonly Transfer[];
  /** Of all transfers. */
  transfersCount: number;
  /** The current quote of the shown coin; null before a coin is chosen. */
  quote: Quote | null;
  /** Of the shown address, below the wallet's account key; null in test mode and before a coin is chosen. */
  derivationPath: string | null;
  request: PaymentRequest;
  invoiceId: string | null;
  metadata: Readonly<Record<string, string>>;
  /** Who it is for; null if nobody was named. */
  customer: Customer | null;
  /** What refunds have returned, in the coin of the payment. */
  refundedUnits: bigint;
  createdWith: 'secret' | 'public';
  /** The payment that took its place. */
  replacedBy: string | null;
  /** Test identifier chosen at creation, and what can be simulated next. */
  scenario: { coin: Coin; name: string } | null;
  nextScenarios: readonly Scenario[];
  eventCount: bigint;
  /** The payment's current time: the database clock plus the test offsets. */
  now: Date;
};

/** Why a coin cannot be chosen now: no reliable price, no node, or the amount is below what the network relays. */
export type UnavailableReason = 'price' | 'network' | 'small';

/** What a network usually costs the payer: its fee in US cents, and the seconds until the payment is confirmed. */
export type Costs = { feeUsdCents: number; seconds: number };

/** What the hosted page may see. */
export type CustomerView = PaymentView & {
  merchant: {
    name: string;
    /** Where customers reach the merchant. */
    contact: string | null;
    accent: string | null;
    theme: 'system' | 'light' | 'dark';
    /** Hash in the URL of the logo. */
    logo: string | null;
    locale: string | null;
    /** Origins that may show the page in a frame. */
    origins: readonly string[];
    autoReturn: boolean;
    /** Whether the payer may cancel, and restart a payment that ended without money. */
    payerCancel: boolean;
    /** Whether the screen stays on while the QR code is shown. */
    kiosk: boolean;
  };
  /**
   * Every coin, and why it cannot be chosen; null when it can. `least` is the smallest price that a coin carries when this one is too small
   * for it. `estimateUnits` is null without a price, `costs` for chains that are not an alternative to another.
   */
  coins: readonly {
    coin: Coin;
    unavailable: UnavailableReason | null;
    least: { currency: Fiat; minor: bigint } | null;
    estimateUnits: bigint | null;
    sample: boolean;
    costs: Costs | null;
  }[];
  /** The chains on which money for its address is found, whatever was asked for. */
  watched: readonly ChainId[];
  refundAddress: { coin: Coin; address: string } | null;
};

/** A reply rendered inside the transaction of its effect, so that both are stored together. */
export type RenderedReply = { status: number; body: string | Uint8Array };
export type ReplayableReply = RenderedReply & { replayed: boolean };
/** Claim of an Idempotency-Key: hash of its scope and value, and of the canonical request body. */
export type IdempotencyClaim = { claim: Uint8Array; fingerprint: Uint8Array };

/** What a request says about a customer. It has an email address or a reference. */
export type NamedCustomer = { email: string | null; name: string | null; reference: string | null };
export type Customer = NamedCustomer & { id: string };
