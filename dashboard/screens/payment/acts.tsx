/** What can be done with a payment: cancel, accept, refuse, refund, handled; and putting it away. */
import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { PAYMENT_READS, useAct, useMay } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Ask, Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';

type Full = Reply<'GET /:mode/payments/:id'>;
type Kind = 'cancel' | 'accept' | 'reject' | 'reviewed';
const QUESTIONS: Readonly<Record<Kind, { title: string; text: string; act: string }>> = {
  cancel: {
    title: 'Cancel this payment?',
    text: 'The payer’s page closes. What arrives later is kept and shown as paid after cancel.',
    act: 'Cancel the payment',
  },
  accept: { title: 'Accept what arrived?', text: 'The payment goes on and completes with the amount received.', act: 'Accept' },
  reject: { title: 'Refuse what arrived?', text: 'The payment stays as it is. Sending the money back is up to you.', act: 'Refuse' },
  reviewed: {
    title: 'Mark as handled?',
    text: 'It leaves “Needs attention” until something new turns up. Nothing else changes.',
    act: 'Mark as handled',
  },
};

/** A payment at rest is put away, or taken back. */
function Archive({ data: { payment, attention, archived_at: archived } }: { data: Full }) {
  const may = useMay('payments.archive');
  const done = archived ? 'The payment is back in the list.' : 'Archived: out of the list, unless its filters ask for it.';
  const archive = useAct('POST /:mode/payments/:id/archive', { refreshes: [['payment'], ['payments']], done });
  if (!may || attention || payment.status === 'pending' || payment.status === 'processing') return null;
  return (
    <Button busy={archive.isPending} onClick={() => archive.mutate({ params: { id: payment.id }, body: { archived: !archived } })}>
      {archived ? 'Take out of the archive' : 'Archive'}
    </Button>
  );
}

export function Acts({ data }: { data: Full }) {
  const { payment, attention, refund_request: request } = data;
  const mayCancel = useMay('payments.cancel');
  const mayResolve = useMay('payments.resolve');
  const [asked, setAsked] = useState<Kind | null>(null);
  const [refunding, setRefunding] = useState(false);
  const [txid, setTxid] = useState('');
  const cancel = useAct('POST /:mode/payments/:id/cancel', { refreshes: PAYMENT_READS, done: 'The payment is cancelled.' });
  const resolve = useAct('POST /:mode/payments/:id/resolve', { refreshes: PAYMENT_READS, done: 'Decided.' });
  const params = { id: payment.id };
  const ends = payment.status === 'expired' || payment.status === 'failed' || payment.status === 'cancelled';
  const undecided = ends && payment.transfers.length > 0;
  const question = asked && QUESTIONS[asked];
  return (
    <>
      {payment.status === 'pending' && mayCancel && (
        <Button look="danger" onClick={() => setAsked('cancel')}>
          Cancel payment
        </Button>
      )}
      {undecided && mayResolve && (
        <>
          <Button look="main" onClick={() => setAsked('accept')}>
            Accept what arrived
          </Button>
          <Button onClick={() => setAsked('reject')}>Refuse</Button>
          <Button onClick={() => setRefunding(true)}>Mark refund sent</Button>
        </>
      )}
      {attention && !undecided && mayResolve && <Button onClick={() => setAsked('reviewed')}>Mark as handled</Button>}
      <Archive data={data} />
      {question && (
        <Ask
          open
          onClose={() => setAsked(null)}
          title={question.title}
          text={question.text}
          act={question.act}
          danger={asked === 'cancel'}
          busy={cancel.isPending || resolve.isPending}
          onAct={() => {
            const close = { onSettled: () => setAsked(null) };
            if (asked === 'cancel') cancel.mutate({ params, body: {} }, close);
            else if (asked !== null) resolve.mutate({ params, body: { action: asked } }, close);
          }}
        />
      )}
      <Dialog open={refunding} onClose={() => setRefunding(false)} title="Mark refund sent">
        <form
          className="grid gap-4"
          onSubmit={(event) => {
            event.preventDefault();
            const given = txid.trim();
            resolve.mutate(
              { params, body: { action: 'refund_sent', ...(given !== '' && { txid: given }) } },
              { onSuccess: () => setRefunding(false) },
            );
          }}
        >
          <p className="text-sm text-soft">
            For money that you have sent back from your own wallet. Florin holds no keys and sends nothing.
            {request && ` The payer asked for it at ${request.address} (${request.currency}).`}
          </p>
          <Field
            label="Transaction id"
            value={txid}
            onChange={(event) => setTxid(event.target.value)}
            maxLength={200}
            hint="Of your refund, when you have it. It stands in the timeline."
            autoComplete="off"
          />
          <Foot onBack={() => setRefunding(false)}>
            <Button look="main" type="submit" busy={resolve.isPending}>
              Mark refund sent
            </Button>
          </Foot>
        </form>
      </Dialog>
    </>
  );
}
