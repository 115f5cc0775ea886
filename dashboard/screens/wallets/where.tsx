/** Where the wallet of a merchant shows the key of an account, for the wallet that they choose. */
import { useState } from 'react';
import { COIN_KINDS, type Coin } from '../../generated/api.ts';
import { Choice } from '../../ui/form.tsx';
import { INSTRUCTIONS } from './instructions.ts';

export function Where({ coin }: { coin: Coin }) {
  const [chosen, setChosen] = useState('');
  const known = INSTRUCTIONS.filter(({ coins }) => coins.includes(coin));
  const found = known.find(({ id }) => id === chosen);
  return (
    <div className="grid gap-3">
      <div className="max-w-80">
        <Choice
          label="Your wallet"
          value={chosen}
          onChange={(event) => setChosen(event.target.value)}
          options={[{ value: '', label: 'Choose to see where the key is' }, ...known.map(({ id }) => ({ value: id, label: id }))]}
        />
      </div>
      {found && (
        <dl className="grid gap-1 rounded-lg bg-raised px-3 py-2.5 text-sm">
          <dt className="font-medium">Where the key is</dt>
          <dd className="mb-2 text-soft">{found.where}</dd>
          <dt className="font-medium">Gap limit</dt>
          <dd className="text-soft">
            {found.gap ?? 'Look for it in the settings of the wallet.'}
            {COIN_KINDS[coin] !== 'ethereum' && ' Begin with 50. The Wallets screen shows when you need a higher one.'}
          </dd>
        </dl>
      )}
    </div>
  );
}
