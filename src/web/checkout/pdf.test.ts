import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPdf, textOfPdf } from '../../../test/kit/pdf.ts';
import { writePdf } from './pdf.ts';

const AT = new Date('2026-01-02T03:04:05Z');
const content = {
  title: 'Receipt',
  lead: ['Café (Zürich) \\ Söhne'],
  rows: [['Price', '€12.50'] as const, ['Transaction', 'ab'.repeat(32)] as const, ['Reason', 'word '.repeat(40).trim()] as const],
  notes: ['https://pay.example/pay?id=1'],
};
const written = (value: string) => writePdf({ ...content, rows: [['Order', value]] }, { at: AT });
/** The value as others read it. The directions that the reader marks are left out. */
const readBack = async (value: string): Promise<string> => {
  const [page] = readPdf(await written(value));
  const { texts } = page!;
  return texts
    .slice(texts.indexOf('Order') + 1, -1)
    .join(' ')
    .replace(/\p{Bidi_Control}/gu, '');
};

test('a PDF says what it was given, in few bytes, and again in the same ones', async () => {
  const bytes = await writePdf(content, { at: AT });
  const pages = readPdf(bytes);
  assert.equal(pages.length, 1);
  assert.deepEqual(pages[0]!.box, [0, 0, 595, 842]);
  const { texts } = pages[0]!;
  assert.deepEqual(texts.slice(0, 5), ['Receipt', 'Café (Zürich) \\ Söhne', 'Price', '€12.50', 'Transaction']);
  assert.equal(texts[5], 'ab'.repeat(32), 'a transaction fits in one line');
  assert.deepEqual([texts[6], texts.slice(7, -1).join(' ')], content.rows[2], 'long text is broken between words, and nothing is lost');
  assert.ok(bytes.length < 4_000, `${bytes.length} bytes: no font is embedded`);
  assert.deepEqual(await writePdf(content, { at: AT }), bytes);
  assert.deepEqual(readPdf(await writePdf(content, { paper: 'letter', at: AT }))[0]!.box, [0, 0, 612, 792]);
  assert.deepEqual(readPdf(await writePdf(content, { paper: ['x'], at: AT }))[0]!.box, [0, 0, 595, 842]);
});

test('what does not fit continues on the next page', async () => {
  const rows = Array.from({ length: 120 }, (_, i) => [`Row ${i}`, String(i)] as const);
  const pages = readPdf(await writePdf({ ...content, rows }, { at: AT }));
  assert.equal(pages.length, 3);
  const texts = pages.flatMap((page) => page.texts);
  for (const [name] of rows) assert.equal(texts.filter((text) => text === name).length, 1, name);
  for (const page of pages) assert.ok(page.lowest >= 50, 'nothing is below the margin');
});

test('text in every script is shown, and can be copied and searched', async () => {
  for (const text of [
    'Příliš žluťoučký kůň, Piekarnia Łódź s.r.o., ığüşöç',
    'Εστιατόριο Αθήνα',
    'Пекарня Ромашка, Київ',
    'Đỗ Văn Việt',
    // Letters that are parts of others, which the font keeps as such.
    'ť t ç c Ǻ A',
    '갂 각 가 が か',
    'Müller – 東京株式会社 ✓ ひらがな カタカナ',
    '北京饺子馆 臺灣',
    '서울 김치 한국어',
    'Բարեւ ქართული ሰላም',
    '₹8,051.00 ₽ ₿ ₩ ฿ €',
  ]) {
    const bytes = await written(text);
    assert.equal(await readBack(text), text);
    assert.ok(bytes.length < 20_000, `${text}: ${bytes.length} bytes, only the letters that it shows`);
    assert.deepEqual(await written(text), bytes);
  }
  assert.equal(await readBack('株式会社'.repeat(40)).then((text) => text.replaceAll(' ', '')), '株式会社'.repeat(40));
  const title = '東京 Пекарня';
  assert.equal(readPdf(await writePdf({ ...content, title }, { at: AT }))[0]!.texts[0], title);
});

test('what runs from right to left is placed that way, and numbers within it are not', async () => {
  const plain = async (text: string) => textOfPdf(await written(text)).replace(/\p{Bidi_Control}/gu, '');
  for (const text of ['שלום עולם', 'مقهى القاهرة', 'مقهى القاهرة فرع الجيزة للمشروبات الباردة'])
    assert.ok((await plain(text)).includes(text), text);
  // The reader tells these runs from left to right: the last word is the first one that it meets.
  assert.match(await plain('שלום (12 ספרים) INV-7'), /Order +INV-7 \( ספרים12\) שלום\n/);
  assert.match(await plain('Order 12: מקהי for Müller'), /Order +Order 12: *מקהי *for Müller\n/);
});

test('what cannot be written is replaced visibly, and what is not seen is left out', async () => {
  assert.equal(await readBack('a \u{20000}\u{10FFFD} b \ud800 c'), 'a \ufffd\ufffd b \ufffd c');
  assert.equal(await readBack('a\u200bb\u00adc\u00a0d\te\u0301 x\u0000y\u202ez ☕\ufe0f'), 'abc d é xyz ☕');
  assert.equal(await readBack(''), '');
  for (const odd of ['\u0301', '\u200d', '\ufe0f', '()', ' ', '\u{1F469}\u200d\u{1F467}', '﷽', 'हिन्दी', 'สวัสดีครับ', '\ufffd', '\uffff'])
    readPdf(await written(odd));
});
