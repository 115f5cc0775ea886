/**
 * Every limit in the parsers of what strangers send, beside the rule of the protocol. A limit below that rule would be a switch: a miner
 * who makes what the network accepts and Florin refuses would stop the chain. So none is below it, and where the rules know no bound there is none here but
 * the size of the message or answer.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { PARAMS } from '../../src/addresses/params.ts';
import { checkAuxpow, MAX_CHAIN_BRANCH, UNMARKED_WITHIN } from '../../src/chains/bitcoin/auxpow.ts';
import { BlockError, parseBlock } from '../../src/chains/bitcoin/block-proof.ts';
import { createCoreCalls, MAX_REPLY_BYTES } from '../../src/chains/bitcoin/core-calls.ts';
import { createLineReader, LARGE_BYTES, LineError } from '../../src/chains/bitcoin/electrum/electrum-connection.ts';
import { mostHeaders, readHeaders } from '../../src/chains/bitcoin/electrum/electrum-headers.ts';
import { ElectrumProofError as ElectrumError, MAX_DEPTH, readBranch } from '../../src/chains/bitcoin/electrum/electrum-proof.ts';
import { HeaderError } from '../../src/chains/bitcoin/header.ts';
import {
  createFrameReader,
  decodeMessage,
  frame,
  MAX_ADDRESS_BYTES,
  MAX_ADDRESSES,
  MAX_AGENT_BYTES,
  MAX_HEADERS,
  MAX_ITEMS,
  MAX_LOCATOR,
  MAX_PAYLOAD,
  MAX_REFUSAL_BYTES,
  MAX_REFUSED_BYTES,
  WireError,
} from '../../src/chains/bitcoin/p2p/messages.ts';
import { PROOF_PARAMS } from '../../src/chains/bitcoin/proof-params.ts';
import { MAX_COUNT, sha256d, takeCount, takeTransaction } from '../../src/chains/bitcoin/strict-reader.ts';
import { ChainError } from '../../src/chains/chain-source.ts';
import { provenHeader } from '../../src/chains/ethereum/block-header.ts';
import { encodeTransaction } from '../../src/chains/ethereum/eth-block.ts';
import { createEthRpc, REPLY_LIMITS } from '../../src/chains/ethereum/eth-rpc.ts';
import { createBeaconServers, MAINNET, MAX_BYTES } from '../../src/chains/ethereum/light-client/beacon-networks.ts';
import { MAX_EXTRA_DATA, startFrom } from '../../src/chains/ethereum/light-client/light-client.ts';
import { createLightRounds, MOST_SENT, MOST_UPDATES } from '../../src/chains/ethereum/light-client/light-service.ts';
import { branchOf, LAST_SLOT, MAX_BRANCH, readSlot, uintOf } from '../../src/chains/ethereum/light-client/ssz.ts';
import { encodeReceipt } from '../../src/chains/ethereum/receipts.ts';
import { NODE_BYTES, PROOF_NODES, readAccountProof } from '../../src/chains/ethereum/trie.ts';
import { createOutgoing } from '../../src/connections/http-client.ts';
import { openSocket } from '../../src/connections/socks5.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import { decodeRlp, encodeRlp, LENGTH_BYTES, ProofError, RLP_LIMITS, type Rlp } from '../../src/evm/rlp.ts';
import { createLog } from '../../src/log.ts';
import { createBeaconChain, smallNetwork } from './beacon-chain.ts';
import { makeBlock } from './ethereum-blocks.ts';
import { bytesOfHex } from './ethereum-data.ts';
import { stateOf } from './ethereum-state.ts';
import { sentOf } from './headers.ts';
import { mergeMine } from './merge-mining.ts';
import { startSocksProxy } from './socks-proxy.ts';

export type Limit = {
  what: string;
  /** The file under `src/chains` that has it. */
  where: string;
  /** Null: only what contains it bounds it. */
  ours: number | null;
  /** The most that the protocol allows; null: it has no bound, or none but the price of gas. */
  rule: number | null;
  source: string;
  /** Hands a parser so much of it. Errors: what the parser refuses with. */
  take(count: number): unknown;
  /** The error by which the source of it is left. */
  refusal: abstract new (
    ...args: never[]
  ) => Error;
};

