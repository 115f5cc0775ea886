/** What an endpoint is made of: where to, which events, what for. */
import { type FormEvent, type ReactNode, useState } from 'react';
import { type EndpointEventType, EVENT_TYPES } from '../../generated/api.ts';
import { ApiError } from '../../lib/api.ts';
import { Field } from '../../ui/field.tsx';

export type EndpointFields = { url: string; events: EndpointEventType[]; description: string | null };
const UPDATED = 'payment.updated';
/** Sent to every endpoint: it cannot be turned off. */
const REVERSED = 'payment.reversed';
const CHOSEN = EVENT_TYPES.filter((type) => type !== REVERSED);
const DOCUMENTED = CHOSEN.filter((type) => type !== UPDATED);
const MEANINGS: Readonly<Record<string, string>> = {
  'payment.created': 'A payment was made.',
  'payment.processing': 'Money arrived and awaits confirmations.',
  'payment.completed': 'Confirmed and done.',
  'payment.failed': 'Too little arrived in time.',
  'payment.expired': 'The window ended without money.',
  'payment.cancelled': 'You cancelled it.',
  [UPDATED]: 'Received amount, exception or window changed; only when chosen.',
};

export function EndpointForm({
  initial,
  error,
  onSubmit,
  children,
}: {
  initial: EndpointFields;
  error: Error | null;
  onSubmit: (fields: EndpointFields) => void;
  children: ReactNode;
}) {
  const [url, setUrl] = useState(initial.url);
  const [description, setDescription] = useState(initial.description ?? '');
  const [types, setTypes] = useState<ReadonlySet<string>>(new Set(initial.events.flatMap((type) => (type === '*' ? DOCUMENTED : [type]))));
  const param = error instanceof ApiError ? error.param : null;
  const fault = (name: string) => (error !== null && param !== null && param.split('[')[0] === name ? error.message : null);
  const all = DOCUMENTED.every((type) => types.has(type));
  const toggle = (names: readonly string[], on: boolean) => {
    const next = new Set(types);
    for (const name of names) on ? next.add(name) : next.delete(name);
    setTypes(next);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const chosen = EVENT_TYPES.filter((type) => types.has(type));
    onSubmit({
      url: url.trim(),
      // All six stay all when one is added to them some day.
      events: all ? ['*', ...chosen.filter((type) => type === UPDATED)] : chosen,
      description: description.trim() || null,
    });
  };
  return (
    <form onSubmit={submit} className="grid gap-5">
      <Field
        label="URL"
        type="url"
        required
        maxLength={2048}
        placeholder="https://shop.example/webhooks"
        hint="https, and reachable from the internet. For your own machine use: florin listen"
        value={url}
        onChange={(event) => setUrl(event.target.value)}
        fault={fault('url')}
      />
      <fieldset className="grid gap-2">
        <legend className="pb-1.5 text-sm font-medium">Events</legend>
        <label className="flex items-center gap-2.5 border-b border-line pb-2 text-sm">
          <input
            type="checkbox"
            checked={all}
            onChange={(event) => toggle(DOCUMENTED, event.target.checked)}
            className="size-4 accent-accent"
          />
          All six payment events
        </label>
        {CHOSEN.map((type) => (
          <label key={type} className="flex items-start gap-2.5 text-sm">
            <input
              type="checkbox"
              checked={types.has(type)}
              onChange={(event) => toggle([type], event.target.checked)}
              className="mt-0.5 size-4 shrink-0 accent-accent"
            />
            <span>
              <code>{type}</code> <span className="text-soft">{MEANINGS[type]}</span>
            </span>
          </label>
        ))}
        <p className="text-sm text-soft">
          <code>{REVERSED}</code> always comes: a completed payment lost its money.
        </p>
        {types.size === 0 && <p className="text-sm text-bad">Choose at least one.</p>}
        {fault('events') && <p className="text-sm text-bad">{fault('events')}</p>}
      </fieldset>
      <Field
        label="Description"
        maxLength={500}
        placeholder="What it is for (optional)"
        value={description}
        onChange={(event) => setDescription(event.target.value)}
        fault={fault('description')}
      />
      {children}
    </form>
  );
}
