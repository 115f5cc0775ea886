/**
 * A Dogecoin or Dash node for tests: a real HTTP server over a small chain of real blocks. It answers like the recordings in
 * test/fixtures/rpc, which are its templates; test/nodes/scripted-node.test.ts compares it with them. Its own wallet does not really sign;
 * signatures of other wallets are checked.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { addressOfScript, decodeAddress } from '../../src/addresses/address.ts';
import { descriptorChecksum } from '../../src/addresses/descriptor.ts';
import { x11 } from '../../src/chains/bitcoin/x11/x11.ts';
import { isSigned, readForeign } from './foreign-transaction.ts';
import { freePort, rpcClient, type TestNode } from './nodes.ts';

export type ScriptedNode = Omit<TestNode, 'start'> & {
  /** `loaded`: until it resolves, the node answers that it is loading its blocks; without it that takes a moment. */
  start(options?: { emptyMempool?: boolean; loaded?: Promise<unknown> }): Promise<void>;
  /** DASH: masternodes lock a transaction (InstantSend). */
  lockTransaction(txid: string): void;
  /** DASH: masternodes lock the tip and everything below it (ChainLock). */
  lockChain(): void;
  /** Spends the coins of a transaction again. Returns the bytes, unsent. */
  spendAgain(txid: string, address: string, amount: string): string;
  /**
   * Transactions with so many inputs, which are mined first, and so many outputs of an amount to one address. Returns the bytes, unsent.
   */
  flood(of: { address: string; amount: string; transactions: number; inputs: number; outputs: number }): string[];
  /** Adds it to the mempool. Returns its ID. */
  send(transaction: string): string;
  /** Mines a block with transactions that were never sent; conflicting ones leave the mempool. */
  mineWith(transactions: readonly string[]): Promise<string>;
  /** Mines a block without the mempool. Returns its hash. */
  mineEmpty(): string;
};
export type Recording = { label: string; request: { method: string; params: unknown[] }; status: number; body: string };

/** The recorded answers of one node, by label. */
export function recordings(name: string): ReadonlyMap<string, Recording> {
  const path = join(import.meta.dirname, '../fixtures/rpc', `${name}.json`);
  return new Map((JSON.parse(readFileSync(path, 'utf8')) as Recording[]).map((row) => [row.label, row]));
}

type Input = { txid: string; vout: number; sequence: number };
type Output = { units: bigint; script: string };
type Tx = {
  txid: string;
  hex: string;
  version: number;
  type: number;
  inputs: readonly Input[];
  scripts: readonly string[];
  outputs: readonly Output[];
  locktime: number;
  payload: string;
  coinbase: boolean;
  at: number;
};
type Block = {
  hash: string;
  parent: string;
  height: number;
  version: number;
  merkleRoot: string;
  time: number;
  median: number;
  transactions: readonly Tx[];
  hex: string;
};

/** The differences between the two nodes that are not code. */
const NODES = {
  DOGE: {
    recorded: ['dogecoin-1.14.9'],
    reward: 500_000n * 100_000_000n,
    premine: 1_000_000_000n * 100_000_000n,
    /** The wallet's initial coins: how many, of how much. */
    coins: [
      [1, 200_000_000n],
      [60, 5_000n],
    ],
    maturity: 60,
    fee: 226_000n,
    /** BIP-125: a transaction may be replaced if its sequence says so. */
    replaceable: true,
    conflict: '258: txn-mempool-conflict',
    missing: 'Missing inputs',
    genesis: '3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5',
  },
  DASH: {
    recorded: ['dash-23.1.2-instantsend', 'dash-23.1.2'],
    reward: 500n * 100_000_000n,
    premine: 1_000_000n * 100_000_000n,
    coins: [
      [1, 50_000n],
      [60, 50n],
    ],
    maturity: 100,
    fee: 4_500n,
    replaceable: false,
    conflict: 'txn-mempool-conflict',
    missing: 'bad-txns-inputs-missingorspent',
    genesis: '000008ca1832a4baf228eb1553c03d3a2c8e02399550dd6ea8d65cec3ef23d2e',
  },
} as const;

const sha256d = (bytes: Uint8Array): Buffer => createHash('sha256').update(createHash('sha256').update(bytes).digest()).digest();
const hash160 = (bytes: Uint8Array): Buffer => createHash('ripemd160').update(createHash('sha256').update(bytes).digest()).digest();
const reversed = (hex: string): Buffer => Buffer.from(hex, 'hex').reverse();
const shown = (bytes: Uint8Array): string => Buffer.from(bytes).reverse().toString('hex');
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};
const varInt = (value: number): Buffer =>
  value < 0xfd ? Buffer.of(value) : Buffer.concat([Buffer.of(0xfd), Buffer.of(value & 0xff, value >> 8)]);
