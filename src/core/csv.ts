/** CSV (RFC 4180): written so that spreadsheets read no cell as a formula, and read with the number of each line. */
import { MOST_CSV_CELLS } from './bounds.ts';

/** Characters that start a formula in spreadsheets, including full-width forms, and blanks, which some spreadsheets skip. */
const FORMULA = /^\s*[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** Formats a cell. Texts that would be read as a formula get a leading apostrophe; plain numbers stay numbers. */
export function csvCell(value: string | null): string {
  if (value === null) return '';
  const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n;\t]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
export const csvLine = (values: readonly (string | null)[]): string => `${values.map(csvCell).join(',')}\r\n`;

/** A record, and the line of the file on which it begins, from 1. */
export type CsvRecord = { line: number; cells: readonly string[] };
/** A field in quotation marks, which are doubled inside, or one without. Then the separator, the end of the line, or that of the text. */
const FIELD = (separator: string): RegExp => new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*))(${separator}|\\r?\\n|\\r|$)`, 'y');

/**
 * Reads CSV. The first line decides whether commas, semicolons or tabs separate the cells, because spreadsheets write all three. Blank
 * lines are left out, and blanks around cells too. Returns the number of the line that cannot be read instead, if there is one, or null
 * in its place if there are too many cells.
 */
export function readCsv(text: string): CsvRecord[] | { brokenLine: number | null } {
  const plain = text.replace(/^\ufeff/, '');
  const [first = ''] = plain.split(/\r?\n|\r/, 1);
  const separator = first.includes('\t') ? '\t' : first.includes(';') ? ';' : ',';
  const field = FIELD(separator);
  const records: CsvRecord[] = [];
  let [line, start] = [1, 1];
  let cells: string[] = [];
  let count = 0;
  while (field.lastIndex < plain.length || cells.length > 0) {
    const found = field.exec(plain);
    if (!found) return { brokenLine: line };
    if (++count > MOST_CSV_CELLS) return { brokenLine: null };
    const [all, quoted, bare = '', end] = found;
    cells.push((quoted === undefined ? bare : quoted.replaceAll('""', '"')).trim());
    line += all.match(/\r?\n|\r/g)?.length ?? 0;
    if (end === separator) continue;
    if (cells.some((cell) => cell !== '')) records.push({ line: start, cells });
    [cells, start] = [[], line];
  }
  return records;
}
