/** The history of a payment, oldest first: what the customer, the network, your team and your endpoints did. */

import type { ReactNode } from 'react';
import type { Reply } from '../../lib/api.ts';
import { countText } from '../../lib/language.ts';
import { Icon, type IconName } from '../../ui/icon.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Money, Time } from '../../ui/values.tsx';
import { DeliveryLink, outcomeWords } from '../webhooks/words.tsx';
import { Txid } from './transfers.tsx';

type Full = Reply<'GET /:mode/payments/:id'>;
type Entry = Full['timeline'][number];

const DECISIONS: Readonly<Record<string, string>> = {
  cancel: 'Canceled',
  accept: 'Accepted',
  reject: 'Rejected',
  refund_sent: 'Marked as refunded',
};
const DELIVERIES = {
  delivered: { word: 'delivered', icon: 'send', color: 'text-soft' },
  failing: { word: 'retrying', icon: 'alert', color: 'text-warn' },
  failed: { word: 'failed', icon: 'cross', color: 'text-bad' },
} as const;
const EVENTS: Readonly<Record<string, string>> = {
  'payment.updated': 'Updated',
  'payment.processing': 'Processing',
  'payment.completed': 'Completed',
  'payment.failed': 'Failed',
  'payment.expired': 'Expired',
  'payment.cancelled': 'Canceled',
  'payment.reversed': 'Reversed: the payment is no longer confirmed',
  'refund.requested': 'Refund requested',
  'refund.approved': 'Refund approved',
  'refund.sent': 'Refund sent',
  'refund.confirmed': 'Refund confirmed',
  'refund.failed': 'Refund failed',
  'refund.canceled': 'Refund canceled',
};
const byWhom = ({ actor, actor_kind }: Entry): string => {
  if (actor === null) return '';
  return actor_kind === 'key' || actor_kind === 'shop' ? ` by ${actor_kind} “${actor}”` : ` by ${actor}`;
};
function wordsOf(entry: Entry): { text: string; icon: IconName } {
  const { kind, what, actor, block_height: block } = entry;
  switch (kind) {
    case 'created':
      return { text: actor ? `Created by ${actor}` : `Created with a ${what} key`, icon: 'payments' };
    case 'opened':
      return { text: 'Payment page opened', icon: 'link' };
    case 'coin_chosen':
      return { text: 'Coin chosen', icon: 'wallet' };
    case 'transfer_seen':
      return { text: 'Transfer detected', icon: 'arrow' };
    case 'transfer_confirmed':
      return { text: block === null ? 'Confirmed in a block' : `Confirmed in block ${countText(block)}`, icon: 'check' };
    case 'decision':
      return { text: `${DECISIONS[what ?? ''] ?? what}${byWhom(entry)}`, icon: 'person' };
    case 'event':
      return { text: EVENTS[what ?? ''] ?? what ?? '', icon: 'clock' };
    // Has its own line.
    case 'delivery':
      return { text: '', icon: 'send' };
  }
}

export const Timeline = ({ paymentId, entries, explorers }: { paymentId: string; entries: Entry[]; explorers: Full['explorers'] }) => (
  <ol className="grid gap-4 p-4">
    {entries.map((entry) =>
      entry.delivery ? (
        <Told key={entry.delivery.id} paymentId={paymentId} entry={entry} delivery={entry.delivery} />
      ) : (
        <Line key={`${entry.at} ${entry.kind} ${entry.what} ${entry.ref}`} at={entry.at} {...wordsOf(entry)}>
          {entry.key && (
            <span className="text-soft">
              <ModeLink to={`keys/${entry.key.id}`} className="break-words underline">
                {entry.key.name}
              </ModeLink>{' '}
              <code className="text-xs break-all">{entry.key.hint}</code>
            </span>
          )}
          {entry.amount && (
            <span>
              <Money amount={entry.amount} currency={entry.currency} />
              {entry.rate !== null && (
                <span className="text-soft">
                  {' '}
                  at <Money amount={entry.rate} />
                </span>
              )}
            </span>
          )}
          <Txid id={entry.ref} explorers={explorers} />
        </Line>
      ),
    )}
  </ol>
);

/** The delivery of an event to an endpoint. */
function Told({ paymentId, entry, delivery }: { paymentId: string; entry: Entry; delivery: NonNullable<Entry['delivery']> }) {
  const { word, icon, color } = DELIVERIES[delivery.state];
  const { attempt_count: attempts, failure } = delivery;
  return (
    <Line
      at={entry.at}
      icon={icon}
      color={color}
      text={
        <DeliveryLink endpointId={delivery.endpoint_id} paymentId={paymentId} id={delivery.id}>
          {entry.what} {word}
        </DeliveryLink>
      }
    >
      <span className="text-soft">
        <span className="break-all">{delivery.host}</span>
        {`, ${attempts === 0 ? 'not sent: the endpoint was disabled' : attempts === 1 ? '1 attempt' : `${attempts} attempts`}`}
        {failure !== null && `: ${outcomeWords(failure)}`}
      </span>
    </Line>
  );
}

const Line = ({
  at,
  icon,
  color = 'text-soft',
  text,
  children,
}: {
  at: string;
  icon: IconName;
  color?: string;
  text: ReactNode;
  children: ReactNode;
}) => (
  <li className="grid grid-cols-[1.25rem_1fr] gap-3 text-sm">
    <Icon name={icon} className={`size-5 ${color}`} />
    <div className="grid gap-0.5">
      <p className="flex flex-wrap justify-between gap-x-4">
        <span className="font-medium">{text}</span>
        <span className="text-soft">
          <Time at={at} seconds happened />
        </span>
      </p>
      {children}
    </div>
  </li>
);
