/** Mines headers on networks whose difficulty is low enough for it. */
import { idOf, meetsTarget, showHash, workHash } from '../../src/chains/bitcoin/header.ts';
import type { KnownHeader } from '../../src/chains/bitcoin/header-chain.ts';
import { nextBits, targetOfBits } from '../../src/chains/bitcoin/header-rules.ts';
import type { ProofParams } from '../../src/chains/bitcoin/proof-params.ts';
import { timed } from './headers.ts';

export type Mined = { height: number; bytes: Buffer; parent: Mined | null };

/** A first header, whose work nobody checks. */
export function firstHeader({ height = 1_000, timeSeconds = 1_700_000_000, bits = 0x207fffff, version = 0x20000000 } = {}): Mined {
  const bytes = Buffer.alloc(80);
  bytes.writeInt32LE(version);
  bytes.writeUInt32LE(timeSeconds, 68);
  bytes.writeUInt32LE(bits, 72);
  return { height, bytes, parent: null };
}

/** The header at a height of the branch that ends with this one. */
export function ancestorAt(tip: Mined, height: number): Mined {
  let header: Mined | null = tip;
  while (header && header.height > height) header = header.parent;
  if (!header) throw new RangeError(`no header at ${height}`);
  return header;
}

/** Finds a nonce for what must be the next header, unless something else is given. `marker` tells equal blocks apart. */
export function mineHeader(
  params: ProofParams,
  parent: Mined,
  {
    timeSeconds = timed(parent.bytes).timeSeconds + params.spacingSeconds,
    marker = 0,
    version = parent.bytes.readInt32LE(0),
    bits = nextBits(params, parent.height + 1, timeSeconds, (height) => timed(ancestorAt(parent, height).bytes)),
    /** Whether a hash is good enough. */
    accepts = (hash: Buffer) => meetsTarget(hash, targetOfBits(bits, params.powLimit)),
  }: { timeSeconds?: number; marker?: number; version?: number; bits?: number; accepts?(hash: Buffer): boolean } = {},
): Mined {
  const bytes = Buffer.alloc(80);
  bytes.writeInt32LE(version);
  idOf(params, parent.bytes).copy(bytes, 4);
  bytes.writeUInt32LE(marker, 36);
  bytes.writeUInt32LE(timeSeconds, 68);
  bytes.writeUInt32LE(bits, 72);
  for (let nonce = 0; ; nonce++) {
    bytes.writeUInt32LE(nonce, 76);
    if (accepts(workHash(params.work, bytes))) return { height: parent.height + 1, bytes, parent };
  }
}

/** Mines one header above another, lowest first. */
export function mineHeaders(
  params: ProofParams,
  parent: Mined,
  count: number,
  options: (i: number, parent: Mined) => Parameters<typeof mineHeader>[2] = () => ({}),
): Mined[] {
  const mined: Mined[] = [];
  for (let i = 0; i < count; i++) {
    const below = mined.at(-1) ?? parent;
    mined.push(mineHeader(params, below, options(i, below)));
  }
  return mined;
}

export const sent = (mined: readonly Mined[]) => mined.map(({ bytes }) => ({ bytes, auxpow: null }));
export const hashOf = (params: ProofParams, { bytes }: Mined): string => showHash(idOf(params, bytes));
export const describeMined = (params: ProofParams, mined: Mined): KnownHeader => ({
  height: mined.height,
  hash: hashOf(params, mined),
  parent: showHash(mined.bytes.subarray(4, 36)),
  timeSeconds: timed(mined.bytes).timeSeconds,
  bytes: mined.bytes,
});
