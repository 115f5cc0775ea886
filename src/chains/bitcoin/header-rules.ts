/** What a header must satisfy on its branch before its work is worth hashing. */
import { AUXPOW_BIT, auxChainId, checkAuxpow } from './auxpow.ts';
import { HEADER_BYTES, HeaderError } from './header.ts';
import type { ProofParams, Retarget } from './proof-params.ts';
import { sha256d } from './strict-reader.ts';

/** A header as peers send it: 80 bytes, and on DOGE the merge-mining proof that follows some of them. */
export type SentHeader = { bytes: Buffer; auxpow: Buffer | null };

/** The header whose work hash must be at most the target: the sent one, or the parent that carries its work. */
export type WorkClaim = { hashed: Buffer; target: bigint };

/** A block's time may be ahead of ours by this much. */
export const MAX_AHEAD_SECONDS = 7_200;
/** BIP-94: how far the time of a period's first block may be before its parent's. */
const MAX_BACK_SECONDS = 600;

export type HeaderPlace = {
  height: number;
  /** The headers below it, on its own branch. */
  at: Ancestors;
  /** The lowest height that `at` knows. */
  lowest: number;
};

function checkVersion({ coin, minimumVersion, auxpow }: ProofParams, header: Buffer): void {
  const version = header.readInt32LE(0);
  // The high part of DOGE's versions is the chain ID.
  const own = auxpow ? version & 0xff : version;
  if (own < minimumVersion) throw new HeaderError('version', `version ${version} of a ${coin} block is no longer valid`);
  if (auxpow?.strict && auxChainId(header) !== auxpow.chainId)
    throw new HeaderError('version', `the chain ID ${auxChainId(header)} is not that of ${coin}`);
}

function checkTime(params: ProofParams, timeSeconds: number, { height, at, lowest }: HeaderPlace, nowSeconds: number): void {
  const times: number[] = [];
  for (let below = height - 1; below >= lowest && times.length < MEDIAN_BLOCKS; below--) times.push(at(below).timeSeconds);
  // A chain begins at a checkpoint with fewer headers than the rule looks at. The middle of those may be later than the real one, and would
  // refuse what the network takes; work and bits bound these few blocks.
  if ((times.length === MEDIAN_BLOCKS || lowest === 0) && timeSeconds <= medianOf(times))
    throw new HeaderError('time_past', `the time of block ${height} is not after the median of those before it`);
  const { retarget } = params;
  if (
    retarget.kind === 'period' &&
    retarget.fromFirst &&
    height % retarget.interval === 0 &&
    timeSeconds < at(height - 1).timeSeconds - MAX_BACK_SECONDS
  )
    throw new HeaderError('time_past', `block ${height} starts a period more than ${MAX_BACK_SECONDS} s before its parent`);
  if (timeSeconds > nowSeconds + MAX_AHEAD_SECONDS)
    throw new HeaderError('time_future', `the time of block ${height} is more than ${MAX_AHEAD_SECONDS} s ahead of our clock`);
}

/** The header that carries the work. */
function carrierOf({ coin, auxpow: rules }: ProofParams, { bytes, auxpow }: SentHeader, height: number): Buffer {
  const isMerged = rules !== null && (bytes.readUInt32LE(0) & AUXPOW_BIT) !== 0;
  if (isMerged !== (auxpow !== null))
    throw new HeaderError(
      'auxpow',
      isMerged ? `the proof of block ${height} is missing` : `block ${height} has a proof that its version does not announce`,
    );
  if (!rules || !auxpow) return bytes;
  if (height < rules.from) throw new HeaderError('auxpow', `${coin} allows merged mining from block ${rules.from} on`);
  return checkAuxpow(rules, { header: bytes, id: sha256d(bytes), auxpow });
}

