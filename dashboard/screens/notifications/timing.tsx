/** When e-mails about events come: at once or once a day, and not in the quiet hours. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, Segments, Tick } from '../../ui/form.tsx';
import { Card } from '../../ui/states.tsx';

type Saved = Reply<'GET /:mode/notice-settings'>['timing'];
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const clock = (hour: number): string => `${String(hour).padStart(2, '0')}:00`;
const HOURS = Array.from({ length: 24 }, (_, hour) => ({ value: String(hour), label: clock(hour) }));

export function Timing({ saved }: { saved: Saved }) {
  const save = useAct('POST /:mode/mail-timing', { refreshes: [['notice-settings']], done: 'Saved.' });
  const [daily, setDaily] = useState(saved !== null && saved.daily_hour !== null);
  const [hour, setHour] = useState(saved?.daily_hour ?? 8);
  const [isQuiet, setIsQuiet] = useState(Boolean(saved?.quiet));
  const [from, setFrom] = useState(saved?.quiet?.from ?? '22:00');
  const [to, setTo] = useState(saved?.quiet?.to ?? '07:00');
  const [zone, setZone] = useState(saved?.time_zone ?? HERE);
  const zones = [...new Set([zone, HERE, 'UTC', ...Intl.supportedValuesOf('timeZone')])].sort();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate({ body: { time_zone: zone, daily_hour: daily ? hour : null, quiet: isQuiet ? { from, to } : null } });
  };
  const fault = isQuiet && from === to ? 'Quiet hours need an end that is not their beginning.' : null;
  return (
    <Card title="When e-mails come">
      <form onSubmit={submit} className="grid gap-5 p-4">
        <div className="flex flex-wrap items-end gap-x-6 gap-y-4">
          <Segments
            label="How often"
            value={daily ? 'daily' : 'once'}
            options={[
              { value: 'once', label: 'At once' },
              { value: 'daily', label: 'Once a day' },
            ]}
            onChange={(value) => setDaily(value === 'daily')}
          />
          {daily && (
            <div className="w-32">
              <Choice label="Every day at" options={HOURS} value={String(hour)} onChange={(e) => setHour(Number(e.target.value))} />
            </div>
          )}
        </div>
        <Tick
          label="Quiet hours"
          hint="No e-mails about events in between."
          checked={isQuiet}
          onChange={(e) => setIsQuiet(e.target.checked)}
        />
        {isQuiet && (
          <div className="flex flex-wrap gap-4">
            <div className="w-36">
              <Field label="From" type="time" required value={from} onChange={(e) => setFrom(e.target.value)} />
            </div>
            <div className="w-36">
              <Field label="To" type="time" required value={to} onChange={(e) => setTo(e.target.value)} fault={fault} />
            </div>
          </div>
        )}
        {(daily || isQuiet) && (
          <div className="max-w-sm">
            <Choice
              label="Time zone"
              options={zones.map((name) => ({ value: name, label: name.replaceAll('_', ' ') }))}
              value={zone}
              onChange={(e) => setZone(e.target.value)}
            />
          </div>
        )}
        <p className="text-sm text-soft">{meaning({ daily, hour, quiet: isQuiet ? { from, to } : null })}</p>
        <div>
          <Button type="submit" look="main" busy={save.isPending} disabled={fault !== null}>
            Save
          </Button>
        </div>
      </form>
    </Card>
  );
}

/** What that means, in one line. */
function meaning({ daily, hour, quiet }: { daily: boolean; hour: number; quiet: { from: string; to: string } | null }): string {
  const always = 'Mails about sign-ins, changed wallets, endpoints switched off and a plan used up always come at once.';
  if (daily) {
    const when = quiet ? `${clock(hour)}, or at ${quiet.to} if that hour is quiet` : clock(hour);
    return `Payments that need attention and a plan nearly used up come as one e-mail a day, at ${when}. ${always}`;
  }
  if (quiet) return `What happens from ${quiet.from} to ${quiet.to} comes as one e-mail at ${quiet.to}. ${always}`;
  return 'Every e-mail comes when it happens; of one kind at most one in ten minutes.';
}
