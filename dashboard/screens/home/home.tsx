/** Home: the figures of a range of days against the one before, the payment funnel, the health of the service, the steps to go live. */

import type { ReactNode } from 'react';
import { isSome, lessOf } from '../../lib/amount.ts';
import type { Reply } from '../../lib/api.ts';
import { duration, lastDays, type Range, rangeBetween, wordsOfDays } from '../../lib/days.ts';
import { useApi, useFilters, useMay, useMe, useMode, useTitle } from '../../lib/hooks.ts';
import { countText, percentText } from '../../lib/language.ts';
import type { ScreenModule } from '../../screen.ts';
import { About } from '../../ui/about.tsx';
import { Button } from '../../ui/button.tsx';
import { Charts } from '../../ui/charts.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, Pending } from '../../ui/states.tsx';
import { Money } from '../../ui/values.tsx';
import { Checklist, ONBOARDING } from './checklist.tsx';
import { HEALTH, Health } from './health.tsx';
import { useTestPayment } from './test-payment.ts';

type Home = Reply<'GET /:mode/home'>;

const RANGES = [
  { value: 'today', label: 'Today', days: 1 },
  { value: '7d', label: '7 days', days: 7 },
  { value: '30d', label: '30 days', days: 30 },
  { value: '90d', label: '90 days', days: 90 },
  { value: 'custom', label: 'Custom', days: 30 },
] as const;

type Filters = { range: string; from: string; until: string };
function rangeOf({ range, from, until }: Filters, timeZone?: string): { chosen: (typeof RANGES)[number]['value']; range: Range } {
  const picked = RANGES.find(({ value }) => value === range) ?? RANGES[2];
  return { chosen: picked.value, range: (picked.value === 'custom' ? rangeBetween(from, until) : null) ?? lastDays(picked.days, timeZone) };
}
const figures = ({ from, until }: Range) => ['GET /:mode/home', ['home', from, until], { query: { from, until } }] as const;

export const begin: NonNullable<ScreenModule['begin']> = (read, { range = '', from = '', until = '' }) => {
  read(...figures(rangeOf({ range: String(range), from: String(from), until: String(until) }).range));
  read(...ONBOARDING);
  read(...HEALTH);
};

export function Screen() {
  useTitle('Home');
  const { filters, set } = useFilters(['range', 'from', 'until'] as const);
  const zone = useMe()?.time_zone;
  const { chosen, range } = rangeOf(filters, zone);
  const query = useApi(...figures(range));
  const { data } = query;
  return (
    <div className="grid gap-6">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h1>Home</h1>
        <RangePicker chosen={chosen} range={range} custom={filters} set={set} />
      </div>
      {!data ? (
        <Card>
          <Pending of={query} lines={10} />
        </Card>
      ) : data.ever ? (
        <>
          <Figures data={data} range={range} zone={zone ?? 'UTC'} />
          <Checklist />
        </>
      ) : (
        <>
          <Checklist />
          <Nothing />
        </>
      )}
      <Health />
    </div>
  );
}

function RangePicker({
  chosen,
  range,
  custom,
  set,
}: {
  chosen: string;
  range: Range;
  custom: { from: string; until: string };
  set: (change: Record<string, string>) => void;
}) {
  const day = 'min-h-9 rounded-lg border border-line bg-card px-2 py-1 text-sm text-ink';
  return (
    <div className="flex flex-wrap items-center gap-2">
      <fieldset className="flex flex-wrap rounded-lg border border-line bg-card p-0.5 text-sm">
        <legend className="sr-only">Range</legend>
        {RANGES.map(({ value, label }) => (
          <label
            key={value}
            className="cursor-pointer rounded-md px-2.5 py-1 text-soft hover:text-ink has-checked:bg-raised has-checked:font-medium has-checked:text-ink has-focus-visible:outline-2 has-focus-visible:outline-link"
          >
            <input
              type="radio"
              name="range"
              className="sr-only"
              checked={chosen === value}
              onChange={() =>
                set(value === 'custom' ? { range: value, from: range.from, until: range.until } : { range: value, from: '', until: '' })
              }
            />
            {label}
          </label>
        ))}
      </fieldset>
      {chosen === 'custom' && (
        <>
          <input type="date" aria-label="From" className={day} value={custom.from} onChange={(e) => set({ from: e.target.value })} />
          <input type="date" aria-label="Until" className={day} value={custom.until} onChange={(e) => set({ until: e.target.value })} />
          {rangeBetween(custom.from, custom.until) === null && (
            <p role="alert" className="w-full text-right text-sm text-bad">
              Choose a range of at most one year. Showing the last 30 days.
            </p>
          )}
        </>
      )}
    </div>
  );
}

