/**
 * A Blockbook server (HTTP API v2, WebSocket for hints): look-ups of any address and transaction for all five coins, and
 * detection of payments where no node is configured, except ETH: its index of internal transfers shows reverted ones too.
 */
import { addressOfScript, checksumAddress, decodeAddress } from '../../core/address.ts';
import type { Clock } from '../../core/clock.ts';
import { COIN, type Coin, type Network } from '../../core/coin.ts';
import { divideCeil } from '../../core/money.ts';
import { Problem } from '../../core/problem.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import { matchBlock, merkleRootOf, parseBlockInTurns, type RawBlock } from '../bitcoin/raw-block.ts';
import {
  type AddressSummary,
  type BlockRef,
  type BlockScan,
  ChainError,
  type ChainSource,
  type ChainTransaction,
  type Conflict,
  type FeeTier,
  type Matcher,
  orNull,
  type Sighting,
} from '../chain.ts';
import { type Fields, fields, requestFrom } from '../reply.ts';
import { createHintSocket } from './blockbook-socket.ts';

const TIMEOUT_MS = 15_000;
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** How long the tip is cached while the socket announces new blocks, because servers count requests. */
const TIP_FRESH_MS = 10_000;
const TIP_FRESH_HINTED_MS = 30_000;
/** The pause after a rate limit without Retry-After. */
const PATIENCE_MS = 30_000;
/** Pages are numbered from 1. Beyond the last page the server returns the last one. */
const LAST_PAGE = 1_000_000;
const MAX_PAGES = 1_000;
/** Addresses and waiting transactions requested in one mempool poll; the rest follows in the next poll. */
const PULLS_PER_LOOK = 20;
/** The server accepts at most this many addresses per connection; the newest are watched. */
const MAX_WATCHED = 1_000;
/** How often a waiting transaction is requested again. */
const WAITING_FRESH_MS = 15_000;
/** Cached headers. */
const MAX_HEADERS = 500;
/** One point of the balance history for the whole life of an address. */
const HISTORY_SECONDS = 100 * 365 * 86_400;

const rows = (value: unknown): Fields[] => (Array.isArray(value) ? value.map(fields) : []);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
/** Replies omit zero. */
const integer = (value: unknown): number => (Number.isSafeInteger(Number(value ?? 0)) ? Number(value ?? 0) : 0);
const NETWORK_OF: Readonly<Record<string, Network>> = {
  main: 'mainnet',
  mainnet: 'mainnet',
  '1': 'mainnet',
  test: 'testnet',
  testnet: 'testnet',
  testnet3: 'testnet',
  testnet4: 'testnet',
  signet: 'testnet',
  sepolia: 'testnet',
  hoodi: 'testnet',
  '11155111': 'testnet',
  regtest: 'regtest',
};

