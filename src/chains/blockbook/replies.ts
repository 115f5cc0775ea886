/** Reads the replies of Blockbook servers, which omit zero and show amounts as text. */
import { ChainError } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';

export const rows = (value: unknown): Fields[] => (Array.isArray(value) ? value.map(fields) : []);
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');
/** Replies omit zero. */
export const integer = (value: unknown): number => (Number.isSafeInteger(Number(value ?? 0)) ? Number(value ?? 0) : 0);
/** The first of a list of addresses; empty when there is none. */
export const firstAddress = (value: unknown): string => (Array.isArray(value) ? text(value[0]) : '');

export const incomplete = (server: string, what: string): ChainError => new ChainError('outage', `${server} answered without ${what}`);

/** Reads amounts in base units. Errors: ChainError outage, naming what is missing. */
export type Units = (value: unknown, what: string) => bigint;
export const unitsFrom =
  (server: string): Units =>
  (value, what) => {
    if (!/^-?\d+$/.test(text(value))) throw incomplete(server, what);
    return BigInt(text(value));
  };

/** A decimal string in base units; null when it is not a decimal. Digits beyond the coin's decimals are cut. */
export function decimalUnits(value: unknown, decimals: number): bigint | null {
  const found = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text(value));
  if (!found) return null;
  const [, minus, whole = '', fraction = ''] = found;
  const digits = BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, '0'));
  return minus ? -digits : digits;
}
