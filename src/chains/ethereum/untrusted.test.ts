/** A provider of others with an honest source beside it: every kind of lie about a block is refused and named, and the truth is read. */
// Invariant: Nothing in an Ethereum block can be invented, changed or left out by any source; a provider that tries is named, and your own node shows the payments.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { accountNamed, type Json, type Made, type MadeBlock, makeBlock, signTransaction } from '../../../test/kit/ethereum-blocks.ts';
import { flipBit, flipNumber } from '../../../test/kit/ethereum-data.ts';
import { emptyState, stateOf } from '../../../test/kit/ethereum-state.ts';
import { type Served, serve } from '../../../test/kit/serve.ts';
import { createOutgoing } from '../../connections/http-client.ts';
import { createLog } from '../../log.ts';
import { ChainError, type Matcher, NO_FINALITY } from '../chain-source.ts';
import { joinSources } from '../sources.ts';
import { createEthereumSource } from './ethereum.ts';

const log = createLog('silent');
const outgoing = createOutgoing({ allow: [], log });
const servers: Served[] = [];
after(async () => {
  await outgoing.close();
  for (const server of servers) await server.stop();
});

/** The connection ends in the middle of the answer. */
class Cut extends Error {}
type Lie = (method: string, result: any, params: any[]) => unknown;

/** A node of a chain of made blocks. `lie` changes its answers; `asked` are the methods that were called. */
async function startNode(chain: Chain, lie: Lie = (_, result) => result) {
  const asked: string[] = [];
  const server = await serve((request, reply, sent) => {
    const body = JSON.parse(sent.toString());
    const answers = [body].flat().map(({ id, method, params }: { id: number; method: string; params: any[] }) => {
      asked.push(method);
      const answer = chain.answers[method];
      if (!answer) return { jsonrpc: '2.0', id, error: { code: -32601, message: `the method ${method} does not exist` } };
      try {
        return { jsonrpc: '2.0', id, result: lie(method, structuredClone(answer(...params)), params) };
      } catch (error) {
        if (error instanceof Cut) return null;
        const { code = -32000, message } = error as Error & { code?: number };
        return { jsonrpc: '2.0', id, error: { code, message } };
      }
    });
    if (answers.includes(null)) return void request.socket.destroy();
    reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(Array.isArray(body) ? answers : answers[0]));
  });
  servers.push(server);
  return { url: server.url, asked };
}
const sourceAt = (url: string, isOwn: boolean) =>
  createEthereumSource({ network: 'regtest', chainId: 31337, url, isOwn, outgoing, log, retryMs: 10 });

/** A provider that is followed, and your own node beside it. */
const join = (provider: string, own: string) =>
  joinSources({
    ...{ coin: 'ETH', network: 'regtest', log },
    sources: [
      { name: 'provider', trust: 'claimed', source: sourceAt(provider, false), follows: true },
      { name: 'own', trust: 'own', source: sourceAt(own, true), follows: true },
    ],
    clock: { now: () => new Date(), monotonicMs: () => performance.now() },
  });

const [US, US_TOO, PAYER] = ['aa'.repeat(20), 'bb'.repeat(20), accountNamed('payer')];
const CONTRACT = 'c0'.repeat(20);
const USDC = 'a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48';
const word = (text: string) => `0x${text.padStart(64, '0')}`;
const hex = (value: bigint) => `0x${value.toString(16)}`;
const log3 = (to: string, units: bigint, address = USDC) => ({
  address: `0x${address}`,
  topics: ['0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', word(PAYER), word(to)],
  data: word(units.toString(16)),
});

