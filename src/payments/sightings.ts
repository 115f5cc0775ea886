/** Writes what a chain shows of payments: transfers seen, mined, replaced. The caller holds the locks of the payments. */
import type { BlockRef, Conflict, Sighting } from '../chains/chain.ts';
import { earliest } from '../core/clock.ts';
import type { Coin } from '../core/coin.ts';
import type { Sql, Tx } from '../db/db.ts';

/** Whose a deposit address is. */
export type Owner = { paymentId: string; merchantId: string; address: string; createdAt: Date };
/** A sighting of a payment's transfer. */
export type Owned = Sighting & { owner: Owner };
/** A transfer of ours that is in no block. */
export type Waiting = {
  paymentId: string;
  ref: string;
  txid: string;
  units: bigint;
  firstSeenAt: Date;
  spends: string[];
  absent: boolean;
  contested: boolean;
};
/** Waiting transfers by the outpoints that they spend. */
export type Spenders = ReadonlyMap<string, readonly Waiting[]>;
export type Lost = { paymentId: string; ref: string; txid: string };
type Pegout = { paymentId: string; ref: string; txid: string; units: string; mined: boolean };

/** The coin's transfers that are in no block, with the outpoints they spend. */
export const readWaiting = (sql: Sql, coin: Coin) => sql<Waiting[]>`
  select payment_id as "paymentId", ref, txid, units, first_seen_at as "firstSeenAt", spends,
    absent_since is not null as absent, conflict_txid is not null as contested
  from transfers where coin = ${coin} and block_height is null and txid is not null
    and exists (select 1 from payments p where p.id = payment_id and p.mode = 'live')`;

export function spendersOf(waiting: readonly Waiting[]): Map<string, Waiting[]> {
  const found = new Map<string, Waiting[]>();
  for (const row of waiting) {
    for (const outpoint of row.spends) {
      const rows = found.get(outpoint);
      if (rows) rows.push(row);
      else found.set(outpoint, [row]);
    }
  }
  return found;
}

/** Which waiting transfers lose their coins, and to which transaction. */
export const conflictsOf = (conflicts: readonly Conflict[], spenders: Spenders): Lost[] =>
  conflicts.flatMap(({ outpoint, txid, failed = false }) =>
    (spenders.get(outpoint) ?? [])
      .filter((row) => failed || row.txid !== txid)
      .map((row) => ({ paymentId: row.paymentId, ref: row.ref, txid })),
  );

/**
 * A replacement keeps the first sight of what it replaces, as long as it pays the payment no more than that did: a small
 * transfer raised later must not carry an old rate or an early hour over to the rest. Null: nothing is inherited.
 */
export function inheritedSight(sighting: Owned, all: readonly Owned[], spenders: Spenders): Date | null {
  const { paymentId } = sighting.owner;
  const replaced = new Map(
    sighting.spends
      .flatMap((outpoint) => spenders.get(outpoint) ?? [])
      .filter((row) => row.paymentId === paymentId && row.txid !== sighting.txid)
      .map((row) => [row.ref, row]),
  );
  if (replaced.size === 0) return null;
  // Of several generations the largest is what was replaced; they never stood together.
  const byTx = new Map<string, bigint>();
  for (const row of replaced.values()) byTx.set(row.txid, (byTx.get(row.txid) ?? 0n) + row.units);
  const before = [...byTx.values()].reduce((a, b) => (b > a ? b : a));
  const now = all.filter((s) => s.txid === sighting.txid && s.owner.paymentId === paymentId).reduce((total, s) => total + s.units, 0n);
  return now > before ? null : earliest(...[...replaced.values()].map((row) => row.firstSeenAt));
}

