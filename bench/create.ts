/** POST create/simple compared with a bare INSERT per request. Goal: rate >= 1.3, p99 <= 1.2. */
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { compare, startChild } from './kit.ts';

const database = await testDatabase({ parent: '/var/tmp' });
const environment = testEnvironment(database.url, database.folder, { PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}' });
const florin = await startChild('bench/serve.ts', environment);
const bare = await startChild('bench/baseline.ts', environment);
const { url, secret } = JSON.parse(florin.line) as { url: string; secret: string };
const body = JSON.stringify({ amount_usd: 25.5, return_url: 'https://shop.example/thanks' });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${secret}` };
await compare('create: POST /api/payment/create/simple', {
  subject: { url: `${url}/api/payment/create/simple`, method: 'POST', headers, body },
  baseline: { url: `${bare.line}/payments`, method: 'POST', headers, body },
  goal: 'rate >= 1.3, p99 <= 1.2',
});
await florin.stop();
await bare.stop();
await database.drop();
