/** Writes what a chain shows of payments: transfers seen, mined, replaced. The caller holds the locks of the payments. */
import type { BlockRef, Sighting } from '#chains';
import { firstSightInBlock } from '#core/certainty';
import { COIN, type Coin, chainCode, chainOf, coinsBeside } from '#core/coin';
import { earliest } from '#core/dates';
import type { Verifier } from '#core/payment';
import type { Sql, Tx } from '#db';
import type { Loser } from './spent-outpoints.ts';

/** Rows per statement; the largest blocks are written in several parts. */
export const ROWS_AT_ONCE = 1_000;
const OUTPUTS_AT_ONCE = 10_000;
/** Rows processed between two turns of the event loop. */
const READ_AT_ONCE = 2_000;
/** A transfer missing for this long is no longer searched for; if it reappears, it is recorded. */
const FORGOTTEN_DAYS = 14;

/** Who owns a deposit address. */
export type AddressOwner = { paymentId: string; merchantId: string; address: string; createdAt: Date };
/** A sighting of a payment's transfer, in one of the coins of its chain. */
export type OwnedSighting = Sighting & { coin: Coin; owner: AddressOwner };
/** With the outputs of its transaction that form one transfer, at least one. */
type Outputs = NonNullable<Sighting['outputs']>;
type Merged = OwnedSighting & { outputs: Outputs };
/** One of our transactions that is not in a block. */
export type WaitingTransaction = {
  txid: string;
  firstSeenAt: Date;
  /** Whether all its transfers are recorded as absent, all as replaced, and any as either. */
  absent: boolean;
  /** Since when all of them are absent; null while one is not. */
  absentSince: Date | null;
  /** When one of them lost its block last; null: none did. */
  unminedSince: Date | null;
  contested: boolean;
  doubted: boolean;
};
/** What a payment received in a coin from a transaction that was double-spent. */
type ReplacedTransfer = { paymentId: string; coin: Coin; txid: string; units: bigint; firstSeenAt: Date };
type Pegout = { paymentId: string; ref: string; txid: string; units: string; mined: boolean };

/** Transactions on the chain of a coin that are not in a block and may still be mined. */
export async function readWaiting(sql: Sql, coin: Coin): Promise<WaitingTransaction[]> {
  const found: WaitingTransaction[] = [];
  const rows = sql<WaitingTransaction[]>`
    select t.txid, min(t.first_seen_at) as "firstSeenAt", bool_and(t.absent_since is not null) as absent, max(t.unmined_since) as "unminedSince",
      case when bool_and(t.absent_since is not null) then max(t.absent_since) end as "absentSince", bool_and(t.conflict_txid is not null) as contested,
      bool_or(t.absent_since is not null or t.conflict_txid is not null) as doubted
    from transfers t left join tips on tips.chain = ${chainCode(coin)}
    where t.coin = any(${coinsBeside(coin)}::text[]) and t.block_height is null and t.txid is not null
      and (t.absent_since is null or t.absent_since > clock_timestamp() - make_interval(days => ${FORGOTTEN_DAYS}::int))
      and (t.conflict_height is null or t.conflict_height >= coalesce(tips.height, 0) - ${chainOf(coin).maxReorg}::bigint)
      and exists (select 1 from payments p where p.id = t.payment_id and p.mode = 'live')
    group by t.txid`;
  for await (const part of rows.cursor(READ_AT_ONCE)) for (const row of part) found.push(row);
  return found;
}

/** What payments received from these transactions, if it is not in a block. */
export async function readReplaced(sql: Sql, coin: Coin, txids: readonly string[]): Promise<ReplacedTransfer[]> {
  if (txids.length === 0) return [];
  return sql<ReplacedTransfer[]>`
    select payment_id as "paymentId", coin, txid, sum(units)::numeric(38, 0) as units, min(first_seen_at) as "firstSeenAt"
    from transfers where coin = any(${coinsBeside(coin)}::text[]) and txid = any(${[...new Set(txids)]}::text[]) and block_height is null
    group by 1, 2, 3`;
}

/**
 * A replacement keeps the first-seen time of what it replaces, as long as it pays the payment no more than the original: a small
 * transfer increased later must not apply an old rate or an earlier time to the rest. Null: nothing is inherited.
 */
