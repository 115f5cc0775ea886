import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../core/problem.ts';
import { logoType } from './settings.ts';

const isRefused = (text: string): boolean => {
  try {
    logoType(Buffer.from(text));
    return false;
  } catch (error) {
    if (error instanceof Problem && error.param === 'logo') return true;
    throw error;
  }
};

test('a logo of nothing but comments is refused, however many they are', () => {
  assert.ok(isRefused(`${'<!---->'.repeat(9_000)}x`));
  assert.ok(isRefused(`${'<!-'.repeat(20_000)}x`));
  assert.ok(isRefused(`<?xml${'?'.repeat(60_000)}`));
  assert.ok(isRefused(`<!-- no end <svg>`));
});

test('an SVG with an XML declaration and comments before it is a logo', () => {
  for (const before of ['', '\ufeff \n', '<?xml version="1.0"?>\n', '<?xml version="1.0"?><!-- a > b -->\n<!---->', '<!-- x -- y -->'])
    assert.equal(logoType(Buffer.from(`${before}<svg xmlns="http://www.w3.org/2000/svg"/>`)), 'image/svg+xml', before);
});
