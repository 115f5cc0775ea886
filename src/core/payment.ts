/** The facts of a payment and their types. `settle.ts` decides what follows from them. */
import { ASSETS, type Asset, type Coin, type CompletionRule, type ConfirmationTier, type Mode } from './coin.ts';
import type { Fiat } from './fiat.ts';
import { asObject, asWhole } from './stored-json.ts';

export const PAYMENT_STATUSES = ['pending', 'processing', 'completed', 'expired', 'cancelled', 'failed'] as const;
export type PaymentStatus = (typeof PAYMENT_STATUSES)[number];

/** Most serious first: the first one present is the payment's `exception`. */
export const EXCEPTIONS = [
  'reorged',
  'replaced',
  'paid_after_cancel',
  'wrong_network',
  'wrong_token',
  'late',
  'underpaid',
  'overpaid',
] as const;
export type Exception = (typeof EXCEPTIONS)[number];
/** Money in a coin that was not asked for. It never counts on its own, at any time; the merchant may accept it while others still pay. */
export const WRONG_COIN = ['wrong_network', 'wrong_token'] as const satisfies readonly Exception[];
/** The exceptions whose money is on hold until the merchant decides. */
export const ON_HOLD = ['late', 'paid_after_cancel', ...WRONG_COIN] as const satisfies readonly Exception[];
export const hasWrongCoin = (exceptions: readonly Exception[]): boolean => WRONG_COIN.some((name) => exceptions.includes(name));

/** What a member can mark as handled, besides exceptions. */
export const REFUND_REQUEST = 'refund_request';
/** The key in the metadata with which a shop says that it has no order for the money any more. Its value says so to people. */
export const ORDER_MISSING = 'order_missing';

/** Rules copied onto the payment when it is created; later changes of settings do not touch it. */
export type Rules = {
  windowSeconds: number;
  rateLockSeconds: number;
  /** 100 = 1%. */
  toleranceBasisPoints: number;
  toleranceCapUsdCents: bigint;
  /** Minutes after the deadline within which late transfers are accepted automatically; null: the merchant decides. */
  lateAcceptMinutes: number | null;
  /** Hours an unconfirmed transfer keeps its first-sight value; shorter from `protectionLargeUsdCents` up. */
  protectionHours: number;
  protectionLargeHours: number;
  protectionLargeUsdCents: bigint;
  /**
   * How much more than the market price customers pay in an asset, in hundredths of a percent; below zero, less. At most 20% either way.
   */
  adjustments: Readonly<Partial<Record<Asset, number>>>;
  /** The price source that is used while it agrees with the others; null: the median of all. */
  priceSource: string | null;
  /** Tiers per coin, already merged from the table, the merchant's raises and the operator's override. */
  confirmations: Readonly<Record<Coin, readonly ConfirmationTier[]>>;
};

/** As they are stored with settings and with payments. An asset that is gone is left out, and so is what is not a number. */
export function adjustmentsFromJson(value: unknown): Partial<Record<Asset, number>> {
  const stored = asObject(value);
  const known = ASSETS.map((asset) => [asset, asWhole(stored[asset])] as const);
  return Object.fromEntries(known.filter(([, points]) => points !== null && points !== 0));
}

/** A coin amount fixed for the USD amount from `from` until `until`. Append-only. */
export type Quote = {
  coin: Coin;
  address: string;
  /** USD per coin with eight decimals. Null for a fixed coin amount without rate lock. */
  rateE8: bigint | null;
  units: bigint;
  from: Date;
  until: Date;
};

export type Decision = {
  kind: 'cancel' | 'accept' | 'reject' | 'refund_sent';
  at: Date;
  /** Refs of the transfers that an accept, reject or refund lists. */
  transfers: readonly string[];
  /** A payer may cancel; all other decisions are the merchant's. */
  byPayer?: boolean;
};

export type TransferKind = 'output' | 'pegout' | 'coinbase' | 'direct' | 'internal' | 'delta' | 'token' | 'invoice';
/** What makes a transfer final without a block. `preimage`: the Lightning invoice is settled, and its preimage was checked. */
export type Lock = 'instantsend' | 'chainlock' | 'preimage' | null;
/**
 * What vouches for a block: your own node, proof of work or Ethereum's sync committee, which Florin checked, or two providers that agree. A
 * Lightning invoice has no block: its preimage vouches for it.
 */
