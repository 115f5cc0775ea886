/** Signatures of a delivery: the documented body MAC and the Standard Webhooks headers, from one displayed secret. */
import { createHmac } from 'node:crypto';

const PREFIX = 'whsec_';

/**
 * Headers of one attempt. `X-Service-Signature`: lower-case hex HMAC-SHA256 of the exact body, keyed with the UTF-8 bytes of
 * the displayed secret. `webhook-*`: Standard Webhooks, keyed with the decoded bytes over `id.timestamp.body`. While a secret
 * is being rotated the first stays on the old secret and the second lists both.
 */
export function signDelivery({
  secret,
  previousSecret,
  id,
  timestampSeconds,
  body,
}: {
  secret: string;
  previousSecret: string | null;
  id: string;
  timestampSeconds: number;
  body: Uint8Array;
}): Record<string, string> {
  const standard = (key: string) =>
    `v1,${createHmac('sha256', Buffer.from(key.slice(PREFIX.length), 'base64'))
      .update(`${id}.${timestampSeconds}.`)
      .update(body)
      .digest('base64')}`;
  return {
    'X-Service-Signature': createHmac('sha256', previousSecret ?? secret)
      .update(body)
      .digest('hex'),
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': previousSecret ? `${standard(secret)} ${standard(previousSecret)}` : standard(secret),
  };
}
