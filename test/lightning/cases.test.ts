/** The hostile cases of Lightning, each with the file whose tests are named by its number and show what follows. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const CASES: readonly (readonly [what: string, ...files: string[]])[] = [
  ['An invoice for another amount is refused, and other coins stay', 'invoices'],
  ['An invoice of another network is refused', 'invoices'],
  ['An invoice that is over, or ends within a minute, is refused', 'invoices'],
  ['An invoice with the payment hash of an earlier one is refused', 'invoices'],
  ['An invoice of another node than the one that was set up is refused', 'invoices'],
  ['An invoice with a wrong checksum or signature, no secret or an unknown feature is refused', 'invoices'],
  ['An invoice with the hash of other metadata is refused', 'invoices', 'lies'],
  ['A Lightning address whose metadata cannot be read is refused', 'invoices'],
  ['What is called settled without a preimage waits', 'hostile'],
  ['What is called settled with another preimage waits; capitals are fine', 'hostile'],
  ['What completed stays completed, whatever is said later', 'hostile'],
  ['An answer about another invoice says nothing', 'hostile'],
  ['A URL at a private address, a file and a redirect are not followed', 'hostile', 'invoices'],
  ['An answer that is too large, endless or a page is cut off, and Lightning is not offered for 30 s', 'invoices'],
  ['Limits that are not numbers, contradict each other or are in satoshis are refused', 'invoices'],
  ['An answer over NWC that is forged, replayed or for another request is ignored', 'hostile'],
  ['A connection over NWC that may pay, now or by the next day, is refused or turned off', 'credentials'],
  ['A relay that sends 10,000 events is left', 'hostile'],
  ['Of two relays that answer differently, the first valid answer counts', 'hostile'],
  ['An answer that is repeated, or ends in the middle, changes nothing', 'hostile'],
  ['Money that is held and given back completes nothing', 'hostile'],
  ['A certificate that changed is an error, and gets no macaroon', 'credentials'],
  ['A label that another invoice has is not used; an invoice whose answer was lost is', 'invoices'],
  ['What phoenixd keeps as a fee is paid, and booked as a fee', 'hostile'],
  ['A service that is killed at any moment loses no invoice and completes each payment once', 'killed'],
  ['A clock that is two hours off is named, and the end is by the clock of Florin', 'invoices'],
  ['An invoice that a restored node does not know stays open', 'hostile'],
  ['What was paid before, at and after the end of a payment is judged by when it was paid', 'hostile'],
  ['A credential in the text of an error is taken out', 'credentials'],
  ['A description with scripts and of 639 bytes does nothing', 'invoices'],
];

test('each hostile case has tests that are named by its number, in the files of this table', () => {
  const found = readdirSync('test/lightning').flatMap((file) => {
    const numbers = readFileSync(`test/lightning/${file}`, 'utf8').matchAll(/hostile case (\d+):/g);
    return Array.from(numbers, ([, number]) => `${number} ${file.replace('.test.ts', '')}`);
  });
  const listed = CASES.flatMap(([, ...files], index) => files.map((file) => `${index + 1} ${file}`));
  assert.deepEqual([...new Set(found)].toSorted(), listed.toSorted());
});
