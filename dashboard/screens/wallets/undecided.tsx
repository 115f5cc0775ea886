/** A change that takes effect later, and how to confirm or cancel it before. */
import type { ReactNode } from 'react';
import { Button } from '../../ui/button.tsx';
import { Note } from '../../ui/form.tsx';
import { Time } from '../../ui/values.tsx';

/** A pending change: when it takes effect, and how to confirm or cancel it before. */
export const Undecided = ({
  title,
  asked,
  what,
  keep,
  confirm,
  drop,
}: {
  title: string;
  asked: { asked_by: string; due_at: string };
  what: ReactNode;
  keep: string;
  confirm: Decision | null;
  drop: Decision | null;
}) => (
  <Note tone="warn" icon="clock">
    <p>
      <b>{title}</b> {asked.asked_by} requested {what}. It takes effect on <Time at={asked.due_at} />, or when a second owner confirms it.
    </p>
    <p className="mt-2 flex flex-wrap gap-2">
      {confirm && (
        <Button look="main" busy={confirm.busy} onClick={confirm.act}>
          Confirm now
        </Button>
      )}
      {drop && (
        <Button busy={drop.busy} onClick={drop.act}>
          {keep}
        </Button>
      )}
    </p>
  </Note>
);
type Decision = { busy: boolean; act: () => void };
