/** Transfers of tokens in recorded blocks, and logs that do not count. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTokenBlock, readTokenReplies } from '../../../test/kit/token-blocks.ts';
import type { Coin } from '../../core/coin.ts';
import { readTransfer, type Tokens, tokenSightings } from './token-logs.ts';
import { TRANSFER } from './value-moves.ts';

const BLOCKS = [14_764_013, 15_537_393, 17_034_869, 19_426_587, 22_431_084];
type Block = Parameters<typeof tokenSightings>[0];
/** What each account is paid as if it alone were watched, because what moves between two watched accounts pays nothing. */
const toEveryone = (block: Block, tokens: Tokens) => {
  const accounts = new Set(block.receipts.flatMap(({ logs }) => logs.flatMap((one) => readTransfer(one, tokens)?.to ?? [])));
  return [...accounts].flatMap((to) => tokenSightings(block, tokens, { has: (key) => key === to }));
};
/** The tokens of the recorded blocks, by the contract that the records name. */
const RECORDED: Tokens = new Map(
  BLOCKS.flatMap((number) => readTokenBlock(number).transfers.map(({ token, address }) => [address.slice(2), token as Coin] as const)),
);

for (const number of BLOCKS)
  test(`every transfer in block ${number} is found once, with its account and amount, and nothing else`, () => {
    const { transfers, ...block } = readTokenBlock(number);
    const found = toEveryone(block, RECORDED);
    const counted = transfers.filter(({ status, units, from, to }) => status === 1 && units !== '0' && from !== to);
    assert.deepEqual(
      found.map(({ coin, key, txid, units }) => [coin, `0x${key}`, txid, String(units)].join()).sort(),
      counted.map(({ token, to, transactionHash, units }) => [token, to, transactionHash, units].join()).sort(),
    );
    assert.equal(new Set(found.map(({ ref }) => ref)).size, found.length, 'two transfers have one name');
    const [one] = counted;
    if (!one) return;
    const watched = tokenSightings(block, RECORDED, { has: (key) => `0x${key}` === one.to });
    assert.equal(watched.length, counted.filter(({ to }) => to === one.to).length, 'only watched accounts are shown');
    const others = new Map([...RECORDED].filter(([, coin]) => coin !== one.token));
    assert.equal(toEveryone(block, others).length, counted.filter(({ token }) => token !== one.token).length);
  });

test('the recorded blocks contain what makes tokens difficult', () => {
  const all = BLOCKS.map((number) => readTokenBlock(number));
  assert.ok(
    all.some(({ receipts }) => receipts.some(({ ok }) => !ok)),
    'failed transactions',
  );
  const perTransaction = Map.groupBy(
    all.flatMap(({ transfers }) => transfers),
    ({ transactionHash }) => transactionHash,
  );
  assert.ok(
    [...perTransaction.values()].some((list) => list.length > 1),
    'several transfers in one transaction',
  );
});

test('logs as a node answers them are read like those in the receipts trie', () => {
  const { receipts } = readTokenReplies();
  const emitters = Map.groupBy(
    receipts.flatMap(({ logs }) => logs),
    ({ address }) => address as string,
  );
  const [busiest] = [...emitters]
    .filter(([, logs]) => logs.some((log) => readTransfer(log, new Map([[(log.address as string).slice(2), 'ETH']]))))
    .sort(([, a], [, b]) => b.length - a.length);
  const tokens: Tokens = new Map([[busiest![0].slice(2), 'ETH']]);
  const transactions = receipts.map((_, i) => ({ txid: `0x${i}`, from: 'c1'.repeat(20), nonce: BigInt(i) }));
  const found = toEveryone({ transactions, receipts: receipts.map(({ status, logs }) => ({ ok: status === '0x1', logs })) }, tokens);
  assert.ok(found.length > 10);
  const sum = busiest![1].reduce(
    (total, { topics, data }) =>
      (topics as string[])[0] === TRANSFER && (topics as string[])[1] !== (topics as string[])[2] ? total + BigInt(data as string) : total,
    0n,
  );
  assert.equal(
    found.reduce((total, { units }) => total + units, 0n),
    sum,
  );
});

const [CONTRACT, US, PAYER] = ['de'.repeat(20), 'aa'.repeat(20), 'c1'.repeat(20)];
const word = (digits: string) => `0x${digits.padStart(64, '0')}`;
const TOKENS: Tokens = new Map([[CONTRACT, 'ETH']]);
const log = { address: `0x${CONTRACT}`, topics: [TRANSFER, word(PAYER), word(US)], data: word('5'), removed: false };