type Chain = { block: MadeBlock; answers: Record<string, (...params: any[]) => any> };
/** Two blocks with true states; the second one has these transactions, and changes these accounts. */
function chainOf(transactions: readonly Made[], { before = {}, after = before }: { before?: Json; after?: Json } = {}): Chain {
  const [then, now] = [stateOf(before), stateOf(after)];
  const parent = makeBlock({ height: 99, parent: word('1'), fields: { stateRoot: then.root } });
  const block = makeBlock({ height: 100, parent: parent.hash, transactions, fields: { stateRoot: now.root } });
  const blocks = [parent, block];
  const shown = (made: MadeBlock | undefined, whole: boolean) =>
    made ? { ...made.header, transactions: whole ? made.transactions : made.transactions.map((tx) => tx.hash) } : null;
  const byHash = (hash: string) => blocks.find((made) => made.hash === hash);
  const stateAt = ({ blockHash }: { blockHash: string }) =>
    blockHash === block.hash ? now : blockHash === parent.hash ? then : emptyState();
  return {
    block,
    answers: {
      eth_chainId: () => '0x7a69',
      eth_syncing: () => false,
      net_peerCount: () => '0x5',
      web3_clientVersion: () => 'Node/v1',
      eth_getBlockByNumber: (at: string, whole: boolean) =>
        at === '0x0' ? shown(parent, false) : at === 'latest' || at === '0x64' ? shown(block, whole) : null,
      eth_getBlockByHash: (hash: string, whole: boolean) => shown(byHash(hash), whole),
      eth_getBlockReceipts: (hash: string) => byHash(hash)?.receipts ?? null,
      eth_getBalance: (address: string, at: any) => hex(stateAt(at).balanceOf(address)),
      eth_getProof: (address: string, _: string[], at: any) => stateAt(at).prove(address),
    },
  };
}

const matcher: Matcher = {
  has: (key) => key === US || key === US_TOO,
  watchesSpends: true,
  spends: (outpoint) => outpoint === `${PAYER}:9`,
  recent: () => [US, US_TOO],
  waiting: [],
};
const read = async (source: Pick<ReturnType<typeof sourceAt>, 'fetchBlock'>, chain: Chain, looksFor = matcher) => {
  const { sightings, conflicts } = await (await source.fetchBlock(chain.block.hash)).scan(looksFor);
  return [
    ...sightings.map(({ key, units, coin, kind }) => `${kind} ${key.slice(0, 2)} ${units} ${coin ?? 'ETH'}`),
    ...conflicts.map(({ outpoint }) => `conflict ${outpoint.split(':')[1]}`),
  ].sort();
};

const direct = signTransaction('payer', { nonce: '0x1', to: `0x${US}`, value: '0x5' });
const failing = { ...signTransaction('payer', { nonce: '0x2', to: `0x${US_TOO}`, value: '0x9' }), ok: false };
const token: Made = { ...signTransaction('payer', { nonce: '0x3', to: `0x${USDC}` }), logs: [log3(US, 700n), log3(US_TOO, 800n)] };
const through = signTransaction('payer', { nonce: '0x4', to: `0x${CONTRACT}`, value: '0x20' });
const replaced = signTransaction('payer', { nonce: '0x9', to: `0x${CONTRACT}` });
const BLOCK = chainOf([direct, failing, token, through, replaced], { after: { [US]: { balance: 5n }, [US_TOO]: { balance: 32n } } });
const TRUTH = ['conflict 9', 'delta bb 32 ETH', 'direct aa 5 ETH', 'token aa 700 USDC@ethereum', 'token bb 800 USDC@ethereum'];

test('what a provider of others shows and proves is what your own node shows', async () => {
  const node = await startNode(BLOCK);
  assert.deepEqual(await read(sourceAt(node.url, true), BLOCK), TRUTH);
  assert.ok(!node.asked.includes('eth_getProof'));
  assert.deepEqual(await read(sourceAt(node.url, false), BLOCK), TRUTH);
  // One account gained something: its state before and after.
  assert.equal(node.asked.filter((method) => method === 'eth_getProof').length, 2);
});

const onReceipts =
  (change: (receipts: Json[]) => unknown): Lie =>
  (method, result) =>
    method === 'eth_getBlockReceipts' && result !== null ? change(result) : result;
const onReceipt = (place: number, change: (receipt: Json) => Json): Lie =>
  onReceipts((all) => all.map((receipt, i) => (i === place ? { ...receipt, ...change(receipt) } : receipt)));
const onBlock =
  (change: (block: Json) => Json): Lie =>
  (method, result, params) =>
    method === 'eth_getBlockByHash' && params[1] === true ? { ...result, ...change(result) } : result;
