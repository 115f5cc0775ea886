/**
 * Random schedules of sweeps on a chain that the test mines, with the real database: files are made, canceled, signed, uploaded twice and
 * replaced by several processes at once, other wallets spend the same money, blocks fall off the chain, and the source goes away. After
 * each, no money is in two files, and in the end all of it is either with the merchant or can be swept.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { trialBalance } from '../../src/books/books.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { followMoved } from '../../src/signing/moved.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, cancelSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { checkBooks, EVER } from '../kit/books.ts';
import { isLongRun } from '../kit/long.ts';
import { mayFail, minedOutpoints, nodeOf, randomOf, spendingOf } from '../kit/schedules.ts';
import { account } from '../kit/shop.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';

const SCHEDULES = Number(process.env.FLORIN_SCHEDULES ?? (isLongRun ? 300 : 3));
const SEED = Number(process.env.FLORIN_SEED ?? 1);
const STEPS = 14;
/** Confirmations after which a sweep ends, and more than any reorganization here takes back. */
const DEEP = 8;
const DESTINATION = 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4';
const actor = { userId: '', name: 'Test', ip: '' };
/** Where another wallet sends its money. */
const ELSEWHERE = `0014${'22'.repeat(20)}`;
const SECRET = account('BTC').privateExtendedKey;

test(`${SCHEDULES} random schedules of sweeps: nothing is in two files, and nothing is lost`, async (t) => {
  t.diagnostic(`seed ${SEED}; FLORIN_SEED and FLORIN_SCHEDULES choose others`);
  await tellStepped(
    ['own'],
    async (told) => {
      for (let i = 0; i < SCHEDULES; i++) {
        try {
          await playSchedule(told, randomOf(SEED * 100_000 + i));
        } catch (error) {
          throw new Error(`schedule ${i} of seed ${SEED}`, { cause: error });
        }
      }
      const { sql } = told.app.app.ctx.db;
      const ends = await sql<{ what: string; count: number }[]>`
        select state || case when failure like '%conflict:%' then ' with a conflict' else '' end || case when round > 0 then ', replaced' else '' end
          as what, count(*)::int as count from signing_files group by 1 order by 1`;
      t.diagnostic(ends.map(({ what, count }) => `${count} ${what}`).join('; '));
    },
    { environment: { PRICES: 'static:BTC=1000.00' } },
  );
});

// Invariant: A sweep ends only with blocks that are still on the chain.
test('a sweep ends with the blocks that are still there, also when a round does not look at all of its transactions', async () => {
  await tellStepped(['own'], endAfterReorganization, { environment: { PRICES: 'static:BTC=1000.00' } });
});

test('deposits that another wallet moved leave the deposit addresses in the books, and others do not pay for their refunds', async () => {
  await tellStepped(['own'], moveElsewhere, { environment: { PRICES: 'static:BTC=1000.00' } });
});

