/** Who acts, and what the audit log keeps of a change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../core/problem.ts';
import { checkPassword } from '../sign-in/sign-in.ts';
import { actorText, kindOfActor, memberOf } from './members.ts';

test('an actor is a member, a key, a shop or the operator, and is named as such', () => {
  const at = { name: 'Ada', ip: '' };
  assert.equal(memberOf({ ...at, userId: 'usr_1' }), 'usr_1');
  assert.equal(memberOf({ ...at, userId: '' }), null, 'the operator is no member');
  assert.equal(memberOf({ ...at, keyId: 'key_1' }), null);
  assert.deepEqual(['key_1', 'shp_1', 'usr_1', '', null].map(kindOfActor), ['key', 'shop', 'member', null, null]);
  assert.equal(actorText({ ...at, keyId: 'key_1' }), 'API key “Ada”');
  assert.equal(actorText({ ...at, keyId: 'shp_1' }), 'Ada');
  assert.equal(actorText({ ...at, userId: 'usr_1' }), 'Ada');
});

test('a password has a length that can be hashed in bounded time', () => {
  const refused = (text: string) =>
    assert.throws(
      () => checkPassword(text),
      (error: Problem) => error instanceof Problem && error.code === 'parameter_invalid' && error.param === 'password',
    );
  refused('');
  refused('short');
  refused('x'.repeat(100_000));
  checkPassword('correct horse battery staple');
});
