/** How endpoints, deliveries and what became of attempts are called on the screens of webhooks. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useMode } from '../../lib/hooks.ts';
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
  timeout: 'No answer within 10 s',
  dns: 'Name not found',
  connect: 'Could not connect',
  tls: 'Certificate refused',
  reset: 'Connection broke',
  refused_address: 'Address is not public',
  invalid_url: 'URL cannot be used',
  internal: 'Could not be sent',
  forgotten: 'Older than 30 days',
};
/** What became of an attempt, in words; `delivered`, `status_503`, `timeout` and the like. */
export const outcomeWords = (outcome: string): string =>
  OUTCOMES[outcome] ?? (outcome.startsWith('status_') ? `Answered ${outcome.slice(7)}` : outcome.replaceAll('_', ' '));

const STATES = {
  pending: { tone: 'info', icon: 'clock', word: 'Waiting' },
  delivered: { tone: 'good', icon: 'check', word: 'Delivered' },
  failed: { tone: 'bad', icon: 'cross', word: 'Failed' },
} as const satisfies Record<DeliveryItem['state'], { tone: Tone; icon: IconName; word: string }>;
export const DELIVERY_STATES = (Object.keys(STATES) as DeliveryItem['state'][]).map((value) => ({ value, label: STATES[value].word }));
export const DeliveryState = ({ state }: { state: DeliveryItem['state'] }) => (
  <Badge tone={STATES[state].tone} icon={STATES[state].icon}>
    {STATES[state].word}
  </Badge>
);

/** To the drawer of a delivery, among those of its payment; words alone when its endpoint was deleted. */
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
      Switched off
    </Badge>
  );
}

/** `97.3 %`: rounded down, so that 100 % means all. */
export const share = (part: number, whole: number): string =>
  whole === 0 ? '–' : `${(part === whole ? 100 : Math.floor((part / whole) * 1000) / 10).toLocaleString('en')}\u00a0%`;
export const count = (n: number): string => n.toLocaleString('en');
/** Counted up to a thousand. */
export const upTo = (n: number): string => (n >= 1000 ? '1,000 or more' : count(n));
export const millis = (ms: number): string => (ms < 1000 ? `${ms}\u00a0ms` : `${(ms / 1000).toFixed(1)}\u00a0s`);
/** Of ten; those sent again by hand may have more, test events have one. */
export const attemptsText = ({ attempt_count, payment_id }: Pick<DeliveryItem, 'attempt_count' | 'payment_id'>): string =>
  payment_id === null || attempt_count > MOST_ATTEMPTS ? String(attempt_count) : `${attempt_count} of ${MOST_ATTEMPTS}`;
export const eventsText = (events: readonly string[]): string =>
  events.includes('*')
    ? events.includes('payment.updated')
      ? 'All events and updates'
      : 'All events'
    : events.length === 1
      ? events[0]!
      : `${events.length} events`;