const sized = (bytes: Uint8Array): Buffer => Buffer.concat([varInt(bytes.length), bytes]);
const NULL_TXID = '00'.repeat(32);
const outpointOf = ({ txid, vout }: Input): string => `${txid}:${vout}`;
const unitsOf = (amount: string): bigint => {
  const [whole = '0', fraction = ''] = amount.split('.');
  return BigInt(whole + fraction.padEnd(8, '0'));
};

/** Amounts are number literals with eight decimals, as the nodes write them, whatever a double can represent. */
const raw = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;
const coinsOf = (units: bigint): unknown => {
  const digits = units.toString().padStart(9, '0');
  return raw(`${digits.slice(0, -8)}.${digits.slice(-8)}`);
};
/** Recorded JSON with its numbers as they were written. */
const parseRecorded = (text: string): any =>
  JSON.parse(text, ((_key: string, value: unknown, context: { source: string }) =>
    typeof value === 'number' ? raw(context.source) : value) as (key: string, value: unknown) => unknown);

const NO_INDEX =
  'No such mempool transaction. Use -txindex to enable blockchain transaction queries. Use gettransaction for wallet transactions.';
class RpcError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

function makeTx({
  version,
  type = 0,
  inputs,
  scripts,
  outputs,
  locktime = 0,
  payload = '',
  coinbase = false,
  at,
}: Partial<Tx> & Pick<Tx, 'version' | 'inputs' | 'scripts' | 'outputs' | 'at'>): Tx {
  const bytes = Buffer.concat([
    u32(version | (type << 16)),
    varInt(inputs.length),
    ...inputs.flatMap((input, i) => [reversed(input.txid), u32(input.vout), sized(Buffer.from(scripts[i]!, 'hex')), u32(input.sequence)]),
    varInt(outputs.length),
    ...outputs.flatMap((output) => [u64(output.units), sized(Buffer.from(output.script, 'hex'))]),
    u32(locktime),
    ...(type === 0 ? [] : [sized(Buffer.from(payload, 'hex'))]),
  ]);
  const txid = shown(sha256d(bytes));
  return { txid, hex: bytes.toString('hex'), version, type, inputs, scripts, outputs, locktime, payload, coinbase, at };
}

function merkleRootOf(transactions: readonly Tx[]): Buffer {
  let level = transactions.map((tx) => reversed(tx.txid));
  while (level.length > 1) {
    level = level.flatMap((hash, i) => (i % 2 === 0 ? [sha256d(Buffer.concat([hash, level[i + 1] ?? hash])) as Buffer<ArrayBuffer>] : []));
  }
  return level[0]!;
}

/** DOGE: the data of a merge-mined block between its header and its transactions. */
function auxPow(hash: string, at: number): Buffer {
  const commitment = Buffer.concat([Buffer.from('fabe6d6d', 'hex'), Buffer.from(hash, 'hex'), u32(1), u32(0)]);
  const inputs = [{ txid: NULL_TXID, vout: 0xffffffff, sequence: 0xffffffff }];
  const outputs = [{ units: 1_250_000_000n, script: `76a914${'11'.repeat(20)}88ac` }];
  const parent = makeTx({ version: 1, inputs, scripts: [sized(commitment).toString('hex')], outputs, at });
  const branch = [randomBytes(32), randomBytes(32)];
  return Buffer.concat([
    Buffer.from(parent.hex, 'hex'),
    randomBytes(32),
    varInt(branch.length),
    ...branch,
    u32(0),
    varInt(0),
    u32(0),
    randomBytes(80),
  ]);
}

/** Calls that the guide of a node allows Florin. */
const allowedBy = (guide: string): ReadonlySet<string> =>
  new Set(/^rpcwhitelist=florin:(.*)$/m.exec(readFileSync(join(import.meta.dirname, '../../docs/guides', guide), 'utf8'))![1]!.split(','));

/**
 * Starts a node with 101 blocks and a wallet with coins. DASH: `spentIndex` returns values and addresses of inputs, like `-spentindex=1`;
 * the node is set up as in the guide, so that calls outside the guide's list, and all batches, are refused to Florin. Wallet calls are
 * allowed, for the tests. DOGE: without `txindex` it returns no transactions from blocks.
 */
