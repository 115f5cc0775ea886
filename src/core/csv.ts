/** CSV (RFC 4180) that is safe in spreadsheets: no cell is read as a formula. */

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