async function moveElsewhere({ app, chain, servers, look, pay }: SteppedShop): Promise<void> {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  const source = ctx.chains.get('bitcoin')!;
  const node = nodeOf(chain);
  servers[0]!.judge((hex) => node.take(node.read(hex)));
  await setDestination(ctx, { merchantId, coin: 'BTC', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  const [walletId, make] = [
    async () => (await readWallets(ctx, { merchantId }))[0]!.id,
    () => makeSweep(ctx, { merchantId, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor }),
  ];
  const receive = async (...dollars: number[]) => {
    const ids = await pay(chain, ...dollars);
    chain.mine(DEEP);
    await look(2);
    return ids;
  };
  const spend = async (paymentId: string) => {
    const [{ ref, units } = { ref: '', units: 0n }] = await sql<{ ref: string; units: bigint }[]>`
      select ref, units from transfers where payment_id = ${paymentId}`;
    const input = { txid: ref.slice(0, 64), vout: Number(ref.slice(65)), address: '', units };
    assert.equal(node.take(spendingOf(input, [{ units: units - 90_000n, script: ELSEWHERE, address: 'elsewhere' }])), null);
    return units;
  };
  let seen: string | null = null;
  const settle = async () => {
    for (let round = 0; round < 3; round++) {
      await sql`update signed_transactions set sent_at = sent_at - interval '61 seconds'`;
      await sql`update moved_deposits set looked_at = looked_at - interval '6 hours'`;
      seen = await followSweeps(ctx, source, seen);
      await followMoved(ctx, source);
      if (round < 2) chain.mine(DEEP);
      await look(2);
    }
  };
  const booked = async () => {
    await checkBooks(ctx, { merchantId, mode: 'live' }, { walletOf: () => id });
    const lines = await trialBalance(ctx, { merchantId, mode: 'live', until: EVER });
    return lines.find(({ account }) => account === 'moved_elsewhere')?.units ?? 0n;
  };
  const listed = async () =>
    (await readHoldings(ctx, { merchantId, walletId: id, coin: 'BTC' })).holdings.map(({ paymentId }) => paymentId).sort();
  const refuse = async (paymentId: string, why: RegExp) => {
    const { json } = await app.live.post('/v1/refunds', { payment_id: paymentId, address: DESTINATION });
    await approveOutgoing(ctx, { kind: 'refund', merchantId, mode: 'live', id: json.id, actor });
    await assert.rejects(makeRefundFile(ctx, { merchantId, coin: 'BTC', speed: 'normal', actor }), why);
  };
  const [sent, kept, other] = (await receive(25, 40, 30)) as [string, string, string];
  const id = await walletId();
  // Somebody sends a file with another wallet, and somebody else cancels it.
  const { sweep } = await make();
  await cancelSweep(ctx, { merchantId, id: sweep.id, actor });
  let moved = await spend(sent);
  await settle();
  assert.deepEqual([await booked(), await listed()], [moved, [kept, other].sort()]);
  await refuse(sent, /a transaction that Florin does not know spent a deposit of its payment/);

  // A deposit that was in no file is missed when one is made.
  const [unasked] = (await receive(20)) as [string];
  moved += await spend(unasked);
  chain.mine();
  await look(2);
  const next = await make();
  assert.deepEqual(
    next.remains.map(({ reason, count }) => [reason, count]),
    [['spent', 1]],
  );
  await settle();
  assert.deepEqual([await booked(), await listed()], [moved, []]);

  // Another wallet spends a deposit of a file that was signed.
  moved += await spend(kept);
  chain.mine();
  const content = signingFileText(await readSigningFileOf(ctx, { merchantId, id: next.sweep.id }));
  await acceptSigned(ctx, { merchantId, content: signFile({ content, secret: SECRET, destination: DESTINATION }).text, actor });
  await settle();
  assert.deepEqual([await booked(), await listed()], [moved, [other]]);
  await refuse(kept, /a transaction that Florin does not know spent a deposit of its payment/);

  // It is back when the blocks are replaced in which another wallet moved it.
  const [back] = (await receive(35)) as [string];
  await cancelSweep(ctx, { merchantId, id: (await make()).sweep.id, actor });
  const units = await spend(back);
  await settle();
  assert.deepEqual([await booked(), (await listed()).includes(back)], [moved + units, false]);
  chain.rewind(2 * DEEP, { forget: true });
  chain.mine(2 * DEEP + 1, { empty: true });
  await look(3 * DEEP);
  await sql`update moved_deposits set looked_at = looked_at - interval '6 hours'`;
  await followMoved(ctx, source);
  assert.deepEqual([await booked(), (await listed()).includes(back)], [moved, true]);
}

async function endAfterReorganization({ app, chain, servers, look, pay }: SteppedShop): Promise<void> {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  const node = nodeOf(chain);
  servers[0]!.judge((hex) => node.take(node.read(hex)));
  await setDestination(ctx, { merchantId, coin: 'BTC', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  await pay(chain, 25);
  chain.mine(DEEP);
  await look(2);
  const { sweep } = await makeSweep(ctx, { merchantId, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor });
  const { id } = sweep;
  const follow = () => followSweeps(ctx, ctx.chains.get('bitcoin')!, null);
  const upload = async () => {
    const content = signingFileText(await readSigningFileOf(ctx, { merchantId, id }));
    await acceptSigned(ctx, { merchantId, content: signFile({ content, secret: SECRET, destination: DESTINATION }).text, actor });
    await follow();
  };
  await upload();
  const [first] = [...chain.mempool.values()];
  await replaceSweep(ctx, { merchantId, id, speed: 'fast', actor });
  await upload();
  chain.mine();
  await follow();
  // The block with the second transaction is replaced by one with the first.
  chain.rewind(1);
  chain.mempool.clear();
  chain.mempool.set(first!.txid, first!);
  chain.mine(DEEP);
  // So many others wait that the next round looks at the first transaction only.
  const other = 'swp_000000000000000000000009';
  await sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, purpose, state, file, destination, total_units, fee_units, input_count, made_by)
    select ${other}, merchant_id, wallet_id, coin, purpose, 'sent', file, destination, total_units, fee_units, 1, 'Test' from signing_files`;
  await sql`
    insert into signed_transactions (file_id, round, number, txid, raw, fee_units, sent_at, looked_at)
    select ${other}, 0, n, md5(n::text) || md5(n::text), '', 0, clock_timestamp(), clock_timestamp() - interval '1 hour'
    from generate_series(1, 199) n`;
  await sql`update signed_transactions set looked_at = case when txid = ${first!.txid} then null else clock_timestamp() end where file_id = ${id}`;
  await look();
  for (let rounds = 0; rounds < 3; rounds++) await follow();
  const mined = await sql<{ txid: string; state: string }[]>`
    select t.txid, s.state from signed_transactions t join signing_files s on s.id = t.file_id where s.id = ${id} and t.block_height is not null`;
  assert.deepEqual([...mined], [{ txid: first!.txid, state: 'confirmed' }]);
}

async function playSchedule({ app, chain, servers, look, pay, statuses }: SteppedShop, random: () => number): Promise<void> {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  const source = ctx.chains.get('bitcoin')!;
  const node = nodeOf(chain);
  const [server] = servers;
  server!.judge((hex) => node.take(node.read(hex)));
  const below = (n: number): number => Math.floor(random() * n);
  await setDestination(ctx, { merchantId, coin: 'BTC', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  const paid = await pay(chain, 25, 40, 30);
  chain.mine(DEEP);
  await look(2);
  assert.deepEqual(await statuses(paid), ['completed', 'completed', 'completed']);
  const deposits = await sql<{ ref: string; units: bigint }[]>`
    select ref, units from transfers where payment_id = any(${paid}::text[])`;
  assert.equal(deposits.length, 3);
  const make = () => mayFail(makeSweep(ctx, { merchantId, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor }));
  const sweeps = () => sql<{ id: string; state: string }[]>`select id, state from signing_files order by number`;
  const any = async (...states: string[]): Promise<string | null> => {
    const open = (await sweeps()).filter(({ state }) => states.includes(state));
    return open[below(open.length)]?.id ?? null;
  };
  const signed = async (id: string): Promise<string> =>
    signFile({ content: signingFileText(await readSigningFileOf(ctx, { merchantId, id })), secret: SECRET, destination: DESTINATION }).text;
  const upload = async (id: string) => {
    const content = await signed(id);
    const send = () => mayFail(acceptSigned(ctx, { merchantId, content, actor }));
    await Promise.all([send(), send()]);
  };
  let seen: string | null = null;
  const follow = async () => {
    // What waited for a minute is due again.
    await sql`update signed_transactions set sent_at = sent_at - interval '61 seconds'`;
    seen = await mayFail(followSweeps(ctx, source, below(2) ? seen : null));
  };
  const steps: (() => Promise<unknown>)[] = [
    make,
    () => Promise.all([make(), make()]),
    async () => {
      const id = await any('made');
      if (id) await mayFail(cancelSweep(ctx, { merchantId, id, actor }));
    },
    async () => {
      const id = await any('made');
      if (id) await upload(id);
    },
    async () => {
      const id = await any('signed', 'sent');
      if (id && (await mayFail(replaceSweep(ctx, { merchantId, id, speed: 'fast', actor })))) await upload(id);
    },
    follow,
    // Two processes at once, as while one replaces the other.
    () => Promise.all([follow(), follow()]),
    async () => chain.mine(1 + below(2)),
    async () => node.rewind(1 + below(3)),
    async () => {
      // The merchant's own wallet spends one of the deposits.
      const { ref, units } = deposits[below(deposits.length)]!;
      const input = { txid: ref.slice(0, 64), vout: Number(ref.slice(65)), address: '', units };
      const outputs = [{ units: units - 90_000n, script: ELSEWHERE, address: 'elsewhere' }];
      const tx = spendingOf(input, outputs);
      if (below(2)) node.take(tx);
    },
    async () => {
      server!.behave('down');
      await follow();
      server!.behave('well');
    },
    () => look(),
    () => followMoved(ctx, source),
  ];
  const outpoints = deposits.map(({ ref }) => ref);
  const check = async () => {
    const twice = await sql`
      select input from signing_inputs where released_at is null group by chain, input having count(*) > 1`;
    assert.deepEqual([...twice], [], 'an input is in two files');
    const lost = await sql`
      select s.id from signing_files s where s.state = 'canceled' and exists (select 1 from signing_inputs i where i.file_id = s.id and i.released_at is null)`;
    assert.deepEqual([...lost], [], 'a canceled file keeps money');
    // A confirmed sweep is on the chain.
    const ended = await sql<{ txid: string }[]>`
      select t.txid from signing_files s join signed_transactions t on t.file_id = s.id where s.state = 'confirmed' and t.block_height is not null`;
    const mined = new Set(chain.blocks.flatMap(({ txs }) => txs.map(({ txid }) => txid)));
    for (const { txid } of ended) assert.ok(mined.has(txid), 'a confirmed sweep is not on the chain');
  };
  for (let step = 0; step < STEPS; step++) {
    await steps[below(steps.length)]!();
    await check();
  }
  // In the end nobody changes anything, and everything becomes final.
  for (let quiet = 0; quiet < 4; quiet++) {
    for (const { id, state } of await sweeps()) if (state === 'made') await mayFail(cancelSweep(ctx, { merchantId, id, actor }));
    await follow();
    chain.mine(DEEP);
    await look(2);
    await follow();
    await follow();
    await sql`update moved_deposits set looked_at = looked_at - interval '6 hours'`;
    await followMoved(ctx, source);
  }
  await check();
  const open = (await sweeps()).filter(({ state }) => ['made', 'signed', 'sent'].includes(state));
  assert.deepEqual(open, [], 'every sweep ends');
  const [wallet] = await readWallets(ctx, { merchantId });
  const { holdings } = await readHoldings(ctx, { merchantId, walletId: wallet!.id, coin: 'BTC' });
  const left = new Set(holdings.map(({ ref }) => ref));
  const spent = minedOutpoints(chain);
  for (const outpoint of outpoints) if (!spent.has(outpoint)) assert.ok(left.has(outpoint), `${outpoint} is unspent and cannot be swept`);
  await checkBooks(ctx, { merchantId, mode: 'live' }, { walletOf: () => wallet!.id });
  const books = await trialBalance(ctx, { merchantId, mode: 'live', until: EVER });
  const strange = new Set(
    chain.blocks
      .flatMap(({ txs }) => txs.filter(({ outputs }) => outputs[0]?.script === ELSEWHERE))
      .flatMap(({ inputs }) => inputs.map(({ txid, vout }) => `${txid}:${vout}`)),
  );
  // What files spend, also those that were canceled, and another wallet spent.
  const asked = await sql<{ ref: string; units: bigint }[]>`
    select distinct i.ref, i.units from signing_inputs i join signing_files s on s.id = i.file_id where s.merchant_id = ${merchantId}
    union select ref, units from moved_deposits where merchant_id = ${merchantId}`;
  const elsewhere = asked.reduce((sum, { ref, units }) => (strange.has(ref) ? sum + units : sum), 0n);
  assert.equal(books.find(({ account }) => account === 'moved_elsewhere')?.units ?? 0n, elsewhere, 'what another wallet spent');
  // A file spends exactly what is left, and nothing that is spent.
  const last = await make();
  const spending = await sql<{ input: string }[]>`select input from signing_inputs where file_id = ${last?.sweep.id ?? ''} order by input`;
  const unspent = [...left].filter((one) => !spent.has(one)).toSorted();
  assert.deepEqual(
    spending.map(({ input }) => input),
    unspent,
  );
  if (!last) return;
  await upload(last.sweep.id);
  await follow();
  chain.mine(DEEP);
  await look(2);
  await follow();
  assert.deepEqual((await sweeps()).find(({ id }) => id === last.sweep.id)?.state, 'confirmed');
}
