/** A node of the Bitcoin Core family for chains that a test mines: the calls that followers make, over real HTTP. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseTransaction, txidOf } from '../../src/chains/bitcoin/raw-block.ts';
import type { BitcoinFamily, Coin } from '../../src/core/coin.ts';
import { serve } from './serve.ts';
import type { ChainBlock, ChainTx, TestChain } from './test-chain.ts';

/** What a node answers to one call. */
export type CoreAnswer = { result: unknown; error: { code: number; message: string } | null };
export type CoreNode = {
  url: string;
  /** The same without a request. */
  answer(method: string, params: readonly unknown[]): CoreAnswer;
  /** Called methods, in order. */
  calls: string[];
  /** Transactions that were sent to it, in hex. */
  sent: string[];
  /** What it says to a transaction that is sent: why it is refused, or null. */
  judge(verdict: (hex: string) => string | null): void;
  /** The chain to show from now on. */
  show(chain: TestChain): void;
  /** Changes the bytes of blocks that are served. */
  alter(change: (block: ChainBlock) => Buffer): void;
  /** Reports the tip of an honest chain, and serves the blocks of the shown one below it. */
  nameTipOf(honest: TestChain): void;
  behave(mood: 'well' | 'slow' | 'down'): void;
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

/** Null: it is not a transaction. */
function txidOfHex(hex: string, coin: BitcoinFamily): string | null {
  try {
    return txidOf(parseTransaction(Buffer.from(hex, 'hex'), coin));
  } catch {
    return null;
  }
}

/** Estimated fees per kilobyte, by the number of blocks. */
const FEES: Readonly<Record<number, number>> = { 2: 0.0003, 6: 0.0002, 24: 0.0001 };
const coins = (units: bigint): number => Number(units) / 1e8;

/** `version`: of its software; `ahead`: how many headers it has beyond its blocks; `connections`: null when it does not say. */
export async function startCoreNode(
  first: TestChain,
  { version, ahead = 0, connections = 8 }: { version?: number; ahead?: number; connections?: number | null } = {},
): Promise<CoreNode> {
  let chain = first;
  let honest: TestChain | null = null;
  let alter = (block: ChainBlock): Buffer => block.raw;
  let judge: ((hex: string) => string | null) | null = null;
  let mood: Parameters<CoreNode['behave']>[0] = 'well';
  let prunedBelow = 0;
  const calls: string[] = [];
  const sent: string[] = [];
  const blockOf = (hash: unknown): ChainBlock => {
    const found = [...chain.blocks, ...(honest?.blocks ?? [])].find((block) => block.hash === hash) ?? chain.stale.get(String(hash));
    if (!found) throw new CallError(-5, 'Block not found');
    return found;
  };
  const spenders = (onlyBlocks: boolean): ChainTx[] => [
    ...chain.blocks.flatMap(({ txs }) => txs),
    ...(onlyBlocks ? [] : chain.mempool.values()),
  ];
  /** An output that nothing spends, as the node describes it; null when there is none. */
  const unspent = (txid: string, vout: number, withMempool: boolean): unknown => {
    const found = chain.find(txid);
    const output = found?.tx.outputs[vout];
    if (!found || !output || (!found.block && !withMempool)) return null;
    if (spenders(!withMempool).some(({ inputs }) => inputs.some((input) => input.txid === txid && input.vout === vout))) return null;
    const { height, hash } = chain.tip();
    return { bestblock: hash, confirmations: found.block ? height - found.block.height + 1 : 0, value: coins(output.units) };
  };
  const describe = ({ tx, block }: NonNullable<ReturnType<TestChain['find']>>) => ({
    txid: tx.txid,
    vin: tx.coinbase ? [{ coinbase: '04ffff001d' }] : tx.inputs.map(({ txid, vout }) => ({ txid, vout })),
    vout: tx.outputs.map(({ units, script }, n) => ({ n, value: coins(units), scriptPubKey: { hex: script } })),
    ...(block && { blockhash: block.hash, confirmations: chain.tip().height - block.height + 1 }),
  });
  /** Takes a transaction once, and refuses anything else. */
  const accept = (hex: string): string => {
    const txid = txidOfHex(hex, chain.coin as BitcoinFamily);
    if (txid === null) throw new CallError(-22, 'TX decode failed. Make sure the tx has at least one input.');
    const refusal = judge?.(hex);
    if (refusal) throw new CallError(-26, refusal);
    if (refusal === undefined && sent.includes(hex)) throw new CallError(-27, 'Transaction already in block chain');
    sent.push(hex);
    return txid;
  };
  const answer = (method: string, params: readonly unknown[]): unknown => {
    const tip = (honest ?? chain).tip();
    switch (method) {
      case 'getblockchaininfo':
        return {
          chain: { mainnet: 'main', testnet: 'test', regtest: 'regtest' }[chain.network],
          blocks: tip.height,
          headers: tip.height + ahead,
          bestblockhash: tip.hash,
          initialblockdownload: false,
          pruned: false,
        };
      case 'getnetworkinfo':
        return { version: version ?? VERSIONS[chain.coin] ?? 310000, subversion: '/Test:1.0/', connections };
      case 'getindexinfo':
        return { txindex: { synced: true } };
      case 'getmempoolinfo':
        return { size: chain.mempool.size, bytes: 0 };
      case 'getrawmempool':
        return [...chain.mempool.keys()];
      case 'getbestblockhash':
        return tip.hash;
      case 'getblockhash': {
        const block = (Number(params[0]) === honest?.tip().height ? honest : chain).blocks[Number(params[0])];
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
        return params[1] ? describe(found) : found.tx.raw.toString('hex');
      }
      case 'getmempoolentry': {
        const tx = chain.mempool.get(String(params[0]));
        if (!tx) throw new CallError(-5, 'Transaction not in mempool');
        return { fees: { base: coins(tx.feeUnits) } };
      }
      case 'gettxout':
        return unspent(String(params[0]), Number(params[1]), params[2] !== false);
      case 'estimatesmartfee':
        return { feerate: FEES[Number(params[0])], blocks: params[0] };
      case 'sendrawtransaction':
        return accept(String(params[0]));
      default:
        throw new CallError(-32601, `Method not found: ${method}`);
    }
  };
  const tell: CoreNode['answer'] = (method, params) => {
    calls.push(method);
    try {
      return { result: answer(method, params), error: null };
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      return { result: null, error: { code: error.code, message: error.message } };
    }
  };
  const call = ({ id, method, params }: { id: unknown; method: string; params: unknown[] }) => ({ id, ...tell(method, params) });
  const server = await serve(async (request, reply, body) => {
    if (mood === 'down') return void request.socket.destroy();
    if (mood === 'slow') await sleep(1_500);
    const asked = JSON.parse(body.toString());
    reply.setHeader('content-type', 'application/json');
    reply.end(JSON.stringify(Array.isArray(asked) ? asked.map(call) : call(asked)));
  });
  return {
    url: `http://florin:test@127.0.0.1:${server.port}`,
    answer: tell,
    calls,
    sent,
    judge: (verdict) => {
      judge = verdict;
    },
    nameTipOf: (of) => {
      honest = of;
    },
    show: (next) => {
      chain = next;
    },
    alter: (change) => {
      alter = change;
    },
    behave: (next) => {
      mood = next;
    },
    prune: (below) => {
      prunedBelow = below;
    },
    close: server.stop,
  };
}
