/** Whether a key is the one of the install, by what it opens. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sealerOf } from './seal.ts';
import { isRightKey, NO_KEY } from './secret-key.ts';

test('the check value decides where there is one; before that, one opened secret or none at all is enough', () => {
  for (const closed of [[], ['the signing secret of we_1']])
    for (const opened of [0, 3]) {
      assert.equal(isRightKey({ check: true, opened, closed }), true);
      assert.equal(isRightKey({ check: false, opened, closed }), false, 'also if it opens other secrets');
    }
  assert.equal(isRightKey({ check: null, opened: 0, closed: [] }), true, 'nothing is sealed yet');
  assert.equal(isRightKey({ check: null, opened: 1, closed: ['one that was sealed with another key'] }), true);
  assert.equal(isRightKey({ check: null, opened: 0, closed: ['one'] }), false);
});

test('no key opens nothing, and a key opens only what was sealed with it for the same purpose', () => {
  const sealed = sealerOf('a key').seal('a purpose', Buffer.from('secret'));
  assert.equal(Buffer.from(sealerOf('a key').open('a purpose', sealed)).toString(), 'secret');
  assert.throws(() => NO_KEY.open('a purpose', sealed));
  assert.throws(() => sealerOf('another key').open('a purpose', sealed));
  assert.throws(() => sealerOf('a key').open('another purpose', sealed));
});
