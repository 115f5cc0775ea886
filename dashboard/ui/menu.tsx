/** A button that opens a list of acts. */
import { Menu as Base } from '@base-ui/react/menu';
import { type ReactNode, useState } from 'react';

export type MenuEntry = { label: string; onSelect: () => void; danger?: boolean } | 'line';

/** `children` is what the button shows, and its name. */
export function Menu({ children, entries, className = '' }: { children: ReactNode; entries: readonly MenuEntry[]; className?: string }) {
  // The list stays in the part of the page that its button is in: whoever jumps from landmark to landmark finds it.
  const [place, setPlace] = useState<HTMLDivElement | null>(null);
  return (
    <div ref={setPlace}>
      <Base.Root>
        <Base.Trigger className={`rounded-lg hover:bg-raised ${className}`}>{children}</Base.Trigger>
        <Base.Portal container={place}>
          <Base.Positioner sideOffset={6} align="end" positionMethod="fixed" className="z-50">
            <Base.Popup className="min-w-48 rounded-lg border border-line bg-card p-1 shadow-lg">
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
    </div>
  );
}