test('a transfer is exactly three topics and 32 bytes of a listed contract', () => {
  assert.deepEqual(readTransfer(log, TOKENS), { coin: 'ETH', from: PAYER, to: US, units: 5n });
  const upper = { ...log, address: `0x${CONTRACT.toUpperCase()}`, topics: log.topics.map((topic) => `0x${topic.slice(2).toUpperCase()}`) };
  assert.deepEqual(readTransfer(upper, TOKENS), readTransfer(log, TOKENS), 'hex digits may be upper case');
  assert.equal(readTransfer({ ...log, topics: [TRANSFER, word('0'), word(US)] }, TOKENS)?.units, 5n, 'a mint');
  const [, from, to] = log.topics;
  const none: [string, object][] = [
    ['another contract', { address: `0x${'df'.repeat(20)}` }],
    ['an NFT', { topics: [...log.topics, word('1')] }],
    ['an amount in a topic', { topics: log.topics.slice(0, 2) }],
    ['another event', { topics: [word('1'), from, to] }],
    ['an account with bytes before it', { topics: [TRANSFER, from, `0x01${to!.slice(4)}`] }],
    ['a topic that is too short', { topics: [TRANSFER, from, to!.slice(0, -2)] }],
    ['a topic that is too long', { topics: [TRANSFER, from, `${to}00`] }],
    ['no data', { data: '0x' }],
    ['31 bytes', { data: `0x${'0'.repeat(61)}5` }],
    ['33 bytes', { data: `${word('5')}00` }],
    ['nothing', { data: word('0') }],
    ['to itself', { topics: [TRANSFER, to, to] }],
    ['taken back', { removed: true }],
    ['no address', { address: undefined }],
    ['no topics', { topics: undefined }],
  ];
  for (const [name, change] of none) assert.equal(readTransfer({ ...log, ...change }, TOKENS), null, name);
  for (const value of [null, undefined, 'log', 5, []]) assert.equal(readTransfer(value, TOKENS), null);
});

test('a changed byte changes the sender, the account or the amount, or the log is no transfer', () => {
  const flat = [log.address, ...log.topics, log.data].map((text) => text.slice(2)).join('');
  for (let at = 0; at < flat.length; at += 2) {
    const byte = (Number.parseInt(flat.slice(at, at + 2), 16) ^ 0x5a).toString(16).padStart(2, '0');
    const parts = [flat.slice(0, at) + byte + flat.slice(at + 2)].flatMap((text) =>
      [40, 104, 168, 232, 296].map((end, i, ends) => `0x${text.slice(ends[i - 1] ?? 0, end)}`),
    );
    const found = readTransfer({ address: parts[0], topics: parts.slice(1, 4), data: parts[4] }, TOKENS);
    if (found === null) continue;
    assert.ok(at / 2 >= 52 + 12, `byte ${at / 2} identifies the contract or the event`);
    assert.ok(found.from !== PAYER || found.to !== US || found.units !== 5n, `byte ${at / 2}`);
  }
});

test('the name of a transfer is its place among those of its transaction to the account, whatever block it is in', () => {
  const transactions = [{ txid: word('f1'), from: PAYER, nonce: 3n }];
  const other = { ...log, topics: [TRANSFER, word(PAYER), word('bb'.repeat(20))] };
  const refs = (logs: object[], ok = true) =>
    toEveryone({ transactions, receipts: [{ ok, logs }] }, TOKENS).map(({ ref, spends }) => [ref, spends]);
  const spends = [`${PAYER}:3`];
  const expected = [
    [`${word('f1')}:log:${US}:0`, spends],
    [`${word('f1')}:log:${US}:1`, spends],
    [`${word('f1')}:log:${'bb'.repeat(20)}:0`, spends],
  ];
  assert.deepEqual(refs([log, other, log]), expected);
  assert.deepEqual(refs([{ ...log, address: `0x${'df'.repeat(20)}` }, log, { ...log, data: word('0') }, other, log]), expected);
  const failed = [{ txid: word('f0') }, ...transactions, { txid: word('f2') }];
  const receipts = [
    { ok: false, logs: [] },
    { ok: true, logs: [other, { ...log, data: word('0') }, log] },
    { ok: true, logs: [log] },
  ];
  assert.deepEqual(
    tokenSightings({ transactions: failed, receipts }, TOKENS, { has: (key) => key === US }).map(({ place }) => place),
    [2, 3],
    'all logs of the block count',
  );
  assert.deepEqual(refs([log], false), [], 'a failed transaction pays nothing');
  const both = { has: (key: string) => key === US || key === PAYER };
  assert.deepEqual(tokenSightings({ transactions, receipts: [{ ok: true, logs: [log] }] }, TOKENS, both), [], 'both are watched');
});
