/** One notice as a line that leads to what it is about. */
import { Link } from '@tanstack/react-router';
import type { Reply } from '../lib/api.ts';
import { useMode } from '../lib/hooks.ts';
import { Badge, Time } from './values.tsx';

export type Notice = Reply<'GET /:mode/notices'>['data'][number];
const PLACES: Readonly<Record<Notice['kind'], string>> = {
  endpoint_off: 'webhooks',
  payment_attention: 'payments',
  usage: 'usage',
  wallet_changed: 'wallets',
  sign_in: 'security',
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
      <span className={`mt-1.5 size-2 shrink-0 rounded-full ${notice.unread ? 'bg-accent' : ''}`} />
      <span className="grid min-w-0 gap-0.5">
        <span className={notice.unread ? 'font-medium' : ''}>
          {notice.text}
          {notice.unread && <span className="sr-only"> (new)</span>}
        </span>
        <span className="flex flex-wrap items-center gap-2 text-soft">
          <Time at={notice.at} />
          {notice.mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      </span>
    </Link>
  );
}
