/** Forms of the hosted page: which ones are believed, and what is said about a refusal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import { faultOf, readForm } from './forms.ts';
import { formToken } from './responses.ts';
import { chooseLanguage } from './words.ts';

const ctx = { installKey: Buffer.alloc(32, 7) } as unknown as Context;
const other = { installKey: Buffer.alloc(32, 8) } as unknown as Context;
const id = `pay_${'a'.repeat(24)}`;
const formOf = (fields: Record<string, string>) => ({ body: new URLSearchParams(fields) });
const { words } = chooseLanguage({ chosen: 'en', payment: null, accept: '', merchant: null });

test('a form is believed only with the token of its payment and install', () => {
  const token = formToken(ctx, id);
  assert.equal(readForm(ctx, formOf({ id, token })).id, id);
  const wrong: Record<string, string>[] = [
    { id },
    { id, token: `${token}x` },
    { id, token: formToken(other, id) },
    { id: `pay_${'b'.repeat(24)}`, token },
    { id: 'pay_short', token: formToken(ctx, 'pay_short') },
    {},
  ];
  for (const fields of wrong)
    assert.throws(
      () => readForm(ctx, formOf(fields)),
      (error) => error instanceof Problem && error.code === 'payment_not_found',
    );
  assert.throws(() => readForm(ctx, { body: 'text' }), Problem);
});

test('a refusal is shown at its field, with what was typed', () => {
  const fields = new URLSearchParams({ currency: 'BTC', address: 'x'.repeat(300), email: 'me@shop.example' });
  const address = faultOf(
    new Problem('address_invalid', { coin: 'BTC', reason: 'it is not an address' }, { param: 'address' }),
    fields,
    words,
  );
  assert.equal(address.field, 'address');
  assert.match(address.text, /BTC/);
  assert.deepEqual(address.given, { address: 'x'.repeat(200), email: 'me@shop.example' });
  const email = faultOf(new Problem('parameter_invalid', { reason: 'wrong' }, { param: 'email' }), fields, words);
  assert.equal(email.field, 'email');
  const price = faultOf(new Problem('price_unavailable', { coin: 'BTC', reason: 'old' }), fields, words);
  assert.deepEqual([price.field, price.text], [null, `BTC: ${words.noPrice}`]);
  const unknown = faultOf(new Problem('payment_status_conflict', { status: 'expired', action: 'canceling' }), fields, words);
  assert.equal(unknown.text, words.refused);
});