export function inheritedSights(
  sightings: readonly OwnedSighting[],
  losers: readonly Loser[],
  replaced: readonly ReplacedTransfer[],
): (sighting: OwnedSighting) => Date | null {
  const name = (txid: string | null, coin: Coin, paymentId: string) => `${txid} ${coin} ${paymentId}`;
  const byTxid = Map.groupBy(replaced, (row) => row.txid);
  const before = new Map<string, ReplacedTransfer[]>();
  for (const { txid, by } of losers) {
    if (txid === by) continue;
    for (const row of byTxid.get(txid) ?? []) {
      const key = name(by, row.coin, row.paymentId);
      const known = before.get(key);
      if (known) known.push(row);
      else before.set(key, [row]);
    }
  }
  const paid = new Map<string, bigint>();
  for (const s of sightings) {
    const key = name(s.txid, s.coin, s.owner.paymentId);
    if (before.has(key)) paid.set(key, (paid.get(key) ?? 0n) + s.units);
  }
  return (sighting) => {
    const key = name(sighting.txid, sighting.coin, sighting.owner.paymentId);
    const rows = before.get(key);
    if (!rows) return null;
    // Of several generations, the largest is the one that was replaced; they never existed together.
    const most = rows.reduce((units, row) => (row.units > units ? row.units : units), 0n);
    return paid.get(key)! > most ? null : earliest(...rows.map((row) => row.firstSeenAt));
  };
}

/**
 * Outputs of one transaction to one payment are one transfer, named after the first of them, regardless of their number. Outputs below
 * the dust floor count for nothing, even together; they form a separate transfer.
 */
export function mergeOutputs(sightings: readonly OwnedSighting[]): Merged[] {
  const single: Merged[] = [];
  const merged = new Map<string, { of: OwnedSighting; outputs: Outputs[number][] }>();
  for (const s of sightings) {
    const all = outputsOf(s);
    if (s.kind !== 'output' && s.kind !== 'coinbase') {
      single.push({ ...s, outputs: all });
      continue;
    }
    for (const isDust of [false, true]) {
      const outputs = all.filter(([, units]) => units < COIN[s.coin].dustUnits === isDust);
      if (outputs.length === 0) continue;
      const name = `${s.txid} ${s.owner.paymentId} ${s.kind} ${isDust}`;
      const known = merged.get(name);
      if (known) for (const output of outputs) known.outputs.push(output);
      else merged.set(name, { of: s, outputs });
    }
  }
  const together = Array.from(merged.values(), ({ of, outputs }): Merged => {
    // A payment may have two keys, whose outputs alternate.
    outputs.sort(([a], [b]) => a - b);
    return { ...of, ref: `${of.txid}:${outputs[0]![0]}`, units: outputs.reduce((sum, [, units]) => sum + units, 0n), outputs };
  });
  return [...together, ...single];
}

/** The outputs of a sighting; a single one is its own output. */
const outputsOf = ({ ref, units, outputs }: Sighting): Outputs => outputs ?? [[Number(ref.slice(ref.lastIndexOf(':') + 1)), units]];

/** The same, with each output separate. */
export const eachOutput = <T extends Sighting>({ outputs, ...sighting }: T): Omit<T, 'outputs'>[] =>
  outputs ? outputs.map(([n, units]) => ({ ...sighting, ref: `${sighting.txid}:${n}`, units })) : [sighting];

/** Records sightings as transfers, or updates those already recorded. */
export async function writeSightings(
  tx: Tx,
  found: readonly OwnedSighting[],
  {
    coin,
    block,
    seenAt,
    inherited,
    present = null,
    atOnce = ROWS_AT_ONCE,
    certainThrough = null,
  }: {
    coin: Coin;
    /** Null: they are unconfirmed. */
    block: (BlockRef & { verifiedBy?: Verifier | null }) | null;
    seenAt: Date;
    inherited: (sighting: OwnedSighting) => Date | null;
    /** Txids now in the mempool, if it was polled. */
    present?: Pick<ReadonlySet<string>, 'has'> | null;
    atOnce?: number;
    /** The last complete poll before the block was read. */
    certainThrough?: Date | null;
  },
): Promise<void> {
  const sightings = await knownPegouts(tx, mergeOutputs(found), { coin, present });
  const unlooked = block !== null && (certainThrough === null || block.time > certainThrough);
  for (const part of partsOf(sightings, atOnce)) {
    const rows = part.map((s) => {
      const { coin, owner, outputs } = s;
      const first = block ? firstSightInBlock({ coin, blockTime: block.time, seenAt, givenAt: owner.createdAt, certainThrough }) : seenAt;
      return {
        coin,
        ref: s.ref,
        payment_id: owner.paymentId,
        merchant_id: owner.merchantId,
        txid: s.txid,
        address: owner.address,
        units: s.units.toString(),
        kind: s.kind,
        first_seen_at: inherited(s) ?? first,
        lock: s.lock,
        ...(s.place !== undefined && { place: s.place }),
        ...(outputs.length > 1 && { output_count: outputs.length, outputs: outputs.map(([n, units]) => [n, String(units)]) }),
      };
    });
    await writeRows(tx, rows, { block, unlooked });
  }
}

