/** What wallets export: files and texts with an account key, read into one key or descriptor. Pure. */
import { asList, asObject, asText, asTexts, type StoredJson } from '#core/stored-json';
import { descriptorChecksum, invalidKey } from './descriptor.ts';

/** `firstAddress`: what the file says that it is. */
type ExportedKey = { text: string; firstAddress: string | null };

/** Wallet files with their history are larger; the exports of their keys are not. */
const MOST_CHARACTERS = 100_000;
/** The key or the descriptor in an export; any other text as it is. `asset`: of which account, where a file has several. Errors: account_key_invalid. */
export function exportedKey(text: string, asset: string): ExportedKey {
  if (text.length > MOST_CHARACTERS)
    throw invalidKey(`it has more than ${MOST_CHARACTERS} characters; export only the public key of the account`);
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  // Base64 of what Electrum writes before an encrypted wallet.
  if (text.startsWith('QklFM'))
    throw invalidKey('it is an encrypted wallet file; in Electrum, open Wallet, Information, and copy the master public key');
  if (text.startsWith('{')) return { text: inJson(text), firstAddress: null };
  if (lines[0] === 'BSMS 1.0') return inBsms(lines);
  if (lines.some((line) => /^Policy: *\d/i.test(line))) return { text: inSetupFile(lines), firstAddress: null };
  if (lines[0]?.includes('Account xpub')) return { text: inOperations(lines, asset), firstAddress: null };
  const written = lines.filter((line) => line !== '' && !line.startsWith('#'));
  // The descriptors of both chains of an account, or of all.
  const isList = written.length > 1 && written.every((line) => /^[a-z]+\(.*\)(?:#[a-zA-Z0-9]{8})?$/.test(line));
  if (isList) return { text: written.find((line) => line.includes('<0;1>')) ?? written[0]!, firstAddress: null };
  if (written.length === 1) return { text: written[0]!, firstAddress: null };
  // Words, and keys between them.
  const keys = written.flatMap((line) => line.split(/[^0-9A-Za-z]+/)).filter(isKey);
  return { text: keys.length === 0 ? text : onlyOne(keys), firstAddress: null };
}

const isKey = (text: string): boolean =>
  /^[1-9A-HJ-NP-Za-km-z]{100,120}$/.test(text) && /^(?:[xyzuvtYZUV]pub|[LM]tub|ttub|drkp|dgub)/.test(text);
function onlyOne(keys: readonly string[]): string {
  const [key, ...others] = new Set(keys);
  if (key === undefined) throw invalidKey('this file has no extended public key');
  if (others.length > 0)
    throw invalidKey('this file has several keys; paste only the key or the descriptor of the account that should receive payments');
  return key;
}
const DEEPEST = 10;
/** All texts in a document, as deep as wallets write them. */
function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || depth === DEEPEST) return [];
  return Object.values(value).flatMap((one) => textsIn(one, depth + 1));
}

