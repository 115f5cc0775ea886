/** All endpoints of the mode and how they do; adding one. */
import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, ErrorCard, Skeleton } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Badge, Time } from '../../ui/values.tsx';
import { EndpointForm } from './form.tsx';
import { SecretBox } from './secret.tsx';
import { count, type Endpoint, EndpointState, eventsText, outcomeWords, share, upTo } from './words.tsx';

export function Screen() {
  useTitle('Webhooks');
  const mode = useMode();
  const mayManage = useMay('webhooks.manage');
  const [adding, setAdding] = useState(false);
  const { data, error, isPending, refetch } = useApi('GET /:mode/webhooks', ['webhooks', 'list'], {});
  const full = data !== undefined && data.data.length >= data.limit;
  const columns: Column<Endpoint>[] = [
    {
      name: 'Endpoint',
      cell: (row) => (
        <span className="grid gap-0.5 max-sm:text-right">
          <ModeLink to={`webhooks/${row.id}`} className="font-medium break-all hover:underline">
            {row.url}
          </ModeLink>
          <span className="text-xs break-words text-soft">
            {eventsText(row.events)}
            {row.description && ` · ${row.description}`}
          </span>
        </span>
      ),
    },
    {
      name: 'State',
      cell: (row) => (
        <span className="flex flex-wrap gap-1">
          <EndpointState endpoint={row} />
          {mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      ),
    },
    {
      name: 'Delivered, 24 h',
      right: true,
      cell: ({ health }) => (
        <span className="grid text-right tabular-nums">
          <span>{share(health.delivered, health.attempts)}</span>
          <span className="text-xs text-soft">
            {health.attempts === 0 ? 'no attempts' : `of ${count(health.attempts)} ${health.attempts === 1 ? 'attempt' : 'attempts'}`}
          </span>
        </span>
      ),
    },
    {
      name: 'Last failure',
      cell: ({ health }) =>
        health.last_failure === null ? (
          <span className="text-soft">None in 7 days</span>
        ) : (
          <span className="grid max-sm:text-right">
            <span>{outcomeWords(health.last_failure)}</span>
            <span className="text-xs text-soft">
              <Time at={health.last_failure_at} />
            </span>
          </span>
        ),
    },
    {
      name: 'Oldest waiting',
      right: true,
      cell: ({ health }) =>
        health.waiting === 0 ? (
          <span className="text-soft">None</span>
        ) : (
          <span className="grid text-right">
            <Time at={health.oldest_waiting_at} />
            <span className="text-xs text-soft">{upTo(health.waiting)} waiting</span>
          </span>
        ),
    },
  ];
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="grid gap-1">
          <h1>Webhooks</h1>
          <p className="text-soft">
            Events of your payments, sent to your server and signed. <a href="/docs/guides/webhooks">How it works</a>
          </p>
        </div>
        {mayManage && data?.on_plan && data.data.length > 0 && (
          <Button look="main" disabled={full} onClick={() => setAdding(true)}>
            Add endpoint
          </Button>
        )}
      </div>
      {data && !data.on_plan && data.data.length > 0 && (
        <p className="rounded-lg bg-warn-wash px-4 py-3 text-sm text-warn">
          Your plan does not include webhooks, so nothing is sent. They are part of Professional and Enterprise.
        </p>
      )}
      {full && <p className="text-sm text-soft">{data.limit} endpoints are the most in one mode. Delete one to add another.</p>}
      <Card>
        {error && !data ? (
          <ErrorCard error={error} onRetry={() => void refetch()} />
        ) : isPending || !data ? (
          <Skeleton />
        ) : data.data.length > 0 ? (
          <Table label="Endpoints" columns={columns} rows={data.data} />
        ) : data.on_plan ? (
          <Empty title={mode === 'test' ? 'No endpoints in test mode yet' : 'No endpoints yet'}>
            <p>Your server hears of every payment within seconds, instead of asking again and again.</p>
            {mayManage && (
              <p className="pt-4">
                <Button look="main" onClick={() => setAdding(true)}>
                  Add endpoint
                </Button>
              </p>
            )}
          </Empty>
        ) : (
          <Empty title="Webhooks are not part of your plan">
            <p>Professional and Enterprise include them. Until then, ask for a payment when you need to know how it stands.</p>
            <p className="pt-4">
              <a href="/docs/guides/webhooks" className={buttonClass()}>
                Read what they do
              </a>
            </p>
          </Empty>
        )}
      </Card>
      {adding && <Add onClose={() => setAdding(false)} />}
    </div>
  );
}

function Add({ onClose }: { onClose: () => void }) {
  const create = useAct('POST /:mode/webhooks', { refreshes: [['webhooks']] });
  const [made, setMade] = useState<Reply<'POST /:mode/webhooks'>['endpoint'] | null>(null);
  if (made !== null) {
    return (
      <Dialog open onClose={onClose} title="The endpoint is ready">
        <p className="text-soft">
          Your server checks with this secret that an event is from here. Settings of the endpoint shows it again.
        </p>
        <SecretBox secret={made.secret} />
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>Close</Button>
          <ModeLink to={`webhooks/${made.id}`} className={buttonClass('main')}>
            Open the endpoint
          </ModeLink>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={onClose} title="Add an endpoint">
      <EndpointForm
        initial={{ url: '', events: ['*'], description: null }}
        error={create.error}
        onSubmit={(body) => create.mutate({ body }, { onSuccess: ({ endpoint }) => setMade(endpoint) })}
      >
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" look="main" busy={create.isPending}>
            Add endpoint
          </Button>
        </div>
      </EndpointForm>
    </Dialog>
  );
}