/** Splits into parts by number of rows, or by thousands of outputs. */
function* partsOf(sightings: readonly Merged[], atOnce: number): Generator<Merged[]> {
  let part: Merged[] = [];
  let outputs = 0;
  for (const s of sightings) {
    part.push(s);
    outputs += s.outputs.length;
    if (part.length < atOnce && outputs < OUTPUTS_AT_ONCE) continue;
    yield part;
    part = [];
    outputs = 0;
  }
  if (part.length > 0) yield part;
}

/**
 * One transfer for each transaction and payment, named after its first output. An earlier version recorded each output separately. Those
 * rows keep their names and amounts, which add up to the same, and follow the transaction.
 */
const writeRows = (
  tx: Tx,
  rows: readonly object[],
  { block, unlooked }: { block: (BlockRef & { verifiedBy?: Verifier | null }) | null; unlooked: boolean },
) => tx`
  with r as materialized (
    select r.*, ${block?.height ?? null}::bigint as block_height, ${block?.hash ?? null}::text as block_hash, ${block?.time ?? null}::timestamptz as block_time,
      ${block?.verifiedBy ?? null}::text as verified_by
    from jsonb_to_recordset(${tx.json(rows as never)}) as r (coin text, ref text, payment_id text, merchant_id text, txid text, address text,
      units numeric, kind text, first_seen_at timestamptz, lock text, place int, output_count int, outputs jsonb)),
  others as (
    update transfers t set block_height = coalesce(r.block_height, t.block_height), block_hash = coalesce(r.block_hash, t.block_hash),
      block_time = coalesce(r.block_time, t.block_time), lock = coalesce(r.lock, t.lock),
      verified_by = case when r.block_hash is null then t.verified_by else r.verified_by end,
      absent_since = null, conflict_txid = null, conflict_height = null, conflict_seen_at = null,
      disputed_since = case when r.block_hash is null or r.block_hash = t.block_hash then t.disputed_since end
    -- Finds rows by transaction. Keeps the planner off the index by payment, because a payment may have tens of thousands of transfers.
    from r where t.txid = r.txid and t.payment_id || '' = r.payment_id and t.coin = r.coin and t.kind = r.kind
      and r.output_count > 1 and not exists (select 1 from r as named where named.payment_id = t.payment_id and named.ref = t.ref))
  insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, output_count, outputs, kind, first_seen_at, block_height, block_hash,
    block_time, verified_by, lock, place)
  select r.coin, r.ref, r.payment_id, r.merchant_id, r.txid, r.address, r.units, coalesce(r.output_count, 1), r.outputs, r.kind, r.first_seen_at,
    r.block_height, r.block_hash, r.block_time, r.verified_by, r.lock, r.place
  from r
  on conflict (payment_id, coin, ref) do update set
    -- The gain of an account in a block is defined by that block: a reread replaces the earlier amount, and is valued again if the
    -- amount differs. The amounts of outputs are fixed by their transaction id.
    values = case when excluded.kind not in ('output', 'coinbase', 'pegout') and excluded.block_height is not null
      and excluded.units <> transfers.units then '[]' else transfers.values end,
    units = case when excluded.kind not in ('output', 'coinbase', 'pegout') and excluded.block_height is not null
      then excluded.units else transfers.units end,
    -- If no poll was possible before, the first sighting may be too late, so an earlier one from the block replaces it.
    first_seen_at = case when ${unlooked} then least(transfers.first_seen_at, excluded.first_seen_at) else transfers.first_seen_at end,
    block_height = coalesce(excluded.block_height, transfers.block_height), block_hash = coalesce(excluded.block_hash, transfers.block_hash),
    block_time = coalesce(excluded.block_time, transfers.block_time), lock = coalesce(excluded.lock, transfers.lock),
    place = coalesce(excluded.place, transfers.place),
    verified_by = case when excluded.block_hash is null then transfers.verified_by else excluded.verified_by end,
    txid = case when excluded.block_height is null and transfers.block_height is not null then transfers.txid else excluded.txid end,
    absent_since = null, conflict_txid = null, conflict_height = null, conflict_seen_at = null,
    disputed_since = case when excluded.block_hash is null or excluded.block_hash = transfers.block_hash then transfers.disputed_since end`;

