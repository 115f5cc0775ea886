import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeInvoice, InvoiceError } from './bolt11.ts';

type Decoded = {
  network: string;
  amount_msat: string | null;
  timestamp: number;
  expires_at: number;
  payment_hash: string;
  payee: string;
  description: string | null;
  description_hash: string | null;
};
type Vectors = {
  bolt11: {
    valid: { title: string; invoice: string; decoded: Decoded }[];
    invalid: { title: string; invoice: string }[];
    real: { from: string; invoice: string; decoded: Decoded }[];
  };
};
const { bolt11 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8')) as Vectors;

for (const { title, invoice, decoded } of [...bolt11.valid, ...bolt11.real.map((one) => ({ ...one, title: one.from }))])
  test(`reads an invoice: ${title}`, () => {
    assert.deepEqual(decodeInvoice(invoice), {
      network: decoded.network,
      msat: decoded.amount_msat === null ? null : BigInt(decoded.amount_msat),
      createdAt: new Date(decoded.timestamp * 1000),
      expiresAt: new Date(decoded.expires_at * 1000),
      paymentHash: decoded.payment_hash,
      payee: decoded.payee,
      description: decoded.description,
      descriptionHash: decoded.description_hash,
    });
  });

for (const { title, invoice } of bolt11.invalid)
  test(`refuses an invoice: ${title}`, () => {
    assert.throws(() => decodeInvoice(invoice), InvoiceError);
  });

test('any text is an invoice or is refused with a reason', () => {
  const known = bolt11.valid.map(({ invoice }) => invoice);
  const changed = fc
    .tuple(fc.constantFrom(...known), fc.nat(), fc.string({ maxLength: 3 }))
    .map(([text, at, put]) => text.slice(0, at % text.length) + put + text.slice((at % text.length) + 1));
  fc.assert(
    fc.property(fc.oneof(fc.string({ maxLength: 8_000 }), changed), (text) => {
      try {
        decodeInvoice(text);
        assert.ok(
          known.some((one) => one.toLowerCase() === text.toLowerCase()),
          text,
        );
      } catch (error) {
        assert.ok(error instanceof InvoiceError, String(error));
      }
    }),
    { numRuns: 2_000 },
  );
});