/** Creates the reader of one server. The socket opens when payments are first read from it, not for lookups. */
export function createBlockbookSource({
  coin,
  network,
  url,
  outgoing,
  log,
  clock,
}: {
  coin: Coin;
  network: Network;
  url: string;
  outgoing: Outgoing;
  log: Log;
  clock: Clock;
}): ChainSource {
  const server = `the ${coin} Blockbook server`;
  const base = url.replace(/\/+$/, '');
  const headers = new Map<string, BlockRef>();
  let patientUntilMs = 0;
  let about: { atMs: number; status: Fields; tipHash: string; height: number } | null = null;
  /** Old servers do not offer raw blocks. */
  let hasRawBlocks = true;
  const hinted = new Set<string>();
  const listeners = new Set<() => void>();
  const socket = createHintSocket({
    url: `${base.replace(/^http/, 'ws')}/websocket`,
    clock,
    log,
    onBlock: () => {
      about = null;
      for (const wake of listeners) wake();
    },
    onTransaction: (txid) => {
      hinted.add(txid);
      for (const wake of listeners) wake();
    },
  });

  const get = async (path: string): Promise<unknown> => {
    const waitMs = patientUntilMs - clock.monotonicMs();
    if (waitMs > 0) throw new ChainError('outage', `${server} wants ${Math.ceil(waitMs / 1000)} s of rest`);
    const reply = await requestFrom(outgoing, server, {
      url: `${base}/api/${path}`,
      headers: { accept: 'application/json' },
      timeoutMs: TIMEOUT_MS,
      maxReplyBytes: MAX_REPLY_BYTES,
    });
    if (reply.status === 429) {
      const seconds = /^\d{1,5}$/.test(reply.headers['retry-after'] ?? '') ? Number(reply.headers['retry-after']) : PATIENCE_MS / 1000;
      patientUntilMs = clock.monotonicMs() + seconds * 1000;
      throw new ChainError('outage', `${server} was asked too often and wants ${seconds} s of rest`);
    }
    let parsed: unknown;
    try {
      // Amounts are strings; numbers in replies are never money.
      parsed = JSON.parse(Buffer.from(reply.body).toString());
    } catch (cause) {
      throw new ChainError('outage', `${server} answered status ${reply.status} and no JSON`, { cause });
    }
    const { error } = fields(parsed);
    if (reply.status !== 200 || error !== undefined) {
      const reason = text(error) || text(fields(error).message) || `status ${reply.status}`;
      throw new ChainError(/not found/i.test(reason) ? 'not_found' : 'outage', `${server}: ${reason}`);
    }
    return parsed;
  };
  const incomplete = (what: string) => new ChainError('outage', `${server} answered without ${what}`);
  const units = (value: unknown, what: string): bigint => {
    if (!/^-?\d+$/.test(text(value))) throw incomplete(what);
    return BigInt(text(value));
  };

  const readAbout = async (): Promise<NonNullable<typeof about>> => {
    const freshMs = network === 'regtest' ? 0 : socket.alive() ? TIP_FRESH_HINTED_MS : TIP_FRESH_MS;
    if (about && clock.monotonicMs() - about.atMs < freshMs) return about;
    const atMs = clock.monotonicMs();
    const status = fields(await get('status'));
    const { bestHeight } = fields(status.blockbook);
    if (typeof bestHeight !== 'number') throw incomplete('its height');
    const tipHash = text(fields(await get(`v2/block-index/${bestHeight}`)).blockHash);
    if (tipHash === '') throw incomplete('the hash of its tip');
    const read = { atMs, status, tipHash, height: bestHeight };
    // An outage of the node behind it is not cached, because it returns sooner.
    if (fields(status.backend).error === undefined) about = read;
    return read;
  };
  const header = (value: Fields): BlockRef => ({
    height: integer(value.height),
    hash: text(value.hash),
    parent: text(value.previousBlockHash),
    time: new Date(integer(value.time) * 1000),
  });
  const readHeader = async (hash: string): Promise<BlockRef> => {
    const known = headers.get(hash);
    if (known) return known;
    const found = header(fields(await get(`v2/block/${hash}?page=${LAST_PAGE}`)));
    if (found.hash !== hash) throw new ChainError('outage', `${server} answered another block than ${hash}`);
    if (headers.size >= MAX_HEADERS) headers.delete(headers.keys().next().value!);
    headers.set(hash, found);
    return found;
  };
  const tip = async (): Promise<BlockRef> => readHeader((await readAbout()).tipHash);

  /** The output script of an address; null when it has none (data outputs are shown as words). */
  const keyOf = (address: string): string | null => {
    try {
      return decodeAddress(address, { coin, network }).key;
    } catch (error) {
      if (error instanceof Problem) return null;
      throw error;
    }
  };
  const match = (tx: Fields, matcher: Matcher, kind: Sighting['kind'], sightings: Sighting[], conflicts: Conflict[]): void => {
    const txid = text(tx.txid);
    // Zero is omitted: an input without `vout` spends the first output. Block pages do not list inputs.
    const spends = kind === 'output' ? rows(tx.vin).flatMap((i) => (i.txid ? [`${text(i.txid)}:${integer(i.vout)}`] : [])) : [];
    for (const output of rows(tx.vout)) {
      const key = text(output.hex) || (output.isAddress === true ? keyOf(text((output.addresses as unknown[] | null)?.[0])) : null);
      if (!key || !matcher.has(key)) continue;
      const value = units(output.value ?? '0', 'the value of an output');
      if (value > 0n) sightings.push({ key, ref: `${txid}:${integer(output.n)}`, txid, units: value, kind, spends, lock: null });
    }
    if (matcher.watchesSpends) for (const outpoint of spends) if (matcher.spends(outpoint)) conflicts.push({ outpoint, txid });
  };

  /** The block as bytes, checked against its merkle root; null when the server does not offer raw blocks. */
  const readRawBlock = async (hash: string): Promise<RawBlock | null> => {
    if (coin === 'ETH' || !hasRawBlocks) return null;
    const reply = await orNull(get(`v2/rawblock/${hash}`)).catch((error: ChainError) => {
      // An old server does not know the path and returns an HTML page or an error.
      if (/no JSON|status 404|internal/i.test(error.message)) return null;
      throw error;
    });
    const hex = text(fields(reply).hex);
    if (hex === '') {
      hasRawBlocks = false;
      log.warn({ coin }, 'This Blockbook server does not return raw blocks; reading blocks page by page, which cannot detect replacements');
      return null;
    }
    let block: RawBlock;
    try {
      block = await parseBlockInTurns(Buffer.from(hex, 'hex'), coin);
    } catch (cause) {
      throw new ChainError('outage', `block ${hash} cannot be read: ${(cause as Error).message}`, { cause });
    }
    // Only DASH identifies blocks by another hash (X11). There the merkle root and the parent hash prove the block.
    if (coin !== 'DASH' && block.hash !== hash) throw new ChainError('outage', `${server} answered another block than ${hash}`);
    return block;
  };
  /** All transactions of a block, page by page; complete, in order, and matching its merkle root. */
  const readPages = async (hash: string): Promise<Fields[]> => {
    const found: Fields[] = [];
    for (let page = 1, pages = 1; page <= pages; page++) {
      const part = fields(await get(`v2/block/${hash}?page=${page}`));
      if (text(part.hash) !== hash || integer(part.page) !== page)
        throw new ChainError('outage', `${server} answered another page of ${hash}`);
      pages = Math.min(integer(part.totalPages) || 1, MAX_PAGES);
      found.push(...rows(part.txs));
      if (page < pages) continue;
      const ids = found.map((tx) => text(tx.txid));
      if (ids.length !== integer(part.txCount) || (part.merkleRoot !== undefined && merkleRootOf(ids) !== text(part.merkleRoot)))
        throw new ChainError('outage', `${server} did not show all transactions of block ${hash}`);
    }
    return found;
  };

  // What is known about the mempool between polls.
  const unread = new Map<string, Fields>();
  const pulledAtMs = new Map<string, number>();
  const waitingAsOf = new Map<string, { atMs: number; present: boolean }>();
  const isUnconfirmed = (tx: Fields): boolean => text(tx.txid) !== '' && integer(tx.confirmations) === 0;
  const pullTransaction = async (txid: string): Promise<void> => {
    const tx = fields(await orNull(get(`v2/tx/${txid}`)));
    const present = isUnconfirmed(tx);
    waitingAsOf.set(txid, { atMs: clock.monotonicMs(), present });
    if (present) unread.set(txid, tx);
  };
  const pullAddress = async (address: string): Promise<void> => {
    const atMs = clock.monotonicMs();
    const summary = fields(await get(`v2/address/${address}?details=txs&pageSize=50`));
    for (const tx of rows(summary.transactions)) if (isUnconfirmed(tx)) unread.set(text(tx.txid), tx);
    pulledAtMs.set(address, atMs);
  };
  /** Requests what is unknown about the newest addresses and waiting transactions. False when something is left for the next poll. */
  const look = async (matcher: Matcher): Promise<boolean> => {
    const startedMs = clock.monotonicMs();
    const addresses = (await matcher.recent(clock.now()))
      .slice(-MAX_WATCHED)
      .flatMap((key) => addressOfScript(key, { coin, network }) ?? []);
    // Subscribe first and request then, so nothing is missed in between.
    const sinceMs = (await socket.watch(addresses)) ? socket.openedAtMs() : startedMs;
    const due = addresses
      .filter((address) => (pulledAtMs.get(address) ?? Number.NEGATIVE_INFINITY) < sinceMs)
      .sort((a, b) => (pulledAtMs.get(a) ?? 0) - (pulledAtMs.get(b) ?? 0));
    for (const address of due.slice(0, PULLS_PER_LOOK)) await pullAddress(address);
    const current = new Set(addresses);
    for (const address of pulledAtMs.keys()) if (!current.has(address)) pulledAtMs.delete(address);
    for (const txid of [...hinted]) {
      await pullTransaction(txid);
      hinted.delete(txid);
    }
    const waits = new Set(matcher.waiting);
    for (const txid of waitingAsOf.keys()) if (!waits.has(txid) && !unread.has(txid)) waitingAsOf.delete(txid);
    const ageOf = (txid: string) => clock.monotonicMs() - (waitingAsOf.get(txid)?.atMs ?? Number.NEGATIVE_INFINITY);
    const freshMs = network === 'regtest' ? 0 : WAITING_FRESH_MS;
    const old = [...waits].filter((txid) => ageOf(txid) > freshMs).sort((a, b) => ageOf(b) - ageOf(a));
    for (const txid of old.slice(0, PULLS_PER_LOOK)) await pullTransaction(txid);
    return due.length <= PULLS_PER_LOOK;
  };

  const describe = async (tx: Fields): Promise<ChainTransaction> => {
    const specific = fields(tx.ethereumSpecific);
    const failed = coin === 'ETH' && specific.status === 0;
    const confirmations = integer(tx.confirmations);
    const mined = confirmations > 0 && integer(tx.blockHeight) >= 0;
    const shown = (value: unknown): string => {
      const address = text((value as unknown[] | null)?.[0]);
      return coin === 'ETH' && /^0x[0-9a-fA-F]{40}$/.test(address) ? checksumAddress(address.slice(2)) : address;
    };
    const amountUnits = failed ? 0n : units(tx.value ?? '0', 'the amount');
    const outputs = rows(tx.vout).map((output) => {
      const address = output.isAddress === true ? shown(output.addresses) : '';
      const type = coin === 'ETH' ? 'create' : text(output.type) || 'nonstandard';
      return { address, units: failed ? 0n : units(output.value ?? '0', 'the value of an output'), ...(address === '' && { type }) };
    });
    const vin = rows(tx.vin);
    const coinbase = coin !== 'ETH' && vin.length === 1 && !vin[0]!.txid;
    const inputs =
      coin === 'ETH'
        ? vin.map((input) => ({ address: shown(input.addresses), units: amountUnits }))
        : coinbase
          ? [{ address: 'coinbase', units: amountUnits }]
          : vin.filter((i) => i.txid).map((i) => ({ address: shown(i.addresses), units: units(i.value ?? '0', 'the value of an input') }));
    const fee = tx.fees === undefined ? null : units(tx.fees, 'the fee');
    // LTC: transactions into or out of MWEB have hidden inputs and outputs, so the fee is unknown.
    const adds =
      coin === 'ETH' || inputs.reduce((sum, i) => sum + i.units, 0n) - outputs.reduce((sum, o) => sum + o.units, 0n) === (fee ?? 0n);
    return {
      txid: text(tx.txid),
      status: failed ? 'failed' : mined ? 'confirmed' : 'pending',
      confirmations: mined ? confirmations : 0,
      blockHeight: mined ? integer(tx.blockHeight) : null,
      blockHash: mined ? text(tx.blockHash) : null,
      timestamp: mined ? new Date(integer(tx.blockTime) * 1000) : null,
      amountUnits,
      // The fee of an ETH transaction is known when it is mined.
      feeUnits: coinbase ? 0n : coin === 'ETH' ? (mined ? fee : null) : adds ? (fee ?? 0n) : null,
      inputs,
      outputs,
    };
  };

  /** ETH: Blockbook has no totals. They are added up from its history, and used only if they match the balance on the chain. */
  const ethSummary = async (address: string): Promise<AddressSummary> => {
    const found = fields(await get(`v2/address/${address}?details=txids&pageSize=1`));
    const balanceUnits = units(found.balance, 'the balance');
    const history = await get(`v2/balancehistory/${address}?groupBy=${HISTORY_SECONDS}`);
    let receivedUnits = 0n;
    let sentUnits = 0n;
    for (const point of rows(history)) {
      receivedUnits += units(point.received ?? '0', 'what was received');
      sentUnits += units(point.sent ?? '0', 'what was sent');
    }
    if (receivedUnits - sentUnits !== balanceUnits)
      throw new ChainError(
        'unsupported',
        'the history that Blockbook keeps of this ETH address does not add up to its balance (internal transfers are not indexed)',
      );
    // A waiting outgoing transaction lowers the balance by its highest possible fee; the real fee is unknown until it is mined.
    if (integer(found.unconfirmedTxs) > 0 && text(found.unconfirmedSending) !== '' && found.unconfirmedSending !== '0')
      throw new ChainError('outage', 'a transaction of this address is on its way and its fee is known when it is mined');
    const unconfirmedUnits = integer(found.unconfirmedTxs) > 0 ? units(found.unconfirmedBalance, 'the unconfirmed balance') : 0n;
    return { balanceUnits, unconfirmedUnits, receivedUnits, sentUnits, transactions: integer(found.txs) };
  };

  return {
    coin,
    network,
    genesis: async () => text(fields(await get('v2/block-index/0')).blockHash),
    health: async () => {
      const { status } = await readAbout();
      const indexer = fields(status.blockbook);
      const backend = fields(status.backend);
      if (backend.error !== undefined || !backend.chain) throw new ChainError('outage', `the node behind ${server} does not answer`);
      const best = await tip();
      const chain = text(backend.chain).toLowerCase();
      // `inSync` is briefly false with every block, so only missing blocks count.
      return {
        tip: best,
        headers: Math.max(integer(backend.headers), integer(backend.blocks), best.height),
        syncing: indexer.initialSync === true || integer(backend.blocks) > best.height + 2,
        software: `Blockbook ${text(indexer.version)} on ${text(backend.subversion).replaceAll('/', '') || text(backend.version)}`,
        version: /^\d+$/.test(text(backend.version)) ? Number(backend.version) : 0,
        network: NETWORK_OF[chain] ?? chain,
        pruned: false,
        txindex: true,
        peers: null,
      };
    },
    tip,
    blockAt: async (height) => {
      const found = await orNull(
        get(`v2/block-index/${height}`).catch((error: ChainError) => {
          // Beyond its tip the server passes on the reply of its node.
          if (about && height > about.height) throw new ChainError('not_found', error.message, { cause: error });
          throw error;
        }),
      );
      const hash = text(fields(found).blockHash);
      return hash === '' ? null : readHeader(hash);
    },
    block: (hash) => orNull(readHeader(hash)),
    fetchBlock: async (hash) => {
      const ref = await readHeader(hash);
      const raw = await readRawBlock(hash);
      if (raw && raw.parent !== ref.parent) throw new ChainError('outage', `the header of ${hash} does not fit the block`);
      const listed = raw ? [] : await readPages(hash);
      return {
        ref,
        scan: async (matcher): Promise<BlockScan> => {
          if (raw) return { block: ref, ...(await matchBlock(raw, matcher)) };
          const sightings: Sighting[] = [];
          const conflicts: Conflict[] = [];
          for (const [i, tx] of listed.entries()) {
            // LTC: the last transaction of a block is the HogEx. If it is not, the payment merely waits for more confirmations.
            const kind = i === 0 ? 'coinbase' : coin === 'LTC' && i === listed.length - 1 ? 'pegout' : 'output';
            match(tx, matcher, kind, sightings, conflicts);
          }
          return { block: ref, sightings, conflicts };
        },
      };
    },
    fetchMempool: async () => {
      socket.open();
      return {
        scan: async (matcher) => {
          const complete = await look(matcher);
          const sightings: Sighting[] = [];
          const conflicts: Conflict[] = [];
          for (const tx of unread.values()) match(tx, matcher, 'output', sightings, conflicts);
          // The server does not list the mempool. Waiting transactions are requested one by one, and count as present until then.
          const present = new Set([...unread.keys(), ...matcher.waiting.filter((txid) => waitingAsOf.get(txid)?.present ?? true)]);
          return { sightings, conflicts, present, complete };
        },
        done: () => unread.clear(),
      };
    },
    txState: async (txid) => {
      const tx = fields(await orNull(get(`v2/tx/${txid}`)));
      if (!tx.txid) return { state: 'unknown', blockHash: null, lock: null };
      // Locks count only when the operator's own node reports them.
      return isUnconfirmed(tx)
        ? { state: 'mempool', blockHash: null, lock: null }
        : { state: 'mined', blockHash: text(tx.blockHash), lock: null };
    },
    finality: async () => ({ safe: null, finalized: null, chainlock: null, tip: null }),
    transaction: async (txid) => {
      const tx = await orNull(get(`v2/tx/${txid}`));
      if (tx === null) throw new ChainError('not_found', txid);
      return describe(fields(tx));
    },
    addressSummary: async (address) => {
      if (coin === 'ETH') return ethSummary(address);
      // Without details the server omits the mempool.
      const found = fields(await get(`v2/address/${address}?details=txids&pageSize=1`));
      return {
        balanceUnits: units(found.balance, 'the balance'),
        unconfirmedUnits: units(found.unconfirmedBalance, 'the unconfirmed balance'),
        receivedUnits: units(found.totalReceived, 'what was received'),
        sentUnits: units(found.totalSent, 'what was sent'),
        transactions: integer(found.txs),
      };
    },
    readUnspent: async ({ address, outputs }) => {
      if (coin === 'ETH')
        return { units: units(fields(await get(`v2/address/${address}?details=basic`)).balance, 'the balance'), leavingUnits: 0n };
      const refsOf = async (query: string) =>
        new Set(rows(await get(`v2/utxo/${address}${query}`)).map((o) => `${text(o.txid)}:${integer(o.vout)}`));
      const mined = await refsOf('?confirmed=true');
      const all = await refsOf('');
      const there = outputs.filter((output) => mined.has(output.ref));
      const sum = (list: typeof outputs) => list.reduce((total, output) => total + output.units, 0n);
      return { units: sum(there), leavingUnits: sum(there.filter((output) => !all.has(output.ref))) };
    },
    fees: async () => {
      const targets = { fast: 2, normal: 6, slow: 24 } as const;
      let above = coin === 'ETH' ? 0n : coin === 'DOGE' ? 1_000_000n : 1_000n;
      const tiers: FeeTier[] = [];
      // From slow to fast, so fast is never below normal, nor normal below slow.
      for (const speed of ['slow', 'normal', 'fast'] as const) {
        const given = decimalUnits(fields(await get(`v2/estimatefee/${targets[speed]}?conservative=false`)).result, COIN[coin].decimals);
        if (coin === 'ETH' && (given === null || given <= 0n)) throw incomplete('a gas price');
        const estimated = given !== null && given > 0n;
        if (estimated && given > above) above = given;
        tiers.unshift({
          speed,
          // Coin per kilobyte; ETH: wei per gas, shown in gwei.
          rateE8: coin === 'ETH' ? above / 10n : above * 100_000n,
          units: coin === 'ETH' ? above * BigInt(COIN.ETH.typicalSize) : divideCeil(above * BigInt(COIN[coin].typicalSize), 1_000n),
          minutes: MINUTES[coin][speed],
          source: estimated ? 'estimate' : 'fallback',
        });
      }
      return tiers;
    },
    onHint: (wake) => {
      listeners.add(wake);
      return () => listeners.delete(wake);
    },
    close: () => socket.close(),
  };
}

/** A decimal string in base units; null when it is not a decimal. Digits beyond the coin's decimals are cut. */
function decimalUnits(value: unknown, decimals: number): bigint | null {
  const found = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text(value));
  if (!found) return null;
  const digits = BigInt(found[2]! + (found[3] ?? '').slice(0, decimals).padEnd(decimals, '0'));
  return found[1] ? -digits : digits;
}

/** Usual waiting times of the three speeds. */
const MINUTES: Readonly<Record<Coin, Readonly<Record<FeeTier['speed'], string>>>> = {
  BTC: { fast: '10-20', normal: '30-60', slow: '120-240' },
  ETH: { fast: '0-1', normal: '1-2', slow: '2-5' },
  LTC: { fast: '2-5', normal: '10-15', slow: '45-60' },
  DASH: { fast: '0-1', normal: '3-5', slow: '10-15' },
  DOGE: { fast: '1-2', normal: '5-10', slow: '20-30' },
};
