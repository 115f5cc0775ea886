/** A modal dialog with a title; focus goes in, stays in and comes back. And a question before an act. */
import { Dialog as Base } from '@base-ui/react/dialog';
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';

export function Dialog({ open, onClose, title, children }: { open: boolean; onClose: () => void; title: string; children: ReactNode }) {
  return (
    <Base.Root open={open} onOpenChange={(now) => !now && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-black/50" />
        <Base.Popup className="fixed top-1/2 left-1/2 z-50 grid max-h-[90vh] w-[calc(100%-2rem)] max-w-md -translate-x-1/2 -translate-y-1/2 gap-4 overflow-y-auto rounded-xl border border-line bg-card p-6 shadow-xl">
          <div className="flex items-start justify-between gap-4">
            <Base.Title className="text-lg font-semibold">{title}</Base.Title>
            <Base.Close className="-m-1 rounded p-1 text-soft hover:text-ink" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** Says what will happen, then does it. */
export const Ask = ({
  open,
  onClose,
  title,
  text,
  act,
  onAct,
  busy = false,
  danger = false,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  text: ReactNode;
  act: string;
  onAct: () => void;
  busy?: boolean;
  danger?: boolean;
}) => (
  <Dialog open={open} onClose={onClose} title={title}>
    <div className="text-soft">{text}</div>
    <div className="flex justify-end gap-2">
      <Button onClick={onClose}>Back</Button>
      <Button look={danger ? 'danger' : 'main'} busy={busy} onClick={onAct}>
        {act}
      </Button>
    </div>
  </Dialog>
);
