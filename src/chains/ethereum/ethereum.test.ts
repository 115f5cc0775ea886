/** The Ethereum reader with answers of nodes, recorded or written from the specifications, over real HTTP. */
// Invariant: Nothing in a block stops ETH: when an answer is too large, too late or broken, another method is used.
// Invariant: A reverted call inside a transaction pays nothing; transfers by contracts count once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { after, describe, test } from 'node:test';
import { AMSTERDAM, type Json, makeBlock } from '../../../test/kit/ethereum-blocks.ts';
import { type Served, serve } from '../../../test/kit/serve.ts';
import { createOutgoing } from '../../connections/http-client.ts';
import { createLog } from '../../log.ts';
import { ChainError, type ChainSource, type Matcher, type Sighting } from '../chain-source.ts';
import { createEthereumSource } from './ethereum.ts';

type Call = { id: number; method: string; params: any[] };
/** What a node answers to a method: a result, an error, or nothing (it does not know the method). */
type Answers = Record<string, (...params: any[]) => unknown>;
class NodeError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const log = createLog('silent');
const outgoing = createOutgoing({ allow: [], log });
const servers: Served[] = [];
after(async () => {
  await outgoing.close();
  for (const server of servers) await server.stop();
});

/** A node with these answers that records its requests. `raw` may answer a whole request instead. */
async function nodeOf(
  answers: Answers,
  raw?: (calls: Call[], n: number) => { status: number; body: string | Readable; headers?: Record<string, string> } | undefined,
  options: { traceMs?: number; isOwn?: boolean } = {},
) {
  const asked: string[] = [];
  const batches: number[] = [];
  const server = await serve((_request, reply, sent) => {
    const body = JSON.parse(sent.toString()) as Call | Call[];
    const calls = Array.isArray(body) ? body : [body];
    batches.push(calls.length);
    asked.push(...calls.map((call) => call.method));
    const whole = raw?.(calls, batches.length);
    if (whole) {
      reply.writeHead(whole.status, { 'content-type': 'application/json', ...whole.headers });
      // The caller may hang up in the middle.
      if (whole.body instanceof Readable) pipeline(whole.body, reply, () => {});
      else reply.end(whole.body);
      return;
    }
    const replies = calls.map(({ id, method, params }) => {
      try {
        const answer = answers[method];
        if (!answer) throw new NodeError(-32601, `the method ${method} does not exist/is not available`);
        return { jsonrpc: '2.0', id, result: answer(...params) };
      } catch (error) {
        const { code, message } = error as NodeError;
        return { jsonrpc: '2.0', id, error: { code, message } };
      }
    });
    // The order within a batch is up to the node.
    reply
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(Array.isArray(body) ? replies.toReversed() : replies[0]));
  });
  servers.push(server);
  const url = `http://user:key@127.0.0.1:${server.port}`;
  const source = createEthereumSource({ network: 'regtest', chainId: 31337, url, isOwn: true, outgoing, log, retryMs: 10, ...options });
  /** The true hash of its block at a height. */
  const hashAt = (height: number) => answers.test_hashAt!(height) as string;
  return { source, asked, batches, hashAt };
}

// A small chain ------------------------------------------------------------------------------------------------
const hex = (value: number | bigint) => `0x${value.toString(16)}`;
const pad = (text: string) => text.padStart(64, '0');
const hash = (n: number | string) => `0x${pad(String(n))}`;
/** Accounts: 40 hex digits that show which one it is. */
const US = 'aa'.repeat(20);
const US_TOO = 'bb'.repeat(20);
const PAYER = 'c1'.repeat(20);
const CONTRACT = 'c0'.repeat(20);
const TOKEN = 'de'.repeat(20);
const SYSTEM = `${'f'.repeat(39)}e`;
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const FEE = 21_000n * 10n;

type Tx = { n: number; from?: string; to?: string | null; value?: bigint; input?: string; ok?: boolean; logs?: object[] };
const transfer = (from: string, to: string, units: bigint, emitter = SYSTEM) => ({
  address: `0x${emitter}`,
  topics: [TRANSFER, `0x${pad(from)}`, `0x${pad(to)}`],
  data: `0x${pad(units.toString(16))}`,
});
/** Block 100 on block 99 with these transactions. `fields`: of its header. */
function block(
  transactions: Tx[],
  { height = 100, parent = hash(99), fields = {} }: { height?: number; parent?: string; fields?: Json } = {},
): Answers {
  const made = makeBlock({
    height,
    parent,
    fields,
    transactions: transactions.map(({ n, from = PAYER, to = CONTRACT, value = 0n, input = '0x', ok = true, logs = [] }) => ({
      hash: hash(`f${n}`),
      from: `0x${from}`,
      to: to === null ? null : `0x${to}`,
      value: hex(value),
      nonce: hex(n),
      input,
      ok,
      logs,
    })),
  });
  return {
    test_hashAt: (wanted: number) => (wanted === height ? made.hash : null),
    eth_getBlockByHash: (wanted: string, whole: boolean) =>
      wanted === made.hash ? { ...made.header, transactions: whole ? made.transactions : made.transactions.map((tx) => tx.hash) } : null,
    eth_getBlockReceipts: (wanted: string) => (wanted === made.hash ? made.receipts : null),
  };
}
/** Several blocks, each on the one before. */
function blocks(lists: readonly { transactions: Tx[]; fields?: Json }[], from = 100): Answers {
  const made: Answers[] = [];
  let parent = hash(from - 1);
  for (const [i, { transactions, fields = {} }] of lists.entries()) {
    const answers = block(transactions, { height: from + i, parent, fields });
    parent = answers.test_hashAt!(from + i) as string;
    made.push(answers);
  }
  const any =
    (method: string) =>
    (...params: unknown[]) =>
      made.map((answers) => answers[method]!(...params)).find((found) => found !== null) ?? null;
  return Object.fromEntries(Object.keys(made[0]!).map((method) => [method, any(method)]));
}
/** Balances of accounts before and after block 100, returned one by one or, as real nodes also do, for a simulated creation. */
const balances = (change: Record<string, [before: bigint, after: bigint]>, { simulates = true } = {}): Answers => {
  const at = (key: string, blockHash: string) => (change[key] ?? [0n, 0n])[blockHash === hash(99) ? 0 : 1];
  return {
    eth_getBalance: (address: string, { blockHash }: { blockHash: string }) => hex(at(address.slice(2), blockHash)),
    ...(simulates && {
      eth_call: ({ data }: { data: string }, { blockHash }: { blockHash: string }) =>
        `0x${(data.slice(2 + 62).match(/.{64}/g) ?? []).map((word) => pad(at(word.slice(24), blockHash).toString(16))).join('')}`,
    }),
  };
};
const frame = (from: string, to: string, value: bigint, more: object = {}) => ({
  type: 'CALL',
  from: `0x${from}`,
  to: `0x${to}`,
  value: hex(value),
  ...more,
});
const matcher = (more: Partial<Matcher> = {}): Matcher => ({
  has: (key) => key === US || key === US_TOO,
  watchesSpends: false,
  spends: () => false,
  recent: () => [US, US_TOO],
  waiting: [],
  ...more,
});
const scan = async (
  { source, hashAt }: { source: ChainSource; hashAt(height: number): string },
  over: Partial<Matcher> = {},
  height = 100,
) => {
  const found = await (await source.fetchBlock(hashAt(height))).scan(matcher(over));
  assert.equal(new Set(found.sightings.map((s) => s.ref)).size, found.sightings.length, 'two transfers have one name');
  return found;
};
const told = (sightings: readonly Sighting[]) =>
  sightings.map((s) => `${s.kind} ${s.ref.replace(/^0x0+/, '').replace(`:${s.key}`, '')} ${s.key.slice(0, 2)} ${s.units}`).sort();

