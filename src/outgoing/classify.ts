/** What the errors of sockets, TLS and HTTP mean. */
import type { Unreached } from '../core/unreached.ts';
import { OutgoingError } from '../outgoing.ts';

type Meaning = [OutgoingError['class'], Unreached];

/** By the codes of Node and OpenSSL. */
const BY_CODE: Readonly<Record<string, Meaning>> = {
  ENOTFOUND: ['dns', 'name_unknown'],
  EAI_AGAIN: ['dns', 'name_servers_silent'],
  ECONNREFUSED: ['connect', 'connection_refused'],
  EHOSTUNREACH: ['connect', 'unreachable'],
  EHOSTDOWN: ['connect', 'unreachable'],
  ENETUNREACH: ['connect', 'unreachable'],
  EADDRNOTAVAIL: ['connect', 'unreachable'],
  EACCES: ['connect', 'unreachable'],
  EPERM: ['connect', 'unreachable'],
  ETIMEDOUT: ['connect', 'connect_timeout'],
  ECONNRESET: ['reset', 'connection_lost'],
  EPIPE: ['reset', 'connection_lost'],
  // A chain that ends below its root: the server sent its own certificate alone.
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['tls', 'certificate_incomplete'],
  // A certificate of the chain names an issuer that is neither sent nor trusted.
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['tls', 'certificate_unknown_authority'],
  UNABLE_TO_GET_ISSUER_CERT: ['tls', 'certificate_unknown_authority'],
  SELF_SIGNED_CERT_IN_CHAIN: ['tls', 'certificate_unknown_authority'],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['tls', 'certificate_self_signed'],
  ERR_TLS_CERT_ALTNAME_INVALID: ['tls', 'certificate_wrong_name'],
  HOSTNAME_MISMATCH: ['tls', 'certificate_wrong_name'],
  CERT_HAS_EXPIRED: ['tls', 'certificate_expired'],
  CERT_NOT_YET_VALID: ['tls', 'certificate_not_yet_valid'],
  ERR_SSL_WRONG_VERSION_NUMBER: ['tls', 'plain_http'],
  ERR_SSL_PACKET_LENGTH_TOO_LONG: ['tls', 'plain_http'],
  ERR_SSL_HTTP_REQUEST: ['tls', 'plain_http'],
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: ['tls', 'client_certificate_required'],
};

/** The class of any failure, and the reason that merchants see. */
export function classify(error: unknown): OutgoingError {
  if (error instanceof OutgoingError) return error;
  const { code = '', message = String(error) } = error as { code?: string; message?: string };
  const [failure, reason] = BY_CODE[code] ?? guess(code, message);
  return new OutgoingError(failure, message, { cause: error, reason });
}

function guess(code: string, message: string): Meaning {
  // Older ways to say the same, without a code of its own.
  if (code === 'EPROTO' && /wrong version number|packet length too long|http request/i.test(message)) return ['tls', 'plain_http'];
  if (/certificate required|CERTIFICATE_REQUIRED/.test(message)) return ['tls', 'client_certificate_required'];
  if (/^(CERT|ERR_TLS_CERT|UNABLE_TO|SELF_SIGNED|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|CRL)/.test(code))
    return ['tls', 'certificate_invalid'];
  if (/TLS|SSL|EPROTO/.test(code)) return ['tls', 'tls_refused'];
  if (/^HPE_/.test(code)) return ['reset', 'not_http'];
  return ['connect', 'connect_failed'];
}
