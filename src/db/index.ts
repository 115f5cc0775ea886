/** The database: statements, transactions, the queue, migrations, the built-in server. */
export {
  type Claim,
  claimIdempotencyKeys,
  claimProblem,
  createBatcher,
  forgetReplies,
  isAnswered,
  runOnce,
  type StoredReply,
  storeReplies,
} from './batch.ts';
export { createLead, type Db, OID, openDb, readEndedBelow, type Sql, startClock, type Term, type Tx } from './db.ts';
export { claimAlone, claimServe, hasCluster, removeCluster, startEmbedded } from './embedded.ts';
export { countByState, type LookedBackTo, lookThrough, rowKeysWithin } from './look.ts';
export { appliedMigrations, applyMigration, createMigrations, migrate, migrationNames, tableNames } from './migrate.ts';
export type { Fragment } from './sql.ts';
export { doDue, dueIf, dueWork, retryTime, startQueue, takingWork } from './work.ts';
