/** Deposit addresses, address checks and payment URIs of every coin, by the rules of its family. */
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { ripemd160 } from '@noble/hashes/legacy.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { base58, bech32, bech32m, createBase58check } from '@scure/base';
import { HDKey } from '@scure/bip32';
import { CHAIN, COIN, type Coin, chainOf, contractOf, FAMILIES, type Family, kindOf, NETWORKS, type Network } from '#core/coin';
import { invariant } from '#core/invariant';
import { formatUnits } from '#core/money';
import { Problem } from '#core/problem';
import { accountOf, checksumAddress, ethereumUri, hasValidChecksum, isAddress, tokenUri, transferCall } from './evm-address.ts';
import { type AddressForms, type BitcoinScript, isBitcoinLike, PARAMS } from './params.ts';

/** What an account key pays to: an output script, or an account of an Ethereum-like chain. */
export type Script = BitcoinScript | 'eoa';

const chains = new Map<string, HDKey>();

/** The public key of an external chain. Wallets are used again and again, so their keys are kept. */
function chainOfKey(chainKey: string): HDKey {
  const known = chains.get(chainKey);
  if (known) return known;
  const chain = new HDKey({ publicKey: hexToBytes(chainKey.slice(0, 66)), chainCode: hexToBytes(chainKey.slice(66)), depth: 4 });
  if (chains.size > 1_000) chains.clear();
  chains.set(chainKey, chain);
  return chain;
}

/** The keys of a wallet, how many of them sign, and whether they are sorted for each address (BIP-67). */
type WalletKeys = { required: number; isSorted: boolean; chainKeys: readonly string[] };
/** One text for the keys of a wallet: of one key it is that key, of several `sortedmulti(2,key,key,key)`. */
export const writeChainKey = ({ required, isSorted, chainKeys }: WalletKeys): string =>
  `${isSorted ? 'sortedmulti' : 'multi'}(${[required, ...chainKeys].join()})`;
export function keysOf(chainKey: string): WalletKeys {
  const [, sorted, required, keys] = /^(sorted)?multi\((\d+),([0-9a-f,]+)\)$/.exec(chainKey) ?? [];
  if (keys === undefined) return { required: 1, isSorted: false, chainKeys: [chainKey] };
  return { required: Number(required), isSorted: sorted !== undefined, chainKeys: keys.split(',') };
}

/** The public keys of an address, in the order of the wallet's keys. */
function publicKeysOf(chainKey: string, index: bigint): Uint8Array[] {
  return keysOf(chainKey).chainKeys.map((one) => {
    const { publicKey } = chainOfKey(one).deriveChild(Number(index));
    invariant(publicKey, 'an account key derives public keys');
    return publicKey;
  });
}

/** What locks the money of an address, and what spending it shows beside signatures (BIP-16, BIP-141). */
export type OutputLock = { script: Uint8Array; publicKeys: readonly Uint8Array[]; redeemScript?: Uint8Array; witnessScript?: Uint8Array };
export function outputLockOf({ chainKey, script }: { chainKey: string; script: BitcoinScript }, index: bigint): OutputLock {
  const publicKeys = publicKeysOf(chainKey, index);
  switch (script) {
    case 'p2wpkh':
    case 'p2tr':
    case 'p2pkh':
      return { publicKeys, script: outputScript(script, publicKeys[0]!) };
    case 'p2sh-p2wpkh':
      return { publicKeys, script: outputScript(script, publicKeys[0]!), redeemScript: outputScript('p2wpkh', publicKeys[0]!) };
    case 'p2wsh':
    case 'p2sh-p2wsh': {
      const { required, isSorted } = keysOf(chainKey);
      const witnessScript = multisigScript(
        required,
        isSorted ? publicKeys.toSorted((one, other) => (bytesToHex(one) < bytesToHex(other) ? -1 : 1)) : publicKeys,
      );
      const redeemScript = outputScript('p2wsh', witnessScript);
      return { publicKeys, script: outputScript(script, witnessScript), witnessScript, ...(script === 'p2sh-p2wsh' && { redeemScript }) };
    }
  }
}

type Derived = { readonly address: string; readonly key: string };
type Derivation = { chainKey: string; script: Script; coin: Coin; network: Network; index: bigint };

/** Addresses that are kept: each is derived for the look-ahead of every follower of its family, and given out later. */
const DERIVED_KEPT = 10_000;
const derived = new Map<string, Derived>();

