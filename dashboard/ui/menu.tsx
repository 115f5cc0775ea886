/** A button that opens a menu of actions. */
import { type KeyboardEvent, lazy, type ReactNode, Suspense, useRef, useState } from 'react';
import type { MenuEntry } from './menu-list.tsx';

const load = () => import('./menu-list.tsx').then((module) => ({ default: module.MenuList }));
const MenuList = lazy(load);

/**
 * `children` is the content and the name of the button. With `label` instead, the button shows three dots: drawn, because a list may have a
 * thousand of them.
 */
export function Menu({
  children,
  label,
  entries,
  className = '',
  align = 'end',
}: {
  children?: ReactNode;
  label?: string;
  entries: readonly MenuEntry[];
  className?: string;
  /** The edge of the button that the list aligns to. */
  align?: 'start' | 'end';
}) {
  const button = useRef<HTMLButtonElement>(null);
  const [open, setOpen] = useState<'keys' | 'pointer' | null>(null);
  // Stays mounted after the first opening, to return the focus when it closes.
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
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open !== null}
        className={`rounded-lg hover:bg-raised ${label === undefined ? '' : 'dots size-8'} ${className}`}
        onPointerEnter={load}
        onFocus={load}
        // A click by keyboard has a detail of 0.
        onClick={(event) => show(event.detail === 0 ? 'keys' : 'pointer')}
        onKeyDown={onKeyDown}
      >
        {/* An invisible character puts the dots on the line of the text beside them. */}
        {children ?? '\u200b'}
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
