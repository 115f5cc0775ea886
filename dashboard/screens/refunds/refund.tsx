/** One refund: what it returns and where to, and the link where its customer enters an address. */
import { type FormEvent, useState } from 'react';
import { ApiError } from '../../lib/api.ts';
import { PAYMENT_READS, useAct, useApi } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Dialog, Drawer, Foot } from '../../ui/dialog.tsx';
import { ErrorNote, Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Facts, Pending } from '../../ui/states.tsx';
import { TestLabel, Time } from '../../ui/values.tsx';
import { Acts, factsOf } from '../outgoing/acts.tsx';
import { ClaimEmail } from './claim-email.tsx';
import { RefundInvoice } from './invoice.tsx';
import { type Refund, RefundState } from './state.tsx';

/** What an act on a refund changes. */
export const REFUND_READS = [['refunds'], ['refundable'], ...PAYMENT_READS] as const;
/** The chain confirms it without the dashboard. */
const EVERY_MS = 15_000;

export function RefundDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useApi('GET /:mode/refunds/:id', ['refunds', id], { params: { id } }, { everyMs: EVERY_MS });
  const refund = query.data?.refund;
  return (
    <Drawer open onClose={onClose} title="Refund">
      {!refund ? (
        <Pending of={query} />
      ) : (
        <>
          <div className="flex flex-wrap gap-2">
            <RefundState refund={refund} />
            <TestLabel />
          </div>
          {refund.failure !== null && <Note tone="bad">{refund.failure}</Note>}
          <div className="rounded-xl border border-line">
            <Facts rows={factsOf(refund, aboutOf(refund))} />
          </div>
          {refund.claim && <ClaimLink refund={refund} claim={refund.claim} />}
          <RefundInvoice refund={refund} qr={query.data?.invoice_qr ?? null} refreshes={REFUND_READS} />
          {refund.address !== null && refund.invoice_expires_at === null && (
            <div className="grid gap-2">
              <h3 className="font-medium">Address of the customer</h3>
              <Code text={refund.address} label="Copy the address" />
            </div>
          )}
          <Acts of="refund" one={refund} refreshes={REFUND_READS} />
        </>
      )}
    </Drawer>
  );
}

const aboutOf = (refund: Refund): [string, React.ReactNode][] => [
  [
    'Payment',
    <ModeLink key="payment" to={`payments/${refund.payment_id}`} className="font-mono text-xs break-all underline">
      {refund.payment_id}
    </ModeLink>,
  ],
  ['Reason', refund.reason ?? '–'],
];

function ClaimLink({ refund, claim }: { refund: Refund; claim: NonNullable<Refund['claim']> }) {
  const [asked, setAsked] = useState(false);
  return (
    <div className="grid gap-2">
      <h3 className="font-medium">Link for the customer</h3>
      {refund.claim_expired ? (
        <p className="text-sm text-soft">
          The link expired <Time at={claim.expires_at} />. Create a new one and send it to the customer.
        </p>
      ) : (
        <>
          <p className="text-sm text-soft">
            Send it only to the customer, who enters the address there. It works until <Time at={claim.expires_at} />.
          </p>
          {claim.is_unsent && (
            <Note tone="warn">
              The link before stopped working, because a member who could have copied it left or got another role. Send the customer this
              one.
            </Note>
          )}
          <Code text={claim.url} label="Copy the link" />
        </>
      )}
      <div>
        <Button onClick={() => setAsked(true)}>New link</Button>
      </div>
      {refund.email !== null && <p className="text-sm text-soft">{mailedText(refund.email, claim.is_mailed)}</p>}
      {asked && <NewLink refund={refund} onClose={() => setAsked(false)} />}
    </div>
  );
}

const mailedText = ({ address, from }: NonNullable<Refund['email']>, isMailed: boolean): string =>
  !isMailed
    ? `The link was not mailed to ${address}, which may have got too many emails. Send it to the customer yourself.`
    : `The link was mailed to ${address}, ${from === 'page' ? 'which was entered on the payment page' : 'as you chose'}.`;

function NewLink({ refund, onClose }: { refund: Refund; onClose: () => void }) {
  const { id, payment_id: paymentId, email } = refund;
  const query = useApi('GET /:mode/payments/:id/refundable', ['refundable', paymentId], { params: { id: paymentId } });
  const [to, setTo] = useState(email?.address ?? '');
  const renew = useAct('POST /:mode/refunds/:id/claim-link', {
    ...{ refreshes: REFUND_READS, done: 'The refund has a new link.', quiet: true },
  });
  const fault = renew.error instanceof ApiError ? renew.error : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    renew.mutate({ params: { id }, body: query.data?.mails ? { email: to.trim() } : {} }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title="Create a new link?">
      {!query.data ? (
        <Pending of={query} />
      ) : (
        <form onSubmit={submit} className="grid gap-4">
          <p>The link that the customer has stops working.</p>
          {query.data.mails && (
            <ClaimEmail value={to} left={query.data.left_email} onChange={setTo} fault={fault?.param === 'email' ? fault.message : null} />
          )}
          <ErrorNote error={fault?.param === 'email' ? null : fault} />
          <Foot onBack={onClose}>
            <Button type="submit" look="main" busy={renew.isPending}>
              Create link
            </Button>
          </Foot>
        </form>
      )}
    </Dialog>
  );
}
