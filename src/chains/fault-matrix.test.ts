/**
 * Every question that Florin asks a node or provider, with every way to fail. The questions are those that a healthy round asks; the table
 * question x fault x outcome is made by the test and printed. No cell is stuck: beside a good source the round is read, alone it is read or
 * waits with a reason, and when the fault ends it is read.
 */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { makeBlock, signTransaction } from '../../test/kit/ethereum-blocks.ts';
import { hexOfBytes } from '../../test/kit/ethereum-data.ts';
import { stateOf } from '../../test/kit/ethereum-state.ts';
import { type Cell, type Facts, factOf, speakRpc, startFaultyServer, testFaults, withSmallReplies } from '../../test/kit/fault-matrix.ts';
import { createOutgoing } from '../connections/http-client.ts';
import { createLog } from '../log.ts';
import { ChainError, type ChainSource, type JoinedSource, type Matcher, RangeRefused } from './chain-source.ts';
import { checkedSource } from './checked-source.ts';
import { READ_BALANCES } from './ethereum/eth-balances.ts';
import { encodeTransaction } from './ethereum/eth-block.ts';
import { createEthereumSource } from './ethereum/ethereum.ts';
import { GAS_PRICE_ORACLE } from './ethereum/fees.ts';
import { createTokenNetworkSource } from './ethereum/token-network.ts';
import { joinSources } from './sources.ts';

const log = createLog('silent');
const outgoing = withSmallReplies(createOutgoing({ allow: [], log }));
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
after(() => outgoing.close());

const US = 'aa'.repeat(20);
/** Paid by contracts. Only the calls of the first one name it, and no kind of call trace shows what the second one got. */
const [NAMED, UNNAMED] = ['bb'.repeat(20), 'cc'.repeat(20)];
const KEYS = [US, NAMED, UNNAMED];
const word = (text: string) => `0x${text.padStart(64, '0')}`;
const USDC = '833589fcd6edb6e08f4c7c32d4f71b54bda02913';
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const now = `0x${Math.floor(Date.now() / 1000).toString(16)}`;
const [then, since] = [stateOf({}), stateOf({ [US]: { balance: 5n }, [NAMED]: { balance: 7n }, [UNNAMED]: { balance: 9n } })];
const direct = signTransaction('payer', { nonce: '0x1', to: `0x${US}`, value: '0x5' });
const logs = [{ address: `0x${USDC}`, topics: [TRANSFER, word('c1'), word(US)], data: word('989680') }];
const token = { ...signTransaction('payer', { nonce: '0x2', to: `0x${USDC}`, value: '0x0' }), logs };
const CONTRACT = `0x${'dd'.repeat(20)}`;
const naming = { to: CONTRACT, input: `0xa9059cbb${NAMED.padStart(64, '0')}` };
const idle = signTransaction('payer', { nonce: '0x3', ...naming });
const inside = signTransaction('payer', { nonce: '0x4', ...naming });
const ending = signTransaction('payer', { nonce: '0x5', to: CONTRACT });
const waiting = signTransaction('payer', { nonce: '0x6', to: `0x${US}`, value: '0x9' });
const first = makeBlock({ height: 0, parent: word('0'), fields: { stateRoot: then.root, timestamp: now } });
const parent = makeBlock({ height: 99, parent: word('1'), fields: { stateRoot: then.root, timestamp: now } });
const block = makeBlock({
  height: 100,
  parent: parent.hash,
  transactions: [direct, token, idle, inside, ending],
  fields: { stateRoot: since.root, timestamp: now },
});
const next = makeBlock({ height: 101, parent: block.hash, transactions: [waiting], fields: { timestamp: now } });
const shown = (made: typeof block | undefined, whole: boolean) =>
  made ? { ...made.header, transactions: whole ? made.transactions : made.transactions.map((tx) => tx.hash) } : null;