/** The change from the range before, in words. Null: nothing could be measured then. */
function Change({ now, before, range, lessIsGood = false }: { now: number; before: number | null; range: Range; lessIsGood?: boolean }) {
  const of = wordsOfDays(range.days);
  if (before === null) return <span className="text-soft">None in {of}</span>;
  if (before === 0) return <span className="text-soft">{now === 0 ? `Same as ${of}` : `None in ${of}`}</span>;
  const percent = Math.round(((now - before) / before) * 100);
  if (percent === 0) return <span className="text-soft">Same as {of}</span>;
  const tone = percent > 0 !== lessIsGood ? 'text-good' : 'text-bad';
  return (
    <span className="text-soft">
      <span className={`font-medium ${tone}`}>
        {percent > 0 ? '↑' : '↓'} {Math.abs(percent)}%
      </span>{' '}
      vs. {of}
    </span>
  );
}

const Tile = ({ name, value, children }: { name: string; value: ReactNode; children?: ReactNode }) => (
  <div className="grid content-start gap-1 rounded-xl border border-line bg-card p-4 max-lg:last:odd:col-span-2">
    <dt className="text-sm text-soft">{name}</dt>
    <dd className="grid gap-1">
      <span className="text-xl font-semibold tracking-tight tabular-nums sm:text-2xl">{value}</span>
      <span className="text-xs">{children}</span>
    </dd>
  </div>
);

const share = (part: number, whole: number): number | null => (whole === 0 ? null : (part / whole) * 100);
const percent = (value: number | null): string => (value === null ? '–' : percentText(value));

function Figures({ data, range, zone }: { data: Home; range: Range; zone: string }) {
  const { now, before, attention } = data;
  const conversion = share(now.paid, now.opened);
  return (
    <>
      <dl className="grid grid-cols-2 gap-3 lg:grid-cols-5">
        <Tile name="Completed volume" value={<Money amount={now.volume_usd} />}>
          <span className="grid gap-0.5">
            <About usd={now.volume_usd} className="text-sm" />
            {isSome(now.reversed_usd) && (
              <span className="font-medium text-bad">
                Reversed: <Money amount={lessOf('0.00', now.reversed_usd)} />
              </span>
            )}
            <Change now={Number(now.volume_usd)} before={Number(before.volume_usd)} range={range} />
          </span>
        </Tile>
        <Tile name="Completed payments" value={countText(now.completed)}>
          <Change now={now.completed} before={before.completed} range={range} />
        </Tile>
        <Tile name="Conversion" value={percent(conversion)}>
          <span className="text-soft">
            {before.opened === 0 ? 'None' : percent(share(before.paid, before.opened))} in {wordsOfDays(range.days)}
          </span>
        </Tile>
        <Tile name="Average time to pay" value={now.seconds_to_pay === null ? '–' : duration(now.seconds_to_pay)}>
          {now.seconds_to_pay === null ? (
            <span className="text-soft">No completed payments</span>
          ) : (
            <Change now={now.seconds_to_pay} before={before.seconds_to_pay} range={range} lessIsGood />
          )}
        </Tile>
        <Tile name="Needs attention" value={attention.more ? `${attention.count}+` : attention.count}>
          {attention.count > 0 ? <ModeLink to="attention">Review</ModeLink> : <span className="text-soft">None pending</span>}
        </Tile>
      </dl>
      <Charts data={data} range={range} />
      <p className="text-xs text-soft">
        Days are in {zone}. Volume is what completed payments received, including overpayments, on the day they counted it. What the network
        takes back later is subtracted on that day and shown as Reversed; refunds are not subtracted. Completed payments and time to pay
        count on the day a payment completes. Conversion is the share of opened payments, created in this range, that completed. A payment
        is opened when a customer views its page or chooses a currency.
      </p>
    </>
  );
}

/** Gray bars in place of charts, and the first step. */
function Nothing() {
  const mode = useMode();
  const may = useMay('payments.create');
  const test = useTestPayment();
  return (
    <Card>
      <div className="relative">
        <svg viewBox="0 0 600 120" preserveAspectRatio="none" className="h-36 w-full text-raised" aria-hidden="true">
          {[38, 52, 44, 70, 62, 84, 58, 92, 76, 104, 88, 110].map((height, i) => (
            <rect key={height} x={i * 50 + 8} y={120 - height} width="34" height={height} fill="currentColor" />
          ))}
        </svg>
      </div>
      <Empty title={mode === 'test' ? 'Your stats will appear here' : 'No live payments yet'}>
        <p className="pb-4">
          {mode === 'test'
            ? 'Create a test payment and try the whole flow. Nothing is charged.'
            : 'Stats appear with your first live payment. Test payments count in test mode only.'}
        </p>
        {mode === 'test' && may && (
          <Button look="main" busy={test.busy} onClick={test.start}>
            Create test payment
          </Button>
        )}
      </Empty>
    </Card>
  );
}
