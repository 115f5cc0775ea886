/** The books of a period: what the merchant has in each coin, what changed it, and files for accounting. */
import { useState } from 'react';
import { isSome, withoutZeros } from '../lib/amount.ts';
import type { Reply } from '../lib/api.ts';
import { useApi, useMe, useMode } from '../lib/hooks.ts';
import { Download } from '../ui/download.tsx';
import { Field } from '../ui/field.tsx';
import { Choice } from '../ui/form.tsx';
import { Card, Empty, Pending } from '../ui/states.tsx';
import { type Column, Table } from '../ui/table.tsx';

type Line = Reply<'GET /:mode/books/statement'>['lines'][number] & { id: string };

const FORMATS = [
  { format: 'statement', name: 'Statement', text: 'One line for each coin and account, as shown below, with values in USD.' },
  { format: 'koinly', name: 'Koinly', text: 'Transfers, refunds, payouts and network fees in Koinly’s universal format.' },
  { format: 'cointracking', name: 'CoinTracking', text: 'The same for the CSV import of CoinTracking.' },
  { format: 'xero', name: 'Xero', text: 'A bank statement to import into Xero, in your display currency.' },
] as const;
const CHARTS = [
  { value: 'SKR03', label: 'SKR03' },
  { value: 'SKR04', label: 'SKR04' },
];

const MONEY = ['opening', 'received', 'settled', 'refunded', 'paid_out', 'swept', 'fees', 'reversed', 'closing'] as const;

/** Without decimals that say nothing. */
const short = (amount: string): string => (amount.includes('.') ? withoutZeros(amount).replace(/\.$/, '') : amount);
const amount = (name: string, of: (typeof MONEY)[number]): Column<Line> => ({
  name,
  right: true,
  cell: (line) => <span className="tabular-nums">{short(line[of])}</span>,
  empty: (line) => of !== 'closing' && short(line[of]) === '0',
});
const COLUMNS: readonly Column<Line>[] = [
  {
    name: 'Account',
    phone: 'title',
    cell: ({ name, account }) => (account === 'trial_balance' ? <strong>{name}</strong> : name),
  },
  { name: 'Coin', phone: 'corner', cell: ({ currency }) => currency },
  amount('Opening', 'opening'),
  amount('Received', 'received'),
  amount('Settled', 'settled'),
  amount('Refunded', 'refunded'),
  amount('Paid out', 'paid_out'),
  amount('Swept', 'swept'),
  amount('Fees', 'fees'),
  {
    ...amount('Reversed', 'reversed'),
    cell: ({ reversed }) => <span className={`tabular-nums ${short(reversed) === '0' ? '' : 'text-bad'}`}>{short(reversed)}</span>,
  },
  amount('Closing', 'closing'),
];

type Days = { from: string; until: string; time_zone: string };
/** What accounting programs import. */
export const BookFiles = ({ days }: { days: Days }) => {
  const mode = useMode();
  return (
    <Card title="For your accountant">
      <ul>
        {FORMATS.map(({ format, name, text }) => (
          <FileRow
            key={format}
            name={name}
            text={text}
            href={`/dashboard/api/${mode}/books/file?format=${format}&${new URLSearchParams(days)}`}
          />
        ))}
        <Datev days={days} />
      </ul>
    </Card>
  );
};

/** A file with what it contains; without `href` it cannot be made yet. */
export const FileRow = ({ name, text, href }: { name: string; text: string; href: string | null }) => (
  <li className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-4 last:border-b-0">
    <div className="grid max-w-xl gap-0.5">
      <h3 className="font-semibold">{name}</h3>
      <p className="text-sm text-soft">{text}</p>
    </div>
    {href !== null && (
      <Download href={href}>
        Download CSV<span className="sr-only">: {name}</span>
      </Download>
    )}
  </li>
);

/** Lines that say something: a coin without a balance or a change has none, and its trial balance is one of zeros. */
const isMoved = (line: Line): boolean => MONEY.some((of) => isSome(line[of]));

