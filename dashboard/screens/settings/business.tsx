/** Business settings: the public profile, data retention, and how strict the API is. */

import { type ReactNode, useState } from 'react';
import { FIATS } from '../../generated/api.ts';
import { ApiError, type Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay, useTitle } from '../../lib/hooks.ts';
import { language } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, ErrorNote, Tick } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Pending } from '../../ui/states.tsx';

type Business = Reply<'GET /:mode/settings/business'>;

export function Screen() {
  useTitle('Business');
  const query = useApi('GET /:mode/settings/business', ['settings', 'business'], {});
  const mayReadWebhooks = useMay('webhooks.read');
  const { data } = query;
  return (
    <div className="grid max-w-2xl grid-cols-[minmax(0,1fr)] gap-5">
      <div className="grid gap-1">
        <h1>Business</h1>
        <p className="text-soft">
          These settings apply to test and live mode.
          {mayReadWebhooks && (
            <>
              {' '}
              Webhook endpoints are under{' '}
              <ModeLink to="webhooks" className="underline">
                Webhooks
              </ModeLink>
              .
            </>
          )}
        </p>
      </div>
      {!data ? (
        <Card>
          <Pending of={query} lines={6} />
        </Card>
      ) : (
        <>
          <Profile business={data} />
          <Shown business={data} />
          <Retention days={data.retention_days} />
          <Refunds limit={data.refund_limit_usd} />
          <Requests strict={data.strict_parameters} />
        </>
      )}
    </div>
  );
}

const useSave = () => useAct('POST /:mode/settings/business', { refreshes: [['settings'], ['me']], done: 'Saved.', quiet: true });

/** Settings that are saved together, by the button below them once one of them changed. `error`: what no field shows. */
const Section = ({
  title,
  may,
  busy,
  changed,
  error,
  onSave,
  children,
}: {
  title: string;
  may: boolean;
  busy: boolean;
  changed: boolean;
  error: Error | null;
  onSave: () => void;
  children: ReactNode;
}) => (
  <Card title={title}>
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSave();
      }}
      className="grid grid-cols-[minmax(0,1fr)] gap-4 p-4"
    >
      {children}
      <ErrorNote error={error} />
      {may && (
        <div>
          <Button type="submit" look="main" busy={busy} disabled={!changed}>
            Save<span className="sr-only">: {title}</span>
          </Button>
        </div>
      )}
    </form>
  </Card>
);

function Profile({ business }: { business: Business }) {
  const may = useMay('settings.write');
  const save = useSave();
  const [name, setName] = useState(business.name);
  const [website, setWebsite] = useState(business.website ?? '');
  const [contact, setContact] = useState(business.support_contact ?? '');
  const fault = save.error instanceof ApiError ? save.error : null;
  const at = (param: string) => (fault?.param === param ? fault.message : null);
  const next = { name, website: website.trim() || null, support_contact: contact.trim() || null };
  return (
    <Section
      title="Public details"
      may={may}
      busy={save.isPending}
      changed={next.name !== business.name || next.website !== business.website || next.support_contact !== business.support_contact}
      error={['name', 'website', 'support'].includes(fault?.param ?? '') ? null : save.error}
      onSave={() => save.mutate({ body: next })}
    >
      <Field
        label="Name"
        required
        maxLength={60}
        disabled={!may}
        value={name}
        onChange={(e) => setName(e.target.value)}
        fault={at('name')}
      />
      <Field
        label="Website"
        type="url"
        placeholder="https://shop.example"
        disabled={!may}
        value={website}
        onChange={(e) => setWebsite(e.target.value)}
        fault={at('website')}
        hint="Shown on your payment links. If you add no support contact, customers reach you here."
      />
      <Field
        label="Support contact"
        placeholder="help@shop.example"
        disabled={!may}
        value={contact}
        onChange={(e) => setContact(e.target.value)}
        fault={at('support')}
        hint="An email address, phone number or https URL. Shown to customers whose payment needs help."
      />
      {!may && <p className="text-sm text-soft">Only owners and admins can change these settings.</p>}
    </Section>
  );
}

