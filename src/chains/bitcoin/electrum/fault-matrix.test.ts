/** Every question that Florin asks an Electrum server, with every way to fail. Nothing counts on the word of one, so a good one is beside. */
import { after } from 'node:test';
import { createElectrumChain, spend, txidOfBytes } from '../../../../test/kit/electrum-chain.ts';
import { type ElectrumServer, type Instead, startElectrumServer } from '../../../../test/kit/electrum-server.ts';
import { type Cell, type Facts, type Fault, factOf, testFaults } from '../../../../test/kit/fault-matrix.ts';
import { addressOfScript } from '../../../addresses/address.ts';
import { createLog } from '../../../log.ts';
import { ChainError } from '../../chain-source.ts';
import { workHash } from '../header.ts';
import { createHeaderChain } from '../header-chain.ts';
import { regtestProof } from '../p2p/network-peers.ts';
import { lookUpBalance } from './electrum-balance.ts';
import { LARGE_BYTES } from './electrum-connection.ts';
import { createDesk, type Desk } from './electrum-desk.ts';
import { createElectrumHeaders } from './electrum-headers.ts';
import { createServers } from './electrum-servers.ts';
import { lookUpFees, lookUpTransaction, sendTransaction } from './electrum-source.ts';

const log = createLog('silent');
const isExpected = (error: unknown): boolean => error instanceof ChainError;
const said = (work: Promise<unknown>) => factOf({ isExpected }, work);
const INSTEAD: Readonly<Record<Fault, Instead>> = {
  refused: 'close',
  timeout: 'silent',
  '429': { error: { code: -101, message: 'excessive resource usage' } },
  'unknown error': { error: { code: 777, message: 'wug' } },
  'wrong type': { result: 42 },
  'old state': { error: { code: 2, message: 'daemon error: not available any more' } },
  HTML: { bytes: '<!doctype html><title>Sign in</title>\n' },
  'above a limit': { bytes: Buffer.alloc(LARGE_BYTES + 1, 0x20) },
  'half an answer': { bytes: '{"jsonrpc": "2.0", "resu' },
};

const COIN = 100_000_000n;
const script = (n: number): string => `0014${n.toString(16).padStart(2, '0').repeat(20)}`;
const address = addressOfScript(script(1), { coin: 'BTC', network: 'regtest' })!;
const chain = createElectrumChain();
const { coinbase } = chain.mine(script(1));
const paying = spend(
  [`${coinbase}:0`],
  [
    { script: script(2), units: 10n * COIN },
    { script: script(1), units: 39n * COIN },
  ],
);
chain.mine('51', [paying]);
const mined = txidOfBytes(paying);
chain.mine();
const BROADCAST = 'blockchain.transaction.broadcast';
let sent = 0n;
/** Another one each time, so that it shows whether a server took it. */
const another = (): Buffer => spend([`${mined}:1`], [{ script: script(3), units: 38n * COIN - ++sent }]);

const servers: ElectrumServer[] = [];
const start = async (): Promise<ElectrumServer> => {
  const server = await startElectrumServer({ chain, tls: false });
  servers.push(server);
  return server;
};
after(async () => {
  for (const server of servers) await server.close();
});

const { params, start: origin } = regtestProof('BTC');
/** Every round is an hour later: no server is passed over for what it did before. */
const HOUR_MS = 3_600_000;
function openDesk(asked: readonly ElectrumServer[], answerMs: number): { desk: Desk; later(): void } {
  let ms = 0;
  const clock = { now: () => new Date(), monotonicMs: () => ms };
  const hashWork = async (kind: Parameters<typeof workHash>[0], all: readonly Buffer[]) => all.map((header) => workHash(kind, header));
  const open = async () => ({
    chain: createHeaderChain({ params, start: origin, hashWork, nowSeconds: () => Math.floor(Date.now() / 1000) }),
    save: async () => {},
    catchUp: async () => true,
  });
  const desk = createDesk({
    ...{ family: 'BTC', network: 'regtest', pauseMs: 5, clock },
    servers: createServers({
      addresses: asked.map(({ name }) => ({ name, host: '127.0.0.1', port: Number(name.split(':')[1]), tls: false })),
      ...{ params, proxy: null, certificates: { isKnown: async () => true }, clock, log },
      waits: { connectMs: 2_000, answerMs, idleMs: 10_000 },
    }),
    headers: createElectrumHeaders({ params, checkpointHeight: 0, shared: () => null, open, keptByFollowers: true }),
    ours: { hasTransaction: async () => false, scriptsOf: async () => new Set() },
  });
  return {
    desk,
    later: () => {
      ms += HOUR_MS;
    },
  };
}

/** `takers`: servers that took what they were sent. */
async function read(desk: Desk, takers: readonly ElectrumServer[]): Promise<Facts> {
  const raw = another();
  const isTaken = () =>
    takers.some(({ asked }) => asked.some(({ method, params }) => method === BROADCAST && params[0] === raw.toString('hex')));
  return {
    transaction: await said(lookUpTransaction(desk, mined)),
    balance: await said(lookUpBalance(desk, address)),
    fees: await said(lookUpFees(desk)),
    sent: await said(sendTransaction(desk, raw).then(isTaken)),
  };
}

const good = [await start(), await start()];
testFaults({
  name: 'an Electrum server',
  isExpected,
  asked: () => good.flatMap(({ asked }) => asked.map(({ method }) => method)),
  open: async (cells: readonly (Cell | null)[]) => {
    const [cell = null, ...others] = cells;
    const bad = cell ? [await start()] : [];
    for (const server of bad) server.behave((method) => (cell && method === cell.question ? INSTEAD[cell.fault] : undefined));
    let isHealed = false;
    const takers = () => (cell?.question === BROADCAST && !isHealed ? good : [...bad, ...good]);
    // Where nothing fails, nothing is waited for in vain.
    const { desk, later } = openDesk([...bad, ...good.slice(0, cell ? 1 + others.length : 2)], cell ? 400 : 10_000);
    return {
      round: () => {
        later();
        return read(desk, takers());
      },
      heal: () => {
        isHealed = true;
        for (const server of bad) server.behave(() => undefined);
      },
      close: () => desk.servers.close(),
    };
  },
});
