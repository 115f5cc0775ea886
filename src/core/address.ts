/** Account keys, deposit addresses, address checks and payment URIs of the five coins. Watch-only: private keys are refused. */

import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { ripemd160 } from '@noble/hashes/legacy.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { base58, bech32, bech32m, createBase58check } from '@scure/base';
import { HDKey } from '@scure/bip32';
import { COIN, type Coin, chainOf, type Network } from './coin.ts';
import { formatUnits } from './money.ts';
import { Problem } from './problem.ts';

export type Script = 'p2wpkh' | 'p2tr' | 'p2sh-p2wpkh' | 'p2pkh' | 'eoa';

const base58check = createBase58check(sha256);
const hash160 = (bytes: Uint8Array): Uint8Array => ripemd160(sha256(bytes));

/** Address forms of a network: version bytes (P2SH may have a second, legacy one that is accepted only) and bech32 prefix. */
type Forms = { p2pkh: number; p2sh: number; p2shLegacy?: number; hrp?: string };
const TESTNET_P2SH = 0xc4;
const FORMS: Readonly<Record<Exclude<Coin, 'ETH'>, Readonly<Record<Network, Forms>>>> = {
  BTC: {
    mainnet: { p2pkh: 0x00, p2sh: 0x05, hrp: 'bc' },
    testnet: { p2pkh: 0x6f, p2sh: TESTNET_P2SH, hrp: 'tb' },
    regtest: { p2pkh: 0x6f, p2sh: TESTNET_P2SH, hrp: 'bcrt' },
  },
  LTC: {
    mainnet: { p2pkh: 0x30, p2sh: 0x32, p2shLegacy: 0x05, hrp: 'ltc' },
    testnet: { p2pkh: 0x6f, p2sh: 0x3a, p2shLegacy: TESTNET_P2SH, hrp: 'tltc' },
    regtest: { p2pkh: 0x6f, p2sh: 0x3a, p2shLegacy: TESTNET_P2SH, hrp: 'rltc' },
  },
  DASH: {
    mainnet: { p2pkh: 0x4c, p2sh: 0x10 },
    testnet: { p2pkh: 0x8c, p2sh: 0x13 },
    regtest: { p2pkh: 0x8c, p2sh: 0x13 },
  },
  DOGE: {
    mainnet: { p2pkh: 0x1e, p2sh: 0x16 },
    testnet: { p2pkh: 0x71, p2sh: TESTNET_P2SH },
    regtest: { p2pkh: 0x6f, p2sh: TESTNET_P2SH },
  },
};
const MWEB_PREFIXES = ['ltcmweb1', 'tmweb1', 'rltcmweb1'];

/** Account key spellings (SLIP-132 and kin) by version: which coins and network they name and which script they imply. */
type Spelling = { main: boolean; script: Script | null; coins: readonly Coin[] };
const UTXO: readonly Coin[] = ['BTC', 'LTC', 'DASH', 'DOGE'];
const PUBLIC_VERSIONS: ReadonlyMap<number, Spelling> = new Map<number, Spelling>([
  [0x0488b21e, { main: true, script: null, coins: [...UTXO, 'ETH'] }], // xpub
  [0x049d7cb2, { main: true, script: 'p2sh-p2wpkh', coins: ['BTC', 'LTC'] }], // ypub
  [0x04b24746, { main: true, script: 'p2wpkh', coins: ['BTC', 'LTC'] }], // zpub
  [0x043587cf, { main: false, script: null, coins: [...UTXO, 'ETH'] }], // tpub
  [0x044a5262, { main: false, script: 'p2sh-p2wpkh', coins: ['BTC', 'LTC'] }], // upub
  [0x045f1cf6, { main: false, script: 'p2wpkh', coins: ['BTC', 'LTC'] }], // vpub
  [0x019da462, { main: true, script: 'p2pkh', coins: ['LTC'] }], // Ltub
  [0x01b26ef6, { main: true, script: 'p2sh-p2wpkh', coins: ['LTC'] }], // Mtub
  [0x0436f6e1, { main: false, script: null, coins: ['LTC'] }], // ttub
  [0x02fe52cc, { main: true, script: 'p2pkh', coins: ['DASH'] }], // drkp
  [0x02facafd, { main: true, script: 'p2pkh', coins: ['DOGE'] }], // dgub
]);
const MULTISIG_VERSIONS = new Set([0x0295b43f, 0x02aa7ed3, 0x024289ef, 0x02575483]); // Ypub Zpub Upub Vpub

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
 * Reads a merchant's extended public key or a descriptor (BIP-32, SLIP-132, BIP-380). A key of depth 3 is an account and its
 * external chain (0) is taken; one of depth 4 only with `external`, as that chain itself.
 * Errors: private_key_refused (the input is never repeated), account_key_invalid.
 */
