/** Where sweeps go, for each family of chains: the address in use, and one that waits to be confirmed. */
import { type FormEvent, useState } from 'react';
import { COIN_KINDS, type Coin } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { coinName } from '../../lib/coin.ts';
import { useAct, useMay } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { ErrorNote, Note } from '../../ui/form.tsx';
import { Card, Empty } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';

type Overview = Reply<'GET /:mode/sweeps/overview'>;
type Destination = Overview['destinations'][number];

/** The address of an account also serves tokens and the networks beside it. */
/** What goes to one destination. */
export const destinationName = (coin: Coin): string =>
  COIN_KINDS[coin] === 'ethereum' ? `${coinName(coin)} and stablecoins` : coinName(coin);

export function Destinations({ overview: { destinations, wait_hours: hours } }: { overview: Overview }) {
  const may = useMay('sweeps.use');
  const [setting, setSetting] = useState<Destination | null>(null);
  return (
    <Card title="Destinations">
      {destinations.length === 0 ? (
        <Empty title="No network is connected">Connect a node or a provider first. Each network then needs an address of yours.</Empty>
      ) : (
        <>
          <p className="border-b border-line px-4 py-3 text-sm text-soft">
            A new address waits {hours} hours, so that you notice one that someone else set. A second owner can confirm it sooner, but not
            the person who set it or anyone who became an owner in the last {hours} hours.
          </p>
          <ul>
            {destinations.map((one) => (
              <li key={one.currency} className="grid gap-2 border-b border-line px-4 py-3 last:border-b-0">
                <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
                  <div className="min-w-0">
                    <h3 className="font-medium">{destinationName(one.currency)}</h3>
                    {one.current ? (
                      <code className="text-sm break-all">{one.current.address}</code>
                    ) : (
                      <p className="text-sm text-soft">No destination set</p>
                    )}
                  </div>
                  {may && (
                    <Button onClick={() => setSetting(one)}>
                      {one.current || one.waiting ? 'Change' : 'Set destination'}
                      <span className="sr-only"> for {destinationName(one.currency)}</span>
                    </Button>
                  )}
                </div>
                <Waiting of={one} />
              </li>
            ))}
          </ul>
        </>
      )}
      {setting && <SetDestination currency={setting.currency} hours={hours} onClose={() => setSetting(null)} />}
    </Card>
  );
}

function Waiting({ of: { currency, current, waiting } }: { of: Destination }) {
  const mayConfirm = useMay('sweeps.confirm');
  const mayDrop = useMay('sweeps.use');
  const confirm = useAct('POST /:mode/sweep-destinations/:currency/confirm', {
    refreshes: [['sweeps']],
    done: 'The new destination is active.',
  });
  const drop = useAct('POST /:mode/sweep-destinations/:currency/drop', {
    refreshes: [['sweeps']],
    done: 'The new destination was discarded.',
  });
  if (!waiting) return null;
  const options = { params: { currency }, body: {} };
  return (
    <Note tone="warn" icon="clock">
      <p>
        <b>A new destination is pending.</b> {waiting.asked_by} requested <code className="break-all">{waiting.address}</code>. It takes
        effect on <Time at={waiting.due_at} />, or when a second owner confirms it.
      </p>
      <p className="mt-2 flex flex-wrap gap-2">
        {mayConfirm && !waiting.asked_by_me && (
          <Button look="main" busy={confirm.isPending} onClick={() => confirm.mutate(options)}>
            Confirm now
          </Button>
        )}
        {mayDrop && (
          <Button busy={drop.isPending} onClick={() => drop.mutate(options)}>
            {current ? 'Keep the current destination' : 'Discard this destination'}
          </Button>
        )}
      </p>
    </Note>
  );
}

function SetDestination({ currency, hours, onClose }: { currency: Destination['currency']; hours: number; onClose: () => void }) {
  const [address, setAddress] = useState('');
  const [ends, setEnds] = useState('');
  const [differs, setDiffers] = useState(false);
  const set = useAct('POST /:mode/sweep-destinations', { refreshes: [['sweeps']], quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const matches = address.trim().slice(-6).toLowerCase() === ends.trim().toLowerCase();
    setDiffers(!matches);
    if (matches) set.mutate({ body: { currency, address: address.trim(), ends: ends.trim() } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title={`Destination for ${destinationName(currency)}`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          An address of your own wallet. It takes effect after {hours} hours, unless waiting is turned off.
        </p>
        <Field
          label="Address"
          autoComplete="off"
          spellCheck={false}
          required
          maxLength={200}
          value={address}
          onChange={(event) => setAddress(event.target.value)}
        />
        <Field
          label="Its last six characters"
          hint="Read them from the device that holds its key, so that a program on this computer cannot replace the address unnoticed."
          fault={differs ? 'The address ends differently. Compare it with the device that holds its key.' : null}
          autoComplete="off"
          spellCheck={false}
          required
          minLength={6}
          maxLength={6}
          value={ends}
          onChange={(event) => setEnds(event.target.value)}
        />
        <ErrorNote error={set.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={set.isPending}>
            Set destination
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
