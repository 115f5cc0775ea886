/** Real nodes on regtest: each with its own folder in memory and its own port, stopped through its process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { anvilProgram, bitcoindCommand } from './tools.ts';

export type TestNode = {
  /** In the format of the configuration: http://user:pass@host:port. */
  url: string;
  rpc(method: string, ...params: unknown[]): Promise<any>;
  /** Mines to a new address, or to the given one. */
  mine(blocks: number, address?: string): Promise<string[]>;
  newAddress(type?: string): Promise<string>;
  /** Pays from the node's wallet, replaceable. Returns the txid. */
  pay(address: string, amount: string): Promise<string>;
  /** One transaction with these outputs; an address may occur twice. */
  payMany(outputs: readonly (readonly [address: string, amount: string])[]): Promise<string>;
  /** Spends the same coins again with a higher fee, `amount` to `address`. Returns the new txid. */
  replace(txid: string, address: string, amount: string): Promise<string>;
  /** The wallet sends its unconfirmed transactions again, because a node forgets them in a deep reorganization. */
  rebroadcast(): Promise<void>;
  /** Stops the process cleanly and starts it again with the same data and port. */
  stop(): Promise<void>;
  /** `emptyMempool`: pending transactions are lost. */
  start(options?: { emptyMempool?: boolean }): Promise<void>;
  /** Stops it and removes its data. */
  destroy(): Promise<void>;
};
/** A node that runs on this machine: its data can be removed, its process frozen, its peers disconnected. */
export type RealNode = Omit<TestNode, 'start'> & {
  /** Where other nodes reach it; null if it does not listen. */
  p2p: string | null;
  folder: string;
  pid(): number;
  /** `flags`: only for this start. `wallet: false`: the wallet stays closed until `openWallet`. */
  start(options?: { emptyMempool?: boolean; flags?: readonly string[]; wallet?: boolean }): Promise<void>;
  openWallet(): Promise<void>;
};

/** A free port outside the range from which systems assign ports automatically: it stays free until it is used. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_240, 32_768);
    const server = createServer();
    server.listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Calls a node like the service: JSON-RPC with user `florin` and password `test`; wallet calls go to the named wallet. */
export function rpcClient(port: number, wallet = 'florin'): TestNode['rpc'] {
  let id = 0;
  return async (method, ...params) => {
    const reply = await fetch(`http://127.0.0.1:${port}/wallet/${wallet}`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from('florin:test').toString('base64')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '1.0', id: ++id, method, params }),
    });
    const { result, error } = (await reply.json()) as { result: unknown; error: { code: number; message: string } | null };
    if (error) throw Object.assign(new Error(`${method}: ${error.message}`), { code: error.code });
    return result;
  };
}

type Company = {
  /** Other nodes may connect to it. */
  listens?: boolean;
  /** Announces transactions to its peers at once, and not seconds later. */
  atOnce?: boolean;
  /** Without its own wallet and blocks: it gets blocks from a peer. */
  empty?: boolean;
  /** Its clock is stopped at this second. */
  clock?: number;
  /** The lowest fee that it takes, in coins for 1,000 virtual bytes. */
  lowestFee?: string;
};

/** Litecoin Core from Debian; `/usr/bin/litecoind` is a wrapper that writes to the home folder. */
export const startLitecoind = ({
  hidesMweb = true,
  txindex = true,
  ...how
}: { hidesMweb?: boolean; txindex?: boolean } & Company = {}): Promise<RealNode> =>
  startNode({
    command: ['/usr/lib/litecoin/litecoind'],
    flags: [
      '-mempoolreplacement=1',
      '-walletrbf=1',
      '-fallbackfee=0.0001',
      ...(hidesMweb ? ['-rpcserialversion=1'] : []),
      indexed(txindex),
    ],
    addressType: 'bech32',
    ...how,
  });
/**
 * A release of Knots refuses to start some time after its publication. It also rejects transactions whose lock time is 21, which the
 * wallet chooses at random in one of a thousand payments on a short chain. Core has no such settings and ignores them in a file.
 */
