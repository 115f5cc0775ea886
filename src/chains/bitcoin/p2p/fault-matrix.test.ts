/** Every question that Florin asks a peer, with every way to fail. Peers know no rate limits; what they want less of they do not answer. */
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cell, FAULTS, type Facts, type Fault, testFaults } from '../../../../test/kit/fault-matrix.ts';
import { createPeerChain } from '../../../../test/kit/peer-chain.ts';
import { shownHash, transaction } from '../../../../test/kit/regtest-chain.ts';
import { type Link, type ScriptedPeer, startScriptedPeer } from '../../../../test/kit/scripted-peer.ts';
import { createLog } from '../../../log.ts';
import { ChainError, type Matcher } from '../../chain-source.ts';
import { checkedSource } from '../../checked-source.ts';
import { feesOf } from '../block-fees.ts';
import { workHash } from '../header.ts';
import { createHeaderChain } from '../header-chain.ts';
import { frame, MAX_PAYLOAD, type PeerMessage } from './messages.ts';
import { regtestProof, viewHeaders } from './network-peers.ts';
import { PEER_LIMITS, peerNetwork } from './peer.ts';
import { createPeerService } from './peer-service.ts';
import { PEERS_LIMITS } from './peers.ts';
import { createPeerSource } from './source.ts';

const log = createLog('silent');
const network = peerNetwork('BTC', 'regtest');
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
const SCRIPT = '0014' + '22'.repeat(20);
const matcher: Matcher = {
  has: (key) => key === SCRIPT,
  ...{ watchesSpends: true, spends: () => false, recent: () => [SCRIPT], waiting: [] },
};

/** The question of a message; null when it asks nothing. */
function questionOf(message: PeerMessage): string | null {
  if (message.command === 'getdata') return message.items[0]?.type === 2 ? 'getdata of a block' : 'getdata of a transaction';
  return ['version', 'getheaders', 'ping'].includes(message.command) ? message.command : null;
}
const ANSWER: Readonly<Record<string, string>> = {
  version: 'version',
  getheaders: 'headers',
  ping: 'pong',
  'getdata of a block': 'block',
  'getdata of a transaction': 'tx',
};
/** What a peer does instead of answering. Always true. */
function fail(link: Link, message: PeerMessage, { question, fault }: Cell): boolean {
  const answer = ANSWER[question]!;
  const whole = frame(network.magic, answer, Buffer.alloc(200, 1));
  // One header too many, or a message whose length says that it is one byte too long.
  const above =
    answer === 'headers'
      ? frame(network.magic, answer, Buffer.concat([Buffer.from('fdd107', 'hex'), Buffer.alloc(81 * 2_001)]))
      : Buffer.from(whole);
  if (answer !== 'headers') above.writeUInt32LE(MAX_PAYLOAD + 1, 16);
  const instead: Record<Fault, () => boolean> = {
    refused: link.end,
    timeout: () => true,
    '429': link.end,
    'unknown error': () => link.write(frame(network.magic, 'wug', Buffer.from('wug'))),
    'wrong type': () => link.write(frame(network.magic, answer, Buffer.from([42]))),
    'old state': () =>
      message.command === 'getheaders'
        ? link.send({ command: 'headers', headers: [] })
        : link.send({ command: 'notfound', items: message.command === 'getdata' ? message.items : [] }),
    HTML: () => link.write(Buffer.from('<!doctype html><title>Sign in</title>')),
    'above a limit': () => link.write(above),
    'half an answer': () => link.write(whole.subarray(0, 100)),
  };
  return instead[fault]();
}

const peers: ScriptedPeer[] = [];
const chain = createPeerChain('BTC', peers);
const paying = transaction([{ script: SCRIPT, units: 70_000n }]);
chain.mine(1);
chain.mine(1, { transactions: [paying] });
const HEIGHT = 2;
const waiting = transaction([{ script: SCRIPT, units: 80_000n }]);
chain.served.transactions.set(shownHash(waiting), waiting);
const start = async (cell: () => Cell | null): Promise<ScriptedPeer> => {
  const peer = await startScriptedPeer({
    ...{ network, chain: chain.served },
    script: (message, link) => {
      const now = cell();
      return now !== null && questionOf(message) === now.question ? fail(link, message, now) : undefined;
    },
  });
  peers.push(peer);
  return peer;
};
after(async () => {
  for (const peer of peers) await peer.close();
});
const good = [await start(() => null), await start(() => null)];

