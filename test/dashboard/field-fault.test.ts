/** What a form says about a field that the API refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withLabel } from '../../dashboard/lib/field-fault.ts';

test('a refusal names the label of its field, not the parameter', () => {
  const rows: [fault: string, label: string, shown: string][] = [
    [
      'rate_lock_minutes is invalid: it must be from 5 to 60 minutes.',
      'Rate lock',
      'Rate lock is invalid: it must be from 5 to 60 minutes.',
    ],
    ['amount_usd must have at most 2 decimals.', 'Amount in USD', 'Amount in USD must have at most 2 decimals.'],
    ['items[0].unit_price must be at most 5.', 'Unit price', 'Unit price must be at most 5.'],
    ['origins[2] is invalid: no.', 'Allowed origins', 'Allowed origins is invalid: no.'],
    ['name is required.', 'Name (optional)', 'Name is required.'],
    ['The code is wrong.', 'Code', 'The code is wrong.'],
    ['This is the last owner.', 'Role', 'This is the last owner.'],
  ];
  for (const [fault, label, shown] of rows) assert.equal(withLabel(fault, label), shown);
});
