/** What a shop must never see in the events of one invoice. */
import assert from 'node:assert/strict';
import type { InvoiceEvent } from '../../src/shops/greenfield/invoice-body.ts';

/** Checks the events of an invoice, oldest first. */
export function checkSequence(events: readonly InvoiceEvent[]): void {
  const seen = new Set<string>();
  const confirmed = new Set<string>();
  let isPaid = false;
  let hasEnded = false;
  for (const [i, event] of events.entries()) {
    const before = events.slice(0, i).map(({ type }) => type);
    assert.ok(!before.includes('InvoiceSettled'), 'nothing follows InvoiceSettled');
    assert.equal(event.type === 'InvoiceCreated', i === 0, 'InvoiceCreated comes first, and once');
    switch (event.type) {
      case 'InvoiceReceivedPayment':
        assert.ok(!seen.has(event.ref), 'a transfer arrives once');
        assert.ok(!hasEnded || event.afterExpiration, 'what arrives after the end says so');
        seen.add(event.ref);
        break;
      case 'InvoicePaymentSettled':
        assert.ok(seen.has(event.ref) && !confirmed.has(event.ref), 'a transfer is confirmed once, after it arrived');
        assert.ok(!hasEnded && !event.afterExpiration, 'after an end, plugins would ask for checks by hand');
        confirmed.add(event.ref);
        break;
      case 'InvoiceProcessing':
        isPaid = true;
        break;
      case 'InvoiceSettled':
        assert.ok(isPaid, 'InvoiceSettled follows InvoiceProcessing');
        break;
      case 'InvoiceExpired':
      case 'InvoiceInvalid':
        hasEnded = true;
        isPaid = false;
    }
  }
}
