/**
 * Random schedules of refunds on a chain that the test mines, with the real database: requests are repeated with the same idempotency key,
 * approved by two members at once, put into signing files, uploaded twice, replaced, marked as sent by hand and canceled, other wallets
 * spend the same money, blocks fall off the chain, and any step can be killed between two statements. No customer is paid twice, no money
 * is lost, and the books balance after each schedule.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { addressOfScript } from '../../src/addresses/address.ts';
import { OPERATOR_ACTOR } from '../../src/cli/command.ts';
import type { Context } from '../../src/context.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import type { Sql, Tx } from '../../src/db/db.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { followOutgoing } from '../../src/outgoing/follow-outgoing.ts';
import { requestRefund } from '../../src/outgoing/refunds.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, cancelSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { checkBooks } from '../kit/books.ts';
import { isLongRun } from '../kit/long.ts';
import { mayFail, minedOutpoints, nodeOf, randomOf, spendingOf } from '../kit/schedules.ts';
import { account } from '../kit/shop.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';

const SCHEDULES = Number(process.env.FLORIN_SCHEDULES ?? (isLongRun ? 300 : 3));
const SEED = Number(process.env.FLORIN_SEED ?? 1);
const STEPS = 20;
/** Confirmations after which a sweep ends, and more than any reorganization here takes back. */
const DEEP = 8;
const DESTINATION = 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4';
const SECRET = account('BTC').privateExtendedKey;
const actor = { userId: '', name: 'Test', ip: '' };

