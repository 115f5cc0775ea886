/** What random schedules of money going out need of a kind of chain, and what they know about it. */
import { createHash } from 'node:crypto';
import type { Coin } from '../../src/core/coin.ts';

/** Confirmations after which payments and files are final. Reorganizations are shorter. */
export const DEEP = 3;
export const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();
export const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);

export type Merchant = {
  id: string;
  /** Extended private key of the account. */
  secret: string;
  destination: string;
  /** The live key of its API. */
  key: string;
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

export type Ground = {
  /** The coins of the payments of a schedule, in turn. */
  coins: readonly Coin[];
  kinds: readonly Out['kind'][];
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
  /** Gives money to the gas addresses of merchants, to the wallets that may pay customers by hand, and to people who may send a signed copy. */
  prepare(given: { merchants: readonly Merchant[]; customers: readonly string[]; strangers: number }): Promise<void>;
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
  /** Signs a payment from another wallet, which is not sent. */
  payByHand(out: Out): Promise<{ txid: string; raw: string }>;
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
