/** What sources of chains remember, in PostgreSQL: headers, peers, certificates, proofs. */
import type { ChainStore, PeerReport, StoredReport } from '#chains';
import { chainCode } from '#core/coin';
import { type Db, OID, type Sql, type Tx } from '#db';

type HeaderPlace = Parameters<ChainStore['headers']>[0];
type ChainPlace = Parameters<ChainStore['peers']>[0];
type HeaderPages = ReturnType<ChainStore['headers']>;

/** The store that chains get. */
export const createChainStore = (db: Db): ChainStore => ({
  recordedHeight: async (coin) => {
    const [last] = await db.sql<{ height: bigint }[]>`select height from tips where chain = ${chainCode(coin)}`;
    return last ? Number(last.height) : null;
  },
  paidOf: async (coin, most) => {
    const rows = await db.sql<{ paid: bigint | null }[]>`
      select paid from blocks where chain = ${chainCode(coin)} order by height desc limit ${most}`;
    return rows.flatMap(({ paid }) => paid ?? []);
  },
  headers: (place) => ({
    read: (from, take) => loadHeaders(db.sql, place, from, take),
    lastOfSave: (from) => (pageOf(from) + PAGES_AT_ONCE) * PAGE - 1,
    save: (given) => db.begin((tx) => saveHeaders(tx, place, given)),
  }),
  peers: (place) => createPeers(db, place),
  transactions: (place) => createKept(db.sql, place),
  reports: {
    read: async ({ coin, network }) => (await readReports(db.sql)).find((one) => one.coin === coin && one.network === network),
    write: (report) => writeReport(db.sql, report),
  },
  certificates: createCertificates(db),
  light: (network) => ({ load: () => loadLight(db, network), save: (light) => saveLight(db, network, light) }),
  audit: createAudit(db),
});

/** The size of a header in Bitcoin's format. */
const HEADER_BYTES = 80;
/** Headers in a row of the table: as many as fit in a page of PostgreSQL, which has 8 kB, so that little of it is wasted. */
const PAGE = 101;
/** Pages written in one transaction: a chain of a million headers is never in memory a second time. */
const PAGES_AT_ONCE = 160;
/** Pages read in one statement: the headers of so many are checked without a pause. */
const PAGES_READ = 20;
/** One process at a time writes the headers of a network. */
const HEADERS_LOCK = 0x68_64_72_73;

type Page = { firstHeight: number; headers: Buffer };

const pageOf = (height: number): number => Math.floor(height / PAGE);

/** Calls back with consecutive headers from this height on, as far as they are stored without a gap. */
async function loadHeaders(sql: Sql, { coin, network }: HeaderPlace, from: number, take: (headers: Buffer) => void): Promise<void> {
  for (let next = from; ; ) {
    const pages = await sql<Page[]>`
      select first_height as "firstHeight", headers from header_pages
      where chain = ${coin} and network = ${network} and page >= ${pageOf(next)}
      order by page limit ${PAGES_READ}`;
    const start = next;
    for (const { firstHeight, headers } of pages) {
      const end = firstHeight + headers.length / HEADER_BYTES;
      if (firstHeight > next || end <= next) return;
      take(headers.subarray((next - firstHeight) * HEADER_BYTES));
      next = end;
    }
    if (next === start) return;
  }
}

/** Headers from a height on, cut where pages end. */
function cutPages(from: number, headers: Buffer): Page[] {
  const pages: Page[] = [];
  const end = from + headers.length / HEADER_BYTES;
  for (let height = from; height < end; ) {
    const next = Math.min((pageOf(height) + 1) * PAGE, end);
    pages.push({ firstHeight: height, headers: headers.subarray((height - from) * HEADER_BYTES, (next - from) * HEADER_BYTES) });
    height = next;
  }
  return pages;
}

