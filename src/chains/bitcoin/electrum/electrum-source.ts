/**
 * Electrum servers as a source that only answers lookups: of any address and transaction, without a node. What they say is proven by our
 * own headers or said by two operators; otherwise there is no answer. They are never asked about payments.
 */

import { PARAMS } from '#addresses';
import type { SocksProxy } from '#connections';
import type { BitcoinFamily, Network } from '#core/coin';
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import { type BlockRef, ChainError, type ChainSource, type ChainTransaction, type FeeTier, NO_FINALITY } from '../../chain-source.ts';
import type { ChainStore } from '../../store.ts';
import { amount, feeTier } from '../core-calls.ts';
import { type HashWork, type HeaderReader, type KnownHeader, refOf } from '../header-chain.ts';
import type { ProofStart } from '../header-service.ts';
import { openHeaderChain } from '../header-store.ts';
import { readEndpoint } from '../p2p/peer-book.ts';
import { parseTransaction, txidOf } from '../raw-block.ts';
import { checkNewest, lookUpBalance } from './electrum-balance.ts';
import { AnswerError, type ServerAddress, type Waits } from './electrum-connection.ts';
import {
  addressOf,
  askHistory,
  askTransaction,
  createDesk,
  type Desk,
  knownPlace,
  lookupFailed,
  noteFailure,
  type Ours,
  type ProvenPlace,
  provePlace,
  readKnown,
  scriptOf,
} from './electrum-desk.ts';
import { createElectrumHeaders, type ElectrumHeaders } from './electrum-headers.ts';
import { ElectrumProofError, isHash, type ProvenTransaction, scriptHashOf } from './electrum-proof.ts';
import { createServers, type ElectrumSession } from './electrum-servers.ts';

/** `tls://host:port` or `tcp://host:port`; `public` stands for the list of this release. */
function readAddresses(urls: readonly string[], family: BitcoinFamily): ServerAddress[] {
  const all = urls.flatMap((url) => (url === 'public' ? PUBLIC_SERVERS[family].map((server) => `tls://${server}`) : [url]));
  return all.flatMap((url) => {
    const [scheme, name] = url.split('://') as [string, string];
    const endpoint = readEndpoint(name);
    return endpoint ? [{ name, ...endpoint, tls: scheme === 'tls' }] : [];
  });
}

export type ElectrumOptions = {
  family: BitcoinFamily;
  network: Network;
  urls: readonly string[];
  proxy: SocksProxy | null;
  ours: Ours;
  /** The rules of the network, and where its headers begin. */
  proof: ProofStart;
  hashWork: HashWork;
  /** The headers that a follower in this process keeps; null when there is none. */
  shared(): HeaderReader | null;
  /** Whether followers keep the headers in the database up to date. */
  keptByFollowers: boolean;
  store: Pick<ChainStore, 'certificates' | 'headers'>;
  clock: Clock;
  log: Log;
  waits?: Waits;
  pauseMs?: number;
};

function openHeaders({ proof: { params, start }, hashWork, shared, keptByFollowers, store, clock }: ElectrumOptions): ElectrumHeaders {
  const nowSeconds = (): number => Math.floor(clock.now().getTime() / 1000);
  const open = () => openHeaderChain({ pages: store.headers(params), params, start, hashWork, nowSeconds });
  return createElectrumHeaders({ params, checkpointHeight: start.height, shared, open, keptByFollowers });
}

/** Connects when something is looked up for the first time, and again after a pause. */
export function createElectrumSource(options: ElectrumOptions): ChainSource {
  const { family, network, urls, proxy, ours, store, clock, log, waits, pauseMs = 1_000 } = options;
  const headers = openHeaders(options);
  const { params } = headers;
  const addresses = readAddresses(urls, family);
  const servers = createServers({
    addresses,
    params,
    proxy,
    certificates: store.certificates,
    clock,
    log,
    ...(waits && { waits }),
  });
  const desk = createDesk({ family, network, servers, headers, ours, pauseMs, clock });
  const unsupported = async (): Promise<never> => {
    throw new ChainError('unsupported', `Electrum servers only answer lookups; set ${family}_NODE_URL`);
  };
  /** The tip of the best chain, and the server that showed it. */
  const readTip = async (): Promise<{ tip: BlockRef; software: string }> => {
    const failures: string[] = [];
    for await (const session of servers.sessions(failures)) {
      try {
        await headers.follow(session);
        return { tip: refOf(headers.tip()!), software: session.software };
      } catch (error) {
        noteFailure(error, session, failures);
      }
    }
    throw new ChainError('outage', `no Electrum server answers: ${failures.join('; ')}`);
  };
  const knownOr = async (found: KnownHeader | null): Promise<BlockRef | null> => (found ? refOf(found) : null);
  return {
    coin: family,
    network,
    genesis: async () => params.genesis,
    health: async () => {
      const { tip, software } = await readTip();
      return {
        ...{ tip, headers: tip.height, syncing: false, software, version: 0, network },
        ...{ pruned: false, txindex: true, peers: null, mempool: null },
      };
    },
    tip: async () => (await readTip()).tip,
    // Every server is compared with it before it is asked anything else.
    blockAt: async (height) =>
      height === 0 ? { height, hash: params.genesis, parent: '', time: new Date(0) } : knownOr(headers.at(height)),
    block: async (hash) => knownOr(headers.find(hash)),
    fetchBlock: unsupported,
    fetchMempool: unsupported,
    txState: unsupported,
    finality: async () => NO_FINALITY,
    transaction: (txid) => lookUpTransaction(desk, txid),
    addressSummary: (address) => lookUpBalance(desk, address),
    fees: () => lookUpFees(desk),
    outlet: { send: (raw) => sendTransaction(desk, raw) },
    servers: { states: servers.states, check: servers.check },
    close: servers.close,
  };
}