/** The deposit address `0/index` of a wallet (BIP-44, 49, 84, 86). `key` is the output script in hex, for accounts the 20 bytes. */
export function deriveAddress(of: Derivation): Derived {
  const { chainKey, script, coin, network, index } = of;
  const name = `${COIN[coin].family} ${network} ${script} ${chainKey} ${index}`;
  const known = derived.get(name);
  if (known) return known;
  if (derived.size >= DERIVED_KEPT) derived.clear();
  const address = derive(of);
  derived.set(name, address);
  return address;
}

function derive({ chainKey, script, coin, network, index }: Derivation): Derived {
  invariant(index >= 0n && index < 0x80000000n, 'the index of a deposit address is one that BIP-32 can derive');
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) {
    const [publicKey] = publicKeysOf(chainKey, index);
    const key = accountOf(publicKey!);
    return { address: checksumAddress(key), key };
  }
  invariant(script !== 'eoa', 'only accounts have no output script');
  const key = bytesToHex(outputLockOf({ chainKey, script }, index).script);
  const address = addressOfOutput(key, PARAMS[family].forms[network]);
  invariant(address, 'every derived output script has an address');
  return { key, address };
}

/** The address of an output script (hex), or null when it has none (OP_RETURN and kin, or a chain without output scripts). */
export function addressOfScript(scriptHex: string, { coin, network }: { coin: Coin; network: Network }): string | null {
  const { family } = COIN[coin];
  return isBitcoinLike(family) ? addressOfOutput(scriptHex, PARAMS[family].forms[network]) : null;
}

/**
 * Checks an address of a named coin; `key` is its output script in hex, for accounts the 20 bytes, and `address` the one spelling in which it
 * is stored: QR codes have capital letters, and LTC has two forms of one script. The coin is never guessed, but a wrong one is named.
 * Errors: address_invalid (param `address`).
 */
export function decodeAddress(text: string, { coin, network }: { coin: Coin; network: Network }): Derived {
  const bad = (reason: string) => new Problem('address_invalid', { coin: COIN[coin].asset, reason }, { param: 'address' });
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) {
    if (!isAddress(text)) throw bad(elsewhere(text, family, network) ?? 'it must be 0x followed by 40 hex digits');
    if (!hasValidChecksum(text)) throw bad('its checksum (upper and lower case) is wrong');
    const key = text.slice(2).toLowerCase();
    return { key, address: checksumAddress(key) };
  }
  const key = scriptOfAddress(text, PARAMS[family].forms[network]);
  if (key) return { key, address: addressOfOutput(key, PARAMS[family].forms[network]) ?? text };
  const refused = Object.values(PARAMS)
    .flatMap((row) => row.refused)
    .find(({ prefix }) => text.toLowerCase().startsWith(prefix));
  throw bad(refused?.reason ?? elsewhere(text, family, network) ?? reasonOf(text));
}

/** Whether a text has the form of a transaction ID of this coin. */
export const isTransactionId = (text: string, coin: Coin): boolean =>
  (kindOf(coin) === 'ethereum' ? /^0x[0-9a-fA-F]{64}$/ : /^[0-9a-fA-F]{64}$/).test(text);

/** Describes which coin and network an address belongs to; null when none. */
function elsewhere(text: string, family: Family, network: Network): string | null {
  if (isBitcoinLike(family)) {
    if (isAddress(text)) return 'it is an Ethereum address';
    const { forms } = PARAMS[family];
    const other = NETWORKS.find((one) => one !== network && scriptOfAddress(text, forms[one]));
    if (other) return `it is an address of the ${other} network, not of ${network}`;
  }
  const foreign = FAMILIES.find((one) => one !== family && isBitcoinLike(one) && scriptOfAddress(text, PARAMS[one].forms[network]));
  return foreign ? `it is a ${COIN[foreign].name} address` : null;
}

/**
 * The payment URI: BIP-321 and its grammar for the other coins (address and amount only: labels break wallets), ERC-681 for accounts.
 * Lower case, no exponent. `invoice`: what wallets that know Lightning pay instead.
 */
