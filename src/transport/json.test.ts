/** Strict JSON: one meaning, or a refusal with the reason, after a moment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { hostileJson } from '../../test/kit/hostile-shapes.ts';
import { isLongRun } from '../../test/kit/long.ts';
import { assertQuick } from '../../test/kit/quick.ts';
import { canonicalJson, exactJson, parseJson, writtenAt } from './json.ts';

const refused = (text: string, message: RegExp) =>
  assert.throws(() => parseJson(text), { name: 'Problem', code: 'invalid_json', message }, text.slice(0, 60));

test('valid JSON is read as by JSON.parse', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(undefined, 1, '\t'), (text, space) => {
      const spaced = JSON.stringify(JSON.parse(text), null, space);
      fc.pre(!spaced.includes('"__proto__"') && !/\\u0000|\\ud[89a-f]/i.test(spaced));
      // Objects are parsed without a prototype.
      assert.deepEqual(JSON.parse(JSON.stringify(parseJson(spaced).value)), JSON.parse(spaced));
    }),
    { numRuns: isLongRun ? 2_000 : 500 },
  );
});

test('no input makes the reader throw anything but its errors, and JSON.parse accepts what it accepts', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc
      .array(fc.constantFrom(...'{}[]:,"\\ue+-.0123456789tfn ', 'true', 'null', '"a"', '1e5'), { maxLength: 30 })
      .map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(text, (input) => {
      try {
        parseJson(input);
      } catch (error) {
        assert.ok(['invalid_json', 'parameter_invalid'].includes((error as { code: string }).code), String(error));
        return;
      }
      JSON.parse(input);
    }),
    { numRuns: isLongRun ? 20_000 : 4_000 },
  );
});

test('numbers keep the text they were sent as, each at its own place', () => {
  const body = parseJson('{"amount": 25.10, "items": [{"price": 1e2}, {"price": -0.00}], "big": 9007199254740993, "text": "7"}');
  const written = { amount: '25.10', 'items[0].price': '1e2', 'items[1].price': '-0.00', big: '9007199254740993' };
  for (const [path, text] of Object.entries(written)) assert.equal(writtenAt(body, path), text, path);
  for (const path of ['text', 'items', 'items[2].price', 'items[0].cost', 'amount.price', 'items.length', ''])
    assert.equal(writtenAt(body, path), undefined, path);
  assert.equal((body.value as { amount: number }).amount, 25.1);
  assert.equal(canonicalJson(parseJson(' 1.50 ')), '1.50');
});

test('a name that looks like a path is not the number at that path', () => {
  const text = '{"":{"a":1.0},"a":2.0,"a.b":3.0,"items":[{"price":5.0}],"items[0].price":4.0,"items[0]":{"price":6.0}}';
  const body = parseJson(text);
  assert.equal(exactJson(body, body.value as object), text);
  assert.deepEqual([writtenAt(body, 'a'), writtenAt(body, 'items[0].price')], ['2.0', '5.0']);
});

test('a part of a body is written as it was sent', () => {
  const body = parseJson('{"metadata": {"z": 1.10, "a": [1e0, {"b": 2.0}]}, "z": 9}');
  assert.equal(exactJson(body, (body.value as { metadata: object }).metadata), '{"z":1.10,"a":[1e0,{"b":2.0}]}');
});

test('a duplicate key is refused, however it is written and wherever it is', () => {
  refused('{"amount_usd": 1, "amount_usd": 2}', /the key "amount_usd" appears twice/);
  refused('{"a": 1, "\\u0061": 2}', /the key "a" appears twice/);
  refused('{"x": [{"a": 1, "b": 2, "a": 1}]}', /the key "a" appears twice/);
  assert.doesNotThrow(() => parseJson('{"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]}'));
});

test('names of built-in object members are data or refused, never acted on', () => {
  refused('{"__proto__": {"admin": true}}', /"__proto__" is not allowed/);
  refused('{"a": {"\\u005f_proto__": 1}}', /"__proto__" is not allowed/);
  const { value } = parseJson('{"constructor": 1, "toString": 2, "hasOwnProperty": 3}');
  assert.deepEqual(Object.entries(value as object), [
    ['constructor', 1],
    ['toString', 2],
    ['hasOwnProperty', 3],
  ]);
  assert.equal(({} as { admin?: boolean }).admin, undefined);
});

test('depth is limited: twenty levels are read, a hundred thousand are refused at once', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  assert.doesNotThrow(() => parseJson(nested(21)));
  refused(nested(22), /nested more than 20 levels deep/);
  refused('['.repeat(100_000), /nested more than 20 levels deep/);
  refused('{"a":'.repeat(100_000), /nested more than 20 levels deep/);
});

test('names, paths and the number of values are limited', () => {
  const name = (length: number) => 'k'.repeat(length);
  assert.doesNotThrow(() => parseJson(`{"${name(200)}":1}`));
  refused(`{"${name(201)}":1}`, /the key "k{40}\.\.\." has more than 200 characters/);
  const nested = (names: number) => `${`{"${name(199)}":`.repeat(names)}1${'}'.repeat(names)}`;
  assert.doesNotThrow(() => parseJson(nested(5)));
  refused(nested(6), /the path of a value has more than 1000 characters/);
  const list = (values: number) => `[${Array(values).fill('1').join(',')}]`;
  assert.doesNotThrow(() => parseJson(list(4_999)));
  refused(list(5_000), /it contains more than 5000 values/);
});

test('the worst body of a size takes a moment: 64 kB or 4 MB', () => {
  for (const [size, mostMs] of [
    [65_536, 50],
    [4_000_000, 500],
  ] as const) {
    for (const [shape, text] of Object.entries(hostileJson(size))) {
      assertQuick(`${shape}, ${text.length} characters`, mostMs, () => {
        try {
          canonicalJson(parseJson(text));
        } catch (error) {
          assert.ok(['invalid_json', 'parameter_invalid'].includes((error as { code: string }).code), String(error));
        }
      });
    }
  }
});

test('text that cannot be stored is refused under its parameter', () => {
  for (const text of ['\\u0000', 'a\\u0000b', '\\ud800', '\\udc00', '\\udc00\\ud800', '\\ud83d x']) {
    assert.throws(() => parseJson(`{"metadata": {"note": "${text}"}}`), { code: 'parameter_invalid', param: 'metadata.note' }, text);
  }
  assert.deepEqual({ ...(parseJson('{"note": "\\ud83d\\ude00 \u{1F600}"}').value as object) }, { note: '😀 😀' });
});

test('almost valid JSON is refused with the reason', () => {
  for (const [text, reason] of [
    ['', /it ends before it is complete/],
    ['{', /does not end properly/],
    ['{"a" 1}', /a colon is missing after the key "a"/],
    ['{"a": 1 "b": 2}', /a comma or \} is missing/],
    ['[1 2]', /a comma or \] is missing/],
    ['{"a": 1,}', /does not end properly/],
    ['[1,]', /character 3 is unexpected/],
    ["{'a': 1}", /does not end properly/],
    ['{a: 1}', /does not end properly/],
    ['{"a": 01}', /a comma or \} is missing/],
    ['{"a": +1}', /unexpected/],
    ['{"a": .5}', /unexpected/],
    ['{"a": 1.}', /a comma or \} is missing/],
    ['{"a": NaN}', /unexpected/],
    ['{"a": Infinity}', /unexpected/],
    ['{"a": 0x10}', /a comma or \} is missing/],
    ['{"a": truee}', /a comma or \} is missing/],
    ['{"a": undefined}', /unexpected/],
    ['{"a": "tab\there"}', /does not end properly/],
    ['{"a": "\\x41"}', /does not end properly/],
    ['{} {}', /there is text after its end/],
    ['// note\n{}', /unexpected/],
    ['\uFEFF{}', /unexpected/],
    ['\u00a0{}', /unexpected/],
  ] as const) {
    refused(text, reason);
  }
});

test('one body has one canonical text, whatever the order of its keys; numbers count as they are written', () => {
  const canonical = (text: string) => canonicalJson(parseJson(text));
  assert.equal(canonical('{"b": [1, {"d": 2, "c": "\\u0041"}], "a": null}'), '{"a":null,"b":[1,{"c":"A","d":2}]}');
  assert.equal(canonical(' {"a":null , "b":[1,{"c":"A","d":2}]}\n'), canonical('{"b": [1, {"d": 2, "c": "A"}], "a": null}'));
  const different = [
    '{"a": 1}',
    '{"a": 1.0}',
    '{"a": "1"}',
    '{"a": [1]}',
    '{"a": 9007199254740993}',
    '{"a": 9007199254740992}',
    '{"a": null}',
    '{}',
  ];
  assert.equal(new Set(different.map(canonical)).size, different.length);
});
