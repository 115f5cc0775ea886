/**
 * The dashboard of a merchant with 1,000,000 payments compared with 1,000: home, list, filters. Goal: medians <= 2 times, or under 50 ms.
 */
import { startApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { openDb } from '../src/db/db.ts';
import { createLog } from '../src/log.ts';
import { createMerchant } from '../src/merchants/merchants.ts';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { Person, setupToken } from '../test/kit/person.ts';
import { fillPayments } from './fill.ts';
import { median } from './kit.ts';

const ROUNDS = 25;

/** One service on one database each. */
async function fill(count: number) {
  const database = await testDatabase({ parent: '/var/tmp' });
  const app = await startApp(readConfig(testEnvironment(database.url, database.folder)), { log: createLog('silent') });
  const { merchantId, setupUrl } = await createMerchant(app.ctx, { name: 'Bench shop' });
  const person = new Person(app.url!);
  const token = setupToken(setupUrl);
  await person.post('/set-up', { token, name: 'Olga Owner', email: 'olga@shop.example', password: person.password });
  const db = await openDb({ url: database.url, log: createLog('error') });
  await fillPayments(db, { merchantId, count });
  await db.close();
  return {
    get: async (path: string) => {
      const started = performance.now();
      const reply = await person.get(`/live${path}`);
      if (reply.status !== 200) throw new Error(`${path}: ${reply.text}`);
      return performance.now() - started;
    },
    stop: async () => {
      await app.stop();
      await database.drop();
    },
  };
}
const large = await fill(1_000_000);
const small = await fill(1_000);
const day = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
const paths: readonly (readonly [name: string, path: string])[] = [
  ['home, 90 days and the 90 before', `/home?from=${day(89).slice(0, 10)}&until=${day(0).slice(0, 10)}`],
  ['list', '/payments'],
  ['list by status and coin', '/payments?status=completed&currency=LTC'],
  ['list by exception', '/payments?exception=late'],
  ['list of a day half a year ago', `/payments?from=${day(181)}&until=${day(180)}`],
  ['list by an amount that nothing has', '/payments?at_least=900000'],
  ['needs attention', '/attention'],
  ['count for the navigation', '/attention/count'],
];
for (const [name, path] of paths) {
  const taken = { large: [] as number[], small: [] as number[] };
  for (let i = -3; i < ROUNDS; i++) {
    // Alternating, after three of each to warm up, so that the machine's speed cancels out.
    const one = { large: await large.get(path), small: await small.get(path) };
    if (i < 0) continue;
    taken.large.push(one.large);
    taken.small.push(one.small);
  }
  const say = (times: number[]) => `median ${median(times).toFixed(1)} ms, slowest ${Math.max(...times).toFixed(1)} ms`;
  const ratio = median(taken.large) / median(taken.small);
  console.log(`dashboard: ${name}
  1,000,000  ${say(taken.large)}
  1,000      ${say(taken.small)}
  ratio      ${ratio.toFixed(2)}
  goal       ratio <= 2, or a median under 50 ms; within a second always${ratio > 2 && median(taken.large) > 50 ? '\n  MISSED' : ''}`);
}
await large.stop();
await small.stop();
