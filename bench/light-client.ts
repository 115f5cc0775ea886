/**
 * What it costs to check an Ethereum block and an account instead of believing them, against nothing but hashing the same bytes once with
 * the same hash function: a header, 301 receipts with and without their bloom filters, 769 transactions, one account. Figures are ratios;
 * the machine cancels out. A signed head is compared with the two pairings that no verification can do without. Then how long a whole block
 * holds the event loop at a time, and what a day of following costs in requests and bytes.
 */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { provenHeader } from '../src/chains/ethereum/block-header.ts';
import { checkTransactionsSteps, encodeTransaction, identityOf } from '../src/chains/ethereum/eth-block.ts';
import { MAINNET } from '../src/chains/ethereum/light-client/beacon-networks.ts';
import { readUpdate, startFrom, takeUpdate } from '../src/chains/ethereum/light-client/light-client.ts';
import { checkReceiptsSteps, encodeReceipt } from '../src/chains/ethereum/receipts.ts';
import { listRoot, readAccountProof } from '../src/chains/ethereum/trie.ts';
import { atOnce, decodeRlp, encodeRlp, inTurns, type Rlp, type Steps } from '../src/evm/rlp.ts';
import { bytesOfHex, readEthereum } from '../test/kit/ethereum-data.ts';
import { readTokenReplies } from '../test/kit/token-blocks.ts';
import { median } from './kit.ts';
import { tellDay } from './light-client-day.ts';

const ROUNDS = 15;

/** Milliseconds of both, and the median of their ratios. */
function measure(name: string, work: () => void, bare: () => void): void {
  const timed = (what: () => void) => {
    const since = performance.now();
    what();
    return performance.now() - since;
  };
  for (let i = 0; i < 3; i++) for (const what of [work, bare]) what();
  const runs = Array.from({ length: ROUNDS }, () => ({ work: timed(work), bare: timed(bare) }));
  const ms = (of: 'work' | 'bare') => median(runs.map((run) => run[of])).toFixed(2);
  console.log(`${name.padEnd(34)} ${ms('work')} ms  ${ms('bare')} ms  ${median(runs.map((run) => run.work / run.bare)).toFixed(2)}`);
}

/** A block of 301 receipts: those of a real one, and half of them again. */
const { receipts: recorded } = readTokenReplies();
const receipts = [...recorded, ...recorded].slice(0, 301);
const values = receipts.map(encodeReceipt);
const receiptsRoot = listRoot(values);
const withoutBlooms = receipts.map((receipt) => ({ ...receipt, logsBloom: undefined }));
const block = readEthereum('block-24784163-rpc');
const transactionsRoot = bytesOfHex(block.transactionsRoot);
const raw = (block.transactions as object[]).map(encodeTransaction);
const header = bytesOfHex(block.hash);
const { block: at, proof } = readEthereum('proof-mainnet-23223655-weth') as { block: any; proof: any };
const stateRoot = bytesOfHex(at.stateRoot);
const nodes: Uint8Array[] = [...proof.accountProof, ...proof.storageProof.flatMap((slot: any) => slot.proof)].map(bytesOfHex);
const slots = proof.storageProof.map((slot: any) => BigInt(slot.key));
const HEADER = encodeRlp(
  // As many bytes as its fields have.
  decodeRlp(encodeRlp([...Array(21).keys()].map((i): Rlp => new Uint8Array(i === 6 ? 256 : i < 6 ? 32 : i < 12 ? 4 : 32)))),
);
const hashAll = (list: readonly Uint8Array[]) => () => {
  for (const bytes of list) keccak_256(bytes);
};

console.log('checked, the same bytes hashed once, ratio (less is better)');
measure('a header', () => provenHeader(block, header), hashAll([HEADER]));
measure('301 receipts', () => atOnce(checkReceiptsSteps(receipts, receiptsRoot)), hashAll(values));
measure('301 receipts without their blooms', () => atOnce(checkReceiptsSteps(withoutBlooms, receiptsRoot)), hashAll(values));
measure(`${raw.length} transactions`, () => atOnce(checkTransactionsSteps(block.transactions, transactionsRoot)), hashAll(raw));
measure(
  'an account and a storage slot',
  () => readAccountProof(proof, { stateRoot, address: bytesOfHex(proof.address), slots }),
  hashAll(nodes),
);
measure('the sender of a transaction', () => identityOf(block.transactions[0]), hashAll([raw[0]!]));

const { root, bootstrap, update, finality } = {
  root: '0x9bcb90ec3a294591b77dd2a58e973578715cdc0e6eeeb286bc06dd120057f18b',
  bootstrap: readEthereum('light-fulu-bootstrap').data,
  update: readEthereum('light-fulu-updates')[0].data,
  finality: readEthereum('light-fulu-finality_update').data,
};
const LATE_SLOT = 20_000_000;
const light = takeUpdate(MAINNET, startFrom(MAINNET, root, bootstrap), readUpdate(MAINNET, update), LATE_SLOT);
const { G1, G2 } = bls12_381;
const pairs = [
  { g1: G1.Point.BASE, g2: G2.Point.BASE },
  { g1: G1.Point.BASE.negate(), g2: G2.Point.BASE },
];
const pair = () => bls12_381.pairingBatch(pairs);
const takeHead = () => takeUpdate(MAINNET, light, readUpdate(MAINNET, finality), LATE_SLOT);
console.log('checked, two pairings, ratio (less is better)');
measure('a head, signed by 511 of 512', takeHead, pair);
measure('a committee from its checkpoint', () => startFrom(MAINNET, root, bootstrap), pair);

const whole = function* (): Steps<void> {
  yield* checkReceiptsSteps(receipts, receiptsRoot);
  yield* checkTransactionsSteps(block.transactions, transactionsRoot);
};
let longest = 0;
for (let i = 0, last = performance.now(); i < 1; i++) {
  const watch = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    timer = setImmediate(watch);
  };
  let timer = setImmediate(watch);
  await inTurns(whole());
  clearImmediate(timer);
}
console.log(`a whole block holds the event loop for ${longest.toFixed(0)} ms at most`);
await tellDay();
