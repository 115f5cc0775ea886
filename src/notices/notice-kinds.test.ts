/** The words of notices that another version stored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { detailFromJson, detailToJson, NOTICE_KINDS, noticePath, noticeText } from './notice-kinds.ts';

test('details are stored with a version and read unchanged, also without one', () => {
  const detail = { payment: 'pay_1', price: '12.00', invoice: null, percent: 80 };
  const stored = JSON.parse(JSON.stringify(detailToJson(detail)));
  assert.equal(stored.v, 1);
  assert.deepEqual([detailFromJson(stored), detailFromJson(detail)], [detail, detail]);
});

test('every notice has words and a path, whatever its details are', () => {
  for (const kind of NOTICE_KINDS)
    for (const stored of [undefined, null, 'x', [], {}, { ip: {}, by: [1], coin: true, payment: 7, change: 'a_new_one', was: false }]) {
      const detail = detailFromJson(stored);
      const words = noticeText(kind, detail);
      assert.doesNotMatch(words, /undefined|null|NaN|\[object/, `${kind}: ${words}`);
      assert.match(noticePath(kind, detail), /^[a-z]+(\/7)?$/);
    }
});
