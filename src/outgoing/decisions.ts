/** What members and the operator decide about refunds and payouts: approve, record that the money was sent, cancel. */
import { createHash } from 'node:crypto';
import { addressOfScript, decodeAddress } from '#addresses';
import type { Context } from '#context';
import { COIN, type Coin, coinText, kindOf, NETWORKS } from '#core/coin';
import type { IdempotencyClaim, RenderedReply, ReplayableReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { isPaidOut, mayBecome } from '#core/refund';
import { runOnce, type Tx } from '#db';
import { type Actor, type AnyActor, writeAudit } from '#people';
import { forMode } from '#signing';
import { TEST_NETWORK, testRecipient } from '#wallets';
import { notifyOfOutgoing, weighApproval, weightOf } from './approvals.ts';
import { changeOutgoing, type Held, type Which } from './change-outgoing.ts';
import type { OfKind, OutgoingKind, OutgoingPayment, Owner, Refund } from './outgoing-payments.ts';
import { noteApproval, paysInvoice, provePaid } from './refund-invoices.ts';
import { checkApprovable } from './refunds.ts';

const refuse = ({ kind, id, state }: OutgoingPayment, action: string) => new Problem(`${kind}_state`, { id, state, action });
/** What a signing file sends is neither sent by hand nor canceled. */
export function checkNoFile({ kind, id, fileId, state }: Pick<OutgoingPayment, 'kind' | 'id' | 'fileId' | 'state'>): void {
  if (fileId !== null && state !== 'failed') throw new Problem(`${kind}_in_file`, { id, file: fileId });
}

/**
 * Approves a refund or a payout, or all payouts of a batch that are still requested. What a refund returns must still be there: a block may
 * have been replaced since. Above the limit of the merchant they stay requested until a second member approves them; a batch counts as one
 * amount, without what the member approved before. In test mode the money is sent and confirmed at once, unless it `signs`: then it waits for
 * the rehearsal of a signing file, where its coin has one. Returns how many were approved, and
 * how many wait for a second member. Errors: refund_not_found, payout_not_found, payout_batch_not_found, refund_state, payout_state,
 * refund_payment_pending, refund_address_missing, refund_invoice_expired, refund_exceeds, role_too_new, second_member_required.
 */
export function approveOutgoing<Kind extends OutgoingKind>(
  ctx: Context,
  { actor, signs = false, ...of }: Owner & { kind: Kind; actor: Actor; signs?: boolean } & Which,
): Promise<{ approved: number; waiting: number }> {
  return ctx.db.begin(async (tx) => {
    const done = { approved: 0, waiting: 0 };
    await changeOutgoing(ctx, tx, of, async (held) => {
      const requested: readonly OutgoingPayment[] = held.rows.filter(({ state }) => mayBecome(state, 'approved'));
      if (requested.length === 0) throw refuse(held.rows[0]!, 'approved');
      for (const one of requested) if (one.kind === 'refund' && held.record !== null) checkApprovable(one, held.record);
      const refused: Problem[] = [];
      // A member may have approved one payout of a batch first: at most a few members did.
      const groups = Map.groupBy(requested, ({ backedBy, approvedBy }) => JSON.stringify([backedBy, approvedBy]));
      for (const group of groups.values()) {
        const weight = await weighGroup(ctx, tx, { ...of, group }, actor);
        if (weight instanceof Problem) refused.push(weight);
        else if (weight === 'first') {
          await held.write(tx`backed_by = ${actor.userId}, approved_by = ${actor.name}`, { ids: group.map(({ id }) => id) });
          await notifyOfOutgoing(ctx, tx, group, 'second');
        } else {
          const plays = ({ mode, coin }: OutgoingPayment): boolean => mode === 'test' && !(signs && mayRehearse(ctx, coin));
          for (const [isPlayed, some] of Map.groupBy(group, plays))
            await writeApproved(ctx, tx, held, { group: some, actor, isSecond: weight === 'second', plays: isPlayed });
          done.approved += group.length;
        }
      }
      if (refused.length === groups.size) throw refused[0]!;
      done.waiting = requested.length - done.approved;
    });
    const { kind, merchantId, mode } = of;
    await writeAudit(tx, {
      ...{ merchantId, mode, actor, object: 'id' in of ? of.id : of.batchId },
      action: `${kind as OutgoingKind}.${done.approved === 0 ? 'approved_first' : 'approved'}`,
      ...('batchId' in of && { after: { ...done } }),
    });
    return done;
  });
}

/** How much the approval of these, with one request or first approval behind them, is worth; a Problem: it does not count. */
async function weighGroup(
  ctx: Context,
  tx: Tx,
  { kind, merchantId, mode, group }: Owner & { kind: OutgoingKind; group: readonly OutgoingPayment[] },
  actor: Actor,
): Promise<Awaited<ReturnType<typeof weighApproval>> | Problem> {
  const worths = group.map((one) => weightOf(ctx, one));
  const isKnown = worths.every((cents) => cents > 0n);
  const usdCents = isKnown ? worths.reduce((sum, cents) => sum + cents, 0n) : 0n;
  try {
    const { backedBy, approvedBy } = group[0]!;
    return await weighApproval(tx, `${kind}s`, { merchantId, mode, backedBy, approvedBy, usdCents }, actor);
  } catch (error) {
    if (error instanceof Problem && (error.code === 'second_member_required' || error.code === 'role_too_new')) return error;
    throw error;
  }
}

async function writeApproved<Kind extends OutgoingKind>(
  ctx: Context,
  tx: Tx,
  { now, write }: Held<Kind>,
  { group, actor, isSecond, plays }: { group: readonly OutgoingPayment[]; actor: Actor; isSecond: boolean; plays: boolean },
): Promise<void> {
  const ids = group.map(({ id }) => id);
  const rehearses = !plays && group[0]!.mode === 'test';
  const ofEach = (values: readonly (string | null)[]) => tx`(${[...values]}::text[])[array_position(${ids}::text[], id)]`;
  await write(
    tx`approved_by = case when ${isSecond} then coalesce(approved_by || ' and ', '') else '' end || ${actor.name},
      backed_by = case when ${isSecond} then backed_by end, approved_by_user = ${actor.userId || null}, approved_at = ${now},
      approved_usd_cents = ${ofEach(group.map((one) => weightOf(ctx, one).toString()))}::bigint,
      txid = ${ofEach(group.map((one) => (plays ? simulatedTxid(one) : null)))}, state = ${plays ? 'confirmed' : 'approved'}, sent_at = ${plays ? now : null}, ended_at = ${plays ? now : null}
      ${rehearses ? tx`, address = ${ofEach(group.map(rehearsedAddress))}` : tx``}`,
    { ids, states: plays ? ['approved', 'sent', 'confirmed'] : ['approved'] },
  );
  if (group[0]!.kind === 'refund') await noteApproval(tx, { ids, at: now });
}

/** Whether signing files of a coin can be rehearsed. */
const mayRehearse = (ctx: Context, coin: Coin): boolean => forMode(ctx, 'test').chains.has(COIN[coin].chain);

/** The address on the simulated chain for one that may be of any network, or a test identifier. */
function rehearsedAddress({ merchantId, coin, address }: { merchantId: string; coin: Coin; address: string | null }): string | null {
  if (address === null) return null;
  for (const network of NETWORKS) {
    try {
      const { key, address: same } = decodeAddress(address, { coin, network });
      return addressOfScript(key, { coin, network: TEST_NETWORK }) ?? same;
    } catch {
      // Not an address of this network.
    }
  }
  return testRecipient({ merchantId, coin });
}

/**
 * Cancels a refund or a payout. An approved one only for a member or the operator, who know whether the money was sent. Errors:
 * refund_not_found, payout_not_found, refund_state, payout_state, refund_in_file, payout_in_file.
 */
export function cancelOutgoing<Kind extends OutgoingKind>(
  ctx: Context,
  {
    actor,
    idempotency,
    render,
    ...of
  }: Owner & {
    kind: Kind;
    id: string;
    actor: AnyActor;
    idempotency: IdempotencyClaim | null;
    render(canceled: OfKind<Kind>): RenderedReply;
  },
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const [canceled] = await changeOutgoing(ctx, tx, of, async ({ rows, step }) => {
      const before: OutgoingPayment = rows[0]!;
      const { state, txid, failure } = before;
      if (state === 'canceled') return;
      if (!mayBecome(state, 'canceled') || ('keyId' in actor && state !== 'requested')) throw refuse(before, 'canceled');
      checkNoFile(before);
      await writeAudit(tx, { ...ownerOf(of), actor, action: `${of.kind as OutgoingKind}.canceled`, object: of.id });
      await step({ state: 'canceled', txid, failure });
    });
    return render(canceled!);
  });
}
const ownerOf = ({ merchantId, mode }: Owner): Owner => ({ merchantId, mode });

