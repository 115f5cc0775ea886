/**
 * The door through which all facts of a chain come. Whatever a source is, followers see only blocks that are the ones they asked for,
 * amounts above zero, and sums that add up. Anything else is an outage of that source, so that another one is asked.
 */
import { COIN, type Coin, chainOf } from '#core/coin';
import { type Clock, HOUR_MS } from '#core/dates';
import {
  type AddressSummary,
  type BlockRef,
  type BlockScan,
  ChainError,
  type ChainSource,
  type ChainTransaction,
  type FeeTier,
  type Finality,
  type GasFee,
  type MempoolScan,
  type RangeReader,
  type Sighting,
  type Unspent,
} from './chain-source.ts';

/** 32 bytes in hex; chains of accounts write 0x before it. */
const HASH = /^(0x)?[0-9a-f]{64}$/;
/** An output script, or an account. */
const KEY = /^([0-9a-f]{2})+$/;

type Ensure = (condition: boolean, what: string) => void;
const ensureOf =
  (name: string): Ensure =>
  (condition, what) => {
    if (!condition) throw new ChainError('outage', `${name} answered ${what}`);
  };

/** Miners' clocks may be this far ahead; no network accepts more. */
const AHEAD_MS = 2 * HOUR_MS;
/** What a block that a source shows must be, and the highest one so far. */
type Blocks = { check(ref: BlockRef): BlockRef; checkTime(time: Date, height: number | null): void; highest(): number };
/** Blocks of the future, and of a time before the chain existed, count as little as heights that no chain can have reached. */
function createBlocks({ coin, network }: Pick<ChainSource, 'coin' | 'network'>, ensure: Ensure, clock: Pick<Clock, 'now'>): Blocks {
  // Test networks have first blocks of their own.
  const firstMs = network === 'mainnet' ? Date.parse(chainOf(coin).firstBlock) : 0;
  let highest = 0;
  const checkTime = (time: Date, height: number | null): void => {
    ensure(time.getTime() <= clock.now().getTime() + AHEAD_MS, 'a block of more than two hours in the future');
    // Block 0 of some chains has no time.
    ensure(time.getTime() >= firstMs || height === 0, 'a block from before the first one of its chain');
  };
  return {
    checkTime,
    check: (ref) => {
      checkTime(checkBlockRef(ref, ensure).time, ref.height);
      highest = Math.max(highest, ref.height);
      return ref;
    },
    highest: () => highest,
  };
}

const isHeight = (height: number): boolean => Number.isSafeInteger(height) && height >= 0;

function checkBlockRef(ref: BlockRef, ensure: Ensure): BlockRef {
  ensure(isHeight(ref.height), `the height ${ref.height}`);
  ensure(HASH.test(ref.hash), 'a block without a hash of 32 bytes');
  // Block 0 has no parent.
  ensure(HASH.test(ref.parent) || ref.height === 0, 'a block without a parent');
  ensure(Number.isFinite(ref.time.getTime()), 'a block without a time');
  return ref;
}

function checkSighting({ coin, key, txid, ref, units, outputs }: Sighting, ensure: Ensure, on: Coin): void {
  ensure(coin === undefined || COIN[coin].chain === COIN[on].chain, `a transfer of ${coin}, which is on another chain`);
  ensure(units > 0n, `a transfer of ${units} base units`);
  ensure(KEY.test(key), 'a transfer to something that is neither a script nor an account');
  ensure(ref !== '' && (txid === null || HASH.test(txid)), 'a transfer without a transaction');
  if (!outputs) return;
  ensure(
    outputs.every(([, part]) => part > 0n) && outputs.reduce((sum, [, part]) => sum + part, 0n) === units,
    'outputs that do not add up to their transfer',
  );
}

function checkScan<T extends Pick<BlockScan | MempoolScan, 'sightings'>>(scan: T, ensure: Ensure, on: Coin): T {
  for (const sighting of scan.sightings) checkSighting(sighting, ensure, on);
  return scan;
}

function checkFees(tiers: readonly FeeTier[], ensure: Ensure): readonly FeeTier[] {
  const rates = (['slow', 'normal', 'fast'] as const).map((speed) => tiers.find((tier) => tier.speed === speed)?.units ?? -1n);
  const [slow = -1n, normal = -1n, fast = -1n] = rates;
  ensure(slow >= 0n && normal >= slow && fast >= normal, 'fees of which a faster one is cheaper');
  return tiers;
}

/** A million gwei: more was never asked for on any chain. */
const HIGHEST_GAS_PRICE = 10n ** 15n;
const HIGHEST_DATA_FEE = HIGHEST_GAS_PRICE * 100_000n;
function checkGasFee(fee: GasFee, ensure: Ensure): GasFee {
  ensure(fee.gasPrice >= 0n && fee.gasPrice <= HIGHEST_GAS_PRICE, 'a gas price that cannot be true');
  ensure(fee.dataFee >= 0n && fee.dataFee <= HIGHEST_DATA_FEE, 'a fee for data that cannot be true');
  return fee;
}

