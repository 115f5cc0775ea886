/** The parts of the reader of Bitcoin Core nodes, with calls answered from a table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headersOf } from '../../../test/kit/headers.ts';
import { ChainError } from '../chain-source.ts';
import { coreHeader, createCoreHeaders, createRooms, readCoreBlock } from './core-blocks.ts';
import { type CoreCall, type CoreCalls, type CoreReply, feeTier, readCoreFees } from './core-calls.ts';
import { pegoutsOf } from './core-mempool.ts';
import { bestChainLock, describeCoreTransaction, lockOf, readUnspentOutputs } from './core-rpc.ts';
import { showHash } from './header.ts';
import { sha256d } from './strict-reader.ts';
import { x11 } from './x11/x11.ts';

/** Answers by method; a list gives one answer after the other, and no answer is an error of that call. */
function callsOf(answers: Readonly<Record<string, unknown>>) {
  const asked: string[] = [];
  const reply = ([method, ...params]: CoreCall): CoreReply => {
    asked.push([method, ...params].join(' '));
    const given = answers[method];
    const result = Array.isArray(given) ? given.shift() : given;
    return result === undefined ? { result: null, error: { code: -5, message: 'not there' } } : { result, error: null };
  };
  const failure: CoreCalls['failure'] = ({ message }) => new ChainError('not_found', message);
  return {
    asked,
    failure,
    post: async (calls: readonly CoreCall[]) => calls.map(reply),
    call: async (...call: CoreCall) => {
      const { result, error } = reply(call);
      if (error) throw failure(error, call[0]);
      return result;
    },
  };
}
const hash = (digit: string) => digit.repeat(64);

test('headers are kept, the oldest is dropped, and the wrong answer is not kept', async () => {
  const calls = callsOf({
    getblockheader: ['1', '2', '3', '4', '5', '1', 'wrong', '6'].map((digit) => ({ hash: hash(digit), height: '7' })),
  });
  const headers = createCoreHeaders(calls);
  for (const digit of ['1', '1', '2', '3', '4', '5']) assert.equal((await headers.read(hash(digit))).hash, hash(digit));
  assert.equal(calls.asked.length, 5);
  await headers.read(hash('1'));
  assert.equal(calls.asked.length, 6, 'the oldest of five was dropped');
  await headers.read(hash('6'));
  assert.equal((await headers.read(hash('6'))).hash, hash('6'));
  assert.equal(calls.asked.length, 8);
  assert.deepEqual(coreHeader({ hash: hash('1'), height: '7', previousblockhash: hash('0'), time: '60' }), {
    hash: hash('1'),
    height: 7,
    parent: hash('0'),
    time: new Date(60_000),
  });
});

test('buffers of blocks are reused, but few of them and none that is very large', () => {
  const rooms = createRooms();
  const buffers = Array.from({ length: 4 }, () => Buffer.alloc(8));
  for (const buffer of buffers) rooms.free(buffer);
  rooms.free(Buffer.alloc((8 << 20) + 1));
  assert.deepEqual([rooms.take(), rooms.take(), rooms.take(), rooms.take()], [...buffers.slice(0, 3).toReversed(), undefined]);
});

test('bytes that are not a block are an outage of the source', async () => {
  const bytes = Buffer.alloc(100, 0xff);
  const refused = { name: 'ChainError', kind: 'outage', message: /^block [0-9a-f]{64} of the node cannot be read: / };
  for (const [length, hash] of [
    [100, showHash(sha256d(bytes.subarray(0, 80)))],
    [79, '1'.repeat(64)],
    [0, '1'.repeat(64)],
  ] as const)
    await assert.rejects(readCoreBlock(bytes.subarray(0, length), { hash, coin: 'BTC', server: 'the node' }), refused);
});

test('locks: a ChainLock counts for more than InstantSend, and is not mistaken for it', () => {
  const rows: [unknown, string | null][] = [
    [{ instantlock: 'true', chainlock: 'false' }, 'instantsend'],
    [{ instantlock: true, chainlock: true }, 'chainlock'],
    [{ instantlock: true, instantlock_internal: false, chainlock: false }, null],
    [{}, null],
  ];
  for (const [tx, lock] of rows) assert.equal(lockOf(tx as Record<string, unknown>), lock, JSON.stringify(tx));
});

