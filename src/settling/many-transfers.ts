/** The transfers of a payment from its row and its transfer rows; those of a payment with very many are cached between reads. */
import { type Context, perContext } from '#context';
import type { Coin } from '#core/coin';
import type { Transfer, TransferValue, Verifier } from '#core/payment';
import { valuesFromJson } from '#core/stored-payment';
import type { Fragment, Sql, Tx } from '#db';
import { serverRun } from '#wallets';

/** A row of transfers, as JSON or as columns. */
export type StoredTransfer = {
  coin: Coin;
  ref: string;
  txid: string | null;
  address: string;
  units: string | bigint;
  outputs: number;
  kind: Transfer['kind'];
  firstSeenAt: string | Date;
  blockHeight: number | bigint | null;
  blockHash: string | null;
  blockTime: string | Date | null;
  verifiedBy: Verifier | null;
  lock: Transfer['lock'];
  absentSince: string | Date | null;
  conflictTxid: string | null;
  conflictHeight: number | bigint | null;
  conflictSeenAt: string | Date | null;
  unminedSince: string | Date | null;
  disputedSince: string | Date | null;
  values: unknown;
};
/** The column of each field: the only list of them, from which rows are read as JSON and as columns. */
const COLUMN: Readonly<Record<keyof StoredTransfer, string>> = {
  coin: 'coin',
  ref: 'ref',
  txid: 'txid',
  address: 'address',
  units: 'units',
  outputs: 'output_count',
  kind: 'kind',
  firstSeenAt: 'first_seen_at',
  blockHeight: 'block_height',
  blockHash: 'block_hash',
  blockTime: 'block_time',
  verifiedBy: 'verified_by',
  lock: 'lock',
  absentSince: 'absent_since',
  conflictTxid: 'conflict_txid',
  conflictHeight: 'conflict_height',
  conflictSeenAt: 'conflict_seen_at',
  unminedSince: 'unmined_since',
  disputedSince: 'disputed_since',
  values: 'values',
};
const listed = (write: (name: string, column: string) => string): string =>
  Object.entries(COLUMN)
    .map(([name, column]) => write(name, `t."${column}"`))
    .join(', ');
// A number in JSON is a double; amounts are larger.
const JSON_FIELDS = listed((name, column) => `'${name}', ${column}${name === 'units' ? '::text' : ''}`);
const COLUMNS = listed((name, column) => `${column}${name === 'values' ? '::text' : ''} as "${name}"`);
/** A row `t` of transfers in the form that `toTransfer` reads. */
export const transferJson = (sql: Sql | Tx): Fragment => sql`json_build_object(${sql.unsafe(JSON_FIELDS)})`;

/** The order of first sight of the transfers of a payment. Those that are not seen before a block contains them follow their blocks. */
export const orderOfSight = (sql: Sql | Tx): Fragment =>
  sql`first_seen_at, case when place is null then -1 else coalesce(block_height, -1) end, coalesce(place, -1), coin, ref`;

/** A payment with more transfers than this is read by `readManyTransfers`. */
export const MAX_INLINE = 1_000;
/** Transfers cached for the next read, over all payments: at most about 50 MB. */
const MOST_KEPT = 50_000;
/** How long the transfers of a payment stay cached without being read. */
const KEPT_MS = 60_000;

const date = (stored: string | Date | null): Date | null => (stored === null ? null : new Date(stored));

/** `values`: the column, if it was already read. */
export function toTransfer(t: StoredTransfer, values: readonly TransferValue[] = valuesFromJson(t.values)): Transfer {
  return {
    coin: t.coin,
    ref: t.ref,
    txid: t.txid,
    address: t.address,
    units: BigInt(t.units),
    ...(t.outputs > 1 && { outputs: t.outputs }),
    kind: t.kind,
    firstSeenAt: new Date(t.firstSeenAt),
    values,
    block: t.blockHeight === null ? null : { height: Number(t.blockHeight), hash: t.blockHash!, time: new Date(t.blockTime!) },
    ...(t.verifiedBy && { verifiedBy: t.verifiedBy }),
    lock: t.lock,
    absentSince: date(t.absentSince),
    conflict:
      t.conflictTxid === null
        ? null
        : {
            txid: t.conflictTxid,
            height: t.conflictHeight === null ? null : Number(t.conflictHeight),
            seenAt: new Date(t.conflictSeenAt!),
          },
    unminedSince: date(t.unminedSince),
    disputedSince: date(t.disputedSince),
  };
}

