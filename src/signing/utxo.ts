/** Sweeps of Bitcoin-like chains: which outputs are worth their fee, and the PSBTs (BIP-174) that spend them. Pure. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { HDKey } from '@scure/bip32';
import { bip32Path, Transaction } from '@scure/btc-signer';
import { type BitcoinScript, keysOf, outputLockOf, type Script, type Signer } from '#addresses';
import { divideCeil, E8 } from '#core/money';
import { type Line, MAX_SIGNING_BYTES, type PsbtRequest } from '#core/signing-file';

/** Inputs of one transaction. At 148 bytes each it stays below the 100 kB that nodes relay. */
export const MAX_INPUTS = 500;
/** Of larger ones, as many as nodes relay. */
export const mostInputs = (inputSize: bigint): number => Math.min(MAX_INPUTS, Number(75_000n / inputSize));
/** PSBTs in one signing file. */
export const MAX_GROUPS = 20;
/** The most bytes of one PSBT, unless a single input needs more. */
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
/** The most bytes of all PSBTs in a file, so that their base64 and the text around it stay below what the signer reads. */
export const MAX_FILE_BYTES = (MAX_SIGNING_BYTES / 4) * 3 - 1024 * 1024;
/** More than an input adds to a PSBT besides the transaction that made it, and more than each further key adds with its signature. */
const INPUT_BYTES = 300;
const KEY_BYTES = 250;
/** Virtual bytes of a signed input, for several keys without its witness. */
const INPUT_SIZE: Readonly<Record<BitcoinScript, bigint>> = {
  ...{ p2wpkh: 68n, p2tr: 58n, 'p2sh-p2wpkh': 91n, p2pkh: 149n },
  ...{ p2wsh: 41n, 'p2sh-p2wsh': 76n },
};
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
/** The keys of the external chain, and where each is below its seed, if a descriptor says so. */
type UtxoWallet = { chainKey: string; script: BitcoinScript; signers: readonly Signer[] };

/** Virtual bytes of a signed input of a wallet. */
export function inputSizeOf({ chainKey, script }: { chainKey: string; script: Script }): bigint {
  const base = INPUT_SIZE[script as BitcoinScript];
  if (script !== 'p2wsh' && script !== 'p2sh-p2wsh') return base;
  const { required, chainKeys } = keysOf(chainKey);
  // An empty item, the signatures with their lengths, and the script with its length. Four bytes of a witness count as one.
  const scriptBytes = 5n + 34n * BigInt(chainKeys.length);
  return base + divideCeil(2n + 73n * BigInt(required) + (scriptBytes > 252n ? 3n : 1n) + scriptBytes, 4n);
}

/** Base units for so many virtual bytes; the rate is per virtual byte in 1e-8, as sources report it. */
export const feeFor = (size: bigint, rateE8: bigint): bigint => divideCeil(size * rateE8, E8);
const sizeOf = (inputs: number, inputSize: bigint, outputBytes: number): bigint =>
  OVERHEAD + BigInt(inputs) * inputSize + 9n + BigInt(outputBytes);

/** The fingerprint of the key of an external chain. */
const fingerprintOf = (chainKey: string): number =>
  new HDKey({ publicKey: hexToBytes(chainKey.slice(0, 66)), chainCode: hexToBytes(chainKey.slice(66)), depth: 4 }).fingerprint;

/** What a PSBT says about the keys of an input: from the seed where that is known, else below the external chain. */
const derivationsOf = ({ chainKey, signers }: UtxoWallet, index: bigint): { fingerprint: number; path: number[] }[] =>
  keysOf(chainKey).chainKeys.map((one, i) => {
    const { fingerprint, path } = signers[i]!;
    if (fingerprint !== null && path.startsWith('m'))
      return { fingerprint: Number.parseInt(fingerprint, 16), path: bip32Path(`${path}/${index}`) };
    return { fingerprint: fingerprintOf(one), path: [Number(index)] };
  });

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

