/** An Electrum server that answers from blocks, over TLS or without, and that a test can make lie, wait or break the protocol. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { scriptHashOf } from '../../src/chains/bitcoin/electrum/electrum-proof.ts';
import { type ElectrumChain, txidOfBytes } from './electrum-chain.ts';

const FIXTURES = join(import.meta.dirname, '../fixtures/electrum');
/** Two certificates that the servers signed themselves. */
export const CERTIFICATES = ['server-1', 'server-2'].map((name) => readFileSync(join(FIXTURES, `${name}.pem`), 'utf8')) as [string, string];
/** An authority, and certificates that it signed: two for `electrum.example`, one that has expired, and one for another name. */
export const AUTHORITY = readFileSync(join(FIXTURES, 'authority.pem'), 'utf8');
export const signedCertificate = (name: 'first' | 'renewed' | 'expired' | 'elsewhere'): string =>
  readFileSync(join(FIXTURES, `signed-${name}.pem`), 'utf8');

type Params = readonly any[];
/** What the server does instead of answering truthfully: another result, an error, any bytes, nothing, or it closes the connection. */
export type Instead = { result: unknown } | { error: unknown } | { bytes: string | Buffer } | 'silent' | 'close';
/** Undefined: the truth. */
export type ElectrumScript = (method: string, params: Params, truth: () => unknown) => Instead | undefined;

export type ElectrumServer = {
  url: string;
  name: string;
  chain: ElectrumChain;
  /** Every request, in order. */
  asked: { method: string; params: Params }[];
  /** How often each method was asked for. */
  count(method: string): number;
  /** All bytes that it received, decrypted. */
  received(): string;
  connections(): number;
  behave(script: ElectrumScript): void;
  /** From now on it shows these blocks, and tells so. */
  show(chain: ElectrumChain): void;
  presentCertificate(pem: string): void;
  /** Sends bytes on every connection. */
  trickle(bytes: string): void;
  /** Ends all connections, as a restart does. */
  drop(): void;
  close(): Promise<void>;
};

class Refusal extends Error {}
const orRefuse = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Refusal();
  return value;
};

/** What an honest server of this version answers. */
function answerOf(chain: ElectrumChain, { software, protocol, fee }: Named, method: string, params: Params): unknown {
  switch (method) {
    case 'server.version':
      return [software, protocol];
    case 'server.features':
      return { genesis_hash: '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206', hash_function: 'sha256', pruning: null };
    case 'server.ping':
      return null;
    case 'blockchain.headers.subscribe':
      return { height: chain.tip().height, hex: chain.tip().hex };
    case 'blockchain.block.header':
      return orRefuse(chain.header(params[0]));
    case 'blockchain.block.headers': {
      const headers = Array.from({ length: params[1] }, (_, i) => chain.header(params[0] + i)).filter((one) => one !== undefined);
      const shown = protocol === '1.6' ? { headers } : { hex: headers.join('') };
      return { count: headers.length, max: 2016, ...shown };
    }
    case 'blockchain.scripthash.get_history':
      return chain.history(params[0]);
    case 'blockchain.scripthash.get_balance':
      return chain.balance(params[0]);
    case 'blockchain.scripthash.get_first_use':
      return chain.history(params[0])[0] ?? null;
    case 'blockchain.transaction.get': {
      const { hex, height } = orRefuse(chain.transaction(params[0]));
      return params[1] === true ? { hex, ...(height > 0 && { blockhash: blockHashAt(chain, height) }) } : hex;
    }
    case 'blockchain.transaction.get_merkle':
      return orRefuse(chain.branch(params[0]));
    case 'blockchain.transaction.id_from_pos': {
      const txid = orRefuse(chain.txidAt(params[0], params[1]));
      return { tx_hash: txid, merkle: chain.branch(txid)!.merkle };
    }
    case 'blockchain.transaction.broadcast':
      if (!/^0[12]000000/.test(params[0])) throw new Refusal();
      return txidOfBytes(Buffer.from(params[0], 'hex'));
    case 'blockchain.estimatefee':
      return fee;
    case 'blockchain.relayfee':
      return 1e-5;
    case 'mempool.get_info':
      return { mempoolminfee: 1e-5, minrelaytxfee: 1e-5 };
    default:
      throw new Refusal();
  }
}
/** The hash of a script is computed like that of a header once more: so the parent of the next block tells. */
const blockHashAt = (chain: ElectrumChain, height: number): string =>
  height === chain.tip().height
    ? chain.tip().hash
    : Buffer.from(chain.header(height + 1)!.slice(8, 72), 'hex')
        .reverse()
        .toString('hex');