export async function startScriptedNode(
  coin: 'DOGE' | 'DASH',
  { spentIndex = false, txindex = true }: { spentIndex?: boolean; txindex?: boolean } = {},
): Promise<ScriptedNode> {
  const node = NODES[coin];
  const network = 'regtest';
  const recorded = new Map(node.recorded.flatMap((name) => [...recordings(name)]));
  const resultOf = (label: string) => parseRecorded(recorded.get(label)!.body).result;
  const errorOf = (label: string) => {
    const { code, message } = JSON.parse(recorded.get(label)!.body).error;
    return new RpcError(code, message);
  };
  const allowed = coin === 'DASH' ? allowedBy('dash.md') : null;
  const port = await freePort();
  const now = () => Math.floor(Date.now() / 1000);
  const coinbases = coin === 'DASH' ? { version: 3, type: 5 } : { version: 1, type: 0 };

  // The chain
  const blocks = new Map<string, Block>();
  const active: Block[] = [];
  const transactions = new Map<string, Tx>();
  const minedIn = new Map<string, Block>();
  const spentInChain = new Map<string, string>();
  let pool = new Map<string, Tx>();
  const poolHeight = new Map<string, number>();
  const tip = (): Block => active.at(-1)!;
  // Masternodes
  const instantLocked = new Set<string>();
  let chainLock: Block | null = null;
  const isChainLocked = (block: Block | undefined): boolean =>
    block !== undefined && chainLock !== null && block.height <= chainLock.height && active[block.height] === block;
  // The wallet
  const publicKeys = new Map<string, string>();
  const own: Tx[] = [];
  const drafts = new Map<string, Tx>();

  const scriptOf = (address: string) => decodeAddress(address, { coin, network }).key;
  const newScript = (): string => {
    const publicKey = Buffer.concat([Buffer.of(2), randomBytes(32)]);
    const script = `76a914${hash160(publicKey).toString('hex')}88ac`;
    publicKeys.set(script, publicKey.toString('hex'));
    return script;
  };
  const newAddress = async () => addressOfScript(newScript(), { coin, network })!;
  const outputOf = (input: Input): Output => transactions.get(input.txid)!.outputs[input.vout]!;
  const feeOf = (tx: Tx): bigint =>
    tx.inputs.reduce((sum, input) => sum + outputOf(input).units, 0n) - tx.outputs.reduce((sum, output) => sum + output.units, 0n);

  const spendersInPool = (tx: Tx): Tx[] =>
    [...pool.values()].filter((other) => other !== tx && other.inputs.some((a) => tx.inputs.some((b) => outpointOf(a) === outpointOf(b))));
  const evict = (tx: Tx): void => {
    pool.delete(tx.txid);
    for (const child of [...pool.values()]) if (child.inputs.some((input) => input.txid === tx.txid)) evict(child);
  };
  const accept = (tx: Tx): void => {
    if (minedIn.has(tx.txid)) throw new RpcError(-27, 'transaction already in block chain');
    if (pool.has(tx.txid)) return;
    for (const input of tx.inputs) {
      const known = minedIn.has(input.txid) || pool.has(input.txid);
      if (!known || spentInChain.has(outpointOf(input))) throw new RpcError(-25, node.missing);
    }
    const conflicts = spendersInPool(tx);
    if (conflicts.some((other) => instantLocked.has(other.txid))) throw errorOf('err-doublespend-of-locked');
    const allowed =
      node.replaceable && conflicts.every((other) => other.inputs.some((input) => input.sequence < 0xfffffffe) && feeOf(other) < feeOf(tx));
    if (conflicts.length > 0 && !allowed) throw new RpcError(-26, node.conflict);
    for (const other of conflicts) evict(other);
    pool.set(tx.txid, tx);
    poolHeight.set(tx.txid, tip().height);
  };
  /** A transaction that another wallet signed. */
  const foreign = (hex: string): Tx => {
    const read = readForeign(hex);
    if (!read) throw errorOf('err-decode');
    const tx = makeTx({ ...read, at: now() });
    const known = read.inputs.map(({ txid, vout }) => transactions.get(txid)?.outputs[vout]);
    if (tx.hex !== hex) throw errorOf('err-decode');
    if (known.some((output) => output === undefined)) throw new RpcError(-25, node.missing);
    const spent = known.map((output) => output!.script);
    if (!isSigned(hex, spent)) throw new RpcError(-26, 'mandatory-script-verify-flag-failed (Script failed an OP_EQUALVERIFY operation)');
    if (feeOf(tx) < 0n) throw new RpcError(-26, 'bad-txns-in-belowout');
    return tx;
  };
  const submit = (hex: string): string => {
    const tx = drafts.get(hex) ?? foreign(hex);
    transactions.set(tx.txid, tx);
    accept(tx);
    if (!own.includes(tx)) own.push(tx);
    return tx.txid;
  };

  const connect = (block: Block): void => {
    active[block.height] = block;
    for (const tx of block.transactions) {
      transactions.set(tx.txid, tx);
      minedIn.set(tx.txid, block);
      pool.delete(tx.txid);
      if (tx.coinbase) continue;
      for (const other of spendersInPool(tx)) evict(other);
      for (const input of tx.inputs) spentInChain.set(outpointOf(input), tx.txid);
    }
  };
  const disconnectTip = (): Block => {
    const block = active.pop()!;
    for (const tx of block.transactions) {
      minedIn.delete(tx.txid);
      for (const input of tx.inputs) spentInChain.delete(outpointOf(input));
    }
    return block;
  };
  /** Like a node: the transactions of up to ten blocks return to the mempool, those of more blocks are forgotten. */
  const invalidate = (hash: string): void => {
    const from = blocks.get(hash);
    if (!from) throw new RpcError(-5, 'Block not found');
    if (active[from.height] !== from) return;
    const gone: Block[] = [];
    while (tip().height >= from.height) gone.unshift(disconnectTip());
    const back = gone.length > 10 ? [] : gone.flatMap((block) => block.transactions.filter((tx) => !tx.coinbase && tx.inputs.length > 0));
    const waiting = [...back, ...pool.values()];
    pool = new Map();
    for (const tx of waiting) tryAccept(tx);
    if (chainLock && chainLock.height > tip().height) chainLock = null;
  };
  const tryAccept = (tx: Tx): void => {
    try {
      accept(tx);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
    }
  };

  /** Parents before children, whatever the order of the mempool. */
  const inOrder = (list: readonly Tx[]): Tx[] => {
    const left = new Set(list);
    const done: Tx[] = [];
    while (left.size > 0) {
      for (const tx of left) {
        if (tx.inputs.some((input) => [...left].some((other) => other !== tx && other.txid === input.txid))) continue;
        left.delete(tx);
        done.push(tx);
      }
    }
    return done;
  };
  const specialCoinbase = (height: number): string =>
    Buffer.concat([Buffer.of(3, 0), u32(height), randomBytes(64), Buffer.of(0), Buffer.alloc(96), u64(0n)]).toString('hex');
  const mineBlock = (script: string, list: readonly Tx[]): Block => {
    const height = active.length;
    const parent = active.at(-1);
    const median =
      active.length === 0 ? 0 : active.slice(-11).toSorted((a, b) => a.time - b.time)[Math.floor(Math.min(11, active.length) / 2)]!.time;
    const time = Math.max(median + 1, now());
    const reward = (height === 1 ? node.premine : node.reward) + list.reduce((sum, tx) => sum + feeOf(tx), 0n);
    const coinbase = makeTx({
      ...coinbases,
      inputs: [{ txid: NULL_TXID, vout: 0xffffffff, sequence: 0xffffffff }],
      scripts: [Buffer.concat([Buffer.of(4), u32(height), Buffer.of(8), randomBytes(8)]).toString('hex')],
      outputs: [{ units: reward, script }, ...(coin === 'DOGE' ? [{ units: 0n, script: `6a24aa21a9ed${'00'.repeat(32)}` }] : [])],
      payload: specialCoinbase(height),
      coinbase: true,
      at: time,
    });
    // DASH: sometimes a transaction without inputs and outputs, the commitment of a quorum.
    const commitments =
      coin === 'DASH' && height % 5 === 0
        ? [makeTx({ version: 3, type: 6, inputs: [], scripts: [], outputs: [], payload: randomBytes(300).toString('hex'), at: time })]
        : [];
    const transactionsOf = [coinbase, ...commitments, ...inOrder(list)];
    const merged = coin === 'DOGE' && height % 2 === 1;
    const version = coin === 'DASH' ? 0x20000000 : merged ? 0x00620104 : 0x00620004;
    const root = merkleRootOf(transactionsOf);
    const header = Buffer.concat([u32(version), reversed(parent?.hash ?? NULL_TXID), root, u32(time), u32(0x207fffff), u32(0)]);
    const named = coin === 'DASH' ? x11(header) : sha256d(header);
    const hash = height === 0 ? node.genesis : shown(named);
    const block: Block = {
      hash,
      parent: parent?.hash ?? '',
      height,
      version,
      merkleRoot: shown(root),
      time,
      median: height === 0 ? time : median,
      transactions: transactionsOf,
      hex: Buffer.concat([
        header,
        ...(merged ? [auxPow(hash, time)] : []),
        varInt(transactionsOf.length),
        ...transactionsOf.map((tx) => Buffer.from(tx.hex, 'hex')),
      ]).toString('hex'),
    };
    blocks.set(hash, block);
    connect(block);
    return block;
  };

  // Wallet
  const sign = (inputs: readonly Input[], outputs: readonly Output[]): Tx => {
    const scripts = inputs.map((input) => {
      const publicKey = Buffer.from(publicKeys.get(outputOf(input).script)!, 'hex');
      const signature = Buffer.concat([
        Buffer.from('3045022100', 'hex'),
        randomBytes(32),
        Buffer.from('0220', 'hex'),
        randomBytes(32),
        Buffer.of(1),
      ]);
      return Buffer.concat([sized(signature), sized(publicKey)]).toString('hex');
    });
    const tx = makeTx({ version: coin === 'DASH' ? 2 : 1, inputs, scripts, outputs, locktime: tip().height, at: now() });
    drafts.set(tx.hex, tx);
    return tx;
  };
  const spendable = (): (Input & { units: bigint; confirmed: boolean })[] => {
    const taken = new Set([...pool.values()].flatMap((tx) => tx.inputs.map(outpointOf)));
    const found: (Input & { units: bigint; confirmed: boolean })[] = [];
    for (const tx of transactions.values()) {
      const block = minedIn.get(tx.txid);
      if (!block && !(pool.has(tx.txid) && own.includes(tx))) continue;
      if (tx.coinbase && tip().height - block!.height + 1 < node.maturity) continue;
      for (const [vout, output] of tx.outputs.entries()) {
        const outpoint = `${tx.txid}:${vout}`;
        if (!publicKeys.has(output.script) || spentInChain.has(outpoint) || taken.has(outpoint)) continue;
        const sequence = node.replaceable ? 0 : 0xfffffffe;
        found.push({ txid: tx.txid, vout, sequence, units: output.units, confirmed: block !== undefined });
      }
    }
    return found;
  };
  const payOutputs = (outputs: readonly Output[]): string => {
    const wanted = outputs.reduce<bigint>((sum, output) => sum + output.units, node.fee);
    const coins = spendable().toSorted((a, b) => Number(b.confirmed) - Number(a.confirmed) || (a.units < b.units ? -1 : 1));
    const one = coins.find((found) => found.units >= wanted);
    if (!one) throw new RpcError(-6, 'Insufficient funds.');
    const change = one.units - wanted;
    const tx = sign([one], [...outputs, ...(change > 0n ? [{ units: change, script: newScript() }] : [])]);
    return submit(tx.hex);
  };
  const spendAgain = (txid: string, address: string, amount: string): string => {
    const before = transactions.get(txid)!;
    const total = before.inputs.reduce((sum, input) => sum + outputOf(input).units, 0n);
    const rest = total - unitsOf(amount) - feeOf(before) - node.fee;
    return sign(before.inputs, [
      { units: unitsOf(amount), script: scriptOf(address) },
      { units: rest, script: newScript() },
    ]).hex;
  };

  // Answers
  const flagsOf = (tx: Tx, block: Block | undefined) => ({
    // After a ChainLock the first is true for every transaction of the block.
    instantlock: instantLocked.has(tx.txid) || isChainLocked(block),
    instantlock_internal: instantLocked.has(tx.txid),
  });
  const asmOf = (script: string): string => {
    if (/^76a914[0-9a-f]{40}88ac$/.test(script)) return `OP_DUP OP_HASH160 ${script.slice(6, 46)} OP_EQUALVERIFY OP_CHECKSIG`;
    if (/^a914[0-9a-f]{40}87$/.test(script)) return `OP_HASH160 ${script.slice(4, 44)} OP_EQUAL`;
    return `OP_RETURN ${script.slice(4)}`;
  };
  const describeScript = (script: string): object => {
    const address = addressOfScript(script, { coin, network });
    const type = address === null ? 'nulldata' : script.startsWith('76') ? 'pubkeyhash' : 'scripthash';
    if (coin === 'DOGE')
      return { asm: asmOf(script), hex: script, ...(address && { reqSigs: 1 }), type, ...(address && { addresses: [address] }) };
    const descriptor = address ? `addr(${address})` : `raw(${script})`;
    return { asm: asmOf(script), desc: `${descriptor}#${descriptorChecksum(descriptor)}`, hex: script, ...(address && { address }), type };
  };
  const amountOf = (units: bigint) =>
    coin === 'DASH' ? { value: coinsOf(units), valueSat: raw(String(units)) } : { value: coinsOf(units) };
  const describeInput = (tx: Tx, input: Input, i: number): object => {
    if (tx.coinbase) return { coinbase: tx.scripts[i], sequence: input.sequence };
    const script = Buffer.from(tx.scripts[i]!, 'hex');
    const signature = script.subarray(1, script[0]!).toString('hex');
    const spent = outputOf(input);
    return {
      txid: input.txid,
      vout: input.vout,
      scriptSig: { asm: `${signature}[ALL] ${script.subarray(script[0]! + 2).toString('hex')}`, hex: tx.scripts[i] },
      ...(spentIndex && { ...amountOf(spent.units), address: addressOfScript(spent.script, { coin, network }) }),
      sequence: input.sequence,
    };
  };
  const describe = (tx: Tx): object => {
    const size = tx.hex.length / 2;
    const block = minedIn.get(tx.txid);
    const vin = tx.inputs.map((input, i) => describeInput(tx, input, i));
    const vout = tx.outputs.map(({ units, script }, n) => ({ ...amountOf(units), n, scriptPubKey: describeScript(script) }));
    const confirmations = block ? tip().height - block.height + 1 : 0;
    if (coin === 'DOGE') {
      const where = block && { blockhash: block.hash, confirmations, time: block.time, blocktime: block.time };
      return {
        hex: tx.hex,
        txid: tx.txid,
        hash: tx.txid,
        size,
        vsize: size,
        version: tx.version,
        locktime: tx.locktime,
        vin,
        vout,
        ...where,
      };
    }
    const where = block && { blockhash: block.hash, height: block.height, confirmations, time: block.time, blocktime: block.time };
    return {
      ...{ txid: tx.txid, version: tx.version, type: tx.type, size, locktime: tx.locktime, vin, vout },
      ...(tx.type !== 0 && { extraPayloadSize: tx.payload.length / 2, extraPayload: tx.payload }),
      ...{ hex: tx.hex, ...where, ...flagsOf(tx, block), chainlock: isChainLocked(block) },
    };
  };
  const describeHeader = (block: Block): object => {
    const onChain = active[block.height] === block;
    const next = onChain ? active[block.height + 1]?.hash : undefined;
    return {
      hash: block.hash,
      confirmations: onChain ? tip().height - block.height + 1 : -1,
      height: block.height,
      version: block.version,
      versionHex: block.version.toString(16).padStart(8, '0'),
      merkleroot: block.merkleRoot,
      time: block.time,
      mediantime: block.median,
      nonce: 0,
      bits: '207fffff',
      difficulty: raw('4.656542373906925e-10'),
      chainwork: ((block.height + 1) * 2).toString(16).padStart(64, '0'),
      ...(coin === 'DASH' && { nTx: block.transactions.length }),
      ...(block.parent && { previousblockhash: block.parent }),
      ...(next && { nextblockhash: next }),
      ...(coin === 'DASH' && { chainlock: isChainLocked(block) }),
    };
  };
  const describeBlock = (block: Block): object => {
    const size = block.hex.length / 2;
    const tx = block.transactions.map(({ txid }) => txid);
    const head = describeHeader(block) as Record<string, unknown>;
    if (coin === 'DASH') return { ...head, size, tx };
    const { hash, confirmations, height, version, versionHex, merkleroot, ...rest } = head;
    return { hash, confirmations, strippedsize: size, size, weight: size * 4, height, version, versionHex, merkleroot, tx, ...rest };
  };
  const describeEntry = (tx: Tx): object => {
    const size = tx.hex.length / 2;
    const parents = [...new Set(tx.inputs.map((input) => input.txid))].filter((txid) => pool.has(txid));
    const children = [...pool.values()].filter((other) => other.inputs.some((input) => input.txid === tx.txid)).map((other) => other.txid);
    const fee = coinsOf(feeOf(tx));
    const height = poolHeight.get(tx.txid)!;
    if (coin === 'DOGE') {
      const fees = Number(feeOf(tx));
      return {
        ...{
          size,
          fee,
          modifiedfee: fee,
          time: tx.at,
          height,
          startingpriority: raw('60897435897435.9'),
          currentpriority: raw('60897435897435.9'),
        },
        ...{ descendantcount: 1 + children.length, descendantsize: size, descendantfees: fees },
        ...{ ancestorcount: 1 + parents.length, ancestorsize: size, ancestorfees: fees, depends: parents },
      };
    }
    return {
      ...{
        vsize: size,
        time: tx.at,
        height,
        descendantcount: 1 + children.length,
        descendantsize: size,
        ancestorcount: 1 + parents.length,
      },
      ...{ ancestorsize: size, fees: { base: fee, modified: fee, ancestor: fee, descendant: fee }, depends: parents, spentby: children },
      ...{ instantlock: String(instantLocked.has(tx.txid)), unbroadcast: true },
    };
  };

  const blockOf = (hash: unknown): Block => {
    const block = blocks.get(String(hash));
    if (!block) throw new RpcError(-5, 'Block not found');
    return block;
  };
  const poolBytes = () => [...pool.values()].reduce((sum, tx) => sum + tx.hex.length / 2, 0);
  const methods: Record<string, (...params: any[]) => unknown> = {
    getnetworkinfo: () => resultOf('getnetworkinfo'),
    getblockchaininfo: () => ({
      ...resultOf('getblockchaininfo'),
      ...{ blocks: tip().height, headers: tip().height, bestblockhash: tip().hash, mediantime: tip().median },
      ...(coin === 'DASH' && { time: tip().time }),
    }),
    getmempoolinfo: () => ({ ...resultOf('getmempoolinfo-empty'), size: pool.size, bytes: poolBytes() }),
    estimatesmartfee: (...params) => {
      if (params.length !== 1 && coin === 'DOGE') throw new RpcError(-1, 'estimatesmartfee nblocks');
      return resultOf('estimatesmartfee-nodata');
    },
    getblockcount: () => tip().height,
    getbestblockhash: () => tip().hash,
    getblockhash: (...params) => {
      if (params.length !== 1) throw errorOf('err-args');
      const block = active[params[0]];
      if (!block) throw errorOf('err-height');
      return block.hash;
    },
    getblockheader: (hash) => describeHeader(blockOf(hash)),
    getblock: (hash, verbosity = 1) => (verbosity === 0 || verbosity === false ? blockOf(hash).hex : describeBlock(blockOf(hash))),
    getrawmempool: (verbose = false) =>
      verbose ? Object.fromEntries([...pool.values()].map((tx) => [tx.txid, describeEntry(tx)])) : [...pool.keys()],
    getmempoolentry: (txid) => {
      const tx = pool.get(txid);
      if (!tx) throw new RpcError(-5, 'Transaction not in mempool');
      return describeEntry(tx);
    },
    getrawtransaction: (txid, verbose = 0) => {
      const tx = transactions.get(txid);
      if (!tx || !(minedIn.has(txid) || pool.has(txid))) throw errorOf('err-unknown-txid');
      if (!txindex && minedIn.has(txid)) throw new RpcError(-5, NO_INDEX);
      return verbose === 0 || verbose === false ? tx.hex : describe(tx);
    },
    gettxout: (txid, n, withMempool = true) => {
      const outpoint = `${txid}:${n}`;
      const tx = transactions.get(txid);
      const block = minedIn.get(txid);
      const waits = withMempool && pool.has(txid);
      const taken = withMempool && [...pool.values()].some((other) => other.inputs.some((input) => outpointOf(input) === outpoint));
      const output = tx?.outputs[n];
      if (!tx || !output || !(block || waits) || spentInChain.has(outpoint) || taken) return null;
      return {
        bestblock: tip().hash,
        confirmations: block ? tip().height - block.height + 1 : 0,
        value: coinsOf(output.units),
        scriptPubKey: describeScript(output.script),
        ...(coin === 'DOGE' && { version: tx.version }),
        coinbase: tx.coinbase,
      };
    },
    decoderawtransaction: (hex) => {
      const tx = [...transactions.values()].find((one) => one.hex === hex);
      if (!tx) throw errorOf('err-decode');
      const { hex: _, blockhash, confirmations, time, blocktime, ...decoded } = describe(tx) as Record<string, unknown>;
      return decoded;
    },
    sendrawtransaction: (hex) => submit(hex),
    invalidateblock: (hash) => {
      invalidate(hash);
      return null;
    },
    ...(coin === 'DASH' && {
      getindexinfo: () => ({ txindex: { synced: true, best_block_height: tip().height } }),
      getbestchainlock: () => {
        if (!chainLock) throw new RpcError(-32603, 'Unable to find any ChainLock');
        return { ...resultOf('getbestchainlock'), blockhash: chainLock.hash, height: chainLock.height };
      },
    }),
  };

  // Protocol
  let isLoaded = false;
  const answer = (request: any): { status: number; body: object } => {
    const id = request?.id ?? null;
    try {
      if (!isLoaded) throw new RpcError(-28, 'Loading block index...');
      const method = Object.hasOwn(methods, request.method) ? methods[request.method]! : null;
      if (!method) throw errorOf('err-method');
      return { status: 200, body: { result: method(...(request.params ?? [])), error: null, id } };
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      const { code, message } = error;
      return { status: code === -32601 ? 404 : 500, body: { result: null, error: { code, message }, id } };
    }
  };
  const serve = async (request: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (request.headers.authorization !== `Basic ${Buffer.from('florin:test').toString('base64')}`) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      reply.writeHead(401, { 'www-authenticate': 'Basic realm="jsonrpc"' }).end();
      return;
    }
    const send = (status: number, body: unknown) =>
      reply.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
    let parsed: unknown;
    try {
      parsed = JSON.parse(Buffer.concat(parts).toString());
    } catch {
      send(500, { result: null, error: { code: -32700, message: 'Parse error' }, id: null });
      return;
    }
    // Dash Core looks up the batch itself in the list of methods, and does not find it.
    const method = Array.isArray(parsed) ? '' : String((parsed as { method?: unknown })?.method);
    if (allowed && !request.url?.startsWith('/wallet/') && !allowed.has(method)) {
      reply.writeHead(403).end();
      return;
    }
    if (Array.isArray(parsed)) {
      send(
        200,
        parsed.map((one) => answer(one).body),
      );
      return;
    }
    const { status, body } = answer(parsed);
    send(status, body);
  };
  let server: Server | null = null;
  const start = async (loaded: Promise<unknown> = new Promise((resolve) => setTimeout(resolve, 300))): Promise<void> => {
    isLoaded = false;
    const started = createServer((request, reply) => {
      serve(request, reply).catch((error) => reply.destroy(error));
    });
    server = started;
    await new Promise<void>((resolve) => started.listen(port, '127.0.0.1', resolve));
    await loaded;
    isLoaded = true;
  };
  const stop = async (): Promise<void> => {
    const stopping = server;
    if (!stopping) return;
    server = null;
    await new Promise<void>((resolve) => {
      stopping.close(() => resolve());
      stopping.closeAllConnections();
    });
  };

  for (let height = 0; height <= 101; height++) mineBlock(newScript(), []);
  const shares = node.coins.flatMap(([count, units]) =>
    Array.from({ length: count }, () => ({ units: units * 100_000_000n, script: newScript() })),
  );
  payOutputs(shares);
  mineBlock(newScript(), [...pool.values()]);
  await start();
  return {
    url: `http://florin:test@127.0.0.1:${port}`,
    rpc: rpcClient(port),
    mine: async (count, address) => {
      const hashes: string[] = [];
      for (let i = 0; i < count; i++)
        hashes.push(mineBlock(address === undefined ? newScript() : scriptOf(address), [...pool.values()]).hash);
      return hashes;
    },
    newAddress,
    pay: async (address, amount) => payOutputs([{ units: unitsOf(amount), script: scriptOf(address) }]),
    payMany: async (outputs) => payOutputs(outputs.map(([address, amount]) => ({ units: unitsOf(amount), script: scriptOf(address) }))),
    replace: async (txid, address, amount) => submit(spendAgain(txid, address, amount)),
    rebroadcast: async () => {
      for (const tx of own) if (!minedIn.has(tx.txid)) tryAccept(tx);
    },
    stop,
    start: async ({ emptyMempool = false, loaded } = {}) => {
      if (emptyMempool) pool.clear();
      await start(loaded);
    },
    destroy: stop,
    lockTransaction: (txid) => {
      instantLocked.add(txid);
    },
    lockChain: () => {
      chainLock = tip();
    },
    spendAgain,
    flood: ({ address, amount, transactions: count, inputs, outputs }) => {
      const units = unitsOf(amount);
      const share = (BigInt(outputs) * units + node.fee) / BigInt(inputs) + 1n;
      const coins = payOutputs(Array.from({ length: count * inputs }, () => ({ units: share, script: newScript() })));
      mineBlock(newScript(), [...pool.values()]);
      return Array.from({ length: count }, (_, i) => {
        const spent = Array.from({ length: inputs }, (_, j) => ({ txid: coins, vout: i * inputs + j, sequence: 0 }));
        return sign(
          spent,
          Array.from({ length: outputs }, () => ({ units, script: scriptOf(address) })),
        ).hex;
      });
    },
    send: (hex) => submit(hex),
    mineEmpty: () => mineBlock(newScript(), []).hash,
    mineWith: async (hexes) => {
      const added = hexes.map((hex) => drafts.get(hex)!);
      for (const tx of added) {
        transactions.set(tx.txid, tx);
        for (const other of spendersInPool(tx)) evict(other);
      }
      return mineBlock(newScript(), [...pool.values(), ...added]).hash;
    },
  };
}
