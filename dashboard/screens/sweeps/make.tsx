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

export function Make({ holding, onClose }: { holding: Holding; onClose: () => void }) {
  const { currency, wallet } = holding;
  const [speed, setSpeed] = useState<Speed>('normal');
  const [percent, setPercent] = useState('10');
  const make = useAct('POST /:mode/sweeps', { refreshes: [['sweeps']], quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate({ body: { currency, wallet, speed, max_fee_percent: Number(percent) } });
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
        <Field
          label="Highest share of fees, in percent"
          hint="Money stays on addresses where the fee would be a larger share of it."
          type="number"
          min={0}
          max={25}
          step={1}
          required
          value={percent}
          onChange={(event) => setPercent(event.target.value)}
        />
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
