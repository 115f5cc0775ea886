/** Dialogs of the key screens, loaded when they open: the new key, rolling, revoking. */

import { type FormEvent, useState } from 'react';
import { ApiError } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { countText } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { CodeTabs } from '../../ui/code.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Icon } from '../../ui/icon.tsx';
import type { Key, ShownKey } from './shared.tsx';

export { CreateKey } from './create.tsx';

const ENDS = [
  { value: 'now', label: 'Now', about: 'Choose this if the key may have leaked. Requests that use it fail immediately.' },
  { value: 'hour', label: 'In an hour', about: 'Enough time to deploy the new key.' },
  { value: 'day', label: 'In 24 hours', about: 'Enough time to update several servers.' },
  { value: 'week', label: 'In 7 days', about: 'Enough time for software that other people run.' },
] as const;
type Ends = (typeof ENDS)[number]['value'];

/** Shows the new key once. The dialog closes only after the person confirms that they saved the key. */
export function ShowKey({ shown, onClose }: { shown: ShownKey; onClose: () => void }) {
  const [stored, setStored] = useState(false);
  const [reminded, setReminded] = useState(false);
  const { key, text } = shown;
  const close = () => (stored ? onClose() : setReminded(true));
  const curl =
    key.kind === 'secret'
      ? `curl ${location.origin}/api/payments \\\n  -H 'Authorization: Bearer ${text}'`
      : `curl ${location.origin}/api/payment/create/simple \\\n  -H 'Authorization: Bearer ${text}' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"amount_usd":"25.00","return_url":"https://shop.example/thanks"}'`;
  return (
    <Dialog open onClose={close} title={key.kind === 'secret' ? 'Your new secret key' : 'Your new public key'}>
      <p className="flex items-start gap-2 text-sm text-soft">
        <Icon name="alert" className="mt-0.5 size-4 text-warn" />
        <span>
          Copy <strong className="font-medium text-ink">{key.name}</strong> now: you won’t see this key again.{' '}
          {key.kind === 'secret' ? 'Save it with your server’s other secrets.' : 'Add it to your page or app.'}
        </span>
      </p>
      <CodeTabs
        label="Copy as"
        tabs={[
          { name: 'Key', text },
          { name: '.env', text: `FLORIN_API_KEY=${text}` },
          { name: 'curl', text: curl },
        ]}
      />
      <label className="flex items-center gap-2.5 text-sm">
        <input type="checkbox" className="size-4 accent-accent" checked={stored} onChange={(event) => setStored(event.target.checked)} />
        I’ve saved this key
      </label>
      {reminded && !stored && (
        <p role="alert" className="text-sm text-bad">
          Save the key first, then check the box: you won’t see it again.
        </p>
      )}
      <Button look="main" onClick={close}>
        Done
      </Button>
    </Dialog>
  );
}

export function RollKey({ of, onClose, onMade }: { of: Key; onClose: () => void; onMade: (shown: ShownKey) => void }) {
  const [ends, setEnds] = useState<Ends>('day');
  const roll = useAct('POST /:mode/keys/:id/roll', { refreshes: [['keys']] });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    roll.mutate({ params: { id: of.id }, body: { ends } }, { onSuccess: onMade });
  };
  return (
    <Dialog open onClose={onClose} title={`Roll ${of.name}`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">You get a new key immediately. When should the old one, {of.hint}, expire?</p>
        <fieldset className="grid gap-2">
          <legend className="sr-only">The old key expires</legend>
          {ENDS.map(({ value, label, about }) => (
            <label
              key={value}
              className="flex cursor-pointer items-start gap-3 rounded-lg border border-line p-3 has-checked:border-accent has-checked:bg-page"
            >
              <input type="radio" name="ends" className="mt-1 accent-accent" checked={ends === value} onChange={() => setEnds(value)} />
              <span className="grid text-sm">
                <span className="font-medium">{label}</span>
                <span className="text-soft">{about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={roll.isPending}>
            Roll key
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

export function RevokeKey({ of, calls, onClose }: { of: Key; calls: number; onClose: () => void }) {
  const [name, setName] = useState('');
  const revoke = useAct('POST /:mode/keys/:id/revoke', { refreshes: [['keys']], done: 'Key revoked.' });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    revoke.mutate({ params: { id: of.id }, body: { name } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title={`Revoke ${of.name}?`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          This key made{' '}
          <strong className="font-medium text-ink">
            {calls === 0 ? 'no requests' : calls === 1 ? '1 request' : `${countText(calls)} requests`}
          </strong>{' '}
          in the last 24 hours. Requests that use it will fail within a second. You can’t undo this.
        </p>
        <Field
          label={`Type ${of.name} to confirm`}
          autoComplete="off"
          required
          value={name}
          onChange={(event) => setName(event.target.value)}
          fault={revoke.error instanceof ApiError && revoke.error.param === 'name' ? revoke.error.message : null}
        />
        <Foot onBack={onClose}>
          <Button type="submit" look="danger" busy={revoke.isPending} disabled={name.trim() !== of.name}>
            Revoke key
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