describe('a block is read with the first method for value moves that the node offers', () => {
  const isAsked = (asked: string[], ...methods: string[]) => methods.filter((method) => asked.includes(method));
  const OTHER_RUNGS = ['eth_getBlockAccessList', 'debug_traceBlockByHash', 'trace_block', 'eth_call', 'eth_getBalance'];

  // One story in four formats: a direct payment, one by a contract, a sweep, a reverted call, a failed transaction.
  const story: Tx[] = [
    { n: 1, to: US, value: 500n },
    { n: 2, value: 70n, input: `0x${pad(US)}` },
    { n: 3, from: US, to: PAYER, value: 300n },
    { n: 4, value: 40n },
    { n: 5, to: US_TOO, value: 900n, ok: false },
  ];
  const expected = ['direct f1:tx aa 500', 'internal f2:to aa 70'];
  const inner = [
    { txHash: hash('f1'), result: frame(PAYER, US, 500n) },
    { txHash: hash('f2'), result: frame(PAYER, CONTRACT, 70n, { calls: [frame(CONTRACT, US, 70n)] }) },
    { txHash: hash('f3'), result: frame(US, PAYER, 300n) },
    // The caller continues; the frame below the error has no error itself.
    {
      txHash: hash('f4'),
      result: frame(PAYER, CONTRACT, 40n, {
        calls: [frame(CONTRACT, TOKEN, 40n, { error: 'execution reverted', calls: [frame(TOKEN, US, 40n)] })],
      }),
    },
    { txHash: hash('f5'), result: frame(PAYER, US_TOO, 900n, { error: 'out of gas', calls: [frame(US_TOO, US, 30n)] }) },
  ];
  const TOLD = block(story);
  const before = 1_000_000n;
  const moved = balances({ [US]: [before, before + 570n - 300n - FEE], [US_TOO]: [7n, 7n] });
  const flat = (n: number, traceAddress: number[], [from, to, value]: [string, string, bigint], more: object = {}) => ({
    type: 'call',
    action: { callType: 'call', from: `0x${from}`, to: `0x${to}`, value: hex(value) },
    traceAddress,
    transactionHash: hash(`f${n}`),
    blockHash: TOLD.test_hashAt!(100),
    ...more,
  });
  const RUNGS: readonly [name: string, answers: Answers, notAsked: readonly string[]][] = [
    [
      'value logs (EIP-7708)',
      block(
        story.map((tx) => ({
          ...tx,
          logs:
            {
              1: [transfer(PAYER, US, 500n)],
              2: [transfer(PAYER, CONTRACT, 70n), transfer(CONTRACT, US, 70n)],
              3: [transfer(US, PAYER, 300n)],
              4: [transfer(PAYER, CONTRACT, 40n)],
            }[tx.n] ?? [],
        })),
        { fields: AMSTERDAM },
      ),
      OTHER_RUNGS,
    ],
    [
      'access lists (EIP-7928)',
      {
        ...TOLD,
        ...moved,
        eth_getBlockAccessList: () => [
          {
            address: `0x${US}`,
            storageChanges: [],
            storageReads: [],
            balanceChanges: [
              { index: '0x1', value: hex(before + 500n) },
              { index: '0x2', value: hex(before + 570n) },
              { index: '0x3', value: hex(before + 270n - FEE) },
            ],
            nonceChanges: [{ index: '0x3', value: '0x1' }],
            codeChanges: [],
          },
          { address: `0x${US_TOO}`, storageChanges: [], storageReads: [], balanceChanges: [], nonceChanges: [], codeChanges: [] },
        ],
      },
      ['debug_traceBlockByHash', 'trace_block'],
    ],
    ['traces of the callTracer', { ...TOLD, ...moved, debug_traceBlockByHash: () => inner }, ['trace_block']],
    [
      'flat traces',
      {
        ...TOLD,
        ...moved,
        trace_block: () => [
          flat(1, [], [PAYER, US, 500n]),
          flat(2, [], [PAYER, CONTRACT, 70n]),
          flat(2, [0], [CONTRACT, US, 70n]),
          flat(3, [], [US, PAYER, 300n]),
          flat(4, [], [PAYER, CONTRACT, 40n]),
          flat(4, [0], [CONTRACT, TOKEN, 40n], { error: 'Reverted' }),
          flat(4, [0, 0], [TOKEN, US, 40n]),
          flat(5, [], [PAYER, US_TOO, 900n], { error: 'out of gas' }),
          flat(5, [0], [US_TOO, US, 30n]),
          { type: 'reward', action: { author: `0x${US}`, value: '0x5' }, traceAddress: [], blockHash: TOLD.test_hashAt!(100) },
        ],
      },
      [],
    ],
    ['balances', { ...TOLD, ...moved }, []],
    [
      'balances told one by one',
      { ...TOLD, ...balances({ [US]: [before, before + 270n - FEE], [US_TOO]: [7n, 7n] }, { simulates: false }) },
      [],
    ],
  ];
  for (const [name, answers, notAsked] of RUNGS) {
    test(`${name}: the same transfers under the same names, and nothing else`, async () => {
      const node = await nodeOf(answers);
      const { sightings } = await scan(node);
      assert.deepEqual(told(sightings), expected);
      assert.deepEqual(
        sightings.flatMap((s) => s.spends),
        [`${PAYER}:1`, `${PAYER}:2`],
      );
      assert.deepEqual(isAsked(node.asked, ...notAsked), []);
      // Reading again gives the same.
      assert.deepEqual((await scan(node)).sightings, sightings);
    });
  }

  test('logs of tokens and other contracts are not value logs', async () => {
    const fakes = [
      transfer(PAYER, US, 500n, TOKEN),
      { ...transfer(PAYER, US, 500n), topics: [hash('1'), `0x${pad(PAYER)}`, `0x${pad(US)}`] },
    ];
    const quiet = balances({});
    const node = await nodeOf({ ...block([{ n: 1, logs: fakes }]), ...quiet });
    assert.deepEqual((await scan(node)).sightings, []);
    assert.ok(node.asked.includes('eth_call'), 'a block with such logs alone is read by another rung');
    const early = [{ n: 1, value: 9n, logs: [transfer(PAYER, CONTRACT, 9n), transfer(PAYER, US, 500n)] }];
    assert.deepEqual((await scan(await nodeOf({ ...block(early), ...quiet }))).sightings, [], 'no header before Amsterdam has value logs');
    const among = await nodeOf(block([{ n: 1, value: 9n, logs: [transfer(PAYER, CONTRACT, 9n), ...fakes] }], { fields: AMSTERDAM }));
    assert.deepEqual((await scan(among)).sightings, []);
  });

  test('a failed transaction moves no value, whatever logs it has', async () => {
    const node = await nodeOf(
      block(
        [
          { n: 1, to: US, value: 5n, ok: false, logs: [transfer(PAYER, US, 5n)] },
          { n: 2, value: 1n, logs: [transfer(PAYER, CONTRACT, 1n)] },
        ],
        { fields: AMSTERDAM },
      ),
    );
    assert.deepEqual((await scan(node)).sightings, []);
  });

  test('from the first header of Amsterdam on, blocks are read by logs, with direct transfers or without; before that, by what is available', async () => {
    const node = await nodeOf({
      ...blocks([
        { transactions: [{ n: 1, to: US, value: 5n }] },
        { transactions: [{ n: 2, to: US, value: 6n, logs: [transfer(PAYER, US, 6n)] }], fields: AMSTERDAM },
        { transactions: [{ n: 3, input: '0x1234' }], fields: AMSTERDAM },
        { transactions: [{ n: 4, logs: [transfer(CONTRACT, US_TOO, 8n)] }], fields: AMSTERDAM },
        { transactions: [{ n: 5, value: 9n }] },
      ]),
      eth_call: ({ data }: { data: string }) => `0x${'0'.repeat(data.length - 64)}`,
    });
    const asked = () => node.asked.filter((method) => method === 'eth_call').length;
    const seen: [string[], boolean][] = [];
    for (const height of [100, 101, 102, 103, 104]) {
      const earlier = asked();
      seen.push([told((await scan(node, {}, height)).sightings), asked() > earlier]);
    }
    assert.deepEqual(seen, [
      [['direct f1:tx aa 5'], true],
      [['direct f2:tx aa 6'], false],
      [[], false],
      [['internal f4:to bb 8'], false],
      [[], true],
    ]);
  });

  test('a block that a reorganization removes while it is read is an outage, not a node without balances', async () => {
    const answers = block([{ n: 1, value: 5n }]);
    let isRemoved = false;
    const node = await nodeOf({
      ...answers,
      eth_getBlockByHash: (wanted: string, whole: boolean) => (isRemoved ? null : answers.eth_getBlockByHash!(wanted, whole)),
      eth_getBlockReceipts: (wanted: string) => {
        isRemoved = true;
        return answers.eth_getBlockReceipts!(wanted);
      },
    });
    await assert.rejects(scan(node), { kind: 'outage', message: /no longer has block/ });
  });

  test('logs that omit a payment are not treated as complete', async () => {
    const node = await nodeOf({
      ...block(
        [
          { n: 1, to: US, value: 5n },
          { n: 2, value: 1n, logs: [transfer(PAYER, CONTRACT, 1n)] },
        ],
        { fields: AMSTERDAM },
      ),
      ...balances({ [US]: [0n, 5n] }),
    });
    assert.deepEqual(told((await scan(node)).sightings), ['direct f1:tx aa 5']);
  });

  test('an access list distinguishes payments of one address and income without a transaction; change from its own sends is no payment', async () => {
    const start = 1_000_000n;
    const after = [start + 10n, start + 42n, start + 42n - 30n - FEE + 5n, start + 17n - FEE + 70n];
    const node = await nodeOf({
      ...block([{ n: 1 }, { n: 2 }, { n: 3, from: US, value: 30n }]),
      ...balances({ [US]: [start, after[3]!] }),
      eth_getBlockAccessList: () => [
        { address: `0x${US}`, balanceChanges: [3, 0, 1, 2].map((i) => ({ index: hex(i + 1), value: hex(after[i]!) })) },
        { address: `0x${CONTRACT}`, balanceChanges: [{ index: '0x1', value: '0xffff' }] },
      ],
    });
    const { sightings } = await scan(node);
    assert.deepEqual(told(sightings), ['delta delta:100 aa 70', 'internal f1:to aa 10', 'internal f2:to aa 32']);
  });

  test('before the fork, a node that knows access lists has none for a block: the next method reads it', async () => {
    const node = await nodeOf({
      ...block([{ n: 1, input: `0x${US}` }]),
      ...balances({ [US]: [0n, 4n] }),
      eth_getBlockAccessList: () => null,
    });
    assert.deepEqual(told((await scan(node)).sightings), ['internal f1:to aa 4']);
  });

  for (const [what, list] of [
    ['of another form', { accounts: [] }],
    ['with a balance in another form', [{ address: `0x${US}`, balanceChanges: [['0x1', '0x4']] }]],
    ['without an account that was paid', [{ address: `0x${PAYER}`, balanceChanges: [{ index: '0x1', value: '0x4' }] }]],
  ] as const) {
    test(`with an access list ${what}, the next method is used`, async () => {
      const node = await nodeOf({
        ...block([
          { n: 1, input: `0x${US}` },
          { n: 2, to: US_TOO, value: 6n },
        ]),
        ...balances({ [US]: [0n, 4n], [US_TOO]: [0n, 6n] }),
        eth_getBlockAccessList: () => list,
      });
      assert.deepEqual(told((await scan(node)).sightings), ['direct f2:tx bb 6', 'internal f1:to aa 4']);
    });
  }

  test('traces: what self-destructing contracts send counts; delegated and static calls, and calls to oneself, move nothing', async () => {
    const calls = [
      frame(CONTRACT, US, 5n, { type: 'SELFDESTRUCT' }),
      frame(CONTRACT, US_TOO, 9n),
      frame(CONTRACT, US_TOO, 9n, { type: 'DELEGATECALL' }),
      frame(CONTRACT, US_TOO, 9n, { type: 'STATICCALL' }),
      frame(CONTRACT, US_TOO, 9n, { type: 'CALLCODE' }),
      frame(US_TOO, US_TOO, 9n),
      frame(CONTRACT, TOKEN, 0n, { type: 'DELEGATECALL', calls: [frame(CONTRACT, US, 6n)] }),
    ];
    const node = await nodeOf({
      ...block([{ n: 1, value: 50n }]),
      ...balances({ [US]: [0n, 11n], [US_TOO]: [0n, 9n] }),
      debug_traceBlockByHash: () => [{ result: frame(PAYER, CONTRACT, 50n, { calls }) }],
    });
    assert.deepEqual(told((await scan(node)).sightings), ['internal f1:to aa 11', 'internal f1:to bb 9']);
  });

  test('traces that claim more than the balance shows are not trusted', async () => {
    const traces = [{ result: frame(PAYER, CONTRACT, 50n, { calls: [frame(CONTRACT, US, 50n), frame(CONTRACT, US_TOO, 7n)] }) }];
    const answers = { ...block([{ n: 1, value: 50n }]), debug_traceBlockByHash: () => traces };
    const nothing = await nodeOf({ ...answers, ...balances({ [US]: [5n, 5n], [US_TOO]: [0n, 7n] }) });
    assert.deepEqual(told((await scan(nothing)).sightings), ['internal f1:to bb 7']);
    const less = await nodeOf({ ...answers, ...balances({ [US]: [5n, 9n], [US_TOO]: [0n, 7n] }) });
    assert.deepEqual(told((await scan(less)).sightings), ['delta delta:100 aa 4', 'internal f1:to bb 7']);
  });

  const UNUSABLE: readonly [what: string, traces: () => unknown][] = [
    ['of another number of transactions', () => []],
    ['with a transaction that could not be traced', () => [{ error: 'tracing failed' }]],
    ['of another transaction', () => [{ txHash: hash('f9'), result: frame(PAYER, CONTRACT, 0n) }]],
    ['that are not a list', () => ({ structLogs: [] })],
    [
      'with a value that is not a number',
      () => [{ result: frame(PAYER, CONTRACT, 0n, { calls: [{ ...frame(CONTRACT, US, 1n), value: 'many' }] }) }],
    ],
    [
      'that timed out',
      () => {
        throw new NodeError(-32000, 'execution timeout');
      },
    ],
  ];
  for (const [what, traces] of UNUSABLE) {
    test(`with traces ${what}, the balances decide`, async () => {
      const node = await nodeOf({
        ...block([{ n: 1, input: `0x${US}` }]),
        ...balances({ [US]: [0n, 4n] }),
        debug_traceBlockByHash: traces,
      });
      assert.deepEqual(told((await scan(node)).sightings), ['internal f1:to aa 4']);
    });
  }

  test('balances: a gain from no transaction, or from several, has no transaction', async () => {
    const name = { input: `0x${US}` };
    const gain = balances({ [US]: [1n, 5n] });
    const none = await scan(await nodeOf({ ...block([{ n: 1 }]), ...gain }));
    assert.deepEqual(told(none.sightings), ['delta delta:100 aa 4']);
    assert.equal(none.sightings[0]!.txid, null);
    assert.deepEqual(none.sightings[0]!.spends, []);
    assert.deepEqual(
      told(
        (
          await scan(
            await nodeOf({
              ...block([
                { n: 1, ...name },
                { n: 2, ...name },
              ]),
              ...gain,
            }),
          )
        ).sightings,
      ),
      ['delta delta:100 aa 4'],
    );
    const failed = { ...name, ok: false };
    assert.deepEqual(
      told(
        (
          await scan(
            await nodeOf({
              ...block([
                { n: 1, ...name },
                { n: 2, ...failed },
              ]),
              ...gain,
            }),
          )
        ).sightings,
      ),
      ['internal f1:to aa 4'],
    );
  });

  test('balances of many addresses are read several hundred at a time', async () => {
    const many = Array.from({ length: 450 }, (_, i) => i.toString(16).padStart(3, '0').padStart(40, '1'));
    const node = await nodeOf({ ...block([{ n: 1 }]), ...balances({ [many[449]!]: [0n, 4n] }) });
    const { sightings } = await scan(node, { has: (key) => many.includes(key), recent: () => many });
    assert.deepEqual(
      sightings.map((s) => [s.key, s.units]),
      [[many[449], 4n]],
    );
    assert.equal(node.asked.filter((method) => method === 'eth_call').length, 6);
  });

  test('each block starts with the balances at the end of the previous one, and new addresses are requested', async () => {
    const both = blocks([{ transactions: [{ n: 1 }] }, { transactions: [{ n: 2 }] }]);
    const hashes = [hash(99), both.test_hashAt!(100), both.test_hashAt!(101)];
    const reads: string[] = [];
    const node = await nodeOf({
      ...both,
      eth_getBalance: (address: string, { blockHash }: { blockHash: string }) => {
        const at = hashes.indexOf(blockHash);
        reads.push(`${address.slice(2, 4)} at ${99 + at}`);
        return hex(address === `0x${US}` ? [1, 5, 12][at]! : [3, 3, 4][at]!);
      },
    });
    assert.deepEqual(told((await scan(node, { recent: () => [US] })).sightings), ['delta delta:100 aa 4']);
    assert.deepEqual(told((await scan(node, {}, 101)).sightings), ['delta delta:101 aa 7', 'delta delta:101 bb 1']);
    assert.deepEqual(reads.sort(), ['aa at 100', 'aa at 101', 'aa at 99', 'bb at 100', 'bb at 101']);
  });

  test('if the node has pruned the balances, direct payments still count', async () => {
    const gone = () => {
      throw new NodeError(-32000, 'missing trie node 1234 (path ) state 0x12 is not available');
    };
    const node = await nodeOf({ ...block([{ n: 1, to: US, value: 4n }]), eth_call: gone, eth_getBalance: gone });
    assert.deepEqual(told((await scan(node)).sightings), ['direct f1:tx aa 4']);
  });

  test('receipts of transactions replace missing receipts of blocks', async () => {
    const { eth_getBlockReceipts, ...rest } = block([
      { n: 1, to: US, value: 4n },
      { n: 2, to: US, value: 5n, ok: false },
    ]);
    const receipts = eth_getBlockReceipts!(rest.test_hashAt!(100)) as { transactionHash: string }[];
    const node = await nodeOf({
      ...rest,
      ...balances({ [US]: [0n, 4n] }),
      eth_getTransactionReceipt: (txid: string) => receipts.find((receipt) => receipt.transactionHash === txid) ?? null,
    });
    assert.deepEqual(told((await scan(node)).sightings), ['direct f1:tx aa 4']);
  });

  test('the transaction that takes the nonce of a pending payment is named, whether it pays, fails or pays someone else', async () => {
    const node = await nodeOf({
      ...block([
        { n: 1, to: US, value: 4n, ok: false },
        { n: 2, to: PAYER },
        { n: 3, to: US, value: 4n },
      ]),
      ...balances({ [US]: [0n, 4n] }),
    });
    const watched = [`${PAYER}:1`, `${PAYER}:2`, `${PAYER}:3`];
    const { conflicts } = await scan(node, { watchesSpends: true, spends: (outpoint) => watched.includes(outpoint) });
    assert.deepEqual(conflicts, [
      { outpoint: `${PAYER}:1`, txid: hash('f1'), mined: true },
      { outpoint: `${PAYER}:2`, txid: hash('f2'), mined: true },
      { outpoint: `${PAYER}:3`, txid: hash('f3'), mined: true },
    ]);
  });
});

