/** The database: statements, transactions, the queue, migrations, the built-in server, sealed values. */
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
export { claimServe, hasCluster, removeCluster, SERVE_LOCK, startEmbedded } from './embedded.ts';
export { countByState, type LookedBackTo, lookThrough, rowKeysWithin } from './look.ts';
export { appliedMigrations, applyMigration, createMigrations, MIGRATE_LOCK, migrate, migrationNames, tableNames } from './migrate.ts';
export {
  canOpen,
  KEY_FILE,
  openSealer,
  opensKeyCheck,
  placeKeyFile,
  readInstallKey,
  readKeyFile,
  type Sealer,
  sealerOf,
  writeKeyCheck,
} from './seal.ts';
export type { Fragment } from './sql.ts';
export { doDue, dueIf, dueWork, retryTime, startQueue, takingWork } from './work.ts';
