/** What differs between beacon chains, and where each fork puts what light clients prove (consensus-specs, Altair to Gloas). */
import { hexToBytes } from '@noble/hashes/utils.js';
import type { Outgoing } from '#connections';
import { withoutEndSlashes } from '#core/text';
import { ProofError } from '#evm';
import { ChainError } from '../../chain-source.ts';
import { requestFrom } from '../../reply.ts';

export const BEACON_FORKS = ['capella', 'deneb', 'electra', 'fulu', 'gloas'] as const;
export type BeaconFork = (typeof BEACON_FORKS)[number];

export type BeaconNetwork = {
  /** Seconds since 1970. */
  genesisTime: number;
  /** Part of each signature, so that none of another chain is valid here. */
  genesisValidatorsRoot: Uint8Array;
  secondsPerSlot: number;
  slotsPerEpoch: number;
  epochsPerPeriod: number;
  committeeSize: number;
  /** In order. Light clients of Altair and Bellatrix headers, which name no execution block, are not needed. */
  forks: readonly { fork: BeaconFork; version: Uint8Array; epoch: number }[];
};

/** Generalized indices: the position of a value in the tree that a root stands for. */
type Places = { finalizedRoot: number; currentCommittee: number; nextCommittee: number; execution: number };
const BEFORE_ELECTRA: Places = { finalizedRoot: 105, currentCommittee: 54, nextCommittee: 55, execution: 25 };
const FROM_ELECTRA: Places = { finalizedRoot: 169, currentCommittee: 86, nextCommittee: 87, execution: 25 };
export const PLACES: Readonly<Record<BeaconFork, Places>> = {
  capella: BEFORE_ELECTRA,
  deneb: BEFORE_ELECTRA,
  electra: FROM_ELECTRA,
  fulu: FROM_ELECTRA,
  // The execution block before the one of this slot: `signed_execution_payload_bid.message.parent_block_hash` of the body.
  gloas: { finalizedRoot: 735, currentCommittee: 2945, nextCommittee: 2946, execution: 2856 },
};

const MAINNET_SIZES = { secondsPerSlot: 12, slotsPerEpoch: 32, epochsPerPeriod: 256, committeeSize: 512 };
const forks = (...rows: readonly [fork: BeaconFork, version: string, epoch: number][]) =>
  rows.map(([fork, version, epoch]) => ({ fork, version: hexToBytes(version), epoch }));

/** Gloas has no epoch yet: until it has one, its headers are refused, and the chain is held instead of misread. */
export const MAINNET: BeaconNetwork = {
  ...MAINNET_SIZES,
  genesisTime: 1_606_824_023,
  genesisValidatorsRoot: hexToBytes('4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95'),
  forks: forks(
    ['capella', '03000000', 194_048],
    ['deneb', '04000000', 269_568],
    ['electra', '05000000', 364_032],
    ['fulu', '06000000', 411_392],
  ),
};
export const SEPOLIA: BeaconNetwork = {
  ...MAINNET_SIZES,
  genesisTime: 1_655_733_600,
  genesisValidatorsRoot: hexToBytes('d8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078'),
  forks: forks(
    ['capella', '90000072', 56_832],
    ['deneb', '90000073', 132_608],
    ['electra', '90000074', 222_464],
    ['fulu', '90000075', 272_640],
  ),
};

export const epochOf = (network: BeaconNetwork, slot: number): number => Math.floor(slot / network.slotsPerEpoch);
/** Number of the sync committee that signs in a slot. */
export const committeePeriod = (network: BeaconNetwork, slot: number): number =>
  Math.floor(epochOf(network, slot) / network.epochsPerPeriod);
/** The slot of a moment, in milliseconds since 1970. */
export const slotOfTime = (network: BeaconNetwork, ms: number): number =>
  Math.floor((ms / 1000 - network.genesisTime) / network.secondsPerSlot);
/** The fork of a slot; null before the first one that is known. */
export const forkAt = (network: BeaconNetwork, slot: number): BeaconNetwork['forks'][number] | null =>
  network.forks.findLast(({ epoch }) => epoch <= epochOf(network, slot)) ?? null;

// Beacon servers (Beacon API, `/eth/v1/beacon/light_client`). Each of them may deliver what is then proven, so one that answers is enough.

const TIMEOUT_MS = 10_000;
/** Sixteen updates with a sync committee each have about 1 MB. */
export const MAX_BYTES = 4 << 20;

type BeaconServerState = { name: string; reason: string | null };
export type BeaconServers = {
  /** What the first server whose answer is accepted sends, in turn from the one that answered last; null when there is none. */
  first<T>(path: string, accept: (body: unknown) => T): Promise<T | null>;
  /** What every server sends whose answer is accepted. */
  all<T>(path: string, accept: (body: unknown) => T): Promise<T[]>;
  /** Why each server was not used last; null when it was. */
  states(): readonly BeaconServerState[];
};

/** `accept` throws ProofError for an answer that proves nothing; other errors are not the server's, and pass. */
export function createBeaconServers({ urls, outgoing }: { urls: readonly string[]; outgoing: Outgoing }): BeaconServers {
  const servers = urls.map((url) => ({ url: withoutEndSlashes(url), name: new URL(url).host, reason: null as string | null }));
  let preferred = 0;
  const read = async (server: (typeof servers)[number], path: string): Promise<unknown> => {
    const { status, body } = await requestFrom(outgoing, server.name, {
      url: `${server.url}/eth/v1/beacon/light_client/${path}`,
      headers: { accept: 'application/json' },
      gzip: true,
      timeoutMs: TIMEOUT_MS,
      maxReplyBytes: MAX_BYTES,
    });
    if (status !== 200) throw new ChainError('outage', `${server.name} answers with status ${status}`);
    try {
      return JSON.parse(Buffer.from(body).toString());
    } catch (cause) {
      throw new ChainError('outage', `${server.name} does not send JSON`, { cause });
    }
  };
  const ask = async <T>(server: (typeof servers)[number], path: string, accept: (body: unknown) => T): Promise<{ answer: T } | null> => {
    try {
      const answer = accept(await read(server, path));
      server.reason = null;
      return { answer };
    } catch (error) {
      if (!(error instanceof ChainError || error instanceof ProofError)) throw error;
      server.reason = error instanceof ProofError ? `${server.name}: ${error.message}` : error.message;
      return null;
    }
  };
  return {
    first: async (path, accept) => {
      for (let i = 0; i < servers.length; i++) {
        const at = (preferred + i) % servers.length;
        const taken = await ask(servers[at]!, path, accept);
        if (!taken) continue;
        preferred = at;
        return taken.answer;
      }
      return null;
    },
    all: async (path, accept) => {
      const taken = await Promise.all(servers.map((server) => ask(server, path, accept)));
      return taken.flatMap((one) => (one ? [one.answer] : []));
    },
    states: () => servers.map(({ name, reason }) => ({ name, reason })),
  };
}