const byHash = (hash: string) => [parent, block].find((made) => made.hash === hash);
const HELD: Readonly<Record<string, bigint>> = { [US]: 5n, [NAMED]: 7n, [UNNAMED]: 9n };
const balanceAt = (key: string, at: unknown): bigint => (isNew(at) ? (HELD[key] ?? 0n) : 0n);
const isNew = (at: any) => at === 'latest' || at?.blockHash === block.hash;
const ANSWERS: Record<string, (...params: any[]) => unknown> = {
  eth_chainId: () => '0x7a69',
  eth_syncing: () => false,
  eth_blockNumber: () => '0x64',
  net_peerCount: () => '0x5',
  web3_clientVersion: () => 'Node/v1',
  eth_getBlockByNumber: (at: string, whole: boolean) =>
    at === '0x0'
      ? shown(first, whole)
      : at === '0x63'
        ? shown(parent, whole)
        : at === 'pending'
          ? shown(next, whole)
          : ['latest', 'safe', 'finalized', '0x64'].includes(at)
            ? shown(block, whole)
            : null,
  eth_getBlockByHash: (hash: string, whole: boolean) => shown(byHash(hash), whole),
  eth_getBlockReceipts: (hash: string) => byHash(hash)?.receipts ?? null,
  eth_getTransactionByHash: (hash: string) => block.transactions.find((tx) => tx.hash === hash) ?? null,
  eth_getBalance: (address: string, at: unknown) => `0x${balanceAt(address.slice(2), at).toString(16)}`,
  eth_getProof: (address: string, _: unknown, at: unknown) => (isNew(at) ? since : then).prove(address),
  eth_getLogs: () =>
    block.receipts.flatMap((receipt) => receipt.logs.map((one: object) => ({ ...one, blockNumber: '0x64', blockHash: block.hash }))),
  eth_gasPrice: () => '0x5',
  eth_getTransactionReceipt: (hash: string) => block.receipts.find((receipt) => receipt.transactionHash === hash) ?? null,
  eth_getTransactionCount: () => '0x7',
  eth_estimateGas: () => '0x5208',
  eth_maxPriorityFeePerGas: () => '0x2',
  eth_sendRawTransaction: () => waiting.hash,
  eth_feeHistory: () => ({ baseFeePerGas: ['0x7', '0x8'], reward: [['0x1', '0x2', '0x3']] }),
};

/** What accounts hold, as a simulated contract returns it; what a contract says. */
function callOf({ to, data }: { to?: string; data: string }, at: unknown): string {
  if (to !== undefined) return word(data === '0x313ce567' ? '6' : to === GAS_PRICE_ORACLE ? '64' : '0');
  if (!data.startsWith(READ_BALANCES)) return word('5');
  const words = data.slice(READ_BALANCES.length).match(/.{64}/g) ?? [];
  return `0x${words.map((key) => balanceAt(key.slice(24), at).toString(16).padStart(64, '0')).join('')}`;
}
const move = (to: string, units: string) => ({ type: 'CALL', from: CONTRACT, to: `0x${to}`, value: units });
const callTrace = (hash: string) => ({ type: 'CALL', calls: hash === inside.hash ? [move(NAMED, '0x7')] : [] });
/** A flat trace. */
function flatTrace(hash: string): object[] {
  const flat = (type: string, action: object, traceAddress: number[]) => ({
    ...{ blockHash: block.hash, transactionHash: hash, type, action, traceAddress },
  });
  const whole = flat('call', { callType: 'call' }, []);
  if (hash === inside.hash) return [whole, flat('call', { callType: 'call', ...move(NAMED, '0x7') }, [0])];
  return hash === ending.hash
    ? [whole, flat('suicide', { address: CONTRACT, refundAddress: `0x${UNNAMED}`, balance: '0x9' }, [0])]
    : [whole];
}
Object.assign(ANSWERS, {
  debug_traceTransaction: callTrace,
  debug_traceBlockByHash: () => block.transactions.map(({ hash }) => ({ txHash: hash, result: callTrace(hash) })),
  trace_transaction: flatTrace,
  trace_block: () => block.transactions.flatMap(({ hash }) => flatTrace(hash)),
});
/** What many providers do not answer. */
const CALLS: typeof ANSWERS = {
  eth_call: callOf,
  eth_getCode: () => '0x60',
  eth_getStorageAt: () => word('0'),
  txpool_status: () => ({ pending: '0x1', queued: '0x0' }),
  txpool_content: () => ({ pending: { [waiting.from]: { 6: waiting } }, queued: {} }),
};
const serverOf = (answers: typeof ANSWERS) =>
  startFaultyServer(
    speakRpc((method, params) => {
      const found = answers[method];
      return found ? { result: found(...params) } : { error: { code: -32_601, message: `the method ${method} does not exist` } };
    }),
  );
