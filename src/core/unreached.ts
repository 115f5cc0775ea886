/** Why a merchant's endpoint did not take an event: a fixed list of reasons, with words for each and what to do about it. */

type Words = { words: string; advice: string };
/** Texts of ours: shown as they are in the dashboard, in mails, by `doctor` and by the API. */
const REASONS = {
  name_unknown: { words: 'The host name does not exist', advice: 'Check the spelling of the URL and the DNS records of the domain.' },
  name_without_address: { words: 'The host name has no address', advice: 'Add an A or AAAA record for this host.' },
  name_servers_silent: {
    words: 'The name servers of the domain do not answer',
    advice: 'Check the name servers of the domain with your DNS provider.',
  },
  name_servers_failed: {
    words: 'The name servers of the domain answer with an error',
    advice: 'Check the zone of the domain, including DNSSEC, with your DNS provider.',
  },
  name_lookups_busy: {
    words: 'Too many host names of yours were being looked up',
    advice: 'Fix or delete endpoints whose name servers do not answer. This delivery is retried.',
  },
  address_private: {
    words: 'The host has an address that is not public',
    advice: 'Remove private addresses from its A and AAAA records. The operator can open a private network with WEBHOOK_ALLOW.',
  },
  url_invalid: { words: 'The URL cannot be used', advice: 'Use https:// and port 443, or a port above 1023 that is not a database.' },
  connection_refused: {
    words: 'The server refused the connection',
    advice: 'Check that the web server runs and listens on this address and port.',
  },
  unreachable: {
    words: 'There is no route to the server',
    advice: 'Check that the A and AAAA records name a host that exists, and that its firewall lets requests in.',
  },
  connect_timeout: {
    words: 'The server did not accept a connection in time',
    advice: 'A firewall probably drops the packets. Open the port, and check that the A and AAAA records name the right host.',
  },
  connect_failed: { words: 'No connection to the server', advice: 'Check the address, the port and the firewall of the server.' },
  certificate_incomplete: {
    words: 'The intermediate certificate is missing',
    advice: 'Make the web server send the whole chain, such as fullchain.pem instead of cert.pem. Browsers hide this mistake.',
  },
  certificate_wrong_name: {
    words: 'The certificate is for another host name',
    advice: 'Get a certificate that names this host, or use the host name of the certificate in the URL.',
  },
  certificate_expired: { words: 'The certificate has expired', advice: 'Renew the certificate and reload the web server.' },
  certificate_not_yet_valid: {
    words: 'The certificate is not valid yet',
    advice: 'Check the clock of the machine that issued it, or wait until it is valid.',
  },
  certificate_self_signed: {
    words: 'The certificate is self-signed',
    advice: 'Use a certificate of a public authority such as Let’s Encrypt. The operator can add an authority with NODE_EXTRA_CA_CERTS.',
  },
  certificate_unknown_authority: {
    words: 'The certificate is from an authority that is not trusted',
    advice:
      'Use a certificate of a public authority, and send its whole chain. The operator can add an authority with NODE_EXTRA_CA_CERTS.',
  },
  certificate_invalid: {
    words: 'The certificate is not valid',
    advice: 'Check the chain that the web server sends, and renew the certificate.',
  },
  plain_http: {
    words: 'The port answers in plain HTTP',
    advice: 'Turn on TLS for this port of the web server, or use the port that has it in the URL.',
  },
  client_certificate_required: {
    words: 'The server demands a client certificate',
    advice: 'Turn it off for this URL. Verify the signature of each event instead.',
  },
  tls_refused: {
    words: 'The server refused the TLS handshake',
    advice: 'Allow TLS 1.2 or newer, check that the server knows this host name (SNI), and do not demand a client certificate.',
  },
  tls_timeout: {
    words: 'The server did not complete the TLS handshake in time',
    advice: 'Check that the port belongs to a web server with TLS, and that the server is not overloaded.',
  },
  connection_lost: {
    words: 'The server closed the connection without a complete answer',
    advice: 'Look in the log of the web server. A firewall, or a worker that crashes, may cut the connection.',
  },
  not_http: { words: 'The server does not answer in HTTP', advice: 'Check that the port belongs to a web server.' },
  answer_timeout: {
    words: 'The server did not answer in time',
    advice: 'Answer 200 as soon as the event is stored, and do the work afterwards.',
  },
  answer_too_large: { words: 'The answer is too large', advice: 'Answer with an empty body.' },
  redirected: { words: 'The server redirects', advice: 'Redirects are not followed. Use the URL that it redirects to.' },
  forbidden: {
    words: 'The server refuses access',
    advice: 'Let POST requests to this URL through: no login, no maintenance page, and no bot protection.',
  },
  not_found: { words: 'There is nothing at this URL', advice: 'Check the path, and that the code that receives events is deployed.' },
  gone: { words: 'The server says that the URL is gone', advice: 'Delete the endpoint, or answer 2xx and enable it again.' },
  rate_limited: { words: 'The server limits requests', advice: 'Raise the limit for this URL.' },
  server_error: { words: 'The server failed', advice: 'Look in the log of your application at the time of the attempt.' },
  status_unexpected: { words: 'The server did not answer 2xx', advice: 'Make it answer 2xx within ten seconds.' },
  secret_unreadable: {
    words: 'Florin cannot read the signing secret',
    advice: 'Your server is not the cause. Roll the signing secret, or ask the operator to run ./florin doctor.',
  },
  internal: {
    words: 'Florin could not send it',
    advice: 'Your server is not the cause. The operator finds the reason in the log; the delivery is retried.',
  },
  forgotten: { words: 'The event is older than 30 days', advice: 'Its content is not stored any more. Retrieve the payment instead.' },
} as const satisfies Record<string, Words>;

export type UnreachedReason = keyof typeof REASONS;
export const UNREACHED = Object.keys(REASONS) as UnreachedReason[];

/** What an answer that is not 2xx means. */
export function unreachedOfStatus(status: number): UnreachedReason {
  if (status >= 300 && status < 400) return 'redirected';
  if (status >= 500) return 'server_error';
  const known: Readonly<Record<number, UnreachedReason>> = {
    401: 'forbidden',
    403: 'forbidden',
    404: 'not_found',
    410: 'gone',
    429: 'rate_limited',
  };
  return known[status] ?? 'status_unexpected';
}

/** The words and the advice of a reason. Attempts from before reasons were stored have none. */
export const explainUnreached = (reason: string | null): Words | null =>
  reason !== null && Object.hasOwn(REASONS, reason) ? REASONS[reason as UnreachedReason] : null;
