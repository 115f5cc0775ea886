/** Labels of endpoints, deliveries and attempts on the webhook screens. */

import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useMode } from '../../lib/hooks.ts';
import { countText, percentText } from '../../lib/language.ts';
import type { IconName } from '../../ui/icon.tsx';
import { Badge, type Tone } from '../../ui/values.tsx';

export type Endpoint = Reply<'GET /:mode/webhooks/:id'>['endpoint'];
export type DeliveryItem = Reply<'GET /:mode/deliveries'>['data'][number];

export const MOST_ATTEMPTS = 10;
export const hostOf = (url: string): string => {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
};

const OUTCOMES: Readonly<Record<string, string>> = {
  delivered: 'Delivered',
  timeout: 'Timed out after 10 s',
  dns: 'Host not found',
  connect: 'Couldn’t connect',
  tls: 'No secure connection',
  reset: 'Connection lost',
  refused_address: 'Address isn’t public',
  invalid_url: 'Invalid URL',
  internal: 'Couldn’t be sent',
  forgotten: 'Older than 30 days',
};
/** The outcome of an attempt in words. Outcomes are `delivered`, `status_503`, `timeout` and so on. */
export const outcomeWords = (outcome: string): string =>
  OUTCOMES[outcome] ?? (outcome.startsWith('status_') ? `${outcome.slice(7)} response` : outcome.replaceAll('_', ' '));

const STATES = {
  pending: { tone: 'info', icon: 'clock', word: 'Pending' },
  delivered: { tone: 'good', icon: 'check', word: 'Delivered' },
  failed: { tone: 'bad', icon: 'cross', word: 'Failed' },
} as const satisfies Record<DeliveryItem['state'], { tone: Tone; icon: IconName; word: string }>;
export const DELIVERY_STATES = (Object.keys(STATES) as DeliveryItem['state'][]).map((value) => ({ value, label: STATES[value].word }));
export const DeliveryState = ({ state }: { state: DeliveryItem['state'] }) => (
  <Badge tone={STATES[state].tone} icon={STATES[state].icon}>
    {STATES[state].word}
  </Badge>
);

/** A link to a delivery in the list of its payment’s deliveries. Plain text when the endpoint was deleted. */
export function DeliveryLink({
  endpointId,
  paymentId,
  id,
  children,
}: {
  endpointId: string | null;
  paymentId: string;
  id: string;
  children: ReactNode;
}) {
  const mode = useMode();
  if (endpointId === null) return <span className="font-medium">{children}</span>;
  return (
    <Link
      to={`/${mode}/webhooks/${endpointId}/deliveries`}
      search={{ payment: paymentId, delivery: id } as never}
      className="font-medium hover:underline"
    >
      {children}
    </Link>
  );
}

export function EndpointState({ endpoint }: { endpoint: Pick<Endpoint, 'enabled' | 'disabled_reason' | 'failing_since'> }) {
  if (endpoint.enabled)
    return endpoint.failing_since === null ? (
      <Badge tone="good" icon="check">
        Active
      </Badge>
    ) : (
      <Badge tone="warn" icon="alert">
        Failing
      </Badge>
    );
  return endpoint.disabled_reason === 'merchant' ? (
    <Badge tone="calm" icon="clock">
      Paused
    </Badge>
  ) : (
    <Badge tone="bad" icon="cross">
      Disabled
    </Badge>
  );
}

/** Whether an endpoint hears that payments are complete, but not that the network took one back. */
export const missesReversal = (events: readonly string[]): boolean =>
  events.includes('payment.completed') && !events.includes('payment.reversed') && !events.includes('*');
export const MissedReversal = () => (
  <p className="rounded-lg bg-warn-wash px-3 py-2 text-sm text-warn">
    This endpoint receives <code>payment.completed</code> but not <code>payment.reversed</code>: your server isn’t told if the network
    reverses a completed payment.
  </p>
);

type Saved = Pick<Reply<'POST /:mode/webhooks'>['endpoint'], 'connection' | 'same_url'>;
/** What saving an endpoint found: whether its server can be reached, and other endpoints with its URL. */
export const SavedNotes = ({ connection, same_url }: Saved) => (
  <>
    {connection?.reached === true && (
      <p className="rounded-lg bg-good-wash px-3 py-2 text-sm text-good">Your server accepted a connection at {connection.address}.</p>
    )}
    {connection?.reached === false && (
      <p role="alert" className="grid gap-1 rounded-lg bg-warn-wash px-3 py-2 text-sm text-warn">
        <strong>
          {connection.message}
          {connection.address && ` (${connection.address})`}
        </strong>
        <span>The endpoint is saved, but events can’t reach it yet. {connection.advice}</span>
      </p>
    )}
    {same_url.length > 0 && (
      <p className="rounded-lg bg-warn-wash px-3 py-2 text-sm text-warn">
        {same_url.length === 1 ? 'Another endpoint has' : `${same_url.length} other endpoints have`} the same URL: your server receives each
        event once for each of them. Delete the ones you don’t need.
      </p>
    )}
  </>
);

/** `97.3%`, rounded down, so that 100% means all. */
export const share = (part: number, whole: number): string =>
  whole === 0 ? '–' : percentText(part === whole ? 100 : Math.floor((part / whole) * 1000) / 10);
/** The server counts up to a thousand. */
export const upTo = (n: number): string => (n >= 1000 ? '1,000 or more' : countText(n));
export const millis = (ms: number): string => (ms < 1000 ? `${ms}\u00a0ms` : `${(ms / 1000).toFixed(1)}\u00a0s`);
/** For example `3 of 10`. Deliveries that were resent by hand may have more than ten attempts; test events have one. */
export const attemptsText = ({ attempt_count, payment_id }: Pick<DeliveryItem, 'attempt_count' | 'payment_id'>): string =>
  payment_id === null || attempt_count > MOST_ATTEMPTS ? String(attempt_count) : `${attempt_count} of ${MOST_ATTEMPTS}`;
export function eventsText(events: readonly string[]): string {
  const more = events.filter((type) => type !== '*').length;
  if (events.includes('*')) return more === 0 ? 'All payment events' : `All payment events and ${more} more`;
  return events.length === 1 ? events[0]! : `${events.length} events`;
}