// Fees that Electrum servers estimate. Nobody can prove an estimate: two operators must say about the same, and none can exceed a bound.

/** Blocks within which a transaction should be mined, slowest first. */
const SPEEDS = [
  { speed: 'slow', blocks: 24 },
  { speed: 'normal', blocks: 6 },
  { speed: 'fast', blocks: 2 },
] as const;
/** Two estimates of different nodes for the same moment. */
const APART = 2n;
/** No estimate is more than this many times the lowest fee that is ever suggested. */
const MOST_TIMES = 10_000n;

/** Base units per 1,000 virtual bytes; 0 when there is no estimate. Errors: ProofError. */
function readRate(value: unknown, { family }: Desk): bigint {
  if (typeof value !== 'number') throw new ElectrumProofError('a fee that is not a number');
  if (value <= 0) return 0n;
  const rate = amount(String(value));
  const most = PARAMS[family].floorPerKilobyte * MOST_TIMES;
  return rate > most ? most : rate;
}

/** The lowest fee that the node behind a server relays. Errors: ServerError, AnswerError, ProofError. */
async function askFloor(desk: Desk, session: ElectrumSession): Promise<bigint> {
  if (!session.protocol.startsWith('1.6')) return readRate(await session.ask('blockchain.relayfee', []), desk);
  const info = await session.ask('mempool.get_info', []);
  const { mempoolminfee, minrelaytxfee } = (typeof info === 'object' && info !== null ? info : {}) as Record<string, unknown>;
  const [one, other] = [readRate(mempoolminfee, desk), readRate(minrelaytxfee, desk)];
  return one > other ? one : other;
}

/** Slowest first; the lowest fee last. */
const askRates = async (desk: Desk, session: ElectrumSession): Promise<bigint[]> =>
  Promise.all([
    ...SPEEDS.map(async ({ blocks }) => readRate(await session.ask('blockchain.estimatefee', [blocks]), desk)),
    askFloor(desk, session),
  ]);

const isNear = (one: bigint, other: bigint): boolean => one <= other * APART && other <= one * APART;
const higher = (one: bigint, other: bigint): bigint => (one > other ? one : other);

/** Errors: ChainError. */
export async function lookUpFees(desk: Desk): Promise<FeeTier[]> {
  const failures: string[] = [];
  const seen: bigint[][] = [];
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const rates = await askRates(desk, session);
      const same = seen.find((other) => other.every((rate, i) => isNear(rate, rates[i]!)));
      if (same)
        return tiersOf(
          desk,
          same.map((rate, i) => higher(rate, rates[i]!)),
        );
      seen.push(rates);
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  const what = seen.length < 2 ? 'fees need the estimates of two servers' : 'the servers estimate fees that differ by more than twice';
  throw lookupFailed(desk, what, failures);
}

function tiersOf({ family }: Desk, rates: readonly bigint[]): FeeTier[] {
  let above = higher(PARAMS[family].floorPerKilobyte, rates[SPEEDS.length]!);
  // From slow to fast, so fast is never below normal, nor normal below slow.
  return SPEEDS.map(({ speed }, i): FeeTier => {
    above = higher(above, rates[i]!);
    return { ...feeTier(family, above), speed, minutes: PARAMS[family].minutes[speed], source: rates[i]! > 0n ? 'estimate' : 'fallback' };
  }).toReversed();
}

// Sends a transaction by Electrum servers, which then know who asks: only where nothing else can send it.

