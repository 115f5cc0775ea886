/** What the commands share: their options, the client made from them, and how results are printed. */
import { createHmac } from 'node:crypto';
import { type Client, createClient } from '../client.ts';
import type { ResponseInfo } from '../request.ts';
import { showControls } from '../text.ts';
import { newSecret } from '../webhooks.ts';

/** The command line is not valid: exit code 2. */
export class UsageError extends Error {}

/** Every option of every command: `value` stands for what it takes; without one it is a switch. */
export const OPTIONS = {
  json: { type: 'boolean', about: 'Print the result as JSON' },
  help: { type: 'boolean', short: 'h', about: 'Show help' },
  version: { type: 'boolean', short: 'v', about: 'Show the version' },
  url: { type: 'string', value: 'URL', about: 'Address of the service (default: FLORIN_URL, or http://localhost:3000)' },
  key: { type: 'string', value: 'KEY', about: 'Secret key (default: FLORIN_API_KEY, which other users of this machine cannot see)' },
  live: { type: 'boolean', about: 'Allow a live key' },
  'forward-to': { type: 'string', value: 'URL', about: 'Where to send events, such as localhost:4000/hook' },
  'print-secret': { type: 'boolean', about: 'Print the signing secret and exit' },
  events: { type: 'string', value: 'A,B', about: 'Only these event types, comma-separated' },
  header: { type: 'string', multiple: true, value: "'NAME: VALUE'", about: 'A header of the delivery; repeat for each' },
  secret: { type: 'string', value: 'SECRET', about: 'Signing secret, such as whsec_...' },
  body: { type: 'string', value: 'FILE', about: 'File with the exact body; - for standard input' },
  legacy: { type: 'boolean', about: 'Accept the older signature header alone' },
  tolerance: { type: 'string', value: 'SECONDS', about: 'How old a delivery may be' },
  'amount-usd': { type: 'string', value: 'AMOUNT', about: 'Amount in US dollars, such as 25.00' },
  'return-url': { type: 'string', value: 'URL', about: 'Where the customer goes after paying' },
  description: { type: 'string', value: 'TEXT', about: 'Description for the customer' },
  'ask-email': { type: 'boolean', about: 'Customers must enter an email address' },
  'one-payment': { type: 'boolean', about: 'One payment for everyone who opens the link' },
  metadata: { type: 'string', multiple: true, value: 'NAME=VALUE', about: 'Data of your own; repeat for more' },
  'payment-address': { type: 'string', value: 'ADDRESS', about: 'Test address that plays a scenario, such as test_btc_success' },
  'customer-email': { type: 'string', value: 'EMAIL', about: 'Email address of the customer' },
  'customer-name': { type: 'string', value: 'NAME', about: 'Name of the customer' },
  'customer-reference': { type: 'string', value: 'ID', about: 'Your own ID of the customer' },
  email: { type: 'string', value: 'EMAIL', about: 'Only customers with this email address' },
  reference: { type: 'string', value: 'ID', about: 'Only the customer with this ID of yours' },
  'invoice-id': { type: 'string', value: 'ID', about: 'Your invoice number' },
  'expires-in': { type: 'string', value: 'SECONDS', about: 'How long the payment can be paid' },
  'idempotency-key': { type: 'string', value: 'KEY', about: 'Makes it safe to run the command again' },
  limit: { type: 'string', value: 'N', about: 'How many to show, 1 to 100 (default 10)' },
  'starting-after': { type: 'string', value: 'ID', about: 'Show the ones after this' },
  status: { type: 'string', value: 'STATUS', about: 'Only this status' },
  currency: { type: 'string', value: 'CODE', about: 'Coin, such as LTC; with payments and links also a currency, such as USD' },
  crypto: { type: 'string', value: 'COIN', about: 'Coin that the customer pays in, if you choose it' },
  amount: { type: 'string', value: 'AMOUNT', about: 'Amount, such as 25.00' },
  network: { type: 'string', value: 'NETWORK', about: 'Network of the coin, such as base' },
  address: { type: 'string', value: 'ADDRESS', about: 'Where the money goes' },
  reason: { type: 'string', value: 'TEXT', about: 'Why you return the money; the customer sees it' },
  'payout-reference': { type: 'string', value: 'TEXT', about: 'Your own name for the payout' },
  'created-after': { type: 'string', value: 'TIME', about: 'Only payments created after this time, such as 2026-11-22T08:00:00Z' },
  'created-before': { type: 'string', value: 'TIME', about: 'Only payments created before this time' },
  type: { type: 'string', value: 'TYPE', about: 'Only this event type' },
  payment: { type: 'string', value: 'ID', about: 'Only what belongs to this payment' },
  state: { type: 'string', value: 'STATE', about: 'Only deliveries in this state: pending, delivered or failed' },
  event: { type: 'string', value: 'ID', about: 'Only deliveries of this event' },
  endpoint: { type: 'string', value: 'ID', about: 'Only deliveries to this endpoint' },
  failed: { type: 'boolean', about: 'Only requests that failed' },
  path: { type: 'string', value: 'PART', about: 'Only requests with this in their path' },
} as const;
type Options = typeof OPTIONS;
export type OptionName = keyof Options;
export type Flags = {
  [K in OptionName]?: Options[K] extends { multiple: true } ? string[] : Options[K]['type'] extends 'boolean' ? boolean : string;
};
/** Options that every command takes. */
export const EVERYWHERE: readonly OptionName[] = ['url', 'key', 'json', 'help'];

