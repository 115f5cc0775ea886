/** The filters that are used less often: exception, refund, archive, amount and days. */

import { type FormEvent, useState } from 'react';
import { useMe } from '../../lib/hooks.ts';
import { typedAmount } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/field.tsx';
import { EXCEPTION_WORDS } from '../../ui/values.tsx';
import type { Filter } from './filter.ts';

export function MoreFilters({
  filters,
  change,
  usd,
  box,
}: {
  filters: Filter;
  change: (values: Partial<Filter>) => void;
  /** An amount that the service takes. */
  usd: (text: string) => string | undefined;
  /** The look of a box, handed over: what is imported from the list would load the list with it. */
  box: string;
}) {
  const zone = useMe()?.time_zone ?? 'UTC';
  const [low, setLow] = useState(filters.at_least);
  const [high, setHigh] = useState(filters.at_most);
  const amounts = (event: FormEvent) => {
    event.preventDefault();
    change({ at_least: usd(low.trim()) ?? '', at_most: usd(high.trim()) ?? '' });
  };
  return (
    <div className="flex flex-wrap items-end gap-x-4 gap-y-2 rounded-lg border border-line bg-card p-3 text-sm">
      <Select
        label="Exception"
        value={filters.exception}
        onChange={(event) => change({ exception: event.target.value })}
        options={[
          { value: '', label: 'Any or no exception' },
          { value: 'any', label: 'Any exception' },
          ...Object.entries(EXCEPTION_WORDS).map(([value, label]) => ({ value, label })),
        ]}
      />
      <Select
        label="Refund"
        value={filters.refund}
        onChange={(event) => change({ refund: event.target.value })}
        options={[
          { value: '', label: 'Refund requested or not' },
          { value: 'requested', label: 'Refund requested' },
        ]}
      />
      <Select
        label="Archived"
        value={filters.archived}
        onChange={(event) => change({ archived: event.target.value })}
        options={[
          { value: '', label: 'Hide archived' },
          { value: 'with', label: 'Include archived' },
          { value: 'only', label: 'Archived only' },
        ]}
      />
      <form onSubmit={amounts} className="flex flex-wrap items-center gap-2">
        <input
          aria-label="At least, in USD"
          inputMode="decimal"
          placeholder="Min $"
          value={low}
          onChange={(e) => setLow(typedAmount(e.target.value))}
          className={`w-24 ${box}`}
        />
        <span aria-hidden="true">–</span>
        <input
          aria-label="At most, in USD"
          inputMode="decimal"
          placeholder="Max $"
          value={high}
          onChange={(e) => setHigh(typedAmount(e.target.value))}
          className={`w-24 ${box}`}
        />
        <Button type="submit">Apply</Button>
      </form>
      <div className="flex flex-wrap items-center gap-2">
        <span className="text-soft">Created, in {zone}</span>
        <input
          type="date"
          aria-label="From"
          value={filters.from}
          onChange={(event) => change({ from: event.target.value })}
          className={box}
        />
        <span aria-hidden="true">–</span>
        <input
          type="date"
          aria-label="Until"
          value={filters.until}
          onChange={(event) => change({ until: event.target.value })}
          className={box}
        />
      </div>
    </div>
  );
}
