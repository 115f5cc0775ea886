/** The text of notices about payments, as a table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noticeText } from './notice-kinds.ts';
import { attentionWords, reversedWords } from './payment-notices.ts';

const base = { payment: 'pay_1', exception: 'late', status: 'expired', price: '1816.95', money: '27.23 DASH ($816.95)', invoice: null };

test('a notice about a payment includes its money and its order', () => {
  const rows: [detail: Record<string, string | null>, words: string][] = [
    [{}, 'Arrived late, on hold: 27.23 DASH ($816.95). The price was $1,816.95.'],
    [{ invoice: 'INV-1' }, 'Arrived late, on hold: 27.23 DASH ($816.95). The price was $1,816.95. Invoice INV-1.'],
    [{ description: 'Two mugs' }, 'Arrived late, on hold: 27.23 DASH ($816.95). The price was $1,816.95. Description: Two mugs'],
    [{ exception: 'underpaid' }, 'Underpaid: received 27.23 DASH ($816.95) of $1,816.95.'],
    [{ exception: 'overpaid' }, 'Overpaid: received 27.23 DASH ($816.95) for $1,816.95.'],
    [{ exception: 'paid_after_cancel' }, 'Arrived after the payment closed, on hold: 27.23 DASH ($816.95). The price was $1,816.95.'],
    [
      { exception: 'replaced', money: null },
      'The transaction for a payment of $1,816.95 was replaced by another one before it was confirmed.',
    ],
    [{ exception: 'reorged' }, 'A transfer for a payment of $1,816.95 is no longer confirmed.'],
  ];
  for (const [detail, words] of rows) assert.equal(attentionWords({ ...base, ...detail }), words);
  assert.equal(
    reversedWords({ ...base, invoice: 'INV-1' }),
    'A completed payment of $1,816.95 was reversed: its transfer was taken back or is no longer confirmed. Invoice INV-1.',
  );
});

test('a notice from an older version, without amounts, is still readable', () => {
  assert.equal(attentionWords({ payment: 'pay_1', exception: 'paid_after_cancel' }), 'A payment needs your attention: paid after cancel.');
  assert.equal(
    reversedWords({ payment: 'pay_1' }),
    'A completed payment was reversed: its transfer was taken back or is no longer confirmed.',
  );
});

test('texts that others wrote about a payment are shortened to one line', () => {
  const words = attentionWords({ ...base, description: `Pay\r\nBcc: all@shop.example\t${'x'.repeat(200)}` });
  assert.match(words, /Description: Pay Bcc: all@shop\.example x+…$/);
  assert.ok(words.length < 160);
});

test('a change of an account that this version does not know still has words', () => {
  assert.match(noticeText('account_changed', { change: 'of_a_newer_version', ip: '192.0.2.1' }), /^The way you sign in .* was changed\.$/);
});
