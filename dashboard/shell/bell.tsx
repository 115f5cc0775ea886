/** The bell: how many notifications are new. The panel is loaded when it is opened. */
import { lazy, Suspense, useRef, useState } from 'react';
import { useApi } from '../lib/hooks.ts';
import { Icon } from '../ui/icon.tsx';

const Notices = lazy(() => import('./notices.tsx').then((module) => ({ default: module.Notices })));

export function Bell() {
  const notices = useApi('GET /:mode/notices', ['notices', 'bell'], { query: { limit: '8' } });
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const unread = notices.data?.unread ?? 0;
  return (
    <div className="relative">
      <button
        ref={button}
        type="button"
        className="relative rounded-lg p-2 hover:bg-raised"
        aria-label={unread > 0 ? `Notifications, ${unread} new` : 'Notifications'}
        aria-expanded={open}
        aria-haspopup="dialog"
        onClick={() => setOpen(!open)}
      >
        <Icon name="bell" />
        {unread > 0 && (
          <span className="absolute -top-0.5 -right-0.5 min-w-4.5 rounded-full bg-accent px-1 text-center text-xs font-semibold text-accent-ink">
            {unread > 98 ? '99+' : unread}
          </span>
        )}
      </button>
      {open && (
        <Suspense>
          <Notices
            query={notices}
            button={button}
            onClose={(back) => {
              setOpen(false);
              if (back) button.current?.focus();
            }}
          />
        </Suspense>
      )}
    </div>
  );
}
