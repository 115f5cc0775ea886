/** The last 24 hours of an endpoint: deliveries, response times, failures. */

import type { ReactNode } from 'react';
import { useApi } from '../../lib/hooks.ts';
import { countText, timeText } from '../../lib/language.ts';
import { Card, Empty, Pending } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { Bars } from './bars.tsx';
import { Frame } from './frame.tsx';
import { type Endpoint, millis, outcomeWords, share, upTo } from './words.tsx';

export const Screen = () => <Frame tab="">{(endpoint) => <Overview endpoint={endpoint} />}</Frame>;

const CLOCK = { hour: '2-digit', minute: '2-digit' } as const;

const Tile = ({ name, value, children }: { name: string; value: string; children?: ReactNode }) => (
  <div className="grid content-start gap-1 rounded-xl border border-line bg-card p-4">
    <dt className="text-sm text-soft">{name}</dt>
    <dd className="grid gap-1">
      <span className="text-xl font-semibold tracking-tight tabular-nums">{value}</span>
      <span className="text-xs text-soft">{children}</span>
    </dd>
  </div>
);

function Overview({ endpoint }: { endpoint: Endpoint }) {
  const { id, health } = endpoint;
  const query = useApi('GET /:mode/webhooks/:id/hours', ['webhooks', id, 'hours'], { params: { id } });
  const { data } = query;
  if (!data) return <Pending of={query} lines={10} />;
  const hours = data.hours.map(({ at, outcomes }) => {
    const attempts = outcomes.reduce((sum, o) => sum + o.attempts, 0);
    const delivered = outcomes.find((o) => o.outcome === 'delivered')?.attempts ?? 0;
    const totalMs = outcomes.reduce((sum, o) => sum + o.total_ms, 0);
    return {
      at,
      label: timeText(new Date(at), CLOCK),
      attempts,
      delivered,
      failed: attempts - delivered,
      totalMs,
      average: attempts === 0 ? 0 : Math.round(totalMs / attempts),
      slowest: Math.max(0, ...outcomes.map((o) => o.slowest_ms)),
    };
  });
  const attempts = hours.reduce((sum, hour) => sum + hour.attempts, 0);
  const delivered = hours.reduce((sum, hour) => sum + hour.delivered, 0);
  const average = attempts === 0 ? null : Math.round(hours.reduce((sum, hour) => sum + hour.totalMs, 0) / attempts);
  const slowest = Math.max(...hours.map((hour) => hour.slowest));
  const failures = new Map<string, number>();
  for (const { outcome, attempts: n } of data.hours.flatMap((hour) => hour.outcomes))
    if (outcome !== 'delivered') failures.set(outcome, (failures.get(outcome) ?? 0) + n);
  const mix = [...failures].sort(([, a], [, b]) => b - a);
  return (
    <div className="grid gap-5">
      <dl className="grid grid-cols-2 gap-3 sm:gap-4 lg:grid-cols-4">
        <Tile name="Delivered, 24 h" value={share(delivered, attempts)}>
          {attempts === 0
            ? 'No attempts'
            : attempts === 1
              ? `${delivered} of 1 attempt`
              : `${countText(delivered)} of ${countText(attempts)} attempts`}
        </Tile>
        <Tile name="Response time" value={average === null ? '–' : millis(average)}>
          {average === null ? 'No attempts' : `Average; slowest ${millis(slowest)}`}
        </Tile>
        <Tile name="Pending" value={upTo(health.waiting)}>
          {health.oldest_waiting_at ? (
            <>
              Oldest: <Time at={health.oldest_waiting_at} />
            </>
          ) : (
            'No pending deliveries'
          )}
        </Tile>
        <Tile name="Last failure" value={health.last_failure ? outcomeWords(health.last_failure) : 'None'}>
          {health.last_failure_at ? <Time at={health.last_failure_at} /> : 'In the last 7 days'}
        </Tile>
      </dl>
      {attempts === 0 ? (
        <Card title="Last 24 hours">
          <Empty title="No attempts in the last 24 hours">Stats appear after the next event or test event.</Empty>
        </Card>
      ) : (
        <>
          <div className="grid items-start gap-5 lg:grid-cols-2">
            <Card title="Attempts by hour">
              <Bars
                label={`Attempts in the last 24 hours: ${countText(delivered)} delivered, ${countText(attempts - delivered)} failed.`}
                series={[
                  { name: 'Delivered', fill: 'fill-good', dot: 'bg-good' },
                  { name: 'Failed', fill: 'fill-bad', dot: 'bg-bad' },
                ]}
                rows={hours.map((hour) => ({ key: hour.at, label: hour.label, values: [hour.delivered, hour.failed] }))}
                format={countText}
              />
            </Card>
            <Card title="Average response time">
              <Bars
                label={`Average response time by hour in the last 24 hours: ${millis(average ?? 0)} overall.`}
                series={[{ name: 'Average', fill: 'fill-info', dot: 'bg-info' }]}
                rows={hours.map((hour) => ({ key: hour.at, label: hour.label, values: [hour.average] }))}
                format={millis}
              />
            </Card>
          </div>
          <Card title="Failures">
            {mix.length === 0 ? (
              <p className="p-4 text-sm text-soft">No failures in the last 24 hours.</p>
            ) : (
              <ul className="grid gap-3 p-4">
                {mix.map(([outcome, n]) => (
                  <li key={outcome} className="grid gap-1 text-sm">
                    <span className="flex justify-between gap-4">
                      <span>{outcomeWords(outcome)}</span>
                      <span className="tabular-nums text-soft">
                        {countText(n)} · {share(n, attempts)}
                      </span>
                    </span>
                    <span className="h-2 overflow-hidden rounded-full bg-raised" aria-hidden="true">
                      <span className="block h-full rounded-full bg-bad" style={{ width: `${Math.max(1, (n / attempts) * 100)}%` }} />
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </Card>
          <details className="rounded-xl border border-line bg-card">
            <summary className="cursor-pointer px-4 py-3 text-sm font-medium">View as table</summary>
            <table aria-label="Attempts by hour" className="w-full text-sm">
              <thead>
                <tr className="border-t border-line text-soft">
                  {['Hour', 'Delivered', 'Failed', 'Average', 'Slowest'].map((name) => (
                    <th key={name} scope="col" className="px-2 py-2 text-right font-medium first:text-left sm:px-4">
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody className="tabular-nums">
                {hours.map((hour) => (
                  <tr key={hour.at} className="border-t border-line">
                    <th scope="row" className="px-2 py-1.5 text-left font-normal sm:px-4">
                      {hour.label}
                    </th>
                    <td className="px-2 py-1.5 text-right sm:px-4">{countText(hour.delivered)}</td>
                    <td className="px-2 py-1.5 text-right sm:px-4">{countText(hour.failed)}</td>
                    <td className="px-2 py-1.5 text-right sm:px-4">{hour.attempts === 0 ? '–' : millis(hour.average)}</td>
                    <td className="px-2 py-1.5 text-right sm:px-4">{hour.attempts === 0 ? '–' : millis(hour.slowest)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </details>
        </>
      )}
    </div>
  );
}