/**
 * The next server is asked when one refuses: it may be wrong, and what no network accepts is refused by all. Errors: ChainError; refused
 * when no server takes it and one says why not.
 */
export async function sendTransaction(desk: Desk, raw: Uint8Array): Promise<void> {
  const bytes = Buffer.from(raw);
  const txid = txidOf(parseTransaction(bytes, desk.family));
  const failures: string[] = [];
  let refusal: ChainError | null = null;
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const answer = await session.ask('blockchain.transaction.broadcast', [bytes.toString('hex')]);
      if (answer === txid) return;
      failures.push(`${session.name} answered something else than the transaction that it was sent`);
    } catch (error) {
      if (error instanceof AnswerError)
        refusal ??= new ChainError('refused', `the Electrum server ${session.name} did not accept it`, { cause: error });
      noteFailure(error, session, failures);
    }
  }
  throw refusal ?? lookupFailed(desk, 'no Electrum server took the transaction', failures);
}

// Looks up one transaction: its amounts by its bytes and those it spends, its block by a branch. What cannot be proven needs two
// operators.

/** Outputs whose history is asked for to find the block. */
const MOST_HISTORIES = 3;
/** Transactions that one spends from; beyond, its inputs are not told. */
const MOST_ORIGINS = 200;
const OP_RETURN = 0x6a;

/** Where a server says that a transaction is: in a block, waiting (0), or it does not tell (null). Errors: ServerError, ProofError. */
async function askHeight(desk: Desk, session: ElectrumSession, transaction: ProvenTransaction): Promise<number | null> {
  // The last output is the change more often than not, and has the shortest history.
  const candidates = transaction.outputs.filter(({ script }) => script.length > 0 && script[0] !== OP_RETURN).toReversed();
  const scripts = [...new Set(candidates.map(scriptOf))].slice(0, 2 * MOST_HISTORIES);
  const own = await desk.ours.scriptsOf(scripts);
  for (const script of scripts.filter((one) => !own.has(one)).slice(0, MOST_HISTORIES)) {
    try {
      const history = await askHistory(session, scriptHashOf(script));
      const entry = history.find(({ txid }) => txid === transaction.txid);
      if (entry) return entry.height;
    } catch (error) {
      // The history is too long for this server.
      if (!(error instanceof AnswerError)) throw error;
    }
  }
  return askVerbose(desk, session, transaction.txid);
}

/** The node behind a server may name the block: a hint, which the branch then proves. */
async function askVerbose({ headers }: Desk, session: ElectrumSession, txid: string): Promise<number | null> {
  try {
    const told = await session.ask('blockchain.transaction.get', [txid, true], 4 << 20);
    if (typeof told !== 'object' || told === null) return null;
    const { blockhash } = told as Record<string, unknown>;
    return blockhash === undefined ? 0 : isHash(blockhash) ? (headers.find(blockhash)?.height ?? null) : null;
  } catch (error) {
    if (error instanceof AnswerError) return null;
    throw error;
  }
}

type Statement =
  | { kind: 'confirmed'; transaction: ProvenTransaction; place: ProvenPlace }
  | { kind: 'pending'; transaction: ProvenTransaction }
  | { kind: 'unknown' };

/** What one server says, proven if it can be. Errors: ChainError, ServerError, AnswerError, ProofError. */
async function stateOf(desk: Desk, session: ElectrumSession, txid: string): Promise<Statement> {
  await desk.headers.follow(session);
  const place = knownPlace(desk, txid);
  if (place) return { kind: 'confirmed', transaction: await readKnown(desk, session, txid), place };
  const transaction = await askTransaction(desk, session, txid);
  const height = transaction && (await askHeight(desk, session, transaction));
  if (transaction && height !== null && height > 0)
    return { kind: 'confirmed', transaction, place: await provePlace(desk, session, txid, height) };
  if (transaction && height === null) throw new ElectrumProofError('a transaction without its block');
  // Not in a block: only a server that knows the newest one can say so.
  await checkNewest(desk, session);
  return transaction ? { kind: 'pending', transaction } : { kind: 'unknown' };
}

/** Who paid; null when that is not to be asked, or too much. Errors: ServerError, ProofError. */
async function originsOf(desk: Desk, session: ElectrumSession, { spends }: ProvenTransaction): Promise<ChainTransaction['inputs']> {
  const txids = [...new Set(spends.map((spend) => spend.slice(0, 64)))];
  if (txids.length > MOST_ORIGINS) return null;
  for (const txid of txids) if (await desk.ours.hasTransaction(txid)) return null;
  const origins = new Map(
    await Promise.all(txids.map(async (txid): Promise<[string, ProvenTransaction]> => [txid, await readKnown(desk, session, txid)])),
  );
  return spends.map((spend) => {
    const output = origins.get(spend.slice(0, 64))!.outputs[Number(spend.slice(65))];
    if (!output) throw new ElectrumProofError('a transaction that spends an output which does not exist');
    return { address: addressOf(desk, output), units: output.units };
  });
}

