/**
 * The books as a DATEV posting batch (EXTF 700, category 21, format version 13): semicolons, comma as decimal sign, CRLF, Windows-1252.
 */
// cspell:ignore Buchungsstapel

import type { Context } from '#context';
import { COIN } from '#core/coin';
import { isDay, localTime } from '#core/dates';
import { formatDecimal } from '#core/money';
import { Problem } from '#core/problem';
import { type FileWish, inCurrency, isZeroAmount, testPrefix } from './book-files.ts';
import { ACCOUNTS, type Account, type BookEntry, readEntries } from './books.ts';

/** The standard charts of accounts. */
export const DATEV_CHARTS = ['SKR03', 'SKR04'] as const;
export type DatevChart = (typeof DATEV_CHARTS)[number];
/** Accounts without automatic VAT: crypto on hand, cash in transit, clearing, prepayments, other liabilities, revenue, reductions, transitory items, costs of payments. */
const DATEV_ACCOUNTS: Readonly<Record<DatevChart, Readonly<Record<Account, string>>>> = {
  SKR03: {
    deposit_addresses: '1360',
    destination_wallet: '1348',
    gas_address: '1349',
    moved_elsewhere: '1792',
    held_for_review: '1710',
    overpayments: '1700',
    sales: '8200',
    refunds: '8700',
    payouts: '1590',
    network_fees: '4970',
  },
  SKR04: {
    deposit_addresses: '1460',
    destination_wallet: '1510',
    gas_address: '1511',
    moved_elsewhere: '3630',
    held_for_review: '3250',
    overpayments: '3500',
    sales: '4200',
    refunds: '4700',
    payouts: '1370',
    network_fees: '6855',
  },
};

export type DatevWish = {
  chart: DatevChart;
  /** Numbers of the tax consultant and of the client there. */
  consultant: number;
  client: number;
  /** First day of the fiscal year. */
  fiscalYear: string;
  /** Account numbers that differ from those of the chart. */
  accounts: Readonly<Partial<Record<Account, string>>>;
};

const wrong = (param: string, reason: string) => new Problem('parameter_invalid', { reason }, { param });

/** Account numbers as text, such as `sales=8400,refunds=8720`. Errors: parameter_invalid. */
export function datevAccountsOf(text: string): Partial<Record<Account, string>> {
  const found: Partial<Record<Account, string>> = {};
  for (const part of text.split(',').filter(Boolean)) {
    const [name, number] = part.split('=').map((word) => word.trim());
    const account = ACCOUNTS.find((one) => one === name);
    if (!account || number === undefined || !/^\d{4,8}$/.test(number))
      throw wrong(
        'accounts',
        `each entry must be an account and its number of 4 to 8 digits, such as sales=8400; accounts are ${ACCOUNTS.join(', ')}`,
      );
    found[account] = number;
  }
  return found;
}

/** Errors: parameter_invalid. */
export function checkDatev(
  { period, display }: FileWish,
  { chart, consultant, client, fiscalYear, accounts }: DatevWish,
): Record<Account, string> {
  const numbers = { ...DATEV_ACCOUNTS[chart], ...accounts };
  // Postings in another currency need its rate and the amount in euros besides.
  if (display?.currency !== 'EUR')
    throw wrong('currency', 'DATEV needs amounts in euros: choose EUR as your display currency under Business, or add --currency EUR');
  if (!Number.isInteger(consultant) || consultant < 1_001 || consultant > 9_999_999)
    throw wrong('consultant', 'it must be a number from 1001 to 9999999');
  if (!Number.isInteger(client) || client < 1 || client > 99_999) throw wrong('client', 'it must be a number from 1 to 99999');
  if (!isDay(fiscalYear) || !fiscalYear.endsWith('-01'))
    throw wrong('fiscal_year', 'it must be the first day of a month, such as 2026-01-01');
  const next = `${Number(fiscalYear.slice(0, 4)) + 1}${fiscalYear.slice(4)}`;
  if (period.from < fiscalYear || period.until >= next) throw wrong('fiscal_year', 'the period must be inside one fiscal year');
  const lengths = new Set(Object.values(numbers).map(({ length }) => length));
  if (lengths.size > 1) throw wrong('accounts', 'all account numbers must have the same number of digits');
  return numbers;
}

