/**
 * Adversarial histories: blocks, reorganizations, double-spends, lost and repeated messages, failing nodes and killed followers, given to
 * the real follower on the real database. Several payments share a chain; the life of each payment on it is one history. The expected
 * records are computed from the chain that the test made, never by the code under test.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type Core, openCore } from '../../src/app.ts';
import { ChainError } from '../../src/chains/chain-source.ts';
import { readConfig } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { createFollower } from '../../src/follow/follow.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { createPayment } from '../../src/payments/payments.ts';
import { lockAndSettle, settleDuePayments } from '../../src/settling/settle-payments.ts';
import { type Block, createAdversaryChain, createAdversarySource, type OnChain, type Payout, shownAs } from '../kit/adversary.ts';
import { testEnvironment } from '../kit/app.ts';
import { checkBooks } from '../kit/books.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { isLongRun } from '../kit/long.ts';

/**
 * Payments that share a chain. Each has its own history: its transfers, double-spends and confirmations, under blocks and reorganizations
 * that it shares with the others. 1,000 histories are 40 chains with 10 to 40 events each.
 */
const PAYMENTS = 25;
const HISTORIES = isLongRun ? 100_000 : 400;
const START = new Date('2026-01-01T00:00:00Z').getTime();
const MINUTE = 60_000;
const WINDOW_SECONDS = 86_400;
/** The last moment at which random events happen: all of them are inside the windows. */
const LAST = START + 20 * 60 * MINUTE;
/** The deepest fork below the highest block so far; followers walk back 144 blocks of BTC. */
const DEEPEST = 140;
const FIRST_HEIGHT = 150;

type Coin = 'BTC' | 'LTC';
const PRICE: Readonly<Record<Coin, bigint>> = { BTC: 97_000n, LTC: 100n };
const DUST: Readonly<Record<Coin, bigint>> = { BTC: 546n, LTC: 5_460n };
/** Required confirmations below 100, 1,000 and 10,000 USD, and above: the documented table. */
const DEPTHS: Readonly<Record<Coin, readonly number[]>> = { BTC: [1, 2, 3, 6], LTC: [6, 12, 24, 40] };
const TARGETS_CENTS = [5_000n, 9_000n, 40_000n, 250_000n] as const;

// What can happen

type Part = { payment: number; percent: number };
type ChainFact =
  | { do: 'pay'; parts: Part[]; joint: boolean; kind: 'output' | 'pegout'; to: 'mempool' | 'block'; slow: boolean }
  | { do: 'mine'; blocks: number; mask: number; coinbase: number | null }
  | { do: 'reorganize'; depth: number; blocks: number; back: number; mask: number }
  | { do: 'replace'; pick: number; mined: boolean; percent: number }
  | { do: 'vanish' | 'return'; mask: number };
type Fact = ChainFact | { do: 'pass'; minutes: number } | { do: 'restart' | 'repeat' | 'sync' | 'nothing' };
/** Failures while the follower looks, before the answer to one of its calls. */
type Fault =
  | { at: number; is: 'down' | 'kill' }
  | { at: number; is: ChainFact }
  /** A block is mined, and another follower reads it first. */
  | { at: number; is: 'overtaken' }
  /** Another machine answers the next calls. It has not seen the newest blocks. */
  | { at: number; is: 'elsewhere'; calls: number; blocksAgo: number }
  | null;
/** `works`: whether the worker settles due payments after the looks or at the same time. */
type Moment = { fact: Fact; fault: Fault; looks: 0 | 1 | 2; race: boolean; works: false | 'after' | 'beside' };