describe('traces are requested only for what a balance does not explain, and nothing depends on them', () => {
  const TRACES = ['debug_traceTransaction', 'debug_traceBlockByHash', 'trace_transaction', 'trace_block'];
  const silent: Tx[] = [
    { n: 1, to: US, value: 500n },
    { n: 2, value: 70n },
    { n: 3, to: null, input: '0x600035' },
  ];
  const moved = balances({ [US]: [1n, 571n] });
  const tracesAsked = (asked: readonly string[]) => asked.filter((method) => TRACES.includes(method));
  /** An answer of so many megabytes, generated while it is read. */
  const stream = (megabytes: number, close = true) => {
    const part = Buffer.alloc(1 << 20, '0');
    let left = megabytes;
    let begun = false;
    return new Readable({
      read() {
        if (!begun) this.push('{"jsonrpc":"2.0","id":1,"result":[{"result":{"type":"CALL","input":"0x');
        begun = true;
        if (left-- > 0) this.push(part);
        else if (close) this.push(null);
      },
    });
  };
  const answerTraces =
    (body: () => string | Readable, status = 200) =>
    (calls: Call[]) =>
      calls.some(({ method }) => TRACES.includes(method)) ? { status, body: body() } : undefined;

  test('a block in which balances grew only by direct transfers is not traced', async () => {
    const node = await nodeOf({ ...block(silent), ...balances({ [US]: [1n, 501n] }), debug_traceBlockByHash: () => [] });
    assert.deepEqual(told((await scan(node)).sightings), ['direct f1:tx aa 500']);
    assert.deepEqual(tracesAsked(node.asked), []);
  });

  test('a transaction that names the address is traced separately, without its call data', async () => {
    const traced: unknown[] = [];
    const node = await nodeOf({
      ...block([...silent, { n: 4, value: 70n, input: `0x${pad(US)}` }]),
      ...moved,
      debug_traceTransaction: (txid: string, { tracer }: { tracer: string }) => {
        traced.push(txid, /input/.test(tracer));
        return { type: 'CALL', calls: [frame(CONTRACT, US, 70n)] };
      },
    });
    assert.deepEqual(told((await scan(node)).sightings), ['direct f1:tx aa 500', 'internal f4:to aa 70']);
    assert.deepEqual(traced, [hash('f4'), false]);
    assert.deepEqual(tracesAsked(node.asked), ['debug_traceTransaction']);
  });

  test('what the first type of traces omits is taken from the next', async () => {
    const ended = { n: 1, to: null, value: 70n, input: `0x73${US}ff` };
    const node = await nodeOf({
      ...block([ended]),
      ...balances({ [US]: [0n, 70n] }),
      debug_traceTransaction: (_: string, { tracer }: { tracer: string }) =>
        frame(PAYER, CONTRACT, 70n, { calls: tracer === 'callTracer' ? [frame(CONTRACT, US, 70n, { type: 'SELFDESTRUCT' })] : [] }),
    });
    assert.deepEqual(told((await scan(node)).sightings), ['internal f1:to aa 70']);
    assert.deepEqual(tracesAsked(node.asked), ['debug_traceTransaction', 'debug_traceTransaction']);
  });

  test('a node that runs no custom tracers is asked for its own, and not for custom ones again', async () => {
    const node = await nodeOf({
      ...block(silent),
      ...moved,
      debug_traceBlockByHash: (_: string, { tracer }: { tracer: string }) => {
        if (tracer !== 'callTracer') throw new NodeError(-32602, 'custom tracers are not allowed');
        return silent.map(({ n }) => ({
          txHash: hash(`f${n}`),
          result: n === 2 ? frame(PAYER, CONTRACT, 70n, { calls: [frame(CONTRACT, US, 70n)] }) : {},
        }));
      },
    });
    for (const asked of [2, 3]) {
      assert.deepEqual(told((await scan(node)).sightings), ['direct f1:tx aa 500', 'internal f2:to aa 70']);
      assert.equal(tracesAsked(node.asked).length, asked);
    }
  });

  test('an account that is not among the recent ones is seen if the call data names it', async () => {
    const nested = `0x12345678${'00'.repeat(4)}${pad(US_TOO)}`;
    const node = await nodeOf({ ...block([{ n: 1, input: nested }]), ...balances({ [US_TOO]: [3n, 12n] }) });
    assert.deepEqual(told((await scan(node, { recent: () => [] })).sightings), ['internal f1:to bb 9']);
  });

  test('a contract creation that floods the trace does not stop ETH: answers of 500 MB use no memory', async () => {
    const node = await nodeOf(
      { ...block(silent), ...moved },
      answerTraces(() => stream(500)),
      // A busy machine needs more than the five seconds of a block to read them all.
      { traceMs: 60_000 },
    );
    const before = process.memoryUsage();
    let most = 0;
    const watch = setInterval(() => {
      const { arrayBuffers, heapUsed } = process.memoryUsage();
      most = Math.max(most, arrayBuffers + heapUsed - before.arrayBuffers - before.heapUsed);
    }, 5);
    const { sightings } = await scan(node);
    clearInterval(watch);
    assert.deepEqual(told(sightings), ['delta delta:100 aa 70', 'direct f1:tx aa 500']);
    assert.ok(most < 200 << 20, `${most >> 20} MB were held`);
    assert.deepEqual(
      [...node.source.unusable!()],
      [
        ['debug_traceBlockByHash', 2],
        ['trace_block', 1],
      ],
    );
  });

  test('traces that arrive too late are not awaited', async () => {
    const node = await nodeOf(
      { ...block(silent), ...moved },
      answerTraces(() => stream(1, false)),
      { traceMs: 300 },
    );
    assert.deepEqual(told((await scan(node)).sightings), ['delta delta:100 aa 70', 'direct f1:tx aa 500']);
    assert.deepEqual([...node.source.unusable!()], [['debug_traceBlockByHash', 1]]);
  });

  for (const [what, status, body] of [
    ['broken', 200, '{"jsonrpc":"2.0","id":1,"result":[{"re'],
    ['a page of words', 200, '<html>'],
    ['those of a gateway that gave up', 504, '<html>gateway timeout</html>'],
    ['refused with the key', 403, 'not in your plan'],
  ] as const) {
    test(`with traces that are ${what}, the balance decides`, async () => {
      const node = await nodeOf(
        { ...block(silent), ...moved },
        answerTraces(() => body, status),
      );
      assert.deepEqual(told((await scan(node)).sightings), ['delta delta:100 aa 70', 'direct f1:tx aa 500']);
    });
  }

  test('with an access list or mempool that is too large, the next method is used as well', async () => {
    const node = await nodeOf({ ...block(silent), ...moved, eth_getBlockByNumber: () => null }, (calls) =>
      calls.some(({ method }) => /AccessList|txpool/.test(method)) ? { status: 200, body: '[{"accounts":' } : undefined,
    );
    assert.deepEqual(told((await scan(node)).sightings), ['delta delta:100 aa 70', 'direct f1:tx aa 500']);
    assert.deepEqual((await (await node.source.fetchMempool()).scan(matcher())).sightings, []);
  });

  test('block receipts that are too large for the provider are read one by one', async () => {
    const { eth_getBlockReceipts, ...rest } = block(silent);
    const receipts = eth_getBlockReceipts!(rest.test_hashAt!(100)) as { transactionHash: string }[];
    const node = await nodeOf({
      ...rest,
      ...moved,
      eth_getBlockReceipts: () => {
        throw new NodeError(-32008, 'response is too big');
      },
      eth_getTransactionReceipt: (txid: string) => receipts.find((receipt) => receipt.transactionHash === txid) ?? null,
    });
    assert.deepEqual(told((await scan(node)).sightings), ['delta delta:100 aa 70', 'direct f1:tx aa 500']);
  });
});

