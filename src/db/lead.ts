/** Leadership of one task among processes: an advisory lock, which ends with the session that holds it. */
import type { Db } from './db.ts';

/** One use of the leadership: another object after each loss. */
export type Term = object;
export type Lead = {
  /** The current term of this process; null while another process leads, or nobody. Takes the leadership when it is free. */
  take(): Promise<Term | null>;
  close(): Promise<void>;
};

/** A restart or failover of the database ends the term, even if the same process leads again afterwards. */
export function createLead(db: Db, { lock, name }: { lock: number; name: string }): Lead {
  let term: Term | null = null;
  const session = db.session({
    lost: () => {
      term = null;
    },
  });
  return {
    take: async () => {
      if (term) return term;
      const [row] = await session.sql<{ taken: boolean }[]>`select pg_try_advisory_lock(${lock}::int, hashtext(${name})) as taken`;
      if (row!.taken) term = {};
      return term;
    },
    close: session.close,
  };
}