/** `[fingerprint/origin]`, as far as both are known. `path`: from the seed, such as m/84'/0'/0'. */
function originOf(fingerprint: unknown, path: unknown): string {
  const [print, steps] = [asText(fingerprint), asText(path)];
  if (print === null || steps === null || !/^[0-9a-fA-F]{8}$/.test(print) || !/^m(?:\/\d+['hH]?)*$/.test(steps)) return '';
  return `[${print.toLowerCase()}${steps.slice(1)}]`;
}
const MOST_KEYS = 20;
const multisigOf = (wrapper: string, required: number, keys: readonly string[]): string => {
  if (keys.length === 0 || keys.length > MOST_KEYS) throw invalidKey('it does not name the keys of its signers');
  const body = `sortedmulti(${[required, ...keys.map((key) => `${key}/<0;1>/*`)].join()})`;
  return `${wrapper}${body}${wrapper.replaceAll(/[a-z]/g, '').replaceAll('(', ')')}`;
};

function inJson(text: string): string {
  let json: StoredJson;
  try {
    json = asObject(JSON.parse(text));
  } catch {
    throw invalidKey('it is a wallet file that is not complete JSON; export the public key or the descriptor of the account instead');
  }
  const found = inDescriptors(json) ?? inPolicy(json) ?? inElectrum(json) ?? inQuorum(json) ?? inAccounts(json);
  return found ?? onlyOne(textsIn(json).filter(isKey));
}

/** Specter: keys of its descriptors may be without the steps behind them. Bitcoin Core: the answer to `listdescriptors`. */
function inDescriptors(json: StoredJson): string | null {
  const own = asText(json.descriptor);
  if (own !== null) return own.includes('*') ? own : ranged(own);
  const receiving = asList(json.descriptors).flatMap((value) => {
    const one = asObject(value);
    return one.internal === true || one.active === false ? [] : (asText(one.desc) ?? []);
  });
  if (receiving.length > 1)
    throw invalidKey('this file has several descriptors; paste only the one of the account that should receive payments');
  return receiving[0] ?? null;
}
function ranged(descriptor: string): string {
  const [body = '', sum] = descriptor.split('#');
  if (sum !== undefined && descriptorChecksum(body) !== sum.toLowerCase()) throw invalidKey('the checksum of the descriptor is wrong');
  return body.replaceAll(/[1-9A-HJ-NP-Za-km-z]{100,120}/g, (key) => `${key}/<0;1>/*`);
}

/** A wallet policy (BIP-388): a template with places for keys, each with the steps behind it, in the order of the keys. */
function inPolicy(json: StoredJson): string | null {
  const template = Object.values(json)
    .flatMap((value) => asText(value) ?? [])
    .find((value) => /@\d/.test(value));
  if (template === undefined) return null;
  const keys =
    Object.values(json)
      .map(asTexts)
      .find((list) => list.length > 0) ?? [];
  let places = 0;
  const chains = new Set<string>();
  const written = template.replaceAll(/@(\d{1,2})(\/\*\*|\/<\d{1,10};\d{1,10}>\/\*)/g, (_, place: string, steps: string) => {
    if (Number(place) > places || String(Number(place)) !== place) throw invalidKey(`its policy has @${place} where @${places} should be`);
    places = Math.max(places, Number(place) + 1);
    const key = keys[Number(place)];
    if (key === undefined) throw invalidKey(`its policy has no key @${place}`);
    const path = steps.replace('**', '<0;1>/*');
    for (const chain of path.match(/\d+/g)!) {
      if (chains.has(`${place}/${chain}`)) throw invalidKey(`its policy has the addresses @${place}/${chain} twice`);
      chains.add(`${place}/${chain}`);
    }
    return `${key}${path}`;
  });
  if (written.includes('@')) throw invalidKey('its policy has a key without /** behind it');
  if (/[1-9A-HJ-NP-Za-km-z]{100}/.test(template)) throw invalidKey('the template of its policy has a key itself');
  return written;
}

/** The wrapper of an address type by the first letter of its keys (SLIP-132). */
const SINGLE: Readonly<Record<string, string>> = { z: 'wpkh(', v: 'wpkh(', y: 'sh(wpkh(', u: 'sh(wpkh(', M: 'sh(wpkh(' };
const MULTI: Readonly<Record<string, string>> = { Z: 'wsh(', V: 'wsh(', Y: 'sh(wsh(', U: 'sh(wsh(' };
function inElectrum(json: StoredJson): string | null {
  const type = asText(json.wallet_type);
  if (type === null) return null;
  const keyOf = (value: unknown): string => {
    const { xpub, derivation, root_fingerprint: fingerprint } = asObject(value);
    const key = asText(xpub);
    if (key === null) throw invalidKey(`this Electrum wallet, of the type ${type.slice(0, 20)}, has no extended public key`);
    return `${originOf(fingerprint, derivation)}${key}`;
  };
  const letterOf = (key: string): string => key.slice(key.indexOf(']') + 1)[0] ?? '';
  const [, required, of] = /^(\d{1,2})of(\d{1,2})$/.exec(type) ?? [];
  if (of === undefined) {
    const key = keyOf(json.keystore);
    const wrapper = SINGLE[letterOf(key)] ?? 'pkh(';
    return `${wrapper}${key}/0/*${wrapper.replaceAll(/[a-z]/g, '').replaceAll('(', ')')}`;
  }
  const keys = Array.from({ length: Number(of) }, (_, i) => keyOf(json[`x${i + 1}/`]));
  const wrapper = MULTI[letterOf(keys[0] ?? '')];
  if (wrapper === undefined) throw invalidKey('it is a legacy multisig wallet; only SegWit multisig (wsh) is supported');
  return multisigOf(wrapper, Number(required), keys);
}

/** Multisig wallets by the names that Caravan and Coldcard give their addresses. */
const ADDRESS_TYPES: Readonly<Record<string, string>> = { P2WSH: 'wsh(', 'P2SH-P2WSH': 'sh(wsh(', 'P2WSH-P2SH': 'sh(wsh(' };
function wrapperFor(type: string): string {
  const wrapper = ADDRESS_TYPES[type.toUpperCase()];
  if (wrapper === undefined) throw invalidKey(`multisig addresses of the type ${type.slice(0, 20)} are not supported; use P2WSH`);
  return wrapper;
}
/** Caravan and Unchained. */
function inQuorum(json: StoredJson): string | null {
  const { requiredSigners } = asObject(json.quorum);
  if (typeof requiredSigners !== 'number') return null;
  const keys = asList(json.extendedPublicKeys).map((value) => {
    const { xfp, bip32Path, xpub } = asObject(value);
    return `${originOf(xfp, bip32Path)}${asText(xpub) ?? ''}`;
  });
  return multisigOf(wrapperFor(asText(json.addressType) ?? ''), requiredSigners, keys);
}

/** Coldcard: one key for each address type. The usual one is taken, and its addresses are compared. */
function inAccounts(json: StoredJson): string | null {
  for (const name of ['bip84', 'bip49', 'bip44']) {
    const { xpub, deriv } = asObject(json[name]);
    const key = asText(xpub);
    const origin = originOf(json.xfp, deriv);
    if (key !== null && origin !== '') return `${origin}${key}`;
  }
  return null;
}

/** A descriptor record (BIP-129): a template, the chains of its addresses, and the first address. */
function inBsms([, template = '', restrictions = '', firstAddress = '']: readonly string[]): ExportedKey {
  if (!template.includes('('))
    throw invalidKey('it is the key of one signer; export the file of the whole wallet after all signers have joined');
  const [body = '', sum] = template.split('#');
  if (sum !== undefined && descriptorChecksum(body) !== sum.toLowerCase()) throw invalidKey('the checksum of the descriptor is wrong');
  const [receiving = ''] = restrictions.split(',');
  if (body.includes('/**') && !/^(?:\/\d{1,10})+\/\*$/.test(receiving))
    throw invalidKey('its path restrictions do not name the receiving addresses');
  return { text: body.replaceAll('/**', receiving), firstAddress: firstAddress || null };
}

/** The setup file of a multisig wallet that Coldcard reads, and other programs write for it. */
function inSetupFile(lines: readonly string[]): string {
  let [required, path, type] = [0, '', 'P2SH'];
  const keys: string[] = [];
  for (const line of lines) {
    const [name = '', value = ''] = line.split(/: */, 2);
    if (line.startsWith('#')) continue;
    if (/^policy$/i.test(name)) required = Number(/^\d{1,2}/.exec(value)?.[0] ?? 0);
    else if (/^derivation$/i.test(name)) path = value;
    else if (/^format$/i.test(name)) type = value;
    else if (/^[0-9a-fA-F]{8}$/.test(name)) keys.push(`${originOf(name, path)}${value}`);
  }
  return multisigOf(wrapperFor(type), required, keys);
}

/** The operations of Ledger Live, which name the account of each. */
function inOperations([head = '', ...rows]: readonly string[], asset: string): string {
  const names = head.split(',');
  const [ticker, place] = [names.indexOf('Currency Ticker'), names.indexOf('Account xpub')];
  const cells = rows.map((row) => row.split(',')).filter((row) => row[ticker] === asset);
  const [key, ...others] = new Set(cells.flatMap((row) => row[place] || []));
  if (key === undefined) throw invalidKey(`this file has no account in ${asset}`);
  if (others.length > 0) throw invalidKey(`this file has several accounts in ${asset}; export only one of them`);
  return key;
}