export const VERIFIERS = ['node', 'proof_of_work', 'sync_committee', 'providers', 'preimage'] as const;
export type Verifier = (typeof VERIFIERS)[number];

/** Another currency, and its units for one US dollar with eight decimals. */
export type DisplayRate = { currency: Fiat; rateE8: bigint };
/** USD worth, valued once at first sight (`first_sight`), again only when its protection ended (`confirmation`). */
export type TransferValue = {
  usdE8: bigint;
  at: Date;
  basis: 'quote' | 'spot';
  reason: 'first_sight' | 'confirmation';
  /** Stored with the first value; absent when the transfer came alone. */
  company?: CompanyWorth;
  /** The display currency of the merchant at that time; absent for US dollars, or without a rate. */
  display?: DisplayRate;
};
/** Units of the coin that one payer may have sent together with a transfer. */
export type Company = {
  /** Of all outputs of the transaction to this install, including this one. */
  transactionUnits: bigint;
  /** Of other payments of the merchant in the same size class that were waiting when it was first seen. */
  merchantUnits: bigint;
};
export type CompanyWorth = { transactionUsdCents: bigint; merchantUsdCents: bigint };

export type Transfer = {
  coin: Coin;
  /**
   * Identity on its chain: `txid:vout`; for ETH `txid:tx`, `txid:to:<account>` by a contract, `delta:<height>:<account>` unnamed; for
   * tokens `txid:log:<account>:<n>`, the nth transfer to the account; for Lightning `ln:<payment hash>`.
   */
  ref: string;
  txid: string | null;
  address: string;
  units: bigint;
  /** How many outputs of its transaction it combines, if more than one. */
  outputs?: number;
  kind: TransferKind;
  firstSeenAt: Date;
  values: readonly TransferValue[];
  block: { height: number; hash: string; time: Date } | null;
  /** Absent until it is in a block, and where nobody vouches for the block. */
  verifiedBy?: Verifier;
  lock: Lock;
  /** Since when neither mined nor in the mempool; null while present. */
  absentSince: Date | null;
  /** A conflicting spend seen by our node: its txid, the height it was mined at (null: mempool), and when it was seen. */
  conflict: { txid: string; height: number | null; seenAt: Date } | null;
  /** When this transfer last lost its block, even if it was mined again since; null: never. */
  unminedSince: Date | null;
  /** Since when a voting source shows the chain without its block; null: none does. */
  disputedSince: Date | null;
};

export type PaymentFacts = {
  id: string;
  mode: Mode;
  createdAt: Date;
  /** Worth of the target in USD cents (for a fixed coin amount: at creation). */
  targetUsdCents: bigint;
  /** Fixed coin amount of a legacy payment; null when the target is the USD amount. */
  fixed: { coin: Coin; units: bigint } | null;
  rules: Rules;
  /** Set once, when the first large enough part arrives: the deadline is then at least this instant. */
  extendedUntil: Date | null;
  /** Set together with it if the rate was locked at that moment: the lock of that quote then lasts at least until this instant. */
  rateLockUntil: Date | null;
  quotes: readonly Quote[];
  decisions: readonly Decision[];
  /** The stored status: settle returns the steps from here. */
  status: PaymentStatus;
  exceptions: readonly Exception[];
  completedAt: Date | null;
  /** A refund of it was approved and not canceled: what arrives late is not accepted automatically. */
  hasRefund?: boolean;
};

/** What the sources of a chain agree on. */
type Agreement = {
  /** All voting sources have the recorded blocks up to this height; -1: they share none. */
  height: number;
  /** Payments above this amount wait, with the reason; null: none wait. */
  above: { usdCents: bigint; reason: string } | null;
  /** Up to this amount, a lock completes a transfer before the sources agree on its block; null: never. */
  lockUsdCents: bigint | null;
};

/** What the follower knows of a chain. */
export type Tip = {
  height: number;
  hash: string;
  safeHeight: number | null;
  finalizedHeight: number | null;
  chainlockHeight: number | null;
  /** Everything first seen up to this instant has been recorded. */
  scannedThrough: Date;
  /** Whether blocks were removed and not all of their replacements have been read. */
  unwound?: boolean;
  /** Transfers complete only in blocks that somebody vouches for. */
  needsVerifier?: true;
  /**
   * The highest blocks with 1, 2, 3 ... confirmations in work, up to MOST_PROVEN; fewer where nothing more is proven. Absent where no proof
   * of work is required.
   */
  provenHeights?: readonly number[];
  /** Whether a source does not say which blocks are final, although payments wait for one. */
  isFinalUnknown?: true;
  /** Why completion is held on this chain; null when healthy. */
  holdReason: string | null;
  /** Absent where a coin has one source, and where nothing is held. */
  agreement?: Agreement;
};
export type Tips = Readonly<Partial<Record<Coin, Tip>>>;

