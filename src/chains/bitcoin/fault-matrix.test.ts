/** Every question that Florin asks a node of a Bitcoin-like chain, with every way to fail. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startCoreNode } from '../../../test/kit/core-node.ts';
import { spend } from '../../../test/kit/electrum-chain.ts';
import {
  type Cell,
  type Facts,
  factOf,
  speakRpc,
  startFaultyServer,
  testFaults,
  withSmallReplies,
} from '../../../test/kit/fault-matrix.ts';
import { createTestChain } from '../../../test/kit/test-chain.ts';
import { addressOfScript } from '../../addresses/address.ts';
import { createOutgoing } from '../../connections/http-client.ts';
import type { BitcoinFamily } from '../../core/coin.ts';
import { createLog } from '../../log.ts';
import { ChainError, type JoinedSource, type Matcher } from '../chain-source.ts';
import { checkedSource } from '../checked-source.ts';
import { joinSources } from '../sources.ts';
import { createCoreSource } from './core-rpc.ts';

const log = createLog('silent');
const outgoing = withSmallReplies(createOutgoing({ allow: [], log }));
after(() => outgoing.close());
const isExpected = (error: unknown): boolean => error instanceof ChainError;
const said = (work: Promise<unknown>) => factOf({ isExpected }, work);

const SCRIPT = `76a914${'22'.repeat(20)}88ac`;
const matcher: Matcher = {
  has: (key) => key === SCRIPT,
  ...{ watchesSpends: true, spends: () => false, recent: () => [SCRIPT], waiting: [] },
};

async function openWorld(coin: BitcoinFamily) {
  const chain = createTestChain({ coin, length: 20 });
  const address = addressOfScript(SCRIPT, { coin, network: 'mainnet' })!;
  const mined = chain.pay([[address, 70_000n]]);
  const [block] = chain.mine();
  const waiting = chain.pay([[address, 80_000n]]);
  const node = await startCoreNode(chain);
  after(node.close);
  return { chain, node, mined, waiting, block: block! };
}
type World = Awaited<ReturnType<typeof openWorld>>;

const lockOf = (chain: World['chain']) => ({ blockhash: chain.tip().hash, height: chain.tip().height, known_block: true });
/** A node that knows ChainLocks, too. */
const answerOf =
  ({ chain, node }: World) =>
  (method: string, params: any[]) => {
    if (method === 'getbestchainlock') return { result: lockOf(chain) };
    const { result, error } = node.answer(method, params);
    return error ? { error } : { result };
  };

let sent = 0;
/** Whether a node took what it is said to have taken: another transaction each time. Only the rules of the network refuse one. */
async function send({ outlet }: JoinedSource, node: World['node']): Promise<boolean | 'refused'> {
  const raw = spend([`${'cd'.repeat(32)}:${++sent}`], [{ script: SCRIPT, units: 50_000n }]);
  try {
    await outlet.send(raw);
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'refused') return 'refused';
    throw error;
  }
  return node.sent.includes(raw.toString('hex'));
}

/** What a follower reads, and what is looked up. Errors: ChainError. */
async function read(chain: JoinedSource, { mined, waiting, block, node }: World): Promise<Facts> {
  const survey = await chain.survey();
  if (!survey.some(({ state }) => state === 'ok')) throw new ChainError('outage', survey[0]!.reason!);
  const genesis = await chain.genesis();
  const ref = await chain.blockAt((await chain.tip()).height);
  if (!ref) return { genesis, height: null };
  const { sightings } = await (await chain.fetchBlock(ref.hash)).scan(matcher);
  const pool = await (await chain.fetchMempool()).scan(matcher);
  const fees = await chain.fees().catch(() => []);
  const { chainlock } = await chain.finality();
  return {
    genesis,
    height: ref.height,
    transfers: sightings.map(({ txid, units }) => [txid, units]),
    waiting: pool.complete === false ? undefined : pool.sightings.map(({ txid, units }) => [txid, units]),
    present: pool.present.has(waiting),
    // Null: it has none at the moment.
    chainlock: chainlock ?? (chain.coin === 'DASH' ? undefined : 'no such thing'),
    state: await said(chain.txState(mined)),
    stateOfWaiting: await said(chain.txState(waiting)),
    fees: fees.length > 0 && fees.every(({ source }) => source === 'estimate') ? fees : undefined,
    transaction: await said(chain.transaction(mined).then(({ txid, blockHash, amountUnits }) => ({ txid, blockHash, amountUnits }))),
    unspent: await said(chain.readUnspent({ address: '', outputs: [{ ref: `${mined}:0`, units: 70_000n }] })),
    outlet: await said(chain.outlet.areUnspent([`${mined}:0`, `${'ab'.repeat(32)}:0`])),
    depth: await said(chain.outlet.depthOf!([`${mined}:0`])),
    sent: await said(send(chain, node)),
    bytes: await said(chain.outlet.readTransactions([{ txid: mined, blockHash: block.hash }])),
  };
}

/** What is asked of nodes of other coins in another way than of Bitcoin Core. */
const OWN: Partial<Record<BitcoinFamily, readonly string[]>> = {
  DASH: ['getbestchainlock', 'getrawtransaction'],
  LTC: ['getblock', 'getrawmempool', 'getrawtransaction'],
  DOGE: ['decoderawtransaction', 'getblock', 'getblockheader', 'getrawtransaction'],
};
for (const coin of ['BTC', 'LTC', 'DASH', 'DOGE'] as const) {
  const world = await openWorld(coin);
  const server = await startFaultyServer(speakRpc(answerOf(world)));
  let asked: ReadonlySet<string>[] = [];
  testFaults(
    {
      name: `your own node of ${coin}`,
      isExpected,
      optional: ['chainlock'],
      asked: () => asked.flatMap((one) => [...one]),
      open: async (cells: readonly (Cell | null)[]) => {
        // Each poll of the mempool brings only what is new.
        const opened = cells.map((cell) => server.open(cell));
        asked = opened.map((one) => one.asked);
        const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
        const chain = joinSources({
          ...{ coin, network: 'mainnet', log, clock },
          sources: opened.map(({ url }, i) => {
            const source = createCoreSource({ coin, network: 'mainnet', url, outgoing, log, clock });
            return { name: `source${i}`, trust: 'own', source: checkedSource(source, { name: url, clock }), follows: true };
          }),
        });
        return {
          round: () => read(chain, world),
          heal: () => {
            for (const one of opened) one.heal();
          },
          close: () => chain.close(),
        };
      },
    },
    { questions: OWN[coin] ? 2 : 12, isAnother: (question) => OWN[coin]?.includes(question) ?? true },
  );
}

test('a transaction was sent only if the node answers with its ID', async () => {
  const world = await openWorld('BTC');
  const answer = answerOf(world);
  const server = await startFaultyServer(
    speakRpc((method, params) => (method === 'sendrawtransaction' ? { result: world.mined } : answer(method, params))),
  );
  const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
  const source = createCoreSource({ coin: 'BTC', network: 'mainnet', url: server.open(null).url, outgoing, log, clock });
  await assert.rejects(source.outlet!.send!(spend([`${world.mined}:0`], [{ script: SCRIPT, units: 50_000n }])), { kind: 'outage' });
});
