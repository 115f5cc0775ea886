/** A payment as read: its facts, what follows from them, and what was asked for. All replies, events and pages are made from it. */
import type { Scenario } from '../chains/simulated.ts';
import type { Coin } from '../core/coin.ts';
import type { PaymentFacts, Quote, Settlement, Transfer } from '../core/payment.ts';

/** `unitPriceMinor` is in the smallest units of the currency that the payment is priced in: cents, or those of `fiat`. */
export type PaymentItem = { productId: string; name: string; quantity: bigint; unitPriceMinor: bigint };

/** What the merchant asked for, shown again as given. */
export type PaymentRequest = {
  returnUrl: string | null;
  description: string | null;
  items: readonly PaymentItem[] | null;
  /** In the smallest units of the currency that the payment is priced in. */
  taxMinor: bigint | null;
  /** A price in another currency: `rateE8` units of it made one US dollar, by whom and when. Null for US dollars. */
  fiat: { amount: string; currency: string; rateE8: bigint; source: string; at: string } | null;
  locale: string | null;
};

/** How many of its transfers a payment shows: a body with so many stays far below the 100 kB that web frameworks take by default. */
export const SHOWN_TRANSFERS = 50;

export type PaymentView = {
  merchantId: string;
  sequence: bigint;
  /** Grows with every change a payer can see. */
  version: bigint;
  facts: PaymentFacts;
  settlement: Settlement;
  /** In the order of first sight; where there are more than `SHOWN_TRANSFERS`, those of the largest worth. */
  transfers: readonly Transfer[];
  /** Of all transfers. */
  transfersCount: number;
  /** The quote of the shown coin, as it stands; null before a coin is chosen. */
  quote: Quote | null;
  /** Of the address shown, below the wallet's account key; null in test mode and before a coin is chosen. */
  derivationPath: string | null;
  request: PaymentRequest;
  invoiceId: string | null;
  metadata: Readonly<Record<string, string>>;
  createdWith: 'secret' | 'public';
  /** Test identifier chosen at creation, and what can be simulated next. */
  scenario: { coin: Coin; name: string } | null;
  nextScenarios: readonly Scenario[];
  eventCount: bigint;
  /** The payment's own present: the database clock plus the test offsets. */
  now: Date;
};

/** Why a coin cannot be chosen now: no trustworthy price, no node, or the amount is below what the network carries. */
export type Unavailable = 'price' | 'network' | 'small';

/** What the hosted page may see. */
export type CustomerView = PaymentView & {
  merchant: {
    name: string;
    supportContact: string | null;
    accent: string | null;
    theme: 'system' | 'light' | 'dark';
    /** Hash the logo is served under. */
    logo: string | null;
    locale: string | null;
    /** Who may show the page in a frame. */
    origins: readonly string[];
    autoReturn: boolean;
    /** Whether the payer may cancel, and start a payment that ended without money again. */
    payerCancel: boolean;
    /** Whether the screen stays on while the QR code shows. */
    kiosk: boolean;
  };
  /** Every coin with why it cannot be chosen, null when it can. `estimateUnits` is null without a price. */
  coins: readonly { coin: Coin; unavailable: Unavailable | null; estimateUnits: bigint | null; sample: boolean }[];
  refundAddress: { coin: Coin; address: string } | null;
};

/** A reply rendered inside the transaction of its effect, so that both are stored together. */
export type Rendered = { status: number; body: string | Uint8Array };
export type Outcome = Rendered & { replayed: boolean };
/** Claim of an Idempotency-Key: hash of its scope and value, and of the canonical request body. */
export type IdempotencyClaim = { claim: Uint8Array; fingerprint: Uint8Array };
