/** The frame of an endpoint’s pages: name, status, tabs, and a notice when deliveries fail or the endpoint is disabled. */
import { Link, useParams } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { useAct, useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Icon } from '../../ui/icon.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { CopyButton, TestLabel, Time } from '../../ui/values.tsx';
import { type Endpoint, EndpointState, hostOf, MissedReversal, missesReversal, outcomeWords } from './words.tsx';

const TestEvent = lazy(() => import('./test-event.tsx').then((module) => ({ default: module.TestEvent })));

const TABS = [
  { name: 'Overview', path: '' },
  { name: 'Deliveries', path: '/deliveries' },
  { name: 'Recover', path: '/recover' },
  { name: 'Settings', path: '/settings' },
] as const;

const LIST = ['webhooks', 'Webhooks'] as const;

export function Frame({ tab, children }: { tab: (typeof TABS)[number]['path']; children: (endpoint: Endpoint) => ReactNode }) {
  const { id } = useParams({ strict: false }) as { id: string };
  const mode = useMode();
  const query = useApi('GET /:mode/webhooks/:id', ['webhooks', id], { params: { id } });
  const { data } = query;
  const maySend = useMay('webhooks.send');
  const maySeeUrl = useMay('webhooks.secrets');
  const [testing, setTesting] = useState(false);
  useTitle(data ? `${TABS.find(({ path }) => path === tab)!.name} · ${hostOf(data.endpoint.url)}` : 'Webhook endpoint');
  if (!data) return <PendingPage of={query} title="Webhook endpoint" back={LIST} />;
  const { endpoint } = data;
  return (
    <div className="grid gap-5">
      <Back to={LIST} />
      <div className="flex flex-wrap items-start justify-between gap-4">
        <div className="grid min-w-0 gap-2">
          <h1 className="break-all">{hostOf(endpoint.url)}</h1>
          <p className="flex items-center gap-1 text-sm text-soft">
            <code className="break-all">{endpoint.url}</code>
            {maySeeUrl && <CopyButton value={endpoint.url} label="Copy URL" />}
          </p>
          <p className="flex flex-wrap items-center gap-2 text-sm text-soft">
            <EndpointState endpoint={endpoint} />
            <TestLabel />
            {endpoint.description && <span className="break-words">{endpoint.description}</span>}
          </p>
        </div>
        {maySend && endpoint.enabled && <Button onClick={() => setTesting(true)}>Send test event</Button>}
      </div>
      <Notice endpoint={endpoint} />
      {/* The form under Settings says so itself, as it is filled in. */}
      {tab !== '/settings' && missesReversal(endpoint.events) && <MissedReversal />}
      <nav aria-label="Endpoint" className="flex flex-wrap border-b border-line sm:gap-1">
        {TABS.map(({ name, path }) => (
          <Link
            key={name}
            to={`/${mode}/webhooks/${id}${path}`}
            activeOptions={{ exact: true, includeSearch: false }}
            className="-mb-px border-b-2 border-transparent px-2 py-2 sm:px-3 text-sm text-soft hover:text-ink aria-[current=page]:border-accent aria-[current=page]:font-medium aria-[current=page]:text-ink"
          >
            {name}
          </Link>
        ))}
      </nav>
      {children(endpoint)}
      {testing && (
        <Suspense>
          <TestEvent endpoint={endpoint} onClose={() => setTesting(false)} />
        </Suspense>
      )}
    </div>
  );
}

const TONES = { bad: 'bg-bad-wash text-bad', warn: 'bg-warn-wash text-warn', calm: 'bg-raised text-ink' } as const;
const Told = ({ tone, title, children }: { tone: keyof typeof TONES; title: string; children: ReactNode }) => (
  <section aria-label={title} className={`grid gap-2 rounded-xl p-4 text-sm ${TONES[tone]}`}>
    <h2 className="flex items-center gap-2">
      <Icon name="alert" className="size-5" />
      {title}
    </h2>
    <div className="words grid gap-2 text-ink">{children}</div>
  </section>
);

/** Why no events are sent, or soon won’t be, and how to fix it. */
function Notice({ endpoint }: { endpoint: Endpoint }) {
  const mayManage = useMay('webhooks.manage');
  const resume = useAct('POST /:mode/webhooks/:id', { refreshes: [['webhooks']], done: 'Endpoint enabled.' });
  const { health, failing_since, disabled_reason } = endpoint;
  const words = health.message ?? (health.last_failure ? outcomeWords(health.last_failure) : 'unknown');
  const last = `${words.charAt(0).toLowerCase()}${words.slice(1)}${health.address ? ` (${health.address})` : ''}`;
  const turnOn = (label: string) => (
    <p className="flex flex-wrap gap-2 pt-1">
      {mayManage && (
        <Button look="main" busy={resume.isPending} onClick={() => resume.mutate({ params: { id: endpoint.id }, body: { enabled: true } })}>
          {label}
        </Button>
      )}
      <ModeLink to={`webhooks/${endpoint.id}/deliveries`} className={`${buttonClass()} no-underline`}>
        View deliveries
      </ModeLink>
    </p>
  );
  if (endpoint.enabled) {
    if (failing_since === null) return null;
    const end = new Date(new Date(failing_since).getTime() + 5 * 86_400_000).toISOString();
    return (
      <Told tone="warn" title="Deliveries are failing">
        <p>
          Every attempt since <Time at={failing_since} /> has failed. Last failure: {last}. We’ll keep retrying until <Time at={end} />,
          then disable the endpoint.
        </p>
        <p>
          {health.advice ?? 'Check your server’s responses under Deliveries.'} Pending events are sent automatically, in order, once it
          responds with 2xx.
        </p>
      </Told>
    );
  }
  if (disabled_reason === 'merchant')
    return (
      <Told tone="calm" title="Paused">
        <p>No events are queued or sent. Events that happen while the endpoint is paused are not sent later.</p>
        {turnOn('Resume')}
      </Told>
    );
  const gone = disabled_reason === 'gone';
  return (
    <Told tone="bad" title={gone ? 'Disabled: your server responded with 410' : 'Disabled after five days of failures'}>
      <p>
        {gone ? (
          <>
            A 410 response means that the URL is permanently gone, so we stopped sending events
            {health.off_since && (
              <>
                {' '}
                on <Time at={health.off_since} />
              </>
            )}
            .
          </>
        ) : (
          <>
            No delivery has succeeded since <Time at={failing_since} />.{health.last_failure && <> Last failure: {last}.</>}
          </>
        )}
      </p>
      <p>
        {gone
          ? 'If the URL changed, update it under Settings. Then enable the endpoint and resend failed events under Recover.'
          : `${health.advice ? `${health.advice} ` : ''}Fix your server or update the URL under Settings. Then enable the endpoint and resend failed events under Recover.`}{' '}
        Events that happened while it was disabled were not queued.
      </p>
      {turnOn('Enable')}
    </Told>
  );
}
