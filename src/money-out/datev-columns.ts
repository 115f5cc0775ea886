/** The column headings of a DATEV posting batch in format version 13, which DATEV compares by name and order. */
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

export const DATEV_COLUMNS: readonly string[] = [
  ...split(FIRST),
  ...pairs(8, 'Beleginfo - Art', 'Beleginfo - Inhalt'),
  ...split(COSTS),
  ...pairs(20, 'Zusatzinformation - Art', 'Zusatzinformation- Inhalt'),
  ...split(LAST),
];
