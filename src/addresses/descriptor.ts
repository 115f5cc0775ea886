/** Output descriptors (BIP-380 to 389) of wallets that can receive, and keys alone, read as strictly as Bitcoin Core reads them. */
import { Problem } from '#core/problem';
import type { Script } from './address.ts';

/** A key as descriptors write it: `[fingerprint/origin]key/steps/*`. */
export type KeyExpression = {
  /** Of the seed, and the steps from it to the key; null where the origin is unknown. */
  fingerprint: string | null;
  origin: readonly string[];
  key: string;
  /** Those to the chain of deposit addresses. */
  steps: readonly number[];
  isRanged: boolean;
};
/** `script`: null around a key alone. `multi`: how many of several keys sign, and whether they are sorted for each address (BIP-67). */
export type Descriptor = { script: Script | null; keys: readonly KeyExpression[]; multi: { required: number; isSorted: boolean } | null };

export const invalidKey = (reason: string): Problem => new Problem('account_key_invalid', { reason }, { param: 'key' });

/** No descriptor with all of its keys is longer. */
const MOST_CHARACTERS = 8_000;
/** Bitcoin Core takes no more (BIP-383). */
const MOST_KEYS = 20;
/** Wallets write one step. Each takes a millisecond to derive. */
const MOST_STEPS = 5;
const HARDENED = 0x80000000;

type Wrapper = { opens: string; closes: string; script: Script; isMulti: boolean };
const WRAPPERS: readonly Wrapper[] = [
  { opens: 'pkh(', closes: ')', script: 'p2pkh', isMulti: false },
  { opens: 'wpkh(', closes: ')', script: 'p2wpkh', isMulti: false },
  { opens: 'sh(wpkh(', closes: '))', script: 'p2sh-p2wpkh', isMulti: false },
  { opens: 'tr(', closes: ')', script: 'p2tr', isMulti: false },
  { opens: 'wsh(', closes: ')', script: 'p2wsh', isMulti: true },
  { opens: 'sh(wsh(', closes: '))', script: 'p2sh-p2wsh', isMulti: true },
];
/** What stands around the keys of a script. */
export const wrapperOf = (script: Script): Wrapper => WRAPPERS.find((one) => one.script === script)!;

/** Errors: account_key_invalid, with the place of the fault. */
export function readDescriptor(text: string): Descriptor {
  if (text.length > MOST_CHARACTERS) throw invalidKey(`it has more than ${MOST_CHARACTERS} characters`);
  const body = withoutChecksum(text);
  if (body.startsWith('addr(')) throw invalidKey('it is a single address; each payment needs a new one, so export the key of the account');
  const wrapper = WRAPPERS.find(({ opens }) => body.startsWith(opens)) ?? null;
  const reader: Reader = { body, at: wrapper?.opens.length ?? 0, chains: null };
  const descriptor: Descriptor = {
    script: wrapper?.script ?? null,
    ...(wrapper?.isMulti ? readMulti(reader) : { keys: [readKey(reader)], multi: null }),
  };
  expect(reader, wrapper?.closes ?? '');
  if (reader.at < body.length) throw fault(reader, 'nothing more');
  const bare = descriptor.keys.findIndex(({ isRanged }) => !isRanged);
  if (wrapper && bare >= 0)
    throw invalidKey(
      `${descriptor.multi ? `key ${bare + 1} of the descriptor` : 'the descriptor'} must end with /* behind its key, such as ${
        descriptor.multi ? '' : wrapper.opens
      }[origin]key/0/*${descriptor.multi ? '' : wrapper.closes}`,
    );
  return descriptor;
}

/** How far a descriptor is read, and how many chains its keys name in steps such as <0;1>. */
type Reader = { readonly body: string; at: number; chains: number | null };

/** What was expected where. Only a few characters of the input are repeated: private keys were refused before. */
function fault({ body, at }: Reader, wanted: string): Problem {
  const found = at >= body.length ? 'it ends' : `there is “${body.slice(at, at + 8)}”`;
  return invalidKey(`at character ${at + 1}, where ${wanted} should be, ${found}`);
}
function expect(reader: Reader, text: string): void {
  if (!reader.body.startsWith(text, reader.at)) throw fault(reader, `“${text}”`);
  reader.at += text.length;
}
/** The text that a pattern with the flag `y` matches here. */
function take(reader: Reader, pattern: RegExp): string | null {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.body)?.[0] ?? null;
  reader.at += found?.length ?? 0;
  return found;
}