function checkFinality(finality: Finality, ensure: Ensure): Finality {
  const { safe, finalized, chainlock } = finality;
  for (const height of [safe, finalized, chainlock]) ensure(height === null || isHeight(height), `the final height ${height}`);
  return finality;
}
/** Other confirmations than those between its block and the newest one, which may be some minutes old, were counted wrong. */
function checkTransaction(
  found: ChainTransaction,
  { coin, network }: Pick<ChainSource, 'coin' | 'network'>,
  { ensure, blocks, now }: { ensure: Ensure; blocks: Blocks; now: Date },
): ChainTransaction {
  const { firstBlock, blockSeconds } = chainOf(coin);
  const { confirmations, blockHeight, timestamp } = found;
  const inChain = (2 * (now.getTime() - Date.parse(firstBlock))) / 1000 / blockSeconds;
  // Blocks of test networks are mined at any pace.
  const most = network === 'mainnet' && blocks.highest() > 0 ? blocks.highest() + HOUR_MS / 1000 / blockSeconds : inChain;
  ensure(isHeight(confirmations) && (blockHeight ?? 0) + confirmations <= most + 1, `${confirmations} confirmations of a transaction`);
  ensure(confirmations === 0 || blockHeight !== null, 'confirmations of a transaction that is in no block');
  if (timestamp !== null) blocks.checkTime(timestamp, blockHeight);
  return found;
}
function checkSummary(summary: AddressSummary, ensure: Ensure): AddressSummary {
  const { balanceUnits, receivedUnits, sentUnits } = summary;
  ensure(balanceUnits >= 0n && receivedUnits >= 0n && sentUnits >= 0n, 'a negative balance');
  return summary;
}
function checkUnspent(unspent: Unspent, ensure: Ensure): Unspent {
  ensure(unspent.leavingUnits >= 0n && unspent.leavingUnits <= unspent.units, 'that more leaves an address than it holds');
  return unspent;
}

function checkedRanges(
  ranges: RangeReader,
  { ensure, checkRef, coin }: { ensure: Ensure; checkRef: Blocks['check']; coin: Coin },
): RangeReader {
  return {
    ...ranges,
    head: async () => checkRef(await ranges.head()),
    at: async (heights) => {
      const refs = await ranges.at(heights);
      ensure(
        refs.length === heights.length && refs.every((ref, i) => ref === null || ref.height === heights[i]),
        'other blocks than asked for',
      );
      return refs.map((ref) => ref && checkRef(ref));
    },
    search: async (range, accounts) => {
      const found = await ranges.search(range, accounts);
      for (const [height, hash] of found)
        ensure(isHeight(height) && height >= range.from && height <= range.to && HASH.test(hash), 'logs of other blocks than asked for');
      return found;
    },
    placeOf: async (txid) => {
      const place = await ranges.placeOf(txid);
      ensure(place === null || place === 'waiting' || (isHeight(place.height) && HASH.test(place.hash)), 'a place that is not a block');
      return place;
    },
    fetch: async (hash) => {
      const block = await ranges.fetch(hash);
      ensure(checkRef(block.ref).hash === hash, 'another block than the one asked for');
      return {
        ...block,
        sightings: (matcher) => {
          const sightings = block.sightings(matcher);
          for (const sighting of sightings) checkSighting(sighting, ensure, coin);
          return sightings;
        },
      };
    },
  };
}

/** The same source; `name` identifies it in errors. */
export function checkedSource(source: ChainSource, { name, clock }: { name: string; clock: Pick<Clock, 'now'> }): ChainSource {
  const ensure = ensureOf(name);
  const blocks = createBlocks(source, ensure, clock);
  const checkRef = blocks.check;
  const block = (ref: BlockRef | null, isAsked: (ref: BlockRef) => boolean): BlockRef | null => {
    if (ref === null) return null;
    ensure(isAsked(ref), 'another block than the one asked for');
    return checkRef(ref);
  };
  const { readUnspent, ranges, gasFee } = source;
  return {
    ...source,
    health: async () => {
      const health = await source.health();
      checkRef(health.tip);
      return health;
    },
    transaction: async (txid, hint) => checkTransaction(await source.transaction(txid, hint), source, { ensure, blocks, now: clock.now() }),
    tip: async () => checkRef(await source.tip()),
    blockAt: async (height) => block(await source.blockAt(height), (ref) => ref.height === height),
    block: async (hash) => block(await source.block(hash), (ref) => ref.hash === hash),
    fetchBlock: async (hash, how) => {
      const fetched = await source.fetchBlock(hash, how);
      const ref = checkRef(fetched.ref);
      ensure(ref.hash === hash, 'another block than the one asked for');
      return {
        ...fetched,
        scan: async (matcher) => {
          const scan = await fetched.scan(matcher);
          ensure(scan.block.hash === hash && scan.block.height === ref.height, 'transfers of another block than the one asked for');
          return checkScan(scan, ensure, source.coin);
        },
      };
    },
    fetchMempool: async (health) => {
      const fetched = await source.fetchMempool(health);
      return { ...fetched, scan: async (matcher) => checkScan(await fetched.scan(matcher), ensure, source.coin) };
    },
    finality: async () => checkFinality(await source.finality(), ensure),
    addressSummary: async (address) => checkSummary(await source.addressSummary(address), ensure),
    fees: async () => checkFees(await source.fees(), ensure),
    ...(gasFee && { gasFee: async () => checkGasFee(await gasFee(), ensure) }),
    ...(ranges && { ranges: checkedRanges(ranges, { ensure, checkRef, coin: source.coin }) }),
    ...(readUnspent && { readUnspent: async (of) => checkUnspent(await readUnspent(of), ensure) }),
  };
}
