/** Business settings: the public profile, data retention, and how strict the API is. */

import { type FormEvent, useState } from 'react';
import { FIATS } from '../../generated/api.ts';
import { ApiError, type Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay, useTitle } from '../../lib/hooks.ts';
import { language } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Field, Select } from '../../ui/field.tsx';
import { Note, Tick } from '../../ui/form.tsx';
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
          <Display currency={data.display_currency} />
          <Days zone={data.time_zone} />
          <Retention days={data.retention_days} />
          <Refunds limit={data.refund_limit_usd} />
          <Requests strict={data.strict_parameters} />
        </>
      )}
    </div>
  );
}

const useSave = (done: string) => useAct('POST /:mode/settings/business', { refreshes: [['settings'], ['me']], done, quiet: true });
const ReadOnly = () => <p className="text-sm text-soft">Only owners and admins can change these settings.</p>;

function Profile({ business }: { business: Business }) {
  const may = useMay('settings.write');
  const save = useSave('Saved.');
  const [name, setName] = useState(business.name);
  const [website, setWebsite] = useState(business.website ?? '');
  const [contact, setContact] = useState(business.support_contact ?? '');
  const fault = save.error instanceof ApiError ? save.error : null;
  const at = (param: string) => (fault?.param === param ? fault.message : null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate({ body: { name, website: website.trim() || null, support_contact: contact.trim() || null } });
  };
  return (
    <Card title="Public details">
      <form onSubmit={submit} className="grid gap-4 p-4">
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
        {fault && !['name', 'website', 'support'].includes(fault.param ?? '') && <Note tone="bad">{fault.message}</Note>}
        {may ? (
          <div>
            <Button type="submit" look="main" busy={save.isPending}>
              Save
            </Button>
          </div>
        ) : (
          <ReadOnly />
        )}
      </form>
    </Card>
  );
}

function Display({ currency }: { currency: Business['display_currency'] }) {
  const may = useMay('settings.write');
  const save = useSave('Saved.');
  return (
    <Card title="Display currency">
      <div className="grid grid-cols-[minmax(0,1fr)] gap-2 p-4">
        <div>
          <Select
            label="Display currency"
            options={FIATS.map((code) => ({ value: code, label: `${code} – ${NAMES.of(code)}` }))}
            disabled={!may || save.isPending}
            value={currency}
            onChange={(event) => save.mutate({ body: { display_currency: event.target.value as typeof currency } })}
          />
        </div>
        <p className="text-sm text-soft">
          The dashboard shows amounts in this currency beside US dollars, at the current rate and marked with ≈. CSV files get columns in
          it. Prices stay in US dollars.
        </p>
        {save.error && <Note tone="bad">{save.error.message}</Note>}
      </div>
    </Card>
  );
}
const ZONES = ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];
function Days({ zone }: { zone: string }) {
  const may = useMay('settings.write');
  const save = useSave('Saved.');
  const options = (ZONES.includes(zone) ? ZONES : [zone, ...ZONES]).map((value) => ({ value, label: value.replaceAll('_', ' ') }));
  return (
    <Card title="Time zone">
      <div className="grid gap-2 p-4">
        <div>
          <Select
            label="Time zone"
            options={options}
            disabled={!may || save.isPending}
            value={zone}
            onChange={(event) => save.mutate({ body: { time_zone: event.target.value } })}
          />
        </div>
        <p className="text-sm text-soft">
          Where days begin and end: on Home, in filters of the payments list, in its CSV file, and in reports and books. The API and times
          in files are in UTC.
        </p>
        {save.error && <Note tone="bad">{save.error.message}</Note>}
      </div>
    </Card>
  );
}
const NAMES = new Intl.DisplayNames(language, { type: 'currency' });

function Requests({ strict }: { strict: boolean }) {
  const may = useMay('settings.write');
  const save = useSave('Saved.');
  return (
    <Card title="API requests">
      <div className="grid gap-4 p-4">
        <Tick
          label="Reject unknown parameters"
          hint="Likely typos are always rejected. Unless you turn this on, paths outside /v1 ignore other unknown parameters, and list them in the request log."
          disabled={!may || save.isPending}
          checked={strict}
          onChange={(event) => save.mutate({ body: { strict_parameters: event.target.checked } })}
        />
        {save.error && <Note tone="bad">{save.error.message}</Note>}
      </div>
    </Card>
  );
}

function Refunds({ limit }: { limit: number | null }) {
  const may = useMay('approvals.manage');
  const save = useSave('Saved.');
  const [on, setOn] = useState(limit !== null);
  const [text, setText] = useState(String(limit ?? 500));
  const fault = save.error instanceof ApiError ? save.error.message : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate({ body: { refund_limit_usd: on ? Number(text) : null } });
  };
  return (
    <Card title="Approval of refunds and payouts">
      <form onSubmit={submit} className="grid gap-4 p-4">
        <Tick
          label="Require a second member for large refunds and payouts"
          hint="Above the limit, two members have to agree: the one who requested the refund or payout and another one, or two who approve it. Owners and finance members can approve, once their role is 24 hours old. Only owners can change this."
          disabled={!may}
          checked={on}
          onChange={(event) => setOn(event.target.checked)}
        />
        {on && (
          <div className="max-w-60">
            <Field
              label="Limit in US dollars"
              type="number"
              min={0}
              max={1000000}
              required
              disabled={!may}
              value={text}
              onChange={(event) => setText(event.target.value)}
              fault={fault}
              hint="For everything that one member approves alone within 24 hours."
            />
          </div>
        )}
        {!on && fault !== null && <Note tone="bad">{fault}</Note>}
        {may && (
          <div>
            <Button type="submit" look="main" busy={save.isPending} disabled={!on && limit === null}>
              Save
            </Button>
          </div>
        )}
      </form>
    </Card>
  );
}

function Retention({ days }: { days: number | null }) {
  const may = useMay('settings.write');
  const save = useSave('Saved.');
  const [on, setOn] = useState(days !== null);
  const [text, setText] = useState(String(days ?? 90));
  const [asked, setAsked] = useState(false);
  const fault = save.error instanceof ApiError ? save.error.message : null;
  const store = () => save.mutate({ body: { retention_days: on ? Number(text) : null } });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (on) setAsked(true);
    else store();
  };
  return (
    <Card title="Customer data">
      <form onSubmit={submit} className="grid gap-4 p-4">
        <Tick
          label="Delete customer data after a payment ends"
          hint="Deletes customers, the description, items, language, return URL, metadata and refund address, and the addresses and descriptions of payouts. Keeps amounts, taxes, rates, transfers, times, IDs and invoice numbers for your records."
          disabled={!may}
          checked={on}
          onChange={(event) => setOn(event.target.checked)}
        />
        {on && (
          <div className="max-w-60">
            <Field
              label="Days after the payment ends"
              type="number"
              min={30}
              max={3650}
              required
              disabled={!may}
              value={text}
              onChange={(event) => setText(event.target.value)}
              fault={fault}
              hint="30 to 3650 days."
            />
          </div>
        )}
        {may && (
          <div>
            <Button type="submit" look="main" busy={save.isPending} disabled={!on && days === null}>
              Save
            </Button>
          </div>
        )}
      </form>
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Delete customer data?"
        text={`Customer data of all payments that ended more than ${text} days ago will be deleted within the next few hours, and from then on ${text} days after each payment ends. You can only restore it from a backup.`}
        act="Delete data"
        danger
        onAct={() => {
          setAsked(false);
          store();
        }}
      />
    </Card>
  );
}
