/** The only reader of the environment: every setting with its type, default and risk. docs/reference/config.md is generated from it. */
import { readFileSync } from 'node:fs';
import {
  CHAIN,
  CHAINS,
  type ChainId,
  type ChainKind,
  COIN,
  type Coin,
  type ConfirmationTier,
  chainOf,
  isToken,
  kindOf,
  leadingCoins,
  NETWORKS,
  type Network,
  settingOf,
} from '#core/coin';
import { parseConfirmations } from '#core/confirmation';
import { defaultTrust, TRUST_SETTINGS, type TrustSetting } from '#core/guard';
import { DEFAULT_PLANS, PLANS, type Plan, type PlanLimits } from '#core/plan';
import { withoutEndSlashes } from '#core/text';

/**
 * `kind`: a setting per chain that only chains of this kind have. `native`: only those whose native coin can be paid with. `ranges`: only
 * those that are read by ranges of blocks.
 */
type ConfigKey = {
  name: string;
  kind?: ChainKind;
  native?: true;
  ranges?: true;
  type: string;
  default: string;
  description: string;
  danger?: string;
};

/** The configuration reference. Settings per chain appear once, with `<COIN>` for BTC, ETH, LTC, DASH, DOGE, BASE and so on. */
export const CONFIG: readonly ConfigKey[] = [
  { name: 'PORT', type: 'port', default: '3000', description: 'Port the service listens on.' },
  {
    name: 'HOST',
    type: 'address',
    default: '127.0.0.1',
    description: 'Address the service listens on.',
    danger: 'Any address other than loopback needs TLS or a proxy: with an https PUBLIC_URL, plain HTTP is refused.',
  },
  {
    name: 'PUBLIC_URL',
    type: 'url',
    default: 'http://localhost:PORT',
    description: 'Public address of the API and the dashboard, without a path.',
  },
  { name: 'PAYMENT_PAGE_URL', type: 'url', default: '= PUBLIC_URL', description: 'Public address of the payment pages.' },
  {
    name: 'TLS_CERT',
    type: 'file',
    default: '',
    description: 'Certificate chain (PEM file). When TLS_CERT and TLS_KEY are set, the port serves TLS only.',
  },
  { name: 'TLS_KEY', type: 'file', default: '', description: 'Private key of the certificate (PEM file).' },
  { name: 'TRUSTED_PROXIES', type: 'CIDRs', default: '', description: 'Proxies whose X-Forwarded-* headers are trusted, comma-separated.' },
  {
    name: 'FLORIN_DATA',
    type: 'folder',
    default: './data',
    description: 'Folder for the embedded database and the generated key file.',
    danger: 'It contains the key that encrypts stored secrets. Back it up and keep it private.',
  },
  {
    name: 'POSTGRES_BIN',
    type: 'folder',
    default: '',
    description:
      'Folder with the programs of another PostgreSQL 17 or newer for the embedded database, such as /usr/lib/postgresql/18/bin. The distribution then updates it.',
    danger: 'A database that one major version made is not opened by another.',
  },
  {
    name: 'DATABASE_URL',
    type: 'url',
    default: '',
    description:
      'Your own PostgreSQL 15 or newer, instead of the embedded one. List all servers of a failover pair: postgres://user@host1:5432,host2:5432/database.',
    danger: 'fsync, full_page_writes and synchronous_commit must be on, and a pooler must use session pooling.',
  },
  {
    name: 'SECRET_KEY',
    type: 'secret',
    default: 'a file in FLORIN_DATA',
    description: 'Key that encrypts stored secrets.',
    danger: 'It must stay what it was at the first start. If you lose it, stored signing secrets cannot be read.',
  },
  {
    name: 'BACKUP_BEFORE_UPGRADE',
    type: 'on or off',
    default: 'on',
    description: 'Whether a new version writes a backup into FLORIN_DATA before it changes the schema. The last three are kept.',
  },
  {
    name: 'SETUP_TOKEN',
    type: 'secret',
    default: '',
    description:
      'The code with which the first account is created, 24 to 64 characters, for platforms that show it to their users. Without it, the first start prints a link.',
  },
  { name: 'SETUP_TOKEN_FILE', type: 'file', default: '', description: 'A file that contains SETUP_TOKEN.' },
  {
    name: 'RELEASES_URL',
    type: 'url',
    default: '',
    description: 'The signed list of releases that `florin version --check` reads. Florin reads it at no other time.',
  },
  {
    name: 'RELEASES_KEY',
    type: 'key',
    default: '',
    description: 'The public key of minisign with which the list of releases is signed: the second line of its file.',
  },
  {
    name: 'REDIS_URL',
    type: 'url',
    default: '',
    description:
      'Redis or Valkey for rate limits: redis://host:6379. Required when you run more than one api process; without it, each process counts separately.',
  },
  {
    name: 'SMTP_URL',
    type: 'url',
    default: '',
    description:
      'Mail server for invitations, password resets and notifications: smtp://user:password@host:587 or smtps://user:password@host:465. Remote servers must support TLS, unless you add ?tls=no. Without a mail server, invitation links are shown in the dashboard for you to pass on, and notifications appear only there.',
  },
  { name: 'MAIL_FROM', type: 'email address', default: 'florin@ the host of PUBLIC_URL', description: 'Sender of emails.' },
  { name: 'METRICS_TOKEN', type: 'secret', default: '', description: 'Bearer token that lets other machines read /metrics.' },
  {
    name: 'LOG_LEVEL',
    type: 'debug | info | warn | error | silent',
    default: 'info',
    description: 'Least severe messages to log. The log goes to standard error: short lines on a terminal, JSON otherwise.',
  },
  {
    name: '<COIN>_NODE_URL',
    type: 'urls',
    default: '',
    description:
      'JSON-RPC address of your node: http://user:pass@host:port. For ETH and the networks of stablecoins, also the https URL of a provider. Separate several with commas: the next one takes over when one is down, and they must agree on the chain tip before a payment completes. Stablecoins on a network without a URL are not offered.',
  },
  {
    name: 'ETH_CHAIN_ID',
    type: 'integer',
    default: '1',
    description: 'Chain ID of the Ethereum network. The default is 11155111 (Sepolia) on testnet and 31337 on regtest.',
  },
  {
    name: '<COIN>_NETWORK',
    type: 'mainnet | testnet | regtest',
    default: 'mainnet',
    description: 'Network of the node and of the deposit addresses.',
  },
  {
    name: '<COIN>_ELECTRUM_URL',
    kind: 'bitcoin',
    type: 'urls | off',
    default: 'on mainnet the public servers that Florin ships, only for lookups',
    description:
      'Electrum servers that look up any address and transaction, without a node: tls://host:port or, for private and .onion addresses, tcp://host:port, comma-separated. Their answers are proven, or given by servers of two operators. public stands for the list of public servers that Florin ships. If nothing is set, those are asked when somebody looks up a balance, a transaction or fees, and never otherwise. off: no server is asked.',
    danger:
      'The operators of these servers learn which addresses and transactions you look up, when, and the IP address of this machine, unless P2P_PROXY is set. They are never asked about the addresses of payments.',
  },
  {
    name: '<COIN>_P2P',
    kind: 'bitcoin',
    type: 'auto | on | off',
    default: 'auto',
    description:
      "Whether payments are read from the coin's own network, without a node. auto: on mainnet, when a wallet is set up and no node is set; beside one, block headers are read from peers, so that a node on a branch that the network left is named and completes nothing. on: always, also beside a node as a second source. off: never.",
  },
  {
    name: '<COIN>_PEERS',
    kind: 'bitcoin',
    type: 'list',
    default: 'found automatically',
    description:
      'The only peers to connect to, host:port, comma-separated, such as your own nodes. Without it, peers are found by DNS. Required on regtest; not supported on testnet.',
  },
  {
    name: 'P2P_PROXY',
    type: 'url',
    default: '',
    description:
      'SOCKS5 proxy for connections to peers, Electrum servers and .onion addresses of merchants, such as Tor: socks5://127.0.0.1:9050. It also resolves their names.',
  },
  {
    name: '<COIN>_TRUST',
    type: 'own | untrusted',
    default: 'own for loopback addresses, private addresses and local names; otherwise untrusted',
    description:
      'Whether you run the sources of the coin yourself: one word for all, or one per source, comma-separated, nodes first. An untrusted source of BTC, LTC, DOGE or DASH completes payments because every block is proven; one of ETH does with ETH_BEACON_URL, one of another coin completes none.',
    danger: 'Use own only for servers that you run: one source of your own is enough to complete payments up to QUORUM_ABOVE.',
  },
  {
    name: 'ETH_BEACON_URL',
    type: 'urls',
    default: '',
    description:
      'Beacon servers that answer light clients, https://host, comma-separated. With one, payments in ETH and in tokens on Ethereum complete through any provider: every block is proven by what the sync committee signed. What one server withholds, another can deliver.',
  },
  {
    name: 'ETH_CHECKPOINT',
    type: '0x and 64 digits',
    default: '',
    description:
      'Root of a finalized beacon block of the last 14 days, where the proof begins. Needed with ETH_BEACON_URL at the first start; another value starts again from there.',
    danger: 'Everything is proven from it. Compare it on two of the public checkpoint pages, or on your own beacon node.',
  },
  {
    name: 'QUORUM_ABOVE',
    type: 'US dollars',
    default: '1000',
    description: 'Payments above this amount complete only when two sources show their block, if the coin has two.',
    danger: 'Up to this amount, one source is enough when the others are unavailable.',
  },
  {
    name: 'LIGHTNING_MAX',
    type: 'US dollars',
    default: '1000',
    description:
      'Payments above this amount are not offered over a Lightning provider that may hold the money: a Lightning address, LNbits or Nostr Wallet Connect. Nodes of merchants have no such limit.',
    danger: 'Such a provider can keep what it holds.',
  },
  {
    name: '<COIN>_CONFIRMATIONS',
    type: 'tiers',
    default: 'the built-in table',
    description: 'Confirmations by USD amount: 1, or 100:1,1000:2,*:6 (one below $100, two below $1,000, otherwise six).',
    danger: 'With fewer confirmations than the built-in table, a customer can reverse a payment. The minimum is 1.',
  },
  {
    name: '<COIN>_DAILY_REQUESTS',
    ranges: true,
    type: 'integer',
    default: '150000',
    description:
      'The most requests a day to each provider of the network, for the plan that you have with it. With fewer, payments are detected later while many are open. ./florin doctor shows how many are needed.',
  },
  {
    name: 'PRICES',
    type: 'list',
    default: 'coinbase,kraken,bitstamp,bitfinex,coingecko',
    description:
      'Price sources. Two must agree; coingecko counts only when there are not enough exchanges. Or fixed prices: static:BTC=97000.00,ETH=3500.00.',
  },
  {
    name: 'FIAT_RATES',
    type: 'list',
    default: 'coinbase,kraken,bitstamp,coingecko,bitpay,ecb; none with static PRICES',
    description:
      'Exchange rate sources for amounts in other currencies. Two must agree; ecb counts only when there are not enough others. Or fixed rates per US dollar: static:EUR=0.92,JPY=150.',
  },
  {
    name: 'PLANS',
    type: 'JSON',
    default: 'built in',
    description: 'Limits that replace the defaults: {"starter":{"per_minute":60,"per_month":100}}. 0 means unlimited.',
  },
  {
    name: 'WEBHOOK_ALLOW',
    type: 'CIDRs and hosts',
    default: '',
    description:
      'Private addresses and hosts that webhooks may reach; http:// is accepted for these. Add a host here when its name is completed only by the search domain of this machine.',
    danger: 'Every merchant on this install can make the service send requests there.',
  },
];

