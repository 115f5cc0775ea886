/** Rows as CSV (RFC 4180) that no spreadsheet takes for a formula, handed to the browser as a file. */
const cell = (value: string): string => {
  // A leading quote keeps =, +, -, @, tab and return from being run (CWE-1236).
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
export const toCsv = (rows: readonly (readonly string[])[]): string => `${rows.map((row) => row.map(cell).join(',')).join('\r\n')}\r\n`;

export function saveFile(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // After the browser has taken it.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