/** Checks everything but the link to the parent and the work. Errors: HeaderError. */
export function checkHeader(params: ProofParams, sent: SentHeader, place: HeaderPlace, nowSeconds: number): WorkClaim {
  const { bytes } = sent;
  if (bytes.length !== HEADER_BYTES) throw new HeaderError('malformed', `a header has ${bytes.length} bytes; it must have ${HEADER_BYTES}`);
  checkVersion(params, bytes);
  const timeSeconds = bytes.readUInt32LE(68);
  const bits = bytes.readUInt32LE(72);
  const target = targetOfBits(bits, params.powLimit);
  const expected = nextBits(params, place.height, timeSeconds, place.at);
  if (bits !== expected)
    throw new HeaderError('bits', `block ${place.height} has bits ${bits.toString(16)}; the rules require ${expected.toString(16)}`);
  checkTime(params, timeSeconds, place, nowSeconds);
  return { hashed: carrierOf(params, sent, place.height), target };
}

// Targets, work, and the target that each network demands of its next block. Everything is exact: a header must have these very bits.

/** The time and bits of a header. */
export type Timed = { timeSeconds: number; bits: number };
/** The header at a height on the branch of the new block. */
type Ancestors = (height: number) => Timed;

/** A block with a hash of at most this is valid. Errors: HeaderError when the bits encode no target of this network. */
export function targetOfBits(bits: number, powLimit: bigint): bigint {
  const size = bits >>> 24;
  const mantissa = bits & 0x7fffff;
  const target = size < 3 ? BigInt(mantissa) >> BigInt(8 * (3 - size)) : BigInt(mantissa) << BigInt(8 * (size - 3));
  const refuse = (why: string) => new HeaderError('bits', `the bits ${bits.toString(16).padStart(8, '0')} are ${why}`);
  if ((bits & 0x800000) !== 0 && mantissa !== 0) throw refuse('negative');
  if (mantissa !== 0 && (size > 34 || (mantissa > 0xff && size > 33) || (mantissa > 0xffff && size > 32))) throw refuse('too large');
  if (target === 0n) throw refuse('zero');
  if (target > powLimit) throw refuse('easier than the network allows');
  return target;
}

/** The shortest encoding; one byte longer where the sign bit would be set. */
export function bitsOf(target: bigint): number {
  let size = Math.ceil(target.toString(16).length / 2);
  let mantissa = Number(size <= 3 ? target << BigInt(8 * (3 - size)) : target >> BigInt(8 * (size - 3)));
  if (mantissa & 0x800000) {
    mantissa >>= 8;
    size++;
  }
  return ((size << 24) | mantissa) >>> 0;
}

/** The expected number of hashes that a block with this target takes. */
const workOfTarget = (target: bigint): bigint => (1n << 256n) / (target + 1n);
export const workOf = (bits: number, powLimit: bigint): bigint => workOfTarget(targetOfBits(bits, powLimit));

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);

/** The bits of a new target, which never exceeds the limit. */
const capped = (target: bigint, powLimit: bigint): number => bitsOf(target > powLimit ? powLimit : target);
const scaled = (bits: number, seconds: number, timespanSeconds: number, powLimit: bigint): number =>
  capped((targetOfBits(bits, powLimit) * BigInt(seconds)) / BigInt(timespanSeconds), powLimit);

/** The first and the last block of a period of `interval` blocks, as their times are compared. */
function nextOfPeriod(rule: Extract<Retarget, { kind: 'period' }>, powLimit: bigint, height: number, at: Ancestors): number {
  const { interval, timespanSeconds, reach, shiftAbove, fromFirst } = rule;
  const last = at(height - 1);
  // LTC: the very first period has no block before its first one.
  const first = at(Math.max(height - 1 - reach, 0));
  const seconds = clamp(last.timeSeconds - first.timeSeconds, timespanSeconds / 4, timespanSeconds * 4);
  const bits = fromFirst ? at(height - interval).bits : last.bits;
  const target = targetOfBits(bits, powLimit);
  const shift = shiftAbove !== null && target >> BigInt(shiftAbove) > 0n ? 1n : 0n;
  return capped((((target >> shift) * BigInt(seconds)) / BigInt(timespanSeconds)) << shift, powLimit);
}

function periodBits(
  rule: Extract<Retarget, { kind: 'period' }>,
  powLimit: bigint,
  height: number,
  timeSeconds: number,
  at: Ancestors,
): number {
  if (height % rule.interval === 0) return nextOfPeriod(rule, powLimit, height, at);
  if (rule.minimumAfterSeconds === null) return at(height - 1).bits;
  const limitBits = bitsOf(powLimit);
  if (timeSeconds > at(height - 1).timeSeconds + rule.minimumAfterSeconds) return limitBits;
  // The last target that is not the exception of this rule.
  let earlier = height - 1;
  while (earlier % rule.interval !== 0 && at(earlier).bits === limitBits) earlier--;
  return at(earlier).bits;
}

