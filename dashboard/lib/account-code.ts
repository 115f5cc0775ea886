/**
 * The account key in what the camera saw: one plain code, a file in a series of codes, or a key, an account or a descriptor as a Uniform
 * Resource (BCR-2020-007, -010 and -015, and their successors BCR-2023-010 and -019).
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { createBase58check } from '@scure/base';
import { type GivenKey, readGiven } from './account-key.ts';
import type { CodeSeries } from './code-series.ts';
import { readCbor, tagOf, untagged, type Value } from './uniform-resource.ts';

/** Matches every form of account key that wallets show, including descriptors. */
const SOMEWHERE = /(?:[a-zA-Z](?:pub|tub)|drkp|dgub)[1-9A-HJ-NP-Za-km-z]{100,}/;
const INSTEAD = 'In your wallet, show the xpub, ypub, zpub or descriptor of the account, or copy the text.';
/** Also in a damaged code. */
const SECRET = /seed|bip39|eckey|sskr/;
const TRANSACTION = `This is a transaction to sign. ${INSTEAD}`;

/** One code that is not a part of a series. */
export function readCode(code: string): GivenKey {
  const given = readGiven(code);
  if (given.kind !== 'key') return given;
  const { text } = given;
  if (SECRET.test(/^ur:([a-z0-9-]+)\//i.exec(text)?.[1]?.toLowerCase() ?? '')) return { kind: 'private' };
  if (/^p\d+of\d+ /i.test(text)) return { kind: 'other', why: `Animated codes of this kind aren’t supported. ${INSTEAD}` };
  if (/^(bitcoin|ethereum|litecoin|dash|dogecoin):/i.test(text) || /^(bc1|ltc1|0x)[0-9a-z]{20,}$/i.test(text))
    return {
      kind: 'other',
      why: 'This is a single address. Each payment needs a new one, so scan the public key of the account (xpub) instead.',
    };
  // Anything else is rejected here. It may be a recovery phrase in binary form (CompactSeedQR).
  if (!SOMEWHERE.test(text)) return { kind: 'other', why: `This code doesn’t contain an account key. ${INSTEAD}` };
  return given;
}

/** A series, as soon as its type says that it has no account key, or all of it was read; null before. */
export function readSeries({ form, type, bytes }: CodeSeries): GivenKey | null {
  if (SECRET.test(type)) return { kind: 'private' };
  if (/psbt|sign/.test(type) || (form === 'bbqr' && /[PT]/.test(type))) return { kind: 'other', why: TRANSACTION };
  if (bytes === null) return null;
  if (form === 'bbqr') return readCode(new TextDecoder().decode(bytes));
  try {
    return readResource(type.replace('crypto-', ''), readCbor(bytes));
  } catch (error) {
    // The checksum is right, but the content is not what the standard describes.
    if (error instanceof RangeError) return { kind: 'other', why: `This code (UR ${type}) has no account key. ${INSTEAD}` };
    throw error;
  }
}

/** Errors: RangeError. */
function readResource(type: string, value: Value): GivenKey {
  if (holdsPrivate(value)) return { kind: 'private' };
  if (type === 'bytes') {
    if (!(value instanceof Uint8Array)) throw new RangeError('no bytes');
    return readCode(new TextDecoder().decode(value));
  }
  if (type === 'hdkey') return { kind: 'key', text: textOf(keyIn(value)) };
  if (type === 'output' || type === 'output-descriptor') return { kind: 'key', text: descriptorIn(value, null) };
  if (type === 'account' || type === 'account-descriptor') return { kind: 'key', text: accountIn(value) };
  throw new RangeError('of a kind that has no key');
}

const mapIn = (value: Value | undefined): Map<Value, Value> => {
  const inside = untagged(value);
  return inside instanceof Map ? inside : new Map();
};
const listIn = (value: Value | undefined): Value[] => {
  const inside = untagged(value);
  return Array.isArray(inside) ? inside : [];
};
const numberIn = (value: Value | undefined): number => (typeof value === 'number' ? value : 0);

/** Keys say that they are private, and their bytes begin with zero (BIP-32). */
function holdsPrivate(value: Value): boolean {
  const inside = untagged(value);
  if (Array.isArray(inside)) return inside.some(holdsPrivate);
  if (!(inside instanceof Map)) return false;
  const data = inside.get(3);
  return (
    inside.get(1) === true ||
    inside.get(2) === true ||
    (data instanceof Uint8Array && data.length === 33 && data[0] === 0) ||
    [...inside.values()].some(holdsPrivate)
  );
}

const HARDENED = 0x80000000;
/** `children`: the steps behind the key, where it names them. */
type Key = { fingerprint: number; path: number[]; children: string | null; isTest: boolean; payload: Uint8Array };

/** Errors: RangeError for what is not an extended public key. */
function keyIn(value: Value, master: number | null = null): Key {
  const fields = mapIn(value);
  const [data, chainCode] = [fields.get(3), fields.get(4)];
  if (!(data instanceof Uint8Array) || data.length !== 33 || !(chainCode instanceof Uint8Array) || chainCode.length !== 32)
    throw new RangeError('no extended key');
  const origin = mapIn(fields.get(6));
  const path = stepsIn(origin.get(1)).map((step) => {
    if (typeof step !== 'number') throw new RangeError('an origin without a wildcard');
    return step;
  });
  const fingerprint = numberIn(origin.get(2)) || (master ?? 0);
  const payload = new Uint8Array(78);
  const view = new DataView(payload.buffer);
  payload[4] = numberIn(origin.get(3)) || path.length;
  view.setUint32(5, numberIn(fields.get(8)) || (path.length === 1 ? fingerprint : 0));
  view.setUint32(9, path.at(-1) ?? 0);
  payload.set(chainCode, 13);
  payload.set(data, 45);
  const steps = fields.has(7) ? stepsIn(mapIn(fields.get(7)).get(1)) : null;
  return {
    fingerprint,
    path,
    children: steps?.map((step) => `/${step}`).join('') ?? null,
    isTest: numberIn(mapIn(fields.get(5)).get(2)) === 1,
    payload,
  };
}

/** Pairs of an index and whether it is hardened, a wildcard, or the two chains of an account. Errors: RangeError. */
function stepsIn(value: Value | undefined): (number | string)[] {
  const components = listIn(value);
  const steps: (number | string)[] = [];
  for (let i = 0; i < components.length; i++) {
    const index = components[i];
    if (Array.isArray(index) && index.length === 4) {
      steps.push(`<${numberIn(index[0])};${numberIn(index[2])}>`);
      continue;
    }
    const isHardened = components[++i] === true;
    if (Array.isArray(index) && index.length === 0 && !isHardened) steps.push('*');
    else if (typeof index === 'number' && index < HARDENED) steps.push(index + (isHardened ? HARDENED : 0));
    else throw new RangeError('a step of another kind');
  }
  return steps;
}

const base58check = createBase58check(sha256);
const pathText = (path: readonly number[]): string => path.map((step) => (step < HARDENED ? `/${step}` : `/${step - HARDENED}'`)).join('');
const encode = (payload: Uint8Array, version: number): string => {
  const whole = payload.slice();
  new DataView(whole.buffer).setUint32(0, version);
  return base58check.encode(whole);
};
const [XPUB, TPUB] = [0x0488b21e, 0x043587cf];
/** `[origin]xpub`, as descriptors have it; without the origin where it is unknown. */
const expressionOf = ({ fingerprint, path, isTest, payload }: Key): string =>
  `${fingerprint === 0 ? '' : `[${fingerprint.toString(16).padStart(8, '0')}${pathText(path)}]`}${encode(payload, isTest ? TPUB : XPUB)}`;

/** A key alone, with a path: with its origin, or with the version of its address type (SLIP-132), if its path names one and the coin has it. */
function textOf(key: Key): string {
  const { fingerprint, path, isTest, payload } = key;
  const [purpose, coin = HARDENED] = path;
  if (purpose === undefined) throw new RangeError('no path');
  const hasSegwit = coin - HARDENED <= 2;
  if (fingerprint !== 0) return expressionOf(key);
  if (hasSegwit && purpose === HARDENED + 84) return encode(payload, isTest ? 0x045f1cf6 : 0x04b24746);
  if (hasSegwit && purpose === HARDENED + 49) return encode(payload, isTest ? 0x044a5262 : 0x049d7cb2);
  return expressionOf(key);
}

/** The functions of descriptors by the tags of BCR-2020-010. */
const FUNCTIONS: Readonly<Record<number, string>> = {
  400: 'sh',
  401: 'wsh',
  403: 'pkh',
  404: 'wpkh',
  406: 'multi',
  407: 'sortedmulti',
  409: 'tr',
};
const HDKEYS: readonly (number | null)[] = [303, 40303];

/** `master`: the fingerprint of the seed, where keys leave it to the account around them. Errors: RangeError. */
function descriptorIn(value: Value, master: number | null): string {
  const tag = tagOf(value);
  const inner = tag === null ? value : (value as { value: Value }).value;
  if (HDKEYS.includes(tag)) {
    const key = keyIn(inner, master);
    return `${expressionOf(key)}${key.children ?? '/<0;1>/*'}`;
  }
  const source = mapIn(value).get(1);
  if (typeof source === 'string') {
    const keys = listIn(mapIn(value).get(2));
    return source.replaceAll(/@(\d{1,2})/g, (_, place) => descriptorIn(keys[Number(place)] ?? null, master));
  }
  if (tag === 308) return descriptorIn(inner, master);
  const name = tag === null ? undefined : FUNCTIONS[tag];
  if (name === undefined) throw new RangeError('a script of another kind');
  if (!name.includes('multi')) return `${name}(${descriptorIn(inner, master)})`;
  const [required, keys] = [numberIn(mapIn(inner).get(1)), listIn(mapIn(inner).get(2))];
  return `${name}(${[required, ...keys.map((key) => descriptorIn(key, master))].join()})`;
}

/** The usual address type comes first. An account also has keys for multisig wallets, which are of no use alone. */
const USUAL = ['wpkh(', 'sh(wpkh(', 'tr(', 'pkh('];
function accountIn(value: Value): string {
  const fields = mapIn(value);
  const descriptors = listIn(fields.get(2)).flatMap((output) => {
    try {
      return [descriptorIn(output, numberIn(fields.get(1)))];
    } catch (error) {
      if (error instanceof RangeError) return [];
      throw error;
    }
  });
  for (const start of USUAL) {
    const found = descriptors.find((one) => one.startsWith(start));
    if (found !== undefined) return found;
  }
  throw new RangeError('no account with addresses of its own');
}
