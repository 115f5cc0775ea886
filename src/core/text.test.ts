import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from './problem.ts';
import { harmless, hasLink, isPrintableLine, printableLine, readName, showControls, toPrintableLine } from './text.ts';

const ACTING = ['\0', '\t', '\n', '\r', '\x07', '\x1b', '\x7f', '\x85', '\x9b', '\u2028', '\u2029', '\u061c', '\u200e', '\u202e', '\u2066'];

test('a name with line breaks, control characters or direction marks is refused', () => {
  for (const character of ACTING) {
    const name = `Eve${character}Your account is locked`;
    assert.equal(isPrintableLine(name), false, JSON.stringify(name));
    assert.throws(
      () => printableLine(name, 'name'),
      (error: unknown) => error instanceof Problem && error.code === 'parameter_invalid' && error.param === 'name',
    );
  }
  assert.throws(() => printableLine(' \u00a0 ', 'name'), Problem);
});

test('a name of which nothing can be seen is refused, and so are letters without a shape in the name of a person or business', () => {
  for (const blank of ['\u200b', '\u200d', '\u00ad', '\u3164', '\u115f \u1160', '\uffa0', '\u2800\u2800', '\ufe0f', '\u{e0041}']) {
    assert.throws(() => printableLine(blank, 'name'), { code: 'parameter_invalid', param: 'name' }, JSON.stringify(blank));
    assert.throws(() => readName(blank, 'name'), { code: 'parameter_invalid', param: 'name' }, JSON.stringify(blank));
  }
  for (const filler of ['\u115f', '\u1160', '\u2800', '\u3164', '\uffa0'])
    assert.throws(() => readName(`Olga${filler}Owner`, 'name'), { code: 'parameter_invalid' }, JSON.stringify(filler));
});

test('names in any script are kept, without spaces around them', () => {
  for (const name of ['Zoë Müller-Lüdenscheidt', 'شركة النور', '日本 商店', 'Café 👩‍🍳 & Co.', "O'Neil"])
    assert.equal(printableLine(` ${name} `, 'name'), name);
});

test('text for a terminal shows characters that act, and nothing of it is obeyed', () => {
  assert.equal(showControls('\x1b]0;OWNED\x07\x9b31m\u202eevil'), '\\u001b]0;OWNED\\u0007\\u009b31m\\u202eevil');
  for (const character of ACTING) assert.ok(isPrintableLine(showControls(`a${character}b`)));
  assert.equal(showControls('Café 👩‍🍳 – 日本'), 'Café 👩‍🍳 – 日本');
});

test('a name that a shop sent gets spaces in place of what cannot be shown', () => {
  assert.equal(toPrintableLine('Shop\x1b[2K\u202e '), 'Shop [2K');
});

test('a name contains nothing that mail programs turn into a link, and a text that does is made harmless', () => {
  for (const [text, line] of [
    ['Eve\nUnlock: https://evil.example/unlock', 'Eve Unlock https evil example unlock'],
    ['evil.example/x', 'evil example x'],
    ['evil。example', 'evil example'],
    ['a．com', 'a com'],
    ['e\u200cvil.\u200dcom', 'evil com'],
    ['xn--80ak6aa92e.xn--p1ai', 'xn--80ak6aa92e xn--p1ai'],
    ['WWW.x', 'WWW x'],
    ['192.0.2.7/x', '192 0 2 7 x'],
    ['mailto:x', 'mailto x'],
    ['pay@evil.example', 'pay evil example'],
    ['Dr.Smith', 'Dr Smith'],
    ['evil.\ufe0fexample', 'evil example'],
    ['evil.e\u034fxample', 'evil example'],
    ['x'.repeat(61), `${'x'.repeat(59)}…`],
    ['a\u202eb', 'a b'],
    ['\u200b', ''],
  ] as const) {
    assert.equal(harmless(text), line);
    assert.ok(!hasLink(harmless(text)), text);
    assert.throws(() => readName(text, 'name'), { code: 'parameter_invalid', param: 'name' }, text);
  }
  for (const name of [
    'Olga Owner',
    'St. Mary Ltd.',
    'J. R. R. Tolkien',
    'Bar 1.5',
    'Shop: Berlin',
    'علی\u200cرضا',
    '🍕 & Co',
    '𝒳'.repeat(60),
  ]) {
    assert.equal(readName(` ${name} `, 'name'), name);
    assert.equal(harmless(name), name);
  }
});
