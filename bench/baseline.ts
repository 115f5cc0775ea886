/**
 * What a bare server of the same kind does: one single-row INSERT, or one SELECT, per request. Same Fastify, same driver, same database.
 */
import { randomBytes } from 'node:crypto';
import Fastify from 'fastify';
import { openDb } from '../src/db/db.ts';
import { createLog } from '../src/log.ts';

const db = await openDb({ url: process.env.DATABASE_URL!, log: createLog('error') });
const { sql } = db;
await sql`create table if not exists bare_payments (id text primary key, merchant_id text not null, amount_usd_cents bigint not null, return_url text, status text not null, created_at timestamptz not null default now())`;
const app = Fastify();
app.post<{ Body: { amount_usd: number; return_url: string } }>('/payments', async (request, reply) => {
  const id = `pay_${randomBytes(18).toString('base64url')}`;
  await sql`insert into bare_payments (id, merchant_id, amount_usd_cents, return_url, status)
    values (${id}, 'mer_1', ${Math.round(request.body.amount_usd * 100)}, ${request.body.return_url}, 'pending')`;
  reply.code(201);
  return {
    success: true,
    transaction_id: id,
    payment_url: `http://localhost:3000/pay?id=${id}`,
    amount_usd: request.body.amount_usd.toFixed(2),
    status: 'pending',
  };
});
app.get<{ Params: { id: string } }>('/payments/:id', async (request, reply) => {
  const [row] =
    await sql`select id, merchant_id, amount_usd_cents::text, return_url, status, created_at from bare_payments where id = ${request.params.id}`;
  if (!row) return reply.code(404).send({ error: 'not found' });
  return row;
});
await app.listen({ port: 0, host: '127.0.0.1' });
const { port } = app.server.address() as { port: number };
process.stdout.write(`ready http://127.0.0.1:${port}\n`);
process.on(
  'SIGTERM',
  () =>
    void app
      .close()
      .then(() => db.close())
      .then(() => process.exit(0)),
);
