/** What the request log keeps: no secret, however it is sent, and after a moment, whatever is sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostileJson, hostileQueries } from '../../test/kit/hostile-shapes.ts';
import { assertQuick } from '../../test/kit/quick.ts';
import { redactBody, redactName, redactUrl, startOfBody } from './requests.ts';

test('the values of secret fields are redacted with everything inside them, in JSON and in what is almost JSON', () => {
  for (const [sent, kept] of [
    ['{"a":1,"secret":"x","b":2}', '{"a":1,"secret":"[redacted]","b":2}'],
    ['{"password":{"c":[1,{"d":"]}"}]},"b":2}', '{"password":"[redacted]","b":2}'],
    ['{"token":null,"seed":7,"api-key":true}', '{"token":null,"seed":"[redacted]","api-key":"[redacted]"}'],
    ['{"client_secret" :\n "x\\"y", "b": 2}', '{"client_secret" :\n "[redacted]", "b": 2}'],
    ['{"pass\\u0077ord":"x"}', '{"password":"[redacted]"}'],
    ['{"a\\"secret":"x"}', '{"a\\"secret":"[redacted]"}'],
    ['{"secret":"no end', '{"secret":"[redacted]"'],
    ['{"secret":["no","end', '{"secret":"[redacted]"'],
    ['it is "odd" and "secret":"x"', 'it is "odd" and "secret":"[redacted]"'],
    ['a quote " and then "secret": "x" and more', 'a quote " and then "secret": "[redacted]" and more'],
    ['{"a":"secret","b":"token"}', '{"a":"secret","b":"token"}'],
    ['{"secret":"x","secret":"y"}', '{"secret":"[redacted]","secret":"[redacted]"}'],
  ] as const)
    assert.equal(redactBody(sent), kept);
});

test('the values of secret parameters are redacted, however many question marks come before them', () => {
  for (const [sent, kept] of [
    ['key=1', 'key=[redacted]'],
    ['a=1&api_token=2&b=3', 'a=1&api_token=[redacted]&b=3'],
    ['?key?key=1&a=2', '?key?key=[redacted]&a=2'],
    ['a?secret?b=1', 'a?secret?b=[redacted]'],
    ['url=https://x.example?key=1&a=2', 'url=https://x.example?key=[redacted]&a=2'],
    ['key==1', 'key=[redacted]'],
    ['KEY=1#code=2 &sig=3"', 'KEY=[redacted]#code=[redacted] &sig=[redacted]"'],
    ['limit=10&starting_after=pay_1', 'limit=10&starting_after=pay_1'],
  ] as const)
    assert.equal(redactUrl(`/v1/payments?${sent}`).query, kept);
});

test('a secret is found however it is escaped, in JSON as PHP and .NET write it and in a URL', () => {
  for (const [sent, kept] of [
    ['{"url":"https:\\/\\/me:hush@h.example\\/"}', '{"url":"https://[redacted]@h.example/"}'],
    ['{"url":"https:\\/\\/h.example\\/claim\\/hush"}', '{"url":"https://h.example/claim/[redacted]"}'],
    ['{"url":"https://h.example/?a=1\\u0026token=hush"}', '{"url":"https://h.example/?a=1&token=[redacted]"}'],
    ['{"note":"sk\\u005Flive_hush"}', '{"note":"[redacted]"}'],
    ['{"url":"https://h.example/setup#token=hush"}', '{"url":"https://h.example/setup#token=[redacted]"}'],
    ['{"a":"\\\\u0022\\u0022\\u005c","b":"\\n\\"\\\\"}', '{"a":"\\\\u0022\\u0022\\u005c","b":"\\n\\"\\\\"}'],
  ] as const)
    assert.equal(redactBody(sent), kept);
  for (const [sent, kept] of [
    ['%74oken=hush', 'token=[redacted]'],
    ['a=sk%5flive%5Fhush', 'a=[redacted]'],
    ['a=Bearer%20hush&b=Bearer+hush', 'a=[redacted]&b=[redacted]'],
    ['url=https%3A%2F%2Fme%3Ahush%40h.example%2F', 'url=https%3A%2F%2F[redacted]%40h.example%2F'],
    ['url=https%3A%2F%2Fh.example%2Fclaim%2Fhush', 'url=https%3A%2F%2Fh.example%2Fclaim%2F[redacted]'],
    ['mnemonic=hush&passphrase=hush', 'mnemonic=[redacted]&passphrase=[redacted]'],
  ] as const)
    assert.equal(redactUrl(`/v1/payments?${sent}`).query, kept);
  assert.equal(redactUrl('/Claim/hush').path, '/Claim/[redacted]');
});

test('a secret at the end of what is searched is not kept in half, although other secrets make room for it', () => {
  const room = `"secret":"${'s'.repeat(2_500)}",`;
  for (const hidden of ['https://me:hush-hush@host.example/', `xprv${'hush'.repeat(25)}`, 'sk_live_hushhush', '?token=hush']) {
    for (let before = 4_096 - room.length - hidden.length; before < 4_096 - room.length; before++) {
      const kept = redactBody(`{${room}"note":"${'x'.repeat(before - 20)} ${hidden}","end":1}`);
      assert.doesNotMatch(kept, /hush/, `${before} characters before ${hidden}`);
    }
  }
});

test('the worst bodies and queries are redacted in a moment', () => {
  const worst = { ...hostileJson(65_536), ...hostileQueries(16_000) };
  for (const [shape, text] of Object.entries(worst)) {
    assertQuick(`${shape}, 20 times`, 500, () => {
      for (let i = 0; i < 20; i++) {
        redactBody(startOfBody(text));
        redactBody(text);
        redactUrl(`/v1/payments?${text}`);
        redactUrl(`/${text}`);
        redactName(text);
      }
    });
  }
});