/** `run`: of the server that had these rows. Another one may have given their places and transactions to other rows. */
type Kept = { run: string; stamp: bigint; transfers: readonly Transfer[]; timer: NodeJS.Timeout };
const keptOf = perContext(() => new Map<string, Kept>());

/**
 * Identifies one version of one row: where it is stored, and the transaction that wrote it. An update writes a new version, so rows
 * with the same sum of stamps are the same rows with the same content.
 */
const stampOf = (sql: Sql | Tx): Fragment => sql`hashtidextended(t.ctid, t.xmin::text::bigint)`;

/**
 * The transfers of a payment that has more than MAX_INLINE. Reading ten thousand rows takes many times as long as checking that none of
 * them has changed, so they are cached. The stamp of the rows is read every time, in the caller's snapshot.
 */
export async function readManyTransfers(ctx: Context, sql: Sql | Tx, paymentId: string): Promise<Transfer[]> {
  const kept = keptOf(ctx);
  const known = kept.get(paymentId);
  if (known) {
    const [row] = await sql<{ run: string; stamp: bigint | null }[]>`
      select ${serverRun(sql)} as run, sum(${stampOf(sql)}) as stamp from transfers t where t.payment_id = ${paymentId}`;
    if (row!.run === known.run && row!.stamp === known.stamp) {
      keep(kept, paymentId, known);
      return [...known.transfers];
    }
  }
  // Before the rows: if the server changes in between, they are read again.
  const [server] = await sql<{ run: string }[]>`select ${serverRun(sql)} as run`;
  const { transfers, stamp } = await readAll(sql, paymentId);
  keep(kept, paymentId, { run: server!.run, transfers, stamp });
  return [...transfers];
}

/** Moves it to the end of the list; the first entries are evicted when there are too many. */
function keep(kept: Map<string, Kept>, paymentId: string, { run, stamp, transfers }: Omit<Kept, 'timer'>): void {
  const forget = (id: string): void => {
    clearTimeout(kept.get(id)?.timer);
    kept.delete(id);
  };
  forget(paymentId);
  if (transfers.length > MOST_KEPT) return;
  const timer = setTimeout(() => forget(paymentId), KEPT_MS).unref();
  kept.set(paymentId, { run, stamp, transfers, timer });
  let count = 0;
  for (const entry of kept.values()) count += entry.transfers.length;
  for (const [id, entry] of kept) {
    if (count <= MOST_KEPT) break;
    count -= entry.transfers.length;
    forget(id);
  }
}

/** As columns and row by row, so that neither the reply nor a turn of the event loop grows with their number. */
async function readAll(sql: Sql | Tx, paymentId: string): Promise<{ transfers: Transfer[]; stamp: bigint }> {
  const transfers: Transfer[] = [];
  let stamp = 0n;
  // Transfers of a payment often have the same worth, and are valued together.
  const values = new Map<string, readonly TransferValue[]>();
  const valuesOf = (text: string): readonly TransferValue[] => {
    const known = values.get(text) ?? valuesFromJson(JSON.parse(text));
    values.set(text, known);
    return known;
  };
  await sql<(Omit<StoredTransfer, 'values'> & { values: string; stamp: bigint })[]>`
    select ${sql.unsafe(COLUMNS)}, ${stampOf(sql)} as stamp
    from transfers t where t.payment_id = ${paymentId} order by ${orderOfSight(sql)}`.forEach((row) => {
    transfers.push(toTransfer(row, valuesOf(row.values)));
    stamp += row.stamp;
  });
  return { transfers, stamp };
}
