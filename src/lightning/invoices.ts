/**
 * The invoices of payments: asked for when a payer chooses Lightning, stored before they are shown, and looked at until they are settled or
 * can no longer be paid. Only a settled invoice with the preimage that hashes to its own payment hash, for at least its amount, is money.
 *
 * An invoice that was asked for and not stored was never shown, so it is never paid. One that was shown is looked at to its end, whatever
 * became of its payment, and its money is recorded like any other transfer. A look that fails is repeated, later each time: a payment does
 * not expire while an invoice of it could not be looked at.
 */
import type { Context } from '#context';
import { decodeInvoice, type Invoice, InvoiceError, paymentHashOf } from '#core/bolt11';
import { chainOf, LIGHTNING, type Network } from '#core/coin';
import { HOUR_MS, MINUTE_MS } from '#core/dates';
import { Problem } from '#core/problem';
import { type Sql, startQueue, type Tx } from '#db';
import type { Loop } from '#loop';
import { lockAndSettle } from '#settling';
import { hostOf, openBackEnd, type SealedAccess } from './access.ts';
import { type BackEnd, BackEndError, type InvoiceLook, type MadeInvoice } from './back-end.ts';

/** The shortest that an invoice may still be valid when it is shown. */
const LEAST_MS = MINUTE_MS;
/** How far the clock of a back end may be off. */
const CLOCK_MS = 10 * MINUTE_MS;
/** After a failure, Lightning is not offered for this long. */
const AWAY_SECONDS = 30;
/** While somebody is probably looking at it; while it can be paid but is not shown, or its payment waits; and after that. */
const WATCHED_MS = 500;
const WAITING_MS = 30_000;
const REST_MS = 5 * MINUTE_MS;
/** After a page was left, its customer may be in a wallet for this long. */
const LEFT_SECONDS = 60;
/** An invoice that is not paid is looked at this long after its end. */
const AFTER_MS = HOUR_MS;
/** Looks at a time. */
const MOST_LOOKS = 100;
/** Looks at one server at once, after it was left alone. */
const BURST = 3;
/** A back end that keeps a look waiting this long gets no other until it has answered. */
const SLOW_MS = 2_000;
/** How long a back end is listened to at a time. */
const LISTEN_MS = MINUTE_MS;
/** No payment is larger than all bitcoin. */
const ALL_MSAT = 21_000_000n * 10n ** 11n;

const OF_EARLIER = 'its invoice has the payment hash of an earlier one';

type Wanted = { merchantId: string; paymentId: string; units: bigint; until: Date };

/** Gets a new invoice for a payment, which `store` records. Errors: chain_unavailable. */
export const askInvoice = (ctx: Context) => async (wanted: Wanted) => {
  const { merchantId, paymentId, units: msat, until } = wanted;
  const [backEnd] = await ctx.db.sql<({ id: string; name: string; payee: string | null; earlier: number } & SealedAccess)[]>`
    select id, name, kind, access, payee, (select count(*)::int from lightning_invoices where payment_id = ${paymentId}) as earlier
    from lightning_backends where merchant_id = ${merchantId} and active`;
  if (!backEnd) throw new Problem('coin_not_configured', { coin: LIGHTNING }, { param: 'currency' });
  try {
    const now = ctx.clock.now();
    const seconds = Math.max(LEAST_MS, until.getTime() - now.getTime()) / 1000;
    const key = `${paymentId}-${backEnd.earlier + 1}`;
    const asked = { msat, description: paymentId, seconds: Math.floor(seconds), key };
    const made = await openBackEnd(ctx, { merchantId, ...backEnd }).create(asked);
    const network = ctx.settings.networks.bitcoin;
    const invoice = checkInvoice(made, { msat, network, payee: backEnd.payee, now: ctx.clock.now() });
    const known = await ctx.db.sql`select 1 from lightning_invoices where payment_hash = ${invoice.paymentHash}`;
    if (known.length > 0) throw new BackEndError(OF_EARLIER);
    const store = async (tx: Tx): Promise<void> => {
      const stored = await tx`
        insert into lightning_invoices (payment_hash, payment_id, merchant_id, backend_id, host, bolt11, handle, msat, shown_until, expires_at)
        values (${invoice.paymentHash}, ${paymentId}, ${merchantId}, ${backEnd.id}, ${hostOf(backEnd.name)}, ${made.bolt11}, ${made.handle}, ${msat.toString()}, ${until},
          ${invoice.expiresAt}) on conflict do nothing`;
      if (stored.count === 0) throw unavailable(new BackEndError(OF_EARLIER));
    };
    return { bolt11: made.bolt11, expiresAt: invoice.expiresAt, store };
  } catch (error) {
    if (!(error instanceof BackEndError || error instanceof InvoiceError)) throw error;
    ctx.log.warn({ merchantId, paymentId, reason: error.message }, 'No Lightning invoice');
    await ctx.db.sql`
      update lightning_backends set failure = ${error.message.slice(0, 300)}, away_until = clock_timestamp() + ${AWAY_SECONDS} * interval '1 second'
      where id = ${backEnd.id}`;
    throw unavailable(error);
  }
};

