/** HTML from templates: every inserted value is text, unless the same function created it. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => ENTITIES[char]!);

type Part = string | number | Html | null | false | undefined | readonly Part[];
const put = (part: Part): string =>
  part === null || part === false || part === undefined
    ? ''
    : part instanceof Html
      ? part.text
      : Array.isArray(part)
        ? part.map(put).join('')
        : escapeHtml(String(part));

/** Tagged template: `html`<p>${text}</p>`` escapes `text`; null and false leave nothing. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html =>
  new Html(strings.reduce((out, string, i) => out + string + (i < parts.length ? put(parts[i]) : ''), ''));
