/** What a member can do with a payment: cancel, accept, reject, mark as refunded or handled, archive. */

import { lazy, Suspense, useState } from 'react';
import { isSome, moneyText, sumText } from '../../lib/amount.ts';
import type { Reply } from '../../lib/api.ts';
import { canBePriced, coinText } from '../../lib/coin.ts';
import { PAYMENT_READS, useAct, useMay } from '../../lib/hooks.ts';
import { lateHint } from '../../lib/late.ts';
import { Button } from '../../ui/button.tsx';
import { Ask, Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { countedOf } from '../../ui/received.tsx';
import { CancelPayment } from './cancel.tsx';

const RefundAct = lazy(async () => ({ default: (await import('../refunds/refund-act.tsx')).RefundAct }));

type Full = Reply<'GET /:mode/payments/:id'>;
type Kind = 'accept' | 'reject' | 'reviewed';
type Question = { title: string; text: string; act: string };
/** What is asked before each act. `arrived` names all the money that it is about. */
function questionOf(kind: Kind, { payment, arrived }: Full): Question {
  const sum = sumText(kind === 'accept' ? arrived.filter(({ currency }) => canBePriced(currency)) : arrived);
  switch (kind) {
    case 'accept':
      return {
        title: `Accept ${sum}?`,
        text: `The payment of ${moneyText(payment.amount_usd)} counts as paid with this amount and completes once it is confirmed.${lateHint(payment)}`,
        act: 'Accept',
      };
    case 'reject':
      return {
        title: `Don’t accept ${sum}?`,
        text: `The payment keeps its status, and the money stays where it is until you refund it.${lateHint(payment)}`,
        act: 'Don’t accept',
      };
    case 'reviewed':
      return {
        title: 'Mark as handled?',
        text: `${sum === '' ? '' : `Received: ${sum}. `}The payment leaves “Needs attention” until something new happens. Its amounts and status do not change.`,
        act: 'Mark as handled',
      };
  }
}

/** Archives a payment that has ended, or moves it back to the list. */
function Archive({ data: { payment, attention, archived_at: archived } }: { data: Full }) {
  const may = useMay('payments.archive');
  const done = archived ? 'Payment unarchived.' : 'Payment archived. Use the filters of the list to find it.';
  const archive = useAct('POST /:mode/payments/:id/archive', { refreshes: [['payment'], ['payments']], done });
  if (!may || attention || payment.status === 'pending' || payment.status === 'processing') return null;
  return (
    <Button busy={archive.isPending} onClick={() => archive.mutate({ params: { id: payment.id }, body: { archived: !archived } })}>
      {archived ? 'Unarchive' : 'Archive'}
    </Button>
  );
}

export function Acts({ data }: { data: Full }) {
  const { payment, attention, refund_request: request } = data;
  const mayCancel = useMay('payments.cancel');
  const mayResolve = useMay('payments.resolve');
  const [asked, setAsked] = useState<Kind | null>(null);
  const [canceling, setCanceling] = useState(false);
  const [refunding, setRefunding] = useState(false);
  const [txid, setTxid] = useState('');
  const resolve = useAct('POST /:mode/payments/:id/resolve', { refreshes: PAYMENT_READS, done: 'Payment updated.' });
  const params = { id: payment.id };
  const ends = payment.status === 'expired' || payment.status === 'failed' || payment.status === 'cancelled';
  const { arrived, uncounted } = data;
  // Money in a wrong coin can be accepted while the payment is open. Rejecting it would refuse all that is still to come.
  const isEarly = payment.status === 'pending' && payment.exceptions.some((name) => name === 'wrong_network' || name === 'wrong_token');
  // What is refunded is gone: there is nothing left to decide.
  const undecided =
    (ends || isEarly) &&
    arrived.length > 0 &&
    (isSome(countedOf({ ...payment, uncounted }).usd) || uncounted.some(({ state }) => state !== 'refunded'));
  const question = asked && questionOf(asked, data);
  return (
    <>
      {payment.status === 'pending' && mayCancel && (
        <Button look="danger" onClick={() => setCanceling(true)}>
          Cancel payment
        </Button>
      )}
      {undecided && mayResolve && (
        <>
          {arrived.some(({ currency }) => canBePriced(currency)) && (
            <Button look="main" onClick={() => setAsked('accept')}>
              Accept
            </Button>
          )}
          {ends && <Button onClick={() => setAsked('reject')}>Don’t accept</Button>}
        </>
      )}
      {arrived.length > 0 && (
        <Suspense fallback={null}>
          <RefundAct data={data} onSent={undecided && ends && mayResolve ? () => setRefunding(true) : null} />
        </Suspense>
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
          busy={resolve.isPending}
          onAct={() => asked && resolve.mutate({ params, body: { action: asked } }, { onSettled: () => setAsked(null) })}
        />
      )}
      {canceling && <CancelPayment id={payment.id} received={sumText(arrived)} onClose={() => setCanceling(false)} />}
      <Dialog open={refunding} onClose={() => setRefunding(false)} title={`Mark ${sumText(arrived)} as refunded?`}>
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
            Use this after you sent the money back from your own wallet. Florin holds no private keys and cannot send it.
            {request && ` Refund address from the customer: ${request.address} (${coinText(request.currency)}).`}
          </p>
          <Field
            label="Transaction ID (optional)"
            value={txid}
            onChange={(event) => setTxid(event.target.value)}
            maxLength={200}
            hint="The transaction of your refund. It appears in the timeline."
            autoComplete="off"
          />
          <Foot onBack={() => setRefunding(false)}>
            <Button look="main" type="submit" busy={resolve.isPending}>
              Mark as refunded
            </Button>
          </Foot>
        </form>
      </Dialog>
    </>
  );
}
