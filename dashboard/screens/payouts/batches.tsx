/** Imported files of payouts: what each pays in total, and approving or canceling what is still requested. */
import { useState } from 'react';
import { useAct, useList, useMay, useMode } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Card } from '../../ui/states.tsx';
import { Money, Time } from '../../ui/values.tsx';
import { Rehearse } from '../outgoing/acts.tsx';
import { type Batch, PAYOUT_READS, payouts } from './state.tsx';

/** Nothing before the first import. */
export function Batches({ selected, onSelect }: { selected: string; onSelect: (id: string) => void }) {
  const list = useList('GET /:mode/payout-batches', ['payouts', 'batches'], { limit: '5' });
  if (list.rows.length === 0) return null;
  return (
    <Card title="Imported files">
      <ul>
        {list.rows.map((batch) => (
          <BatchRow key={batch.id} batch={batch} isSelected={batch.id === selected} onSelect={() => onSelect(batch.id)} />
        ))}
      </ul>
      {list.hasNextPage && (
        <div className="border-t border-line p-3 text-center">
          <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            Show more files
          </Button>
        </div>
      )}
    </Card>
  );
}

const Totals = ({ of }: { of: Batch['totals'] }) =>
  of.map(({ currency, amount }, i) => (
    <span key={currency}>
      {i > 0 && ' + '}
      <Money amount={amount} currency={currency} />
    </span>
  ));

function BatchRow({ batch, isSelected, onSelect }: { batch: Batch; isSelected: boolean; onSelect: () => void }) {
  const may = useMay('payouts.approve');
  const [asked, setAsked] = useState<'approve' | 'cancel' | null>(null);
  const approve = useAct('POST /:mode/payout-batches/:id/approve', { refreshes: PAYOUT_READS });
  const cancel = useAct('POST /:mode/payout-batches/:id/cancel', { refreshes: PAYOUT_READS, done: 'Payouts canceled.' });
  const mode = useMode();
  const [signs, setSigns] = useState(false);
  const { id, name, open, states } = batch;
  const options = { params: { id }, body: {} };
  const done = ({ batch: { open: left } }: { batch: Batch }) =>
    say(left.payouts > 0 ? 'Approved. A second member has to approve them too.' : 'Payouts approved.');
  const onAct = () => {
    setAsked(null);
    if (asked === 'approve') approve.mutate({ params: { id }, body: signs ? { sign: true } : {} }, { onSuccess: done });
    else cancel.mutate(options);
  };
  return (
    <li className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 border-b border-line px-4 py-3 last:border-b-0">
      <div className="min-w-0">
        <button type="button" aria-pressed={isSelected} className="text-left font-medium break-all underline" onClick={onSelect}>
          {name}
        </button>
        <p className="text-sm text-soft">
          {batch.payouts === 0 ? (
            'All canceled'
          ) : (
            <>
              {payouts(batch.payouts)}, <Totals of={batch.totals} /> (<Money amount={batch.amount_usd} />)
            </>
          )}
          {open.payouts > 0 && `, ${open.payouts} to be approved`}
          {(states.failed ?? 0) > 0 && <span className="text-bad">, {states.failed} failed</span>}
        </p>
        <p className="text-sm text-soft">
          Imported <Time at={batch.created_at} /> by {batch.requested_by}
        </p>
      </div>
      {may && open.payouts > 0 && (
        <div className="flex flex-wrap gap-2">
          <Button look="main" busy={approve.isPending} onClick={() => setAsked('approve')}>
            {open.payouts === batch.payouts ? 'Approve all' : `Approve ${open.payouts}`}
            <span className="sr-only"> of {name}</span>
          </Button>
          <Button look="danger" busy={cancel.isPending} onClick={() => setAsked('cancel')}>
            Cancel<span className="sr-only"> payouts of {name}</span>
          </Button>
        </div>
      )}
      <Ask
        open={asked !== null}
        onClose={() => setAsked(null)}
        title={asked === 'cancel' ? `Cancel ${payouts(open.payouts)}?` : `Approve ${payouts(open.payouts)}?`}
        text={
          <>
            <Totals of={open.totals} /> (<Money amount={open.amount_usd} />){' '}
            {asked === 'cancel'
              ? 'will not be sent. After everything in a file was canceled, you can import it again.'
              : 'will be sent. Compare the sum with your own list first.'}
            {asked === 'approve' && mode === 'test' && <Rehearse checked={signs} onChange={setSigns} />}
          </>
        }
        act={asked === 'cancel' ? 'Cancel payouts' : 'Approve'}
        back={asked === 'cancel' ? 'Close' : 'Cancel'}
        danger={asked === 'cancel'}
        onAct={onAct}
      />
    </li>
  );
}
