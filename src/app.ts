/** The composition root: builds each part once, starts and stops the roles in order. */
import { randomBytes, randomFillSync } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createChainStore } from '#chain-store';
import { openSources, type SourceReplacements } from '#chains';
import type { Config } from '#config';
import { createOutgoing, readProxy } from '#connections';
import type { Context } from '#context';
import { ASSETS, COIN, type Coin, coinsOf } from '#core/coin';
import { claimServe, type Db, hasCluster, migrate, openDb, removeCluster, startClock, startEmbedded } from '#db';
import { startDeliveries } from '#deliveries';
import { startFollowing } from '#follow';
import { startLightning, startLightningUpkeep } from '#lightning';
import { createLog, type Log } from '#log';
import { createMailer } from '#mail';
import { alertUsage } from '#merchants';
import { startMails } from '#notices';
import {
  acceptKey,
  alertBackup,
  BackupError,
  type BackupResult,
  openSecrets,
  type RestoreResult,
  readInstallKey,
  readVersion,
  restoreBackup,
  writeBackup,
} from '#operate';
import { fileFence, startOutgoing, takeBackApprovals } from '#outgoing';
import { createFiatRates, createOutages, createPrices } from '#prices';
import { oursOf } from '#queries';
import { startHousekeeping, startTextIndex } from '#settling';
import { forgetEndedSignIns } from '#sign-in';
import { startSweeps } from '#signing';
import { type CounterJump, jumpRestored, startAddressFence } from '#wallets';

/** Random bytes from a pool that is filled a few kilobytes at a time, so many ids cost one system call. Each byte is used once. */
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

export const PROCESS_ROLES = ['api', 'watcher', 'worker'] as const;
export type Role = (typeof PROCESS_ROLES)[number];

export type Core = { ctx: Context; log: Log; close(): Promise<void> };

type Store = { db: Db; dataFolder: string; close(): Promise<void> };

/** The database, started when embedded, without migrations. */
async function openStore(config: Config, log: Log): Promise<Store> {
  const dataFolder = resolve(config.dataFolder);
  const embedded = config.databaseUrl === null ? await startEmbedded({ dataFolder, programs: config.postgresBin, log }) : null;
  try {
    const db = await openDb(embedded ? { ...embedded.connection, log } : { url: config.databaseUrl!, log });
    return {
      db,
      dataFolder,
      close: async () => {
        await db.close();
        await embedded?.release();
      },
    };
  } catch (error) {
    await embedded?.release();
    throw error;
  }
}

/** Errors: an Error if the embedded database was not created yet. */
export function needDatabase({ databaseUrl, dataFolder }: Config): void {
  if (databaseUrl !== null || hasCluster(resolve(dataFolder))) return;
  throw new Error(
    `There is no database in ${resolve(dataFolder)}. Set FLORIN_DATA to the data folder of the service, or DATABASE_URL to its database. A new install gets its database from ./florin serve or ./florin restore.`,
  );
}

/** Writes everything into one file; see `operate/backup.ts`. It does not migrate, so you can back up before an upgrade. */
export async function backup(config: Config, { file, log }: { file: string; log: Log }): Promise<BackupResult> {
  const { db, dataFolder, close } = await openStore(config, log);
  try {
    return await writeBackup({ db, dataFolder, secretKey: config.secretKey, file });
  } finally {
    await close();
  }
}

/** What is installed, and what the database has, if there is one. It does not migrate. */
export async function inspect(config: Config, { log }: { log: Log }): ReturnType<typeof readVersion> {
  if (config.databaseUrl === null && !hasCluster(resolve(config.dataFolder))) return readVersion(null);
  const { db, close } = await openStore(config, log);
  try {
    return await readVersion(db);
  } finally {
    await close();
  }
}

/** Makes the key at hand that of the install after the old one was lost. Returns the secrets that nothing can read any more. */
export async function acceptSecretKey(config: Config, { log }: { log: Log }): Promise<{ closed: string[] }> {
  const { db, dataFolder, close } = await openStore(config, log);
  try {
    await migrate(db, log);
    return await acceptKey({ db, secretKey: config.secretKey, dataFolder });
  } finally {
    await close();
  }
}

/**
 * Restores a backup into an empty install. The wallets skip all addresses that may have been assigned since the backup, and what was
 * approved may have been paid since.
 */
export async function restore(config: Config, { file, log }: { file: string; log: Log }): Promise<RestoreResult<CounterJump[]>> {
  const before = config.databaseUrl === null && !hasCluster(resolve(config.dataFolder)) ? namesIn(resolve(config.dataFolder)) : undefined;
  let isRefused = false;
  const { db, dataFolder, close } = await openStore(config, log);
  try {
    return await restoreBackup({
      db,
      dataFolder,
      secretKey: config.secretKey,
      file,
      log,
      finish: async (tx) => {
        await takeBackApprovals(tx);
        return jumpRestored(tx, { dataFolder });
      },
    });
  } catch (error) {
    isRefused = error instanceof BackupError;
    throw error;
  } finally {
    await close();
    // The database was created for this restore, so a refused one takes it away again.
    if (isRefused && before !== undefined) removeCluster(dataFolder, before);
  }
}
/** What a folder contains; null when there is none. */
const namesIn = (folder: string): string[] | null => (existsSync(folder) ? readdirSync(folder) : null);