const compact = (value: number): Buffer => {
  if (value < 0xfd) return Buffer.from([value]);
  const bytes = Buffer.alloc(value <= 0xffff ? 3 : 5);
  bytes[0] = value <= 0xffff ? 0xfd : 0xfe;
  bytes.writeUIntLE(value, 1, bytes.length - 1);
  return bytes;
};
const rows = (count: number, bytes: number): Buffer => Buffer.concat([compact(count), Buffer.alloc(count * bytes)]);
const text = (length: number): Buffer => Buffer.concat([compact(length), Buffer.alloc(length, 0x41)]);

/** A Dogecoin header on the wire, with so many hashes in the two branches of its merge-mining proof, and such a script in its parent. */
function mergedHeader({ coinbase = 0, chains = 0, script = 0 }: { coinbase?: number; chains?: number; script?: number }): Buffer {
  const version = Buffer.from('01010100', 'hex');
  const input = Buffer.concat([compact(1), Buffer.alloc(36), compact(script), Buffer.alloc(script), Buffer.alloc(4)]);
  const parent = Buffer.concat([Buffer.from([1, 0, 0, 0]), input, compact(0), Buffer.alloc(4)]);
  const branch = (hashes: number): Buffer => Buffer.concat([rows(hashes, 32), Buffer.alloc(4)]);
  return Buffer.concat([version, Buffer.alloc(76), parent, Buffer.alloc(32), branch(coinbase), branch(chains), Buffer.alloc(81)]);
}

const MAGIC = Buffer.from('c0c0c0c0', 'hex');
/** A whole message, as it arrives. */
function receive(command: string, payload: Buffer): void {
  const onFrame = (name: string, bytes: Buffer): boolean => decodeMessage(name, bytes, 'DOGE').command.length > 0;
  createFrameReader({ magic: MAGIC, onFrame }).read(frame(MAGIC, command, payload));
}
const message = (
  what: string,
  { ours, rule, source }: Pick<Limit, 'ours' | 'rule' | 'source'>,
  command: string,
  payload: (count: number) => Buffer,
): Limit => ({
  ...{ what, where: 'bitcoin/p2p/messages.ts', ours, rule, source, refusal: WireError },
  take: (count) => receive(command, payload(count)),
});
const NO_RULE = { ours: null, rule: null, source: 'Dogecoin: none' } as const;
/** 2,000 headers of Dogecoin in a message of this size: the first one has as large a proof as its miner wanted. */
function headersOfSize(size: number): Buffer {
  const others = Buffer.alloc((MAX_HEADERS - 1) * 81);
  const first = mergedHeader({ script: size - others.length - mergedHeader({ script: 100_000 }).length + 100_000 - 3 });
  return Buffer.concat([compact(MAX_HEADERS), first, others]);
}
const MESSAGES: readonly Limit[] = [
  {
    ...{ what: 'bytes of a message', where: 'bitcoin/p2p/messages.ts', ours: MAX_PAYLOAD, rule: 4_000_000, refusal: WireError },
    source: 'Bitcoin and Dogecoin: MAX_PROTOCOL_MESSAGE_LENGTH (Dash has 3 MiB; Litecoin 32 MB, for nothing that is asked for)',
    take: (size) => receive('headers', headersOfSize(size)),
  },
  message('headers of a message', { ours: MAX_HEADERS, rule: 2_000, source: 'MAX_HEADERS_RESULTS' }, 'headers', (n) => rows(n, 81)),
  message('hashes of a locator', { ours: MAX_LOCATOR, rule: 101, source: 'MAX_LOCATOR_SZ' }, 'getheaders', (n) =>
    Buffer.concat([Buffer.alloc(4), rows(n, 32), Buffer.alloc(32)]),
  ),
  ...['inv', 'getdata', 'notfound'].map((command) =>
    message(`items of ${command}`, { ours: MAX_ITEMS, rule: 50_000, source: 'MAX_INV_SZ' }, command, (n) => rows(n, 36)),
  ),
  message('addresses of addr', { ours: MAX_ADDRESSES, rule: 1_000, source: 'MAX_ADDR_TO_SEND' }, 'addr', (n) => rows(n, 30)),
  message('addresses of addrv2', { ours: MAX_ADDRESSES, rule: 1_000, source: 'MAX_ADDR_TO_SEND' }, 'addrv2', (n) => rows(n, 9)),
  message('bytes of an address', { ours: MAX_ADDRESS_BYTES, rule: 512, source: 'BIP-155' }, 'addrv2', (n) =>
    Buffer.concat([Buffer.from('01000000000004', 'hex'), rows(n, 1), Buffer.alloc(2)]),
  ),
  message('bytes of a user agent', { ours: MAX_AGENT_BYTES, rule: 256, source: 'MAX_SUBVERSION_LENGTH' }, 'version', (n) =>
    Buffer.concat([Buffer.alloc(80), text(n), Buffer.alloc(4)]),
  ),
  message('bytes of a refused command', { ours: MAX_REFUSED_BYTES, rule: 12, source: 'COMMAND_SIZE' }, 'reject', (n) =>
    Buffer.concat([text(n), Buffer.alloc(2)]),
  ),
  message('bytes of a refusal', { ours: MAX_REFUSAL_BYTES, rule: 111, source: 'MAX_REJECT_MESSAGE_LENGTH' }, 'reject', (n) =>
    Buffer.concat([Buffer.alloc(2), text(n)]),
  ),
  message(
    'hashes of the chains in a proof of merged mining',
    { ours: MAX_CHAIN_BRANCH, rule: 30, source: 'Dogecoin: CAuxPow::check' },
    'headers',
    (chains) => Buffer.concat([compact(1), mergedHeader({ chains })]),
  ),
  message('hashes of the coinbase in a proof of merged mining', NO_RULE, 'headers', (coinbase) =>
    Buffer.concat([compact(1), mergedHeader({ coinbase })]),
  ),
  message("bytes of the coinbase's script in a proof of merged mining", NO_RULE, 'headers', (script) =>
    Buffer.concat([compact(1), mergedHeader({ script })]),
  ),
];