/** The variables that an entry of the reference stands for: one, or one per chain. */
export const variableNames = ({ name, kind, native, ranges }: ConfigKey): string[] =>
  name.includes('<COIN>')
    ? leadingCoins()
        .filter((coin) => (kind === undefined || kindOf(coin) === kind) && !(native && isToken(coin)) && !(ranges && !chainOf(coin).ranges))
        .map((coin) => name.replace('<COIN>', settingOf(coin)))
    : [name];

/** `headers`: the headers of peers are compared with those of the node. */
type P2p = 'on' | 'on_demand' | 'headers' | 'off';
export type Config = {
  port: number;
  host: string;
  publicUrl: string;
  paymentPageUrl: string;
  tls: { certFile: string; keyFile: string } | null;
  trustedProxies: readonly string[];
  dataFolder: string;
  databaseUrl: string | null;
  secretKey: string | undefined;
  /** The programs of the embedded PostgreSQL; null for those that npm installed. */
  postgresBin: string | null;
  backupBeforeUpgrade: boolean;
  /** What creates the first account; null for one that the first start makes. */
  setupToken: string | null;
  /** The signed list of releases, and the public key of minisign that signs it. */
  releasesUrl: string | null;
  releasesKey: string | null;
  redisUrl: string | null;
  /** Null: no emails are sent. */
  mail: { url: string; from: string } | null;
  metricsToken: string | null;
  logLevel: string;
  /** Of each chain, under its leading coin, in order of preference; empty when none is set. */
  nodeUrls: Readonly<Record<Coin, readonly string[]>>;
  /** Beacon servers, and the root of the finalized block where the proof begins. */
  beacon: { urls: readonly string[]; checkpoint: string | null };
  /** As tls://host:port, tcp://host:port or `public`; empty: none. Null: nothing is set, so on mainnet the public ones answer lookups, and nothing else. */
  electrumUrls: Readonly<Record<Coin, readonly string[] | null>>;
  /** As host:port; empty: peers are found by DNS. */
  peers: Readonly<Record<Coin, readonly string[]>>;
  /** `on_demand`: once a wallet needs it. */
  p2p: Readonly<Record<Coin, P2p>>;
  p2pProxy: string | null;
  /** Of each node of a coin. */
  trusts: Readonly<Record<Coin, readonly TrustSetting[]>>;
  quorumAboveUsdCents: bigint;
  lightningMaxUsdCents: bigint;
  networks: Readonly<Record<ChainId, Network>>;
  ethChainId: number;
  confirmations: Readonly<Partial<Record<Coin, readonly ConfirmationTier[]>>>;
  /** To each source of a chain that is read by ranges. */
  dailyRequests: Readonly<Partial<Record<Coin, number>>>;
  priceSources: string;
  fiatSources: string;
  plans: Readonly<Record<Plan, PlanLimits>>;
  webhookAllow: readonly string[];
};

