/** The Lightning invoice of a customer that a refund pays: shown to be paid with another wallet, and the preimage that proves it. */
import { type FormEvent, useState } from 'react';
import { useAct, useMay } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Field } from '../../ui/field.tsx';
import { ErrorNote, Note } from '../../ui/form.tsx';
import { Money, Time } from '../../ui/values.tsx';
import type { Refund } from './state.tsx';

/** `qr`: its image; null: it is not to be paid now. */
export function RefundInvoice({
  refund,
  qr,
  refreshes,
}: {
  refund: Refund;
  qr: string | null;
  refreshes: readonly (readonly unknown[])[];
}) {
  const { status: state, address, invoice_expires_at: until, earlier_invoice: hasEarlier } = refund;
  const isPayable = state === 'approved' && address !== null && until !== null;
  const may = useMay('refunds.approve');
  return (
    <>
      {address !== null && until !== null && (
        <div className="grid justify-items-start gap-3">
          <h3 className="font-medium">Invoice of the customer</h3>
          {isPayable && (
            <p className="text-sm text-soft">
              Pay <Money amount={refund.amount} currency="BTC" className="text-ink" /> with your own Lightning wallet. Then enter the
              preimage that the wallet shows.
            </p>
          )}
          {isPayable && qr !== null && (
            <img src={qr} alt="QR code of the invoice" className="size-64 max-w-full rounded-lg border border-line" />
          )}
          <div className="w-full">
            <Code text={address} label="Copy the invoice" />
          </div>
          {(isPayable || state === 'requested') && (
            <p className="text-sm text-soft">
              The invoice expires <Time at={until} />.
            </p>
          )}
          {isPayable && (
            <a href={`lightning:${address}`} className={buttonClass()}>
              Open wallet
            </a>
          )}
        </div>
      )}
      {hasEarlier && (
        <Note tone="warn">
          An earlier invoice expired after its approval. Look into your wallet: if it was paid, enter its preimage, and do not pay another
          one.
        </Note>
      )}
      {may && (isPayable || hasEarlier) && <Preimage id={refund.id} refreshes={refreshes} />}
    </>
  );
}

function Preimage({ id, refreshes }: { id: string; refreshes: readonly (readonly unknown[])[] }) {
  const [preimage, setPreimage] = useState('');
  const prove = useAct('POST /:mode/refunds/:id/preimage', { refreshes, done: 'Refund confirmed.', quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    prove.mutate({ params: { id }, body: { preimage: preimage.trim() } });
  };
  return (
    <form onSubmit={submit} className="grid gap-3">
      <Field
        label="Preimage"
        required
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        maxLength={100}
        hint="64 characters. Some wallets call it the proof of payment."
        value={preimage}
        onChange={(event) => setPreimage(event.target.value)}
      />
      <ErrorNote error={prove.error} />
      <div>
        <Button type="submit" look="main" busy={prove.isPending}>
          Confirm the refund
        </Button>
      </div>
    </form>
  );
}
