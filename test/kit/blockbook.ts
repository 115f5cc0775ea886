/**
 * A server that behaves as Blockbook's public documentation says (docs/api.md, openapi.yaml), over real HTTP and WebSocket, with its
 * limits and its failures. Its data is a chain that the test mines.
 */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { checksumAddress } from '../../src/chains/ethereum/address.ts';
import { COIN } from '../../src/core/coin.ts';
import type { ChainBlock, ChainTx, TestChain } from './test-chain.ts';

/** How the server behaves: correctly, or as servers do on bad days. */
export type Mood = 'well' | 'too_many_requests' | 'html' | 'slow' | 'down' | 'hangs' | 'cut_off' | 'node_down';

export type Blockbook = {
  url: string;
  chain: TestChain;
  /** Requested paths, in order. */
  requests: string[];
  /** Transactions that were sent to it, in hex. */
  sent: string[];
  /** What its node says to a transaction: why it is refused, or null. */
  judge(verdict: (hex: string) => string | null): void;
  /** Methods called over WebSocket, in order. */
  messages: string[];
  /** The number of open sockets. */
  sockets(): number;
  behave(mood: Mood): void;
  /** The chain to show from now on. */
  show(chain: TestChain): void;
  /** Reports the tip of an honest chain, and serves the blocks of the shown one below it. */
  nameTipOf(honest: TestChain): void;
  /** Changes the bytes of blocks that are served. */
  alter(change: (block: ChainBlock) => Buffer): void;
  /** The sockets stay open, but nothing is answered or sent any more. */
  silenceSockets(): void;
  /** Closes all sockets; new ones are refused until further notice. */
  refuseSockets(refuse: boolean): void;
  close(): Promise<void>;
};

const PAGE = 1_000;
const MAX_ADDRESSES = 1_000;
/** Empty fields are left out: null, "", 0 and empty lists. */
const omitEmpty = (value: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(value).filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== 0 && !(Array.isArray(v) && v.length === 0)),
  );
class PublicError extends Error {}