const unavailable = (cause: Error): Problem =>
  new Problem(
    'chain_unavailable',
    { coin: chainOf(LIGHTNING).name, reason: cause.message },
    { param: 'currency', retryAfterSeconds: AWAY_SECONDS, cause },
  );

type Expected = { msat: bigint; network: Network; payee: string | null; now: Date };
/** The invoice that was made, if it is the one that was asked for. Errors: BackEndError, InvoiceError. */
export function checkInvoice({ bolt11, descriptionHash }: MadeInvoice, { msat, network, payee, now }: Expected): Invoice {
  const bad = (reason: string): never => {
    throw new BackEndError(`its invoice ${reason}`);
  };
  const invoice = decodeInvoice(bolt11);
  if (invoice.network !== network) bad(`is for ${invoice.network}, not for ${network}`);
  if (invoice.msat !== msat) bad(`is for ${invoice.msat} millisatoshis, not for ${msat}`);
  if (payee !== null && invoice.payee !== payee) bad('pays another node than the one that was set up');
  if (invoice.expiresAt.getTime() < now.getTime() + LEAST_MS) bad('expires in less than a minute');
  if (Math.abs(invoice.createdAt.getTime() - now.getTime()) > CLOCK_MS) bad('was made at another time: its clock is off');
  // LUD-06. Some providers put a text in its place.
  if (descriptionHash !== null && invoice.descriptionHash !== null && invoice.descriptionHash !== descriptionHash)
    bad('is not the one that its Lightning address describes');
  return invoice;
}

/** What a look proves: nothing, that an invoice ended, that it is called paid without a proof, or that it is paid. */
type Verdict = { is: 'open' | 'ended' } | { is: 'unproven'; reason: string } | ({ is: 'paid' } & Paid);
/** `feeMsat`: what the back end kept of it. */
type Paid = { msat: bigint; feeMsat: bigint; preimage: string };

/** Judges what a back end says about an invoice. The only place where a Lightning payment becomes money. */
export function judgeLook({ paymentHash, msat }: { paymentHash: string; msat: bigint }, look: InvoiceLook): Verdict {
  if (look.state !== 'settled') return { is: look.state === 'canceled' ? 'ended' : 'open' };
  const preimage = look.preimage?.toLowerCase() ?? '';
  if (preimage === '') return { is: 'unproven', reason: 'it calls the invoice paid and shows no preimage' };
  const isRight = paymentHashOf(preimage) === paymentHash;
  if (!isRight) return { is: 'unproven', reason: 'it calls the invoice paid and shows a wrong preimage' };
  const received = look.receivedMsat ?? msat;
  if (received < msat) return { is: 'unproven', reason: 'it calls the invoice paid with less than its amount' };
  if (received > ALL_MSAT) return { is: 'unproven', reason: 'it calls the invoice paid with more than there is' };
  const fee = look.feeMsat ?? 0n;
  return { is: 'paid', msat: received, feeMsat: fee < 0n ? 0n : fee > received ? received : fee, preimage };
}

type OpenInvoice = SealedAccess & {
  paymentHash: string;
  paymentId: string;
  merchantId: string;
  backendId: string;
  host: string;
  handle: string;
  bolt11: string;
  msat: bigint;
  createdAt: Date;
  watchedUntil: Date;
  shownUntil: Date;
  expiresAt: Date;
  lookedAt: Date | null;
  isWaiting: boolean;
  /** It was called paid, without proof. */
  isClaimed: boolean;
  failures: number;
  now: Date;
};