const onTransaction = (place: number, change: (tx: Json) => Json): Lie =>
  onBlock(({ transactions }) => ({
    transactions: transactions.map((tx: Json, i: number) => (i === place ? { ...tx, ...change(tx) } : tx)),
  }));
const onBalance =
  (of: string, balance: bigint): Lie =>
  (method, result, params) =>
    method === 'eth_getBalance' && params[0] === `0x${of}` && params[1].blockHash === BLOCK.block.hash ? hex(balance) : result;
const both =
  (one: Lie, other: Lie): Lie =>
  (method, result, params) =>
    other(method, one(method, result, params), params);

const LIES: readonly [what: string, lie: Lie][] = [
  ['a forged token log', onReceipt(0, () => ({ logs: [log3(US, 10_000n)] }))],
  ['a forged log beside a true one', onReceipt(2, ({ logs }) => ({ logs: [...logs, log3(US, 10_000n)] }))],
  ['a larger amount in a log', onReceipt(2, ({ logs }) => ({ logs: [log3(US, 701n), logs[1]] }))],
  ['another account in a log', onReceipt(2, ({ logs }) => ({ logs: [log3(US_TOO, 700n), logs[1]] }))],
  ['an omitted log', onReceipt(2, ({ logs }) => ({ logs: logs.slice(1) }))],
  ['all logs omitted', onReceipts((all) => all.map((receipt) => ({ ...receipt, logs: [] })))],
  ['logs of a failed transaction that is said to have succeeded', onReceipt(1, () => ({ status: '0x1' }))],
  ['a payment that is said to have failed', onReceipt(0, () => ({ status: '0x0' }))],
  ['a larger value', onTransaction(0, () => ({ value: '0x6' }))],
  ['another recipient', onTransaction(3, () => ({ to: `0x${US}` }))],
  ['another nonce', onTransaction(4, () => ({ nonce: '0x8' }))],
  ['another ID of a payment', onTransaction(0, () => ({ hash: word('7') }))],
  [
    'another ID of a payment and its receipt',
    both(
      onTransaction(0, () => ({ hash: word('7') })),
      onReceipt(0, () => ({ transactionHash: word('7') })),
    ),
  ],
  ['a payment to oneself', onTransaction(0, () => ({ from: `0x${US}` }))],
  ['another sender of a token', onTransaction(2, () => ({ from: `0x${CONTRACT}` }))],
  ['a transaction of another block', onTransaction(3, () => signTransaction('payer', { nonce: '0x5', to: `0x${US}`, value: '0x20' }))],
  ['a flipped bit in a signature', onTransaction(3, ({ r }) => ({ r: flipNumber(r, 9) }))],
  [
    'a flipped bit in a topic',
    onReceipt(2, ({ logs }) => ({ logs: [logs[0], { ...logs[1], topics: logs[1].topics.with(1, flipBit(logs[1].topics[1], 200)) }] })),
  ],
  ['a flipped bit in the gas used', onReceipt(4, ({ cumulativeGasUsed }) => ({ cumulativeGasUsed: flipNumber(cumulativeGasUsed, 0) }))],
  ['a flipped bit in the root of states', onBlock(({ stateRoot }) => ({ stateRoot: flipBit(stateRoot, 3) }))],
  [
    'a root that fits forged receipts',
    onBlock(() => ({ receiptsRoot: chainOf([{ ...direct, logs: [log3(US, 1n)] }]).block.header.receiptsRoot })),
  ],
  ['receipts in another order', onReceipts((all) => [all[1], all[0], ...all.slice(2)])],
  ['a receipt too few', onReceipts((all) => all.slice(0, -1))],
  ['a log that is marked as removed', onReceipt(2, ({ logs }) => ({ logs: logs.map((one: Json) => ({ ...one, removed: true })) }))],
  ['a header without a field', onBlock(() => ({ requestsHash: undefined }))],
  ['a header with a field of a fork that is not known', onBlock(() => ({ blockAccessListHash: word('1'), slotNumber: '0x1' }))],
  ['ETH that no proof shows', onBalance(US, 1_005n)],
  ['more ETH than the proof shows', onBalance(US_TOO, 33n)],
  [
    'a proof of another account',
    (method, result, params) => (method === 'eth_getProof' ? BLOCK.answers.eth_getProof!(`0x${US}`, [], params[2]) : result),
  ],
  [
    'a proof of another state',
    (method, result, params) =>
      method === 'eth_getProof' ? BLOCK.answers.eth_getProof!(params[0], [], { blockHash: BLOCK.block.hash }) : result,
  ],
  ['a proof with another balance', (method, result) => (method === 'eth_getProof' ? { ...result, balance: '0x40' } : result)],
  [
    'a proof that is cut off',
    (method, result) => (method === 'eth_getProof' ? { ...result, accountProof: result.accountProof.slice(0, -1) } : result),
  ],
  [
    'a parent with another root of states',
    (method, result, params) => (method === 'eth_getBlockByHash' && params[1] === false ? { ...result, stateRoot: word('2') } : result),
  ],
];
for (const [what, lie] of LIES)
  test(`${what} is refused: the provider is named and left out, and the honest source is read`, async () => {
    const [liar, honest] = [await startNode(BLOCK, lie), await startNode(BLOCK)];
    const chain = join(liar.url, honest.url);
    const followed = async () =>
      (await chain.survey()).map(({ name, state, followed }) => `${name} ${state}${followed ? ', followed' : ''}`);
    assert.deepEqual(await followed(), ['provider ok, followed', 'own ok']);
    // A lie about balances shows in the scan, which the follower repeats.
    const found = await read(chain, BLOCK).catch((error: unknown) => {
      assert.ok(error instanceof ChainError && error.kind === 'unproven', String(error));
      return null;
    });
    if (found) assert.deepEqual(found, TRUTH);
    const [first] = await chain.survey();
    assert.equal(first!.state, 'unproven');
    assert.ok(first!.reason, 'the reason is shown');
    assert.deepEqual(await followed(), ['provider unproven', 'own ok, followed']);
    assert.deepEqual(await read(chain, BLOCK), TRUTH);
  });