/** A proxy that answers with such an address, and what it sends after that. */
async function proxied(kind: number, address: Buffer): Promise<void> {
  const after = Buffer.from('the peer');
  const proxy = await startSocksProxy({ answers: Buffer.concat([Buffer.from([5, 0, 5, 0, 0, kind]), address, Buffer.alloc(2), after]) });
  try {
    const at = { host: '127.0.0.1', port: proxy.port };
    const socket = await openSocket({ to: at, proxy: { ...at, user: '', password: '' }, timeoutMs: 10_000 });
    const [bytes] = await once(socket, 'data');
    socket.destroy();
    if (!after.equals(bytes as Buffer)) throw new Error(`what follows the answer begins with ${bytes}`);
  } finally {
    await proxy.close();
  }
}
const PROXY: readonly Limit[] = [
  {
    ...{ what: 'the kind of an address in the answer of a SOCKS5 proxy', where: 'connections/socks5.ts', ours: 4, rule: 4 },
    ...{ source: 'RFC 1928: 1, 3 and 4', take: (kind: number) => proxied(kind, Buffer.alloc(16)), refusal: Error },
  },
  {
    ...{ what: 'bytes of a name in the answer of a SOCKS5 proxy', where: 'connections/socks5.ts', ours: 255, rule: 255 },
    source: 'RFC 1928: one byte is its length, so that more cannot be said',
    // Of one more, the length is 0, and the name is taken for what the peer sends.
    take: (size) => proxied(3, Buffer.concat([Buffer.from(Uint8Array.of(size)), Buffer.alloc(size, 0x41)])),
    refusal: Error,
  },
];

/** A block of one transaction whose size, with the header and without witnesses, is this. */
function blockOfSize(size: number): Buffer {
  const from = Buffer.concat([
    Buffer.from([1, 0, 0, 0, 1]),
    Buffer.alloc(32),
    Buffer.alloc(4, 0xff),
    Buffer.from([0]),
    Buffer.alloc(4, 0xff),
  ]);
  const script = size - 80 - from.length - 1 - 8 - 5 - 4;
  const coinbase = Buffer.concat([from, Buffer.from([1]), Buffer.alloc(8), compact(script), Buffer.alloc(script), Buffer.alloc(4)]);
  const header = Buffer.alloc(80);
  sha256d(coinbase).copy(header, 36);
  return Buffer.concat([header, Buffer.from([1]), coinbase]);
}
const block = (coin: BitcoinFamily, rule: number, source: string): Limit => ({
  ...{
    what: `bytes of a ${coin} block without witnesses`,
    where: 'bitcoin/block-proof.ts',
    ours: PARAMS[coin].maxBlockBytes,
    rule,
    source,
  },
  ...{ take: (size: number) => parseBlock(blockOfSize(size), coin), refusal: BlockError },
});
const DOGE_HEADER = Buffer.alloc(80);
DOGE_HEADER.writeInt32LE(0x00620104);
const checkProof = (how: Parameters<typeof mergeMine>[1]): Buffer =>
  checkAuxpow(PROOF_PARAMS.DOGE.main.auxpow, { header: DOGE_HEADER, id: sha256d(DOGE_HEADER), auxpow: mergeMine(DOGE_HEADER, how) });