/** Replaces everything from a height on. `base`: the first height that is stored. Errors: RangeError when headers below are missing. */
async function saveHeaders(
  tx: Tx,
  { coin, network }: HeaderPlace,
  { base, from, headers }: Parameters<HeaderPages['save']>[0],
): Promise<void> {
  await tx`select pg_advisory_xact_lock(${HEADERS_LOCK}::int, hashtext(${`${coin} ${network}`}))`;
  const own = tx`chain = ${coin} and network = ${network}`;
  // A checkpoint that is raised can leave a row in this page that ends below it: nothing may be appended to that one.
  await tx`
    delete from header_pages where ${own} and (first_height >= ${from}
      or (page = ${pageOf(from)} and first_height + length(headers) / ${HEADER_BYTES}::int < ${from}))`;
  await tx`
    update header_pages set headers = substring(headers for ((${from}::int - first_height) * ${HEADER_BYTES}::int))
    where ${own} and page = ${pageOf(from)} and first_height + length(headers) / ${HEADER_BYTES}::int > ${from}`;
  const [stored] = await tx<{ end: number | null }[]>`
    select max(first_height + length(headers) / ${HEADER_BYTES}::int)::int as end from header_pages where ${own}`;
  if (from > base && stored!.end !== from) throw new RangeError(`the stored headers of ${coin} do not reach block ${from}`);
  const pages = cutPages(from, headers);
  const heights = pages.map(({ firstHeight }) => firstHeight);
  const bytes = tx.array(
    pages.map((page) => page.headers),
    OID.bytea,
  );
  await tx`
    insert into header_pages (chain, network, page, first_height, headers)
    select ${coin}, ${network}, height / ${PAGE}::int, height, bytes
    from unnest(${heights}::int[], ${bytes}::bytea[]) as added (height, bytes)
    on conflict (chain, network, page) do update set headers = header_pages.headers || excluded.headers`;
}

const createPeers = (db: Db, { coin, network }: ChainPlace): ReturnType<ChainStore['peers']> => ({
  load: async () => {
    const [row] = await db.sql<{ anchors: string[]; proven: string[] }[]>`
      select anchors, proven from known_peers where chain = ${coin} and network = ${network}`;
    return row ?? { anchors: [], proven: [] };
  },
  save: async ({ anchors, proven }) => {
    await db.sql`
      insert into known_peers (chain, network, anchors, proven)
      values (${coin}, ${network}, ${[...anchors]}::text[], ${[...proven]}::text[])
      on conflict (chain, network) do update
        set anchors = excluded.anchors, proven = excluded.proven`;
  },
});

/** Larger ones are read from their block again: no node announces them, so few payers can make them. */
const MOST_BYTES = 100_000;
/** Rows per statement. */
const KEPT_AT_ONCE = 100;

const createKept = (sql: Sql, { coin, network }: ChainPlace): ReturnType<ChainStore['transactions']> => ({
  keep: async (transactions) => {
    const rows = transactions.flatMap(({ txid, raw }) =>
      raw.length > MOST_BYTES ? [] : [{ txid, raw: Buffer.from(raw).toString('hex') }],
    );
    for (let from = 0; from < rows.length; from += KEPT_AT_ONCE)
      await sql`
        insert into kept_transactions (chain, network, txid, raw)
        select ${coin}, ${network}, r.txid, decode(r.raw, 'hex')
        from jsonb_to_recordset(${sql.json(rows.slice(from, from + KEPT_AT_ONCE))}) as r (txid text, raw text)
        on conflict do nothing`;
  },
  find: async (txids) => {
    const rows = await sql<{ txid: string; raw: Uint8Array }[]>`
      select txid, raw from kept_transactions where chain = ${coin} and network = ${network} and txid = any(${[...txids]}::text[])`;
    return new Map(rows.map(({ txid, raw }) => [txid, raw]));
  },
});

const createCertificates = (db: Db): ChainStore['certificates'] => ({
  isKnown: async (server, identity) => {
    // A server that gets a certificate from an authority later is accepted, and from then on never with less.
    const [known] = await db.sql<{ identity: string }[]>`
      insert into electrum_certificates (server, identity) values (${server}, ${identity})
      on conflict (server) do update set identity = case when excluded.identity = 'authority' then 'authority' else electrum_certificates.identity end
      returning identity`;
    return known!.identity === identity;
  },
});

/** Forgets the certificate, so that the next one is accepted. Returns whether there was one. */
export async function forgetCertificate(db: Db, { server }: { server: string }): Promise<boolean> {
  const { count } = await db.sql`delete from electrum_certificates where server = ${server}`;
  return count > 0;
}

async function writeReport(sql: Sql, report: PeerReport): Promise<void> {
  const { coin, network, phase, connected, relaying, height, hash, parent, blockTime, syncing, percent, secondsLeft } = report;
  const { trouble, clockAheadSeconds, feeFloor, bytesIn, bytesOut, startedAt } = report;
  await sql`
    insert into peer_status (chain, network, phase, connected, relaying, height, hash, parent, block_time, syncing, percent, seconds_left,
      trouble, clock_ahead_seconds, fee_floor, bytes_in, bytes_out, started_at)
    values (${coin}, ${network}, ${phase}, ${connected}, ${relaying}, ${height}, ${hash}, ${parent}, ${blockTime}, ${syncing}, ${percent},
      ${secondsLeft}, ${trouble}, ${clockAheadSeconds}, ${feeFloor?.toString() ?? null}::numeric, ${bytesIn}::bigint, ${bytesOut}::bigint, ${startedAt})
    on conflict (chain, network) do update set phase = excluded.phase, connected = excluded.connected, relaying = excluded.relaying,
      height = excluded.height, hash = excluded.hash, parent = excluded.parent, block_time = excluded.block_time,
      fee_floor = coalesce(excluded.fee_floor, peer_status.fee_floor), syncing = excluded.syncing, percent = excluded.percent, seconds_left = excluded.seconds_left, trouble = excluded.trouble,
      clock_ahead_seconds = excluded.clock_ahead_seconds, bytes_in = excluded.bytes_in, bytes_out = excluded.bytes_out,
      started_at = excluded.started_at, reported_at = clock_timestamp()`;
}

