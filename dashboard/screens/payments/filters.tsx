/** The filters of the list: the search and the usual ones in a row, the others behind a button. */

import { type FormEvent, lazy, Suspense, useEffect, useEffectEvent, useState } from 'react';
import type { PaymentException, PaymentStatus } from '../../generated/api.ts';
import { coinFilters, coinText } from '../../lib/coin.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/field.tsx';
import { TYPING_MS } from '../../ui/marked.tsx';
import { EXCEPTION_WORDS, STATUS_WORDS } from '../../ui/values.tsx';
import type { Filter, Key } from './filter.ts';

export const WORDS: Readonly<Record<Key, string>> = {
  status: 'Status',
  currency: 'Coin',
  exception: 'Exception',
  at_least: 'At least, USD',
  at_most: 'At most, USD',
  from: 'From',
  until: 'Until',
  refund: 'Refund',
  archived: 'Archived',
  customer: 'Customer',
  search: 'Search',
};
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
/** A filter's value in words. */
export const wordOf = (key: Key, value: string): string => {
  if (key === 'exception') return value === 'any' ? 'Any' : (EXCEPTION_WORDS[value as PaymentException] ?? value);
  if (key === 'archived') return value === 'only' ? 'Archived only' : 'Included';
  if (key === 'currency') return coinText(value);
  if (key === 'status') return STATUS_WORDS[value as PaymentStatus] ?? value;
  return key === 'refund' ? capital(value) : value;
};
/** Days are those of the merchant's time zone, which the service knows. */
const day = (text: string): string | undefined => (/^\d{4}-\d\d-\d\d$/.test(text) ? text : undefined);
const usd = (text: string): string | undefined => (/^\d{1,9}(\.\d{1,2})?$/.test(text) ? text : undefined);

/** The filters as the service takes them; what it would refuse is left out. */
export const queryOf = (filters: Filter) => ({
  status: filters.status || undefined,
  currency: filters.currency || undefined,
  exception: filters.exception || undefined,
  at_least: usd(filters.at_least),
  at_most: usd(filters.at_most),
  refund: filters.refund || undefined,
  archived: filters.archived || undefined,
  customer: /^cus_[0-9A-Za-z]{1,40}$/.test(filters.customer) ? filters.customer : undefined,
  search: filters.search || undefined,
  from: day(filters.from),
  until: day(filters.until),
});

const BOX = 'min-h-9 rounded-lg border border-line bg-card px-2.5 py-1.5 text-sm text-ink placeholder:text-soft';

const MoreFilters = lazy(() => import('./more-filters.tsx').then((module) => ({ default: module.MoreFilters })));

export function Filters({ filters, change }: { filters: Filter; change: (values: Partial<Filter>) => void }) {
  const [text, setText] = useState(filters.search);
  const [sent, setSent] = useState(filters.search);
  const [seen, setSeen] = useState(filters.search);
  if (filters.search !== seen) {
    setSeen(filters.search);
    // Not what was typed here: a view, a link or Clear set another search.
    if (filters.search !== sent) {
      setSent(filters.search);
      setText(filters.search);
    }
  }
  const search = (value: string) => {
    setSent(value);
    change({ search: value });
  };
  const wanted = text.trim();
  const searchNow = useEffectEvent(() => search(wanted));
  useEffect(() => {
    if (wanted === sent) return;
    const timer = setTimeout(() => searchNow(), TYPING_MS);
    return () => clearTimeout(timer);
  }, [wanted, sent]);
  const rare = ['exception', 'at_least', 'at_most', 'from', 'until', 'refund', 'archived'] as const;
  const [open, setOpen] = useState(rare.some((key) => filters[key] !== ''));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    search(wanted);
  };
  return (
    <div className="grid gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <search className="min-w-56 flex-1">
          <form onSubmit={submit}>
            <input
              type="search"
              aria-label="Search payments"
              aria-keyshortcuts="/"
              placeholder="Search by invoice, email, amount, address…"
              maxLength={200}
              value={text}
              onChange={(event) => setText(event.target.value)}
              className={`w-full ${BOX}`}
            />
          </form>
        </search>
        <Select
          label="Coin"
          value={filters.currency}
          onChange={(event) => change({ currency: event.target.value })}
          options={[{ value: '', label: 'All coins' }, ...coinFilters()]}
        />
        <Button look="plain" aria-expanded={open} aria-controls="more-filters" onClick={() => setOpen(!open)}>
          More filters
        </Button>
      </div>
      <div id="more-filters" hidden={!open}>
        {open && (
          <Suspense>
            <MoreFilters filters={filters} change={change} usd={usd} box={BOX} />
          </Suspense>
        )}
      </div>
    </div>
  );
}
