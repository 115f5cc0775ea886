/**
 * An Ethereum block with 500 MB of traces, read by the real follower into the real database: the result of a contract creation that calls
 * with megabytes of memory. One honest payment in the same block comes directly, another through a contract. Goal: at most 400 MB above
 * the idle process, at most 100 ms of the event loop at a time, and both payments complete.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { openCore } from '../../src/app.ts';
import { createEthereumSource } from '../../src/chains/ethereum/ethereum.ts';
import { readConfig } from '../../src/config.ts';
import { createFollower } from '../../src/follow/follow.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { settleDuePayments } from '../../src/settling/settle-payments.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { makeBlock } from '../../test/kit/ethereum-blocks.ts';
import { startChild } from '../kit.ts';
import { CENTS, openPayment, PRICE, watch } from './blocks.ts';

const TRACE_MB = 500;
const PAYER = '11'.repeat(20);
const CONTRACT = '22'.repeat(20);
/** The last digits are the wallet index of an address. */
const [DIRECT, THROUGH] = [`${'aa'.repeat(18)}0001`, `${'aa'.repeat(16)}00020000`];
const DUE = (CENTS * 10n ** 18n) / (BigInt(PRICE.ETH) * 100n) + 1n;

if (process.argv[2] === 'node') await serveNode();
else await read();

/** The node: block 1 appears once it gets a request to grow. It returns traces, but each is 500 MB. Prints `ready` with its port. */
async function serveNode(): Promise<void> {
  const hex = (value: number | bigint) => `0x${value.toString(16)}`;
  const word = (value: number | bigint) => value.toString(16).padStart(64, '0');
  const time = Math.floor(Date.now() / 1000);
  const transactions = [
    { to: DIRECT, value: DUE },
    { to: CONTRACT, value: DUE },
    { to: null, value: 0n },
  ].map(({ to, value }, n) => ({
    hash: `0x${'f'.repeat(60)}${n.toString(16).padStart(4, '0')}`,
    from: `0x${PAYER}`,
    to: to && `0x${to}`,
    value: hex(value),
    nonce: hex(n),
    input: to ? '0x' : '0x600035',
  }));
  const genesis = makeBlock({ height: 0, parent: `0x${word(0)}`, time });
  const chain = [genesis, makeBlock({ height: 1, parent: genesis.hash, time, transactions })];
  let tip = 0;
  const header = (height: number, full: unknown) => {
    const made = chain[height];
    if (!made || height > tip) return null;
    return { ...made.header, transactions: full === true ? made.transactions : made.transactions.map((tx) => tx.hash) };
  };
  const heightOf = (hash: string) => chain.findIndex((made) => made.hash === hash);
  const balance = (key: string, blockHash: string) => (heightOf(blockHash) === 1 && (key === DIRECT || key === THROUGH) ? DUE : 0n);
  const answers: Record<string, (...params: any[]) => unknown> = {
    grow: () => {
      tip = 1;
      return true;
    },
    eth_chainId: () => '0x7a69',
    web3_clientVersion: () => 'Node/v1.0.0',
    eth_syncing: () => false,
    net_peerCount: () => '0x8',
    eth_getBlockByNumber: (at: string, full: boolean) => (at === 'pending' ? null : header(/^0x/.test(at) ? Number(at) : tip, full)),
    eth_getBlockByHash: (at: string, full: boolean) => header(heightOf(at), full),
    eth_getBlockReceipts: (at: string) => chain[heightOf(at)]?.receipts ?? null,
    eth_getBalance: (address: string, { blockHash }: { blockHash: string }) => hex(balance(address.slice(2), blockHash)),
    eth_call: ({ data }: { data: string }, { blockHash }: { blockHash: string }) =>
      `0x${(data.slice(2 + 62).match(/.{64}/g) ?? []).map((one) => word(balance(one.slice(24), blockHash))).join('')}`,
  };
  const trace = () => {
    const part = Buffer.alloc(1 << 20, '0');
    let left = TRACE_MB;
    return new Readable({
      read() {
        if (left === TRACE_MB) this.push('{"jsonrpc":"2.0","id":1,"result":[{"result":{"type":"CALL","input":"0x');
        this.push(left-- > 0 ? part : null);
      },
    });
  };
  const server = createServer(async (request, reply) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const asked = JSON.parse(Buffer.concat(parts).toString());
    const calls = [asked].flat() as { id: number; method: string; params: unknown[] }[];
    reply.writeHead(200, { 'content-type': 'application/json' });
    if (calls.some(({ method }) => /trace/.test(method))) return void trace().pipe(reply);
    const replies = calls.map(({ id, method, params }) => {
      const answer = answers[method];
      if (!answer) return { jsonrpc: '2.0', id, error: { code: -32601, message: `the method ${method} does not exist` } };
      return { jsonrpc: '2.0', id, result: answer(...params) };
    });
    reply.end(JSON.stringify(Array.isArray(asked) ? replies : replies[0]));
  });
  server.keepAliveTimeout = 300_000;
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && process.exit(0), 1_000).unref();
  server.listen(0, '127.0.0.1', () => process.stdout.write(`ready ${(server.address() as AddressInfo).port}\n`));
}

async function read(): Promise<void> {
  const log = createLog('fatal');
  const database = await testDatabase({ parent: '/var/tmp' });
  const environment = { PRICES: `static:ETH=${PRICE.ETH}`, ETH_CONFIRMATIONS: '1', LOG_LEVEL: 'fatal' };
  const core = await openCore(readConfig(testEnvironment(database.url, database.folder, environment)), log);
  const { ctx } = core;
  await ctx.prices.start();
  const node = await startChild('bench/poison/traces.ts', {}, ['node']);
  const url = `http://127.0.0.1:${node.line}`;
  const source = createEthereumSource({ network: 'regtest', chainId: 31337, url, isOwn: true, outgoing: ctx.outgoing, log });
  try {
    const { merchantId } = await createMerchant(ctx, { name: 'Flooded' });
    const ids = [await openPayment(ctx, 'ETH', merchantId, DIRECT, DUE), await openPayment(ctx, 'ETH', merchantId, THROUGH, DUE)];
    const follower = createFollower(ctx, source);
    await follower.step();
    const body = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"grow","params":[]}');
    await ctx.outgoing.request({ url, method: 'POST', body, timeoutMs: 30_000, maxReplyBytes: 1_000 });
    const taken = await watch(async () => {
      await follower.step();
      while ((await settleDuePayments(ctx, { limit: 200 })) > 0);
    });
    const statuses = await ctx.db.sql<{ id: string; status: string }[]>`select id, status from payments`;
    const [direct, through] = ids.map((id) => statuses.find((one) => one.id === id)!.status);
    const unusable = [...(source.unusable?.() ?? [])].map(([method, count]) => `${method} ${count}`).join(', ');
    console.log(`ETH traces of ${TRACE_MB} MB
  florin    ${taken.seconds.toFixed(1)} s, ${(taken.memoryBytes / 1e6).toFixed(0)} MB above idle, event loop held ${taken.heldMs.toFixed(0)} ms at most (${taken.heldCpuMs.toFixed(0)} ms of processor time)
  unusable  ${unusable}
  payments  direct ${direct}, through a contract ${through}`);
  } finally {
    source.close();
    await node.stop();
    await ctx.prices.stop();
    await core.close();
    await database.drop();
  }
}