/** What was last reported about each network, whatever its age. */
export const readReports = (sql: Sql): Promise<StoredReport[]> => sql<StoredReport[]>`
  select chain as coin, network, phase, connected, relaying, height, hash, parent, block_time as "blockTime", syncing, percent,
    seconds_left as "secondsLeft", trouble, clock_ahead_seconds as "clockAheadSeconds", fee_floor as "feeFloor", bytes_in::float8 as "bytesIn", bytes_out::float8 as "bytesOut",
    started_at as "startedAt", extract(epoch from clock_timestamp() - reported_at)::float8 as "ageSeconds"
  from peer_status order by chain, network`;

type LightRow = Parameters<ReturnType<ChainStore['light']>['save']>[0];
type StoredLightRow = {
  checkpoint: string;
  finalizedSlot: string;
  finalizedRoot: string;
  finalizedHash: string;
  optimisticSlot: string;
  optimisticRoot: string;
  optimisticHash: string;
  current: Buffer;
  next: Buffer | null;
  halted: string | null;
};
const headOf = (slot: string, root: string, executionHash: string): LightRow['state']['finalized'] => ({
  slot: Number(slot),
  root,
  executionHash,
});

/** Null when nothing is stored for the network. */
async function loadLight(db: Db, network: string): Promise<LightRow | null> {
  const [row] = await db.sql<StoredLightRow[]>`
    select checkpoint, halted, current_committee as current, next_committee as next,
      finalized_slot::text as "finalizedSlot", finalized_root as "finalizedRoot", finalized_hash as "finalizedHash",
      optimistic_slot::text as "optimisticSlot", optimistic_root as "optimisticRoot", optimistic_hash as "optimisticHash"
    from light_clients where network = ${network}`;
  if (!row) return null;
  return {
    checkpoint: row.checkpoint,
    halted: row.halted,
    state: {
      finalized: headOf(row.finalizedSlot, row.finalizedRoot, row.finalizedHash),
      optimistic: headOf(row.optimisticSlot, row.optimisticRoot, row.optimisticHash),
      current: row.current,
      next: row.next,
    },
  };
}

/**
 * Stores the state, unless another process stored a newer one from the same checkpoint. A halt stays until the checkpoint is replaced.
 */
async function saveLight(db: Db, network: string, { checkpoint, state, halted }: LightRow): Promise<void> {
  const { finalized, optimistic, current, next } = state;
  await db.sql`
    insert into light_clients as stored (network, checkpoint, finalized_slot, finalized_root, finalized_hash, optimistic_slot, optimistic_root,
      optimistic_hash, current_committee, next_committee, halted)
    values (${network}, ${checkpoint}, ${finalized.slot}, ${finalized.root}, ${finalized.executionHash}, ${optimistic.slot}, ${optimistic.root},
      ${optimistic.executionHash}, ${current}, ${next}, ${halted})
    on conflict (network) do update set
      checkpoint = excluded.checkpoint, finalized_slot = excluded.finalized_slot, finalized_root = excluded.finalized_root,
      finalized_hash = excluded.finalized_hash, optimistic_slot = excluded.optimistic_slot, optimistic_root = excluded.optimistic_root,
      optimistic_hash = excluded.optimistic_hash, current_committee = excluded.current_committee,
      next_committee = excluded.next_committee,
      halted = case when stored.checkpoint = excluded.checkpoint then coalesce(stored.halted, excluded.halted) else excluded.halted end
    where stored.checkpoint <> excluded.checkpoint or excluded.halted is not null
      or (excluded.finalized_slot, excluded.optimistic_slot) >= (stored.finalized_slot, stored.optimistic_slot)`;
}

/** As the tables name the chain. */
const CHAIN = 'ETH';
/** Older proofs of an address are deleted: no reorganization is this deep. */
const STORED_BLOCKS = 100;
/** Blocks between two cleanups of addresses that are no longer open. */
const PRUNE_EVERY = 64;