const NAMES = new Intl.DisplayNames(language, { type: 'currency' });
const ZONES = ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];
function Shown({ business }: { business: Business }) {
  const may = useMay('settings.write');
  const save = useSave();
  const [currency, setCurrency] = useState(business.display_currency);
  const [zone, setZone] = useState(business.time_zone);
  const zones = (ZONES.includes(business.time_zone) ? ZONES : [business.time_zone, ...ZONES]).map((value) => ({
    value,
    label: value.replaceAll('_', ' '),
  }));
  return (
    <Section
      title="Currency and time zone"
      may={may}
      busy={save.isPending}
      changed={currency !== business.display_currency || zone !== business.time_zone}
      error={save.error}
      onSave={() => save.mutate({ body: { display_currency: currency, time_zone: zone } })}
    >
      <Choice
        label="Display currency"
        options={FIATS.map((code) => ({ value: code, label: `${code} – ${NAMES.of(code)}` }))}
        disabled={!may}
        value={currency}
        onChange={(event) => setCurrency(event.target.value as typeof currency)}
        hint="The dashboard shows amounts in this currency beside US dollars, at the current rate and marked with ≈. CSV files get columns in it. Prices stay in US dollars."
      />
      <Choice
        label="Time zone"
        options={zones}
        disabled={!may}
        value={zone}
        onChange={(event) => setZone(event.target.value)}
        hint="Where days begin and end: on Home, in filters of the payments list, in its CSV file, and in reports and books. The API and times in files are in UTC."
      />
    </Section>
  );
}

function Requests({ strict }: { strict: boolean }) {
  const may = useMay('settings.write');
  const save = useSave();
  const [on, setOn] = useState(strict);
  return (
    <Section
      title="API requests"
      may={may}
      busy={save.isPending}
      changed={on !== strict}
      error={save.error}
      onSave={() => save.mutate({ body: { strict_parameters: on } })}
    >
      <Tick
        label="Reject unknown parameters"
        hint="Likely typos are always rejected. Unless you turn this on, paths outside /v1 ignore other unknown parameters, and list them in the request log."
        disabled={!may}
        checked={on}
        onChange={(event) => setOn(event.target.checked)}
      />
    </Section>
  );
}

/** A number that applies while its box is ticked. */
function Limited({
  title,
  may,
  save,
  stored,
  usual,
  onSave,
  tick,
  field,
}: {
  title: string;
  may: boolean;
  save: ReturnType<typeof useSave>;
  stored: number | null;
  usual: number;
  onSave: (value: number | null) => void;
  tick: { label: string; hint: string };
  field: { label: string; hint: string; min: number; max: number };
}) {
  const [on, setOn] = useState(stored !== null);
  const [text, setText] = useState(String(stored ?? usual));
  const value = on ? Number(text) : null;
  return (
    <Section
      title={title}
      may={may}
      busy={save.isPending}
      changed={value !== stored}
      error={on ? null : save.error}
      onSave={() => onSave(value)}
    >
      <Tick {...tick} disabled={!may} checked={on} onChange={(event) => setOn(event.target.checked)} />
      {on && (
        <div className="max-w-60">
          <Field
            {...field}
            type="number"
            required
            disabled={!may}
            value={text}
            onChange={(event) => setText(event.target.value)}
            fault={save.error?.message}
          />
        </div>
      )}
    </Section>
  );
}

function Refunds({ limit }: { limit: number | null }) {
  const may = useMay('approvals.manage');
  const save = useSave();
  return (
    <Limited
      title="Approval of refunds and payouts"
      may={may}
      save={save}
      stored={limit}
      usual={500}
      onSave={(value) => save.mutate({ body: { refund_limit_usd: value } })}
      tick={{
        label: 'Require a second member for large refunds and payouts',
        hint: 'Above the limit, two members have to agree: the one who requested the refund or payout and another one, or two who approve it. Owners and finance members can approve, once their role is 24 hours old. Only owners can change this.',
      }}
      field={{
        label: 'Limit in US dollars',
        hint: 'For everything that one member approves alone within 24 hours.',
        min: 0,
        max: 1_000_000,
      }}
    />
  );
}

function Retention({ days }: { days: number | null }) {
  const may = useMay('settings.write');
  const save = useSave();
  const [asked, setAsked] = useState<number | null>(null);
  const store = (value: number | null) => save.mutate({ body: { retention_days: value } });
  return (
    <>
      <Limited
        title="Customer data"
        may={may}
        save={save}
        stored={days}
        usual={90}
        onSave={(value) => (value === null ? store(null) : setAsked(value))}
        tick={{
          label: 'Delete customer data after a payment ends',
          hint: 'Deletes customers, the description, items, language, return URL, metadata and refund address, and the addresses and descriptions of payouts. Keeps amounts, taxes, rates, transfers, times, IDs and invoice numbers for your records.',
        }}
        field={{ label: 'Days after the payment ends', hint: '30 to 3650 days.', min: 30, max: 3650 }}
      />
      <Ask
        open={asked !== null}
        onClose={() => setAsked(null)}
        title="Delete customer data?"
        text={`Customer data of all payments that ended more than ${asked} days ago will be deleted within the next few hours, and from then on ${asked} days after each payment ends. You can only restore it from a backup.`}
        act="Delete data"
        danger
        onAct={() => {
          setAsked(null);
          store(asked);
        }}
      />
    </>
  );
}
