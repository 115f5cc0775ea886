/** Validation errors of a body: all of them at once, each with the allowed values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROBLEMS, Problem } from '../core/problem.ts';
import { PROBLEM_HELP } from '../core/problem-help.ts';
import { CreateSimple, CreateTransaction, Simulate } from '../http/schema.ts';
import { CreateEndpoint } from '../http/schema-webhooks.ts';
import { checkBody, readBody } from './body.ts';
import { parseJson } from './json.ts';

const RETURN_URL = 'https://shop.example/';
/** Code, parameter and message of each error, the most serious first. */
function faultsOf(run: () => unknown): string[] {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof Problem, String(error));
    return [error, ...error.others].map(({ code, message }) => `${code}: ${message}`);
  }
  return [];
}

test('each error says what is allowed', () => {
  const coin = 'must be one of BTC, ETH, LTC, DASH, DOGE, USDC, USDT, EURC, PYUSD, DAI';
  assert.deepEqual(
    faultsOf(() => checkBody(Simulate, parseJson('{"scenario":"lost","currency":"XMR"}'))),
    [
      'parameter_invalid: scenario is invalid: it must be one of success, slow, held, failed, underpaid, overpaid, late, reorg, replaced, expired, reversed, wrong_network, wrong_token.',
      `currency_unknown: currency ${coin}.`,
    ],
  );
  assert.deepEqual(
    faultsOf(() => checkBody(CreateSimple, parseJson(`{"amount_usd":true,"return_url":"","expires_in":1.5,"metadata":{"a":1}}`))),
    [
      'parameter_invalid: amount_usd is invalid: it must be a number or a decimal string, such as "25.50".',
      'parameter_invalid: return_url is invalid: it must be a string from 1 to 2048 characters.',
      'parameter_invalid: metadata.a is invalid: it must be a string of up to 500 characters.',
      'parameter_invalid: expires_in is invalid: it must be a whole number from 600 to 86400.',
    ],
  );
  const [events, description, ...more] = faultsOf(() =>
    checkBody(CreateEndpoint, parseJson(`{"url":"https://shop.example","events":[],"description":7}`)),
  );
  assert.equal(events, 'parameter_invalid: events is invalid: it must be a list from 1 to 30 entries.');
  assert.equal(description, 'parameter_invalid: description is invalid: it must be a string of up to 500 characters, or null.');
  assert.deepEqual(more, []);
  const fiat = { crypto: 'BTC', amount: 1, currency_fiat: 'XXX' };
  assert.match(
    faultsOf(() => checkBody(CreateTransaction, parseJson(JSON.stringify(fiat))))[0]!,
    /^fiat_unsupported: currency_fiat is not supported/,
  );
});

test('errors of structure and of values are reported together, the most serious first', () => {
  const read = (json: string) =>
    faultsOf(() =>
      readBody(CreateSimple, parseJson(json), () => ({
        amount: {
          params: ['amount_usd'],
          read: () => {
            throw new Problem('amount_invalid', {}, { param: 'amount_usd' });
          },
        },
        twice: {
          params: ['amount_usd', 'locale'],
          read: () => {
            throw new Problem('amount_invalid', {}, { param: 'amount_usd' });
          },
        },
      })),
    ).map((fault) => fault.split(':')[0]);
  assert.deepEqual(read('{"amount_usd":0}'), ['parameter_missing', 'amount_invalid']);
  assert.deepEqual(read('{"amount_usd":true}'), ['parameter_missing', 'parameter_invalid'], 'what has no valid value is not read');
  assert.deepEqual(read(`{"amount_usd":0,"locale":7,"return_url":"${RETURN_URL}"}`), ['parameter_invalid', 'amount_invalid']);
});

test('every error says what happened in a sentence, why it happens, and what to do', () => {
  const texts = Object.entries(PROBLEMS).flatMap(([code, { message }]) => {
    const { why, fix } = PROBLEM_HELP[code as keyof typeof PROBLEMS];
    assert.notEqual(why, fix, code);
    return [message, why, fix].map((text) => [code, text] as const);
  });
  for (const [code, text] of texts) {
    if (code !== 'amount_invalid') assert.match(text, /^[A-Z{`].{9,}[.}]$|--new NEW$|--to NEW$/i, code);
    assert.doesNotMatch(text, /\b(anew|whoever|by itself|stands here|is told|take back|be equal to)\b/i, code);
  }
  const whys = Object.values(PROBLEM_HELP).map(({ why }) => why);
  assert.equal(new Set(whys).size, whys.length, 'no explanation is used twice');
});