function addInput(tx: Transaction, output: SpendableOutput, previous: Uint8Array | null, wallet: UtxoWallet): void {
  const { script, publicKeys, redeemScript, witnessScript } = outputLockOf(wallet, output.index);
  const derivations = derivationsOf(wallet, output.index);
  const isTaproot = wallet.script === 'p2tr';
  tx.addInput({
    txid: output.txid,
    index: output.n,
    sequence: REPLACEABLE,
    ...(previous && { nonWitnessUtxo: previous }),
    ...(wallet.script !== 'p2pkh' && { witnessUtxo: { script, amount: output.units } }),
    ...(redeemScript && { redeemScript }),
    ...(witnessScript && { witnessScript }),
    ...(isTaproot
      ? { tapInternalKey: publicKeys[0]!.slice(1), tapBip32Derivation: [[publicKeys[0]!.slice(1), { hashes: [], der: derivations[0]! }]] }
      : { bip32Derivation: publicKeys.map((key, i) => [key, derivations[i]!]) }),
  });
}

/** The bytes that an output adds to a file. */
export const bytesOfOutput = (
  { txid }: SpendableOutput,
  previous: ReadonlyMap<string, Uint8Array>,
  { chainKey }: Pick<UtxoWallet, 'chainKey'>,
): number => INPUT_BYTES + KEY_BYTES * (keysOf(chainKey).chainKeys.length - 1) + (previous.get(txid)?.length ?? 0);

/**
 * Groups of outputs, each small enough for one transaction and all of them for one file. The outputs of a transfer all stay (`left`) or
 * all go. `previous` are the transactions that made the outputs, which a PSBT repeats for each input; none for Taproot.
 */
export function splitOutputs<T extends SpendableOutput>(
  transfers: readonly (readonly T[])[],
  previous: ReadonlyMap<string, Uint8Array>,
  wallet: Pick<UtxoWallet, 'chainKey' | 'script'>,
): { groups: (readonly T[])[]; left: T[] } {
  const most = mostInputs(inputSizeOf(wallet));
  let groups: T[][] = [];
  const left: T[] = [];
  let [fileBytes, groupBytes] = [0, 0];
  for (const transfer of transfers) {
    const tried = [...groups.slice(0, -1), ...groups.slice(-1).map((last) => [...last])];
    let [inFile, inGroup] = [fileBytes, groupBytes];
    for (const output of transfer) {
      const more = bytesOfOutput(output, previous, wallet);
      const last = tried.at(-1);
      const fits = last && last.length < most && inGroup + more <= MAX_GROUP_BYTES;
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
const feeOf = (inputs: number, inputSize: bigint, outputs: readonly Uint8Array[], rateE8: bigint): bigint =>
  feeFor(sizeOf(inputs, inputSize, outputs.reduce((sum, output) => sum + 9 + output.length, 0) - 9), rateE8);
/** What outputs must hold at least to pay amounts of `units` together to scripts, without change. */
export const neededFor = (
  { units, scripts }: { units: bigint; scripts: readonly Uint8Array[] },
  { inputs, inputSize, rateE8 }: { inputs: number; inputSize: bigint; rateE8: bigint },
): bigint => units + feeOf(inputs, inputSize, scripts, rateE8);

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
  const inputSize = inputSizeOf(wallet);
  if (total < neededFor({ units, scripts }, { inputs: group.length, inputSize, rateE8 })) return null;
  const restUnits = total - units - feeOf(group.length, inputSize, [...scripts, rest.script], rateE8);
  const outputs = [...to, ...(restUnits >= leastUnits ? [{ ...rest, units: restUnits }] : [])];
  const tx = new Transaction({ version: 2 });
  for (const output of group) addInput(tx, output, previous.get(output.txid) ?? null, wallet);
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
  const feeUnits = feeFor(sizeOf(group.length, inputSizeOf(wallet), script.length), rateE8);
  const units = total - feeUnits;
  if (units < leastUnits || isFeeTooLarge(feeUnits, total)) return null;
  const tx = new Transaction({ version: 2 });
  for (const output of group) addInput(tx, output, previous.get(output.txid) ?? null, wallet);
  tx.addOutput({ script, amount: units });
  return {
    kind: 'psbt',
    psbt: Buffer.from(tx.toPSBT(0)).toString('base64'),
    inputs: group.length,
    feeUnits,
    lines: [{ ...line, units }],
  };
}
