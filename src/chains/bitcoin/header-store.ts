/** The best chain of headers in the database, so that a restart downloads nothing twice. Only headers that were checked are stored. */
import { type Db, OID, type Sql, type Tx } from '#db';
import { HEADER_BYTES } from './header.ts';
import { createHeaderChain, type HeaderChain } from './header-chain.ts';
import type { ProofParams } from './proof-params.ts';

/** Headers in a row of the table: as many as fit in a page of PostgreSQL, which has 8 kB, so that little of it is wasted. */
const PAGE = 101;
/** Pages written in one transaction: a chain of a million headers is never in memory a second time. */
const PAGES_AT_ONCE = 160;
/** Pages read in one statement: the headers of so many are checked without a pause. */
const PAGES_READ = 20;
/** One process at a time writes the headers of a network. */
const HEADERS_LOCK = 0x68_64_72_73;

type Place = Pick<ProofParams, 'coin' | 'network'>;
type Page = { firstHeight: number; headers: Buffer };

const pageOf = (height: number): number => Math.floor(height / PAGE);

/** Calls back with consecutive headers from this height on, as far as they are stored without a gap. */
async function loadHeaders(sql: Sql, { coin, network }: Place, from: number, take: (headers: Buffer) => void): Promise<void> {
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
async function saveHeaders(tx: Tx, { coin, network }: Place, base: number, from: number, headers: Buffer): Promise<void> {
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

export type StoredChain = {
  chain: HeaderChain;
  /** Writes what changed since the last time. Errors: those of the database; what was not written is written the next time. */
  save(): Promise<void>;
  /** Reads what another process wrote above our tip. False: it is on another branch, so the chain must be opened again. */
  catchUp(): Promise<boolean>;
};

/** The chain that begins at this release's checkpoint, with the headers that are stored above it. */
export async function openHeaderChain({ db, ...options }: { db: Db } & Parameters<typeof createHeaderChain>[0]): Promise<StoredChain> {
  const chain = createHeaderChain(options);
  const { params } = options;
  const base = chain.checkpointHeight + 1;
  try {
    await chain.restore((take) => loadHeaders(db.sql, params, base, take));
  } catch (error) {
    // Another chain than the checkpoint's, or a damaged row: what follows is downloaded again.
    if (!(error instanceof RangeError)) throw error;
  }
  let unsaved: number | null = chain.tip().height === chain.checkpointHeight ? base : null;
  const saveNow = async (): Promise<void> => {
    // A chain that became shorter changed at its tip, which may be the checkpoint.
    let from = Math.max(base, Math.min(chain.takeChangedFrom() ?? Number.POSITIVE_INFINITY, unsaved ?? Number.POSITIVE_INFINITY));
    while (from <= chain.tip().height) {
      unsaved = from;
      // Up to the end of a page, so that none is written twice.
      const upTo = Math.min(chain.tip().height, (pageOf(from) + PAGES_AT_ONCE) * PAGE - 1);
      const headers = Buffer.concat(Array.from({ length: upTo - from + 1 }, (_, i) => chain.at(from + i)!.bytes));
      try {
        await db.begin((tx) => saveHeaders(tx, params, base, from, headers));
      } catch (error) {
        // Somebody removed rows: all of it is written the next time.
        if (error instanceof RangeError) unsaved = base;
        throw error;
      }
      // The best chain may have changed meanwhile.
      from = Math.min(chain.takeChangedFrom() ?? Number.POSITIVE_INFINITY, upTo + 1);
    }
    unsaved = null;
  };
  let queue: Promise<unknown> = Promise.resolve();
  return {
    chain,
    save: () => {
      const result = queue.then(saveNow);
      queue = result.catch(() => {});
      return result;
    },
    catchUp: async () => {
      try {
        await chain.restore((take) => loadHeaders(db.sql, params, chain.tip().height + 1, take));
        return true;
      } catch (error) {
        if (error instanceof RangeError) return false;
        throw error;
      }
    },
  };
}