/** An invalid setting; the message names it and says what is expected. */
export class ConfigError extends Error {
  constructor(name: string, reason: string) {
    super(`${name} ${reason}`);
    this.name = 'ConfigError';
  }
}

/** Links, cookies and pages assume the root of a host. */
function withoutPath(name: string, url: string): string {
  const { origin, href } = new URL(url);
  if (href === `${origin}/`) return url;
  throw new ConfigError(
    name,
    'must be only a scheme, a host and a port, such as https://pay.example.com: Florin cannot be served below a path',
  );
}

/** Ethereum mainnet, Sepolia, and the default of development nodes. */

/** Whether details for debugging are printed. Never fails, unlike reading all settings. */
export const isDebugging = (env: Readonly<Record<string, string | undefined>> = process.env): boolean =>
  /^(debug|trace)$/.test(env.LOG_LEVEL ?? '');

/** The root of a beacon block, in lower case. */
function readCheckpoint(value: string | null): string | null {
  if (value === null) return null;
  if (!/^0x[0-9a-fA-F]{64}$/.test(value))
    throw new ConfigError('ETH_CHECKPOINT', 'must be 0x and 64 hex digits, the root of a finalized beacon block');
  return value.toLowerCase();
}

function readReleasesKey(value: string | null): string | null {
  if (value === null || /^RW[0-9A-Za-z+/]{54}$/.test(value)) return value;
  throw new ConfigError('RELEASES_KEY', 'must be a public key of minisign, 56 characters that begin with RW');
}

