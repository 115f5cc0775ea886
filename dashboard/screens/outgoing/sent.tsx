/** The transaction that paid a refund or a payout, and recording one that the merchant sent. */
import { type FormEvent, useState } from 'react';
import { coinText } from '../../lib/coin.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { ErrorNote } from '../../ui/form.tsx';
import { Money } from '../../ui/values.tsx';

export const TransactionLink = ({ id, url }: { id: string | null; url: string | null }) =>
  id === null ? (
    <span>–</span>
  ) : (
    <span className="font-mono text-xs break-all">
      <span>{id}</span>
      {url !== null && (
        <a href={url} target="_blank" rel="noreferrer noopener" className="ml-2 font-sans underline">
          Explorer<span className="sr-only"> (opens in a new tab)</span>
        </a>
      )}
    </span>
  );

const SENT = {
  refund: { endpoint: 'POST /:mode/refunds/:id/sent', title: 'Mark this refund as sent', done: 'Refund marked as sent.' },
  payout: { endpoint: 'POST /:mode/payouts/:id/sent', title: 'Mark this payout as sent', done: 'Payout marked as sent.' },
} as const;

export function MarkSent({
  of,
  paid: { id, amount, currency, address },
  refreshes,
  onClose,
}: {
  of: keyof typeof SENT;
  paid: { id: string; amount: string; currency: string; address: string | null };
  refreshes: readonly (readonly unknown[])[];
  onClose: () => void;
}) {
  const [txid, setTxid] = useState('');
  const { endpoint, title, done } = SENT[of];
  const mark = useAct(endpoint, { refreshes, done, quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    mark.mutate({ params: { id }, body: { txid: txid.trim() } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title={title}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          First send <Money amount={amount} currency={currency} className="text-ink" /> to this address with your own wallet.
        </p>
        <Code text={address ?? ''} label="Copy the address" />
        <Field
          label="Transaction ID"
          required
          autoComplete="off"
          maxLength={100}
          hint={`The ${coinText(currency)} transaction that you sent. Another one can’t be recorded later.`}
          value={txid}
          onChange={(event) => setTxid(event.target.value)}
        />
        <ErrorNote error={mark.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={mark.isPending}>
            Mark as sent
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