const mask = fc.nat(0xffff);
const part: fc.Arbitrary<Part> = fc.record({
  payment: fc.nat(PAYMENTS - 1),
  percent: fc.constantFrom(0, 20, 50, 50, 100, 100, 100, 120),
});
const paid: fc.Arbitrary<ChainFact> = fc.record({
  do: fc.constant('pay' as const),
  parts: fc.array(part, { minLength: 2, maxLength: 16 }),
  joint: fc.boolean(),
  kind: fc.constantFrom('output' as const, 'pegout' as const),
  to: fc.constantFrom('mempool' as const, 'mempool' as const, 'block' as const),
  slow: fc.integer({ min: 0, max: 7 }).map((n) => n === 7),
});
const mined: fc.Arbitrary<ChainFact> = fc.record({
  do: fc.constant('mine' as const),
  blocks: fc.constantFrom(1, 1, 1, 1, 2, 3, 7),
  mask,
  coinbase: fc.oneof({ weight: 7, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.nat(PAYMENTS - 1) }),
});
const reorganized: fc.Arbitrary<ChainFact> = fc.record({
  do: fc.constant('reorganize' as const),
  depth: fc.oneof({ weight: 20, arbitrary: fc.integer({ min: 1, max: 6 }) }, { weight: 1, arbitrary: fc.integer({ min: 7, max: 120 }) }),
  // As many new blocks as were removed, plus these. With fewer, the node has fallen behind, which reverses nothing:
  // test/nodes/guard.test.ts.
  blocks: fc.constantFrom(0, 1, 1, 1, 2),
  back: mask,
  mask,
});
const replaced: fc.Arbitrary<ChainFact> = fc.record({
  do: fc.constant('replace' as const),
  pick: fc.nat(30),
  mined: fc.boolean(),
  percent: fc.constantFrom(-1, -1, 20, 100, 130),
});
const moved: fc.Arbitrary<ChainFact> = fc.record({ do: fc.constantFrom('vanish' as const, 'return' as const), mask });
const onChain = fc.oneof(
  { weight: 9, arbitrary: paid },
  { weight: 6, arbitrary: mined },
  { weight: 3, arbitrary: reorganized },
  { weight: 3, arbitrary: replaced },
  { weight: 2, arbitrary: moved },
);
const fact: fc.Arbitrary<Fact> = fc.oneof(
  { weight: 16, arbitrary: onChain },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('pass' as const), minutes: fc.constantFrom(1, 10, 16, 61, 125) }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('restart' as const, 'repeat' as const, 'sync' as const, 'nothing' as const) }) },
);
const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 5, arbitrary: fc.constant(null) },
  { weight: 1, arbitrary: fc.record({ at: fc.nat(12), is: fc.constantFrom('down' as const, 'kill' as const) }) },
  { weight: 2, arbitrary: fc.record({ at: fc.nat(12), is: onChain }) },
  { weight: 1, arbitrary: fc.record({ at: fc.nat(12), is: fc.constant('overtaken' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      at: fc.nat(12),
      is: fc.constant('elsewhere' as const),
      calls: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 4, max: 40 })),
      blocksAgo: fc.integer({ min: 1, max: 12 }),
    }),
  },
);
const moment: fc.Arbitrary<Moment> = fc.record({
  fact,
  fault,
  looks: fc.constantFrom(0 as const, 1 as const, 1 as const, 2 as const),
  race: fc.integer({ min: 0, max: 9 }).map((n) => n === 9),
  works: fc.constantFrom(false as const, 'after' as const, 'beside' as const),
});
/** `recorded`: blocks since the install began, before anything happens. */
type History = { coin: Coin; targets: number[]; recorded: number; moments: Moment[] };
const history: fc.Arbitrary<History> = fc.record({
  coin: fc.constantFrom('BTC' as const, 'BTC' as const, 'LTC' as const),
  targets: fc.array(fc.nat(TARGETS_CENTS.length - 1), { minLength: PAYMENTS, maxLength: PAYMENTS }),
  recorded: fc.constantFrom(8, 8, 8, 8, 8, 8, 8, 0),
  moments: fc.array(moment, { minLength: 10, maxLength: 40, size: 'max' }),
});

// The install

class Killed extends Error {}
type Install = { ctx: Context; database: TestDatabase; merchantId: string; core: Core; setTime(at: number): Promise<void> };

/** A service without roles. The test sets its clock and that of its database. */
async function install(): Promise<Install> {
  const database = await testDatabase();
  const { sql } = database.db;
  // Found before the system's own functions, so that every statement uses this clock.
  await sql.unsafe(`
    create schema told; create table told.time (at timestamptz not null); insert into told.time values ('${new Date(START).toISOString()}');
    create function told.clock_timestamp() returns timestamptz language sql volatile as 'select at from told.time';`);
  await sql.unsafe(`alter database ${database.connection.database} set search_path = told, pg_catalog, public`);
  const config = readConfig(
    testEnvironment(database.url, database.folder, { PRICES: 'static:BTC=97000.00,LTC=100.00', LOG_LEVEL: 'fatal' }),
  );
  const core = await openCore(config);
  await core.ctx.prices.start();
  let now = START;
  const ctx: Context = { ...core.ctx, clock: { now: () => new Date(now), monotonicMs: () => performance.now() } };
  const { merchantId } = await createMerchant(ctx, { name: 'Adversity' });
  return {
    ctx,
    database,
    merchantId,
    core,
    setTime: async (at) => {
      if (at === now) return;
      now = at;
      await ctx.db.sql`update told.time set at = ${new Date(at)}`;
    },
  };
}

const TABLES = ['payments', 'quotes', 'deposit_addresses', 'transfers', 'events', 'due_work', 'tips', 'blocks', 'chains'];
const COUNTS = ['payment_counts', 'payment_count_deltas', 'payment_counters', 'live_usage'];

type Owed = { id: string; key: string; targetCents: bigint; quoteUnits: bigint; given: boolean };