/** A transaction with so many inputs and outputs. */
const transactionOf = (inputs: number, outputs: number): Buffer =>
  Buffer.concat([Buffer.alloc(4), rows(inputs, 41), rows(outputs, 9), Buffer.alloc(4)]);
const BLOCKS: readonly Limit[] = [
  block('BTC', 1_000_000, 'MAX_BLOCK_WEIGHT / WITNESS_SCALE_FACTOR'),
  block('LTC', 1_000_000, 'MAX_BLOCK_WEIGHT / WITNESS_SCALE_FACTOR, without the extension block'),
  block('DOGE', 1_000_000, 'MAX_BLOCK_BASE_SIZE, which also counts the proof of merged mining'),
  block('DASH', 2_000_000, 'DIP-1: MAX_DIP0001_BLOCK_SIZE'),
  {
    ...{ what: 'a count of anything', where: 'bitcoin/strict-reader.ts', ours: MAX_COUNT, rule: 0x02000000, source: 'MAX_SIZE' },
    ...{ take: (count: number) => takeCount({ bytes: rows(count, 1), at: 0 }, 1), refusal: RangeError },
  },
  ...['inputs', 'outputs'].map(
    (what, i): Limit => ({
      ...{ what: `${what} of a transaction`, where: 'bitcoin/strict-reader.ts', ours: null, rule: null, source: 'the size of a block' },
      take: (n) =>
        takeTransaction({ bytes: transactionOf(i === 0 ? n : 1, i === 0 ? 1 : n), at: 0 }, { witness: true, mweb: 'none', extra: false }),
      refusal: RangeError,
    }),
  ),
  {
    ...{ what: 'hashes of the chains in a checked proof', where: 'bitcoin/auxpow.ts', ours: MAX_CHAIN_BRANCH, rule: 30 },
    ...{ source: 'Dogecoin: CAuxPow::check', take: (levels: number) => checkProof({ levels }), refusal: HeaderError },
  },
  {
    ...{ what: 'bytes before a commitment without a marker', where: 'bitcoin/auxpow.ts', ours: UNMARKED_WITHIN, rule: 20 },
    source: 'Dogecoin: CAuxPow::check',
    take: (before: number) => checkProof({ script: (root, tail) => Buffer.concat([Buffer.alloc(before), root, tail]) }),
    refusal: HeaderError,
  },
];

const [PLAIN] = sentOf('doge-main-5610330-auxpow.hex');
const electrumHeaders = (coin: 'BTC' | 'DOGE', source: string): Limit => {
  const params = PROOF_PARAMS[coin].main;
  const most = mostHeaders(params);
  const header = coin === 'BTC' ? Buffer.alloc(80) : Buffer.concat([PLAIN!.bytes, PLAIN!.auxpow!]);
  return {
    ...{ what: `${coin} headers of an answer`, where: 'bitcoin/electrum/electrum-headers.ts', ours: most, rule: most, source },
    take: (count) => readHeaders(params, { hex: Buffer.concat(Array<Buffer>(count).fill(header)).toString('hex') }, most),
    refusal: ElectrumError,
  };
};
const ELECTRUM: readonly Limit[] = [
  {
    ...{ what: 'bytes of a line', where: 'bitcoin/electrum/electrum-connection.ts', ours: LARGE_BYTES, rule: 2 * 4_000_000 },
    source: 'hex of a transaction (MAX_BLOCK_WEIGHT) or of headers in a message of Dogecoin; also where a new block is announced',
    take: (size) => createLineReader({ longest: LARGE_BYTES, onLine: () => {} }).take(Buffer.alloc(size, 0x20)),
    refusal: LineError,
  },
  electrumHeaders('BTC', 'ElectrumX: MAX_CHUNK_SIZE; never more than were asked for'),
  electrumHeaders('DOGE', 'never more than were asked for'),
  {
    ...{ what: 'hashes of a branch', where: 'bitcoin/electrum/electrum-proof.ts', ours: MAX_DEPTH, rule: 18 },
    source: 'transactions of 10 bytes in a block of 2,000,000: fewer than 2^18',
    take: (depth) => readBranch(Array(depth).fill('00'.repeat(32)), 0),
    refusal: ElectrumError,
  },
];

