/** The part of a request that the log keeps: redacted and short. Pure. */

const GONE = '[redacted]';
/** Names of fields whose values are redacted. */
const SECRET_NAME =
  /secret|password|passphrase|token|authorization|api[_-]?key|private|mnemonic|recovery_phrase|seed|signature|credential|card_?number|cvc/i;
/** Secrets recognized by their form: API keys, signing secrets, extended private keys, bearer headers. */
const SECRET_SHAPE =
  /\b(?:(?:sk|pk)_(?:live|test)|(?:live|test)_(?:sk|pk)|whsec)_[\w+/=-]+|\b[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{20,}|\bBearer\s+[\w.~+/=-]+/gi;
/** `https://user:password@host` and `?token=…` of an address. */
const IN_URL = /(\/\/)[^/\s"'@?#]+@/g;
const IN_QUERY = /([?&](?:[^=&#"\s]*(?:secret|password|token|key|signature|sig|auth|code)[^=&#"\s]*)=)[^&#"\s]*/gi;
/** The token of a claim page. */
const IN_CLAIM = /(\/claim\/)\w+/g;
/** A field with its value in text that may end in the middle of it. */
const IN_TEXT =
  /("[^"\\]*(?:secret|password|passphrase|token|authorization|api[_-]?key|private|mnemonic|seed|signature|credential)[^"\\]*"\s*:\s*)("(?:[^"\\]|\\[\s\S])*"?|[^\s,}\]]+)/gi;

const MOST_BODY = 2_048;
/** Longer JSON is not parsed; its beginning is searched as text. */
const MOST_READ = 16_384;

const redactText = (text: string): string =>
  text.replace(SECRET_SHAPE, GONE).replace(IN_URL, `$1${GONE}@`).replace(IN_QUERY, `$1${GONE}`).replace(IN_CLAIM, `$1${GONE}`);
/** PostgreSQL stores neither NUL nor half of a surrogate pair. */
const storable = (text: string): string => text.replaceAll('\u0000', '\ufffd').toWellFormed();
const cut = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** A redacted body of at most 2048 characters. */
export function redactBody(text: string): string {
  let kept: string | null = null;
  if (text.length <= MOST_READ) {
    try {
      kept = JSON.stringify(JSON.parse(text, (name, value: unknown) => (SECRET_NAME.test(name) && value !== null ? GONE : value)));
    } catch {
      // Not JSON: searched as text.
    }
  }
  // Twice the kept length, so that no secret is cut in half before it is found.
  kept ??= text.slice(0, 2 * MOST_BODY).replace(IN_TEXT, `$1"${GONE}"`);
  return storable(cut(redactText(kept), MOST_BODY));
}

/** As much of a body as `redactBody` reads, as a copy, so that a long body is not kept in memory. */
export function startOfBody(body: string | Uint8Array): string {
  if (body.length <= MOST_READ) return typeof body === 'string' ? body : Buffer.from(body).toString();
  const start = typeof body === 'string' ? Buffer.from(body.slice(0, 2 * MOST_BODY)) : Buffer.from(body.subarray(0, 6 * MOST_BODY));
  return start.toString().slice(0, 2 * MOST_BODY);
}

/** A parameter name, redacted in case it is a secret. */
export const redactName = (name: string): string => storable(cut(redactText(name), 120));

/** Escapes of letters, digits and underscores mean the same as these (RFC 3986, section 6.2.2.2), and the router decodes them. */
const unescapeWords = (text: string): string =>
  text.replace(/%[2-7][0-9a-f]/gi, (sequence) => {
    const char = String.fromCharCode(Number.parseInt(sequence.slice(1), 16));
    return /\w/.test(char) ? char : sequence;
  });

/** The redacted path and query of a URL. A path has one spelling, so that a part of it is found. */
export function redactUrl(url: string): { path: string; query: string | null } {
  const at = url.indexOf('?');
  const path = at < 0 ? url : url.slice(0, at);
  const query = at < 0 ? '' : url.slice(at, at + 2_000);
  // Escaped or not, a key in a path has no meaning to any route.
  return {
    path: storable(cut(redactText(unescapeWords(path.slice(0, 1_000))), 200)),
    query: query === '' ? null : storable(cut(redactText(query), 500)).slice(1),
  };
}
