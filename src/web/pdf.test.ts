import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPdf } from '../../test/kit/pdf.ts';
import { printable, writePdf } from './checkout/receipt-pdf.ts';

const AT = new Date('2026-01-02T03:04:05Z');
const content = {
  title: 'Receipt',
  lead: ['Café (Zürich) \\ Söhne'],
  rows: [['Price', '€12.50'] as const, ['Transaction', 'ab'.repeat(32)] as const, ['Reason', 'word '.repeat(40).trim()] as const],
  notes: ['https://pay.example/pay?id=1'],
};

test('a PDF says what it was given, in a file whose table leads to every object', () => {
  const bytes = writePdf(content, { at: AT });
  const { pages, objects } = readPdf(bytes);
  assert.equal(pages.length, 1);
  assert.deepEqual(pages[0]!.box, [0, 0, 595, 842]);
  const { texts } = pages[0]!;
  assert.deepEqual(texts.slice(0, 5), ['Receipt', 'Café (Zürich) \\ Söhne', 'Price', '€12.50', 'Transaction']);
  assert.equal(texts[5], 'ab'.repeat(32), 'a transaction fits in one line');
  assert.equal(texts.slice(7, -1).join(' '), content.rows[2]![1], 'long text is broken between words, and nothing is lost');
  assert.ok(objects >= 8);
  assert.deepEqual(writePdf(content, { at: AT }), bytes, 'the same content gives the same bytes');
  assert.deepEqual(readPdf(writePdf(content, { paper: 'letter', at: AT })).pages[0]!.box, [0, 0, 612, 792]);
});

test('what does not fit continues on the next page; text outside of its letters is recognized', () => {
  const rows = Array.from({ length: 120 }, (_, i) => [`Row ${i}`, String(i)] as const);
  const { pages } = readPdf(writePdf({ ...content, rows }, { at: AT }));
  assert.ok(pages.length > 1);
  const texts = pages.flatMap((page) => page.texts);
  for (const [name] of rows) assert.equal(texts.filter((text) => text === name).length, 1, name);
  for (const page of pages) assert.ok(page.lowest >= 56, 'nothing is below the margin');
  assert.equal(printable('Café – “Zürich” €5?'), 'Café – “Zürich” €5?');
  assert.equal(printable('Pekárna Łódź s.r.o., Škoda, Đỗ'), 'Pekárna Lódz s.r.o., Škoda, Do');
  assert.equal(printable('株式会社'), null);
  assert.equal(printable('Пекарня'), null);
  assert.deepEqual(readPdf(writePdf({ ...content, title: 'Škoda' }, { at: AT })).pages[0]!.texts[0], 'Škoda');
  assert.deepEqual(readPdf(writePdf({ ...content, title: '株 a' }, { at: AT })).pages[0]!.texts[0], '? a');
});
