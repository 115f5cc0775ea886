/** The webhook endpoints of a mode and their health. */

import { lazy, Suspense, useState } from 'react';
import { useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { countText } from '../../lib/language.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, Pending } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/values.tsx';
import { type Endpoint, EndpointState, eventsText, missesReversal, outcomeWords, share, upTo } from './words.tsx';

const Add = lazy(() => import('./add.tsx').then((module) => ({ default: module.Add })));

export function Screen() {
  useTitle('Webhooks');
  const mode = useMode();
  const mayManage = useMay('webhooks.manage');
  const [adding, setAdding] = useState(false);
  const query = useApi('GET /:mode/webhooks', ['webhooks', 'list'], {});
  const { data } = query;
  const full = data !== undefined && data.data.length >= data.limit;
  const columns: Column<Endpoint>[] = [
    {
      name: 'Endpoint',
      phone: 'title',
      cell: (row) => (
        <span className="grid gap-0.5">
          <ModeLink to={`webhooks/${row.id}`} className="font-medium break-all hover:underline">
            {row.url}
          </ModeLink>
          <span className="text-xs break-words text-soft">
            {eventsText(row.events)}
            {row.description && ` · ${row.description}`}
          </span>
          {missesReversal(row.events) && (
            <span className="text-xs text-warn">
              Doesn’t receive <code>payment.reversed</code>
            </span>
          )}
        </span>
      ),
    },
    {
      name: 'Status',
      phone: 'corner',
      cell: (row) => <EndpointState endpoint={row} />,
    },
    {
      name: 'Delivered, 24 h',
      right: true,
      cell: ({ health }) => (
        <span className="grid text-right tabular-nums">
          <span>{share(health.delivered, health.attempts)}</span>
          <span className="text-xs text-soft">
            {health.attempts === 0 ? 'no attempts' : health.attempts === 1 ? 'of 1 attempt' : `of ${countText(health.attempts)} attempts`}
          </span>
        </span>
      ),
    },
    {
      name: 'Last failure',
      empty: ({ health }) => health.last_failure === null,
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
      name: 'Pending',
      right: true,
      empty: ({ health }) => health.waiting === 0,
      cell: ({ health }) =>
        health.waiting === 0 ? (
          <span className="text-soft">None</span>
        ) : (
          <span className="grid text-right">
            <Time at={health.oldest_waiting_at} />
            <span className="text-xs text-soft">{upTo(health.waiting)} pending</span>
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
            Florin sends signed payment events to your server. <a href="/docs/guides/webhooks">How webhooks work</a>
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
          Your plan doesn’t include webhooks, so no events are sent. Upgrade to Professional or Enterprise.
        </p>
      )}
      {full && <p className="text-sm text-soft">You can have up to {data.limit} endpoints per mode. Delete one to add another.</p>}
      <Card>
        {!data ? (
          <Pending of={query} />
        ) : data.data.length > 0 ? (
          <Table label="Endpoints" columns={columns} rows={data.data} />
        ) : data.on_plan ? (
          <Empty title={mode === 'test' ? 'No test webhook endpoints yet' : 'No webhook endpoints yet'}>
            <p>Get notified of every payment within seconds, without polling the API.</p>
            {mayManage && (
              <p className="pt-4">
                <Button look="main" onClick={() => setAdding(true)}>
                  Add endpoint
                </Button>
              </p>
            )}
          </Empty>
        ) : (
          <Empty title="Your plan doesn’t include webhooks">
            <p>Webhooks are included in Professional and Enterprise. Until you upgrade, poll the API for payment updates.</p>
            <p className="pt-4">
              <a href="/docs/guides/webhooks" className={buttonClass()}>
                Learn about webhooks
              </a>
            </p>
          </Empty>
        )}
      </Card>
      {adding && (
        <Suspense>
          <Add onClose={() => setAdding(false)} />
        </Suspense>
      )}
    </div>
  );
}