/** Cancels those payouts of a batch that nobody approved. Returns how many. Errors: payout_batch_not_found. */
export function cancelBatch(ctx: Context, { batchId, actor, ...owner }: Owner & { batchId: string; actor: Actor }): Promise<number> {
  return ctx.db.begin(async (tx) => {
    let count = 0;
    await changeOutgoing(ctx, tx, { ...owner, kind: 'payout', batchId }, async ({ rows, now, write }) => {
      const ids = rows.flatMap(({ id, state }) => (state === 'requested' ? [id] : []));
      count = ids.length;
      if (count === 0) return;
      await write(tx`state = 'canceled', ended_at = ${now}`, { ids, states: ['canceled'] });
      await writeAudit(tx, { ...owner, actor, action: 'payout.batch_canceled', object: batchId, after: { payouts: count } });
    });
    return count;
  });
}

const prefixOf = (coin: Coin): string => (kindOf(coin) === 'ethereum' ? '0x' : '');
/** The transaction of a test refund or payout. */
export const simulatedTxid = ({ kind, id, coin }: Pick<OutgoingPayment, 'kind' | 'id' | 'coin'>): string =>
  prefixOf(coin) + createHash('sha256').update(`${kind} ${id}`).digest('hex');
/** Errors: parameter_invalid. */
export function readTxid(coin: Coin, text: string): string {
  const hash = text.trim().toLowerCase();
  const prefix = prefixOf(coin);
  if (hash.startsWith(prefix) && /^[0-9a-f]{64}$/.test(hash.slice(prefix.length))) return hash;
  throw new Problem('parameter_invalid', { reason: `it must be a transaction ID of ${coinText(coin)}` }, { param: 'txid' });
}

