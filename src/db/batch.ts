/** Writing concurrent requests together, and the stored replies of Idempotency-Keys that commit with their effect. */
import { Problem } from '#core/problem';
import { type Db, OID, type Tx } from './db.ts';

/** Text is sent as is; it is only encoded where it is stored. */
export type StoredReply = { status: number; body: string | Uint8Array; sealed?: boolean };
/** Encrypts a stored reply at rest; for replies that contain a secret. */
type Sealing = { seal(bytes: Uint8Array): Uint8Array; open(bytes: Uint8Array): Uint8Array };
export type Claim = { claim: Uint8Array; fingerprint: Uint8Array };

/**
 * Collects items while batches are in flight and passes them on together: a single item is not delayed, many share a statement and a
 * commit. At most two batches are in flight, so that the database always has the next one ready. `run` returns one result per item,
 * in order; a thrown error fails them all.
 */
export function createBatcher<Item, Result>({
  maxItems,
  maxWaiting,
  run,
}: {
  maxItems: number;
  /** Beyond this many waiting items, new ones are rejected with `overloaded`: a fast rejection beats an endless queue. */
  maxWaiting: number;
  run(items: Item[]): Promise<PromiseSettledResult<Result>[]>;
}): (item: Item) => Promise<Result> {
  type Waiting = { item: Item; resolve(result: Result): void; reject(error: unknown): void };
  const waiting: Waiting[] = [];
  let running = 0;
  let scheduled = false;

  const next = async (): Promise<void> => {
    const batch = waiting.splice(0, maxItems);
    running++;
    let answer: () => void;
    try {
      const results = await run(batch.map((w) => w.item));
      answer = () =>
        batch.forEach((w, i) => {
          const result = results[i]!;
          if (result.status === 'fulfilled') w.resolve(result.value);
          else w.reject(result.reason);
        });
    } catch (error) {
      answer = () => {
        for (const w of batch) w.reject(error);
      };
    }
    running--;
    // Starts before these are answered: the database works while their replies are written.
    flush();
    answer();
  };
  const flush = () => {
    scheduled = false;
    while (waiting.length > 0 && running < 2) void next();
  };
  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    // Runs after all readable sockets, so that their requests join the batch.
    setImmediate(flush);
  };
  return (item) => {
    if (waiting.length >= maxWaiting) {
      return Promise.reject(new Problem('overloaded', { seconds: 1 }, { retryAfterSeconds: 1 }));
    }
    return new Promise<Result>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      schedule();
    });
  };
}

const bytesOf = (body: string | Uint8Array): Uint8Array => (typeof body === 'string' ? Buffer.from(body) : body);
const lockOf = (claim: Uint8Array): bigint => Buffer.from(claim).readBigInt64BE(0);

/**
 * Locks each key for this transaction and finds its stored reply. `busy`: another request is running with it (waiting would hold up
 * the batch). Claims must be distinct.
 */
export async function claimIdempotencyKeys(tx: Tx, claims: readonly Claim[]): Promise<('busy' | 'mismatch' | 'free' | StoredReply)[]> {
  const locked = await tx<{ taken: boolean }[]>`
    select pg_try_advisory_xact_lock(k.lock) as taken
    from unnest(${tx.array(
      claims.map((c) => lockOf(c.claim)),
      OID.int8,
    )}::bigint[]) with ordinality as k (lock, n) order by k.n`;
  // A second statement: it sees what the previous holder of the key committed.
  const rows = await tx<{ n: bigint; fingerprint: Uint8Array; status: number; body: Uint8Array; sealed: boolean }[]>`
    select k.n, i.fingerprint, i.status, i.body, i.sealed
    from unnest(${tx.array(
      claims.map((c) => Buffer.from(c.claim)),
      OID.bytea,
    )}::bytea[]) with ordinality as k (claim, n)
    join idempotency i on i.claim = k.claim`;
  const found = new Map(rows.map((row) => [Number(row.n), row]));
  return claims.map((claim, index) => {
    if (!locked[index]!.taken) return 'busy';
    const row = found.get(index + 1);
    if (!row) return 'free';
    return Buffer.compare(row.fingerprint, claim.fingerprint) === 0
      ? { status: row.status, body: row.body, sealed: row.sealed }
      : 'mismatch';
  });
}

/** Stores replies in the transaction of their effects. */
export async function storeReplies(tx: Tx, rows: readonly (Claim & StoredReply)[]): Promise<void> {
  if (rows.length === 0) return;
  await tx`
    insert into idempotency (claim, fingerprint, status, body, sealed)
    select * from unnest(${tx.array(
      rows.map((r) => Buffer.from(r.claim)),
      OID.bytea,
    )}::bytea[], ${tx.array(
      rows.map((r) => Buffer.from(r.fingerprint)),
      OID.bytea,
    )}::bytea[],
      ${rows.map((r) => r.status)}::int[], ${tx.array(
        rows.map((r) => bytesOf(r.body)),
        OID.bytea,
      )}::bytea[], ${tx.array(
        rows.map((r) => r.sealed === true),
        OID.bool,
      )}::bool[])`;
}

/**
 * Runs `work` at most once per key: a repeat gets the stored reply, another body is `idempotency_mismatch`, a request
 * still running is `idempotency_key_in_use`. Failures store nothing. Without a claim it just runs.
 */
export async function runOnce(
  db: Db,
  claim: Claim | null,
  work: (tx: Tx) => Promise<StoredReply>,
  sealing: Sealing | null = null,
): Promise<StoredReply & { replayed: boolean }> {
  return db.begin(async (tx) => {
    if (claim) {
      const [state] = await claimIdempotencyKeys(tx, [claim]);
      if (typeof state === 'object') {
        return { ...state, body: state.sealed && sealing ? sealing.open(bytesOf(state.body)) : state.body, replayed: true };
      }
      const refused = claimProblem(state!);
      if (refused) throw refused;
    }
    const reply = await work(tx);
    if (claim) await storeReplies(tx, [{ ...claim, ...reply, ...(sealing && { body: sealing.seal(bytesOf(reply.body)), sealed: true }) }]);
    return { ...reply, replayed: false };
  });
}

/**
 * Whether a request with this key and body was answered before. Its repeat gets the same answer, regardless of what applies to new
 * requests.
 */
export async function isAnswered(db: Db, { claim, fingerprint }: Claim): Promise<boolean> {
  const rows = await db.sql`
    select 1 from idempotency where claim = ${Buffer.from(claim)} and fingerprint = ${Buffer.from(fingerprint)}`;
  return rows.length > 0;
}

/** Why a claim cannot run; null when it can. */
export function claimProblem(state: 'busy' | 'mismatch' | 'free'): Problem | null {
  if (state === 'busy') return new Problem('idempotency_key_in_use', {}, { retryAfterSeconds: 1 });
  if (state === 'mismatch') return new Problem('idempotency_mismatch');
  return null;
}

/** Deletes stored replies after seven days, a bounded number at a time. */
export async function forgetReplies(db: Db): Promise<void> {
  await db.sql`
    delete from idempotency where claim in (
      select claim from idempotency where created_at < clock_timestamp() - interval '7 days' order by created_at limit 5000)`;
}
