/** One event: its JSON, its payment, its deliveries. */
import { Link, useParams } from '@tanstack/react-router';
import type { Reply } from '../lib/api.ts';
import { useApi, useMode, useTitle } from '../lib/hooks.ts';
import { Code, prettyJson } from '../ui/code.tsx';
import { Card, Facts } from '../ui/states.tsx';
import { Back, ObjectLink, PendingPage } from '../ui/thing.tsx';
import { Badge, CopyButton, TestLabel, Time } from '../ui/values.tsx';

type Delivery = Reply<'GET /:mode/events/:id'>['deliveries'][number];
const STATES = {
  pending: { tone: 'info', icon: 'clock', word: 'Pending' },
  delivered: { tone: 'good', icon: 'check', word: 'Delivered' },
  failed: { tone: 'bad', icon: 'alert', word: 'Failed' },
} as const;
/** The delivery of the event to one endpoint. */
function DeliveryRow({ of }: { of: Delivery }) {
  const mode = useMode();
  const { tone, icon, word } = STATES[of.state];
  const attempts = of.attempt_count === 1 ? '1 attempt' : `${of.attempt_count} attempts`;
  const at = of.delivered_at ?? of.next_attempt_at;
  const isDue = of.delivered_at === null && at !== null && Date.parse(at) < Date.now();
  return (
    <li className="grid gap-1.5 border-b border-line px-4 py-3 text-sm last:border-b-0">
      <span className="flex flex-wrap items-center justify-between gap-2">
        <Link
          to={`/${mode}/webhooks/${of.endpoint_id}/deliveries`}
          search={{ delivery: of.id } as never}
          className="font-mono text-xs break-all hover:underline"
        >
          {of.endpoint_id}
        </Link>
        <Badge tone={tone} icon={icon}>
          {word}
        </Badge>
      </span>
      <span className="flex flex-wrap justify-between gap-x-4 text-soft">
        <span>{attempts}</span>
        {isDue ? (
          <span>Waiting</span>
        ) : (
          at !== null && (
            <span>
              {of.delivered_at === null && 'next attempt '}
              <Time at={at} seconds />
            </span>
          )
        )}
      </span>
    </li>
  );
}

const LIST = ['events', 'Events'] as const;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('Event');
  const query = useApi('GET /:mode/events/:id', ['events', id], { params: { id } });
  const { data } = query;
  if (!data) return <PendingPage of={query} title="Event" back={LIST} />;
  const { event, body, deliveries } = data;
  return (
    <div className="grid gap-6">
      <Back to={LIST} />
      <div className="grid gap-2">
        <h1 className="break-words">{event.type}</h1>
        <p className="flex flex-wrap items-center gap-2 text-sm text-soft">
          <TestLabel />
          <span className="inline-flex items-center gap-1 break-all">
            <code>{event.id}</code>
            <CopyButton value={event.id} label="Copy event ID" />
          </span>
        </p>
      </div>
      <div className="grid items-start gap-6 lg:grid-cols-[3fr_2fr]">
        <Card title="JSON">
          <div className="p-4">
            <Code text={prettyJson(body)} label="Copy JSON" />
          </div>
        </Card>
        <div className="grid gap-6">
          <Card title="Details">
            <Facts
              rows={[
                ['Time', <Time key="time" at={event.created_at} happened />],
                ['Object', <ObjectLink key="object" id={event.payment_id} />],
              ]}
            />
          </Card>
          <Card title="Deliveries">
            {deliveries.length === 0 ? (
              <p className="px-4 py-6 text-sm text-soft">No webhook endpoint was subscribed to this event type at the time.</p>
            ) : (
              <ul aria-label="Deliveries">
                {deliveries.map((delivery) => (
                  <DeliveryRow key={delivery.id} of={delivery} />
                ))}
              </ul>
            )}
          </Card>
        </div>
      </div>
    </div>
  );
}
