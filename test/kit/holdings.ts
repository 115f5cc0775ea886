/** Made-up deposits for the wallets of `addressesOf`, and the part of a chain that spending them asks. */
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { outputScript } from '../../src/addresses/address.ts';
import type { BitcoinScript } from '../../src/addresses/params.ts';
import { parseTransaction, txidOf } from '../../src/chains/bitcoin/raw-block.ts';
import type { JoinedSource } from '../../src/chains/chain-source.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import type { Holding, SweepWallet } from '../../src/signing/holdings.ts';
import { addressesOf } from './signing.ts';

const u32 = (value: number): string => Buffer.from(Uint32Array.of(value).buffer).toString('hex');
const u64 = (value: bigint): string => Buffer.from(BigUint64Array.of(value).buffer).toString('hex');
const sized = (hex: string): string => {
  const length = hex.length / 2;
  return (length < 253 ? Buffer.of(length).toString('hex') : `fe${u32(length)}`) + hex;
};

export type Deposit = { units: readonly bigint[]; version?: number; inputs?: number; payload?: string; filler?: number; block?: string };
/** The bytes of a transaction that pays deposit address `index` with its outputs; `filler`: so many bytes more, that nobody can spend. */
function rawOf(coin: BitcoinFamily, script: BitcoinScript, deposit: Deposit, index: number): Uint8Array {
  const { units, version = 2, inputs = 1, payload, filler = 0 } = deposit;
  const paid = bytesToHex(outputScript(script, addressesOf(coin, script).deriveChild(index).publicKey!));
  const outputs = units.map((each) => u64(each) + sized(paid));
  if (filler > 0) outputs.push(u64(0n) + sized(`6a${'00'.repeat(filler)}`));
  const spent = Array.from({ length: inputs }, (_, i) => `${u32(index + 1).repeat(8)}${u32(i)}00ffffffff`);
  const counted = (list: readonly string[]): string => list.length.toString(16).padStart(2, '0') + list.join('');
  return hexToBytes(u32(version) + counted(spent) + counted(outputs) + u32(0) + (payload === undefined ? '' : sized(payload)));
}

/** Deposits that a payment each received, and a chain that has them. */
export function depositsOf(
  coin: BitcoinFamily,
  script: BitcoinScript,
  deposits: readonly Deposit[],
): { chain: JoinedSource; wallet: SweepWallet; holdings: Holding[] } {
  const raws = new Map<string, Uint8Array>();
  const holdings = deposits.map((deposit, i): Holding => {
    const raw = rawOf(coin, script, deposit, i);
    const txid = txidOf(parseTransaction(Buffer.from(raw), coin));
    raws.set(txid, raw);
    const units = deposit.units.reduce((sum, each) => sum + each, 0n);
    return {
      ...{ coin, paymentId: `pay_${i}`, ref: `${txid}:0`, txid, address: `address ${i}`, units, leftUnits: units, kind: 'output' },
      outputs: deposit.units.length === 1 ? null : deposit.units.map((each, n) => ({ n, units: each })),
      ...{ blockHeight: 1, blockHash: deposit.block ?? '00', firstSeenAt: new Date(0), index: BigInt(i), stays: null },
    };
  });
  const outlet = {
    areUnspent: async (outpoints: readonly string[]) => outpoints.map(() => true),
    readTransactions: async (wanted: readonly { txid: string }[]) => wanted.map(({ txid }) => raws.get(txid)!),
  };
  const { publicKey, chainCode } = addressesOf(coin, script);
  const chainKey = bytesToHex(publicKey!) + bytesToHex(chainCode!);
  return {
    chain: { coin, network: 'mainnet', outlet } as unknown as JoinedSource,
    wallet: {
      ...{
        id: 'wal_0',
        family: coin,
        chainKey,
        accountKey: addressesOf(coin, script).publicExtendedKey,
        script,
        path: '0',
        signers: [{ path: '0', fingerprint: null }],
        active: true,
      },
    },
    holdings,
  };
}