/** Looks at open invoices when they are due. */
export function startLightning(ctx: Context): Pick<Loop, 'stop'> {
  const underWay = new Map<Promise<void>, { backendId: string; sinceMs: number }>();
  const listening = createListening(ctx);
  const queue = startQueue(ctx, {
    name: 'lightning',
    due: (sql) => sql`(
      select min(greatest(i.due_at, h.free_at)) from lightning_hosts h cross join lateral (
        select due_at from lightning_invoices where host = h.host and state = 'open' order by due_at limit 1) i)`,
    round: async () => {
      const slowMs = ctx.clock.monotonicMs() - SLOW_MS;
      const busy = [...underWay.values()].filter(({ sinceMs }) => sinceMs < slowMs).map(({ backendId }) => backendId);
      const hosts = Math.floor((MOST_LOOKS - underWay.size) / BURST);
      const due = hosts > 0 ? await takeDue(ctx, { busy, hosts }) : [];
      for (const invoice of due) {
        const looking = lookAt(ctx, invoice, listening).finally(() => underWay.delete(looking));
        underWay.set(looking, { backendId: invoice.backendId, sinceMs: ctx.clock.monotonicMs() });
      }
      return false;
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not look at Lightning invoices; retrying'),
  });
  return {
    stop: async () => {
      await queue.stop();
      listening.stop();
      await Promise.all(underWay.keys());
    },
  };
}

/**
 * Takes invoices that are due for this process: if it ends, another one looks at them half a minute later. Each server is asked at its pace by all
 * processes together. Where more are due than it is asked about, those come first that are late for their age, so the youngest before all others.
 */
const takeDue = (ctx: Context, { busy, hosts }: { busy: readonly string[]; hosts: number }): Promise<OpenInvoice[]> =>
  ctx.db.sql<OpenInvoice[]>`
    with hosts as (
      select host, pace_ms, 1 + least(${BURST - 1}, floor(extract(epoch from clock_timestamp() - free_at) * 1000 / pace_ms))::int as room
      from lightning_hosts h where free_at <= clock_timestamp() and exists (
        select 1 from lightning_invoices where host = h.host and state = 'open' and due_at <= clock_timestamp())
      order by free_at limit ${hosts} for no key update skip locked),
    picked as (
      select i.payment_hash, i.host from hosts h cross join lateral (
        select payment_hash, host from lightning_invoices
        where host = h.host and state = 'open' and due_at <= clock_timestamp() and backend_id <> all(${busy as string[]}::text[])
        order by extract(epoch from clock_timestamp() - due_at) / greatest(1, extract(epoch from clock_timestamp() - created_at)) desc
        limit h.room for update skip locked) i),
    asked as (
      update lightning_hosts h
      set free_at = greatest(free_at, clock_timestamp() - ${BURST - 1} * p.pace) + p.looks * p.pace
      from (select host, pace_ms * interval '1 millisecond' as pace, count(*) as looks from hosts join picked using (host) group by 1, 2) p
      where h.host = p.host),
    taken as (
      update lightning_invoices set due_at = clock_timestamp() + ${WAITING_MS} * interval '1 millisecond'
      where payment_hash in (select payment_hash from picked) returning *)
    select i.payment_hash as "paymentHash", i.payment_id as "paymentId", i.merchant_id as "merchantId", i.backend_id as "backendId", b.kind, b.access,
      i.host, i.handle, i.bolt11, i.msat, i.created_at as "createdAt", i.watched_until as "watchedUntil", i.shown_until as "shownUntil",
      i.expires_at as "expiresAt", i.looked_at as "lookedAt", i.failures, p.status = 'pending' as "isWaiting", clock_timestamp() as now,
      exists (select 1 from transfers t where t.payment_id = i.payment_id and t.coin = ${LIGHTNING} and t.ref = 'ln:' || i.payment_hash) as "isClaimed"
    from taken i join lightning_backends b on b.id = i.backend_id join payments p on p.id = i.payment_id`;

/** The pages of these payments are open: their invoices are looked at as if they were just made. */
export async function watchInvoices(ctx: Context, { paymentIds }: { paymentIds: readonly string[] }): Promise<void> {
  await ctx.db.sql`
    update lightning_invoices set watched_until = clock_timestamp() + ${LEFT_SECONDS} * interval '1 second',
      due_at = least(due_at, clock_timestamp() + ${WATCHED_MS} * interval '1 millisecond')
    where payment_id = any(${paymentIds as string[]}::text[]) and state = 'open' and failures = 0 and shown_until > clock_timestamp()`;
}

type Listening = ReturnType<typeof createListening>;
/** Listens to back ends that say when an invoice is paid, which is then the first to be looked at. */
function createListening(ctx: Context) {
  const stopped = new AbortController();
  /** The back ends. One that ends early is not listened to again before its time. */
  const open = new Set<string>();
  const hear = (backendId: string) => (paymentHash: string) =>
    void ctx.db
      .sql`update lightning_invoices set due_at = created_at where payment_hash = ${paymentHash} and backend_id = ${backendId} and state = 'open'`.catch(
      (error: unknown) => ctx.log.warn({ err: error, paymentHash }, 'Could not look at a Lightning invoice earlier'),
    );
  return {
    start: (backendId: string, { listen }: BackEnd): void => {
      if (!listen || open.has(backendId)) return;
      open.add(backendId);
      const ended = AbortSignal.any([stopped.signal, AbortSignal.timeout(LISTEN_MS)]);
      ended.addEventListener('abort', () => open.delete(backendId), { once: true });
      listen(hear(backendId), ended).catch((error: unknown) =>
        ctx.log.debug({ err: error, backendId }, 'No news of Lightning payments for now'),
      );
    },
    stop: (): void => stopped.abort(),
  };
}

async function lookAt(ctx: Context, invoice: OpenInvoice, listening: Listening): Promise<void> {
  const { paymentHash, handle, backendId } = invoice;
  try {
    const backEnd = openBackEnd(ctx, invoice);
    listening.start(backendId, backEnd);
    const look = await backEnd.look(handle);
    const verdict = judgeLook(invoice, look);
    switch (verdict.is) {
      case 'paid':
        return await recordPaid(ctx, invoice, { ...verdict, settledAt: look.settledAt });
      case 'unproven':
        return await recordUnproven(ctx, invoice, verdict.reason);
      case 'open':
      case 'ended':
        return await recordUnpaid(ctx, invoice, verdict.is === 'ended' || isLongOver(invoice));
    }
  } catch (error) {
    if (!(error instanceof BackEndError)) ctx.log.error({ err: error, paymentHash }, 'Could not look at a Lightning invoice');
    await recordFailure(ctx, invoice, error as Error).catch((cause: unknown) => ctx.log.error({ err: cause }, 'Could not record a look'));
  }
}

/** When an invoice that is not paid is looked at again: twice a second while somebody is probably looking at it, and then less and less. */
function pauseMs({ watchedUntil, shownUntil, expiresAt, isWaiting, now }: OpenInvoice): number {
  if (now >= shownUntil) return isWaiting || now < expiresAt ? WAITING_MS : REST_MS;
  return Math.min(WAITING_MS, Math.max(WATCHED_MS, (now.getTime() - watchedUntil.getTime()) / 4));
}

/** What was called paid without proof, and is not any more, was never money. */
async function recordUnpaid(ctx: Context, invoice: OpenInvoice, isOver: boolean): Promise<void> {
  const { paymentId, paymentHash } = invoice;
  const record = (sql: Sql | Tx) => sql`
    update lightning_invoices set looked_at = ${invoice.now}, failures = 0, failure = null, state = ${isOver ? 'ended' : 'open'},
      due_at = clock_timestamp() + ${pauseMs(invoice)} * interval '1 millisecond'
    where payment_hash = ${paymentHash} and state = 'open'`;
  if (!invoice.isClaimed) return void (await record(ctx.db.sql));
  await ctx.db.begin((tx) =>
    lockAndSettle(ctx, tx, [paymentId], async () => {
      await record(tx);
      await tx`delete from transfers where payment_id = ${paymentId} and coin = ${LIGHTNING} and ref = ${`ln:${paymentHash}`} and lock is null`;
    }),
  );
}

/**
 * An invoice that its back end does not know, an hour after its end, can no longer be paid: providers delete them. One whose back end does not
 * answer stays open.
 */
async function recordFailure(ctx: Context, invoice: OpenInvoice, error: Error): Promise<void> {
  const ms = Math.min(REST_MS, pauseMs(invoice) * 2 ** Math.min(10, invoice.failures));
  const isOver = error instanceof BackEndError && error.isAnswer && isLongOver(invoice);
  await ctx.db.sql`
    update lightning_invoices set failures = failures + 1, failure = ${error.message.slice(0, 300)}, state = ${isOver ? 'ended' : 'open'},
      due_at = clock_timestamp() + ${ms} * interval '1 millisecond'
    where payment_hash = ${invoice.paymentHash} and state = 'open'`;
  if (error instanceof BackEndError && error.restMs > 0)
    await ctx.db.sql`
      update lightning_hosts set free_at = greatest(free_at, clock_timestamp() + ${error.restMs} * interval '1 millisecond')
      where host = ${invoice.host}`;
}
const isLongOver = ({ now, expiresAt }: OpenInvoice): boolean => now.getTime() > expiresAt.getTime() + AFTER_MS;

/** It arrived when the back end says, unless that was before Florin last saw it open. */
function arrivedAt({ lookedAt, createdAt, now }: OpenInvoice, settledAt: Date | null): Date {
  if (settledAt === null || settledAt > now) return now;
  const earliest = lookedAt ?? createdAt;
  return settledAt < earliest ? earliest : settledAt;
}

async function recordPaid(
  ctx: Context,
  invoice: OpenInvoice,
  { msat, feeMsat, preimage, settledAt }: Paid & { settledAt: Date | null },
): Promise<void> {
  const at = arrivedAt(invoice, settledAt);
  await ctx.db.begin((tx) =>
    lockAndSettle(ctx, tx, [invoice.paymentId], async () => {
      const settled = await tx`
        update lightning_invoices set state = 'settled', preimage = ${preimage}, settled_at = ${at}, fee_msat = ${feeMsat.toString()},
          failures = 0, failure = null
        where payment_hash = ${invoice.paymentHash} and state = 'open'`;
      if (settled.count > 0) await writeTransfer(tx, invoice, { msat, at, isProven: true });
    }),
  );
}

/** The payment waits, and says for what, while the invoice is called paid without the proof. */
async function recordUnproven(ctx: Context, invoice: OpenInvoice, reason: string): Promise<void> {
  await ctx.db.begin((tx) =>
    lockAndSettle(ctx, tx, [invoice.paymentId], async () => {
      await tx`
        update lightning_invoices set looked_at = ${invoice.now}, failures = 0, failure = ${reason},
          due_at = clock_timestamp() + ${WAITING_MS} * interval '1 millisecond'
        where payment_hash = ${invoice.paymentHash} and state = 'open'`;
      await writeTransfer(tx, invoice, { msat: invoice.msat, at: invoice.now, isProven: false });
    }),
  );
  ctx.log.warn({ paymentId: invoice.paymentId, reason }, 'A Lightning invoice is called paid without proof');
}

const writeTransfer = (
  tx: Tx,
  { paymentId, merchantId, paymentHash, bolt11 }: OpenInvoice,
  { msat, at, isProven }: { msat: bigint; at: Date; isProven: boolean },
) => {
  const proof = isProven ? 'preimage' : null;
  return tx`
    insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, verified_by, lock)
    values (${LIGHTNING}, ${`ln:${paymentHash}`}, ${paymentId}, ${merchantId}, ${paymentHash}, ${bolt11}, ${msat.toString()}, 'invoice', ${at}, ${proof}, ${proof})
    on conflict (payment_id, coin, ref) do update set
      values = case when excluded.lock is not null and excluded.units <> transfers.units then '[]' else transfers.values end,
      units = case when excluded.lock is null then transfers.units else excluded.units end,
      verified_by = coalesce(excluded.verified_by, transfers.verified_by), lock = coalesce(excluded.lock, transfers.lock)`;
};