/** Runs one history to its end and compares the records with the chain. */
async function live({ ctx, merchantId, setTime }: Install, { coin, targets, recorded, moments }: History): Promise<void> {
  const { sql } = ctx.db;
  await sql.unsafe([...TABLES, ...COUNTS].map((table) => `delete from ${table}`).join('; '));
  let now = START;
  await setTime(now);

  const chain = createAdversaryChain({ height: FIRST_HEIGHT - 8, now: () => new Date(now) });
  let highest = chain.tip().height;
  let syncing = false;
  let unique = 0n;
  /** Two followers at once may each miss what the other is writing. A double-spend is then noticed by its absence. */
  let raced = false;

  // Payments
  const owed: Owed[] = await Promise.all(
    targets.map(async (target, i) => {
      const targetCents = TARGETS_CENTS[target]!;
      let id = '';
      await createPayment(ctx, {
        merchantId,
        mode: 'live',
        createdWith: 'secret',
        draft: {
          amountUsdCents: targetCents,
          fixed: null,
          coin: null,
          request: { returnUrl: null, description: null, items: null, taxMinor: null, fiat: null, locale: null, asset: null },
          invoiceId: null,
          metadata: {},
          expiresInSeconds: WINDOW_SECONDS,
          scenario: null,
        },
        idempotency: null,
        render: (view) => {
          id = view.facts.id;
          return { status: 201, body: new Uint8Array() };
        },
      });
      // Rounded up to a unit.
      const quoteUnits = (targetCents * 1_000_000n + PRICE[coin] - 1n) / PRICE[coin];
      return { id, key: `0014${i.toString(16).padStart(40, '0')}`, targetCents, quoteUnits, given: false };
    }),
  );
  const byKey = new Map(owed.map((payment) => [payment.key, payment]));

  /** The payers choose the coin as in the service, except for the address, whose derivation is tested elsewhere. */
  const giveAddresses = async (payments: readonly Owed[], meanwhile?: () => Promise<void>): Promise<void> => {
    const fresh = [...new Set(payments)].filter((payment) => !payment.given);
    if (fresh.length === 0) return;
    await ctx.db.begin((tx) =>
      lockAndSettle(
        ctx,
        tx,
        fresh.map((payment) => payment.id),
        async () => {
          const rows = fresh.map(({ id, key, quoteUnits }) => ({
            id,
            key,
            units: String(quoteUnits),
            n: owed.findIndex((p) => p.id === id),
          }));
          const at = new Date(now);
          await tx`
            insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
            select r.id, 1, ${merchantId}, ${coin}, r.key, ${String(PRICE[coin] * 100_000_000n)}, r.units, ${at}, ${new Date(now + 15 * MINUTE)}
            from jsonb_to_recordset(${tx.json(rows)}) as r (id text, key text, units numeric)`;
          await tx`
            insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
            select ${coin}, r.key, r.key, r.id, ${merchantId}, 'wal_1', r.n, ${at}
            from jsonb_to_recordset(${tx.json(rows)}) as r (id text, key text, n bigint)`;
          await meanwhile?.();
        },
      ),
    );
    for (const payment of fresh) payment.given = true;
  };
  const partsOf = (parts: readonly Part[], kind: OnChain['kind']): Payout[] =>
    parts.map(({ payment, percent }) => {
      const { key, quoteUnits } = owed[payment]!;
      // Peg-outs differ only in their amounts; halves do not.
      const apart = kind === 'pegout' && percent !== 50 ? ++unique : 0n;
      return { key, units: percent === 0 ? DUST[coin] - 1n - apart : (quoteUnits * BigInt(percent)) / 100n + apart };
    });
  const takeMasked = <T>(all: Iterable<T>, picked: number): T[] => [...all].filter((_, i) => (picked >> (i % 16)) & 1);

  // What happens on the chain
  const happen = async (given: ChainFact, nested: boolean): Promise<void> => {
    switch (given.do) {
      case 'pay': {
        const kind = coin === 'LTC' ? given.kind : 'output';
        const payments = given.parts.map(({ payment }) => owed[payment]!);
        // A transaction that commits slowly: the follower reads while it is open.
        await giveAddresses(payments, given.slow && !nested ? () => look(null, false) : undefined);
        const groups = given.joint ? [given.parts] : given.parts.map((one) => [one]);
        const sent = groups.map((parts): OnChain => {
          const txid = chain.nameOf('t');
          return {
            txid,
            kind,
            inputs: [`${txid}-a:0`, `${txid}-b:1`],
            outputs: [...partsOf(parts, kind), { key: 'elsewhere', units: 5_000n }],
          };
        });
        if (given.to === 'block') chain.mine(sent);
        else for (const tx of sent) chain.accept(tx);
        break;
      }
      case 'mine': {
        const transactions = takeMasked(chain.mempool.values(), given.mask);
        if (given.coinbase !== null && owed[given.coinbase]!.given) {
          const txid = chain.nameOf('c');
          const outputs = partsOf([{ payment: given.coinbase, percent: 100 }], 'coinbase');
          transactions.unshift({ txid, kind: 'coinbase', inputs: [], outputs });
        }
        chain.mine(transactions);
        for (let i = 1; i < given.blocks; i++) chain.mine();
        break;
      }
      case 'reorganize': {
        const depth = Math.min(given.depth, chain.tip().height - (highest - DEEPEST));
        if (depth <= 0) break;
        const undone = chain.undo(depth);
        for (const tx of takeMasked(undone, given.back)) chain.accept(tx);
        for (let i = 0; i < depth + given.blocks; i++) chain.mine(i === 0 ? takeMasked(chain.mempool.values(), given.mask) : []);
        break;
      }
      case 'replace': {
        const all = [...chain.mempool.values(), ...chain.limbo.values()];
        const before = all[given.pick % Math.max(1, all.length)];
        if (!before || !chain.isSpendable(before)) break;
        const outputs =
          given.percent < 0
            ? [{ key: 'elsewhere', units: 7_000n }]
            : before.outputs.map(({ key, units }) => ({ key, units: (units * BigInt(given.percent)) / 100n + ++unique }));
        const tx = { ...before, txid: chain.nameOf('r'), inputs: before.inputs.slice(given.percent === 20 ? 1 : 0), outputs };
        if (given.mined) chain.mine([tx]);
        else chain.accept(tx);
        break;
      }
      case 'vanish':
        for (const { txid } of takeMasked(chain.mempool.values(), given.mask)) chain.evict(txid);
        break;
      case 'return':
        for (const tx of takeMasked(chain.limbo.values(), given.mask)) chain.accept(tx);
        break;
    }
    highest = Math.max(highest, chain.tip().height);
  };

  // The follower and the worker
  /**
   * Blocks that the node reported on its chain at some height since completions were last checked, and the cursor at that time. More
   * cannot be known: a block is downloaded by its hash, and a node returns it even if it left the chain a moment ago.
   */
  let named = new Set<string>();
  let waiting: Fault = null;
  let calls = 0;
  /** A connection to the chain, and its readers. */
  const connect = () => {
    let elsewhere: { shown: readonly Block[]; calls: number } | null = null;
    const interrupt = async (call: string): Promise<void> => {
      if (elsewhere && --elsewhere.calls < 0) elsewhere = null;
      if (!waiting || calls++ < waiting.at) return;
      const fault = waiting;
      waiting = null;
      if (fault.is === 'down') throw new ChainError('outage', `down at ${call}`);
      if (fault.is === 'kill') throw new Killed();
      if (fault.is === 'elsewhere') elsewhere = { shown: chain.asOf(fault.blocksAgo), calls: fault.calls - 1 };
      else if (fault.is === 'overtaken') {
        raced = true;
        await happen({ do: 'mine', blocks: 1, mask: 0xffff, coinbase: null }, true);
        await step(connect());
      } else await happen(fault.is, true);
    };
    const source = createAdversarySource({
      chain,
      coin,
      interrupt,
      isSyncing: () => syncing,
      shown: () => elsewhere?.shown ?? chain.blocks,
    });
    const blockAt = async (height: number) => {
      const block = await source.blockAt(height);
      if (block) named.add(block.hash);
      return block;
    };
    const comeBack = () => {
      elsewhere = null;
    };
    return { source, comeBack, follower: createFollower(ctx, { ...source, blockAt }) };
  };
  let mine = connect();
  const step = async (one: typeof mine): Promise<boolean> => {
    try {
      await one.follower.step();
      return true;
    } catch (error) {
      if (error instanceof Killed) mine = connect();
      else if (
        !(error instanceof ChainError && (error.kind === 'outage' || error.kind === 'not_found')) &&
        (error as Error).constructor.name !== 'CursorMoved'
      )
        throw error;
      return false;
    }
  };
  const look = async (given: Fault, race: boolean): Promise<void> => {
    raced ||= race;
    waiting = given;
    calls = 0;
    await Promise.all(race ? [step(mine), step(connect())] : [step(mine)]);
    waiting = null;
    mine.comeBack();
  };

  // What the chain alone says
  const completed = new Set<string>();
  const usdE8 = (units: bigint): bigint => units * PRICE[coin];
  const centsHalfEven = (e8: bigint): bigint => {
    const [whole, rest] = [e8 / 1_000_000n, e8 % 1_000_000n];
    return rest > 500_000n || (rest === 500_000n && whole % 2n === 1n) ? whole + 1n : whole;
  };
  const depthFor = (kind: OnChain['kind'], cents: bigint): number => {
    const [a, b, c, d] = DEPTHS[coin] as [number, number, number, number];
    const wanted = cents < 10_000n ? a : cents < 100_000n ? b : cents < 1_000_000n ? c : d;
    return kind === 'coinbase' ? Math.max(wanted, 100) : kind === 'pegout' ? Math.max(wanted, 24) : wanted;
  };
  type Landed = { payment: Owed; units: bigint; kind: OnChain['kind']; block: Block; ref: string; txid: string };
  const landedOn = (path: readonly Block[]): Landed[] =>
    path.flatMap((block) =>
      block.transactions.flatMap((tx) =>
        tx.outputs.flatMap(({ key, units }, i) => {
          const payment = byKey.get(key);
          return payment ? [{ payment, units, kind: tx.kind, block, ...shownAs(tx, i, block) }] : [];
        }),
      ),
    );
  const payoutsOf = (transactions: readonly OnChain[]): { payment: Owed; units: bigint; ref: string; kind: OnChain['kind'] }[] =>
    transactions.flatMap((tx) =>
      tx.outputs.flatMap(({ key, units }, i) => {
        const payment = byKey.get(key);
        return payment ? [{ payment, units, kind: tx.kind, ref: shownAs(tx, i, null).ref }] : [];
      }),
    );
  /** As recorded: the outputs of one transaction to one payment are one transfer, and its dust outputs are another one. */
  const transfersOf = <T extends { payment: Owed; units: bigint; ref: string; kind: OnChain['kind'] }>(outputs: readonly T[]): T[] => {
    const name = ({ payment, units, ref, kind }: T) =>
      kind === 'pegout' ? ref : `${payment.id} ${ref.split(':')[0]} ${kind} ${units < DUST[coin]}`;
    return [...Map.groupBy(outputs, name).values()].map((all) => ({ ...all[0]!, units: all.reduce((sum, { units }) => sum + units, 0n) }));
  };
  const total = (of: readonly { units: bigint }[]): bigint => of.reduce((sum, { units }) => sum + (units < DUST[coin] ? 0n : units), 0n);
  const covers = ({ quoteUnits }: Owed, units: bigint): boolean => units * 100n >= quoteUnits * 99n;
  /**
   * Whether the money on the chain completes the payment. `more` units in addition may raise the required depth; `beside` units of other
   * payments to the merchant count for a quarter.
   */
  const isPaid = (
    payment: Owed,
    path: readonly Block[],
    landed: readonly Landed[],
    { more, beside }: { more: bigint; beside: bigint },
  ): boolean => {
    const mineOnly = landed.filter((one) => one.payment === payment);
    const tip = path.at(-1)!.height;
    const received = centsHalfEven(usdE8(total(mineOnly) + more));
    const deep = mineOnly.filter(({ kind, block, txid, units: own }) => {
      const together = landed.filter((one) => kind === 'output' && one.txid === txid).reduce((sum, { units }) => sum + units, 0n);
      const company = [usdE8(together > own ? together : 0n), usdE8(beside) / 4n].map(centsHalfEven);
      const cents = [payment.targetCents, received, ...company].reduce((a, b) => (b > a ? b : a));
      return tip - block.height + 1 >= depthFor(kind, cents);
    });
    return covers(payment, total(deep));
  };

  /** Every payment completed since the last check had enough confirmations on a chain that the node showed in the meantime. */
  const judgeCompletions = async (): Promise<void> => {
    const [cursor] = await sql<{ hash: string }[]>`select hash from tips`;
    const done = await sql<{ id: string }[]>`
      select id from payments where status = 'completed' and id <> all(${[...completed]}::text[])`;
    const paths = done.length === 0 ? [] : [...named].map((hash) => chain.pathTo(hash)).map((path) => ({ path, landed: landedOn(path) }));
    for (const { id } of done) {
      completed.add(id);
      const payment = owed.find((one) => one.id === id)!;
      const isDue = paths.some(({ path, landed }) => isPaid(payment, path, landed, { more: 0n, beside: 0n }));
      assert.ok(isDue, `${id} was completed although the chain does not confirm it`);
    }
    named = new Set([cursor!.hash]);
  };
  const work = async (): Promise<void> => {
    for (let i = 0; i < 20 && (await settleDuePayments(ctx, { limit: 200 })) > 0; i++);
  };

  // The story
  await look(null, false);
  for (let i = 0; i < recorded; i++) chain.mine();
  highest = chain.tip().height;
  await look(null, false);
  for (const { fact: given, fault: wrong, looks, race, works } of moments) {
    switch (given.do) {
      case 'pass':
        now = Math.min(LAST, now + given.minutes * MINUTE);
        await setTime(now);
        break;
      case 'restart':
        mine = connect();
        break;
      case 'repeat':
        mine.source.repeat();
        break;
      case 'sync':
        syncing = !syncing;
        break;
      case 'nothing':
        break;
      default:
        await happen(given, false);
    }
    for (let i = 0; i < looks; i++) await Promise.all([look(i === 0 ? wrong : null, race), ...(works === 'beside' ? [work()] : [])]);
    if (works === 'after') await work();
    if (looks > 0 || works) await judgeCompletions();
  }

  // The network continues from its own height, even if a node fell behind. Then the chain rests and the follower catches up.
  syncing = false;
  while (chain.tip().height <= highest) chain.mine();
  highest = chain.tip().height;
  const rest = async (looks: number): Promise<void> => {
    for (let i = 0; i < looks; i++) assert.equal(await step(mine), true);
    await work();
    await judgeCompletions();
  };
  await rest(3);
  const landed = landedOn(chain.blocks);
  const inMempool = payoutsOf([...chain.mempool.values()]);
  type Row = {
    paymentId: string;
    ref: string;
    txid: string;
    units: bigint;
    outputs: bigint;
    kind: OnChain['kind'];
    hash: string | null;
    absent: boolean;
    contested: boolean;
  };
  const rows = await sql<Row[]>`
    select payment_id as "paymentId", ref, txid, units, output_count::bigint as outputs, kind, block_hash as hash, absent_since is not null as absent,
      conflict_txid is not null as contested from transfers`;
  // If one of two equal peg-outs to one payment is mined and the other waits, they cannot be distinguished: the second counts once it is
  // mined.
  const waits = rows.filter((row) => row.hash === null && !row.absent && !row.contested);
  const alike = (one: { units: bigint; kind: OnChain['kind']; payment: Owed }) => `${one.kind} ${one.payment.id} ${one.units}`;
  const hidden = [...Map.groupBy(inMempool, alike)].flatMap(([name, all]) => {
    const [{ kind, payment, units }] = all as [(typeof all)[number]];
    // An ordinary output of the same amount is not one of them.
    const recorded = waits.filter((row) => row.kind === kind && row.paymentId === payment.id && row.units === units).length;
    const mined = landed.filter((one) => alike(one) === name).length;
    return kind === 'pegout' ? all.slice(0, Math.max(0, Math.min(mined, all.length - recorded))) : [];
  });
  const text = (id: string, ref: string | null, units: bigint, hash: string | null) =>
    `${id} ${ref ?? 'pegout'} ${units} ${hash ?? 'waits'}`;
  assert.deepEqual(
    rows
      .filter((row) => row.hash !== null)
      .map((row) => `${text(row.paymentId, row.txid, row.units, row.hash)}`)
      .sort(),
    transfersOf(landed)
      .map((one) => text(one.payment.id, one.txid, one.units, one.block.hash))
      .sort(),
    'what every transaction in a block pays is recorded once, in its block',
  );
  assert.deepEqual(
    [...waits.map((row) => `${row.paymentId} ${row.units}`), ...hidden.map((one) => `${one.payment.id} ${one.units}`)].sort(),
    transfersOf(inMempool)
      .map((one) => `${one.payment.id} ${one.units}`)
      .sort(),
    'what every transaction in the mempool pays is recorded once, as waiting',
  );
  const refs = new Set(rows.map((row) => `${row.paymentId} ${row.ref}`));
  for (const one of [...transfersOf(landed), ...transfersOf(inMempool)])
    if (one.kind !== 'pegout') assert.ok(refs.has(`${one.payment.id} ${one.ref}`), `${one.ref} keeps its name`);
  const stored = await sql<{ height: bigint; hash: string }[]>`select height, hash from blocks order by height`;
  for (const { height, hash } of stored) assert.equal(chain.blocks[Number(height)]?.hash, hash, 'the recorded blocks are the chain');
  assert.equal(stored.at(-1)!.hash, chain.tip().hash);

  type Book = { id: string; status: string; received: bigint; arrived: bigint; announced: bigint; exceptions: string[]; events: bigint };
  const readBooks = async (): Promise<Map<string, Book>> =>
    new Map(
      (
        await sql<Book[]>`
          select id, status, received_units + sums.counted as received, exceptions, event_count as events,
            received_units + sums.arrived as arrived, sums.announced
          from payments, lateral (select
            coalesce(sum(units) filter (where state = 'announced' and waits is not true), 0) as counted,
            coalesce(sum(units) filter (where state <> 'announced'), 0) as arrived,
            coalesce(sum(units) filter (where state = 'announced'), 0) as announced
            from jsonb_to_recordset(uncounted) as one (coin text, state text, units numeric, waits boolean) where one.coin = payments.coin) as sums`
      ).map((row) => [row.id, row]),
    );
  const mayCome = payoutsOf([
    ...chain.dropped,
    ...[...chain.limbo.values()].filter((tx) => chain.isSpendable(tx) || tx.kind === 'pegout' || raced),
  ]);
  const sureOf = (payment: Owed): bigint => {
    const of = (all: readonly { payment: Owed; units: bigint }[]) => total(all.filter((one) => one.payment === payment));
    return of(landed) + of(inMempool) - of(hidden);
  };
  let books = await readBooks();
  for (const payment of owed) {
    const { status, received } = books.get(payment.id)!;
    const sure = sureOf(payment);
    // A transfer that has been missing for less than a day may still arrive, unless a block spends its coins elsewhere.
    const unsure = total([...mayCome, ...hidden].filter((one) => one.payment === payment));
    assert.ok(received >= sure && received <= sure + unsure, `${payment.id} received ${received}, not ${sure} to ${sure + unsure}`);
    const all = { more: sure + unsure, beside: total(rows) };
    if (completed.has(payment.id) || isPaid(payment, chain.blocks, landed, all)) assert.equal(status, 'completed', payment.id);
    else if (covers(payment, sure)) assert.equal(status, 'processing', payment.id);
    else if (!covers(payment, sure + unsure)) assert.equal(status, 'pending', payment.id);
    else assert.ok(status === 'processing' || status === 'pending', payment.id);
  }

  // When a completed payment loses money, this is reported at once: the follower is at the tip.
  for (const payment of owed) {
    const { status, exceptions } = books.get(payment.id)!;
    const inBlocks = total(landed.filter((one) => one.payment === payment));
    if (status === 'completed' && !covers(payment, inBlocks))
      assert.ok(exceptions.includes('reorged'), `${payment.id} lost its block, and says ${exceptions.join() || 'nothing'}`);
  }

  // A day later nothing is uncertain and all windows have ended
  now += 26 * 60 * MINUTE;
  await setTime(now);
  await rest(1);
  now += MINUTE;
  await setTime(now);
  await rest(1);
  books = await readBooks();
  for (const payment of owed) {
    const { status, received, exceptions } = books.get(payment.id)!;
    const sure = sureOf(payment);
    assert.equal(received, sure, `${payment.id}: the books balance`);
    const known = rows.some((row) => row.paymentId === payment.id && row.units >= DUST[coin] * row.outputs);
    const expected = completed.has(payment.id) ? 'completed' : covers(payment, sure) ? 'processing' : known ? 'failed' : 'expired';
    assert.equal(status, expected, payment.id);
    const confirmed = total(landed.filter((one) => one.payment === payment));
    if (status === 'completed' && !covers(payment, confirmed))
      assert.ok(exceptions.includes('reorged'), `${payment.id} was completed, lost its money, and says ${exceptions.join() || 'nothing'}`);
  }
  await checkBooks(ctx, { merchantId, mode: 'live' }, { walletOf: () => 'wal_1' });
  await judgeEvents(ctx, books, coin);
}