const KNOTS_SETTINGS = { file: 'bitcoin.conf', text: 'softwareexpiry=0\nrejectparasites=0\n' };
/** Bitcoin Knots, unpacked by the test set-up. */
export const startBitcoind = ({ txindex = true, ...how }: { txindex?: boolean } & Company = {}): Promise<RealNode> =>
  startNode({
    command: bitcoindCommand(),
    flags: ['-walletrbf=1', '-fallbackfee=0.0001', LASTING, indexed(txindex)],
    settings: KNOTS_SETTINGS,
    addressType: 'bech32',
    ...how,
  });
/** A node ends connections that were idle for half a minute, just when a busy test may use one again. */
const LASTING = '-rpcservertimeout=3600';
const indexed = (txindex: boolean): string => `-txindex=${txindex ? 1 : 0}`;

/** A node with its own configuration file, on an empty chain, without a wallet; the tests' flags only keep it isolated. */
export async function startConfiguredNode({
  command,
  file,
  configuration,
  flags,
  user,
}: {
  command: readonly string[];
  file: string;
  configuration: string;
  flags: readonly string[];
  /** User and password for checking whether it has started. */
  user: string;
}): Promise<{ origin: string; destroy(): Promise<void> }> {
  const folder = mkdtempSync('/dev/shm/florin-node-');
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  writeFileSync(join(folder, file), file === KNOTS_SETTINGS.file ? KNOTS_SETTINGS.text + configuration : configuration);
  const [program, ...before] = command;
  const alone = ['-regtest', '-listen=0', '-connect=0', '-dnsseed=0', '-printtoconsole=0'];
  const child = spawn(
    program!,
    [...before, ...alone, `-datadir=${folder}`, `-rpcport=${port}`, '-rpcbind=127.0.0.1', '-rpcallowip=127.0.0.1', ...flags],
    { stdio: 'ignore' },
  );
  const ended = once(child, 'exit');
  const destroy = async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  for (let tries = 0; ; tries++) {
    const body = JSON.stringify({ id: 1, method: 'getblockchaininfo', params: [] });
    const answers = await fetch(origin, { method: 'POST', headers: { authorization: `Basic ${btoa(user)}` }, body }).then(
      (reply) => reply.status === 200,
      () => false,
    );
    if (answers) return { origin, destroy };
    if (child.exitCode !== null || tries > 600) {
      await destroy();
      throw new Error(`${program} did not start with ${file}`);
    }
    await sleep(50);
  }
}