function readSwitch(name: string, value: string): boolean {
  if (value !== 'on' && value !== 'off') throw new ConfigError(name, 'must be on or off');
  return value === 'on';
}

/** Long enough that nobody can guess it. */
function readSetupToken(given: string | null, file: string | null): string | null {
  if (given !== null && file !== null) throw new ConfigError('SETUP_TOKEN', 'and SETUP_TOKEN_FILE cannot both be set');
  if (given === null && file === null) return null;
  let token = given;
  if (file !== null) {
    try {
      token = readFileSync(file, 'utf8').trim();
    } catch (cause) {
      throw new ConfigError('SETUP_TOKEN_FILE', `cannot be read: ${(cause as Error).message}`);
    }
  }
  if (!/^[\w.~+/=-]{24,64}$/.test(token!))
    throw new ConfigError(file === null ? 'SETUP_TOKEN' : 'SETUP_TOKEN_FILE', 'must be 24 to 64 letters, digits or . _ ~ + / = -');
  return token;
}

/** Reads and checks all settings. An empty value counts as unset. Errors: ConfigError. */
export function readConfig(env: Readonly<Record<string, string | undefined>> = process.env): Config {
  const text = (name: string): string | null => env[name]?.trim() || null;
  const list = (name: string): string[] =>
    (text(name) ?? '')
      .split(',')
      .map((part) => part.trim())
      .filter(Boolean);
  const integer = (name: string, fallback: number, least: number, most: number): number => {
    const value = text(name);
    if (value === null) return fallback;
    if (!/^\d{1,10}$/.test(value) || Number(value) < least || Number(value) > most)
      throw new ConfigError(name, `must be a whole number from ${least} to ${most}`);
    return Number(value);
  };
  const url = (name: string, fallback: string): string => {
    const value = text(name) ?? fallback;
    if (!URL.canParse(value) || !/^https?:$/.test(new URL(value).protocol)) throw new ConfigError(name, 'must be an http or https URL');
    return withoutEndSlashes(value);
  };
  /** Splits at commas that a new URL follows, because passwords may contain commas. */
  const urls = (name: string, form: string): string[] => {
    const list = (text(name) ?? '').split(/,\s*(?=[a-z]+:\/\/)/).filter(Boolean);
    const wrong = list.find((one) => !URL.canParse(one) || !/^(https?|wss?):$/.test(new URL(one).protocol));
    if (wrong !== undefined) throw new ConfigError(name, `must look like ${form}`);
    return list.map((one) => withoutEndSlashes(one));
  };
  const port = integer('PORT', 3000, 0, 65_535);
  const publicUrl = withoutPath('PUBLIC_URL', url('PUBLIC_URL', `http://localhost:${port}`));
  const certFile = text('TLS_CERT');
  const keyFile = text('TLS_KEY');
  if ((certFile === null) !== (keyFile === null)) throw new ConfigError('TLS_CERT', 'and TLS_KEY must be set together');
  const networks = {} as Record<ChainId, Network>;
  for (const chain of CHAINS) networks[chain] = 'mainnet';
  const nodeUrls = {} as Record<Coin, readonly string[]>;
  const electrumUrls = {} as Record<Coin, readonly string[] | null>;
  const peers = {} as Record<Coin, readonly string[]>;
  const p2p = {} as Record<Coin, P2p>;
  const trusts = {} as Record<Coin, readonly TrustSetting[]>;
  const confirmations: Partial<Record<Coin, readonly ConfirmationTier[]>> = {};
  const dailyRequests: Partial<Record<Coin, number>> = {};
  for (const coin of leadingCoins()) {
    const name = settingOf(coin);
    const network = text(`${name}_NETWORK`) ?? 'mainnet';
    if (!NETWORKS.some((known) => known === network)) throw new ConfigError(`${name}_NETWORK`, 'must be mainnet, testnet or regtest');
    networks[COIN[coin].chain] = network as Network;
    nodeUrls[coin] = urls(`${name}_NODE_URL`, 'http://user:pass@host:port');
    const isBitcoin = kindOf(coin) === 'bitcoin';
    peers[coin] = isBitcoin ? readPeers(`${name}_PEERS`, list(`${name}_PEERS`)) : [];
    p2p[coin] = isBitcoin
      ? readP2p(coin, text(`${name}_P2P`) ?? 'auto', {
          network: networks[COIN[coin].chain],
          given: peers[coin].length > 0,
          alone: nodeUrls[coin].length === 0,
        })
      : 'off';
    electrumUrls[coin] = isBitcoin ? readElectrum(`${name}_ELECTRUM_URL`, list(`${name}_ELECTRUM_URL`), networks[COIN[coin].chain]) : [];
    trusts[coin] = readTrusts(`${name}_TRUST`, list(`${name}_TRUST`), nodeUrls[coin]);
    if (chainOf(coin).ranges) dailyRequests[coin] = integer(`${name}_DAILY_REQUESTS`, 150_000, 2_000, 100_000_000);
    const tiers = text(`${name}_CONFIRMATIONS`);
    if (tiers !== null) confirmations[coin] = readConfirmations(`${name}_CONFIRMATIONS`, tiers);
  }
  const priceSources = text('PRICES') ?? 'coinbase,kraken,bitstamp,bitfinex,coingecko';
  return {
    port,
    host: text('HOST') ?? '127.0.0.1',
    publicUrl,
    paymentPageUrl: url('PAYMENT_PAGE_URL', publicUrl),
    tls: certFile && keyFile ? { certFile, keyFile } : null,
    trustedProxies: list('TRUSTED_PROXIES'),
    dataFolder: text('FLORIN_DATA') ?? './data',
    databaseUrl: text('DATABASE_URL'),
    secretKey: text('SECRET_KEY') ?? undefined,
    postgresBin: text('POSTGRES_BIN'),
    backupBeforeUpgrade: readSwitch('BACKUP_BEFORE_UPGRADE', text('BACKUP_BEFORE_UPGRADE') ?? 'on'),
    setupToken: readSetupToken(text('SETUP_TOKEN'), text('SETUP_TOKEN_FILE')),
    releasesUrl: text('RELEASES_URL') === null ? null : url('RELEASES_URL', ''),
    releasesKey: readReleasesKey(text('RELEASES_KEY')),
    redisUrl: readRedisUrl(text('REDIS_URL')),
    mail: readMail(text('SMTP_URL'), text('MAIL_FROM') ?? `florin@${new URL(publicUrl).hostname}`),
    metricsToken: text('METRICS_TOKEN'),
    logLevel: text('LOG_LEVEL') ?? 'info',
    nodeUrls,
    beacon: { urls: urls('ETH_BEACON_URL', 'https://host'), checkpoint: readCheckpoint(text('ETH_CHECKPOINT')) },
    electrumUrls,
    peers,
    p2p,
    p2pProxy: readProxyUrl(text('P2P_PROXY')),
    trusts,
    quorumAboveUsdCents: BigInt(integer('QUORUM_ABOVE', 1_000, 0, 1_000_000_000)) * 100n,
    lightningMaxUsdCents: BigInt(integer('LIGHTNING_MAX', 1_000, 0, 1_000_000_000)) * 100n,
    networks,
    ethChainId: integer('ETH_CHAIN_ID', CHAIN.ethereum.chainIds![networks.ethereum], 1, 2_147_483_647),
    confirmations,
    dailyRequests,
    priceSources,
    fiatSources: text('FIAT_RATES') ?? (priceSources.startsWith('static:') ? '' : 'coinbase,kraken,bitstamp,coingecko,bitpay,ecb'),
    plans: readPlans(text('PLANS')),
    webhookAllow: list('WEBHOOK_ALLOW'),
  };
}