const LEGAL = new Set([
  'pending processing',
  'processing completed',
  'processing pending',
  'processing failed',
  'pending failed',
  'pending expired',
]);
/** The events of every payment: no gaps, one per change, only allowed transitions, ending in the current state. */
async function judgeEvents(
  ctx: Context,
  books: ReadonlyMap<string, { status: string; arrived: bigint; announced: bigint; events: bigint }>,
  coin: Coin,
) {
  const { sql } = ctx.db;
  const told = await sql<{ id: string; sequence: bigint; type: string; body: string }[]>`
    select payment_id as id, sequence, type, convert_from(body, 'UTF8') as body from events order by payment_id, sequence`;
  const of = Map.groupBy(told, (event) => event.id);
  for (const [id, { status, arrived, announced, events }] of books) {
    const list = of.get(id) ?? [];
    assert.equal(BigInt(list.length), events, `${id}: as many events as were counted`);
    let at = '';
    let last = '';
    let reversed = false;
    for (const [i, { sequence, type, body }] of list.entries()) {
      assert.equal(sequence, BigInt(i + 1), `${id}: no gap`);
      const { data } = JSON.parse(body);
      if (i === 0) assert.equal(type, 'payment.created');
      else if (data.status !== at) {
        assert.ok(LEGAL.has(`${at} ${data.status}`), `${id}: ${at} to ${data.status}`);
        assert.equal(type, data.status === 'pending' ? 'payment.updated' : `payment.${data.status}`);
      } else if (at === 'completed' && data.exceptions.includes('reorged') && !reversed) {
        assert.equal(type, 'payment.reversed', `${id}: lost money of a completed payment is reported`);
      } else assert.equal(type, 'payment.updated', `${id}: ${at} is reported once`);
      reversed = data.status === 'completed' && data.exceptions.includes('reorged');
      at = data.status;
      const news = JSON.stringify([
        data.status,
        data.amount_received,
        data.amount_announced,
        data.exceptions,
        data.expires_at,
        data.currency,
      ]);
      assert.notEqual(news, last, `${id}: each event tells something new`);
      last = news;
    }
    assert.equal(at, status, `${id}: the last event tells how it stands`);
    const { amount_received, amount_announced } = JSON.parse(list.at(-1)!.body).data;
    const [here, coming] = [amount_received, amount_announced].map((amount) => BigInt(amount.replace('.', '')));
    assert.equal(here! + coming!, arrived + announced, `${id}: the last event tells what was seen`);
    // While it is confirmed, the event of the end tells what arrived. Later, what moves between blocks and the mempool is no news.
    if (status !== 'processing' && status !== 'completed') assert.equal(here, arrived, `${id}: the last event tells what was received`);
  }
  const [wrong] = await sql<{ rows: bigint }[]>`
    with counted as (
      select status, coin, sum(payments) as n from (select status, coin, payments from payment_counts
        union all select status, coin, payments from payment_count_deltas) c group by 1, 2),
      real as (select status, coalesce(coin, '') as coin, count(*) as n from payments group by 1, 2)
    select count(*) as rows from counted full join real using (status, coin) where coalesce(counted.n, 0) <> coalesce(real.n, 0)`;
  assert.equal(wrong!.rows, 0n, `the counts of ${coin} payments are right`);
}

