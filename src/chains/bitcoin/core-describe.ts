/** Describes one transaction as a node of the Bitcoin Core family shows it. What the node does not know is null, never empty. */

import type { BitcoinFamily, Network } from '../../core/coin.ts';
import { addressOfScript } from '../address.ts';
import type { BlockRef, ChainTransaction } from '../chain.ts';
import { fields, type ReplyFields } from '../reply.ts';
import { amount, type CoreCall, type CoreCalls, integer, rowsOfReply, text } from './core-calls.ts';

/** The most inputs whose origin is looked up. */
const MAX_INPUTS = 500;

type Party = { address: string; units: bigint };
type On = { coin: BitcoinFamily; network: Network };
type Post = CoreCalls['post'];

const totalOf = (parties: readonly Party[]): bigint => parties.reduce((sum, { units }) => sum + units, 0n);

/** The receiver of an output, or the sender of the output that an input spends. */
function partyOf(output: ReplyFields, { coin, network }: On): Party {
  const script = fields(output.scriptPubKey);
  const type = text(script.type);
  const told = text(script.address) || text(rowsOfReply(script.addresses)[0]);
  const address = told || (!type.startsWith('witness_mweb') && addressOfScript(text(script.hex), { coin, network })) || '';
  return { address, units: amount(output.value) };
}

/** The output that each input spends; empty where the node does not know it. */
async function readOutputs(
  inputs: readonly ReplyFields[],
  { ask, read, post }: { ask(input: ReplyFields): CoreCall; read(result: unknown, input: ReplyFields): ReplyFields; post: Post },
): Promise<ReplyFields[]> {
  const replies = await post(inputs.map(ask));
  return inputs.map((input, i) => {
    const reply = replies[i];
    return !reply || reply.error ? {} : read(reply.result, input);
  });
}

/** The origins of the inputs; null when one of them is unknown. */
async function originsOf(
  inputs: readonly ReplyFields[],
  { on, post, isWaiting }: { on: On; post: Post; isWaiting: boolean },
): Promise<Party[] | null> {
  if (inputs.length > MAX_INPUTS) return null;
  // Core includes it in the input when the block is given, DASH with `spentindex=1`.
  if (inputs.every((i) => i.prevout !== undefined)) return inputs.map((i) => partyOf(fields(i.prevout), on));
  if (inputs.every((i) => i.value !== undefined)) return inputs.map((i) => ({ address: text(i.address), units: amount(i.value) }));
  const found = await readOutputs(inputs, {
    ask: (i) => ['getrawtransaction', text(i.txid), 1],
    read: (result, i) => fields(rowsOfReply(fields(result).vout)[integer(i.vout)]),
    post,
  });
  // A waiting transaction spends outputs that are unspent in the blocks, which the node knows without an index.
  const open = isWaiting ? inputs.filter((_, i) => found[i]?.value === undefined) : [];
  const unspent = await readOutputs(open, { ask: (i) => ['gettxout', text(i.txid), integer(i.vout), false], read: fields, post });
  const all = inputs.map((input, n) => (open.includes(input) ? unspent[open.indexOf(input)] : found[n]) ?? {});
  return all.some((output) => output.value === undefined) ? null : all.map((output) => partyOf(output, on));
}

/** The fee of a waiting transaction according to the node; null when it does not report it. */
async function waitingFee(txid: string, post: Post): Promise<bigint | null> {
  const [reply] = await post([['getmempoolentry', txid]]);
  const entry = fields(reply?.result);
  const fee = fields(entry.fees).base ?? entry.fee;
  return !reply || reply.error || fee === undefined ? null : amount(fee);
}

/** The parts of a transaction outside the extension block. LTC: the kernels of one with a part inside it, whose peg-outs are outputs. */
function partsOf(tx: ReplyFields): { inputs: ReplyFields[]; outputs: ReplyFields[]; kernels: ReplyFields[] } {
  const kernels = rowsOfReply(tx.vkern).map(fields);
  const isVisible = (part: ReplyFields) => part.ismweb !== true;
  return {
    kernels,
    inputs: rowsOfReply(tx.vin).map(fields).filter(isVisible),
    outputs: [...rowsOfReply(tx.vout), ...kernels.flatMap((kernel) => rowsOfReply(kernel.pegout))].map(fields).filter(isVisible),
  };
}

/** LTC: what a HogEx spends beyond its outputs is not its fee; a transaction entirely in MWEB states its fee in the kernels. */
async function feeOf(
  tx: ReplyFields,
  { origins, total, isWaiting, post }: { origins: Party[] | null; total: bigint; isWaiting: boolean; post: Post },
) {
  const { inputs, outputs, kernels } = partsOf(tx);
  if (text(fields(outputs[0]?.scriptPubKey).type) === 'witness_mweb_hogaddr') return null;
  if (kernels.length > 0) return inputs.length === 0 ? kernels.reduce((sum, kernel) => sum + amount(kernel.fee), 0n) : null;
  if (origins) return totalOf(origins) - total;
  if (tx.fee !== undefined) return amount(tx.fee);
  return isWaiting ? waitingFee(text(tx.txid), post) : null;
}

/** `blockOf`: the header of a block. */
export async function describeCoreTransaction(
  tx: ReplyFields,
  { coin, network, post, blockOf }: On & { post: Post; blockOf(hash: string): Promise<BlockRef> },
): Promise<ChainTransaction> {
  const on = { coin, network };
  const { inputs, outputs: shown } = partsOf(tx);
  const outputs = shown.map((output) => {
    const party = partyOf(output, on);
    return { ...party, ...(party.address === '' && { type: text(fields(output.scriptPubKey).type) }) };
  });
  const confirmations = integer(tx.confirmations);
  const block = tx.blockhash ? await blockOf(text(tx.blockhash)) : null;
  const isWaiting = block === null;
  const total = totalOf(outputs);
  const coinbase = inputs.some((i) => i.coinbase !== undefined);
  const origins = coinbase ? null : await originsOf(inputs, { on, post, isWaiting });
  return {
    txid: text(tx.txid),
    status: block && confirmations > 0 ? 'confirmed' : 'pending',
    confirmations: Math.max(0, confirmations),
    blockHeight: block?.height ?? null,
    blockHash: block?.hash ?? null,
    timestamp: block?.time ?? null,
    amountUnits: total,
    feeUnits: coinbase ? 0n : await feeOf(tx, { origins, total, isWaiting, post }),
    inputs: coinbase ? [{ address: 'coinbase', units: total }] : origins,
    outputs,
  };
}