export function paymentUri(asked: Asked): string {
  const { coin, address, units, invoice = null } = asked;
  const { kind, scheme } = chainOf(coin);
  // An invoice contains its amount.
  if (kind === 'lightning') return `${scheme}:${address}`;
  // Some forms of address begin with the scheme.
  if (kind !== 'ethereum') {
    const more = invoice === null ? '' : `&lightning=${invoice}`;
    return `${address.includes(':') ? address : `${scheme}:${address}`}?amount=${formatUnits(coin, units)}${more}`;
  }
  const [chainId, contract] = [chainIdOf(asked), contractFor(asked)];
  return contract === null ? ethereumUri({ address, units, chainId }) : tokenUri({ contract, address, units, chainId });
}

/** What a payer is asked to send. `ethChainId` is that of the Ethereum node, which decides on private networks. */
type Asked = { coin: Coin; address: string; units: bigint; network: Network; ethChainId: number; invoice?: string | null };
const chainIdOf = ({ coin, network, ethChainId }: Asked): number => {
  const { chain, chainIds } = chainOf(coin);
  return chain === CHAIN.ethereum.chain ? ethChainId : chainIds![network];
};

/** A token never becomes a payment in the native coin, whatever the network. */
const contractFor = ({ coin, network }: Asked): string | null => contractOf(coin, network) ?? COIN[coin].contract;

/** The same as a transaction for a browser wallet (EIP-1193): amount, chain and token are fixed. Null where there are no such wallets. */
export function walletRequest(asked: Asked): { chainId: string; to: string; value: string; data: string } | null {
  const { coin, address, units } = asked;
  if (kindOf(coin) !== 'ethereum') return null;
  const contract = contractFor(asked);
  const hex = (value: bigint | number): string => `0x${value.toString(16)}`;
  const chainId = hex(chainIdOf(asked));
  return contract === null
    ? { chainId, to: address, value: hex(units), data: '0x' }
    : { chainId, to: contract, value: '0x0', data: transferCall({ address, units }) };
}

// Output scripts of Bitcoin-like chains and their addresses: Base58Check, Bech32 and Bech32m, by the forms of a network.

const base58check = createBase58check(sha256);
const hash160 = (bytes: Uint8Array): Uint8Array => ripemd160(sha256(bytes));

/** A number in a script: a small one has an operation of its own. */
const scriptNumber = (n: number): number[] => (n <= 16 ? [0x50 + n] : [1, n]);
const CHECK_MULTISIG = 0xae;
/** The script that so many signatures of these keys satisfy. */
const multisigScript = (required: number, publicKeys: readonly Uint8Array[]): Uint8Array =>
  Uint8Array.from([
    ...scriptNumber(required),
    ...publicKeys.flatMap((key) => [key.length, ...key]),
    ...scriptNumber(publicKeys.length),
    CHECK_MULTISIG,
  ]);

/** The output script that pays a public key, or a witness script of several. */
export function outputScript(script: BitcoinScript, publicKey: Uint8Array): Uint8Array {
  switch (script) {
    case 'p2wsh':
      return concatBytes(Uint8Array.of(0, 32), sha256(publicKey));
    case 'p2sh-p2wsh':
      return concatBytes(Uint8Array.of(0xa9, 20), hash160(outputScript('p2wsh', publicKey)), Uint8Array.of(0x87));
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
  }
}

/** The address of an output script (hex), or null when it has none (OP_RETURN and kin). */
export function addressOfOutput(scriptHex: string, forms: AddressForms): string | null {
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

/**
 * The output script of an address in hex; null when the text is not an address of these forms. `LTc1...` with no other 1 looks like
 * Bech32 and may be Base58Check. Only its checksum decides.
 */
export const scriptOfAddress = (text: string, forms: AddressForms): string | null => tryBech32(text, forms) ?? tryBase58(text, forms);

/** BIP-141 witness programs: BIP-173 for version 0, BIP-350 above. */
function tryBech32(text: string, { hrp }: AddressForms): string | null {
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

/** No address is longer. Decoding takes time with the square of the length. */
const LONGEST_BASE58 = 40;
function tryBase58(text: string, forms: AddressForms): string | null {
  if (text.length > LONGEST_BASE58) return null;
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

/** Why a text is not an address. */
function reasonOf(text: string): string {
  if (/^[a-z0-9]+$/i.test(text) && text.slice(1, -6).includes('1')) return 'its checksum is wrong';
  if (text.length < 26 || text.length > 35) return 'it is not an address';
  try {
    base58.decode(text);
    return 'its checksum is wrong';
  } catch {
    return 'it is not an address';
  }
}
