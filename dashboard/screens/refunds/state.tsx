/** A refund as people read it in lists: its state, and the first columns. */
import type { Reply } from '../../lib/api.ts';
import { coinOf } from '../../lib/coin.ts';
import { RowButton } from '../../ui/button.tsx';
import type { IconName } from '../../ui/icon.tsx';
import type { Column } from '../../ui/table.tsx';
import { Badge, Money, type Tone } from '../../ui/values.tsx';

export type Refund = Reply<'GET /:mode/refunds/:id'>['refund'];
export const STATES: Readonly<Record<Refund['status'], { tone: Tone; icon: IconName; word: string }>> = {
  requested: { tone: 'warn', icon: 'clock', word: 'Requested' },
  approved: { tone: 'warn', icon: 'check', word: 'To be sent' },
  signed: { tone: 'info', icon: 'key', word: 'Signed' },
  sent: { tone: 'info', icon: 'arrow', word: 'Sent' },
  confirmed: { tone: 'good', icon: 'check', word: 'Confirmed' },
  failed: { tone: 'bad', icon: 'alert', word: 'Failed' },
  canceled: { tone: 'calm', icon: 'cross', word: 'Canceled' },
};
export const STATE_WORDS = Object.fromEntries(Object.entries(STATES).map(([state, { word }]) => [state, word]));

/** What a requested refund waits for. */
export function RefundState({ refund: { status: state, address, claim_expired: expired, approved_by: by } }: { refund: Refund }) {
  const { tone, icon, word } = STATES[state];
  const forCustomer = state === 'requested' && address === null;
  const waits = expired
    ? 'Link expired'
    : forCustomer
      ? 'Waiting for the customer'
      : state !== 'requested'
        ? word
        : by !== null
          ? 'Second approval needed'
          : 'Needs approval';
  return (
    <Badge tone={forCustomer ? 'calm' : tone} icon={icon}>
      {waits}
    </Badge>
  );
}

/** The columns that every list of refunds begins with. `open` shows one of them. */
export const leadingColumns = <R extends Refund>(open: (id: string) => void): Column<R>[] => [
  {
    name: 'Refund',
    phone: 'title',
    cell: (refund) => (
      <RowButton open={() => open(refund.id)}>
        <Money amount={refund.amount} currency={coinOf(refund)} />
      </RowButton>
    ),
  },
  { name: 'State', phone: 'corner', cell: (refund) => <RefundState refund={refund} /> },
  { name: 'Value', cell: (refund) => <Money amount={refund.amount_usd} />, right: true },
];
