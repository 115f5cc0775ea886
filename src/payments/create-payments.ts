/** Creates payments. Concurrent creates share one statement and one commit. */

import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Context, perContext } from '#context';
import { ALL_COINS, type Coin, type ConfirmationTier, chainOf, type Mode, nativeOf } from '#core/coin';
import { mergeConfirmations } from '#core/confirmation';
import { addMs } from '#core/dates';
import { newId } from '#core/id';
import type { PaymentFacts, Rules } from '#core/payment';
import type {
  Customer,
  IdempotencyClaim,
  NamedCustomer,
  PaymentRequest,
  PaymentView,
  RenderedReply,
  ReplayableReply,
} from '#core/payment-view';
import { Problem } from '#core/problem';
import { settle } from '#core/settle';
import { testIdentifier } from '#core/simulated';
import { requestToJson, rulesToJson } from '#core/stored-payment';
import { customersCte, identified } from '#customers';
import {
  type Claim,
  claimIdempotencyKeys,
  claimProblem,
  createBatcher,
  type Fragment,
  isAnswered,
  OID,
  type Sql,
  type StoredReply,
  storeReplies,
  type Tx,
} from '#db';
import { getMerchant, type Merchant } from '#merchants';
import { refuseUncarried } from '#readiness';
import { metadataPairs, newEvent, quarterAt, readRecords, toView, wakeTexts } from '#settling';
import { jsonColumn, type NewEvent, recordEvents, recordingParts } from '#webhooks';

export type PaymentDraft = {
  /** Its ID, for a caller that has to know it before; otherwise a new one. */
  id?: string;
  /** Worth of the target in USD cents. */
  amountUsdCents: bigint;
  /** A fixed coin amount without rate lock (POST /payments). */
  fixed: { coin: Coin; units: bigint } | null;
  /** Chosen at creation; null leaves the choice to the payer. */
  coin: Coin | null;
  request: PaymentRequest;
  invoiceId: string | null;
  metadata: Record<string, string>;
  /** Who it is for. */
  customer?: NamedCustomer | null;
  expiresInSeconds: number | null;
  /** What the payment demands beyond the settings of its merchant. It never makes them less strict. */
  stricter?: Stricter | null;
  scenario: { coin: Coin; name: string } | null;
};
type Stricter = {
  /** The highest underpayment tolerance, in hundredths of a percent; null: the merchant's. */
  toleranceBasisPoints: number | null;
  /** The lowest number of confirmations, for coins and amounts that are confirmed by counting them; null: the merchant's. */
  confirmations: number | null;
};

export type NewPayment = {
  id: string;
  merchant: Merchant;
  mode: Mode;
  createdWith: 'secret' | 'public';
  /** The API key that made the request. */
  keyId: string | null;
  draft: PaymentDraft;
  ruleSet: RuleSet;
  idempotency: IdempotencyClaim | null;
  render(view: PaymentView): RenderedReply;
};

type Terms = Pick<PaymentDraft, 'expiresInSeconds' | 'stricter'>;
/**
 * The rules that a new payment of this merchant is created with. Their ID follows from their content, and the statement that writes a payment
 * stores them unless they are there: a database that went back, for example after a failover, has forgotten which IDs it gave out.
 */
function rulesFor(ctx: Context, merchant: Merchant, terms: Terms): RuleSet {
  const { expiresInSeconds, stricter } = terms;
  const term = stricter ? `${expiresInSeconds} ${stricter.toleranceBasisPoints} ${stricter.confirmations}` : expiresInSeconds;
  const seen = ruleSetsOf(ctx, merchant);
  const known = seen.get(term);
  if (known) return known;
  const cache = ruleSets(ctx);
  const setting = `${term} ${merchant.id} ${JSON.stringify(merchant.settings)}`;
  let made = cache.get(setting);
  if (!made) {
    const rules = rulesOf(ctx, merchant, terms);
    const json = JSON.stringify(rulesToJson(rules));
    // Rules that earlier versions stored have the hash of their content alone, and an ID that was counted.
    const hash = createHash('sha256').update('id by content ').update(json).digest();
    made = { rules, id: BigInt.asUintN(63, hash.readBigUInt64BE()), hash, json };
    if (cache.size > 1_000) cache.clear();
    cache.set(setting, made);
  }
  seen.set(term, made);
  return made;
}