export function Statement({ days }: { days: Days }) {
  const query = useApi('GET /:mode/books/statement', ['books', days.from, days.until, days.time_zone], { query: days });
  const display = useMe()?.display ?? null;
  const priced = query.data?.lines.some((line) => line.closing_display !== null);
  const worth: Column<Line> = {
    name: `Closing, ${priced && display !== null ? display.currency : 'USD'}`,
    right: true,
    cell: (line) => <span className="tabular-nums">{line.closing_display ?? line.closing_usd}</span>,
  };
  if (!query.data)
    return (
      <Card title="Statement">
        <Pending of={query} lines={4} />
      </Card>
    );
  const rows = query.data.lines.map((line) => ({ ...line, id: `${line.currency} ${line.network} ${line.account}` })).filter(isMoved);
  const columns = COLUMNS.filter(({ empty }) => !empty || rows.some((line) => !empty(line)));
  return (
    <Card title="Statement">
      <p className="border-b border-line px-4 py-3 text-sm text-soft">
        Double entry for each coin, from what arrived, was refunded, was paid out, was moved to your wallet, and was paid in network fees.
        All accounts of a coin add up to zero. Coins without a balance or a change are left out.
      </p>
      {rows.length === 0 ? (
        <Empty title="Nothing in the books yet">Transfers appear here once they are in a block.</Empty>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard
        <section className="overflow-x-auto [--stripe:0px] sm:[&_td]:px-2.5 sm:[&_th]:px-2.5" aria-label="Statement" tabIndex={0}>
          <Table label="Statement" columns={[...columns, worth]} rows={rows} unlabeled />
        </section>
      )}
    </Card>
  );
}

/** DATEV asks for numbers that only the tax consultant knows. */
function Datev({ days }: { days: Days }) {
  const mode = useMode();
  const isInEuros = useMe()?.display?.currency === 'EUR';
  const [given, setGiven] = useState({
    chart: 'SKR03',
    consultant: '',
    client: '',
    fiscal_year: null as string | null,
    accounts: '',
  });
  // Follows the range until you edit it.
  const fiscalYear = given.fiscal_year ?? `${days.from.slice(0, 4)}-01-01`;
  const set = (name: keyof typeof given) => (event: { target: { value: string } }) => setGiven({ ...given, [name]: event.target.value });
  const ready = /^\d{4,7}$/.test(given.consultant) && /^\d{1,5}$/.test(given.client);
  return (
    <li className="grid gap-3 px-4 py-4">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div className="grid max-w-xl gap-0.5">
          <h3 className="font-semibold">DATEV</h3>
          <p className="text-sm text-soft">A posting batch for your tax consultant. The range must be inside one fiscal year.</p>
          {!isInEuros && (
            <p className="text-sm text-soft">
              DATEV needs amounts in euros. If EUR is not your display currency, choose it in Settings, under Business.
            </p>
          )}
        </div>
        {ready && isInEuros && (
          <Download href={`/dashboard/api/${mode}/books/datev?${new URLSearchParams({ ...days, ...given, fiscal_year: fiscalYear })}`}>
            Download CSV<span className="sr-only">: DATEV</span>
          </Download>
        )}
      </div>
      <div className="grid gap-3 sm:grid-cols-3">
        <Field label="Consultant number" inputMode="numeric" maxLength={7} value={given.consultant} onChange={set('consultant')} />
        <Field label="Client number" inputMode="numeric" maxLength={5} value={given.client} onChange={set('client')} />
        <Field label="Fiscal year begins" type="date" value={fiscalYear} onChange={set('fiscal_year')} />
        <Field
          label="Other account numbers"
          hint="Optional, such as sales=8400,refunds=8720"
          maxLength={300}
          value={given.accounts}
          onChange={set('accounts')}
        />
        <Choice label="Chart of accounts" options={CHARTS} value={given.chart} onChange={set('chart')} />
      </div>
    </li>
  );
}
