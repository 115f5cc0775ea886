/** The sources that a guard stored, by this version or another one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type StoredSource, sourcesFromJson, sourcesToJson } from './chain-state.ts';

const SOURCE: StoredSource = {
  ...{ name: 'node.example:8332', trust: 'own', state: 'behind', reason: 'it is 3 blocks behind' },
  ...{ height: 800_000, through: 799_997, software: '/Satoshi:29.0.0/' },
};

test('sources have the version of their form and are read unchanged, also those without a version', () => {
  const [stored] = JSON.parse(JSON.stringify(sourcesToJson([SOURCE])));
  assert.equal(stored.v, 1);
  assert.deepEqual(sourcesFromJson([stored, SOURCE]), [SOURCE, SOURCE]);
});

test('a field that is missing or has another type gets a default, which never makes a source look better', () => {
  const weakest = { ...SOURCE, trust: 'claimed', state: 'down', reason: null, height: null, through: null, software: null };
  const damaged = [undefined, null, true, [], {}, 'better', 1.5];
  for (const name of ['trust', 'state', 'reason', 'height', 'through', 'software'] as const)
    for (const value of damaged) {
      const [read] = sourcesFromJson([{ ...SOURCE, [name]: value }]);
      const isText = typeof value === 'string' && (name === 'reason' || name === 'software');
      assert.deepEqual(read, { ...SOURCE, [name]: isText ? value : weakest[name] }, `${name}: ${JSON.stringify(value)}`);
    }
  assert.deepEqual(sourcesFromJson([{ ...SOURCE, name: 7 }, 'x', null, SOURCE]), [SOURCE]);
  for (const value of [undefined, null, 'x', 5, { 0: SOURCE }]) assert.deepEqual(sourcesFromJson(value), []);
});
