/** What simulated chains show of test payments, recorded as a follower records what its chain shows. */
import { addMs } from '../core/clock.ts';
import type { Transfer } from '../core/payment.ts';
import { settle } from '../core/settle.ts';
import type { Tx } from '../db/db.ts';
import { observe, type PaymentRecord } from './facts.ts';

/** Past the end by more than any coin's slack, so that the end is certain immediately. */
const WINDOW_END_MARGIN_MS = 60_000;

type Advance = { merchantId: string; paymentId: string; seconds: number };

/**
 * Writes what simulated chains show and is not yet recorded; ends windows when a scenario says so. Returns the payments that changed.
 */
export async function recordObservations(tx: Tx, records: readonly PaymentRecord[]): Promise<string[]> {
  const rows = records.flatMap(newFacts);
  const advances = records.flatMap(windowEnd);
  if (rows.length > 0) await writeTransfers(tx, rows);
  if (advances.length > 0) {
    await tx`
      insert into clock_advances (merchant_id, payment_id, seconds)
      select * from unnest(${advances.map((a) => a.merchantId)}::text[], ${advances.map((a) => a.paymentId)}::text[], ${advances.map((a) => a.seconds)}::bigint[])`;
  }
  return [...rows.map((row) => row.payment_id), ...advances.map((a) => a.paymentId)];
}

/** How far the clock of the payment moves now, because its scenario ends the window. */
function windowEnd(record: PaymentRecord): Advance[] {
  if (record.facts.status !== 'pending' || !observe(record)?.endWindow) return [];
  const endsAt = addMs(settle(record.facts, record.transfers, {}, record.now).expiresAt, WINDOW_END_MARGIN_MS);
  const seconds = Math.ceil((endsAt.getTime() - record.now.getTime()) / 1000);
  return seconds > 0 ? [{ merchantId: record.merchantId, paymentId: record.facts.id, seconds }] : [];
}

/** Transfers that its simulated chain shows, as rows, where they differ from the recorded ones. */
function newFacts(record: PaymentRecord) {
  const known = new Map(record.transfers.map((t) => [`${t.coin} ${t.ref}`, t]));
  return (observe(record)?.transfers ?? []).flatMap((t) => {
    const before = known.get(`${t.coin} ${t.ref}`);
    if (before && chainFacts(before) === chainFacts(t)) return [];
    return [
      {
        coin: t.coin,
        ref: t.ref,
        payment_id: record.facts.id,
        merchant_id: record.merchantId,
        txid: t.txid,
        address: t.address,
        units: t.units.toString(),
        kind: t.kind,
        first_seen_at: t.firstSeenAt,
        block_height: t.block?.height ?? null,
        block_hash: t.block?.hash ?? null,
        block_time: t.block?.time ?? null,
        lock: t.lock,
        absent_since: t.absentSince,
        conflict_txid: t.conflict?.txid ?? null,
        conflict_height: t.conflict?.height ?? null,
        conflict_seen_at: t.conflict?.seenAt ?? null,
        unmined_since: t.unminedSince,
      },
    ];
  });
}

/** The parts of a transfer that follow the chain, as one comparable string. */
const chainFacts = (t: Pick<Transfer, 'block' | 'lock' | 'absentSince' | 'conflict' | 'unminedSince'>): string =>
  JSON.stringify([t.block?.height, t.block?.hash, t.lock, t.absentSince, t.conflict?.txid, t.conflict?.height, t.unminedSince]);

const writeTransfers = (tx: Tx, rows: readonly ReturnType<typeof newFacts>[number][]) => tx`
  insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash,
    block_time, lock, absent_since, conflict_txid, conflict_height, conflict_seen_at, unmined_since)
  select * from jsonb_to_recordset(${tx.json(rows as never)}) as r (coin text, ref text, payment_id text, merchant_id text, txid text,
    address text, units numeric, kind text, first_seen_at timestamptz, block_height bigint, block_hash text, block_time timestamptz,
    lock text, absent_since timestamptz, conflict_txid text, conflict_height bigint, conflict_seen_at timestamptz, unmined_since timestamptz)
  on conflict (payment_id, coin, ref) do update set block_height = excluded.block_height, block_hash = excluded.block_hash,
    block_time = excluded.block_time, lock = excluded.lock, absent_since = excluded.absent_since,
    conflict_txid = excluded.conflict_txid, conflict_height = excluded.conflict_height,
    conflict_seen_at = excluded.conflict_seen_at, unmined_since = excluded.unmined_since`;