test('which blocks are final is the word of your own node, never of a provider', async () => {
  const [final, early] = [chainOf([]).block, makeBlock({ height: 40, parent: word('3') })].map(({ header }) => header);
  const tagged = (header: Json) => ({
    ...BLOCK,
    answers: {
      ...BLOCK.answers,
      eth_getBlockByNumber: (at: string, whole: boolean) =>
        at === 'safe' || at === 'finalized' ? header : BLOCK.answers.eth_getBlockByNumber!(at, whole),
    },
  });
  const [provider, own] = [await startNode(tagged(final!)), await startNode(tagged(early!))];
  const chain = join(provider.url, own.url);
  assert.deepEqual(
    (await chain.survey()).map(({ followed }) => followed),
    [true, false],
  );
  assert.deepEqual(await chain.finality(), { safe: 40, finalized: 40, chainlock: null, tip: BLOCK.block.hash });
  assert.deepEqual(await sourceAt(provider.url, false).finality(), NO_FINALITY);
});

test('a provider alone that lies shows nothing, and is read again once it tells the truth', async () => {
  let isHonest = false;
  const forge = onReceipt(0, () => ({ logs: [log3(US, 10_000n)] }));
  const { url } = await startNode(BLOCK, (...given) => (isHonest ? given[1] : forge(...given)));
  const source = createEthereumSource({ network: 'regtest', chainId: 31337, url, isOwn: false, outgoing, log, doubtMs: 0 });
  await assert.rejects(read(source, BLOCK), { name: 'ChainError', kind: 'unproven' });
  isHonest = true;
  assert.deepEqual(await read(source, BLOCK), TRUTH);
  assert.equal((await source.health()).tip.hash, BLOCK.block.hash);
});

test('what a provider hides about balances is not counted, and what it cannot prove is not either', async () => {
  const hidden = await startNode(BLOCK, onBalance(US_TOO, 0n));
  const known = TRUTH.filter((one) => !one.startsWith('delta'));
  assert.deepEqual(await read(sourceAt(hidden.url, false), BLOCK), known);
  const { eth_getProof: _, ...without } = BLOCK.answers;
  const unable = await startNode({ ...BLOCK, answers: without });
  assert.deepEqual(await read(sourceAt(unable.url, false), BLOCK), known);
});

