/** Runs the tests that depend on dates, at other dates; `npm run test:long` runs all tests at them. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { openTab, startBrowser } from '../kit/browser.ts';
import { testDatabase } from '../kit/database.ts';
import { DATES, shiftMs } from '../kit/shifted-clock.ts';

const OF_DATES = [
  'test/flows/dates.test.ts',
  'test/flows/test-mode.test.ts',
  'test/browser/still.test.ts',
  'test/dashboard/digests.test.ts',
  'test/dashboard/usage.test.ts',
  'src/web/checkout/page.test.ts',
];

if (shiftMs() === 0) {
  for (const [index, { name }] of DATES.entries()) {
    test(`${name}: the tests that depend on dates pass`, async () => {
      const { NODE_TEST_CONTEXT: _, FLORIN_TEST_DATABASE: __, ...env } = process.env;
      const child = spawn(process.execPath, ['test/kit/run.ts', `--date=${index + 1}`, ...OF_DATES], {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [shown, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
      assert.equal(code, 0, shown);
      assert.ok(Number(/^ℹ pass (\d+)$/m.exec(shown)?.[1]) > 40, shown);
    });
  }
} else {
  test('the tests, the processes they start, the database and the pages share one date, which is not today’s', async () => {
    const { at } = DATES.find(({ timeZone }) => timeZone === process.env.TZ)!;
    const [database, browser] = await Promise.all([testDatabase(), startBrowser()]);
    const tab = await openTab(browser, 'about:blank');
    try {
      const [row] = await database.db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
      const dates = {
        tests: Date.now(),
        children: 1000 * Number((await promisify(execFile)('date', ['+%s'], { env: {} })).stdout),
        database: row!.now.getTime(),
        pages: (await tab.page.evaluate('Date.now()')) as number,
      };
      for (const [what, ms] of Object.entries(dates)) {
        assert.ok(Math.abs(ms - dates.tests) < 60_000, `${what} are at ${new Date(ms).toISOString()}`);
        assert.ok(ms > Date.parse(at) && ms < Date.parse(at) + 7_200_000, `${what} are at ${new Date(ms).toISOString()}`);
      }
    } finally {
      await tab.close();
      await browser.close();
      await database.drop();
    }
  });
}
