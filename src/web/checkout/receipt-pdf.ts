/** The receipt of a completed payment, and the note of a refund that was sent, as PDF for the customer's records. In English. */
import { COIN, type Coin, chainOf } from '#core/coin';
import { minuteText } from '#core/dates';
import { formatUnits, formatUsd } from '#core/money';
import { contactOf, type Merchant } from '#merchants';
import type { Refund } from '#outgoing';
import type { CustomerView } from '#payments';
import { listedTransfers, priceText, unlisted } from './parts.ts';
import { chooseLanguage, type Language } from './words.ts';

// A small PDF (1.4): titles, and rows of a name and a value, on as many pages as they need. It uses the fonts that every reader has, so
// text is limited to Windows-1252. The same content always gives the same bytes.

const PAPERS = { a4: [595, 842], letter: [612, 792] } as const;
type Paper = keyof typeof PAPERS;
type PdfRow = readonly [name: string, value: string];
type PdfContent = {
  title: string;
  /** Below the title. */
  lead: readonly string[];
  rows: readonly PdfRow[];
  /** At the end, in small print. */
  notes: readonly string[];
};

// cspell:ignore endobj endstream startxref xref
const MARGIN = 56;
const VALUE_X = 190;
const LINE = 15;
/** Width of a character of Courier, as a part of its size. */
const COURIER = 0.6;
const VALUE_SIZE = 9;

/** The signs of Windows-1252 between 0x80 and 0x9f that texts use. */
const HIGH: Readonly<Record<string, number>> = {
  '€': 0x80,
  '‚': 0x82,
  '„': 0x84,
  '…': 0x85,
  Š: 0x8a,
  Œ: 0x8c,
  Ž: 0x8e,
  '‘': 0x91,
  '’': 0x92,
  '“': 0x93,
  '”': 0x94,
  '–': 0x96,
  '—': 0x97,
  '™': 0x99,
  š: 0x9a,
  œ: 0x9c,
  ž: 0x9e,
  Ÿ: 0x9f,
};
/** Letters that Unicode does not take apart into a letter and its mark. */
const BASE: Readonly<Record<string, string>> = { ł: 'l', Ł: 'L', đ: 'd', Đ: 'D', ħ: 'h', Ħ: 'H', ı: 'i', ŧ: 't', Ŧ: 'T' };
const byteOf = (sign: string): number => {
  const code = sign.codePointAt(0)!;
  if ((code >= 0x20 && code < 0x7f) || (code >= 0xa0 && code <= 0xff)) return code;
  return HIGH[sign] ?? (/\s/.test(sign) ? 0x20 : 0x3f);
};
const isPrintable = (text: string): boolean => [...text].every((sign) => byteOf(sign) !== 0x3f || sign === '?');
/** A text as it can be shown: letters whose marks are in no font lose them, such as those of Łódź. Null for one in another script. */
export function printable(text: string): string | null {
  const signs = [...text.normalize('NFC')].map((sign) =>
    isPrintable(sign) ? sign : (BASE[sign] ?? sign.normalize('NFD').replace(/\p{M}/gu, '')),
  );
  return isPrintable(signs.join('')) ? signs.join('') : null;
}

/** A string of PDF, in parentheses. Its bytes are Latin-1. */
const literal = (text: string): string =>
  `(${[...text.normalize('NFC')].map((sign) => String.fromCharCode(byteOf(sign)).replace(/[\\()]/g, '\\$&')).join('')})`;

