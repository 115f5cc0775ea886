/** The followers: they read each chain block by block or range by range, and record what pays. */
export { type ChainStatus, readChainStatus, releaseChain } from './chain-acts.ts';
export { claimDeposit } from './look-ahead.ts';
export { leastPerDay, requestsPerDay } from './poll-pace.ts';
export { startFollowing } from './start.ts';
export { explainUnwatched, readUnwatched, type UnwatchedAddresses } from './unwatched.ts';
