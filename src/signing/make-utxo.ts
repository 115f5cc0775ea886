/** Makes the requests of a sweep on a Bitcoin-like chain: checks each output on the chain, and builds the PSBTs. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { type BitcoinScript, decodeAddress } from '#addresses';
import { ChainError, type JoinedSource } from '#chains';
import { COIN } from '#core/coin';
import type { PsbtRequest } from '#core/signing-file';
import type { Holding, StayReason, SweepWallet, SweepWish } from './holdings.ts';
import { buildPsbt, feeFor, inputSizeOf, isRepeatable, MAX_GROUPS, mostInputs, type SpendableOutput, splitOutputs } from './utxo.ts';

export type Part = SpendableOutput & { holding: Holding };
/** The outputs of a transfer. LTC: a peg-out may be stored under the name that it had before it was mined. */
export function outputsOfHolding(holding: Holding): Part[] | 'unreadable' {
  const { txid, ref, outputs, units, blockHash, index } = holding;
  if (txid === null || blockHash === null || outputs === 'unreadable' || !/^[0-9a-f]{64}:\d+$/.test(ref) || !ref.startsWith(txid))
    return 'unreadable';
  const parts = outputs ?? [{ n: Number(ref.slice(65)), units }];
  return parts.map((part) => ({ ...part, txid, blockHash, index, holding }));
}

export type MadeUtxoFile<R> = {
  requests: R[];
  /** What each request spends: the name of the input on its chain, and the transfer behind it. */
  inputs: { input: string; holding: Holding | null; units: bigint | null }[];
  /** The transfers that stay after all, with the reason. */
  stay: Map<Holding, StayReason>;
};

/** Which outputs the chain still has; all of them where no source can tell. */
export async function spentAmong(chain: JoinedSource, outpoints: readonly string[]): Promise<ReadonlySet<string>> {
  try {
    const unspent = await chain.outlet.areUnspent(outpoints);
    return new Set(outpoints.filter((_, i) => !unspent[i]));
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'unsupported') return new Set();
    throw error;
  }
}

/** The transactions that made the outputs, by ID; none for Taproot, whose signatures cover all amounts. */
export type Previous = ReadonlyMap<string, Uint8Array>;
/** `unreadable`: the IDs of those that no PSBT can repeat. */
export async function previousOf(
  chain: JoinedSource,
  script: BitcoinScript,
  outputs: readonly SpendableOutput[],
): Promise<{ previous: Previous; unreadable: ReadonlySet<string> }> {
  if (script === 'p2tr' || outputs.length === 0) return { previous: new Map(), unreadable: new Set() };
  const wanted = [...new Map(outputs.map(({ txid, blockHash }) => [txid, { txid, blockHash }])).values()];
  const found = await chain.outlet.readTransactions(wanted);
  const unreadable = new Set(wanted.flatMap(({ txid }, i) => (isRepeatable(found[i]!, txid) ? [] : [txid])));
  return { previous: new Map(wanted.map(({ txid }, i) => [txid, found[i]!])), unreadable };
}

/** From how many blocks the deposits of one file may be, because previous transactions are read from whole blocks. */
export const mostBlocksOf = ({ outlet: { mostBlocks } }: JoinedSource, script: BitcoinScript): number =>
  script === 'p2tr' ? Number.POSITIVE_INFINITY : (mostBlocks ?? Number.POSITIVE_INFINITY);

/** Whether one more block would be too many. */
function createBlockLimit(mostBlocks: number): (holding: Holding) => boolean {
  const blocks = new Set<string>();
  return ({ blockHash }) => {
    if (blocks.has(blockHash!)) return false;
    if (blocks.size >= mostBlocks) return true;
    blocks.add(blockHash!);
    return false;
  };
}

/** Errors: ChainError. */
export async function makePsbts(
  chain: JoinedSource,
  {
    holdings,
    wallet,
    destination,
    wish,
    rateE8,
    reference,
  }: {
    holdings: readonly Holding[];
    wallet: SweepWallet;
    destination: string;
    wish: SweepWish;
    rateE8: bigint;
    reference: string;
  },
): Promise<MadeUtxoFile<PsbtRequest>> {
  const script = wallet.script as BitcoinScript;
  const stay = new Map<Holding, StayReason>();
  const inputSize = inputSizeOf(wallet);
  const fee = feeFor(inputSize, rateE8);
  const parts: Part[] = [];
  const isAnotherBlock = createBlockLimit(mostBlocksOf(chain, script));
  for (const holding of holdings) {
    const outputs = outputsOfHolding(holding);
    if (outputs === 'unreadable') stay.set(holding, 'unreadable');
    // The whole transfer stays or goes, so that a file never spends a part of one.
    else if (holding.units <= fee * BigInt(outputs.length)) stay.set(holding, 'dust');
    else if (fee * BigInt(outputs.length) * 100n > holding.units * BigInt(wish.maxFeePercent)) stay.set(holding, 'fee');
    else if (parts.length + outputs.length > mostInputs(inputSize) * MAX_GROUPS || isAnotherBlock(holding)) stay.set(holding, 'later');
    else parts.push(...outputs);
  }
  const spent = await spentAmong(
    chain,
    parts.map(({ txid, n }) => `${txid}:${n}`),
  );
  for (const { txid, n, holding } of parts) if (spent.has(`${txid}:${n}`)) stay.set(holding, 'spent');
  const unspent = parts.filter(({ holding }) => !stay.has(holding));
  if (unspent.length === 0) return { requests: [], inputs: [], stay };
  const { previous, unreadable } = await previousOf(chain, script, unspent);
  for (const { txid, holding } of unspent) if (unreadable.has(txid)) stay.set(holding, 'unreadable');
  const chosen = unspent.filter(({ holding }) => !stay.has(holding));
  const transfers = [...Map.groupBy(chosen, ({ holding }) => holding).values()];
  const { coin, network } = chain;
  const made: MadeUtxoFile<PsbtRequest> = { requests: [], inputs: [], stay };
  const { groups, left } = splitOutputs(transfers, previous, wallet as typeof wallet & { script: BitcoinScript });
  for (const { holding } of left) stay.set(holding, 'later');
  for (const group of groups) {
    const request = buildPsbt({
      ...{ group, previous, wallet: { ...wallet, script }, rateE8, leastUnits: COIN[coin].dustUnits },
      script: hexToBytes(decodeAddress(destination, { coin, network }).key),
      line: { purpose: 'sweep', to: destination, reference },
    });
    if (!request) continue;
    made.requests.push(request);
    for (const part of group) made.inputs.push({ input: `${part.txid}:${part.n}`, holding: part.holding, units: part.units });
  }
  const spending = new Set(made.inputs.map(({ holding }) => holding));
  for (const { holding } of chosen) if (!spending.has(holding) && !stay.has(holding)) stay.set(holding, 'fee');
  return made;
}
