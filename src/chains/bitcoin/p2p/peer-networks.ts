/** The peer-to-peer network of a chain, from the rows that describe its networks. */
import type { BitcoinFamily, Network } from '../../../core/coin.ts';
import { PARAMS } from '../params.ts';
import { PROOF_PARAMS, type ProofParams } from '../proof-params.ts';

export type PeerNetwork = {
  family: BitcoinFamily;
  network: Network;
  magic: Buffer;
  port: number;
  version: number;
  leastVersion: number;
  /** Services that a peer must have, beside its blocks. */
  needs: bigint;
  seeds: readonly string[];
};

/** Service bits: all blocks, the last 288 blocks only, blocks with witness (without it a node does not follow today's rules). */
export const SERVICE = { network: 1n, witness: 8n, limited: 1024n } as const;
/** How many blocks a node with `SERVICE.limited` alone keeps. */
export const LIMITED_BLOCKS = 288;

/** `testnet` is testnet4 on BTC. Errors: Error when Florin does not read the network from peers. */
export function peerNetwork(family: BitcoinFamily, network: Network): PeerNetwork {
  const rows: Readonly<Partial<Record<ProofParams['network'], ProofParams>>> = PROOF_PARAMS[family];
  const row = network === 'mainnet' ? rows.main : network === 'regtest' ? rows.regtest : (rows.testnet4 ?? rows.testnet);
  if (!row?.peers) throw new Error(`${family} is not read from peers on ${network}`);
  const { magic, port, seeds = [] } = row.peers;
  return {
    ...{ family, network, magic: Buffer.from(magic, 'hex'), port, seeds },
    ...{ version: row.protocol.version, leastVersion: row.protocol.least, needs: PARAMS[family].segwit ? SERVICE.witness : 0n },
  };
}
