/** Recorded headers of public chains, from the fixtures, as a test reads them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { SentHeader, Timed } from '../../src/chains/bitcoin/header-rules.ts';

const FOLDER = join(import.meta.dirname, '../fixtures/headers');

/** The lines of a fixture, by its name without `.gz`. */
export const linesOf = (name: string): string[] =>
  gunzipSync(readFileSync(join(FOLDER, `${name}.gz`)))
    .toString()
    .trim()
    .split('\n');
/** The words of each line. */
export const rowsOf = (name: string): string[][] => linesOf(name).map((line) => line.split(' '));
export const jsonOf = <T>(name: string): T => JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as T;

/** Consecutive headers, lowest first. */
export const headersOf = (name: string): Buffer[] => linesOf(name).map((line) => Buffer.from(line, 'hex'));
/** The same with the merge-mining proof that follows some of them. */
export const sentOf = (name: string): SentHeader[] =>
  headersOf(name).map((bytes) => ({ bytes: bytes.subarray(0, 80), auxpow: bytes.length > 80 ? bytes.subarray(80) : null }));

export const timed = (header: Buffer): Timed => ({ timeSeconds: header.readUInt32LE(68), bits: header.readUInt32LE(72) });
/** Looks up consecutive headers by height. */
export const ancestorsOf =
  (headers: readonly Buffer[], lowest: number) =>
  (height: number): Timed => {
    const header = headers[height - lowest];
    if (!header) throw new RangeError(`no header at ${height}`);
    return timed(header);
  };

/** Every nth, beginning with the first. */
export const sample = <T>(list: readonly T[], every: number): T[] => list.filter((_, i) => i % every === 0);
