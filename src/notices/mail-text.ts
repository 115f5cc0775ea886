/** The text of emails: what people wrote goes in as one harmless line, and everything else is named where it is written. */
import { harmless } from '../core/text.ts';

declare const made: unique symbol;
/** Subject or body of an email. Only `mailText` and `exactly` make one, so that nobody's name becomes a link or a line of its own. */
export type MailText = { readonly text: string; readonly [made]: true };

/** Text of ours, as it is: a link of this install, an address, an amount, or words that were made harmless before. */
export const exactly = (text: string): MailText => ({ text }) as MailText;

/** Fills in a text. Strings are made harmless; `exactly` marks those that are ours. */
export const mailText = (parts: TemplateStringsArray, ...values: readonly (string | number | MailText)[]): MailText =>
  exactly(
    parts.reduce((all, part, i) => {
      const value = values[i - 1]!;
      return `${all}${typeof value === 'object' ? value.text : harmless(String(value))}${part}`;
    }),
  );

/** Lines of a body. */
export const mailLines = (lines: readonly MailText[]): MailText => exactly(lines.map(({ text }) => text).join('\n'));