/** How long a round waits for what peers bring, and for an answer of one. Where nothing fails, nothing is waited for in vain. */
type Patience = { roundMs: number; answerMs: number };
const SHORT: Patience = { roundMs: 1_500, answerMs: 400 };
const LONG: Patience = { roundMs: 30_000, answerMs: 10_000 };
async function until({ roundMs }: Patience, isSo: () => boolean): Promise<boolean> {
  for (const end = performance.now() + roundMs; performance.now() < end; await sleep(10)) if (isSo()) return true;
  return isSo();
}

function follow(asked: readonly ScriptedPeer[], { answerMs: ms }: Patience) {
  const proof = regtestProof('BTC');
  const headers = createHeaderChain({
    ...proof,
    hashWork: async (kind, all) => all.map((header) => workHash(kind, header)),
    nowSeconds: () => Math.floor(Date.now() / 1000),
  });
  const service = createPeerService({
    ...{ network, view: viewHeaders(headers), given: asked.map(({ endpoint }) => endpoint), spacingSeconds: 600, clock, log },
    store: { load: async () => ({ anchors: [], proven: [] }), save: async () => {} },
    ...{ resolve: async () => [], onHint: () => {}, nextPeerMs: 100, checkMs: 100 },
    limits: { ...PEERS_LIMITS, tickMs: 20, againMs: 20, longestAgainMs: 100 },
    peerLimits: {
      ...PEER_LIMITS,
      ...{ connectMs: 2_000, handshakeMs: ms, headersMs: ms, blockMs: ms, messageMs: ms, pingEveryMs: 100, pongMs: ms, tickMs: 20 },
    },
  });
  const source = createPeerSource({
    ...{ family: 'BTC', network: 'regtest', chain: headers, service, clock, onHint: () => () => {}, close: () => {} },
    isReady: () => headers.tip().height === HEIGHT,
    kept: { keep: async () => {}, find: async () => new Map() },
  });
  return { service, source: checkedSource({ ...source, fees: async () => feesOf('BTC') }, { name: 'peers', clock }) };
}

testFaults(
  {
    name: 'a peer',
    faults: FAULTS.filter((fault) => fault !== '429'),
    // Two must announce a transaction.
    besides: 2,
    isExpected: (error) => error instanceof ChainError,
    // A round may end before a peer is asked whether it is there.
    asked: () => [...good.flatMap(({ messages }) => messages.flatMap((message) => questionOf(message) ?? [])), 'ping'],
    open: async (cells: readonly (Cell | null)[]) => {
      let healed = false;
      const bad = await Promise.all(cells.filter((cell) => cell !== null).map((cell) => start(() => (healed ? null : cell))));
      const asked = [...bad, ...good.slice(0, cells.length - bad.length)];
      const patience = bad.length > 0 ? SHORT : LONG;
      const { service, source } = follow(asked, patience);
      await service.start();
      const round = async (): Promise<Facts> => {
        // A new block is announced again and again, which asks peers once more that showed nothing before.
        const isRead = () => {
          for (const peer of asked) peer.announce({ command: 'inv', items: [{ type: 2, hash: chain.tip() }] });
          return service.view.tip().height === HEIGHT && service.status().connected >= Math.max(1, asked.length - bad.length);
        };
        // Good peers connect and have the headers, however busy the machine is.
        await until(bad.length < asked.length ? LONG : patience, isRead);
        const { height, hash } = await source.tip();
        if (height < HEIGHT) throw new ChainError('outage', `the headers are being read: block ${height}`);
        const { sightings } = await (await source.fetchBlock(hash)).scan(matcher);
        const txid = shownHash(waiting);
        const isHeard = () => {
          for (const peer of asked) peer.announce({ command: 'inv', items: [{ type: 1, hash: txid }] });
          return service.relay.fresh().some((one) => one.txid === txid);
        };
        await until(patience, isHeard);
        const pool = await (await source.fetchMempool()).scan(matcher);
        const heard = pool.sightings.map(({ units }) => units);
        return {
          transfers: sightings.map(({ units }) => units),
          // That peers are silent proves nothing.
          waiting: heard.length > 0 ? heard : undefined,
        };
      };
      return {
        round,
        heal: () => {
          healed = true;
        },
        close: service.close,
      };
    },
  },
  { questions: 5 },
);
