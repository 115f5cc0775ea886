/** What outgoing requests are, why they fail, and which addresses are public. `http-client.ts` sends them. */
import { BlockList, isIP } from 'node:net';

import type { UnreachedReason } from '#core/unreached';
import type { Spoken, TextSocket } from './web-socket.ts';

/** `address`: the one that answered, where it was pinned. */
export type OutgoingReply = { status: number; headers: Record<string, string>; body: Uint8Array; address?: string };
export type OutgoingRequest = {
  url: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: Uint8Array;
  /** Limit for the whole exchange: DNS lookup, connect, TLS, headers, body. */
  timeoutMs: number;
  /** Longer replies are cut (`cut`) or refused (`refuse`). Counted after decompression. */
  maxReplyBytes: number;
  over?: 'cut' | 'refuse';
  /** The only certificate to accept, as PEM: a server that signed its own. Without one, those that an authority signed. */
  certificate?: string | undefined;
  /** Accepts a reply compressed with gzip. */
  gzip?: boolean;
  /**
   * Receives the reply in parts as it arrives; `body` is then empty. `announced` is the length that the sender announced, at most
   * `maxReplyBytes`; zero when it announced none.
   */
  take?: (part: Buffer, announced: number) => void;
};
/** A request for a merchant, whose lookups are limited together. */
type MerchantRequest = OutgoingRequest & { merchantId: string };
/** A WebSocket for a merchant. `timeoutMs`: until it is open. A longer message than `maxBytes` ends it. */
export type SocketRequest = { merchantId: string; url: string; timeoutMs: number; maxBytes: number; spoken: Spoken };
/** Of each class of failures, the reason where nothing more is known. */
const REASON_OF = {
  refused_address: 'address_private',
  dns: 'name_unknown',
  connect: 'connect_failed',
  tls: 'tls_refused',
  timeout: 'answer_timeout',
  reset: 'connection_lost',
  too_large: 'answer_too_large',
  invalid_url: 'url_invalid',
} as const satisfies Record<string, UnreachedReason>;
/** Why a request failed. `class` and `reason` are stable, and merchants see them. */
export class OutgoingError extends Error {
  readonly class: keyof typeof REASON_OF;
  readonly reason: UnreachedReason;
  /** The address that the request went to; all that were tried if none could be reached; null if there was none. */
  address: string | null = null;
  constructor(
    failure: OutgoingError['class'],
    message: string,
    { reason = REASON_OF[failure], ...options }: { cause?: unknown; reason?: UnreachedReason | undefined } = {},
  ) {
    super(message, options);
    this.name = 'OutgoingError';
    this.class = failure;
    this.reason = reason;
  }
}
/** Whether a server accepted a connection, with TLS; `reason` is null if it did. */
export type ReachResult = { reason: UnreachedReason | null; address: string | null };
export type Outgoing = {
  /** To hosts the operator configured: nodes, price sources. No redirects. */
  request(request: OutgoingRequest): Promise<OutgoingReply>;
  /** To a merchant's URL: public addresses only (or WEBHOOK_ALLOW), https, checked and pinned. No redirects. */
  requestMerchantUrl(request: MerchantRequest): Promise<OutgoingReply>;
  /** Opens a WebSocket to a merchant's URL, `wss://` or `ws://`, with the same checks. Errors: OutgoingError. */
  openMerchantSocket(request: SocketRequest): Promise<TextSocket>;
  /** Whether a merchant URL may be saved: grammar, scheme, port, literal addresses, and every address its name resolves to. Throws OutgoingError. */
  vetMerchantUrl(target: { merchantId: string; url: string }): Promise<void>;
  /** Connects to a merchant URL without sending anything, and says what a delivery would meet. */
  reachMerchantUrl(target: { merchantId: string; url: string }): Promise<ReachResult>;
  close(): Promise<void>;
};

/** Everything that is not the public internet (IANA special-purpose registries). */
const PRIVATE = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  PRIVATE.addSubnet(network, bits, 'ipv4');
/** In IPv6 only global unicast is public, without the special ranges in it: documentation, 6to4, Teredo, SRv6. */
const PUBLIC6 = new BlockList();
PUBLIC6.addSubnet('2000::', 3, 'ipv6');
const PRIVATE6 = new BlockList();
for (const [network, bits] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
] as const)
  PRIVATE6.addSubnet(network, bits, 'ipv6');

/** Whether the address is on the public internet. IPv4 inside IPv6 (mapped, NAT64, 6to4, compatible) is rejected. */
export const isPublicAddress = (address: string): boolean =>
  isIP(address) === 4
    ? !PRIVATE.check(address, 'ipv4')
    : isIP(address) === 6 && PUBLIC6.check(address, 'ipv6') && !PRIVATE6.check(address, 'ipv6');
