/**
 * Whether there is a newer Florin. Its maintainers publish one list of releases with a signature of minisign. It is read only when an
 * operator asks, as a file that looks the same for everybody: the request says nothing about the install. A list whose signature is not
 * by RELEASES_KEY is worth nothing, so it does not matter who answers. The date of the list shows when somebody withholds newer ones.
 */
import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Outgoing } from '#connections';

const MAX_BYTES = 256 * 1024;
const TIMEOUT_MS = 10_000;
const MAX_RELEASES = 1_000;

const withBytes = (key: Buffer, bytes: number, algorithms: readonly string[]): Buffer | null =>
  key.length === bytes && algorithms.includes(key.toString('latin1', 0, 2)) ? key : null;

/**
 * Whether minisign made the signature of these bytes with the key, and signed its trusted comment too. `key`: the second line of a public
 * key file. Follows the format in https://jedisct1.github.io/minisign/.
 */
export function isSignedBy(content: Uint8Array, { signature, key }: { signature: string; key: string }): boolean {
  const publicKey = withBytes(Buffer.from(key, 'base64'), 42, ['Ed']);
  const [, made = '', comment = '', sealed = ''] = signature.split('\n').map((line) => line.replace(/\r$/, ''));
  const signed = withBytes(Buffer.from(made, 'base64'), 74, ['Ed', 'ED']);
  const trusted = /^trusted comment: (.*)$/.exec(comment)?.[1];
  if (!publicKey || !signed || trusted === undefined || !publicKey.subarray(2, 10).equals(signed.subarray(2, 10))) return false;
  const ed25519 = createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url', 10) } });
  // "ED" signs a hash of the file, so that it need not be in memory.
  const message = signed[1] === 0x44 ? createHash('blake2b512').update(content).digest() : content;
  const own = signed.subarray(10);
  return (
    verify(null, message, ed25519, own) && verify(null, Buffer.concat([own, Buffer.from(trusted)]), ed25519, Buffer.from(sealed, 'base64'))
  );
}

/** `security`: it fixes a vulnerability. `breaking`: after its migrations, older versions do not start. */
type Release = { version: string; date: string; security: boolean; breaking: boolean };

const VERSION = /^(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?:-rc\.(\d{1,5}))?$/;
const DATE = /^\d{4}-\d\d-\d\d$/;
/** A release candidate comes before its release. */
function partsOf(version: string): readonly number[] {
  const [, major, minor, patch, candidate] = VERSION.exec(version) ?? [];
  return [major, minor, patch, candidate ?? Number.POSITIVE_INFINITY].map(Number);
}
export function isNewer(version: string, than: string): boolean {
  const [own, other] = [partsOf(version), partsOf(than)];
  const at = own.findIndex((part, i) => part !== other[i]);
  return at >= 0 && own[at]! > other[at]!;
}

const isRelease = (one: unknown): one is Release => {
  const { version, date, security, breaking } = (one ?? {}) as Record<keyof Release, unknown>;
  const isText = (text: unknown, form: RegExp) => typeof text === 'string' && form.test(text);
  return isText(version, VERSION) && isText(date, DATE) && typeof security === 'boolean' && typeof breaking === 'boolean';
};

/** Errors: an Error that says what is wrong with the list. */
function readList(content: Uint8Array): { published: string; releases: readonly Release[] } {
  let list: { published?: unknown; releases?: unknown } | null = null;
  try {
    list = JSON.parse(Buffer.from(content).toString());
  } catch {
    // Refused below.
  }
  const { published, releases } = list ?? {};
  if (typeof published !== 'string' || !DATE.test(published)) throw new Error('The list of releases has no date of publication.');
  if (!Array.isArray(releases) || releases.length > MAX_RELEASES || !releases.every(isRelease))
    throw new Error('The list of releases has another form than this version of Florin knows. Read the notes of the newest release.');
  return { published, releases };
}

/** How the new version gets here. */
export const UPGRADE = {
  archive: './florin upgrade --file florin-VERSION.tgz',
  deb: 'apt install ./florin_VERSION_ARCHITECTURE.deb',
  image: 'start the image of the new version',
  clone: 'git pull && npm ci, then restart it',
} as const;

/**
 * The releases that are newer than a version, newest first. `file`: the list, with its signature in `FILE.minisig`; null to fetch it from
 * RELEASES_URL. Errors: an Error that says why the list cannot be read or believed.
 */
export async function findNewer(
  { releasesUrl, releasesKey }: { releasesUrl: string | null; releasesKey: string | null },
  {
    version,
    installedBy,
    file,
    outgoing,
  }: { version: string; installedBy: keyof typeof UPGRADE; file: string | null; outgoing: Pick<Outgoing, 'request'> },
) {
  if (releasesKey === null || (releasesUrl === null && file === null))
    throw new Error('Set RELEASES_KEY, and RELEASES_URL unless you give a file with --file. docs/guides/self-hosting.md explains both.');
  const read = async (suffix: '' | '.minisig'): Promise<Buffer> => {
    if (file !== null) return readFile(file + suffix);
    const { status, body } = await outgoing.request({
      url: releasesUrl + suffix,
      headers: { 'User-Agent': 'florin' },
      ...{ timeoutMs: TIMEOUT_MS, maxReplyBytes: MAX_BYTES, over: 'refuse' },
    });
    if (status !== 200) throw new Error(`${releasesUrl}${suffix} answered with status ${status}.`);
    return Buffer.from(body);
  };
  const [content, signature] = await Promise.all([read(''), read('.minisig')]);
  if (!isSignedBy(content, { signature: signature.toString(), key: releasesKey }))
    throw new Error('The list of releases is not signed with RELEASES_KEY, so nothing in it can be believed.');
  const { published, releases } = readList(content);
  const newer = releases.filter((one) => isNewer(one.version, version)).sort((a, b) => (isNewer(a.version, b.version) ? -1 : 1));
  return {
    published,
    newer: newer.map(({ version, date, security, breaking }) => ({ version, date, security, breaking })),
    security: newer.some(({ security }) => security),
    upgrade: newer.length === 0 ? null : UPGRADE[installedBy],
  };
}