export function parseAccountKey(
  input: string,
  { coin, network, external = false }: { coin: Coin; network: Network; external?: boolean },
): AccountKey {
  const text = input.trim();
  refusePrivate(text);
  if (/[()/]/.test(text)) return parseDescriptor(text, { coin, network });
  const { node, spelling } = readExtended(text, { coin, network });
  if (node.depth === 3)
    return {
      ...chainKeyOf(node.deriveChild(0)),
      accountKey: text,
      script: scriptOf(spelling, coin),
      path: '0',
    };
  if (node.depth === 4 && external) return { ...chainKeyOf(node), accountKey: text, script: scriptOf(spelling, coin), path: '' };
  throw invalid(`it has depth ${node.depth}, but the key of one account has depth 3; export that of an account such as m/84'/0'/0'`);
}

const invalid = (reason: string) => new Problem('account_key_invalid', { reason }, { param: 'key' });

/** Refuses private keys in every form that wallets export. */
function refusePrivate(text: string): void {
  const words = text.split(/\s+/);
  const seed = words.length >= 12 && words.every((word) => /^[a-zA-Z]+$/.test(word));
  const privateHex = /^(0x)?[0-9a-fA-F]{64}$/.test(text);
  const extended = /(?:^|[^1-9A-HJ-NP-Za-km-z])(?:[xyzuvtYZUV]prv|[LM]tpv|ttpv|drkv|dgpv|DRKV|dgpr)[1-9A-HJ-NP-Za-km-z]{20,}/.test(
    ` ${text}`,
  );
  let wif = false;
  let privateNode = false;
  for (const part of text.match(/[1-9A-HJ-NP-Za-km-z]{50,120}/g) ?? []) {
    try {
      const payload = base58check.decode(part);
      if (payload.length === 33 || (payload.length === 34 && payload[33] === 1)) wif = true;
      if (payload.length === 78 && payload[45] === 0) privateNode = true;
    } catch {
      // Not base58check: the key check below reports it.
    }
  }
  if (seed || privateHex || extended || wif || privateNode) throw new Problem('private_key_refused', {}, { param: 'key' });
}

function readExtended(text: string, { coin, network }: { coin: Coin; network: Network }): { node: HDKey; spelling: Spelling } {
  let payload: Uint8Array;
  try {
    payload = base58check.decode(text);
  } catch {
    throw invalid('it is not an extended public key (wrong characters or checksum)');
  }
  if (payload.length !== 78) throw invalid('it is not an extended public key');
  const version = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
  if (MULTISIG_VERSIONS.has(version)) throw invalid('it belongs to a multi-signature wallet, which is not supported');
  const spelling = PUBLIC_VERSIONS.get(version);
  if (!spelling) throw invalid('its prefix is unknown; export it as xpub, ypub, zpub or a descriptor');
  if (!spelling.coins.includes(coin)) throw invalid(`its prefix is for ${spelling.coins.join(', ')}, not for ${coin}`);
  // Wallets show an account of ETH as an xpub on every network.
  const fits = spelling.main === (network === 'mainnet') || (coin === 'ETH' && spelling.main);
  if (!fits) throw invalid(`it is a ${spelling.main ? 'mainnet' : 'test network'} key and this ${coin} wallet is on ${network}`);
  if (coin === 'DASH' || coin === 'DOGE') {
    if (spelling.script !== null && spelling.script !== 'p2pkh') throw invalid(`${coin} has no addresses of this type`);
  }
  // The library accepts one version. What else the version says was checked above.
  const standard = payload.slice();
  new DataView(standard.buffer).setUint32(0, 0x0488b21e);
  try {
    return { node: HDKey.fromExtendedKey(base58check.encode(standard)), spelling };
  } catch {
    throw invalid('it is not a valid public key');
  }
}