/** Stores the rules of new payments that are not there, as a part of the statement that writes the payments. */
function storeRules(tx: Sql | Tx, items: readonly NewPayment[]): Fragment {
  const sets = [...new Map(items.map(({ ruleSet }) => [ruleSet.id, ruleSet])).values()];
  const [ids, hashes] = [sets.map(({ id }) => id), sets.map(({ hash }) => hash)];
  const rules = jsonColumn(
    tx,
    sets.map(({ json }) => json),
  );
  return tx`
    insert into rule_sets (id, hash, rules) overriding system value
    select s.id, s.hash, s.rules::jsonb
    from unnest(${tx.array(ids, OID.int8)}::bigint[], ${tx.array(hashes, OID.bytea)}::bytea[], ${rules}) as s (id, hash, rules)
    left join rule_sets known on known.id = s.id where known.id is null order by s.id
    on conflict do nothing`;
}

function rulesOf(ctx: Context, { settings }: Merchant, { expiresInSeconds, stricter }: Terms): Rules {
  const most = stricter?.toleranceBasisPoints ?? settings.toleranceBasisPoints;
  const least = stricter?.confirmations ?? null;
  const asked: readonly ConfirmationTier[] | null =
    least === null ? null : [{ belowUsdCents: null, confirmations: least, rule: 'confirmations' }];
  return {
    windowSeconds: expiresInSeconds ?? settings.windowSeconds,
    rateLockSeconds: settings.rateLockSeconds,
    toleranceBasisPoints: Math.min(settings.toleranceBasisPoints, most),
    toleranceCapUsdCents: BigInt(settings.toleranceCapUsdCents),
    lateAcceptMinutes: settings.lateAcceptMinutes,
    protectionHours: 24,
    protectionLargeHours: 2,
    protectionLargeUsdCents: 100_000n,
    adjustments: settings.adjustments,
    priceSource: settings.priceSource,
    confirmations: Object.fromEntries(
      ALL_COINS.map((coin) => {
        const raised = settings.confirmations[nativeOf(coin)]?.map((t) => ({
          ...t,
          belowUsdCents: t.belowUsdCents === null ? null : BigInt(t.belowUsdCents),
        }));
        const own = mergeConfirmations(chainOf(coin).confirmations, raised ?? null, ctx.settings.confirmations[nativeOf(coin)] ?? null);
        return [coin, mergeConfirmations(own, asked, null)];
      }),
    ) as unknown as Rules['confirmations'],
  };
}
type RuleSet = { rules: Rules; id: bigint; hash: Uint8Array; json: string };
/** By terms, for all creates that share one read of their merchant. */
const ruleSetsByReading = perContext(() => new WeakMap<Merchant, Map<number | string | null, RuleSet>>());
function ruleSetsOf(ctx: Context, merchant: Merchant): Map<number | string | null, RuleSet> {
  const readings = ruleSetsByReading(ctx);
  let seen = readings.get(merchant);
  if (!seen) {
    seen = new Map();
    readings.set(merchant, seen);
  }
  return seen;
}
/** By the inputs of the rules, for later reads. */
const ruleSets = perContext(() => new Map<string, RuleSet>());

const batcherOf = perContext((ctx) =>
  createBatcher({ maxItems: 128, maxWaiting: 4_000, run: (items: NewPayment[]) => runBatch(ctx, items) }),
);

/** Creates a payment without a coin, in one batch with other concurrent creates. */
export const createTogether = (ctx: Context, item: NewPayment): Promise<ReplayableReply> => batcherOf(ctx)(item);

type Settled = PromiseSettledResult<ReplayableReply>;
const failed = (reason: unknown): Settled => ({ status: 'rejected', reason });

async function runBatch(ctx: Context, items: NewPayment[]): Promise<Settled[]> {
  try {
    // A batch without idempotency keys, test clocks and limits is one statement, which is its own transaction.
    if (items.every((item) => isPlain(ctx, item))) return await createPlain(ctx, items);
    return await ctx.db.begin((tx) => createAll(ctx, tx, items));
  } catch (error) {
    const state = (error as { code?: unknown }).code;
    if (typeof state !== 'string') throw error;
    if (CONNECTION_LOST.test(state)) return createAgain(ctx, items, error);
    // One faulty row (data or constraint) must not fail the others, so each is then tried alone.
    if (!/^(2[23]|40)/.test(state) || (items.length === 1 && !state.startsWith('40'))) throw error;
    const results: Settled[] = [];
    for (const item of items) results.push(await ctx.db.begin((tx) => createAll(ctx, tx, [item])).then(([result]) => result!, failed));
    return results;
  }
}
const CONNECTION_LOST = /^(CONNECTION_|ECONNRESET$|EPIPE$|ETIMEDOUT$|08|57P0)/;

