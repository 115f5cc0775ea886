/** Settings of an endpoint: URL and events, signing secret, pausing and deleting. */
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useAct, useMay, useMode } from '../../lib/hooks.ts';
import { endReading } from '../../lib/read-anew.ts';
import { Button } from '../../ui/button.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice } from '../../ui/form.tsx';
import { Card, Facts } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { EndpointForm } from './form.tsx';
import { Frame } from './frame.tsx';
import { Dialog } from './later.tsx';
import { SecretBox } from './secret.tsx';
import { type Endpoint, eventsText, hostOf, SavedNotes } from './words.tsx';

export const Screen = () => (
  <Frame tab="/settings">
    {(endpoint) => (
      <div className="grid max-w-2xl gap-5">
        <What endpoint={endpoint} />
        <Secret endpoint={endpoint} />
        <Ending endpoint={endpoint} />
      </div>
    )}
  </Frame>
);

function What({ endpoint }: { endpoint: Endpoint }) {
  const mayManage = useMay('webhooks.manage');
  const update = useAct('POST /:mode/webhooks/:id', { refreshes: [['webhooks']], done: 'Saved.' });
  const params = { id: endpoint.id };
  if (!mayManage)
    return (
      <Card title="Endpoint details">
        <Facts
          rows={[
            ['URL', endpoint.url],
            ['Events', eventsText(endpoint.events)],
            ['Description', endpoint.description ?? '–'],
          ]}
        />
        <p className="border-t border-line px-4 py-3 text-sm text-soft">Only owners, admins and developers can see the whole URL.</p>
      </Card>
    );
  return (
    <Card title="Endpoint details">
      <div className="p-4">
        <EndpointForm initial={endpoint} error={update.error} onSubmit={(body) => update.mutate({ params, body })}>
          {update.data && <SavedNotes connection={update.data.endpoint.connection} same_url={update.data.endpoint.same_url} />}
          <div>
            <Button type="submit" look="main" busy={update.isPending}>
              Save
            </Button>
          </div>
        </EndpointForm>
      </div>
    </Card>
  );
}

const OVERLAPS = [
  { value: '0', label: 'Now' },
  { value: '3600', label: 'In 1 hour' },
  { value: '86400', label: 'In 1 day' },
  { value: '259200', label: 'In 3 days' },
  { value: '604800', label: 'In 7 days' },
];

function Secret({ endpoint }: { endpoint: Endpoint }) {
  const maySee = useMay('webhooks.secrets');
  const [shown, setShown] = useState<string | null>(null);
  const [rolling, setRolling] = useState(false);
  const [overlap, setOverlap] = useState('86400');
  const params = { id: endpoint.id };
  const reveal = useAct('POST /:mode/webhooks/:id/secret');
  const roll = useAct('POST /:mode/webhooks/:id/rotate', { refreshes: [['webhooks']], done: 'Secret rolled.' });
  return (
    <Card title="Signing secret">
      <div className="grid gap-4 p-4">
        <p className="text-sm text-soft">
          Your server uses this secret to verify that events come from Florin. Keep it safe, like a password.
        </p>
        {endpoint.previous_secret_expires_at && (
          <p className="rounded-lg bg-info-wash px-3 py-2 text-sm text-info">
            Events are also signed with the previous secret until <Time at={endpoint.previous_secret_expires_at} />.
          </p>
        )}
        {shown !== null && <SecretBox secret={shown} />}
        {maySee ? (
          <div className="flex flex-wrap gap-2">
            {shown === null ? (
              <Button
                busy={reveal.isPending}
                onClick={() => reveal.mutate({ params, body: {} }, { onSuccess: ({ endpoint: { secret } }) => setShown(secret) })}
              >
                Reveal secret
              </Button>
            ) : (
              <Button onClick={() => setShown(null)}>Hide secret</Button>
            )}
            <Button onClick={() => setRolling(true)}>Roll secret</Button>
          </div>
        ) : (
          <p className="text-sm text-soft">Only owners, admins and developers can see the secret.</p>
        )}
      </div>
      <Dialog open={rolling} onClose={() => setRolling(false)} title="Roll signing secret">
        <p className="text-soft">
          You get a new secret immediately. Until the old one expires, X-Service-Signature uses the old secret and webhook-signature
          contains both. Update your server before then.
        </p>
        <Choice label="Old secret expires" options={OVERLAPS} value={overlap} onChange={(event) => setOverlap(event.target.value)} />
        <div className="flex justify-end gap-2">
          <Button onClick={() => setRolling(false)}>Cancel</Button>
          <Button
            look="danger"
            busy={roll.isPending}
            onClick={() =>
              roll.mutate(
                { params, body: { expires_in: Number(overlap) } },
                { onSuccess: ({ endpoint: { secret } }) => setShown(secret), onSettled: () => setRolling(false) },
              )
            }
          >
            Roll secret
          </Button>
        </div>
      </Dialog>
    </Card>
  );
}

function Ending({ endpoint }: { endpoint: Endpoint }) {
  const mayManage = useMay('webhooks.manage');
  const mode = useMode();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [deleting, setDeleting] = useState(false);
  const [typed, setTyped] = useState('');
  const params = { id: endpoint.id };
  const pause = useAct('POST /:mode/webhooks/:id', {
    refreshes: [['webhooks']],
    done: endpoint.enabled ? 'Endpoint paused.' : 'Endpoint resumed.',
  });
  const remove = useAct('DELETE /:mode/webhooks/:id', { refreshes: [['webhooks', 'list']], done: 'Endpoint deleted.' });
  if (!mayManage) return null;
  const host = hostOf(endpoint.url);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const goOn = endReading(client, [mode, 'webhooks', endpoint.id]);
    remove.mutate({ params } as never, {
      onSuccess: () => void navigate({ to: `/${mode}/webhooks` }),
      onError: () => {
        goOn();
        setDeleting(false);
      },
    });
  };
  return (
    <Card title="Pause or delete">
      <div className="grid gap-4 p-4">
        <p className="text-sm text-soft">
          While paused, no events are queued for this endpoint. Deleting it cancels pending deliveries and can’t be undone.
        </p>
        <div className="flex flex-wrap gap-2">
          <Button busy={pause.isPending} onClick={() => pause.mutate({ params, body: { enabled: !endpoint.enabled } })}>
            {endpoint.enabled ? 'Pause' : 'Resume'}
          </Button>
          <Button look="danger" onClick={() => setDeleting(true)}>
            Delete endpoint
          </Button>
        </div>
      </div>
      <Dialog open={deleting} onClose={() => setDeleting(false)} title="Delete this endpoint?">
        <form onSubmit={submit} className="grid gap-4">
          <p className="text-soft">
            No more events will be sent to <code className="break-all text-ink">{endpoint.url}</code>.
          </p>
          <Field
            label={`Type ${host} to confirm`}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
          <div className="flex justify-end gap-2">
            <Button onClick={() => setDeleting(false)}>Cancel</Button>
            <Button type="submit" look="danger" busy={remove.isPending} disabled={typed.trim() !== host}>
              Delete
            </Button>
          </div>
        </form>
      </Dialog>
    </Card>
  );
}
