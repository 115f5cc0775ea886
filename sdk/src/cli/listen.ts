/** `florin listen`: forwards events to a program on this machine like a webhook, without a public address. */
import type { Client } from '../client.ts';
import { ApiError, ConnectionError, type FlorinError } from '../errors.ts';
import { pause } from '../request.ts';
import type { PaymentEvent } from '../types.ts';
import { signTestEvent } from '../webhooks.ts';

export type ForwardedEvent = {
  id: string;
  type: string;
  payment_id: string;
  status: number | null;
  failure: string | null;
  duration_ms: number;
};

const ANSWER_MS = 10_000;
const SHORTEST_INTERVAL_MS = 1_000;
/** Events per poll. More pile up only after a long pause; the older ones are skipped with a warning. */
const MOST = 1_000;

/** Uses at most a quarter of the key's rate limit. */
export const intervalOf = (limitPerMinute: number | null): number =>
  Math.max(SHORTEST_INTERVAL_MS, limitPerMinute ? (4 * 60_000) / limitPerMinute : 0);

/** Posts one event with its exact bytes, signed now. A receiver that refuses it is a result, not an error. */
export async function forward(event: { raw: string; url: string; secret: string }): Promise<ForwardedEvent> {
  const { body, headers } = await signTestEvent(event.raw, event.secret);
  // Spelled as in a real delivery: some receivers compare names of headers as text.
  const { 'x-service-signature': signature, ...others } = headers;
  const { id, type, data } = JSON.parse(body) as PaymentEvent;
  const started = performance.now();
  const done = (status: number | null, failure: string | null): ForwardedEvent => ({
    id,
    type,
    payment_id: data.id,
    status,
    failure,
    duration_ms: Math.round(performance.now() - started),
  });
  try {
    const reply = await fetch(event.url, {
      method: 'POST',
      headers: { ...others, 'X-Service-Signature': signature!, 'user-agent': 'Florin-Webhooks/1 (listen)' },
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    await reply.text();
    return done(reply.status, reply.ok ? null : `answered ${reply.status}`);
  } catch (error) {
    const { name, cause, message } = error as Error & { cause?: { code?: string; message?: string } };
    return done(null, name === 'TimeoutError' ? `no response within ${ANSWER_MS / 1000} s` : (cause?.code ?? cause?.message ?? message));
  }
}

/** Events newer than `last`, oldest first, and whether some were left out. */
export async function newEvents(client: Client, last: string | null): Promise<{ events: PaymentEvent[]; cut: boolean }> {
  const events: PaymentEvent[] = [];
  for await (const event of client.events.list({ limit: last === null ? 100 : 20 })) {
    if (event.id === last) return { events: events.reverse(), cut: false };
    if (events.length >= MOST) return { events: events.reverse(), cut: true };
    events.push(event);
  }
  return { events: events.reverse(), cut: false };
}

/** Polls for events until the signal; waits for `onEvent`, so that events arrive one at a time and in order. */
export async function listen({
  client,
  wants,
  interval,
  onReady,
  onEvent,
  onTrouble,
  signal,
}: {
  client: Client;
  wants: (type: string) => boolean;
  interval: () => number;
  onReady: () => void;
  onEvent: (event: PaymentEvent) => Promise<void>;
  onTrouble: (message: string) => void;
  signal: AbortSignal;
}): Promise<void> {
  const [newest] = (await client.events.list({ limit: 1 })).data;
  let last = newest?.id ?? null;
  onReady();
  while (!signal.aborted) {
    try {
      const { events, cut } = await newEvents(client, last);
      if (cut) onTrouble(`More than ${MOST} new events: skipped the older ones`);
      for (const event of events) {
        if (wants(event.type)) await onEvent(event);
        last = event.id;
      }
    } catch (error) {
      // A service that restarts comes back; a key that is refused does not.
      if (!(error instanceof ConnectionError) && !(error instanceof ApiError && (error.status >= 500 || error.status === 429))) throw error;
      onTrouble((error as FlorinError).message);
    }
    await pause(interval(), signal).catch(() => {});
  }
}
