/** The memory of the sources of chains: it implements the store of `chains` in PostgreSQL. */
export { createChainStore, forgetCertificate, readReports } from './chain-store.ts';