/** Records sightings as transfers, or brings those that are recorded up to date. Returns which they are, as `payment ref`. */
export async function writeSightings(
  tx: Tx,
  found: readonly Owned[],
  {
    coin,
    block,
    seenAt,
    spenders,
    present = null,
  }: {
    coin: Coin;
    /** Null: they wait. */
    block: BlockRef | null;
    seenAt: Date;
    spenders: Spenders;
    /** Txids now in the mempool, when it was looked at. */
    present?: Pick<ReadonlySet<string>, 'has'> | null;
  },
): Promise<ReadonlySet<string>> {
  if (found.length === 0) return new Set();
  const sightings = await knownPegouts(tx, found, { coin, present });
  const rows = sightings.map((s) => {
    const { owner } = s;
    // Read late, but mined in time: the block's time tells, never before the address was given.
    const first = block && block.time < seenAt ? (block.time > owner.createdAt ? block.time : owner.createdAt) : seenAt;
    return {
      coin,
      ref: s.ref,
      payment_id: owner.paymentId,
      merchant_id: owner.merchantId,
      txid: s.txid,
      address: owner.address,
      units: s.units.toString(),
      kind: s.kind,
      spends: s.spends,
      first_seen_at: inheritedSight(s, sightings, spenders) ?? first,
      block_height: block?.height ?? null,
      block_hash: block?.hash ?? null,
      block_time: block?.time ?? null,
      lock: s.lock,
    };
  });
  await tx`
    insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, spends, first_seen_at, block_height, block_hash, block_time, lock)
    select r.coin, r.ref, r.payment_id, r.merchant_id, r.txid, r.address, r.units, r.kind, r.spends, r.first_seen_at, r.block_height, r.block_hash, r.block_time, r.lock
    from jsonb_to_recordset(${tx.json(rows as never)}) as r (coin text, ref text, payment_id text, merchant_id text, txid text, address text, units numeric,
      kind text, spends text[], first_seen_at timestamptz, block_height bigint, block_hash text, block_time timestamptz, lock text)
    on conflict (payment_id, coin, ref) do update set
      -- A block read anew replaces what it told before; what is worth another sum is valued again.
      values = case when excluded.block_height is not null and excluded.units <> transfers.units then '[]' else transfers.values end,
      units = case when excluded.block_height is not null then excluded.units else transfers.units end,
      block_height = coalesce(excluded.block_height, transfers.block_height), block_hash = coalesce(excluded.block_hash, transfers.block_hash),
      block_time = coalesce(excluded.block_time, transfers.block_time), lock = coalesce(excluded.lock, transfers.lock),
      txid = case when excluded.block_height is null and transfers.block_height is not null then transfers.txid else excluded.txid end,
      absent_since = null, conflict_txid = null, conflict_height = null, conflict_seen_at = null,
      unmined_since = case when excluded.block_height is null then transfers.unmined_since end`;
  return new Set(sightings.map((s) => `${s.owner.paymentId} ${s.ref}`));
}

/**
 * LTC: a peg-out is one transfer under changing transaction ids: its own while it waits, the HogEx's once mined, another HogEx's
 * after a reorganisation. It keeps the ref it was first seen under, and with it first sight, worth and what was decided about it.
 */
async function knownPegouts(
  tx: Tx,
  sightings: readonly Owned[],
  { coin, present }: { coin: Coin; present: Pick<ReadonlySet<string>, 'has'> | null },
): Promise<readonly Owned[]> {
  const pegouts = sightings.filter((s) => s.kind === 'pegout');
  if (pegouts.length === 0) return sightings;
  const ids = [...new Set(pegouts.map((s) => s.owner.paymentId))];
  const rows = await tx<Pegout[]>`
    select payment_id as "paymentId", ref, txid, units::text as units, block_height is not null as mined
    from transfers where coin = ${coin} and kind = 'pegout' and payment_id = any(${ids}::text[]) order by first_seen_at, ref`;
  const refs = pairPegouts(pegouts, rows, present);
  return sightings.map((s) => ({ ...s, ref: refs.get(s) ?? s.ref }));
}

/**
 * Under which ref each peg-out is known, if it is. Of equal ones to the same payment nobody knows which is which: as many are
 * recorded as were ever there at the same time.
 */
export function pairPegouts(
  pegouts: readonly Owned[],
  /** Those of the same payments that are recorded, in the order of their first sight. */
  rows: readonly Pegout[],
  present: Pick<ReadonlySet<string>, 'has'> | null,
): Map<Owned, string> {
  const free = new Set<Pegout>(rows);
  const refs = new Map<Owned, string>();
  const pair = (fits: (row: Pegout, s: Owned) => boolean): void => {
    for (const s of pegouts) {
      if (refs.has(s)) continue;
      const row = [...free].find((one) => one.paymentId === s.owner.paymentId && one.units === s.units.toString() && fits(one, s));
      if (!row) continue;
      refs.set(s, row.ref);
      free.delete(row);
    }
  };
  // The surest first, each for all of them: one that is found under its own name is never taken for another.
  pair((row, s) => !row.mined && row.ref === s.ref);
  pair((row, s) => !row.mined && row.txid === s.txid);
  // In a block, any that waits; in the mempool, one whose transaction is no longer there: it lost its block, or the block that took
  // it was taken for that of an equal one.
  pair((row) => !row.mined && !present?.has(row.txid));
  // Shown as waiting by a machine that lacks its block.
  pair((row, s) => row.ref === s.ref);
  return refs;
}

/** Notes what waiting transfers lost their coins to; `height`: of the block that holds it, null when it waits too. */
export async function writeConflicts(
  tx: Tx,
  conflicts: readonly Lost[],
  { coin, height }: { coin: Coin; height: number | null },
): Promise<void> {
  if (conflicts.length === 0) return;
  await tx`
    update transfers t set conflict_txid = r.txid, conflict_height = r.height, conflict_seen_at = coalesce(t.conflict_seen_at, clock_timestamp())
    from jsonb_to_recordset(${tx.json(conflicts.map((c) => ({ ...c, payment_id: c.paymentId, height })) as never)}) as r (payment_id text, ref text, txid text, height bigint)
    where t.payment_id = r.payment_id and t.coin = ${coin} and t.ref = r.ref and t.block_height is null and t.conflict_height is null`;
}
