/** A button that opens a list of acts. */
import { type KeyboardEvent, lazy, type ReactNode, Suspense, useRef, useState } from 'react';

export type MenuEntry = { label: string; onSelect: () => void; danger?: boolean } | 'line';

const load = () => import('./menu-list.tsx').then((module) => ({ default: module.MenuList }));
const MenuList = lazy(load);

/** `children` is what the button shows, and its name. */
export function Menu({
  children,
  entries,
  className = '',
  align = 'end',
}: {
  children: ReactNode;
  entries: readonly MenuEntry[];
  className?: string;
  /** The edge of the button that the list keeps to. */
  align?: 'start' | 'end';
}) {
  const button = useRef<HTMLButtonElement>(null);
  const [open, setOpen] = useState<'keys' | 'pointer' | null>(null);
  // Once asked for it stays, closed: it gives the focus back.
  const [asked, setAsked] = useState(false);
  const show = (by: 'keys' | 'pointer') => {
    setAsked(true);
    setOpen(by);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (open || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return;
    event.preventDefault();
    show('keys');
  };
  return (
    <div className="min-w-0">
      <button
        ref={button}
        type="button"
        aria-haspopup="menu"
        aria-expanded={open !== null}
        className={`rounded-lg hover:bg-raised ${className}`}
        onPointerEnter={load}
        onFocus={load}
        // A click by a key has no count.
        onClick={(event) => show(event.detail === 0 ? 'keys' : 'pointer')}
        onKeyDown={onKeyDown}
      >
        {children}
      </button>
      {asked && (
        <Suspense>
          <MenuList
            open={open !== null}
            byKeys={open === 'keys'}
            onClose={() => setOpen(null)}
            button={button}
            entries={entries}
            align={align}
          />
        </Suspense>
      )}
    </div>
  );
}