/** Rows of two columns, indented. */
export const padded = (rows: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${right}`).join('\n');
};
export const optionRows = (names: readonly OptionName[]): [string, string][] =>
  names.map((name) => {
    const option: { value?: string; short?: string; about: string } = OPTIONS[name];
    return [`${option.short ? `-${option.short}, ` : ''}--${name}${option.value ? ` ${option.value}` : ''}`, option.about];
  });

/** Typing errors between two words: letters changed, left out, added or swapped with a neighbor. */
function mistakesBetween(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : i)));
  for (let i = 1; i <= a.length; i++)
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min(rows[i - 1]![j]! + 1, rows[i]![j - 1]! + 1, rows[i - 1]![j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, rows[i - 2]![j - 2]! + 1);
      rows[i]![j] = best;
    }
  return rows[a.length]![b.length]!;
}

/** ` Did you mean "x"?` when one of the known words is close. */
export function didYouMean(given: string, known: readonly string[], show = (word: string): string => `"${word}"`): string {
  const [best] = known
    .map((word) => ({ word, mistakes: given.length > 2 && word.startsWith(given) ? 1 : mistakesBetween(given, word) }))
    .filter(({ word, mistakes }) => mistakes <= Math.max(1, Math.floor(word.length / 3)))
    .sort((a, b) => a.mistakes - b.mistakes);
  return best ? ` Did you mean ${show(best.word)}?` : '';
}

/** An address as people type it: `localhost:4000/hook` and `4000` are http on this machine. Errors: UsageError. */
export function toUrl(text: string, name: string): string {
  const url = /^\d+$/.test(text) ? `http://localhost:${text}` : /^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url))
    throw new UsageError(`${name} must be an http or https address, such as localhost:4000`);
  return url;
}

export const need = (flags: Flags, name: keyof Flags): string => {
  const value = flags[name];
  if (typeof value !== 'string' || value === '') throw new UsageError(`Missing --${name}`);
  return value;
};
export const numberOf = (flags: Flags, name: keyof Flags): number | undefined => {
  const value = flags[name];
  if (value === undefined) return undefined;
  if (!/^\d{1,9}$/.test(String(value))) throw new UsageError(`--${name} must be a whole number`);
  return Number(value);
};

export const serviceUrl = (flags: Flags): string =>
  toUrl(flags.url || process.env.FLORIN_URL || 'http://localhost:3000', flags.url ? '--url' : 'FLORIN_URL');
export const serviceKey = (flags: Flags): string => {
  const key = flags.key ?? process.env.FLORIN_API_KEY;
  if (!key) throw new UsageError('Set FLORIN_API_KEY to a secret key (sk_test_...), or pass --key');
  return key;
};
export const connect = (flags: Flags, onResponse?: (response: ResponseInfo) => void, send?: typeof fetch): Client =>
  createClient({ url: serviceUrl(flags), key: serviceKey(flags), ...(onResponse && { onResponse }), ...(send && { fetch: send }) });
/** Marks a request as a poll by the command line: the service counts it, and leaves a successful one for the list of events out of the log. */
export const asPoll: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set('x-florin-poll', 'listen');
  return fetch(input, { ...init, headers });
};

/** The secret that signs forwarded events: always the same for a key, so you set it up once. It does not reveal the key. */
export const forwardingSecret = (key: string): string => newSecret(createHmac('sha256', key).update('florin listen').digest());

/** Everything that is printed passes here. Only the line breaks between our own lines act on the terminal. */
const shown = (text: string): string => `${text.split('\n').map(showControls).join('\n')}\n`;
export const line = (text: string): void => void process.stdout.write(shown(text));
export const note = (text: string): void => void process.stderr.write(shown(text));

/** A result for people: one line per value. */
export function describe(value: unknown, indent = ''): string {
  if (Array.isArray(value)) return value.map((entry) => `${indent}- ${describeEntry(entry, `${indent}  `)}`).join('\n');
  return Object.entries(value as object)
    .filter(([name]) => name !== 'success')
    .map(([name, item]) => {
      if (Array.isArray(item))
        return item.length === 0
          ? `${indent}${showControls(name)}: none`
          : `${indent}${showControls(name)}:\n${describe(item, `${indent}  `)}`;
      if (typeof item === 'object' && item !== null) {
        return Object.keys(item).length === 0
          ? `${indent}${showControls(name)}: none`
          : `${indent}${showControls(name)}:\n${describe(item, `${indent}  `)}`;
      }
      return `${indent}${showControls(name)}: ${showControls(String(item ?? '–'))}`;
    })
    .join('\n');
}
const describeEntry = (entry: unknown, indent: string): string =>
  typeof entry === 'object' && entry !== null ? describe(entry, indent).trimStart() : showControls(String(entry));

/** Rows with columns as wide as their widest cell. */
export function table(given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(showControls));
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
