/** Which passwords are accepted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '#core/problem';
import { checkPassword } from './sign-in.ts';

const refusal = (password: string): string | null => {
  try {
    checkPassword(password);
    return null;
  } catch (error) {
    assert.ok(error instanceof Problem);
    return error.message;
  }
};

test('a password of common words, keyboard rows and runs alone is refused', () => {
  for (const password of [
    ...['passwordpass', 'Password1234', 'p@ssw0rd1234', 'password!!!!', 'qwertyuiop12', 'qwertzuiop12', 'asdfghjkl123', '123456789012'],
    ...['aaaaaaaaaaaa', 'abcdefghijkl', 'letmeinletmein', 'adminadmin12', 'iloveyou1234', 'bitcoin12345', 'FlorinFlorin', 'welcome12345'],
  ])
    assert.match(refusal(password)!, /too easy to guess/, password);
});

test('a sentence, a generated password and a passphrase are accepted', () => {
  for (const password of [
    'correct horse battery',
    'Tr0ub4dor&3xyz',
    'kJ8-vv2-Qm1-z0P',
    'a better long password',
    'пароль моей кошки',
    'müller geht baden',
  ])
    assert.equal(refusal(password), null, password);
});

test('a password has 12 to 128 characters', () => {
  assert.match(refusal('short')!, /12 to 128 characters/);
  assert.match(refusal('correct horse'.repeat(10))!, /12 to 128 characters/);
});
