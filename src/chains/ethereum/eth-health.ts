/** What an Ethereum node says about its chain: health and finality. */
import type { Network } from '../../core/coin.ts';
import type { ChainHealth, Finality } from '../chain.ts';
import { fields } from '../reply.ts';
import { headerOf } from './eth-block.ts';
import { type EthReply, type EthRpc, failure, quantity, smallNumber } from './eth-rpc.ts';

/** Depths that replace `safe` and `finalized` for providers without these tags: two epochs, and four. */
const SAFE_DEPTH = 64;
const FINALIZED_DEPTH = 128;

export async function readHealth({
  rpc: { batch },
  network,
  chainId,
}: {
  rpc: Pick<EthRpc, 'batch'>;
  network: Network;
  chainId: number;
}): Promise<ChainHealth> {
  const [id, latest, syncing, peers, version] = await batch([
    ['eth_chainId'],
    ['eth_getBlockByNumber', 'latest', false],
    ['eth_syncing'],
    ['net_peerCount'],
    ['web3_clientVersion'],
  ]);
  for (const reply of [id, latest]) if (reply?.error) throw failure(reply.error, 'eth_chainId');
  const head = headerOf(latest?.result);
  const progress = fields(syncing?.result);
  const has = quantity(id?.result);
  return {
    tip: head,
    headers: progress.highestBlock === undefined ? head.height : Math.max(head.height, smallNumber(progress.highestBlock)),
    syncing: !syncing?.error && syncing?.result !== false,
    software: typeof version?.result === 'string' ? version.result : 'unknown',
    version: 0,
    network: has === BigInt(chainId) ? network : `chain ${has}`,
    pruned: false,
    txindex: null,
    // Providers do not offer it.
    peers: !peers || peers.error ? null : smallNumber(peers.result),
  };
}

export async function readFinality({ batch }: Pick<EthRpc, 'batch'>): Promise<Finality> {
  // The tip last, so what is final lies below it.
  const [safe, finalized, latest] = await batch(['safe', 'finalized', 'latest'].map((tag) => ['eth_getBlockByNumber', tag, false]));
  if (latest?.error) throw failure(latest.error, 'eth_getBlockByNumber');
  const { height: head, hash: tip } = headerOf(latest?.result);
  return { safe: heightOf(safe, head, SAFE_DEPTH), finalized: heightOf(finalized, head, FINALIZED_DEPTH), chainlock: null, tip };
}

/** The height of a tagged block; without the tag, the block at this depth. */
function heightOf(reply: EthReply | undefined, head: number, depth: number): number | null {
  if (!reply || reply.error || reply.result === null) return head >= depth ? head - depth : null;
  return headerOf(reply.result).height;
}
