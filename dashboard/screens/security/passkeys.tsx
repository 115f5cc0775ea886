/** Passkeys: adding one with this device, renaming, removing. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Ask, Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Card, Empty } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { Row } from './row.tsx';

type Passkey = Reply<'GET /:mode/security'>['passkeys'][number];
const REFRESHES = [['security'], ['team']];

export function Passkeys({ passkeys }: { passkeys: readonly Passkey[] }) {
  const [adding, setAdding] = useState(false);
  const [renaming, setRenaming] = useState<Passkey | null>(null);
  const [removing, setRemoving] = useState<Passkey | null>(null);
  const remove = useAct('DELETE /:mode/passkeys/:id', { refreshes: REFRESHES, done: 'Passkey removed.' });
  return (
    <Card title="Passkeys" action={passkeys.length > 0 && <Button onClick={() => setAdding(true)}>Add a passkey</Button>}>
      {passkeys.length === 0 ? (
        <Empty title="No passkeys yet">
          <p className="pb-4">Sign in with your fingerprint, face or device PIN instead of a password and a code.</p>
          <Button onClick={() => setAdding(true)}>Add a passkey</Button>
        </Empty>
      ) : (
        <ul>
          {passkeys.map((passkey) => (
            <Row
              key={passkey.id}
              title={passkey.name}
              acts={
                <>
                  <Button aria-label={`Rename ${passkey.name}`} onClick={() => setRenaming(passkey)}>
                    Rename
                  </Button>
                  <Button look="danger" aria-label={`Remove ${passkey.name}`} onClick={() => setRemoving(passkey)}>
                    Remove
                  </Button>
                </>
              }
            >
              Added <Time at={passkey.created_at} />
              {passkey.backed_up ? ' · synced between devices' : ' · on one device'}
            </Row>
          ))}
        </ul>
      )}
      {adding && <Add onClose={() => setAdding(false)} />}
      {renaming && <Rename passkey={renaming} onClose={() => setRenaming(null)} />}
      <Ask
        open={removing !== null}
        onClose={() => setRemoving(null)}
        title={`Remove ${removing?.name ?? ''}?`}
        text="You won’t be able to sign in with this passkey. Delete it from your device, too."
        act="Remove"
        danger
        onAct={() => {
          if (removing) remove.mutate({ params: { id: removing.id }, body: {} });
          setRemoving(null);
        }}
      />
    </Card>
  );
}

function Add({ onClose }: { onClose: () => void }) {
  const start = useAct('POST /:mode/passkeys/options');
  const finish = useAct('POST /:mode/passkeys', { refreshes: REFRESHES, done: 'Passkey added.' });
  const [name, setName] = useState('');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    try {
      const { startRegistration } = await import('@simplewebauthn/browser');
      const { options } = await start.mutateAsync({ body: {} });
      const response = await startRegistration({ optionsJSON: options as never });
      await finish.mutateAsync({ body: { name, response: response as never } });
      onClose();
    } catch (error) {
      setFault(
        error instanceof Error && error.name === 'InvalidStateError'
          ? 'This device already has a passkey for your account.'
          : error instanceof Error && error.name === 'NotAllowedError'
            ? 'No passkey was added: the request was canceled or timed out.'
            : String((error as Error).message ?? error),
      );
    }
    setBusy(false);
  };
  return (
    <Dialog open onClose={onClose} title="Add a passkey">
      <form onSubmit={submit} className="grid gap-4">
        <Field
          label="Name"
          hint="To recognize it later, such as “Work laptop”."
          required
          maxLength={60}
          value={name}
          onChange={(e) => setName(e.target.value)}
          fault={fault}
        />
        <Button type="submit" look="main" busy={busy}>
          Continue
        </Button>
      </form>
    </Dialog>
  );
}

function Rename({ passkey, onClose }: { passkey: Passkey; onClose: () => void }) {
  const rename = useAct('POST /:mode/passkeys/:id/name', { refreshes: REFRESHES, done: 'Passkey renamed.' });
  const [name, setName] = useState(passkey.name);
  return (
    <Dialog open onClose={onClose} title="Rename passkey">
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          rename.mutate({ params: { id: passkey.id }, body: { name } }, { onSuccess: onClose });
        }}
      >
        <Field label="Name" required maxLength={60} value={name} onChange={(e) => setName(e.target.value)} fault={rename.error?.message} />
        <Button type="submit" look="main" busy={rename.isPending}>
          Save
        </Button>
      </form>
    </Dialog>
  );
}
