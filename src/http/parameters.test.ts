/** Which names are refused and which are only ignored, for all current routes. */
// Invariant: A misspelled parameter is refused with a suggestion; a documented one never is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mistakesBetween } from '#core/text';
import { createNameChecks, ignoredHeader, unknownProblems } from './parameters.ts';
import { ROUTES } from './routes.ts';

const CHECKS = createNameChecks(ROUTES);
type Given = { query?: Record<string, unknown>; body?: object; strict?: boolean };
async function check(operation: string, { query = {}, body = {}, strict = false }: Given) {
  const [method, path] = operation.split(' ');
  const route = ROUTES.find((one) => one.method === method && one.path === path)!;
  return (await CHECKS.get(route)!({ query, body: body as never, isStrict: async () => strict })) ?? { refused: [], ignored: [] };
}
const SIMPLE = 'POST /api/payment/create/simple';
const ADVANCED = 'POST /api/payment/create/advanced';
const LEGACY = 'POST /payments';
const LIST = 'GET /api/payments';

const REFUSED: readonly [operation: string, given: Given, param: string, hint: string][] = [
  // A typo of one or two letters
  [LEGACY, { body: { curency: 'LTC' } }, 'curency', 'Did you mean currency?'],
  [LEGACY, { body: { ammount: 1 } }, 'ammount', 'Did you mean amount?'],
  [SIMPLE, { body: { metdata: {} } }, 'metdata', 'Did you mean metadata?'],
  [SIMPLE, { body: { amuont_usd: 1 } }, 'amuont_usd', 'Did you mean amount_usd?'],
  [SIMPLE, { body: { return_uri: '' } }, 'return_uri', 'Did you mean return_url?'],
  [SIMPLE, { body: { expire_in: 600 } }, 'expire_in', 'Did you mean expires_in?'],
  [LIST, { query: { stauts: 'completed' } }, 'stauts', 'Did you mean status?'],
  [LIST, { query: { limt: '5' } }, 'limt', 'Did you mean limit?'],
  ['GET /v1/events', { query: { tpye: 'payment.created' } }, 'tpye', 'Did you mean type?'],
  // Different case or spelling
  [SIMPLE, { body: { amountUsd: 1 } }, 'amountUsd', 'Did you mean amount_usd?'],
  [SIMPLE, { body: { 'amount-usd': 1 } }, 'amount-usd', 'Did you mean amount_usd?'],
  [SIMPLE, { body: { AMOUNT_USD: 1 } }, 'AMOUNT_USD', 'Did you mean amount_usd?'],
  [SIMPLE, { body: { 'metadata[order]': 'A-1' } }, 'metadata[order]', 'Did you mean metadata?'],
  [ADVANCED, { body: { Tax: 1 } }, 'Tax', 'Did you mean tax?'],
  [LIST, { query: { startingAfter: 'pay_1' } }, 'startingAfter', 'Did you mean starting_after?'],
  [LIST, { query: { 'status[]': 'pending' } }, 'status[]', 'Did you mean status?'],
  // In the rows of a list
  [ADVANCED, { body: { items: [{ quantity: 1 }, { quantty: 2 }] } }, 'items[1].quantty', 'Did you mean quantity?'],
  [ADVANCED, { body: { items: [{ unitPrice: 2 }] } }, 'items[0].unitPrice', 'Did you mean unit_price?'],
  // Names that a sibling route accepts
  [SIMPLE, { body: { currency: 'LTC' } }, 'currency', 'This request does not take it; POST /payments does.'],
  [SIMPLE, { body: { tax: 1 } }, 'tax', 'This request does not take it; POST /api/payment/create/advanced does.'],
  [LEGACY, { body: { return_url: '' } }, 'return_url', 'This request does not take it; POST /api/payment/create/simple does.'],
  [ADVANCED, { body: { quantity: 2 } }, 'quantity', 'It belongs in items[].'],
  [ADVANCED, { body: { items: [{ tax: 1 }] } }, 'items[0].tax', 'It belongs in the body itself, next to the list.'],
  [LIST, { query: { completed_at: 'nope' } }, 'completed_at', 'This list cannot be filtered by it.'],
  [LIST, { query: { 'metadata.order': 'nope' } }, 'metadata.order', 'Did you mean metadata?'],
  [LIST, { query: { payment_id: 'nope' } }, 'payment_id', 'This request does not take it; GET /v1/refunds does.'],
  [LIST, { query: { created_at: 'today' } }, 'created_at', 'This list cannot be filtered by it.'],
  [LEGACY, { query: { currency: 'LTC' } }, 'currency', 'Send it in the body.'],
];