/** Before DigiShield: 240 blocks in four hours, with a lower bound that was raised twice. */
const DOGE_INTERVAL = 240;
const DOGE_TIMESPAN = 14_400;
function earlyDogeBits(powLimit: bigint, height: number, at: Ancestors): number {
  const last = at(height - 1);
  if (height % DOGE_INTERVAL !== 0) return last.bits;
  const first = at(Math.max(height - 1 - DOGE_INTERVAL, 0));
  const divisor = height > 10_000 ? 4 : height > 5_000 ? 8 : 16;
  const seconds = clamp(last.timeSeconds - first.timeSeconds, DOGE_TIMESPAN / divisor, DOGE_TIMESPAN * 4);
  return scaled(last.bits, seconds, DOGE_TIMESPAN, powLimit);
}

function digishieldBits(
  rule: Extract<Retarget, { kind: 'digishield' }>,
  { powLimit, spacingSeconds }: Pick<ProofParams, 'powLimit' | 'spacingSeconds'>,
  height: number,
  timeSeconds: number,
  at: Ancestors,
): number {
  const last = at(height - 1);
  if (rule.minimumAfterSeconds !== null && timeSeconds > last.timeSeconds + rule.minimumAfterSeconds) return bitsOf(powLimit);
  // An eighth of the difference counts, rounded towards zero, also when time ran backwards.
  const seconds = spacingSeconds + Math.trunc((last.timeSeconds - at(height - 2).timeSeconds - spacingSeconds) / 8);
  return scaled(last.bits, clamp(seconds, (spacingSeconds * 3) / 4, (spacingSeconds * 3) / 2), spacingSeconds, powLimit);
}

/** Blocks that Dark Gravity Wave looks at. */
const GRAVITY_BLOCKS = 24;
function gravityBits(
  { eased }: Extract<Retarget, { kind: 'gravity' }>,
  { powLimit, spacingSeconds }: Pick<ProofParams, 'powLimit' | 'spacingSeconds'>,
  height: number,
  timeSeconds: number,
  at: Ancestors,
): number {
  const last = at(height - 1);
  if (eased && timeSeconds > last.timeSeconds + eased.limitAfterSeconds) return bitsOf(powLimit);
  if (eased && timeSeconds > last.timeSeconds + eased.tenfoldAfterSeconds) return capped(targetOfBits(last.bits, powLimit) * 10n, powLimit);
  let average = targetOfBits(last.bits, powLimit);
  // Not a true mean: later targets weigh more.
  for (let i = 2n; i <= GRAVITY_BLOCKS; i++) average = (average * i + targetOfBits(at(height - Number(i)).bits, powLimit)) / (i + 1n);
  const timespan = GRAVITY_BLOCKS * spacingSeconds;
  const seconds = clamp(last.timeSeconds - at(height - GRAVITY_BLOCKS).timeSeconds, timespan / 3, timespan * 3);
  return capped((average * BigInt(seconds)) / BigInt(timespan), powLimit);
}

/** The bits that a block at `height` with this time must have. */
export function nextBits(params: ProofParams, height: number, timeSeconds: number, at: Ancestors): number {
  const { retarget, powLimit } = params;
  switch (retarget.kind) {
    case 'fixed':
      return bitsOf(powLimit);
    case 'period':
      return periodBits(retarget, powLimit, height, timeSeconds, at);
    case 'digishield':
      return height < retarget.from ? earlyDogeBits(powLimit, height, at) : digishieldBits(retarget, params, height, timeSeconds, at);
    case 'gravity':
      if (height < retarget.from) throw new HeaderError('bits', `the rules of ${params.coin} before block ${retarget.from} are not known`);
      return gravityBits(retarget, params, height, timeSeconds, at);
  }
}

/** Blocks whose median time a new block must exceed. */
export const MEDIAN_BLOCKS = 11;
export const medianOf = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1]!;