function readConfirmations(name: string, tiers: string): readonly ConfirmationTier[] {
  try {
    return parseConfirmations(tiers);
  } catch (cause) {
    throw new ConfigError(name, cause instanceof Error ? cause.message : 'is invalid');
  }
}

/** The most peers that one network is read from. */
const MAX_PEERS = 16;
function readPeers(name: string, peers: readonly string[]): readonly string[] {
  const isPeer = (peer: string): boolean =>
    /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+):\d{1,5}$/i.test(peer) && Number(peer.slice(peer.lastIndexOf(':') + 1)) <= 65_535;
  if (peers.length > MAX_PEERS || !peers.every(isPeer)) throw new ConfigError(name, `must be up to ${MAX_PEERS} peers as host:port`);
  return peers;
}

/** `alone`: no other source is set. */
function readP2p(coin: Coin, word: string, { network, given, alone }: { network: Network; given: boolean; alone: boolean }): P2p {
  const name = `${coin}_P2P`;
  if (!/^(auto|on|off)$/.test(word)) throw new ConfigError(name, 'must be auto, on or off');
  if (word === 'off') return 'off';
  if (network === 'testnet') {
    if (word === 'on' || given) throw new ConfigError(given ? `${coin}_PEERS` : name, 'cannot be used on testnet: set a node URL instead');
    return 'off';
  }
  if (network === 'regtest') {
    if (word === 'on' && !given) throw new ConfigError(name, `needs ${coin}_PEERS on regtest, where peers cannot be found`);
    return given ? 'on' : 'off';
  }
  if (word === 'on') return 'on';
  return given || alone ? 'on_demand' : 'headers';
}

