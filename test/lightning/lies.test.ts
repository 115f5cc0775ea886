/** Of generated answers of back ends, those with a proof complete an invoice, and no other. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { BackEndError } from '../../src/lightning/back-end.ts';
import { checkInvoice } from '../../src/lightning/invoices.ts';
import { tellLies } from '../kit/lightning-lies.ts';

// Invariant: No answer of a Lightning back end completes a payment without the preimage of its own invoice.
test('10,000 generated answers complete nothing without a proof', async () => {
  const { completed, kinds } = await tellLies(10_000, 7);
  // It also sees the ones with a proof.
  assert.ok(completed > 20, String(completed));
  assert.ok(kinds.has('nwc'), [...kinds].join());
});

test('hostile case 7: an invoice with the hash of other metadata is refused', () => {
  const { bolt11 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
  const { invoice: text } = bolt11.valid.find(({ decoded }: any) => decoded.description_hash !== null && decoded.network === 'mainnet');
  const { msat, createdAt, descriptionHash } = decodeInvoice(text);
  const expected = { msat: msat!, network: 'mainnet' as const, payee: null, now: createdAt };
  const made = { bolt11: text, handle: '' };
  assert.equal(checkInvoice({ ...made, descriptionHash }, expected).descriptionHash, descriptionHash);
  assert.throws(() => checkInvoice({ ...made, descriptionHash: '00'.repeat(32) }, expected), BackEndError);
});
