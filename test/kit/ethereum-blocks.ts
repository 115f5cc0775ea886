/** Blocks of Ethereum whose hashes and roots are true, for scripted nodes, in the form in which a node answers. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { accountOf } from '../../src/addresses/evm-address.ts';
import { encodeTransaction } from '../../src/chains/ethereum/eth-block.ts';
import { encodeReceipt } from '../../src/chains/ethereum/receipts.ts';
import { EMPTY_ROOT, listRoot } from '../../src/chains/ethereum/trie.ts';
import { decodeRlp, encodeRlp, quantityBytes, type Rlp } from '../../src/evm/rlp.ts';
import { bytesOfHex, hexOfBytes } from './ethereum-data.ts';

export type Json = Record<string, any>;
const hex = (value: number | bigint): string => `0x${value.toString(16)}`;
const quantity = (item: Rlp): string => hex(BigInt(`0x0${Buffer.from(item as Uint8Array).toString('hex')}`));
const data = (item: Rlp): string => hexOfBytes(item as Uint8Array);
const ZERO = `0x${'00'.repeat(32)}`;

/** All fields of a header in the order in which they are hashed. */
export const HEADER_FIELDS =
  'parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom difficulty number gasLimit gasUsed timestamp extraData mixHash nonce baseFeePerGas withdrawalsRoot blobGasUsed excessBlobGas parentBeaconBlockRoot requestsHash blockAccessListHash slotNumber'.split(
    ' ',
  );
export const HEADER_NUMBERS: ReadonlySet<string> = new Set(
  'difficulty number gasLimit gasUsed timestamp baseFeePerGas blobGasUsed excessBlobGas slotNumber'.split(' '),
);
/** The fields of a decoded header, as a node sends them. */
export const nameHeader = (list: readonly Rlp[]): Record<string, string> =>
  Object.fromEntries(list.map((item, i) => [HEADER_FIELDS[i]!, HEADER_NUMBERS.has(HEADER_FIELDS[i]!) ? quantity(item) : data(item)]));

/** The hash of a header, from its fields. */
export const hashHeader = (header: Json): string =>
  hexOfBytes(
    keccak_256(
      encodeRlp(
        HEADER_FIELDS.filter((name) => header[name] !== undefined).map((name) =>
          HEADER_NUMBERS.has(name) ? quantityBytes(header[name], { name, max: 32 }) : bytesOfHex(header[name]),
        ),
      ),
    ),
  );

// Transactions -------------------------------------------------------------------------------------------------
const address = (item: Rlp): string | null => ((item as Uint8Array).length === 0 ? null : data(item));
const lists = (item: Rlp): Rlp[][] => item as Rlp[][];
const DYNAMIC = ['chainId', 'nonce', 'maxPriorityFeePerGas', 'maxFeePerGas', 'gas', 'to', 'value', 'input', 'accessList'];
const SIGNATURE = ['yParity', 'r', 's'];
const NAMES: readonly (readonly string[])[] = [
  ['nonce', 'gasPrice', 'gas', 'to', 'value', 'input', 'v', 'r', 's'],
  ['chainId', 'nonce', 'gasPrice', 'gas', 'to', 'value', 'input', 'accessList', ...SIGNATURE],
  [...DYNAMIC, ...SIGNATURE],
  [...DYNAMIC, 'maxFeePerBlobGas', 'blobVersionedHashes', ...SIGNATURE],
  [...DYNAMIC, 'authorizationList', ...SIGNATURE],
];
const READ: Record<string, (item: Rlp) => unknown> = {
  to: address,
  input: data,
  accessList: (item) => lists(item).map(([of, keys]) => ({ address: data(of!), storageKeys: (keys as Rlp[]).map(data) })),
  blobVersionedHashes: (item) => (item as Rlp[]).map(data),
  authorizationList: (item) =>
    lists(item).map(([chainId, at, nonce, yParity, r, s]) => ({
      chainId: quantity(chainId!),
      address: data(at!),
      nonce: quantity(nonce!),
      yParity: quantity(yParity!),
      r: quantity(r!),
      s: quantity(s!),
    })),
};
/** A raw transaction, as a node sends it, without its hash and its sender. */
export function nameTransaction(raw: Uint8Array): Json {
  const type = raw[0]! < 0x80 ? raw[0]! : 0;
  const list = decodeRlp(type === 0 ? raw : raw.subarray(1), { items: 100_000, depth: 8 }) as Rlp[];
  const names = NAMES[type]!;
  return { type: hex(type), ...Object.fromEntries(list.map((item, i) => [names[i]!, (READ[names[i]!] ?? quantity)(item)])) };
}

const keyOf = (name: string): Uint8Array => keccak_256(new TextEncoder().encode(name));
/** An account whose key the tests have, by its name. */
export const accountNamed = (name: string): string => accountOf(secp256k1.getPublicKey(keyOf(name)));

