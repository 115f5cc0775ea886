/** The transfers of a payment: amount, state, whether it counts, and where to look it up. */

import type { Reply } from '../../lib/api.ts';
import { coinOf } from '../../lib/coin.ts';
import { countText } from '../../lib/language.ts';
import type { IconName } from '../../ui/icon.tsx';
import { Card } from '../../ui/states.tsx';
import { Badge, CopyButton, Money, type Tone } from '../../ui/values.tsx';

type Full = Reply<'GET /:mode/payments/:id'>;
type Standing = Full['standings'][number];

/** A transaction ID, with a link to a public explorer where there is one. */
export const Txid = ({ id, explorers }: { id: string | null; explorers: Full['explorers'] }) =>
  id !== null && (
    <span className="font-mono text-xs break-all text-soft">
      {id}
      {explorers[id] && (
        <a href={explorers[id]} target="_blank" rel="noreferrer noopener" className="ml-2 font-sans underline">
          Explorer
        </a>
      )}
    </span>
  );

const STATES: Readonly<Record<Standing['state'], { tone: Tone; icon: IconName; word: string }>> = {
  waiting: { tone: 'info', icon: 'clock', word: 'Confirming' },
  confirmed: { tone: 'good', icon: 'check', word: 'Confirmed' },
  replaced: { tone: 'bad', icon: 'cross', word: 'Replaced' },
  absent: { tone: 'warn', icon: 'alert', word: 'Not found on the network' },
};
/** Said where a transfer does not count; the state says it of those that are contested or gone. */
const ROLES: Readonly<Record<Standing['role'], { tone: Tone; word: string } | null>> = {
  counted: null,
  held: { tone: 'warn', word: 'On hold' },
  rejected: { tone: 'calm', word: 'Rejected' },
  refunded: { tone: 'calm', word: 'Refunded' },
  small: { tone: 'calm', word: 'Too small to count' },
  contested: null,
  gone: null,
};
const RULES: Readonly<Record<string, string>> = {
  instantsend: 'an InstantSend lock',
  instantsend_or_chainlock: 'an InstantSend lock or ChainLock',
  chainlock: 'a ChainLock',
  safe: 'a safe block',
  finalized: 'a finalized block',
};
function confirmationsOf({ state, confirmations: n, confirmations_required: wanted }: Standing, rule: string | null): string {
  const words = n === 1 ? '1 confirmation' : `${countText(n)} confirmations`;
  if (state !== 'waiting') return words;
  return wanted === null ? `${words}, waiting for ${RULES[rule ?? ''] ?? rule}` : `${n} of ${wanted} confirmations`;
}

export const Transfers = ({ data: { payment, standings, explorers } }: { data: Full }) =>
  payment.transfers.length > 0 && (
    <Card title="Transfers">
      <ul>
        {payment.transfers.map((transfer, i) => {
          const standing = standings[i]!;
          const { tone, icon, word } = STATES[standing.state];
          const role = ROLES[standing.role];
          return (
            <li
              key={`${transfer.currency} ${transfer.ref}`}
              className="grid gap-1.5 border-b border-line px-4 py-3 text-sm last:border-b-0"
            >
              <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1">
                <span className="flex flex-wrap gap-x-2">
                  <Money amount={transfer.amount} currency={coinOf(transfer)} className="font-medium" />
                  {transfer.amount_usd !== null && <Money amount={transfer.amount_usd} className="text-soft" />}
                </span>
                <span className="flex flex-wrap gap-1">
                  {role && <Badge tone={role.tone}>{role.word}</Badge>}
                  <Badge tone={tone} icon={icon}>
                    {word}
                  </Badge>
                </span>
              </div>
              {transfer.transaction_hash === null ? (
                <p className="text-soft">Transaction ID unknown</p>
              ) : (
                <p className="flex items-start gap-1">
                  <Txid id={transfer.transaction_hash} explorers={explorers} />
                  <CopyButton value={transfer.transaction_hash} label="Copy transaction ID" />
                </p>
              )}
              <p className="flex flex-wrap justify-between gap-x-4 text-soft">
                <span>{transfer.block_height === null ? 'Not in a block yet' : `Block ${countText(transfer.block_height)}`}</span>
                <span>{confirmationsOf(standing, payment.completion_rule)}</span>
              </p>
              {transfer.replaced_by !== null && (
                <p className="text-soft">
                  Replaced by <Txid id={transfer.replaced_by} explorers={explorers} />
                </p>
              )}
            </li>
          );
        })}
      </ul>
      {payment.transfers_count > payment.transfers.length && (
        <p className="border-t border-line px-4 py-3 text-sm text-soft">
          Showing the {payment.transfers.length} largest of {countText(payment.transfers_count)} transfers. Reports list all of them.
        </p>
      )}
    </Card>
  );
