/** The bounds of a request line and its headers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostileForms, hostileQueries } from '../../test/kit/hostile-shapes.ts';
import { assertQuick } from '../../test/kit/quick.ts';
import { excessOf, excessOfPairs } from './loop-guard.ts';

const ask = (url: string, headers: Record<string, string> = {}, lines = 20) =>
  excessOf({ url, headers, rawHeaders: Array<string>(2 * lines).fill('x') });

test('what honest clients send is read, and what exceeds a bound is refused with the bound', () => {
  for (const [excess, url, headers, lines] of [
    [null, '/v1/payments?limit=10&metadata[order]=7'],
    [null, `/v1/payments?${'a=1&'.repeat(99)}b=2`],
    [/its query has more than 100 parameters/, `/v1/payments?${'a=1&'.repeat(100)}b=2`],
    [null, `/v1/payments?${'n'.repeat(200)}=${'v'.repeat(5_000)}`],
    [/a parameter whose name has more than 200 characters/, `/v1/payments?a=1&${'n'.repeat(201)}=1`],
    [null, `/${'x'.repeat(7_999)}`],
    [/its URL has more than 8000 characters/, `/${'x'.repeat(8_000)}`],
    [null, '/', {}, 100],
    [/it has more than 100 header lines/, '/', {}, 101],
    [null, '/', { origin: `https://${'a'.repeat(253)}` }],
    [/its Origin header has more than 300 characters/, '/', { origin: 'a'.repeat(301) }],
  ] as const) {
    const found = ask(url, headers, lines);
    if (excess === null) assert.equal(found, null, url.slice(0, 100));
    else assert.match(String(found), excess);
  }
});

test('a long query is refused before its parameters are listed', () => {
  for (const [name, text] of Object.entries({ ...hostileQueries(4_000_000), ...hostileForms(4_000_000) })) {
    assertQuick(name, 100, () => excessOfPairs(text, 'its form'));
  }
});