/** The state of one transfer on its chain, independent of how it counts toward the payment. */
export const TRANSFER_STATES = ['waiting', 'confirmed', 'replaced', 'absent'] as const;
export type TransferStanding = {
  state: (typeof TRANSFER_STATES)[number];
  confirmations: number;
  /** Null when something other than the number of confirmations decides. */
  confirmationsRequired: number | null;
};

/** What a transfer is to its payment: each has exactly one role. */
export const TRANSFER_ROLES = ['counted', 'held', 'rejected', 'refunded', 'small', 'contested', 'gone'] as const;
export type TransferRole = (typeof TRANSFER_ROLES)[number];
/**
 * Money that arrived and does not count: it waits for the merchant (`held`), or the merchant rejected or refunded it. `announced`: it is in
 * no block and not locked, so it may never arrive.
 */
export const UNCOUNTED_STATES = ['held', 'rejected', 'refunded', 'announced'] as const;
export type UncountedState = (typeof UNCOUNTED_STATES)[number];
/** Such money in one coin. `usdE8`: in whole cents, null while a part of it has no price yet. `waits`: once it arrives, it is held. */
export type Uncounted = { coin: Coin; state: UncountedState; units: bigint; usdE8: bigint | null; waits?: true };

/** What a completed payment counts of a transfer, and how much of that is more than its price. */
export type TransferShare = { coin: Coin; ref: string; units: bigint; cents: bigint; overUnits: bigint; overCents: bigint };

export type SettlementStep = {
  status: PaymentStatus;
  /** Status of the payment before the step. */
  from: PaymentStatus;
};

export type Settlement = {
  /** Edges to walk in order; empty when the status stays. A payment first found confirmed passes through processing. */
  steps: readonly SettlementStep[];
  status: PaymentStatus;
  exceptions: readonly Exception[];
  exception: Exception | null;
  /** The current deadline and the end of the current rate lock. */
  expiresAt: Date;
  quoteExpiresAt: Date | null;
  /** Set when a first partial payment moves the clocks now: what `extendedUntil` and `rateLockUntil` become. */
  extension: { windowUntil: Date; rateLockUntil: Date | null } | null;
  /** The coin shown: of the first counted transfer, else of the last choice. */
  coin: Coin | null;
  /** Units of the shown coin to pay for the whole target, at the current quote. */
  amountUnits: bigint | null;
  /** What counts and arrived: it is in a block, or locked. What else the chain credits to the payment is `uncounted`. */
  receivedUnits: bigint;
  receivedUsdE8: bigint;
  /** Its worth, in the whole cents of each transfer. */
  receivedUsdCents: bigint;
  /** What counts of each transfer since the payment completed; null before, and while its chain is being switched. */
  shares: readonly TransferShare[] | null;
  /** The same with what is only announced, so that nobody is asked for it again. */
  seenUnits: bigint;
  seenUsdE8: bigint;
  /** Units of the shown coin still due; 0 when covered. */
  remainingUnits: bigint;
  overpaidUnits: bigint;
  /** What arrived and does not count, or is only announced, by coin and state; empty for nearly every payment. */
  uncounted: readonly Uncounted[];
  /** What is missing although the payment counts as paid, by tolerance or because the merchant accepted it. 0 apart from rounding. */
  shortUnits: bigint;
  shortUsdE8: bigint;
  /** Units of the shown coin in transfers below the dust limit, which do not count. */
  dustUnits: bigint;
  /** Of the first transfer that counts, otherwise of the first that arrived. */
  transactionHash: string | null;
  /** The fewest of all that counts, otherwise of all that arrived. */
  confirmations: number;
  confirmationsRequired: number | null;
  completionRule: CompletionRule;
  /** Who vouches for the blocks of everything that counts; null while one of them has none. */
  verifiedBy: Verifier | null;
  completedAt: Date | null;
  holdReason: string | null;
  /** When to settle again although no fact changed: end of a lock, of the window, of a protection. Null: never. */
  nextDueAt: Date | null;
};
