/** The plan, how much of it is used this month, and the requests of the last 24 hours. */

import type { Reply } from '../lib/api.ts';
import { useApi, useMe, useTitle } from '../lib/hooks.ts';
import { countText, percentText, timeText } from '../lib/language.ts';
import { ChartCard } from '../ui/charts.tsx';
import { Code } from '../ui/code.tsx';
import { ModeLink } from '../ui/link.tsx';
import { Card, Facts, Pending } from '../ui/states.tsx';
import { Badge, Time } from '../ui/values.tsx';

type Usage = Reply<'GET /:mode/usage'>;
const PLAN_WORDS: Readonly<Record<Usage['plan'], string>> = { starter: 'Starter', professional: 'Professional', enterprise: 'Enterprise' };

export function Screen() {
  useTitle('Plan & usage');
  const usage = useApi('GET /:mode/usage', ['usage'], {});
  return (
    <div className="grid max-w-3xl gap-6">
      <h1>Plan & usage</h1>
      {usage.data ? (
        <>
          <Month usage={usage.data} />
          <Requests perMinute={usage.data.per_minute} />
          <Plan usage={usage.data} />
        </>
      ) : (
        <Card>
          <Pending of={usage} />
        </Card>
      )}
    </div>
  );
}

function Month({ usage }: { usage: Usage }) {
  const { used, per_month: most } = usage;
  const percent = most === null ? null : Math.floor((used * 100) / most);
  const tone = percent === null || percent < 80 ? 'bg-accent' : percent < 100 ? 'bg-warn' : 'bg-bad';
  return (
    <Card
      title="Live payments this month"
      action={
        percent !== null &&
        percent >= 80 && <Badge tone={percent >= 100 ? 'bad' : 'warn'}>{percent >= 100 ? 'Limit reached' : 'Close to the limit'}</Badge>
      }
    >
      <div className="grid gap-3 p-4">
        <p className="text-2xl font-semibold tabular-nums">
          {countText(used)} <span className="text-base font-normal text-soft">{most === null ? 'no limit' : `of ${countText(most)}`}</span>
        </p>
        {percent !== null && most !== null && (
          // The numbers above say the same.
          <div aria-hidden="true" className="h-2.5 overflow-hidden rounded-full bg-raised">
            <div className={`h-full rounded-full ${tone}`} style={{ width: `${Math.min(100, percent)}%` }} />
          </div>
        )}
        <p className="text-sm text-soft">
          Resets on <Time at={usage.resets_at} />. Test payments do not count.
          {most !== null && (
            <>
              {' '}
              You get an alert at 80% and 100%: see{' '}
              <ModeLink to="notifications" className="underline">
                Notifications
              </ModeLink>
              .
            </>
          )}
        </p>
        {percent !== null && percent >= 100 && (
          <p className="text-sm text-bad">You cannot create live payments until then. Payments that already exist are not affected.</p>
        )}
      </div>
    </Card>
  );
}

const HOUR_MS = 3_600_000;
const hourOf = (ms: number): string => timeText(ms, { hour: 'numeric', minute: '2-digit' });