/** The most Electrum servers that are set for one coin. */
const MAX_ELECTRUM = 16;
function readElectrum(name: string, servers: readonly string[], network: Network): readonly string[] | null {
  if (servers.length === 0) return null;
  if (servers.length === 1 && servers[0] === 'off') return [];
  if (network === 'testnet') throw new ConfigError(name, 'can only be used on mainnet and regtest');
  const isServer = (server: string): boolean =>
    /^(?:tls|tcp):\/\/(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+):\d{1,5}$/i.test(server) && URL.canParse(server);
  if (servers.length > MAX_ELECTRUM || !servers.every((server) => server === 'public' || isServer(server)))
    throw new ConfigError(name, `must be up to ${MAX_ELECTRUM} servers as tls://host:port or tcp://host:port, or public, or off`);
  if (servers.includes('public') && network !== 'mainnet') throw new ConfigError(name, 'can be public only on mainnet');
  const plain = servers.find((server) => server.startsWith('tcp:') && !server.includes('.onion:') && defaultTrust(server) !== 'own');
  if (plain !== undefined) throw new ConfigError(name, `must use tls:// for ${plain}, because others could read and change what is sent`);
  return servers;
}

function readProxyUrl(value: string | null): string | null {
  if (value !== null && (!URL.canParse(value) || new URL(value).protocol !== 'socks5:' || new URL(value).port === ''))
    throw new ConfigError('P2P_PROXY', 'must look like socks5://host:port');
  return value;
}

