/** The bell: how many notices are new, and the newest of them. */
import { Popover } from '@base-ui/react/popover';
import { useState } from 'react';
import { useAct, useApi } from '../lib/hooks.ts';
import { Button } from '../ui/button.tsx';
import { Icon } from '../ui/icon.tsx';
import { ModeLink } from '../ui/link.tsx';
import { NoticeLine } from '../ui/notice.tsx';
import { Empty, ErrorCard, Skeleton } from '../ui/states.tsx';

export function Bell() {
  const notices = useApi('GET /:mode/notices', ['notices', 'bell'], { query: { limit: '8' } });
  const read = useAct('POST /:mode/notices/read', { refreshes: [['notices']] });
  const [open, setOpen] = useState(false);
  const [place, setPlace] = useState<HTMLDivElement | null>(null);
  const unread = notices.data?.unread ?? 0;
  const newest = notices.data?.data[0];
  return (
    <div ref={setPlace}>
      <Popover.Root open={open} onOpenChange={setOpen}>
        <Popover.Trigger className="relative rounded-lg p-2 hover:bg-raised" aria-label={unread > 0 ? `Notices, ${unread} new` : 'Notices'}>
          <Icon name="bell" />
          {unread > 0 && (
            <span className="absolute -top-0.5 -right-0.5 min-w-4.5 rounded-full bg-accent px-1 text-center text-xs font-semibold text-accent-ink">
              {unread > 98 ? '99+' : unread}
            </span>
          )}
        </Popover.Trigger>
        <Popover.Portal container={place}>
          <Popover.Positioner sideOffset={6} align="end" positionMethod="fixed" className="z-50">
            <Popover.Popup className="max-h-[70vh] w-[min(24rem,calc(100vw-1.5rem))] overflow-y-auto rounded-xl border border-line bg-card shadow-xl">
              <div className="flex min-h-12 items-center justify-between gap-3 border-b border-line px-4 py-2">
                <Popover.Title className="font-semibold">Notices</Popover.Title>
                {unread > 0 && newest && (
                  <Button busy={read.isPending} onClick={() => read.mutate({ body: { through: newest.id } })}>
                    Mark all as read
                  </Button>
                )}
              </div>
              {notices.error && !notices.data ? (
                <ErrorCard error={notices.error} onRetry={() => void notices.refetch()} />
              ) : !notices.data ? (
                <Skeleton lines={3} />
              ) : notices.data.data.length === 0 ? (
                <Empty title="Nothing to tell">What needs you appears here.</Empty>
              ) : (
                <ul>
                  {notices.data.data.map((notice) => (
                    <li key={notice.id} className="border-b border-line">
                      <NoticeLine notice={notice} onFollow={() => setOpen(false)} />
                    </li>
                  ))}
                </ul>
              )}
              <div className="border-t border-line px-4 py-2.5 text-sm" onClickCapture={() => setOpen(false)}>
                <ModeLink to="notifications">All notices and settings</ModeLink>
              </div>
            </Popover.Popup>
          </Popover.Positioner>
        </Popover.Portal>
      </Popover.Root>
    </div>
  );
}
