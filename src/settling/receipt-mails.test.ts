import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TAGS } from '../core/locales.ts';

test('the receipt by email has every word in every language of the payment page, and names the business', () => {
  const words = JSON.parse(readFileSync(join(import.meta.dirname, 'receipt-words.json'), 'utf8')) as Record<string, Record<string, string>>;
  assert.deepEqual(Object.keys(words), TAGS);
  const { en, ...others } = words;
  for (const [tag, own] of Object.entries(others)) {
    assert.deepEqual(Object.keys(own), Object.keys(en!), tag);
    for (const [key, text] of Object.entries(own)) {
      assert.equal(text.split('{name}').length, en![key]!.split('{name}').length, `${tag} ${key}`);
      assert.ok(text.trim() !== '' && (key === 'status' || text !== en![key]), `${tag} ${key} is translated`);
    }
  }
});
