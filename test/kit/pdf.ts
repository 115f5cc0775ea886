/** Reads the PDF files that the service writes as others read them: the lines of text of each page, from the top. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { PDFTOTEXT } from './tools.ts';

type PdfPage = { box: number[]; texts: string[]; lowest: number };
type PdfLine = { left: number; top: number; bottom: number; words: string[] };

/** The text of all pages, as it would be copied. */
export const textOfPdf = (bytes: Buffer): string => toText(['-layout'], bytes);

export function readPdf(bytes: Buffer): PdfPage[] {
  const pages: { box: number[]; lines: PdfLine[] }[] = [];
  for (const row of toText(['-tsv'], bytes).trimEnd().split('\n').slice(1)) {
    const [level, , , , , , ...rest] = row.split('\t');
    const [left, top, width, height] = rest.slice(0, 4).map(Number) as [number, number, number, number];
    if (level === '1') pages.push({ box: [left, top, width, height], lines: [] });
    else if (level === '4') pages.at(-1)!.lines.push({ left, top, bottom: top + height, words: [] });
    else if (level === '5') pages.at(-1)!.lines.at(-1)!.words.push(rest.slice(5).join('\t'));
  }
  return pages.map(({ box, lines }) => ({
    box,
    texts: inOrder(lines).map(({ words }) => words.join(' ')),
    lowest: box[3]! - Math.max(...lines.map(({ bottom }) => bottom)),
  }));
}

function toText(options: readonly string[], input: Buffer): string {
  const { stdout, stderr, status } = spawnSync(PDFTOTEXT, [...options, '-', '-'], { input, encoding: 'utf8' });
  assert.deepEqual([status, stderr], [0, ''], 'the file is intact');
  return stdout;
}

/** A name and its value are on one height, in letters of two sizes. */
function inOrder(lines: readonly PdfLine[]): PdfLine[] {
  const rows: PdfLine[][] = [];
  for (const line of [...lines].sort((a, b) => a.top - b.top)) {
    const row = rows.at(-1);
    if (row && line.top < (row[0]!.top + row[0]!.bottom) / 2) row.push(line);
    else rows.push([line]);
  }
  return rows.flatMap((row) => row.sort((a, b) => a.left - b.left));
}
