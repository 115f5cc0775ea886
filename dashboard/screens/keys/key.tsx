/** One key: who made it, what it was used for, rolling and revoking it. */
import { Link, useParams } from '@tanstack/react-router';
import { type FormEvent, type ReactNode, useState } from 'react';
import { ApiError } from '../../lib/api.ts';
import { useAct, useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, ErrorCard, Facts, Skeleton } from '../../ui/states.tsx';
import { Badge, Time } from '../../ui/values.tsx';
import { type Key, KeyState, ShowKey, type Shown } from './shared.tsx';

const ENDS = [
  { value: 'now', label: 'Now', about: 'If it may have been seen by somebody. Whatever still uses it fails at once.' },
  { value: 'hour', label: 'In an hour', about: 'Time to put the new key into place.' },
  { value: 'day', label: 'In 24 hours', about: 'Time for several servers.' },
  { value: 'week', label: 'In 7 days', about: 'Time for programs that others run.' },
] as const;
type Ends = (typeof ENDS)[number]['value'];
const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ',');

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('API key');
  const mode = useMode();
  const mayManage = useMay('keys.manage');
  const [asked, setAsked] = useState<'roll' | 'revoke' | null>(null);
  const [shown, setShown] = useState<Shown | null>(null);
  const { data, error, isPending, refetch } = useApi('GET /:mode/keys/:id', ['keys', id], { params: { id } });
  if (isPending) return <Skeleton lines={10} />;
  if (error && !data) return <ErrorCard error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  const { key, calls, failed } = data;
  const rows: (readonly [string, ReactNode])[] = [
    ['Key', <code key="hint">{key.hint}</code>],
    ['Type', key.kind === 'secret' ? 'Secret' : 'Public'],
    ['Created', <Time key="created" at={key.created_at} />],
    ['Created by', key.created_by ?? 'The operator'],
    ['Expires', key.expires_at === null ? 'Never' : <Time key="expires" at={key.expires_at} />],
  ];
  if (key.kind === 'public') rows.splice(2, 0, ['Allowed origins', key.origins.join(', ') || 'Those of the payment page']);
  if (key.revoked_at) rows.push(['Revoked', <Time key="revoked" at={key.revoked_at} />]);
  if (key.replaced_by) {
    rows.push([
      'Replaced by',
      <ModeLink key="new" to={`keys/${key.replaced_by}`}>
        The new key
      </ModeLink>,
    ]);
  }
  return (
    <div className="grid gap-6">
      <p className="text-sm">
        <ModeLink to="keys">API keys</ModeLink>
      </p>
      <div className="flex flex-wrap items-start justify-between gap-4">
        <div className="grid gap-2">
          <h1 className="break-words">{key.name}</h1>
          <p className="flex flex-wrap items-center gap-2">
            <KeyState of={key} />
            {mode === 'test' && <Badge tone="warn">TEST</Badge>}
          </p>
        </div>
        {mayManage && key.is_active && (
          <div className="flex flex-wrap gap-2">
            {key.replaced_by === null && <Button onClick={() => setAsked('roll')}>Roll key</Button>}
            <Button look="danger" onClick={() => setAsked('revoke')}>
              Revoke key
            </Button>
          </div>
        )}
      </div>
      <div className="grid items-start gap-6 lg:grid-cols-2">
        <Card title="Details">
          <Facts rows={rows} />
        </Card>
        <Card
          title="Use"
          action={
            <Link to={`/${mode}/requests`} search={{ key_id: key.id } as never} className="text-sm font-medium hover:underline">
              Its requests
            </Link>
          }
        >
          <Facts
            rows={[
              [
                'Requests in the last 24 hours',
                <span key="calls" className="tabular-nums">
                  {grouped(calls)}
                </span>,
              ],
              [
                'Of these refused or failed',
                <span key="failed" className="tabular-nums">
                  {grouped(failed)}
                </span>,
              ],
              ['Last used', key.last_used_at === null ? 'Never' : <Time key="used" at={key.last_used_at} />],
              ['From address', key.last_used_ip ?? '–'],
              [
                'Request',
                <code key="path" className="text-xs break-all">
                  {key.last_used_path ?? '–'}
                </code>,
              ],
            ]}
          />
        </Card>
      </div>
      {asked === 'roll' && (
        <RollKey
          of={key}
          onClose={() => setAsked(null)}
          onMade={(made) => {
            setAsked(null);
            setShown(made);
          }}
        />
      )}
      {asked === 'revoke' && <RevokeKey of={key} calls={calls} onClose={() => setAsked(null)} />}
      {shown && <ShowKey shown={shown} onClose={() => setShown(null)} />}
    </div>
  );
}

function RollKey({ of, onClose, onMade }: { of: Key; onClose: () => void; onMade: (shown: Shown) => void }) {
  const [ends, setEnds] = useState<Ends>('day');
  const roll = useAct('POST /:mode/keys/:id/roll', { refreshes: [['keys']] });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    roll.mutate({ params: { id: of.id }, body: { ends } }, { onSuccess: onMade });
  };
  return (
    <Dialog open onClose={onClose} title={`Roll ${of.name}`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">You get a new key at once. When should the old one, {of.hint}, end?</p>
        <fieldset className="grid gap-2">
          <legend className="sr-only">The old key ends</legend>
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
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" look="main" busy={roll.isPending}>
            Roll key
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function RevokeKey({ of, calls, onClose }: { of: Key; calls: number; onClose: () => void }) {
  const [name, setName] = useState('');
  const revoke = useAct('POST /:mode/keys/:id/revoke', { refreshes: [['keys']], done: 'The key is revoked.' });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    revoke.mutate({ params: { id: of.id }, body: { name } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title={`Revoke ${of.name}?`}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          It made{' '}
          <strong className="font-medium text-ink">
            {calls === 0 ? 'no requests' : calls === 1 ? '1 request' : `${grouped(calls)} requests`}
          </strong>{' '}
          in the last 24 hours. Within a second every request with it is refused. This cannot be taken back.
        </p>
        <Field
          label={`Type ${of.name} to go on`}
          autoComplete="off"
          required
          value={name}
          onChange={(event) => setName(event.target.value)}
          fault={revoke.error instanceof ApiError && revoke.error.param === 'name' ? revoke.error.message : null}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" look="danger" busy={revoke.isPending} disabled={name.trim() !== of.name}>
            Revoke key
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