const [provider, node] = [await serverOf(ANSWERS), await serverOf({ ...ANSWERS, ...CALLS })];

const KINDS = ['your own node', 'a provider', 'a node of Base'] as const;
type Kind = (typeof KINDS)[number];
const sourceOf = (kind: Kind, url: string): ChainSource => {
  const common = { network: 'regtest' as const, chainId: 31_337, url, outgoing, log, retryMs: 1 };
  const source =
    kind === 'a node of Base'
      ? createTokenNetworkSource({ coin: 'USDC@base', ...common })
      : createEthereumSource({ ...common, isOwn: kind === 'your own node' });
  return checkedSource(source, { name: url, clock });
};

const ends = new Date(Date.now() + 3_600_000);
const matcher: Matcher = {
  has: (key) => KEYS.includes(key),
  ...{ watchesSpends: true, spends: () => false, recent: () => KEYS, waiting: [direct.hash] },
  open: () => ({ listed: KEYS.map((key) => ({ key, endsAt: ends, countsUntil: ends })), othersEnd: null }),
};
const paying = block.transactions[1]!.hash;
const isExpected = (error: unknown): boolean => error instanceof ChainError || error instanceof RangeRefused;
const said = (work: Promise<unknown>) => factOf({ isExpected }, work);

const readLookUps = async ({ txState, fees, transaction }: Pick<ChainSource, 'txState' | 'fees' | 'transaction'>): Promise<Facts> => ({
  state: await said(txState(direct.hash)),
  fees: await said(fees()),
  transaction: await said(transaction(direct.hash)),
});

/** A round of a chain that is read by ranges. Errors: ChainError, RangeRefused. */
async function readRanges({ ranges, genesis, contracts, txState, fees, transaction, gasFee }: ChainSource): Promise<Facts> {
  await genesis();
  const { height } = await ranges!.head();
  await ranges!.at([height]);
  const [hash = ''] = (await ranges!.search({ from: height, to: height }, [US])).values();
  if (hash === '') return { transfers: 0 };
  await ranges!.identity(hash);
  return {
    transfers: (await ranges!.fetch(hash)).sightings(matcher).length,
    place: await said(ranges!.placeOf(paying)),
    final: await said(ranges!.tags().then(({ finalized }) => finalized ?? undefined)),
    holdings: await said(ranges!.holdings.read([{ coin: 'USDC@base', account: US }])),
    contracts: await said(contracts!(['USDC@base'])),
    natives: await said(ranges!.native!.balances([US, NAMED], hash).then((balances) => balances ?? undefined)),
    paid: await said(ranges!.native!.paid(hash, new Set([US]))),
    gasFee: await said(gasFee!()),
    ...(await readLookUps({ txState, fees, transaction })),
  };
}
/** The same of several sources: the next one is asked for what one does not say. */
async function readAnyRanges(sources: readonly ChainSource[]): Promise<Facts> {
  let facts: Facts = {};
  let failure: unknown = null;
  for (const source of sources) {
    const found = await readRanges(source).catch((error: unknown) => {
      assert.ok(isExpected(error), String((error as Error).stack));
      failure = error;
      return {};
    });
    facts = { ...found, ...Object.fromEntries(Object.entries(facts).filter(([, fact]) => fact !== undefined)) };
  }
  if (Object.keys(facts).length === 0) throw failure;
  return facts;
}

/** As the watch of fees asks. */
async function readGasFee(sources: readonly ChainSource[]): Promise<unknown> {
  let fee: unknown;
  for (const { gasFee } of sources) fee ??= await said(gasFee!());
  return fee;
}