test('a name that was probably meant as another is refused with a suggestion', async () => {
  for (const [operation, given, param, hint] of REFUSED) {
    const { refused, ignored } = await check(operation, given);
    assert.deepEqual({ refused, ignored }, { refused: [{ param, hint }], ignored: [] }, `${operation} ${JSON.stringify(given)}`);
  }
  const [problem, ...others] = unknownProblems((await check(LEGACY, { body: { curency: 'LTC', metdata: {} } })).refused);
  assert.equal(problem!.message, 'There is no parameter curency here. Did you mean currency?');
  assert.deepEqual([problem!.status, problem!.type, problem!.param], [400, 'invalid_request', 'curency']);
  assert.deepEqual(
    others.map(({ param }) => param),
    ['metdata'],
  );
});

test('other names are ignored and reported, short ones too, however similar they are', async () => {
  const given = { order: 1, vat: 2, fax: 1, max: 3, id: 4, x: 5, customer_email: '', note: '', page: 2, reference: '', 'x y': 0 };
  assert.deepEqual(await check(ADVANCED, { body: given }), { refused: [], ignored: Object.keys(given) });
  const rows = { items: [{ color: 'red' }, { color: 'blue', note: '' }] };
  assert.deepEqual(await check(ADVANCED, { body: rows }), { refused: [], ignored: ['items[].color', 'items[].note'] });
  const query = { _: '1', page: '2', utm_source: 'mail', fields: 'all' };
  assert.deepEqual(await check(LIST, { query }), { refused: [], ignored: Object.keys(query) });
});

test('with strict_parameters all of them are refused', async () => {
  const { refused, ignored } = await check(SIMPLE, { body: { order: 1, items: [] }, query: { utm: '1' }, strict: true });
  assert.deepEqual(
    refused.map(({ param }) => param),
    ['utm', 'order', 'items'],
  );
  assert.deepEqual(ignored, []);
});

test('no documented name is refused or ignored, and names within metadata belong to the merchant', async () => {
  for (const route of ROUTES) {
    const properties = (schema: unknown) => (schema as { properties?: Record<string, any> } | undefined)?.properties ?? {};
    const body = Object.fromEntries(
      Object.entries(properties(route.body)).map(([name, schema]) => [
        name,
        schema.items?.properties ? [Object.fromEntries(Object.keys(schema.items.properties).map((inner) => [inner, 1]))] : 1,
      ]),
    );
    const query = Object.fromEntries(Object.keys(properties(route.query)).map((name) => [name, '1']));
    assert.deepEqual(await check(`${route.method} ${route.path}`, { query, body, strict: true }), { refused: [], ignored: [] }, route.path);
  }
  const metadata = { curency: 'LTC', amount_usd: '1', 'a.b[c]': '' };
  assert.deepEqual(await check(SIMPLE, { body: { metadata }, strict: true }), { refused: [], ignored: [] });
});

test('a body full of unknown names is read in limited time and reported in a limited header', async () => {
  const body = Object.fromEntries(Array.from({ length: 8_000 }, (_, i) => [`unknown${i}`, 1]));
  const { refused, ignored } = await check(SIMPLE, { body });
  assert.deepEqual([refused.length, ignored.length], [0, 8_000]);
  assert.equal(ignoredHeader(ignored).split(', ').length, 21);
  assert.equal(ignoredHeader(['a,b', 'ü\r\nx-evil: 1', '100%', 'items[].color']), 'a%2Cb, %C3%BC%0D%0Ax-evil:%201, 100%25, items[].color');
});

test('typos are recognized as people make them', () => {
  for (const [a, b, mistakes] of [
    ['status', 'status', 0],
    ['stauts', 'status', 1],
    ['curency', 'currency', 1],
    ['metdata', 'metadata', 1],
    ['statsu_', 'status', 2],
    ['', 'tax', 3],
    ['amount', 'count', 2],
  ] as const)
    assert.equal(mistakesBetween(a, b), mistakes, `${a} ${b}`);
});