/**
 * LTC: a peg-out is one transfer under changing transaction ids: its own while it is pending, the HogEx's once mined, another HogEx's
 * after a reorganization. It keeps the ref it was first seen under, and with it first-seen time, worth and decisions.
 */
async function knownPegouts(
  tx: Tx,
  sightings: readonly Merged[],
  { coin, present }: { coin: Coin; present: Pick<ReadonlySet<string>, 'has'> | null },
): Promise<readonly Merged[]> {
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
 * The ref under which each peg-out is already known, if any. Equal ones to the same payment cannot be told apart: as many are recorded
 * as ever existed at the same time.
 */
export function pairPegouts(
  pegouts: readonly OwnedSighting[],
  /** The recorded ones of the same payments, in the order of their first sight. */
  rows: readonly Pegout[],
  present: Pick<ReadonlySet<string>, 'has'> | null,
): Map<OwnedSighting, string> {
  const taken = new Set<Pegout>();
  const refs = new Map<OwnedSighting, string>();
  /** Assigns each peg-out the first free row of the same payment and amount that has the same `name`. */
  const pair = (fits: (row: Pegout) => boolean, name: (one: { ref: string; txid: string | null }) => string | null): void => {
    const free = Map.groupBy(
      rows.filter((row) => !taken.has(row) && fits(row)),
      (row) => `${row.paymentId} ${row.units} ${name(row)}`,
    );
    for (const list of free.values()) list.reverse();
    for (const s of pegouts) {
      if (refs.has(s)) continue;
      const row = free.get(`${s.owner.paymentId} ${s.units} ${name(s)}`)?.pop();
      if (!row) continue;
      refs.set(s, row.ref);
      taken.add(row);
    }
  };
  // The most certain matches first, each for all peg-outs: one found under its own name is never mistaken for another.
  pair(
    (row) => !row.mined,
    ({ ref }) => ref,
  );
  pair(
    (row) => !row.mined,
    ({ txid }) => txid,
  );
  // In a block, match any pending row. In the mempool, match one whose transaction is no longer there: it lost its block, or the block
  // that included it was attributed to an equal one.
  pair(
    (row) => !row.mined && !present?.has(row.txid),
    () => '',
  );
  // Shown as pending by a machine that lacks its block.
  pair(
    () => true,
    ({ ref }) => ref,
  );
  return refs;
}

/** Records what double-spent transactions of these payments; `height`: of the block with the spender, null when it is pending too. */
export async function writeConflicts(
  tx: Tx,
  losers: readonly Loser[],
  { coin, paymentIds, height }: { coin: Coin; paymentIds: readonly string[]; height: number | null },
): Promise<void> {
  for (let i = 0; i < losers.length; i += ROWS_AT_ONCE) {
    const part = losers.slice(i, i + ROWS_AT_ONCE);
    await tx`
      update transfers t set conflict_txid = r.by, conflict_height = ${height}::bigint, conflict_seen_at = coalesce(t.conflict_seen_at, clock_timestamp())
      from unnest(${part.map((loser) => loser.txid)}::text[], ${part.map((loser) => loser.by)}::text[]) as r (txid, by)
      where t.coin = any(${coinsBeside(coin)}::text[]) and t.txid = r.txid and t.payment_id = any(${paymentIds as string[]}::text[])
        and t.block_height is null and t.conflict_height is null`;
  }
}

/** Records which transactions of these payments left the mempool, and which are back in it. */
export async function writePresence(
  tx: Tx,
  { coin, paymentIds, gone, back }: { coin: Coin; paymentIds: readonly string[]; gone: readonly string[]; back: readonly string[] },
): Promise<void> {
  const of = (txids: readonly string[]) => tx`
    coin = any(${coinsBeside(coin)}::text[]) and txid = any(${txids as string[]}::text[]) and payment_id = any(${paymentIds as string[]}::text[])
    and block_height is null and conflict_height is null`;
  if (gone.length > 0) await tx`update transfers set absent_since = clock_timestamp() where ${of(gone)} and absent_since is null`;
  if (back.length > 0) await tx`update transfers set absent_since = null, conflict_txid = null, conflict_seen_at = null where ${of(back)}`;
}