function typeOf(script: Uint8Array): string {
  if (script[0] === OP_RETURN) return 'nulldata';
  const isKey = (script.length === 35 || script.length === 67) && script[0] === script.length - 2 && script.at(-1) === 0xac;
  return isKey ? 'pubkey' : 'nonstandard';
}

/** Errors: ServerError, ProofError. */
async function describe(desk: Desk, session: ElectrumSession, found: Exclude<Statement, { kind: 'unknown' }>): Promise<ChainTransaction> {
  const { transaction } = found;
  const outputs = transaction.outputs.map((output) => {
    const address = addressOf(desk, output);
    return { address, units: output.units, ...(address === '' && { type: typeOf(output.script) }) };
  });
  const total = outputs.reduce((sum, { units }) => sum + units, 0n);
  const inputs = transaction.isCoinbase ? [{ address: 'coinbase', units: total }] : await originsOf(desk, session, transaction);
  const paid = inputs?.reduce((sum, { units }) => sum + units, 0n) ?? null;
  if (paid !== null && transaction.hasFee && paid < total) throw new ElectrumProofError('a transaction that pays more than it spends');
  const place = found.kind === 'confirmed' ? found.place : null;
  return {
    txid: transaction.txid,
    status: found.kind,
    confirmations: place ? desk.headers.tip()!.height - place.height + 1 : 0,
    blockHeight: place?.height ?? null,
    blockHash: place?.hash ?? null,
    timestamp: place && new Date(place.timeSeconds * 1000),
    amountUnits: total,
    feeUnits: transaction.isCoinbase ? 0n : transaction.hasFee && paid !== null ? paid - total : null,
    inputs,
    outputs,
  };
}

/** Errors: ChainError. */
export async function lookUpTransaction(desk: Desk, txid: string): Promise<ChainTransaction> {
  if (await desk.ours.hasTransaction(txid))
    throw new ChainError(
      'unsupported',
      'no source that may be asked about it; Electrum servers are not asked about transactions of payments',
    );
  const failures: string[] = [];
  const said = { pending: 0, unknown: 0 };
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const found = await stateOf(desk, session, txid);
      if (found.kind === 'confirmed') return await describe(desk, session, found);
      said[found.kind]++;
      if (said[found.kind] < 2) continue;
      if (found.kind === 'pending') return await describe(desk, session, found);
      throw new ChainError('not_found', txid);
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  if (said.pending > 0) throw lookupFailed(desk, 'the transaction is not in a block, and no second server shows it', failures);
  if (said.unknown > 0) throw lookupFailed(desk, 'one server does not know the transaction, and no second one confirms that', failures);
  throw lookupFailed(desk, 'no Electrum server proves where the transaction is', failures);
}

// Public Electrum servers that wallets of each coin list, one or two of each operator. The people who run them learn which addresses are
// looked up, when, and from where, so they are asked what somebody looks up, and nothing else.

/** With TLS. From the lists of Electrum, Sparrow, BasicSwap, Electrum-LTC, Electrum-Dash, Cake Wallet and Stack Wallet, 2024 to 2026. */
const PUBLIC_SERVERS: Readonly<Record<BitcoinFamily, readonly string[]>> = {
  BTC: [
    'electrum.blockstream.info:50002',
    'electrum.emzy.de:50002',
    'electrum.bitaroo.net:50002',
    'fulcrum.sethforprivacy.com:50002',
    'bitcoin.lu.ke:50002',
    'electrum.diynodes.com:50022',
    'bitcoin.stackwallet.com:50002',
  ],
  LTC: [
    'electrum-ltc.bysh.me:50002',
    'electrum.ltc.xurious.com:50002',
    'backup.electrum-ltc.org:443',
    'ltc.rentonisk.com:50002',
    'litecoin.stackwallet.com:20063',
    'electrum1.cipig.net:20063',
    'ltc-electrum.cakewallet.com:50002',
    'electrum-ltc.petrkr.net:60002',
  ],
  DOGE: ['dogecoin.stackwallet.com:50022', 'doge.aftrek.org:50002', 'electrum1.cipig.net:20060', 'electrum2.cipig.net:20060'],
  DASH: ['dash-electrum.pshenmic.dev:50002', 'dash.stackwallet.com:60002', 'electrum1.cipig.net:20061', 'electrum2.cipig.net:20061'],
};