const ACCOUNT = `0x${'ab'.repeat(20)}`;
const HASH = `0x${'cd'.repeat(32)}`;
const log = (topics: number, data = 0) => ({ address: ACCOUNT, topics: Array(topics).fill(HASH), data: `0x${'00'.repeat(data)}` });
const receiptWith = (logs: readonly unknown[]) =>
  encodeReceipt({ status: '0x1', cumulativeGasUsed: '0x1', logsBloom: `0x${'00'.repeat(256)}`, logs });
const transactionWith = (fields: object) =>
  encodeTransaction({
    ...{
      type: '0x3',
      chainId: '0x1',
      nonce: '0x0',
      maxPriorityFeePerGas: '0x0',
      maxFeePerGas: '0x0',
      gas: '0x0',
      value: '0x0',
      input: '0x',
    },
    ...{ maxFeePerBlobGas: '0x0', blobVersionedHashes: [], accessList: [], yParity: '0x0', r: '0x1', s: '0x1', ...fields },
  });
/** Only the price of gas bounds it. */
const paidByGas = (what: string, where: string, source: string, take: Limit['take']): Limit => ({
  ...{ what, where: `ethereum/${where}`, ours: null, rule: null, source, take, refusal: ProofError },
});
const proofRefusal = (nodes: readonly string[]): void => {
  const { root } = stateOf({});
  readAccountProof(
    { address: ACCOUNT, accountProof: nodes, balance: '0x0', nonce: '0x0', codeHash: HASH, storageHash: HASH, storageProof: [] },
    { stateRoot: bytesOfHex(root), address: bytesOfHex(ACCOUNT), slots: [] },
  );
};
/** Whether it is the size that is refused: what fits is refused later, because it proves nothing. */
const sizeOnly = (isSize: RegExp, take: () => void): void => {
  try {
    take();
  } catch (error) {
    if (isSize.test((error as Error).message)) throw error;
  }
};
const nested = (depth: number): Rlp => (depth === 1 ? [] : [nested(depth - 1)]);
function extraData(bytes: number): void {
  const { header, hash } = makeBlock({ height: 1, parent: HASH, fields: { extraData: `0x${'00'.repeat(bytes)}` } });
  provenHeader(header, bytesOfHex(hash));
}
const ETHEREUM: readonly Limit[] = [
  paidByGas('logs of a receipt', 'receipts.ts', '375 gas each; a million fit in a block of Base', (n) =>
    receiptWith(Array(n).fill(log(0))),
  ),
  paidByGas('bytes of a log', 'receipts.ts', '8 gas each, and memory', (n) => receiptWith([log(0, n)])),
  {
    ...{
      what: 'topics of a log',
      where: 'ethereum/receipts.ts',
      ours: 4,
      rule: 4,
      source: 'Yellow Paper: LOG0 to LOG4',
      refusal: ProofError,
    },
    take: (n) => receiptWith([log(n)]),
  },
  paidByGas('bytes of a call', 'block-transactions.ts', '4 gas each', (n) => transactionWith({ input: `0x${'00'.repeat(n)}` })),
  paidByGas('addresses of an access list', 'block-transactions.ts', 'EIP-2930: 2,400 gas each', (n) =>
    transactionWith({ accessList: Array(n).fill({ address: ACCOUNT, storageKeys: [] }) }),
  ),
  paidByGas('keys of an access list', 'block-transactions.ts', 'EIP-2930: 1,900 gas each', (n) =>
    transactionWith({ accessList: [{ address: ACCOUNT, storageKeys: Array(n).fill(HASH) }] }),
  ),
  paidByGas('bytes of extraData', 'block-header.ts', '32 on Ethereum; other chains have no bound', extraData),
  {
    ...{ what: 'items of the RLP of a proof', where: 'ethereum/rlp.ts', ours: RLP_LIMITS.items, rule: 532 },
    source: 'a node of a trie: 17 children of at most 32 bytes',
    take: (n) => decodeRlp(encodeRlp(Array(n - 1).fill(new Uint8Array(0)))),
    refusal: ProofError,
  },
  {
    ...{ what: 'depth of the RLP of a proof', where: 'ethereum/rlp.ts', ours: RLP_LIMITS.depth, rule: 4 },
    source: 'a node that contains others of fewer than 32 bytes; a branch has 17 or more',
    take: (depth) => decodeRlp(encodeRlp(nested(depth))),
    refusal: ProofError,
  },
  {
    ...{ what: 'bytes of the length of an RLP item', where: 'ethereum/rlp.ts', ours: LENGTH_BYTES, rule: 4 },
    source: 'no answer that is read has 2^32 bytes',
    take: (n) => {
      const size = 256 ** (n - 1);
      const length = Array.from({ length: n }, (_, i) => (i === 0 ? 1 : 0));
      // Far shorter than it says, where that is more than a test can hold.
      decodeRlp(Buffer.concat([Buffer.from([0xb7 + n, ...length]), Buffer.alloc(Math.min(size, 2 ** 24))]));
    },
    refusal: ProofError,
  },
  {
    ...{ what: 'nodes of a proof', where: 'ethereum/trie.ts', ours: PROOF_NODES, rule: 65, source: 'the 64 digits of a key, and the leaf' },
    take: (n) => sizeOnly(/at most/, () => proofRefusal(Array(n).fill('0xc0'))),
    refusal: ProofError,
  },
  {
    ...{ what: 'bytes of a node of a proof', where: 'ethereum/trie.ts', ours: NODE_BYTES, rule: 532 },
    source: 'a branch with 16 hashes and an empty value',
    take: (n) => sizeOnly(/at most/, () => proofRefusal([`0x${'c0'.repeat(n)}`])),
    refusal: ProofError,
  },
];

