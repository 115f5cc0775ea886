/** Sweeps of Bitcoin-like chains: which outputs are worth their fee, and the PSBTs (BIP-174) that spend them. Pure. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { HDKey } from '@scure/bip32';
import { bip32Path, p2wpkh, Transaction } from '@scure/btc-signer';
import { type BitcoinScript, outputScript } from '#chains';
import { divideCeil, E8 } from '#core/money';
import { type Line, MAX_SIGNING_BYTES, type PsbtRequest } from '#core/signing-file';

/** Inputs of one transaction. At 148 bytes each it stays below the 100 kB that nodes relay. */
export const MAX_INPUTS = 500;
/** PSBTs in one signing file. */
export const MAX_GROUPS = 20;
/** The most bytes of one PSBT, unless a single input needs more. */
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
/** The most bytes of all PSBTs in a file, so that their base64 and the text around it stay below what the signer reads. */
export const MAX_FILE_BYTES = (MAX_SIGNING_BYTES / 4) * 3 - 1024 * 1024;
/** More than an input adds to a PSBT besides the transaction that made it. */
const INPUT_BYTES = 300;
/** Virtual bytes of a signed input. */
const INPUT_SIZE: Readonly<Record<BitcoinScript, bigint>> = { p2wpkh: 68n, p2tr: 58n, 'p2sh-p2wpkh': 91n, p2pkh: 149n };
/** Version, counts, lock time and the witness marker. */
const OVERHEAD = 14n;
/** Replaceable (BIP-125), so that a stuck transaction can be sent again with a higher fee. */
const REPLACEABLE = 0xfffffffd;

/** The part of the money above which the signer refuses a fee, in percent. */
export const MAX_FEE_PERCENT = 25;
export const isFeeTooLarge = (feeUnits: bigint, spentUnits: bigint): boolean => feeUnits * 100n > spentUnits * BigInt(MAX_FEE_PERCENT);

export type SpendableOutput = {
  txid: string;
  n: number;
  units: bigint;
  blockHash: string;
  /** Of its deposit address. */
  index: bigint;
};
/** The key of the external chain, and where it is below the seed, if a descriptor says so. */
export type UtxoWallet = { chainKey: string; script: BitcoinScript; path: string; fingerprint: string | null };

/** Base units for so many virtual bytes; the rate is per virtual byte in 1e-8, as sources report it. */
export const feeFor = (size: bigint, rateE8: bigint): bigint => divideCeil(size * rateE8, E8);
export const inputFee = (script: BitcoinScript, rateE8: bigint): bigint => feeFor(INPUT_SIZE[script], rateE8);
const sizeOf = (inputs: number, script: BitcoinScript, outputBytes: number): bigint =>
  OVERHEAD + BigInt(inputs) * INPUT_SIZE[script] + 9n + BigInt(outputBytes);

const chainOf = ({ chainKey }: Pick<UtxoWallet, 'chainKey'>): HDKey =>
  new HDKey({ publicKey: hexToBytes(chainKey.slice(0, 66)), chainCode: hexToBytes(chainKey.slice(66)), depth: 4 });

/** What a PSBT says about an input's key: from the seed where that is known, else below the external chain. */
function derivationOf(wallet: UtxoWallet, chain: HDKey, index: bigint): { fingerprint: number; path: number[] } {
  if (wallet.fingerprint !== null && wallet.path.startsWith('m'))
    return { fingerprint: Number.parseInt(wallet.fingerprint, 16), path: bip32Path(`${wallet.path}/${index}`) };
  return { fingerprint: chain.fingerprint, path: [Number(index)] };
}

/**
 * Whether a PSBT can repeat a transaction, as it does for each input. Special transactions of DASH (DIP-2), such as coinbases and Platform
 * withdrawals, carry an extra payload, and no program that signs reads them.
 */
export function isRepeatable(bytes: Uint8Array, txid: string): boolean {
  try {
    const options = { allowUnknownInputs: true, allowUnknownOutputs: true, disableScriptCheck: true, allowUnknownVersion: true };
    return Transaction.fromRaw(bytes, options).id === txid;
  } catch {
    return false;
  }
}

function addInput(tx: Transaction, output: SpendableOutput, previous: Uint8Array | null, wallet: UtxoWallet, chain: HDKey): void {
  const { publicKey } = chain.deriveChild(Number(output.index));
  const script = outputScript(wallet.script, publicKey!);
  const derivation = derivationOf(wallet, chain, output.index);
  const isTaproot = wallet.script === 'p2tr';
  tx.addInput({
    txid: output.txid,
    index: output.n,
    sequence: REPLACEABLE,
    ...(previous && { nonWitnessUtxo: previous }),
    ...(wallet.script !== 'p2pkh' && { witnessUtxo: { script, amount: output.units } }),
    ...(wallet.script === 'p2sh-p2wpkh' && { redeemScript: p2wpkh(publicKey!).script }),
    ...(isTaproot
      ? { tapInternalKey: publicKey!.slice(1), tapBip32Derivation: [[publicKey!.slice(1), { hashes: [], der: derivation }]] }
      : { bip32Derivation: [[publicKey!, derivation]] }),
  });
}

/** The bytes that an output adds to a file. */
export const bytesOfOutput = ({ txid }: SpendableOutput, previous: ReadonlyMap<string, Uint8Array>): number =>
  INPUT_BYTES + (previous.get(txid)?.length ?? 0);