type Named = { software: string; protocol: '1.4' | '1.6'; fee: number };

export async function startElectrumServer({
  chain,
  tls = true,
  certificate = CERTIFICATES[0],
  software = 'ElectrumX 1.20.0',
  protocol = '1.4',
  fee = 2.143e-5,
}: { chain: ElectrumChain; tls?: boolean; certificate?: string } & Partial<Named>): Promise<ElectrumServer> {
  const named = { software, protocol, fee };
  const asked: ElectrumServer['asked'] = [];
  const received: string[] = [];
  const open = new Set<Socket>();
  const subscribed = new Set<Socket>();
  let connections = 0;
  let script: ElectrumScript = () => undefined;
  let pem = certificate;
  const serve = (socket: Socket, line: string): void => {
    const { id, method, params } = JSON.parse(line) as { id: number; method: string; params: Params };
    asked.push({ method, params });
    if (method === 'blockchain.headers.subscribe') subscribed.add(socket);
    const truth = () => answerOf(shown.chain, named, method, params);
    const write = (message: object) => socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...message })}\n`);
    try {
      const instead = script(method, params, truth);
      if (instead === undefined) write({ result: truth() });
      else if (instead === 'close') socket.destroy();
      else if (instead !== 'silent') 'bytes' in instead ? socket.write(instead.bytes) : write(instead);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      write({ error: { code: 2, message: 'daemon error: no such thing' } });
    }
  };
  const take = (socket: Socket): void => {
    connections++;
    open.add(socket);
    let text = '';
    socket.on('error', () => {});
    socket.on('close', () => {
      open.delete(socket);
      subscribed.delete(socket);
    });
    socket.on('data', (part: Buffer) => {
      received.push(part.toString('latin1'));
      text += part.toString('latin1');
      const lines = text.split('\n');
      text = lines.pop()!;
      for (const line of lines) serve(socket, line);
    });
  };
  const secure = tls ? createTlsServer({ key: pem, cert: pem }, take) : null;
  const server = secure ?? createServer(take);
  secure?.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const drop = (): void => {
    for (const socket of open) socket.destroy();
  };
  const shown: ElectrumServer = {
    ...{ name: `127.0.0.1:${port}`, url: `${tls ? 'tls' : 'tcp'}://127.0.0.1:${port}`, chain, asked },
    count: (method) => asked.filter((one) => one.method === method).length,
    received: () => received.join(''),
    connections: () => connections,
    behave: (next) => {
      script = next;
    },
    show: (next) => {
      shown.chain = next;
      const { height, hex } = next.tip();
      const notice = { jsonrpc: '2.0', method: 'blockchain.headers.subscribe', params: [{ height, hex }] };
      for (const socket of subscribed) socket.write(`${JSON.stringify(notice)}\n`);
    },
    presentCertificate: (next) => {
      pem = next;
      secure?.setSecureContext({ key: pem, cert: pem });
      drop();
    },
    trickle: (bytes) => {
      for (const socket of open) socket.write(bytes);
    },
    drop,
    close: async () => {
      drop();
      server.close();
      await once(server, 'close');
    },
  };
  return shown;
}

/** Whether anything that a server received names this output script. */
export const wasAskedAbout = (server: ElectrumServer, script: string): boolean => server.received().includes(scriptHashOf(script));