describe('unusable answers are an outage, never a payment and never the end', () => {
  const good = { ...block([{ n: 1, to: US, value: 4n }]), ...balances({ [US]: [0n, 4n] }) };
  const change = (method: string, what: (value: any) => unknown): Answers => ({
    ...good,
    [method]: (...params) => what(structuredClone(good[method]!(...params))),
  });
  const changeTx = (what: object) => change('eth_getBlockByHash', (b) => ({ ...b, transactions: [{ ...b.transactions[0], ...what }] }));
  const BAD: readonly [what: string, answers: Answers, kind: ChainError['kind']][] = [
    ['an unknown block', { ...good, eth_getBlockByHash: () => null }, 'outage'],
    ['another block', change('eth_getBlockByHash', (b) => ({ ...b, hash: hash(7) })), 'unproven'],
    ['a block without transactions', change('eth_getBlockByHash', ({ transactions: _, ...b }) => b), 'outage'],
    ['a block with hashes in place of transactions', change('eth_getBlockByHash', (b) => ({ ...b, transactions: [hash('f1')] })), 'outage'],
    ['a decimal value', changeTx({ value: '4' }), 'outage'],
    ['a value as a number', changeTx({ value: 4 }), 'outage'],
    ['another value', changeTx({ value: '0x5' }), 'unproven'],
    ['a short address', changeTx({ to: '0xaa' }), 'outage'],
    ['another address', changeTx({ to: `0x${US_TOO}` }), 'unproven'],
    ['a transaction of an unknown type', changeTx({ type: '0x5' }), 'unproven'],
    ['a height beyond all numbers', change('eth_getBlockByHash', (b) => ({ ...b, number: `0x${'f'.repeat(30)}` })), 'outage'],
    ['another time', change('eth_getBlockByHash', (b) => ({ ...b, timestamp: '0x1' })), 'unproven'],
    ['a header without a field', change('eth_getBlockByHash', ({ stateRoot: _, ...b }) => b), 'unproven'],
    ['no receipts', change('eth_getBlockReceipts', () => null), 'outage'],
    ['receipts of fewer transactions', change('eth_getBlockReceipts', () => []), 'outage'],
    ['receipts of more transactions', change('eth_getBlockReceipts', ([r]) => [r, r]), 'unproven'],
    ['receipts of another block', change('eth_getBlockReceipts', ([r]) => [{ ...r, blockHash: hash(7) }]), 'unproven'],
    ['receipts of another transaction', change('eth_getBlockReceipts', ([r]) => [{ ...r, transactionHash: hash(7) }]), 'unproven'],
    ['a receipt without status', change('eth_getBlockReceipts', ([{ status: _, ...r }]) => [r]), 'unproven'],
    ['a receipt with another status', change('eth_getBlockReceipts', ([r]) => [{ ...r, status: '0x0' }]), 'unproven'],
    ['a receipt with a log more', change('eth_getBlockReceipts', ([r]) => [{ ...r, logs: [transfer(PAYER, US, 9n, TOKEN)] }]), 'unproven'],
  ];
  for (const [what, answers, kind] of BAD) {
    test(what, async () => {
      const node = await nodeOf(answers);
      await assert.rejects(scan(node), (error) => error instanceof ChainError && error.kind === kind);
    });
  }

  const TELLS: readonly [client: string, answer: unknown][] = [
    ['geth by path', { code: -32000, message: 'historical state 0x1 is not available' }],
    ['Nethermind', { code: -32002, message: 'No state available for block 0x64' }],
    ['Besu', { code: -32000, message: 'World state unavailable' }],
    ['Erigon', { code: -32000, message: 'requested block is too old' }],
    ['an unknown client', { code: 7, message: 'nope' }],
    ['a number', 4],
    ['nothing', null],
  ];
  for (const [client, answer] of TELLS) {
    test(`a node that dropped the state of a block shows its direct payments, in whatever words it says so, and nothing expires: ${client}`, async () => {
      const dropped = () => {
        if (typeof answer === 'object' && answer !== null) throw new NodeError((answer as NodeError).code, (answer as NodeError).message);
        return answer;
      };
      const node = await nodeOf({ ...good, eth_call: dropped, eth_getBalance: dropped });
      assert.deepEqual(told((await (await node.source.fetchBlock(node.hashAt(100))).scan(matcher())).sightings), ['direct f1:tx aa 4']);
      const { complete, incomplete } = await (await node.source.fetchMempool(null)).scan(matcher());
      assert.deepEqual([complete, /does not have the balances of the last blocks/.test(incomplete ?? '')], [false, true]);
    });
  }

  test('a header of a fork that this version does not know is refused with the reason', async () => {
    // A later fork has hashed a field that this version does not know.
    const { header } = makeBlock({ height: 100, parent: hash(99) });
    const { source } = await nodeOf({ eth_getBlockByNumber: () => ({ ...header, hash: hash(7), nextRoot: hash(8) }) });
    await assert.rejects(
      source.tip(),
      (error) => error instanceof ChainError && error.kind === 'unproven' && /a fork that this version does not know/.test(error.message),
    );
  });

  const HTTP: readonly [what: string, status: number, body: string][] = [
    ['a page of words', 200, '<html>welcome</html>'],
    ['half an answer', 200, '{"jsonrpc":"2.0","id":1,'],
    ['an empty answer', 200, ''],
    ['a list of nothing', 200, '[]'],
    ['null', 200, 'null'],
    ['an answer to another request', 200, '{"jsonrpc":"2.0","id":99999,"result":"0x1"}'],
    ['an answer without a result', 200, '{"jsonrpc":"2.0","id":1}'],
    ['a broken gateway', 502, '<html>bad gateway</html>'],
    ['a key refused', 401, 'invalid project id'],
  ];
  for (const [what, status, body] of HTTP) {
    test(`${what} (${status})`, async () => {
      const { source } = await nodeOf({}, () => ({ status, body }));
      await assert.rejects(source.tip(), (error) => error instanceof ChainError && error.kind === 'outage');
      await assert.rejects(source.health(), (error) => error instanceof ChainError && error.kind === 'outage');
    });
  }

  test('a node that is away', async () => {
    const source = createEthereumSource({
      network: 'regtest',
      chainId: 31337,
      url: 'http://user:key@127.0.0.1:9',
      isOwn: true,
      outgoing,
      log,
    });
    await assert.rejects(source.tip(), (error) => error instanceof ChainError && error.kind === 'outage' && !error.message.includes('key'));
  });
  test('another chain is reported as such', async () => {
    const { source } = await nodeOf({ eth_chainId: () => '0x1' });
    await assert.rejects(source.genesis(), (error) => error instanceof ChainError && error.kind === 'wrong_network');
  });
});

