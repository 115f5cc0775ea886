/** The panel of the bell: the newest notifications. Escape, a click elsewhere or a link closes it. */
import { type RefObject, useEffect, useRef } from 'react';
import type { Reply } from '../lib/api.ts';
import { useAct } from '../lib/hooks.ts';
import { Button } from '../ui/button.tsx';
import { ModeLink } from '../ui/link.tsx';
import { NoticeList } from '../ui/notice.tsx';
import { Empty, Pending } from '../ui/states.tsx';

type Query = { data: Reply<'GET /:mode/notices'> | undefined; error: Error | null; refetch: () => unknown };

export function Notices({
  query,
  button,
  onClose,
}: {
  query: Query;
  button: RefObject<HTMLButtonElement | null>;
  /** `back`: whether the focus returns to the bell. */
  onClose: (back: boolean) => void;
}) {
  const read = useAct('POST /:mode/notices/read', { refreshes: [['notices']] });
  const panel = useRef<HTMLDivElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    panel.current?.focus();
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && close.current(true);
    const outside = (event: Event) => {
      const { target } = event;
      if (target instanceof Node && !panel.current?.contains(target) && !button.current?.contains(target)) close.current(false);
    };
    addEventListener('keydown', onKey);
    addEventListener('pointerdown', outside);
    addEventListener('focusin', outside);
    return () => {
      removeEventListener('keydown', onKey);
      removeEventListener('pointerdown', outside);
      removeEventListener('focusin', outside);
    };
  }, [button]);
  const { data } = query;
  const newest = data?.data[0];
  const follow = () => onClose(false);
  return (
    <div
      ref={panel}
      role="dialog"
      aria-label="Notifications"
      tabIndex={-1}
      className="fixed inset-x-3 top-20 z-50 max-h-[70vh] overflow-y-auto rounded-xl border border-line bg-card shadow-xl outline-none sm:absolute sm:inset-x-auto sm:top-full sm:right-0 sm:mt-1.5 sm:w-96"
    >
      <div className="flex min-h-12 items-center justify-between gap-3 border-b border-line px-4 py-2">
        <h2>Notifications</h2>
        {data && data.unread > 0 && newest && (
          <Button busy={read.isPending} onClick={() => read.mutate({ body: { through: newest.id } })}>
            Mark all as read
          </Button>
        )}
      </div>
      {!data ? (
        <Pending of={query} lines={3} />
      ) : data.data.length === 0 ? (
        <Empty title="No notifications">Payments that need a decision and changes to your account appear here.</Empty>
      ) : (
        <NoticeList notices={data.data} onFollow={follow} />
      )}
      <div className="border-t border-line px-4 py-2.5 text-sm">
        <ModeLink to="notifications" onFollow={follow}>
          All notifications and settings
        </ModeLink>
      </div>
    </div>
  );
}
