/** What the commands share: their flags, the client made of them, and how results are printed. */
import { createHmac } from 'node:crypto';
import { type Client, createClient } from '../client.ts';
import type { ResponseInfo } from '../request.ts';
import { newSecret } from '../webhooks.ts';

/** The command was not used as it can be: exit code 2. */
export class UsageError extends Error {}

export const OPTIONS = {
  json: { type: 'boolean' },
  help: { type: 'boolean' },
  version: { type: 'boolean' },
  url: { type: 'string' },
  key: { type: 'string' },
  live: { type: 'boolean' },
  'forward-to': { type: 'string' },
  'print-secret': { type: 'boolean' },
  events: { type: 'string' },
  header: { type: 'string', multiple: true },
  secret: { type: 'string' },
  body: { type: 'string' },
  legacy: { type: 'boolean' },
  tolerance: { type: 'string' },
  'amount-usd': { type: 'string' },
  'return-url': { type: 'string' },
  description: { type: 'string' },
  metadata: { type: 'string', multiple: true },
  'payment-address': { type: 'string' },
  'invoice-id': { type: 'string' },
  'expires-in': { type: 'string' },
  'idempotency-key': { type: 'string' },
  limit: { type: 'string' },
  'starting-after': { type: 'string' },
  status: { type: 'string' },
  currency: { type: 'string' },
  amount: { type: 'string' },
  'created-after': { type: 'string' },
  'created-before': { type: 'string' },
  type: { type: 'string' },
  payment: { type: 'string' },
  state: { type: 'string' },
  event: { type: 'string' },
  endpoint: { type: 'string' },
  failed: { type: 'boolean' },
  path: { type: 'string' },
} as const;
type Options = typeof OPTIONS;
export type Flags = {
  [K in keyof Options]?: Options[K] extends { multiple: true } ? string[] : Options[K]['type'] extends 'boolean' ? boolean : string;
};

export const need = (flags: Flags, name: keyof Flags): string => {
  const value = flags[name];
  if (typeof value !== 'string' || value === '') throw new UsageError(`--${name} is needed`);
  return value;
};
export const numberOf = (flags: Flags, name: keyof Flags): number | undefined => {
  const value = flags[name];
  if (value === undefined) return undefined;
  if (!/^\d{1,9}$/.test(String(value))) throw new UsageError(`--${name} must be a whole number`);
  return Number(value);
};

export const serviceUrl = (flags: Flags): string => flags.url ?? process.env.FLORIN_URL ?? 'http://localhost:3000';
export const serviceKey = (flags: Flags): string => {
  const key = flags.key ?? process.env.FLORIN_API_KEY;
  if (!key) throw new UsageError('Set FLORIN_API_KEY to a secret key (sk_test_...), or give --key.');
  return key;
};
export const connect = (flags: Flags, onResponse?: (response: ResponseInfo) => void): Client =>
  createClient({ url: serviceUrl(flags), key: serviceKey(flags), ...(onResponse && { onResponse }) });

/** The secret that signs what is forwarded: the same for the same key, so that it is set up once; the key does not follow from it. */
export const forwardingSecret = (key: string): string => newSecret(createHmac('sha256', key).update('florin listen').digest());

export const line = (text: string): void => void process.stdout.write(`${text}\n`);
export const note = (text: string): void => void process.stderr.write(`${text}\n`);

/** A result for people: one line a value; lists of objects as a table of their plain columns. */
export function describe(value: unknown, indent = ''): string {
  if (Array.isArray(value)) return value.map((entry) => `${indent}- ${describeEntry(entry, `${indent}  `)}`).join('\n');
  return Object.entries(value as object)
    .filter(([name]) => name !== 'success')
    .map(([name, item]) => {
      if (Array.isArray(item)) return item.length === 0 ? `${indent}${name}: none` : `${indent}${name}:\n${describe(item, `${indent}  `)}`;
      if (typeof item === 'object' && item !== null) {
        return Object.keys(item).length === 0 ? `${indent}${name}: none` : `${indent}${name}:\n${describe(item, `${indent}  `)}`;
      }
      return `${indent}${name}: ${item ?? '–'}`;
    })
    .join('\n');
}
const describeEntry = (entry: unknown, indent: string): string =>
  typeof entry === 'object' && entry !== null ? describe(entry, indent).trimStart() : String(entry);

/** Rows with columns as wide as what they hold. */
export function table(rows: readonly (readonly string[])[]): string {
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