describe('limits of providers', () => {
  const LATEST = makeBlock({ height: 100, parent: hash(99) }).header;
  const answers: Answers = { eth_getBlockByNumber: () => LATEST, eth_getTransactionByHash: (txid: string) => ({ hash: txid }) };
  const ids = (n: number) => Array.from({ length: n }, (_, i) => hash(i + 1));

  test('a batch that is too large is sent in halves, and smaller batches are sent from then on', async () => {
    const node = await nodeOf(answers, (calls) =>
      calls.length > 10
        ? { status: 413, body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}' }
        : undefined,
    );
    const mempool = await node.source.fetchMempool();
    const { present } = await mempool.scan(matcher({ waiting: ids(45) }));
    assert.ok(ids(45).every((txid) => present.has(txid)));
    const later = node.batches.length;
    await mempool.scan(matcher({ waiting: ids(90) }));
    assert.ok(node.batches.slice(later).every((size) => size <= 10));
    assert.ok(node.batches.slice(later).some((size) => size > 1));
  });

  for (const [what, status, body] of [
    ['with one error without an id', 200, '[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}]'],
    ['with the answer to its first call', 200, '{"jsonrpc":"2.0","id":1,"result":"0x7a69"}'],
    ['with a list of nothing', 200, '[]'],
    ['with words', 200, 'no batches'],
    ['with 403', 403, ''],
  ] as const) {
    test(`a provider that answers batches ${what} is called one by one`, async () => {
      const node = await nodeOf({ ...answers, eth_chainId: () => '0x7a69', eth_syncing: () => false }, (calls) =>
        calls.length > 1 ? { status, body } : undefined,
      );
      assert.equal((await node.source.health()).tip.height, 100);
      const later = node.batches.length;
      assert.equal((await node.source.health()).tip.height, 100);
      assert.deepEqual(new Set(node.batches.slice(later)), new Set([1]), 'batches are not tried each time');
    });
  }

  test('calls of a batch that met a limit are sent again, the others are not', async () => {
    let refused = 0;
    const seen: string[] = [];
    const node = await nodeOf({
      ...answers,
      eth_getTransactionByHash: (txid: string) => {
        if (txid === hash(3) && refused++ < 2) throw new NodeError(-32005, 'daily request count exceeded, request rate limited');
        seen.push(txid);
        return { hash: txid };
      },
    });
    const { present } = await (await node.source.fetchMempool()).scan(matcher({ waiting: ids(5) }));
    assert.ok(ids(5).every((txid) => present.has(txid)));
    assert.equal(seen.length, 5);
  });

  test('after 429 the reader waits as long as requested, and finally gives up', async () => {
    const started = performance.now();
    const patient = await nodeOf(answers, (_, n) =>
      n === 1 ? { status: 429, body: 'slow down', headers: { 'retry-after': '1' } } : undefined,
    );
    assert.equal((await patient.source.tip()).height, 100);
    assert.ok(performance.now() - started >= 1_000);
    const endless = await nodeOf(answers, () => ({ status: 429, body: '' }));
    await assert.rejects(endless.source.tip(), (error) => error instanceof ChainError && error.kind === 'outage');
    assert.equal(endless.batches.length, 4);
    const tooLong = await nodeOf(answers, () => ({ status: 429, body: '', headers: { 'retry-after': '3600' } }));
    await assert.rejects(tooLong.source.tip(), (error) => error instanceof ChainError && error.kind === 'outage');
    assert.equal(tooLong.batches.length, 1);
  });
});

