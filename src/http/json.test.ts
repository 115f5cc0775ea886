/** Strict JSON: one meaning, or a refusal with the reason. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalJson, type ParsedBody, parseJson } from './json.ts';

const refused = (text: string, message: RegExp) =>
  assert.throws(() => parseJson(text), { name: 'Problem', code: 'invalid_json', message }, text.slice(0, 60));

test('valid JSON is read as by JSON.parse', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(undefined, 1, '\t'), (text, space) => {
      const spaced = JSON.stringify(JSON.parse(text), null, space);
      fc.pre(!spaced.includes('"__proto__"') && !/\\u0000|\\ud[89a-f]/i.test(spaced));
      let read: ParsedBody;
      try {
        read = parseJson(spaced);
      } catch (error) {
        // Two numbers whose paths look the same, as in {"a":0,"":{"a":0}}, are refused so that they cannot be confused.
        assert.match((error as Error).message, /two numbers have the path/);
        return;
      }
      // Objects are parsed without a prototype.
      assert.deepEqual(JSON.parse(JSON.stringify(read.value)), JSON.parse(spaced));
    }),
    { numRuns: 2_000 },
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
    { numRuns: 20_000 },
  );
});

test('numbers keep the text they were sent as, by path', () => {
  const { value, numbers } = parseJson('{"amount": 25.10, "items": [{"price": 1e2}, {"price": -0.00}], "big": 9007199254740993}');
  assert.deepEqual(
    [...numbers],
    [
      ['amount', '25.10'],
      ['items[0].price', '1e2'],
      ['items[1].price', '-0.00'],
      ['big', '9007199254740993'],
    ],
  );
  assert.equal((value as { amount: number }).amount, 25.1);
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
