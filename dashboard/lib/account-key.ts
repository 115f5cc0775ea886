/** What a pasted text, a file or a code before the camera holds: an account key, something that can spend, or something else. */
import { looksPrivate } from './private-key.ts';
import { readHdKey } from './uniform-resource.ts';

export type Given = { kind: 'key'; text: string } | { kind: 'private' } | { kind: 'other'; why: string };

/** All texts in a JSON document, however deep. */
const textsIn = (value: unknown): string[] =>
  typeof value === 'string' ? [value] : typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
const jsonIn = (text: string): unknown => {
  try {
    return /^\s*\{/.test(text) ? JSON.parse(text) : null;
  } catch {
    // Not JSON after all: judged as it stands.
    return null;
  }
};
const PUBLIC = /^(?:[xyzuvt]pub|[LM]tub|ttub|drkp|dgub)[1-9A-HJ-NP-Za-km-z]{100,}$/;

/** Stands somewhere in every form of an account key that wallets show, descriptors too. */
const SOMEWHERE = /(?:[a-zA-Z](?:pub|tub)|drkp|dgub)[1-9A-HJ-NP-Za-km-z]{100,}/;

/** A file of a wallet, or a code that holds one, is taken for its key when it has one alone. */
export function readGiven(given: string): Given {
  const text = given.trim();
  const inside = textsIn(jsonIn(text));
  if ([text, ...inside].some(looksPrivate)) return { kind: 'private' };
  const keys = new Set(inside.filter((one) => PUBLIC.test(one)));
  if (keys.size > 1)
    return {
      kind: 'other',
      why: 'It holds several keys, of other coins or address types too. Paste the one of the account that shall receive.',
    };
  return { kind: 'key', text: [...keys][0] ?? text };
}

const STATIC = 'In your wallet, choose the plain xpub, ypub or zpub as one code that stands still, or copy the text.';
/** Wallets also show what is no text of a key: Uniform Resources (BCR-2020-005), BBQr, addresses. */
export async function readCode(code: string): Promise<Given> {
  const given = readGiven(code);
  if (given.kind !== 'key') return given;
  const { text } = given;
  const resource = /^ur:([a-z0-9-]+)\//i.exec(text)?.[1]?.toLowerCase();
  if (resource !== undefined) {
    if (/seed|bip39|eckey|sskr/.test(resource)) return { kind: 'private' };
    const key = await readHdKey(text);
    if (key === 'private') return { kind: 'private' };
    if (key !== null) return { kind: 'key', text: key };
    if (/psbt|sign/.test(resource)) return { kind: 'other', why: `This is a transaction to sign. ${STATIC}` };
    return { kind: 'other', why: `This code has the form “UR” (${resource}), which cannot be read here. ${STATIC}` };
  }
  if (/^B\$[0-9A-Z]{6}/.test(text))
    return { kind: 'other', why: `This is one part of an animated code (BBQr), which cannot be read here. ${STATIC}` };
  if (/^p\d+of\d+ /i.test(text))
    return { kind: 'other', why: `This is one part of an animated code, which cannot be read here. ${STATIC}` };
  if (/^(bitcoin|ethereum|litecoin|dash|dogecoin):/i.test(text) || /^(bc1|ltc1|0x)[0-9a-z]{20,}$/i.test(text))
    return {
      kind: 'other',
      why: 'This is one address, and each payment needs one of its own. Show the public key of the account (xpub) instead.',
    };
  // Whatever else it is, a recovery phrase in bytes (CompactSeedQR) among it, goes no further.
  if (!SOMEWHERE.test(text)) return { kind: 'other', why: `There is no account key in this code. ${STATIC}` };
  return given;
}
