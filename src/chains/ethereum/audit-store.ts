/** Proven balances of open addresses in the database, so that a restart forgets none. What a block shows counts once it is recorded. */
import type { Db } from '../../db/db.ts';
import type { BlockRef } from '../chain.ts';
import type { ProvenAccount } from './account-proof.ts';
import type { Gain } from './value-moves.ts';

/** As the tables name the chain. */
const CHAIN = 'ETH';
/** Older proofs of an address are deleted: no reorganization is this deep. */
const KEPT_BLOCKS = 100;
/** Blocks between two cleanups of addresses that are no longer open. */
const PRUNE_EVERY = 64;

export type AccountHoldings = Pick<ProvenAccount, 'nonce' | 'balance' | 'codeHash'>;
/** What an address held after a block. `isAssumed`: it could not be proven, and the address counts as unused. */
export type Base = { key: string; height: number; hash: string; time: Date; account: AccountHoldings; isAssumed: boolean };
/** `seen`: what it was seen to gain since. */
export type StoredBase = Pick<Base, 'height' | 'time' | 'account' | 'isAssumed'> & { seen: bigint };

export type AuditStore = {
  /** What was last known of these addresses before a block. Addresses of which nothing is known are left out. */
  load(block: BlockRef, keys: readonly string[]): Promise<Map<string, StoredBase>>;
  /** Adds what a block shows. `open`: all open addresses, if they are known; what is kept of others is deleted from time to time. */
  save(block: BlockRef, found: { bases: readonly Base[]; seen: readonly Gain[]; open: readonly string[] | null }): Promise<void>;
};

type Row = {
  key: string;
  height: number;
  time: Date;
  nonce: string;
  balance: string;
  codeHash: Buffer;
  isAssumed: boolean;
  seen: string;
};

export const createAuditStore = (db: Db): AuditStore => ({
  load: async ({ height }, keys) => {
    if (keys.length === 0) return new Map();
    // Only blocks of the chain that was read, and, of those that are too old to be remembered, only if none was skipped since.
    const rows = await db.sql<Row[]>`
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
    const before = height - KEPT_BLOCKS;
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
