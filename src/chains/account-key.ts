/** Account keys: extended public keys and descriptors, as wallets export them. Watch-only: private keys are refused. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { createBase58check } from '@scure/base';
import { HDKey } from '@scure/bip32';
import { COIN, type Coin, chainOf, FAMILIES, type Family, type Network } from '#core/coin';
import { invariant } from '#core/invariant';
import { Problem } from '#core/problem';
import type { Script } from './address.ts';
import { isBitcoinLike, type KeySpelling, PARAMS } from './bitcoin/params.ts';

const base58check = createBase58check(sha256);

/** Every family takes these two (BIP-32). They leave the script open. */
const COMMON: readonly KeySpelling[] = [
  { version: 0x0488b21e, main: true, script: null }, // xpub
  { version: 0x043587cf, main: false, script: null }, // tpub
];
const MULTISIG_VERSIONS = new Set([0x0295b43f, 0x02aa7ed3, 0x024289ef, 0x02575483]); // Ypub Zpub Upub Vpub

const keysOf = (family: Family): readonly KeySpelling[] => [...COMMON, ...(isBitcoinLike(family) ? PARAMS[family].keys : [])];

/** The scripts that an account key of this coin can have. */
function scriptsOf(coin: Coin): readonly Script[] {
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) return ['eoa'];
  return PARAMS[family].segwit ? ['p2pkh', 'p2sh-p2wpkh', 'p2wpkh', 'p2tr'] : ['p2pkh'];
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

export type AccountKey = {
  /** Public key and chain code of the external chain, hex: one identity whatever the spelling. */
  chainKey: string;
  /** The key as given, without blanks. */
  accountKey: string;
  /** Null when the prefix leaves it open. */
  script: Script | null;
  /** Of the external chain: from the seed when a descriptor says so (`m/84'/0'/0'/0`), else below the given key (`0`, or empty). */
  path: string;
};

/**
 * Reads a merchant's extended public key, alone or with its origin and the steps behind it, or a descriptor (BIP-32, SLIP-132, BIP-380). A
 * key without steps has depth 3, is an account, and its external chain (0) is taken; one of depth 4 only with `external`, as that chain
 * itself. Errors: private_key_refused (the input is never repeated), account_key_invalid.
 */
export function parseAccountKey(
  input: string,
  { coin, network, external = false }: { coin: Coin; network: Network; external?: boolean },
): AccountKey {
  const text = input.trim();
  refusePrivate(text);
  const { body, wrapper } = unwrap(text);
  const { origin, key, steps, isRanged } = readKeyExpression(body);
  if (wrapper && !isRanged)
    throw invalid(`the descriptor must end with /* behind its key, such as ${wrapper.opens}[origin]key/0/*${wrapper.closes}`);
  const { node, spelling } = readExtended(key, { coin, network });
  const script = wrapper ? scriptIn(wrapper, { spelling, coin }) : (scriptOf(spelling, coin) ?? scriptOfPurpose(origin, coin));
  // Payments for gas come from a chain beside that of deposit addresses, below the same account.
  if (isRanged && !isBitcoinLike(COIN[coin].family) && (node.depth !== 3 || steps.join('/') !== '0'))
    throw invalid("it must be the key of an account, such as m/44'/60'/0'");
  const path = isRanged ? steps : pathOfBare(node.depth, { key, script, coin, external });
  const chain = path.reduce((at, step) => at.deriveChild(step), node);
  return {
    ...chainKeyOf(chain),
    accountKey: text,
    script,
    path: [...(origin === null ? [] : ['m', ...origin]), ...path].join('/'),
  };
}

const invalid = (reason: string) => new Problem('account_key_invalid', { reason }, { param: 'key' });

/** The public key of the address `1/0` of an account key of depth 3: outside the chain of deposit addresses, so it is never issued. */
export function internalKeyOf(accountKey: string, { coin, network }: { coin: Coin; network: Network }): Uint8Array {
  const { key } = readKeyExpression(accountKey.trim());
  const { publicKey } = readExtended(key, { coin, network }).node.deriveChild(1).deriveChild(0);
  invariant(publicKey, 'an account key derives public keys');
  return publicKey;
}