/** A legacy transaction, signed by a named account. Its hash, its sender and its signature are true. */
export function signTransaction(by: string, tx: Json): Json {
  const unsigned = { type: '0x0', gasPrice: '0xa', gas: '0x5208', to: null, value: '0x0', input: '0x', ...tx };
  // Without a signature it ends with the chain and two zeros (EIP-155).
  const digest = keccak_256(encodeTransaction({ ...unsigned, v: hex(CHAIN_ID), r: '0x0', s: '0x0' }));
  const [recovery, ...signature] = secp256k1.sign(digest, keyOf(by), { prehash: false, format: 'recovered' });
  const half = (from: number) => hex(BigInt(hexOfBytes(Uint8Array.from(signature.slice(from, from + 32)))));
  const signed = { ...unsigned, v: hex(CHAIN_ID * 2n + 35n + BigInt(recovery!)), r: half(0), s: half(32) };
  return { ...signed, hash: hexOfBytes(keccak_256(encodeTransaction(signed))), from: `0x${accountNamed(by)}` };
}
const CHAIN_ID = 31337n;

// Receipts -----------------------------------------------------------------------------------------------------
/** A receipt as the trie contains it, as a node sends it. */
export function nameReceipt(value: Uint8Array): Json {
  const type = value[0]! < 0x80 ? value[0]! : 0;
  const [status, cumulativeGasUsed, logsBloom, logs] = decodeRlp(type === 0 ? value : value.subarray(1), {
    items: 100_000,
    depth: 8,
  }) as Rlp[];
  return {
    type: hex(type),
    status: quantity(status!),
    cumulativeGasUsed: quantity(cumulativeGasUsed!),
    logsBloom: data(logsBloom!),
    logs: lists(logs!).map(([of, topics, bytes]) => ({
      address: data(of!),
      topics: (topics as Rlp[]).map(data),
      data: data(bytes!),
    })),
  };
}

/** What a transaction of a made block is, and what came of it. */
export type Made = Json & { ok?: boolean; logs?: readonly Json[] };
export type MadeBlock = { hash: string; header: Json; transactions: Json[]; receipts: Json[] };

/**
 * A block with these transactions: legacy ones of 21,000 gas at 10 wei that nobody signed, unless they have other fields. `fields`
 * replaces fields of the header: `{ blockAccessListHash, slotNumber }` makes one of Amsterdam.
 */
export function makeBlock({
  height,
  parent,
  time = 1_700_000_000 + height,
  transactions = [],
  receipts,
  fields = {},
}: {
  height: number;
  parent: string;
  time?: number;
  transactions?: readonly Made[];
  /** Those of a chain with other types of transactions. */
  receipts?: readonly Json[];
  fields?: Json;
}): MadeBlock {
  const whole = transactions.map(({ ok: _, logs: __, ...tx }) => ({
    ...{ type: '0x0', gasPrice: '0xa', gas: '0x5208', to: null, value: '0x0', input: '0x', v: '0x1b', r: '0x1', s: '0x1' },
    ...tx,
  }));
  const outcomes: Json[] =
    receipts?.map((receipt) => ({ ...receipt })) ??
    transactions.map(({ ok = true, logs = [], hash }, i) => ({
      type: (whole[i] as Json).type,
      transactionHash: hash,
      status: ok ? '0x1' : '0x0',
      gasUsed: '0x5208',
      cumulativeGasUsed: hex(21_000 * (i + 1)),
      effectiveGasPrice: '0xa',
      logs,
    }));
  const header: Json = {
    parentHash: parent,
    sha3Uncles: hexOfBytes(keccak_256(encodeRlp([]))),
    miner: `0x${'00'.repeat(20)}`,
    stateRoot: ZERO,
    transactionsRoot: hexOfBytes(listRoot(whole.map(encodeTransaction))),
    receiptsRoot: hexOfBytes(listRoot(outcomes.map(encodeReceipt))),
    logsBloom: `0x${'00'.repeat(256)}`,
    difficulty: '0x0',
    number: hex(height),
    gasLimit: hex(60_000_000),
    gasUsed: hex(21_000 * transactions.length),
    timestamp: hex(time),
    extraData: '0x',
    mixHash: ZERO,
    nonce: `0x${'00'.repeat(8)}`,
    baseFeePerGas: '0x7',
    withdrawalsRoot: hexOfBytes(EMPTY_ROOT),
    blobGasUsed: '0x0',
    excessBlobGas: '0x0',
    parentBeaconBlockRoot: ZERO,
    requestsHash: ZERO,
    ...fields,
  };
  const hash = hashHeader(header);
  return {
    hash,
    header: { ...header, hash },
    transactions: whole.map((tx, i) => ({ ...tx, blockHash: hash, blockNumber: header.number, transactionIndex: hex(i) })),
    receipts: outcomes.map((receipt) => ({ ...receipt, blockHash: hash })),
  };
}
/** What makes a block one of Amsterdam, whose receipts contain all moves of ETH. */
export const AMSTERDAM = { blockAccessListHash: ZERO, slotNumber: '0x1' };

/** The bytes of a value of a trie with one bit changed, as a node would send it; null if those are not a receipt. */
export function changedReceipt(value: Uint8Array, bit: number): Json | null {
  const bytes = Uint8Array.from(value);
  bytes[bit >> 3]! ^= 1 << (bit & 7);
  try {
    return nameReceipt(bytes);
  } catch {
    return null;
  }
}