describe('pending transactions', () => {
  const tx = (n: number, to = US, value = '0x4') => ({
    hash: hash(`f${n}`),
    from: `0x${PAYER}`,
    to: `0x${to}`,
    value,
    nonce: hex(n),
    input: '0x',
    blockHash: null,
  });
  const head = { number: '0x64', hash: hash(100), parentHash: hash(99), timestamp: '0x1' };
  const pool = (pending: object, queued: object): Answers => ({
    txpool_status: () => ({ pending: '0x2', queued: '0x1' }),
    txpool_content: () => ({ pending: { [`0x${PAYER}`]: pending }, queued: { [`0x${PAYER}`]: queued } }),
  });

  test('executable ones are seen; queued, empty and unreadable ones are not', async () => {
    const { source } = await nodeOf(pool({ 1: tx(1), 2: tx(2, US, '0x0'), 3: tx(3, CONTRACT), 4: { hash: 'none' } }, { 9: tx(9) }));
    const { sightings, present } = await (await source.fetchMempool()).scan(matcher());
    assert.deepEqual(told(sightings), ['direct f1:tx aa 4']);
    assert.ok(present.has(hash('f9')), 'the node knows it all the same');
  });

  test('one that takes the nonce of another is a conflict', async () => {
    const { source } = await nodeOf(pool({ 1: tx(1, CONTRACT) }, {}));
    const { conflicts } = await (await source.fetchMempool()).scan(
      matcher({ watchesSpends: true, spends: (outpoint) => outpoint === `${PAYER}:1` }),
    );
    assert.deepEqual(conflicts, [{ outpoint: `${PAYER}:1`, txid: hash('f1') }]);
  });

  test("without a list, or with one that is too long, the node's next block is used", async () => {
    const blocks = (pending: object) => ({ eth_getBlockByNumber: (tag: string) => (tag === 'pending' ? pending : head) });
    const next = { ...head, number: '0x65', hash: null, parentHash: hash(100), transactions: [tx(1)] };
    const long = { txpool_status: () => ({ pending: '0xffff', queued: '0x0' }), txpool_content: () => assert.fail('too long to read') };
    for (const more of [{}, long]) {
      const { source } = await nodeOf({ ...blocks(next), ...more });
      assert.deepEqual(told((await (await source.fetchMempool()).scan(matcher())).sightings), ['direct f1:tx aa 4']);
    }
    const same = await nodeOf(blocks({ ...head, transactions: [tx(1)] }));
    assert.deepEqual((await (await same.source.fetchMempool()).scan(matcher())).sightings, [], 'the latest block under another name');
    const none = await nodeOf({ eth_getBlockByNumber: (tag: string) => (tag === 'pending' ? null : head) });
    assert.deepEqual((await (await none.source.fetchMempool()).scan(matcher())).sightings, []);
  });

  test("the node's next block is read only when a pending balance grew, or when one of our transactions waits", async () => {
    const units = { [US]: 0n };
    const next = { ...head, number: '0x65', hash: null, parentHash: hash(100), transactions: [tx(1)] };
    const node = await nodeOf({
      eth_getBlockByNumber: (tag: string) => (tag === 'pending' ? next : head),
      eth_call: ({ data }: { data: string }, at: string) => {
        assert.equal(at, 'pending');
        return `0x${(data.slice(2 + 62).match(/.{64}/g) ?? []).map((word) => pad((units[word.slice(24)] ?? 0n).toString(16))).join('')}`;
      },
    });
    const later = new Date('2100-01-01');
    const poll = async (more: Partial<Matcher> = {}, othersEnd: Date | null = null) => {
      node.asked.length = 0;
      const open = () => ({ listed: [US, US_TOO].map((key) => ({ key, endsAt: later, countsUntil: later })), othersEnd });
      const found = await (await node.source.fetchMempool()).scan(matcher({ open, ...more }));
      return [told(found.sightings), node.asked.includes('eth_getBlockByNumber')];
    };
    const seen = ['direct f1:tx aa 4'];
    assert.deepEqual(await poll(), [[], false], 'nobody paid');
    units[US] = 4n;
    assert.deepEqual(await poll(), [seen, true]);
    assert.deepEqual(await poll(), [[], false], 'the same balance shows nothing new');
    assert.deepEqual(await poll({ watchesSpends: true }), [seen, true], 'the transaction could be replaced');
    units[US] = 0n;
    assert.deepEqual(await poll(), [[], false], 'it was replaced');
    units[US] = 4n;
    assert.deepEqual(await poll(), [seen, true], 'it is back');
    assert.deepEqual(await poll({}, later), [seen, true], 'there are more open payments than balances that are read');
  });

  test('a known payment that is not listed is requested by hash', async () => {
    const { source } = await nodeOf({ ...pool({}, {}), eth_getTransactionByHash: (txid: string) => (txid === hash('f1') ? tx(1) : null) });
    const { present } = await (await source.fetchMempool()).scan(matcher({ waiting: [hash('f1'), hash('f2')] }));
    assert.deepEqual(
      [hash('f1'), hash('f2')].map((txid) => present.has(txid)),
      [true, false],
    );
  });
});

