/** Reads transactions that other wallets signed, and checks every signature by means that Florin does not use: bitcoinjs-lib and OpenSSL. */
import { createHash, createPublicKey, verify } from 'node:crypto';
import { script as scripts, Transaction } from 'bitcoinjs-lib';

/** A compressed key of secp256k1 follows. */
const KEY_HEAD = Buffer.from('3036301006072a8648ce3d020106052b8104000a032200', 'hex');
const SIGHASH_ALL = 1;

export type ForeignTransaction = {
  version: number;
  locktime: number;
  inputs: { txid: string; vout: number; sequence: number }[];
  scripts: string[];
  outputs: { units: bigint; script: string }[];
};

const hash160 = (bytes: Uint8Array): string => createHash('ripemd160').update(createHash('sha256').update(bytes).digest()).digest('hex');

/** Null: it cannot be read. */
export function readForeign(hex: string): ForeignTransaction | null {
  try {
    const tx = Transaction.fromHex(hex);
    return {
      version: tx.version,
      locktime: tx.locktime,
      inputs: tx.ins.map(({ hash, index, sequence }) => ({ txid: Buffer.from(hash).reverse().toString('hex'), vout: index, sequence })),
      scripts: tx.ins.map(({ script }) => Buffer.from(script).toString('hex')),
      outputs: tx.outs.map(({ value, script }) => ({ units: BigInt(value), script: Buffer.from(script).toString('hex') })),
    };
  } catch {
    return null;
  }
}

/** Whether each input is signed for all of the transaction by the key of the output (P2PKH) that it spends. */
export function isSigned(hex: string, spent: readonly string[]): boolean {
  const tx = Transaction.fromHex(hex);
  return tx.ins.every((input, i) => {
    const [signature, publicKey, ...rest] = scripts.decompile(input.script) ?? [];
    if (!(signature instanceof Uint8Array) || !(publicKey instanceof Uint8Array) || rest.length > 0) return false;
    if (spent[i] !== `76a914${hash160(publicKey)}88ac` || publicKey.length !== 33 || signature.at(-1) !== SIGHASH_ALL) return false;
    const copy = tx.clone();
    for (const [n, one] of copy.ins.entries()) one.script = n === i ? Buffer.from(spent[i]!, 'hex') : new Uint8Array();
    const preimage = Buffer.concat([copy.toBuffer(), Buffer.from([SIGHASH_ALL, 0, 0, 0])]);
    const key = createPublicKey({ key: Buffer.concat([KEY_HEAD, publicKey]), format: 'der', type: 'spki' });
    // OpenSSL hashes once more, so that it checks the double hash.
    return verify('sha256', createHash('sha256').update(preimage).digest(), key, signature.subarray(0, -1));
  });
}
