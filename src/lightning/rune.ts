/** What a rune of Core Lightning may do, read from the rune itself: one that is not limited to receiving is refused before it is stored. */

/** What receiving needs at most. */
const ALLOWED: ReadonlySet<string> = new Set(['invoice', 'listinvoices', 'waitanyinvoice', 'waitinvoice', 'getinfo', 'decode', 'wait']);
/** Makes the right one. */
export const CREATE_RUNE = `lightning-cli createrune restrictions='[["method=invoice","method=listinvoices"]]'`;
/** The code that vouches for the restrictions comes before them. */
const CODE_BYTES = 32;
/** A field and the condition, before what it is compared with. */
const ALTERNATIVE = /^[A-Za-z0-9_]*[!=/^$~<>{}#]/;

/** The methods beyond receiving; empty for a good one. Errors: the text is not a rune. */
export function beyondReceiving(rune: string): string[] {
  if (!/^[A-Za-z0-9_-]{44,4000}={0,2}$/.test(rune)) throw new Error('it is not base64url');
  const bytes = Buffer.from(rune, 'base64url');
  // All restrictions must hold. One that only names methods is a limit, whatever the others say.
  const limits = split(bytes.subarray(CODE_BYTES).toString(), '&')
    .map((restriction) => split(restriction, '|').map(methodOf))
    .filter((methods) => methods.every((method) => method !== null)) as string[][];
  const excesses = limits.map((methods) => methods.filter((method) => !ALLOWED.has(method)));
  return excesses.find((names) => names.length === 0) ?? excesses[0] ?? ['every command'];
}

/** The method that an alternative allows; null if it is about something else. */
function methodOf(alternative: string): string | null {
  const found = ALTERNATIVE.exec(alternative);
  if (!found) throw new Error('it has a restriction that is not known');
  return found[0] === 'method=' ? alternative.slice(found[0].length) : null;
}

/** Parts of a text. A mark after a backslash is not one. */
function split(text: string, mark: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === mark) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, text.slice(from)];
}
