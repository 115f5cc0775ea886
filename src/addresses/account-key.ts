/** Account keys: extended public keys and descriptors, as wallets export them. Watch-only: private keys are refused. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { createBase58check } from '@scure/base';
import { HDKey } from '@scure/bip32';
import { COIN, type Coin, chainOf, FAMILIES, type Family, type Network } from '#core/coin';
import { invariant } from '#core/invariant';
import { Problem } from '#core/problem';
import { exportedKey } from './account-export.ts';
import { decodeAddress, deriveAddress, type Script, writeChainKey } from './address.ts';
import { type Descriptor, descriptorChecksum, invalidKey as invalid, type KeyExpression, readDescriptor, wrapperOf } from './descriptor.ts';
import { isBitcoinLike, type KeySpelling, PARAMS } from './params.ts';

const base58check = createBase58check(sha256);

/** Every family takes these two (BIP-32). They leave the script open. */
const COMMON: readonly KeySpelling[] = [
  { version: 0x0488b21e, main: true, script: null }, // xpub
  { version: 0x043587cf, main: false, script: null }, // tpub
];
/** Keys of multisig wallets (SLIP-132). */
const MULTISIG_KEYS: readonly KeySpelling[] = [
  { version: 0x0295b43f, main: true, script: 'p2sh-p2wsh' }, // Ypub
  { version: 0x02aa7ed3, main: true, script: 'p2wsh' }, // Zpub
  { version: 0x024289ef, main: false, script: 'p2sh-p2wsh' }, // Upub
  { version: 0x02575483, main: false, script: 'p2wsh' }, // Vpub
];

const keysOf = (family: Family): readonly KeySpelling[] => [...COMMON, ...(isBitcoinLike(family) ? PARAMS[family].keys : [])];

/** The scripts that an account key of this coin can have. */
function scriptsOf(coin: Coin): readonly Script[] {
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) return ['eoa'];
  return PARAMS[family].segwit ? ['p2pkh', 'p2sh-p2wpkh', 'p2wpkh', 'p2tr', 'p2sh-p2wsh', 'p2wsh'] : ['p2pkh'];
}

/** What the version of a key says: SLIP-132 and its kin. */
function spellingOf(version: number, coin: Coin): KeySpelling {
  const families = FAMILIES.filter((family) => keysOf(family).some((one) => one.version === version));
  if (families.length === 0) throw invalid('its prefix is unknown; export it as xpub, ypub, zpub or a descriptor');
  const spelling = keysOf(COIN[coin].family).find((one) => one.version === version);
  if (!spelling) throw invalid(`its prefix is for ${families.join(', ')}, not for ${coin}`);
  return spelling;
}

/** The script that a spelling names, or the only one that the coin has; null when it is open. */
const scriptOf = (spelling: KeySpelling, coin: Coin): Script | null => {
  const [first, ...others] = scriptsOf(coin);
  return others.length === 0 && first ? first : spelling.script;
};

type AccountKey = {
  /** Public key and chain code of the external chain, hex, or those of several keys: one identity whatever the spelling. */
  chainKey: string;
  /** The key as given, without blanks; of several keys, their descriptor. */
  accountKey: string;
  /** Null when the prefix leaves it open. */
  script: Script | null;
  /** Of the external chain: from the seed when a descriptor says so (`m/84'/0'/0'/0`), else below the given key (`0`, or empty). */
  path: string;
};

/**
 * Reads a merchant's extended public key, alone or with its origin and the steps behind it, a descriptor (BIP-32, SLIP-132, BIP-380), or what
 * a wallet exports. A
 * key without steps has depth 3, is an account, and its external chain (0) is taken; one of depth 4 only with `external`, as that chain
 * itself. Errors: private_key_refused (the input is never repeated), account_key_invalid.
 */
export function parseAccountKey(
  input: string,
  { coin, network, external = false }: { coin: Coin; network: Network; external?: boolean },
): AccountKey {
  const given = input.trim();
  refusePrivate(given);
  const { text, firstAddress } = exportedKey(given, COIN[coin].asset);
  if (isAddress(text, { coin, network }))
    throw invalid('it is a single address; each payment needs a new one, so export the public key of the account');
  const key = readAccount(text, { coin, network, external });
  if (firstAddress !== null && key.script !== null) {
    const { address } = deriveAddress({ ...key, script: key.script, coin, network, index: 0n });
    if (address !== firstAddress) throw invalid(`its first address is ${address}, and the file says another one`);
  }
  return key;
}

