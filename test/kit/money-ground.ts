/** What random schedules of money going out need of a kind of chain, and what they know about it. */
import { createHash } from 'node:crypto';
import type { Coin } from '../../src/core/coin.ts';

/** Confirmations after which files are final. Reorganizations are shorter. */
export const DEEP = 3;
/** Payments complete at once, so that a reorganization can take away what is being returned. */
export const CONFIRMATIONS = `50:1,*:${DEEP}`;
/** The members of each merchant: the last one is the owner, who changes the roles of the others. */
export const MEMBERS = 3;
export const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();
export const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);

export type Merchant = {
  id: string;
  /** Extended private key of the account. */
  secret: string;
  destination: string;
  /** The live key of its API. */
  key: string;
  /** In cents: what a member approves alone in a day. */
  limit: number | null;
};
/** A paid payment, each with one deposit address. */
export type Deposit = { id: string; coin: Coin; address: string; index: number; units: bigint };
/** A refund or a payout. */
export type Out = {
  kind: 'refund' | 'payout';
  id: string;
  merchantId: string;
  /** The payment of a refund, the reference of a payout. */
  of: string;
  coin: Coin;
  state: string;
  units: bigint;
  address: string;
  txid: string | null;
  sweepId: string | null;
};
/** What an address was paid, on the chain. */
export type Paid = {
  txid: string;
  address: string;
  units: bigint;
  /** Whether anybody could send it, who had a signed copy. */
  isPublic?: boolean;
};
/** What the books of a merchant say in a coin, and the money that sweeps list. */
export type Books = { accounts: Readonly<Record<string, string>>; listed: readonly { ref: string; address: string }[] };

/** All that the test knows about a merchant when everything ended. */
export type Ended = {
  merchant: Merchant;
  deposits: readonly Deposit[];
  outs: readonly Out[];
  /** Refunds and payouts that were sent from another wallet. */
  byHand: ReadonlySet<string>;
  /** Whether another wallet spent its deposits, or somebody sent kept files. */
  strayed: boolean;
  books: ReadonlyMap<Coin, Books>;
};

/** Two transactions of a customer that spend the same money. Only the first one pays. */
export type Rivals = { pays: string; other: string };

export type Ground = {
  /** The coins of the payments of a schedule, in turn. */
  coins: readonly Coin[];
  kinds: readonly Out['kind'][];
  /** The amounts of payouts. */
  amounts(coin: Coin): readonly [string, string, string];
  /** How many refunds and payouts each schedule requests at most. */
  requests: number;
  /** Whether half of the merchants cancel their first files, of which somebody then sends signed copies. */
  copies: boolean;
  /** The longest pause between two rounds, in which the processes look at the chain. */
  pauseMs: number;
  /** Settings of the processes. */
  environment: Readonly<Record<string, string>>;
  /** The path of the account of each merchant. */
  accountPath: string;
  /** The address of a stranger, by a name that nobody else has. */
  strangerOf(name: string): string;
  /** Pays new payments. */
  pay(payments: readonly { coin: Coin; address: string; amount: string }[]): Promise<void>;
  /** Signs a payment that the customer can still send elsewhere. Each customer pays one. */
  payAs(customer: number, payment: Deposit): Promise<Rivals>;
  /**
   * Gives money to the gas addresses of merchants, to the wallets that may pay customers by hand, to people who may send a signed copy, and
   * to customers.
   */
  prepare(given: { merchants: readonly Merchant[]; customers: readonly string[]; strangers: number; payers: number }): Promise<void>;
  /** `draw`: draws what the fees in blocks are; without it, they are low. */
  mine(blocks: number, draw?: (n: number) => number): Promise<void>;
  /** Replaces the newest blocks. What they contained waits again; `instead`: signed transactions for the new ones, where they are possible. */
  reorganize(depth: number, instead: readonly string[]): Promise<void>;
  /** The hash of the newest block. */
  newest(): Promise<string>;
  /** Whom the best chain paid since the test began, and whom transactions that wait would pay. */
  read(): Promise<{ mined: readonly Paid[]; waiting: readonly Paid[] }>;
  /** Nodes refuse what was replaced, what is mined and what is spent. */
  send(raw: string): Promise<void>;
  /** Pays again what blocks do not contain any more, where a signed transaction waits for it as long as nobody uses its nonce. */
  payAgain(deposits: readonly Deposit[]): Promise<void>;
  /** Signs a payment from another wallet, which is not sent. */
  payByHand(out: Pick<Out, 'coin' | 'address' | 'units'>): Promise<{ txid: string; raw: string }>;
  /** Whom signed transactions pay. */
  addressesIn(raws: readonly string[]): Promise<readonly string[]>;
  /** Sends what is in a signed copy, in one of the ways in which that is possible. */
  leak(raws: readonly string[], below: (n: number) => number): Promise<void>;
  /** Another wallet that has the keys of a merchant spends something that files need. */
  spendElsewhere(merchant: Merchant, deposit: Deposit, below: (n: number) => number): Promise<void>;
  /** Fails unless all money of a merchant is where Florin says. */
  checkMoney(ended: Ended): Promise<void>;
  stop(): Promise<void>;
};