/**
 * Connections fail together, and the next one may be broken too. The failed statement may even still be running and commit while a
 * retry waits for it. That retry then hits its rows (23505), and the next one finds them.
 */
async function createAgain(ctx: Context, items: NewPayment[], lost: unknown): Promise<Settled[]> {
  for (const pauseMs of [0, 50, 200, 600]) {
    await sleep(pauseMs);
    try {
      return await ctx.db.begin((tx) => createMissing(ctx, tx, items));
    } catch (error) {
      const state = String((error as { code?: unknown }).code);
      if (state !== '23505' && !CONNECTION_LOST.test(state)) break;
    }
  }
  throw lost;
}

/** Retries what a lost connection left unknown. The commit may have happened anyway, so a row found under its id counts as written. */
async function createMissing(ctx: Context, tx: Tx, items: NewPayment[]): Promise<Settled[]> {
  const ids = items.map((item) => item.id);
  const written = new Map((await readRecords(ctx, tx, ids)).map((record) => [record.facts.id, toView(record)]));
  const made = await createAll(
    ctx,
    tx,
    items.filter((item) => !written.has(item.id)),
  );
  return items.map((item) => {
    const view = written.get(item.id);
    return view ? { status: 'fulfilled', value: { ...item.render(view), replayed: false } } : made.shift()!;
  });
}

const isPlain = (ctx: Context, item: NewPayment): boolean => item.idempotency === null && item.mode === 'live' && !isLimited(ctx, item);

async function createPlain(ctx: Context, items: NewPayment[]): Promise<Settled[]> {
  const views = await insertPayments(ctx, ctx.db.lane, items, new Map());
  return items.map((item, i) => ({ status: 'fulfilled', value: { ...item.render(views[i]!), replayed: false } }));
}

/** One transaction: claim keys, admit, insert, store replies. Lock order: keys, counters, usage. */
async function createAll(ctx: Context, tx: Tx, items: NewPayment[]): Promise<Settled[]> {
  const results: (Settled | undefined)[] = items.map(() => undefined);
  const keyed = items.flatMap((item, index) => (item.idempotency ? [{ index, claim: item.idempotency as Claim }] : []));
  if (keyed.length > 0) {
    const seen = new Set<string>();
    const unique = keyed.filter(({ index, claim }) => {
      const key = Buffer.from(claim.claim).toString('latin1');
      if (seen.has(key)) results[index] = failed(claimProblem('busy'));
      return seen.size < seen.add(key).size;
    });
    const states = await claimIdempotencyKeys(
      tx,
      unique.map((k) => k.claim),
    );
    unique.forEach(({ index }, i) => {
      const state = states[i]!;
      if (typeof state === 'object') results[index] = { status: 'fulfilled', value: { ...state, replayed: true } };
      else if (state !== 'free') results[index] = failed(claimProblem(state));
    });
  }
  const admitted = await admit(ctx, tx, items, results);
  const offsets = await testOffsets(
    tx,
    admitted.map((index) => items[index]!),
  );
  const written = await insertPayments(
    ctx,
    tx,
    admitted.map((index) => items[index]!),
    offsets,
  );
  const replies: (Claim & StoredReply)[] = [];
  admitted.forEach((index, i) => {
    const item = items[index]!;
    const reply = item.render(written[i]!);
    results[index] = { status: 'fulfilled', value: { ...reply, replayed: false } };
    if (item.idempotency) replies.push({ ...item.idempotency, ...reply });
  });
  await storeReplies(tx, replies);
  return results as Settled[];
}

/** The test clocks of the merchants, locked until the commit so that they cannot be advanced between read and insert. */
async function testOffsets(tx: Tx, items: readonly NewPayment[]): Promise<Map<string, number>> {
  const merchants = [...new Set(items.filter((i) => i.mode === 'test').map((i) => i.merchant.id))];
  if (merchants.length === 0) return new Map();
  const rows = await tx<{ merchantId: string; offsetSeconds: bigint }[]>`
    select merchant_id as "merchantId", offset_seconds as "offsetSeconds" from test_clocks
    where merchant_id = any(${merchants}::text[]) order by merchant_id for share`;
  return new Map(rows.map((row) => [row.merchantId, Number(row.offsetSeconds) * 1000]));
}

