/** The one way out. */
export type OutgoingReply = { status: number; headers: Record<string, string>; body: Uint8Array };
export type OutgoingRequest = {
  url: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: Uint8Array;
  /** For the whole exchange: resolve, connect, TLS, headers, body. */
  timeoutMs: number;
  /** Longer replies are cut (`cut`) or refused (`refuse`). */
  maxReplyBytes: number;
  over?: 'cut' | 'refuse';
};
/** Why nothing came back. `class` is stable and shown to merchants. */
export class OutgoingError extends Error {
  readonly class: 'refused_address' | 'dns' | 'connect' | 'tls' | 'timeout' | 'reset' | 'too_large' | 'invalid_url';
  constructor(failure: OutgoingError['class'], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'OutgoingError';
    this.class = failure;
  }
}
export type Outgoing = {
  /** To hosts the operator configured: nodes, price sources. No redirects. */
  request(request: OutgoingRequest): Promise<OutgoingReply>;
  /** To a URL a merchant gave: public addresses only (or WEBHOOK_ALLOW), https, vetted and pinned. No redirects. */
  requestMerchantUrl(request: OutgoingRequest): Promise<OutgoingReply>;
  /** Whether a merchant URL may be saved: grammar, scheme, port, literal addresses, and every address its name resolves to. Throws OutgoingError. */
  vetMerchantUrl(url: string): Promise<void>;
  close(): Promise<void>;
};
