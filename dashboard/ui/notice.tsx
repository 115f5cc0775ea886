/** One notification as a line that links to what it is about. */
import { Link } from '@tanstack/react-router';
import type { Reply } from '../lib/api.ts';
import { useMode } from '../lib/hooks.ts';
import { Badge, Time } from './values.tsx';

export type Notice = Reply<'GET /:mode/notices'>['data'][number];

export function NoticeLine({ notice, onFollow }: { notice: Notice; onFollow?: () => void }) {
  const mode = useMode();
  return (
    <Link
      to={`/${notice.mode ?? mode}/${notice.screen}`}
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
          {notice.mode === 'test' && <Badge tone="warn">TEST</Badge>}
          {mode === 'test' && notice.mode === 'live' && <Badge tone="info">Live</Badge>}
        </span>
      </span>
    </Link>
  );
}