const LATER = new Date('2100-01-01');
test('nothing expires while a provider proves no balances, whatever it shows', async () => {
  const { eth_getProof: _, ...without } = BLOCK.answers;
  const silent = onBalance(US_TOO, 0n);
  const pruned = () => {
    throw new Error('missing trie node');
  };
  const doubt = async (node: Pick<Awaited<ReturnType<typeof startNode>>, 'url'>, { isOwn = false, open = [US] } = {}) => {
    const source = sourceAt(node.url, isOwn);
    await (await source.fetchBlock(BLOCK.block.hash)).scan({
      ...matcher,
      open: () => ({ listed: open.map((key) => ({ key, endsAt: LATER, countsUntil: LATER })), othersEnd: null }),
    });
    const { complete = true, incomplete = null } = await (await source.fetchMempool(null)).scan(matcher);
    return complete ? null : incomplete;
  };
  assert.equal(await doubt(await startNode(BLOCK)), null);
  for (const answers of [without, { ...without, eth_getProof: pruned }]) {
    const [shows, hides] = [await startNode({ ...BLOCK, answers }), await startNode({ ...BLOCK, answers }, silent)];
    assert.match((await doubt(shows, { open: [] }))!, /does not prove balances of the last blocks \(eth_getProof\)/);
    assert.match((await doubt(hides))!, /does not prove balances/);
    assert.equal(await doubt(hides, { open: [] }), null, 'no payment is open');
    assert.equal(await doubt(shows, { isOwn: true }), null, 'the word of your own node counts');
  }
});

const REFUSALS: readonly [source: string, code: number, message: string][] = [
  ['reth', -32602, 'distance to target block exceeds maximum proof window'],
  ['Erigon 3', -32000, "proofs are available only for the 'latest' block"],
  ['Erigon 2', -32000, 'requested block is too old, block must be within 1 blocks of the head block number (currently 101)'],
  ['Nethermind', -32002, 'No state available for block 0x64'],
  ['a gateway', 27, 'Unknown state. First available state is 1'],
  ['a free plan', -32600, 'eth_getProof is not available on the Free tier - upgrade to Pay As You Go'],
  ['a source with words of its own', 1, 'nope'],
];
const waitsFor = { ...matcher, open: () => ({ listed: [{ key: US, endsAt: LATER, countsUntil: LATER }], othersEnd: null }) };
for (const [name, code, message] of REFUSALS) {
  test(`a provider that refuses eth_getProof in any words shows direct payments and tokens, and nothing expires: ${name}`, async () => {
    const refuse = () => {
      throw Object.assign(new Error(message), { code });
    };
    const node = await startNode({ ...BLOCK, answers: { ...BLOCK.answers, eth_getProof: refuse } });
    const source = sourceAt(node.url, false);
    assert.deepEqual(
      await read(source, BLOCK, waitsFor),
      TRUTH.filter((one) => !one.startsWith('delta')),
    );
    const { complete, incomplete } = await (await source.fetchMempool(null)).scan(matcher);
    assert.deepEqual([complete, /does not prove balances/.test(incomplete ?? '')], [false, true]);
  });
}

for (const failing of ['eth_getProof', 'eth_getTransactionByHash']) {
  test(`a source that fails while a block or the mempool is scanned is left out for a minute, and the next one is read: ${failing}`, async () => {
    const wrong: Lie = (method, result) => (method === 'eth_getProof' && result.accountProof ? { ...result, balance: '0x40' } : result);
    const cut: Lie = (method, result) => {
      if (method === failing) throw new Cut();
      return result;
    };
    const shown = { ...BLOCK, answers: { ...BLOCK.answers, eth_getTransactionByHash: () => null } };
    const bad = await startNode(shown, failing === 'eth_getProof' ? wrong : cut);
    const chain = join(bad.url, (await startNode(shown)).url);
    const look = async () => {
      const scanned = await (await chain.fetchBlock(BLOCK.block.hash)).scan(waitsFor);
      await (await chain.fetchMempool()).scan({ ...matcher, waiting: [word('77')] });
      return scanned.sightings.length > 0;
    };
    await chain.survey();
    await assert.rejects(look(), ChainError);
    const [provider, own] = await chain.survey();
    assert.deepEqual([provider!.followed, own!.followed, own!.state], [false, true, 'ok']);
    assert.match(provider!.reason!, failing === 'eth_getProof' ? /another nonce or balance/ : /failed while it was read/);
    assert.ok(await look());
  });
}

