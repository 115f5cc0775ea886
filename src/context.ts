/** Everything that a use case may use. Built once in app.ts and passed to every function as the first argument. */
import type { KeyObject } from 'node:crypto';
import type { JoinedSource } from '#chains';
import type { Outgoing } from '#connections';
import type { ChainId, Coin, ConfirmationTier, Mode, Network } from '#core/coin';
import type { Clock } from '#core/dates';
import type { Plan, PlanLimits } from '#core/plan';
import type { Db } from '#db';
import type { Log } from '#log';
import type { Mailer } from '#mail';
import type { FiatRates, Prices } from '#prices';

export type Context = {
  db: Db;
  /** Whose chains and networks these are: in test mode they are simulated. What moves with signing files follows it. */
  mode: Mode;
  /** The sources of each live chain, by its ID; empty when none is configured. */
  chains: ReadonlyMap<ChainId, JoinedSource>;
  prices: Prices;
  fiat: FiatRates;
  clock: Clock;
  log: Log;
  outgoing: Outgoing;
  /** Null when no mail server is set. */
  mail: Mailer | null;
  /** Cryptographically strong random bytes. */
  random(bytes: number): Uint8Array;
  /** HMAC key of this install: event ids and form tokens derive from it. */
  installKey: KeyObject;
  /** AES-256-GCM under SECRET_KEY, bound to `purpose`. */
  seal(purpose: string, plain: Uint8Array): Uint8Array;
  open(purpose: string, sealed: Uint8Array): Uint8Array;
  /** A key for one purpose, derived from SECRET_KEY. */
  derive(purpose: string): Uint8Array;
  settings: Settings;
};

/** The operator's settings that use cases need. */
type Settings = {
  /** Beside the database: the key file and what wallets may have issued. */
  dataFolder: string;
  publicUrl: string;
  paymentPageUrl: string;
  networks: Readonly<Record<ChainId, Network>>;
  ethChainId: number;
  plans: Readonly<Record<Plan, PlanLimits>>;
  /** Operator's override of the confirmation table, per coin. */
  confirmations: Readonly<Partial<Record<Coin, readonly ConfirmationTier[]>>>;
  /** The most requests a day to each source of a chain, by its leading coin; without one, no limit. */
  dailyRequests: Readonly<Partial<Record<Coin, number>>>;
  /** Payments above this complete only while two sources show their block, where two are configured. */
  quorumAboveUsdCents: bigint;
  /** Payments above this are not offered over a Lightning provider that may hold the money. */
  lightningMaxUsdCents: bigint;
  /** The signed list of releases, and the public key of minisign that signs it. */
  releasesUrl: string | null;
  releasesKey: string | null;
};

/** Whether the bytes were sealed with this key for this purpose. */
export function canOpen({ open: unseal }: Pick<Context, 'open'>, purpose: string, sealed: Uint8Array): boolean {
  try {
    unseal(purpose, sealed);
    return true;
  } catch {
    // The answer is no.
    return false;
  }
}

/** In-memory state of one context, such as caches and batchers. Created on first use. */
export function perContext<T>(make: (ctx: Context) => T): (ctx: Context) => T {
  const made = new WeakMap<Context, T>();
  return (ctx) => {
    let value = made.get(ctx);
    if (value === undefined) {
      value = make(ctx);
      made.set(ctx, value);
    }
    return value;
  };
}