/** Whether a file contains a private key or a seed phrase, in any form that wallets export. */
export const containsPrivateKey = (text: string): boolean =>
  /\b[a-z]{3,8}(?:[\s,"]{1,8}[a-z]{3,8}){11}\b/i.test(text) ||
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

const isPrivate = (text: string): boolean => isPhraseOrHex(text) || text.search(EXTENDED) !== -1 || encodesPrivateKey(text);

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

function readExtended(text: string, { coin, network }: { coin: Coin; network: Network }): { node: HDKey; spelling: KeySpelling } {
  let payload: Uint8Array;
  try {
    payload = base58check.decode(text);
  } catch {
    throw invalid('it is not an extended public key (wrong characters or checksum)');
  }
  if (payload.length !== 78) throw invalid('it is not an extended public key');
  const version = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
  if (MULTISIG_VERSIONS.has(version)) throw invalid('it belongs to a multi-signature wallet, which is not supported');
  const spelling = spellingOf(version, coin);
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

// Descriptors of one key, as strict as Bitcoin Core: what it refuses is refused.

type Wrapper = { opens: string; closes: string; script: Script };
const WRAPPERS: readonly Wrapper[] = [
  { opens: 'pkh(', closes: ')', script: 'p2pkh' },
  { opens: 'wpkh(', closes: ')', script: 'p2wpkh' },
  { opens: 'sh(wpkh(', closes: '))', script: 'p2sh-p2wpkh' },
  { opens: 'tr(', closes: ')', script: 'p2tr' },
];
/** What stands around the key of a descriptor, after its checksum was compared; null around a key alone. */
function unwrap(text: string): { body: string; wrapper: Wrapper | null } {
  const [body = '', sum, ...rest] = text.split('#');
  if (sum !== undefined && (rest.length > 0 || !/^[a-z0-9]{8}$/i.test(sum) || descriptorChecksum(body) !== sum.toLowerCase()))
    throw invalid('the checksum of the descriptor is wrong');
  if (/multi(_a)?\(/.test(body)) throw invalid('it belongs to a multi-signature wallet, which is not supported');
  const wrapper = WRAPPERS.find(({ opens }) => body.startsWith(opens)) ?? null;
  const inner = wrapper ? body.slice(wrapper.opens.length, -wrapper.closes.length) : body;
  const isClosed = !wrapper || body.endsWith(wrapper.closes);
  if (!isClosed || /[(){}]/.test(inner)) throw invalid('the descriptor must have the form wpkh([origin]key/0/*)');
  return { body: inner, wrapper };
}

/** Wallets write one step. Each takes a millisecond to derive. */
const MOST_STEPS = 5;
const HARDENED = 0x80000000;
const KEY_EXPRESSION = /^(?:\[([0-9a-fA-F]{8})((?:\/\d{1,10}['hH]?)*)\])?([1-9A-HJ-NP-Za-km-z]+)((?:\/(?:\d{1,10}|<0;1>))*)(\/\*)?$/;
/** `origin`: the steps from the seed to the key; null where it is unknown. `steps`: those to the chain of deposit addresses. */
function readKeyExpression(body: string): { origin: string[] | null; key: string; steps: number[]; isRanged: boolean } {
  const [, fingerprint, origins = '', key, behind = '', range] = KEY_EXPRESSION.exec(body) ?? [];
  if (key === undefined) throw invalid('it is not an extended public key, alone or in the form [origin]key/0/* or wpkh([origin]key/0/*)');
  const origin = origins
    .split('/')
    .slice(1)
    .map((step) => step.replace(/[hH]$/, "'"));
  const steps = behind.split('/').slice(1);
  if (steps.length > MOST_STEPS) throw invalid(`it has more than ${MOST_STEPS} steps behind its key`);
  if (steps.filter((step) => step === '<0;1>').length > 1) throw invalid('it has <0;1> more than once');
  if (steps.length > 0 && range === undefined) throw invalid('it names one address; what ends with /* names all addresses of a wallet');
  const numbers = steps.map((step) => (step === '<0;1>' ? 0 : Number(step)));
  if ([...numbers, ...origin.map((step) => Number.parseInt(step, 10))].some((step) => step >= HARDENED))
    throw invalid('it has a step out of range');
  return { origin: fingerprint === undefined ? null : origin, key, steps: numbers, isRanged: range !== undefined };
}

function scriptIn({ script }: Wrapper, { spelling, coin }: { spelling: KeySpelling; coin: Coin }): Script {
  if (!scriptsOf(coin).includes(script)) throw invalid(`${coin} has no addresses of this type`);
  if (spelling.script !== null && spelling.script !== script) throw invalid(`its key is for ${spelling.script} addresses`);
  return script;
}

/** The purpose that begins the path of an account, by its standard: BIP-44, 49, 84 and 86. */
const PURPOSES: Readonly<Record<string, Script>> = { "44'": 'p2pkh', "49'": 'p2sh-p2wpkh', "84'": 'p2wpkh', "86'": 'p2tr' };
/** Null: the origin does not say it, or the coin has no such addresses. */
function scriptOfPurpose(origin: readonly string[] | null, coin: Coin): Script | null {
  const script = origin?.length === 3 ? PURPOSES[origin[0]!] : undefined;
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
  const { opens, closes } = WRAPPERS.find((one) => one.script === (script ?? 'p2pkh'))!;
  throw invalid(`${reason}. If Electrum shows this key, enter ${opens}${key}/0/*${closes} and compare the first address with Electrum's`);
}

/** BIP-380 descriptor checksum. */
export function descriptorChecksum(body: string): string {
  const input = '0123456789()[],\'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#"\\ ';
  const output = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
  const generator = [0xf5dee51989n, 0xa9fdca3312n, 0x1bab10e32dn, 0x3706b1677an, 0x644d626ffdn];
  let c = 1n;
  const step = (value: bigint) => {
    const top = c >> 35n;
    c = ((c & 0x7ffffffffn) << 5n) ^ value;
    for (let i = 0; i < 5; i++) if ((top >> BigInt(i)) & 1n) c ^= generator[i]!;
  };
  let group = 0;
  let count = 0;
  for (const char of body) {
    const position = input.indexOf(char);
    if (position < 0) return '';
    step(BigInt(position & 31));
    group = group * 3 + (position >> 5);
    if (++count === 3) {
      step(BigInt(group));
      group = 0;
      count = 0;
    }
  }
  if (count > 0) step(BigInt(group));
  for (let i = 0; i < 8; i++) step(0n);
  c ^= 1n;
  return Array.from({ length: 8 }, (_, i) => output[Number((c >> BigInt(5 * (7 - i))) & 31n)]).join('');
}