/** Starts a server on loopback. A small `pageSize` splits blocks into several pages; `rawBlocks` false is an old server. */
export async function startBlockbook(
  first: TestChain,
  {
    pageSize = PAGE,
    rawBlocks = true,
    perMinute = Number.POSITIVE_INFINITY,
    nodeVersion = { BTC: '290000', LTC: '210505', DASH: '230102', DOGE: '1140900', ETH: 'erigon/3.3.10' }[COIN[first.coin].family],
    nodeAhead = 0,
    initialSync = false,
    fees = { 2: '0.00030000', 6: '0.00020000', 24: '0.00010000' } as Record<number, string>,
  }: {
    pageSize?: number;
    rawBlocks?: boolean;
    perMinute?: number;
    nodeVersion?: string;
    /** How many blocks the server's index is behind its node. */
    nodeAhead?: number;
    initialSync?: boolean;
    fees?: Record<number, string>;
  } = {},
): Promise<Blockbook> {
  let chain = first;
  let honest: TestChain | null = null;
  let mood: Mood = 'well';
  let alter = (block: ChainBlock): Buffer => block.raw;
  let refusing = false;
  let silent = false;
  const requests: string[] = [];
  const sent: string[] = [];
  let judge: ((hex: string) => string | null) | null = null;
  const messages: string[] = [];
  let asked: number[] = [];
  const { coin } = first;
  const lower = (address: string) => (coin === 'ETH' ? address.toLowerCase() : address);

  const confirmations = (block: ChainBlock | null) =>
    block && chain.blocks[block.height] === block ? chain.tip().height - block.height + 1 : 0;
  const spentBy = (txid: string, vout: number) =>
    [...chain.blocks.flatMap((b) => b.txs), ...chain.mempool.values()].some((tx) =>
      tx.inputs.some((i) => i.txid === txid && i.vout === vout),
    );
  const total = (list: readonly { units: bigint }[]) => list.reduce((sum, one) => sum + one.units, 0n);
  /** The full form, or that of block pages: from the index, without scripts and spent outpoints. */
  const showTx = (tx: ChainTx, block: ChainBlock | null, full: boolean): Record<string, unknown> => ({
    txid: tx.txid,
    vin: tx.coinbase
      ? [{ n: 0, isAddress: false, ...(full ? { coinbase: '04ffff001d' } : { value: '0' }) }]
      : tx.inputs.map((input, n) => ({
          n,
          ...(full && coin !== 'ETH' && omitEmpty({ txid: input.txid, vout: input.vout, sequence: 4_294_967_293 })),
          addresses: [input.address],
          isAddress: true,
          ...(coin !== 'ETH' && { value: String(input.units) }),
        })),
    ...(full && coin !== 'ETH' && { hex: tx.raw.toString('hex') }),
    vout: tx.outputs.map((output, n) => ({
      value: String(output.units),
      n,
      ...(full && coin !== 'ETH' && { hex: output.script }),
      ...(coin !== 'ETH' && spentBy(tx.txid, n) && { spent: true }),
      addresses: output.script.startsWith('6a') ? ['OP_RETURN (hello)'] : [output.address],
      isAddress: !output.script.startsWith('6a'),
    })),
    ...(block ? { blockHash: block.hash, blockHeight: block.height } : { blockHeight: -1 }),
    confirmations: confirmations(block),
    blockTime: block?.time ?? tx.seenAt,
    value: String(total(tx.outputs)),
    ...(coin !== 'ETH' && { valueIn: String(total(tx.inputs)) }),
    fees: String(tx.feeUnits),
    ...(coin === 'ETH' && {
      ethereumSpecific: {
        status: block ? tx.status : -1,
        nonce: 0,
        gasLimit: 21_000,
        gasUsed: 21_000,
        gasPrice: '2000000000',
        ...(tx.internal!.length > 0 && {
          internalTransfers: tx.internal!.map(({ from, to, units }) => ({ type: 0, from, to, value: String(units) })),
        }),
      },
    }),
  });
  const blockBy = (id: string): ChainBlock => {
    const found = /^\d{1,9}$/.test(id)
      ? chain.blocks[Number(id)]
      : ([...chain.blocks, ...(honest?.blocks ?? [])].find((b) => b.hash === id) ?? chain.stale.get(id));
    if (!found) throw new PublicError('Block not found, Block not found');
    return found;
  };
  const touches = (tx: ChainTx, address: string) =>
    [...tx.inputs, ...tx.outputs].some((o) => lower(o.address) === address) ||
    (tx.internal ?? []).some(({ from, to }) => lower(from) === address || lower(to) === address);

  /**
   * What a transaction adds to and removes from an address. For ETH this comes from the index of internal transfers, including reverted
   * ones.
   */
  const moves = (tx: ChainTx, address: string, indexed: boolean): { in: bigint; out: bigint } => {
    const mine = (list: readonly { address: string; units: bigint }[]) => total(list.filter((o) => lower(o.address) === address));
    if (coin !== 'ETH') return { in: mine(tx.outputs), out: mine(tx.inputs) };
    const ok = tx.status === 1;
    const internal = (tx.internal ?? []).filter((i) => indexed || !i.reverted);
    const paysGas = lower(tx.inputs[0]!.address) === address;
    return {
      in: (ok ? mine(tx.outputs) : 0n) + total(internal.filter((i) => lower(i.to) === address)),
      out: (ok ? mine(tx.inputs) : 0n) + (paysGas ? tx.feeUnits : 0n) + total(internal.filter((i) => lower(i.from) === address)),
    };
  };
  const showAddress = (given: string, details: string): Record<string, unknown> => {
    const address = lower(given);
    const mined = chain.blocks.flatMap((block) => block.txs.filter((tx) => touches(tx, address)).map((tx) => ({ tx, block })));
    const waiting = [...chain.mempool.values()].filter((tx) => touches(tx, address));
    let received = 0n;
    let sent = 0n;
    for (const { tx } of mined) {
      const moved = moves(tx, address, false);
      received += moved.in;
      sent += moved.out;
    }
    const inflow = waiting.reduce((sum, tx) => sum + moves(tx, address, false).in, 0n);
    const outflow = waiting.reduce((sum, tx) => sum + moves(tx, address, false).out, 0n);
    return {
      page: 1,
      totalPages: 1,
      itemsOnPage: PAGE,
      address: coin === 'ETH' ? checksumAddress(address.slice(2)) : given,
      balance: String(received - sent),
      ...(coin !== 'ETH' && { totalReceived: String(received), totalSent: String(sent) }),
      // Without details the mempool is only counted.
      ...(details !== 'basic' && { unconfirmedBalance: String(inflow - outflow) }),
      ...(details !== 'basic' && outflow > 0n && { unconfirmedSending: String(outflow) }),
      unconfirmedTxs: waiting.length,
      txs: mined.length,
      ...(coin === 'ETH' && { nonTokenTxs: mined.length, nonce: '0' }),
      ...(details === 'txids' && { txids: [...waiting, ...mined.map((m) => m.tx)].map((tx) => tx.txid) }),
      ...(details === 'txs' && {
        transactions: [
          ...waiting.map((tx) => showTx(tx, null, true)),
          ...mined.toReversed().map(({ tx, block }) => showTx(tx, block, true)),
        ],
      }),
    };
  };

  /** Takes a transaction once, and refuses anything else. */
  const accept = (hex: string): unknown => {
    if (!/^0[12]000000/.test(hex)) throw new PublicError('-22: TX decode failed. Make sure the tx has at least one input.');
    const refusal = judge?.(hex);
    if (refusal) throw new PublicError(refusal);
    if (refusal === undefined && sent.includes(hex)) throw new PublicError('-27: Transaction already in block chain');
    sent.push(hex);
    return { result: createHash('sha256').update(hex).digest('hex') };
  };
  const answer = (path: string, query: URLSearchParams): unknown => {
    const [kind, id = ''] = path.split('/').slice(-2) as [string, string?];
    if (path === '/api/status' || path === '/api/') {
      const told = honest ?? chain;
      const best = told.tip().height;
      return {
        blockbook: {
          ...{ coin, network: coin, host: 'test', version: '0.5.1', gitCommit: 'a0960c8e', buildTime: '2024-08-08T12:32:50+00:00' },
          ...{
            syncMode: true,
            initialSync,
            inSync: !initialSync,
            bestHeight: best,
            inSyncMempool: true,
            decimals: coin === 'ETH' ? 18 : 8,
          },
          about: 'Blockbook - blockchain indexer for Trezor Suite.',
        },
        backend:
          mood === 'node_down'
            ? { error: 'connection refused' }
            : {
                chain: { mainnet: coin === 'ETH' ? 'mainnet' : 'main', testnet: 'test', regtest: 'regtest' }[chain.network],
                blocks: best + nodeAhead,
                headers: best + nodeAhead,
                bestBlockHash: told.tip().hash,
                version: nodeVersion,
                ...(coin !== 'ETH' && { subversion: '/Test:1.0/' }),
              },
      };
    }
    switch (kind) {
      case 'block-index': {
        const block = (Number(id) === honest?.tip().height ? honest : chain).blocks[Number(id)];
        if (!block) throw new Error('Block height out of range');
        return { blockHash: block.hash };
      }
      case 'block': {
        const block = blockBy(id);
        const pages = Math.max(1, Math.ceil(block.txs.length / pageSize));
        // A page out of range is replaced by the nearest one.
        const page = Math.min(Math.max(1, Number(query.get('page')) || 1), pages);
        return omitEmpty({
          page,
          totalPages: pages,
          itemsOnPage: pageSize,
          hash: block.hash,
          previousBlockHash: block.height === 0 ? '' : block.parent,
          height: block.height,
          confirmations: confirmations(block),
          time: block.time,
          merkleRoot: block.merkleRoot,
          ...(coin !== 'ETH' && {
            version: block.raw.readInt32LE(0),
            bits: block.raw.readUInt32LE(72).toString(16),
            nonce: String(block.raw.readUInt32LE(76)),
          }),
          txCount: block.txs.length,
          txs: block.txs.slice((page - 1) * pageSize, page * pageSize).map((tx) => showTx(tx, block, coin === 'ETH')),
        });
      }
      case 'rawblock':
        if (!rawBlocks) throw new Error('Internal server error');
        return { hex: alter(blockBy(id)).toString('hex') };
      case 'tx': {
        const found = chain.find(id);
        if (!found) throw new PublicError(`Transaction '${id}' not found`);
        return showTx(found.tx, found.block, true);
      }
      case 'address':
        return showAddress(id, query.get('details') ?? 'txids');
      case 'utxo':
        return [
          ...chain.blocks.flatMap((block) => block.txs.map((tx) => ({ tx, block }))),
          ...(query.get('confirmed') === 'true' ? [] : [...chain.mempool.values()].map((tx) => ({ tx, block: null }))),
        ].flatMap(({ tx, block }) =>
          tx.outputs.flatMap(({ address, units }, vout) => {
            const inBlocks = chain.blocks.some((b) => b.txs.some((t) => t.inputs.some((i) => i.txid === tx.txid && i.vout === vout)));
            const gone = query.get('confirmed') === 'true' ? inBlocks : spentBy(tx.txid, vout);
            return address === id && !gone ? [{ txid: tx.txid, vout, value: String(units), confirmations: confirmations(block) }] : [];
          }),
        );
      case 'balancehistory': {
        const address = lower(id);
        const txs = chain.blocks.flatMap((b) => b.txs.filter((tx) => touches(tx, address)));
        const sums = txs.map((tx) => moves(tx, address, true));
        if (sums.length === 0) return [];
        const of = (way: 'in' | 'out') => String(sums.reduce((sum, one) => sum + one[way], 0n));
        return [{ time: chain.tip().time, txs: txs.length, received: of('in'), sent: of('out'), sentToSelf: '0', rates: { usd: 1 } }];
      }
      case 'estimatefee': {
        const fee = fees[Number(id)];
        if (fee === undefined) throw new Error('Insufficient data or no feerate found');
        return { result: fee };
      }
      default:
        throw new PublicError(`unknown path ${path}`);
    }
  };

  const serve = async (request: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url!, 'http://localhost');
    requests.push(request.url!);
    const send = (status: number, type: string, body: string, headers: Record<string, string> = {}) => {
      reply.writeHead(status, { 'content-type': type, ...headers });
      reply.end(body);
    };
    const json = (status: number, body: unknown, headers?: Record<string, string>) =>
      send(status, 'application/json; charset=utf-8', JSON.stringify(body), headers);
    const minuteAgo = performance.now() - 60_000;
    asked = asked.filter((at) => at > minuteAgo);
    asked.push(performance.now());
    if (mood === 'too_many_requests' || asked.length > perMinute)
      return json(429, { error: 'Too many requests' }, { 'retry-after': mood === 'too_many_requests' ? '1' : '30' });
    if (mood === 'html') return send(502, 'text/html', '<html><body><h1>502 Bad Gateway</h1></body></html>');
    if (mood === 'down') return void request.socket.destroy();
    if (mood === 'hangs') return;
    if (mood === 'slow') await sleep(1_500);
    try {
      const body =
        request.method === 'POST' && pathname === '/api/v2/sendtx/' ? accept(await text(request)) : answer(pathname, searchParams);
      if (mood === 'cut_off') {
        const text = JSON.stringify(body);
        reply.writeHead(200, { 'content-type': 'application/json', 'content-length': String(text.length) });
        reply.write(text.slice(0, text.length / 2));
        return void setTimeout(() => request.socket.destroy(), 20);
      }
      json(200, body);
    } catch (error) {
      if (error instanceof PublicError) json(400, { error: error.message });
      else json(500, { error: `Internal server error: ${(error as Error).message}` });
    }
  };

  // WebSocket (RFC 6455): text frames without fragments, as clients of this interface send them.
  type Peer = { socket: Socket; blocks: string | null; addresses: Set<string>; addressesId: string };
  const peers = new Set<Peer>();
  const frame = (text: string): Buffer => {
    const body = Buffer.from(text);
    const head = body.length < 126 ? Buffer.from([0x81, body.length]) : Buffer.alloc(body.length < 65_536 ? 4 : 10);
    if (body.length >= 126) {
      head[0] = 0x81;
      head[1] = body.length < 65_536 ? 126 : 127;
      if (body.length < 65_536) head.writeUInt16BE(body.length, 2);
      else head.writeBigUInt64BE(BigInt(body.length), 2);
    }
    return Buffer.concat([head, body]);
  };
  const tell = (peer: Peer, id: string, data: unknown) => {
    if (!silent) peer.socket.write(frame(JSON.stringify({ id, data })));
  };
  const hear = (peer: Peer, text: string) => {
    const { id, method, params } = JSON.parse(text) as { id: string; method: string; params: { addresses?: string[] } };
    messages.push(method);
    switch (method) {
      case 'ping':
        return tell(peer, id, {});
      case 'getInfo':
        return tell(peer, id, {
          name: coin,
          bestHeight: chain.tip().height,
          bestHash: chain.tip().hash,
          block0Hash: chain.blocks[0]!.hash,
        });
      case 'subscribeNewBlock':
        peer.blocks = id;
        return tell(peer, id, { subscribed: true });
      case 'subscribeAddresses': {
        const addresses = params.addresses ?? [];
        if (addresses.length > MAX_ADDRESSES) return tell(peer, id, { error: { message: 'too many addresses' } });
        // A new list replaces the previous one.
        peer.addresses = new Set(addresses.map(lower));
        peer.addressesId = id;
        return tell(peer, id, { subscribed: true });
      }
      default:
        return tell(peer, id, { error: { message: `unknown method ${method}` } });
    }
  };
  const connect = (request: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {});
    if (refusing || mood === 'down' || !request.url!.startsWith('/websocket')) return void socket.destroy();
    const accept = createHash('sha1')
      .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    const peer: Peer = { socket, blocks: null, addresses: new Set(), addressesId: '' };
    peers.add(peer);
    socket.on('close', () => peers.delete(peer));
    let kept = Buffer.alloc(0);
    socket.on('data', (bytes: Buffer) => {
      kept = Buffer.concat([kept, bytes]);
      for (;;) {
        if (kept.length < 6) return;
        let length = kept[1]! & 0x7f;
        let at = 2;
        if (length === 126) [length, at] = [kept.readUInt16BE(2), 4];
        else if (length === 127) [length, at] = [Number(kept.readBigUInt64BE(2)), 10];
        if (kept.length < at + 4 + length) return;
        const mask = kept.subarray(at, at + 4);
        const body = Buffer.from(kept.subarray(at + 4, at + 4 + length)).map((byte, i) => byte ^ mask[i % 4]!);
        const opcode = kept[0]! & 0x0f;
        kept = kept.subarray(at + 4 + length);
        if (opcode === 8) return void socket.end();
        if (opcode === 1 && !silent) hear(peer, Buffer.from(body).toString());
      }
    });
  };
  const listen = (on: TestChain) =>
    on.on(({ block, tx }) => {
      if (on !== chain) return;
      for (const peer of peers) {
        if (block && peer.blocks !== null) tell(peer, peer.blocks, { height: block.height, hash: block.hash });
        if (!tx) continue;
        for (const address of new Set([...tx.inputs, ...tx.outputs].map((o) => lower(o.address))))
          if (peer.addresses.has(address)) tell(peer, peer.addressesId, { address, tx: showTx(tx, null, true) });
      }
    });
  listen(first);

  const server = createServer((request, reply) => void serve(request, reply));
  server.on('upgrade', (request, socket) => connect(request, socket as Socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get chain() {
      return chain;
    },
    requests,
    sent,
    judge: (verdict) => {
      judge = verdict;
    },
    messages,
    sockets: () => peers.size,
    behave: (next) => {
      mood = next;
      if (next === 'down') for (const peer of peers) peer.socket.destroy();
    },
    show: (next) => {
      if (next !== chain) listen(next);
      chain = next;
      for (const peer of peers) if (peer.blocks !== null) tell(peer, peer.blocks, { height: chain.tip().height, hash: chain.tip().hash });
    },
    nameTipOf: (of) => {
      honest = of;
    },
    alter: (change) => {
      alter = change;
    },
    silenceSockets: () => {
      silent = true;
    },
    refuseSockets: (refuse) => {
      refusing = refuse;
      silent = false;
      if (refuse) for (const peer of peers) peer.socket.destroy();
    },
    close: async () => {
      for (const peer of peers) peer.socket.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