/** Alone, or in a payment URI. */
function isAddress(text: string, on: { coin: Coin; network: Network }): boolean {
  const [uri = ''] = text.split('?', 1);
  try {
    decodeAddress(uri.slice(uri.indexOf(':') + 1), on);
    return true;
  } catch {
    return false;
  }
}

function readAccount(text: string, { coin, network, external }: { coin: Coin; network: Network; external: boolean }): AccountKey {
  const descriptor = readDescriptor(text);
  if (descriptor.multi) return readMultisig(descriptor, { coin, network });
  const [expression] = descriptor.keys as [KeyExpression];
  const { fingerprint, origin, key, steps, isRanged } = expression;
  const { node, spelling } = readExtended(key, { coin, network, isMultisig: false });
  const script = descriptor.script
    ? scriptIn(descriptor.script, { spelling, coin })
    : (scriptOf(spelling, coin) ?? scriptOfPurpose(origin, coin));
  // Payments for gas come from a chain beside that of deposit addresses, below the same account.
  if (isRanged && !isBitcoinLike(COIN[coin].family) && (node.depth !== 3 || steps.join('/') !== '0'))
    throw invalid("it must be the key of an account, such as m/44'/60'/0'");
  const path = isRanged ? steps : pathOfBare(node.depth, { key, script, coin, external });
  const chain = path.reduce((at, step) => at.deriveChild(step), node);
  return {
    ...chainKeyOf(chain),
    accountKey: text,
    script,
    path: pathOf({ ...expression, fingerprint, origin, steps: path }),
  };
}

/** The public key of the address `1/0` of an account key of depth 3: outside the chain of deposit addresses, so it is never issued. */
export function internalKeyOf(accountKey: string, { coin, network }: { coin: Coin; network: Network }): Uint8Array {
  const [{ key }] = readDescriptor(accountKey).keys as [KeyExpression];
  const { publicKey } = readExtended(key, { coin, network, isMultisig: false }).node.deriveChild(1).deriveChild(0);
  invariant(publicKey, 'an account key derives public keys');
  return publicKey;
}

/** Whether a file contains a private key or a seed phrase, in any form that wallets export. */
export const containsPrivateKey = (text: string): boolean =>
  PHRASE.test(text) ||
  /(?<![0-9A-Za-z])(?:0x)?[0-9a-fA-F]{64}(?![0-9A-Za-z])/.test(text) ||
  isPhraseOrHex(text) ||
  encodesPrivateKey(text) ||
  // Base64 of a large file looks like the start of a key by chance.
  [...text.matchAll(EXTENDED)].some(([, key]) => EXTENDED_LENGTHS.some((length) => encodesPrivateKey(key!.slice(0, length))));

/** Refuses private keys in every form that wallets export. */
function refusePrivate(text: string): void {
  if (isPrivate(text)) throw new Problem('private_key_refused', {}, { param: 'key' });
}

/** The start of an extended private key, after a character that cannot be part of it, and what follows. */
const EXTENDED = /(?<![1-9A-HJ-NP-Za-km-z])((?:[xyzuvtYZUV]prv|[LM]tpv|ttpv|drkv|dgpv|DRKV|dgpr)[1-9A-HJ-NP-Za-km-z]{20,120})/g;
/** Characters of an extended key. */
const EXTENDED_LENGTHS = [111, 112];

