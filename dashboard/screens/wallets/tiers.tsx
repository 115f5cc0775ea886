/** Confirmations for each range of amounts. Fewer than the service's default are refused; a default below the standard table shows a warning. */

import { useState } from 'react';
import type { Coin } from '../../generated/api.ts';
import { chainText, settingOf } from '../../lib/coin.ts';
import { fiatText } from '../../lib/language.ts';
import { Field } from '../../ui/field.tsx';
import { Note } from '../../ui/form.tsx';
import { Money } from '../../ui/values.tsx';

type Tier = {
  below_usd: string | null;
  confirmations: number;
  minimum: number;
  rule: string;
  /** What the default table asks for where the operator asks for less. */
  lowered_from: { confirmations: number; rule: string } | null;
};
const RULES: Readonly<Record<string, string>> = {
  instantsend: 'InstantSend lock, seconds',
  instantsend_or_chainlock: 'InstantSend lock or ChainLock',
  chainlock: 'ChainLock',
  safe: 'Marked safe by the network',
  finalized: 'Finalized by the network',
};

/** A warning while fewer confirmations are required than in the default table. */
function Lowered({ tier: { rule, lowered_from: usual }, text }: { tier: Tier; text: string }) {
  if (!usual || (rule === 'confirmations' && usual.rule === 'confirmations' && Number(text) >= usual.confirmations)) return null;
  const words = usual.rule === 'confirmations' ? `${usual.confirmations} confirmations` : `“${RULES[usual.rule] ?? usual.rule}”`;
  return (
    <div className="mt-2">
      <Note tone="warn">
        The recommended minimum is {words}. The operator of this service lowered it, which makes double spending easier.
      </Note>
    </div>
  );
}

export function useTiers(tiers: readonly Tier[]) {
  const [texts, setTexts] = useState(() => tiers.map((tier) => String(tier.confirmations)));
  const low = tiers.map((tier, i) => tier.rule === 'confirmations' && Number(texts[i]) < tier.minimum);
  const values = tiers.map((tier, i) => (tier.rule !== 'confirmations' ? null : Math.max(tier.minimum, Math.trunc(Number(texts[i])) || 0)));
  return { tiers, texts, low, values, set: (at: number, text: string) => setTexts(texts.map((old, i) => (i === at ? text : old))) };
}

export const TierFields = ({ coin, fields: { tiers, texts, low, set } }: { coin: Coin; fields: ReturnType<typeof useTiers> }) => (
  <ul className="grid gap-3 sm:grid-cols-2">
    {tiers.map((tier, i) => (
      <li key={tier.below_usd ?? 'rest'} className="rounded-lg border border-line p-3">
        {tier.rule === 'confirmations' ? (
          <Field
            label={
              tier.below_usd === null
                ? `${chainText(coin)}: larger amounts`
                : `${chainText(coin)}: below ${fiatText(tier.below_usd.replace(/\.00$/, ''), 'USD')}`
            }
            type="number"
            min={1}
            max={1000}
            value={texts[i]}
            onChange={(event) => set(i, event.target.value)}
            fault={
              low[i]
                ? `The minimum is ${tier.minimum}. Only the operator of this service can lower it, with ${settingOf(coin)}_CONFIRMATIONS.`
                : null
            }
            hint={tier.lowered_from ? `Default on this service: ${tier.minimum}` : `Default: ${tier.minimum}`}
          />
        ) : (
          <div className="grid gap-1 text-sm">
            <p className="font-medium">
              {chainText(coin)}:{' '}
              {tier.below_usd === null ? (
                'larger amounts'
              ) : (
                <>
                  below <Money amount={tier.below_usd.replace(/\.00$/, '')} />
                </>
              )}
            </p>
            <p className="text-soft">{RULES[tier.rule] ?? tier.rule}</p>
          </div>
        )}
        <Lowered tier={tier} text={texts[i]!} />
      </li>
    ))}
  </ul>
);