/** API requests of the last 24 hours, beside the rate limit of the plan. */
function Requests({ perMinute }: { perMinute: number | null }) {
  const query = useApi('GET /:mode/usage/hours', ['usage', 'hours'], {});
  const { data } = query;
  if (!data)
    return (
      <Card title="Requests">
        <Pending of={query} lines={4} />
      </Card>
    );
  const now = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  const hours = Array.from({ length: 24 }, (_, i) => {
    const at = now - (23 - i) * HOUR_MS;
    return { at, ...(data.hours.find(({ hour }) => Date.parse(hour) === at) ?? { requests: 0, failed: 0, busiest_key: 0 }) };
  });
  const sum = hours.reduce((all, { requests }) => all + requests, 0);
  const failed = hours.reduce((all, one) => all + one.failed, 0);
  const most = Math.max(1, ...hours.map(({ requests }) => requests));
  const busiest = hours.reduce((a, b) => (b.busiest_key > a.busiest_key ? b : a));
  const rate = Math.ceil(busiest.busiest_key / 60);
  const limit =
    perMinute === null ? 'there is no rate limit' : `the rate limit is ${countText(perMinute)} a minute for all secret keys together`;
  const words = `${countText(sum)} requests in 24 hours, ${countText(failed)} failed. The busiest key averaged ${countText(rate)} a minute in its busiest hour; ${limit}.`;
  return (
    <ChartCard
      title="API requests"
      file="requests-by-hour.csv"
      head={['Hour', 'Requests', 'Failed']}
      rows={hours.map((one) => [hourOf(one.at), one.requests, one.failed])}
      empty={sum === 0 ? 'No API requests in this mode in the last 24 hours.' : null}
    >
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 pb-4 sm:grid-cols-4">
        <Figure name="Last 24 hours" value={countText(sum)} />
        <Figure name="Failed" value={failed === 0 ? '0' : `${countText(failed)} (${share(failed, sum)})`} />
        <Figure name="Busiest hour, per key" value={`${countText(rate)} a minute`} />
        <Figure name="Rate limit" value={perMinute === null ? 'None' : `${countText(perMinute)} a minute`} />
      </dl>
      <div className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-2 text-xs text-soft">
        <p className="flex flex-col justify-between text-right tabular-nums" aria-hidden="true">
          <span>{countText(most)}</span>
          <span>0</span>
        </p>
        <svg role="img" aria-label={words} viewBox="0 0 480 100" preserveAspectRatio="none" className="h-28 w-full border-y border-line">
          {hours.map((one, i) => (
            <g key={one.at}>
              <rect
                x={i * 20 + 2}
                width="16"
                y={100 - (one.requests / most) * 100}
                height={(one.requests / most) * 100}
                className="fill-accent"
              >
                <title>{`${hourOf(one.at)}: ${countText(one.requests)} requests, ${countText(one.failed)} failed`}</title>
              </rect>
              <rect x={i * 20 + 2} width="16" y={100 - (one.failed / most) * 100} height={(one.failed / most) * 100} className="fill-bad" />
            </g>
          ))}
        </svg>
        <p className="col-start-2 flex justify-between pt-1" aria-hidden="true">
          <span>{hourOf(hours[0]!.at)}</span>
          <span>{hourOf(hours[12]!.at)}</span>
          <span>Now</span>
        </p>
      </div>
      <p className="pt-3 text-sm text-soft">
        Requests per hour in this mode; failed ones are red.{perMinute !== null && ' All secret keys share the rate limit.'}
      </p>
    </ChartCard>
  );
}

/** A part of the requests, with one decimal. */
const share = (part: number, whole: number): string => percentText((part / whole) * 100);
const Figure = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt className="text-xs text-soft">{name}</dt>
    <dd className="text-lg font-semibold tabular-nums">{value}</dd>
  </div>
);

function Plan({ usage }: { usage: Usage }) {
  const me = useMe();
  return (
    <Card title="Plan" action={<Badge tone="info">{PLAN_WORDS[usage.plan]}</Badge>}>
      <Facts
        rows={[
          ['Live payments per month', usage.per_month === null ? 'No limit' : countText(usage.per_month)],
          ['API requests per minute', usage.per_minute === null ? 'No limit' : countText(usage.per_minute)],
          ['Webhooks', usage.webhooks ? 'Included' : 'Not included'],
        ]}
      />
      <div className="grid gap-2 border-t border-line px-4 py-3 text-sm text-soft">
        {me?.is_operator ? (
          <p>
            You can change the plan under{' '}
            <ModeLink to="operator" className="underline">
              Operator
            </ModeLink>
            , or on the command line:
          </p>
        ) : (
          <p>The operator of this install can change the plan on the command line:</p>
        )}
        <Code text={`./florin plan set --merchant ${usage.merchant_id} --plan professional`} label="Copy the command" />
      </div>
    </Card>
  );
}