/**
 * Which items proceed: live creates within the month's limit, in order of arrival. A create with a public key does not use up the
 * limit yet, but is refused once the limit is reached.
 */
async function admit(ctx: Context, tx: Tx, items: NewPayment[], results: (Settled | undefined)[]): Promise<number[]> {
  const open = items.flatMap((_, index) => (results[index] ? [] : [index]));
  const limited = open.filter((index) => isLimited(ctx, items[index]!));
  if (limited.length === 0) return open;
  const merchants = [...new Set(limited.map((index) => items[index]!.merchant.id))].sort();
  await tx`
    insert into live_usage (merchant_id, month)
    select m, date_trunc('month', clock_timestamp() at time zone 'UTC')::date from unnest(${merchants}::text[]) as m order by m
    on conflict do nothing`;
  const rows = await tx<{ merchantId: string; payments: bigint }[]>`
    select merchant_id as "merchantId", payments from live_usage
    where merchant_id = any(${merchants}::text[]) and month = date_trunc('month', clock_timestamp() at time zone 'UTC')::date
    order by merchant_id for update`;
  const used = new Map(rows.map((row) => [row.merchantId, Number(row.payments)]));
  return open.filter((index) => {
    const item = items[index]!;
    const { perMonth } = ctx.settings.plans[item.merchant.plan];
    if (!isLimited(ctx, item)) return true;
    const before = used.get(item.merchant.id) ?? 0;
    if (before >= perMonth) {
      results[index] = failed(new Problem('plan_limit_exceeded', { plan: item.merchant.plan, limit: perMonth }));
      return false;
    }
    if (counts(item)) used.set(item.merchant.id, before + 1);
    return true;
  });
}
const isLimited = (ctx: Context, { mode, merchant }: NewPayment): boolean =>
  mode === 'live' && ctx.settings.plans[merchant.plan].perMonth > 0;
/** A payment created with a public key counts toward the month at its first counted transfer instead. */
const counts = (item: NewPayment): boolean => item.mode === 'live' && item.createdWith === 'secret';

/** What a batch contains for one merchant and mode; its payments are created at one instant of the merchant's clock. */
type Group = { number: number; merchantId: string; mode: Mode; createdAt: Date; payments: number; counted: number };

/**
 * Inserts payments and counters, and unless the caller does it later, events and deliveries. Counter rows are locked in one ordered statement, which yields the
 * sequences: commit order is sequence order, and lock order is fixed, so there are no deadlocks.
 */
