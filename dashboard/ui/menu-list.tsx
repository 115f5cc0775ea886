/** The list that opens from a menu button. In its own file because its library is larger than most screens, and few users open a menu. */
import { Menu as Base } from '@base-ui/react/menu';
import { type RefObject, useEffect, useRef } from 'react';

export type MenuEntry = { label: string; onSelect: () => void; danger?: boolean } | 'line';

export function MenuList({
  open,
  byKeys,
  onClose,
  button,
  entries,
  align,
}: {
  open: boolean;
  /** Opened with the keyboard: the first item gets the focus. */
  byKeys: boolean;
  onClose: () => void;
  button: RefObject<HTMLButtonElement | null>;
  entries: readonly MenuEntry[];
  align: 'start' | 'end';
}) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open || !byKeys) return;
    const next = requestAnimationFrame(() => list.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus());
    return () => cancelAnimationFrame(next);
  }, [open, byKeys]);
  return (
    <Base.Root open={open} onOpenChange={(now) => !now && onClose()}>
      {/* Rendered next to its button, so that people who navigate by landmarks find it. */}
      <Base.Portal container={button.current?.parentElement ?? null}>
        <Base.Positioner anchor={button} sideOffset={6} align={align} positionMethod="fixed" className="z-50">
          <Base.Popup ref={list} finalFocus={button} className="min-w-48 rounded-lg text-left border border-line bg-card p-1 shadow-lg">
            {entries.map((entry, i) =>
              entry === 'line' ? (
                // biome-ignore lint/suspicious/noArrayIndexKey: lines have no name of their own
                <Base.Separator key={i} className="my-1 border-t border-line" />
              ) : (
                <Base.Item
                  key={entry.label}
                  onClick={entry.onSelect}
                  className={`cursor-pointer rounded-md px-3 py-1.5 text-sm outline-none data-highlighted:bg-raised ${entry.danger ? 'text-bad' : ''}`}
                >
                  {entry.label}
                </Base.Item>
              ),
            )}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
