/** A payment that was just created: its link and QR code for the customer. */
import type { Reply } from '../../lib/api.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { LinkCode } from '../../ui/link-code.tsx';
import { Money } from '../../ui/values.tsx';

export type MadePayment = Reply<'POST /:mode/payments'>;

export const Created = ({ made, onClose }: { made: MadePayment; onClose: () => void }) => (
  <Dialog open onClose={onClose} title="Payment created">
    <div className="grid justify-items-center gap-3 text-center">
      <p className="text-2xl font-semibold">
        <Money amount={made.amount} currency={made.currency_fiat} />
      </p>
      {made.currency_fiat !== 'USD' && (
        <p className="text-sm text-soft">
          = <Money amount={made.amount_usd} />
        </p>
      )}
      <LinkCode url={made.payment_url} qr={made.qr} copy="Copy the payment link" open="Open payment page">
        <ModeLink to={`payments/${made.id}`} className={buttonClass()}>
          View payment
        </ModeLink>
      </LinkCode>
    </div>
  </Dialog>
);