/** Lines of at most so many characters, broken between words where there is one. */
function wrap(text: string, most: number): string[] {
  const lines: string[] = [];
  for (let rest = [...text].join(''); rest.length > 0; ) {
    const space = rest.length > most ? rest.lastIndexOf(' ', most) : -1;
    const end = rest.length <= most ? rest.length : space > 0 ? space : most;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return lines.length === 0 ? [''] : lines;
}

type Mark = { font: 'F1' | 'F2' | 'F3'; size: number; x: number; text: string };
type PdfLine = { height: number; marks: readonly Mark[] };

function linesOf({ title, lead, rows, notes }: PdfContent, width: number): PdfLine[] {
  const most = Math.floor((width - VALUE_X - MARGIN) / (COURIER * VALUE_SIZE));
  const text = (font: Mark['font'], size: number, content: string): PdfLine => ({
    height: size * 1.5,
    marks: [{ font, size, x: MARGIN, text: content }],
  });
  return [
    text('F2', 20, title),
    ...lead.flatMap((line) => wrap(line, 80).map((part) => text('F1', 11, part))),
    { height: LINE, marks: [] },
    ...rows.flatMap(([name, value]) =>
      wrap(value, most).map((part, i) => ({
        height: LINE,
        marks: [
          ...(i === 0 ? [{ font: 'F1' as const, size: 10, x: MARGIN, text: name }] : []),
          { font: 'F3' as const, size: VALUE_SIZE, x: VALUE_X, text: part },
        ],
      })),
    ),
    { height: LINE, marks: [] },
    ...notes.flatMap((note) => wrap(note, 95).map((part) => text('F1', 8, part))),
  ];
}

/** The drawing of each page. */
function pagesOf(lines: readonly PdfLine[], height: number): string[] {
  const pages: string[][] = [];
  let y = 0;
  for (const { height: own, marks } of lines) {
    if (pages.length === 0 || y - own < MARGIN) {
      pages.push([]);
      y = height - MARGIN;
    }
    y -= own;
    for (const { font, size, x, text } of marks) pages.at(-1)!.push(`BT /${font} ${size} Tf ${x} ${y} Td ${literal(text)} Tj ET`);
  }
  return pages.map((page) => page.join('\n'));
}

/** The document as bytes. `at` is its date of creation. */
export function writePdf(content: PdfContent, { paper = 'a4', at }: { paper?: Paper; at: Date }): Buffer {
  const [width, height] = PAPERS[paper];
  const pages = pagesOf(linesOf(content, width), height);
  const font = (name: string) => `<< /Type /Font /Subtype /Type1 /BaseFont /${name} /Encoding /WinAnsiEncoding >>`;
  const stamp = at.toISOString().replace(/\D/g, '').slice(0, 14);
  const first = 7;
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R /Lang (en-US) >>',
    `<< /Type /Pages /Count ${pages.length} /Kids [${pages.map((_, i) => `${first + 2 * i} 0 R`).join(' ')}] >>`,
    `<< /Title ${literal(content.title)} /Producer (Florin) /CreationDate (D:${stamp}Z) >>`,
    font('Helvetica'),
    font('Helvetica-Bold'),
    font('Courier'),
    ...pages.flatMap((drawing, i) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${width} ${height}] /Contents ${first + 2 * i + 1} 0 R /Resources << /Font << /F1 4 0 R /F2 5 0 R /F3 6 0 R >> >> >>`,
      `<< /Length ${drawing.length} >>\nstream\n${drawing}\nendstream`,
    ]),
  ];
  let file = '%PDF-1.4\n%\xe2\xe3\xcf\xd3\n';
  const places = objects.map((object, i) => {
    const place = file.length;
    file += `${i + 1} 0 obj\n${object}\nendobj\n`;
    return place;
  });
  const table = places.map((place) => `${String(place).padStart(10, '0')} 00000 n \n`).join('');
  const size = objects.length + 1;
  file += `xref\n0 ${size}\n0000000000 65535 f \n${table}trailer\n<< /Size ${size} /Root 1 0 R /Info 3 0 R >>\nstartxref\n${file.length}\n%%EOF\n`;
  return Buffer.from(file, 'latin1');
}

const language = (): Language => chooseLanguage({ chosen: 'en', accept: '' });
const amountOf = (coin: Coin, units: bigint): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
const present = (rows: readonly (readonly [string, string | null])[]): PdfRow[] =>
  rows.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, value] as const]));
/** A PDF cannot show the letters of every language; nothing is better than question marks. */
const shown = (text: string | null): string | null => (text === null ? null : printable(text));
/** Who sold: by name, or else where they are reached. */
const sellerOf = (name: string, contact: string | null): readonly string[] =>
  [shown(name) ?? shown(contact)].filter((text) => text !== null);
const TEST = 'TEST: no real money was moved.';

export const paperOf = (given: unknown): Paper => (typeof given === 'string' && Object.hasOwn(PAPERS, given) ? (given as Paper) : 'a4');

/** The payment must be completed. */
export function receiptPdf(view: CustomerView, { url, paper }: { url: string; paper: Paper }): Buffer {
  const { settlement: s, request, facts, merchant } = view;
  const paidAt = s.completedAt ?? view.now;
  const transactions = listedTransfers(view).flatMap((t) => (t.txid !== null && t.conflict === null ? [t.txid] : []));
  const missing = unlisted(view);
  // The signs of some currencies are missing too; every code is there.
  const price = shown(priceText(view, language())) ?? `${request.fiat?.currency} ${request.fiat?.amount}`;
  const rows = present([
    ['Paid', minuteText(paidAt)],
    ['Payment', facts.id],
    ['Invoice', shown(view.invoiceId)],
    ['Order', shown(request.description)],
    ['Price', request.fiat ? `${price} = $${formatUsd(facts.targetUsdCents)}` : price],
    ['Received', s.coin && amountOf(s.coin, s.receivedUnits)],
    ['Network', s.coin && chainOf(s.coin).networkName],
    ['Value', `$${formatUsd(s.receivedUsdCents)}`],
    ...transactions.map((txid, i) => [i === 0 ? 'Transactions' : '', txid] as const),
    [transactions.length === 0 ? 'Transactions' : '', missing > 0 ? `and ${missing} more` : null],
  ]);
  const lead = [...sellerOf(merchant.name, merchant.contact), ...(facts.mode === 'test' ? [TEST] : [])];
  return writePdf({ title: 'Receipt', lead, rows, notes: [url] }, { paper, at: paidAt });
}

/** The refund must have been sent. */
export function refundNotePdf(refund: Refund, { merchant, paper }: { merchant: Merchant; paper: Paper }): Buffer {
  const { coin, units, usdCents } = refund;
  const sentAt = refund.sentAt ?? refund.createdAt;
  const rows = present([
    ['Sent', minuteText(sentAt)],
    ['Confirmed', refund.state === 'confirmed' ? (refund.endedAt ? minuteText(refund.endedAt) : 'yes') : 'not yet'],
    ['Refund', refund.id],
    ['Payment', refund.paymentId],
    ['Amount', amountOf(coin, units)],
    ['Network', chainOf(coin).networkName],
    ['Value', `$${formatUsd(usdCents)}`],
    ['Reason', shown(refund.reason)],
    ['Address', refund.address],
    ['Transaction', refund.txid],
  ]);
  const lead = [...sellerOf(merchant.name, contactOf(merchant.settings)), ...(refund.mode === 'test' ? [TEST] : [])];
  return writePdf({ title: 'Refund note', lead, rows, notes: [] }, { paper, at: sentAt });
}
