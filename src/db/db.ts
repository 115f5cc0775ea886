/** The database handle: postgres.js with bigint for int8 and scale-0 numeric. */
import type postgres from 'postgres';

type Types = { bigint: bigint; numeric: bigint };
export type Sql = postgres.Sql<Types>;
export type Tx = postgres.TransactionSql<Types>;

export type Db = {
  sql: Sql;
  /** Runs in one READ COMMITTED transaction; retried at most 3 times on 40001 and 40P01. */
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  close(): Promise<void>;
};
