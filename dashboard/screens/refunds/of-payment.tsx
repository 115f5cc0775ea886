/** The refunds of a payment, and what can still be refunded. */
import { useState } from 'react';
import { isSome } from '../../lib/amount.ts';
import type { Reply } from '../../lib/api.ts';
import { coinOf } from '../../lib/coin.ts';
import { useApi, useList } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/states.tsx';
import { Money, TestLabel, Time } from '../../ui/values.tsx';
import { RefundDrawer } from './refund.tsx';
import { worthText } from './request.tsx';
import { RefundState } from './state.tsx';

/** Nothing if there is nothing to refund, and nothing was refunded. */
export function RefundsOfPayment({ data: { payment } }: { data: Reply<'GET /:mode/payments/:id'> }) {
  const { id } = payment;
  const list = useList('GET /:mode/refunds', ['refunds', 'of', id], { payment: id });
  const { data } = useApi('GET /:mode/payments/:id/refundable', ['refundable', id], { params: { id } });
  const [shown, setShown] = useState<string | null>(null);
  const available = data?.available ?? [];
  const some = available.filter(({ amount }) => isSome(amount));
  if (list.rows.length === 0 && some.length === 0) return null;
  return (
    <Card title="Refunds">
      {list.rows.length > 0 && (
        <ul>
          {list.rows.map((refund) => (
            <li key={refund.id} className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2.5">
              <button type="button" className="text-left underline" onClick={() => setShown(refund.id)}>
                <Money amount={refund.amount} currency={coinOf(refund)} />
              </button>
              <span className="flex flex-wrap gap-2">
                <RefundState refund={refund} />
                <TestLabel />
              </span>
              <span className="w-full text-sm text-soft">
                <Time at={refund.created_at} happened />
              </span>
            </li>
          ))}
        </ul>
      )}
      {list.hasNextPage && (
        <div className="px-4 pt-3">
          <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
      {available.length > 0 && (
        <p className="px-4 py-3 text-sm text-soft">
          Can still be refunded:{' '}
          {(some.length > 0 ? some : available.slice(0, 1)).map(({ amount, currency, worth }, i) => (
            <span key={currency}>
              {i > 0 && ', '}
              <Money amount={amount} currency={currency} className="text-ink" />
              {worthText(worth)}
            </span>
          ))}
        </p>
      )}
      {shown !== null && <RefundDrawer id={shown} onClose={() => setShown(null)} />}
    </Card>
  );
}
