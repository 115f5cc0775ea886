/** The form of an endpoint: URL, events, description. */
import { type FormEvent, type ReactNode, useState } from 'react';
import { type EndpointEventType, EVENT_TYPES } from '../../generated/api.ts';
import { ApiError } from '../../lib/api.ts';
import { useEventTypes } from '../../lib/hooks.ts';
import { Field } from '../../ui/field.tsx';
import { MissedReversal, missesReversal } from './words.tsx';

export type EndpointFields = { url: string; events: EndpointEventType[]; description: string | null };
const UPDATED = 'payment.updated';
/** What `*` stands for. */
const STARRED = EVENT_TYPES.filter((type) => type !== UPDATED && !/^(refund|payout)\./.test(type));
const MEANINGS: Readonly<Record<string, string>> = {
  'payment.created': 'A payment was created.',
  'payment.processing': 'A transfer was received and is awaiting confirmations.',
  'payment.completed': 'The payment is confirmed and complete.',
  'payment.failed': 'Less than the amount due was received in time.',
  'payment.expired': 'The payment expired without a transfer.',
  'payment.cancelled': 'The payment was canceled.',
  'payment.reversed': 'A completed payment lost its money: the network reversed its transfer.',
  [UPDATED]: 'The received amount, the exception or the payment window changed.',
  'refund.requested': 'A refund was requested.',
  'refund.approved': 'A refund was approved.',
  'refund.sent': 'The transaction of a refund was sent.',
  'refund.confirmed': 'The transaction of a refund is confirmed.',
  'refund.failed': 'The transaction of a refund failed.',
  'refund.canceled': 'A refund was canceled.',
  'payout.requested': 'A payout was requested.',
  'payout.approved': 'A payout was approved.',
  'payout.sent': 'The transaction of a payout was sent.',
  'payout.confirmed': 'The transaction of a payout is confirmed.',
  'payout.failed': 'The transaction of a payout failed.',
  'payout.canceled': 'A payout was canceled.',
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
  const offered = useEventTypes();
  const [url, setUrl] = useState(initial.url);
  const [description, setDescription] = useState(initial.description ?? '');
  const [types, setTypes] = useState<ReadonlySet<string>>(new Set(initial.events.flatMap((type) => (type === '*' ? STARRED : [type]))));
  const param = error instanceof ApiError ? error.param : null;
  const fault = (name: string) => (error !== null && param !== null && param.split('[')[0] === name ? error.message : null);
  const all = STARRED.every((type) => types.has(type));
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
      events: all ? ['*', ...chosen.filter((type) => !STARRED.includes(type))] : chosen,
      description: description.trim() || null,
    });
  };
  const choice = (type: EndpointEventType) => (
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
  );
  return (
    <form onSubmit={submit} className="grid gap-5">
      <Field
        label="URL"
        type="url"
        required
        maxLength={2048}
        placeholder="https://shop.example/webhooks"
        hint="Must use https and be reachable from the internet. To test on your own machine, run: florin listen"
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
            onChange={(event) => toggle(STARRED, event.target.checked)}
            className="size-4 accent-accent"
          />
          All payment events
        </label>
        {offered.filter((type) => STARRED.includes(type)).map(choice)}
        <p className="border-t border-line pt-2 text-sm text-soft">These are sent only if you select them:</p>
        {offered.filter((type) => !STARRED.includes(type)).map(choice)}
        {missesReversal([...types]) && <MissedReversal />}
        {types.size === 0 && <p className="text-sm text-bad">Select at least one event.</p>}
        {fault('events') && <p className="text-sm text-bad">{fault('events')}</p>}
      </fieldset>
      <Field
        label="Description"
        maxLength={500}
        placeholder="Optional"
        value={description}
        onChange={(event) => setDescription(event.target.value)}
        fault={fault('description')}
      />
      {children}
    </form>
  );
}
