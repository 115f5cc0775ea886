/**
 * The page of a payment with 10,000 transfers compared with that of a payment with one, requested one by one. Goal: <= 50 ms and <= 50
 * kB.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { client, testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { median, startChild } from './kit.ts';

const TRANSFERS = 10_000;
const ROUNDS = 25;

const database = await testDatabase({ parent: '/var/tmp' });
// Each look comes from a separate client: this measures a page, not the limit per client.
const environment = testEnvironment(database.url, database.folder, { TRUSTED_PROXIES: '127.0.0.1' });
const florin = await startChild('bench/serve.ts', environment);
const { url, secret } = JSON.parse(florin.line) as { url: string; secret: string };
const { sql } = database.db;

/** A completed payment that received so many equal transfers, as the follower and settling leave it. */
async function make(transfers: number): Promise<string> {
  const reply = await client(url, secret).post('/api/payment/create/simple', { amount_usd: 100, return_url: 'https://shop.example/' });
  const id = reply.json.transaction_id as string;
  const units = 100_000_000_000n / BigInt(transfers);
  await sql`
    insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, sources, from_at, until_at)
    select id, 1, merchant_id, 'DOGE', 'D', 10000000, 100000000000, '[]', created_at, created_at + interval '15 minutes' from payments where id = ${id}`;
  await sql`
    insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time, "values")
    select 'DOGE', md5(p.id || n) || md5(n::text) || ':0', p.id, p.merchant_id, md5(p.id || n) || md5(n::text), 'D', ${units.toString()}, 'output',
      p.created_at + n * interval '1 millisecond', 1000, 'b', p.created_at,
      jsonb_build_array(jsonb_build_object('usdE8', (${units.toString()}::numeric / 10)::bigint::text, 'at', p.created_at, 'basis', 'quote', 'reason', 'first_sight'))
    from payments p, generate_series(1, ${transfers}) n where p.id = ${id}`;
  await sql`update payments set status = 'completed', coin = 'DOGE', completed_at = clock_timestamp() where id = ${id}`;
  return id;
}
let asked = 0;
async function look(id: string): Promise<{ ms: number; bytes: number }> {
  const began = performance.now();
  asked++;
  const reply = await fetch(`${url}/pay?id=${id}`, { headers: { 'x-forwarded-for': `10.0.${asked >> 8}.${asked & 255}` } });
  const bytes = (await reply.arrayBuffer()).byteLength;
  if (reply.status !== 200) throw new Error(`the page answered ${reply.status}`);
  return { ms: performance.now() - began, bytes };
}

const [many, one] = [await make(TRANSFERS), await make(1)];
await sql`analyze`;
for (let i = 0; i < 10; i++) for (const id of [many, one]) await look(id);
const rounds: { many: { ms: number; bytes: number }; one: { ms: number; bytes: number } }[] = [];
for (let i = 0; i < ROUNDS; i++) rounds.push({ many: await look(many), one: await look(one) });
// Anything not requested in the last five seconds is read from the database.
const anew: { ms: number; bytes: number }[] = [];
for (let i = 0; i < 7; i++) {
  await sleep(5_200);
  anew.push(await look(many));
}
await florin.stop();
await database.drop();
const line = (of: 'many' | 'one') => `${median(rounds.map((r) => r[of].ms)).toFixed(1)} ms, ${(rounds[0]![of].bytes / 1000).toFixed(1)} kB`;
console.log(`transfers: the page of a payment with ${TRANSFERS.toLocaleString('en')} transfers
  florin    ${line('many')}, ${median(anew.map((r) => r.ms)).toFixed(1)} ms when nobody asked for five seconds
  baseline  ${line('one')} of a payment with one
  ratio     ${median(rounds.map((r) => r.many.ms / r.one.ms)).toFixed(1)}
  goal      <= 50 ms and <= 50 kB`);
