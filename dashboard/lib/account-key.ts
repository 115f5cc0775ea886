/** What a pasted text, a file or a scanned code contains: an account key, a private key or seed phrase, or something else. */
import { looksPrivate } from './private-key.ts';
import { readHdKey } from './uniform-resource.ts';

export type GivenKey = { kind: 'key'; text: string } | { kind: 'private' } | { kind: 'other'; why: string };

/** All strings in a JSON document, at any depth. */
const textsIn = (value: unknown): string[] =>
  typeof value === 'string' ? [value] : typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
const jsonIn = (text: string): unknown => {
  try {
    return /^\s*\{/.test(text) ? JSON.parse(text) : null;
  } catch {
    // Not JSON: treated as plain text.
    return null;
  }
};
/** Matches every form of account key that wallets show, including descriptors. */
const SOMEWHERE = /(?:[a-zA-Z](?:pub|tub)|drkp|dgub)[1-9A-HJ-NP-Za-km-z]{100,}/;

/** Wallet files name transactions by 64 hex digits, which a private key alone could be too. */
const HASH = /^[0-9a-f]{64}$/i;
/** A text, a code or a wallet file, which the service reads, unless something in it can spend. */
export function readGiven(given: string): GivenKey {
  const text = given.trim();
  const inside = [...textsIn(jsonIn(text)).filter((one) => !HASH.test(one)), ...text.split('\n')];
  return [text, ...inside].some(looksPrivate) ? { kind: 'private' } : { kind: 'key', text };
}

const STATIC = 'In your wallet, show the plain xpub, ypub or zpub as a single static code, or copy the text.';
/** Wallets also show codes that are not plain keys: Uniform Resources (BCR-2020-005), BBQr, addresses. */
export async function readCode(code: string): Promise<GivenKey> {
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
    return { kind: 'other', why: `This kind of code (UR ${resource}) isn’t supported. ${STATIC}` };
  }
  if (/^B\$[0-9A-Z]{6}/.test(text)) return { kind: 'other', why: `Animated codes (BBQr) aren’t supported. ${STATIC}` };
  if (/^p\d+of\d+ /i.test(text)) return { kind: 'other', why: `Animated codes aren’t supported. ${STATIC}` };
  if (/^(bitcoin|ethereum|litecoin|dash|dogecoin):/i.test(text) || /^(bc1|ltc1|0x)[0-9a-z]{20,}$/i.test(text))
    return {
      kind: 'other',
      why: 'This is a single address. Each payment needs a new one, so scan the public key of the account (xpub) instead.',
    };
  // Anything else is rejected here. It may be a recovery phrase in binary form (CompactSeedQR).
  if (!SOMEWHERE.test(text)) return { kind: 'other', why: `This code doesn’t contain an account key. ${STATIC}` };
  return given;
}