async function insertPayments(
  ctx: Context,
  tx: Sql | Tx,
  items: readonly NewPayment[],
  offsets: ReadonlyMap<string, number>,
  { announced = true }: { announced?: boolean } = {},
): Promise<PaymentView[]> {
  if (items.length === 0) return [];
  wakeTexts(ctx);
  const present = ctx.clock.now();
  const groups = new Map<string, Group>();
  // Each payment has a position among those of its merchant and mode: its sequence is the counter's old value plus this.
  const placed = items.map((item) => {
    const key = `${item.mode} ${item.merchant.id}`;
    let group = groups.get(key);
    if (!group) {
      const createdAt = item.mode === 'test' ? addMs(present, offsets.get(item.merchant.id) ?? 0) : present;
      group = { number: groups.size + 1, merchantId: item.merchant.id, mode: item.mode, createdAt, payments: 0, counted: 0 };
      groups.set(key, group);
    }
    if (counts(item)) group.counted++;
    return { group, place: ++group.payments };
  });
  const views = items.map((item, i) => newView(ctx, item, placed[i]!.group.createdAt));
  const events = views.map((view) => createdEvent(ctx, view));
  const all = [...groups.values()];
  const column = <T>(of: (item: NewPayment, index: number) => T): T[] => items.map(of);
  const json = (of: (item: NewPayment, index: number) => string) => jsonColumn(tx, column(of));
  // What few creates need is included only in batches that need it.
  const plain = items.every(
    ({ draft: d }) => !d.fixed && !d.scenario && !d.customer && d.invoiceId === null && Object.keys(d.metadata).length === 0,
  );
  const sum = (of: (item: NewPayment) => bigint) => tx.array(column(of), OID.int8);
  const instants = tx.array(
    all.map((g) => g.createdAt),
    OID.timestamptz,
  );
  await tx`
    with missing_rules as (${storeRules(tx, items)}), groups as (
      select * from unnest(${all.map((g) => g.number)}::int[], ${all.map((g) => g.merchantId)}::text[], ${all.map((g) => g.mode)}::text[],
        ${all.map((g) => g.payments)}::int[], ${all.map((g) => g.counted)}::int[], ${instants}::timestamptz[])
        as g (number, merchant_id, mode, payments, counted, created_at)
    ), counters as (
      insert into payment_counters as c (merchant_id, mode, last_sequence)
      select merchant_id, mode, payments from groups order by merchant_id, mode
      on conflict (merchant_id, mode) do update set last_sequence = c.last_sequence + excluded.last_sequence
      returning merchant_id, mode, last_sequence
    ), input as (
      select i.*, g.merchant_id, g.mode, g.created_at, c.last_sequence - g.payments + i.place as sequence
      from groups g join counters c using (merchant_id, mode) join unnest(
        ${column((i) => i.id)}::text[], ${placed.map(({ group }) => group.number)}::int[], ${placed.map(({ place }) => place)}::int[],
        ${sum((i) => i.draft.amountUsdCents)}::bigint[], ${sum((i) => i.ruleSet.id)}::bigint[], ${column((i) => i.ruleSet.rules.windowSeconds)}::int[],
        ${column((i) => i.createdWith)}::text[], ${column((i) => i.keyId) as string[]}::text[], ${json((i) => JSON.stringify(requestToJson(i.draft.request)))},
        ${events.map((event) => event.id)}::text[], ${json((_, index) => events[index]!.body)} ${
          plain
            ? tx``
            : tx`, ${column((i) => i.draft.fixed?.coin ?? null) as string[]}::text[],
        ${column((i) => i.draft.fixed?.units.toString() ?? null) as string[]}::numeric[], ${column((i) => i.draft.invoiceId) as string[]}::text[],
        ${json((i) => JSON.stringify(i.draft.metadata))},
        ${column((i) => i.draft.scenario && testIdentifier(i.draft.scenario.coin, i.draft.scenario.name)) as string[]}::text[],
        ${views.map((view) => view.customer?.id ?? null) as string[]}::text[]`
        }
      ) as i (id, number, place, amount_usd_cents, rule_set, window_seconds, created_with, key_id, request, event_id, body
        ${plain ? tx`` : tx`, fixed_coin, fixed_units, invoice_id, metadata, scenario, customer_id`}) using (number)
    ), ${
      items.some(counts)
        ? tx`usage as (
      insert into live_usage as u (merchant_id, month, payments)
      select g.merchant_id, date_trunc('month', clock_timestamp() at time zone 'UTC')::date, g.counted
      from groups g join counters using (merchant_id, mode) where g.counted > 0 order by g.merchant_id
      on conflict (merchant_id, month) do update set payments = u.payments + excluded.payments
    ), `
        : tx``
    }deltas as (
      insert into payment_count_deltas (merchant_id, mode, status, coin, payments)
      select merchant_id, mode, 'pending', '', payments from groups
    ), days as (
      insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
      select merchant_id, mode, ${quarterAt(tx, tx`created_at`)}, 'created', '', payments, 0, 0 from groups
    ), made as (
      insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, key_id, request, created_at, expires_at,
        due_at, counted_in_month ${plain ? tx`` : tx`, fixed_coin, fixed_units, invoice_id, metadata, scenario, customer_id`})
      select id, merchant_id, mode, sequence, 'pending', amount_usd_cents, rule_set, created_with, key_id, request::jsonb, created_at,
        created_at + window_seconds * interval '1 second', ${present} + window_seconds * interval '1 second', created_with = 'secret' or mode = 'test'
        ${plain ? tx`` : tx`, fixed_coin, fixed_units, invoice_id, metadata::jsonb, scenario, customer_id`}
      from input
    )${plain ? tx`` : tx`, findable as (${metadataPairs(tx, tx`input`)})`}${namedCustomers(tx, views)}${
      announced
        ? tx`, event_input as (
      select event_id as id, merchant_id, mode, id as payment_id, 'payment.created' as type, 1::bigint as sequence, body, created_at from input
    ), ${recordingParts(tx)}`
        : tx` select 1`
    }`;
  return views;
}

