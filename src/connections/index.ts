/** Outgoing connections: requests to servers that others chose, with their addresses checked, and proxies. */
export { createOutgoing } from './http-client.ts';
export { isOnion } from './names.ts';
export { isPublicAddress, type Outgoing, OutgoingError, type ReachResult } from './outgoing.ts';
export { openSocket, type PeerAddress, readProxy, type SocksProxy } from './socks5.ts';
