/** What an Ethereum node says about its chain: health and finality. */
import { hexToBytes } from '@noble/hashes/utils.js';
import type { Network } from '#core/coin';
import { ProofError } from '#evm';
import { ChainError, type ChainHealth, type Finality, type NodeInspection } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { provenHeader } from './block-header.ts';
import { ethHeader } from './eth-block.ts';
import { accountOfAnswer, proofCall } from './eth-proven-gains.ts';
import { type EthReply, type EthRpc, failure, quantity, readOrNull, smallNumber } from './eth-rpc.ts';

/** Any account: one that does not exist is proven absent. */
const NOBODY = '00'.repeat(20);
/** Depths that replace `safe` and `finalized` for providers without these tags: two epochs, and four. */
const SAFE_DEPTH = 64;
const FINALIZED_DEPTH = 128;
/** A block at the same height may have replaced the one that was read. The next one shows it at the latest. */
const SAME_HEIGHT_MS = 10_000;

type Asked = {
  rpc: Pick<EthRpc, 'batch'>;
  network: Network;
  chainId: number;
  /** Reads the header of the tip. */
  readHeader?: typeof ethHeader;
};

/**
 * Reads the health of a provider that limits calls and bytes: a header is 50 kB with the hashes of its transactions, so everything is read
 * again only once the provider has another height, or after a while.
 */
export function createHealthReader(asked: Asked): () => Promise<ChainHealth> {
  let last: { health: ChainHealth; untilMs: number } | null = null;
  return async () => {
    if (last !== null && performance.now() < last.untilMs) {
      const [height, syncing] = await asked.rpc.batch([['eth_blockNumber'], ['eth_syncing']]);
      const isSame = !height?.error && smallNumber(height?.result) === last.health.tip.height;
      if (isSame && !last.health.syncing && syncing?.result === false) return last.health;
    }
    last = null;
    const health = await readHealth(asked);
    last = { health, untilMs: performance.now() + SAME_HEIGHT_MS };
    return health;
  };
}

export async function readHealth({ rpc: { batch }, network, chainId, readHeader = ethHeader }: Asked): Promise<ChainHealth> {
  const [id, latest, syncing, peers, version] = await batch([
    ['eth_chainId'],
    ['eth_getBlockByNumber', 'latest', false],
    ['eth_syncing'],
    ['net_peerCount'],
    ['web3_clientVersion'],
  ]);
  for (const reply of [id, latest]) if (reply?.error) throw failure(reply.error, 'eth_chainId');
  const head = readHeader(latest?.result);
  const progress = fields(syncing?.result);
  const has = quantity(id?.result);
  return {
    tip: head,
    headers: Math.max(head.height, readOrNull(() => smallNumber(progress.highestBlock)) ?? 0),
    // The progress of one that syncs is an object. Anything else says nothing.
    syncing: !syncing?.error && typeof syncing?.result === 'object' && syncing.result !== null,
    software: typeof version?.result === 'string' ? version.result : 'unknown',
    version: 0,
    network: has === BigInt(chainId) ? network : `chain ${has}`,
    pruned: false,
    txindex: null,
    // Providers do not offer it.
    peers: readOrNull(() => smallNumber(peers?.result)),
  };
}

/**
 * What a node of others lacks: proofs of balances show payments through contracts, and let payments expire. They must be had at the block
 * before the newest one too, because what an account gained is proven at two blocks, and those that validators signed are never the newest.
 */
export async function inspectProvider({ batch }: Pick<EthRpc, 'batch'>): Promise<NodeInspection> {
  const [latest] = await batch([['eth_getBlockByNumber', 'latest', false]]);
  if (latest?.error) throw failure(latest.error, 'eth_getBlockByNumber');
  const { hash, parent } = ethHeader(latest?.result);
  const header = provenHeader(latest?.result, hexToBytes(hash.slice(2)));
  const [before, ...replies] = await batch([['eth_getBlockByHash', parent, false], proofCall(NOBODY, parent), proofCall(NOBODY, hash)]);
  let reason: string | null = null;
  try {
    const roots = [provenHeader(before?.result, header.parentHash).stateRoot, header.stateRoot];
    const failed = replies.find((reply, i) => accountOfAnswer(reply, NOBODY, roots[i]!) === null);
    if (failed) reason = failed.error?.message ?? 'it does not answer with a proof';
  } catch (error) {
    if (!(error instanceof ProofError || error instanceof ChainError)) throw error;
    reason = error.message;
  }
  const missing = reason === null ? [] : [{ capability: 'proofs of balances (eth_getProof)', reason }];
  return { prunedBelow: null, clockAheadSeconds: null, missing, warnings: [] };
}

export async function readFinality({ batch }: Pick<EthRpc, 'batch'>): Promise<Finality> {
  const { safe, finalized, head, tip } = await readTags({ batch });
  return {
    safe: safe ?? (head >= SAFE_DEPTH ? head - SAFE_DEPTH : null),
    finalized: finalized ?? (head >= FINALIZED_DEPTH ? head - FINALIZED_DEPTH : null),
    chainlock: null,
    tip,
  };
}

/** For chains whose blocks can be replaced at any depth until another chain has them: without a tag, nothing is final. */
export async function readTaggedFinality({ batch }: Pick<EthRpc, 'batch'>): Promise<Finality> {
  const { safe, finalized, tip } = await readTags({ batch });
  return { safe, finalized, chainlock: null, tip };
}

/** The heights of the tagged blocks, null without the tag, and the tip. */
async function readTags({ batch }: Pick<EthRpc, 'batch'>) {
  // The tip last, so what is final lies below it.
  const [safe, finalized, latest] = await batch(['safe', 'finalized', 'latest'].map((tag) => ['eth_getBlockByNumber', tag, false]));
  if (latest?.error) throw failure(latest.error, 'eth_getBlockByNumber');
  const { height: head, hash: tip } = ethHeader(latest?.result);
  return { safe: heightOf(safe), finalized: heightOf(finalized), head, tip };
}

const heightOf = (reply: EthReply | undefined): number | null =>
  !reply || reply.error || reply.result === null ? null : readOrNull(() => ethHeader(reply.result).height);
