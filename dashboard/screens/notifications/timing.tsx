/** When emails about events are sent: immediately or once a day, and not in quiet hours. */
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
  const fault = isQuiet && from === to ? 'Quiet hours must end at a different time than they begin.' : null;
  return (
    <Card title="Email schedule">
      <form onSubmit={submit} className="grid gap-5 p-4">
        <div className="flex flex-wrap items-end gap-x-6 gap-y-4">
          <Segments
            label="Frequency"
            value={daily ? 'daily' : 'once'}
            options={[
              { value: 'once', label: 'Immediately' },
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
          hint="No emails about events during these hours."
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

/** The settings in a sentence. */
function meaning({ daily, hour, quiet }: { daily: boolean; hour: number; quiet: { from: string; to: string } | null }): string {
  const always = 'Emails about sign-ins, wallet changes, disabled endpoints and reached plan limits are always sent immediately.';
  if (daily) {
    const when = quiet ? `${clock(hour)}, or at ${quiet.to} if quiet hours include it` : clock(hour);
    return `You get one email a day at ${when}, about payments that need attention and plan usage. ${always}`;
  }
  if (quiet) return `Events between ${quiet.from} and ${quiet.to} are sent in one email at ${quiet.to}. ${always}`;
  return 'Emails are sent immediately, at most one of each kind in ten minutes.';
}
