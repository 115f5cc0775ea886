/** What a node of the Bitcoin Core family says about itself: its health, and for the operator what it lacks. */
import type { BitcoinFamily, Network } from '../../core/coin.ts';
import { type ChainHealth, type NodeInspection, orNull } from '../chain.ts';
import { fields } from '../reply.ts';
import { parseBlock } from './block-proof.ts';
import { type CoreCalls, integer, rowsOfReply, text } from './core-calls.ts';
import { type CoreHeaders, coreHeader } from './core-headers.ts';
import type { CoreMempool } from './core-mempool.ts';

const CHAIN_OF: Readonly<Record<string, Network>> = {
  main: 'mainnet',
  test: 'testnet',
  testnet4: 'testnet',
  signet: 'testnet',
  regtest: 'regtest',
};

export async function readCoreHealth({
  calls: { post, failure },
  headers,
  mempool,
}: {
  calls: CoreCalls;
  headers: CoreHeaders;
  mempool: Pick<CoreMempool, 'stateOf'>;
}): Promise<ChainHealth> {
  const [chain, net, index, pool] = await post([['getblockchaininfo'], ['getnetworkinfo'], ['getindexinfo'], ['getmempoolinfo']]);
  if (chain?.error) throw failure(chain.error, 'getblockchaininfo');
  const info = fields(chain?.result);
  const about = fields(net?.result);
  return {
    tip: coreHeader(await headers.read(text(info.bestblockhash))),
    headers: integer(info.headers),
    syncing: info.initialblockdownload === true || integer(info.headers) > integer(info.blocks) + 2,
    software: text(about.subversion).replaceAll('/', ''),
    version: integer(about.version),
    network: CHAIN_OF[text(info.chain)] ?? text(info.chain),
    pruned: info.pruned === true,
    txindex: index && !index.error && index.result ? 'txindex' in fields(index.result) : null,
    // A node may reject the call.
    peers: typeof about.connections === 'string' ? integer(about.connections) : null,
    mempool: pool && !pool.error ? mempool.stateOf(pool.result) : null,
  };
}

export async function inspectCore({
  coin,
  calls: { call, clockAheadSeconds },
}: {
  coin: BitcoinFamily;
  calls: CoreCalls;
}): Promise<NodeInspection> {
  const info = fields(await call('getblockchaininfo'));
  const warnings = fields(await call('getnetworkinfo')).warnings;
  const needs: readonly { capability: string; need(): Promise<unknown> }[] = [
    {
      capability: 'raw blocks',
      need: async () => parseBlock(Buffer.from(text(await call('getblock', text(info.bestblockhash), 0)), 'hex'), coin),
    },
    {
      capability: 'its mempool',
      need: async () => {
        const [txid] = rowsOfReply(await call('getrawmempool')).map(text);
        // A transaction that left in between is not an error.
        if (txid !== undefined) await orNull(call('getrawtransaction', txid, 0));
      },
    },
    {
      capability: 'transactions',
      // No node has this transaction. The call only shows whether the user may make it.
      need: () => orNull(call('getrawtransaction', '0'.repeat(63) + '1', 1)),
    },
    { capability: 'fee estimates', need: () => call('estimatesmartfee', 6) },
    { capability: 'the state of its mempool', need: () => call('getmempoolinfo') },
  ];
  const missing: { capability: string; reason: string }[] = [];
  for (const { capability, need } of needs) {
    await need().catch((error: unknown) => missing.push({ capability, reason: (error as Error).message }));
  }
  return {
    prunedBelow: info.pruned === true ? integer(info.pruneheight) : null,
    clockAheadSeconds: clockAheadSeconds(),
    missing,
    warnings: (Array.isArray(warnings) ? warnings : [warnings]).map(text).filter(Boolean),
  };
}
