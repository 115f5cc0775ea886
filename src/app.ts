/** The composition root: builds each part once, starts and stops the roles in order. */
import { randomBytes, randomFillSync } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type BeaconNetwork,
  type ChainSource,
  checkedSource,
  committeeProof,
  createAuditFacts,
  createAuditStore,
  createBeaconServers,
  createCoreSource,
  createElectrumSource,
  createEthereumSource,
  createHeaderService,
  createHeaderServices,
  createLightService,
  createNetworkPeers,
  createTokenNetworkSource,
  createTurn,
  createWorkThreads,
  type HeaderService,
  isBitcoinLike,
  type JoinedSource,
  joinSources,
  type LightService,
  MAIN_STARTS,
  MAINNET,
  type NamedSource,
  nameOfSource,
  type PeerAddress,
  type ProofStarts,
  proofOf,
  provenSource,
  readEndpoint,
  readProxy,
  regtestProof,
  SEPOLIA,
  type SourceConnection,
  syncedSource,
  type WorkThreads,
} from '#chains';
import type { Config } from '#config';
import { createOutgoing, type Outgoing } from '#connections';
import type { Context } from '#context';
import { ASSETS, type ChainId, COIN, type Coin, chainOf, coinsOf, isToken, leadingCoins } from '#core/coin';
import type { Clock } from '#core/dates';
import { type TrustSetting, trustOf } from '#core/guard';
import { claimServe, type Db, hasCluster, migrate, openDb, readInstallKey, removeCluster, startClock, startEmbedded } from '#db';
import { startFollowing } from '#follow';
import { createLog, type Log } from '#log';
import { createMailer } from '#mail';
import { alertUsage } from '#merchants';
import { startMails } from '#notices';
import { acceptKey, BackupError, type BackupResult, openSecrets, type RestoreResult, restoreBackup, writeBackup } from '#operate';
import { fileFence, startPayouts, startRefunds, takeBackApprovals } from '#outgoing';
import { oursOf, startHousekeeping, startTextIndex } from '#payments';
import { forgetEndedSignIns } from '#people';
import { createFiatRates, createOutages, createPrices } from '#prices';
import { startShops } from '#shops';
import { startSweeps } from '#signing';
import { type Jump, jumpRestored, startAddressFence } from '#wallets';
import { startDeliveries } from '#webhooks';

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
  const embedded = config.databaseUrl === null ? await startEmbedded({ dataFolder, log }) : null;
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
export async function restore(config: Config, { file, log }: { file: string; log: Log }): Promise<RestoreResult<Jump[]>> {
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

/** Your own node vouches for its blocks where nothing is proven. */
const vouchedBy = (source: ChainSource): ChainSource => ({
  ...source,
  fetchBlock: async (hash) => ({ ...(await source.fetchBlock(hash)), verifiedBy: 'node' }),
});

/**
 * Peers whose headers are compared with those of your own node, and bring them where it cannot: a node on a branch that the network left
 * completes nothing. Null where they are not wanted.
 */
function openWatch({ config, coin, headers, helpers, db, log, clock }: Opening): SourceConnection | null {
  const { family, chain } = COIN[coin];
  if (config.p2p[coin] !== 'headers' || !headers || !isBitcoinLike(family)) return null;
  const network = config.networks[chain];
  const proxy = config.p2pProxy === null ? null : readProxy(config.p2pProxy);
  return createNetworkPeers({ family, network, headers, given: helpers, proxy, watch: true, db, clock, log }).connection;
}

type Opening = {
  config: Config;
  coin: Coin;
  headers: HeaderService | null;
  starts: ProofStarts;
  /** The peers whose headers are compared; none: they are found. */
  helpers: readonly PeerAddress[];
  /** The Electrum servers where none are set; null: on mainnet the public ones. */
  unchosenServers: readonly string[] | null;
  work: WorkThreads;
  db: Db;
  outgoing: Outgoing;
  log: Log;
  clock: Clock;
};

/** The sources of a coin in order of preference: nodes, peers, Electrum servers. */
function openSources({ watch, light, ...opening }: Opening & { watch: JoinedSource['watch']; light: LightService | null }): NamedSource[] {
  const { config, coin, headers, work, db, outgoing, log, clock } = opening;
  const { family, chain } = COIN[coin];
  const network = config.networks[chain];
  const trusts = [...config.trusts[coin]];
  const sources: NamedSource[] = [];
  const turn = createTurn();
  const helped = watch !== null;
  const add = (name: string, setting: TrustSetting, source: ChainSource, follows: boolean): void => {
    const { readHeaders } = source;
    // Your own Ethereum node is believed as it is; what anybody else shows must be signed.
    const synced = light !== null && setting !== 'own' ? syncedSource({ source, name, light }) : null;
    const trust = trustOf(setting, (headers !== null && readHeaders !== undefined) || synced !== null);
    const proven =
      headers && readHeaders
        ? provenSource({ source: { ...source, readHeaders }, name, service: headers, turn, helped, locks: trust === 'own', clock, log })
        : trust === 'own'
          ? vouchedBy(source)
          : (synced ?? source);
    sources.push({ name, trust, source: checkedSource(proven, { name, clock }), follows });
  };
  const facts = createAuditFacts(trusts.every((trust) => trust === 'own') ? null : createAuditStore(db));
  for (const url of config.nodeUrls[coin]) {
    const setting = trusts.shift()!;
    const source = isBitcoinLike(family)
      ? createCoreSource({ coin: family, network, url, outgoing, log, clock })
      : isToken(coin)
        ? createTokenNetworkSource({ coin, network, chainId: chainOf(coin).chainIds![network], url, outgoing, log })
        : createEthereumSource({ network, chainId: config.ethChainId, url, isOwn: setting === 'own', facts, outgoing, log });
    add(nameOfSource(url), setting, source, true);
  }
  const p2p = config.p2p[coin];
  if ((p2p === 'on' || p2p === 'on_demand') && isBitcoinLike(family)) {
    const given = config.peers[coin].flatMap((peer) => readEndpoint(peer) ?? []);
    const proxy = config.p2pProxy === null ? null : readProxy(config.p2pProxy);
    // A private test network has no checkpoint, and is read again at each start.
    const own = headers ?? createHeaderService({ ...regtestProof(family), db: null, hashWork: work.hashWork, clock, log });
    const { source, connection } = createNetworkPeers({ family, network, headers: own, given, proxy, db, clock, log });
    const onDemand = p2p === 'on_demand';
    sources.push({
      name: 'peers',
      trust: 'proven',
      source: checkedSource(source, { name: 'peers', clock }),
      follows: true,
      connection,
      onDemand,
    });
  }
  const keptByFollowers = sources.some((one) => one.follows && !one.onDemand);
  const electrum = openElectrum(opening, keptByFollowers);
  return electrum ? [...sources, electrum] : sources;
}

/** Electrum servers only answer lookups: they have no vote. Null: there are none. `keptByFollowers`: the headers are stored by followers. */
function openElectrum(
  { config, coin, headers, starts, unchosenServers, work, db, log, clock }: Opening,
  keptByFollowers: boolean,
): NamedSource | null {
  const { family, chain } = COIN[coin];
  const network = config.networks[chain];
  const unchosen = config.electrumUrls[coin] === null;
  const urls = config.electrumUrls[coin] ?? unchosenServers ?? (network === 'mainnet' ? ['public'] : []);
  if (urls.length === 0 || !isBitcoinLike(family)) return null;
  const source = createElectrumSource({
    ...{ family, network, urls, keptByFollowers, hashWork: work.hashWork, db, clock, log },
    proof: starts(family, network) ?? regtestProof(family),
    shared: () => headers?.opened() ?? null,
    proxy: config.p2pProxy === null ? null : readProxy(config.p2pProxy),
    ours: oursOf(db, coin),
  });
  return {
    name: 'electrum',
    trust: 'claimed',
    source: checkedSource(source, { name: 'electrum', clock }),
    follows: false,
    onlyLookUps: true,
    unchosen,
  };
}

/**
 * What tests replace: where the header chains begin, which peers bring headers beside other sources, the Electrum servers where none are
 * set, and the beacon chain. No setting changes it.
 */
export type AppReplacements = {
  starts?: ProofStarts;
  helpers?: readonly PeerAddress[];
  unchosenServers?: readonly string[] | null;
  beacon?: BeaconNetwork;
};

/** What proves Ethereum through servers of others; null where none are set, or the network has no beacon chain that is known. */
function openLight(
  config: Config,
  { beacon, ...rest }: { beacon: BeaconNetwork | undefined } & Pick<Opening, 'db' | 'outgoing' | 'clock' | 'log'>,
) {
  const name = config.networks.ethereum;
  const network = beacon ?? { mainnet: MAINNET, testnet: SEPOLIA, regtest: null }[name];
  const { urls, checkpoint } = config.beacon;
  if (urls.length === 0 || network === null) return null;
  return createLightService({ network, name, checkpoint, servers: createBeaconServers({ urls, outgoing: rest.outgoing }), ...rest });
}

/** Everything below the roles: database (started when embedded), keys, clock, chains, prices. Operator commands need no more. */
export async function openCore(
  config: Config,
  log: Log = createLog(config.logLevel),
  { starts = MAIN_STARTS, helpers = [], unchosenServers = null, beacon }: AppReplacements = {},
): Promise<Core> {
  const closers: (() => Promise<void> | void)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const store = await openStore(config, log);
    const { db, dataFolder } = store;
    closers.push(() => store.close());
    await migrate(db, log);
    const sealer = await openSecrets({ db, secretKey: config.secretKey, dataFolder, log });
    const clock = await startClock(db);
    closers.push(() => clock.stop());
    const outgoing = createOutgoing({ allow: [...config.webhookAllow], log });
    closers.push(() => outgoing.close());
    const mail = config.mail && createMailer(config.mail);
    closers.push(() => mail?.close());
    const work = createWorkThreads();
    closers.push(() => work.close());
    const headers = createHeaderServices({ starts, db, hashWork: work.hashWork, clock, log });
    closers.push(() => headers.close());
    const light = openLight(config, { beacon, db, outgoing, clock, log });
    closers.push(() => light?.close());
    const chains = new Map<ChainId, JoinedSource>();
    for (const coin of leadingCoins()) {
      const { chain: id, family } = COIN[coin];
      const network = config.networks[id];
      const service = isBitcoinLike(family) ? headers.of(family, network) : null;
      const opening = { config, coin, headers: service, starts, helpers, unchosenServers, work, db, outgoing, log, clock };
      const watch = openWatch(opening);
      const lightOf = id === 'ethereum' ? light : null;
      const sources = openSources({ ...opening, watch, light: lightOf });
      if (sources.length === 0) continue;
      const proof = service ? proofOf(service) : lightOf && committeeProof(lightOf);
      const chain = joinSources({ coin, network, sources, proof, watch, log, clock });
      chains.set(id, chain);
      closers.push(() => chain.close());
    }
    const outages = createOutages(log);
    const fiat = createFiatRates({ outgoing, clock, log, outages, sources: config.fiatSources });
    // Tokens on chains without a source cannot be paid.
    const assets = ASSETS.filter((asset) => coinsOf(asset).some((coin) => COIN[coin].contract === null || chains.has(COIN[coin].chain)));
    const prices = createPrices({ db, outgoing, clock, log, outages, sources: config.priceSources, assets, fiat });
    const ctx: Context = {
      db,
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
  { roles = PROCESS_ROLES, log, ...replaced }: { roles?: readonly Role[]; log?: Log } & AppReplacements = {},
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
      const shops = startShops(ctx);
      closers.push(() => shops.stop());
      const deliveries = startDeliveries(ctx);
      closers.push(() => deliveries.stop());
      const mails = startMails(ctx, { chores: [alertUsage, forgetEndedSignIns] });
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
      const refunds = startRefunds(ctx);
      closers.push(() => refunds.stop());
      const payouts = startPayouts(ctx);
      closers.push(() => payouts.stop());
    }
    return { ...core, url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
