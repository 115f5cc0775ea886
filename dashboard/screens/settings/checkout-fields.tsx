/** The fields of the checkout settings, grouped in cards. */

import { useEffect } from 'react';
import { COINS, type Coin } from '../../generated/api.ts';
import { coinName, partsOf } from '../../lib/coin.ts';
import { say } from '../../lib/toasts.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Field } from '../../ui/field.tsx';
import { Area, Choice, Tick } from '../../ui/form.tsx';
import { Card } from '../../ui/states.tsx';
import { Badge } from '../../ui/values.tsx';
import { TierFields, useTiers } from '../wallets/tiers.tsx';
import type { Checkout, Draft } from './draft.ts';

type Parts = {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  at: (param: string) => string | null;
  checkout: Checkout;
  disabled: boolean;
};
const LOGO_BYTES = 65_536;

export function Look({ draft, set, at, checkout, disabled }: Parts) {
  const { logo } = checkout.settings;
  const shown = draft.logo === undefined ? logo : null;
  const pick = async (file: File) => {
    if (file.size > LOGO_BYTES) return say('The logo must be 64 kB or smaller.', 'bad');
    const bytes = new Uint8Array(await file.arrayBuffer());
    set({ logo: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')) });
  };
  return (
    <Card title="Branding">
      <div className="grid gap-4 p-4 sm:grid-cols-2">
        <Field
          label="Brand color"
          type="color"
          className="h-10"
          disabled={disabled}
          value={draft.accent ?? '#1b4fd6'}
          onChange={(event) => set({ accent: event.target.value })}
          fault={at('accent')}
          hint="Adjusted for contrast."
        />
        <Choice
          label="Theme"
          disabled={disabled}
          value={draft.theme}
          onChange={(event) => set({ theme: event.target.value as Draft['theme'] })}
          options={[
            { value: 'system', label: 'Match device' },
            { value: 'light', label: 'Light' },
            { value: 'dark', label: 'Dark' },
          ]}
        />
        <div className="grid gap-1.5">
          <p className="text-sm font-medium">Logo</p>
          <div className="flex flex-wrap items-center gap-2">
            {shown && <img src={shown} alt="Your logo" className="size-10 rounded-lg bg-white object-contain" />}
            {draft.logo && <span className="text-sm text-soft">New logo, not yet saved</span>}
            <label
              className={`${buttonClass()} has-focus-visible:outline-2 has-focus-visible:outline-link ${disabled ? 'opacity-60' : 'cursor-pointer'}`}
            >
              Choose file
              <input
                type="file"
                accept="image/png,image/svg+xml"
                className="sr-only"
                disabled={disabled}
                onChange={(event) => {
                  const file = event.target.files?.[0];
                  event.target.value = '';
                  if (file) void pick(file);
                }}
              />
            </label>
            {(shown || draft.logo) && (
              <Button look="ghost" disabled={disabled} onClick={() => set({ logo: null })}>
                Remove
              </Button>
            )}
          </div>
          <p className={`text-sm ${at('logo') ? 'text-bad' : 'text-soft'}`}>{at('logo') ?? 'PNG or SVG, up to 64 kB.'}</p>
        </div>
        <Choice
          label="Default language"
          disabled={disabled}
          value={draft.locale ?? ''}
          onChange={(event) => set({ locale: event.target.value || null })}
          options={[{ value: '', label: 'English' }, ...checkout.locales.map(({ tag, name }) => ({ value: tag, label: name }))]}
          hint="Used when neither the payment nor the customer’s browser sets a language."
        />
        <div className="sm:col-span-2">
          <Field
            label="Support contact"
            placeholder="help@shop.example"
            disabled={disabled}
            value={draft.support_contact ?? ''}
            onChange={(event) => set({ support_contact: event.target.value || null })}
            fault={at('support')}
            hint="An email address, phone number or https URL."
          />
        </div>
      </div>
    </Card>
  );
}

/** The coins that are not tokens, which have pages of their own. */
const nativeOf = ({ confirmations }: Checkout) => confirmations.filter(({ currency }) => COINS.some((coin) => coin === currency));
const chainName = (coin: string, name: string): string => partsOf(coin).network ?? coinName(coin, name);

export function Coins({ draft, set, at, checkout, disabled }: Parts) {
  const offered = draft.currencies ?? [...COINS];
  const toggle = (coin: Coin, on: boolean) => {
    const next = COINS.filter((known) => (known === coin ? on : offered.includes(known)));
    set({ currencies: next.length === COINS.length ? null : next });
  };
  return (
    <Card title="Currencies">
      <div className="grid gap-4 p-4">
        <fieldset className="grid gap-3 sm:grid-cols-2">
          <legend className="mb-2 text-sm font-medium">Currencies that customers can pay with</legend>
          {nativeOf(checkout).map(({ currency, name, has_wallet }) => (
            <Tick
              key={currency}
              label={coinName(currency, name)}
              hint={has_wallet ? undefined : 'No wallet yet: test mode only'}
              disabled={disabled}
              checked={offered.includes(currency)}
              onChange={(event) => toggle(currency, event.target.checked)}
            />
          ))}
        </fieldset>
        {at('currencies') && (
          <p role="alert" className="text-sm text-bad">
            {at('currencies')}
          </p>
        )}
        <Choice
          label="Default coin for legacy crypto-priced payments"
          disabled={disabled}
          value={draft.default_currency ?? ''}
          onChange={(event) => set({ default_currency: (event.target.value || null) as Coin | null })}
          options={[
            { value: '', label: 'First coin with a wallet' },
            ...nativeOf(checkout).map(({ currency, name }) => ({ value: currency, label: coinName(currency, name) })),
          ]}
        />
      </div>
    </Card>
  );
}

/** Names of sources as their makers write them. */
const SOURCE_NAMES: Readonly<Record<string, string>> = {
  coinbase: 'Coinbase',
  kraken: 'Kraken',
  bitstamp: 'Bitstamp',
  bitfinex: 'Bitfinex',
  coingecko: 'CoinGecko',
};

export function Pricing({ draft, set, at, checkout, disabled }: Parts) {
  const change = (asset: string, percent: string) =>
    set({ adjustments: draft.adjustments.map((one) => (one.asset === asset ? { asset, percent } : one)) });
  return (
    <Card title="Coin prices">
      <div className="grid gap-4 p-4">
        <Choice
          label="Price source"
          disabled={disabled}
          value={draft.price_source ?? ''}
          onChange={(event) => set({ price_source: event.target.value || null })}
          options={[
            { value: '', label: 'Median of all sources' },
            ...checkout.price_sources.map((name) => ({ value: name, label: SOURCE_NAMES[name] ?? name })),
          ]}
          hint="The price of this source is used while it agrees with the others. Otherwise the median is used."
        />
        <fieldset className="grid gap-3">
          <legend className="mb-1 text-sm font-medium">Price adjustments (%)</legend>
          <p className="text-sm text-soft">
            Customers pay this much more in a currency, or less if it is negative. For example, -2 is a discount of 2%. From -20 to 20.
            Changes apply to new payments.
          </p>
          <div className="grid grid-cols-2 gap-3 sm:grid-cols-3">
            {draft.adjustments.map(({ asset, percent }) => (
              <Field
                key={asset}
                label={asset}
                inputMode="text"
                required
                disabled={disabled}
                value={percent}
                onChange={(event) => change(asset, event.target.value)}
              />
            ))}
          </div>
        </fieldset>
        {(at('adjustments') ?? at('price_source')) && (
          <p role="alert" className="text-sm text-bad">
            {at('adjustments') ?? at('price_source')}
          </p>
        )}
      </div>
    </Card>
  );
}

export const Behavior = ({ draft, set, disabled }: Parts) => (
  <Card title="Customer options">
    <div className="grid gap-4 p-4">
      <Tick
        label="Let customers cancel and restart payments"
        hint="They can cancel until a transfer arrives. Unpaid payments offer “Start a new payment” for a day, unless you canceled them."
        disabled={disabled}
        checked={draft.payer_cancel}
        onChange={(event) => set({ payer_cancel: event.target.checked })}
      />
      <Tick
        label="Return to your site automatically"
        hint="Redirects customers five seconds after they paid. They can choose to stay."
        disabled={disabled}
        checked={draft.auto_return}
        onChange={(event) => set({ auto_return: event.target.checked })}
      />
      <Tick
        label="Point-of-sale display"
        hint="Keeps the screen on while a QR code is shown."
        disabled={disabled}
        checked={draft.kiosk}
        onChange={(event) => set({ kiosk: event.target.checked })}
      />
      <Tick
        label="Email receipts to customers"
        hint="When a live payment is completed, to the email address of its customer."
        disabled={disabled}
        checked={draft.mail_receipts}
        onChange={(event) => set({ mail_receipts: event.target.checked })}
      />
    </div>
  </Card>
);

export function Judging({
  draft,
  set,
  at,
  checkout,
  disabled,
  onTiers,
}: Parts & { onTiers: (coin: Coin, values: (number | null)[]) => void }) {
  const number = (key: 'window_minutes' | 'rate_lock_minutes' | 'late_accept_minutes', label: string, hint: string, required = true) => (
    <Field
      label={label}
      type="number"
      inputMode="numeric"
      required={required}
      disabled={disabled}
      value={draft[key]}
      onChange={(event) => set({ [key]: event.target.value })}
      fault={at(key)}
      hint={hint}
    />
  );
  return (
    <Card title="Payment rules">
      <div className="grid gap-4 p-4 sm:grid-cols-2">
        {number('window_minutes', 'Payment window (minutes)', '10 to 1440.')}
        {number('rate_lock_minutes', 'Exchange rate lock (minutes)', '5 to 60.')}
        <Field
          label="Underpayment tolerance (%)"
          inputMode="decimal"
          required
          disabled={disabled}
          value={draft.tolerance_percent}
          onChange={(event) => set({ tolerance_percent: event.target.value })}
          fault={at('tolerance_percent')}
          hint="0 to 5. Exchanges often deduct a fee from the amount sent."
        />
        <Field
          label="Maximum tolerance (USD)"
          inputMode="decimal"
          required
          disabled={disabled}
          value={draft.tolerance_cap_usd}
          onChange={(event) => set({ tolerance_cap_usd: event.target.value })}
          fault={at('tolerance_cap_usd')}
          hint="0.00 to 100.00."
        />
        {number('late_accept_minutes', 'Accept late payments for (minutes)', 'Leave empty to review each one.', false)}
      </div>
      <div className="border-t border-line">
        {checkout.confirmations.map((coin) => (
          <details key={coin.currency} className="border-b border-line last:border-b-0">
            <summary className="cursor-pointer px-4 py-3 text-sm font-medium">
              {chainName(coin.currency, coin.name)} confirmations{' '}
              {coin.tiers.some((tier) => tier.lowered_from !== null) && (
                <Badge tone="warn" icon="alert">
                  Below the default
                </Badge>
              )}
            </summary>
            <fieldset disabled={disabled} className="px-4 pb-4">
              <legend className="sr-only">{chainName(coin.currency, coin.name)} confirmations</legend>
              <CoinTiers coin={coin} onTiers={onTiers} />
            </fieldset>
          </details>
        ))}
        {at('confirmations') && (
          <p role="alert" className="px-4 py-3 text-sm text-bad">
            {at('confirmations')}
          </p>
        )}
      </div>
    </Card>
  );
}

function CoinTiers({
  coin,
  onTiers,
}: {
  coin: Checkout['confirmations'][number];
  onTiers: (coin: Coin, values: (number | null)[]) => void;
}) {
  const fields = useTiers(coin.tiers);
  const text = fields.texts.join(' ');
  // biome-ignore lint/correctness/useExhaustiveDependencies: reports again only when a number was typed
  useEffect(() => {
    if (text !== coin.tiers.map((tier) => tier.confirmations).join(' ')) onTiers(coin.currency, fields.values);
  }, [text]);
  return <TierFields coin={coin.currency} fields={fields} />;
}

export const Pages = ({ draft, set, at, disabled }: Parts) => (
  <Card title="Embedding">
    <div className="p-4">
      <Area
        label="Allowed origins"
        rows={3}
        spellCheck={false}
        placeholder={'https://shop.example\nhttps://www.shop.example'}
        disabled={disabled}
        value={draft.origins}
        onChange={(event) => set({ origins: event.target.value })}
        fault={at('origins')}
        hint="One per line. Only pages on these origins can embed the payment page, and use public keys without their own origins. If the list is empty, no page can embed it, and every website can use these keys."
      />
    </div>
  </Card>
);
