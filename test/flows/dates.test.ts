/** Runs the tests that depend on dates, at the hardest of the other dates; `npm run test:long` runs all tests at all of them. */
// Invariant: The tests pass on other dates.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { DATES, shiftMs } from '../kit/shifted-clock.ts';

const OF_DATES = [
  'test/flows/test-mode.test.ts',
  'test/browser/still.test.ts',
  'test/dashboard/digests.test.ts',
  'test/dashboard/usage.test.ts',
  'src/web/checkout/page.test.ts',
];

// `npm run test:long` runs this file at the other dates too.
if (shiftMs() === 0) {
  const index = DATES.findIndex(({ timeZone }) => timeZone === 'Europe/Berlin');
  const { name } = DATES[index]!;
  test(`${name}: the tests that depend on dates pass`, async () => {
    const { NODE_TEST_CONTEXT: _, FLORIN_TEST_DATABASE: __, ...env } = process.env;
    const child = spawn(process.execPath, ['test/kit/run.ts', `--date=${index + 1}`, ...OF_DATES], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [shown, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    assert.equal(code, 0, shown);
    assert.ok(Number(/^ℹ pass (\d+)$/m.exec(shown)?.[1]) > 40, shown);
    assert.match(shown, /✔ the tests, the processes they start, the database and the pages share one date/);
  });
}
