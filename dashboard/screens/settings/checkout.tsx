/** Checkout settings: branding, currencies, customer options and payment rules, with a preview of the payment page. */
import { type FormEvent, useState } from 'react';
import { ApiError } from '../../lib/api.ts';
import { useAct, useApi, useMay, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card, Pending } from '../../ui/states.tsx';
import { Behavior, Coins, Judging, Look, Pages, Pricing } from './checkout-fields.tsx';
import type { Checkout, Draft } from './draft.ts';
import { Preview } from './preview.tsx';

export function Screen() {
  useTitle('Checkout');
  const query = useApi('GET /:mode/settings/checkout', ['settings', 'checkout'], {});
  const { data } = query;
  return (
    <div className="grid gap-5">
      <div className="grid gap-1">
        <h1>Checkout</h1>
        <p className="max-w-2xl text-soft">
          Customize your payment page for test and live mode. Branding applies immediately; payment rules apply to new payments.
        </p>
      </div>
      {!data ? (
        <Card>
          <Pending of={query} lines={12} />
        </Card>
      ) : (
        <Form checkout={data} />
      )}
    </div>
  );
}

/** Fields that show what is wrong with them. */
const FIELDS: readonly string[] = [
  ...['accent', 'logo', 'support', 'currencies', 'window_minutes', 'rate_lock_minutes', 'late_accept_minutes'],
  ...['tolerance_percent', 'tolerance_cap_usd', 'confirmations', 'origins', 'adjustments', 'price_source'],
];

const draftOf = ({ settings }: Checkout): Draft => ({
  ...settings,
  origins: settings.origins.join('\n'),
  late_accept_minutes: settings.late_accept_minutes === null ? '' : String(settings.late_accept_minutes),
  window_minutes: String(settings.window_minutes),
  rate_lock_minutes: String(settings.rate_lock_minutes),
  logo: undefined,
});

function Form({ checkout }: { checkout: Checkout }) {
  const may = useMay('settings.write');
  const [draft, setDraft] = useState(() => draftOf(checkout));
  const [tiers, setTiers] = useState<Record<string, (number | null)[]>>({});
  const save = useAct('POST /:mode/settings/checkout', { refreshes: [['settings'], ['wallets']], done: 'Saved.', quiet: true });
  const fault = save.error instanceof ApiError ? save.error : null;
  const set = (change: Partial<Draft>) => setDraft((old) => ({ ...old, ...change }));
  const at = (param: string) => (fault?.param === param ? fault.message : null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { logo, origins, late_accept_minutes, window_minutes, rate_lock_minutes, ...rest } = draft;
    save.mutate(
      {
        body: {
          ...rest,
          origins: origins.split(/[\s,]+/).filter(Boolean),
          late_accept_minutes: late_accept_minutes === '' ? null : Number(late_accept_minutes),
          window_minutes: Number(window_minutes),
          rate_lock_minutes: Number(rate_lock_minutes),
          confirmations: Object.entries(tiers).map(([currency, values]) => ({ currency: currency as 'BTC', tiers: values })),
          ...(logo !== undefined && { logo }),
        },
      },
      { onSuccess: () => set({ logo: undefined }) },
    );
  };
  const parts = { draft, set, at, checkout, disabled: !may };
  return (
    <div className="grid items-start gap-5 xl:grid-cols-[minmax(0,1fr)_minmax(0,27rem)]">
      <form onSubmit={submit} className="grid gap-5">
        <Look {...parts} />
        <Coins {...parts} />
        <Pricing {...parts} />
        <Behavior {...parts} />
        <Judging {...parts} onTiers={(currency, values) => setTiers((old) => ({ ...old, [currency]: values }))} />
        <Pages {...parts} />
        {may ? (
          <div className="sticky bottom-0 -mx-1 flex items-center gap-3 border-t border-line bg-page px-1 py-3">
            <Button type="submit" look="main" busy={save.isPending}>
              Save changes
            </Button>
            {fault && (
              <p role="alert" className="text-sm text-bad">
                {FIELDS.includes(fault.param ?? '') ? 'Not saved. Correct the field marked above.' : fault.message}
              </p>
            )}
          </div>
        ) : (
          <p className="text-sm text-soft">Only owners and admins can change these settings.</p>
        )}
      </form>
      <Preview draft={draft} states={checkout.states} />
    </div>
  );
}