/** Windows-1252. What it does not have becomes a question mark. */
const encode = (text: string): Uint8Array =>
  Buffer.from([...text].map((sign) => (/^[\x20-\x7e\xa0-\xff\r\n]$/.test(sign) ? sign : '?')).join(''), 'latin1');
/** Text in quotation marks, which are doubled inside; nothing in it is read as a formula. */
const quote = (text: string): string => {
  const plain = text.replace(/[\r\n\t]/g, ' ');
  return `"${(/^\s*[=+\-@]/.test(plain) ? `'${plain}` : plain).replaceAll('"', '""')}"`;
};
const compact = (day: string): string => day.replaceAll('-', '');

const HEADER_TEXT = new Set([1, 4, 8, 9, 10, 17, 18, 22, 24, 27, 30, 31]);
function headerOf(
  { period }: FileWish,
  { consultant, client, fiscalYear, chart }: DatevWish,
  { digits, now }: { digits: number; now: Date },
): string {
  const { day, time } = localTime(period.timeZone)(now);
  const created = `${compact(day)}${time.replaceAll(':', '')}000`;
  const fields = [
    ...['EXTF', 700, 21, 'Buchungsstapel', 13, created, '', 'RE', 'Florin', '', consultant, client, compact(fiscalYear), digits],
    ...[compact(period.from), compact(period.until), `Florin ${period.from}`, '', 1, 0, 0, 'EUR'],
    ...['', '', '', '', chart.slice(3), '', '', '', 'Florin'],
  ];
  return `${fields.map((field, i) => (HEADER_TEXT.has(i + 1) ? quote(String(field)) : field)).join(';')}\r\n`;
}

const KIND: Readonly<Record<BookEntry['kind'], string>> = {
  received: 'Received',
  sale: 'Sale',
  overpayment: 'Overpayment',
  reversed: 'Reversal',
  restored: 'Back after reversal',
  refund: 'Refund',
  marked_refunded: 'Refund',
  payout: 'Payout',
  swept: 'Sweep',
  moved_elsewhere: 'Moved elsewhere',
  network_fee: 'Network fee',
  provider_fee: 'Lightning fee',
};

/** A signing file of refunds or payouts is not called a sweep. */
const kindOf = ({ kind, purpose }: BookEntry): string => {
  if (purpose === null || purpose === 'sweep' || kind === 'moved_elsewhere') return KIND[kind];
  return kind === 'network_fee' ? `${KIND[kind]} of ${purpose}` : `${KIND[purpose]} file`;
};

/** The positions of columns that are text, from 0. */
const TEXT = new Set([1, 2, 5, 8, 10, 11, 13]);
function lineOf(entry: BookEntry, wish: FileWish, numbers: Readonly<Record<Account, string>>, day: string): string {
  const amount = inCurrency(wish.display, entry);
  // An entry without a value, or between two accounts with one number, is no posting.
  if (isZeroAmount(amount) || numbers[entry.debit] === numbers[entry.credit]) return '';
  const { decimals, asset } = COIN[entry.coin];
  const cells = DATEV_COLUMNS.map(() => '');
  const given: Record<number, string> = {
    0: (amount.includes('.') ? amount : `${amount}.00`).replace('.', ','),
    1: 'S',
    2: 'EUR',
    6: numbers[entry.debit],
    7: numbers[entry.credit],
    9: `${day.slice(8, 10)}${day.slice(5, 7)}`,
    10: (entry.paymentId ?? entry.ref).replace(/[^A-Za-z0-9_$&%*+/-]/g, '').slice(0, 36),
    13: `${testPrefix(wish.mode)}${kindOf(entry)} ${formatDecimal(entry.units, decimals, 0)} ${asset}`.slice(0, 60),
  };
  for (const [place, text] of Object.entries(given)) cells[Number(place)] = TEXT.has(Number(place)) ? quote(text) : text;
  // Not locked: the consultant may still change it.
  cells[113] = '0';
  return `${cells.join(';')}\r\n`;
}

/** Every entry of the period as a posting. The wish must have been checked. */
export async function* exportDatev(ctx: Context, wish: FileWish, datev: DatevWish): AsyncGenerator<Uint8Array> {
  const numbers = checkDatev(wish, datev);
  const { period, merchantId, mode, display } = wish;
  const local = localTime(period.timeZone);
  yield encode(headerOf(wish, datev, { digits: numbers.sales.length, now: ctx.clock.now() }) + `${DATEV_COLUMNS.join(';')}\r\n`);
  for await (const page of readEntries(ctx, { merchantId, mode, display, from: period.start, until: period.end }))
    yield encode(page.map((entry) => lineOf(entry, wish, numbers, local(entry.at).day)).join(''));
}

// The column headings of a DATEV posting batch in format version 13, which DATEV compares by name and order.

// cspell:ignore Beleglink Skontokonto Beleginfo Abrechnungsreferenz Abw Adressnummer Anzahlungen Art Auftragsnummer Basis Belegdatum Belegfeld BeleglinkKOST
// cspell:ignore Bestimmung Beteiligtennummer Bezeichnung bis BU Buchung Buchungs Buchungstext Buchungstyp BVV Datum Diverse
// cspell:ignore Erlöskonto EU Festschreibung Forderungsart Funktionsergänzung FunktionsergänzungStück Fälligkeit Gegenkonto
// cspell:ignore Generalumkehr Geschäftspartnerbank Gesellschaftername Gewicht GU GUID Haben Hauptfunktionsnummer Hauptfunktionstyp
// cspell:ignore Herkunft Identifikationsnummer Inhalt Kennzeichen Konto Kost KOST Kostenstelle Kurs Kz L Land Leistungsdatum
// cspell:ignore Mandatsreferenz Menge ohne Position Postensperre Sachverhalt Schlüssel SEPA Skonto SkontokontoBeleginfo Skontosperre
// cspell:ignore Skontotyp SoBil Soll Steuerperiode Steuersatz u Umsatz Ursprung USt UStID Veranlagungsjahr Versteuerungsart WKZ
// cspell:ignore Zahlweise Zeichnernummer Zinssperre Zugeordnete Zuord Zusatzinformation

const FIRST = [
  'Umsatz (ohne Soll/Haben-Kz);Soll/Haben-Kennzeichen;WKZ Umsatz;Kurs;Basis-Umsatz;WKZ Basis-Umsatz;Konto',
  'Gegenkonto (ohne BU-Schlüssel);BU-Schlüssel;Belegdatum;Belegfeld 1;Belegfeld 2;Skonto;Buchungstext;Postensperre',
  'Diverse Adressnummer;Geschäftspartnerbank;Sachverhalt;Zinssperre;Beleglink',
];
const COSTS = [
  'KOST1 - Kostenstelle;KOST2 - Kostenstelle;Kost-Menge;EU-Land u. UStID (Bestimmung);EU-Steuersatz (Bestimmung)',
  'Abw. Versteuerungsart;Sachverhalt L+L;Funktionsergänzung L+L;BU 49 Hauptfunktionstyp;BU 49 Hauptfunktionsnummer',
  'BU 49 Funktionsergänzung',
];
const LAST = [
  'Stück;Gewicht;Zahlweise;Forderungsart;Veranlagungsjahr;Zugeordnete Fälligkeit;Skontotyp;Auftragsnummer;Buchungstyp',
  'USt-Schlüssel (Anzahlungen);EU-Land (Anzahlungen);Sachverhalt L+L (Anzahlungen);EU-Steuersatz (Anzahlungen)',
  'Erlöskonto (Anzahlungen);Herkunft-Kz;Buchungs GUID;KOST-Datum;SEPA-Mandatsreferenz;Skontosperre;Gesellschaftername',
  'Beteiligtennummer;Identifikationsnummer;Zeichnernummer;Postensperre bis;Bezeichnung SoBil-Sachverhalt',
  'Kennzeichen SoBil-Buchung;Festschreibung;Leistungsdatum;Datum Zuord. Steuerperiode;Fälligkeit;Generalumkehr (GU);Steuersatz',
  'Land;Abrechnungsreferenz;BVV-Position;EU-Land u. UStID (Ursprung);EU-Steuersatz (Ursprung);Abw. Skontokonto',
];
const split = (lines: readonly string[]): string[] => lines.join(';').split(';');
const pairs = (count: number, kind: string, content: string): string[] =>
  Array.from({ length: count }, (_, i) => [`${kind} ${i + 1}`, `${content} ${i + 1}`]).flat();

const DATEV_COLUMNS: readonly string[] = [
  ...split(FIRST),
  ...pairs(8, 'Beleginfo - Art', 'Beleginfo - Inhalt'),
  ...split(COSTS),
  ...pairs(20, 'Zusatzinformation - Art', 'Zusatzinformation- Inhalt'),
  ...split(LAST),
];
