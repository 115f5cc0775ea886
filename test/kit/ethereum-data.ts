/** Recorded Ethereum blocks, receipts and proofs. */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { hexToBytes } from '@noble/hashes/utils.js';
import { isLongRun } from './long.ts';

const FOLDER = new URL('../fixtures/ethereum/', import.meta.url);
export const readEthereumText = (name: string): string => gunzipSync(readFileSync(new URL(`${name}.gz`, FOLDER))).toString();
export const readEthereum = (name: string) => JSON.parse(readEthereumText(`${name}.json`));

export type RecordedBlock = {
  hash: string;
  header: Record<string, string>;
  header_rlp: string;
  transactions: string[];
  withdrawals: { index: string; validatorIndex: string; address: string; amount: string }[] | null;
  receipts: Record<string, unknown>[];
};
/** London, the last with proof of work, the first of Shanghai and Cancun, and four around Prague. */
export const RECORDED_BLOCKS = [14764013, 15537393, 17034870, 19426587, 22162263, 22431083, 22431084, 22869878] as const;
export const readRecordedBlock = (number: number): RecordedBlock => readEthereum(`block-${number}`);

/** The header of an Amsterdam block of the execution specification's tests, in the names of a node. */
export function readAmsterdamBlock(name: string): { header: Record<string, string>; receipts: Record<string, unknown>[] } {
  const [test] = Object.values(readEthereum(`amsterdam-bal-invalid-${name}`)) as any[];
  const { blockHeader, receipts } = test.blocks[0].rlp_decoded;
  const { uncleHash, coinbase, transactionsTrie, receiptTrie, bloom, ...rest } = blockHeader;
  return {
    header: {
      ...rest,
      sha3Uncles: uncleHash,
      miner: coinbase,
      transactionsRoot: transactionsTrie,
      receiptsRoot: receiptTrie,
      logsBloom: bloom,
    },
    receipts: receipts.map((receipt: any) => ({ ...receipt, logsBloom: receipt.bloom, status: receipt.status ? '0x1' : '0x0' })),
  };
}

export const bytesOfHex = (hex: string): Uint8Array => hexToBytes(hex.slice(2));
export const hexOfBytes = (bytes: Uint8Array): string => `0x${Buffer.from(bytes).toString('hex')}`;

/** The text with one bit of its bytes changed. */
export function flipBit(hex: string, bit: number): string {
  const bytes = bytesOfHex(hex);
  bytes[bit >> 3]! ^= 1 << (bit & 7);
  return hexOfBytes(bytes);
}
/** The number with one bit changed, in the form of a QUANTITY. */
export const flipNumber = (hex: string, bit: number): string => `0x${(BigInt(hex) ^ (1n << BigInt(bit))).toString(16)}`;

/** Every item with `npm run test:long`, otherwise one of `every`. */
export const sampled = <T>(list: readonly T[], every: number): T[] => list.filter((_, i) => isLongRun || i % every === 0);
