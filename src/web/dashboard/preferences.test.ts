/** Preferences that were stored, by this version or another one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { preferencesFromJson, preferencesToJson } from './home-api.ts';

const GIVEN = {
  views: [{ name: 'Late ones', query: 'exception=late' }],
  columns: ['amount', 'id'],
  onboarding: { dismissed: true, polls: false },
};
const NONE = { views: [], columns: null, onboarding: { dismissed: false, polls: false } };

test('preferences are stored with a version and read unchanged, also without one', () => {
  const stored = JSON.parse(JSON.stringify(preferencesToJson(GIVEN)));
  assert.deepEqual(
    stored.map(({ name, value }: any) => [name, value.v ?? value[0].v]),
    [
      ['payments.views', 1],
      ['payments.columns', undefined],
      ['onboarding', 1],
    ],
  );
  assert.deepEqual(preferencesFromJson(stored), GIVEN);
  const { views, columns, onboarding } = GIVEN;
  const older = Object.entries({ 'payments.views': views, 'payments.columns': columns, onboarding });
  assert.deepEqual(preferencesFromJson(older.map(([name, value]) => ({ name, value }))), GIVEN);
  assert.deepEqual(preferencesToJson({}), []);
});

test('what is missing, unknown or damaged gets its default', () => {
  assert.deepEqual(preferencesFromJson([]), NONE);
  assert.deepEqual(preferencesFromJson([{ name: 'removed', value: 1 }]), NONE);
  for (const value of [null, true, 7, 'x', [7], [null], { dismissed: 'yes' }]) {
    const read = preferencesFromJson(['payments.views', 'payments.columns', 'onboarding'].map((name) => ({ name, value })));
    assert.deepEqual(read, { ...NONE, columns: Array.isArray(value) ? [] : null }, JSON.stringify(value));
  }
});