/** Installs that run their histories in parallel: while one waits for its database, the process works on another. */
const worlds: Install[] = [];
before(async () => {
  for (let i = 0; i < 2; i++) worlds.push(await install());
});
after(async () => {
  for (const { core, database } of worlds) {
    await core.ctx.prices.stop();
    await core.close();
    await database.drop();
  }
});

const SEED = process.env.FLORIN_SEED ? Number(process.env.FLORIN_SEED) : null;
// Invariant: No matter what a chain does, no transfer is counted twice or missed, and nothing completes without confirmations from the node.
test(`${HISTORIES} payments on adversarial chains: nothing is counted twice, missed, or completed without its confirmations`, async (t) => {
  const told = SEED === null ? worlds : worlds.slice(0, 1);
  const numRuns = HISTORIES / PAYMENTS / worlds.length;
  // A slow machine runs fewer histories: those that do not fit are left out, not interrupted.
  const end = performance.now() + HISTORIES * (isLongRun ? 65 : 200);
  let lived = 0;
  const runs = await Promise.allSettled(
    told.map((world) =>
      fc.assert(
        fc.asyncProperty(history, async (given) => {
          if (performance.now() > end) return;
          await live(world, given);
          lived++;
        }),
        {
          numRuns,
          // A failure prints its seed. FLORIN_SEED repeats that seed's histories and looks for the shortest one that fails.
          endOnFailure: SEED === null,
          ...(SEED !== null && { seed: SEED }),
        },
      ),
    ),
  );
  for (const run of runs) if (run.status === 'rejected') throw run.reason;
  const all = numRuns * told.length;
  t.diagnostic(`${lived} of ${all} chains`);
  assert.ok(lived >= all / 2, `there was time for ${lived} of ${all} chains alone`);
});

