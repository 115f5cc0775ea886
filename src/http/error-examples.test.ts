/** The examples of errors in the reference. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROBLEMS, type ProblemCode } from '../core/problem.ts';
import { errorExample } from './error-examples.ts';

test('the example of every error has a value for every detail of its message', () => {
  const unfilled = (Object.keys(PROBLEMS) as ProblemCode[]).filter((code) =>
    /\{\w+\}|undefined/.test(JSON.stringify(errorExample(code, 'https://pay.example'))),
  );
  assert.deepEqual(unfilled, []);
});