const PREIMAGE_INSTEAD = 'this refund pays a Lightning invoice; enter the preimage that your wallet shows in its place';

/** How often the transaction that a member entered is looked for before it may be a typing error. Once a minute. */
const MISSES = 3;
/**
 * Whether what was sent may get another transaction: the one that a member entered is final and does not pay it, or for longer than the
 * network needs to show one, nothing has found it or could say whom it pays.
 */
export const mayBeCorrected = ({
  state,
  sweepId,
  failure,
  missed,
}: Pick<OutgoingPayment, 'state' | 'sweepId' | 'failure' | 'missed'>): boolean =>
  state === 'sent' && sweepId === null && (failure !== null || (missed ?? 0) >= MISSES);
/** Whether others can still send the authorizations of a file that failed. */
const isPublished = (one: OutgoingPayment): boolean => one.kind === 'payout' && one.publishedUntil !== null;

/**
 * Records the transaction in which the merchant sent the money. The same one again changes nothing, and another one is refused, unless the
 * first one is final and does not pay, or was never found: a refund or payout is sent once. Errors: refund_not_found, payout_not_found,
 * refund_state, payout_state, refund_in_file, payout_in_file, parameter_invalid.
 */
export async function markOutgoingSent<Kind extends OutgoingKind>(
  ctx: Context,
  { txid, actor, ...of }: Owner & { kind: Kind; id: string; txid: string; actor: Actor },
): Promise<OfKind<Kind>> {
  const [sent] = await ctx.db.begin((tx) =>
    changeOutgoing(ctx, tx, of, async ({ rows, now, write }) => {
      const before: OutgoingPayment = rows[0]!;
      if (paysInvoice(before)) throw new Problem('parameter_invalid', { reason: PREIMAGE_INSTEAD }, { param: 'txid' });
      const hash = readTxid(before.coin, txid);
      if (isPaidOut(before.state) && before.txid === hash) return;
      checkNoFile(before);
      if (isPublished(before) || (!mayBecome(before.state, 'sent') && !mayBeCorrected(before))) throw refuse(before, 'marked as sent');
      await writeAudit(tx, {
        ...{ ...ownerOf(of), actor, action: `${of.kind as OutgoingKind}.sent`, object: of.id },
        ...(before.state === 'sent' && before.txid !== null && { before: { txid: before.txid } }),
        after: { txid: hash },
      });
      // Its file failed, or was canceled a moment ago.
      await write(
        tx`state = 'sent', txid = ${hash}, sent_at = ${now}, failure = null, ended_at = null, file_id = null, transaction_number = null,
          looked_at = null, missed = null`,
        { states: ['sent'] },
      );
    }),
  );
  return sent!;
}

/**
 * Records the preimage of the Lightning invoice that the merchant paid, which proves it. Errors: refund_not_found, refund_state,
 * preimage_wrong.
 */
export function proveRefund(
  ctx: Context,
  {
    preimage,
    actor,
    idempotency = null,
    render = () => ({ status: 200, body: '' }),
    ...of
  }: Owner & {
    id: string;
    preimage: string;
    actor: AnyActor;
    idempotency?: IdempotencyClaim | null;
    render?: (refund: Refund) => RenderedReply;
  },
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const [refund] = await changeOutgoing(ctx, tx, { ...ownerOf(of), kind: 'refund', id: of.id }, async (held) => {
      const txid = await provePaid(tx, held, preimage);
      if (txid !== null) await writeAudit(tx, { ...ownerOf(of), actor, action: 'refund.sent', object: of.id, after: { txid } });
    });
    return render(refund!);
  });
}