test(`${SCHEDULES} random schedules of refunds: nobody is paid twice, nothing is lost, and the books balance`, async (t) => {
  t.diagnostic(`seed ${SEED}; FLORIN_SEED and FLORIN_SCHEDULES choose others`);
  await tellStepped(
    ['own'],
    async (told) => {
      const { ctx } = told.app.app;
      const { merchantId } = told.app.merchant;
      await setDestination(ctx, { merchantId, coin: 'BTC', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
      await makeAtOnce(told);
      const kills = { count: 0 };
      for (let i = 0; i < SCHEDULES; i++) {
        try {
          await playSchedule(told, { random: randomOf(SEED * 100_000 + i), kills });
        } catch (error) {
          throw new Error(`schedule ${i} of seed ${SEED}`, { cause: error });
        }
      }
      const ends = await ctx.db.sql<{ what: string; count: number }[]>`
        select state || case when file_id is null then '' else ' in a file' end as what, count(*)::int as count from outgoing_payments group by 1 order by 1`;
      t.diagnostic(`${kills.count} steps killed; refunds: ${ends.map(({ what, count }) => `${count} ${what}`).join(', ')}`);
    },
    { environment: { PRICES: 'static:BTC=1000.00' } },
  );
});

/** Two people make the file of the same refund: the second gets an error that says so, also if the first one commits between its reads. */
async function makeAtOnce({ app, chain, look, pay }: SteppedShop): Promise<void> {
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId, mode: 'live' as const };
  const [payment] = await pay(chain, 25, 40);
  chain.mine(DEEP);
  await look(2);
  const { json } = await app.live.post('/v1/refunds', { payment_id: payment, address: 'bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c' });
  await approveOutgoing(ctx, { kind: 'refund', ...owner, id: json.id, actor });
  const make = (by: Context) => makeRefundFile(by, { ...owner, coin: 'BTC', speed: 'normal', actor });
  let first: string | null = null;
  const begin: Context['db']['begin'] = async (work) => {
    first ??= (await make(ctx)).sweep.id;
    return ctx.db.begin(work);
  };
  await assert.rejects(make({ ...ctx, db: { ...ctx.db, begin } }), { code: 'refund_file_empty' });
  const files = await ctx.db.sql<{ id: string }[]>`select id from signing_files`;
  assert.deepEqual([...files], [{ id: first }]);
  await cancelSweep(ctx, { ...owner, id: first!, actor });
  await followOutgoing(ctx);
  await cancelOutgoing(ctx, { kind: 'refund', ...owner, id: json.id, actor, idempotency: null, render: () => ({ status: 200, body: '' }) });
}

class Killed extends Error {}
/** The same service, whose process dies after some statements: what it did not commit is rolled back, and no caller gets an answer. */
function killedAfter(ctx: Context, statements: number, kills: { count: number }): Context {
  let left = statements;
  const live = () => {
    if (left-- > 0) return;
    kills.count++;
    throw new Killed();
  };
  const watch = <T extends Sql | Tx>(sql: T): T =>
    new Proxy(sql, {
      apply: (target, self, parts) => {
        live();
        return Reflect.apply(target as never, self, parts);
      },
    });
  const begin: Context['db']['begin'] = async (work) => {
    const done = await ctx.db.begin((tx) => work(watch(tx)));
    live();
    return done;
  };
  return { ...ctx, db: { ...ctx.db, sql: watch(ctx.db.sql), begin } };
}

type Row = { id: string; state: string; units: bigint; address: string; txid: string | null; sweepId: string | null };
type Play = { random: () => number; kills: { count: number } };

async function playSchedule({ app, chain, servers, look, pay }: SteppedShop, { random, kills }: Play): Promise<void> {
  const { ctx: alive } = app.app;
  const { sql } = alive.db;
  const owner = { merchantId: app.merchant.merchantId, mode: 'live' as const };
  const source = alive.chains.get('bitcoin')!;
  const node = nodeOf(chain);
  const [server] = servers;
  server!.judge((hex) => node.take(node.read(hex)));
  const below = (n: number): number => Math.floor(random() * n);
  const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
  const paid = await pay(chain, 25, 40, 30);
  chain.mine(DEEP);
  await look(2);
  const deposits = await sql<{ ref: string; units: bigint }[]>`select ref, units from transfers where payment_id = any(${paid}::text[])`;
  assert.equal(deposits.length, 3);

  const refunds = () =>
    sql<Row[]>`
      select id, state, units, address, txid, file_id as "sweepId" from outgoing_payments where payment_id = any(${paid}::text[]) order by number`;
  // Money of earlier schedules may pay for refunds, too.
  const [last] = await sql<{ number: bigint }[]>`select coalesce(max(number), 0) as number from signing_files`;
  const sweeps = () =>
    sql<{ id: string; state: string }[]>`select id, state from signing_files where number > ${last!.number} order by number`;
  const pick = <T>(all: readonly T[]): T | undefined => all[below(all.length)];
  const anyRefund = async (...states: string[]) => pick((await refunds()).filter(({ state }) => states.includes(state)));
  const anySweep = async (...states: string[]) => pick((await sweeps()).filter(({ state }) => states.includes(state)));
  /** What a step runs on: mostly the service, sometimes one that is killed at any statement. */
  const service = (): Context => (below(4) === 0 ? killedAfter(alive, below(14), kills) : alive);
  const attempt = async <T>(work: Promise<T>): Promise<T | null> => {
    try {
      return await mayFail(work);
    } catch (error) {
      if (error instanceof Killed) return null;
      throw error;
    }
  };
  const twice = (step: (ctx: Context) => Promise<unknown>) => Promise.all([attempt(step(service())), attempt(step(service()))]);

  const asked = new Map<string, string>();
  const request = async () => {
    const key = `${paid[0]} ${below(5)}`;
    const draw = randomOf(hash(key).readUInt32LE());
    const paymentId = paid[Math.floor(draw() * 3)]!;
    const share = BigInt(1 + Math.floor(draw() * 3));
    const address = addressOfScript(`0014${hash(key).toString('hex').slice(0, 40)}`, { coin: 'BTC', network: 'mainnet' })!;
    const send = async (ctx: Context) => {
      const { body } = await requestRefund(ctx, {
        ...{ ...owner, paymentId, rate: 'payment', address, reason: null, actor: OPERATOR_ACTOR },
        asked: share === 1n ? { kind: 'all' } : { kind: 'coin', units: () => deposits[0]!.units / share },
        idempotency: { claim: hash(`claim ${key}`), fingerprint: hash(key) },
        render: ({ id }) => ({ status: 201, body: id }),
      });
      const id = Buffer.from(body as never).toString();
      assert.equal(asked.get(key) ?? id, id, 'the same key is the same refund');
      asked.set(key, id);
    };
    await twice(send);
  };
  const upload = async (id: string) => {
    const file = await readSigningFileOf(alive, { merchantId: owner.merchantId, id });
    const recipients = (await refunds()).map(({ address }) => address).join(' ');
    const content = signFile({ content: signingFileText(file), secret: SECRET, destination: DESTINATION, recipients }).text;
    await twice((ctx) => acceptSigned(ctx, { ...owner, content, actor }));
  };
  let seen: string | null = null;
  const follow = async (ctx: Context) => {
    // What waited for a minute is due again.
    await sql`update signed_transactions set sent_at = sent_at - interval '61 seconds'`;
    seen = (await attempt(followSweeps(ctx, source, below(2) ? seen : null))) ?? null;
    await attempt(followOutgoing(ctx));
  };
  const cancel = (ctx: Context, id: string) =>
    cancelOutgoing(ctx, { kind: 'refund', ...owner, id, actor, idempotency: null, render: () => ({ status: 200, body: '' }) });
  /** Money that other wallets sent to customers, by refund. */
  const byHand = new Map<string, bigint>();
  const make = (ctx: Context) => makeRefundFile(ctx, { ...owner, coin: 'BTC', speed: 'normal', actor });

  const approve = async () => {
    const refund = await anyRefund('requested');
    if (refund) await twice((ctx) => approveOutgoing(ctx, { kind: 'refund', ...owner, id: refund.id, actor }));
  };
  const sign = async () => {
    const sweep = await anySweep('made');
    if (sweep) await upload(sweep.id);
  };
  const steps: (() => Promise<unknown>)[] = [
    request,
    request,
    approve,
    async () => {
      const refund = await anyRefund('requested');
      if (refund) await attempt(approveOutgoing(service(), { kind: 'refund', ...owner, id: refund.id, actor }));
    },
    () => twice(make),
    () => attempt(make(service())),
    sign,
    sign,
    async () => {
      const sweep = await anySweep('made');
      if (sweep && below(2)) await attempt(cancelSweep(service(), { ...owner, id: sweep.id, actor }));
    },
    async () => {
      const sweep = await anySweep('signed', 'sent');
      if (sweep && (await attempt(replaceSweep(service(), { ...owner, id: sweep.id, speed: 'fast', actor })))) await upload(sweep.id);
    },
    async () => {
      // The merchant sends it from another wallet, once Florin recorded that no file does.
      const refund = await anyRefund('approved', 'signed', 'sent');
      if (!refund || below(3) > 0) return;
      const txid = hash(`by hand ${refund.id}`).toString('hex');
      await twice((ctx) => markOutgoingSent(ctx, { kind: 'refund', ...owner, id: refund.id, txid, actor }));
      const after = (await refunds()).find(({ id }) => id === refund.id)!;
      if (after.txid === txid) byHand.set(refund.id, after.units);
    },
    async () => {
      const refund = await anyRefund('requested', 'approved', 'signed', 'sent');
      if (refund && below(3) === 0) await attempt(cancel(service(), refund.id));
    },
    () => attempt(makeSweep(service(), { ...owner, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor })),
    () => follow(service()),
    () => follow(service()),
    // Two processes at once, as while one replaces the other.
    () => Promise.all([follow(service()), follow(service())]),
    async () => chain.mine(1 + below(2)),
    async () => node.rewind(1 + below(3)),
    async () => {
      // The merchant's own wallet spends one of the deposits.
      const { ref, units } = pick(deposits)!;
      const input = { txid: ref.slice(0, 64), vout: Number(ref.slice(65)), address: '', units };
      if (below(4) === 0)
        node.take(spendingOf(input, [{ units: units - 90_000n, script: `0014${'22'.repeat(20)}`, address: 'elsewhere' }]));
    },
    async () => {
      server!.behave('down');
      await follow(service());
      server!.behave('well');
    },
    () => look(),
  ];

  /** No refund is paid by more than one transaction, or by a file and by hand, or more than its amount. */
  const check = async () => {
    const held = await sql`select input from signing_inputs where released_at is null group by chain, input having count(*) > 1`;
    assert.deepEqual([...held], [], 'an input is in two files');
    for (const refund of await refunds()) {
      const mined = chain.blocks.flatMap(({ txs }) => txs.flatMap((tx) => tx.outputs.filter(({ address }) => address === refund.address)));
      const sent = [...mined.map(({ units }) => units), ...(byHand.has(refund.id) ? [byHand.get(refund.id)!] : [])];
      assert.ok(sent.length <= 1, `${refund.id} is paid ${sent.length} times`);
      for (const units of sent) assert.equal(units, refund.units);
      if (refund.state === 'confirmed') assert.equal(sent.length, 1, 'a confirmed refund is not paid');
      if (['requested', 'failed', 'canceled'].includes(refund.state)) assert.equal(sent.length, 0, `a ${refund.state} refund is paid`);
    }
  };
  // Most schedules reach a file that is signed.
  for (const step of [request, request, request, approve, approve, () => twice(make), sign]) {
    await step();
    await check();
  }
  for (let step = 0; step < STEPS; step++) {
    await steps[below(steps.length)]!();
    await check();
  }

  // In the end nobody changes anything, and everything becomes final.
  for (let quiet = 0; quiet < 4; quiet++) {
    for (const { id, state } of await sweeps()) if (state === 'made') await cancelSweep(alive, { ...owner, id, actor });
    await follow(alive);
    chain.mine(DEEP);
    await look(2);
    await follow(alive);
    await follow(alive);
    await check();
  }
  for (const { id, state } of await refunds()) if (state === 'requested' || state === 'approved') await cancel(alive, id);
  await check();
  for (const { id, state } of await refunds())
    assert.ok(['canceled', 'failed', 'confirmed'].includes(state) || (state === 'sent' && byHand.has(id)), `${id} ends ${state}`);
  const open = (await sweeps()).filter(({ state }) => ['made', 'signed', 'sent'].includes(state));
  assert.deepEqual(open, [], 'every file ends');

  const walletId = (await readWallets(alive, owner))[0]!.id;
  await checkBooks(alive, owner, { walletOf: () => walletId });
  const { holdings } = await readHoldings(alive, { ...owner, walletId, coin: 'BTC' });
  const left = new Set(holdings.map(({ ref }) => ref));
  const spent = minedOutpoints(chain);
  for (const { ref } of deposits) assert.ok(spent.has(ref) || left.has(ref), `${ref} is unspent and cannot be swept`);
}
