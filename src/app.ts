/** The composition root: builds each part once, starts and stops the roles in order. */
import { randomBytes, randomFillSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import type { ChainSource } from './chains/chain.ts';
import { createCoreSource } from './chains/core-rpc.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { COINS, type Coin } from './core/coin.ts';
import { startClock } from './db/clock.ts';
import { openDb } from './db/db.ts';
import { claimServe, startEmbedded } from './db/embedded.ts';
import { migrate } from './db/migrate.ts';
import { openSealer, readInstallKey } from './db/seal.ts';
import { createServer } from './http/server.ts';
import { createLog, type Log } from './log.ts';
import { createOutgoing } from './outgoing.ts';
import { startFollower } from './payments/follow.ts';
import { startSweep } from './payments/sweep.ts';
import { createFiatRates } from './prices/fiat.ts';
import { createPrices } from './prices/prices.ts';
import { registerCheckout } from './web/checkout/actions.ts';
import { registerDocs } from './web/docs.ts';
import { registerSetup } from './web/setup.ts';
import { startDeliveries } from './webhooks/deliver.ts';

/** Random bytes from a pool that is filled a few kilobytes at a time: one call into the system for many ids. Bytes are handed out once. */
function pooledRandom(): (bytes: number) => Uint8Array {
  const pool = Buffer.alloc(8_192);
  let at = pool.length;
  return (bytes) => {
    if (bytes > 1_024) return randomBytes(bytes);
    if (at + bytes > pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    const part = Uint8Array.prototype.slice.call(pool, at, at + bytes);
    pool.fill(0, at, at + bytes);
    at += bytes;
    return part;
  };
}

export const ROLES = ['api', 'watcher', 'worker'] as const;
export type Role = (typeof ROLES)[number];

export type Core = { ctx: Context; log: Log; close(): Promise<void> };

/** Everything below the roles: database (started when embedded), keys, clock, chains, prices. Operator commands need no more. */
export async function openCore(config: Config, log: Log = createLog(config.logLevel)): Promise<Core> {
  const closers: (() => Promise<void> | void)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const dataFolder = resolve(config.dataFolder);
    const embedded = config.databaseUrl === null ? await startEmbedded({ dataFolder, log }) : null;
    if (embedded) closers.push(() => embedded.release());
    const db = await openDb(embedded ? { ...embedded.connection, log } : { url: config.databaseUrl!, log });
    closers.push(() => db.close());
    await migrate(db, log);
    const sealer = await openSealer({ secretKey: config.secretKey, dataFolder });
    const clock = await startClock(db);
    closers.push(() => clock.stop());
    const outgoing = createOutgoing({ allow: [...config.webhookAllow], log });
    closers.push(() => outgoing.close());
    const chains = new Map<Coin, ChainSource>();
    for (const coin of COINS) {
      const url = config.nodeUrls[coin];
      if (url === undefined) continue;
      if (coin === 'ETH') {
        log.warn({ coin }, 'this version does not follow Ethereum nodes yet; live ETH payments are not offered');
        continue;
      }
      const source = createCoreSource({ coin, network: config.networks[coin], url, outgoing, log, clock });
      chains.set(coin, source);
      closers.push(() => source.close());
    }
    const prices = createPrices({ db, outgoing, clock, log, sources: config.priceSources });
    const fiat = createFiatRates({ outgoing, clock, log, sources: config.fiatSources });
    const ctx: Context = {
      db,
      chains,
      prices,
      fiat,
      clock,
      log,
      outgoing,
      random: pooledRandom(),
      installKey: await readInstallKey(db),
      seal: sealer.seal,
      open: sealer.open,
      settings: {
        publicUrl: config.publicUrl,
        paymentPageUrl: config.paymentPageUrl,
        networks: config.networks,
        ethChainId: config.ethChainId,
        plans: config.plans,
        confirmations: config.confirmations,
      },
    };
    return { ctx, log, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export type App = Core & { url: string | null; stop(): Promise<void> };

/** Starts the roles: what answers first, then what moves. `stop` ends them in the opposite order and loses nothing. */
export async function startApp(config: Config, { roles = ROLES, log }: { roles?: readonly Role[]; log?: Log } = {}): Promise<App> {
  const core = await openCore(config, log);
  const { ctx } = core;
  const closers: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
    await core.close();
  };
  try {
    if (config.databaseUrl === null) closers.push(await claimServe(ctx.db));
    await ctx.prices.start();
    closers.push(() => ctx.prices.stop());
    await ctx.fiat.start();
    closers.push(() => ctx.fiat.stop());
    let url: string | null = null;
    if (roles.includes('api')) {
      const server = await createServer(ctx, {
        tls: config.tls && { cert: await readFile(config.tls.certFile), key: await readFile(config.tls.keyFile) },
        trustedProxies: [...config.trustedProxies],
        metricsToken: config.metricsToken,
        registerPages: (app) => {
          registerCheckout(app, ctx);
          registerSetup(app, ctx);
          registerDocs(app);
        },
      });
      closers.push(() => server.close());
      await server.listen({ port: config.port, host: config.host });
      const address = server.server.address() as AddressInfo;
      url = `${config.tls ? 'https' : 'http'}://${config.host.includes(':') ? `[${config.host}]` : config.host}:${address.port}`;
    }
    if (roles.includes('worker')) {
      const sweep = startSweep(ctx);
      closers.push(() => sweep.stop());
      const deliveries = startDeliveries(ctx);
      closers.push(() => deliveries.stop());
    }
    if (roles.includes('watcher')) {
      for (const source of ctx.chains.values()) {
        const follower = startFollower(ctx, source);
        closers.push(() => follower.stop());
      }
    }
    return { ...core, url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