function readMulti(reader: Reader): Pick<Descriptor, 'keys' | 'multi'> {
  const name = take(reader, /(?:sorted)?multi\(/y);
  if (name === null) throw fault(reader, 'sortedmulti( or multi(');
  const required = Number(take(reader, /\d{1,10}(?=,)/y) ?? '0');
  if (required === 0) throw fault(reader, 'the number of signatures');
  const keys: KeyExpression[] = [];
  while (keys.length < MOST_KEYS && reader.body[reader.at] === ',') {
    reader.at++;
    keys.push(readKey(reader));
  }
  if (reader.body[reader.at] === ',') throw fault(reader, `at most ${MOST_KEYS} keys`);
  expect(reader, ')');
  if (required > keys.length) throw invalidKey(`it needs ${required} signatures, and has only ${keys.length} keys`);
  return { keys, multi: { required, isSorted: name === 'sortedmulti(' } };
}

const NO_KEY = 'it is not an extended public key, alone or in the form [origin]key/0/* or wpkh([origin]key/0/*)';

function readKey(reader: Reader): KeyExpression {
  const isFirst = reader.at === 0;
  const { fingerprint, origin } = readOrigin(reader);
  const key = take(reader, /[1-9A-HJ-NP-Za-km-z]+/y);
  if (key === null) throw isFirst ? invalidKey(NO_KEY) : fault(reader, 'a key');
  if (reader.body[reader.at] === '(')
    throw invalidKey(
      `descriptors of this kind, ${key.slice(0, 20)}(...), are not supported; export the account as wpkh, pkh, sh(wpkh), tr or wsh(sortedmulti)`,
    );
  if (isFirst && key.length < 100) throw invalidKey(NO_KEY);
  const steps: number[] = [];
  let tuples = 0;
  while (reader.body[reader.at] === '/') {
    if (take(reader, /\/\*/y) !== null) return { fingerprint, origin, key, steps, isRanged: true };
    reader.at++;
    if (steps.length === MOST_STEPS) throw invalidKey(`it has more than ${MOST_STEPS} steps behind its key`);
    if (reader.body[reader.at] === '<' && ++tuples > 1) throw invalidKey('it has steps such as <0;1> more than once');
    steps.push(readStep(reader));
  }
  if (steps.length > 0) throw invalidKey('it names one address; what ends with /* names all addresses of a wallet');
  return { fingerprint, origin, key, steps, isRanged: false };
}

function readOrigin(reader: Reader): Pick<KeyExpression, 'fingerprint' | 'origin'> {
  if (reader.body[reader.at] !== '[') return { fingerprint: null, origin: [] };
  reader.at++;
  const fingerprint = take(reader, /[0-9a-fA-F]{8}/y);
  if (fingerprint === null) throw fault(reader, 'the fingerprint of 8 hex digits');
  const origin: string[] = [];
  while (reader.body[reader.at] === '/') {
    reader.at++;
    origin.push(`${readNumber(reader)}${take(reader, /['hH]/y) === null ? '' : "'"}`);
  }
  expect(reader, ']');
  return { fingerprint: fingerprint.toLowerCase(), origin };
}

/** A step behind a key: a number, or the numbers of several chains, of which the first one receives (BIP-389). */
function readStep(reader: Reader): number {
  if (reader.body[reader.at] !== '<') return readNumber(reader);
  reader.at++;
  const chains = [readNumber(reader)];
  while (reader.body[reader.at] === ';' && chains.length < MOST_KEYS) {
    reader.at++;
    chains.push(readNumber(reader));
  }
  if (chains.length < 2 || new Set(chains).size !== chains.length) throw fault(reader, 'another chain, as in <0;1>');
  expect(reader, '>');
  reader.chains ??= chains.length;
  if (reader.chains !== chains.length) throw invalidKey('its keys have different numbers of chains in steps such as <0;1>');
  return chains[0]!;
}
function readNumber(reader: Reader): number {
  const start = reader.at;
  const digits = take(reader, /\d{1,10}/y);
  if (digits === null) throw fault(reader, 'a number');
  if (Number(digits) < HARDENED) return Number(digits);
  throw invalidKey(`it has a step out of range at character ${start + 1}`);
}

/** The body, after its checksum was compared. Some programs show it in capital letters. */
function withoutChecksum(text: string): string {
  const [body = '', sum, ...rest] = text.split('#');
  if (sum !== undefined && (rest.length > 0 || !/^[a-z0-9]{8}$/i.test(sum) || descriptorChecksum(body) !== sum.toLowerCase()))
    throw invalidKey('the checksum of the descriptor is wrong');
  return body;
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
