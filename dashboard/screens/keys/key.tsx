/** One key: who created it, how it is used, rolling and revoking it. */

import { Link, useParams } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { countText } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Facts } from '../../ui/states.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { TestLabel, Time } from '../../ui/values.tsx';
import { type Key, KeyState, permissionWords, type ShownKey } from './shared.tsx';

const RollKey = lazy(() => import('./dialogs.tsx').then((module) => ({ default: module.RollKey })));
const RevokeKey = lazy(() => import('./dialogs.tsx').then((module) => ({ default: module.RevokeKey })));
const ShowKey = lazy(() => import('./dialogs.tsx').then((module) => ({ default: module.ShowKey })));

const LIST = ['keys', 'API keys'] as const;

/** Which websites a public key works on, and where that is set. */
function Pages({ own, shared }: { own: readonly string[]; shared: readonly string[] }) {
  if (own.length > 0) return own.join(', ');
  return (
    <span className="grid gap-1">
      <span className="break-words">{shared.join(', ') || 'Every website'}</span>
      <span className="text-soft">
        {shared.length > 0 ? 'From your ' : 'To limit it, list the origins of your website in the '}
        <ModeLink to="checkout">checkout settings</ModeLink>.
      </span>
    </span>
  );
}

function Permissions({ of }: { of: Key }) {
  return (
    <span className="grid gap-1">
      <span>{permissionWords(of)}</span>
      {of.permissions === null && (
        <span className="text-soft">
          This key was created before permissions existed. {of.read_only ? 'It can read everything.' : 'It can do everything.'}
        </span>
      )}
    </span>
  );
}

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('API key');
  const mode = useMode();
  const mayManage = useMay('keys.manage');
  const [asked, setAsked] = useState<'roll' | 'revoke' | null>(null);
  const [shown, setShown] = useState<ShownKey | null>(null);
  const query = useApi('GET /:mode/keys/:id', ['keys', id], { params: { id } });
  const { data } = query;
  if (!data) return <PendingPage of={query} title="API key" back={LIST} />;
  const { key, calls, failed, shared_origins: shared } = data;
  const rows: (readonly [string, ReactNode])[] = [
    ['Key', <code key="hint">{key.hint}</code>],
    ['Type', key.kind === 'secret' ? 'Secret' : 'Public'],
    ['Created', <Time key="created" at={key.created_at} />],
    ['Created by', key.created_by ?? 'The operator'],
    ['Expires', key.expires_at === null ? 'Never' : <Time key="expires" at={key.expires_at} />],
  ];
  if (key.kind === 'secret')
    rows.splice(
      2,
      0,
      ['Permissions', <Permissions key="permissions" of={key} />],
      ['Allowed IP addresses', key.allowed_ips.join(', ') || 'Any'],
    );
  else rows.splice(2, 0, ['Works on pages of', <Pages key="pages" own={key.origins} shared={shared} />]);
  if (key.revoked_at) rows.push(['Revoked', <Time key="revoked" at={key.revoked_at} />]);
  if (key.replaced_by) {
    rows.push([
      'Replaced by',
      <ModeLink key="new" to={`keys/${key.replaced_by}`}>
        New key
      </ModeLink>,
    ]);
  }
  return (
    <div className="grid gap-6">
      <Back to={LIST} />
      <div className="flex flex-wrap items-start justify-between gap-4">
        <div className="grid gap-2">
          <h1 className="break-words">{key.name}</h1>
          <p className="flex flex-wrap items-center gap-2">
            <KeyState of={key} />
            <TestLabel />
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
          title="Usage"
          action={
            <Link to={`/${mode}/requests`} search={{ key_id: key.id } as never} className="text-sm font-medium hover:underline">
              View requests
            </Link>
          }
        >
          <Facts
            rows={[
              [
                'Requests in the last 24 hours',
                <span key="calls" className="tabular-nums">
                  {countText(calls)}
                </span>,
              ],
              [
                'Failed requests',
                <span key="failed" className="tabular-nums">
                  {countText(failed)}
                </span>,
              ],
              ['Last used', key.last_used_at === null ? 'Never' : <Time key="used" at={key.last_used_at} />],
              ['Last IP address', key.last_used_ip ?? '–'],
              [
                'Last request',
                <code key="path" className="text-xs break-all">
                  {key.last_used_path ?? '–'}
                </code>,
              ],
            ]}
          />
        </Card>
      </div>
      <Suspense>
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
      </Suspense>
    </div>
  );
}
