/** Recorded mainnet blocks with the token transfers in them, in the form in which a node answers. */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { decodeRlp, type Rlp } from './rlp.ts';

export type ListedTransfer = {
  token: string;
  address: string;
  transactionHash: string;
  transactionIndex: number;
  logIndex: number;
  from: string;
  to: string;
  units: string;
  status: number;
};
type Recorded = { hash: string; headerRlp: string; transactionHashes: string[]; receiptsTrieValues: string[]; transfers: ListedTransfer[] };
/** Blocks of several forks, of which all values of the receipts trie are recorded. */
export const TOKEN_BLOCKS = [14764013, 15537393, 17034869, 19426587, 22431084] as const;

const FOLDER = new URL('../fixtures/tokens/', import.meta.url);
const readJson = (name: string) => JSON.parse(gunzipSync(readFileSync(new URL(name, FOLDER))).toString());
const hex = (item: Rlp): string => `0x${(item as Buffer).toString('hex')}`;

/** A receipt as stored: a list of status, gas, bloom and logs, after one byte of type unless it is a legacy one. */
function readReceipt(value: string): { ok: boolean; feeUnits: bigint; logs: object[] } {
  const bytes = Buffer.from(value.slice(2), 'hex');
  const [status, , , logs] = decodeRlp(bytes[0]! < 0x80 ? bytes.subarray(1) : bytes) as Rlp[];
  return {
    ok: hex(status!) === '0x01',
    feeUnits: 0n,
    logs: (logs as Rlp[][]).map(([address, topics, data]) => ({
      address: hex(address!),
      topics: (topics as Rlp[]).map(hex),
      data: hex(data!),
    })),
  };
}

/** A block, and the transfers that it is known to contain. */
export function readTokenBlock(number: number) {
  const { transactionHashes, receiptsTrieValues, transfers } = readJson(`mainnet-${number}.json.gz`) as Recorded;
  return {
    transactions: transactionHashes.map((txid, i) => ({ txid, from: 'c1'.repeat(20), nonce: BigInt(i) })),
    receipts: receiptsTrieValues.map(readReceipt),
    transfers,
  };
}

/** The hash of a block, its header, and its receipts as they are in the trie. */
export function readTokenProof(number: number): { hash: string; header: Uint8Array; values: Uint8Array[] } {
  const { hash, headerRlp, receiptsTrieValues } = readJson(`mainnet-${number}.json.gz`) as Recorded;
  const bytes = (text: string) => Uint8Array.from(Buffer.from(text.slice(2), 'hex'));
  return { hash, header: bytes(headerRlp), values: receiptsTrieValues.map(bytes) };
}

/** The answers of a node for one block. */
export const readTokenReplies = (): { block: Record<string, unknown>; receipts: { status: string; logs: Record<string, unknown>[] }[] } =>
  readJson('mainnet-21925176-rpc.json.gz');
