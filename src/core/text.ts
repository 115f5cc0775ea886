/** Text from strangers: cut to a length that can be stored, refused when it acts instead of being shown, and made safe to print. */
import { Problem } from './problem.ts';

/**
 * Characters that act instead of being shown: control characters, which a terminal or a mail program obeys, other separators of
 * lines and paragraphs, and controls of the direction of text, with which a text shows another one (UAX #9).
 */
const ACTING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
const EACH_ACTING = new RegExp(ACTING, 'gu');

/**
 * The first `most` UTF-16 units of a text, without half of a surrogate pair at the end: PostgreSQL refuses that in `jsonb`, and
 * `encodeURIComponent` throws.
 */
export const cutText = (text: string, most: number): string =>
  text
    .slice(0, most)
    .replace(/[\ud800-\udbff]$/, '')
    .toWellFormed();

/** An address without slashes at its end, so that a path can follow. */
export function withoutEndSlashes(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end--;
  return text.slice(0, end);
}

/** What is not shown and has no place in a name, letters without a shape too. The two joiners are needed in Persian and Indic names, and in emoji. */
const UNSEEN = /[^\P{C}\u200c\u200d]|[\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/u;
const EACH_UNSEEN = new RegExp(UNSEEN, 'gu');
/** Whether nothing of a line can be seen. */
const isBlank = (line: string): boolean => !/[\p{L}\p{N}\p{P}\p{S}]/u.test(line.replace(EACH_UNSEEN, ''));

/** Whether the text is one line of characters that can be seen, spaces included. */
export const isPrintableLine = (text: string): boolean => !ACTING.test(text);

/**
 * A name or reference as somebody typed it, without spaces around it. It is refused if nothing is left, or if it contains line breaks,
 * control characters or direction marks. Errors: parameter_invalid.
 */
export function printableLine(text: string, param: string): string {
  const line = text.trim();
  if (isBlank(line) || !isPrintableLine(line))
    throw new Problem('parameter_invalid', { reason: 'it must be one line of visible characters' }, { param });
  return line;
}

/** A name that a shop sent: what could not be shown becomes a space. */
export const toPrintableLine = (text: string): string => text.replace(EACH_ACTING, ' ').trim();

/** Text for a terminal: characters that act are written as in JSON, such as `\u001b`, so that nothing in it can be obeyed. */
export const showControls = (text: string): string =>
  text.replace(EACH_ACTING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
/** The same for text of several lines, whose line breaks are ours. */
export const showLines = (text: string): string => text.split('\n').map(showControls).join('\n');
/** The same for each text within a value, so that whatever prints it prints nothing that acts. */
export function showAll(value: unknown): unknown {
  if (typeof value === 'string') return showControls(value);
  if (Array.isArray(value)) return value.map(showAll);
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [showControls(name), showAll(item)]));
}

/** Most characters of the name of a person or business. */
export const MOST_NAME = 60;
/** What mail programs turn into a link: with a scheme, with `www.`, or a host, also without a path. */
const LINK =
  /:\/\/|\bwww\.|\b(?:mailto|tel|sms|data|javascript):\S|[\p{L}\p{N}\p{M}_-]\.(?:\p{L}{2}|xn--)|(?<!\d)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\d)/iu;
/** As programs read an address: other forms of letters and dots count, and what is not shown does not. */
const asAddress = (text: string): string =>
  text
    .normalize('NFKC')
    .replace(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')
    .replace(/[。｡]/g, '.');
/** Whether a mail program may turn a part of the text into a link. */
export const hasLink = (text: string): boolean => LINK.test(asAddress(text));

/**
 * The name of a person or business, as emails to others contain it: one line of up to 60 visible characters without a
 * web address. Errors: parameter_invalid.
 */
export function readName(text: string, param: string): string {
  const refuse = (reason: string): never => {
    throw new Problem('parameter_invalid', { reason }, { param });
  };
  const name = text.trim();
  if (UNSEEN.test(name) || isBlank(name)) refuse('it must be one line of visible characters');
  if ([...name].length > MOST_NAME) refuse(`it must have at most ${MOST_NAME} characters`);
  if (hasLink(name)) refuse('it must not contain a web address; put a space after each dot that is not part of a number');
  return name;
}

/** The same text as one line of at most `most` characters that no mail program turns into a link. */
export function harmless(text: string, most = MOST_NAME): string {
  const line = text.slice(0, 10_000).toWellFormed().replace(EACH_UNSEEN, ' ').replace(/\s+/gu, ' ').trim();
  const plain = hasLink(line)
    ? asAddress(line)
        .replace(/[.:/\\@]+/g, ' ')
        .replace(/ +/g, ' ')
        .trim()
    : line;
  const characters = [...plain];
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : plain;
}
