/** One notification as a line that links to what it is about. */
import { Link } from '@tanstack/react-router';
import type { Reply } from '../lib/api.ts';
import { useMode } from '../lib/hooks.ts';
import { Badge, Time } from './values.tsx';

export type Notice = Reply<'GET /:mode/notices'>['data'][number];
const PLACES: Readonly<Record<Notice['kind'], string>> = {
  endpoint_off: 'webhooks',
  payment_attention: 'payments',
  payment_reversed: 'payments',
  payments_unavailable: 'wallets',
  usage: 'usage',
  wallet_changed: 'wallets',
  endpoint_changed: 'webhooks',
  key_created: 'keys',
  sign_in: 'security',
  device_trusted: 'security',
  account_changed: 'security',
  codes_failed: 'security',
  chain_failing: 'operator',
};

export function NoticeLine({ notice, onFollow }: { notice: Notice; onFollow?: () => void }) {
  const mode = useMode();
  const place = notice.payment ? `payments/${notice.payment}` : PLACES[notice.kind];
  return (
    <Link
      to={`/${notice.mode ?? mode}/${place}`}
      {...(onFollow && { onClick: onFollow })}
      className="flex items-start gap-3 px-4 py-3 text-sm text-ink hover:bg-raised"
    >
      {notice.unread ? (
        <span role="img" aria-label="New" className="mt-1.5 size-2 shrink-0 rounded-full bg-accent" />
      ) : (
        <span className="size-2 shrink-0" />
      )}
      <span className="grid min-w-0 gap-0.5">
        <span className={notice.unread ? 'font-medium' : ''}>{notice.text}</span>
        <span className="flex flex-wrap items-center gap-2 text-soft">
          <Time at={notice.at} />
          {mode === 'test' && notice.mode === 'live' && <Badge tone="info">Live</Badge>}
        </span>
      </span>
    </Link>
  );
}