const scriptOf = (spelling: Spelling, coin: Coin): Script | null =>
  coin === 'ETH' ? 'eoa' : coin === 'DASH' || coin === 'DOGE' ? 'p2pkh' : spelling.script;

const chainKeyOf = (node: HDKey): { chainKey: string } => ({ chainKey: bytesToHex(node.publicKey!) + bytesToHex(node.chainCode!) });

const DESCRIPTOR =
  /^(pkh|wpkh|tr|sh\(wpkh)\((?:\[([0-9a-fA-F]{8}(?:\/\d+['hH]?)*)\])?([1-9A-HJ-NP-Za-km-z]+)((?:\/(?:\d+|<0;1>))*)\/\*\){1,2}(?:#([a-z0-9]{8}))?$/;
function parseDescriptor(text: string, { coin, network }: { coin: Coin; network: Network }): AccountKey {
  const match = DESCRIPTOR.exec(text);
  if (!match) throw invalid('the descriptor must have the form wpkh([origin]key/0/*)');
  const [, kind, origin, key, steps, sum] = match;
  const [body] = text.split('#');
  if (sum !== undefined && descriptorChecksum(body!) !== sum) throw invalid('the checksum of the descriptor is wrong');
  const script: Script = kind === 'pkh' ? 'p2pkh' : kind === 'wpkh' ? 'p2wpkh' : kind === 'tr' ? 'p2tr' : 'p2sh-p2wpkh';
  if (coin === 'ETH' || ((coin === 'DASH' || coin === 'DOGE') && script !== 'p2pkh'))
    throw invalid(`${coin} has no addresses of this type`);
  const { node, spelling } = readExtended(key!, { coin, network });
  if (spelling.script !== null && spelling.script !== script) throw invalid(`its key is for ${spelling.script} addresses`);
  const path = steps!
    .split('/')
    .filter(Boolean)
    .map((step) => (step === '<0;1>' ? 0 : Number(step)));
  if (path.some((step) => step >= 0x80000000)) throw invalid('it has a step out of range');
  const chain = path.reduce((at, step) => at.deriveChild(step), node);
  return {
    ...chainKeyOf(chain),
    accountKey: text,
    script,
    path: [...(origin === undefined ? [] : ['m', ...origin.split('/').slice(1)]), ...path].join('/').replace(/[hH]/g, "'"),
  };
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

const chains = new Map<string, HDKey>();

/** The deposit address `0/index` of a wallet (BIP-44, 49, 84, 86). `key` is the output script in hex, for ETH the 20 bytes. */
export function deriveAddress({
  chainKey,
  script,
  coin,
  network,
  index,
}: {
  chainKey: string;
  script: Script;
  coin: Coin;
  network: Network;
  index: bigint;
}): { address: string; key: string } {
  let chain = chains.get(chainKey);
  if (!chain) {
    chain = new HDKey({ publicKey: hexToBytes(chainKey.slice(0, 66)), chainCode: hexToBytes(chainKey.slice(66)), depth: 4 });
    if (chains.size > 1_000) chains.clear();
    chains.set(chainKey, chain);
  }
  const publicKey = chain.deriveChild(Number(index)).publicKey!;
  if (coin === 'ETH') {
    const bytes = keccak_256(secp256k1.Point.fromBytes(publicKey).toBytes(false).slice(1)).slice(-20);
    return { address: checksumAddress(bytesToHex(bytes)), key: bytesToHex(bytes) };
  }
  const key = bytesToHex(outputScript(script, publicKey));
  return { key, address: addressOfScript(key, { coin, network })! };
}

function outputScript(script: Script, publicKey: Uint8Array): Uint8Array {
  switch (script) {
    case 'p2pkh':
      return concatBytes(Uint8Array.of(0x76, 0xa9, 20), hash160(publicKey), Uint8Array.of(0x88, 0xac));
    case 'p2wpkh':
      return concatBytes(Uint8Array.of(0, 20), hash160(publicKey));
    case 'p2sh-p2wpkh':
      return concatBytes(Uint8Array.of(0xa9, 20), hash160(concatBytes(Uint8Array.of(0, 20), hash160(publicKey))), Uint8Array.of(0x87));
    case 'p2tr': {
      // BIP-341 and BIP-86: the internal key tweaked by its own tagged hash, no script path.
      const internal = schnorr.utils.lift_x(BigInt(`0x${bytesToHex(publicKey.slice(1))}`));
      const tag = sha256(utf8ToBytes('TapTweak'));
      const tweak = BigInt(`0x${bytesToHex(sha256(concatBytes(tag, tag, publicKey.slice(1))))}`) % secp256k1.Point.Fn.ORDER;
      return concatBytes(Uint8Array.of(0x51, 32), internal.add(secp256k1.Point.BASE.multiply(tweak)).toBytes(true).slice(1));
    }
    case 'eoa':
      throw new Error('an ETH account has no output script');
  }
}

/** The address of an output script (hex), or null when it has none (OP_RETURN and kin). */
export function addressOfScript(scriptHex: string, { coin, network }: { coin: Coin; network: Network }): string | null {
  if (coin === 'ETH') return null;
  const forms = FORMS[coin][network];
  const script = hexToBytes(scriptHex);
  const versioned = (version: number, hash: Uint8Array) => base58check.encode(concatBytes(Uint8Array.of(version), hash));
  if (script.length === 25 && script[0] === 0x76 && script[1] === 0xa9 && script[2] === 20 && script[23] === 0x88 && script[24] === 0xac)
    return versioned(forms.p2pkh, script.slice(3, 23));
  if (script.length === 23 && script[0] === 0xa9 && script[1] === 20 && script[22] === 0x87)
    return versioned(forms.p2sh, script.slice(2, 22));
  // BIP-141 witness programs, BIP-173 for version 0, BIP-350 above.
  const version = script[0] === 0 ? 0 : script[0]! >= 0x51 && script[0]! <= 0x60 ? script[0]! - 0x50 : -1;
  if (
    forms.hrp &&
    version >= 0 &&
    script.length >= 4 &&
    script.length <= 42 &&
    script[1] === script.length - 2 &&
    (version > 0 || script.length === 22 || script.length === 34)
  ) {
    const coder = version === 0 ? bech32 : bech32m;
    return coder.encode(forms.hrp, [version, ...coder.toWords(script.slice(2))]);
  }
  return null;
}

/** EIP-55 mixed-case checksum over 40 hex digits. */
export function checksumAddress(hex: string): string {
  const lower = hex.toLowerCase();
  const digest = bytesToHex(keccak_256(utf8ToBytes(lower)));
  return `0x${[...lower].map((char, i) => (Number.parseInt(digest[i]!, 16) >= 8 ? char.toUpperCase() : char)).join('')}`;
}

/**
 * Checks an address of a named coin; `key` is its output script in hex, for ETH the 20 bytes. The coin is never guessed, but a
 * wrong one is named. Errors: address_invalid (param `address`).
 */
export function decodeAddress(text: string, { coin, network }: { coin: Coin; network: Network }): { key: string } {
  const bad = (reason: string) => new Problem('address_invalid', { coin, reason }, { param: 'address' });
  if (coin === 'ETH') {
    if (!/^0x[0-9a-fA-F]{40}$/.test(text)) throw bad(elsewhere(text, coin, network) ?? 'it must be 0x followed by 40 hex digits');
    const hex = text.slice(2);
    if (hex !== hex.toLowerCase() && hex !== hex.toUpperCase() && checksumAddress(hex) !== text)
      throw bad('its checksum (upper and lower case) is wrong');
    return { key: hex.toLowerCase() };
  }
  const key = tryDecode(text, FORMS[coin][network]);
  if (key) return { key };
  if (MWEB_PREFIXES.some((prefix) => text.toLowerCase().startsWith(prefix)))
    throw bad('MWEB balances are private; use a transparent address');
  throw bad(elsewhere(text, coin, network) ?? checksumReason(text));
}

/** `LTc1...` with no other 1 looks like Bech32 and may be Base58Check. Only its checksum decides. */
const tryDecode = (text: string, forms: Forms): string | null => tryBech32(text, forms) ?? tryBase58(text, forms);

/** BIP-141 witness programs: BIP-173 for version 0, BIP-350 above. */
function tryBech32(text: string, { hrp }: Forms): string | null {
  if (!hrp || text.length > 90 || text.slice(0, text.lastIndexOf('1')).toLowerCase() !== hrp) return null;
  for (const coder of [bech32, bech32m] as const) {
    try {
      const { words } = coder.decode(text as `${string}1${string}`);
      const version = words[0]!;
      const program = coder.fromWords(words.slice(1));
      if ((version === 0) !== (coder === bech32) || version > 16 || program.length < 2 || program.length > 40) continue;
      if (version === 0 && program.length !== 20 && program.length !== 32) continue;
      return bytesToHex(concatBytes(Uint8Array.of(version === 0 ? 0 : 0x50 + version, program.length), program));
    } catch {
      // The other checksum may match.
    }
  }
  return null;
}

function tryBase58(text: string, forms: Forms): string | null {
  let payload: Uint8Array;
  try {
    payload = base58check.decode(text);
  } catch {
    return null;
  }
  if (payload.length !== 21) return null;
  const hash = payload.slice(1);
  if (payload[0] === forms.p2pkh) return bytesToHex(concatBytes(Uint8Array.of(0x76, 0xa9, 20), hash, Uint8Array.of(0x88, 0xac)));
  if (payload[0] === forms.p2sh || payload[0] === forms.p2shLegacy)
    return bytesToHex(concatBytes(Uint8Array.of(0xa9, 20), hash, Uint8Array.of(0x87)));
  return null;
}

/** Describes which coin and network an address belongs to; null when none. */
function elsewhere(text: string, coin: Coin, network: Network): string | null {
  if (coin !== 'ETH' && /^0x[0-9a-fA-F]{40}$/.test(text)) return 'it is an Ethereum address';
  if (coin !== 'ETH') {
    const other = (Object.keys(FORMS[coin]) as Network[]).find((n) => n !== network && tryDecode(text, FORMS[coin][n]));
    if (other) return `it is an address of the ${other} network, not of ${network}`;
  }
  const foreign = (Object.keys(FORMS) as (keyof typeof FORMS)[]).find((c) => c !== coin && tryDecode(text, FORMS[c][network]));
  return foreign ? `it is a ${COIN[foreign].name} address` : null;
}

function checksumReason(text: string): string {
  if (/^[a-z0-9]+1[a-z0-9]{6,}$/i.test(text)) return 'its checksum is wrong';
  try {
    base58.decode(text);
    return text.length >= 26 && text.length <= 35 ? 'its checksum is wrong' : 'it is not an address';
  } catch {
    return 'it is not an address';
  }
}

/**
 * The payment URI: BIP-321 and its grammar for the other coins (address and amount only: labels break wallets), ERC-681 with
 * plain wei for ETH. Lower case, no exponent.
 */
export function paymentUri({
  coin,
  address,
  units,
  ethChainId,
}: {
  coin: Coin;
  address: string;
  units: bigint;
  ethChainId: number;
}): string {
  return coin === 'ETH'
    ? `ethereum:${address}@${ethChainId}?value=${units}`
    : `${chainOf(coin).scheme}:${address}?amount=${formatUnits(coin, units)}`;
}
