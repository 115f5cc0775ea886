/** Creating a key: its type, name, permissions and expiry. */
import { type FormEvent, useId, useState } from 'react';
import { KEY_PERMISSIONS, type KeyPermission } from '../../generated/api.ts';
import { ApiError } from '../../lib/api.ts';
import { useAct, useMe, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Area, Choice } from '../../ui/form.tsx';
import { PERMISSION_WORDS, type ShownKey } from './shared.tsx';

const KINDS = [
  { value: 'secret', label: 'Secret', about: 'For your server. Never put it in a web page or an app.' },
  { value: 'public', label: 'Public', about: 'For web pages and apps. It can only create payments.' },
] as const;
const ACCESS = [
  { value: 'all', label: 'Everything you can do', about: 'For a server that you trust with all of it.' },
  { value: 'read', label: 'Read only', about: 'Sees everything that you can see, and changes nothing.' },
  { value: 'chosen', label: 'Only what you choose', about: null },
] as const;
const ENDS = [
  { value: '', label: 'Never' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 1 year' },
];

export function CreateKey({ onClose, onMade }: { onClose: () => void; onMade: (shown: ShownKey) => void }) {
  const mode = useMode();
  const id = useId();
  const [kind, setKind] = useState<'secret' | 'public'>('secret');
  const [name, setName] = useState('');
  const [days, setDays] = useState('');
  const [origins, setOrigins] = useState('');
  const [access, setAccess] = useState<'all' | 'read' | 'chosen'>('all');
  const [chosen, setChosen] = useState<readonly KeyPermission[]>(['payments']);
  const [ips, setIps] = useState('');
  const create = useAct('POST /:mode/keys', { refreshes: [['keys']] });
  const fault = (param: string): string | null =>
    create.error instanceof ApiError && create.error.param?.startsWith(param) ? create.error.message : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const list = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    const narrowed =
      kind === 'public'
        ? { origins: list(origins) }
        : {
            ...{ origins: [], read_only: access === 'read', allowed_ips: list(ips) },
            ...(access === 'chosen' && { permissions: [...chosen] }),
          };
    create.mutate(
      { body: { kind, name: name.trim(), expires_in_days: days === '' ? null : Number(days), ...narrowed } },
      { onSuccess: onMade },
    );
  };
  return (
    <Dialog open onClose={onClose} title={`Create a ${mode} key`}>
      <form onSubmit={submit} className="grid gap-4">
        <fieldset className="grid gap-2">
          <legend className="pb-1.5 text-sm font-medium">Type</legend>
          {KINDS.map(({ value, label, about }) => (
            <label
              key={value}
              className="flex cursor-pointer items-start gap-3 rounded-lg border border-line p-3 has-checked:border-accent has-checked:bg-page"
            >
              <input
                type="radio"
                name={`${id}-kind`}
                className="mt-1 accent-accent"
                checked={kind === value}
                onChange={() => setKind(value)}
              />
              <span className="grid text-sm">
                <span className="font-medium">{label}</span>
                <span className="text-soft">{about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <Field
          label="Name"
          hint="Where you use it, such as “Shop server” or “Anna’s laptop”."
          maxLength={60}
          required
          pattern=".*\S.*"
          value={name}
          onChange={(event) => setName(event.target.value)}
          fault={fault('name')}
        />
        {kind === 'secret' ? (
          <>
            <fieldset className="grid gap-2">
              <legend className="pb-1.5 text-sm font-medium">Permissions</legend>
              {ACCESS.map(({ value, label, about }) => (
                <label key={value} className="flex cursor-pointer items-start gap-3 text-sm">
                  <input
                    type="radio"
                    name={`${id}-access`}
                    className="mt-0.5 accent-accent"
                    checked={access === value}
                    onChange={() => setAccess(value)}
                  />
                  <span className="grid">
                    <span className="font-medium">{label}</span>
                    {about !== null && <span className="text-soft">{about}</span>}
                  </span>
                </label>
              ))}
              {access === 'chosen' && <Permissions chosen={chosen} onChange={setChosen} fault={fault('permissions')} />}
            </fieldset>
            <Area
              label="Allowed IP addresses"
              rows={2}
              placeholder="192.0.2.10, 198.51.100.0/24"
              value={ips}
              onChange={(event) => setIps(event.target.value)}
              hint="One per line. Leave empty to allow any address."
              fault={fault('allowed_ips')}
            />
          </>
        ) : (
          <Area
            label="Allowed origins"
            rows={2}
            placeholder="https://shop.example"
            value={origins}
            onChange={(event) => setOrigins(event.target.value)}
            hint="One per line. If you leave it empty, the key uses the origins in your checkout settings. If there are none either, every website can use the key."
            fault={fault('origins')}
          />
        )}
        <Choice label="Expires" options={ENDS} value={days} onChange={(event) => setDays(event.target.value)} />
        <Foot onBack={onClose}>
          <Button
            type="submit"
            look="main"
            busy={create.isPending}
            disabled={kind === 'secret' && access === 'chosen' && chosen.length === 0}
          >
            Create key
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

/** One box for each permission. What the member may not do themselves is shown, and cannot be chosen. */
function Permissions({
  chosen,
  onChange,
  fault,
}: {
  chosen: readonly KeyPermission[];
  onChange: (chosen: readonly KeyPermission[]) => void;
  fault: string | null;
}) {
  const mine = useMe()?.actions ?? [];
  return (
    <div className="grid gap-2 pl-6.5">
      {KEY_PERMISSIONS.map(({ name, about, takes }) => {
        const may = takes.every((action) => mine.includes(action));
        return (
          <label key={name} className={`flex items-start gap-2.5 text-sm ${may ? 'cursor-pointer' : 'text-soft'}`}>
            <input
              type="checkbox"
              className="mt-0.5 accent-accent"
              disabled={!may}
              checked={may && chosen.includes(name)}
              onChange={() => onChange(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name])}
            />
            <span className="grid">
              <span className="font-medium">{PERMISSION_WORDS[name]}</span>
              <span className="text-soft">{may ? about : `${about} Your role can’t do this.`}</span>
            </span>
          </label>
        );
      })}
      {fault !== null && (
        <p role="alert" className="text-sm text-bad">
          {fault}
        </p>
      )}
    </div>
  );
}
