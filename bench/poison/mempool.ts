/**
 * Looks at a mempool of 300,000 transactions to which some are added between the looks: what a look requests from the node, and how long
 * it blocks the event loop, compared with the list read as JSON. Goal: at most two requests plus those for new transactions; at most 40
 * ms of the event loop at a time.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCoreSource } from '../../src/chains/bitcoin/core-rpc.ts';
import type { Matcher } from '../../src/chains/chain-source.ts';
import { createOutgoing } from '../../src/connections/http-client.ts';
import { parseExactJson } from '../../src/core/money.ts';
import { createLog } from '../../src/log.ts';
import { median, startChild } from '../kit.ts';

const WAITING = 300_000;
const NEW_EACH = 20;
const LOOKS = 20;
/** A transaction with one input and one output; whose it is does not matter here. */
const RAW = `0100000001${'11'.repeat(32)}00000000000000000001e8030000000000001600140000000000000000000000000000000000000000${'00'.repeat(4)}`;
const TIP = 'e'.repeat(64);

if (process.argv[2] === 'node') await serveMempool();
else await look();

/** The node: each list has some more IDs than the one before. Prints `ready` with its port. */
async function serveMempool(): Promise<void> {
  const id = (n: number): string => createHash('sha256').update(`waiting ${n}`).digest('hex');
  const ids = Array.from({ length: WAITING }, (_, i) => id(i));
  let grows = false;
  let requests = 0;
  const answer = (method: string): string => {
    if (method === 'grow') grows = true;
    if (method === 'requests') return String(requests);
    if (method === 'getrawmempool') {
      if (grows) for (let i = 0; i < NEW_EACH; i++) ids.push(id(ids.length));
      return `[${ids.map((one) => `"${one}"`).join(',')}]`;
    }
    if (method === 'getrawtransaction') return `"${RAW}"`;
    if (method === 'getbestblockhash') return `"${TIP}"`;
    if (method === 'getblockheader') return `{"hash":"${TIP}","height":900000,"previousblockhash":"${'d'.repeat(64)}","time":1800000000}`;
    if (method === 'getblockchaininfo') return `{"chain":"regtest","blocks":900000,"headers":900000,"bestblockhash":"${TIP}"}`;
    if (method === 'getnetworkinfo') return '{"version":290500,"subversion":"/Node:29.5.0/","connections":8}';
    return `{"size":${ids.length + (grows ? NEW_EACH : 0)},"bytes":${ids.length * 140},"usage":${ids.length * 500},"total_fee":${ids.length}.00000000}`;
  };
  const server = createServer(async (request, reply) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const asked = JSON.parse(Buffer.concat(parts).toString()) as { id: number; method: string }[] | { id: number; method: string };
    requests++;
    const bodies = [asked].flat().map((call) => `{"result":${answer(call.method)},"error":null,"id":${call.id}}`);
    reply.writeHead(200).end(Array.isArray(asked) ? `[${bodies.join(',')}]` : bodies[0]);
  });
  server.keepAliveTimeout = 600_000;
  server.listen(0, '127.0.0.1', () => process.stdout.write(`ready ${(server.address() as AddressInfo).port}\n`));
}

async function look(): Promise<void> {
  const node = await startChild('bench/poison/mempool.ts', {}, ['node']);
  const url = `http://127.0.0.1:${node.line}`;
  const log = createLog('error');
  const outgoing = createOutgoing({ allow: [], log });
  const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
  const source = createCoreSource({ coin: 'BTC', network: 'regtest', url, outgoing, log, clock });
  const post = async (method: string): Promise<string> => {
    const body = Buffer.from(JSON.stringify({ id: 0, method, params: [] }));
    const reply = await outgoing.request({ url, method: 'POST', body, timeoutMs: 30_000, maxReplyBytes: 64 << 20 });
    return Buffer.from(reply.body).toString();
  };
  const matcher: Matcher = { has: () => false, watchesSpends: false, spends: () => false, recent: () => [], waiting: [] };
  const once = async (): Promise<boolean> => {
    const mempool = await source.fetchMempool(await source.health());
    const { complete = true } = await mempool.scan(matcher);
    mempool.done();
    return complete;
  };
  const started = performance.now();
  let looks = 1;
  while (!(await once())) looks++;
  console.log(`the first ${WAITING} read in ${looks} looks, ${((performance.now() - started) / 1000).toFixed(1)} s`);
  await post('grow');

  const measure = async (name: string, work: () => Promise<unknown>): Promise<number> => {
    const requestsBefore = Number(JSON.parse(await post('requests')).result);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const times: number[] = [];
    const busy: number[] = [];
    for (let i = 0; i < LOOKS; i++) {
      // A page is served between two looks.
      await sleep(50);
      delay.enable();
      const [from, used] = [performance.now(), process.cpuUsage()];
      await work();
      times.push(performance.now() - from);
      const { user, system } = process.cpuUsage(used);
      busy.push((user + system) / 1000);
      delay.disable();
    }
    const requests = (Number(JSON.parse(await post('requests')).result) - requestsBefore - 1) / LOOKS;
    const longest = delay.max / 1e6;
    console.log(
      `${name}: ${requests} requests a look, ${median(times).toFixed(0)} ms, of which ${median(busy).toFixed(0)} ms of a processor; ` +
        `event loop held up for at most ${longest.toFixed(1)} ms (99%: ${(delay.percentile(99) / 1e6).toFixed(1)} ms)`,
    );
    return longest;
  };
  const known = new Set<string>();
  await measure('as JSON', async () => {
    const parsed = parseExactJson(await post('getrawmempool')) as { result: string[] };
    const present = new Set(parsed.result);
    for (const txid of known) if (!present.has(txid)) known.delete(txid);
    for (const txid of present) known.add(txid);
  });
  await once();
  const longest = await measure(`a look at ${WAITING} waiting, ${NEW_EACH} new`, once);
  console.log(longest <= 40 ? 'goal met' : 'goal missed: more than 40 ms of the event loop at a time');
  await outgoing.close();
  await node.stop();
}
