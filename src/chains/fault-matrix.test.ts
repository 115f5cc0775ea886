/**
 * Every question that Florin asks a node or provider, with every way to fail. The questions are those that a healthy round asks; the table
 * question x fault x outcome is made by the test and printed. No cell is stuck: beside a good source the round is read, alone it is read or
 * waits with a reason, and when the fault ends it is read.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeBlock, signTransaction } from '../../test/kit/ethereum-blocks.ts';
import { stateOf } from '../../test/kit/ethereum-state.ts';
import { createLog } from '../log.ts';
import { createOutgoing } from '../outgoing/http-client.ts';
import { ChainError, type ChainSource, type Matcher, RangeRefused } from './chain.ts';
import { checkedSource } from './checked-source.ts';
import { createEthereumSource } from './ethereum/ethereum.ts';
import { createTokenNetworkSource } from './ethereum/token-network.ts';
import { joinSources } from './sources.ts';

const log = createLog('silent');
const outgoing = createOutgoing({ allow: [], log });
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
const servers: Server[] = [];
after(async () => {
  await outgoing.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

const FAULTS = ['refused', 'timeout', '429', 'unknown error', 'wrong type', 'old state', 'HTML', 'half an answer'] as const;
type Fault = (typeof FAULTS)[number];
/** A part of an answer in place of the whole, or what a node answers about a state that it dropped. */
const VALUES: Partial<Record<Fault, object>> = {
  'unknown error': { error: { code: 777, message: 'wug' } },
  'wrong type': { result: 42 },
  'old state': { error: { code: -32_000, message: 'requested block is too old' } },
};
/** How long a connection is held that never answers. */
const HELD_MS = 400;

const US = 'aa'.repeat(20);
const word = (text: string) => `0x${text.padStart(64, '0')}`;
const USDC = '833589fcd6edb6e08f4c7c32d4f71b54bda02913';
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const now = `0x${Math.floor(Date.now() / 1000).toString(16)}`;
const [then, since] = [stateOf({}), stateOf({ [US]: { balance: 5n } })];
const direct = signTransaction('payer', { nonce: '0x1', to: `0x${US}`, value: '0x5' });
const logs = [{ address: `0x${USDC}`, topics: [TRANSFER, word('c1'), word(US)], data: word('989680') }];
const token = { ...signTransaction('payer', { nonce: '0x2', to: `0x${USDC}`, value: '0x0' }), logs };
const first = makeBlock({ height: 0, parent: word('0'), fields: { stateRoot: then.root, timestamp: now } });
const parent = makeBlock({ height: 99, parent: word('1'), fields: { stateRoot: then.root, timestamp: now } });
const block = makeBlock({
  height: 100,
  parent: parent.hash,
  transactions: [direct, token],
  fields: { stateRoot: since.root, timestamp: now },
});
const shown = (made: typeof block | undefined, whole: boolean) =>
  made ? { ...made.header, transactions: whole ? made.transactions : made.transactions.map((tx) => tx.hash) } : null;
const byHash = (hash: string) => [parent, block].find((made) => made.hash === hash);
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
        : ['latest', 'safe', 'finalized', '0x64'].includes(at)
          ? shown(block, whole)
          : null,
  eth_getBlockByHash: (hash: string, whole: boolean) => shown(byHash(hash), whole),
  eth_getBlockReceipts: (hash: string) => byHash(hash)?.receipts ?? null,
  eth_getTransactionByHash: (hash: string) => block.transactions.find((tx) => tx.hash === hash) ?? null,
  eth_getBalance: (_: string, at: unknown) => (isNew(at) ? '0x5' : '0x0'),
  eth_getProof: (address: string, _: unknown, at: unknown) => (isNew(at) ? since : then).prove(address),
  eth_getLogs: () =>
    block.receipts.flatMap((receipt) => receipt.logs.map((one: object) => ({ ...one, blockNumber: '0x64', blockHash: block.hash }))),
  eth_gasPrice: () => '0x5',
};

/** Cells by the path of their URL: what fails there now. */
const failing = new Map<string, { method: string; fault: Fault }>();
const asked = new Map<string, Set<string>>();

async function answer(request: IncomingMessage, reply: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const body = JSON.parse(Buffer.concat(parts).toString());
  const calls = [body].flat() as { id: number; method: string; params: unknown[] }[];
  const seen = asked.get(request.url!);
  for (const { method } of calls) seen?.add(method);
  const cell = failing.get(request.url!);
  const isHit = cell !== undefined && calls.some(({ method }) => method === cell.method);
  const answers = calls.map(({ id, method, params }) => {
    const value = cell && method === cell.method ? VALUES[cell.fault] : undefined;
    if (value) return { jsonrpc: '2.0', id, ...value };
    const found = ANSWERS[method];
    return found
      ? { jsonrpc: '2.0', id, result: found(...params) }
      : { jsonrpc: '2.0', id, error: { code: -32_601, message: `the method ${method} does not exist` } };
  });
  const text = JSON.stringify(Array.isArray(body) ? answers : answers[0]);
  const fault = isHit ? cell.fault : null;
  if (fault === 'refused') return void request.socket.destroy();
  if (fault === 'timeout') return void sleep(HELD_MS).then(() => request.socket.destroy());
  if (fault === '429') return void reply.writeHead(429, { 'retry-after': '0' }).end('slow down');
  if (fault === 'HTML') return void reply.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Sign in</title>');
  reply.writeHead(200, { 'content-type': 'application/json' }).end(fault === 'half an answer' ? text.slice(0, text.length >> 1) : text);
}