test('the best ChainLock counts only when it is on the chain of the node', async () => {
  const best = { blockhash: hash('a'), height: '9' };
  const none = { chainlock: null, tip: null };
  assert.deepEqual(await bestChainLock(callsOf({ getbestchainlock: best, getbestblockhash: hash('a') })), { chainlock: 9, tip: hash('a') });
  const below = { getbestchainlock: best, getbestblockhash: hash('b') };
  assert.deepEqual(await bestChainLock(callsOf({ ...below, getblockhash: hash('a') })), { chainlock: 9, tip: hash('b') });
  assert.deepEqual(await bestChainLock(callsOf({ ...below, getblockhash: hash('c') })), none);
  assert.deepEqual(await bestChainLock(callsOf({ getbestblockhash: hash('a') })), none);
  assert.deepEqual(await bestChainLock(callsOf({ ...below, getbestchainlock: { ...best, known_block: false } })), none);
});

test('fees never fall below the floor of the coin or of the node, and a faster one is never cheaper', async () => {
  const estimates = [{ feerate: '0.00000500' }, { feerate: '0.00003000' }, { feerate: '0.00002000' }];
  const calls = callsOf({ getmempoolinfo: { mempoolminfee: '0.00001500' }, estimatesmartfee: [...estimates] });
  const fees = await readCoreFees({ coin: 'BTC', calls });
  assert.deepEqual(
    fees.map(({ speed, units, source }) => [speed, units, source]),
    // The slow estimate is below what the node accepts, the fast one below the normal one.
    [
      ['fast', feeTier('BTC', 3_000n).units, 'estimate'],
      ['normal', feeTier('BTC', 3_000n).units, 'estimate'],
      ['slow', feeTier('BTC', 1_500n).units, 'estimate'],
    ],
  );
  const without = await readCoreFees({ coin: 'DOGE', calls: callsOf({}) });
  assert.deepEqual(
    without.map(({ units, source }) => [units, source]),
    Array(3).fill([feeTier('DOGE', 1_000_000n).units, 'fallback']),
  );
});

test('an unspent output that a waiting transaction spends is leaving', async () => {
  const outputs = [1, 2, 3].map((n) => ({ ref: `${hash('1')}:${n}`, units: BigInt(n) }));
  // The first answers leave the mempool out: the third output is spent. With the mempool, so is the second.
  const calls = callsOf({ gettxout: [{}, {}, null, {}, null, null] });
  assert.deepEqual(await readUnspentOutputs(outputs, calls), { units: 3n, leavingUnits: 2n });
  assert.equal(calls.asked[1], `gettxout ${hash('1')} 2 false`);
});

test('peg-outs of a waiting MWEB transaction, by the scripts that its kernels pay', () => {
  const transaction = {
    vkern: [{ pegout: [{ scriptPubKey: 'aa', value: '0.00000001' }] }, {}, { pegout: [{ scriptPubKey: { hex: 'bb' }, value: '1' }] }],
  };
  assert.deepEqual(
    pegoutsOf('id', transaction).map(({ key, ref, units, kind }) => ({ key, ref, units, kind })),
    [
      { key: 'aa', ref: 'id:pegout:0', units: 1n, kind: 'pegout' },
      { key: 'bb', ref: 'id:pegout:1', units: 100_000_000n, kind: 'pegout' },
    ],
  );
  assert.deepEqual(pegoutsOf('id', null), []);
});

test('the fee of a transaction is what its inputs hold beyond its outputs, and unknown when an input is', async () => {
  const output = (value: string) => ({ value, scriptPubKey: { address: 'A' } });
  const tx = { txid: 'id', vin: [{ txid: 'a', vout: '0' }], vout: [output('1'), output('0.5')] };
  const on = { coin: 'BTC', network: 'mainnet', blockOf: () => Promise.reject(new Error('no block')) } as const;
  const known = await describeCoreTransaction(tx, { ...on, ...callsOf({ gettxout: output('1.6') }) });
  assert.deepEqual([known.amountUnits, known.feeUnits, known.status], [150_000_000n, 10_000_000n, 'pending']);
  const told = await describeCoreTransaction(tx, { ...on, ...callsOf({ getmempoolentry: { fees: { base: '0.00000100' } } }) });
  assert.deepEqual([told.feeUnits, told.inputs], [100n, null]);
  const hidden = await describeCoreTransaction(tx, { ...on, ...callsOf({}) });
  assert.equal(hidden.feeUnits, null);
});

test('a block of DASH is refused under another hash than its X11 hash', async () => {
  const [bytes] = headersOf('dash-block-844898.hex') as [Buffer];
  const hash = showHash(x11(bytes.subarray(0, 80)));
  assert.equal((await readCoreBlock(bytes, { hash, coin: 'DASH', server: 'the node' })).transactions.length, 1);
  for (const other of [showHash(sha256d(bytes.subarray(0, 80))), hash.replace(/^0/, '1')])
    await assert.rejects(readCoreBlock(bytes, { hash: other, coin: 'DASH', server: 'the node' }), {
      kind: 'outage',
      message: /another block/,
    });
});
