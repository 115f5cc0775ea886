/** Notifications as lines that link to what they are about. */
import { Link } from '@tanstack/react-router';
import type { Reply } from '../lib/api.ts';
import { useMode } from '../lib/hooks.ts';
import { Badge, Time } from './values.tsx';

export type Notice = Reply<'GET /:mode/notices'>['data'][number];

/** The newest first. Of several in a row that say the same of other payments or payouts, the newest is shown, and the others on demand. */
export function NoticeList({ notices, onFollow }: { notices: readonly Notice[]; onFollow?: () => void }) {
  const runs: [Notice, ...Notice[]][] = [];
  for (const notice of notices) {
    const run = runs.at(-1);
    if (
      run &&
      (notice.payment !== null || notice.kind === 'money_out_waiting') &&
      run[0].kind === notice.kind &&
      run[0].mode === notice.mode
    )
      run.push(notice);
    else runs.push([notice]);
  }
  const line = (notice: Notice) => <NoticeLine key={notice.id} notice={notice} {...(onFollow && { onFollow })} />;
  return (
    <ul>
      {runs.map(([first, ...others]) => (
        <li key={first.id} className="border-b border-line last:border-b-0">
          {line(first)}
          {others.length === 1 && line(others[0]!)}
          {others.length > 1 && (
            <details>
              <summary className="cursor-pointer px-4 pb-3 text-sm text-soft">{others.length} more like this</summary>
              {others.map(line)}
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}

function NoticeLine({ notice, onFollow }: { notice: Notice; onFollow?: () => void }) {
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
