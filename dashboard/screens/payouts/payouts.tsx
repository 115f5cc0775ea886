/** Payouts to third parties: request, import from a CSV file, approve, sign offline, and follow to their confirmation. */
import { useState } from 'react';
import { coinOf } from '../../lib/coin.ts';
import { useFilters, useList, useMay, useOpened, useTitle } from '../../lib/hooks.ts';
import type { ScreenModule } from '../../screen.ts';
import { Button, RowButton } from '../../ui/button.tsx';
import { ListCard } from '../../ui/list.tsx';
import { countsOf, StateTabs } from '../../ui/state-tabs.tsx';
import type { Column } from '../../ui/table.tsx';
import { Money, Time } from '../../ui/values.tsx';
import { MakeFile } from '../outgoing/make-file.tsx';
import { STATE_WORDS } from '../refunds/state.tsx';
import { SweepDrawer, Upload } from '../sweeps/history.tsx';
import { Batches } from './batches.tsx';
import { ImportFile } from './import.tsx';
import { PayoutDrawer } from './payout.tsx';
import { RequestPayout } from './request.tsx';
import { type Payout, PayoutState } from './state.tsx';

const columnsOf = (open: (id: string) => void): Column<Payout>[] => [
  {
    name: 'Payout',
    phone: 'title',
    cell: (payout) => (
      <RowButton open={() => open(payout.id)}>
        <Money amount={payout.amount} currency={coinOf(payout)} />
      </RowButton>
    ),
  },
  { name: 'State', phone: 'corner', cell: (payout) => <PayoutState payout={payout} /> },
  {
    name: 'Reference',
    cell: ({ payout_reference: reference }) => <span className="break-all">{reference ?? '–'}</span>,
    empty: ({ payout_reference: reference }) => reference === null,
  },
  { name: 'Value', cell: (payout) => <Money amount={payout.amount_usd} />, right: true },
  { name: 'Requested', cell: (payout) => <Time at={payout.created_at} happened /> },
];

export const begin: NonNullable<ScreenModule['begin']> = (read) => read(...countsOf('payouts'));

type Shown = { file: string } | 'request' | 'import' | null;
export function Screen() {
  useTitle('Payouts');
  const { filters, set, active, clear } = useFilters(['state', 'batch'] as const);
  const list = useList('GET /:mode/payouts', ['payouts', 'list'], {
    state: filters.state || undefined,
    batch: filters.batch || undefined,
  });
  const [payout, setPayout] = useOpened('payout');
  const [shown, setShown] = useState<Shown>(null);
  const mayRequest = useMay('payouts.request');
  const maySign = useMay('sweeps.use');
  const close = () => setShown(null);
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="grid gap-1">
          <h1>Payouts</h1>
          <p className="max-w-2xl text-soft">
            Money that you send to others, such as suppliers, affiliates or employees. <a href="/docs/guides/payouts">Read the guide</a>
          </p>
        </div>
        {mayRequest && (
          <div className="flex flex-wrap gap-2">
            <Button onClick={() => setShown('import')}>Import a CSV file</Button>
            <Button look="main" onClick={() => setShown('request')}>
              Request a payout
            </Button>
          </div>
        )}
      </div>
      <Batches selected={filters.batch} onSelect={(batch) => set({ batch })} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div className="flex flex-wrap items-center gap-2">
          <StateTabs
            of="payouts"
            isFiltered={filters.batch !== ''}
            label="State"
            words={STATE_WORDS}
            value={filters.state}
            onChange={(state) => set({ state })}
          />
          {filters.batch !== '' && <Button onClick={() => set({ batch: '' })}>Show payouts of all files</Button>}
        </div>
        <div className="flex flex-wrap gap-2">
          <MakeFile of="payout" />
          {maySign && <Upload onDone={(file) => setShown({ file })} />}
        </div>
      </div>
      <ListCard
        label="Payouts"
        list={list}
        columns={columnsOf(setPayout)}
        none={{ title: 'No payouts yet', words: 'Request one here or over the API, or import many from a CSV file.' }}
        unmatched={active.length > 0 ? { title: 'No matching payouts', clear } : null}
      />
      {shown === 'request' && (
        <RequestPayout
          onClose={close}
          onDone={(id) => {
            close();
            setPayout(id);
          }}
        />
      )}
      {shown === 'import' && (
        <ImportFile
          onClose={close}
          onDone={(batch) => {
            close();
            set({ batch, state: '' });
          }}
        />
      )}
      {payout !== null && <PayoutDrawer id={payout} onClose={() => setPayout(null)} />}
      {shown !== null && typeof shown === 'object' && <SweepDrawer id={shown.file} onClose={close} />}
    </div>
  );
}
