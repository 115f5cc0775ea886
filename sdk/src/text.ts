/** Text from the service for a terminal. Customers write some of it. */

/** Control characters, other separators of lines, and controls of the direction of text. */
const ACTING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** The text with these characters written as in JSON, such as `\u001b`, so that a terminal obeys nothing in it. */
export const showControls = (text: string): string =>
  text.replace(ACTING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
