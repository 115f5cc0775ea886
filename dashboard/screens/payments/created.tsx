/** A payment that was just created: its link and QR code for the customer. */
import type { Reply } from '../../lib/api.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { CopyButton, Money } from '../../ui/values.tsx';

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
      <img src={made.qr} alt="QR code of the payment link" className="size-52 rounded-lg border border-line" />
      <p className="flex max-w-full items-center gap-1 text-sm">
        <span className="min-w-0 break-all">{made.payment_url}</span>
        <CopyButton value={made.payment_url} label="Copy the payment link" />
      </p>
      <div className="flex flex-wrap justify-center gap-2">
        <a href={made.payment_url} target="_blank" rel="noreferrer" className={buttonClass('main')}>
          Open payment page
        </a>
        <ModeLink to={`payments/${made.id}`} className={buttonClass()}>
          View payment
        </ModeLink>
      </div>
    </div>
  </Dialog>
);