test('doctor says whether a provider proves balances, also of a provider that proves only its newest block; your own node is not asked', async () => {
  const { eth_getProof: _, ...without } = BLOCK.answers;
  const inspect = async (node: Awaited<ReturnType<typeof startNode>>) => (await sourceAt(node.url, false).inspect!()).missing;
  assert.deepEqual(await inspect(await startNode(BLOCK)), []);
  const reasons = ['the method eth_getProof does not exist', 'the proof shows another nonce or balance than the answer says'];
  const lying: Lie = (method, result) => (method === 'eth_getProof' ? { ...result, balance: '0x40' } : result);
  for (const [i, node] of [await startNode({ ...BLOCK, answers: without }), await startNode(BLOCK, lying)].entries())
    assert.deepEqual(await inspect(node), [{ capability: 'proofs of balances (eth_getProof)', reason: reasons[i] }]);
  // Some prove only their newest block. A gain is proven at two blocks, and one that validators signed is never the newest.
  const newest = (address: string, slots: string[], at: { blockHash: string }) => {
    if (at.blockHash !== BLOCK.block.hash) throw Object.assign(new Error(REFUSALS[0]![2]), { code: REFUSALS[0]![1] });
    return BLOCK.answers.eth_getProof!(address, slots, at);
  };
  const short = await startNode({ ...BLOCK, answers: { ...BLOCK.answers, eth_getProof: newest } });
  assert.deepEqual(await inspect(short), [{ capability: 'proofs of balances (eth_getProof)', reason: REFUSALS[0]![2] }]);
  const source = sourceAt(short.url, false);
  assert.deepEqual(
    await read(source, BLOCK, waitsFor),
    TRUTH.filter((one) => !one.startsWith('delta')),
  );
  const { complete, incomplete } = await (await source.fetchMempool(null)).scan(matcher);
  assert.deepEqual([complete, /does not prove balances/.test(incomplete ?? '')], [false, true]);
  assert.equal(sourceAt('http://127.0.0.1:1', true).inspect, undefined);
});

test('a gain of an account that was used in the block, or has code, is left to your own node', async () => {
  for (const change of [{ nonce: 1n }, { code: '0x00' }]) {
    const chain = chainOf([through], { before: { [US]: { balance: 1n } }, after: { [US]: { balance: 33n, ...change } } });
    const { url } = await startNode(chain);
    assert.deepEqual(await read(sourceAt(url, false), chain), []);
    assert.deepEqual(await read(sourceAt(url, true), chain), ['delta aa 32 ETH']);
  }
});

test('traces of a provider name the transaction of a proven gain, and never change the amount', async () => {
  const traces: Lie = (method, result) => result ?? method;
  const frame = (value: string) => ({ type: 'CALL', from: `0x${CONTRACT}`, to: `0x${US_TOO}`, value });
  const told = (value: string) => ({
    ...BLOCK,
    answers: {
      ...BLOCK.answers,
      debug_traceBlockByHash: () =>
        BLOCK.block.transactions.map((_, i) => ({ result: { ...frame('0x0'), calls: i === 3 ? [frame(value)] : [] } })),
    },
  });
  const shown = async (value: string) =>
    (await read(sourceAt((await startNode(told(value), traces)).url, false), BLOCK)).filter((one) => /bb \d+ ETH/.test(one));
  assert.deepEqual(await shown('0x20'), ['internal bb 32 ETH']);
  assert.deepEqual(await shown('0xffff'), ['delta bb 32 ETH']);
  assert.deepEqual(await shown('0x1'), ['delta bb 31 ETH', 'internal bb 1 ETH']);
});