/** How many backups of before an upgrade are kept. */
const KEPT_BACKUPS = 3;
/** Before the first migration of a newer version: nothing undoes one, and not everyone runs a command first. */
async function backUpBefore(migration: string, { store, config, log }: { store: Store; config: Config; log: Log }): Promise<void> {
  if (!config.backupBeforeUpgrade) return;
  const { db, dataFolder } = store;
  const file = join(dataFolder, `before-${migration.replace(/\.sql$/, '')}.backup`);
  try {
    const { bytes } = await writeBackup({ db, dataFolder, secretKey: config.secretKey, file });
    log.info({ file, bytes }, 'Backed up before the upgrade');
  } catch (cause) {
    throw new Error(
      `The backup before the upgrade failed, so nothing was changed: ${(cause as Error).message} Make room for it in ${dataFolder}, or set BACKUP_BEFORE_UPGRADE=off if you have another backup.`,
      { cause },
    );
  }
  const kept = readdirSync(dataFolder).filter((name) => /^before-\d{4}_\w+\.backup$/.test(name));
  for (const name of kept.sort().slice(0, -KEPT_BACKUPS)) rmSync(join(dataFolder, name));
}

/** Everything below the roles: database (started when embedded), keys, clock, chains, prices. Operator commands need no more. */
export async function openCore(config: Config, log: Log = createLog(config.logLevel), replaced: SourceReplacements = {}): Promise<Core> {
  const closers: (() => Promise<void> | void)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const store = await openStore(config, log);
    const { db, dataFolder } = store;
    closers.push(() => store.close());
    await migrate(db, log, { beforeUpgrade: (next) => backUpBefore(next, { store, config, log }) });
    const sealer = await openSecrets({ db, secretKey: config.secretKey, dataFolder, log });
    const clock = await startClock(db);
    closers.push(() => clock.stop());
    const outgoing = createOutgoing({
      ...{ allow: [...config.webhookAllow], log },
      proxy: config.p2pProxy === null ? null : readProxy(config.p2pProxy),
    });
    closers.push(() => outgoing.close());
    const mail = config.mail && createMailer(config.mail);
    closers.push(() => mail?.close());
    const ours = (coin: Coin) => oursOf(db, coin);
    const { chains, ...sources } = openSources({
      settings: config,
      oursOf: ours,
      store: createChainStore(db),
      outgoing,
      clock,
      log,
      ...replaced,
    });
    closers.push(() => sources.close());
    const outages = createOutages(log);
    const fiat = createFiatRates({ outgoing, clock, log, outages, sources: config.fiatSources });
    // Tokens on chains without a source cannot be paid.
    const assets = ASSETS.filter((asset) => coinsOf(asset).some((coin) => COIN[coin].contract === null || chains.has(COIN[coin].chain)));
    const prices = createPrices({ db, outgoing, clock, log, outages, sources: config.priceSources, assets, fiat });
    const ctx: Context = {
      db,
      mode: 'live',
      chains,
      prices,
      fiat,
      clock,
      log,
      outgoing,
      mail,
      random: pooledRandom(),
      installKey: await readInstallKey(db),
      seal: sealer.seal,
      open: sealer.open,
      derive: sealer.derive,
      settings: {
        dataFolder,
        publicUrl: config.publicUrl,
        paymentPageUrl: config.paymentPageUrl,
        networks: config.networks,
        ethChainId: config.ethChainId,
        plans: config.plans,
        confirmations: config.confirmations,
        dailyRequests: config.dailyRequests,
        quorumAboveUsdCents: config.quorumAboveUsdCents,
        lightningMaxUsdCents: config.lightningMaxUsdCents,
        releasesUrl: config.releasesUrl,
        releasesKey: config.releasesKey,
      },
    };
    return { ctx, log, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export type App = Core & { url: string | null; stop(): Promise<void> };

/** Starts the roles: first the servers, then the loops. `stop` ends them in the opposite order without losing anything. */
export async function startApp(
  config: Config,
  { roles = PROCESS_ROLES, log, ...replaced }: { roles?: readonly Role[]; log?: Log } & SourceReplacements = {},
): Promise<App> {
  const core = await openCore(config, log, replaced);
  const { ctx } = core;
  const closers: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
    await core.close();
  };
  try {
    const watch = ctx.db.watch();
    closers.push(() => watch.stop());
    const alone = config.databaseUrl === null;
    closers.push(await claimServe(ctx.db, { alone }));
    const fence = startAddressFence(ctx, { alone, beside: fileFence });
    closers.push(() => fence.stop());
    await ctx.prices.start();
    closers.push(() => ctx.prices.stop());
    await ctx.fiat.start();
    closers.push(() => ctx.fiat.stop());
    let url: string | null = null;
    if (roles.includes('api')) {
      // Loaded only in processes that serve HTTP, because it is most of the code.
      const { startApi } = await import('#api');
      url = await startApi(ctx, config, { closers });
    }
    if (roles.includes('worker')) {
      const housekeeping = startHousekeeping(ctx);
      closers.push(() => housekeeping.stop());
      const texts = startTextIndex(ctx);
      closers.push(() => texts.stop());
      const { startShops } = await import('#shops');
      const shops = startShops(ctx);
      closers.push(() => shops.stop());
      const deliveries = startDeliveries(ctx);
      closers.push(() => deliveries.stop());
      const mails = startMails(ctx, { chores: [alertUsage, alertBackup, forgetEndedSignIns] });
      closers.push(() => mails.stop());
    }
    if (roles.includes('watcher')) {
      for (const chain of ctx.chains.values()) {
        if (!chain.follows) continue;
        const following = startFollowing(ctx, chain);
        closers.push(() => following.stop());
        const sweeps = startSweeps(ctx, chain);
        closers.push(() => sweeps.stop());
      }
      const lightning = startLightning(ctx);
      closers.push(() => lightning.stop());
      const upkeep = startLightningUpkeep(ctx);
      closers.push(() => upkeep.stop());
      const outgoing = startOutgoing(ctx);
      closers.push(() => outgoing.stop());
    }
    return { ...core, url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
