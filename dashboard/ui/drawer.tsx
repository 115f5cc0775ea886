/** A modal panel at the side for one row of a list; focus goes in, stays in and comes back. */
import { Dialog as Base } from '@base-ui/react/dialog';
import type { ReactNode } from 'react';
import { Icon } from './icon.tsx';

export const Drawer = ({ open, onClose, title, children }: { open: boolean; onClose: () => void; title: string; children: ReactNode }) => (
  <Base.Root open={open} onOpenChange={(now) => !now && onClose()}>
    <Base.Portal>
      <Base.Backdrop className="fixed inset-0 z-40 bg-black/50" />
      <Base.Popup className="fixed inset-y-0 right-0 z-50 grid w-full max-w-xl content-start gap-5 overflow-y-auto border-l border-line bg-card p-4 shadow-xl sm:p-6">
        <div className="flex items-start justify-between gap-4">
          <Base.Title className="text-lg font-semibold break-all">{title}</Base.Title>
          <Base.Close className="-m-1 rounded p-1 text-soft hover:text-ink" aria-label="Close">
            <Icon name="close" />
          </Base.Close>
        </div>
        {children}
      </Base.Popup>
    </Base.Portal>
  </Base.Root>
);
