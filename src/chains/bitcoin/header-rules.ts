/** What a header must satisfy on its branch before its work is worth hashing. */
import { AUXPOW_BIT, auxChainId, checkAuxpow } from './auxpow.ts';
import { type Ancestors, MEDIAN_BLOCKS, medianOf, nextBits, targetOfBits } from './difficulty.ts';
import { HEADER_BYTES, HeaderError } from './header.ts';
import type { ProofParams } from './proof-params.ts';
import { sha256d } from './sha256d.ts';

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
