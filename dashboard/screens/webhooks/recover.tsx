/** Resending the deliveries that an endpoint missed, and the progress of it. */

import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay } from '../../lib/hooks.ts';
import { countText } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { Field } from '../../ui/field.tsx';
import { Card, Pending } from '../../ui/states.tsx';
import { Badge, Time, type Tone } from '../../ui/values.tsx';
import { Frame } from './frame.tsx';
import { Ask } from './later.tsx';
import type { Endpoint } from './words.tsx';

export const Screen = () => (
  <Frame tab="/recover">
    {(endpoint) => (
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <Begin endpoint={endpoint} />
        <Past id={endpoint.id} />
      </div>
    )}
  </Frame>
);

const HOUR = 3_600_000;
const KEPT = 30 * 24 * HOUR;
/** The value of a datetime-local field. */
function localText(instant: number): string {
  const date = new Date(instant);
  return new Date(instant - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function Begin({ endpoint }: { endpoint: Endpoint }) {
  const maySend = useMay('webhooks.send');
  const [opened] = useState(() => Date.now());
  const [text, setText] = useState(() =>
    localText(endpoint.failing_since === null ? opened - 24 * HOUR : new Date(endpoint.failing_since).getTime()),
  );
  const since = new Date(text);
  const valid = !Number.isNaN(since.getTime()) && since.getTime() <= opened + HOUR;
  const shortcuts = [
    { label: 'Last hour', at: opened - HOUR },
    { label: '24 hours', at: opened - 24 * HOUR },
    { label: '7 days', at: opened - 7 * 24 * HOUR },
    { label: '30 days', at: opened - KEPT + HOUR },
  ];
  return (
    <Card title="Resend failed deliveries">
      <div className="grid gap-4 p-4">
        <p className="text-sm text-soft">
          Failed deliveries are sent again in order, a few at a time. Deliveries that are waiting for a retry are sent now. Successful
          deliveries are not repeated.
        </p>
        <Field
          label="Failed since"
          type="datetime-local"
          required
          value={text}
          max={localText(opened + HOUR)}
          hint="In your local time. Deliveries are kept for 30 days."
          fault={valid ? null : 'Choose a time in the past.'}
          onChange={(event) => setText(event.target.value)}
        />
        <fieldset aria-label="Presets" className="-mx-2 flex flex-wrap">
          {shortcuts.map(({ label, at }) => (
            <Button key={label} look="ghost" className="px-2" onClick={() => setText(localText(at))}>
              {label}
            </Button>
          ))}
        </fieldset>
        {valid && <Preview endpoint={endpoint} since={since.toISOString()} maySend={maySend} />}
      </div>
    </Card>
  );
}

function Preview({ endpoint, since, maySend }: { endpoint: Endpoint; since: string; maySend: boolean }) {
  const { id } = endpoint;
  const [asked, setAsked] = useState(false);
  const query = useApi('GET /:mode/webhooks/:id/missed', ['webhooks', id, 'missed', since], {
    params: { id },
    query: { since },
  });
  const { data } = query;
  const begin = useAct('POST /:mode/webhooks/:id/recoveries', {
    refreshes: [['webhooks', id], ['deliveries']],
    done: 'Resending deliveries.',
  });
  if (!data) return <Pending of={query} lines={2} />;
  const deliveries = data.missed === 1 ? '1 delivery' : `${countText(data.missed)} deliveries`;
  const amount = data.exact ? deliveries : `at least ${deliveries}`;
  return (
    <div className="grid gap-3">
      <p role="status">
        {data.missed === 0 ? (
          'No failed deliveries since then.'
        ) : (
          <>
            <strong>{amount}</strong> will be sent again.
          </>
        )}
      </p>
      {!endpoint.enabled && <p className="text-sm text-soft">Enable the endpoint first.</p>}
      {maySend && (
        <div>
          <Button look="main" disabled={data.missed === 0 || !endpoint.enabled} onClick={() => setAsked(true)}>
            Resend
          </Button>
        </div>
      )}
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Resend these deliveries?"
        text={`Your server will receive ${amount}, oldest first for each payment. You can stop at any time.`}
        act="Resend"
        busy={begin.isPending}
        onAct={() => begin.mutate({ params: { id }, body: { since } }, { onSettled: () => setAsked(false) })}
      />
    </div>
  );
}

type Recovery = Reply<'GET /:mode/webhooks/:id/recoveries'>['data'][number];
const STATUS: Readonly<Record<Recovery['status'], { tone: Tone; word: string }>> = {
  queueing: { tone: 'info', word: 'Queuing' },
  delivering: { tone: 'info', word: 'Sending' },
  done: { tone: 'good', word: 'Done' },
  cancelled: { tone: 'calm', word: 'Stopped' },
};

function Past({ id }: { id: string }) {
  const query = useApi('GET /:mode/webhooks/:id/recoveries', ['webhooks', id, 'recoveries'], {
    params: { id },
  });
  const { data } = query;
  return (
    <Card title="Recoveries">
      {!data ? (
        <Pending of={query} lines={4} />
      ) : data.data.length === 0 ? (
        <p className="p-4 text-sm text-soft">None yet. The last five appear here with their progress.</p>
      ) : (
        <ul>
          {data.data.map((recovery) => (
            <li key={recovery.id} className="border-b border-line p-4 last:border-b-0">
              <Progress recovery={recovery} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Progress({ recovery }: { recovery: Recovery }) {
  const maySend = useMay('webhooks.send');
  const cancel = useAct('POST /:mode/recoveries/:id/cancel', {
    refreshes: [['webhooks'], ['deliveries']],
    done: 'Recovery stopped.',
  });
  const { tone, word } = STATUS[recovery.status];
  const over = recovery.delivered + recovery.failed;
  const running = recovery.status === 'queueing' || recovery.status === 'delivering';
  const whole = Math.max(recovery.status === 'queueing' ? recovery.total : recovery.queued, over, 1);
  return (
    <div className="grid gap-2 text-sm">
      <p className="flex flex-wrap items-center justify-between gap-2">
        <span>
          Failed since <Time at={recovery.since} />
        </span>
        <Badge tone={tone}>{word}</Badge>
      </p>
      {running && (
        <progress
          aria-label="Recovery progress"
          max={whole}
          value={over}
          className="h-2 w-full appearance-none overflow-hidden rounded-full bg-raised [&::-moz-progress-bar]:bg-accent [&::-webkit-progress-bar]:bg-raised [&::-webkit-progress-value]:bg-accent"
        />
      )}
      <p className="flex flex-wrap items-center justify-between gap-2 tabular-nums text-soft">
        <span>
          {countText(recovery.delivered)} delivered · {countText(recovery.failed)} failed again
          {running && <> · {countText(Math.max(0, whole - over))} remaining</>}
        </span>
        <span>
          Started <Time at={recovery.created_at} />
        </span>
      </p>
      {running && maySend && (
        <div>
          <Button look="danger" busy={cancel.isPending} onClick={() => cancel.mutate({ params: { id: recovery.id }, body: {} })}>
            Stop
          </Button>
        </div>
      )}
    </div>
  );
}
