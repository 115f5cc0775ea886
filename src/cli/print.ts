/** What commands print for people, with colors only on a terminal. */
import { styleText } from 'node:util';
import { showAll, showControls, showLines } from '../core/text.ts';
import type { ChainStatus } from '../follow/chain-acts.ts';
import type { Finding } from '../operate/finding.ts';
import type { Command, Flags } from './command.ts';

type Style = Parameters<typeof styleText>[0];
/** styleText omits colors when standard output is not a terminal, and with NO_COLOR. */
const paint = (style: Style, text: string): string => styleText(style, text, { stream: process.stdout });
const line = (text = ''): void => void process.stdout.write(`${text}\n`);

const cellText = (value: unknown): string => {
  if (value === null || value === undefined || value === '') return '-';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  return typeof value === 'object' ? Object.values(value).map(cellText).join(':') : String(value);
};

/** Rows with columns as wide as their widest cell. */
function printTable(rows: readonly Record<string, unknown>[], columns: readonly string[]): void {
  const cells = rows.map((row) => columns.map((column) => cellText(row[column])));
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => row[i]!.length)));
  const join = (row: readonly string[]) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd();
  line(paint('bold', join(columns)));
  for (const row of cells) line(join(row));
}

/** One line per value. */
function printFields(value: object, indent = ''): void {
  for (const [name, item] of Object.entries(value)) {
    if (Array.isArray(item)) {
      line(`${indent}${paint('bold', `${name}:`)}${item.length === 0 ? ' none' : ''}`);
      for (const entry of item) line(`${indent}  ${typeof entry === 'object' ? JSON.stringify(entry) : entry}`);
    } else if (typeof item === 'object' && item !== null) {
      line(`${indent}${paint('bold', `${name}:`)}`);
      printFields(item, `${indent}  `);
    } else line(`${indent}${paint('bold', `${name}:`)} ${item ?? '-'}`);
  }
}

/** A list as a table, and how to see the rest of it. */
function printList(result: Record<string, unknown>, columns: readonly string[]): void {
  const [rows] = Object.values(result).filter(Array.isArray) as Record<string, unknown>[][];
  if (rows!.length === 0) line('Nothing found.');
  else printTable(rows!, columns);
  if (result.has_more) line(`\nThere are more. Show them with --after ${cellText(rows!.at(-1)![columns[0]!])}`);
}

/** The doctor's findings: `FIX` must be fixed, `note` is advice. */
function printFindings(findings: readonly Finding[]): void {
  for (const { check, ok, detail, fix } of findings) {
    const label = ok ? (fix === null ? paint('green', 'ok  ') : paint('yellow', 'note')) : paint(['red', 'bold'], 'FIX ');
    line(`${label}  ${check}: ${detail}${fix === null ? '' : `\n      ${paint('dim', '->')} ${fix}`}`);
  }
  const wrong = findings.filter(({ ok }) => !ok).length;
  line(wrong === 0 ? '\nNo problems found.' : `\n${wrong} of ${findings.length} checks failed.`);
}

/** A paragraph per chain; holds and problems are highlighted. */
function printChains(chains: readonly ChainStatus[]): void {
  for (const { coin, network, sources, height, cursor, behind, watched_from, holds, troubles, released } of chains) {
    const place = cursor ? `read to block ${cursor.height}, ${behind ?? 'unknown number of blocks'} behind` : 'not started';
    line(`${paint('bold', `${coin} (${network})`)}: ${place}${watched_from === null ? '' : `, watched from block ${watched_from}`}`);
    for (const { name, state, height: at, followed, reason } of sources)
      line(
        `  source ${name}: ${state}${at === null ? '' : ` at block ${at}`}${followed ? ', followed' : ''}${reason ? `: ${reason}` : ''}`,
      );
    for (const hold of holds) line(`  ${paint(['red', 'bold'], 'HELD')}  ${hold}`);
    for (const trouble of troubles) line(`  ${paint('yellow', '!')}     ${trouble}`);
    if (released) line(`  released at ${released.at}: ${released.reason}`);
    if (height === null) line('  no source is responding');
  }
  if (chains.length === 0) line('No chain is configured.');
}

/** With --json, only the JSON. Nothing that a member or a customer wrote acts on the terminal. */
export function print(given: object, { columns }: Command, flags: Flags): void {
  const result = showAll(given) as object;
  // Within JSON, these characters are parts of strings, and this is how JSON escapes them.
  if (flags.json) line(showControls(JSON.stringify(given)));
  else if ('findings' in result) printFindings(result.findings as Finding[]);
  else if ('chains' in result) printChains(result.chains as ChainStatus[]);
  else if (columns) printList(result as Record<string, unknown>, columns);
  else printFields(result);
}

/** An error and what to do about it, on standard error. */
export function printError(message: string, hint?: string): void {
  const red = styleText('red', showLines(message), { stream: process.stderr });
  process.stderr.write(`${red}\n${hint ? `${showLines(hint)}\n` : ''}`);
}