type ProofRow = {
  key: string;
  height: number;
  time: Date;
  nonce: string;
  balance: string;
  codeHash: Buffer;
  isAssumed: boolean;
  seen: string;
};

const createAudit = (db: Db): ChainStore['audit'] => ({
  load: async ({ height }, keys) => {
    if (keys.length === 0) return new Map();
    // Only blocks of the chain that was read, and, of those that are too old to be remembered, only if none was skipped since.
    const rows = await db.sql<ProofRow[]>`
      with remembered as (
        select coalesce((select min(height) from blocks where chain = ${CHAIN}), 0) as lowest,
          coalesce((select watched_from from tips where chain = ${CHAIN}), 0) as read_from),
      gains as (
        select g.key, g.height, g.units from balance_gains g, remembered r
        where g.chain = ${CHAIN} and g.key = any(${keys as string[]}::text[]) and g.height < ${height}
          and ((g.height < r.lowest and g.height >= r.read_from)
            or exists (select 1 from blocks b where b.chain = ${CHAIN} and b.height = g.height and b.hash = g.hash))),
      bases as (
        select distinct on (p.key) p.* from balance_proofs p, remembered r
        where p.chain = ${CHAIN} and p.key = any(${keys as string[]}::text[]) and p.height < ${height}
          and ((p.height < r.lowest and p.height >= r.read_from)
            or exists (select 1 from blocks b where b.chain = ${CHAIN} and b.height = p.height and b.hash = p.hash))
        order by p.key, p.height desc)
      select key, height::int as height, block_time as time, nonce::text as nonce, balance::text as balance, code_hash as "codeHash",
        assumed as "isAssumed",
        (select coalesce(sum(g.units), 0)::text from gains g where g.key = bases.key and g.height > bases.height) as seen
      from bases`;
    return new Map(
      rows.map(({ key, height: at, time, nonce, balance, codeHash, isAssumed, seen }) => [
        key,
        {
          height: at,
          time,
          account: { nonce: BigInt(nonce), balance: BigInt(balance), codeHash: new Uint8Array(codeHash) },
          isAssumed,
          seen: BigInt(seen),
        },
      ]),
    );
  },
  save: async ({ height, hash }, { bases, seen, open }) => {
    const isCleanup = open !== null && height % PRUNE_EVERY === 0;
    if (bases.length === 0 && seen.length === 0 && !isCleanup) return;
    const before = height - STORED_BLOCKS;
    await db.begin(async (tx) => {
      const proofs = bases.map(({ key, account, time, isAssumed, ...at }) => ({
        ...{ key, height: at.height, hash: at.hash, block_time: time.toISOString(), assumed: isAssumed },
        ...{ nonce: String(account.nonce), balance: String(account.balance), code_hash: Buffer.from(account.codeHash).toString('hex') },
      }));
      if (proofs.length > 0)
        await tx`
          insert into balance_proofs (chain, key, height, hash, block_time, nonce, balance, code_hash, assumed)
          select ${CHAIN}, r.key, r.height, r.hash, r.block_time, r.nonce, r.balance, decode(r.code_hash, 'hex'), r.assumed
          from jsonb_to_recordset(${tx.json(proofs)}) as r (key text, height bigint, hash text, block_time timestamptz, nonce numeric,
            balance numeric, code_hash text, assumed boolean)
          on conflict (chain, key, height, hash) do update set block_time = excluded.block_time, nonce = excluded.nonce,
            balance = excluded.balance, code_hash = excluded.code_hash, assumed = excluded.assumed`;
      // One that is old enough to survive any reorganization stays.
      if (proofs.length > 0)
        await tx`
          delete from balance_proofs p where p.chain = ${CHAIN} and p.key = any(${bases.map(({ key }) => key)}::text[])
            and exists (select 1 from balance_proofs q where q.chain = p.chain and q.key = p.key and q.height > p.height
              and q.height < ${before})`;
      const sums = new Map<string, bigint>();
      for (const { key, units } of seen) sums.set(key, (sums.get(key) ?? 0n) + units);
      const gains = [...sums].map(([key, units]) => ({ key, units: String(units) }));
      if (gains.length > 0)
        await tx`
          insert into balance_gains (chain, key, height, hash, units)
          select ${CHAIN}, r.key, ${height}, ${hash}, r.units from jsonb_to_recordset(${tx.json(gains)}) as r (key text, units numeric)
          on conflict (chain, key, height, hash) do update set units = excluded.units`;
      if (!isCleanup) return;
      await tx`delete from balance_proofs where chain = ${CHAIN} and height < ${before} and key <> all(${open as string[]}::text[])`;
      await tx`delete from balance_gains where chain = ${CHAIN} and height < ${before} and key <> all(${open as string[]}::text[])`;
    });
  },
});
