/** The parts of the reader of Ethereum nodes, without a node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvariantError } from '../../core/invariant.ts';
import type { Matcher } from '../chain-source.ts';
import { unexplainedGains } from './eth-balances.ts';
import { scanOf, sightingsOf } from './eth-block.ts';
import { gainsOfChanges, isExplained } from './eth-gains.ts';
import { readExchange } from './eth-rpc.ts';
import { describeEthTransaction } from './eth-transactions.ts';
import { scanOfPool } from './ethereum.ts';
import type { EthReceipt, EthTransaction } from './value-moves.ts';

const word = (digit: string) => `0x${digit.repeat(64)}`;
const [US, PAYER] = ['aa'.repeat(20), 'c1'.repeat(20)];
const ref = { height: 100, hash: word('b'), parent: word('a'), time: new Date(0) };
const tx = (over: Partial<EthTransaction> = {}): EthTransaction => ({
  txid: word('1'),
  from: PAYER,
  to: US,
  units: 5n,
  nonce: 3n,
  input: '0x',
  ...over,
});
const receipt = (over: Partial<EthReceipt> = {}): EthReceipt => ({ ok: true, feeUnits: 2n, logs: [], ...over });

test('replies are matched by id; a limit is waited for, and a refused batch is sent in smaller ones', () => {
  const calls = [['eth_chainId'], ['net_peerCount']] as const;
  const of = (status: number, parsed: unknown, retryAfter?: string) => readExchange(calls, { status, parsed, retryAfter, first: 7 });
  const [one, two] = [
    { id: 7, result: '0x1' },
    { id: 8, error: { code: -32601, message: 'no' } },
  ];
  const replies = [
    { result: '0x1', error: null },
    { result: null, error: { code: -32601, message: 'no' } },
  ];
  assert.deepEqual(of(200, [two, one]), { replies, waitMs: null });
  assert.deepEqual(of(429, null, '2'), { replies: [null, null], waitMs: 2_000 });
  assert.deepEqual(of(200, [one, { id: 8, error: { code: -32005, message: 'limit' } }]), { replies: [replies[0], null], waitMs: 0 });
  assert.equal(of(200, [one]), 'smaller');
  assert.equal(of(200, { error: { code: -32600, message: 'batches are off' } }), 'smaller');
  assert.throws(() => of(502, null), { name: 'ChainError', kind: 'outage' });
  assert.throws(() => readExchange([calls[0]], { status: 401, parsed: null, retryAfter: undefined, first: 7 }), /refuses the key/);
});

test('what one deposit address sends to another one pays nothing, in a block or waiting', () => {
  const OTHER = 'dd'.repeat(20);
  const matcher: Matcher = {
    has: (key) => key === US || key === OTHER,
    watchesSpends: false,
    spends: () => false,
    recent: () => [],
    waiting: [],
  };
  const transactions = [tx(), tx({ txid: word('2'), from: OTHER })];
  const gains = [0, 1].map((index) => ({ key: US, index, units: 5n }));
  const { sightings } = scanOf({ ref, transactions, receipts: [receipt(), receipt()] }, { gains, tokens: new Map(), matcher });
  assert.deepEqual(
    sightings.map(({ txid }) => txid),
    [word('1')],
  );
  assert.deepEqual(
    scanOfPool(transactions, matcher).sightings.map(({ txid }) => txid),
    [word('1')],
  );
});

test('gains of one account in one transaction are one transfer, and a gain without a transaction names the block', () => {
  const block = { ref, transactions: [tx()] };
  const gains = [
    { key: US, index: 0, units: 5n },
    { key: US, index: 0, units: 1n },
    { key: US, index: null, units: 9n },
  ];
  assert.deepEqual(
    sightingsOf(block, gains).map(({ ref, units, kind, spends }) => [ref, units, kind, spends]),
    [
      [`${word('1')}:tx`, 6n, 'internal', [`${PAYER}:3`]],
      [`delta:100:${US}`, 9n, 'delta', []],
    ],
  );
  assert.throws(() => sightingsOf(block, [{ key: US, index: 1, units: 1n }]), InvariantError);
  assert.throws(() => sightingsOf(block, [{ key: US, index: 0, units: 0n }]), InvariantError);
});

test('a mined transaction that uses a watched nonce is named', () => {
  const matcher: Matcher = { has: () => true, watchesSpends: true, spends: (one) => one === `${PAYER}:3`, recent: () => [], waiting: [] };
  const block = { ref, transactions: [tx(), tx({ txid: word('2'), nonce: 4n })], receipts: [receipt(), receipt()] };
  assert.deepEqual(scanOf(block, { gains: [], tokens: new Map(), matcher }).conflicts, [
    { outpoint: `${PAYER}:3`, txid: word('1'), mined: true },
  ]);
});

test('a balance that grew beyond direct transfers and own spending was paid by a contract', () => {
  const block = { transactions: [tx(), tx({ from: US, to: PAYER, units: 3n })], receipts: [receipt(), receipt()] };
  const direct = [{ index: 0, from: PAYER, to: US, units: 5n }];
  // 10 + 5 received - 3 sent - 2 fee + 4 by a contract.
  const rest = unexplainedGains(block, { keys: [US], before: new Map([[US, 10n]]), after: new Map([[US, 14n]]), direct });
  assert.deepEqual([...rest], [[US, 4n]]);
  assert.throws(() => unexplainedGains(block, { keys: [US], before: new Map(), after: new Map([[US, 14n]]), direct }), InvariantError);
});

test('balances by place in the block show in which transaction an account gained', () => {
  const block = { transactions: [tx(), tx({ from: US, to: PAYER, units: 3n })], receipts: [receipt(), receipt()] };
  const changes = new Map([
    [
      US,
      [
        { place: 1, units: 15n },
        { place: 2, units: 10n },
        { place: 3, units: 11n },
      ],
    ],
  ]);
  assert.deepEqual(gainsOfChanges(block, changes, new Map([[US, 10n]])), [
    { key: US, index: 0, units: 5n },
    { key: US, index: null, units: 1n },
  ]);
});

test('traces explain a gain when they show at least as much for every account', () => {
  const gained = new Map([
    [US, 5n],
    [PAYER, 1n],
  ]);
  const move = { index: 0, from: PAYER, to: US, units: 5n };
  assert.equal(isExplained([move], [US], gained), true);
  assert.equal(isExplained([move], [US, PAYER], gained), false);
});

test('waiting payments count only when they move something to a watched account of someone else', () => {
  const matcher: Matcher = { has: (key) => key === US, watchesSpends: false, spends: () => false, recent: () => [], waiting: [] };
  const ready = [tx(), tx({ units: 0n }), tx({ to: null }), tx({ from: US }), tx({ to: PAYER })];
  assert.deepEqual(
    scanOfPool(ready, matcher).sightings.map(({ ref }) => ref),
    [`${word('1')}:tx`],
  );
});

test('a failed transaction moved nothing; a waiting one has no block', () => {
  const found = { hash: word('1'), from: `0x${PAYER}`, to: `0x${US}`, value: '0x5', nonce: '0x3', input: '0x' };
  const head = { ...ref, height: 101 };
  const failed = describeEthTransaction(found, { receipt: { status: '0x0', gasUsed: '0x1', logs: [] }, block: ref, head });
  assert.deepEqual([failed.status, failed.amountUnits, failed.confirmations], ['failed', 0n, 2]);
  const waiting = describeEthTransaction(found, { receipt: null, block: null, head });
  assert.deepEqual([waiting.status, waiting.amountUnits, waiting.confirmations, waiting.feeUnits], ['pending', 5n, 0, null]);
});