/** The customers of new payments, each once with all that their payments say; nothing if there are none. After the counters are locked. */
function namedCustomers(tx: Sql | Tx, views: readonly PaymentView[]): Fragment {
  const named = new Map<string, Customer & { payment: string }>();
  for (const { customer, facts } of views) {
    if (customer === null) continue;
    const before = named.get(customer.id);
    named.set(customer.id, {
      ...customer,
      email: customer.email ?? before?.email ?? null,
      name: customer.name ?? before?.name ?? null,
      payment: facts.id,
    });
  }
  if (named.size === 0) return tx``;
  const column = (of: (one: Customer & { payment: string }) => string | null) => [...named.values()].map(of) as string[];
  return tx`, named as (${customersCte(
    tx,
    tx`(select n.id, i.merchant_id, i.mode, n.email, n.name, n.reference from input i join unnest(${column((c) => c.payment)}::text[],
      ${column((c) => c.id)}::text[], ${column((c) => c.email)}::text[], ${column((c) => c.name)}::text[], ${column((c) => c.reference)}::text[])
      as n (payment, id, email, name, reference) on n.payment = i.id)`,
  )})`;
}

/** The first event of a payment. */
const createdEvent = (ctx: Context, view: PaymentView): NewEvent =>
  newEvent(ctx, view, {
    type: 'payment.created',
    parts: [view.facts.id, 'payment.created', '0'],
    sequence: 1n,
    at: view.facts.createdAt,
  });

/** A payment at the instant of its creation, when only the request is known. */
function newView(ctx: Context, item: NewPayment, createdAt: Date): PaymentView {
  const facts: PaymentFacts = {
    id: item.id,
    mode: item.mode,
    createdAt,
    targetUsdCents: item.draft.amountUsdCents,
    fixed: item.draft.fixed,
    rules: item.ruleSet.rules,
    extendedUntil: null,
    rateLockUntil: null,
    quotes: [],
    decisions: [],
    status: 'pending',
    exceptions: [],
    completedAt: null,
  };
  return {
    merchantId: item.merchant.id,
    sequence: 0n,
    version: 1n,
    facts,
    settlement: settle(facts, [], {}, createdAt),
    transfers: [],
    transfersCount: 0,
    refundedUnits: 0n,
    quote: null,
    derivationPath: null,
    request: item.draft.request,
    invoiceId: item.draft.invoiceId,
    metadata: item.draft.metadata,
    customer: item.draft.customer ? identified(ctx, { merchantId: item.merchant.id, mode: item.mode }, item.draft.customer) : null,
    createdWith: item.createdWith,
    replacedBy: null,
    scenario: item.draft.scenario,
    nextScenarios: [],
    eventCount: 1n,
    now: createdAt,
  };
}

/**
 * Completes a draft: the merchant's rules and a fresh id. Runs before the first attempt, so that a retry writes the same payment. Errors:
 * amount_too_small.
 */
export async function prepareCreate(
  ctx: Context,
  {
    merchantId,
    mode,
    createdWith,
    keyId = null,
    draft,
    idempotency,
    render,
  }: {
    merchantId: string;
    mode: Mode;
    createdWith: 'secret' | 'public';
    keyId?: string | null;
    draft: PaymentDraft;
    idempotency: IdempotencyClaim | null;
    render(view: PaymentView): RenderedReply;
  },
): Promise<NewPayment> {
  const merchant = await getMerchant(ctx, { merchantId });
  const refusal = draft.coin === null && draft.fixed === null ? refuseUncarried(ctx, { ...draft, merchant, mode }) : null;
  // A repeat gets the answer of before, although the price of the coin changed.
  if (refusal && !(idempotency && (await isAnswered(ctx.db, idempotency)))) throw refusal;
  const ruleSet = rulesFor(ctx, merchant, draft);
  return { id: draft.id ?? newId('pay', ctx.random), merchant, mode, createdWith, keyId, draft, ruleSet, idempotency, render };
}

/**
 * Creates one payment in the caller's transaction; used by creates that allocate an address. `complete` adds what the payment is created
 * with, such as its coin: the event reports the payment as the reply does.
 */
export async function createOne(
  ctx: Context,
  tx: Tx,
  item: NewPayment,
  complete: (() => Promise<PaymentView>) | null = null,
): Promise<PaymentView> {
  const results: (Settled | undefined)[] = [undefined];
  const admitted = await admit(ctx, tx, [item], results);
  if (admitted.length === 0) throw (results[0] as PromiseRejectedResult).reason;
  const [view] = await insertPayments(ctx, tx, [item], await testOffsets(tx, [item]), { announced: complete === null });
  if (complete === null) return view!;
  const completed = await complete();
  await recordEvents(tx, [createdEvent(ctx, completed)]);
  return completed;
}
