/** Output scripts of Bitcoin-like chains and their addresses: Base58Check, Bech32 and Bech32m, by the forms of a network. */
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { ripemd160 } from '@noble/hashes/legacy.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { base58, bech32, bech32m, createBase58check } from '@scure/base';
import type { AddressForms, BitcoinScript } from './params.ts';

const base58check = createBase58check(sha256);
const hash160 = (bytes: Uint8Array): Uint8Array => ripemd160(sha256(bytes));

/** The output script that pays a public key. */
export function outputScript(script: BitcoinScript, publicKey: Uint8Array): Uint8Array {
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
export function reasonOf(text: string): string {
  if (/^[a-z0-9]+$/i.test(text) && text.slice(1, -6).includes('1')) return 'its checksum is wrong';
  if (text.length < 26 || text.length > 35) return 'it is not an address';
  try {
    base58.decode(text);
    return 'its checksum is wrong';
  } catch {
    return 'it is not an address';
  }
}