/**
 * Groups of outputs, each small enough for one transaction and all of them for one file. The outputs of a transfer all stay (`left`) or
 * all go. `previous` are the transactions that made the outputs, which a PSBT repeats for each input; none for Taproot.
 */
export function splitOutputs<T extends SpendableOutput>(
  transfers: readonly (readonly T[])[],
  previous: ReadonlyMap<string, Uint8Array>,
): { groups: (readonly T[])[]; left: T[] } {
  let groups: T[][] = [];
  const left: T[] = [];
  let [fileBytes, groupBytes] = [0, 0];
  for (const transfer of transfers) {
    const tried = [...groups.slice(0, -1), ...groups.slice(-1).map((last) => [...last])];
    let [inFile, inGroup] = [fileBytes, groupBytes];
    for (const output of transfer) {
      const more = bytesOfOutput(output, previous);
      const last = tried.at(-1);
      const fits = last && last.length < MAX_INPUTS && inGroup + more <= MAX_GROUP_BYTES;
      if (fits) last.push(output);
      else tried.push([output]);
      inGroup = fits ? inGroup + more : more;
      inFile += more;
    }
    if (tried.length > MAX_GROUPS || inFile > MAX_FILE_BYTES) left.push(...transfer);
    else [groups, fileBytes, groupBytes] = [tried, inFile, inGroup];
  }
  return { groups, left };
}

/** The fee of a transaction with so many inputs and these output scripts. */
const feeOf = (inputs: number, script: BitcoinScript, outputs: readonly Uint8Array[], rateE8: bigint): bigint =>
  feeFor(sizeOf(inputs, script, outputs.reduce((sum, output) => sum + 9 + output.length, 0) - 9), rateE8);
/** What outputs must hold at least to pay amounts of `units` together to scripts, without change. */
export const neededFor = (
  { units, scripts }: { units: bigint; scripts: readonly Uint8Array[] },
  { inputs, inputScript, rateE8 }: { inputs: number; inputScript: BitcoinScript; rateE8: bigint },
): bigint => units + feeOf(inputs, inputScript, scripts, rateE8);

type Target = { script: Uint8Array; line: Omit<Line, 'units'> };
/**
 * A PSBT that pays exactly these units to others, and the rest to the merchant unless it is below `leastUnits`. Null: the outputs do not
 * hold enough for the amounts and the fee.
 */
export function buildPayment({
  group,
  previous,
  wallet,
  rateE8,
  leastUnits,
  to,
  rest,
}: {
  group: readonly SpendableOutput[];
  previous: ReadonlyMap<string, Uint8Array>;
  wallet: UtxoWallet;
  rateE8: bigint;
  leastUnits: bigint;
  to: readonly (Target & { units: bigint })[];
  rest: Target;
}): PsbtRequest | null {
  const total = group.reduce((sum, one) => sum + one.units, 0n);
  const units = to.reduce((sum, one) => sum + one.units, 0n);
  const scripts = to.map(({ script }) => script);
  if (total < neededFor({ units, scripts }, { inputs: group.length, inputScript: wallet.script, rateE8 })) return null;
  const restUnits = total - units - feeOf(group.length, wallet.script, [...scripts, rest.script], rateE8);
  const outputs = [...to, ...(restUnits >= leastUnits ? [{ ...rest, units: restUnits }] : [])];
  const tx = new Transaction({ version: 2 });
  const chain = chainOf(wallet);
  for (const output of group) addInput(tx, output, previous.get(output.txid) ?? null, wallet, chain);
  for (const output of outputs) tx.addOutput({ script: output.script, amount: output.units });
  return {
    kind: 'psbt',
    psbt: Buffer.from(tx.toPSBT(0)).toString('base64'),
    inputs: group.length,
    feeUnits: outputs.reduce((left, output) => left - output.units, total),
    lines: outputs.map((output) => ({ ...output.line, units: output.units })),
  };
}

/**
 * A PSBT that spends all outputs of a group to one line. Null: nothing above `leastUnits` would be left, or the fee would be more than the
 * signer accepts. Segwit inputs also carry the transaction that made them, because a signer cannot otherwise trust their amounts.
 */
export function buildPsbt({
  group,
  previous,
  wallet,
  script,
  rateE8,
  leastUnits,
  line,
}: {
  group: readonly SpendableOutput[];
  previous: ReadonlyMap<string, Uint8Array>;
  wallet: UtxoWallet;
  /** Output script of the destination. */
  script: Uint8Array;
  rateE8: bigint;
  leastUnits: bigint;
  line: Omit<Line, 'units'>;
}): PsbtRequest | null {
  const total = group.reduce((sum, { units }) => sum + units, 0n);
  const feeUnits = feeFor(sizeOf(group.length, wallet.script, script.length), rateE8);
  const units = total - feeUnits;
  if (units < leastUnits || isFeeTooLarge(feeUnits, total)) return null;
  const tx = new Transaction({ version: 2 });
  const chain = chainOf(wallet);
  for (const output of group) addInput(tx, output, previous.get(output.txid) ?? null, wallet, chain);
  tx.addOutput({ script, amount: units });
  return {
    kind: 'psbt',
    psbt: Buffer.from(tx.toPSBT(0)).toString('base64'),
    inputs: group.length,
    feeUnits,
    lines: [{ ...line, units }],
  };
}
