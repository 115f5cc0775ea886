/** Changes in the audit log that were stored, by this version or another one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeFromJson, changeToJson } from './members.ts';

const CHANGE = { role: 'finance', retentionDays: null, origins: ['https://shop.example'], limits: { v: 2, most: 5 } };

test('a change is stored with a version and read unchanged, also without one', () => {
  const stored = JSON.parse(JSON.stringify(changeToJson(CHANGE)));
  assert.equal(stored.v, 1);
  assert.deepEqual(changeFromJson(stored), CHANGE);
  assert.deepEqual(changeFromJson(CHANGE), CHANGE, 'rows from before there were versions');
  assert.deepEqual(changeFromJson({ ...CHANGE, v: 2 }), CHANGE, 'rows of a newer version');
});

test('a field cannot take the place of the version', () => {
  assert.deepEqual(changeToJson({ v: 'mine', role: 'owner' }), { v: 1, role: 'owner' });
});

test('what is missing stays missing, and what is damaged has no fields', () => {
  assert.equal(changeFromJson(null), null);
  for (const value of [true, 7, 'x', [], ['role']]) assert.deepEqual(changeFromJson(value), {}, JSON.stringify(value));
});
