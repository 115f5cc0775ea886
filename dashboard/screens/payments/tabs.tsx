/** The statuses above the list, with how many payments each of them shows. */
import { PAYMENT_STATUSES } from '../../generated/api.ts';
import { useApi } from '../../lib/hooks.ts';
import { Segments } from '../../ui/form.tsx';
import { STATUS_WORDS } from '../../ui/values.tsx';

export const COUNTS = ['GET /:mode/payments/counts', ['payments', 'counts'], {}] as const;
const MOST_SHOWN = 1_000;

type Tabs = { value: string; onChange: (status: string) => void };
export const StatusTabs = ({ countOf, ...tabs }: Tabs & { countOf?: (status: string) => string | undefined }) => (
  <Segments
    {...tabs}
    label="Status"
    options={[
      { value: '', label: 'All', count: countOf?.('') },
      ...PAYMENT_STATUSES.map((value) => ({ value, label: STATUS_WORDS[value], count: countOf?.(value) })),
    ]}
  />
);

/** The counts are those of the list without other filters. */
export function CountedTabs(tabs: Tabs) {
  const counts = useApi(...COUNTS).data?.data;
  const countOf = (status: string) => {
    const rows = counts?.filter((row) => status === '' || row.status === status);
    if (rows === undefined) return undefined;
    const count = rows.reduce((sum, row) => sum + row.count, 0);
    const isMore = count > MOST_SHOWN || rows.some((row) => row.is_more);
    return `${Math.min(count, MOST_SHOWN).toLocaleString('en-US')}${isMore ? '+' : ''}`;
  };
  return <StatusTabs {...tabs} countOf={countOf} />;
}
