/** Calls to nodes and providers that accept batches, and to those that do not. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Served, serve } from '../../../test/kit/serve.ts';
import { createOutgoing } from '../../connections/http-client.ts';
import { createLog } from '../../log.ts';
import { ChainError } from '../chain-source.ts';
import { type CoreCall, createCoreCalls } from './core-calls.ts';

type Request = { id: number; method: string; params: unknown[] };
type Answer = { status: number; body: string };

const log = createLog('silent');
const outgoing = createOutgoing({ allow: [], log });
const servers: Served[] = [];
after(async () => {
  await outgoing.close();
  for (const server of servers) await server.stop();
});

const result = ({ id, method }: Request) => ({ result: { of: method }, error: null, id });
/** A node that answers single calls unless `answer` says otherwise, and records the requests it gets. */
async function nodeOf(answer: (asked: Request | Request[]) => Answer | undefined) {
  const requests: string[][] = [];
  const server = await serve((_request, reply, sent) => {
    const asked = JSON.parse(sent.toString()) as Request | Request[];
    requests.push([asked].flat().map((one) => one.method));
    const { status, body } = answer(asked) ?? {
      status: 200,
      body: JSON.stringify(Array.isArray(asked) ? asked.map(result) : result(asked)),
    };
    reply.writeHead(status).end(body);
  });
  servers.push(server);
  const url = `http://user:key@127.0.0.1:${server.port}`;
  const clock = { ms: 0, now: () => new Date(), monotonicMs: () => clock.ms };
  return { requests, clock, ...createCoreCalls({ coin: 'DASH', url, outgoing, log, clock }) };
}
const CALLS = [['getblockchaininfo'], ['getmempoolinfo'], ['getnetworkinfo']] as const;
const outage = (pattern: RegExp) => (error: unknown) =>
  error instanceof ChainError && error.kind === 'outage' && pattern.test(error.message);

test('a node that accepts batches gets one request', async () => {
  const node = await nodeOf(() => undefined);
  assert.deepEqual(
    (await node.post(CALLS)).map((reply) => reply.result),
    CALLS.map(([method]) => ({ of: method })),
  );
  assert.deepEqual(node.requests, [CALLS.map(([method]) => method)]);
});

const REFUSALS: readonly [what: string, answer: (asked: Request[]) => Answer][] = [
  ['with 403, as Dash Core under rpcwhitelist does', () => ({ status: 403, body: '' })],
  ['with one error', () => ({ status: 400, body: '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":null}' })],
  ['with a list of one error', () => ({ status: 200, body: '[{"result":null,"error":{"code":-32600,"message":"no batches"},"id":null}]' })],
  ['with the answer to the first call alone', ([first]) => ({ status: 200, body: JSON.stringify(result(first!)) })],
  ['with a page of words', () => ({ status: 404, body: '<html>not found</html>' })],
  ['with nothing', () => ({ status: 200, body: '' })],
];
for (const [what, answer] of REFUSALS) {
  test(`a node that refuses batches ${what} is called one by one, and with a batch again later`, async () => {
    let refuses = true;
    const node = await nodeOf((asked) => (Array.isArray(asked) && refuses ? answer(asked) : undefined));
    for (const requests of [4, 7]) {
      assert.deepEqual(
        (await node.post(CALLS)).map((reply) => reply.result),
        CALLS.map(([method]) => ({ of: method })),
      );
      assert.equal(node.requests.length, requests);
    }
    refuses = false;
    node.clock.ms += 601_000;
    await node.post(CALLS);
    assert.equal(node.requests.length, 8);
  });
}

test('an answer that is read as a stream is requested separately, in order, if batches are refused', async () => {
  const node = await nodeOf((asked) => (Array.isArray(asked) ? { status: 403, body: '' } : undefined));
  for (const requests of [4, 7]) {
    const { replies, reader } = await node.read(CALLS, 1, () => {
      const parts: Buffer[] = [];
      return { take: (part: Buffer) => void parts.push(part), taken: () => false, text: () => Buffer.concat(parts).toString() };
    });
    assert.deepEqual(
      replies!.map((reply) => reply.result),
      CALLS.map(([method]) => ({ of: method })),
    );
    assert.match(reader.text(), /"of":"getmempoolinfo"/);
    assert.equal(node.requests.length, requests);
  }
  assert.deepEqual(node.requests.slice(4), [['getblockchaininfo'], ['getmempoolinfo'], ['getnetworkinfo']]);
});

test('a call that is not allowed has its own error; the others are answered', async () => {
  const isAllowed = (asked: Request | Request[]) => ![asked].flat().some(({ method }) => method === 'getmempoolinfo');
  const node = await nodeOf((asked) => (isAllowed(asked) ? undefined : { status: 403, body: '' }));
  const replies = await node.post(CALLS);
  assert.deepEqual(
    replies.map((reply) => reply.result),
    [{ of: 'getblockchaininfo' }, null, { of: 'getnetworkinfo' }],
  );
  await assert.rejects(node.call('getmempoolinfo'), outage(/does not allow getmempoolinfo/));
});

test('a node that is also wrong call by call is an outage, and no reason to stop sending batches', async () => {
  let broken = true;
  const node = await nodeOf(() => (broken ? { status: 200, body: '{"result":1,"error":null,"id":99999}' } : undefined));
  await assert.rejects(node.post(CALLS), outage(/another request/));
  broken = false;
  assert.equal((await node.post(CALLS)).length, CALLS.length);
  assert.equal(node.requests.filter((request) => request.length === CALLS.length).length, 2, 'a batch is tried again');
  const starting = await nodeOf(() => ({ status: 500, body: '{"result":null,"error":{"code":-28,"message":"Loading"},"id":0}' }));
  await assert.rejects(starting.call('getbestblockhash'), outage(/is starting/));
  const stranger = await nodeOf(() => ({ status: 401, body: '' }));
  await assert.rejects(stranger.post(CALLS), outage(/refuses user and password/));
});

test('an answer of another kind than the call has is an error of that call, and never an absence', async () => {
  const HASH = 'ab'.repeat(32);
  for (const [call, good, bad] of [
    [['getbestblockhash'], HASH, 42],
    [['getblockhash', 1], HASH, 'ab'],
    [['getrawmempool'], [], {}],
    [['getrawtransaction', HASH, 1], { txid: HASH }, null],
    [['getrawtransaction', HASH, 0], '01'.repeat(60), 42],
    [['getblock', HASH, 0], '01'.repeat(81), {}],
    [['getblockheader', HASH], { hash: HASH }, '01'.repeat(80)],
    [['gettxout', HASH, 0, true], null, 42],
    [['getblockchaininfo'], { blocks: '1' }, []],
  ] as readonly [CoreCall, unknown, unknown][]) {
    let answer: unknown = good;
    const node = await nodeOf((asked) => ({
      status: 200,
      body: JSON.stringify({ result: answer, error: null, id: (asked as Request).id }),
    }));
    assert.deepEqual(await node.call(...call), good, call.join(' '));
    answer = bad;
    await assert.rejects(node.call(...call), outage(/answered something else/), call.join(' '));
  }
});