/** One payment of 50 USD in BTC. The follower looks after each event, and the worker runs. */
const story = (recorded: number, ...facts: Fact[]): History => ({
  coin: 'BTC',
  targets: [0],
  recorded,
  moments: facts.map((given) => ({ fact: given, fault: null, looks: 1, race: false, works: 'after' })),
});
const pay = (percent: number, to: 'mempool' | 'block'): Fact => ({
  do: 'pay',
  parts: [{ payment: 0, percent }],
  joint: false,
  kind: 'output',
  to,
  slow: false,
});
/** Half of the amount, in LTC: all of them are equal. */
const pegOut = (to: 'mempool' | 'block'): Fact => ({ ...pay(50, to), kind: 'pegout' }) as Fact;
const inLitecoin = (history: History): History => ({ ...history, coin: 'LTC' });
const mine = (blocks = 1): Fact => ({ do: 'mine', blocks, mask: 0xffff, coinbase: null });
const reorganize = (depth: number, picked: number): Fact => ({ do: 'reorganize', depth, blocks: 1, back: picked, mask: picked });

test('a reorganization of the first block of an install is followed, and payments in it count', async () => {
  await live(worlds[0]!, story(0, reorganize(3, 0), pay(100, 'mempool'), mine()));
  await live(worlds[0]!, story(0, pay(100, 'mempool'), reorganize(5, 0xffff), mine()));
});

