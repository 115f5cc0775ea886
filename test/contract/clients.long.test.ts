/** All five languages are installed, so that `clients.test.ts`, which a long run contains, skips none of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTRACT_LANGUAGES, isInstalled } from '../kit/contract-clients.ts';

test('a long run has a client in every language', () => {
  assert.deepEqual(
    CONTRACT_LANGUAGES.filter((language) => !isInstalled(language)).map(({ name }) => name),
    [],
  );
});
