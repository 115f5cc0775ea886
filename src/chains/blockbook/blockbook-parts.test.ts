/** The parts of the reader of Blockbook servers, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChainError, type Matcher } from '../chain.ts';
import { describeAccounts } from './blockbook-accounts.ts';
import { createMatch, type Matches } from './blockbook-matching.ts';
import { describeOutputs } from './blockbook-outputs.ts';
import { createPauses, createQuestions, targetOf } from './blockbook-socket.ts';
import { decimalUnits, integer, unitsFrom } from './replies.ts';

const units = unitsFrom('the server');

test('amounts are whole base units, and a reply without one is an outage', () => {
  assert.equal(units('-12', 'the amount'), -12n);
  for (const value of [undefined, '', '1.5', '1e3', 12])
    assert.throws(() => units(value, 'the amount'), {
      name: 'ChainError',
      kind: 'outage',
      message: 'the server answered without the amount',
    });
  assert.equal(decimalUnits('0.000012345', 8), 1_234n);
  assert.equal(decimalUnits('-1', 8), -100_000_000n);
  assert.equal(decimalUnits('1e-5', 8), null);
  assert.equal(integer(undefined), 0);
  assert.equal(integer(2 ** 60), 0);
});

const MINED = { confirmations: 3, blockHeight: 7, blockHash: 'block', blockTime: 60 };

test('the fee of a transaction with hidden parts is unknown', () => {
  const tx = {
    txid: 'id',
    ...MINED,
    value: '90',
    vin: [{ txid: 'a', addresses: ['A'], value: '100' }],
    vout: [{ isAddress: true, addresses: ['B'], value: '90' }],
    fees: '10',
  };
  const { feeUnits, status, inputs, blockHeight } = describeOutputs(tx, units);
  assert.deepEqual([feeUnits, status, inputs, blockHeight], [10n, 'confirmed', [{ address: 'A', units: 100n }], 7]);
  assert.equal(describeOutputs({ ...tx, fees: '9' }, units).feeUnits, null);
  const coinbase = describeOutputs({ ...tx, vin: [{ coinbase: '00' }] }, units);
  assert.deepEqual([coinbase.feeUnits, coinbase.inputs], [0n, [{ address: 'coinbase', units: 90n }]]);
});

test('a failed transaction of an account moved nothing, and its fee is known when it is mined', () => {
  const account = '0x73d0385f4d8e00c5e6504c6030f47bf6212736a8';
  const tx = {
    txid: 'id',
    value: '5',
    vin: [{ addresses: [account] }],
    vout: [{ isAddress: true, addresses: [account], value: '5' }],
    fees: '2',
  };
  const failed = describeAccounts({ ...tx, ...MINED, ethereumSpecific: { status: 0 } }, units);
  assert.deepEqual([failed.status, failed.amountUnits, failed.outputs[0]!.units, failed.feeUnits], ['failed', 0n, 0n, 2n]);
  const waiting = describeAccounts(tx, units);
  assert.deepEqual([waiting.status, waiting.amountUnits, waiting.feeUnits], ['pending', 5n, null]);
  assert.equal(waiting.outputs[0]!.address, '0x73d0385F4d8E00C5e6504C6030F47BF6212736A8');
});

test('outputs to watched keys are found, by script or by address, and none of them is zero', () => {
  const match = createMatch({ coin: 'BTC', network: 'mainnet', units });
  const script = `0014${'c0cebcd6c3d3ca8c75dc5ec62ebe55330ef910e2'}`;
  const matcher: Matcher = {
    has: (key: string) => key === script,
    watchesSpends: true,
    spends: (outpoint: string) => outpoint === 'a:0',
    recent: () => [],
    waiting: [],
  };
  const found: Matches = { sightings: [], conflicts: [] };
  const address = 'bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu';
  const vout = [
    { n: 1, hex: script, value: '7' },
    { n: 2, isAddress: true, addresses: [address], value: '8' },
    { n: 3, hex: script, value: '0' },
    { n: 4, isAddress: true, addresses: ['no address'], value: '9' },
  ];
  match({ txid: 'id', vin: [{ txid: 'a' }], vout }, matcher, 'output', found);
  assert.deepEqual(
    found.sightings.map(({ ref, units, spends }) => [ref, units, spends]),
    [
      ['id:1', 7n, ['a:0']],
      ['id:2', 8n, ['a:0']],
    ],
  );
  assert.deepEqual(found.conflicts, [{ outpoint: 'a:0', txid: 'id' }]);
  assert.throws(() => match({ txid: 'id', vout: [{ hex: script, value: 'much' }] }, matcher, 'output', found), ChainError);
});

test('the credentials of a URL go into a header, decoded', () => {
  const { target, headers } = targetOf('wss://user:p%40ss@host/websocket');
  assert.equal(target.href, 'wss://host/websocket');
  assert.equal(Buffer.from(headers!.authorization.slice('Basic '.length), 'base64').toString(), 'user:p@ss');
  assert.equal(targetOf('wss://host/websocket').headers, null);
});

test('questions are answered by id, in any order, or fail', async () => {
  const questions = createQuestions(10_000);
  const sent: { id: string }[] = [];
  const ask = () => questions.ask((text) => sent.push(JSON.parse(text)), 'ping', {});
  const [first, second] = [ask(), ask()];
  assert.equal(questions.answer('7', 'nothing'), false);
  assert.equal(questions.answer(sent[1]!.id, 'two'), true);
  assert.equal(questions.answer(sent[0]!.id, 'one'), true);
  assert.deepEqual([await first, await second], ['one', 'two']);
  const failed = questions.ask(() => assert.fail('it is closed'), 'ping', {});
  await assert.rejects(failed, /it is closed/);
  await assert.rejects(
    createQuestions(1).ask(() => {}, 'ping', {}),
    /no answer to ping/,
  );
});

test('pauses between connections grow, and end with a connection that lasted', () => {
  const pauses = createPauses();
  assert.deepEqual([0, 0, 0].map(pauses.next), [1_000, 2_000, 4_000]);
  assert.equal(pauses.next(60_001), 1_000);
  assert.equal(Array.from({ length: 20 }, () => pauses.next(0)).at(-1), 300_000);
});
