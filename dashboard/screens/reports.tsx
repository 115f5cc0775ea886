/** CSV files for accounting: what they contain, for a range of days. */
import { useState } from 'react';
import { significant } from '../lib/amount.ts';
import { lastDays, rangeBetween, today } from '../lib/days.ts';
import { useMe, useMode, useTitle } from '../lib/hooks.ts';
import { buttonClass } from '../ui/button.tsx';
import { Field } from '../ui/field.tsx';
import { Card } from '../ui/states.tsx';
import { BookFiles, FileRow, Statement } from './books.tsx';

const REPORTS = [
  {
    kind: 'payments',
    name: 'Payments',
    text: 'Every payment created in this range: amounts, coins, value when first seen and when completed, money on hold, transaction IDs and metadata.',
  },
  {
    kind: 'days',
    name: 'Daily totals',
    text: 'One line per day and one per coin: created, opened and completed payments, volume in USD, and what was reversed, as on Home.',
  },
  {
    kind: 'tax',
    name: 'Tax report',
    text: 'Every transfer received in this range: value in USD when received, time, transaction ID and block.',
  },
  {
    kind: 'fees',
    name: 'Fees and differences',
    text: 'Completed payments created in this range: price, what counts now, the difference, and what was reversed. Florin charges no fee, and customers pay network fees.',
  },
] as const;

export function Screen() {
  useTitle('Reports');
  const mode = useMode();
  const me = useMe();
  const display = me?.display ?? null;
  const zone = me?.time_zone ?? 'UTC';
  const [range, setRange] = useState(() => {
    const { from, until } = lastDays(30, zone);
    return { from, until };
  });
  const valid = rangeBetween(range.from, range.until);
  const days = valid && { from: valid.from, until: valid.until, time_zone: zone };
  const year = Number(today(zone).slice(0, 4));
  const presets = [
    { label: 'Last 30 days', ...lastDays(30, zone) },
    { label: 'This year', from: `${year}-01-01`, until: today(zone) },
    { label: `${year - 1}`, from: `${year - 1}-01-01`, until: `${year - 1}-12-31` },
  ];
  return (
    <div className="grid grid-cols-1 gap-6">
      <div className="grid gap-1">
        <h1>Reports</h1>
        <p className="text-soft">
          CSV files for spreadsheets and accounting. Amounts are exact. Days are in {zone}, which you can change in Settings, under
          Business. Times in files are in UTC.
        </p>
        {display !== null && (
          <p className="text-soft">
            All files except the tax report also show amounts in {display.currency}, at the current rate: $1 = {significant(display.rate)}{' '}
            {display.currency}. A payment that was priced in {display.currency} keeps its exact price.
          </p>
        )}
      </div>
      <div className="grid gap-3 rounded-xl border border-line bg-card p-4">
        <div className="flex flex-wrap items-end gap-3">
          <Field
            label={`First day, in ${zone}`}
            type="date"
            value={range.from}
            onChange={(event) => setRange({ ...range, from: event.target.value })}
          />
          <Field
            label={`Last day, in ${zone}`}
            type="date"
            value={range.until}
            onChange={(event) => setRange({ ...range, until: event.target.value })}
          />
          <div className="flex flex-wrap gap-2">
            {presets.map(({ label, from, until }) => (
              <button
                key={label}
                type="button"
                className={buttonClass('ghost')}
                aria-pressed={range.from === from && range.until === until}
                onClick={() => setRange({ from, until })}
              >
                {label}
              </button>
            ))}
          </div>
        </div>
        {!valid && (
          <p role="alert" className="text-sm text-bad">
            Choose a range of at most one year.
          </p>
        )}
      </div>
      {days && <BookFiles days={days} />}
      <Card title="For spreadsheets">
        <ul>
          {REPORTS.map(({ kind, name, text }) => (
            <FileRow
              key={kind}
              name={name}
              text={text}
              href={valid && `/dashboard/api/${mode}/reports/file?kind=${kind}&from=${valid.from}&until=${valid.until}`}
            />
          ))}
        </ul>
      </Card>
      {days && <Statement days={days} />}
    </div>
  );
}
