/** Removing a member or changing a role: what ends with it, and what the member made that can end in the same step. */
import { useState } from 'react';
import type { Reply } from '../lib/api.ts';
import { useApi } from '../lib/hooks.ts';
import { Button } from '../ui/button.tsx';
import { Dialog, Foot } from '../ui/dialog.tsx';
import { Note, Tick } from '../ui/form.tsx';
import { Pending } from '../ui/states.tsx';

type Made = Reply<'GET /:mode/team/members/:id/made'>['made'][number];
const KIND_WORDS: Readonly<Record<Made['kind'], (mode: Made['mode']) => string>> = {
  key: (mode) => `API key, ${mode} mode. Revoked: it stops working within a second.`,
  endpoint: (mode) => `Webhook endpoint, ${mode} mode. Disabled: it receives nothing more.`,
  shop: (mode) => `Connected shop, ${mode} mode. Disconnected: its key and its webhooks stop.`,
};

/** `onAct` receives the IDs of what ends in the same step. */
export function DepartureDialog({
  member,
  title,
  text,
  act,
  busy,
  fault,
  onAct,
  onClose,
}: {
  member: { id: string; name: string };
  title: string;
  text: string;
  act: string;
  busy: boolean;
  fault: string | null;
  onAct: (ends: string[]) => void;
  onClose: () => void;
}) {
  const made = useApi('GET /:mode/team/members/:id/made', ['team', member.id, 'made'], { params: { id: member.id } });
  const [ends, setEnds] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string, on: boolean) => setEnds(new Set(on ? [...ends, id] : [...ends].filter((one) => one !== id)));
  const all = made.data?.made ?? [];
  return (
    <Dialog open onClose={onClose} title={title}>
      <p className="text-soft">{text}</p>
      {!made.data ? (
        <Pending of={made} lines={2} />
      ) : all.length === 0 ? (
        <p className="text-sm text-soft">{member.name} made no API key, webhook endpoint or shop connection that still works.</p>
      ) : (
        <fieldset className="grid gap-3">
          <legend className="pb-2 text-sm font-medium">
            {member.name} made these, and they keep working. Choose what to end now, and roll any other key they have seen.
          </legend>
          <div className="grid max-h-72 gap-3 overflow-y-auto wrap-anywhere">
            {all.map(({ id, kind, mode, name }) => (
              <Tick
                key={id}
                label={name}
                hint={KIND_WORDS[kind](mode)}
                checked={ends.has(id)}
                onChange={(event) => toggle(id, event.target.checked)}
              />
            ))}
          </div>
          {all.length > 1 && (
            <div>
              <Button onClick={() => setEnds(new Set(ends.size === all.length ? [] : all.map(({ id }) => id)))}>
                {ends.size === all.length ? 'Clear all' : 'Select all'}
              </Button>
            </div>
          )}
        </fieldset>
      )}
      {fault !== null && <Note tone="bad">{fault}</Note>}
      <Foot onBack={onClose}>
        <Button look="danger" busy={busy} disabled={!made.data} onClick={() => onAct([...ends])}>
          {act}
        </Button>
      </Foot>
    </Dialog>
  );
}