const quiet = createLog('silent');
const outgoing = createOutgoing({ allow: [], log: quiet });
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
/** Answers any call with as many bytes as the path says: the answer, and spaces. */
const server = createServer((request, reply) => {
  const size = Number(request.url!.split('/')[1]);
  const start = Buffer.from('{"jsonrpc":"2.0","id":1,"result":"0x1","data":1');
  reply.writeHead(200, { 'content-type': 'application/json', 'content-length': size });
  reply.end(Buffer.concat([start, Buffer.alloc(size - start.length - 1, 0x20), Buffer.from('}')]));
});
after(() => {
  void outgoing.close();
  server.closeAllConnections();
  server.close();
});
async function urlOf(size: number): Promise<string> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/${size}`;
}
const answer = (
  what: string,
  where: string,
  { ours, rule, source }: Pick<Limit, 'ours' | 'rule' | 'source'>,
  ask: (url: string) => unknown,
) => ({
  ...{ what, where, ours, rule, source, refusal: ChainError, take: async (size: number) => ask(await urlOf(size)) },
});
const ANSWERS: readonly Limit[] = [
  answer(
    'bytes of an answer of a Core node',
    'bitcoin/core-calls.ts',
    {
      ours: MAX_REPLY_BYTES,
      rule: 2 * 32_000_000,
      source: 'hex of the largest message of any network: Litecoin has 32 MB. More in a batch is asked for one by one',
    },
    (url) =>
      createCoreCalls({ coin: 'BTC', url, outgoing, log: quiet, clock }).read([['getblockcount']], 0, () => ({
        take: () => {},
        taken: () => true,
        text: () => '',
      })),
  ),
  answer(
    'bytes of an answer of an Ethereum node',
    'ethereum/eth-rpc.ts',
    {
      ours: REPLY_LIMITS.maxReplyBytes,
      rule: 2 * 10 * 2 ** 20,
      source: 'EIP-7934: a block of 10 MiB in hex. Receipts have no bound: more is asked for one by one',
    },
    (url) => createEthRpc({ url, outgoing, log: quiet }).call('eth_blockNumber'),
  ),
  answer(
    'bytes of an answer of a beacon server',
    'ethereum/light-client/beacon-networks.ts',
    {
      ours: MAX_BYTES,
      rule: MOST_UPDATES * 64 * 1024,
      source: 'as many updates as are asked for, each with the 512 keys of a sync committee',
    },
    async (url) => {
      const servers = createBeaconServers({ urls: [url], outgoing });
      if (!(await servers.first('x', () => true))) throw new ChainError('outage', servers.states()[0]!.reason ?? '');
    },
  ),
];

const beacon = createBeaconChain(smallNetwork({ fulu: 0 }, { secondsPerSlot: 1 }));
const SLOT = 20 * 64;
const start = beacon.header(SLOT - 40, HASH);
/** The start of a light client with a part of it replaced. */
const bootstrapWith = (network: Parameters<typeof startFrom>[0], change: (bootstrap: any) => void) =>
  sizeOnly(/at most|other than 0 to/, () => {
    const bootstrap = structuredClone(beacon.bootstrap(start));
    change(bootstrap);
    startFrom(network, `0x${start.root}`, bootstrap);
  });
/** A beacon server that answers with so many updates. */
async function updatesOf(count: number): Promise<void> {
  let refusal: unknown = null;
  const first = async <T>(path: string, accept: (body: unknown) => T): Promise<T | null> => {
    if (path.startsWith('bootstrap')) return accept({ data: beacon.bootstrap(start) });
    if (path.startsWith('updates'))
      try {
        sizeOnly(/at most/, () => void accept(Array(count).fill({})));
      } catch (error) {
        refusal = error;
      }
    return null;
  };
  const servers = { first, all: async () => [], states: () => [] };
  const at = { now: () => new Date(SLOT * 1000), monotonicMs: () => 0 };
  await createLightRounds({ network: beacon.network, checkpoint: `0x${start.root}`, servers, clock: at, log: quiet }).round();
  if (refusal !== null) throw refusal;
}
const light = (what: string, where: string, row: Pick<Limit, 'ours' | 'rule' | 'source' | 'take'>): Limit => ({
  ...{ what, where: `ethereum/light-client/${where}`, refusal: ProofError, ...row },
});
const LIGHT: readonly Limit[] = [
  light('updates of an answer', 'light-service.ts', {
    ...{ ours: MOST_SENT, rule: 128, source: 'MAX_REQUEST_LIGHT_CLIENT_UPDATES; no more than 16 are asked for', take: updatesOf },
  }),
  light('hashes of a branch of a beacon block', 'ssz.ts', {
    ...{ ours: MAX_BRANCH, rule: 11, source: 'Gloas: generalized indices up to 2946' },
    take: (n) => branchOf(Array(n).fill(HASH), 'a branch'),
  }),
  light('keys of a sync committee', 'light-client.ts', {
    ...{ ours: MAINNET.committeeSize, rule: 512, source: 'SYNC_COMMITTEE_SIZE' },
    take: (n) =>
      bootstrapWith({ ...beacon.network, committeeSize: MAINNET.committeeSize }, ({ current_sync_committee: committee }) => {
        committee.pubkeys = Array(n).fill(committee.pubkeys[0]);
      }),
  }),
  light('bytes of extra_data', 'light-client.ts', {
    ...{ ours: MAX_EXTRA_DATA, rule: 32, source: 'MAX_EXTRA_DATA_BYTES' },
    take: (n) =>
      bootstrapWith(beacon.network, ({ header }) => {
        header.execution.extra_data = `0x${'00'.repeat(n)}`;
      }),
  }),
  light('bits of a number', 'ssz.ts', {
    ...{ ours: 256, rule: 256, source: 'uint256: base_fee_per_gas' },
    take: (bits) => uintOf(String((1n << BigInt(bits)) - 1n), 'a number', 256),
  }),
  light('a slot', 'ssz.ts', {
    ...{ ours: LAST_SLOT, rule: 2 ** 40, source: 'uint64, of which 2^40 slots take 400,000 years' },
    take: (slot) => readSlot(String(slot), 'a slot'),
  }),
];

export const LIMITS: readonly Limit[] = [...MESSAGES, ...PROXY, ...BLOCKS, ...ELECTRUM, ...ETHEREUM, ...LIGHT, ...ANSWERS];
