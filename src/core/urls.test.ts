import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostOfUrl, parseWebUrl } from './text.ts';

test('addresses that are accepted can be opened, and their host is written in ASCII', () => {
  for (const [text, kept] of [
    ['https://shop.example', 'https://shop.example'],
    ['HTTP://Shop.example:8080/a?b={OrderId}#c', 'HTTP://Shop.example:8080/a?b={OrderId}#c'],
    ['https://münchen.example/über', 'https://xn--mnchen-3ya.example/über'],
    ['http://[::1]:4000/', 'http://[::1]:4000/'],
  ] as const) {
    assert.equal(parseWebUrl(text)?.text, kept, text);
    assert.ok(hostOfUrl(kept));
  }
});

test('addresses that parsers read differently, or that cannot be opened, are refused', () => {
  for (const text of [
    ...[
      'https://[',
      'https://%%',
      'https://a.example:99999',
      'https://',
      'https:///a',
      'shop.example',
      'javascript:alert(1)',
      '//a.example',
    ],
    ...[
      'https://a@b.example',
      'https://a\\b.example',
      'https://a.example/ b',
      'https://a.example/\x1b',
      'https://{OrderId}/',
      'ftp://a.example',
    ],
    ...['https://a.example/"', 'https://a{InvoiceId}.example/'],
  ])
    assert.equal(parseWebUrl(text), null, text);
  assert.equal(hostOfUrl('https://['), null);
});
