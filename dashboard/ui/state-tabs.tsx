/** The states above a list as tabs, with how many things each of them shows. */

import type { Reply } from '../lib/api.ts';
import { useApi } from '../lib/hooks.ts';
import { countText } from '../lib/language.ts';
import { Segments } from './form.tsx';

const MOST_SHOWN = 1_000;
type Counted = 'payments' | 'refunds' | 'payouts';
/** Arguments of a read. */
export const countsOf = <L extends Counted>(list: L) => [`GET /:mode/${list}/counts`, [list, 'counts'], {}] as const;

type Tabs = { label: string; words: Readonly<Record<string, string>>; value: string; onChange: (state: string) => void };
function Tabs({ words, counts, ...tabs }: Tabs & { counts?: Reply<`GET /:mode/${Counted}/counts`>['data'] | undefined }) {
  const countOf = (state: string) => {
    const rows = counts?.filter((row) => state === '' || row.state === state);
    if (rows === undefined) return undefined;
    const count = rows.reduce((sum, row) => sum + row.count, 0);
    const isMore = count > MOST_SHOWN || rows.some((row) => row.is_more);
    return `${countText(Math.min(count, MOST_SHOWN))}${isMore ? '+' : ''}`;
  };
  const all = [['', 'All'] as const, ...Object.entries(words)];
  return <Segments {...tabs} options={all.map(([value, word]) => ({ value, label: word, count: countOf(value) }))} />;
}
const CountedTabs = ({ of, ...tabs }: Tabs & { of: Counted }) => <Tabs {...tabs} counts={useApi(...countsOf(of)).data?.data} />;

/** The counts are those of the list without other filters, and are left out while it has some. */
export const StateTabs = ({ of, isFiltered, ...tabs }: Tabs & { of: Counted; isFiltered: boolean }) =>
  isFiltered ? <Tabs {...tabs} /> : <CountedTabs {...tabs} of={of} />;
