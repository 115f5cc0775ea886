/** Deposit addresses, address checks and payment URIs of every coin, by the rules of its family. */
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { HDKey } from '@scure/bip32';
import { CHAIN, COIN, type Coin, chainOf, contractOf, FAMILIES, type Family, kindOf, NETWORKS, type Network } from '../core/coin.ts';
import { invariant } from '../core/invariant.ts';
import { formatUnits } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import { addressOfOutput, outputScript, reasonOf, scriptOfAddress } from './bitcoin/address.ts';
import { type BitcoinScript, isBitcoinLike, PARAMS } from './bitcoin/params.ts';
import { accountOf, checksumAddress, ethereumUri, hasValidChecksum, isAddress, tokenUri, transferCall } from './ethereum/address.ts';

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
  const { publicKey } = chainOfKey(chainKey).deriveChild(Number(index));
  invariant(publicKey, 'an account key derives public keys');
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) {
    const key = accountOf(publicKey);
    return { address: checksumAddress(key), key };
  }
  invariant(script !== 'eoa', 'only accounts have no output script');
  const key = bytesToHex(outputScript(script, publicKey));
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
 * Lower case, no exponent.
 */
export function paymentUri(asked: Asked): string {
  const { coin, address, units } = asked;
  const { kind, scheme } = chainOf(coin);
  // Some forms of address begin with the scheme.
  if (kind !== 'ethereum') return `${address.includes(':') ? address : `${scheme}:${address}`}?amount=${formatUnits(coin, units)}`;
  const [chainId, contract] = [chainIdOf(asked), contractFor(asked)];
  return contract === null ? ethereumUri({ address, units, chainId }) : tokenUri({ contract, address, units, chainId });
}

/** What a payer is asked to send. `ethChainId` is that of the Ethereum node, which decides on private networks. */
type Asked = { coin: Coin; address: string; units: bigint; network: Network; ethChainId: number };
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
