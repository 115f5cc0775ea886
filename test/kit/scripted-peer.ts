/** A peer that a test writes: a real listener on loopback that shakes hands, serves a chain, and misbehaves where told to. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import {
  commandOf,
  createFrameReader,
  decodeMessage,
  encodeMessage,
  frame,
  type PeerMessage,
  type WireHeader,
} from '../../src/chains/bitcoin/p2p/messages.ts';
import type { PeerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import type { PeerAddress } from '../../src/connections/socks5.ts';

/** One connection, as seen from the peer. Its functions return true, so that a script can end with them. */
export type Link = { send(message: PeerMessage): boolean; write(bytes: Buffer): boolean; end(): boolean; socket: Socket };
/** What a peer does on a message: nothing more when it returns true, else what an honest peer would do. */
export type Script = (message: PeerMessage, link: Link) => boolean | undefined;
/** What an honest peer serves. */
export type ServedChain = {
  /** From block 1, each with its id. */
  headers: { hash: string; header: WireHeader }[];
  blocks: Map<string, Buffer>;
  transactions: Map<string, Buffer>;
};
export type ScriptedPeer = {
  endpoint: PeerAddress;
  name: string;
  /** Everything that was sent to it. */
  received(): Buffer;
  messages: PeerMessage[];
  links: Set<Link>;
  /** How many connections were opened to it. */
  opened(): number;
  /** Sends to everybody who is connected. */
  announce(message: PeerMessage): void;
  close(): Promise<void>;
};

export const emptyChain = (): ServedChain => ({ headers: [], blocks: new Map(), transactions: new Map() });

const ALL_SERVICES = 0xc0dn;
const NO_ADDRESS = { services: 0n, ip: Buffer.alloc(16), port: 0 };

/** Starts a peer. `host`: another address of the loopback network is another network group. `port`: any free one without it. */
export async function startScriptedPeer({
  network,
  chain = emptyChain(),
  script = () => undefined,
  host = '127.0.0.1',
  port: wanted = 0,
  services = ALL_SERVICES,
  version = network.version,
}: {
  network: PeerNetwork;
  chain?: ServedChain;
  script?: Script;
  host?: string;
  port?: number;
  services?: bigint;
  version?: number;
}): Promise<ScriptedPeer> {
  const received: Buffer[] = [];
  const messages: PeerMessage[] = [];
  const links = new Set<Link>();
  let opened = 0;
  const hello: PeerMessage = {
    ...{ command: 'version', version, services, timeSeconds: BigInt(Math.floor(Date.now() / 1000)), to: NO_ADDRESS, from: NO_ADDRESS },
    ...{ nonce: 7n, agent: '/scripted:1.0/', height: chain.headers.length, tail: Buffer.from([1]) },
  };
  const server = createServer((socket) => {
    opened++;
    const write = (bytes: Buffer): boolean => {
      if (socket.writable) socket.write(bytes);
      return true;
    };
    const link: Link = {
      socket,
      write,
      send: (message) => write(frame(network.magic, commandOf(message), encodeMessage(message))),
      end: () => socket.destroy().destroyed,
    };
    links.add(link);
    const reader = createFrameReader({
      magic: network.magic,
      onFrame: (command, payload) => {
        const message = decodeMessage(command, payload, network.family);
        messages.push(message);
        if (!script(message, link)) serve(message, link, chain, hello);
        return true;
      },
    });
    socket.on('data', (bytes) => {
      received.push(bytes);
      reader.read(bytes);
    });
    socket.on('error', () => {});
    socket.on('close', () => links.delete(link));
  });
  server.listen(wanted, host);
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    endpoint: { host, port },
    name: `${host}:${port}`,
    received: () => Buffer.concat(received),
    messages,
    links,
    opened: () => opened,
    announce: (message) => {
      for (const link of links) link.send(message);
    },
    close: async () => {
      for (const { socket } of links) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** What an honest peer answers. */
function serve(message: PeerMessage, link: Link, chain: ServedChain, hello: PeerMessage): void {
  if (message.command === 'version') {
    link.send(hello);
    link.send({ command: 'verack' });
  } else if (message.command === 'ping') link.send({ command: 'pong', nonce: message.nonce });
  else if (message.command === 'getheaders') {
    const from = chain.headers.findLastIndex(({ hash }) => message.locator.includes(hash)) + 1;
    link.send({ command: 'headers', headers: chain.headers.slice(from, from + 2_000).map(({ header }) => header) });
  } else if (message.command === 'getdata') {
    const missing = [];
    for (const item of message.items) {
      const bytes = item.type === 2 ? chain.blocks.get(item.hash) : chain.transactions.get(item.hash);
      if (bytes) link.send({ command: item.type === 2 ? 'block' : 'tx', bytes });
      // An unknown block gets no answer at all.
      else if (item.type !== 2) missing.push(item);
    }
    if (missing.length > 0) link.send({ command: 'notfound', items: missing });
  }
}