describe('as anvil 1.7.1 answered', () => {
  const recorded = JSON.parse(readFileSync(new URL('../../../test/fixtures/rpc/anvil-1.7.1.json', import.meta.url), 'utf8')) as {
    label: string;
    body: string;
  }[];
  const answer = (label: string) => JSON.parse(recorded.find((one) => one.label === label)!.body).result;
  const AA = '00000000000000000000000000000000000000aa';

  test('a block with a payment', async () => {
    const mined = answer('block-full');
    const { source } = await nodeOf({
      eth_getBlockByHash: () => mined,
      eth_getBlockReceipts: () => answer('blockReceipts'),
      eth_getBalance: (_: string, at: { blockHash: string }) => (at.blockHash === mined.hash ? '0x1b69b4ba630f34e' : '0x0'),
    });
    const ours = matcher({ has: (key) => key === AA, recent: () => [AA] });
    const { block: ref, sightings } = await (await source.fetchBlock(mined.hash)).scan(ours);
    assert.deepEqual([ref.height, ref.parent], [0x48, mined.parentHash]);
    assert.deepEqual(
      sightings.map((s) => [s.kind, s.units, s.ref]),
      [['direct', 0x1b69b4ba630f34en, `${mined.transactions[0].hash}:tx`]],
    );
  });

  for (const [label, method] of [
    ['internal-traceBlock', 'debug_traceBlockByHash'],
    ['internal-trace_block', 'trace_block'],
  ] as const) {
    test(`a transfer forwarded by a contract, by ${method}`, async () => {
      const receipt = answer('internal-receipt');
      // The block of the receipt was not recorded.
      const made = makeBlock({
        height: 5,
        parent: hash(1),
        transactions: [{ hash: receipt.transactionHash, from: receipt.from, to: receipt.to, value: '0x3039', nonce: '0x4' }],
      });
      const traces = JSON.parse(JSON.stringify(answer(label)).replaceAll(receipt.blockHash, made.hash));
      const { source } = await nodeOf({
        eth_getBlockByHash: () => ({ ...made.header, transactions: made.transactions }),
        eth_getBlockReceipts: () => made.receipts,
        [method]: () => traces,
        eth_getBalance: (_: string, at: { blockHash: string }) => (at.blockHash === hash(1) ? '0x5' : '0x303e'),
      });
      const ours = matcher({ has: (key) => key === AA, recent: () => [AA] });
      const { sightings } = await (await source.fetchBlock(made.hash)).scan(ours);
      assert.deepEqual(
        sightings.map((s) => [s.kind, s.key, s.units, s.txid]),
        [['internal', AA, 0x3039n, receipt.transactionHash]],
      );
    });
  }

  test('a mined, a failed, a pending and an unknown transaction', async () => {
    const transactions = [answer('tx-mined'), answer('reverted-tx'), answer('tx-pending')];
    const receipts = [answer('receipt-mined'), answer('reverted-receipt')];
    const { source } = await nodeOf({
      eth_getTransactionByHash: (txid: string) => transactions.find((tx) => tx.hash === txid) ?? null,
      eth_getTransactionReceipt: (txid: string) => receipts.find((receipt) => receipt.transactionHash === txid) ?? null,
      eth_getBlockByNumber: () => makeBlock({ height: 0x50, parent: hash(1) }).header,
      eth_getBlockByHash: () => answer('block-full'),
    });
    const mined = await source.transaction(transactions[0].hash);
    assert.deepEqual(
      [mined.status, mined.confirmations, mined.blockHeight, mined.amountUnits, mined.feeUnits],
      ['confirmed', 9, 0x48, 0x1b69b4ba630f34en, 21_000n * 0x3b9bf427n],
    );
    assert.deepEqual(mined.outputs, [{ address: '0x00000000000000000000000000000000000000AA', units: 0x1b69b4ba630f34en }]);
    const failed = await source.transaction(transactions[1].hash);
    assert.deepEqual([failed.status, failed.amountUnits, failed.feeUnits], ['failed', 0n, 0x520cn * 0x3b9b5019n]);
    const waits = await source.transaction(transactions[2].hash);
    assert.deepEqual([waits.status, waits.confirmations, waits.blockHeight, waits.feeUnits], ['pending', 0, null, null]);
    await assert.rejects(source.transaction(hash(1)), (error) => error instanceof ChainError && error.kind === 'not_found');
  });

  test('a transaction whose index was pruned is found by its receipt; pruned history is reported as such', async () => {
    const { source } = await nodeOf({
      eth_getTransactionByHash: () => null,
      eth_getTransactionReceipt: () => answer('receipt-mined'),
      eth_getTransactionByBlockHashAndIndex: () => answer('tx-mined'),
      eth_getBlockByNumber: () => answer('block-full'),
      eth_getBlockByHash: () => answer('block-full'),
    });
    assert.equal((await source.transaction(hash(1))).status, 'confirmed');
    const pruned = await nodeOf({
      eth_getTransactionByHash: () => {
        throw new NodeError(4444, 'Pruned history unavailable');
      },
      eth_getTransactionReceipt: () => null,
      eth_getBlockByNumber: () => answer('block-full'),
    });
    await assert.rejects(pruned.source.transaction(hash(1)), (error) => error instanceof ChainError && error.kind === 'pruned');
  });

  test('fees in gwei per gas, slow to fast; the median of the tips paid', async () => {
    const { source } = await nodeOf({ eth_feeHistory: () => answer('feeHistory') });
    const [fast, normal, slow] = await source.fees();
    assert.deepEqual([fast!.speed, normal!.speed, slow!.speed], ['fast', 'normal', 'slow']);
    assert.equal(slow!.units, (0x755cn + 0x3b9aca00n) * 21_000n);
    assert.equal(slow!.rateE8, (0x755cn + 0x3b9aca00n) / 10n);
    assert.ok(fast!.units > normal!.units && normal!.units > slow!.units);
    const quiet = await nodeOf({ eth_feeHistory: () => ({ baseFeePerGas: ['0x7'] }) });
    assert.equal((await quiet.source.fees())[0]!.source, 'fallback');
  });

  test('tags, and the depths that replace tags that a provider does not know', async () => {
    const head = makeBlock({ height: 1_000, parent: hash(1) }).header;
    const known = await nodeOf({ eth_getBlockByNumber: (tag: string) => (tag === 'latest' ? head : answer(`block-${tag}`)) });
    const heights = ['safe', 'finalized'].map((tag) => Number(answer(`block-${tag}`).number));
    assert.deepEqual(await known.source.finality(), { safe: heights[0], finalized: heights[1], chainlock: null, tip: head.hash });
    const unknown = await nodeOf({
      eth_getBlockByNumber: (tag: string) => {
        if (tag === 'finalized') throw new NodeError(-39001, 'Unknown block');
        return tag === 'latest' ? head : null;
      },
    });
    assert.deepEqual(await unknown.source.finality(), { safe: 936, finalized: 872, chainlock: null, tip: head.hash });
    const low = makeBlock({ height: 70, parent: hash(1) }).header;
    const young = await nodeOf({ eth_getBlockByNumber: (tag: string) => (tag === 'latest' ? low : null) });
    assert.deepEqual(await young.source.finality(), { safe: 6, finalized: null, chainlock: null, tip: low.hash });
  });

  test('the header of the newest block is read from a provider once for each height', async () => {
    const block = answer('block-full');
    let height = block.number;
    const syncing = { now: false as boolean | object };
    const { source, asked } = await nodeOf(
      {
        eth_chainId: () => '0x7a69',
        eth_getBlockByNumber: () => block,
        eth_blockNumber: () => height,
        eth_syncing: () => syncing.now,
        web3_clientVersion: () => 'anvil/v1.7.1',
      },
      undefined,
      { isOwn: false },
    );
    const headers = async () => {
      asked.length = 0;
      await source.health();
      return asked.filter((method) => method === 'eth_getBlockByNumber').length;
    };
    assert.deepEqual([await headers(), await headers(), await headers()], [1, 0, 0]);
    height = `0x${(Number(height) + 1).toString(16)}`;
    assert.equal(await headers(), 1, 'another height');
    height = block.number;
    syncing.now = { currentBlock: '0x1', highestBlock: '0x9' };
    assert.equal(await headers(), 1, 'it is syncing now');
    assert.equal((await source.health()).syncing, true);
  });

  test('health of a node, and of a provider that does not show its peers', async () => {
    const base: Answers = {
      eth_chainId: () => '0x7a69',
      eth_getBlockByNumber: () => answer('block-full'),
      web3_clientVersion: () => 'anvil/v1.7.1',
    };
    const well = await nodeOf({ ...base, eth_syncing: () => false, net_peerCount: () => '0x5' });
    const health = await well.source.health();
    assert.deepEqual([health.syncing, health.peers, health.network, health.software], [false, 5, 'regtest', 'anvil/v1.7.1']);
    const catching = await nodeOf({
      ...base,
      eth_syncing: () => ({ currentBlock: '0x48', highestBlock: '0x99' }),
      eth_chainId: () => '0x1',
    });
    const behind = await catching.source.health();
    assert.deepEqual([behind.syncing, behind.headers, behind.peers, behind.network], [true, 0x99, null, 'chain 1']);
  });
});
