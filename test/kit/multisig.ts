/** Wallets of several keys, as their owners keep them. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { HDKey } from '@scure/bip32';
import { Transaction } from '@scure/btc-signer';
import { parseAccountKey, signersOf } from '../../src/addresses/account-key.ts';
import { addressOfOutput, outputLockOf } from '../../src/addresses/address.ts';
import { descriptorChecksum } from '../../src/addresses/descriptor.ts';
import { type BitcoinScript, PARAMS } from '../../src/addresses/params.ts';
import type { Network } from '../../src/core/coin.ts';
import type { SigningFile } from '../../src/core/signing-file.ts';
import { buildPsbt, type SpendableOutput } from '../../src/signing/utxo.ts';
import { base58check } from './base58.ts';

const TPUB = 0x043587cf;
/** The seed of a signer. */
export const signer = (seed: number): HDKey => HDKey.fromMasterSeed(new Uint8Array(32).fill(seed));
const fingerprint = (root: HDKey): string => root.fingerprint.toString(16).padStart(8, '0');

export type Policy = { required: number; of: number; wraps?: (multi: string) => string; isSorted?: boolean; network?: Network };
/** The descriptor of a wallet whose signers have the seeds 1, 2 and so on (BIP-48). */
export function multisigDescriptor({
  required,
  of,
  wraps = (multi) => `wsh(${multi})`,
  isSorted = true,
  network = 'regtest',
}: Policy): string {
  const path = network === 'mainnet' ? "48'/0'/0'/2'" : "48'/1'/0'/2'";
  const keys = Array.from({ length: of }, (_, i) => {
    const root = signer(i + 1);
    const { publicExtendedKey } = root.derive(`m/${path}`);
    return `[${fingerprint(root)}/${path}]${network === 'mainnet' ? publicExtendedKey : base58check.respell(publicExtendedKey, TPUB)}/<0;1>/*`;
  });
  const body = wraps(`${isSorted ? 'sortedmulti' : 'multi'}(${[required, ...keys].join()})`);
  return `${body}#${descriptorChecksum(body)}`;
}

const DESTINATION = `0014${'ab'.repeat(20)}`;
/** A sweep of so many outputs of such a wallet, each made by a transaction of its own. */
export function multisigFile(policy: Policy, count: number): { file: SigningFile; destination: string } {
  const { network = 'regtest' } = policy;
  const account = parseAccountKey(multisigDescriptor(policy), { coin: 'BTC', network });
  const script = account.script as BitcoinScript;
  const wallet = { ...account, script, signers: signersOf(account) };
  const previous = new Map<string, Uint8Array>();
  const group = Array.from({ length: count }, (_, i): SpendableOutput => {
    const tx = new Transaction({ allowUnknownOutputs: true });
    tx.addInput({ txid: new Uint8Array(32).fill(i + 1), index: 0 });
    tx.addOutput({ script: outputLockOf(wallet, BigInt(i)).script, amount: 1_000_000n });
    previous.set(tx.id, tx.toBytes(true, false));
    return { txid: tx.id, n: 0, units: 1_000_000n, blockHash: '', index: BigInt(i) };
  });
  const destination = addressOfOutput(DESTINATION, PARAMS.BTC.forms[network])!;
  const id = 'swp_000000000000000000000001';
  const request = buildPsbt({
    ...{ group, previous, wallet, script: hexToBytes(DESTINATION), rateE8: 500_000_000n, leastUnits: 546n },
    line: { purpose: 'sweep', to: destination, reference: id },
  })!;
  const file: SigningFile = {
    ...{ id, round: 0, coin: 'BTC', network, chainId: null, gasPrice: null, requests: [request] },
    account: {
      ...{ chainKey: account.chainKey, script },
      origins: wallet.signers.map(({ path }) => path.split('/').slice(0, -1).join('/')),
    },
    ...{ totalUnits: request.lines[0]!.units, feeUnits: request.feeUnits },
  };
  return { file, destination };
}

/** The account of such a signer, and its public key as others write it into descriptors. */
export const accountKeyOf = (seed: number): { origin: string; publicKey: string; privateKey: string } => {
  const root = signer(seed);
  const account = root.derive("m/48'/1'/0'/2'");
  return {
    origin: `[${fingerprint(root)}/48'/1'/0'/2']`,
    publicKey: base58check.respell(account.publicExtendedKey, TPUB),
    privateKey: base58check.respell(account.privateExtendedKey, 0x04358394),
  };
};
