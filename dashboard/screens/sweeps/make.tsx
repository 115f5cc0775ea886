/** Makes a signing file, with the fee that the merchant chooses, and downloads it. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { coinName } from '../../lib/coin.ts';
import { useAct, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, ErrorNote } from '../../ui/form.tsx';
import { Facts } from '../../ui/states.tsx';
import { Money } from '../../ui/values.tsx';
import { type Holding, Remains } from './remains.tsx';

const SPEEDS = [
  { value: 'slow', label: 'Slow: the lowest fee' },
  { value: 'normal', label: 'Normal' },
  { value: 'fast', label: 'Fast: the highest fee' },
] as const;
type Speed = (typeof SPEEDS)[number]['value'];
type Made = Reply<'POST /:mode/sweeps'>;

/** What the server does without a wish: all money moves whose fee is at most a tenth of it. */
const DEFAULTS = { percent: '10', hours: '0', amount: '0' };
type Wish = typeof DEFAULTS;

/** Which money moves, by fee, age and amount. */
function Options({ currency, wish, onChange }: { currency: string; wish: Wish; onChange: (wish: Wish) => void }) {
  const whole = { type: 'number', min: 0, step: 1, required: true } as const;
  return (
    <details className="grid gap-4">
      <summary className="cursor-pointer text-sm font-medium">Options</summary>
      <div className="mt-4 grid gap-4">
        <Field
          label="Highest share of fees, in percent"
          hint="Money stays on addresses where the fee would be a larger share of it."
          {...whole}
          max={25}
          value={wish.percent}
          onChange={(event) => onChange({ ...wish, percent: event.target.value })}
        />
        <Field
          label="Lowest age, in hours"
          hint="Money that arrived later stays on its address. 0 moves money of any age."
          {...whole}
          max={87_600}
          value={wish.hours}
          onChange={(event) => onChange({ ...wish, hours: event.target.value })}
        />
        <Field
          label={`Lowest amount of an address, in ${coinName(currency)}`}
          hint="Addresses with less keep their money. 0 moves any amount."
          inputMode="decimal"
          required
          value={wish.amount}
          onChange={(event) => onChange({ ...wish, amount: event.target.value })}
        />
      </div>
    </details>
  );
}

export function Make({ holding, onClose }: { holding: Holding; onClose: () => void }) {
  const { currency, wallet } = holding;
  const [speed, setSpeed] = useState<Speed>('normal');
  const [wish, setWish] = useState(DEFAULTS);
  const make = useAct('POST /:mode/sweeps', { refreshes: [['sweeps']], quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { percent, hours, amount } = wish;
    make.mutate({
      body: { currency, wallet, speed, max_fee_percent: Number(percent), min_age_hours: Number(hours), min_amount: amount.trim() },
    });
  };
  if (make.data) return <Ready made={make.data} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={`Move ${coinName(currency)}`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          The file moves up to <Money amount={holding.amount} currency={currency} /> to your destination. The money is reserved for this
          file until you cancel it.
        </p>
        <Choice label="Network fee" options={SPEEDS} value={speed} onChange={(event) => setSpeed(event.target.value as Speed)} />
        <Options currency={currency} wish={wish} onChange={setWish} />
        <ErrorNote error={make.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={make.isPending}>
            Make the file
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

/** The file is made: what it does, and the download. */
function Ready({ made: { sweep, remains }, onClose }: { made: Made; onClose: () => void }) {
  const mode = useMode();
  return (
    <Dialog open onClose={onClose} title="The signing file is ready">
      <Facts
        rows={[
          ['Amount', <Money key="amount" amount={sweep.amount} currency={sweep.currency} />],
          ['Fee, at most', <Money key="fee" amount={sweep.fee} currency={sweep.fee_currency} />],
          [
            'Destination',
            <code key="to" className="break-all">
              {sweep.destination}
            </code>,
          ],
        ]}
      />
      <Remains currency={sweep.currency} remains={remains} />
      <p className="text-sm text-soft">Sign it with the offline signer, then upload the signed file here.</p>
      <Foot onBack={onClose} back="Close">
        <Download look="main" href={`/dashboard/api/${mode}/sweeps/${sweep.id}/file`}>
          Download the file
        </Download>
      </Foot>
    </Dialog>
  );
}