/** What is asked to make a transaction and to send it. */
const FOR_SENDING = ['eth_getTransactionCount', 'eth_estimateGas', 'eth_maxPriorityFeePerGas', 'eth_sendRawTransaction'];
async function readForSending({ ask }: JoinedSource): Promise<Facts> {
  const answerTo = async (method: string): Promise<unknown> => {
    const [reply] = await ask([[method, method === 'eth_sendRawTransaction' ? hexOfBytes(encodeTransaction(waiting)) : `0x${US}`]]);
    return reply?.error === null ? reply.result : undefined;
  };
  return Object.fromEntries(await Promise.all(FOR_SENDING.map(async (method) => [method, await said(answerTo(method))] as const)));
}

/** A round of a chain of which every block is read, and what is looked up. Errors: ChainError. */
async function readBlocks(chain: JoinedSource, sources: readonly ChainSource[]): Promise<Facts> {
  const survey = await chain.survey();
  if (!survey.some(({ state }) => state === 'ok')) throw new ChainError('outage', survey[0]!.reason!);
  await chain.genesis();
  const ref = (await chain.blockAt((await chain.tip()).height))!;
  const { sightings, blind } = await (await chain.fetchBlock(ref.hash)).scan(matcher);
  const pool = await (await chain.fetchMempool()).scan(matcher);
  const finality = await chain.finality();
  return {
    transfers: sightings.filter(({ key }) => key === US).map(({ coin, units }) => [coin, units]),
    ofContracts: blind === undefined ? sightings.filter(({ key }) => key !== US).map(({ key, units }) => [key, units]) : undefined,
    // Which transactions caused what they got; amounts count without it.
    payers: blind === undefined && sightings.every(({ txid }) => txid !== null) ? sightings.map(({ txid }) => txid) : undefined,
    waiting: pool.sightings.map(({ txid, units }) => [txid, units]),
    // Else nothing expires.
    isCertain: pool.complete === false ? undefined : true,
    finality: finality.blind ? 'not told' : finality.finalized,
    balance: await said(chain.readUnspent({ address: `0x${US}`, outputs: [] })),
    gasFee: await readGasFee(sources),
    ...(await readForSending(chain)),
    ...(await readLookUps(chain)),
  };
}

/** What is asked of a provider and of a node of Base just as of a node of one's own. */
const SAME = [
  ...[...FOR_SENDING, 'eth_syncing', 'net_peerCount', 'web3_clientVersion'],
  ...['debug_traceBlockByHash', 'debug_traceTransaction', 'trace_block', 'trace_transaction', 'txpool_status'],
];
/** These a node of Base is asked for what it costs to post bytes, and for what arrived in its native coin. */
const SAME_OF_PROVIDER = [...SAME, 'eth_feeHistory', 'eth_getTransactionReceipt'];
const SAME_AS: Readonly<Record<Kind, readonly string[]>> = {
  'your own node': [],
  'a provider': SAME_OF_PROVIDER,
  'a node of Base': SAME,
};
for (const kind of KINDS) {
  let asked: ReadonlySet<string>[] = [];
  testFaults(
    {
      name: kind,
      isExpected,
      optional: ['payers', 'isCertain'],
      asked: () => asked.flatMap((one) => [...one]),
      open: async (cells: readonly (Cell | null)[]) => {
        const opened = cells.map((cell) => (kind === 'a provider' ? provider : node).open(cell));
        asked = opened.map((one) => one.asked);
        const sources = opened.map(({ url }) => sourceOf(kind, url));
        const trust = kind === 'a provider' ? 'proven' : 'own';
        const chain = joinSources({
          ...{ coin: 'ETH', network: 'regtest', log, clock },
          sources: sources.map((source, i) => ({ name: `source${i}`, trust, source, follows: true })),
        });
        return {
          round: () => (kind === 'a node of Base' ? readAnyRanges(sources) : readBlocks(chain, sources)),
          heal: () => {
            for (const one of opened) one.heal();
          },
          close: () => chain.close(),
        };
      },
    },
    { questions: 6, isAnother: (question) => !SAME_AS[kind].includes(question) },
  );
}
