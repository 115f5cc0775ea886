/** A node of the Bitcoin Core family for chains that a test mines: the calls that followers make, over real HTTP. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Coin } from '../../src/core/coin.ts';
import type { ChainBlock, TestChain } from './test-chain.ts';

export type CoreNode = {
  url: string;
  /** The chain to show from now on. */
  show(chain: TestChain): void;
  /** Changes the bytes of blocks that are served. */
  alter(change: (block: ChainBlock) => Buffer): void;
  behave(mood: 'well' | 'down'): void;
  /** A pruned Dogecoin node: it shows empty headers of merge-mined blocks below a height. */
  prune(below: number): void;
  close(): Promise<void>;
};

/** The oldest that is known to be safe, where others than Bitcoin Core count differently. */
const VERSIONS: Partial<Record<Coin, number>> = { DOGE: 1140900 };

class CallError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export async function startCoreNode(first: TestChain): Promise<CoreNode> {
  let chain = first;
  let alter = (block: ChainBlock): Buffer => block.raw;
  let down = false;
  let prunedBelow = 0;
  const blockOf = (hash: unknown): ChainBlock => {
    const found = chain.blocks.find((block) => block.hash === hash) ?? chain.stale.get(String(hash));
    if (!found) throw new CallError(-5, 'Block not found');
    return found;
  };
  const answer = (method: string, params: readonly unknown[]): unknown => {
    const tip = chain.tip();
    switch (method) {
      case 'getblockchaininfo':
        return {
          chain: 'main',
          blocks: tip.height,
          headers: tip.height,
          bestblockhash: tip.hash,
          initialblockdownload: false,
          pruned: false,
        };
      case 'getnetworkinfo':
        return { version: VERSIONS[chain.coin] ?? 310000, subversion: '/Test:1.0/', connections: 8 };
      case 'getindexinfo':
        return { txindex: { synced: true } };
      case 'getmempoolinfo':
        return { size: chain.mempool.size, bytes: 0 };
      case 'getrawmempool':
        return [...chain.mempool.keys()];
      case 'getbestblockhash':
        return tip.hash;
      case 'getblockhash': {
        const block = chain.blocks[Number(params[0])];
        if (!block) throw new CallError(-8, 'Block height out of range');
        return block.hash;
      }
      case 'getblockheader': {
        const { height, hash, parent, time, merkleRoot, header } = blockOf(params[0]);
        if (params[1] === false) return (height < prunedBelow && header.length > 80 ? Buffer.alloc(80) : header).toString('hex');
        return { height, hash, time, merkleroot: merkleRoot, ...(height > 0 && { previousblockhash: parent }) };
      }
      case 'getblock':
        return alter(blockOf(params[0])).toString('hex');
      case 'getrawtransaction': {
        const found = chain.find(String(params[0]));
        if (!found) throw new CallError(-5, 'No such mempool or blockchain transaction');
        return params[1] ? { txid: params[0], ...(found.block && { blockhash: found.block.hash }) } : found.tx.raw.toString('hex');
      }
      default:
        throw new CallError(-32601, `Method not found: ${method}`);
    }
  };
  const call = ({ id, method, params }: { id: unknown; method: string; params: unknown[] }) => {
    try {
      return { id, result: answer(method, params), error: null };
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      return { id, result: null, error: { code: error.code, message: error.message } };
    }
  };
  const server = createServer(async (request, reply) => {
    if (down) return void request.socket.destroy();
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const asked = JSON.parse(Buffer.concat(parts).toString());
    reply.setHeader('content-type', 'application/json');
    reply.end(JSON.stringify(Array.isArray(asked) ? asked.map(call) : call(asked)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://florin:test@127.0.0.1:${(server.address() as AddressInfo).port}`,
    show: (next) => {
      chain = next;
    },
    alter: (change) => {
      alter = change;
    },
    behave: (mood) => {
      down = mood === 'down';
    },
    prune: (below) => {
      prunedBelow = below;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