/** Twelve words of a phrase, also within a file. */
const PHRASE = /\b[a-z]{3,8}(?:[\s,"]{1,8}[a-z]{3,8}){11}\b/i;
const isPrivate = (text: string): boolean =>
  isPhraseOrHex(text) || PHRASE.test(text) || text.search(EXTENDED) !== -1 || encodesPrivateKey(text);

function isPhraseOrHex(text: string): boolean {
  const words = text.split(/\s+/);
  return (words.length >= 12 && words.every((word) => /^[a-zA-Z]+$/.test(word))) || /^(0x)?[0-9a-fA-F]{64}$/.test(text);
}

/** Whether a part of it is a private key in base58check: WIF, or an extended key. */
function encodesPrivateKey(text: string): boolean {
  for (const part of text.match(/[1-9A-HJ-NP-Za-km-z]{50,120}/g) ?? []) {
    // 37, 38 or 82 bytes. Decoding takes long, and a large file of base64 is full of other lengths.
    if (part.length > 52 && (part.length < 105 || part.length > 112)) continue;
    try {
      const payload = base58check.decode(part);
      if (payload.length === 33 || (payload.length === 34 && payload[33] === 1)) return true;
      if (payload.length === 78 && payload[45] === 0) return true;
    } catch {
      // Not base58check: the key check below reports it.
    }
  }
  return false;
}

function readExtended(
  text: string,
  { coin, network, isMultisig }: { coin: Coin; network: Network; isMultisig: boolean },
): { node: HDKey; spelling: KeySpelling } {
  let payload: Uint8Array;
  try {
    payload = base58check.decode(text);
  } catch {
    throw invalid('it is not an extended public key (wrong characters or checksum)');
  }
  if (payload.length !== 78) throw invalid('it is not an extended public key');
  const version = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
  const cosigner = MULTISIG_KEYS.find((one) => one.version === version);
  if (cosigner && !isMultisig)
    throw invalid('it is one of the keys of a multisig wallet; export the descriptor of the wallet, which has all of them');
  const spelling = cosigner ?? spellingOf(version, coin);
  // Wallets show an account of an Ethereum-like chain as an xpub on every network.
  const fits = spelling.main === (network === 'mainnet') || (chainOf(coin).kind === 'ethereum' && spelling.main);
  if (!fits) throw invalid(`it is a ${spelling.main ? 'mainnet' : 'test network'} key and this ${coin} wallet is on ${network}`);
  // The library accepts one version. What else the version says was checked above.
  const standard = payload.slice();
  new DataView(standard.buffer).setUint32(0, 0x0488b21e);
  try {
    return { node: HDKey.fromExtendedKey(base58check.encode(standard)), spelling };
  } catch {
    throw invalid('it is not a valid public key');
  }
}

function chainKeyOf({ publicKey, chainCode }: HDKey): { chainKey: string } {
  invariant(publicKey?.length === 33 && chainCode?.length === 32, 'an extended key has a public key of 33 bytes and a chain code of 32');
  return { chainKey: bytesToHex(publicKey) + bytesToHex(chainCode) };
}

function scriptIn(script: Script, { spelling, coin }: { spelling: KeySpelling; coin: Coin }): Script {
  if (!scriptsOf(coin).includes(script)) throw invalid(`${coin} has no addresses of this type`);
  if (spelling.script !== null && spelling.script !== script) throw invalid(`its key is for ${spelling.script} addresses`);
  return script;
}

/** The purpose that begins the path of an account, by its standard: BIP-44, 49, 84 and 86. */
const PURPOSES: Readonly<Record<string, Script>> = { "44'": 'p2pkh', "49'": 'p2sh-p2wpkh', "84'": 'p2wpkh', "86'": 'p2tr' };
/** Null: the origin does not say it, or the coin has no such addresses. */
function scriptOfPurpose(origin: readonly string[], coin: Coin): Script | null {
  const script = origin.length === 3 ? PURPOSES[origin[0]!] : undefined;
  return script !== undefined && scriptsOf(coin).includes(script) ? script : null;
}

/** The steps behind a key that names none. Errors: account_key_invalid, with what to enter instead of a key that is not of an account. */
function pathOfBare(
  depth: number,
  { key, script, coin, external }: { key: string; script: Script | null; coin: Coin; external: boolean },
): number[] {
  if (depth === 3) return [0];
  if (depth === 4 && external) return [];
  const reason = `it has depth ${depth}, but the key of one account has depth 3; export that of an account such as m/84'/0'/0'`;
  // Electrum shows the key whose children 0 and 1 are its chains: that of the seed, or of m/0'.
  if (depth > 1 || !isBitcoinLike(COIN[coin].family)) throw invalid(reason);
  const { opens, closes } = wrapperOf(script ?? 'p2pkh');
  throw invalid(`${reason}. If Electrum shows this key, enter ${opens}${key}/0/*${closes} and compare the first address with Electrum's`);
}

// Accounts of several keys.

/** The account of a descriptor with several keys. Errors: account_key_invalid. */
function readMultisig({ script, keys, multi }: Descriptor, { coin, network }: { coin: Coin; network: Network }): AccountKey {
  const { required, isSorted } = multi!;
  const read = keys.map((one) => {
    const { node, spelling } = readExtended(one.key, { coin, network, isMultisig: true });
    scriptIn(script!, { spelling, coin });
    const chain = one.steps.reduce((at, step) => at.deriveChild(step), node);
    return { ...one, ...chainKeyOf(chain), key: respell(one.key, spelling.main) };
  });
  if (new Set(read.map(({ chainKey }) => chainKey)).size < read.length) throw invalid('it has the same key twice');
  // One identity whatever the order, where the order makes no difference.
  if (isSorted) read.sort((one, other) => (one.chainKey < other.chainKey ? -1 : 1));
  const { opens, closes } = wrapperOf(script!);
  const written = read.map(writeKey);
  const body = `${opens}${isSorted ? 'sortedmulti' : 'multi'}(${[required, ...written].join()})${closes}`;
  return {
    chainKey: writeChainKey({ required, isSorted, chainKeys: read.map(({ chainKey }) => chainKey) }),
    accountKey: `${body}#${descriptorChecksum(body)}`,
    script,
    path: pathOf(read[0]!),
  };
}

const pathOf = ({ fingerprint, origin, steps }: KeyExpression): string =>
  [...(fingerprint === null ? [] : ['m', ...origin]), ...steps].join('/');
const writeOrigin = ({ fingerprint, origin }: KeyExpression): string =>
  fingerprint === null ? '' : `[${[fingerprint, ...origin].join('/')}]`;
const writeKey = (one: KeyExpression): string => `${writeOrigin(one)}${[one.key, ...one.steps].join('/')}/*`;
/** As `xpub` or `tpub`, which every program reads. */
function respell(key: string, isMain: boolean): string {
  const payload = base58check.decode(key);
  new DataView(payload.buffer, payload.byteOffset).setUint32(0, isMain ? COMMON[0]!.version : COMMON[1]!.version);
  return base58check.encode(payload);
}

/** Who signs for an account: the fingerprint of each seed, if it is known, and the path of the chain of deposit addresses. */
export type Signer = { fingerprint: string | null; path: string };
/** The signers of a stored account, in the order of its chain keys. */
export function signersOf({ accountKey, path }: { accountKey: string; path: string }): Signer[] {
  const { keys, multi } = readDescriptor(accountKey);
  if (!multi) return [{ fingerprint: keys[0]!.fingerprint, path }];
  return keys.map((key) => ({ fingerprint: key.fingerprint, path: pathOf(key) }));
}

/** A wallet policy (BIP-388): the template of a descriptor, and the keys for its places. `descriptor`: both in one, with its checksum. */
type WalletPolicy = { template: string; keys: string[]; descriptor: string };
/** What hardware wallets register of a stored account before they sign for it. Null for keys whose chain of addresses is not `/0/*`. */
export function policyOf({ accountKey, script, network }: { accountKey: string; script: Script; network: Network }): WalletPolicy | null {
  const { keys, multi } = readDescriptor(accountKey);
  if (script === 'eoa' || keys.some(({ steps, isRanged }) => isRanged && steps.join('/') !== '0')) return null;
  const { opens, closes } = wrapperOf(script);
  const write = (written: readonly string[]): string =>
    `${opens}${multi ? `${multi.isSorted ? 'sortedmulti' : 'multi'}(${[multi.required, ...written].join()})` : written.join()}${closes}`;
  const infos = keys.map((one) => `${writeOrigin(one)}${respell(one.key, network === 'mainnet')}`);
  const body = write(infos.map((info) => `${info}/<0;1>/*`));
  return { template: write(infos.map((_, i) => `@${i}/**`)), keys: infos, descriptor: `${body}#${descriptorChecksum(body)}` };
}