// Invariant: Answers of machines behind one address are combined only when they are at the same block.
test('a peg-out read from its block counts once, also when a machine that lacks the block still shows it as waiting', async () => {
  const happens = inLitecoin(story(8, pegOut('mempool'), mine(), { do: 'nothing' }));
  const [paid, mined, looked] = happens.moments as [Moment, Moment, Moment];
  // At a known tip, a look makes these calls: tip, health, mempool. Another machine answers only the third.
  const lagging: Fault = { at: 2, is: 'elsewhere', calls: 1, blocksAgo: 1 };
  await live(worlds[0]!, { ...happens, moments: [{ ...paid, looks: 0 }, mined, { ...looked, fault: lagging }] });
});

test('a waiting peg-out counts once when another follower reads its block before it is written', async () => {
  const happens = inLitecoin(story(8, pegOut('mempool')));
  // At a known tip, a look makes these calls: tip, health, mempool, and the scan of new transactions.
  await live(worlds[0]!, { ...happens, moments: [{ ...happens.moments[0]!, fault: { at: 3, is: 'overtaken' } }] });
});

// Invariant: Equal peg-outs to one payment are counted correctly, even when their transaction IDs change.
test('of two equal peg-outs, one lost its block and the other is mined: they count as two, whatever their transaction IDs', async () => {
  const swapped = [pegOut('block'), pegOut('mempool'), { ...reorganize(1, 0), mask: 0xffff } as Fact];
  await live(worlds[0]!, inLitecoin(story(8, ...swapped, { do: 'return', mask: 0xffff })));
});

test('a peg-out that returns after an equal one took its place counts as a second one', async () => {
  const away = [pegOut('mempool'), mine(), reorganize(1, 0), pegOut('mempool')];
  await live(worlds[0]!, inLitecoin(story(8, ...away, { do: 'return', mask: 0xffff })));
});

test('a peg-out that waits while an equal one is mined unseen counts in its own block at the latest', async () => {
  await live(worlds[0]!, inLitecoin(story(8, pegOut('mempool'), pegOut('block'), { do: 'nothing' })));
  await live(worlds[0]!, inLitecoin(story(8, pegOut('mempool'), pegOut('block'), { do: 'nothing' }, mine())));
});

test('what a completed payment received in addition is removed from its records a day after it left the mempool', async () => {
  await live(worlds[0]!, story(8, pay(100, 'block'), pay(50, 'mempool'), { do: 'vanish', mask: 0xffff }, { do: 'nothing' }));
});
