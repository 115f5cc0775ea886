/** The API keys of a mode: secret, public, and revoked or expired ones. */
import { lazy, Suspense, useState } from 'react';
import { useFilters, useList, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/field.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, ErrorCard, Skeleton } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Badge, Time } from '../../ui/values.tsx';
import { type Key, KeyState, permissionWords, QuickStart, type ShownKey } from './shared.tsx';

const CreateKey = lazy(() => import('./dialogs.tsx').then((module) => ({ default: module.CreateKey })));
const ShowKey = lazy(() => import('./dialogs.tsx').then((module) => ({ default: module.ShowKey })));

const NONE = {
  secret: { active: 'No secret keys.', ended: 'No revoked or expired secret keys.' },
  public: { active: 'No public keys.', ended: 'No revoked or expired public keys.' },
} as const;
const ABOUT = {
  secret: 'For your server. Anyone who has one can act on your behalf.',
  public: 'For web pages and apps. They can only create payments.',
} as const;

export function Screen() {
  useTitle('API keys');
  const mode = useMode();
  const mayManage = useMay('keys.manage');
  const { filters, set } = useFilters(['state']);
  const ended = filters.state === 'ended';
  const state = ended ? 'ended' : 'active';
  const secret = useList('GET /:mode/keys', ['keys', 'list'], { kind: 'secret', state });
  const open = useList('GET /:mode/keys', ['keys', 'list'], { kind: 'public', state });
  const [creating, setCreating] = useState(false);
  const [shown, setShown] = useState<ShownKey | null>(null);
  const loaded = !secret.isPending && !open.isPending;
  const none = loaded && secret.rows.length === 0 && open.rows.length === 0;
  const error = secret.error ?? open.error;
  const unused = loaded && !ended && [...secret.rows, ...open.rows].every((key) => key.last_used_at === null);
  const create = mayManage && (
    <Button look="main" onClick={() => setCreating(true)}>
      Create key
    </Button>
  );
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h1>API keys</h1>
        <div className="flex flex-wrap gap-2">
          <Select
            label="Filter keys"
            value={filters.state}
            onChange={(event) => set({ state: event.target.value })}
            options={[
              { value: '', label: 'Active' },
              { value: 'ended', label: 'Revoked and expired' },
            ]}
          />
          {!none && create}
        </div>
      </div>
      {error && secret.rows.length === 0 && open.rows.length === 0 ? (
        <Card>
          <ErrorCard
            error={error}
            onRetry={() => {
              void secret.refetch();
              void open.refetch();
            }}
          />
        </Card>
      ) : none && ended ? (
        <Card>
          <Empty title="No revoked or expired keys">
            <Button onClick={() => set({ state: '' })}>Show active keys</Button>
          </Empty>
        </Card>
      ) : none ? (
        <Card>
          <Empty title={`No ${mode} keys yet`}>
            <div className="grid justify-items-center gap-4">
              <p>Your server uses an API key to create and read payments.</p>
              {create}
            </div>
          </Empty>
        </Card>
      ) : (
        (['secret', 'public'] as const).map((kind) => {
          const list = kind === 'secret' ? secret : open;
          return (
            <Card key={kind} title={kind === 'secret' ? 'Secret keys' : 'Public keys'}>
              {list.isPending ? (
                <Skeleton lines={4} />
              ) : list.rows.length === 0 ? (
                <p className="px-4 py-6 text-sm text-soft">
                  {NONE[kind][ended ? 'ended' : 'active']} {ABOUT[kind]}
                </p>
              ) : (
                <Table
                  label={kind === 'secret' ? 'Secret keys' : 'Public keys'}
                  columns={columnsOf(kind, ended)}
                  rows={list.rows}
                  hasMore={list.hasNextPage}
                  onMore={() => void list.fetchNextPage()}
                  busy={list.isFetchingNextPage}
                />
              )}
            </Card>
          );
        })
      )}
      {unused && (
        <Card title="Quick start">
          <QuickStart />
        </Card>
      )}
      <Suspense>
        {creating && (
          <CreateKey
            onClose={() => setCreating(false)}
            onMade={(made) => {
              setCreating(false);
              setShown(made);
            }}
          />
        )}
        {shown && <ShowKey shown={shown} onClose={() => setShown(null)} />}
      </Suspense>
    </div>
  );
}

const columnsOf = (kind: Key['kind'], ended: boolean): Column<Key>[] => [
  {
    name: 'Name',
    phone: 'title',
    cell: (key) => (
      <span className="grid gap-0.5">
        <span className="flex flex-wrap items-center gap-1.5">
          <ModeLink to={`keys/${key.id}`}>
            <span className="break-words">{key.name}</span>
          </ModeLink>
          {(ended || key.replaced_by !== null) && <KeyState of={key} />}
          {key.allowed_ips.length > 0 && (
            <Badge tone="calm">{key.allowed_ips.length === 1 ? '1 IP address' : `${key.allowed_ips.length} IP addresses`}</Badge>
          )}
        </span>
        {kind === 'secret' && <span className="text-xs text-soft">{permissionWords(key)}</span>}
      </span>
    ),
  },
  { name: 'Key', phone: 'corner', cell: (key) => <code className="text-xs whitespace-nowrap">{key.hint}</code> },
  ...(kind === 'public'
    ? [
        {
          name: 'Origins',
          cell: (key: Key) =>
            key.origins.length === 0 ? (
              <span className="text-soft">From checkout settings</span>
            ) : (
              <span className="break-all">{key.origins.join(', ')}</span>
            ),
        },
      ]
    : []),
  {
    name: 'Created',
    cell: (key) => (
      <span className="grid max-sm:justify-items-end">
        <Time at={key.created_at} />
        <span className="text-xs text-soft">by {key.created_by ?? 'the operator'}</span>
      </span>
    ),
  },
  {
    name: 'Last used',
    cell: (key) =>
      key.last_used_at === null ? (
        <span className="text-soft">Never</span>
      ) : (
        <span className="grid max-sm:justify-items-end">
          <Time at={key.last_used_at} />
          <span className="text-xs text-soft">from {key.last_used_ip}</span>
          <span className="text-xs break-all text-soft">{key.last_used_path}</span>
        </span>
      ),
  },
  {
    name: ended ? 'Ended' : 'Expires',
    cell: (key) => {
      const at = ended ? (key.revoked_at ?? key.expires_at) : key.expires_at;
      return at === null ? <span className="text-soft">Never</span> : <Time at={at} />;
    },
  },
];
