/** Reads the PDF files that the service writes: follows the table of objects, and returns the text of each page. */
import assert from 'node:assert/strict';

export type PdfPage = { box: number[]; texts: string[]; lowest: number };
const SIGNS = new TextDecoder('windows-1252');

export function readPdf(bytes: Buffer): { pages: PdfPage[]; objects: number } {
  const file = bytes.toString('latin1');
  assert.match(file, /^%PDF-1\.4\n/);
  const table = Number(/startxref\n(\d+)\n%%EOF\n$/.exec(file)![1]);
  const [, count] = /^xref\n0 (\d+)\n/.exec(file.slice(table))!;
  const entries = file
    .slice(file.indexOf('\n', table + 5) + 1)
    .split('\n')
    .slice(0, Number(count));
  const objects = new Map<number, string>();
  for (const [i, entry] of entries.entries()) {
    assert.equal(entry.length, 19, 'an entry of the table has 20 bytes');
    if (i === 0) continue;
    const place = Number(entry.slice(0, 10));
    assert.ok(file.startsWith(`${i} 0 obj\n`, place), `object ${i} is where the table says`);
    objects.set(i, file.slice(place, file.indexOf('\nendobj', place)));
  }
  const kids = /\/Kids \[([^\]]*)\]/.exec(objects.get(2)!)![1]!.match(/\d+(?= 0 R)/g)!;
  const pages = kids.map((kid) => {
    const page = objects.get(Number(kid))!;
    const contents = objects.get(Number(/\/Contents (\d+) 0 R/.exec(page)![1]))!;
    const [, length, drawing] = /\/Length (\d+) >>\nstream\n([\s\S]*)\nendstream$/.exec(contents)!;
    assert.equal(drawing!.length, Number(length), 'a stream is as long as it says');
    const shown = [...drawing!.matchAll(/BT \/F[123] \d+ Tf \d+ ([\d.]+) Td \(((?:[^\\()]|\\.)*)\) Tj ET/g)];
    return {
      box: /\/MediaBox \[([^\]]*)\]/.exec(page)![1]!.split(' ').map(Number),
      texts: shown.map(([, , text]) => SIGNS.decode(Buffer.from(text!.replace(/\\(.)/g, '$1'), 'latin1'))),
      lowest: Math.min(...shown.map(([, y]) => Number(y))),
    };
  });
  return { pages, objects: objects.size };
}
