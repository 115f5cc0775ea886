/**
 * What a day of Ethereum costs: the calls of the real source through a provider in memory, polled as the follower does, with the size of a
 * real mainnet block, plain and with gzip, for each answer.
 */
import { gzipSync } from 'node:zlib';
import type { Matcher } from '../src/chains/chain-source.ts';
import { createEthereumSource } from '../src/chains/ethereum/ethereum.ts';
import type { LightState } from '../src/chains/ethereum/light-client/light-client.ts';
import type { LightService } from '../src/chains/ethereum/light-client/light-service.ts';
import { syncedSource } from '../src/chains/ethereum/synced-source.ts';
import { chainOf } from '../src/core/coin.ts';
import { createLog } from '../src/log.ts';
import { type Ask, answersOf, makeBlocks, outgoingOf } from '../test/kit/eth-forgeries.ts';
import { readEthereum } from '../test/kit/ethereum-data.ts';
import { readTokenReplies } from '../test/kit/token-blocks.ts';

const OPEN = 100;
/** Blocks that are followed: two rounds of proofs. */
const BLOCKS = 48;
const SLOTS_A_DAY = 7_200;
type Cost = { calls: number; bytes: number; packed: number };
const sizeOf = (value: unknown): Omit<Cost, 'calls'> => {
  const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result: value });
  return { bytes: text.length, packed: gzipSync(text).length };
};

/** How large each answer is on mainnet, by method; other answers are small. */
function mainnetSizes(): (method: string, params: any[]) => Omit<Cost, 'calls'> {
  const block = readEthereum('block-24784163-rpc');
  const whole = sizeOf(block);
  const header = sizeOf({ ...block, transactions: block.transactions.map((tx: { hash: string }) => tx.hash) });
  const { receipts } = readTokenReplies();
  const known = sizeOf(receipts);
  // As many receipts as that block has transactions.
  const times = block.transactions.length / receipts.length;
  const all = { bytes: Math.round(known.bytes * times), packed: Math.round(known.packed * times) };
  const { proof } = readEthereum('proof-mainnet-23223655-weth');
  const account = sizeOf({ ...proof, storageProof: [] });
  const small = sizeOf('0x1');
  return (method, params) =>
    method === 'eth_getBlockReceipts'
      ? all
      : method === 'eth_getProof'
        ? account
        : method.startsWith('eth_getBlockBy')
          ? params[1] === true
            ? whole
            : header
          : method === 'eth_call'
            ? sizeOf(`0x${'0'.repeat(64 * OPEN)}`)
            : small;
}

const log = createLog('silent');
/** The calls of a day to a provider, by method. `isPool`: it lists waiting transactions (`txpool`). */
async function providerDay(): Promise<Map<string, Cost>> {
  const blocks = makeBlocks(100 + BLOCKS);
  const truth = answersOf(blocks);
  const sizes = mainnetSizes();
  const costs = new Map<string, Cost>();
  let head = 101;
  const ask: Ask = (method, params) => {
    const isPending = params[0] === 'pending';
    const at = params[0] === 'latest' || isPending ? [`0x${head.toString(16)}`, params[1]] : params;
    const name = `${method}${isPending ? ' pending' : params[1] === true ? ' whole' : ''}`;
    const { bytes, packed } = sizes(method, params);
    const before = costs.get(name) ?? { calls: 0, bytes: 0, packed: 0 };
    costs.set(name, { calls: before.calls + 1, bytes: before.bytes + bytes, packed: before.packed + packed });
    if (method === 'eth_call') return `0x${'0'.repeat(64 * OPEN)}`;
    if (method === 'eth_syncing') return false;
    if (method === 'eth_blockNumber') return `0x${head.toString(16)}`;
    if (method === 'net_peerCount' || method === 'web3_clientVersion') return '0x5';
    return truth(method, at);
  };
  const plain = createEthereumSource({
    ...{ network: 'regtest', chainId: 31337, url: 'http://in.memory', isOwn: false, outgoing: outgoingOf(ask), log },
  });
  const signed = (height: number) => ({ slot: height, root: '', executionHash: blocks[height - 100]!.hash });
  const heads = () => ({ optimistic: signed(head), finalized: signed(101) }) as LightState;
  const light = { open: async () => {}, heads, trouble: () => null, onHead: () => () => {} } as unknown as LightService;
  const source = syncedSource({ source: plain, name: 'provider', light });
  await source.requireProof!();
  const keys = Array.from({ length: OPEN }, (_, i) => i.toString(16).padStart(40, '0'));
  const later = new Date('2100-01-01');
  const listed = keys.map((key) => ({ key, endsAt: later, countsUntil: later }));
  const matcher: Matcher = {
    ...{ has: () => false, watchesSpends: false, spends: () => false, recent: () => keys, waiting: [] },
    open: () => ({ listed, othersEnd: null }),
  };
  const { blockSeconds, pollSeconds } = chainOf('ETH');
  for (let height = 102; height <= 100 + BLOCKS; height++) {
    // The block is twice where the first proofs are not counted, because addresses come one by one.
    if (height === 104) costs.clear();
    head = height;
    await source.health();
    const next = await source.blockAt(height);
    await (await source.fetchBlock(next!.hash)).scan(matcher);
    for (let poll = 0; poll < blockSeconds / pollSeconds; poll++) {
      await source.health();
      if (poll === 0) await source.finality();
      await (await source.fetchMempool(null)).scan(matcher);
      await source.tip();
    }
  }
  plain.close();
  const days = SLOTS_A_DAY / (BLOCKS - 3);
  return new Map(
    [...costs].map(([name, { calls, bytes, packed }]) => [name, { calls: calls * days, bytes: bytes * days, packed: packed * days }]),
  );
}

/** The requests of a day to a beacon server. */
function beaconDay(): Cost {
  const of = (name: string, calls: number): Cost => {
    const { bytes, packed } = sizeOf(readEthereum(`light-fulu-${name}`));
    return { calls, bytes: bytes * calls, packed: packed * calls };
  };
  const all = [of('optimistic_update', SLOTS_A_DAY), of('finality_update', SLOTS_A_DAY / 32), of('updates', 1)];
  const sum = (key: keyof Cost) => all.reduce((total, cost) => total + cost[key], 0);
  return { calls: sum('calls'), bytes: sum('bytes'), packed: sum('packed') };
}

const megabytes = (bytes: number): string => Math.round(bytes / 1e6).toLocaleString('en-US');
const line = (name: string, { calls, bytes, packed }: Cost): void =>
  console.log(`${name.padEnd(34)} ${Math.round(calls).toLocaleString('en-US')} calls  ${megabytes(bytes)} MB  ${megabytes(packed)} MB`);

export async function tellDay(): Promise<void> {
  console.log(`a day with ${OPEN} open payments: calls, plain, with gzip`);
  const costs = await providerDay();
  const all: Cost = { calls: 0, bytes: 0, packed: 0 };
  for (const [name, cost] of [...costs].toSorted(([, a], [, b]) => b.packed - a.packed)) {
    line(name, cost);
    for (const key of ['calls', 'bytes', 'packed'] as const) all[key] += cost[key];
  }
  line('the provider', all);
  line('the beacon server', beaconDay());
}
