/** The secret that signs: a seed phrase (BIP-39) or an extended private key, and the account that a file names below it. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { createBase58check } from '@scure/base';
import { HDKey } from '@scure/bip32';
import { mnemonicToSeedSync, validateMnemonic } from '@scure/bip39';
import { wordlist } from '@scure/bip39/wordlists/english.js';
import { keysOf } from '../src/addresses/address.ts';
import { COIN, type Family } from '../src/core/coin.ts';
import type { SigningFile, SigningScript } from '../src/core/signing-file.ts';

const base58check = createBase58check(sha256);
const XPRV = 0x0488ade4;
/** Numbers of coins in derivation paths (SLIP-44); test networks use 1. */
const COIN_TYPE: Readonly<Partial<Record<Family, number>>> = { BTC: 0, LTC: 2, DOGE: 3, DASH: 5, ETH: 60 };
const TEST_TYPE = 1;
/** First step of the path of each address type (BIP-44, 48, 49, 84, 86). */
const PURPOSE: Readonly<Record<SigningScript, number>> = {
  ...{ p2pkh: 44, eoa: 44, 'p2sh-p2wpkh': 49, p2wpkh: 84, p2tr: 86 },
  ...{ p2wsh: 48, 'p2sh-p2wsh': 48 },
};
/** Last step of the path of a multisig account (BIP-48). */
const MULTISIG_TYPE: Readonly<Partial<Record<SigningScript, number>>> = { 'p2sh-p2wsh': 1, p2wsh: 2 };
const HARDENED = 0x80000000;
/** Accounts that are tried where the file does not name one. */
const ACCOUNTS = 20;

/** What a person can correct. Null: nothing, because the file itself is wrong. */
export type Field = 'destination' | 'recipients' | 'fee' | 'secret' | null;
/** Something to show to the person who signs. It never contains a part of the secret. */
export class SignerError extends Error {
  readonly field: Field;
  constructor(message: string, field: Field = null) {
    super(message);
    this.name = 'SignerError';
    this.field = field;
  }
}
export const refuse = (message: string, field: Field = null): never => {
  throw new SignerError(message, field);
};
const refuseSecret = (message: string): never => refuse(message, 'secret');

/** Reads a seed phrase or an extended private key in any spelling. Errors: SignerError. */
export function readSecret(text: string, passphrase = ''): HDKey {
  const words = text.trim().toLowerCase().split(/\s+/);
  if (words.length > 1) {
    const phrase = words.join(' ');
    if (!validateMnemonic(phrase, wordlist)) refuseSecret('This is not a valid seed phrase. Check the words and their order.');
    const seed = mnemonicToSeedSync(phrase, passphrase);
    const master = HDKey.fromMasterSeed(seed);
    seed.fill(0);
    return master;
  }
  let payload: Uint8Array;
  try {
    payload = base58check.decode(text.trim());
  } catch {
    return refuseSecret('This is neither a seed phrase nor an extended private key.');
  }
  if (payload.length !== 78 || payload[45] !== 0)
    return refuseSecret('This is a public key. Signing needs the seed phrase or the extended private key.');
  // Wallets spell the same key with different versions (SLIP-132).
  new DataView(payload.buffer, payload.byteOffset).setUint32(0, XPRV);
  return HDKey.fromExtendedKey(base58check.encode(payload));
}

/** `addresses`: the chain of deposit addresses; `account`: the key above it. */
export type Account = { account: HDKey; addresses: HDKey };

/** The coin types that a file of this coin may use, so that a file for one coin never spends another. */
function typesOf({ coin, network }: SigningFile): number[] {
  const type = COIN_TYPE[COIN[coin].family];
  return [...(type === undefined ? [] : [type]), ...(network === 'mainnet' ? [] : [TEST_TYPE])];
}

/** Whether a file names keys that only test networks use. Without a chain ID, the same signature can be valid on mainnet. */
export const isTestAccount = ({ network, account: { origins } }: SigningFile): boolean =>
  network !== 'mainnet' && origins.every((origin) => origin !== null && /^m\/\d+'\/1'\/\d+'(?:\/\d+')?$/.test(origin));

/** Accounts below a secret that may be the one of a key of the file. */
function candidates(root: HDKey, file: SigningFile, origin: string | null): HDKey[] {
  const { script } = file.account;
  const multisigType = MULTISIG_TYPE[script];
  if (root.depth === 3 || (root.depth === 4 && multisigType !== undefined)) {
    // An account key does not contain its coin type, so it could hold real money.
    if (script !== 'eoa' && isTestAccount(file))
      return refuseSecret('Enter the seed phrase or the root key: an account key does not show that it is for a test network only.');
    return [root];
  }
  if (root.depth !== 0) return refuseSecret('This extended private key is neither the root nor an account of a wallet.');
  const types = typesOf(file);
  if (origin !== null) {
    const [, , type] = origin.split('/');
    if (types.includes(Number(type?.replace("'", '')))) return [root.derive(origin)];
    // Other signers may keep their keys elsewhere.
    return multisigType === undefined ? refuse(`The file asks for keys of another coin than ${file.coin}.`) : [];
  }
  return types.flatMap((type) => {
    const above = root.derive(`m/${PURPOSE[script]}'/${type}'`);
    const accounts = Array.from({ length: ACCOUNTS }, (_, i) => above.deriveChild(HARDENED + i));
    return multisigType === undefined ? accounts : accounts.map((account) => account.deriveChild(HARDENED + multisigType));
  });
}

/** The account whose addresses the file spends from. Errors: SignerError, when the secret belongs to another wallet. */
export function findAccount(root: HDKey, file: SigningFile): Account {
  const { origins, chainKey } = file.account;
  const { chainKeys } = keysOf(chainKey);
  if (origins.length !== chainKeys.length) refuse('The file does not say where its keys are.');
  for (const origin of new Set(origins))
    for (const account of candidates(root, file, origin)) {
      const addresses = account.deriveChild(0);
      if (chainKeys.includes(bytesToHex(addresses.publicKey!) + bytesToHex(addresses.chainCode!))) return { account, addresses };
    }
  return refuseSecret(
    'This secret belongs to another wallet: it does not control the addresses in this file. Check the words, the passphrase and the wallet.',
  );
}

/** Forgets the private parts of a key. */
export const forget = (...keys: readonly (HDKey | null)[]): void => {
  for (const key of keys) key?.wipePrivateData();
};
