/** CSV (RFC 4180) that a spreadsheet shows as it is: no cell is ever read as a formula. */

/** What spreadsheets take for the beginning of a formula, also in full width; and blanks, which some skip. */
const FORMULA = /^\s*[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** A cell. Texts that would be a formula get an apostrophe before them; plain numbers stay numbers. */
export function csvCell(value: string | null): string {
  if (value === null) return '';
  const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n;\t]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
export const csvLine = (values: readonly (string | null)[]): string => `${values.map(csvCell).join(',')}\r\n`;
