/** Modal dialogs and drawers with a title and focus handling, and a confirmation dialog. */
import { Dialog as Base } from '@base-ui/react/dialog';
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';

type Modal = { open: boolean; onClose: () => void; title: string; children: ReactNode };
/** Shared by dialogs and drawers. `place` positions it; `breaks` lets a long title break anywhere. */
const Modal = ({ open, onClose, title, children, place, breaks = false }: Modal & { place: string; breaks?: boolean }) => (
  <Base.Root open={open} onOpenChange={(now) => !now && onClose()}>
    <Base.Portal>
      <Base.Backdrop className="fixed inset-0 z-40 bg-black/50" />
      <Base.Popup className={`fixed z-50 grid overflow-y-auto border-line bg-card shadow-xl ${place}`}>
        <div className="flex items-start justify-between gap-4">
          <Base.Title className={`text-lg font-semibold ${breaks ? 'break-all' : ''}`}>{title}</Base.Title>
          <Base.Close className="-m-1 rounded p-1 text-soft hover:text-ink" aria-label="Close">
            <Icon name="close" />
          </Base.Close>
        </div>
        {children}
      </Base.Popup>
    </Base.Portal>
  </Base.Root>
);

export const Dialog = (modal: Modal) => (
  <Modal
    {...modal}
    place="top-1/2 left-1/2 max-h-[90vh] w-[calc(100%-2rem)] max-w-md -translate-x-1/2 -translate-y-1/2 gap-4 rounded-xl border p-6"
  />
);

/** A side panel for one row of a list. */
export const Drawer = (modal: Modal) => (
  <Modal {...modal} breaks place="inset-y-0 right-0 w-full max-w-xl content-start gap-5 border-l p-4 sm:p-6" />
);

/** The buttons at the bottom of a dialog. */
export const Foot = ({ onBack, back = 'Cancel', children }: { onBack: () => void; back?: string | undefined; children: ReactNode }) => (
  <div className="flex justify-end gap-2">
    <Button onClick={onBack}>{back}</Button>
    {children}
  </div>
);

/** Asks for confirmation before an action. */
export const Ask = ({
  open,
  onClose,
  title,
  text,
  act,
  back,
  onAct,
  busy = false,
  danger = false,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  text: ReactNode;
  act: string;
  /** "Close" where "Cancel" could be mistaken for the act. */
  back?: string;
  onAct: () => void;
  busy?: boolean;
  danger?: boolean;
}) => (
  <Dialog open={open} onClose={onClose} title={title}>
    <div className="text-soft">{text}</div>
    <Foot onBack={onClose} back={back}>
      <Button look={danger ? 'danger' : 'main'} busy={busy} onClick={onAct}>
        {act}
      </Button>
    </Foot>
  </Dialog>
);
