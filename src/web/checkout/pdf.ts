/** A document of titles, and of rows with a name and a value, as PDF, in every script that its fonts have. Loaded on demand. */
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { inflate } from 'node:zlib';
import bidiFactory, { type Bidi } from 'bidi-js';
import { create, type Font } from 'fontkit';
import PDFDocument from 'pdfkit';

// Text in Western European letters uses the fonts that every reader has. Any other text uses the fonts of this file, and the document
// contains the shapes of those letters that it shows. The same content always gives the same bytes.

const A4 = [595, 842] as const;
const LETTER = [612, 792] as const;

export type PdfRow = readonly [name: string, value: string];
type PdfContent = {
  title: string;
  /** Below the title. */
  lead: readonly string[];
  rows: readonly PdfRow[];
  /** At the end, in small print. */
  notes: readonly string[];
};

const MARGIN = 56;
const VALUE_X = 190;
const LINE = 15;
/** What no font can show. */
const REPLACEMENT = '\ufffd';
/** What these fonts show (Windows-1252), apart from signs that are not seen. */
const WESTERN = new Set(
  [...new TextDecoder('windows-1252').decode(Uint8Array.from({ length: 224 }, (_, i) => i + 32))].filter(
    (sign) => !/[\p{C}\u00a0]/u.test(sign),
  ),
);
type PlainFace = 'Helvetica' | 'Helvetica-Bold' | 'Courier';

