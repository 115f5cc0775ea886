/** GET payment compared with a bare SELECT per request. Goal: rate >= 1.0. */
import { client, testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { compare, startChild } from './kit.ts';

const database = await testDatabase({ parent: '/var/tmp' });
const environment = testEnvironment(database.url, database.folder, { PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}' });
const florin = await startChild('bench/serve.ts', environment);
const bare = await startChild('bench/baseline.ts', environment);
const { url, secret } = JSON.parse(florin.line) as { url: string; secret: string };
const make = async (to: string, path: string, key: string) =>
  Promise.all(
    Array.from({ length: 500 }, async () => {
      const reply = await client(to, key).post(path, { amount_usd: 25.5, return_url: 'https://shop.example/thanks' });
      return reply.json.transaction_id as string;
    }),
  );
const ours = await make(url, '/api/payment/create/simple', secret);
const theirs = await make(bare.line, '/payments', secret);
await compare('get: GET /api/payment/{id}', {
  subject: { url, headers: { authorization: `Bearer ${secret}` }, paths: ours.map((id) => `/api/payment/${id}`) },
  baseline: { url: bare.line, headers: { authorization: `Bearer ${secret}` }, paths: theirs.map((id) => `/payments/${id}`) },
  goal: 'rate >= 1.0',
});
await florin.stop();
await bare.stop();
await database.drop();