async function startNode({
  command,
  flags,
  settings,
  addressType,
  listens = false,
  atOnce = false,
  empty = false,
  clock,
  lowestFee,
}: {
  command: string[];
  flags: string[];
  settings?: { file: string; text: string };
  addressType: string;
} & Company): Promise<RealNode> {
  const folder = mkdtempSync('/dev/shm/florin-node-');
  if (settings) writeFileSync(join(folder, settings.file), settings.text);
  const port = await freePort();
  const p2p = listens ? `127.0.0.1:${await freePort()}` : null;
  const network =
    p2p === null ? ['-listen=0'] : ['-listen=1', `-bind=${p2p}`, '-listenonion=0', ...(atOnce ? ['-whitelist=noban@127.0.0.1'] : [])];
  const time = clock === undefined ? [] : [`-mocktime=${clock}`];
  const fee = lowestFee === undefined ? [] : [`-minrelaytxfee=${lowestFee}`];
  let child: ChildProcess | null = null;
  const rpc = rpcClient(port);
  const start = async (more: readonly string[] = []) => {
    const [program, ...before] = command;
    child = spawn(
      program!,
      [
        ...before,
        '-regtest',
        '-server',
        ...network,
        '-connect=0',
        '-dnsseed=0',
        `-datadir=${folder}`,
        `-rpcport=${port}`,
        '-rpcuser=florin',
        '-rpcpassword=test',
        '-rpcbind=127.0.0.1',
        '-rpcallowip=127.0.0.1',
        '-printtoconsole=0',
        ...flags,
        ...time,
        ...fee,
        ...more,
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
    // A frozen node would not receive it.
    child.kill('SIGCONT');
    await ended;
  };
  await start();
  if (!empty) await rpc('createwallet', 'florin');
  const newAddress = (type = addressType) => rpc('getnewaddress', '', type) as Promise<string>;
  const mine = async (blocks: number, address?: string) =>
    rpc('generatetoaddress', blocks, address ?? (await newAddress())) as Promise<string[]>;
  const fill = async () => {
    await mine(101);
    // The wallet learns about blocks a moment after the node: until then the first reward cannot be spent.
    await rpc('syncwithvalidationinterfacequeue');
    // Several coins to spend, so that replacing one payment does not affect the others.
    const own = await newAddress();
    for (let i = 0; i < 4; i++) await rpc('sendmany', '', Object.fromEntries(await shares(newAddress)));
    await mine(1, own);
  };
  if (!empty) await fill();
  const openWallet = async () => {
    const loaded = (await rpc('listwallets')) as string[];
    if (!loaded.includes('florin')) await rpc('loadwallet', 'florin');
  };
  const send = async (inputs: object[], outputs: object[]) => {
    const made = inputs.length > 0 ? { hex: await rpc('createrawtransaction', inputs, outputs) } : await fund(outputs);
    const { hex } = await rpc('signrawtransactionwithwallet', made.hex);
    return rpc('sendrawtransaction', hex) as Promise<string>;
  };
  const fund = async (outputs: object[]) =>
    rpc('fundrawtransaction', await rpc('createrawtransaction', [], outputs), { replaceable: true });
  return {
    url: `http://florin:test@127.0.0.1:${port}`,
    p2p,
    folder,
    pid: () => child!.pid!,
    rpc,
    mine,
    newAddress,
    pay: async (address, amount) => {
      const txid = await rpc('sendtoaddress', address, amount);
      // A wallet keeps what its node rejects, and says so only in its log.
      const taken = rpc('getmempoolentry', txid);
      // It may be in a block by now.
      await taken.catch(async (error) => {
        if ((await rpc('gettransaction', txid)).confirmations < 1) throw error;
      });
      return txid;
    },
    payMany: async (outputs) => {
      // The node refuses one address twice: a second output gets a placeholder, whose script is replaced before signing.
      const named: [string, string, string | null][] = [];
      for (const [address, amount] of outputs) {
        const again = named.some(([known]) => known === address);
        named.push([again ? await newAddress() : address, amount, again ? address : null]);
      }
      let { hex } = await fund(named.map(([address, amount]) => ({ [address]: amount })));
      const scriptOf = async (address: string) => (await rpc('validateaddress', address)).scriptPubKey as string;
      for (const [standIn, , address] of named) {
        if (address !== null) hex = hex.replace(await scriptOf(standIn), await scriptOf(address));
      }
      return rpc('sendrawtransaction', (await rpc('signrawtransactionwithwallet', hex)).hex);
    },
    replace: async (txid, address, amount) => {
      const before = await rpc('getrawtransaction', txid, 1);
      const inputs = before.vin.map((i: any) => ({ txid: i.txid, vout: i.vout, sequence: 0xfffffffd }));
      let total = 0;
      for (const { txid: from, vout } of inputs) total += (await rpc('getrawtransaction', from, 1)).vout[vout].value;
      const change = (total - Number(amount) - 0.0005).toFixed(8);
      return send(inputs, [{ [address]: amount }, { [await newAddress()]: change }]);
    },
    rebroadcast: async () => {
      const { transactions } = await rpc('listsinceblock');
      const waiting = new Set<string>(transactions.filter((t: any) => t.confirmations === 0).map((t: any) => t.txid));
      // Parents first, whatever the order: as long as one is accepted, the rest are tried again.
      for (let before = -1; before !== waiting.size; ) {
        before = waiting.size;
        for (const txid of waiting) {
          const { hex } = await rpc('gettransaction', txid);
          await rpc('sendrawtransaction', hex).then(
            () => waiting.delete(txid),
            () => {},
          );
        }
      }
    },
    stop,
    start: async ({ emptyMempool = false, flags: more = [], wallet = !empty } = {}) => {
      if (emptyMempool) rmSync(`${folder}/regtest/mempool.dat`, { force: true });
      await start(more);
      if (wallet) await openWallet();
    },
    openWallet,
    destroy: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Ten outputs of half a coin to the wallet itself. */
async function shares(newAddress: () => Promise<string>): Promise<[string, number][]> {
  const outputs: [string, number][] = [];
  for (let i = 0; i < 10; i++) outputs.push([await newAddress(), 0.5]);
  return outputs;
}

export type EthNode = {
  url: string;
  /** Accounts whose transactions the node signs, each with plenty of ETH. */
  accounts: readonly string[];
  rpc(method: string, ...params: unknown[]): Promise<any>;
  /** Nothing is mined automatically. Returns the new height. */
  mine(blocks: number): Promise<number>;
  /** Sends from the first account (or another). Returns the hash at once. */
  send(transaction: {
    from?: string;
    to?: string;
    value?: bigint;
    data?: string;
    nonce?: number;
    gas?: number;
    gwei?: number;
  }): Promise<string>;
  /** Deploys a contract with this code. Returns its address. */
  deploy(code: string): Promise<string>;
  stop(): Promise<void>;
  start(): Promise<void>;
  destroy(): Promise<void>;
};

/** Foundry's anvil: a real EVM on one machine, mined on demand; after a restart it continues with the same chain. */
export async function startAnvil(...flags: string[]): Promise<EthNode> {
  const folder = mkdtempSync('/dev/shm/florin-anvil-');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child: ChildProcess | null = null;
  let id = 0;
  const rpc = async (method: string, ...params: unknown[]): Promise<any> => {
    const reply = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
    });
    const { result, error } = (await reply.json()) as { result?: unknown; error?: { code: number; message: string } };
    if (error) throw Object.assign(new Error(`${method}: ${error.message}`), { code: error.code });
    return result;
  };
  const start = async () => {
    child = spawn(
      anvilProgram(),
      [
        ...['--host', '127.0.0.1', '--port', String(port), '--no-mining', '--silent', '--order', 'fifo'],
        ...['--state', `${folder}/state.json`, '--preserve-historical-states', ...flags],
      ],
      { stdio: 'ignore' },
    );
    for (let tries = 0; ; tries++) {
      try {
        await rpc('eth_chainId');
        return;
      } catch (error) {
        if (child.exitCode !== null || tries > 600) throw new Error(`anvil did not start: ${(error as Error).message}`);
        await sleep(50);
      }
    }
  };
  const stop = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  };
  await start();
  const accounts = (await rpc('eth_accounts')) as string[];
  const mine = async (blocks: number) => {
    await rpc('anvil_mine', `0x${blocks.toString(16)}`);
    return Number(await rpc('eth_blockNumber'));
  };
  const send: EthNode['send'] = ({ from = accounts[0], to, value = 0n, data, nonce, gas, gwei }) =>
    rpc('eth_sendTransaction', {
      from,
      value: `0x${value.toString(16)}`,
      ...(to !== undefined && { to }),
      ...(data !== undefined && { data }),
      ...(nonce !== undefined && { nonce: `0x${nonce.toString(16)}` }),
      ...(gas !== undefined && { gas: `0x${gas.toString(16)}` }),
      ...(gwei !== undefined && { gasPrice: `0x${(BigInt(gwei) * 10n ** 9n).toString(16)}` }),
    });
  return {
    url,
    accounts,
    rpc,
    mine,
    send,
    deploy: async (code) => {
      const length = (code.length / 2).toString(16).padStart(2, '0');
      // PUSH1 length DUP1 PUSH1 0b PUSH1 00 CODECOPY PUSH1 00 RETURN: the bytes after these eleven become the code.
      const hash = await send({ data: `0x60${length}80600b6000396000f3${code}` });
      await mine(1);
      return (await rpc('eth_getTransactionReceipt', hash)).contractAddress;
    },
    stop,
    start,
    destroy: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
