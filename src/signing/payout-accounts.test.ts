/** Which accounts pay for a payout, what each adds, and the nonces that make it payable once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Holding } from './holdings.ts';
import { chooseSources, gatherNonce, payoutNonce } from './payout-accounts.ts';
import { refundNonce, sharesOf, sift } from './refund-accounts.ts';

const lot = (units: bigint, i: number, holdings: readonly bigint[] = [units]) => ({
  ...{ address: `0x${i}`, index: i, units },
  holdings: holdings.map((part) => ({ units: part, leftUnits: part }) as Holding),
});

test('sources add up to exactly the amount, the first is the largest, and one is enough wherever one holds enough', () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: 0n, max: 50n }), { maxLength: 12 }), fc.bigInt({ min: 1n, max: 200n }), (held, units) => {
      const lots = held.map((one, i) => lot(one, i));
      const sources = chooseSources(units, lots);
      const total = held.reduce((sum, one) => sum + one, 0n);
      if (sources === 'short') return assert.ok(total < units);
      assert.equal(
        sources.reduce((sum, one) => sum + one.units, 0n),
        units,
      );
      for (const one of sources) assert.ok(one.units > 0n && one.units <= one.lot.units);
      assert.equal(new Set(sources.map((one) => one.lot.address)).size, sources.length);
      assert.equal(
        sources.length === 1,
        held.some((one) => one >= units),
      );
      if (sources.length === 1)
        assert.ok(
          lots.every((one) => one.units < units || one.units >= sources[0]!.lot.units),
          'the smallest that is enough',
        );
      else for (const one of sources.slice(0, -1)) assert.equal(one.units, one.lot.units, 'only the last one keeps something');
    }),
    { numRuns: 500 },
  );
});

test('what is taken of the transfers of an address is what is paid, oldest first, and everything when nothing remains', () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: 1n, max: 50n }), { minLength: 1, maxLength: 6 }), fc.nat(), (parts, at) => {
      const held = parts.reduce((sum, one) => sum + one, 0n);
      const units = (BigInt(at) % held) + 1n;
      const shares = sharesOf(lot(held, 0, parts), { held, units });
      assert.equal(
        shares.reduce((sum, one) => sum + one.units, 0n),
        units,
      );
      shares.forEach((one, i) => {
        assert.ok(one.units >= 0n && one.units <= parts[i]!);
        if (i > 0 && one.units > 0n) assert.equal(shares[i - 1]!.units, parts[i - 1], 'the one before is used up');
      });
    }),
  );
});

test('nonces follow from what is paid alone, and no two of them are the same', () => {
  const nonces = [refundNonce('ref_1'), payoutNonce('ref_1'), payoutNonce('po_1'), gatherNonce('po_1', '0xa'), gatherNonce('po_1', '0xb')];
  assert.equal(new Set(nonces).size, nonces.length);
  for (const nonce of nonces) assert.match(nonce, /^0x[0-9a-f]{64}$/);
  assert.equal(payoutNonce('po_1'), nonces[2]);
  assert.notEqual(gatherNonce('po_1', '0xa'), payoutNonce('po_1","0xa'), 'an ID cannot be written so that it is another nonce');
});

test('what does not pass is left with its reason', () => {
  const rows = ['a', 'b', 'c'].map((id) => ({ asked: { id } }));
  const { found, left } = sift(rows, { no: 'it may not' }, ({ asked: { id } }) => (id === 'b' ? 'no' : null));
  assert.deepEqual(
    found.map(({ asked }) => asked.id),
    ['a', 'c'],
  );
  assert.deepEqual(left, [{ id: 'b', reason: 'it may not' }]);
});