const server = createServer((request, reply) => void answer(request, reply));
servers.push(server);
const listening = new Promise<string>((resolve) => {
  server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
});

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
  has: (key) => key === US,
  ...{ watchesSpends: true, spends: () => false, recent: () => [US], waiting: [direct.hash] },
  open: () => ({ listed: [{ key: US, endsAt: ends, countsUntil: ends }], othersEnd: null }),
};
/** One round of a follower; how many transfers it reads. Errors: ChainError. */
async function round(kind: Kind, sources: readonly ChainSource[]): Promise<number> {
  if (kind === 'a node of Base') {
    // Ranges are asked of each source; one that fails is left out of the round.
    let failure: unknown = null;
    for (const { ranges, genesis } of sources) {
      try {
        await genesis();
        const { height } = await ranges!.head();
        await ranges!.at([height]);
        const found = await ranges!.search({ from: height, to: height }, [US]);
        const [hash = ''] = found.values();
        await ranges!.identity(hash);
        const { length } = (await ranges!.fetch(hash)).sightings(matcher);
        // What these do not say keeps nothing from being read.
        for (const more of [ranges!.tags(), ranges!.placeOf(block.transactions[1]!.hash), ranges!.holdings.read([])])
          await more.catch((error: unknown) => assert.ok(error instanceof ChainError, String(error)));
        return length;
      } catch (error) {
        assert.ok(error instanceof ChainError || error instanceof RangeRefused, String(error));
        failure = error;
      }
    }
    throw failure;
  }
  const chain =
    chains.get(sources) ??
    joinSources({
      ...{ coin: 'ETH', network: 'regtest', log, clock },
      sources: sources.map((source, i) => ({ name: `source${i}`, trust: kind === 'a provider' ? 'proven' : 'own', source, follows: true })),
    });
  chains.set(sources, chain);
  const survey = await chain.survey();
  const well = survey.find(({ state }) => state === 'ok');
  if (!well) throw new ChainError('outage', survey[0]!.reason!);
  await chain.genesis();
  const ref = (await chain.blockAt((await chain.tip()).height))!;
  const { sightings } = await (await chain.fetchBlock(ref.hash)).scan(matcher);
  await (await chain.fetchMempool()).scan(matcher);
  await chain.finality();
  return sightings.length;
}
const chains = new Map<readonly ChainSource[], ReturnType<typeof joinSources>>();

/** A busy machine may need more than one. */
const ROUNDS = 20;
/** Cells that are tried at once. */
const AT_ONCE = 12;
/** Rounds until one is read, as a follower tries again; the reason why none is. */
async function tryRounds(kind: Kind, sources: readonly ChainSource[], rounds = ROUNDS): Promise<string> {
  let reason = '';
  for (let i = 0; i < rounds; i++) {
    try {
      return (await round(kind, sources)) > 0 ? 'read' : 'read, nothing found';
    } catch (error) {
      // Anything else would end the follower.
      assert.ok(error instanceof ChainError || error instanceof RangeRefused, String((error as Error).stack));
      reason = error.message;
    }
  }
  return reason === '' ? 'STUCK' : `waits: ${reason}`;
}

for (const kind of KINDS)
  test(`no fault of ${kind} in any question stops a chain`, async () => {
    const url = await listening;
    const path = `/${kind.replaceAll(' ', '-')}`;
    asked.set(path, new Set());
    const healthy = await tryRounds(kind, [sourceOf(kind, `${url}${path}`)]);
    assert.equal(healthy, 'read');
    const questions = [...asked.get(path)!].sort();
    assert.ok(questions.length >= 6, questions.join());
    const cells = questions.flatMap((method) => FAULTS.map((fault) => ({ method, fault })));
    const fill = async ({ method, fault }: (typeof cells)[number], n: number) => {
      const [alone, bad, good] = [`${path}/${n}/alone`, `${path}/${n}/bad`, `${path}/${n}/good`];
      for (const one of [alone, bad]) failing.set(one, { method, fault });
      const lone = [sourceOf(kind, url + alone)];
      const beside = await tryRounds(kind, [sourceOf(kind, url + bad), sourceOf(kind, url + good)]);
      const waits = await tryRounds(kind, lone, 1);
      failing.delete(alone);
      return { method, fault, alone: waits, beside, healed: await tryRounds(kind, lone) };
    };
    const table: Awaited<ReturnType<typeof fill>>[] = [];
    for (let n = 0; n < cells.length; n += AT_ONCE)
      table.push(...(await Promise.all(cells.slice(n, n + AT_ONCE).map((cell, i) => fill(cell, n + i)))));
    const shownCell = ({ alone }: (typeof table)[number]) => (alone.startsWith('read') ? alone : alone.slice(0, 60));
    console.log(`\n${kind}: question, fault: alone -> beside a good one -> after the fault`);
    for (const row of table)
      console.log(`${row.method.padEnd(26)} ${row.fault.padEnd(15)} ${shownCell(row)} -> ${row.beside} -> ${row.healed}`);
    for (const { method, fault, alone, beside, healed } of table) {
      const cell = `${method}, ${fault}`;
      assert.notEqual(alone, 'STUCK', cell);
      assert.equal(beside, 'read', `${cell}: beside a good source`);
      assert.equal(healed, 'read', `${cell}: once the fault is over`);
    }
  });
