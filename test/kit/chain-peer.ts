/** A peer that serves a chain which a test mines: its headers, its blocks, and what is new. */

import { isBitcoinLike } from '../../src/addresses/params.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { COIN } from '../../src/core/coin.ts';
import { emptyChain, type ScriptedPeer, startScriptedPeer } from './scripted-peer.ts';
import type { ChainBlock, TestChain } from './test-chain.ts';

export type ChainPeer = ScriptedPeer & {
  /** The chain to serve and to announce from now on. */
  show(chain: TestChain): void;
  /** Serves other bytes for a block. */
  alter(hash: string, bytes: Buffer): void;
};

/** Starts the peer. `port`: any free one without it. */
export async function startChainPeer(first: TestChain, { port = 0 } = {}): Promise<ChainPeer> {
  const { family } = COIN[first.coin];
  if (!isBitcoinLike(family)) throw new Error(`${family} has no peers`);
  const served = emptyChain();
  const wireOf = ({ header }: ChainBlock) => ({
    bytes: header.subarray(0, 80),
    auxpow: header.length > 80 ? header.subarray(80) : null,
  });
  const take = (block: ChainBlock): void => {
    served.headers.push({ hash: block.hash, header: wireOf(block) });
    served.blocks.set(block.hash, block.raw);
  };
  const peer = await startScriptedPeer({ network: peerNetwork(family, first.network), chain: served, port });
  let shown: TestChain | null = null;
  const heard = new Set<TestChain>();
  const show = (chain: TestChain): void => {
    shown = chain;
    served.headers.splice(0);
    for (const block of chain.blocks.slice(1)) take(block);
    peer.announce({ command: 'inv', items: [{ type: 2, hash: chain.tip().hash }] });
    if (heard.has(chain)) return;
    heard.add(chain);
    chain.on(({ block }) => {
      if (!block || shown !== chain) return;
      take(block);
      peer.announce({ command: 'headers', headers: [wireOf(block)] });
    });
  };
  show(first);
  return { ...peer, show, alter: (hash, bytes) => void served.blocks.set(hash, bytes) };
}
