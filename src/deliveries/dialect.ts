/** The form of what an endpoint receives: Florin's own events, or those that the plugin of a shop knows. */
import { createHmac } from 'node:crypto';
import type { Dialect } from '#webhooks';

/** How long an attempt may take. Plugins ask several questions before they answer. */
export const ATTEMPT_MS: Readonly<Record<Dialect, number>> = { florin: 10_000, greenfield: 30_000, commerce: 30_000 };

/** One attempt: of which delivery, to which endpoint, and how many there were before. */
type Sent = { deliveryId: string; endpointId: string; attempts: number };

/** The bytes of an attempt in BTCPay's form: an event, in whose body each attempt names itself. */
export function greenfieldBody(event: Uint8Array, { deliveryId, endpointId, attempts }: Sent): Buffer {
  const attempt = { deliveryId, webhookId: endpointId, originalDeliveryId: deliveryId, isRedelivery: attempts > 0 };
  return Buffer.concat([Buffer.from(`${JSON.stringify(attempt).slice(0, -1)},`), Buffer.from(event).subarray(1)]);
}

/** The bytes of an attempt in Coinbase Commerce's form: an event in an envelope that counts the attempts. */
export function commerceBody(event: Uint8Array, { deliveryId, attempts }: Sent, now: Date): Buffer {
  const attempt = { id: deliveryId, attempt_number: attempts + 1, scheduled_for: now.toISOString() };
  return Buffer.concat([Buffer.from(`${JSON.stringify(attempt).slice(0, -1)},"event":`), Buffer.from(event), Buffer.from('}')]);
}

const hmacHex = (secret: string, body: Uint8Array): string => createHmac('sha256', secret).update(body).digest('hex');

/** Headers of an attempt in Coinbase Commerce's form. */
export const commerceHeaders = ({ secret, body }: { secret: string; body: Uint8Array }): Record<string, string> => ({
  'Content-Type': 'application/json',
  'X-CC-Webhook-Signature': hmacHex(secret, body),
});

/** Headers of an attempt in BTCPay's form. The key is the secret as text. */
export const greenfieldHeaders = ({ secret, body }: { secret: string; body: Uint8Array }): Record<string, string> => ({
  'Content-Type': 'application/json; charset=utf-8',
  'BTCPay-Sig': `sha256=${hmacHex(secret, body)}`,
});
