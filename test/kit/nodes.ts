/** Real nodes on regtest: each with its own folder in memory and its own port, stopped by its process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export type TestNode = {
  /** As the service is told: http://user:pass@host:port. */
  url: string;
  rpc(method: string, ...params: unknown[]): Promise<any>;
  /** Mines to a fresh address, or to the one given. */
  mine(blocks: number, address?: string): Promise<string[]>;
  newAddress(type?: string): Promise<string>;
  /** Pays from the node's wallet; returns the txid. */
  pay(address: string, amount: string): Promise<string>;
  /** Ends the process cleanly and starts it again on the same data and port. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Ends it and removes its data. */
  destroy(): Promise<void>;
};

export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Litecoin Core from Debian; `/usr/bin/litecoind` is a wrapper that writes to the home folder. */
export const startLitecoind = (): Promise<TestNode> =>
  startNode({
    command: ['/usr/lib/litecoin/litecoind'],
    flags: ['-mempoolreplacement=1', '-fallbackfee=0.0001', '-rpcserialversion=1'],
    addressType: 'bech32',
  });

async function startNode({ command, flags, addressType }: { command: string[]; flags: string[]; addressType: string }): Promise<TestNode> {
  const folder = mkdtempSync('/dev/shm/florin-node-');
  const port = await freePort();
  let child: ChildProcess | null = null;
  let id = 0;
  const rpc = async (method: string, ...params: unknown[]): Promise<any> => {
    const reply = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from('florin:test').toString('base64')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '1.0', id: ++id, method, params }),
    });
    const { result, error } = (await reply.json()) as { result: unknown; error: { code: number; message: string } | null };
    if (error) throw Object.assign(new Error(`${method}: ${error.message}`), { code: error.code });
    return result;
  };
  const start = async () => {
    const [program, ...before] = command;
    child = spawn(
      program!,
      [
        ...before,
        '-regtest',
        '-server',
        '-listen=0',
        '-connect=0',
        '-dnsseed=0',
        `-datadir=${folder}`,
        `-rpcport=${port}`,
        '-rpcuser=florin',
        '-rpcpassword=test',
        '-rpcbind=127.0.0.1',
        '-rpcallowip=127.0.0.1',
        '-txindex=1',
        '-printtoconsole=0',
        ...flags,
      ],
      { stdio: 'ignore' },
    );
    for (let tries = 0; ; tries++) {
      try {
        await rpc('getblockchaininfo');
        return;
      } catch (error) {
        if (child.exitCode !== null || tries > 600) throw new Error(`${program} did not start: ${(error as Error).message}`);
        await sleep(50);
      }
    }
  };
  const stop = async () => {
    if (!child || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  };
  await start();
  await rpc('createwallet', 'florin');
  const newAddress = (type = addressType) => rpc('getnewaddress', '', type) as Promise<string>;
  const mine = async (blocks: number, address?: string) =>
    rpc('generatetoaddress', blocks, address ?? (await newAddress())) as Promise<string[]>;
  await mine(101);
  return {
    url: `http://florin:test@127.0.0.1:${port}`,
    rpc,
    mine,
    newAddress,
    pay: (address, amount) => rpc('sendtoaddress', address, amount),
    stop,
    start: async () => {
      await start();
      const loaded = (await rpc('listwallets')) as string[];
      if (!loaded.includes('florin')) await rpc('loadwallet', 'florin');
    },
    destroy: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