function readTrusts(name: string, words: readonly string[], urls: readonly string[]): readonly TrustSetting[] {
  if (words.length === 0) return urls.map(defaultTrust);
  const trusts = words.map((word) => TRUST_SETTINGS.find((known) => known === word));
  if (trusts.includes(undefined) || (trusts.length !== 1 && trusts.length !== urls.length))
    throw new ConfigError(name, 'must be own or untrusted, or one of these for each node of the coin');
  return urls.map((_, i) => trusts[trusts.length === 1 ? 0 : i]!);
}

function readRedisUrl(value: string | null): string | null {
  if (value !== null && (!URL.canParse(value) || !/^rediss?:$/.test(new URL(value).protocol)))
    throw new ConfigError('REDIS_URL', 'must look like redis://host:6379');
  return value;
}

function readMail(url: string | null, from: string): Config['mail'] {
  if (url === null) return null;
  if (!URL.canParse(url) || !/^smtps?:$/.test(new URL(url).protocol) || new URL(url).hostname === '')
    throw new ConfigError('SMTP_URL', 'must look like smtp://user:password@host:587');
  if (!/^[^\s@<>"]+@[^\s@<>"]+$/.test(from)) throw new ConfigError('MAIL_FROM', 'must be an email address');
  return { url, from };
}

function readPlans(json: string | null): Record<Plan, PlanLimits> {
  const plans: Record<Plan, PlanLimits> = { ...DEFAULT_PLANS };
  if (json === null) return plans;
  let given: unknown;
  try {
    given = JSON.parse(json);
  } catch {
    throw new ConfigError('PLANS', 'must be JSON such as {"starter":{"per_minute":60,"per_month":100}}');
  }
  for (const [name, limits] of Object.entries(given as Record<string, Record<string, unknown>>)) {
    const plan = PLANS.find((known) => known === name);
    if (!plan || typeof limits !== 'object' || limits === null)
      throw new ConfigError('PLANS', `contains unknown plan ${name}; the plans are ${PLANS.join(', ')}`);
    const number = (key: string, fallback: number): number => {
      const value = limits[key] ?? fallback;
      if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
        throw new ConfigError('PLANS', `${name}.${key} must be a whole number; 0 means unlimited`);
      return value;
    };
    plans[plan] = {
      perMinute: number('per_minute', plans[plan].perMinute),
      perMonth: number('per_month', plans[plan].perMonth),
      webhooks: typeof limits.webhooks === 'boolean' ? limits.webhooks : plans[plan].webhooks,
    };
  }
  return plans;
}