// DejaVu Sans has the letters of Europe, Vietnamese, Hebrew and Arabic, and most signs of currencies. UnifontEX has the rest of the Basic
// Multilingual Plane: it is plainer, but it is one file for Chinese, Japanese and Korean.
const EMBEDDED = [
  { face: 'DejaVu', read: () => readFile(fileURLToPath(import.meta.resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf'))) },
  {
    face: 'Unifont',
    read: async () =>
      unpackWoff(await readFile(fileURLToPath(import.meta.resolve('@fontsource/unifontex/files/unifontex-latin-400-normal.woff')))),
  },
] as const;
type Face = PlainFace | (typeof EMBEDDED)[number]['face'];
const opened = new Map<Face, Promise<Font>>();

/** The tables of a WOFF file (WOFF 1.0, section 4) as a font: read from the WOFF, each letter would unpack all of them again. */
async function unpackWoff(woff: Buffer): Promise<Buffer> {
  const count = woff.readUInt16BE(12);
  const head = Buffer.alloc(12 + 16 * count);
  woff.copy(head, 0, 4, 8);
  head.writeUInt16BE(count, 4);
  const parts = [head];
  let offset = head.length;
  for (let i = 0; i < count; i++) {
    const entry = 44 + 20 * i;
    const [place, packed, length] = [4, 8, 12].map((field) => woff.readUInt32BE(entry + field)) as [number, number, number];
    const stored = woff.subarray(place, place + packed);
    const to = 12 + 16 * i;
    woff.copy(head, to, entry, entry + 4);
    woff.copy(head, to + 4, entry + 16, entry + 20);
    head.writeUInt32BE(offset, to + 8);
    head.writeUInt32BE(length, to + 12);
    const table = Buffer.alloc(Math.ceil(length / 4) * 4);
    (packed < length ? await promisify(inflate)(stored) : stored).copy(table);
    parts.push(table);
    offset += table.length;
  }
  return Buffer.concat(parts);
}

function openFont({ face, read }: (typeof EMBEDDED)[number]): Promise<Font> {
  let font = opened.get(face);
  if (!font) {
    font = read().then((bytes) => create(bytes) as Font);
    opened.set(face, font);
    font.catch(() => opened.delete(face));
  }
  return font;
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
/** Each sign as a reader sees it, with its marks: spaces are single ones, and what acts instead of being shown is left out. */
const signsOf = (text: string): string[] =>
  Array.from(
    graphemes.segment(
      text
        .toWellFormed()
        .normalize('NFC')
        .replace(/\s+/gu, ' ')
        .replace(/[^\P{Cc}]|[^\P{Cf}\u200c\u200d]|\p{Variation_Selector}/gu, ''),
    ),
    ({ segment }) => segment,
  );
const isWestern = (signs: readonly string[]): boolean => signs.every((sign) => WESTERN.has(sign));
const hasSign = (font: Font, sign: string): boolean => [...sign].every((letter) => font.hasGlyphForCodePoint(letter.codePointAt(0)!));

/** The fonts that the texts need, in the order in which they are asked for a sign. */
async function openFonts(texts: readonly string[]): Promise<Map<Face, Font>> {
  const fonts = new Map<Face, Font>();
  let missing = texts
    .map(signsOf)
    .filter((signs) => !isWestern(signs))
    .flat();
  for (const embedded of EMBEDDED) {
    if (missing.length === 0) break;
    const font = await openFont(embedded);
    fonts.set(embedded.face, font);
    missing = missing.filter((sign) => !hasSign(font, sign));
  }
  return fonts;
}

/** One sign; its level is odd where text runs from right to left (UAX #9). */
type Sign = { text: string; face: Face; level: number };
type PdfLine = { height: number; marks: readonly { size: number; x: number; signs: readonly Sign[] }[] };
/** `widths`: of each sign in its font and size. */
type Sheet = { pdf: PDFKit.PDFDocument; fonts: ReadonlyMap<Face, Font>; widths: Map<string, number> };
type Style = { face: PlainFace; size: number; width: number };

// Its types describe another form of the module than the one that Node loads.
const bidi = (bidiFactory as unknown as () => Bidi)();
const PLACED: PDFKit.Mixins.TextOptions = { lineBreak: false, baseline: 'alphabetic' };
/** With a list of features, even an empty one, a run is set as a whole: word by word, its words would run from left to right. */
const WHOLE: PDFKit.Mixins.TextOptions = { ...PLACED, features: [] };

/** A text as lines of at most this width, broken between words where there is one. */
function wrap({ pdf, fonts, widths }: Sheet, text: string, { face, size, width }: Style): Sign[][] {
  const signs = signsOf(text);
  const isPlain = isWestern(signs);
  const faceOf = (sign: string): Face | null => (isPlain ? face : ([...fonts].find(([, font]) => hasSign(font, sign))?.[0] ?? null));
  const levels = isPlain ? null : bidi.getEmbeddingLevels(signs.join('')).levels;
  let place = 0;
  const set = signs.map((sign) => {
    const level = levels?.[place] ?? 0;
    place += sign.length;
    const own = faceOf(sign);
    const shown = own === null ? REPLACEMENT : level % 2 === 1 ? (bidi.getMirroredCharacter(sign) ?? sign) : sign;
    const used = own ?? 'DejaVu';
    return { text: shown, face: used, level };
  });
  const widthOf = ({ text: sign, face: used }: Sign): number => {
    const key = `${used} ${size} ${sign}`;
    const known = widths.get(key) ?? pdf.font(used, size).widthOfString(sign);
    widths.set(key, known);
    return known;
  };
  const lines: Sign[][] = [];
  for (let start = 0; start < set.length; ) {
    let end = start;
    for (let free = width - widthOf(set[end]!); free >= 0 && ++end < set.length; ) free -= widthOf(set[end]!);
    const space = end < set.length ? signs.lastIndexOf(' ', end) : -1;
    // A sign that is wider than the line is alone on it.
    end = space > start ? space : Math.max(end, start + 1);
    lines.push(set.slice(start, end));
    start = signs[end] === ' ' ? end + 1 : end;
  }
  return lines.length === 0 ? [[]] : lines;
}

/** Runs of one font and direction, in the order in which they are seen (UAX #9, rule L2). */
function runsOf(signs: readonly Sign[]): Sign[] {
  const runs: Sign[] = [];
  for (const sign of signs) {
    const last = runs.at(-1);
    if (last?.face === sign.face && last.level === sign.level) last.text += sign.text;
    else runs.push({ ...sign });
  }
  for (let level = Math.max(0, ...runs.map((run) => run.level)); level > 0; level--)
    for (let start = 0; start < runs.length; start++) {
      let end = start;
      while (end < runs.length && runs[end]!.level >= level) end++;
      runs.splice(start, end - start, ...runs.slice(start, end).reverse());
      start = Math.max(start, end - 1);
    }
  return runs;
}

function linesOf(sheet: Sheet, { title, lead, rows, notes }: PdfContent, width: number): PdfLine[] {
  const wide = width - 2 * MARGIN;
  const text = (face: PlainFace, size: number, content: string): PdfLine[] =>
    wrap(sheet, content, { face, size, width: wide }).map((signs) => ({ height: size * 1.5, marks: [{ size, x: MARGIN, signs }] }));
  return [
    ...text('Helvetica-Bold', 20, title),
    ...lead.flatMap((line) => text('Helvetica', 11, line)),
    { height: LINE, marks: [] },
    ...rows.flatMap(([name, value]) => {
      const [named] = wrap(sheet, name, { face: 'Helvetica', size: 10, width: VALUE_X - MARGIN });
      return wrap(sheet, value, { face: 'Courier', size: 9, width: width - VALUE_X - MARGIN }).map((signs, i) => ({
        height: LINE,
        marks: [...(i === 0 ? [{ size: 10, x: MARGIN, signs: named! }] : []), { size: 9, x: VALUE_X, signs }],
      }));
    }),
    { height: LINE, marks: [] },
    ...notes.flatMap((note) => text('Helvetica', 8, note)),
  ];
}

function drawText(pdf: PDFKit.PDFDocument, signs: readonly Sign[], { size, x, y }: { size: number; x: number; y: number }): void {
  pdf.x = x;
  for (const { face, text, level } of runsOf(signs)) pdf.font(face, size).text(text, pdf.x, y, level % 2 === 1 ? WHOLE : PLACED);
}

/** The document as bytes. `at` is its date of creation; `paper` is A4 unless it is `letter`. */
export async function writePdf(content: PdfContent, { paper, at }: { paper?: unknown; at: Date }): Promise<Buffer> {
  const [width, height] = paper === 'letter' ? LETTER : A4;
  const info = { Title: content.title, Producer: 'Florin', Creator: 'Florin', CreationDate: at };
  const pdf = new PDFDocument({ size: [width, height], margin: 0, autoFirstPage: false, pdfVersion: '1.7', lang: 'en-US', info });
  const fonts = await openFonts([content.title, ...content.lead, ...content.rows.flat(), ...content.notes]);
  for (const [face, font] of fonts) {
    // Shapes that a font embedded as parts of others would stand for no letter in the next document. From here to the end nothing waits.
    Reflect.set(font, '_glyphs', {});
    pdf.registerFont(face, font as unknown as PDFKit.Mixins.PDFFontSource);
  }
  let y: number = height;
  for (const { height: own, marks } of linesOf({ pdf, fonts, widths: new Map() }, content, width)) {
    if (y + own > height - MARGIN) {
      pdf.addPage();
      y = MARGIN;
    }
    y += own;
    for (const { size, x, signs } of marks) drawText(pdf, signs, { size, x, y });
  }
  const bytes = buffer(pdf);
  pdf.end();
  return bytes;
}
